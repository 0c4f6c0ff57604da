//! `warpline compare`: what changed from one run to another.

use std::path::PathBuf;

use clap::ValueHint;
use warpline_lab::results::compare;

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  warpline run scenarios/dumbbell.toml --out runs/cubic
  warpline run scenarios/dumbbell.toml --out runs/vegas --set flow.bulk.cc=vegas
  warpline compare runs/cubic runs/vegas";

/// Show what changed from one run to another
///
/// Metrics in total, per group of flows and per link, each with both values and the difference. `warpline report RUN RUN` shows
/// the same two runs as plots.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run to compare with
    #[arg(value_name = "RUN", value_hint = ValueHint::DirPath)]
    before: PathBuf,

    /// The run that is compared
    #[arg(value_name = "OTHER", value_hint = ValueHint::DirPath)]
    after: PathBuf,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let comparison = compare(&args.before, &args.after).map_err(Failure::usage)?;
    let text =
        if args.json { comparison.to_json() } else { output::headed(&comparison.render(output::width())) };
    output::print(&text)?;
    Ok(Code::Success)
}
