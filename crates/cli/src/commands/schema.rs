//! `warpline schema`: the JSON Schema of scenario files.

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  Completion and checks in editors that know TOML (Even Better TOML, taplo):
    warpline schema > scenario.schema.json
  and as the first line of a scenario:
    #:schema ./scenario.schema.json";

/// Print the JSON Schema of scenario files
///
/// Every key that a scenario may have, with its meaning, unit, default and examples. The schema is made from the same types that
/// read a scenario, so it cannot be out of date.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {}

pub(crate) fn execute(_: &Args) -> Result<Code, Failure> {
    output::print(&format!("{:#}\n", warpline_lab::scenario::json_schema()))?;
    Ok(Code::Success)
}
