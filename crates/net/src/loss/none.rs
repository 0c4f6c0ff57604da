//! No losses.

use warpline_core::parameter::Parameters;
use warpline_core::{Stream, Timestamp};

use crate::model::Model;

/// No loss; for `reverse`, to switch off what the forward direction has.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("none")]
pub struct NoLoss {}

impl Model<bool> for NoLoss {
    type Params = Self;

    fn new(params: &Self) -> Self {
        *params
    }
    fn decide(&mut self, _: Timestamp, _: &mut Stream) -> bool {
        false
    }
}
