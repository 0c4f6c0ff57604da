//! A command whose TCP connections yield to all others, as `warpline nice` runs it.
//!
//! The command starts in a control group of its own ([`crate::cgroup`]). Programs attached to the group give TCP Nice, which is in the kernel
//! ([`crate::bpf`]), to every socket that the command and its children open, and limit what they receive, if requested.
//! If the kernel or the user's privileges do not allow that, there are other means ([`means`]); the outcome says which were used.
//!
//! When the command has ended its control group is removed; processes that it left running move to the group above, and connections keep their
//! settings. If this process is killed, the kernel signals the command to end, the programs attached to the group end with the descriptors that hold them, and
//! [`crate::keeper`] ends what is in the group and removes it.

mod config;
pub mod means;
mod meter;
pub(crate) mod supervise;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::ExitStatus;

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

use crate::bpf::Counts;
use crate::process::pause;
use crate::registry::{self, Entry};
use crate::signals::Signals;
use crate::start::{self, StartError};
use config::system;
pub use config::{NiceConfig, NiceError};
use means::{Means, Way};
pub use meter::Connections;
use meter::Meter;

/// The result of a command.
#[derive(Debug)]
pub struct NiceOutcome {
    /// How the command ended.
    pub status: ExitStatus,
    /// What made it yield.
    pub way: Way,
    /// Counters of its sockets; `None` if nothing counts.
    pub counts: Option<Counts>,
    /// The last reading of its connections; `None` if they cannot be read.
    pub reading: Option<Connections>,
}

/// How often a command's connections are read, in nanoseconds.
const PERIOD: i64 = 250_000_000;

/// Runs a command so that its TCP connections yield, until it ends.
///
/// Calls `began` with the means before the command starts, `watch` four times a second with the state of the connections, and `lingers` if
/// the command has ended and this function waits for processes that it left running, which could not connect without us.
///
/// # Errors
/// If it cannot yield as requested, or cannot be started. Nothing is left behind then.
pub fn run(
    config: &NiceConfig,
    began: impl FnOnce(&Way),
    mut watch: impl FnMut(&Connections),
    lingers: impl FnOnce(),
) -> Result<NiceOutcome, NiceError> {
    // Leftovers of an earlier session must not be in the way.
    let _ = registry::clean(&mut |_| {});
    let mut entry = Entry::create("warpline nice");
    let mut means = Means::prepare(config, &mut entry)?;
    began(means.way());
    let mut meter = Meter::new(&means);
    let signals = Signals::listen().map_err(system("listen for signals"))?;
    let (command, session) = (config.command.clone(), entry.session.id.clone());
    let mut child = means.start(move |door| begin(&command, door, &session))?;
    let pid = rustix::process::Pid::from_child(&child);
    let ended = pidfd_open(pid, PidfdFlags::empty())
        .map_err(|errno| system("watch the command (Linux 5.3)")(errno.into()))?;
    let number = Pid::from_raw(child.id() as i32);
    let status = loop {
        wait_for(ended.as_fd());
        signals.forward(|signal: Signal| {
            let _ = kill(number, signal);
        });
        // Before the command is reaped: afterwards its number may belong to another process.
        if let Some(reading) = meter.read() {
            watch(reading);
        }
        if let Some(status) = child.try_wait().map_err(system("wait for the command"))? {
            break status;
        }
    };
    wait_for_the_left(&mut means, &signals, lingers);
    Ok(NiceOutcome { status, way: means.way().clone(), counts: means.counts(), reading: meter.last() })
}

/// If processes that the command left running cannot connect without us, waits until they have ended, or until a signal ends the wait.
fn wait_for_the_left(means: &mut Means, signals: &Signals, lingers: impl FnOnce()) {
    // What has come so far was for the command.
    signals.take();
    let enough = || {
        let ends = |signal: &Signal| matches!(signal, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP);
        signals.take().iter().any(ends)
    };
    // The end of the last process shows after a moment.
    let mut lingers = Some(lingers);
    for turn in 0.. {
        if !means.is_needed() || enough() {
            break;
        }
        if turn == 10
            && let Some(note) = lingers.take()
        {
            note();
        }
        pause();
    }
}

/// Waits until `descriptor` is readable, for a period at most.
fn wait_for(descriptor: BorrowedFd<'_>) {
    let span = Timespec { tv_sec: 0, tv_nsec: PERIOD };
    // An interruption is a signal, which the caller handles.
    let _ = poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&span));
}

/// Starts the command, in the control group that `door` leads into.
fn begin(words: &[OsString], door: Option<File>, session: &str) -> Result<std::process::Child, NiceError> {
    let fail = |source| StartError { command: words.first().cloned().unwrap_or_default(), source };
    let mut command = start::command(words, session).map_err(fail)?;
    let prepare = move || {
        if let Some(door) = &door {
            // SAFETY: the descriptor is open and the buffer has the length that is given.
            if unsafe { libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // If this process is killed the command gets a signal to end: otherwise it would go on in the foreground.
    Ok(start::start(&mut command, rustix::process::Signal::TERM, prepare).map_err(fail)?)
}
