//! How a command ends: its exit code, and the message of a failure.

use std::fmt::{self, Display};
use std::process::ExitCode;
#[cfg(live)]
use std::{io::ErrorKind, os::unix::process::ExitStatusExt, process::ExitStatus};

#[cfg(live)]
use warpline_live::start::StartError;

/// The exit codes that `--help` and the book promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// Everything was done as requested.
    Success,
    /// The run itself failed.
    Failed,
    /// The command line, the scenario, or another input was wrong. Clap ends with this code too.
    Usage,
    /// Results could not be written.
    Output,
    /// A live run lagged more than `clock.max_lag` allows; what was measured until then is kept.
    Lag,
    /// Ctrl-C or SIGTERM stopped it; what was measured until then is kept. The code is 128 + SIGINT, as in shells.
    Interrupted,
    /// The command that we ran ended with this code; we return it as our own.
    #[cfg(live)]
    Command(u8),
}

impl Code {
    /// The number that the shell sees.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Code::Success => 0,
            Code::Failed => 1,
            Code::Usage => 2,
            Code::Output => 3,
            Code::Lag => 4,
            Code::Interrupted => 130,
            #[cfg(live)]
            Code::Command(code) => code,
        }
    }
}

#[cfg(live)]
impl Code {
    /// That of a command that returned `code`.
    pub(crate) const fn returned(code: i32) -> Self {
        Code::Command(code as u8)
    }

    /// That of a command that a signal ended, as in shells.
    pub(crate) const fn signalled(signal: i32) -> Self {
        Code::Command(128u8.wrapping_add(signal as u8))
    }
}

#[cfg(live)]
impl From<ExitStatus> for Code {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Code::returned(code),
            (None, Some(signal)) => Code::signalled(signal),
            (None, None) => Code::Failed,
        }
    }
}

#[cfg(live)]
impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error.source.kind() {
            ErrorKind::NotFound => Failure::no_program(error),
            _ => Failure::not_started(error),
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        ExitCode::from(code.number())
    }
}

/// Why a command failed, with its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Failure {
    /// The run itself failed.
    pub(crate) fn run(message: impl Display) -> Self {
        Failure { code: Code::Failed, message: message.to_string() }
    }
    /// An input was wrong.
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure { code: Code::Usage, message: message.to_string() }
    }
    /// Results could not be written.
    pub(crate) fn output(message: impl Display) -> Self {
        Failure { code: Code::Output, message: message.to_string() }
    }

    /// There is no such program. The code is that of shells.
    #[cfg(live)]
    pub(crate) fn no_program(message: impl Display) -> Self {
        Failure { code: Code::Command(127), message: message.to_string() }
    }
    /// A program could not be started. The code is that of shells.
    #[cfg(live)]
    pub(crate) fn not_started(message: impl Display) -> Self {
        Failure { code: Code::Command(126), message: message.to_string() }
    }

    /// This failure, with what failed in front of its message.
    #[cfg(guests)]
    pub(crate) fn of(self, what: impl Display) -> Self {
        Failure { message: format!("{what}: {}", self.message), ..self }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// What went wrong.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }
}
