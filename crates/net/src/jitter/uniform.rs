//! Uniform jitter.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::Order;
use crate::model::Model;

/// Uniform between two delays.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("uniform")]
pub struct Uniform {
    /// Smallest extra delay.
    #[parameter(not_above = "max")]
    pub min: TimeDelta,
    /// Largest extra delay.
    #[parameter(default = TimeDelta::from_millis(5), required)]
    pub max: TimeDelta,
    /// In which order packets arrive.
    #[parameter(flatten)]
    pub order: Order,
}

impl Model<f64> for Uniform {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, stream: &mut Stream) -> f64 {
        stream.range(self.min.as_secs_f64(), self.max.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_mean, assert_share, draw};

    #[test]
    fn delays_lie_evenly_between_both_ends() {
        let uniform = draw("uniform:min=2ms,max=6ms");
        assert_mean(&uniform, 4.0, 4.0 / 12f64.sqrt());
        assert!(uniform.iter().all(|ms| (2.0..=6.0).contains(ms)));
        assert_share(&uniform, 3.0, 0.25);
    }
}
