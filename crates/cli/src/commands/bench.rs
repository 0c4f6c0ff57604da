//! `warpline bench`: speed and memory on the standard workloads.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::json;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;
use warpline_study::bench::{Workload, workloads};

use crate::failure::{Code, Failure};
use crate::output::{self, HEADING};
use crate::stopwatch::Stopwatch;

const EXAMPLES: &str = "\
A packet-hop is one packet, data or acknowledgement, that crosses one link. The
workloads are ordinary scenarios with the default TCP: N long-lived flows over a
dumbbell (round trip 50 ms, drop-tail queue of one bandwidth-delay product), one
flow at constant rate over ten links, flows over a chain of ten dumbbells, 20
flows that send bursts into a long queue at 10 Gbit/s, and fat-trees of 128 and
1,024 hosts, each of which sends to another. The time does not include the start
of the program. Each workload runs in a process of its own, so that its peak
memory is its own (Linux only).

Examples:
  warpline bench
  warpline bench --only dumbbell-100 --repeat 5
  warpline bench --only dumbbell-1000 --cores 2
  warpline bench --json > bench.json

`make bench` also measures ns-2 and ns-3.";

/// Measure speed and memory on the standard workloads
///
/// Prints packet-hops and events per second, wall-clock time and peak memory of each workload. With --repeat, these are from the run
/// with the median speed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Run only workloads with this in their name
    #[arg(long, value_name = "NAME")]
    only: Option<String>,

    /// Run each workload this many times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,

    /// Cores that a workload uses, if it can be cut into so many parts
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: u16,

    /// Print JSON, for programs
    #[arg(long)]
    json: bool,

    /// Run one workload in this process and print its measurement
    #[arg(long, hide = true, value_name = "NAME", conflicts_with_all = ["only", "repeat"])]
    measure: Option<String>,
}

/// One run of a workload.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measurement {
    wall_s: f64,
    packet_hops: u64,
    events: u64,
    /// Those that had to be handled one after another.
    critical_events: u64,
    /// Peak resident memory of the process, if the system reports it.
    peak_memory_bytes: Option<u64>,
}

impl Measurement {
    fn packet_hops_per_s(&self) -> f64 {
        self.packet_hops as f64 / self.wall_s
    }
    fn events_per_s(&self) -> f64 {
        self.events as f64 / self.wall_s
    }
}

pub(crate) fn execute(args: &Args) -> Result<Code, Failure> {
    let all = workloads();
    if let Some(name) = &args.measure {
        let workload = all.iter().find(|workload| workload.name == name);
        let measurement = measure(workload.ok_or_else(|| unknown(name, &all))?, args.cores)?;
        output::print(&format!("{}\n", json!(measurement)))?;
        return Ok(Code::Success);
    }
    let chosen: Vec<&Workload> = all
        .iter()
        .filter(|workload| args.only.as_ref().is_none_or(|only| workload.name.contains(only.as_str())))
        .collect();
    if chosen.is_empty() {
        return Err(unknown(args.only.as_deref().unwrap_or_default(), &all));
    }
    if !args.json {
        output::print(&head())?;
    }
    let mut rows = Vec::new();
    for workload in chosen {
        let mut runs =
            (0..args.repeat).map(|_| in_child(workload, args.cores)).collect::<Result<Vec<_>, _>>()?;
        runs.sort_by(|a, b| a.packet_hops_per_s().total_cmp(&b.packet_hops_per_s()));
        let median = &runs[runs.len() / 2];
        if args.json {
            rows.push(json!({
                "name": workload.name,
                "about": workload.about,
                "packet_hops_per_s": median.packet_hops_per_s(),
                "events_per_s": median.events_per_s(),
                "wall_s": median.wall_s,
                "packet_hops": median.packet_hops,
                "events": median.events,
                "critical_events": median.critical_events,
                "peak_memory_bytes": median.peak_memory_bytes,
                "runs": runs,
            }));
        } else {
            output::print(&row(workload, median))?;
        }
    }
    if args.json {
        output::print(&format!(
            "{:#}\n",
            json!({ "warpline": env!("CARGO_PKG_VERSION"), "workloads": rows })
        ))?;
    } else if cfg!(debug_assertions) {
        output::note("this is a debug build; speed figures are only meaningful for a release build");
    }
    Ok(Code::Success)
}

fn unknown(name: &str, all: &[Workload]) -> Failure {
    let names: Vec<&str> = all.iter().map(|workload| workload.name).collect();
    Failure::usage(format!("no workload has \"{name}\" in its name; there are {}", names.join(", ")))
}

fn measure(workload: &Workload, cores: u16) -> Result<Measurement, Failure> {
    let options = RunOptions { cores: Cores::Exactly(cores.into()), ..RunOptions::default() };
    let scenario = workload.scenario().map_err(Failure::run)?;
    let stopwatch = Stopwatch::start();
    let outcome = run(&scenario, &options, &mut |_| Control::Continue).map_err(Failure::run)?;
    Ok(Measurement {
        wall_s: stopwatch.seconds(),
        packet_hops: outcome.packet_hops,
        events: outcome.events,
        critical_events: outcome.critical_events,
        peak_memory_bytes: peak_memory(),
    })
}

/// Peak resident memory of this process in bytes (`VmHWM` in proc(5)); `None` if that file does not exist.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Measures in a fresh process.
fn in_child(workload: &Workload, cores: u16) -> Result<Measurement, Failure> {
    let failed =
        |why: &str| Failure::run(format!("the workload {} could not be measured: {why}", workload.name));
    let program = env::current_exe().map_err(|error| failed(&error.to_string()))?;
    let child = Command::new(program)
        .args(["bench", "--measure", workload.name, "--cores", &cores.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if !child.status.success() {
        return Err(failed(&format!("its process ended with {}", child.status)));
    }
    serde_json::from_slice(&child.stdout).map_err(|error| failed(&error.to_string()))
}

fn head() -> String {
    let titles = format!(
        "{:<22} {:>15} {:>13} {:>9} {:>11}",
        "workload", "packet-hops/s", "events/s", "wall", "peak memory"
    );
    format!("{}\n", output::styled(HEADING, &titles))
}

fn row(workload: &Workload, run: &Measurement) -> String {
    let memory =
        run.peak_memory_bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6));
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<22} {:>15} {:>13} {:>9} {memory:>11}",
        workload.name,
        output::short(run.packet_hops_per_s()),
        output::short(run.events_per_s()),
        output::spoken_seconds(run.wall_s),
    );
    text
}
