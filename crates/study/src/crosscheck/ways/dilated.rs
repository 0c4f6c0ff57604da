//! Guests under a dilated clock: the machine's, slowed.

use warpline_scenario::{Clock, ClockMode, Tdf};

use super::super::base::Base;
use super::guests::guests_in_time;
use super::{Hosts, Setting, Way};

/// Linux kernels in dilated time.
#[derive(Debug)]
pub(super) struct Dilated;

impl Way for Dilated {
    fn name(&self) -> &'static str {
        "dilated"
    }
    fn what(&self) -> &'static str {
        "Linux kernels on the machine's clock, slowed"
    }
    fn clock(&self, setting: &Setting<'_>) -> Clock {
        Clock { tdf: Some(Tdf::Factor(setting.tdf)), ..super::clock(ClockMode::Dilated) }
    }
    fn references(&self) -> &'static [&'static str] {
        &["linux", "model"]
    }
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String> {
        guests_in_time(base, setting.linux.ok_or_else(|| setting.machine.no_linux())?)
    }
}
