//! `warpline prefetch`: replays a trace of web requests against nginx, with and without prefetching.

use std::fs;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::{Subcommand, ValueEnum, ValueHint};
use serde_json::json;
use warpline_apps::prefetch::client::{self, Options, Policy, Report, Speed};
use warpline_apps::prefetch::ppm::Predictor;
use warpline_apps::prefetch::room;
use warpline_apps::prefetch::server::{NO_NICE, Server, ServerError, available, resolve};
use warpline_apps::prefetch::trace::{Synthetic, Trace};
use warpline_core::{Streams, TimeDelta};
use warpline_scenario::access_log;

use crate::failure::{Code, Failure};
use crate::output::{self, with_unit};
use crate::{interrupt, seeds};

const EXAMPLES: &str = "\
Virtual clients replay a trace, each with a cache, and predict (PPM-2/w) their next
requests. Requested and prefetched objects use different connections, to different
ports, on which nginx sends with different congestion controls.

Policies (TCP Nice, OSDI 2002, section 6.1):
  none          nothing is prefetched
  conservative  objects requested within 5 pages with probability 0.25, after 1 s
  aggressive    objects requested within 10 pages with probability 0.00001, at once

Examples:
  On this machine, with a generated trace:
    warpline prefetch run --policy aggressive --duration 60
  Behind a cable modem, with nginx outside:
    warpline shell --down-rate 3mbit --up-rate 500kbit --delay 15ms --queue 50p \\
      --base 'warpline prefetch serve --listen 0.0.0.0 --port 8080 --cc nice' \\
      -- sh -c 'sleep 2; warpline prefetch run --server $WARPLINE_BASE:8080 --policy aggressive'
Give both ends the same trace: the same log, or the same numbers.";

/// Replay a trace of web requests with and without prefetching
///
/// Reports mean response times, hit rates and bytes.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<Run>),
    Serve(Serve),
}

/// The mean pauses that a generated trace may have, in seconds. The shortest is far below what a person needs.
const THINK: RangeInclusive<f64> = 0.001..=1e6;

/// Where requests come from.
#[derive(Debug, clap::Args)]
struct TraceArgs {
    /// Squid's access.log in the native format [default: a generated trace]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Virtual clients
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    clients: u16,
    /// Seconds of the generated trace
    #[arg(long, value_name = "SECONDS", default_value_t = 300, conflicts_with = "log")]
    duration: u64,
    /// Mean seconds between two pages of a client of the generated trace
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, conflicts_with = "log")]
    think: f64,
    /// Pages of the generated site
    #[arg(long, value_name = "N", default_value_t = 300, conflicts_with = "log")]
    pages: u32,
    /// Mean bytes of an object of the generated site
    #[arg(long, value_name = "BYTES", default_value_t = 8000.0, conflicts_with = "log")]
    object_bytes: f64,
    /// Seed of the generated trace
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "log", value_parser = seeds::seed)]
    seed: u64,
}

impl TraceArgs {
    /// The trace, once there is room for its clients.
    fn load(&self) -> Result<Trace, Failure> {
        room::make(self.clients.into()).map_err(Failure::usage)?;
        let trace = match &self.log {
            Some(path) => {
                let text = fs::read_to_string(path)
                    .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
                let requests = access_log::requests(&text)
                    .map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
                Trace::from_log(&requests, self.clients.into())
            }
            None => {
                if !THINK.contains(&self.think) {
                    let message = format!("--think must be from {} to {} s", THINK.start(), THINK.end());
                    return Err(Failure::usage(message));
                }
                if !(self.object_bytes > 0.0 && self.object_bytes.is_finite()) {
                    return Err(Failure::usage("--object-bytes must be above 0"));
                }
                let shape = Synthetic {
                    clients: self.clients.into(),
                    duration: TimeDelta::from_secs(self.duration),
                    pages: self.pages,
                    think: TimeDelta::from_secs_f64(self.think),
                    images: 4,
                    mean_bytes: self.object_bytes,
                };
                Trace::synthetic(&shape, &mut Streams::new(self.seed).stream("prefetch trace"))
            }
        };
        if trace.is_empty() {
            return Err(Failure::usage("the trace has no requests"));
        }
        Ok(trace)
    }
}

/// Congestion controls of nginx's two ports.
#[derive(Debug, clap::Args)]
struct Congestion {
    /// Congestion control of prefetched objects; without Nice in the kernel, nice means LP or Reno, and a note says so
    #[arg(long, value_name = "NAME", default_value = "nice")]
    cc: String,
    /// Congestion control of requested objects
    #[arg(long, value_name = "NAME", default_value = "reno")]
    demand_cc: String,
    /// Fail if a named congestion control is not available, instead of using another
    #[arg(long)]
    strict: bool,
}

impl Congestion {
    fn start(
        &self,
        trace: &Trace,
        address: IpAddr,
        port: u16,
        hints: Option<&Predictor>,
    ) -> Result<(Server, String), Failure> {
        let (cc, note) = resolve(&self.cc, &available());
        match note {
            Some(_) if self.strict => {
                return Err(Failure::run(format!("{NO_NICE}, and --strict allows nothing in its place")));
            }
            Some(note) => output::note(&note),
            None => {}
        }
        let server =
            Server::start(trace, address, port, &self.demand_cc, &cc, hints).map_err(
                |error| match error {
                    ServerError::Congestion { .. } => Failure::usage(error),
                    other => Failure::run(other),
                },
            )?;
        Ok((server, cc))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    None,
    Conservative,
    Aggressive,
}

impl PolicyName {
    fn policy(self) -> Option<Policy> {
        match self {
            PolicyName::None => None,
            PolicyName::Conservative => Some(Policy::CONSERVATIVE),
            PolicyName::Aggressive => Some(Policy::AGGRESSIVE),
        }
    }

    /// What the server expects by this policy, which has learnt from so many seconds of the trace.
    fn predictor(self, trace: &Trace, learn: u64) -> Option<Predictor> {
        self.policy().map(|policy| client::taught(trace, policy.ppm, TimeDelta::from_secs(learn)))
    }
}

/// Replay a trace and report what the clients saw
#[derive(Debug, clap::Args)]
struct Run {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    congestion: Congestion,
    /// First port of a server with the same trace (warpline prefetch serve) [default: its own server]
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["cc", "demand_cc", "strict"])]
    server: Option<String>,
    /// What to prefetch
    #[arg(long, value_name = "POLICY", value_enum, default_value = "aggressive")]
    policy: PolicyName,
    /// Requests that a connection may have under way at once (HTTP/1.1 pipelining)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipeline: u16,
    /// Let the server predict, in a header of its answers (serve --hints), and not the clients
    #[arg(long)]
    hints: bool,
    /// Replay the trace faster by this factor
    #[arg(long, value_name = "FACTOR", default_value = "1")]
    speed: Speed,
    /// Use this many seconds at the start of the trace only to train the predictor, and replay the rest
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    learn: u64,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// Serve the objects of a trace with nginx, until it is stopped
#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    congestion: Congestion,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Port for requested objects; the next port is for prefetched ones
    #[arg(long, value_name = "PORT", default_value_t = 8080, value_parser = clap::value_parser!(u16).range(1..65535))]
    port: u16,
    /// Suggest what to prefetch by this policy, in a header of the answers (run --hints)
    #[arg(long, value_name = "POLICY", value_enum, default_value = "none")]
    hints: PolicyName,
    /// Seconds at the start of the trace from which the suggestions are learnt
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    learn: u64,
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    match &args.command {
        Command::Run(args) => run(args),
        Command::Serve(args) => serve(args),
    }
}

fn serve(args: &Serve) -> Result<Code, Failure> {
    let trace = args.trace.load()?;
    interrupt::listen_plainly()?;
    let hints = args.hints.predictor(&trace, args.learn);
    let (server, cc) = args.congestion.start(&trace, args.listen, args.port, hints.as_ref())?;
    output::note(&format!(
        "http://{} sends with {}, http://{} with {cc}",
        server.demand, args.congestion.demand_cc, server.prefetch
    ));
    while !interrupt::requested() {
        pause(Duration::from_millis(100));
    }
    drop(server);
    Ok(Code::Interrupted)
}

#[expect(clippy::disallowed_methods, reason = "this waits for a signal, and measures nothing")]
fn pause(span: Duration) {
    thread::sleep(span);
}

/// The address with the next port.
fn next_port(address: &str) -> Result<String, Failure> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let next = port.parse::<u16>().ok().and_then(|port| port.checked_add(1));
    let next = next.ok_or_else(|| Failure::usage(format!("`{address}` is not HOST:PORT")))?;
    Ok(format!("{host}:{next}"))
}

fn run(args: &Run) -> Result<Code, Failure> {
    let trace = args.trace.load()?;
    let learn = TimeDelta::from_secs(args.learn);
    if trace.duration() < learn {
        return Err(Failure::usage(format!(
            "--learn {} leaves nothing to replay: the last request of the trace is at {:.0} s",
            args.learn,
            trace.duration().as_secs_f64()
        )));
    }
    interrupt::listen(Vec::new())?;
    let own = match &args.server {
        Some(_) => None,
        None => {
            let hints = args.policy.predictor(&trace, args.learn).filter(|_| args.hints);
            Some(args.congestion.start(&trace, IpAddr::from([127, 0, 0, 1]), 0, hints.as_ref())?)
        }
    };
    let (demand, prefetch) = match (&own, &args.server) {
        (Some((server, _)), _) => (server.demand.to_string(), server.prefetch.to_string()),
        (None, Some(address)) => (address.clone(), next_port(address)?),
        (None, None) => return Err(Failure::run("there is no server")),
    };
    let policy = args.policy.policy();
    let options = Options {
        demand,
        prefetch,
        policy,
        speed: args.speed,
        pipeline: args.pipeline.into(),
        hints: args.hints,
        learn,
    };
    static STOP: AtomicBool = AtomicBool::new(false);
    let report = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !interrupt::requested() && !STOP.load(Ordering::Relaxed) {
                pause(Duration::from_millis(50));
            }
            STOP.store(true, Ordering::Relaxed);
        });
        let report = client::run(&trace, &options, &STOP);
        STOP.store(true, Ordering::Relaxed);
        // The thread never panics and returns nothing.
        let _ = watch.join();
        report
    });
    let report = report.map_err(Failure::run)?;
    let cc = own.as_ref().map(|(_, cc)| cc.as_str());
    let policy =
        args.policy.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    if args.json {
        let value = json!({
            "policy": policy,
            "congestion_control": { "demand": own.as_ref().map(|_| &args.congestion.demand_cc), "prefetch": cc },
            "clients": trace.clients.len(),
            "objects": trace.objects.len(),
            "complete": !interrupt::requested(),
            "report": report,
        });
        output::print(&format!("{value:#}\n"))?;
    } else {
        output::print(&text(&policy, cc, &report))?;
    }
    Ok(match (interrupt::requested(), report.failures) {
        (true, _) => Code::Interrupted,
        (false, 0) => Code::Success,
        (false, _) => Code::Failed,
    })
}

fn text(policy: &str, cc: Option<&str>, report: &Report) -> String {
    let with = cc.map_or_else(String::new, |cc| format!(", prefetching with {cc}"));
    let [median, high, highest] = report.response_quantiles_s.map(|seconds| seconds * 1e3);
    format!(
        "policy {policy}{with}: {} requests in {:.0} s\n  \
         response  {:.1} ms mean ({:.1} ms for requests to the server); median {median:.1}, 90 % {high:.1}, 99 % {highest:.1} ms\n  \
         hits      {:.1} % of the requests, {} of them due to prefetching\n  \
         bytes     {} requested, {} prefetched, {:.1} % of those objects used\n{}",
        report.requests,
        report.seconds,
        report.mean_response_s * 1e3,
        report.mean_fetch_s * 1e3,
        report.hit_rate * 100.0,
        report.prefetch_hits,
        with_unit(report.demand_bytes as f64, "B"),
        with_unit(report.prefetch_bytes as f64, "B"),
        report.useful * 100.0,
        if report.failures > 0 { format!("  failures  {}\n", report.failures) } else { String::new() }
    )
}
