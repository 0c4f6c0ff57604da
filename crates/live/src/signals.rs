//! Signals while a command of the user's runs.

use std::cell::Cell;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use nix::sys::signal::Signal;

/// The signals that are caught, in the order in which they are passed on.
const CAUGHT: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP];

/// The signals that have come since [`Signals::listen`].
#[derive(Debug)]
pub struct Signals {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
    /// Whether the command was asked to end.
    asked: Cell<bool>,
    /// Readable when a signal has come that was not taken yet.
    bell: UnixStream,
}

impl Signals {
    /// Catches the signals that a terminal or another process sends to a command: from now on they have no other effect on this process.
    ///
    /// # Errors
    /// If the system does not allow a handler.
    pub fn listen() -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let mut flags = Vec::new();
        for signal in CAUGHT {
            let flag = Arc::default();
            signal_hook::flag::register(signal as i32, Arc::clone(&flag))?;
            // After the flag: whoever hears the bell finds it set.
            signal_hook::low_level::pipe::register(signal as i32, rung.try_clone()?)?;
            flags.push((signal, flag));
        }
        Ok(Signals { flags, asked: Cell::new(false), bell })
    }

    /// Becomes readable when a signal comes. A signal interrupts a wait that has begun, but not one that is about to begin: that needs this.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes the signals that have come, each once.
    pub fn take(&self) -> Vec<Signal> {
        while matches!((&self.bell).read(&mut [0; 16]), Ok(1..)) {}
        let come = self.flags.iter().filter(|(_, flag)| flag.swap(false, Ordering::Relaxed));
        come.map(|(signal, _)| *signal).collect()
    }

    /// Passes on by `send` what has come for a command of this process's terminal. SIGTERM and SIGHUP come to this process alone; the second
    /// SIGTERM kills the command. The others the terminal has sent to the command as well.
    pub(crate) fn forward(&self, send: impl Fn(Signal)) {
        for signal in self.take() {
            match signal {
                Signal::SIGTERM if self.asked.replace(true) => send(Signal::SIGKILL),
                Signal::SIGTERM | Signal::SIGHUP => send(signal),
                _ => {}
            }
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
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM] {
            assert!(!rings());
            raise(signal).unwrap();
            assert!(rings());
            signals.forward(|signal| sent.borrow_mut().push(signal));
        }
        assert_eq!(*sent.borrow(), [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL]);
        assert!(!rings());
    }
}
