//! The laboratory: scenarios in, results out.
//!
//! A [`scenario`] is read and checked, [`run`] builds its network and hosts and drives them. `warpline_results` writes tables, captures and
//! summaries, `warpline_report` draws them; [`report`] adds to its pages what only this crate can read. [`mod@bench`] has the workloads that the engine's speed is measured on, `calibrate` measures
//! what emulation can do on this machine.

pub mod bench;
pub mod btc;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod compare;
mod hosts;
pub mod oracle;
pub mod replicate;
pub mod report;
pub mod run;
pub mod scenario;

pub use hosts::access_log;
