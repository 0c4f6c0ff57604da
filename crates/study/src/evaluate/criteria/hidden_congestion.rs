//! Receivers that hide losses or marks (RFC 9743 section 7.6; RFC 3168 section 20).
//!
//! The bound is that of the other misbehaving receivers. The standard algorithm is beyond it, too: a sender that goes by losses or marks alone has
//! no other sign of congestion. That it is as bad as the standard would say nothing here: the standard takes the whole path.

use crate::evaluate::Criterion;
use crate::evaluate::trial::Trial;

use super::false_acks::{Attack, trial};

pub(super) const CRITERION: Criterion = Criterion {
    name: "hidden-congestion",
    section: "7.6",
    question: "Does a receiver win nothing that hides losses, or congestion marks?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let attacks = [
        Attack {
            setting: "acknowledged before it arrives, losses hidden",
            how: "optimistic-acks",
            queue: "1BDP",
            tcp: "sack = true",
        },
        Attack { setting: "marks hidden", how: "hidden-marks", queue: "codel,ecn=true", tcp: "ecn = true" },
    ];
    attacks.iter().map(|attack| trial(cc, attack)).collect()
}
