//! `warpline`: network experiments from the command line.

mod bar;
mod commands;
mod destination;
mod failure;
mod interrupt;
mod junit;
mod mishaps;
mod output;
mod reference;
mod stopwatch;
mod suggestion;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::{Command, EXIT_CODES};

/// Network experiments at any speed of time.
///
/// A scenario file describes hosts, links and what runs on the hosts. Warpline runs it, prints a summary, and leaves a run
/// directory with tables (Parquet), captures (pcapng), qlog files and a report that opens in any browser.
#[derive(Debug, Parser)]
#[command(
    name = "warpline",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Start with:  warpline run scenarios/dumbbell.toml",
    after_long_help = EXIT_CODES,
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    match Cli::parse().command.execute() {
        Ok(code) => code.into(),
        Err(failure) => {
            output::error(failure.message());
            failure.code().into()
        }
    }
}
