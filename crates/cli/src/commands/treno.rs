//! `warpline treno`: measures the capacity of a path from one side.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueHint;
use serde_json::json;
use warpline_capacity::{TrenoOptions, TrenoOutcome, TrenoSample};
use warpline_core::TimeDelta;
use warpline_lab::btc::{HopReport, TrenoInput, TrenoReport, claim, render, treno_csv, write_treno};
use warpline_live::measure::path::trace;
use warpline_live::measure::probe::ProbeMode;
use warpline_live::measure::probing::ProbePath;
use warpline_live::measure::treno::{TrenoConfig, TrenoRun, run};
use warpline_live::measure::{Family, MeasureError, resolve};
use warpline_results::RunWriter;
use warpline_scenario::{Size, Time};

use crate::failure::{Code, Failure};
use crate::{interrupt, output};

const EXAMPLES: &str = "\
The far end needs no software: probes are sent as a TCP would send segments, and the answers to
them stand for acknowledgements. Lost answers count as lost probes; rate-limited answers look like
congestion. If both ends are yours, `warpline cap` reports more.

Examples:
  warpline treno host.example
  Hop by hop, for three seconds each:
    warpline treno host.example --hops --duration 3s
  With UDP, and a test beforehand of what this host and the first hop can carry:
    warpline treno host.example --mode udp --calibrate
  For programs:
    warpline treno host.example --json | jq .bulk_transfer_capacity_bps

ICMP uses ping sockets if sysctl net.ipv4.ping_group_range includes your group, else a raw socket
as root. --mode udp needs no privilege.

Exit code: 0 if measured; 1 if not, in part only, or unreliable (alarms); `warpline --help` lists
the others.";

/// The kind of probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// ICMP echo requests
    #[default]
    Icmp,
    /// UDP datagrams to ports where nothing listens
    Udp,
}

impl From<Mode> for ProbeMode {
    fn from(mode: Mode) -> ProbeMode {
        match mode {
            Mode::Icmp => ProbeMode::Icmp,
            Mode::Udp => ProbeMode::Udp,
        }
    }
}

/// Measure the bulk transfer capacity to a host, or along the path to it, from this side alone (TReno)
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The target of the probes
    #[arg(value_hint = ValueHint::Hostname)]
    host: String,

    /// Use IPv4
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,

    /// Use IPv6
    #[arg(short = '6', long)]
    ipv6: bool,

    /// The kind of probes
    #[arg(short, long, value_enum, default_value_t)]
    mode: Mode,

    /// How long to send probes (to each hop, with --hops)
    #[arg(short = 't', long, value_name = "TIME", default_value = "10s")]
    duration: Time,

    /// Let probes travel only this many hops: the router there answers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..), conflicts_with = "hops")]
    ttl: Option<u8>,

    /// Find the routers on the path and measure up to each of them, and then to the target
    #[arg(long)]
    hops: bool,

    /// Largest number of hops to look for
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u8).range(1..))]
    max_hops: u8,

    /// First measure the limits of this host, of the first hop and of small probes, with floods of half a second each
    #[arg(long)]
    calibrate: bool,

    /// Bytes of a probe on the wire; the path may make it smaller [default: the interface's MTU, at most 1500B]
    #[arg(long, value_name = "SIZE")]
    mtu: Option<Size>,

    /// Largest window
    #[arg(long, value_name = "SIZE", default_value = "16MB")]
    max_window: Size,

    /// Initial window in segments
    #[arg(long, value_name = "N", default_value_t = 2)]
    initial_window: u32,

    /// Emulate delayed acknowledgements: take answers in pairs, or after this time [default: each by itself]
    #[arg(long, value_name = "TIME")]
    delayed_ack: Option<Time>,

    /// First retransmission time-out
    #[arg(long, value_name = "TIME", default_value = "3s")]
    initial_rto: Time,

    /// Smallest retransmission time-out
    #[arg(long, value_name = "TIME", default_value = "1s")]
    min_rto: Time,

    /// Give up if nothing answers for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = tangible)]
    patience: Time,

    /// Report the result even if there are alarms
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

    /// Print all results, and the statements on the algorithms (RFC 3148 section 2)
    #[arg(short, long, conflicts_with_all = ["quiet", "csv", "json"])]
    verbose: bool,

    /// Print everything as JSON, for programs
    #[arg(long, conflicts_with_all = ["quiet", "csv"])]
    json: bool,

    /// Print the samples as CSV
    #[arg(long, conflicts_with_all = ["quiet", "hops"])]
    csv: bool,

    /// Print only the capacity, in bit/s
    #[arg(short, long)]
    quiet: bool,
}

/// Results of the tests before the measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Calibration {
    host_bps: Option<f64>,
    first_hop_bps: Option<f64>,
    first_hop_rations: bool,
    probe_rates: Option<(f64, f64)>,
}

impl Args {
    fn options(&self) -> Result<TrenoOptions, Failure> {
        let options = TrenoOptions {
            duration: self.duration.0,
            mtu: self.mtu.map_or(1500, |size| size.0.0.min(u64::from(u32::MAX)) as u32),
            max_window: self.max_window.0.0,
            initial_window: self.initial_window,
            delayed_ack: self.delayed_ack.map(|time| time.0),
            initial_rto: self.initial_rto.0,
            min_rto: self.min_rto.0,
            patience: self.patience.0,
            ..TrenoOptions::default()
        };
        options.validate().map_err(Failure::usage)?;
        Ok(options)
    }

    fn path(&self, target: SocketAddr, ttl: Option<u8>) -> ProbePath {
        ProbePath { target, mode: self.mode.into(), ttl }
    }
}

/// A time in which something can happen: with a shorter one a test gives up before an answer can come, or takes a sample at every turn of
/// its loop.
pub(crate) fn tangible(text: &str) -> Result<Time, String> {
    const LEAST: TimeDelta = TimeDelta::from_millis(1);
    let time: Time = text.parse()?;
    if time.0 < LEAST { Err(format!("it must be at least {LEAST}")) } else { Ok(time) }
}

pub(crate) fn failed(error: MeasureError) -> Failure {
    match error {
        error @ MeasureError::Privilege => Failure::usage(error),
        error => Failure::run(error),
    }
}

/// The message if no probe was ever answered.
pub(crate) fn no_answer(target: &str) -> String {
    format!("nothing answered on the path to {target}")
}

/// The message if answers ended in mid-test.
pub(crate) fn silent(target: &str) -> String {
    format!("{target} stopped answering during the test")
}

fn quiet_run(config: &TrenoConfig, stop: &AtomicBool) -> Result<TrenoRun, Failure> {
    run(config, stop, &mut |_| {}).map_err(failed)
}

/// Floods this host, the first hop and the target for half a second each.
fn calibrate(
    args: &Args,
    target: SocketAddr,
    options: &TrenoOptions,
    stop: &AtomicBool,
) -> Result<Calibration, Failure> {
    /// Long enough for a few round trips, short enough to be acceptable.
    const LONG: TimeDelta = TimeDelta::from_millis(500);
    /// Probes in flight.
    const WINDOW: u32 = 64;
    let flood = |target, ttl, mtu| TrenoConfig {
        path: args.path(target, ttl),
        options: TrenoOptions {
            duration: LONG,
            mtu,
            flat_window: Some(WINDOW),
            max_window: u64::from(u32::MAX),
            ..options.clone()
        },
        interval: LONG,
    };
    let rate = |run: &TrenoRun| {
        let seconds = run.results.elapsed_ns as f64 / 1e9;
        (run.results.data_bytes as f64 * 8.0 / seconds, run.results.replies as f64 / seconds)
    };
    let here: SocketAddr =
        if target.is_ipv4() { (Ipv4Addr::LOCALHOST, 0).into() } else { (Ipv6Addr::LOCALHOST, 0).into() };
    let host = quiet_run(&flood(here, None, options.mtu), stop)?;
    let first = quiet_run(&flood(target, Some(1), options.mtu), stop)?;
    let large = quiet_run(&flood(target, args.ttl, options.mtu), stop)?;
    let small = quiet_run(&flood(target, args.ttl, 48), stop)?;
    let answered = |run: &TrenoRun| run.results.replies > 0;
    // Otherwise the window limited it, and the rate is a window in a round trip.
    let filled = |run: &TrenoRun| {
        let r = &run.results;
        r.lost > 0 || r.rtt_sum_ns >= r.rtt_count * r.rtt_min_ns * 2
    };
    // Less than one window came back: the host limits its answers, not its bandwidth.
    let rations = |run: &TrenoRun| run.results.replies < u64::from(WINDOW);
    Ok(Calibration {
        host_bps: answered(&host).then(|| rate(&host).0),
        first_hop_bps: (answered(&first) && !rations(&first) && filled(&first)).then(|| rate(&first).0),
        first_hop_rations: answered(&first) && rations(&first),
        probe_rates: (answered(&large) && answered(&small) && filled(&large))
            .then(|| (rate(&large).1, rate(&small).1)),
    })
}

fn report_of(
    args: &Args,
    target: &str,
    options: &TrenoOptions,
    run: &TrenoRun,
    tried: Calibration,
) -> TrenoReport {
    let responders = run.responders.iter().map(|r| (r.address.to_string(), r.kind, r.count)).collect();
    let elapsed = run.results.elapsed_ns.max(1);
    TrenoReport::new(&TrenoInput {
        target: target.to_owned(),
        carrier: &run.carrier,
        ttl: run.ttl,
        options,
        outcome: run.outcome,
        results: &run.results,
        responders,
        busy: Some(run.busy_ns as f64 / elapsed as f64),
        host_bps: tried.host_bps,
        first_hop_bps: tried.first_hop_bps,
        first_hop_rations: tried.first_hop_rations,
        probe_rates: tried.probe_rates,
        tell_anyway: args.anyway,
    })
}

fn progress_line(sample: &TrenoSample, before: Option<&TrenoSample>) -> String {
    let (bytes, span) = match before {
        Some(before) => (sample.data_bytes - before.data_bytes, sample.elapsed_ns - before.elapsed_ns),
        None => (sample.data_bytes, sample.elapsed_ns),
    };
    format!(
        "{:>7.1} s  {:>11}  cwnd {:>7}  rtt {:>8.2} ms  lost {}\n",
        sample.elapsed_ns as f64 / 1e9,
        output::with_unit(bytes as f64 * 8e9 / span.max(1) as f64, "bit/s"),
        output::with_unit(sample.cwnd as f64, "B"),
        sample.srtt_ns as f64 / 1e6,
        sample.lost
    )
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let family = match (args.ipv4, args.ipv6) {
        (true, _) => Family::V4,
        (_, true) => Family::V6,
        _ => Family::Any,
    };
    let address = resolve(&args.host, 0, family).map_err(Failure::usage)?;
    let options = args.options()?;
    interrupt::listen(args.out.iter().cloned().collect())?;
    // Before the test: a directory that cannot be written must not cost what is measured.
    let writer =
        args.out.as_deref().map(|out| claim(out, args.force)).transpose().map_err(Failure::output)?;
    let stop = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if interrupt::requested() {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::park_timeout(std::time::Duration::from_millis(30));
            }
        });
        let result = measure(args, address, &options, writer, &stop);
        over.store(true, Ordering::Relaxed);
        result
    })
}

fn measure(
    args: &Args,
    address: SocketAddr,
    options: &TrenoOptions,
    writer: Option<RunWriter>,
    stop: &AtomicBool,
) -> Result<Code, Failure> {
    let shown = !(args.quiet || args.json || args.csv);
    let ip = address.ip().to_string();
    let target = if args.host == ip { ip } else { format!("{} ({ip})", args.host) };
    let mut options = options.clone();
    if args.mtu.is_none()
        && let Ok(socket) =
            warpline_live::measure::probe::ProbeSocket::open(address, args.mode.into(), args.ttl)
        && let Some(mtu) = socket.interface_mtu()
    {
        options.mtu = options.mtu.min(mtu.max(48));
    }
    let options = &options;
    let config = |ttl| TrenoConfig {
        path: args.path(address, ttl),
        options: options.clone(),
        interval: args.interval.0,
    };
    let mut hops: Vec<(u8, Option<TrenoRun>)> = Vec::new();
    if args.hops {
        let found =
            trace(address, args.mode.into(), args.max_hops, TimeDelta::from_secs(1), stop).map_err(failed)?;
        for hop in found.iter().filter(|hop| !hop.target) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let run = match hop.address {
                Some(_) => Some(quiet_run(&config(Some(hop.ttl)), stop)?),
                None => None,
            };
            if shown {
                let address = hop.address.map_or_else(|| "*".to_owned(), |address| address.to_string());
                let bps = run.as_ref().map_or_else(
                    || "no answer".into(),
                    |run| {
                        let nanos = run.results.elapsed_ns.max(1) as f64;
                        output::with_unit(run.results.data_bytes as f64 * 8e9 / nanos, "bit/s")
                    },
                );
                output::print(&format!("{:3}  {address:<40} {bps}\n", hop.ttl))?;
            }
            hops.push((hop.ttl, run));
        }
    }
    // Only now, since floods would use up the answers that routers allow.
    let tried = match args.calibrate && !stop.load(Ordering::Relaxed) {
        true => calibrate(args, address, options, stop)?,
        false => Calibration::default(),
    };
    let mut before: Option<TrenoSample> = None;
    let run = run(&config(args.ttl), stop, &mut |sample| {
        if shown {
            // A failure to show progress is ignored.
            let _ = output::print(&progress_line(sample, before.as_ref()));
        }
        before = Some(*sample);
    })
    .map_err(failed)?;
    let mut report = report_of(args, &target, options, &run, tried);
    report.hops = hops
        .iter()
        .map(|(ttl, run)| {
            let report = run.as_ref().map(|run| report_of(args, &target, options, run, tried));
            HopReport::new(*ttl, report.as_ref())
        })
        .collect();
    let (directory, unwritten) = match writer.map(|writer| write_treno(writer, &report, &run.samples)) {
        Some(Ok(path)) => (Some(path), None),
        // What was measured is shown first.
        Some(Err(error)) => (None, Some(Failure::output(error))),
        None => (None, None),
    };
    let text = if args.json {
        let mut value = json!(report);
        value["samples"] = json!(run.samples);
        value["directory"] = json!(output::json_path(directory.as_deref()));
        format!("{value:#}\n")
    } else if args.csv {
        treno_csv(&run.samples)
    } else if args.quiet {
        report.bulk_transfer_capacity_bps.map_or_else(|| "-\n".to_owned(), |bps| format!("{bps:.0}\n"))
    } else {
        let lines = if args.verbose { report.lines() } else { report.brief() };
        let place = directory
            .map_or_else(String::new, |path| format!("\nReport: {}\n", path.join("report.html").display()));
        format!("\n{}{place}", output::headed(&render(&lines, output::width())))
    };
    output::print(&text)?;
    let code = match run.outcome {
        TrenoOutcome::Stopped => Code::Interrupted,
        TrenoOutcome::NoAnswer => {
            output::error(&no_answer(&target));
            Code::Failed
        }
        TrenoOutcome::Silent => {
            output::error(&silent(&target));
            Code::Failed
        }
        TrenoOutcome::Complete => {
            for alarm in &report.alarms {
                output::error(alarm);
            }
            if report.bulk_transfer_capacity_bps.is_some() { Code::Success } else { Code::Failed }
        }
    };
    unwritten.map_or(Ok(code), Err)
}
