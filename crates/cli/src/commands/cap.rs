//! `warpline cap`: the client of capacity tests.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueHint;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::json;
use warpline_capacity::{Bound, CapOptions, Direction, Outcome, Refusal, StrangerLimits, Unreachable};
use warpline_core::TimeDelta;
use warpline_core::parameter::{Choice, Words};
use warpline_lab::btc::{CapInput, CapReport, CapTrace, claim, csv, render, write_run};
use warpline_live::measure::cap::{CapConfig, CapRun, Sample, run};
use warpline_live::measure::probing::ProbePath;
use warpline_live::measure::sender_only::{self, SenderOnlyConfig};
use warpline_live::measure::{Family, MeasureError, PORT, resolve};
use warpline_results::RunWriter;
use warpline_scenario::{BitRate, Size, Time};
use warpline_transport::cc::Algorithm;
use warpline_transport::tcp::Recovery;

use crate::commands::capd::{Key, read_key};
use crate::commands::treno::{Mode, failed, no_answer, silent, tangible};
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
Measures the bulk transfer capacity of RFC 3148: what one TCP connection would get. Both ends
use the TCP of this program, not those of the hosts. First start `warpline capd` on the other
machine.

Examples:
  On one machine:          warpline capd
  On the other:            warpline cap host.example
  The opposite direction; both directions at once:
    warpline cap host.example --reverse
    warpline cap host.example --both
  Another congestion control, for thirty seconds, with all records:
    warpline cap host.example --cc reno --duration 30s --out runs/reno --trace
  With other parameters (after a wrong name the error lists those that exist):
    warpline cap host.example --cc cubic:beta=0.5,hystart=no
  The tool that the IETF's drafts of 2001 describe:
    warpline cap host.example --preset classic
  Without software at the far end, whose answers to pings stand for acknowledgements:
    warpline cap host.example --sender-only
  For programs:
    warpline cap host.example --json | jq '.tests[].bulk_transfer_capacity_bps'

If a host was the bottleneck (processor, socket buffers, its own queue) and not the path, no capacity is reported, except with --anyway.

Exit code: 0 if measured; 1 if not, or in part only; `warpline --help` lists the others.";

/// Presets of the emulated TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Preset {
    /// Today's Linux: CUBIC, RACK, PRR, fine timers
    Linux,
    /// The tool of the IPPM drafts: Reno, RFC 6675, a heartbeat of 500 ms, a first time-out of 3 s
    Classic,
}

/// Measure the bulk transfer capacity to a host that runs `warpline capd`, or from this side alone (RFC 3148)
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where `warpline capd` runs; with --sender-only, any host that answers
    #[arg(value_hint = ValueHint::Hostname)]
    host: String,

    /// Port of `warpline capd`
    #[arg(short, long, default_value_t = PORT)]
    port: u16,

    /// Use IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// Use IPv6
    #[arg(short = '6', long)]
    ipv6: bool,

    /// How long to send data
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s")]
    duration: Time,

    /// The server sends, this side receives
    #[arg(short = 'R', long, conflicts_with = "both")]
    reverse: bool,

    /// Both directions at the same time, as two tests
    #[arg(long)]
    both: bool,

    /// Measure without `warpline capd`: segments are probes, and their answers stand for acknowledgements
    #[arg(long, conflicts_with_all = ["port", "reverse", "both", "no_offload", "ecn", "key_file"])]
    sender_only: bool,

    /// The kind of probes, with --sender-only
    #[arg(long, value_enum, default_value_t, requires = "sender_only")]
    mode: Mode,

    /// The TCP to emulate; other options override parts of it
    #[arg(long, value_enum, default_value = "linux", help_heading = "Emulated TCP")]
    preset: Preset,

    /// Congestion control, with parameters
    #[arg(short = 'C', long, value_name = "NAME[:PARAMETER=VALUE,...]", help = cc_help(), help_heading = "Emulated TCP")]
    cc: Option<Algorithm>,

    /// Loss recovery [default: sack]
    #[arg(long, value_parser = recoveries(), help_heading = "Emulated TCP")]
    recovery: Option<Recovery>,

    /// Bytes of a full segment on the wire, IP and TCP headers included: over IPv6 it has 20 bytes less of data [default: 1500B]
    #[arg(long, value_name = "SIZE", help_heading = "Emulated TCP")]
    segment: Option<Size>,

    /// Window that the receiver advertises [default: 16 MiB; 200 KiB with --preset classic]
    #[arg(long, value_name = "SIZE", help_heading = "Emulated TCP")]
    window: Option<Size>,

    /// Initial window in segments [default: 10; 2 with --preset classic]
    #[arg(long, value_name = "N", help_heading = "Emulated TCP")]
    initial_window: Option<u32>,

    /// First retransmission time-out [default: 1s; 3s with --preset classic]
    #[arg(long, value_name = "TIME", help_heading = "Emulated TCP")]
    initial_rto: Option<Time>,

    /// Smallest retransmission time-out [default: 200ms; 1s with --preset classic]
    #[arg(long, value_name = "TIME", help_heading = "Emulated TCP")]
    min_rto: Option<Time>,

    /// Largest retransmission time-out [default: 120s; 64s with --preset classic]
    #[arg(long, value_name = "TIME", help_heading = "Emulated TCP")]
    max_rto: Option<Time>,

    /// Timer granularity; 0s for none [default: 0s; 500ms with --preset classic]
    #[arg(long, value_name = "TIME", help_heading = "Emulated TCP")]
    granularity: Option<Time>,

    /// Whether time-outs wait for a heartbeat of that granularity [default: no; yes with --preset classic]
    #[arg(long, value_name = "YES|NO", value_parser = yes_or_no, help_heading = "Emulated TCP")]
    heartbeat: Option<bool>,

    /// Send no timestamps: 12 bytes more of data in each segment, fewer RTT samples after losses
    #[arg(long, help_heading = "Emulated TCP")]
    no_timestamps: bool,

    /// How long the receiver may delay an acknowledgement; 0s acknowledges every segment [default: 40ms; 200ms with --preset classic]
    #[arg(long, value_name = "TIME", help_heading = "Emulated TCP")]
    delayed_ack: Option<Time>,

    /// Use ECN (RFC 3168)
    #[arg(long, help_heading = "Emulated TCP")]
    ecn: bool,

    /// Pace segments at a multiple of cwnd/srtt
    #[arg(long, help_heading = "Emulated TCP")]
    pacing: bool,

    /// Limit the sending rate; the result is then not a capacity
    #[arg(long, value_name = "RATE", help_heading = "Emulated TCP")]
    max_rate: Option<BitRate>,

    #[command(flatten)]
    key: Key,

    /// Give up if the server sends nothing for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = tangible)]
    patience: Time,

    /// Send datagrams one by one, without segmentation offload
    #[arg(long)]
    no_offload: bool,

    /// Report the result even if a host was the bottleneck
    #[arg(long)]
    anyway: bool,

    /// How often to show and sample progress
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = tangible)]
    interval: Time,

    /// Directory for the results: btc.json, tables, a report page
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Replace earlier results in the directory given with --out
    #[arg(short, long, requires = "out")]
    force: bool,

    /// Record every segment: tcp.parquet, packets.parquet, qlog and captures, as TCP would show them (in --out)
    #[arg(long, requires = "out")]
    trace: bool,

    /// Print everything that RFC 3148 asks for: every metric, and the statements on the algorithms
    #[arg(short, long, conflicts_with_all = ["quiet", "csv", "json"])]
    verbose: bool,

    /// Print everything as JSON, for programs
    #[arg(long, conflicts_with_all = ["quiet", "csv"])]
    json: bool,

    /// Print the samples as CSV
    #[arg(long, conflicts_with_all = ["quiet", "both"])]
    csv: bool,

    /// Print only the capacity, in bit/s, a line for each test
    #[arg(short, long)]
    quiet: bool,
}

/// How a test is made.
enum Way {
    /// With `warpline capd` at the far end.
    Server(CapConfig),
    /// Without.
    Alone(SenderOnlyConfig),
}

impl Way {
    /// Runs the test. Also returns what carried the segments, in words, if nothing runs at the far end.
    fn run(
        &self,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Sample),
    ) -> Result<(CapRun, Option<&'static str>), MeasureError> {
        match self {
            Way::Server(config) => run(config, stop, progress).map(|run| (run, None)),
            Way::Alone(config) => {
                sender_only::run(config, stop, progress).map(|(run, probes)| (run, Some(probes)))
            }
        }
    }
}

fn cc_help() -> String {
    let [linux, classic] = [CapOptions::default(), CapOptions::classic()].map(|preset| preset.cc.kind());
    format!(
        "Congestion control ({}), and parameters of it [default: {linux}; {classic} with --preset classic]",
        Algorithm::KINDS.join(", ")
    )
}

fn recoveries() -> impl TypedValueParser<Value = Recovery> {
    let named = |word: String| Recovery::ALL.iter().copied().find(|one| one.word() == word);
    PossibleValuesParser::new(Recovery::VOCABULARY.words.iter().map(|word| word.name))
        .map(move |word| named(word).unwrap_or_default())
}

pub(crate) fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("write yes or no".to_owned()),
    }
}

impl Args {
    fn options(&self, direction: Direction, ipv6: bool) -> Result<CapOptions, Failure> {
        let mut options = match self.preset {
            Preset::Linux => CapOptions::default(),
            Preset::Classic => CapOptions::classic(),
        };
        options.duration = self.duration.0;
        options.direction = direction;
        options.cc = self.cc.unwrap_or(options.cc);
        options.recovery = self.recovery.unwrap_or(options.recovery);
        let bytes = |size: Size| size.0.0;
        let packet = self.segment.map_or(options.segment, |size| bytes(size).min(u64::from(u32::MAX)) as u32);
        options.set_packet(packet, ipv6).map_err(Failure::usage)?;
        options.window = self.window.map_or(options.window, bytes);
        options.initial_window = self.initial_window.unwrap_or(options.initial_window);
        let time = |time: Option<Time>, default: TimeDelta| time.map_or(default, |time| time.0);
        options.initial_rto = time(self.initial_rto, options.initial_rto);
        options.min_rto = time(self.min_rto, options.min_rto);
        options.max_rto = time(self.max_rto, options.max_rto);
        options.granularity = time(self.granularity, options.granularity);
        options.heartbeat = self.heartbeat.unwrap_or(options.heartbeat && !options.granularity.is_zero());
        options.timestamps &= !self.no_timestamps;
        if let Some(delay) = self.delayed_ack {
            options.delayed_ack = Some(delay.0).filter(|delay| !delay.is_zero());
        }
        options.ecn = self.ecn;
        options.pacing = self.pacing;
        options.max_rate = self.max_rate.map(|rate| rate.0);
        options.validate().map_err(Failure::usage)?;
        Ok(options)
    }

    fn way(&self, direction: Direction, server: SocketAddr, key: Option<&[u8]>) -> Result<Way, Failure> {
        let options = self.options(direction, server.is_ipv6())?;
        let (patience, interval) = (self.patience.0, self.interval.0);
        Ok(if self.sender_only {
            let path = ProbePath { target: server, mode: self.mode.into(), ttl: None };
            Way::Alone(SenderOnlyConfig { path, options, patience, interval, trace: self.trace })
        } else {
            Way::Server(CapConfig {
                server,
                options,
                key: key.map(<[u8]>::to_vec),
                patience,
                interval,
                trace: self.trace,
                offload: !self.no_offload,
            })
        })
    }

    /// Where the results of a test in this direction go.
    fn target(&self, direction: Direction) -> Option<PathBuf> {
        let out = self.out.clone()?;
        Some(match (self.both, direction) {
            (true, Direction::Forward) => out.join("to"),
            (true, Direction::Reverse) => out.join("from"),
            (false, _) => out,
        })
    }

    fn family(&self) -> Family {
        match (self.ipv4, self.ipv6) {
            (true, _) => Family::V4,
            (_, true) => Family::V6,
            _ => Family::Any,
        }
    }
}

/// How a test from one side ended, as a message for the user.
fn spoken_alone(outcome: Outcome, host: &str) -> String {
    match outcome {
        Outcome::NoAnswer => no_answer(host),
        Outcome::Silent => silent(host),
        other => spoken(other, host, 0, false),
    }
}

/// How a test ended, as a message for the user. `under_way`: whether data had been sent.
fn spoken(outcome: Outcome, host: &str, port: u16, under_way: bool) -> String {
    match outcome {
        Outcome::Complete => "complete".into(),
        Outcome::NoReport => {
            "complete, but the server's report is missing: there are no figures from the other end".into()
        }
        Outcome::NoAnswer => format!(
            "no answer from {host}: `warpline capd` does not run there, or a firewall on the path drops its packets"
        ),
        Outcome::Unreachable(Unreachable::Port) if under_way => {
            format!("nothing listens at {host} any more: `warpline capd` was stopped or killed in mid-test")
        }
        Outcome::Unreachable(Unreachable::Port) => {
            format!("nothing listens at {host}, UDP port {port}: start `warpline capd` there")
        }
        Outcome::Unreachable(Unreachable::Host) if under_way => format!(
            "{host} cannot be reached any more: the route to it, or this host's own address, disappeared in mid-test"
        ),
        Outcome::Unreachable(Unreachable::Host) => {
            format!("{host} cannot be reached: the network, or this host, has no route to it")
        }
        Outcome::Silent => {
            "the server no longer answers: the path went silent, or the server was killed".into()
        }
        Outcome::Unsigned => format!(
            "{host} answers without the key's signature: `warpline capd` has no key there (--key-file), or another host answers"
        ),
        Outcome::Stopped => "stopped here".into(),
        Outcome::Refused(reason, value) => match reason {
            Refusal::Busy => format!("the server is at its limit of {value} clients; try again later"),
            Refusal::Key => {
                "the server has a different key: give its key with --key-file or $WARPLINE_CAP_KEY".into()
            }
            Refusal::Unknown => "the server no longer knows this test: it was restarted".into(),
            Refusal::Moved => {
                "this host's address, as the server sees it, has changed: the path changed in mid-test".into()
            }
            Refusal::TooFast => "the server ended the test: data arrived faster than it granted".into(),
            Refusal::TooLong => "the server ended the test: it took longer than granted".into(),
            Refusal::Stopping => "the server was stopped".into(),
            Refusal::Version => {
                format!("the server speaks version {value} of the protocol, this program version 1")
            }
            Refusal::Options => match Bound::from_code(value) {
                Some(bound) => format!(
                    "the server does not accept this {} from a client without a key: {} is allowed; change it, or give both sides a key (--key-file)",
                    bound.option(),
                    bound.allowed(&StrangerLimits::default())
                ),
                None => "the server does not support these options: its version may be different".into(),
            },
            Refusal::TooLarge => {
                "segments are larger than the MTU of the server's interface; choose a smaller --segment"
                    .into()
            }
            Refusal::Crowded => format!(
                "this address has {value} tests under way, the most that the server allows one address without a key; wait for them to end, or \
                 give both sides a key (--key-file)"
            ),
        },
    }
}

/// A finished test, with its report.
struct Test {
    run: CapRun,
    report: CapReport,
    trace: CapTrace,
}

fn finish(args: &Args, run: CapRun, probes: Option<&str>) -> Test {
    let forward = run.options.direction == Direction::Forward;
    let peer = run.peer;
    let (sending, receiving) = if forward {
        (Some(run.own.host), peer.map(|p| p.host))
    } else {
        (peer.map(|p| p.host), Some(run.own.host))
    };
    let outcome = match (run.outcome, run.too_big) {
        (Outcome::Stopped | Outcome::Silent, Some(mtu)) => format!(
            "a segment of {} bytes is larger than the path's MTU{}; choose a smaller --segment",
            run.packet(),
            mtu.map_or_else(String::new, |mtu| format!(", which is {mtu}"))
        ),
        (outcome, _) if probes.is_some() => spoken_alone(outcome, &args.host),
        (outcome, _) => spoken(outcome, &args.host, run.remote.port(), run.granted.is_some()),
    };
    let here = run.local.ip().to_string();
    let address = match probes {
        Some(_) => run.remote.ip().to_string(),
        None => run.remote.to_string(),
    };
    let there = if args.host == address { address } else { format!("{} ({address})", args.host) };
    let report = CapReport::new(&CapInput {
        options: &run.options,
        outcome: &outcome,
        began_us: Some(run.wall_us),
        ends: CapReport::ends(run.options.direction, &here, &there, run.remote.is_ipv6()),
        sender: run.own.sender.or(peer.and_then(|peer| peer.sender)),
        receiver: run.own.receiver.or(peer.and_then(|peer| peer.receiver)),
        sending,
        receiving,
        same_clock: false,
        probes,
        tell_anyway: args.anyway,
    });
    let mut run = run;
    let trace = CapTrace {
        samples: run.samples.iter().map(|sample| (sample.at, sample.progress)).collect(),
        traced: std::mem::take(&mut run.traced),
        forward,
    };
    Test { run, report, trace }
}

/// A line of progress.
fn progress_line(direction: Direction, sample: &Sample, before: Option<&Sample>) -> String {
    let progress = &sample.progress;
    let (bytes, span) = match before {
        Some(before) => (
            progress.data_bytes.saturating_sub(before.progress.data_bytes),
            sample.at.saturating_since(before.at),
        ),
        None => (progress.data_bytes, progress.elapsed.unwrap_or_default()),
    };
    let rate = bytes as f64 * 8e9 / (span.as_nanos().max(1)) as f64;
    let mut line = format!(
        "{:>7.1} s  {:>11}",
        progress.elapsed.map_or(0.0, TimeDelta::as_secs_f64),
        output::with_unit(rate, "bit/s")
    );
    if direction == Direction::Forward {
        let _ = write!(
            line,
            "  cwnd {:>7}  rtt {:>8.2} ms  retransmitted {}",
            output::with_unit(progress.cwnd as f64, "B"),
            progress.srtt.as_secs_f64() * 1e3,
            progress.retransmits
        );
    }
    line
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let directions: &[Direction] = match (args.reverse, args.both) {
        (_, true) => &[Direction::Forward, Direction::Reverse],
        (true, _) => &[Direction::Reverse],
        _ => &[Direction::Forward],
    };
    let server = resolve(&args.host, args.port, args.family()).map_err(Failure::usage)?;
    let key = read_key(&args.key)?;
    let ways: Vec<Way> = directions
        .iter()
        .map(|&direction| args.way(direction, server, key.as_deref()))
        .collect::<Result<_, Failure>>()?;
    let targets: Vec<PathBuf> = directions.iter().filter_map(|&direction| args.target(direction)).collect();
    interrupt::listen(targets.clone())?;
    // Before the tests: a directory that cannot be written must not cost what they measure.
    let writers = targets
        .iter()
        .map(|target| claim(target, args.force))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::output)?;
    let quiet = args.quiet || args.json || args.csv;
    let halt = AtomicBool::new(false);
    let tests: Vec<Result<_, _>> = std::thread::scope(|scope| {
        let running: Vec<_> = ways
            .iter()
            .zip(directions)
            .map(|(way, &direction)| {
                let (halt, both) = (&halt, args.both);
                scope.spawn(move || {
                    let mut before: Option<Sample> = None;
                    way.run(halt, &mut |sample| {
                        if !quiet {
                            let word = match direction {
                                Direction::Forward if both => "to    ",
                                Direction::Reverse if both => "from  ",
                                _ => "",
                            };
                            let line = progress_line(direction, sample, before.as_ref());
                            // A failure to show progress is ignored.
                            let _ = output::print(&format!("{word}{line}\n"));
                        }
                        before = Some(*sample);
                    })
                })
            })
            .collect();
        // An interruption is passed on while the tests run.
        while running.iter().any(|test| !test.is_finished()) {
            halt.fetch_or(interrupt::requested(), Ordering::Relaxed);
            std::thread::park_timeout(std::time::Duration::from_millis(20));
        }
        running
            .into_iter()
            .map(|test| test.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut done = Vec::new();
    for test in tests {
        let (run, probes) = test.map_err(failed)?;
        done.push(finish(args, run, probes));
    }
    report(args, &done, writers)
}

/// Writes and prints the results. `writers` are those of the tests' directories, if there are some.
fn report(args: &Args, tests: &[Test], writers: Vec<RunWriter>) -> Result<Code, Failure> {
    let (mut directories, mut unwritten) = (Vec::new(), None);
    for (test, writer) in tests.iter().zip(writers) {
        match write_run(writer, true, &test.report, &test.trace) {
            Ok(path) => directories.push(path),
            // What was measured is shown first.
            Err(error) => unwritten = unwritten.or(Some(Failure::output(error))),
        }
    }
    let mut text = String::new();
    if args.json {
        let reports: Vec<_> = tests
            .iter()
            .map(|test| {
                let mut value = json!(test.report);
                value["samples"] = json!(
                    test.trace
                        .samples
                        .iter()
                        .map(|(_, progress)| json!({
                            "elapsed_s": progress.elapsed.map(TimeDelta::as_secs_f64),
                            "data_bytes": progress.data_bytes,
                            "cwnd_bytes": progress.cwnd,
                            "srtt_ms": progress.srtt.as_secs_f64() * 1e3,
                            "retransmits": progress.retransmits,
                        }))
                        .collect::<Vec<_>>()
                );
                value["granted_s"] = json!(test.run.granted.map(|(time, _)| time.as_secs_f64()));
                value
            })
            .collect();
        let directories: Vec<_> =
            directories.iter().map(|path| output::json_path(Some(path.as_path()))).collect();
        text = format!("{:#}\n", json!({ "tests": reports, "directories": directories }));
    } else if args.csv {
        text = tests.iter().map(|test| csv(&test.trace)).collect();
    } else {
        for test in tests {
            let bps = test.report.bulk_transfer_capacity_bps;
            if args.quiet {
                text += &bps.map_or_else(|| "-\n".to_owned(), |bps| format!("{bps:.0}\n"));
                continue;
            }
            // A test that ran its full time has a report, also if it says that nothing arrived.
            if test.report.throughput_bps.is_some() || test.run.outcome == Outcome::Complete {
                let lines = if args.verbose { test.report.lines() } else { test.report.brief() };
                text += &format!("\n{}", output::headed(&render(&lines, output::width())));
            }
        }
        for directory in directories.iter().filter(|_| !args.quiet) {
            let _ = writeln!(text, "\nReport: {}", directory.join("report.html").display());
        }
    }
    output::print(&text)?;
    let mut code = Code::Success;
    for test in tests {
        let granted = test.run.granted.filter(|(time, _)| *time < args.duration.0);
        if let Some((time, _)) = granted {
            output::note(&format!("the server grants at most {time:#}"));
        }
        if test.run.outcome == Outcome::Stopped && test.run.too_big.is_none() {
            code = Code::Interrupted;
        } else if test.run.outcome != Outcome::Complete {
            output::error(&test.report.outcome);
            code = Code::Failed;
        } else if test.report.bulk_transfer_capacity_bps.is_none() {
            for reason in &test.report.judgement.host_limited {
                output::error(reason);
            }
            if test.report.throughput_bps.is_none() {
                output::error(&format!(
                    "no data arrived: packets of {} bytes may be larger than the path's MTU; choose a smaller --segment",
                    test.run.packet()
                ));
            }
            code = Code::Failed;
        }
    }
    unwritten.map_or(Ok(code), Err)
}
