//! Jitter models: a further delay, drawn anew for each packet.

// A new jitter model is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
models! {
    /// How the further delay is distributed, as plain data. As text it is a name and parameters: `exponential:mean=2ms`.
    #[choice("jitter model")]
    JitterKind,
    /// Any jitter model: how many seconds later the next packet arrives, where it is not cut off.
    AnyJitter -> f64;
    none::NoJitter,
    uniform::Uniform,
    normal::Normal,
    exponential::Exponential,
    pareto::Pareto,
    overtaking::Overtaking,
    trace::Traced,
}

use warpline_core::parameter::{Choice, Given, Parameters};
use warpline_core::{Stream, TimeDelta, Timestamp};

use crate::model::Model;

/// Longer delays are cut to an hour, so that every packet arrives.
const LONGEST: TimeDelta = TimeDelta::from_secs(3600);

/// In which order packets arrive: a parameter of every jitter model, flattened into its own.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
pub struct Order {
    /// Whether a packet may overtake the one before; otherwise it waits for it.
    pub reorder: bool,
}

impl Default for JitterKind {
    fn default() -> Self {
        JitterKind::NoJitter(NoJitter {})
    }
}

impl JitterKind {
    /// The model, drawing from `stream`; none where there is no jitter.
    pub(crate) fn at_work(&self, stream: impl FnOnce() -> Stream) -> Option<JitterModel> {
        let model = || JitterModel { kind: self.build(), reorders: self.reorders(), stream: stream() };
        (*self != JitterKind::default()).then(model)
    }

    /// Whether a later packet may overtake.
    pub fn reorders(&self) -> bool {
        let mut own = self.clone();
        let mut fields = own.parameters().fields().into_iter();
        fields.any(|field| field.name == "reorder" && field.value.given() == Some(Given::Flag(true)))
    }
}

/// A jitter model at work on one link.
#[derive(Clone, Debug)]
pub(crate) struct JitterModel {
    kind: AnyJitter,
    reorders: bool,
    stream: Stream,
}

impl JitterModel {
    /// Whether a later packet may overtake.
    #[inline]
    pub(crate) fn reorders(&self) -> bool {
        self.reorders
    }
    /// The further delay of the next packet, whose last bit leaves at `at`.
    pub(crate) fn extra(&mut self, at: Timestamp) -> TimeDelta {
        TimeDelta::from_secs_f64(self.kind.decide(at, &mut self.stream)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    /// A hundred thousand delays in milliseconds.
    pub(super) fn draw(kind: &str) -> Vec<f64> {
        let kind: JitterKind = kind.parse().unwrap_or_else(|error| panic!("{error}"));
        let mut model = kind.at_work(|| Streams::new(11).stream("jitter")).unwrap();
        (0..100_000).map(|_| model.extra(Timestamp::ZERO).as_secs_f64() * 1e3).collect()
    }
    /// Mean within four standard errors.
    pub(super) fn assert_mean(draws: &[f64], mean: f64, stddev: f64) {
        let found = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((found - mean).abs() < 4.0 * stddev / (draws.len() as f64).sqrt(), "{found} {mean}");
    }
    /// The share of delays below a limit, within four standard errors.
    pub(super) fn assert_share(draws: &[f64], below: f64, expected: f64) {
        let share = draws.iter().filter(|&&ms| ms < below).count() as f64 / draws.len() as f64;
        let noise = 4.0 * (expected * (1.0 - expected) / draws.len() as f64).sqrt();
        assert!((share - expected).abs() < noise, "{share} {expected}");
    }

    #[test]
    fn every_model_says_whether_packets_may_overtake() {
        for kind in JitterKind::all().into_iter().filter(|kind| *kind != JitterKind::default()) {
            for reorder in [false, true] {
                let given: Vec<_> =
                    kind.given().into_iter().chain([("reorder", Given::Flag(reorder))]).collect();
                let changed = kind.with(&given).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(changed.reorders(), reorder, "{changed}");
            }
        }
    }

    #[test]
    fn no_packet_takes_longer_than_an_hour() {
        assert!(draw("exponential:mean=1000000000s").iter().all(|&ms| ms <= 3.6e6));
    }

    #[test]
    fn bad_parameters_are_refused() {
        for (text, message) in [
            (
                "uniform:min=2ms,max=1ms",
                "`min` of the jitter model `uniform` is 2ms; allowed: not above `max`",
            ),
            ("pareto:mean=2ms,shape=1", "`shape` of the jitter model `pareto` is 1; allowed: above 1"),
            ("pareto:mean=2ms,shape=NaN", "`shape` of the jitter model `pareto` is NaN; allowed: above 1"),
        ] {
            assert_eq!(text.parse::<JitterKind>().unwrap_err().to_string(), message);
        }
    }
}
