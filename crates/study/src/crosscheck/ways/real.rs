//! Guests under the machine's clock.

use warpline_scenario::{Clock, ClockMode};

use super::super::base::Base;
use super::guests::guests_in_time;
use super::{Hosts, Setting, Way};

/// Linux kernels of guests in real time.
#[derive(Debug)]
pub(super) struct Real;

impl Way for Real {
    fn name(&self) -> &'static str {
        "real"
    }
    fn what(&self) -> &'static str {
        "Linux kernels on the machine's clock"
    }
    fn clock(&self, _: &Setting<'_>) -> Clock {
        super::clock(ClockMode::Real)
    }
    fn references(&self) -> &'static [&'static str] {
        &["linux", "dilated", "model"]
    }
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String> {
        guests_in_time(base, setting.linux.ok_or_else(|| setting.machine.no_linux())?)
    }
}
