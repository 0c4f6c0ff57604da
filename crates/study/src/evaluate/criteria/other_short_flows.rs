//! Short flows of other algorithms beside the algorithm.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, completion_of, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "other-short-flows",
    section: "5.2.3",
    question: "Are short transfers of others beside it about as quick as beside the standard algorithm?",
    trials,
};

const SHORT: &str = "short";

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(queue, whole_only): (&str, bool)| {
        let path = Dumbbell { queue, ..Dumbbell::default() };
        let transfers = "app = \"transfer\"\nsize = \"50kB\"\ntransfers = 0\npause = \"500ms\"";
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, ""), flows(SHORT, STANDARD, 2, transfers)]);
        Trial::new(format!("50 kB beside one flow, queue of {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("mean completion time of the others", Unit::Second, at_most_times(1.25, 0.0), others)
    };
    [("1BDP", false), ("4BDP", true)].map(trial).into()
}

fn others(summary: &Summary) -> Option<f64> {
    completion_of(summary, SHORT)
}
