//! Normal jitter: draws below zero become zero.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::Order;
use crate::model::Model;

/// Normal, cut off at zero.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("normal")]
pub struct Normal {
    /// Mean before the cut at zero.
    #[parameter(default = TimeDelta::from_millis(5), required)]
    pub mean: TimeDelta,
    /// Standard deviation before the cut.
    #[parameter(default = TimeDelta::from_millis(1), required)]
    pub stddev: TimeDelta,
    /// In which order packets arrive.
    #[parameter(flatten)]
    pub order: Order,
}

impl Model<f64> for Normal {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> f64 {
        stream.normal(self.mean.as_secs_f64(), self.stddev.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_mean, assert_share, draw};

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn delays_have_their_mean_and_deviation_and_are_cut_at_zero() {
        let normal = draw("normal:mean=50ms,stddev=5ms");
        assert_mean(&normal, 50.0, 5.0);
        assert_share(&normal, 45.0, 0.158_655);
        let cut = draw("normal:mean=0s,stddev=5ms");
        let zeros = cut.iter().filter(|&&ms| ms == 0.0).count() as f64 / cut.len() as f64;
        assert!((zeros - 0.5).abs() < 0.01);
    }
}
