//! Policers, which drop what exceeds a rate without any queue. The RFC does not ask, but one in fourteen flows on the Internet met one (Flach et
//! al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016).

use warpline_results::Unit;

use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, dropped, flows, tested_goodput,
};
use crate::evaluate::{BEYOND, Criterion};

pub(super) const CRITERION: Criterion = Criterion {
    name: "policer",
    section: BEYOND,
    question: "Does it come to terms with a policer about as well as the standard algorithm does?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(burst, whole_only): (&str, bool)| {
        let queue = format!("policer,rate=10Mbit/s,burst={burst}");
        let path = Dumbbell { rate: "100Mbit/s", queue: &queue, ..Dumbbell::default() };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
        Trial::new(format!("10 of 100 Mbit/s, bursts of {burst}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("goodput", Unit::BitPerSecond, at_least_times(0.8), tested_goodput)
            .ask("dropped", Unit::Share, at_most_times(2.0, 0.02), dropped)
    };
    [("100kB", false), ("10kB", true)].map(trial).into()
}
