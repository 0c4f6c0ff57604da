//! Extreme reordering.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, tested_goodput};

pub(super) const CRITERION: Criterion = Criterion {
    name: "reordering",
    section: "7.7",
    question: "Does it stand packets that overtake others as well as the standard algorithm does?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let ways = [
        (
            "one packet in ten overtakes others by 5 ms",
            "jitter = \"overtaking,delay=5ms,probability=10%\"",
            false,
        ),
        ("delays of 0 to 30 ms", "jitter = \"uniform,max=30ms,reorder=true\"", true),
    ];
    let trial = |(setting, bottleneck, whole_only): (&str, &str, bool)| {
        let path = Dumbbell { bottleneck, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(setting, with(cc)).against(with(STANDARD)).whole_only(whole_only).ask(
            "goodput",
            Unit::BitPerSecond,
            at_least_times(0.8),
            tested_goodput,
        )
    };
    ways.map(trial).into()
}
