//! Signals while a command of the user's runs.
//!
//! The terminal sends Ctrl-C and Ctrl-\ to the command as well as to us: they are for the command, and we ignore them. SIGTERM
//! and SIGHUP come to us alone: we pass them on, and the second SIGTERM kills the command.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
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
    /// Readable when a signal has come that was not passed on yet.
    bell: UnixStream,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        let nobody = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, Arc::clone(&nobody))?;
        signal_hook::flag::register(SIGQUIT, nobody)?;
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let signals = Signals { term: Arc::default(), hangup: Arc::default(), asked: Cell::new(false), bell };
        signal_hook::flag::register(SIGTERM, Arc::clone(&signals.term))?;
        signal_hook::flag::register(SIGHUP, Arc::clone(&signals.hangup))?;
        // After the flags: who hears the bell finds them set.
        for signal in [SIGTERM, SIGHUP] {
            signal_hook::low_level::pipe::register(signal, rung.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Becomes readable when a signal comes. A signal interrupts a wait that has begun, but not one that is about to begin: that needs this.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Passes on what has come, by `send`.
    pub(crate) fn forward(&self, send: impl Fn(Signal)) {
        while matches!((&self.bell).read(&mut [0; 16]), Ok(1..)) {}
        if self.term.swap(false, Ordering::Relaxed) {
            send(if self.asked.replace(true) { Signal::SIGKILL } else { Signal::SIGTERM });
        }
        if self.hangup.swap(false, Ordering::Relaxed) {
            send(Signal::SIGHUP);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use nix::sys::signal::raise;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// A signal that comes just before the wait ends it: nothing else may wake a shell without traffic.
    #[test]
    fn a_signal_that_came_before_the_wait_ends_it() {
        let signals = Signals::listen().unwrap();
        let sent = RefCell::new(Vec::new());
        let rings = || {
            let mut fds = [PollFd::from_borrowed_fd(signals.bell(), PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
        };
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGTERM] {
            assert!(!rings());
            raise(signal).unwrap();
            assert!(rings());
            signals.forward(|signal| sent.borrow_mut().push(signal));
        }
        assert_eq!(*sent.borrow(), [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL]);
        assert!(!rings());
    }
}
