//! Signals while a command of the user's runs.
//!
//! The terminal sends Ctrl-C and Ctrl-\ to the command as well as to us: they are for the command, and we ignore them. SIGTERM
//! and SIGHUP come to us alone: we pass them on, and the second SIGTERM kills the command.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The signals received since [`Signals::listen`].
#[derive(Debug)]
pub(crate) struct Signals {
    term: Arc<AtomicBool>,
    hangup: Arc<AtomicBool>,
    asked: Cell<bool>,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let nobody = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, Arc::clone(&nobody))?;
        signal_hook::flag::register(SIGQUIT, nobody)?;
        let signals = Signals { term: Arc::default(), hangup: Arc::default(), asked: Cell::new(false) };
        signal_hook::flag::register(SIGTERM, Arc::clone(&signals.term))?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&signals.hangup))?;
        Ok(signals)
    }

    /// Passes on the signals received, with `send`.
    pub(crate) fn forward(&self, send: impl Fn(Signal)) {
        if self.term.swap(false, Ordering::Relaxed) {
            send(if self.asked.replace(true) { Signal::SIGKILL } else { Signal::SIGTERM });
        }
        if self.hangup.swap(false, Ordering::Relaxed) {
            send(Signal::SIGHUP);
        }
    }
}
