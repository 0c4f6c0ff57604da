//! `warpline check`: checks scenarios without running them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use warpline_lab::run::{CustomCc, check, load};
use warpline_scenario::Scenario;

use crate::commands::run::failure;
use crate::failure::{Code, Failure};
use crate::output;
use crate::suggestion;

const EXAMPLES: &str = "\
Examples:
  warpline check scenarios/dumbbell.toml
  warpline check scenarios/*.toml
  warpline check scenarios/dumbbell.toml --set flow.bulk.cc=vegas
  List each direction of each link:
    warpline check --verbose scenarios/cellular.toml
  A scenario that another program makes:
    ./make-scenario | warpline check -";

/// Check scenarios without running them
///
/// Reads each file and builds the network as `run` would, and reports all mistakes at once: file, line and column, the
/// allowed values, and the nearest correct spelling. `run` accepts what passes here, unless this machine lacks something that live
/// hosts or guests need. The exit code is 2 if any file is wrong.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario files; - is standard input
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,

    /// Change a value before checking, as in `run`
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,

    /// List each direction of each link: rate, delay, queue, loss, jitter
    #[arg(short, long)]
    verbose: bool,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let mut code = Code::Success;
    for path in &args.files {
        match checked(path, &args.sets) {
            Ok(scenario) => {
                scenario.notes.iter().for_each(|note| output::note(note));
                let mut text = format!(
                    "{}: valid ({}, {})\n",
                    path.display(),
                    output::counted(scenario.seeds().len(), "run"),
                    scenario.duration
                );
                if args.verbose {
                    text += &links(&scenario);
                }
                output::print(&text)?;
            }
            Err(failure) => {
                output::error(failure.message());
                code = Code::Usage;
            }
        }
    }
    Ok(code)
}

fn checked(path: &Path, sets: &[String]) -> Result<Scenario, Failure> {
    let scenario = load(&suggestion::scenario(path)?, sets).map_err(Failure::usage)?;
    check(&scenario, &CustomCc::default()).map_err(failure)?;
    Ok(scenario)
}

/// A line for each direction of each link, and how to limit loss or a trace to one direction if `between` gives it to both.
fn links(scenario: &Scenario) -> String {
    let expanded = scenario.expand();
    let names: Vec<String> = expanded.links.iter().map(|link| expanded.link_name(&link)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, link) in names.iter().zip(expanded.links.iter()) {
        let _ = writeln!(text, "  {name:width$}  {}", link.kind.describe(&scenario.directory, true));
    }
    if let Some(what) = scenario.both_ways() {
        let _ = writeln!(
            text,
            "  `between` gives both directions the same {what}, each with its own draws; for one direction only: {}",
            match what {
                "trace" => "reverse = { rate = \"10Mbit/s\" }",
                "loss" => "reverse = { loss = \"none\" }",
                "duplicate" => "reverse = { duplicate = \"none\" }",
                "corrupt" => "reverse = { corrupt = \"none\" }",
                _ => "reverse = { jitter = \"none\" }",
            }
        );
    }
    text
}
