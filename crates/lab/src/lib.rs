//! Scenarios, runs, results and reports.

pub mod report;
