//! `warpline study stacks`: transfers between all TCP stacks.

use std::path::PathBuf;

use clap::ValueHint;
use warpline_net::Control;
use warpline_study::stacks::{KERNEL, MatrixError, Plan, endpoints, scenarios, transfers};

use super::write_scenarios;
use crate::bar::Steps;
use crate::failure::{Code, Failure};
use crate::{interrupt, output, seeds};

const EXAMPLES: &str = "\
Each stack sends to each, itself included: over a clean path, with 1 % loss, and
with packets that overtake each other by up to 5 ms. Every byte that arrives is
compared with what was sent.

Guests need Debian's package user-mode-linux; name other stacks to leave them out.
\"guest:6.12\" is a guest with that kernel (warpline kernel list).

Examples:
  warpline study stacks
  warpline study stacks model stack:smoltcp --bytes 1000000
  warpline study stacks --markdown > stacks.md
  warpline study stacks guest guest:6.12 stack:lwip
  A scenario behind a figure, to run it and look at the packets:
    warpline study stacks --scenarios cells
    warpline run cells/smoltcp-model-clean.toml";

/// Transfer data from each TCP stack to each, over several paths
///
/// Prints goodput and retransmissions of each transfer, and which failed. All cores are used.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only these stacks, such as model, guest and stack:lwip; a guest with another kernel is guest:KERNEL
    #[arg(value_name = "STACK", value_parser = stack)]
    stacks: Vec<String>,

    /// Bytes of each transfer
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    bytes: u64,

    /// Seed of the losses and the reordering
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seeds::seed)]
    seed: u64,

    /// Runs at a time [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Print JSON, for programs
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// Print Markdown
    #[arg(long)]
    markdown: bool,

    /// Write the scenarios into this directory, and run none
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["json", "markdown", "jobs"])]
    scenarios: Option<PathBuf>,
}

/// The name of a stack.
fn stack(text: &str) -> Result<String, String> {
    if endpoints().any(|name| name == text)
        || text.strip_prefix(KERNEL).is_some_and(|kernel| !kernel.is_empty())
    {
        return Ok(text.to_owned());
    }
    let names: Vec<&str> = endpoints().collect();
    Err(format!(
        "no such stack; there are: {}, and {KERNEL}KERNEL for a guest with another kernel",
        names.join(", ")
    ))
}

pub(super) fn execute(args: &Args) -> Result<Code, Failure> {
    let all = || endpoints().map(str::to_owned).collect();
    let plan = Plan {
        stacks: if args.stacks.is_empty() { all() } else { args.stacks.clone() },
        bytes: args.bytes,
        seed: args.seed,
        jobs: args.jobs.unwrap_or(0).into(),
    };
    if let Some(directory) = &args.scenarios {
        return write_scenarios(directory, &scenarios(&plan));
    }
    interrupt::listen(Vec::new())?;
    let bar = Steps::new(args.json);
    let made = transfers(&plan, &|share, name| {
        if !name.is_empty() {
            bar.update(share, name);
        }
        if interrupt::requested() { Control::Stop } else { Control::Continue }
    });
    bar.clear();
    let matrix = match made {
        Ok(matrix) => matrix,
        Err(MatrixError::Stopped) => return Ok(Code::Interrupted),
        Err(error) => return Err(Failure::run(error)),
    };
    output::print(&if args.json { matrix.to_json() } else { matrix.to_markdown() })?;
    Ok(if matrix.is_complete() { Code::Success } else { Code::Failed })
}
