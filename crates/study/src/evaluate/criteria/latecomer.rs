//! Fairness to a flow of the algorithm that comes later.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, TESTED, Trial, at_least, at_most, flows, goodput, group};

pub(super) const CRITERION: Criterion = Criterion {
    name: "latecomer",
    section: "5.1.4",
    question: "Does a flow of it that comes later get its share, and no more?",
    trials,
};

/// The flow that comes later, of four.
const LATE: &str = "late";

fn trials(cc: &str) -> Vec<Trial> {
    let late = flows(LATE, cc, 1, "").replace("\"0s..1s\"", "\"30s\"");
    let path = Dumbbell { duration_s: 150, warmup_s: 60, ..Dumbbell::default() };
    vec![
        Trial::new("the fourth of 4 flows after 30 s", path.with(&[flows(TESTED, cc, 3, ""), late]))
            .ask("its fair share, between 30 and 120 s after it came", Unit::Share, at_least(0.5), share)
            .ask("its fair share, no more", Unit::Share, at_most(2.0), share),
    ]
}

fn share(summary: &Summary) -> Option<f64> {
    let all = goodput(summary.flows.iter());
    (all > 0.0).then(|| 4.0 * goodput(group(summary, LATE)) / all)
}
