//! Losses that are no congestion, as on radio links.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, tested_goodput};

pub(super) const CRITERION: Criterion = Criterion {
    name: "random-losses",
    section: "6.4",
    question: "Does it carry as much as the standard algorithm where packets are lost at random?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let losses = [
        ("0.1 % lost", "loss = \"0.1%\"", true),
        ("1 % lost", "loss = \"1%\"", false),
        (
            "1 % lost in bursts",
            "loss = { kind = \"gilbert-elliott\", good_to_bad = 0.002, bad_to_good = 0.2 }",
            true,
        ),
    ];
    let trial = |(setting, bottleneck, whole_only): (&str, &str, bool)| {
        let path = Dumbbell { bottleneck, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(setting, with(cc)).against(with(STANDARD)).whole_only(whole_only).ask(
            "goodput",
            Unit::BitPerSecond,
            at_least_times(0.9),
            tested_goodput,
        )
    };
    losses.map(trial).into()
}
