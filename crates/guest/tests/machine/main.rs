//! Boots guests and runs them in lock-step and in dilated time; also guests that misbehave.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
// Test helpers are not `#[test]` functions, which clippy.toml allows to unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bed;
mod busy;
mod dilated;
mod lockstep;
mod offloads;
mod rights;
mod trouble;
