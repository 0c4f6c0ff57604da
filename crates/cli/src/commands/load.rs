//! `warpline load`: the load generators of `warpline calibrate`, in separate processes. Not for users.

use warpline_live::load;

use crate::failure::{Code, Failure};

/// Generate load for a measurement
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Which load: see the module `warpline_live::load`
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
