//! `warpline man`: the manual pages.

use std::path::PathBuf;

use clap::{CommandFactory, ValueHint};

use crate::Cli;
use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  For this user:
    warpline man ~/.local/share/man/man1
    man warpline-run";

/// Write the manual pages, one for each command
///
/// Each page has the text of the command's --help. Existing pages are replaced.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory for the pages; it is made if it does not exist
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let cannot = |what: &str, error: std::io::Error| {
        Failure::output(format!("cannot {what} {}: {error}", args.directory.display()))
    };
    std::fs::create_dir_all(&args.directory).map_err(|error| cannot("make", error))?;
    clap_mangen::generate_to(Cli::command(), &args.directory)
        .map_err(|error| cannot("write manual pages to", error))?;
    output::note(&format!("manual pages: {}", args.directory.display()));
    Ok(Code::Success)
}
