//! The programs of a run: made ready before the clock starts, started at their times, watched, stopped at the end, judged.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use warpline_core::{TimeDelta, Timestamp};
use warpline_live::host::Hosts;
use warpline_live::program::{Changes, Program, ProgramConfig, Signal, State};

use crate::results::ProgramRow;
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
}

/// All programs of a run.
#[derive(Debug)]
pub(super) struct Programs {
    entries: Vec<Entry>,
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
    ) -> Result<Self, RunError> {
        let changes = Changes::new().map_err(fail)?;
        let scratch = if directory.is_none() { Some(tempfile::tempdir().map_err(fail)?) } else { None };
        let base = directory.or(scratch.as_ref().map(|scratch| scratch.path())).unwrap_or(Path::new("."));
        let ordinary = warpline_live::privilege::in_user_namespace();
        let mut entries = Vec::new();
        for (at, (name, node)) in live.iter().enumerate() {
            let Some(host) = scenario.host.iter().find(|host| host.name == *name) else { continue };
            let Some(hosts) = hosts else { continue };
            for (number, program) in host.program.iter().enumerate() {
                std::fs::create_dir_all(base.join(DIRECTORY)).map_err(fail)?;
                let (words, shown) = command(program, plan);
                let row = row(name, number, shown, program.expect);
                let (stdout, stderr) = (base.join(&row.stdout), base.join(&row.stderr));
                let own =
                    program.environment.iter().map(|(name, value)| (name.clone(), plan.substitute(value)));
                let environment = plan.environment(*node as usize).into_iter().chain(own);
                let config = ProgramConfig {
                    words: words.into_iter().map(Into::into).collect(),
                    environment: environment.map(|(name, value)| (name.into(), value.into())).collect(),
                    directory: Some(scenario.directory.clone()).filter(|path| !path.as_os_str().is_empty()),
                    stdout: File::create(stdout).map_err(fail)?,
                    stderr: File::create(&stderr).map_err(fail)?,
                    ordinary,
                };
                entries.push(Entry {
                    row,
                    start: Timestamp::ZERO + program.start.0,
                    expect: program.expect,
                    stop: signal(program.stop),
                    program: Program::prepare(config, hosts.namespace(at), hosts.session(), &changes)
                        .map_err(fail)?,
                    stderr,
                });
            }
        }
        Ok(Programs { entries, changes, _scratch: scratch })
    }

    /// When the next program is to be started.
    pub(super) fn next_start(&self) -> Option<Timestamp> {
        self.entries.iter().filter(|entry| entry.row.start_s.is_none()).map(|entry| entry.start).min()
    }

    /// Starts what is due.
    pub(super) fn start(&mut self, now: Timestamp) {
        for entry in self.entries.iter_mut().filter(|entry| entry.row.start_s.is_none() && entry.start <= now)
        {
            entry.row.start_s = Some(now.as_secs_f64());
            entry.row.outcome = "running".to_owned();
            entry.program.start();
        }
    }

    /// Becomes readable when something has happened to a program.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.changes.fd()
    }

    /// Notes which programs have ended.
    pub(super) fn look(&mut self, now: Timestamp) {
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
        }
    }

    /// Ends what still runs: asks, waits a little, kills.
    pub(super) fn stop(&self) {
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
    pub(super) fn judge(self, judged: bool) -> (Vec<ProgramRow>, Vec<String>) {
        let mut failures = Vec::new();
        let mut rows = Vec::new();
        for Entry { mut row, expect, stderr, .. } in self.entries {
            failures.extend(verdict(&mut row, expect, judged, &stderr));
            rows.push(row);
        }
        (rows, failures)
    }
}

/// Judges a program: notes whether it ended as it should, and returns a message if not. `stderr` is what it wrote there.
pub(super) fn verdict(row: &mut ProgramRow, expect: Expect, judged: bool, stderr: &Path) -> Option<String> {
    let running = row.start_s.is_some() && row.end_s.is_none();
    row.ok = !judged
        || match expect {
            Expect::Any => !row.outcome.starts_with("not started"),
            Expect::Running => running,
            Expect::Code(code) => row.code == Some(i32::from(code)),
        };
    (!row.ok).then(|| message(row, running, stderr))
}

/// What a program's row says before it has run; `command` is what is shown of it.
pub(super) fn row(host: &str, number: usize, command: String, expect: Expect) -> ProgramRow {
    let file = |stream: &str| format!("{DIRECTORY}/{host}.{number}.{stream}");
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
fn message(row: &ProgramRow, running: bool, stderr: &Path) -> String {
    let name = format!("program {} of host {} ({})", row.number, row.host, row.command);
    let what = match (running, row.end_s) {
        (true, _) => format!(
            "{name} still ran at the end and was stopped; expected: {} (a server has expect = \"running\")",
            row.expected
        ),
        (false, Some(end)) => {
            format!("{name} ended at {end:.3} s with {}; expected: {}", row.outcome, row.expected)
        }
        (false, None) => format!("{name} was {}", row.outcome),
    };
    match tail(stderr) {
        Some(tail) => format!("{what}\nthe last of {}:\n{tail}", row.stderr),
        None => format!("{what}; it wrote nothing to its standard error"),
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
