//! Coexistence with the algorithms of today.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, TESTED, Trial, at_least, flows, goodput, group, tested};

pub(super) const CRITERION: Criterion = Criterion {
    name: "coexistence",
    section: "5.2.1",
    question: "Do flows of it and of the algorithms of today leave each other a share of the path?",
    trials,
};

const OTHERS: &str = "others";

fn trials(cc: &str) -> Vec<Trial> {
    let mut trials = Vec::new();
    for other in ["reno", "cubic", "bbr"] {
        for (queue, whole_only) in [("0.5BDP", true), ("1BDP", false), ("4BDP", true)] {
            let path = Dumbbell { queue, duration_s: 150, warmup_s: 30, ..Dumbbell::default() };
            let both = [flows(TESTED, cc, 2, ""), flows(OTHERS, other, 2, "")];
            trials.push(
                Trial::new(format!("2 beside 2 of {other}, queue of {queue}"), path.with(&both))
                    .whole_only(whole_only)
                    .ask("what the others keep of their fair share", Unit::Share, at_least(0.6), others)
                    .ask("what it gets of its fair share", Unit::Share, at_least(0.2), own),
            );
        }
    }
    trials
}

fn share(part: f64, summary: &Summary) -> Option<f64> {
    let all = goodput(summary.flows.iter());
    (all > 0.0).then(|| 2.0 * part / all)
}

fn others(summary: &Summary) -> Option<f64> {
    share(goodput(group(summary, OTHERS)), summary)
}

fn own(summary: &Summary) -> Option<f64> {
    share(goodput(tested(summary)), summary)
}
