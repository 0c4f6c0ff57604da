//! `warpline reproduce`: figures of the papers again. The Python package's `warpline.study` does the work.

use std::ffi::OsString;

use crate::failure::{Code, Failure};
use crate::python;

const EXAMPLES: &str = "\
The figures are declared in repro/PAPER/declarations.py of Warpline's source, which is
looked for in this directory and those above. Results that this build has made are not made
again. The Python package does the work: `warpline reproduce -- --help` lists its options.

Examples:
  warpline reproduce --list
  warpline reproduce tcp-nice/fig3 --quick
  warpline reproduce network-simulation-cradle
  warpline reproduce --all --quick";

/// Run tables and figures of the papers again, and judge them
///
/// Each has a verdict: it is as in the paper, or differs, and why.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// PAPER/FIGURE or PAPER, or --all, and options
    #[arg(value_name = "NAME", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    python::study(&[vec!["reproduce".into()], args.words.clone()].concat())
}
