//! Delays that vary.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, used};

pub(super) const CRITERION: Criterion = Criterion {
    name: "varying-delay",
    section: "7.3",
    question: "Does it fill a path whose least delay changes?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let ways = [
        ("up to 20 ms of jitter", "jitter = \"uniform,max=20ms\"", false),
        (
            "40 ms more from 20 to 40 s",
            "delays = [{ at = \"20s\", delay = \"63ms\" }, { at = \"40s\", delay = \"23ms\" }]",
            true,
        ),
        ("40 ms more from 20 s on", "delays = [{ at = \"20s\", delay = \"63ms\" }]", false),
    ];
    let trial = |(setting, bottleneck, whole_only): (&str, &str, bool)| {
        let path = Dumbbell { bottleneck, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(setting, with(cc)).against(with(STANDARD)).whole_only(whole_only).ask(
            "used",
            Unit::Share,
            at_least_times(0.9),
            used,
        )
    };
    ways.map(trial).into()
}
