//! `warpline compare`: what changed from one run to another.

use std::path::PathBuf;

use clap::ValueHint;
use warpline_lab::results::{self, Run};

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  warpline run scenarios/dumbbell.toml --out runs/cubic
  warpline run scenarios/dumbbell.toml --out runs/vegas --set flow[0].cc=vegas
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
    let open = |path| Run::open(path).map_err(Failure::usage);
    let (before, after) = (open(&args.before)?, open(&args.after)?);
    let comparison = results::compare(before.summary(), after.summary());
    let text = if args.json { comparison.to_json() } else { comparison.to_text(output::stdout_coloured()) };
    output::print(&text)?;
    Ok(Code::Success)
}
