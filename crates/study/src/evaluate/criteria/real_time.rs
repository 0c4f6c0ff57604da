//! Real-time traffic beside the algorithm.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_most_times, flows, group};

pub(super) const CRITERION: Criterion = Criterion {
    name: "real-time",
    section: "5.2.2",
    question: "Does a call beside it fare no worse than beside the standard algorithm?",
    trials,
};

const CALL: &str = "call";

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(queue, whole_only): (&str, bool)| {
        let path = Dumbbell { queue, ..Dumbbell::default() };
        let call = format!(
            "[[flow]]\nname = \"{CALL}\"\nfrom = \"left\"\nto = \"right\"\napp = \"cbr\"\nrate = \"100kbit/s\"\npacket_size = \"200B\"\n"
        );
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, ""), call.clone()]);
        Trial::new(format!("100 kbit/s beside 2 flows, queue of {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("mean delay of its packets", Unit::Millisecond, at_most_times(1.0, 5.0), delay)
            .ask("lost of it", Unit::Share, at_most_times(2.0, 0.005), lost)
    };
    [("1BDP", false), ("4BDP", true)].map(trial).into()
}

fn delay(summary: &Summary) -> Option<f64> {
    group(summary, CALL).next()?.latency_mean_ms
}

fn lost(summary: &Summary) -> Option<f64> {
    let call = group(summary, CALL).next()?;
    (call.sent_packets > 0).then(|| call.lost_packets as f64 / call.sent_packets as f64)
}
