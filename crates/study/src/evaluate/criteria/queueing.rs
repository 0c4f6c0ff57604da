//! Protection against bufferbloat.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, flows, queueing};

pub(super) const CRITERION: Criterion = Criterion {
    name: "queueing",
    section: "5.1.2",
    question: "Does it leave deep queues no fuller than the standard algorithm does?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial =
        |(queue, whole_only): (&str, bool)| {
            let path = Dumbbell { queue, duration_s: 90, warmup_s: 20, ..Dumbbell::default() };
            let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
            Trial::new(format!("queue of {queue}"), with(cc))
                .against(with(STANDARD))
                .whole_only(whole_only)
                .ask("mean queueing delay", Unit::Millisecond, at_most_times(1.0, 5.0), queueing)
        };
    [("1BDP", true), ("4BDP", false), ("16BDP", true)].map(trial).into()
}
