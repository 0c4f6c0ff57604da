//! `warpline run`: runs a scenario and writes its results and report.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueHint;
use serde_json::json;
use warpline_core::TimeDelta;
use warpline_lab::run::parts::Cores;
use warpline_lab::run::watch::Watch;
use warpline_lab::run::{
    ApartError, Broken, CustomCc, Listen, Progress, RunError, RunOptions, RunOutcome, check, load, prepare,
    run, run_apart,
};
use warpline_net::Control;
use warpline_results::render;
use warpline_scenario::{ClockMode, Scenario, Time};
use warpline_study::replicate::{Replicated, replicate, seed_directory};

use crate::bar::Bar;
use crate::commands::report::REPORT_FILE;
use crate::destination::Destination;
use crate::failure::{Code, Failure};
use crate::metrics::Metrics;
use crate::mishaps::Mishaps;
use crate::seeds::Seeds;
use crate::stopwatch::Stopwatch;
use crate::stream::Stream;
use crate::together::Together;
use crate::{interrupt, junit, metrics, output, seeds, stream, suggestion};

const EXAMPLES: &str = "\
Examples:
  Run a scenario; results go to runs/dumbbell-1:
    warpline run scenarios/dumbbell.toml
  Another congestion control, into a directory of your choice:
    warpline run scenarios/dumbbell.toml --set flow.bulk.cc=vegas --out runs/vegas
  Twenty seeds on all cores, with means and 95 % confidence intervals:
    warpline run scenarios/dumbbell.toml --seeds 1..20
  A scenario that another program makes:
    ./make-scenario | warpline run -
  On one core, and how many it would use:
    warpline run scenarios/dumbbell.toml --cores 1
    warpline run scenarios/dumbbell.toml --verbose
  For programs:
    warpline run scenarios/dumbbell.toml --json | jq .summary.totals.goodput_bps
    warpline run scenarios/dumbbell.toml --json-stream | jq 'select(.event == \"progress\").share'

Results (a run directory is written completely or not at all):
  summary.json  metrics in total, per group, flow and link
  scenario.toml the scenario as it was run; it can be run again from here, wherever the directory is
  inputs/       copies of the traces and logs that the scenario reads
  *.parquet     tables: flows, links, transfers, time series, and what `record` requests
  *.pcapng      captures for Wireshark, of links with record = [\"pcap\"]
  *.sqlog       qlog, of flows with record = [\"qlog\"]
  report.html   plots and tables in one file
  programs/     output of programs on live hosts and guests: HOST.NAME.stdout, HOST.NAME.stderr;
                and files collected from guests

With [clock] mode = \"real\" (or --clock real) hosts can be live: real programs in network namespaces,
whose packets cross the same links. Under any clock hosts can be guests: Linux kernels with real
programs, in the time of the run. The dilated clock (--tdf 10) runs slower than this machine's, so
the world is faster to them by that factor. If a program does not end as the scenario expects, the
exit code is 1; if a run lags more than clock.max_lag, it is 4.

Ctrl-C or SIGTERM stops the run, keeps what was measured until then and says so:
exit code 130, and \"stopped\" in summary.json. A second one changes nothing; a
third ends at once. What it leaves of guests, \"warpline clean\" removes.";

/// Run a scenario: summary, tables and a report
///
/// Prints a summary and, on the last line, the path of the report.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// Scenario file, or - for standard input (its paths are then relative to the current directory)
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Seed of all randomness, instead of the scenario's; the first seed with --replications
    ///
    /// A list `replications.seeds` of the scenario does not count then; `replications.runs` still does, and counts up from this seed.
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = seeds::seed)]
    seed: Option<u64>,

    /// Directory for the results [default: runs/NAME-SEED, with a number if that exists]
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,

    /// Replace an earlier run in the directory given with --out
    #[arg(short, long, requires = "out")]
    force: bool,

    /// Change a value of the scenario: duration=10s, flow.NAME.cc=vegas, link[r1-r2].rate=5Mbit/s; may be given several times
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,

    /// Clock, instead of the scenario's: virtual (a simulation), real or dilated (live hosts; Linux)
    #[arg(long, value_name = "CLOCK", value_parser = ClockMode::ALL.map(ClockMode::name))]
    clock: Option<String>,

    /// Use the dilated clock with this time dilation factor: seconds of this machine for a second of the run; or auto
    #[arg(long, value_name = "FACTOR")]
    tdf: Option<String>,

    /// Run this many times, with increasing seeds
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    replications: Option<u32>,

    /// Run once for each seed: 1..20 (both ends count) or 1,2,5
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<Seeds>,

    /// Runs at the same time [default: one per core]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Cores for one simulated run [default: as many as make it faster]
    ///
    /// The results are the same bytes for any number.
    #[arg(short, long, value_name = "N", value_parser = cores)]
    cores: Option<NonZero<u16>>,

    /// Let `warpline set` change links, and `warpline enter` start commands on live hosts, while the run goes on (real and dilated clock): listen at this path, or where they find it by themselves. The run's scenario.toml keeps the changes
    #[arg(long, hide_short_help = true, value_name = "PATH", num_args = 0..=1, require_equals = true, value_hint = ValueHint::FilePath)]
    control: Option<Option<PathBuf>>,

    /// Say into which parts a simulated run is cut, and why
    #[arg(short, long, conflicts_with = "quiet", hide_short_help = true)]
    verbose: bool,

    /// Leave out report.html
    #[arg(long)]
    no_report: bool,

    /// Write what passed and what failed as JUnit XML, for CI: for each seed, a test case for each program and one for the run
    #[arg(long, hide_short_help = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    junit: Option<PathBuf>,

    /// Print JSON on standard output, for programs
    #[arg(long, conflicts_with = "quiet")]
    json: bool,

    /// Print lines of JSON on standard output while the run goes on: its begin, its progress, flows and links in each period, its end
    #[arg(long, hide_short_help = true, conflicts_with_all = ["json", "quiet", "replications", "seeds"])]
    json_stream: bool,

    /// The run's time between two lines of --json-stream about flows and links, a whole number of intervals (sample_interval) [default: 1s, or the least above it]
    #[arg(long, hide_short_help = true, value_name = "TIME", requires = "json_stream")]
    period: Option<Time>,

    /// Serve OpenMetrics text of flows, links and lateness at this address while the run goes on, for Prometheus; a port alone is one of 127.0.0.1
    #[arg(long, hide_short_help = true, value_name = "ADDRESS", value_parser = metrics::address, conflicts_with_all = ["replications", "seeds"])]
    metrics: Option<SocketAddr>,

    /// Print only the path of the report, or of the run directory with --no-report
    #[arg(short, long)]
    quiet: bool,

    /// Stop, as by Ctrl-C, when the process with this number, which has started this one, is gone: for `warpline lab`
    #[cfg(unix)]
    #[arg(long, hide = true, value_name = "PROCESS")]
    with_parent: Option<u32>,
}

/// Reads a number of cores.
fn cores(text: &str) -> Result<NonZero<u16>, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a number of cores; write 1 or more"))
}

impl Args {
    /// The seeds to run: the command line's, else the scenario's.
    ///
    /// # Errors
    /// If they would go beyond the largest.
    fn seeds(&self, scenario: &Scenario) -> Result<Vec<u64>, String> {
        let planned = scenario.replications.as_ref().and_then(|plan| plan.runs);
        match (&self.seeds, self.replications, self.seed) {
            (Some(Seeds(seeds)), ..) => Ok(seeds.clone()),
            (None, Some(count), first) => seeds::following(first.unwrap_or(scenario.seed), count),
            // A list of seeds in the scenario does not count then, but a number of runs does.
            (None, None, Some(first)) => seeds::following(first, planned.unwrap_or(1)),
            (None, None, None) => Ok(scenario.seeds()),
        }
    }
}

/// What a command line comes to.
struct Plan {
    scenario: Scenario,
    seeds: Vec<u64>,
    options: RunOptions,
    /// Time between two lines of the stream about flows and links.
    period: TimeDelta,
    /// Where metrics are served.
    metrics: Option<TcpListener>,
    /// The directory of the results, until they are in place.
    _claimed: Option<Destination>,
}

pub(crate) fn execute(args: Args, together: &mut Together) -> Result<Code, Failure> {
    let name = if args.file == Path::new("-") { None } else { args.file.file_stem() };
    let name = name.map_or("standard input".into(), |stem| stem.to_string_lossy());
    let plan = plan(&args, together);
    let mut plan = together.agree(plan).map_err(|failure| refused(&args, &name, failure, together))?;
    if let [_] = plan.seeds[..] {
        if let Some(listener) = plan.metrics.take() {
            plan.options.watchers.0.push(Metrics::serve(listener, &plan.scenario));
        }
        let streamed =
            (args.json_stream && together.speaks()).then(|| Stream::begin(&plan.scenario, plan.period));
        let stream = streamed.as_ref().map(|(stream, _)| Arc::clone(stream));
        plan.options.watchers.0.extend(stream.clone().map(|stream| stream as Arc<dyn Watch>));
        let ended = one(&args, &plan.scenario, &plan.options, together, stream.as_deref());
        let Some((stream, writing)) = streamed else { return ended };
        if let Err(failure) = &ended {
            stream.fail(failure);
        }
        after(ended, writing.wait(&stream))
    } else {
        several(&args, &plan.scenario, &plan.seeds, &plan.options, together)
    }
}

/// How the command ends, from the end of the run and from whether its output could be written. If both failed, the exit code is the run's, and the
/// error of writing is printed here.
fn after(ended: Result<Code, Failure>, written: Result<(), Failure>) -> Result<Code, Failure> {
    match (ended, written) {
        (Ok(Code::Success), Err(unwritten)) => Err(unwritten),
        (ended, Err(unwritten)) => {
            output::error(unwritten.message());
            ended
        }
        (ended, Ok(())) => ended,
    }
}

/// Tells CI, too, that there was no run.
fn refused(args: &Args, scenario: &str, failure: Failure, together: &Together) -> Failure {
    if together.speaks()
        && let Err(unwritten) = junit::write_error(args.junit.as_deref(), scenario, failure.message())
    {
        output::error(unwritten.message());
    }
    failure
}

/// What cannot be asked of several processes.
fn allowed_together(args: &Args) -> Result<(), Failure> {
    let (what, instead) = if args.file == Path::new("-") {
        ("standard input, which only one of them would get", "name a file that all of them can read")
    } else if args.cores.is_some() {
        ("--cores", "each process runs one part, so start as many processes as there are cores")
    } else {
        return Ok(());
    };
    Err(Failure::usage(format!("a run in several processes does not take {what}: {instead}")))
}

fn plan(args: &Args, together: &Together) -> Result<Plan, Failure> {
    let several = together.count() > 1;
    if several {
        allowed_together(args)?;
    }
    let source = suggestion::scenario(&args.file)?;
    let mut sets = args.sets.clone();
    if let Some(mode) = args.clock.as_deref().or(args.tdf.is_some().then_some("dilated")) {
        // What the scenario sets for another clock does not apply to this one.
        let own = source.load(&sets).is_ok_and(|own| own.clock.mode.name() == mode);
        if !own {
            sets.push(format!("clock={{ mode = {mode:?} }}"));
        }
        sets.extend(args.tdf.as_ref().map(|tdf| format!("clock.tdf={tdf}")));
    }
    let mut scenario = load(&source, &sets).map_err(Failure::usage)?;
    if together.speaks() {
        scenario.notes.iter().for_each(|note| output::note(note));
    }
    // Several processes find that out together, when each builds its part.
    if !several {
        check(&scenario, &CustomCc::default()).map_err(failure)?;
    }
    let seeds = args.seeds(&scenario).map_err(Failure::usage)?;
    if seeds.len() > 1 && (args.json_stream || args.metrics.is_some()) {
        let option = if args.json_stream { "--json-stream" } else { "--metrics" };
        return Err(Failure::usage(format!(
            "{option} is of one run, and the scenario has {} seeds; leave out its `replications`",
            seeds.len()
        )));
    }
    let period = stream::period(&scenario, args.period.map(|period| period.0)).map_err(Failure::usage)?;
    let metrics = args.metrics.filter(|_| together.speaks()).map(metrics::listen).transpose()?;
    if scenario.needs_namespaces() && !several {
        #[cfg(live)]
        super::clean::before();
        // Before any other thread exists.
        prepare().map_err(failure)?;
    }
    if several && seeds.len() > 1 {
        return Err(Failure::usage(
            "several seeds are several runs; start them without mpirun, or one at a time, as with --seeds 1",
        ));
    }
    if let [seed] = seeds[..] {
        scenario.seed = seed;
        // What is kept of this run makes this run again, and no others.
        scenario.replications = None;
    }
    let stem = match seeds[..] {
        [seed] => format!("{}-{seed}", scenario.name),
        _ => format!("{}-{}-seeds", scenario.name, seeds.len()),
    };
    let claims = args.out.is_none() && together.speaks();
    let claimed = claims.then(|| Destination::claim(&stem)).transpose()?;
    let target = match (&args.out, &claimed) {
        (Some(out), _) => out.clone(),
        (None, Some(destination)) => destination.path().to_owned(),
        (None, None) => PathBuf::from(&stem),
    };
    let unfinished = match seeds[..] {
        [_] => vec![target.clone()],
        _ => seeds.iter().map(|&seed| seed_directory(&target, seed)).collect(),
    };
    #[cfg(live)]
    warpline_stacks::stack::crash::end_if_stuck();
    match several {
        true => interrupt::listen_together(together.speaks().then(|| target.clone()))?,
        false => interrupt::listen(unfinished)?,
    }
    #[cfg(unix)]
    if let Some(parent) = args.with_parent {
        interrupt::stop_with(parent);
    }
    // Several runs at the same time use all cores already.
    let asked = args.cores.is_some() || seeds.len() == 1;
    let cores = if asked { Cores::asked(args.cores.map(Into::into)) } else { Cores::One };
    let options = RunOptions {
        out: Some(target),
        force: args.force,
        report: !args.no_report,
        cores,
        control: args.control.clone().map(listen),
        ..RunOptions::default()
    };
    Ok(Plan { scenario, seeds, options, period, metrics, _claimed: claimed })
}

/// Where to listen for changes: at a path, if one is given.
pub(super) fn listen(path: Option<PathBuf>) -> Listen {
    path.map_or(Listen::Own, Listen::At)
}

/// Continues unless the user asked to stop.
fn control() -> Control {
    if interrupt::requested() { Control::Stop } else { Control::Continue }
}

fn one(
    args: &Args,
    scenario: &Scenario,
    options: &RunOptions,
    together: &mut Together,
    stream: Option<&Stream>,
) -> Result<Code, Failure> {
    let stopwatch = Stopwatch::start();
    let machines = together.machines()?;
    let hidden = args.quiet || args.json || args.json_stream || !together.speaks();
    let bar = Bar::new(&scenario.name, 1, scenario.duration.0.as_nanos(), hidden);
    let mut observe = |progress: &Progress| {
        bar.update(0, progress);
        control()
    };
    let outcome = match together.world() {
        None => run(scenario, options, &mut observe).map(Some),
        Some(world) => match run_apart(scenario, options, &mut observe, world) {
            Ok(outcome) => Ok(outcome),
            Err(ApartError::Begin(error)) => Err(error),
            Err(ApartError::Run(error)) => {
                let failure = refused(args, &scenario.name, failure(error), together);
                together.abort(&failure);
                return Err(failure);
            }
        },
    };
    bar.clear();
    let outcome = match outcome {
        Ok(Some(outcome)) => outcome,
        // Another process writes the results.
        Ok(None) => return Ok(Code::Success),
        // The first process reports the error. A failure of this one, too, could give `mpirun` another exit code.
        Err(RunError::Elsewhere { .. }) if !together.speaks() => return Ok(Code::Success),
        Err(error) => return Err(refused(args, &scenario.name, failure(error), together)),
    };
    let idle = together.count().saturating_sub(outcome.parts.count());
    if machines.is_some() && idle > 0 {
        let doing = if idle == 1 { "process has" } else { "processes have" };
        output::note(&format!("{idle} of {} {doing} nothing to do: {}", together.count(), outcome.parts));
    }
    junit::write(args.junit.as_deref(), &scenario.name, std::slice::from_ref(&outcome), &[])?;
    let seconds = stopwatch.seconds();
    let directory = outcome.directory.as_deref();
    let report = report_path(directory, options);
    let text = if let Some(stream) = stream {
        stream.end(&outcome, directory, report.as_deref());
        String::new()
    } else if args.json {
        document(json!({
            "directory": output::json_path(directory),
            "report": output::json_path(report.as_deref()),
            "complete": outcome.complete,
            "wall_clock_s": seconds,
            "summary": outcome.summary,
        }))
    } else if args.quiet {
        path_line(report.as_deref().or(directory))
    } else {
        let mut text = output::headed(&render(&outcome.summary, output::width()));
        let _ = writeln!(
            text,
            "\nRan in {}: {} x real time, {} packet-hops/s",
            output::spoken_seconds(seconds),
            output::short(outcome.summary.info.simulated_s / seconds),
            output::short(outcome.packet_hops as f64 / seconds),
        );
        if args.verbose {
            let machines = machines.map(|machines| format!("{machines}; ")).unwrap_or_default();
            let _ = writeln!(text, "Cores: {machines}{}{}", outcome.parts, at_best(&outcome));
        }
        text + &places(directory, report.as_deref())
    };
    if let Some(code) = judged(&outcome, &text)? {
        return Ok(code);
    }
    let stopped = format!(
        "interrupted after {:.3} s of {} time; the results cover that part",
        outcome.summary.info.simulated_s,
        if outcome.summary.live.is_some() { "real" } else { "simulated" },
    );
    finish(&text, outcome.complete, &stopped)
}

/// How much faster the parts of a run could make it, for people; nothing about a single part.
fn at_best(outcome: &RunOutcome) -> String {
    if outcome.parts.count() < 2 || outcome.critical_events == 0 {
        return String::new();
    }
    let share = outcome.events as f64 / outcome.critical_events as f64;
    format!("; as their events were shared out, at best {share:.2} times as fast as one")
}

/// If a run failed, prints its results and the failure and returns the exit code; otherwise `None`.
fn judged(outcome: &RunOutcome, text: &str) -> Result<Option<Code>, Failure> {
    if outcome.broken.is_none() && outcome.failures.is_empty() {
        return Ok(None);
    }
    let printed = output::print(text);
    for failure in &outcome.failures {
        output::error(failure);
    }
    if let Some(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why)) = &outcome.broken {
        output::error(&format!("{why}; the results cover the time until then"));
    }
    after(Ok(broken_code(std::slice::from_ref(outcome))), printed).map(Some)
}

/// What went wrong, with the seeds.
fn mishaps(replication: &Replicated) -> Mishaps {
    let mut mishaps = Mishaps::default();
    for outcome in &replication.runs {
        let (seed, directory) = (outcome.summary.info.seed, outcome.directory.as_deref());
        for failure in &outcome.failures {
            mishaps.add(seed, failure, directory);
        }
        if let Some(Broken::Lag(why) | Broken::Port(why) | Broken::Guest(why)) = &outcome.broken {
            mishaps.add(seed, &format!("{why}; the results cover the time until then"), directory);
        }
    }
    for (seed, error) in &replication.errors {
        mishaps.add(*seed, &error.to_string(), None);
    }
    mishaps
}

/// The exit code of runs of which some failed.
fn broken_code(outcomes: &[RunOutcome]) -> Code {
    match outcomes.iter().find_map(|outcome| outcome.broken.as_ref()) {
        Some(Broken::Lag(_)) => Code::Lag,
        _ => Code::Failed,
    }
}

fn several(
    args: &Args,
    scenario: &Scenario,
    seeds: &[u64],
    options: &RunOptions,
    together: &Together,
) -> Result<Code, Failure> {
    let stopwatch = Stopwatch::start();
    // Live runs need the machine for themselves.
    let live = scenario.clock.mode != ClockMode::Virtual;
    let jobs = if live { 1 } else { args.jobs.map_or(0, usize::from) };
    let bar = Bar::new(&scenario.name, seeds.len(), scenario.duration.0.as_nanos(), args.quiet || args.json);
    let replication = replicate(scenario, seeds, jobs, options, &|which, progress: &Progress| {
        bar.update(which, progress);
        control()
    });
    bar.clear();
    let replication = match replication {
        Ok(replication) => replication,
        Err(error) => return Err(refused(args, &scenario.name, failure(error), together)),
    };
    junit::write(args.junit.as_deref(), &scenario.name, &replication.runs, &replication.errors)?;
    let mishaps = mishaps(&replication);
    let seconds = stopwatch.seconds();
    // If no run began, there is no directory.
    let directory = options.out.as_deref().filter(|_| !replication.runs.is_empty());
    let report = report_path(directory, options);
    let done = replication.runs.iter().filter(|outcome| outcome.complete).count();
    let text = if args.json {
        document(json!({
            "directory": output::json_path(directory),
            "report": output::json_path(report.as_deref()),
            "complete": replication.complete,
            "wall_clock_s": seconds,
            "replications": replication.replications,
        }))
    } else if args.quiet {
        path_line(report.as_deref().or(directory))
    } else {
        let mut text = output::headed(&replication.replications.render(output::width()));
        let all = output::counted(seeds.len(), "seed");
        let ran = if done == seeds.len() { all } else { format!("{done} of {all}") };
        let _ = write!(text, "\nRan {ran} in {}", output::spoken_seconds(seconds));
        let _ = match mishaps.seeds() {
            0 => writeln!(text),
            failed => writeln!(text, "; {} went wrong", output::counted(failed, "seed")),
        };
        text + &places(directory, report.as_deref())
    };
    if mishaps.seeds() > 0 {
        let printed = output::print(&text);
        mishaps.lines().iter().for_each(|line| output::error(line));
        let code = replication
            .errors
            .into_iter()
            .next()
            .map_or_else(|| broken_code(&replication.runs), |(_, error)| failure(error).code());
        return after(Ok(code), printed);
    }
    let estimates =
        if done > 0 { "the estimates are over these" } else { "what was measured until then is kept" };
    let stopped =
        format!("interrupted after {done} of {} complete; {estimates}", output::counted(seeds.len(), "run"));
    finish(&text, replication.complete, &stopped)
}

/// Prints the results and, if the runs did not finish, how far they got.
fn finish(text: &str, complete: bool, how_far: &str) -> Result<Code, Failure> {
    output::print(text)?;
    if complete {
        return Ok(Code::Success);
    }
    output::note(how_far);
    Ok(Code::Interrupted)
}

/// The path of the report, if one was written.
fn report_path(directory: Option<&Path>, options: &RunOptions) -> Option<PathBuf> {
    directory.filter(|_| options.report).map(|directory| directory.join(REPORT_FILE))
}

/// A JSON document, followed by a newline.
fn document(value: serde_json::Value) -> String {
    format!("{value:#}\n")
}

fn path_line(path: Option<&Path>) -> String {
    path.map(|path| format!("{}\n", path.display())).unwrap_or_default()
}

/// The last lines: the paths of everything written.
fn places(directory: Option<&Path>, report: Option<&Path>) -> String {
    let mut text = String::new();
    for (name, path) in [("Results", directory), ("Report", report)] {
        if let Some(path) = path {
            let _ = writeln!(text, "{}: {}", output::styled(output::HEADING, name), path.display());
        }
    }
    text
}

/// The failure for a run's error, with its exit code.
pub(super) fn failure(error: RunError) -> Failure {
    match error {
        RunError::Build(_) => Failure::usage(error),
        RunError::Live(_) | RunError::Meet(_) | RunError::Elsewhere { .. } => Failure::run(error),
        RunError::Results(_) | RunError::Report(_) => Failure::output(error),
    }
}
