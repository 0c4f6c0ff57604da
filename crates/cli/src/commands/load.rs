//! `warpline load`: what `warpline calibrate` measures with, in processes of its own. Not for people.

use warpline_live::load;

use crate::failure::{Code, Failure};

/// Make load for a measurement
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// What load: see the module `warpline_live::load`
    #[arg(trailing_var_arg = true, required = true, value_name = "WORDS")]
    words: Vec<String>,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    match load::run(&args.words) {
        Ok(()) => Ok(Code::Success),
        Err(error @ load::LoadError::Words(_)) => Err(Failure::usage(error)),
        Err(error) => Err(Failure::run(error)),
    }
}
