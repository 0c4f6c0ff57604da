//! Guests: unmodified Linux kernels and programs whose time we control.
//!
//! A guest is a User-Mode Linux kernel ([`kernel`]) that runs as an ordinary process ([`machine`]). A library between it and the C
//! library (`native/clockshim`) provides its clock, its timers, its random numbers and its network device. Its time is *dilated*: the
//! machine's clock at a fraction of its speed ([`dilation`]). Or it is in *lock-step* with a simulator ([`lockstep`]): its time moves
//! only as far as the simulator allows, from the first instruction of the boot, and the same seed gives the same bytes.
//!
//! A guest contains any number of hosts, each a network namespace behind a VLAN of the guest's one network device ([`frame`]).
//! An agent sets them up and carries out its order ([`warpline_agent`]).
//!
//! Linux on x86-64 only; elsewhere this crate is empty.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod card;
pub mod cpu;
pub mod dilation;
mod directory;
pub mod door;
mod embedded;
pub mod error;
pub mod frame;
pub mod kernel;
pub mod kernel_build;
pub mod kernels;
pub mod lockstep;
pub mod machine;
mod modules;
pub mod nic;
mod page;
mod place;
mod ring;
mod share;
pub mod simulator;
mod stillness;
pub mod time;
mod tools;

// The tests here and those in `tests/machine` have the same guests. That file calls this crate by its name.
#[cfg(test)]
extern crate self as warpline_guest;
#[cfg(test)]
#[path = "../tests/machine/config.rs"]
mod guest_of_tests;

#[doc(hidden)]
pub use card::fuzz_card;
pub use cpu::{CpuLimit, CpuUsed};
pub use directory::clean;
pub use error::GuestError;
pub use kernel::Kernel;
pub use kernels::Kernels;
pub use lockstep::LockStep;
pub use machine::{Console, Machine, MachineConfig};
pub use nic::{Nic, Nonsense};
#[doc(hidden)]
pub use ring::fuzz_ring;
pub use simulator::{HostId, Simulator};
pub use warpline_agent as order;
