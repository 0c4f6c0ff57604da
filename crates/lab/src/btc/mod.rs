//! Reports of bulk transfer capacity: what RFC 3148 requires a tool to state and recommends it to tell, under the RFC's own names, from what
//! both ends of a test have counted.
//!
//! [`CapReport`] is for `cap`, [`TrenoReport`] for `treno`. Each is JSON as it is, and text, table rows and a run directory by the functions
//! here.

mod cap;
mod lines;
mod statements;
mod treno;
mod verdict;
mod write;

pub use cap::{CapInput, CapReport, Ends};
pub use lines::{Line, render};
pub use statements::Statements;
pub use treno::{HopReport, TrenoInput, TrenoReport};
pub use verdict::{Judgement, host_limits};
pub use write::{CapTrace, csv, treno_csv, write_run, write_treno};

/// The report of either tool, as it is read back.
pub(crate) enum MeasureReport {
    /// Of `cap`.
    Cap(Box<CapReport>),
    /// Of `treno`.
    Treno(Box<TrenoReport>),
}

impl MeasureReport {
    /// Reads a report; none if it is of neither tool.
    pub(crate) fn read(text: &str) -> Option<Self> {
        match serde_json::from_str(text) {
            Ok(report) => Some(MeasureReport::Cap(Box::new(report))),
            Err(_) => serde_json::from_str(text).ok().map(|report| MeasureReport::Treno(Box::new(report))),
        }
    }
    /// The report as lines.
    pub(crate) fn lines(&self) -> Vec<Line> {
        match self {
            MeasureReport::Cap(report) => report.lines(),
            MeasureReport::Treno(report) => report.lines(),
        }
    }
    /// Why the result is not to be trusted.
    pub(crate) fn reasons(&self) -> &[String] {
        match self {
            MeasureReport::Cap(report) => &report.judgement.host_limited,
            MeasureReport::Treno(report) => &report.alarms,
        }
    }
}

#[cfg(test)]
mod tests;
