//! Reports of bulk transfer capacity, made from the counters of both ends of a test. They have everything that RFC 3148 requires or
//! recommends, under the RFC's names.
//!
//! [`CapReport`] is for `cap`, [`TrenoReport`] for `treno`. Each serialises to JSON; the functions here make text, tables and a run
//! directory.

mod cap;
mod lines;
mod statements;
mod treno;
mod verdict;
mod write;

use warpline_report::CapacityTest;

pub use cap::{CapInput, CapReport, Ends};
pub use lines::{Line, render};
pub use statements::Statements;
pub use treno::{HopReport, TrenoInput, TrenoReport};
pub use verdict::{Judgement, host_limits};
pub use write::{CapTrace, claim, csv, treno_csv, write_run, write_treno};

/// The report of either tool, as read from a file.
pub(crate) enum MeasureReport {
    /// Of `cap`.
    Cap(Box<CapReport>),
    /// Of `treno`.
    Treno(Box<TrenoReport>),
}

impl MeasureReport {
    /// Reads a report; none if it is from neither tool.
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
    /// Reasons not to trust the result.
    pub(crate) fn reasons(&self) -> &[String] {
        match self {
            MeasureReport::Cap(report) => &report.judgement.host_limited,
            MeasureReport::Treno(report) => &report.alarms,
        }
    }
}

/// The report of a capacity test, as shown on a page.
pub fn capacity(text: &str) -> Option<CapacityTest> {
    let report = MeasureReport::read(text)?;
    let lines = report.lines().into_iter().map(|line| [line.section, line.name, line.value]).collect();
    Some(CapacityTest { reasons: report.reasons().to_vec(), lines })
}

#[cfg(test)]
mod tests;
