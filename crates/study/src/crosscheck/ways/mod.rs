//! The ways in which a scenario can be run. A further way is one file with an implementation of [`Way`], and a line in [`WAYS`].

mod dilated;
mod guests;
mod linux;
mod live;
mod model;
mod places;
mod real;

use std::collections::BTreeMap;
use std::fmt::Debug;

use warpline_scenario::{Clock, ClockMode, Diagnostics, Scenario};

use super::base::{Base, changed, in_a_line};
use super::{Linux, Machine};

/// What this machine has, for the ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// The machine.
    pub(super) machine: &'a Machine,
    /// The kernel of guests; none if there is none here.
    pub(super) linux: Option<&'a Linux>,
    /// The time dilation factor.
    pub(super) tdf: f64,
    /// The seed of the run.
    pub(super) seed: u64,
}

/// The hosts of a scenario, as a way needs them.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    /// The scenario with these hosts.
    pub(super) scenario: Scenario,
    /// Further changes.
    pub(super) sets: Vec<String>,
    /// What to know: flows that stay as they are, and why.
    pub(super) notes: Vec<String>,
    /// Groups of flows that programs stand for, by the port to which each program sends.
    pub(super) ports: BTreeMap<u16, String>,
}

/// A way to run a scenario.
pub(super) trait Way: Debug + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// What it is, as words for people.
    fn what(&self) -> &'static str;
    /// Its clock.
    fn clock(&self, setting: &Setting<'_>) -> Clock;
    /// Whether it needs kernels of guests, so that it can be made with each of several.
    fn has_guests(&self) -> bool {
        true
    }
    /// Whether further kernels are tried in this way.
    fn takes_kernels(&self) -> bool {
        false
    }
    /// The ways that it is compared with: the first of them that there is.
    fn references(&self) -> &'static [&'static str];
    /// The hosts that it needs.
    ///
    /// # Errors
    /// Why the scenario cannot be run in this way.
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String>;
}

/// All ways. Those with the virtual clock come first, as they are compared with.
pub(super) const WAYS: &[&dyn Way] =
    &[&linux::Linux, &model::Model, &dilated::Dilated, &real::Real, &live::Live];

/// A run's scenario.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) scenario: Scenario,
    pub(super) notes: Vec<String>,
    pub(super) ports: BTreeMap<u16, String>,
}

/// Why there is no scenario for a way.
#[derive(Debug)]
pub(super) enum Unmade {
    /// It is not possible.
    NotPossible(String),
    /// The changes for this way are wrong.
    Wrong(Diagnostics),
}

/// The scenario for a way, with the changes that were asked for in it.
pub(super) fn make(
    way: &dyn Way,
    base: &Base,
    setting: &Setting<'_>,
    own: &[String],
) -> Result<Made, Unmade> {
    let Hosts { mut scenario, mut sets, notes, ports } =
        way.hosts(base, setting).map_err(Unmade::NotPossible)?;
    scenario.clock = way.clock(setting);
    scenario.seed = setting.seed;
    sets.extend(base.model_settings());
    let plain = changed(&scenario, &sets).map_err(|wrong| Unmade::NotPossible(in_a_line(&wrong)))?;
    let scenario = if own.is_empty() { plain } else { changed(&plain, own).map_err(Unmade::Wrong)? };
    Ok(Made { scenario, notes, ports })
}

/// The clock of this kind.
const fn clock(mode: ClockMode) -> Clock {
    Clock { mode, tdf: None, max_lag: None }
}
