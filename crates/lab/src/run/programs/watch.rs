//! Checks the conditions on live hosts that others wait for: whether programs are ready, and ports listen.

use std::fs::File;
use std::path::{Path, PathBuf};

use warpline_agent::probe::{Probe, Sockets, Surroundings, retried};
use warpline_agent::{Check, Ending, Notice, Why};
use warpline_core::{TimeDelta, Timestamp};
use warpline_live::netns::NetNs;
use warpline_live::program::{Program, Signal, State};

use super::readiness::Readiness;
use crate::run::RunError;

/// A condition on a live host.
#[derive(Debug)]
struct Entry {
    id: u32,
    check: Check,
    /// The index of its program among all of the run; none for a port of any program.
    program: Option<usize>,
    start: Timestamp,
    limit: TimeDelta,
    around: Option<Surroundings>,
    /// A command that is run repeatedly.
    command: Option<Program>,
    /// How it is checked, and since when.
    under: Option<(Timestamp, Result<Probe, String>)>,
    over: bool,
}

/// All conditions on live hosts.
#[derive(Debug)]
pub(in crate::run) struct Watch {
    entries: Vec<Entry>,
    /// The directory in which programs run.
    directory: PathBuf,
}

/// Prepares a program with these words that writes to these files.
pub(in crate::run) type Prepare<'a> = dyn Fn(Vec<String>, File, File) -> Result<Program, RunError> + 'a;

fn fail(error: impl std::fmt::Display) -> RunError {
    RunError::Live(format!("cannot read the sockets of a host: {error}"))
}

impl Watch {
    /// No conditions yet. `directory` is where programs run.
    pub(in crate::run) fn new(directory: PathBuf) -> Self {
        Watch { entries: Vec::new(), directory }
    }

    /// Adds the conditions about a program of a host, which has the index `place` among all of the run, or those that are not about a program.
    /// `output` are the files that it writes to.
    #[expect(clippy::too_many_arguments, reason = "all facts about a program and its host")]
    pub(in crate::run) fn add(
        &mut self,
        readiness: &Readiness,
        host: &str,
        program: Option<usize>,
        place: usize,
        namespace: &NetNs,
        output: [&Path; 2],
        prepare: &Prepare<'_>,
    ) -> Result<(), RunError> {
        let own = readiness.conditions_of(host);
        for (id, condition) in own.filter(|(_, condition)| condition.program() == program) {
            let sockets = namespace.within(Sockets::open).map_err(fail)?.map_err(fail)?;
            let command = match &condition.check {
                Check::Command(words) => {
                    let nowhere = || File::options().write(true).open("/dev/null").map_err(fail);
                    Some(prepare(retried(words), nowhere()?, nowhere()?)?)
                }
                _ => None,
            };
            self.entries.push(Entry {
                id,
                check: condition.check.clone(),
                program: program.map(|_| place),
                start: Timestamp::ZERO + condition.start,
                limit: condition.limit,
                around: Some(Surroundings {
                    sockets: Some(sockets),
                    output: output.map(Path::to_owned).to_vec(),
                    directory: self.directory.clone(),
                }),
                command,
                under: None,
                over: false,
            });
        }
        Ok(())
    }

    /// Begins the checks of a program that is about to be started.
    pub(in crate::run) fn begin(&mut self, now: Timestamp, program: usize) {
        for entry in self.entries.iter_mut().filter(|entry| entry.program == Some(program)) {
            entry.begin(now);
        }
    }

    /// Checks all conditions that have begun, and passes on the results. `ended` returns how a program of the run has ended, if it has.
    pub(in crate::run) fn look(
        &mut self,
        now: Timestamp,
        readiness: &mut Readiness,
        ended: impl Fn(usize) -> Option<Ending>,
    ) {
        for entry in self.entries.iter_mut().filter(|entry| !entry.over) {
            if entry.program.is_none() && entry.start <= now {
                entry.begin(now);
            }
            let id = entry.id;
            let Some((since, probe)) = &mut entry.under else { continue };
            let tried = entry.command.as_ref().map(Program::state);
            let holds = match (probe, tried) {
                (_, Some(State::Ended(status))) if status.success() => Ok(true),
                (_, Some(State::Ended(_) | State::NotStarted(_))) => {
                    Err("the command that tests the condition could not be started".to_owned())
                }
                (Ok(probe), _) => probe.holds().map_err(|error| error.to_string()),
                (Err(why), _) => Err(why.clone()),
            };
            // Background commands that a shell leaves also end well.
            let ending = entry.program.and_then(&ended).filter(|ending| *ending != Ending::Exited(0));
            readiness.handle(match (holds, ending) {
                (Ok(true), _) => Notice::Holds(id),
                (Err(why), _) => Notice::Fails(id, Why::Blind(why)),
                (Ok(false), Some(ending)) => Notice::Fails(id, Why::Ended(ending)),
                (Ok(false), None) if now.saturating_since(*since) >= entry.limit => {
                    Notice::Fails(id, Why::Limit)
                }
                (Ok(false), None) => continue,
            });
            entry.over = true;
        }
    }

    /// When to check again, after `now`; `step` is the interval.
    pub(in crate::run) fn next_look(&self, now: Timestamp, step: TimeDelta) -> Option<Timestamp> {
        let next = |entry: &Entry| match (&entry.under, entry.program) {
            (Some(_), _) => Some(now + step),
            (None, None) => Some(entry.start.max(now + step)),
            // It begins when its program is started.
            (None, Some(_)) => None,
        };
        self.entries.iter().filter(|entry| !entry.over).filter_map(next).min()
    }

    /// Stops checking.
    pub(in crate::run) fn stop(&mut self) {
        for entry in &mut self.entries {
            entry.over = true;
            if let Some(command) = &entry.command {
                command.signal(Signal::SIGKILL);
            }
        }
    }
}

impl Entry {
    fn begin(&mut self, now: Timestamp) {
        let Some(around) = self.around.take() else { return };
        let probe = Probe::begin(&self.check, around).map_err(|error| error.to_string());
        self.under = Some((now, probe));
        if let Some(command) = &self.command {
            command.start();
        }
    }
}
