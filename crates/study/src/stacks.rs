//! Stacks with each other: a checked transfer through every ordered pair of stacks that speak the same, over paths that are clean, lose, or reorder.
//!
//! Every stack that a scenario can name takes part, the built-in model, and Linux in guests. Each byte that arrives is compared with what was sent.

use std::fmt::Write;
use std::sync::Mutex;
use std::sync::PoisonError;

use rayon::prelude::*;
use serde::Serialize;
use warpline_lab::run::{Broken, RunError, RunOptions, run};
use warpline_net::Control;
use warpline_scenario::endpoint::Protocol;
use warpline_scenario::{Diagnostics, Endpoint, Scenario, Traffic};

/// The paths: a name, and the keys of the link.
const PATHS: [(&str, &str); 3] = [
    ("clean", ""),
    ("1 % loss", "loss = \"1%\"\n"),
    (
        "5 ms reordering",
        "jitter = { kind = \"uniform\", max = \"5ms\", reorder = true }\nreverse = { jitter = \"none\" }\n",
    ),
];
/// What a guest with another kernel begins with, as a stack: "guest:6.12".
pub const KERNEL: &str = "guest:";
/// Longest run in seconds. Virtual time in which nothing happens costs nothing.
const LONGEST: u32 = 1800;

/// What is transferred between which stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The stacks by the names of their endpoints, each with each; a guest with another kernel as "guest:6.12".
    pub stacks: Vec<String>,
    /// Bytes of each transfer.
    pub bytes: u64,
    /// Seed of the losses and the reordering.
    pub seed: u64,
    /// Runs at a time; 0 for one per core.
    pub jobs: usize,
}

/// The endpoints that send by themselves and need no keys, by name.
pub fn endpoints() -> impl Iterator<Item = &'static str> {
    let carries = |traffic: Traffic| matches!(traffic, Traffic::Model | Traffic::Stack | Traffic::Kernel);
    let all = Endpoint::ALL.iter().filter(move |about| carries(about.traffic)).map(|about| about.name);
    all.filter(|name| {
        let plan = Plan { stacks: vec![(*name).to_owned()], bytes: 1, seed: 1, jobs: 1 };
        jobs(&plan).first().is_some_and(|job| Scenario::from_toml(name, &scenario(job, &plan), &[]).is_ok())
    })
}

/// A transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The stack that sends.
    pub from: String,
    /// The stack that receives.
    pub to: String,
    /// The path.
    pub path: &'static str,
    /// Goodput in bit/s, until the last byte was delivered; none if it was not.
    pub goodput_bps: Option<f64>,
    /// Packets that carried bytes that had been sent before; none for QUIC, whose packets are encrypted.
    pub retransmitted_packets: Option<u64>,
    /// What went wrong.
    pub failure: Option<String>,
}

/// All transfers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// Bytes of each.
    pub bytes: u64,
    /// The transfers.
    pub rows: Vec<Row>,
}

/// Why there is no matrix.
#[derive(Debug, thiserror::Error)]
pub enum MatrixError {
    /// The scenario of a run is not valid. The run's name stands for the file.
    #[error(transparent)]
    Scenario(#[from] Diagnostics),
    /// A run failed.
    #[error("{name}: {source}")]
    Run {
        /// Name of the run.
        name: String,
        /// Why.
        source: RunError,
    },
    /// The threads could not be started.
    #[error("cannot start the threads for the runs: {0}")]
    Threads(String),
    /// It was stopped.
    #[error("stopped before all transfers were made")]
    Stopped,
}

/// A run: from, to, path and the path's keys.
type Job<'a> = (&'a str, &'a str, &'static str, &'static str);

fn jobs(plan: &Plan) -> Vec<Job<'_>> {
    let pairs = plan.stacks.iter().flat_map(|from| plan.stacks.iter().map(move |to| (from, to)));
    // The others cannot talk to each other.
    let pairs = pairs.filter(|(from, to)| protocol(from) == protocol(to));
    pairs.flat_map(|(from, to)| PATHS.map(|(path, keys)| (from.as_str(), to.as_str(), path, keys))).collect()
}

/// What a stack speaks.
fn protocol(stack: &str) -> Protocol {
    Endpoint::named(stack).map_or(Protocol::Tcp, |about| about.protocol)
}

fn name((from, to, path, _): &Job<'_>) -> String {
    let plain = |text: &str| text.replace("stack:", "").replace(" %", "").replace([' ', ':', '/'], "-");
    format!("{}-{}-{}", plain(from), plain(to), plain(path))
}

fn scenario(job: &Job<'_>, plan: &Plan) -> String {
    let (from, to, _, keys) = job;
    let host = |name: &str, endpoint: &str| {
        let (endpoint, kernel) = match endpoint.strip_prefix(KERNEL) {
            Some(kernel) => ("guest", format!("kernel = \"{kernel}\"\n")),
            None => (endpoint, String::new()),
        };
        match endpoint == Endpoint::ALL[0].name {
            true => String::new(),
            false => format!("\n[[host]]\nname = \"{name}\"\nendpoint = \"{endpoint}\"\n{kernel}"),
        }
    };
    let Plan { bytes, seed, .. } = plan;
    format!(
        "name = \"{}\"\nduration = \"{LONGEST}s\"\nseed = {seed}\nsample_interval = \"10s\"\n\
         \n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"10Mbit/s\"\ndelay = \"10ms\"\nqueue = \"droptail,limit=50p\"\n{keys}{}{}\
         \n[[flow]]\nfrom = \"a\"\nto = \"b\"\napp = \"transfer\"\nsize = \"{bytes}B\"\n{}",
        name(job),
        host("a", from),
        host("b", to),
        // Stacks and models do it among themselves.
        if is_guest(from) || is_guest(to) { "verify = true\n" } else { "" },
    )
}

fn is_guest(stack: &str) -> bool {
    stack.starts_with(KERNEL) || Endpoint::named(stack).is_some_and(|about| about.traffic == Traffic::Kernel)
}

/// The scenarios behind the figures: names of files, without endings, and texts.
pub fn scenarios(plan: &Plan) -> Vec<(String, String)> {
    jobs(plan).iter().map(|job| (name(job), scenario(job, plan))).collect()
}

/// Makes all transfers, on all cores unless the plan says otherwise. `observe` is called from several threads with the share that is done and the
/// name of the run that has just ended; it can stop them.
///
/// # Errors
/// If a run cannot be made. A transfer that fails is a row.
pub fn transfers(
    plan: &Plan,
    observe: &(dyn Fn(f64, &str) -> Control + Sync),
) -> Result<Matrix, MatrixError> {
    let all = jobs(plan);
    let done = Mutex::new(0usize);
    let one = |job: &Job<'_>| -> Result<Row, MatrixError> {
        let row = transfer(job, plan, &|| observe(share(&done, all.len(), false), ""))?;
        observe(share(&done, all.len(), true), &name(job));
        Ok(row)
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(plan.jobs)
        .build()
        .map_err(|error| MatrixError::Threads(error.to_string()))?;
    let rows = pool.install(|| all.par_iter().with_max_len(1).map(one).collect::<Result<Vec<_>, _>>())?;
    Ok(Matrix { bytes: plan.bytes, rows })
}

/// The part of the runs that is done; `ended` says that one more is.
fn share(done: &Mutex<usize>, of: usize, ended: bool) -> f64 {
    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
    *done += usize::from(ended);
    *done as f64 / of.max(1) as f64
}

fn transfer(job: &Job<'_>, plan: &Plan, observe: &dyn Fn() -> Control) -> Result<Row, MatrixError> {
    let (from, to, path, _) = *job;
    let name = name(job);
    let scenario = Scenario::from_toml(&name, &scenario(job, plan), &[])?;
    let outcome = run(&scenario, &RunOptions::default(), &mut |_| observe())
        .map_err(|source| MatrixError::Run { name, source })?;
    let broken = outcome.broken.map(|(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why))| why);
    if broken.is_none() && !outcome.complete {
        return Err(MatrixError::Stopped);
    }
    let flow = outcome.summary.flows.first();
    let complete = flow.is_some_and(|flow| flow.delivered_bytes >= plan.bytes && flow.end_s.is_some());
    let failure = broken
        .or_else(|| flow.and_then(|flow| flow.outcome.clone()))
        .or_else(|| outcome.failures.first().cloned())
        .or_else(|| (!complete).then(|| "not all was delivered".to_owned()));
    Ok(Row {
        from: from.to_owned(),
        to: to.to_owned(),
        path,
        goodput_bps: flow.filter(|_| complete).map(|flow| flow.goodput_bps),
        retransmitted_packets: flow
            .filter(|_| protocol(from) != Protocol::Quic)
            .map(|flow| flow.retransmitted_packets),
        failure,
    })
}

impl Matrix {
    /// Whether every transfer was complete.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.failure.is_none())
    }

    /// As tables in Markdown, one for each path: rows send, columns receive. Terminals can show it, too.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "{} bytes from each stack (rows) to each (columns) over 10 Mbit/s with a round trip of 20 ms: goodput in Mbit/s, and packets retransmitted.\n",
            self.bytes
        );
        for (path, _) in PATHS {
            let own = || self.rows.iter().filter(move |row| row.path == path);
            let mut senders: Vec<&str> = own().map(|row| row.from.as_str()).collect();
            senders.dedup();
            let _ = write!(text, "\n| {path} |");
            for to in &senders {
                let _ = write!(text, " {to} |");
            }
            let _ = write!(text, "\n|---|{}\n", "--:|".repeat(senders.len()));
            for from in &senders {
                let _ = write!(text, "| {from} |");
                for to in &senders {
                    let Some(row) = own().find(|row| row.from == **from && row.to == **to) else {
                        text += " - |";
                        continue;
                    };
                    let _ = match (&row.failure, row.goodput_bps) {
                        (None, Some(bps)) => {
                            let again = row.retransmitted_packets.map(|packets| format!(" ({packets})"));
                            write!(text, " {:.2}{} |", bps / 1e6, again.unwrap_or_default())
                        }
                        (failure, _) => write!(text, " FAILED: {} |", failure.as_deref().unwrap_or_default()),
                    };
                }
                text.push('\n');
            }
        }
        text
    }

    /// The same as JSON.
    pub fn to_json(&self) -> String {
        // Strings and numbers only: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}
