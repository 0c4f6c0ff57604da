//! Ctrl-C and SIGTERM: the first asks the run to stop and keep what it has, the second ends the process at once.

use std::path::PathBuf;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Code, Failure};
use crate::output;

/// Whether somebody asked to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// Whether the run is to stop at the next batch.
pub(crate) fn requested() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Listens from now on. `unfinished` are the run directories that are to come: a second Ctrl-C clears away what is
/// half-written for them.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen(unfinished: Vec<PathBuf>) -> Result<(), Failure> {
    let handler = move || {
        if !STOP.swap(true, Ordering::Relaxed) {
            output::note("stopping; what was measured is kept (once more to end at once without results)");
            return;
        }
        for target in &unfinished {
            warpline_lab::results::discard_unfinished(target);
        }
        process::exit(i32::from(Code::Interrupted.number()));
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}
