//! Whole scenarios, from their text to rows and files, checked against figures computed by hand and against
//! each other.

// Helpers of tests are not `#[test]` functions, where clippy.toml allows unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod agreement;
mod apps;
#[path = "../../../guest/tests/machine/busy.rs"]
mod busy;
mod capture;
mod changes;
mod data_centre;
mod determinism;
mod examples;
mod fast_forward;
mod guest_offloads;
mod guest_routers;
mod guests;
mod interruption;
mod links;
mod media;
mod metrics;
#[cfg(target_os = "linux")]
mod mpi;
mod multipath;
mod parameters;
mod parts;
mod properties;
mod queues;
mod support;
mod tcp_options;
