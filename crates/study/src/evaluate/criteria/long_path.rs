//! Paths with a high delay, as over satellites.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, used};

pub(super) const CRITERION: Criterion = Criterion {
    name: "long-path",
    section: "7.5",
    question: "Does it fill a path with a high delay as well as the standard algorithm does?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(setting, bottleneck, whole_only): (&str, &str, bool)| {
        let path = Dumbbell {
            rtt: "600ms",
            queue: "0.5BDP",
            duration_s: 180,
            warmup_s: 0,
            bottleneck,
            ..Dumbbell::default()
        };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(setting, with(cc)).against(with(STANDARD)).whole_only(whole_only).ask(
            "used in the first three minutes",
            Unit::Share,
            at_least_times(0.9),
            used,
        )
    };
    [("600 ms", "", false), ("600 ms, 0.01 % lost", "loss = \"0.01%\"", true)].map(trial).into()
}
