//! Paths that carry few packets in a round trip.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, flows, queueing, used,
};

pub(super) const CRITERION: Criterion = Criterion {
    name: "slow-path",
    section: "7.4",
    question: "Does it work where a round trip has room for less than two packets?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let path =
        Dumbbell { rate: "100kbit/s", rtt: "200ms", queue: "10p", duration_s: 120, ..Dumbbell::default() };
    let with = |cc: &str| path.with(&[flows(TESTED, cc, 1, "")]);
    vec![
        Trial::new("100 kbit/s, 200 ms, queue of 10 packets", with(cc))
            .against(with(STANDARD))
            .ask("used", Unit::Share, at_least_times(0.9), used)
            .ask("mean queueing delay", Unit::Millisecond, at_most_times(1.1, 5.0), queueing),
    ]
}
