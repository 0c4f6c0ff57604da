//! `warpline`: network experiments from the command line.

#![cfg_attr(
    not(guests),
    allow(dead_code, reason = "some of it serves commands for live networks and guests")
)]

mod bar;
mod build_id;
mod commands;
mod date;
mod destination;
#[cfg(test)]
mod documented;
mod failure;
mod interrupt;
mod junit;
mod metrics;
mod mishaps;
mod output;
mod python;
mod reference;
mod seeds;
mod stopwatch;
mod stream;
mod suggestion;
mod together;
mod watched;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use crate::commands::{Command, end_of_help};
use crate::failure::Code;
use crate::together::Together;

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
    after_long_help = end_of_help(),
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// The values that may begin with a minus sign: the option that gets one refuses it, and says what is allowed.
const QUANTITIES: [&str; 8] = ["TIME", "RATE", "SIZE", "LOSS", "PART", "SHARE", "SEGMENTS", "FACTOR"];

/// Takes a quantity with a minus sign for the value of its option, not for another option, and a plain number, too.
fn with_signs(command: clap::Command) -> clap::Command {
    let is_quantity = |name: &clap::builder::Str| QUANTITIES.contains(&name.as_str());
    command
        .mut_args(|arg| {
            let quantity = arg.get_value_names().is_some_and(|names| names.iter().any(is_quantity));
            // Positional values may be a command, which has options of its own.
            let number = !arg.is_positional() && arg.get_action().takes_values();
            match (quantity, number) {
                (true, _) => arg.allow_hyphen_values(true),
                (false, true) => arg.allow_negative_numbers(true),
                (false, false) => arg,
            }
        })
        .mut_subcommands(with_signs)
}

fn main() -> ExitCode {
    #[cfg(live)]
    if warpline_live::keeper::serve(|| drop(warpline_live::registry::clean(&mut |_| {}))) {
        return Code::Success.into();
    }
    let mut together = match Together::join() {
        Ok(together) => together,
        // The other processes say the same.
        Err(_) if warpline_mpi::place().is_some_and(|place| place.own > 0) => return Code::Success.into(),
        Err(failure) => {
            output::error(failure.message());
            return failure.code().into();
        }
    };
    let given = with_signs(Cli::command()).try_get_matches();
    let cli = match given.and_then(|given| Cli::from_arg_matches(&given)) {
        Ok(cli) => cli,
        Err(error) => {
            if cfg!(not(feature = "live")) && error.kind() == ErrorKind::InvalidSubcommand {
                let _ = error.print();
                output::note(warpline_lab::run::ONLY_MODELS);
                return Code::Usage.into();
            }
            if together.count() == 1 {
                error.exit();
            }
            if together.speaks() {
                let _ = error.print();
            }
            together.wait();
            return if error.use_stderr() { Code::Usage } else { Code::Success }.into();
        }
    };
    match cli.command.execute(&mut together) {
        Ok(code) => code.into(),
        Err(failure) => {
            if together.speaks() {
                output::error(failure.message());
            }
            failure.code().into()
        }
    }
}
