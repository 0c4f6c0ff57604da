//! Pareto jitter.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::Order;
use crate::model::Model;

/// Pareto (heavy-tailed): no delay is below mean (shape - 1) / shape.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("pareto")]
pub struct Pareto {
    /// Mean.
    #[parameter(default = TimeDelta::from_millis(2), required)]
    pub mean: TimeDelta,
    /// Tail index; the variance is infinite up to 2.
    #[parameter(default = 1.5, above = 1.0)]
    pub shape: f64,
    /// In which order packets arrive.
    #[parameter(flatten)]
    pub order: Order,
}

impl Model<f64> for Pareto {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> f64 {
        stream.pareto(self.mean.as_secs_f64(), self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_mean, assert_share, draw};
    use warpline_core::float;

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn delays_have_their_mean_and_their_least() {
        let pareto = draw("pareto:mean=10ms,shape=5");
        assert_mean(&pareto, 10.0, 10.0 / 15f64.sqrt()); // variance mean^2 / (shape (shape - 2))
        assert!(pareto.iter().all(|&ms| ms >= 8.0 - 1e-6));
        assert_share(&pareto, 10.0, 1.0 - float::powf(0.8, 5.0));
    }
}
