//! How a command ends: its exit code, and the message of a failure.

use std::fmt::{self, Display};
use std::process::ExitCode;
#[cfg(live)]
use std::{io::ErrorKind, os::unix::process::ExitStatusExt, process::ExitStatus};

#[cfg(live)]
use warpline_live::start::StartError;

/// The exit codes. What they promise stands in `MEANINGS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Success,
    Failed,
    /// Clap ends with this code too.
    Usage,
    Output,
    Lag,
    /// 128 + SIGINT, as in shells.
    Interrupted,
    /// The command that we ran ended with this code; we return it as our own.
    #[cfg(live)]
    Command(u8),
}

/// The code of shells for a command that cannot be started.
const NOT_STARTED: u8 = 126;
/// The code of shells for a command that does not exist.
const NO_PROGRAM: u8 = 127;

/// What each exit code means. The help of `warpline` lists them, with these line breaks; a test holds the table of the book against them.
const MEANINGS: [(u8, &str); 8] = [
    (Code::Success.number(), "everything was done as requested"),
    (
        Code::Failed.number(),
        "a run, a measurement or a transfer failed or gave up; or the results of a
run are not what the scenario's `expect` says; or a program on a live host or
a guest did not end as expected; or a figure of a study lacks runs, or has a
claim that is neither met nor explained; or `crosscheck` found a difference
that it cannot explain (with `--strict`, any)",
    ),
    (Code::Usage.number(), "the command line, the scenario, or another input is wrong"),
    (
        Code::Output.number(),
        "results could not be written; but `shell` keeps the code of the command
that it ran",
    ),
    (Code::Lag.number(), "a live run lagged more than `clock.max_lag`; the results until then are kept"),
    (
        NOT_STARTED,
        "`shell`, `dilate`, `nice`, `enter`: the command cannot be started. Once it is,
they end with its exit code",
    ),
    (NO_PROGRAM, "`shell`, `dilate`, `nice`, `enter`: there is no such command"),
    (
        Code::Interrupted.number(),
        "interrupted by Ctrl-C or SIGTERM; a run keeps its results until then. But
`lab` ends in this way with 0, and `shell`, `dilate` and `nice` with 128 plus
the signal's number: 143 by SIGTERM",
    ),
];

/// The exit codes as lines of a help text.
pub(crate) fn exit_codes() -> String {
    MEANINGS.map(|(code, meaning)| format!("{code:>5}  {}\n", meaning.replace('\n', "\n       "))).concat()
}

/// The exit codes as the table of the book.
#[cfg(test)]
pub(crate) fn exit_codes_in_the_book() -> String {
    let rows = MEANINGS.map(|(code, meaning)| format!("| {code} | {} |\n", meaning.replace('\n', " ")));
    format!("| code | meaning |\n|---|---|\n{}", rows.concat())
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
        Failure { code: Code::Command(NO_PROGRAM), message: message.to_string() }
    }
    /// A program could not be started. The code is that of shells.
    #[cfg(live)]
    pub(crate) fn not_started(message: impl Display) -> Self {
        Failure { code: Code::Command(NOT_STARTED), message: message.to_string() }
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
