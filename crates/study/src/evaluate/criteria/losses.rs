//! Protection against high packet loss.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, dropped, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "losses",
    section: "5.1.3",
    question: "Do several flows in a shallow queue lose no more than a few packets?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(count, queue, whole_only): (u32, &str, bool)| {
        let path = Dumbbell { queue, rate: "50Mbit/s", ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, count, "")]);
        Trial::new(format!("{count} flows, queue of {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("dropped", Unit::Share, at_most_times(2.0, 0.005), dropped)
    };
    [(4, "0.25BDP", false), (4, "1BDP", true), (16, "0.25BDP", true), (16, "1BDP", true)].map(trial).into()
}
