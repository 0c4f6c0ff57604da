//! Guests: the orders of each machine, the machines that run by the real or a dilated clock, and their results. (Machines in lock-step are
//! `crate::run::lockstep`'s.)

#[cfg(target_arch = "x86_64")]
mod machines;
#[cfg(target_arch = "x86_64")]
mod plan;
#[cfg(target_arch = "x86_64")]
mod ports;
#[cfg(target_arch = "x86_64")]
mod results;

#[cfg(not(target_arch = "x86_64"))]
#[path = "none.rs"]
mod machines;

#[cfg(not(target_arch = "x86_64"))]
pub(super) use machines::{GuestResults, Guests, Machines, Report};
#[cfg(target_arch = "x86_64")]
pub(super) use {
    machines::{HASTE, Machines},
    plan::Guests,
    results::GuestResults,
    warpline_guest::order::Report,
};
