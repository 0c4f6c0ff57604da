//! Active queue management.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, flows, queueing, used,
};

pub(super) const CRITERION: Criterion =
    Criterion { name: "aqm", section: "7.1", question: "Does it heed active queue management?", trials };

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(queue, whole_only): (&str, bool)| {
        let path = Dumbbell { queue, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, "")]);
        Trial::new(format!("2 flows, {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("used", Unit::Share, at_least_times(0.9), used)
            .ask("mean queueing delay", Unit::Millisecond, at_most_times(2.0, 5.0), queueing)
    };
    [("fq_codel", false), ("codel", true), ("pie", false)].map(trial).into()
}
