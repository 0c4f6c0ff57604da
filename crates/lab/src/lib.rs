//! The laboratory: one run of a scenario, from its plan to its results.
//!
//! A [`warpline_scenario::Scenario`] says what the network is; [`mod@run`] builds it and its hosts and drives them. `warpline_results` writes
//! tables, captures and summaries, `warpline_report` draws them; [`report`] adds to its pages what only this crate can read. [`btc`] measures
//! the bulk transfer capacity of real paths.

pub mod btc;
mod hosts;
pub mod report;
pub mod run;
