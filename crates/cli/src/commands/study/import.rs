//! `warpline study import`: means that another program has measured, for a figure declared in Python.

use std::ffi::OsString;

use crate::failure::{Code, Failure};
use crate::python;

const EXAMPLES: &str = "\
They count as long as the scenarios of all their seeds are those that are declared.
`warpline study import -- --help` lists the options.

Example:
  warpline study import network-simulation-cradle/fig8 fig8.csv --column stack=stack \\
    --column 'flows in A=flows' --column 'goodput, Mbit/s=goodput' --made-by 'study.py'";

/// Take over means that another program has measured of the same scenarios
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// PAPER/FIGURE, a CSV file, and options
    #[arg(value_name = "NAME", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    python::study(&[vec!["import".into()], args.words.clone()].concat())
}
