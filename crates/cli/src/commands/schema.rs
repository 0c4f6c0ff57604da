//! `warpline schema`: prints the JSON Schema of scenario files, or the reference generated from it.

use crate::failure::{Code, Failure};
use crate::{output, reference};

const EXAMPLES: &str = "\
Examples:
  Completion and checks in editors that know TOML (Even Better TOML, taplo):
    warpline schema > scenario.schema.json
  and as the first line of a scenario:
    #:schema ./scenario.schema.json";

/// Print the JSON Schema of scenario files
///
/// Lists every key of a scenario, with its meaning, unit, default and examples. The schema is generated from the types that
/// read a scenario, so it is never out of date.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print it as a reference for people, in Markdown
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let schema = warpline_lab::scenario::json_schema();
    let text = if args.markdown { reference::markdown(&schema) } else { format!("{schema:#}\n") };
    output::print(&text)?;
    Ok(Code::Success)
}
