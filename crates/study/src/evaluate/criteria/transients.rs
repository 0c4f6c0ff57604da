//! Congestion that comes suddenly, and links that break.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, tested_goodput};

pub(super) const CRITERION: Criterion = Criterion {
    name: "transients",
    section: "7.8",
    question: "Does it recover from bursts and outages as well as the standard algorithm does?",
    trials,
};

/// 18 of 20 Mbit/s for five seconds.
const BURST: &str = "[[flow]]\nname = \"burst\"\nfrom = \"left\"\nto = \"right\"\napp = \"cbr\"\nrate = \"18Mbit/s\"\nstart = \"20s\"\nstop = \"25s\"\n";

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(setting, bottleneck, more, whole_only): (&str, &str, &str, bool)| {
        let path = Dumbbell { bottleneck, duration_s: 40, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, ""), more.to_owned()]);
        Trial::new(setting, with(cc)).against(with(STANDARD)).whole_only(whole_only).ask(
            "goodput",
            Unit::BitPerSecond,
            at_least_times(0.9),
            tested_goodput,
        )
    };
    let outage = "down = [{ at = \"20s\", for = \"2s\" }]";
    [("90 % of the path taken for 5 s", "", BURST, false), ("no path for 2 s", outage, "", true)]
        .map(trial)
        .into()
}
