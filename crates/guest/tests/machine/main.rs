//! Guests at work: booted, in lock-step and in dilated time, and what happens when they misbehave.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod bed;
mod lockstep;
mod trouble;
