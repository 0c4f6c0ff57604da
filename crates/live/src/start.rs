//! Programs: where they are, and how they are started so that they end with this process, however it ends.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::process::{Child, Command};

use nix::libc;
use rustix::process::{Signal, set_parent_process_death_signal};

/// The environment variable that marks a session's processes.
pub const MARK: &str = "WARPLINE_SESSION";

/// Why a command of the user's could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {command:?}: {source}")]
pub struct StartError {
    /// The command.
    pub command: OsString,
    /// Why not.
    pub source: io::Error,
}

/// The first of these programs in `PATH` or in the directories of administrators' programs.
pub(crate) fn in_path(names: &[&str]) -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let administrators = ["/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    let directories: Vec<_> = std::env::split_paths(&path).chain(administrators).collect();
    let places = names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    places.into_iter().find(|file| file.is_file()).map(|file| file.display().to_string())
}

/// The command with these words, the program and its arguments, with the mark of `session` in its environment.
///
/// # Errors
/// If there are no words.
pub(crate) fn command(words: &[OsString], session: &str) -> io::Result<Command> {
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command.args(arguments).env(MARK, session);
    Ok(command)
}

/// Starts `command`. The kernel sends it `last` when the thread that starts it ends. The new process calls `prepare` before it becomes the program;
/// since that is between fork and exec, `prepare` makes system calls only, and allocates nothing (an error made from a number does not).
///
/// # Errors
/// If it cannot be started, or `prepare` fails.
pub(crate) fn start(
    command: &mut Command,
    last: Signal,
    mut prepare: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<Child> {
    let parent = std::process::id();
    let prepare = move || {
        set_parent_process_death_signal(Some(last))?;
        // This process may have ended before that was set.
        if parent_id() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        prepare()
    };
    // SAFETY: the closure makes system calls only, and allocates nothing, as the callers promise.
    unsafe { command.pre_exec(prepare) }.spawn()
}
