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

/// Listens from now on. `unfinished` is where the results would come to be: a second Ctrl-C clears away what is half-written
/// for it.
///
/// # Errors
/// If the system does not allow a handler.
pub(crate) fn listen(unfinished: Option<PathBuf>) -> Result<(), Failure> {
    let handler = move || {
        if !STOP.swap(true, Ordering::Relaxed) {
            output::note("stopping; what was measured is kept (once more to end at once without results)");
            return;
        }
        if let Some(target) = &unfinished {
            warpline_lab::results::discard_unfinished(target);
        }
        process::exit(i32::from(Code::Interrupted.number()));
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::run(format!("cannot listen for Ctrl-C: {error}")))
}
