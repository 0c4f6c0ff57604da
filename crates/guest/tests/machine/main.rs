//! Guests at work: booted, in lock-step and in dilated time, and what happens when they misbehave.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
// Helpers of tests are no `#[test]` functions, which clippy.toml lets unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod bed;
mod dilated;
mod lockstep;
mod rights;
mod trouble;
