//! Independent losses: netem's `loss random`.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Each packet is lost with the same probability, independently.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("bernoulli")]
pub struct Bernoulli {
    /// Loss probability.
    #[parameter(default = 0.001, share, required)]
    pub probability: f64,
}

impl Model<bool> for Bernoulli {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> bool {
        stream.chance(self.probability)
    }
    fn words(params: &Self) -> String {
        format!("loss {} %", (params.probability * 1e8).round() / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    #[test]
    fn losses_are_within_binomial_noise() {
        let n = 200_000u64;
        for p in [0.001, 0.01, 0.5] {
            let share = lost(&format!("bernoulli:probability={p}"), n).len() as f64 / n as f64;
            let sigma = (p * (1.0 - p) / n as f64).sqrt();
            assert!((share - p).abs() < 4.0 * sigma, "{p}: {share}");
        }
        assert!(lost("bernoulli:probability=0", 1000).is_empty());
        assert_eq!(lost("bernoulli:probability=1", 1000).len(), 1000);
    }
}
