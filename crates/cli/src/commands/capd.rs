//! `warpline capd`: the server of capacity tests.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueHint;
use serde_json::json;
use warpline_capacity::{
    Bound, Direction, Finished, MAX_DURATION, MIN_DURATION, ServerLimits, StrangerLimits,
};
use warpline_core::Rate;
use warpline_live::measure::PORT;
use warpline_live::measure::capd::{CapdConfig, CapdEvent, serve};
use warpline_scenario::Time;

use crate::commands::treno::tangible;
use crate::failure::{Code, Failure};
use crate::{interrupt, output};

/// The limits for strangers, a line for each.
fn stranger_bounds() -> String {
    let limits = StrangerLimits::default();
    let rate = limits.rate.map_or_else(|| "any".to_owned(), |rate| format!("at most {rate:#}"));
    let own = [
        ("--max-rate".to_owned(), format!("{rate}, unless the server sets --max-rate")),
        (
            "--clients-per-address".to_owned(),
            format!(
                "{} tests at the same time; an IPv6 address counts as its /56",
                limits.clients_per_address
            ),
        ),
    ];
    let bounds = Bound::ALL.map(|bound| (bound.option().to_owned(), bound.allowed(&limits)));
    let line = |(option, allowed): (String, String)| format!("  {option:<22} {allowed}\n");
    own.into_iter().chain(bounds).map(line).collect()
}

fn help() -> String {
    let bounds = stranger_bounds();
    format!(
        "{EXAMPLES}\n\nWithout --key-file every client is a stranger. If the server sends to it, these limits apply:\n{}",
        bounds.trim_end()
    )
}

const EXAMPLES: &str = "\
Needs no privilege. Many clients may measure at the same time. Before a client has proven its
address, the server keeps no state for it and answers with no more bytes than it received. Ctrl-C
or SIGTERM ends the server and notifies the clients of running tests.

Examples:
  warpline capd
  Only for those who have the key, for at most a minute and 100 Mbit/s:
    head -c 32 /dev/urandom | base64 > cap.key
    warpline capd --key-file cap.key --max-duration 1min --max-rate 100Mbit/s
  On one address; a line of JSON for every test:
    warpline capd --listen 192.0.2.1 --json >> cap.log";

/// The key shared by client and server.
#[derive(Debug, clap::Args)]
pub(crate) struct Key {
    /// File with the key that server and clients share; all messages are signed with it [default: $WARPLINE_CAP_KEY, or none]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key_file: Option<PathBuf>,
}

/// The key, if there is one. Surrounding white space is ignored.
///
/// # Errors
/// If the file cannot be read, or is empty.
pub(crate) fn read_key(key: &Key) -> Result<Option<Vec<u8>>, Failure> {
    let bytes = match &key.key_file {
        Some(path) => fs::read(path)
            .map_err(|error| Failure::usage(format!("cannot read the key in {}: {error}", path.display())))?,
        None => match std::env::var_os("WARPLINE_CAP_KEY") {
            Some(text) => text.into_encoded_bytes(),
            None => return Ok(None),
        },
    };
    let key = bytes.trim_ascii();
    if key.len() < 8 {
        return Err(Failure::usage(
            "the key is shorter than 8 bytes; make one with: head -c 32 /dev/urandom | base64",
        ));
    }
    Ok(Some(key.to_vec()))
}

/// A limit of the rate, or none.
#[derive(Clone, Copy, Debug)]
struct MaxRate(Option<Rate>);

fn rate_or_any(text: &str) -> Result<MaxRate, String> {
    match text {
        "any" => Ok(MaxRate(None)),
        _ => text
            .parse()
            .map(|rate| MaxRate(Some(rate)))
            .map_err(|error: warpline_core::ParseQuantityError| format!("{error}, or `any`")),
    }
}

/// Serve capacity tests: the other end of `warpline cap`
#[derive(Debug, clap::Args)]
#[command(after_long_help = help())]
pub(crate) struct Args {
    /// Address to listen on [default: all of this host's, IPv4 and IPv6]
    #[arg(short, long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,

    /// Port to listen on
    #[arg(short, long, default_value_t = PORT)]
    port: u16,

    /// Most clients at the same time
    #[arg(long, value_name = "N", default_value_t = ServerLimits::default().clients as u16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients: u16,

    /// Most clients at the same time from one address, without a key
    #[arg(long, value_name = "N", default_value_t = StrangerLimits::default().clients_per_address as u16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    clients_per_address: u16,

    /// Longest test
    #[arg(long, value_name = "TIME", default_value = "10min")]
    max_duration: Time,

    /// Highest rate of a test, on the wire, or `any` [default: any for clients with the key; for others see below]
    #[arg(long, value_name = "RATE", value_parser = rate_or_any)]
    max_rate: Option<MaxRate>,

    #[command(flatten)]
    key: Key,

    /// Forget a client that sends nothing for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = tangible)]
    patience: Time,

    /// End after this many tests [default: never]
    #[arg(long, value_name = "N")]
    tests: Option<u64>,

    /// Send datagrams one by one, without segmentation offload
    #[arg(long)]
    no_offload: bool,

    /// Print a line of JSON for every test
    #[arg(long, conflicts_with = "quiet")]
    json: bool,

    /// Print nothing
    #[arg(short, long)]
    quiet: bool,
}

/// A client's address; IPv4 clients of a dual-stack socket get their plain IPv4 form.
fn plain(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

fn line(finished: &Finished) -> String {
    let (bytes, nanos, word) = match (finished.report.sender, finished.report.receiver) {
        (Some(sender), _) => (sender.data_bytes, sender.elapsed_ns, "sent"),
        (_, Some(receiver)) => (receiver.data_bytes, receiver.elapsed_ns, "received"),
        _ => (0, 0, "exchanged"),
    };
    let rate = if nanos == 0 { 0.0 } else { bytes as f64 * 8e9 / nanos as f64 };
    format!(
        "{}  {} {word} in {:.1} s, {}, {}: {}",
        plain(finished.client),
        output::with_unit(bytes as f64, "B"),
        nanos as f64 / 1e9,
        output::with_unit(rate, "bit/s"),
        finished.cc,
        finished.why
    )
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let limit = args.max_duration.0;
    // As what a client may request: with less, every test would end before it has begun.
    if !(MIN_DURATION..=MAX_DURATION).contains(&limit) {
        return Err(Failure::usage("--max-duration must be 100ms to 24h"));
    }
    if args.max_rate.is_some_and(|rate| rate.0.is_some_and(|rate| rate.as_bps() == 0)) {
        return Err(Failure::usage("--max-rate must be above 0, or any"));
    }
    let strangers = StrangerLimits {
        rate: if args.max_rate.is_some() { None } else { StrangerLimits::default().rate },
        clients_per_address: usize::from(args.clients_per_address),
        ..StrangerLimits::default()
    };
    let listen = SocketAddr::new(args.listen.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)), args.port);
    let config = CapdConfig {
        listen,
        limits: ServerLimits {
            clients: usize::from(args.clients),
            duration: limit,
            rate: args.max_rate.and_then(|rate| rate.0),
            patience: args.patience.0,
            key: read_key(&args.key)?,
            strangers: Some(strangers),
        },
        offload: !args.no_offload,
        tests: args.tests,
    };
    interrupt::listen_plainly()?;
    let stop = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let report = &mut |event: CapdEvent| {
        let text = match event {
            _ if args.quiet => return,
            CapdEvent::Listening(address) if args.json => format!("{}\n", json!({ "listening": address })),
            CapdEvent::Listening(address) => format!("listening on {address} (UDP)\n"),
            CapdEvent::Finished(finished) if args.json => {
                let direction = match finished.direction {
                    Direction::Forward => "forward",
                    Direction::Reverse => "reverse",
                };
                let mut report = json!(finished.report);
                // The counter has 2^31 added, with which it crosses the network.
                if let Some(receiver) = &finished.report.receiver {
                    report["receiver"]["delay_min_us"] = json!(receiver.delay_min());
                }
                let value = json!({
                    "client": plain(finished.client),
                    "direction": direction,
                    "congestion_control": finished.cc.to_string(),
                    "ended": finished.why,
                    "report": report,
                });
                format!("{value}\n")
            }
            CapdEvent::Finished(finished) => line(&finished) + "\n",
        };
        // If the log's reader has gone, keep serving.
        let _ = output::print(&text);
    };
    let mut result = Ok(());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if interrupt::requested() {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::park_timeout(std::time::Duration::from_millis(50));
            }
        });
        let mut served = serve(&config, &stop, report);
        // Machines without IPv6 still have IPv4.
        if served.is_err() && args.listen.is_none() {
            let listen = SocketAddr::from(([0, 0, 0, 0], args.port));
            served = serve(&CapdConfig { listen, ..config.clone() }, &stop, report);
        }
        result = served;
        over.store(true, Ordering::Relaxed);
    });
    result.map_err(Failure::run)?;
    Ok(if interrupt::requested() { Code::Interrupted } else { Code::Success })
}
