//! `warpline study judge`: the results that are kept of figures declared in Python, against what the papers say.

use std::ffi::OsString;

use crate::failure::{Code, Failure};
use crate::python;

const EXAMPLES: &str = "\
Nothing is run. `warpline study judge -- --help` lists the options.

Examples:
  warpline study judge
  warpline study judge tcp-nice/fig3";

/// Judge the results that are kept of figures declared in Python
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// FILE.py, PAPER/FIGURE or PAPER (all papers by default), and options
    #[arg(value_name = "NAME", trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    python::study(&[vec!["judge".into()], args.words.clone()].concat())
}
