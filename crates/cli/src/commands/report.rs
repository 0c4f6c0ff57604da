//! `warpline report`: makes the report page of one run, of several side by side, or of sets of seeds.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use warpline_lab::report::write_report;
use warpline_report::ReportError;
use warpline_results::RunSet;

use crate::failure::{Code, Failure};
use crate::output;

/// The file name of a report.
pub(crate) const REPORT_FILE: &str = "report.html";

const EXAMPLES: &str = "\
Examples:
  Make the report of a run again:
    warpline report runs/dumbbell-1
  Two runs on one page:
    warpline report runs/dumbbell-1 runs/dumbbell-2 --out both.html
  Ten seeds of one scenario beside ten of another, each as mean and interval:
    warpline report runs/cubic runs/vegas --out both.html";

/// Make the report of one run, or of several together
///
/// A directory that `warpline run --seeds` wrote is shown by mean and 95 % confidence interval over its seeds, with each of its runs below.
///
/// The report is one self-contained HTML file: it opens from disk in any browser, without a network. It has the summary,
/// throughput, windows, RTTs, queues, and time-sequence graphs of the flows that recorded them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directories of runs, or of several seeds; single runs are compared with the first
    #[arg(required = true, value_name = "RUN", value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,

    /// File for the report [default: report.html in the run directory, or here for several runs]
    #[arg(short, long, alias = "output", value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let out = args.out.unwrap_or_else(|| match args.runs.as_slice() {
        [run] => run.join(REPORT_FILE),
        _ => PathBuf::from(REPORT_FILE),
    });
    for run in &args.runs {
        RunSet::open(run).map_err(Failure::usage)?;
    }
    let runs: Vec<&Path> = args.runs.iter().map(PathBuf::as_path).collect();
    write_report(&runs, &out).map_err(failure)?;
    output::print(&format!("Report: {}\n", out.display()))?;
    Ok(Code::Success)
}

/// The failure for a report's error, with its exit code.
pub(crate) fn failure(error: ReportError) -> Failure {
    match error {
        ReportError::Write { .. } => Failure::output(error),
        _ => Failure::usage(error),
    }
}
