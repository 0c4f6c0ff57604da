//! The programs of a run: prepared before the clock starts, started at their times, watched, stopped at the end, and judged.

mod evidence;
mod own;
mod readiness;
mod watch;

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use warpline_agent::{Ending, Notice};
use warpline_core::{TimeDelta, Timestamp};
use warpline_live::host::Hosts;
use warpline_live::program::{Changes, Program, ProgramConfig, Signal, State};
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expect, ProgramCommand, Scenario, StopSignal};

use crate::run::RunError;
pub(in crate::run) use evidence::Evidence;
pub use own::PROGRAM;
pub(in crate::run) use own::{environment, found};
pub(in crate::run) use readiness::{Readiness, explain, machine_names};
use watch::Watch;

/// The directory for the output of programs, in the run directory.
pub(in crate::run) const DIRECTORY: &str = "programs";
/// How long a program has to end after it was asked to.
const PATIENCE: TimeDelta = TimeDelta::from_secs(1);

/// A program with its state.
#[derive(Debug)]
struct Entry {
    row: ProgramRow,
    start: Timestamp,
    expect: Expect,
    stop: Signal,
    program: Program,
    stderr: PathBuf,
    /// Conditions that it waits for.
    after: Vec<u32>,
    /// The number for the notice of its end, if that is to be reported.
    notice: Option<u32>,
}

/// All programs of a run.
#[derive(Debug)]
pub(in crate::run) struct Programs {
    entries: Vec<Entry>,
    watch: Watch,
    changes: Changes,
    /// The directory of their output, if no run directory is written.
    _scratch: Option<tempfile::TempDir>,
}

fn fail(error: io::Error) -> RunError {
    RunError::Live(format!("cannot prepare programs: {error}"))
}

impl Programs {
    /// Prepares all programs of the scenario. `live` are the names of the live hosts in the order of `hosts`, with their nodes;
    /// `directory` is the run directory.
    pub(in crate::run) fn prepare(
        scenario: &Scenario,
        live: &[(String, u32)],
        hosts: &Hosts,
        plan: &AddressPlan,
        directory: Option<&Path>,
        readiness: &Readiness,
    ) -> Result<Self, RunError> {
        let changes = Changes::new().map_err(fail)?;
        let scratch = if directory.is_none() { Some(tempfile::tempdir().map_err(fail)?) } else { None };
        let base = directory.or(scratch.as_ref().map(|scratch| scratch.path())).unwrap_or(Path::new("."));
        let ordinary = warpline_live::privilege::in_user_namespace();
        let mut entries = Vec::new();
        let mut watch = Watch::new(scenario.base());
        for (at, (name, node)) in live.iter().enumerate() {
            let Some(host) = scenario.host.iter().find(|host| host.name == *name) else { continue };
            for (number, program) in host.programs().iter().enumerate() {
                std::fs::create_dir_all(base.join(DIRECTORY)).map_err(fail)?;
                let (words, shown) = command(program, plan);
                let row = row(name, (number, program.label(number)), shown, program.expect);
                let (stdout, stderr) = (base.join(&row.stdout), base.join(&row.stderr));
                let own =
                    program.environment.iter().map(|(name, value)| (name.clone(), plan.substitute(value)));
                let environment: Vec<(String, String)> =
                    environment(plan, *node as usize).into_iter().chain(own).collect();
                let config = |words: Vec<String>, stdout: File, stderr: File| ProgramConfig {
                    words: words.into_iter().map(Into::into).collect(),
                    environment: environment
                        .iter()
                        .map(|(name, value)| (name.into(), value.into()))
                        .collect(),
                    directory: Some(scenario.base()),
                    stdout,
                    stderr,
                    ordinary,
                };
                let prepare = |words: Vec<String>, stdout: File, stderr: File| {
                    let config = config(words, stdout, stderr);
                    Program::prepare(config, hosts.namespace(at), hosts.session(), &changes).map_err(fail)
                };
                watch.add(
                    readiness,
                    name,
                    Some(number),
                    entries.len(),
                    hosts.namespace(at),
                    [&stdout, &stderr],
                    &prepare,
                )?;
                let (stdout, errors) =
                    (File::create(stdout).map_err(fail)?, File::create(&stderr).map_err(fail)?);
                entries.push(Entry {
                    row,
                    start: Timestamp::ZERO + program.start.0,
                    expect: program.expect,
                    stop: signal(program.stop),
                    program: prepare(words, stdout, errors)?,
                    stderr,
                    after: readiness.waits_of(scenario, name, number),
                    notice: readiness.notice_of(name, number),
                });
            }
            let none = |_: Vec<String>, _: File, _: File| Err(fail(io::ErrorKind::Unsupported.into()));
            watch.add(readiness, name, None, 0, hosts.namespace(at), [Path::new(""); 2], &none)?;
        }
        Ok(Programs { entries, watch, changes, _scratch: scratch })
    }

    /// When the next program is to be started or a condition checked, after `now`. `step` is the interval of the checks.
    pub(in crate::run) fn next_start(&self, now: Timestamp, step: TimeDelta) -> Option<Timestamp> {
        let waiting = self.entries.iter().filter(|entry| entry.row.start_s.is_none());
        let next = waiting.map(|entry| entry.start).filter(|start| *start > now).min();
        next.into_iter().chain(self.watch.next_look(now, step)).min()
    }

    /// Starts programs that are due and do not wait for others, and checks the conditions that others wait for.
    pub(in crate::run) fn start(&mut self, now: Timestamp, readiness: &mut Readiness) {
        let entries = &self.entries;
        let ended = |number: usize| {
            let entry = entries.get(number)?;
            entry.row.end_s?;
            Some(match (entry.row.code, entry.program.state()) {
                (Some(code), _) => Ending::Exited(code),
                (None, State::NotStarted(why)) => Ending::NotStarted(why),
                (None, State::Ended(status)) => Ending::Signalled(status.signal().unwrap_or_default()),
                (None, _) => Ending::Stopped,
            })
        };
        self.watch.look(now, readiness, ended);
        let due = |entry: &Entry, readiness: &Readiness| {
            // One that could not be prepared has ended before it began.
            let waits = entry.row.start_s.is_none() && entry.row.end_s.is_none();
            waits && entry.start <= now && readiness.all_hold(&entry.after)
        };
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if due(entry, readiness) {
                self.watch.begin(now, number);
                entry.row.start_s = Some(now.as_secs_f64());
                entry.row.outcome = "running".to_owned();
                entry.program.start();
            }
        }
    }

    /// A descriptor that becomes readable when something happens to a program.
    pub(in crate::run) fn fd(&self) -> BorrowedFd<'_> {
        self.changes.fd()
    }

    /// Notes which programs have ended.
    pub(in crate::run) fn look(&mut self, now: Timestamp, readiness: &mut Readiness) {
        self.changes.clear();
        for entry in self.entries.iter_mut().filter(|entry| entry.row.end_s.is_none()) {
            match entry.program.state() {
                State::Waiting | State::Running => {}
                State::NotStarted(why) => {
                    entry.row.end_s = Some(now.as_secs_f64());
                    entry.row.outcome = format!("not started: {why}");
                }
                State::Ended(status) => {
                    entry.row.end_s = Some(now.as_secs_f64());
                    entry.row.code = status.code();
                    entry.row.outcome = describe(status);
                }
            }
            if let (Some(notice), Some(_)) = (entry.notice, entry.row.end_s) {
                readiness.handle(Notice::Ended(notice));
            }
        }
    }

    /// Ends the programs that still run: asks them to end, waits a little, and kills them.
    pub(in crate::run) fn stop(&mut self) {
        self.watch.stop();
        let running = || self.entries.iter().filter(|entry| entry.program.state() == State::Running);
        running().for_each(|entry| entry.program.signal(entry.stop));
        let step = TimeDelta::from_millis(20);
        for _ in 0..PATIENCE.as_millis() / step.as_millis() {
            if running().next().is_none() {
                return;
            }
            self.changes.wait(step);
            self.changes.clear();
        }
        running().for_each(|entry| entry.program.signal(Signal::SIGKILL));
    }

    /// The results of the programs; if `judged`, with a message about each that failed.
    pub(in crate::run) fn judge(&self, judged: bool, evidence: &Evidence) -> (Vec<ProgramRow>, Vec<String>) {
        let mut failures = Vec::new();
        let mut rows = Vec::new();
        for Entry { row, expect, stderr, .. } in &self.entries {
            let mut row = row.clone();
            failures.extend(verdict(&mut row, *expect, judged, stderr, evidence));
            rows.push(row);
        }
        (rows, failures)
    }
}

/// The name of a program in messages.
pub(in crate::run) fn name(label: &str, host: &str) -> String {
    format!("program {label} of host {host}")
}

/// Judges a program: notes whether it ended as expected, and returns a message if not. `stderr` is its standard error.
pub(in crate::run) fn verdict(
    row: &mut ProgramRow,
    expect: Expect,
    judged: bool,
    stderr: &Path,
    evidence: &Evidence,
) -> Option<String> {
    let running = row.start_s.is_some() && row.end_s.is_none();
    row.ok = !judged
        || match expect {
            Expect::Any => !row.outcome.starts_with("not started"),
            Expect::Running => running,
            Expect::Code(code) => row.code == Some(i32::from(code)),
        };
    if row.ok {
        return None;
    }
    let what = message(row, running);
    row.failure = Some(evidence.inside().complete(&what, row, stderr));
    Some(evidence.complete(&what, row, stderr))
}

/// A program's row before it has run; `command` is the command to show.
pub(in crate::run) fn row(
    host: &str,
    (number, label): (usize, String),
    command: String,
    expect: Expect,
) -> ProgramRow {
    let file = |stream: &str| format!("{DIRECTORY}/{host}.{label}.{stream}");
    ProgramRow {
        host: host.to_owned(),
        number: number as u64,
        command,
        expected: match expect {
            Expect::Code(code) => format!("exit code {code}"),
            Expect::Any => "any".to_owned(),
            Expect::Running => Expect::RUNNING.to_owned(),
        },
        outcome: "not started".to_owned(),
        stdout: file("stdout"),
        stderr: file("stderr"),
        name: label,
        ..ProgramRow::default()
    }
}

/// A program's command with addresses filled in, as words, and as text to show.
pub(in crate::run) fn command(
    program: &warpline_scenario::Program,
    plan: &AddressPlan,
) -> (Vec<String>, String) {
    let words = words(&program.command, plan);
    let shown = match &program.command {
        ProgramCommand::Shell(line) => plan.substitute(line),
        ProgramCommand::Words(_) => words.join(" "),
    };
    (found(words), shown)
}

/// The words of a command with addresses filled in.
fn words(command: &ProgramCommand, plan: &AddressPlan) -> Vec<String> {
    command.words().iter().map(|word| plan.substitute(word)).collect()
}

/// The outcome of a program whose guest has left no report.
pub(in crate::run) const UNKNOWN: &str = "unknown: its guest has left no report";

/// The message about a program that did not end as expected.
fn message(row: &ProgramRow, running: bool) -> String {
    let name = format!("{} ({})", name(&row.name, &row.host), row.command);
    match (running, row.end_s) {
        (true, _) => format!(
            "{name} still ran at the end and was stopped; expected: {} (a server has expect = \"running\")",
            row.expected
        ),
        (false, Some(end)) => {
            format!("{name} ended with {} at {end:.3} s; expected: {}", row.outcome, row.expected)
        }
        (false, None) if row.outcome == UNKNOWN => {
            format!("{name}: how it ended is {}", row.outcome)
        }
        (false, None) => format!("{name} was {}", row.outcome),
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

pub(in crate::run) fn signal(stop: StopSignal) -> Signal {
    match stop {
        StopSignal::Term => Signal::SIGTERM,
        StopSignal::Int => Signal::SIGINT,
        StopSignal::Hup => Signal::SIGHUP,
        StopSignal::Quit => Signal::SIGQUIT,
        StopSignal::Usr1 => Signal::SIGUSR1,
        StopSignal::Usr2 => Signal::SIGUSR2,
        StopSignal::Kill => Signal::SIGKILL,
    }
}
