//! No jitter.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// No jitter; for `reverse`, to switch off what the forward direction has.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("none")]
pub struct NoJitter {}

impl Model<f64> for NoJitter {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, _: &mut Stream) -> f64 {
        0.0
    }
}
