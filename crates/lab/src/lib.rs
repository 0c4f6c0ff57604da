//! The laboratory: one run of a scenario, from its plan to its results.
//!
//! A [`warpline_scenario::Scenario`] describes the network. [`mod@run`] builds the network and its hosts and runs them.
//! `warpline_results` writes tables, captures and summaries. `warpline_report` draws them, and [`report`] adds results of capacity
//! tests to its pages. [`btc`] reports the bulk transfer capacity of real paths.

#![cfg_attr(not(guests), allow(dead_code, reason = "much of it serves hosts that are not models"))]

pub mod btc;
mod hosts;
pub mod report;
pub mod run;
