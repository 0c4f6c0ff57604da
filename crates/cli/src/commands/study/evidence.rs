//! `warpline study evidence`: the page of the book with each figure of the papers, and the verdicts.

use std::ffi::OsString;

use crate::failure::{Code, Failure};
use crate::python;

const EXAMPLES: &str = "\
Nothing is run. `warpline study evidence -- --help` lists the options.

Examples:
  warpline study evidence
  warpline study evidence --check";

/// Write the page of the book that holds each figure of the papers against ours
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Options
    #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    python::study(&[vec!["evidence".into()], args.words.clone()].concat())
}
