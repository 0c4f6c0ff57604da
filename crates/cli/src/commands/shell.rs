//! `warpline shell`: a command behind an emulated link.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

use clap::ValueHint;
use warpline_lab::run::links::{LinkWords, duplex};
use warpline_lab::scenario::{BitRate, Time};
use warpline_live::clock::{LagPolicy, Waiting};
use warpline_live::emulator::EmulatorConfig;
use warpline_live::shell::{ShellConfig, ShellError, ShellOutcome, run};

use crate::failure::{Code, Failure};
use crate::output;

const EXAMPLES: &str = "\
Up is from the command to the world, down the other way. What is said for both
(--rate, --delay, ...) holds for the direction that has no value of its own.

Values:
  rate    12Mbit/s, 1.5Gbit/s, 12mbit, 2MB/s; a trace (mahimahi's format) in its place
  delay   20ms, one way
  queue   100p, 150kB, 50ms or 1BDP (drop-tail); codel, fq_codel, red, priority
          with parameters: codel,limit=100p,target=5ms; or a table as in a scenario
  loss    1%, or a model: every,n=100; gilbert-elliott,good_to_bad=0.01,...
  jitter  uniform,max=5ms; normal,mean=5ms,stddev=1ms; pareto,mean=2ms

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

/// Run a command, or a shell, behind an emulated link
///
/// Packets of the command and of everything it starts cross a link with the rate, delay, loss and queue given, the same as in a
/// simulation. Without a command, $SHELL is started.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Rate in both directions [default: no limit]
    #[arg(long, value_name = "RATE")]
    rate: Option<BitRate>,
    /// Rate from the command to the world
    #[arg(long, value_name = "RATE", conflicts_with = "up_trace")]
    up_rate: Option<BitRate>,
    /// Rate from the world to the command
    #[arg(long, value_name = "RATE", conflicts_with = "down_trace")]
    down_rate: Option<BitRate>,
    /// Mahimahi trace from the command to the world, in place of a rate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    up_trace: Option<String>,
    /// Mahimahi trace from the world to the command, in place of a rate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    down_trace: Option<String>,
    /// Propagation delay of each direction [default: 0s]
    #[arg(long, value_name = "TIME")]
    delay: Option<Time>,
    /// Delay from the command to the world
    #[arg(long, value_name = "TIME")]
    up_delay: Option<Time>,
    /// Delay from the world to the command
    #[arg(long, value_name = "TIME")]
    down_delay: Option<Time>,
    /// Loss in both directions [default: none]
    #[arg(long, value_name = "LOSS")]
    loss: Option<String>,
    /// Loss from the command to the world
    #[arg(long, value_name = "LOSS")]
    up_loss: Option<String>,
    /// Loss from the world to the command
    #[arg(long, value_name = "LOSS")]
    down_loss: Option<String>,
    /// Queue in front of both directions [default: 1000p]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Queue from the command to the world
    #[arg(long, value_name = "QUEUE")]
    up_queue: Option<String>,
    /// Queue from the world to the command
    #[arg(long, value_name = "QUEUE")]
    down_queue: Option<String>,
    /// Random extra delay in both directions [default: none]
    #[arg(long, value_name = "JITTER")]
    jitter: Option<String>,
    /// Largest packet in bytes, from the IP header on
    #[arg(long, value_name = "BYTES", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=9000))]
    mtu: u32,
    /// Seed of loss, jitter and random queues
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
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

impl Args {
    /// The two directions' words, up and down.
    fn links(&self) -> [LinkWords; 2] {
        let first = |own: &Option<String>, both: &Option<String>| own.clone().or_else(|| both.clone());
        [
            LinkWords {
                rate: self.up_rate.or(self.rate).filter(|_| self.up_trace.is_none()),
                trace: self.up_trace.clone(),
                delay: self.up_delay.or(self.delay),
                queue: first(&self.up_queue, &self.queue),
                loss: first(&self.up_loss, &self.loss),
                jitter: self.jitter.clone(),
            },
            LinkWords {
                rate: self.down_rate.or(self.rate).filter(|_| self.down_trace.is_none()),
                trace: self.down_trace.clone(),
                delay: self.down_delay.or(self.delay),
                queue: first(&self.down_queue, &self.queue),
                loss: first(&self.down_loss, &self.loss),
                jitter: self.jitter.clone(),
            },
        ]
    }
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let [up, down] = args.links();
    let [up, down] = duplex(&up, &down).map_err(Failure::usage)?;
    let command = if args.command.is_empty() {
        vec![std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())]
    } else {
        args.command
    };
    let outcome = run(ShellConfig {
        up,
        down,
        seed: args.seed,
        emulator: EmulatorConfig {
            waiting: Waiting { spin: args.spin.0, linger: args.linger.0 },
            lag: args.hard_limit.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
            mtu: args.mtu,
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
        for (name, stats) in ["up", "down"].iter().zip(&outcome.links) {
            text += &format!(
                "  {name:<10} {} packets offered, {} sent; emulated losses: {} overflow, {} AQM, {} on the wire; {} marked; queueing {:.3} ms mean\n",
                stats.arrivals,
                stats.sent_packets,
                stats.drops_overflow,
                stats.drops_aqm,
                stats.drops_loss,
                stats.marks,
                stats.queued_time.as_secs_f64() * 1e3 / stats.queued_packets.max(1) as f64,
            );
        }
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
