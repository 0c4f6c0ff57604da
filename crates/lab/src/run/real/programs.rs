//! The programs of a run: made ready before the clock starts, started at their times, watched, stopped at the end, judged.

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

use super::readiness::Readiness;
use super::watch::Watch;
use crate::run::RunError;
use crate::run::addresses::AddressPlan;
use crate::scenario::{Expect, Scenario, StopSignal};

/// The directory of what programs print, in the run directory.
pub(super) const DIRECTORY: &str = "programs";
/// How long a program has to end after it was asked to.
const PATIENCE: TimeDelta = TimeDelta::from_secs(1);
/// How much of what a failed program said is shown.
const TAIL_LINES: usize = 10;
const TAIL_BYTES: usize = 2000;

/// A program and what has become of it.
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
    /// The number by which its end is told, if it is.
    told: Option<u32>,
}

/// All programs of a run.
#[derive(Debug)]
pub(super) struct Programs {
    entries: Vec<Entry>,
    watch: Watch,
    changes: Changes,
    /// What they print, where no run directory is written.
    _scratch: Option<tempfile::TempDir>,
}

fn fail(error: io::Error) -> RunError {
    RunError::Live(format!("cannot make programs ready: {error}"))
}

impl Programs {
    /// Makes all programs of the scenario ready. `live` are the names of the live hosts in the order of `hosts`, with their nodes;
    /// `directory` is the run directory.
    pub(super) fn prepare(
        scenario: &Scenario,
        live: &[(String, u32)],
        hosts: Option<&Hosts>,
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
            let Some(hosts) = hosts else { continue };
            for (number, program) in host.program.iter().enumerate() {
                std::fs::create_dir_all(base.join(DIRECTORY)).map_err(fail)?;
                let (words, shown) = command(program, plan);
                let row = row(name, (number, program.label(number)), shown, program.expect);
                let (stdout, stderr) = (base.join(&row.stdout), base.join(&row.stderr));
                let own =
                    program.environment.iter().map(|(name, value)| (name.clone(), plan.substitute(value)));
                let environment: Vec<(String, String)> =
                    plan.environment(*node as usize).into_iter().chain(own).collect();
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
                    told: readiness.told(name, number),
                });
            }
            let none = |_: Vec<String>, _: File, _: File| Err(fail(io::ErrorKind::Unsupported.into()));
            watch.add(readiness, name, None, 0, hosts.namespace(at), [Path::new(""); 2], &none)?;
        }
        Ok(Programs { entries, watch, changes, _scratch: scratch })
    }

    /// When the next program is to be started, or something is to be looked at, after `now`. `step` is how often that is.
    pub(super) fn next_start(&self, now: Timestamp, step: TimeDelta) -> Option<Timestamp> {
        let waiting = self.entries.iter().filter(|entry| entry.row.start_s.is_none());
        let next = waiting.map(|entry| entry.start).filter(|start| *start > now).min();
        next.into_iter().chain(self.watch.next_look(now, step)).min()
    }

    /// Starts what is due and waits for nothing, and looks at what others wait for.
    pub(super) fn start(&mut self, now: Timestamp, readiness: &mut Readiness) {
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
            entry.row.start_s.is_none() && entry.start <= now && readiness.all_hold(&entry.after)
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

    /// Becomes readable when something has happened to a program.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.changes.fd()
    }

    /// Notes which programs have ended.
    pub(super) fn look(&mut self, now: Timestamp, readiness: &mut Readiness) {
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
                    entry.row.outcome = told(status);
                }
            }
            if let (Some(told), Some(_)) = (entry.told, entry.row.end_s) {
                readiness.handle(Notice::Ended(told));
            }
        }
    }

    /// Ends what still runs: asks, waits a little, kills.
    pub(super) fn stop(&mut self) {
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

    /// What has become of the programs; with `judged`, a message about each that did not end as it should.
    pub(super) fn judge(&self, judged: bool, evidence: &Evidence) -> (Vec<ProgramRow>, Vec<String>) {
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

/// What there is to look at when a program has failed, for people.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// The run directory as it will be called; none if none is written.
    directory: Option<PathBuf>,
    /// Names of the captures in it.
    captures: Vec<String>,
}

impl Evidence {
    /// What is in the run directory, which is at `written` until it is put in place at `shown`.
    pub(super) fn of(written: Option<&Path>, shown: Option<&Path>) -> Self {
        let names = |directory: &Path| -> Vec<String> {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let mut names: Vec<String> =
                entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
            names.retain(|name| name.ends_with(".pcapng"));
            names.sort();
            names
        };
        Evidence {
            directory: written.and(shown).map(Path::to_owned),
            captures: written.map(names).unwrap_or_default(),
        }
    }

    /// Where the captures are, to be added to a sentence.
    pub(super) fn captures(&self) -> String {
        let Some(directory) = self.directory.as_ref().filter(|_| !self.captures.is_empty()) else {
            return String::new();
        };
        let files: Vec<String> =
            self.captures.iter().map(|name| directory.join(name).display().to_string()).collect();
        format!("; capture: {}", files.join(", "))
    }

    /// Adds to what is said of a program where its output and the captures are, and the last of what it wrote to `stderr`.
    pub(super) fn complete(&self, what: &str, row: &ProgramRow, stderr: &Path) -> String {
        let mut text = what.to_owned();
        if let Some(directory) = &self.directory {
            text += &format!("; its output: {}", directory.join(&row.stderr).display());
        }
        text += &self.captures();
        match tail(stderr) {
            Some(tail) => text + &format!("\nthe last that it wrote to its standard error:\n{tail}"),
            None => text + "; it wrote nothing to its standard error",
        }
    }
}

/// What messages call a program.
pub(super) fn name(label: &str, host: &str) -> String {
    format!("program {label} of host {host}")
}

/// Judges a program: notes whether it ended as it should, and returns a message if not. `stderr` is what it wrote there.
pub(super) fn verdict(
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
    row.failure = (!row.ok).then(|| evidence.complete(&message(row, running), row, stderr));
    row.failure.clone()
}

/// What a program's row says before it has run; `command` is what is shown of it.
pub(super) fn row(
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
            Expect::Running => "running".to_owned(),
        },
        outcome: "not started".to_owned(),
        stdout: file("stdout"),
        stderr: file("stderr"),
        name: label,
        ..ProgramRow::default()
    }
}

/// The words of a program's command with addresses filled in, and what is shown of it.
pub(super) fn command(program: &crate::scenario::Program, plan: &AddressPlan) -> (Vec<String>, String) {
    let words: Vec<String> = program.command.words().iter().map(|word| plan.substitute(word)).collect();
    let shown = match &program.command {
        crate::scenario::ProgramCommand::Shell(line) => plan.substitute(line),
        crate::scenario::ProgramCommand::Words(_) => words.join(" "),
    };
    (words, shown)
}

/// What to say of a program that did not end as it should.
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
        (false, None) => format!("{name} was {}", row.outcome),
    }
}

/// The last lines of a file, indented; none if it is empty.
fn tail(path: &Path) -> Option<String> {
    let bytes = std::fs::read(path).ok()?;
    let end = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL_BYTES)..]).into_owned();
    let lines: Vec<&str> = end.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    (!last.is_empty()).then(|| last.iter().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n"))
}

fn told(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown end".to_owned(),
    }
}

pub(super) fn signal(stop: StopSignal) -> Signal {
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
