//! Data centres.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, completion, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "data-centre",
    section: "7.11",
    question: "Are transfers in a data centre about as quick as with the standard algorithm?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let path = Dumbbell {
        rate: "1Gbit/s",
        rtt: "100us",
        queue: "100p",
        duration_s: 3,
        warmup_s: 1,
        topology: "access = { delay = \"5us\" }",
        ..Dumbbell::default()
    };
    let transfers = "app = \"transfer\"\nsize = \"250kB\"\ntransfers = 0\npause = \"10ms\"";
    let with = |cc: &str| path.with(&[flows(TESTED, cc, 16, transfers)]);
    vec![Trial::new("16 hosts, 250 kB each, 1 Gbit/s, 100 us", with(cc)).against(with(STANDARD)).ask(
        "mean completion time",
        Unit::Second,
        at_most_times(1.25, 0.0),
        completion,
    )]
}
