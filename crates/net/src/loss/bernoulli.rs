//! Independent losses: netem's `loss random`.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// Each packet is lost with the same probability, independently.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("bernoulli")]
pub struct BernoulliParams {
    /// Loss probability.
    #[parameter(default = 0.001, share, required)]
    pub probability: f64,
    /// Most packets lost one after the other: the next one passes. Default: no limit.
    #[parameter(min = Some(1))]
    pub longest: Option<u64>,
}

/// Losses by chance.
#[derive(Clone, Copy, Debug)]
pub struct Bernoulli {
    probability: f64,
    longest: u64,
    /// Packets lost since the last one that passed.
    lost: u64,
}

impl Model<bool> for Bernoulli {
    type Params = BernoulliParams;

    fn new(params: &BernoulliParams) -> Self {
        Bernoulli { probability: params.probability, longest: params.longest.unwrap_or(u64::MAX), lost: 0 }
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> bool {
        let is_lost = self.lost < self.longest && stream.chance(self.probability);
        self.lost = if is_lost { self.lost + 1 } else { 0 };
        is_lost
    }
    fn words(params: &BernoulliParams) -> String {
        let longest =
            params.longest.map_or_else(String::new, |longest| format!(", at most {longest} in a row"));
        format!("loss {} %{longest}", (params.probability * 1e8).round() / 1e6)
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

    #[test]
    fn so_many_at_most_are_lost_in_a_row() {
        assert_eq!(lost("bernoulli:probability=1,longest=2", 7), [1, 2, 4, 5, 7]);
    }
}
