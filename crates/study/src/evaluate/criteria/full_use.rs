//! Use of a path with a tail-drop queue.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, TESTED, Trial, at_least, flows, used};

pub(super) const CRITERION: Criterion = Criterion {
    name: "full-use",
    section: "6.1",
    question: "Does one flow fill a wired path with a tail-drop queue?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let mut trials = Vec::new();
    for rate in ["10Mbit/s", "100Mbit/s"] {
        for rtt in ["10ms", "100ms"] {
            for (queue, least) in [("0.25BDP", 0.75), ("1BDP", 0.9), ("4BDP", 0.9)] {
                let path = Dumbbell { rate, rtt, queue, duration_s: 90, warmup_s: 20, ..Dumbbell::default() };
                trials.push(
                    Trial::new(
                        format!("{rate}, {rtt}, queue of {queue}"),
                        path.with(&[flows(TESTED, cc, 1, "")]),
                    )
                    .whole_only(rtt == "10ms" || queue == "4BDP")
                    .ask("used", Unit::Share, at_least(least), used),
                );
            }
        }
    }
    trials
}
