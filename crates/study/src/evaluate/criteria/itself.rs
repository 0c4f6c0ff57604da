//! Fairness among flows of the algorithm.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, TESTED, Trial, at_least, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "itself",
    section: "5.1.4",
    question: "Do flows of it with the same round trip share a path evenly?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(queue, whole_only): (&str, bool)| {
        let path = Dumbbell { queue, duration_s: 150, warmup_s: 30, ..Dumbbell::default() };
        Trial::new(format!("4 flows, queue of {queue}"), path.with(&[flows(TESTED, cc, 4, "")]))
            .whole_only(whole_only)
            .ask("Jain's index", Unit::Index, at_least(0.9), jain)
    };
    [("0.5BDP", true), ("1BDP", false), ("4BDP", true)].map(trial).into()
}

fn jain(summary: &Summary) -> Option<f64> {
    summary.groups.iter().find(|group| group.group == TESTED)?.jain
}
