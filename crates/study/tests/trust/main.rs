//! Whether the laboratory can be trusted: whole scenarios, from their text to rows and files, against figures worked out by
//! hand and against themselves.

// Helpers of tests are no `#[test]` functions, which clippy.toml lets unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod agreement;
mod apps;
mod capture;
mod determinism;
mod examples;
mod guests;
mod interruption;
mod links;
mod metrics;
mod parameters;
mod properties;
mod support;
mod tcp_options;
