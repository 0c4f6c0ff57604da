//! Sudden changes of the path.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, dropped, flows, used,
};

pub(super) const CRITERION: Criterion = Criterion {
    name: "path-change",
    section: "7.9",
    question: "Does it adapt to a path with another rate and delay as well as the standard algorithm does?",
    trials,
};

/// A quarter of the rate and 50 ms more of delay from 30 to 60 s.
const DETOUR: &str =
    "schedule = [{ at = \"30s\", rate = \"5Mbit/s\" }, { at = \"60s\", rate = \"20Mbit/s\" }]
delays = [{ at = \"30s\", delay = \"73ms\" }, { at = \"60s\", delay = \"23ms\" }]";

fn trials(cc: &str) -> Vec<Trial> {
    let path = Dumbbell { queue: "84p", duration_s: 90, bottleneck: DETOUR, ..Dumbbell::default() };
    let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, "")]);
    vec![
        Trial::new("a quarter of the rate and 50 ms more for 30 s", with(cc))
            .against(with(STANDARD))
            .ask("used", Unit::Share, at_least_times(0.9), used)
            .ask("dropped", Unit::Share, at_most_times(2.0, 0.005), dropped),
    ]
}
