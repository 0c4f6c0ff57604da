//! Guests at work: booted, in lock-step and in dilated time, and what happens when they misbehave.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::unwrap_used, reason = "what fails in a test fails the test")]
#![expect(clippy::print_stderr, reason = "a test that is left out says so")]

mod bed;
mod dilated;
mod lockstep;
mod trouble;
