//! A rate that varies, as on radio links.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, flows, queueing, used,
};

pub(super) const CRITERION: Criterion = Criterion {
    name: "varying-rate",
    section: "6.4",
    question: "Does it follow a rate that varies as well as the standard algorithm does?",
    trials,
};

/// The rate from 0 s on, and after each step.
const FAST: &str = "schedule = [{ at = \"500ms\", rate = \"6Mbit/s\" }, { at = \"1s\", rate = \"30Mbit/s\" }, { at = \"1500ms\", rate = \"14Mbit/s\" }]\nrepeat = \"2s\"";
const SLOW: &str = "schedule = [{ at = \"5s\", rate = \"4Mbit/s\" }, { at = \"10s\", rate = \"40Mbit/s\" }, { at = \"15s\", rate = \"10Mbit/s\" }]\nrepeat = \"20s\"";

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(setting, bottleneck, whole_only): (&str, &str, bool)| {
        let path = Dumbbell { queue: "100p", duration_s: 90, bottleneck, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(setting, with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("used", Unit::Share, at_least_times(0.9), used)
            .ask("mean queueing delay", Unit::Millisecond, at_most_times(1.1, 5.0), queueing)
    };
    [("a step every 0.5 s", FAST, true), ("a step every 5 s", SLOW, false)].map(trial).into()
}
