//! Reports of runs: the pages of `warpline-report`, with the results of capacity tests.

use std::path::Path;

use warpline_report::ReportError;

use crate::btc::capacity;

/// Writes the report of runs, or of sets of seeds, to the file `out`, completely or not at all.
///
/// # Errors
/// If a directory is not a run or cannot be read, or the file cannot be written.
pub fn write_report(directories: &[&Path], out: &Path) -> Result<(), ReportError> {
    warpline_report::write_report(directories, out, capacity)
}
