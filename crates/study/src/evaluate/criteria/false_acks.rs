//! Receivers that acknowledge more often than data arrives (RFC 9743 section 7.6; RFC 5681 sections 3.1 and 3.2).
//!
//! The bound: a sender that counts bytes gives them nothing, and runs with different seeds differ by some 20 %. One that counts
//! acknowledgements gives 1.7 to 2.1 times as much. Both are figures of CUBIC and Reno in these trials. A quarter of a fair share more is allowed,
//! so that an algorithm that gives way is not blamed for several times of next to nothing.

use warpline_results::Unit;

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, TESTED, Trial, at_most_times, flows, tested_goodput};

pub(super) const CRITERION: Criterion = Criterion {
    name: "false-acks",
    section: "7.6",
    question: "Does a receiver win nothing that acknowledges data in pieces, or several times?",
    trials,
};

const OTHERS: &str = "others";

/// A receiver that breaks the rules, and where.
pub(super) struct Attack {
    pub(super) setting: &'static str,
    /// The word for it in `misbehaviour`.
    pub(super) how: &'static str,
    /// The bottleneck's queue.
    pub(super) queue: &'static str,
    /// TCP options of all flows, honest or not: "sack = false".
    pub(super) tcp: &'static str,
}

/// One flow beside four of Reno, compared with the same where its receiver is honest. Both receivers acknowledge each segment.
pub(super) fn trial(cc: &str, attack: &Attack) -> Trial {
    let Attack { setting, how, queue, tcp } = attack;
    let path = Dumbbell { queue, duration_s: 100, warmup_s: 20, ..Dumbbell::default() };
    let with = |how: &str| {
        let own = format!("tcp = {{ misbehaviour = \"{how}\", delayed_ack = \"0s\", {tcp} }}");
        let others = format!("tcp = {{ {tcp} }}");
        path.with(&[flows(TESTED, cc, 1, &own), flows(OTHERS, "reno", 4, &others)])
    };
    Trial::new(format!("{setting}, beside 4 of reno"), with(how)).with_honest_receiver(with("none")).ask(
        "goodput",
        Unit::BitPerSecond,
        at_most_times(1.5, 1e6),
        tested_goodput,
    )
}

fn trials(cc: &str) -> Vec<Trial> {
    let attacks = [
        Attack {
            setting: "each segment acknowledged in 8 pieces",
            how: "ack-division",
            queue: "1BDP",
            tcp: "sack = true",
        },
        // With SACK, copies mean nothing to a sender; but the receiver decides whether there is SACK.
        Attack {
            setting: "8 copies of each acknowledgement",
            how: "duplicate-acks",
            queue: "1BDP",
            tcp: "sack = false",
        },
    ];
    attacks.iter().map(|attack| trial(cc, attack)).collect()
}
