//! A capacity test from both ends.

use warpline_core::parameter::Parameters;

use super::{Pattern, Skipping};

/// A test with `cap` from start to stop: its report is btc-FLOW.json, such as btc-probe.0.json.
#[derive(Clone, Debug, PartialEq, Parameters)]
#[component("cap")]
pub struct Cap {}

impl Pattern for Cap {
    fn skipping(&self) -> Skipping {
        Skipping::Refused
    }
}
