//! `warpline shell`: a command behind an emulated link.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use warpline_core::{TimeDelta, Timestamp};
use warpline_lab::run::control::{self, Orders};
use warpline_lab::run::recording::{Pulse, PulseMeter, Recording, RecordingOptions, create_capture};
use warpline_live::clock::Waiting;
use warpline_live::control::{Serving, VARIABLE};
use warpline_live::crossing::{Account, Crossing};
use warpline_live::emulator::Turn;
use warpline_live::nat::Reach;
use warpline_live::shell::{Begun, BridgeConfig, BridgeOutcome, ShellConfig, ShellError, run, run_bridge};
use warpline_live::terminal::Title;
use warpline_report::{check_writable, write_whole};
use warpline_scenario::Time;

use crate::commands::link_args::{LinkArgs, or_shell, report, values};
use crate::commands::run::listen;
use crate::destination::Destination;
use crate::failure::{Code, Failure};
use crate::output;
use crate::stopwatch::since_epoch;

const DIRECTIONS: &str = "\
Up is from the command to the world, down is the other way. A value for both
(--rate, --delay, ...) applies to a direction without a value of its own.
";

const EXAMPLES: &str = "\
In the environment of the command:
  WARPLINE_BASE   address of the world outside: it reaches servers there that listen
                  on all addresses (WARPLINE_BASE6: its IPv6 address)

On a terminal the title shows the rates, the packets waiting and those lost, so that
the command's own output stays clean; --quiet omits it.

The world outside is this machine, and with nft (package nftables) everything that it
reaches. Ordinary users also need pasta for that (package passt). Without it,
or with --base, the world outside is a network namespace of its own: start servers
there with --base. Shells can be nested: their links add up.

Examples:
  warpline shell --rate 12mbit --delay 20ms --loss 1% --queue 100p -- curl http://example.org
  A shell behind a slow uplink, with a queue of one bandwidth-delay product:
    warpline shell --rate 50Mbit/s --up-rate 5Mbit/s --delay 15ms --queue 1BDP
  Capture what crosses the link, for Wireshark, and write a report with plots:
    warpline shell --rate 12mbit --pcap link.pcapng --report -- curl -O http://example.org/file
  As root, a link between the machines behind two interfaces:
    warpline shell --devices eth1,eth2 --rate 100mbit --delay 20ms
  As an ordinary user, a server and a client:
    warpline shell --delay 20ms --base 'iperf3 -s' -- sh -c 'sleep 1; iperf3 -c $WARPLINE_BASE'

Exit code: the command's, also if a file could not be written at the end; 128 plus the
signal's number if a signal ended it; with --hard-limit 1 if the emulator could not keep
pace.";

/// The end of the help text.
fn examples() -> String {
    format!("{DIRECTIONS}\n{}\n{EXAMPLES}", values())
}

/// Run a command, or a shell, behind an emulated link
///
/// Packets of the command and of everything it starts cross a link with the given rate, delay, loss and queue, as in a
/// simulation. Without a command, it starts $SHELL.
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
    /// Put the link between two interfaces of this machine instead, whose networks become one: up is from the first to the second. A
    /// command runs beside it; without one it is there until Ctrl-C
    #[arg(long, value_name = "FIRST,SECOND", value_delimiter = ',', conflicts_with_all = ["base", "no_nat", "mtu"])]
    devices: Vec<String>,
    /// Use these interfaces although one carries this machine's default route, or is a part of a bridge
    #[arg(long, requires = "devices")]
    force: bool,
    /// Stop, with exit code 1, as soon as a packet is later than this [default: go on and count]
    #[arg(long, value_name = "TIME")]
    hard_limit: Option<Time>,
    /// How long before a packet is due to stop sleeping, at most: longer takes more CPU, shorter is less punctual
    #[arg(long, value_name = "TIME", default_value = "200us")]
    spin: Time,
    /// How long to poll for another packet after one has arrived, before sleeping
    #[arg(long, value_name = "TIME", default_value = "0s")]
    linger: Time,
    /// Capture the packets that cross the link, both ways, for Wireshark (pcapng); replaces an existing file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pcap: Option<PathBuf>,
    /// Write a report with plots of rates, queues and losses to runs/shell, and print its path at the end
    #[arg(long)]
    report: bool,
    /// Let `warpline set` change the link while it is there: listen at this path, or where `warpline set` finds it by itself. Only
    /// this user can use it
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    control: Option<Option<PathBuf>>,
    /// Write the link as a scenario at the end, with what was changed of it and when; replaces an existing file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    save: Option<PathBuf>,
    /// Print no greeting, and show nothing in the terminal's title
    #[arg(short, long)]
    quiet: bool,
    /// Report at the end how the emulator kept pace and what the links did
    #[arg(short, long)]
    verbose: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// How often the terminal's title changes.
const METER: TimeDelta = TimeDelta::from_millis(500);
/// The longest time between two turns of a watched shell.
const PULSE: TimeDelta = TimeDelta::from_millis(100);

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    let devices = devices(&args.devices)?;
    let (duplex, mut link) = args.link.crossing(args.hard_limit)?;
    link.emulator.waiting = Waiting { spin: args.spin.0, linger: args.linger.0 };
    let greets = args.command.is_empty() && !args.quiet;
    super::clean::before();
    // Before entering the namespaces: the files belong to the caller.
    if let Some(path) = &args.save {
        check_writable(path)
            .map_err(|error| Failure::output(format!("{error}; name another file with --save")))?;
    }
    let destination = args.report.then(|| Destination::claim("shell")).transpose()?;
    let capture = args.pcap.as_deref().map(create_capture).transpose().map_err(Failure::output)?;
    (link.up.record, link.down.record) = (capture.is_some(), capture.is_some());
    let recorded = capture.is_some() || args.report;
    let recording = RecordingOptions {
        capture,
        begin: since_epoch(),
        report: destination.as_ref().map(|destination| destination.path().to_owned()),
        name: "shell".to_owned(),
        seed: args.link.seed,
    };
    let mut recording =
        recorded.then(|| Recording::open(&duplex, recording)).transpose().map_err(Failure::output)?;
    // Where the user's directories are is known before the namespaces are entered, and there is one thread.
    let (mut waiting, mut orders) = match &args.control {
        Some(place) => {
            let (waiting, orders) =
                control::listen_duplex(&listen(place.clone()), &duplex).map_err(Failure::run)?;
            (Some(waiting), Some(orders))
        }
        None => (None, None),
    };
    (link.up.changeable, link.down.changeable) = (orders.is_some(), orders.is_some());
    let environment =
        waiting.iter().map(|waiting| (VARIABLE, waiting.path().display().to_string())).collect();
    let bell = orders.as_ref().map(Orders::shared_bell);
    let mut serving = None;
    let mut began_serving = |serving: &mut Option<Serving>| {
        if let Some(waiting) = waiting.take() {
            if greets {
                output::note(&format!(
                    "change the link from elsewhere, or from here: warpline set rate=5mbit ({})",
                    waiting.path().display()
                ));
            }
            match waiting.begin() {
                Ok(began) => *serving = Some(began),
                Err(error) => output::error(&error.to_string()),
            }
        }
    };
    let mut title = if args.quiet { None } else { Title::of_stderr() };
    let pulse = (recorded || title.is_some()).then_some(PULSE);
    let mut rates = PulseMeter::default();
    let observe = |turn: Turn<'_, Crossing>| {
        if let Some(orders) = &mut orders {
            orders.attend(turn.woken, turn.network, |link, at, rate| {
                if let Some(recording) = &mut recording {
                    recording.changed(link, at, rate);
                }
            });
        }
        if let Some(recording) = &mut recording {
            recording.turn(turn.network, turn.pool);
        }
        if let Some(title) = &mut title
            && let Some(pulses) = rates.read(turn.network, METER)
        {
            title.show(&meter(&pulses));
        }
    };
    let ran = match devices {
        Some(devices) => {
            let config =
                BridgeConfig { link, devices, force: args.force, command: args.command, pulse, bell };
            let began = || {
                if greets {
                    output::note(&bridge_greeting(&config.devices, &duplex.said));
                }
                began_serving(&mut serving);
            };
            run_bridge(&config, began, observe).map(|outcome| {
                let BridgeOutcome { status, account } = outcome;
                (status.map(|status| status.map_or(Code::Success, Code::from)), account, String::new())
            })
        }
        None => {
            let config = ShellConfig {
                link,
                command: or_shell(args.command),
                base_command: args.base,
                nat: !args.no_nat,
                warn: output::note,
                pulse,
                bell,
                environment,
            };
            let began = |begun: &Begun| {
                if greets {
                    output::note(&greeting(&duplex.said, begun));
                }
                began_serving(&mut serving);
            };
            run(&config, began, observe).map(|outcome| {
                let reach = match (outcome.reach, outcome.reach_note.as_str()) {
                    (_, "") => String::new(),
                    (Reach::Base, why) => format!("  reach      this machine only: {why}\n"),
                    (Reach::World, what) => format!("  reach      {what}\n"),
                };
                (outcome.status.map(Code::from), outcome.account, reach)
            })
        }
    };
    drop(title);
    // Nobody is kept waiting for what will not be done.
    let changes = orders.map(|orders| orders.made().to_vec()).unwrap_or_default();
    drop(serving);
    let (status, mut account, reach) = ran.map_err(failure)?;
    let length = account.network.now() - Timestamp::ZERO;
    // Also if the emulator could not go on.
    let kept = match duplex.to_toml(args.link.seed, length, &changes) {
        Ok(scenario) => keep(recording, args.save.as_deref(), &mut account, &scenario),
        Err(error) => {
            output::error(&error.to_string());
            false
        }
    };
    let status = status.map_err(Failure::run)?;
    report(&mut account, &reach, args.verbose);
    // How a command ended must not get lost. `Success` is that of a link without one.
    Ok(if !kept && status == Code::Success { Code::Output } else { status })
}

/// Writes what is kept of a session: its recording, and `scenario` to `save`. Reports what cannot be written, and returns whether all was.
fn keep(recording: Option<Recording>, save: Option<&Path>, account: &mut Account, scenario: &str) -> bool {
    let recorded = match recording.map(|recording| recording.finish(account, scenario)) {
        Some(Ok(Some(path))) => {
            output::note(&format!("report: {}", path.display()));
            true
        }
        Some(Err(error)) => {
            output::error(&error.to_string());
            false
        }
        Some(Ok(None)) | None => true,
    };
    let saved = match save.map(|path| write_whole(scenario.as_bytes(), path)) {
        Some(Err(error)) => {
            output::error(&error.to_string());
            false
        }
        Some(Ok(())) | None => true,
    };
    recorded && saved
}

/// The two interfaces between which the link is, if there are some.
fn devices(given: &[String]) -> Result<Option<[String; 2]>, Failure> {
    match given {
        [] => Ok(None),
        [first, second] if first == second => Err(Failure::usage(format!(
            "--devices names {first} twice: the link is between two interfaces, as in --devices eth1,eth2"
        ))),
        [first, second] => Ok(Some([first.clone(), second.clone()])),
        _ => Err(Failure::usage(format!(
            "--devices takes two interfaces, as in --devices eth1,eth2, and not {}",
            given.len()
        ))),
    }
}

/// The line that describes a link between interfaces.
fn bridge_greeting([first, second]: &[String; 2], [up, down]: &[String; 2]) -> String {
    let link = match up == down {
        true => format!("both ways {up}"),
        false => format!("up {up}; down {down}"),
    };
    format!("{first} and {second} are one network, with a link between: {link}; end it with Ctrl-C")
}

/// The greeting: a line or two that describe the shell before its first prompt.
fn greeting([up, down]: &[String; 2], begun: &Begun) -> String {
    let link = match up == down {
        true => format!("up and down {up}"),
        false => format!("up {up}; down {down}"),
    };
    let world = match begun.reach {
        Reach::World => format!("this machine is {}", begun.base),
        Reach::Base => format!("only the world outside, {}, can be reached", begun.base),
    };
    let congestion = match &begun.congestion_control {
        Some(name) => format!("; congestion control: the kernel's {name}"),
        None => String::new(),
    };
    format!("a shell behind a link: {link}\n      {world}{congestion}; leave with exit or Ctrl-D")
}

/// The meter in the terminal's title.
fn meter([up, down]: &[Pulse; 2]) -> String {
    let one = |name: &str, pulse: &Pulse| {
        let rate = output::with_unit(pulse.rate_bps, "bit/s");
        format!("{name} {rate}, {} waiting, {} lost", pulse.waiting, pulse.lost)
    };
    format!("warpline: {}; {}", one("up", up), one("down", down))
}

/// The failure for a shell's error; for a command that cannot be started, with the exit code of a shell.
fn failure(error: ShellError) -> Failure {
    match error {
        ShellError::Command(error) => error.into(),
        _ => Failure::run(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_has_units_with_a_space() {
        let up = Pulse { rate_bps: 999.0, waiting: 3, lost: 1 };
        let down = Pulse { rate_bps: 12_340_000.0, ..Pulse::default() };
        assert_eq!(
            meter(&[up, down]),
            "warpline: up 999 bit/s, 3 waiting, 1 lost; down 12.3 Mbit/s, 0 waiting, 0 lost"
        );
    }
}
