//! Guests: the orders of each machine, the machines under the real or a dilated clock, and their results. (Machines in lock-step are in
//! `crate::run::lockstep`.)

mod attached;
mod machines;
mod own_clock;
mod plan;
mod ports;
mod results;

pub(super) use machines::{HASTE, Machines};
pub(super) use plan::{Guests, kernel_of};
pub(super) use results::GuestResults;
