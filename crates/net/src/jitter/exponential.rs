//! Exponential jitter.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::Order;
use crate::model::Model;

/// Exponential.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("exponential")]
pub struct Exponential {
    /// Mean.
    #[parameter(default = TimeDelta::from_millis(2), required)]
    pub mean: TimeDelta,
    /// In which order packets arrive.
    #[parameter(flatten)]
    pub order: Order,
}

impl Model<f64> for Exponential {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> f64 {
        stream.exponential(self.mean.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_mean, assert_share, draw};
    use warpline_core::float;

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn delays_have_their_mean_and_median() {
        let exponential = draw("exponential:mean=10ms");
        assert_mean(&exponential, 10.0, 10.0);
        assert_share(&exponential, 5.0, 1.0 - float::exp(-0.5));
    }
}
