//! As much as TCP carries.

use warpline_core::parameter::Parameters;

use super::{Pattern, Skipping};

/// As much as it can, from start to stop.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("bulk")]
pub struct Bulk {}

impl Pattern for Bulk {
    fn skipping(&self) -> Skipping {
        Skipping::Within
    }
    fn is_for_kernels(&self) -> bool {
        true
    }
}
