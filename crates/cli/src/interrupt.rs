//! Ctrl-C and SIGTERM: the first asks the run to stop and keep what it has, the third ends the process at once.

use std::io;
use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Code, Failure};
use crate::output;

#[cfg(unix)]
#[path = "../../live/src/signals/ignored.rs"]
mod ignored;

/// Whether the user asked to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the run should stop at the next batch.
pub(crate) fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// A flag that becomes true when the user asks to stop.
#[cfg(live)]
pub(crate) fn flag() -> &'static AtomicBool {
    &STOP
}

/// Handles signals from now on, for a command that keeps nothing when it is stopped.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen_to_discard() -> Result<(), Failure> {
    let asked = || {
        if STOP.swap(true, Ordering::Relaxed) {
            warpline_lab::run::abandon();
            process::exit(i32::from(Code::Interrupted.number()));
        }
    };
    handle(asked).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}

/// Handles signals from now on. `unfinished` are the run directories to be written: a third Ctrl-C removes their incomplete files.
/// The second Ctrl-C only prints a note, and loses nothing.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen(unfinished: Vec<PathBuf>) -> Result<(), Failure> {
    let mut requests = 0;
    let asked = move || {
        STOP.store(true, Ordering::Relaxed);
        requests += 1;
        match requests {
            1 => return output::note("stopping; what was measured is kept"),
            2 => {
                return output::note(
                    "what was measured is being written; once more to end at once without results",
                );
            }
            _ => {}
        }
        warpline_lab::run::abandon();
        for target in &unfinished {
            warpline_results::discard_unfinished(target);
        }
        process::exit(i32::from(Code::Interrupted.number()));
    };
    handle(asked).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}

/// Handles signals from now on, in one of several processes of a run: the first ends it at once, without results. What starts them, `mpirun`,
/// gives them a second at most. `unfinished` is the run directory to be written, if this process writes it.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen_together(unfinished: Option<PathBuf>) -> Result<(), Failure> {
    let asked = move || {
        if let Some(target) = &unfinished {
            warpline_results::discard_unfinished(target);
            output::note("ended by a signal; nothing is kept of a run in several processes");
        }
        process::exit(i32::from(Code::Interrupted.number()));
    };
    handle(asked).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}

/// Handles signals from now on, for a command that leaves nothing behind: the first request is followed silently, the second ends the
/// process at once.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen_plainly() -> Result<(), Failure> {
    let asked = || {
        if STOP.swap(true, Ordering::Relaxed) {
            process::exit(i32::from(Code::Interrupted.number()));
        }
    };
    handle(asked).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}

/// Asks the run to stop when `parent`, the process that has started this one, is gone, however it ended. It may be gone already.
#[cfg(unix)]
pub(crate) fn stop_with(parent: u32) {
    std::thread::spawn(move || {
        while std::os::unix::process::parent_id() == parent {
            pause();
        }
        STOP.store(true, Ordering::Relaxed);
    });
}

/// How often to look whether the parent is there.
#[cfg(unix)]
#[expect(clippy::disallowed_methods, reason = "another process is watched, by the machine's time")]
fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(200));
}

/// Calls `asked`, on a thread of its own, whenever a signal asks the process to end.
#[cfg(unix)]
fn handle(mut asked: impl FnMut() + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !ignored::is_ignored(signal));
    let mut signals = Signals::new(heeded)?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            asked();
        }
    })?;
    Ok(())
}

/// Calls `asked`, on a thread of its own, whenever a signal asks the process to end.
#[cfg(not(unix))]
fn handle(asked: impl FnMut() + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(asked).map_err(io::Error::other)
}
