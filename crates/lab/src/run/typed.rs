//! Commands that were typed on hosts while a run went on, as programs of the scenario of what has happened.

use std::collections::BTreeMap;

use warpline_core::{TimeDelta, Timestamp};
use warpline_scenario::{Expect, Program, ProgramCommand, Scenario, StopSignal, Time};

/// A command that was typed on a host.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) host: String,
    pub(super) command: ProgramCommand,
    pub(super) at: Timestamp,
    /// When it was interrupted, if it was.
    pub(super) interrupted: Option<Timestamp>,
}

impl Typed {
    /// The program that repeats it.
    fn program(&self) -> Program {
        Program {
            name: None,
            command: self.interrupted.map_or_else(|| self.command.clone(), |at| self.limited(at - self.at)),
            start: Time(self.at - Timestamp::ZERO),
            ready: None,
            // It began when it was typed, whatever was ready.
            after: Some(Vec::new()),
            environment: BTreeMap::new(),
            // How it ended then is not known.
            expect: Expect::Any,
            stop: StopSignal::default(),
            collect: Vec::new(),
        }
    }

    /// The command with an interruption after `span`, by timeout(1).
    fn limited(&self, span: TimeDelta) -> ProgramCommand {
        // Zero would be no limit.
        let span = format!("{:.3}", span.max(TimeDelta::from_millis(1)).as_secs_f64());
        let words = match &self.command {
            ProgramCommand::Words(words) => words.clone(),
            ProgramCommand::Shell(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
        };
        let limit = ["timeout", "--signal=INT", &span].map(str::to_owned);
        ProgramCommand::Words(limit.into_iter().chain(words).collect())
    }
}

/// Adds what was typed to the programs of its hosts.
pub(super) fn add(typed: &[Typed], scenario: &mut Scenario) {
    for own in typed {
        let host = scenario.host.iter_mut().find(|host| host.name == own.host);
        if let Some(real) = host.and_then(|host| host.endpoint.real_mut()) {
            real.program.push(own.program());
        }
    }
}
