//! Signals while a command of the user's runs.

mod ignored;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use nix::libc;
pub use nix::sys::signal::Signal;
use nix::sys::signal::{SigHandler, signal};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use ignored::is_ignored;

/// The signals that are caught, in the order in which they are passed on.
const CAUGHT: [Signal; 5] =
    [Signal::SIGINT, Signal::SIGQUIT, Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP];

/// The signals of a terminal that a process may have been started to ignore.
const OF_A_TERMINAL: [Signal; 6] =
    [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU];

/// Gives the signals of a terminal their usual effect again, in a process that is about to become a command with a terminal of its own. If this
/// program was started to ignore some, as a shell does in the background, that was meant for another terminal. Ctrl-C would have no effect here.
///
/// It makes system calls only, and allocates nothing.
///
/// # Errors
/// If the system refuses.
pub(crate) fn heed_terminal() -> io::Result<()> {
    for of_a_terminal in OF_A_TERMINAL {
        // SAFETY: the default effect is no function.
        unsafe { signal(of_a_terminal, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// Whether a process sent the signal with this `si_code` (`SI_FROMUSER` in the kernel's `asm-generic/siginfo.h`). Otherwise the kernel did, for a
/// terminal, and sent it to all processes in front of that.
const fn is_sent(code: i32) -> bool {
    code <= 0
}

/// The signals that have come since [`Signals::listen`].
#[derive(Debug)]
pub struct Signals {
    delivery: RefCell<SignalDelivery<UnixStream, WithRawSiginfo>>,
    /// Whether the command was asked to end.
    asked: Cell<bool>,
    /// The signal that asked this process to end before it had a command.
    early: Cell<Option<Signal>>,
    /// Readable when a signal has come that was not taken yet.
    bell: UnixStream,
}

impl Signals {
    /// Catches the signals that a terminal or another process sends to a command: from now on they have no other effect on this process.
    /// Those that this process was started to ignore stay ignored.
    ///
    /// # Errors
    /// If the system does not allow a handler.
    pub fn listen() -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        let heeded = CAUGHT.into_iter().map(|signal| signal as i32).filter(|&signal| !is_ignored(signal));
        let delivery = SignalDelivery::with_pipe(bell.try_clone()?, rung, WithRawSiginfo, heeded)?;
        let delivery = RefCell::new(delivery);
        Ok(Signals { delivery, asked: Cell::new(false), early: Cell::new(None), bell })
    }

    /// Becomes readable when a signal comes. A signal interrupts a wait that has begun, but not one that is about to begin: that needs this.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes the signals that have come, each once, with whether a process sent it.
    fn take_with_origin(&self) -> Vec<(Signal, bool)> {
        let come: Vec<libc::siginfo_t> = self.delivery.borrow_mut().pending().collect();
        let of = |signal: Signal| {
            let mut codes =
                come.iter().filter(|info| info.si_signo == signal as i32).map(|info| info.si_code);
            let first = codes.next()?;
            Some((signal, is_sent(first) || codes.any(is_sent)))
        };
        CAUGHT.into_iter().filter_map(of).collect()
    }

    /// Takes the signals that have come, each once.
    pub fn take(&self) -> Vec<Signal> {
        self.take_with_origin().into_iter().map(|(signal, _)| signal).collect()
    }

    /// For a process that has not started its command yet: how the command would have ended by a signal that has come, if one has that asks to end.
    /// The answer stays.
    pub(crate) fn early_end(&self) -> Option<ExitStatus> {
        let come = self.take().into_iter().find(|signal| *signal != Signal::SIGWINCH);
        self.early.set(self.early.get().or(come));
        // In a status, the number of the signal that ended the process has the lowest bits (wait(2)).
        self.early.get().map(|signal| ExitStatus::from_raw(signal as i32))
    }

    /// Passes on by `send` what has come for a command of this process's terminal. SIGTERM and SIGHUP come to this process alone, and so do SIGINT
    /// and SIGQUIT if a process sent them: what the terminal sends, the command gets as well. The second SIGTERM kills the command.
    pub(crate) fn forward(&self, send: impl Fn(Signal)) {
        for (signal, sent) in self.take_with_origin() {
            match signal {
                Signal::SIGTERM if self.asked.replace(true) => send(Signal::SIGKILL),
                Signal::SIGTERM | Signal::SIGHUP => send(signal),
                Signal::SIGINT | Signal::SIGQUIT if sent => send(signal),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use nix::sys::signal::{self, SigHandler, raise};
    use nix::unistd::{getpid, gettid};
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Listens while no other test does: signals are the whole process's. It is as if the process had been started to ignore SIGQUIT and nothing else.
    fn listen_alone() -> (MutexGuard<'static, bool>, Signals) {
        static PREPARED: Mutex<bool> = Mutex::new(false);
        let mut prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner);
        if !*prepared {
            for caught in CAUGHT {
                let wanted = if caught == Signal::SIGQUIT { SigHandler::SigIgn } else { SigHandler::SigDfl };
                // SAFETY: neither is a function.
                unsafe { signal::signal(caught, wanted) }.unwrap();
            }
            *prepared = true;
        }
        (prepared, Signals::listen().unwrap())
    }

    fn rings(signals: &Signals) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(signals.bell(), PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    /// Sends this thread a signal as the kernel does for a terminal. A process may pretend that to itself only.
    fn press(signal: Signal) {
        // SAFETY: numbers and a union of them, for which zero is a value.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        info.si_code = libc::SI_KERNEL;
        let (process, thread) = (getpid().as_raw(), gettid().as_raw());
        // SAFETY: the structure is the call's and outlives it.
        let result = unsafe {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal as i32, &raw const info)
        };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
    }

    /// A signal that comes just before the wait ends it: nothing else may wake a shell without traffic.
    #[test]
    fn a_signal_that_came_before_the_wait_ends_it() {
        let (_alone, signals) = listen_alone();
        let sent = RefCell::new(Vec::new());
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGTERM] {
            assert!(!rings(&signals));
            raise(signal).unwrap();
            assert!(rings(&signals));
            signals.forward(|signal| sent.borrow_mut().push(signal));
        }
        assert_eq!(*sent.borrow(), [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL]);
        assert!(!rings(&signals));
    }

    #[test]
    fn an_interrupt_is_passed_on_unless_it_is_the_terminal_s() {
        let (_alone, signals) = listen_alone();
        let sent = RefCell::new(Vec::new());
        let forward = || signals.forward(|signal| sent.borrow_mut().push(signal));
        press(Signal::SIGINT);
        assert!(rings(&signals));
        forward();
        assert!(sent.borrow().is_empty());
        raise(Signal::SIGINT).unwrap();
        forward();
        assert_eq!(*sent.borrow(), [Signal::SIGINT]);
        // Both, before anybody looks.
        press(Signal::SIGINT);
        raise(Signal::SIGINT).unwrap();
        forward();
        assert_eq!(*sent.borrow(), [Signal::SIGINT, Signal::SIGINT]);
        // Who does not pass it on gets it in any case.
        press(Signal::SIGINT);
        assert_eq!(signals.take(), [Signal::SIGINT]);
    }

    #[test]
    fn who_is_asked_to_end_before_the_command_starts_remembers_it() {
        let (_alone, signals) = listen_alone();
        raise(Signal::SIGWINCH).unwrap();
        assert_eq!(signals.early_end(), None);
        press(Signal::SIGINT);
        let ended = signals.early_end().unwrap();
        assert_eq!(ended.signal(), Some(Signal::SIGINT as i32));
        assert!(!rings(&signals));
        assert_eq!(signals.early_end(), Some(ended));
    }

    #[test]
    fn what_the_parent_set_to_be_ignored_stays_ignored() {
        let (_alone, signals) = listen_alone();
        raise(Signal::SIGQUIT).unwrap();
        assert!(!rings(&signals) && signals.take().is_empty());
        assert!(is_ignored(Signal::SIGQUIT as i32) && !is_ignored(Signal::SIGINT as i32));
    }
}
