//! Fairness among flows of the algorithm with different round trips.

use warpline_results::{Summary, Unit};

use crate::evaluate::Criterion;
use crate::evaluate::trial::{Dumbbell, STANDARD, TESTED, Trial, at_least_times, flows, tested};

pub(super) const CRITERION: Criterion = Criterion {
    name: "round-trips",
    section: "5.1.4",
    question: "Does the flow with the longer round trip fare no worse than under the standard algorithm?",
    trials,
};

fn trials(cc: &str) -> Vec<Trial> {
    let trial = |(queue, whole_only): (&str, bool)| {
        // Round trips of 20 and 140 ms.
        let path = Dumbbell {
            queue,
            rtt: "20ms",
            duration_s: 150,
            warmup_s: 30,
            topology: "access_delays = [\"1ms\", \"31ms\"]",
            ..Dumbbell::default()
        };
        let with = |cc: &str| path.with(&[flows(TESTED, cc, 2, "")]);
        Trial::new(format!("20 and 140 ms, queue of {queue}"), with(cc))
            .against(with(STANDARD))
            .whole_only(whole_only)
            .ask("what the longer gets of the shorter's goodput", Unit::Share, at_least_times(0.8), ratio)
    };
    [("0.25BDP", true), ("1BDP", false)].map(trial).into()
}

fn ratio(summary: &Summary) -> Option<f64> {
    let mut flows = tested(summary).map(|flow| flow.goodput_bps);
    let (short, long) = (flows.next()?, flows.next()?);
    (short > 0.0).then(|| long / short)
}
