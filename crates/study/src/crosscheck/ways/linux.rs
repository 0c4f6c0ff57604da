//! Linux in lock-step: guests under the virtual clock.

use warpline_scenario::Clock;

use super::super::base::{Base, VIRTUAL};
use super::guests::guests;
use super::{Hosts, Setting, Way};

/// Linux kernels whose time is the simulation's.
#[derive(Debug)]
pub(super) struct Linux;

impl Way for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }
    fn what(&self) -> &'static str {
        "Linux kernels in lock-step with the simulation"
    }
    fn clock(&self, _: &Setting<'_>) -> Clock {
        VIRTUAL
    }
    fn takes_kernels(&self) -> bool {
        true
    }
    fn references(&self) -> &'static [&'static str] {
        // With another kernel, it is compared with the first one.
        &["linux"]
    }
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String> {
        guests(base, setting.linux.ok_or_else(|| setting.machine.no_linux())?)
    }
}
