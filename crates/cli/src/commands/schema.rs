//! `warpline schema`: the JSON Schema of scenario files and the columns of results, or the references made from them.

use warpline_results::describe::{tables_json, tables_markdown};
use warpline_scenario::json_schema;
use warpline_study::crosscheck::schema as certificate_schema;

use crate::failure::{Code, Failure};
use crate::{output, reference};

const EXAMPLES: &str = "\
Examples:
  Completion and checks in editors that know TOML (Even Better TOML, taplo):
    warpline schema > scenario.schema.json
  and as the first line of a scenario:
    #:schema ./scenario.schema.json
  What the columns of a run's tables mean:
    warpline schema --results --markdown";

/// Print the JSON Schema of scenario files
///
/// Lists every key of a scenario, with its meaning, unit, default and examples. The schema is generated from the types that
/// read a scenario, so it is never out of date.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Instead of scenarios, describe what a run leaves: every table and column, with its unit and meaning
    #[arg(long)]
    results: bool,

    /// Instead of scenarios, describe the certificates of `warpline crosscheck`
    #[arg(long, conflicts_with_all = ["results", "markdown"])]
    certificate: bool,

    /// Print it as a reference for people, in Markdown
    #[arg(long)]
    markdown: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let text = match (args.results, args.markdown) {
        _ if args.certificate => format!("{:#}\n", certificate_schema()),
        (false, false) => format!("{:#}\n", json_schema()),
        (false, true) => reference::markdown(json_schema()),
        (true, false) => format!("{:#}\n", tables_json()),
        (true, true) => tables_markdown(),
    };
    output::print(&text)?;
    Ok(Code::Success)
}
