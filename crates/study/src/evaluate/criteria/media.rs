//! A video call beside the algorithm, whose own congestion control adapts its rate.

use warpline_results::{FlowRow, Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{
    Dumbbell, STANDARD, TESTED, Trial, at_least_times, at_most_times, flows, group,
};

pub(super) const CRITERION: Criterion = Criterion {
    name: "media",
    section: "5.2.2",
    question: "Is a video call that adapts its rate seen as well beside it as beside the standard algorithm?",
    trials,
};

const CALL: &str = "call";

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(media, queue, whole_only): (&str, &str, bool)| {
        let path = Dumbbell { rate: "10Mbit/s", queue, ..Dumbbell::default() };
        let call = format!(
            "[[flow]]\nname = \"{CALL}\"\nfrom = \"left\"\nto = \"right\"\napp = \"media\"\ncc = \"{media}\"\nstart_bitrate = \"1Mbit/s\"\n"
        );
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, ""), call.clone()]);
        Trial::new(format!("{media} beside 2 flows, queue of {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("mean delay of its frames", Unit::Millisecond, at_most_times(1.25, 20.0), delay)
            .ask("time in freezes", Unit::Second, at_most_times(2.0, 2.0), frozen)
            .ask("quality of its picture", Unit::Index, at_least_times(0.5), quality)
    };
    [("gcc", "1BDP", false), ("gcc", "4BDP", true), ("scream", "1BDP", true)].map(trial).into()
}

fn call(summary: &Summary) -> Option<&FlowRow> {
    group(summary, CALL).next()
}

fn delay(summary: &Summary) -> Option<f64> {
    call(summary)?.frame_delay_mean_ms
}

fn frozen(summary: &Summary) -> Option<f64> {
    call(summary)?.frozen_s
}

fn quality(summary: &Summary) -> Option<f64> {
    call(summary)?.quality
}
