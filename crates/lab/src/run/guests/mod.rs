//! Guests: the orders of each machine, the machines under the real or a dilated clock, and their results. (Machines in lock-step are in
//! `crate::run::lockstep`.)

mod attached;
mod machines;
mod own_clock;
mod plan;
mod ports;
mod results;

use warpline_scenario::endpoint::Guest;
use warpline_scenario::{Host, Scenario};

pub(super) use machines::{HASTE, Machines};
pub(super) use plan::{Guests, kernel_of};
pub(super) use results::GuestResults;

/// The guests on a machine.
fn hosts_of<'a>(scenario: &'a Scenario, machine: &'a str) -> impl Iterator<Item = (&'a Host, &'a Guest)> {
    scenario.guests().filter(move |(host, guest)| guest.machine_of(&host.name) == machine)
}
