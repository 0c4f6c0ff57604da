//! Protection against congestion collapse.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{BOTTLENECK, Dumbbell, TESTED, Trial, at_most, flows};

pub(super) const CRITERION: Criterion = Criterion {
    name: "backoff",
    section: "5.1.1",
    question: "Does it all but stop when most packets are lost, or nothing comes back?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let flow = [flows(TESTED, cc, 1, "")];
    let lossy = Dumbbell { rtt: "100ms", bottleneck: "loss = \"50%\"", ..Dumbbell::default() };
    // Everything after the warm-up is sent without an answer.
    let mute = Dumbbell {
        duration_s: 60,
        warmup_s: 21,
        bottleneck: "reverse = { down = [{ at = \"20s\", for = \"1h\" }] }",
        ..Dumbbell::default()
    };
    vec![
        Trial::new("half of all packets lost", lossy.with(&flow)).ask(
            "packets sent per RTT",
            Unit::Packet,
            at_most(1.0),
            per_rtt,
        ),
        // Time-outs of 0.2 s that double: eight in 39 s, and a probe.
        Trial::new("no acknowledgement for 40 s", mute.with(&flow)).ask(
            "packets sent after a second",
            Unit::Packet,
            at_most(12.0),
            sent,
        ),
    ]
}

fn sent(summary: &Summary) -> Option<f64> {
    let link = summary.links.iter().find(|link| link.name == BOTTLENECK)?;
    Some(link.sent_packets as f64)
}

fn per_rtt(summary: &Summary) -> Option<f64> {
    let measured_s = summary.info.simulated_s - summary.info.warmup_s;
    Some(sent(summary)? / measured_s * 0.1)
}
