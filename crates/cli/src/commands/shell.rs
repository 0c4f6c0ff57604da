//! `warpline shell`: a command behind an emulated link.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use clap::ValueHint;
use warpline_lab::run::links::{Duplex, duplex};
use warpline_lab::scenario::Time;
use warpline_live::clock::{LagPolicy, Waiting};
use warpline_live::emulator::EmulatorConfig;
use warpline_live::shell::{ShellConfig, ShellError, ShellOutcome, run};

use crate::commands::link_args::{LinkArgs, VALUES, counters};
use crate::failure::{Code, Failure};
use crate::output;

const DIRECTIONS: &str = "\
Up is from the command to the world, down the other way. What is said for both
(--rate, --delay, ...) holds for the direction that has no value of its own.
";

const EXAMPLES: &str = "\
In the environment of the command:
  WARPLINE_BASE   address of the world outside: servers that listen there on all
                  addresses are reached at it (WARPLINE_BASE6: its IPv6 address)

The world outside is this machine, and with nft (package nftables) what it
reaches. For ordinary users that takes pasta, too (package passt); without it,
and with --base, theirs is a network namespace of its own: start servers there
with --base. Shells can be in shells: the links add up.

Examples:
  warpline shell --rate 12mbit --delay 20ms --loss 1% --queue 100p -- curl http://example.org
  A shell behind a slow uplink, with a queue of one bandwidth-delay product:
    warpline shell --rate 50Mbit/s --up-rate 5Mbit/s --delay 15ms --queue 1BDP
  As an ordinary user, a server and a client:
    warpline shell --delay 20ms --base 'iperf3 -s' -- sh -c 'sleep 1; iperf3 -c $WARPLINE_BASE'

Exit code: the command's; 128 and the signal's number if a signal ended it; with
--hard-limit 1 when the emulator could not keep pace.";

/// What the help says at its end.
fn examples() -> String {
    format!("{DIRECTIONS}\n{VALUES}\n{EXAMPLES}")
}

/// Run a command, or a shell, behind an emulated link
///
/// Packets of the command and of everything it starts cross a link with the rate, delay, loss and queue given, the same as in a
/// simulation. Without a command, $SHELL is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = examples())]
pub(crate) struct Args {
    #[command(flatten)]
    link: LinkArgs,
    /// Also run this command line (with sh -c) in the world outside: a server
    #[arg(long, value_name = "COMMAND")]
    base: Option<OsString>,
    /// Do not translate addresses: packets get as far as this machine
    #[arg(long)]
    no_nat: bool,
    /// Stop, with exit code 1, as soon as a packet is later than this [default: go on and count]
    #[arg(long, value_name = "TIME")]
    hard_limit: Option<Time>,
    /// Stop sleeping this long before a packet is due at the most: longer takes more CPU, shorter is less punctual
    #[arg(long, value_name = "TIME", default_value = "200us")]
    spin: Time,
    /// After a packet came in, look out for another so long without sleeping
    #[arg(long, value_name = "TIME", default_value = "0s")]
    linger: Time,
    /// Say at the end how the emulator kept pace and what the links did
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let [up, down] = args.link.links();
    let Duplex { links: [up, down], said } = duplex(&up, &down).map_err(Failure::usage)?;
    let command = if args.command.is_empty() {
        vec![std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())]
    } else {
        args.command
    };
    let outcome = run(ShellConfig {
        up,
        down,
        seed: args.link.seed,
        emulator: EmulatorConfig {
            waiting: Waiting { spin: args.spin.0, linger: args.linger.0 },
            lag: args.hard_limit.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
            mtu: args.link.mtu,
            ..EmulatorConfig::default()
        },
        command,
        base_command: args.base,
        nat: !args.no_nat,
    })
    .map_err(failure)?;
    report(&outcome, args.verbose);
    let code = match (outcome.status.code(), outcome.status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.wrapping_add(signal as u8),
        (None, None) => 1,
    };
    Ok(Code::Command(code))
}

/// What went on, on stderr: when it was asked for, or when it was not as it should be.
fn report(outcome: &ShellOutcome, verbose: bool) {
    if verbose {
        let mut text = outcome.audit.render();
        text += &counters(&outcome.links);
        if !outcome.reach_note.is_empty() {
            text += &format!("  reach      this machine only: {}\n", outcome.reach_note);
        }
        output::note(&text);
    } else if !outcome.audit.kept_pace() {
        output::note(&outcome.audit.render());
    }
}

/// A shell's error with the exit code that fits it: those of a shell for a command that cannot be started.
fn failure(error: ShellError) -> Failure {
    match &error {
        ShellError::Command { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Failure::command(127, &error)
        }
        ShellError::Command { .. } => Failure::command(126, &error),
        _ => Failure::run(error),
    }
}
