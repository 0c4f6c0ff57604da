//! `warpline nice`: runs a command whose TCP connections yield to all other traffic.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::ValueHint;
use serde_json::json;
use warpline_core::TimeDelta;
use warpline_core::parameter::{Choice as _, Description};
use warpline_live::bpf::{self, Direction, Loaded, Socket, control, sockets};
use warpline_live::nice::means::{Choice, Way, choice};
use warpline_live::nice::{Connections, NiceConfig, NiceError, NiceOutcome, run};
use warpline_live::terminal::Title;
use warpline_scenario::Time;
use warpline_scenario::short::part;
use warpline_transport::cc::{Algorithm, NiceParams};

use crate::failure::{Code, Failure};
use crate::output::{self, counted, short, with_unit};

const EXAMPLES: &str = "\
TCP Nice takes the bandwidth that others leave and yields within a round trip: for
backups, mirrors, uploads, prefetching. Each connection watches its own delay, and
reduces its window when the queue on its path grows, down to two packets every
96 round trips.

Every TCP socket that the command and its children open yields, in any program,
unchanged. What they send yields; with --receive, so does what they download, from
servers that know nothing of it. UDP (QUIC, HTTP/3) does not yield.

Needs root's privileges and Linux 6.4 or later with BTF, as in distributions (see
warpline doctor). The command then runs as root too; use sudo -u or runuser to run it
as another user. Once root has loaded TCP Nice, any user can use it (without
--receive and the meter in the terminal's title). If TCP Nice is not available but
tcp-lp is, tcp-lp is used, which hardly yields, with a note; with --strict the
command does not run.

Examples:
  sudo warpline nice -- rsync -a photos/ backup:/photos
  sudo warpline nice --receive -- curl -O https://example.org/image.iso
  sudo warpline nice -- runuser -u ann -- rclone sync ~ann remote:
  Keep it in the kernel, so that any user and any program can choose it:
    sudo warpline nice load
    warpline nice -- rsync -a photos/ backup:/photos
    iperf3 -c server -C nice
  List the connections that yield:
    sudo warpline nice status

Exit code: the command's; 128 plus the signal's number if a signal ended it.";

/// Run a command whose TCP connections yield to all other traffic, or put TCP Nice into the kernel
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, args_conflicts_with_subcommands = true, subcommand_precedence_over_arg = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Also limit what the command receives, by the window that it advertises
    #[arg(long)]
    receive: bool,
    /// Refuse a substitute if TCP Nice is not available
    #[arg(long)]
    strict: bool,
    /// Show nothing in the terminal's title while the command runs
    #[arg(short, long)]
    quiet: bool,
    /// Report at the end what the connections did
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    parameters: ParameterArgs,
    /// The command and its arguments, after --
    #[arg(trailing_var_arg = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

/// What to do without a command.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Put TCP Nice into the kernel until it is unloaded, for any user and program; or change its parameters
    Load {
        #[command(flatten)]
        parameters: ParameterArgs,
    },
    /// Remove TCP Nice from the kernel again; connections that use it keep it
    Unload,
    /// Say whether TCP Nice is in the kernel, and list the connections that it controls
    Status {
        /// Print JSON, for programs
        #[arg(long)]
        json: bool,
    },
}

/// The algorithm's parameters.
#[derive(Debug, clap::Args)]
struct ParameterArgs {
    #[arg(long, value_name = "PART", value_parser = part, help = help_of("threshold"))]
    threshold: Option<f64>,
    #[arg(long, value_name = "PART", value_parser = part, help = help_of("fraction"))]
    fraction: Option<f64>,
    #[arg(long, value_name = "SEGMENTS", help = help_of("floor"))]
    floor: Option<f64>,
    #[arg(long, value_name = "TIME", value_parser = millis, help = help_of("most_delay"))]
    most_delay: Option<TimeDelta>,
    /// The paper's own form, without later additions
    #[arg(long)]
    paper: bool,
}

/// What a parameter of TCP Nice means, and its default.
fn help_of(name: &str) -> String {
    let parameters = Algorithm::Nice(NiceParams::default()).describe();
    let found = parameters.into_iter().find(|parameter| parameter.name == name);
    found.map_or(String::new(), |Description { about, default, .. }| {
        let default = default.map(|default| format!(" [default: {}]", default.plain())).unwrap_or_default();
        format!("{}{default}", about.trim_end_matches('.'))
    })
}

/// A time; a plain number is milliseconds.
fn millis(text: &str) -> Result<TimeDelta, String> {
    let text = if text.parse::<f64>().is_ok() { format!("{text}ms") } else { text.to_owned() };
    text.parse::<Time>().map(|time| time.0)
}

impl ParameterArgs {
    /// The parameters, if the user gave any.
    fn given(&self) -> Option<NiceParams> {
        let default = if self.paper { NiceParams::paper() } else { NiceParams::default() };
        let given = NiceParams {
            threshold: self.threshold.unwrap_or(default.threshold),
            fraction: self.fraction.unwrap_or(default.fraction),
            floor: self.floor.unwrap_or(default.floor),
            most_delay: self.most_delay.unwrap_or(default.most_delay),
            ..default
        };
        let any = self.threshold.or(self.fraction).or(self.floor).is_some() || self.most_delay.is_some();
        (any || self.paper).then_some(given)
    }
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    match args.action {
        Some(Action::Load { parameters }) => load(&parameters),
        Some(Action::Unload) => unload(),
        Some(Action::Status { json }) => status(json),
        None if args.command.is_empty() => Err(Failure::usage(
            "name what to run, as in warpline nice -- rsync ..., or one of load, unload, status",
        )),
        None => command(args),
    }
}

fn load(parameters: &ParameterArgs) -> Result<Code, Failure> {
    let given = parameters.given();
    let before = control::load(given.as_ref()).map_err(failure)?;
    let text = match (before, given) {
        (false, _) => {
            "TCP Nice is in the kernel. Any program may choose it: setsockopt(TCP_CONGESTION, \"nice\").\n"
        }
        (true, None) => "TCP Nice was already in the kernel, and stays.\n",
        (true, Some(_)) => {
            "TCP Nice was already in the kernel; its parameters are changed, for all connections.\n"
        }
    };
    output::print(text)?;
    Ok(Code::Success)
}

fn unload() -> Result<Code, Failure> {
    let there = control::unload().map_err(failure)?;
    output::print(match (there, control::status()) {
        (_, Some(_)) => "TCP Nice stays in the kernel as long as commands use it (warpline nice status).\n",
        (true, None) => {
            "TCP Nice is no longer in the kernel. Connections that use it keep it until they end.\n"
        }
        (false, None) => "TCP Nice was not in the kernel.\n",
    })?;
    Ok(Code::Success)
}

fn status(as_json: bool) -> Result<Code, Failure> {
    if !bpf::is_built() {
        return Err(failure(bpf::BpfError::NotBuilt));
    }
    let loaded = control::status();
    let list = match loaded.as_ref() {
        Some(loaded) if loaded.is_foreign() => Ok(Vec::new()),
        _ => sockets::all(),
    };
    let list = match list {
        Err(error @ bpf::BpfError::Privilege) if !as_json => {
            output::print(known_to_users(choice(bpf::NAME)))?;
            return Err(Failure::run(format!("cannot list its connections: {error}")));
        }
        other => other.map_err(failure)?,
    };
    if as_json {
        output::print(&format!("{:#}\n", json!({ "loaded": loaded, "connections": list })))?;
        return Ok(Code::Success);
    }
    let mut text = state(loaded.as_ref());
    if loaded.is_some_and(|loaded| loaded.is_foreign()) {
        text += "What its connections do cannot be read.\n";
    } else if list.is_empty() {
        text += "It controls no connection in this network namespace.\n";
    } else {
        text += &format!(
            "\n{:<22} {:<22} {:<9} {:>8} {:>9} {:>9} {:>9} {:>9} {:>8}\n",
            "local", "remote", "yields", "window", "RTT ms", "base ms", "max ms", "bytes", "yielded"
        );
        for socket in &list {
            text += &row(socket);
        }
    }
    output::print(&text)?;
    Ok(Code::Success)
}

/// Whether TCP Nice is in the kernel, and how.
fn state(loaded: Option<&Loaded>) -> String {
    let Some(loaded) = loaded else { return "TCP Nice is not in the kernel.\n".to_owned() };
    let Some(p) = loaded.parameters else {
        return format!("This version's TCP Nice is not in the kernel: {}.\n", bpf::BpfError::Foreign);
    };
    format!(
        "TCP Nice is in the kernel, {}; threshold {:.3}, fraction {:.3}, floor {:.4} segments.\n",
        if loaded.stays { "until it is unloaded" } else { "while commands use it" },
        p.threshold,
        p.fraction,
        p.floor
    )
}

/// What can be reported without a privilege.
fn known_to_users(choice: Choice) -> &'static str {
    match choice {
        Choice::Free => "TCP Nice is in the kernel, and you may use it.\n",
        Choice::Forbidden => {
            "TCP Nice is in the kernel, but users may not choose it (sysctl net.ipv4.tcp_allowed_congestion_control).\n"
        }
        Choice::Absent => "TCP Nice is not in the kernel.\n",
    }
}

fn row(socket: &Socket) -> String {
    let (direction, window, bytes) = match socket.direction {
        Direction::Sends => ("sending", socket.window, socket.bytes_acked),
        Direction::Receives => ("receiving", socket.receive_window, socket.bytes_received),
        Direction::Both if socket.bytes_received > socket.bytes_acked => {
            ("both", socket.receive_window, socket.bytes_received)
        }
        Direction::Both => ("both", socket.window, socket.bytes_acked),
    };
    format!(
        "{:<22} {:<22} {:<9} {:>8.2} {:>9.2} {:>9.2} {:>9.2} {:>9} {:>6.0} %\n",
        socket.local.to_string(),
        socket.remote.to_string(),
        direction,
        window,
        socket.srtt_ms,
        socket.base_rtt_ms,
        socket.max_rtt_ms,
        short(bytes as f64),
        percent(socket.yielded_s / socket.age_s.max(1e-9)),
    )
}

fn percent(part: f64) -> f64 {
    part.clamp(0.0, 1.0) * 100.0
}

fn command(args: Args) -> Result<Code, Failure> {
    let config = NiceConfig {
        command: args.command,
        parameters: args.parameters.given(),
        receive: args.receive,
        strict: args.strict,
    };
    super::clean::before();
    let mut title = if args.quiet { None } else { Title::of_stderr() };
    let watch = |reading: &Connections| {
        if let Some(title) = title.as_mut().filter(|_| reading.connections > 0) {
            title.show(&describe(reading));
        }
    };
    let began = |way: &Way| {
        if way.is_lesser() {
            output::note(&way.to_string());
        }
    };
    let lingers = || {
        output::note(
            "the command has ended; processes that it left running still need this program to connect, so it waits for them (Ctrl-C ends that)",
        );
    };
    let outcome = run(&config, began, watch, lingers).map_err(nice_failure);
    drop(title);
    let outcome = outcome?;
    report(&outcome, args.verbose, args.quiet);
    Ok(outcome.status.into())
}

/// What the connections do now, for the title of the terminal, so that it does not mix with the command's output.
fn describe(reading: &Connections) -> String {
    let mut text = "nice:".to_owned();
    if reading.sent_rate >= reading.received_rate {
        let _ = write!(text, " sending {}", with_unit(reading.sent_rate, "bit/s"));
    } else {
        let _ = write!(text, " receiving {}", with_unit(reading.received_rate, "bit/s"));
    }
    let _ = write!(
        text,
        ", {}, window {:.1} segments, backed off {:.0} % of the time",
        counted(reading.connections, "connection"),
        reading.window,
        percent(reading.yielded),
    );
    text
}

/// Prints at the end what went wrong, or, if requested, everything.
fn report(outcome: &NiceOutcome, verbose: bool, quiet: bool) {
    if let Some(counts) = outcome.counts {
        if counts.refused > 0 {
            output::note(&format!(
                "{} could not be made to yield",
                counted(counts.refused as usize, "socket")
            ));
        }
        if counts.unstamped > 0 {
            output::note(&format!(
                "{} received without yielding: data came without TCP timestamps, or behind IPv6 extension headers",
                counted(counts.unstamped as usize, "connection")
            ));
        }
    }
    if !quiet && let Some(hint) = hint(&outcome.way, outcome.reading.as_ref()) {
        output::note(&hint);
    }
    if !verbose {
        return;
    }
    let mut text = outcome.way.to_string();
    if let Some(reading) = outcome.reading {
        let _ = write!(
            text,
            "; {} sent and {} received as far as seen, backed off {:.0} % of the time",
            with_unit(reading.sent_bytes as f64, "B"),
            with_unit(reading.received_bytes as f64, "B"),
            percent(reading.yielded)
        );
    }
    output::note(&text);
}

/// Received bytes from which a note says that they did not yield.
const MUCH: u64 = 1_000_000;

/// A hint if the command downloaded without `--receive`, which is probably a mistake.
fn hint(way: &Way, reading: Option<&Connections>) -> Option<String> {
    let reading = reading.filter(|_| *way == Way::Nice { receive: false })?;
    let much = reading.received_bytes >= MUCH && reading.received_bytes / 10 > reading.sent_bytes;
    much.then(|| {
        format!(
            "the command received {}, which did not yield: use --receive for downloads",
            with_unit(reading.received_bytes as f64, "B")
        )
    })
}

fn failure(error: bpf::BpfError) -> Failure {
    match error {
        bpf::BpfError::Parameter(_) => Failure::usage(error),
        _ => Failure::run(error),
    }
}

/// The failure for an error; for a command that cannot be started, with the exit code of a shell.
fn nice_failure(error: NiceError) -> Failure {
    match error {
        NiceError::Command(error) => error.into(),
        NiceError::Bpf(bpf::BpfError::Parameter(_)) => Failure::usage(error),
        _ => Failure::run(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_meter_has_a_space_before_each_unit() {
        let reading = Connections {
            sent_rate: 512.0,
            connections: 1,
            window: 2.0,
            yielded: 0.25,
            ..Connections::default()
        };
        let text = "nice: sending 512 bit/s, 1 connection, window 2.0 segments, backed off 25 % of the time";
        assert_eq!(describe(&reading), text);
    }

    #[test]
    fn another_version_s_is_said_to_be_and_how_to_unload_it() {
        let own = Loaded { parameters: Some(NiceParams::default()), stays: true };
        assert_eq!(
            state(Some(&own)),
            "TCP Nice is in the kernel, until it is unloaded; threshold 0.200, fraction 0.400, floor 0.0208 segments.\n"
        );
        let text = state(Some(&Loaded { parameters: None, stays: true }));
        assert!(text.contains("another version's") && text.contains("warpline nice unload"), "{text}");
        assert_eq!(state(None), "TCP Nice is not in the kernel.\n");
    }

    #[test]
    fn a_download_that_did_not_yield_is_pointed_out() {
        let reading = Connections { received_bytes: 20_000_000, sent_bytes: 81, ..Connections::default() };
        let sends = Way::Nice { receive: false };
        let text = hint(&sends, Some(&reading)).unwrap();
        assert!(text.contains("20.0 MB") && text.contains("--receive"), "{text}");
        assert_eq!(hint(&Way::Nice { receive: true }, Some(&reading)), None);
        assert_eq!(hint(&sends, Some(&Connections { sent_bytes: 20_000_000, ..reading })), None);
        assert_eq!(hint(&sends, Some(&Connections { received_bytes: 1000, ..reading })), None);
        assert_eq!(hint(&sends, None), None);
    }

    #[test]
    fn the_line_says_what_the_connections_do() {
        let reading = Connections {
            connections: 3,
            sent_rate: 12.34e6,
            received_rate: 1e3,
            sent_bytes: 1,
            received_bytes: 1,
            window: 14.25,
            yielded: 0.234,
        };
        assert_eq!(
            describe(&reading),
            "nice: sending 12.3 Mbit/s, 3 connections, window 14.2 segments, backed off 23 % of the time"
        );
        let other = Connections { connections: 1, received_rate: 2e9, ..reading };
        assert!(describe(&other).starts_with("nice: receiving 2.00 Gbit/s, 1 connection, "));
    }
}
