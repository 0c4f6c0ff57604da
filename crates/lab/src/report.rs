//! Reports of runs: the pages of `warpline-report`, with the results of capacity tests.

use std::path::Path;

use warpline_report::{CapacityTest, ReportError};

use crate::btc::MeasureReport;

/// Writes the report of runs, or of sets of seeds, to the file `out`, completely or not at all.
///
/// # Errors
/// If a directory is not a run or cannot be read, or the file cannot be written.
pub fn write_report(directories: &[&Path], out: &Path) -> Result<(), ReportError> {
    warpline_report::write_report(directories, out, capacity)
}

/// The report of a capacity test, as shown on a page.
pub fn capacity(text: &str) -> Option<CapacityTest> {
    let report = MeasureReport::read(text)?;
    let lines = report.lines().into_iter().map(|line| [line.section, line.name, line.value]).collect();
    Some(CapacityTest { reasons: report.reasons().to_vec(), lines })
}
