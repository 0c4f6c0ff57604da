//! A directory for a test, and the program under test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// One bulk flow over one slow link.
pub(crate) const SMALL: &str = r#"name = "small"
duration = "2s"

[[link]]
between = ["client", "server"]
rate = "1Mbit/s"
delay = "5ms"

[[flow]]
from = "client"
to = "server"
"#;

/// A directory with `small.toml` in it.
pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn new() -> Self {
        let desk = Desk(tempfile::tempdir().unwrap());
        desk.write("small.toml", SMALL);
        desk
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// The program, which runs in this directory, without colours.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        self.program_in(&[], arguments)
    }

    /// The same, at the end of another command.
    pub(crate) fn program_in(&self, shell: &[&str], arguments: &[&str]) -> Command {
        // A job in the background of a shell ignores these signals, and so would the program: tests send them.
        let signals: &[&str] =
            if cfg!(target_os = "linux") { &["env", "--default-signal=HUP,INT,QUIT,TERM"] } else { &[] };
        let mut words = signals.iter().chain(shell).copied().chain([env!("CARGO_BIN_EXE_warpline")]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        command.args(arguments).current_dir(self.path()).env("COLUMNS", "100").env_remove("CLICOLOR_FORCE");
        // Addresses of an emulated network are behind no proxy, and tests look for words of other programs.
        command.env("no_proxy", "*").env("NO_PROXY", "*").env("LC_ALL", "C");
        command
    }

    pub(crate) fn warpline(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.program(arguments).output().unwrap())
    }

    /// The names in a directory, sorted; none if it does not exist.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path().join(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A run's summary.json.
    pub(crate) fn summary(&self, run: &str) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.path().join(run).join("summary.json")).unwrap()).unwrap()
    }
}

/// The program's output and exit code.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Answer {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Answer {
    /// Checks that it succeeded.
    #[track_caller]
    pub(crate) fn fine(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    /// The one JSON document on stdout.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// Waits a moment for another process.
#[expect(clippy::disallowed_methods, reason = "another process is waited for")]
pub(crate) fn pause() {
    thread::sleep(Duration::from_millis(50));
}

/// Waits until something is so.
pub(crate) fn wait_until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..2400 {
        if is() {
            return;
        }
        pause();
    }
    panic!("{what} has not happened in two minutes");
}
