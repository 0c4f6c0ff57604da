//! `warpline check`: is a scenario right, without running it?

use std::path::PathBuf;

use clap::ValueHint;
use warpline_lab::scenario::Scenario;

use crate::failure::{Code, Failure};
use crate::output;
use crate::suggestion;

const EXAMPLES: &str = "\
Examples:
  warpline check scenarios/dumbbell.toml
  warpline check scenarios/*.toml
  warpline check scenarios/dumbbell.toml --set flow.bulk.cc=vegas";

/// Check scenarios without running them
///
/// Reads each file as `run` would and says what is wrong with it, all mistakes at once: file, line and column, what is allowed
/// there, and the nearest right spelling. Exit code 2 when any file is wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario files
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Change a value before checking, as in `run`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut code = Code::Success;
    for path in &args.files {
        let checked = suggestion::existing_scenario(path)
            .and_then(|()| Scenario::load(path, &args.sets).map_err(Failure::usage));
        match checked {
            Ok(scenario) => output::print(&format!(
                "{}: right ({}, {})\n",
                path.display(),
                output::counted(scenario.seeds().len(), "run"),
                scenario.duration
            ))?,
            Err(failure) => {
                failure.report();
                code = Code::Usage;
            }
        }
    }
    Ok(code)
}
