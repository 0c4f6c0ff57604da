//! Losses that are correlated with the one before: netem's `loss random PERCENT CORRELATION`, and a form that keeps the probability.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::chance::{Chance, Correlation};
use crate::model::Model;

/// Whether a packet is lost is correlated with whether the one before was.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("correlated")]
pub struct CorrelatedParams {
    /// Loss probability.
    #[parameter(default = 0.01, share, required)]
    pub probability: f64,
    /// Correlation with the packet before; 1: all share the fate of the first.
    #[parameter(default = 0.25, share, required)]
    pub correlation: f64,
    /// What the correlation means.
    #[parameter(default = Correlation::Outcomes)]
    pub form: Correlation,
}

/// The model and the outcome before.
#[derive(Clone, Copy, Debug)]
pub struct Correlated(Chance);

impl Model<bool> for Correlated {
    type Params = CorrelatedParams;

    fn new(params: &CorrelatedParams) -> Self {
        Correlated(Chance::new(params.probability, params.correlation, params.form))
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> bool {
        self.0.hits(stream)
    }
    fn words(params: &CorrelatedParams) -> String {
        let percent = |share: f64| (share * 1e8).round() / 1e6;
        format!("loss {} % (correlation {} %)", percent(params.probability), percent(params.correlation))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lost;

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn losses_come_together_and_are_as_many_as_without_a_correlation() {
        let n = 200_000;
        let lost = lost("correlated:probability=0.02,correlation=0.5", n);
        let share = lost.len() as f64 / n as f64;
        assert!((share - 0.02).abs() < 0.003, "{share}");
        // After a loss the next packet is lost with probability 0.02 + 0.5 * 0.98.
        let followed = lost.windows(2).filter(|pair| pair[1] == pair[0] + 1).count() as f64;
        assert!((followed / lost.len() as f64 - 0.51).abs() < 0.04, "{followed}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn netems_form_loses_far_less_than_it_is_asked_to() {
        let lost = lost("correlated:probability=0.1,correlation=0.25,form=netem", 200_000).len();
        assert!((3_000..4_000).contains(&lost), "{lost}");
    }
}
