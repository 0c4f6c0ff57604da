//! Coexistence with the algorithms of today.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least, at_least_times, flows, goodput, group, tested,
};

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
            let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, ""), flows(OTHERS, other, 2, "")]);
            let trial = Trial::new(format!("2 beside 2 of {other}, queue of {queue}"), with(cc))
                .whole_only(whole_only)
                .ask("what the others keep of their fair share", Unit::Share, at_least(0.6), others);
            let own_share = "what it gets of its fair share";
            // BBR leaves little to the standard algorithm itself.
            trials.push(match other {
                "bbr" => trial.against(with(STANDARD)).ask(own_share, Unit::Share, at_least_times(0.8), own),
                _ => trial.ask(own_share, Unit::Share, at_least(0.2), own),
            });
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
