//! `warpline replicate`: pushes a directory to many receivers in the background.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::{Subcommand, ValueHint};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use warpline_apps::replicate::build::Step;
use warpline_apps::replicate::push::{self, Outcome, PushOptions, push};
use warpline_apps::replicate::serve::{self, ServeOptions, serve};
use warpline_apps::replicate::store::{current, manifest};
use warpline_apps::replicate::tree::Tree;
use warpline_core::parameter::Choice as _;
use warpline_core::{Rate, TimeDelta};
use warpline_scenario::Time;
use warpline_stacks::quic::{Identity, KeyError, Settings, Trust};
use warpline_transport::cc::Algorithm;

use crate::failure::{Code, Failure};
use crate::output::{self, counted, spoken_seconds, with_unit};
use crate::stopwatch::Stopwatch;

const EXAMPLES: &str = "\
One key for all machines: make it once, copy it to each (scp), keep it secret.
Anyone who has it can send and receive.
    warpline replicate keygen team.key
    receivers:  warpline replicate serve /srv/site --key team.key
    sender:     warpline replicate push ./site host1 host2 host3 --key team.key

A key for each machine: every machine makes its own; the line that keygen prints
is public. Receivers list the sender's key, the sender lists the receivers' keys.
    sender:     warpline replicate keygen sender.key
    receiver:   warpline replicate keygen receiver.key
                warpline replicate serve /srv/site --key receiver.key --trust senders.txt
    sender:     warpline replicate push ./site host1 --key sender.key --trust receivers.txt

Receivers read /srv/site/current: a link that always leads to a complete version.
It changes in one step when the new version is on the disk.";

/// Push a directory to many receivers in the background
///
/// Data moves over QUIC with TCP Nice, which takes the bandwidth that others leave: there is no rate to set. Either end may be killed at
/// any time; the next push continues from what has arrived.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Keygen(Keygen),
    Serve(Serve),
    Push(Push),
    Verify(Verify),
}

/// Make a key
///
/// Writes the secret key to a new file that only its owner can read, and prints the public one.
#[derive(Debug, clap::Args)]
struct Keygen {
    /// File for the secret key
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

/// Our own key, and the trusted keys.
#[derive(Debug, clap::Args)]
struct Keys {
    /// File with this machine's secret key (made by `warpline replicate keygen`)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    key: PathBuf,
    /// File with the trusted public keys, one per line; for `push`, hosts that a key belongs to can precede it, as in `host1,host2:4433
    /// ed25519:...` [default: peers with the same key]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    trust: Option<PathBuf>,
}

impl Keys {
    fn load(&self) -> Result<(Identity, Trust), Failure> {
        let identity = Identity::load(&self.key).map_err(Failure::usage)?;
        let trust = match &self.trust {
            Some(file) => Trust::load(file).map_err(Failure::usage)?,
            None => Trust::only(identity.public()),
        };
        Ok((identity, trust))
    }
}

/// Receive pushes into a directory
///
/// The directory holds versions; DIRECTORY/current leads to the one in use. One push at a time: a newer one takes over.
#[derive(Debug, clap::Args)]
struct Serve {
    /// The directory; created if it does not exist
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    #[command(flatten)]
    keys: Keys,
    /// Address and port (UDP) to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "[::]:4433")]
    listen: String,
    /// Versions to keep besides the one in use
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep: usize,
    /// End after the first completed push
    #[arg(long)]
    once: bool,
    /// Print events as JSON, one object per line
    #[arg(long)]
    json: bool,
}

/// Push a directory to receivers
///
/// All receivers are served at the same time, up to --at-once. Lost connections are opened again.
#[derive(Debug, clap::Args)]
struct Push {
    /// The directory to push
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// The receivers, as HOST or HOST:PORT [default port: 4433]
    #[arg(value_name = "HOST", required = true, value_hint = ValueHint::Hostname)]
    hosts: Vec<String>,
    #[command(flatten)]
    keys: Keys,
    #[arg(long, value_name = "NAME", default_value = "nice", help = cc_help())]
    cc: String,
    /// Limit the rate to each receiver, as in 500kbit/s or 2MB/s [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit: Option<Rate>,
    /// Most receivers at the same time; those that hang do not count
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    at_once: u16,
    /// Give up a receiver that makes no progress (receiving, comparing or checking) for this long, even if it answers
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = patience)]
    patience: Time,
    /// Leave out devices, sockets, pipes, and links that lead out of the directory
    #[arg(long)]
    skip_special: bool,
    /// Make receivers read every byte that they have, not only compare sizes and times
    #[arg(long)]
    verify: bool,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Check that the version in use is complete and unchanged
///
/// Reads every byte of it and compares it with the checksums from the sender.
#[derive(Debug, clap::Args)]
struct Verify {
    /// The directory of `serve`
    #[arg(value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// Print JSON, for programs
    #[arg(long)]
    json: bool,
}

/// The help of `--cc`, with the names of all congestion controls.
fn cc_help() -> String {
    format!("Congestion control ({}), and parameters of it", Algorithm::KINDS.join(", "))
}

/// A time with its unit; a plain number is in seconds.
fn patience(text: &str) -> Result<Time, String> {
    let seconds = text.parse::<u32>().map(|seconds| Time(TimeDelta::from_secs(seconds.into())));
    seconds.or_else(|_| text.parse::<Time>())
}

/// A rate limit, not too small to send at.
fn rate(text: &str) -> Result<Rate, String> {
    let rate: Rate = text.parse().map_err(|error| format!("{error}"))?;
    if rate.as_bps() < 1000 {
        return Err("the limit must be at least 1kbit/s".to_owned());
    }
    Ok(rate)
}

pub(crate) fn execute(args: Args) -> Result<Code, Failure> {
    match args.command {
        Command::Keygen(args) => keygen(&args),
        Command::Serve(args) => receive(&args),
        Command::Push(args) => send(&args),
        Command::Verify(args) => verify(&args),
    }
}

fn keygen(args: &Keygen) -> Result<Code, Failure> {
    let identity = Identity::create(&args.file).map_err(|error| match error {
        KeyError::File { .. } => Failure::output(error),
        other => Failure::run(other),
    })?;
    output::print(&format!("{}\n", identity.public()))?;
    Ok(Code::Success)
}

fn receive(args: &Serve) -> Result<Code, Failure> {
    let (identity, trust) = args.keys.load()?;
    if trust.names_hosts() {
        return Err(Failure::usage(
            "the list of trusted keys assigns keys to hosts, but a receiver knows senders only by their keys; remove the hosts from the list",
        ));
    }
    let options = ServeOptions { keep: args.keep, once: args.once, settings: Settings::default() };
    let mut observe = |event: serve::Event<'_>| {
        if args.json {
            // If the reader has gone, the receiver goes on.
            let _ = output::print(&format!("{}\n", event_json(&event)));
        } else {
            output::note(&event_text(&event));
        }
    };
    serve(&args.directory, &args.listen, &identity, &trust, options, &mut observe).map_err(|error| {
        match error {
            serve::ServeError::Store(error) => Failure::output(error),
            serve::ServeError::Quic(error) => Failure::run(error),
        }
    })?;
    Ok(Code::Success)
}

fn event_text(event: &serve::Event<'_>) -> String {
    match event {
        serve::Event::Listening { address, current: Some(version) } => {
            format!("listening on {address}; version {version} is in use")
        }
        serve::Event::Listening { address, current: None } => {
            format!("listening on {address}; there is no version yet")
        }
        serve::Event::Refused { reason } => format!("refused: {reason}"),
        serve::Event::Begun { remote, id, files, .. } => {
            format!("{remote} pushes version {id}: {}", counted(*files, "file"))
        }
        serve::Event::Done { id, built, .. } if built.unchanged => format!("version {id} was already in use"),
        serve::Event::Done { id, built, .. } => format!(
            "version {id} is in use: {}, {} of them fetched",
            with_unit(built.total as f64, "B"),
            with_unit(built.fetched as f64, "B")
        ),
        serve::Event::Left { reason } => {
            format!("cannot remove all that is no longer needed: {reason}")
        }
        serve::Event::Failed { remote, reason } => format!("push from {remote} failed: {reason}"),
    }
}

fn event_json(event: &serve::Event<'_>) -> Value {
    match event {
        serve::Event::Listening { address, current } => {
            json!({ "event": "listening", "address": address.to_string(), "current": current })
        }
        serve::Event::Refused { reason } => json!({ "event": "refused", "reason": reason.to_string() }),
        serve::Event::Begun { remote, peer, id, files } => json!({
            "event": "begun", "from": remote.to_string(), "key": peer.map(|key| key.to_string()),
            "version": id.to_string(), "files": files,
        }),
        serve::Event::Done { remote, id, built } => json!({
            "event": "done", "from": remote.to_string(), "version": id.to_string(),
            "unchanged": built.unchanged, "bytes": built.total, "fetched_bytes": built.fetched,
        }),
        serve::Event::Left { reason } => json!({ "event": "left", "reason": reason }),
        serve::Event::Failed { remote, reason } => {
            json!({ "event": "failed", "from": remote.to_string(), "reason": reason })
        }
    }
}

fn send(args: &Push) -> Result<Code, Failure> {
    let (identity, trust) = args.keys.load()?;
    let algorithm: Algorithm = args.cc.parse().map_err(Failure::usage)?;
    let patience = Duration::from_nanos(args.patience.0.as_nanos());
    let options = PushOptions {
        at_once: args.at_once.into(),
        patience,
        skip_special: args.skip_special,
        verify: args.verify,
        limit: args.limit,
        // A receiver that does not answer is noticed within its patience.
        settings: Settings {
            idle_timeout: patience.clamp(Duration::from_secs(2), Duration::from_secs(15)),
            ..Settings::with(algorithm)
        },
    };
    let watch = Stopwatch::start();
    let bars = Bars::new(&args.hosts, args.json || args.quiet);
    let observe = |host: Option<usize>, event: push::Event| bars.observe(host, event);
    let pushed = push(&args.directory, &args.hosts, &identity, &trust, &options, &observe);
    bars.clear();
    let (id, outcomes) = pushed.map_err(|error| match error {
        push::PushError::Scan(error) => Failure::usage(error),
        push::PushError::Quic(error) => Failure::run(error),
    })?;
    let seconds = watch.seconds();
    let described = bars.described();
    if args.json {
        let value = json!({
            "version": id.to_string(),
            "files": described.0,
            "bytes": described.1,
            "skipped": described.2,
            "congestion_control": args.cc,
            "wall_clock_s": seconds,
            "receivers": outcomes.iter().map(outcome_json).collect::<Vec<_>>(),
        });
        output::print(&format!("{value:#}\n"))?;
    } else if !args.quiet {
        let mut text = format!(
            "version {id}: {}, {}\n",
            counted(described.0, "file"),
            with_unit(described.1 as f64, "B")
        );
        let width = outcomes.iter().map(|outcome| outcome.host.len()).max().unwrap_or(0);
        for outcome in &outcomes {
            let _ = writeln!(text, "  {:<width$}  {}", outcome.host, outcome_text(outcome));
        }
        let _ = writeln!(text, "took {}", spoken_seconds(seconds));
        output::print(&text)?;
        if described.2 > 0 {
            output::note(&format!("left out: {}", counted(described.2, "special file or outward link")));
        }
    }
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| outcome.result.is_err()).collect();
    for outcome in &failed {
        if let Err(reason) = &outcome.result {
            output::error(&format!("{}: {reason}", outcome.host));
        }
    }
    Ok(if failed.is_empty() { Code::Success } else { Code::Failed })
}

fn outcome_text(outcome: &Outcome) -> String {
    match &outcome.result {
        Ok(built) if built.unchanged => "had it already".to_owned(),
        Ok(built) => format!(
            "done, {} fetched of {}{}",
            with_unit(built.fetched as f64, "B"),
            with_unit(built.total as f64, "B"),
            if outcome.attempts > 1 {
                format!(", in {} connections", outcome.attempts)
            } else {
                String::new()
            }
        ),
        Err(_) => "failed".to_owned(),
    }
}

fn outcome_json(outcome: &Outcome) -> Value {
    let mut value = json!({
        "host": outcome.host,
        "connections": outcome.attempts,
        "sent_bytes": outcome.sent,
    });
    match &outcome.result {
        Ok(built) => {
            value["state"] = if built.unchanged { "unchanged" } else { "done" }.into();
            value["fetched_bytes"] = built.fetched.into();
        }
        Err(reason) => {
            value["state"] = "failed".into();
            value["reason"] = reason.as_str().into();
        }
    }
    value
}

/// A line for every active receiver.
struct Bars {
    all: MultiProgress,
    hosts: Vec<String>,
    live: Mutex<BTreeMap<usize, ProgressBar>>,
    /// The numbers of files, bytes, and things left out.
    described: Mutex<(usize, u64, usize)>,
}

impl Bars {
    fn new(hosts: &[String], hidden: bool) -> Self {
        let target =
            if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(5) };
        Bars {
            all: MultiProgress::with_draw_target(target),
            hosts: hosts.to_vec(),
            live: Mutex::new(BTreeMap::new()),
            described: Mutex::new((0, 0, 0)),
        }
    }

    fn described(&self) -> (usize, u64, usize) {
        *self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bar(&self, number: usize) -> ProgressBar {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let bar = live.entry(number).or_insert_with(|| {
            let bar = self.all.add(ProgressBar::new(0));
            let style = ProgressStyle::with_template(
                "{prefix:20.bold} [{bar:24.cyan}] {bytes:>10} of {total_bytes:<10} {msg}",
            );
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar.set_prefix(self.hosts.get(number).cloned().unwrap_or_default());
            bar
        });
        bar.clone()
    }

    fn observe(&self, host: Option<usize>, event: push::Event) {
        if let push::Event::Described { files, bytes, skipped, .. } = event {
            *self.described.lock().unwrap_or_else(PoisonError::into_inner) = (files, bytes, skipped);
        }
        let Some(bar) = host.map(|number| self.bar(number)) else { return };
        match event {
            push::Event::Described { .. } => {}
            push::Event::Connecting { attempt: 1 } => bar.set_message("connecting"),
            push::Event::Connecting { attempt } => bar.set_message(format!("connecting, attempt {attempt}")),
            push::Event::Waiting { reason } => bar.set_message(reason),
            push::Event::Progress(now) => {
                bar.set_length(now.total);
                bar.set_position(now.done);
                bar.set_message(match now.step {
                    Step::Comparing => "comparing".to_owned(),
                    Step::Fetching => with_unit(bar.per_sec(), "B/s"),
                    Step::Checking => "checking".to_owned(),
                });
            }
        }
    }

    fn clear(&self) {
        // Without a terminal nothing was drawn.
        let _ = self.all.clear();
    }
}

fn verify(args: &Verify) -> Result<Code, Failure> {
    let directory = args.directory.display();
    let name = current(&args.directory).map_err(Failure::usage)?.ok_or_else(|| {
        Failure::usage(format!("{directory} has no version in use: nothing has been received yet"))
    })?;
    let manifest = manifest(&args.directory, &name).ok_or_else(|| {
        Failure::usage(format!(
            "{directory}/manifests/{name} is missing or damaged: there is nothing to compare with"
        ))
    })?;
    let path = args.directory.join("versions").join(&name);
    let tree = Tree::open(&path)
        .map_err(|error| Failure::run(format!("cannot open {}: {error}", path.display())))?;
    let difference = tree.difference(&manifest, true);
    let (files, _) = manifest.count();
    if args.json {
        let value = json!({
            "version": name, "files": files, "bytes": manifest.data_bytes(),
            "whole": difference.is_none(), "difference": difference,
        });
        output::print(&format!("{value:#}\n"))?;
    } else if difference.is_none() {
        output::print(&format!(
            "version {name} is whole: {}, {}\n",
            counted(files, "file"),
            with_unit(manifest.data_bytes() as f64, "B")
        ))?;
    }
    match difference {
        None => Ok(Code::Success),
        Some(_) if args.json => Ok(Code::Failed),
        Some(text) => Err(Failure::run(format!("version {name} is not as it was sent: {text}"))),
    }
}
