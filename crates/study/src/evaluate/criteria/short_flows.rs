//! Short flows of the algorithm.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, completion, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "short-flows",
    section: "5.1.5",
    question: "Are short transfers with it about as quick as with the standard algorithm?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(size, whole_only): (&str, bool)| {
        let path = Dumbbell::default();
        let transfers = format!("app = \"transfer\"\nsize = \"{size}\"\ntransfers = 0\npause = \"500ms\"");
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 4, &transfers)]);
        Trial::new(format!("4 hosts, {size} each"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("mean completion time", Unit::Second, at_most_times(1.25, 0.0), completion)
    };
    [("20kB", true), ("200kB", false), ("2MB", true)].map(trial).into()
}
