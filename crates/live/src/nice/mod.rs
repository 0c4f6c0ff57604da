//! A command whose TCP connections yield to all others, as `warpline nice` runs it.
//!
//! The command starts in a control group of its own ([`cgroup`]). Programs attached to the group give TCP Nice, which is in the kernel
//! ([`crate::bpf`]), to every socket that the command and its children open, and limit what they receive, if requested.
//! If the kernel or the user's privileges do not allow that, there are other means ([`means`]); the outcome says which were used.
//!
//! When the command has ended its control group is removed; processes that it left running move to the group above, and connections keep their
//! settings. If this process is killed, the kernel signals the command to end, the programs end with the descriptors that hold them, and
//! the next command or [`crate::registry::clean`] removes the empty group.

pub mod cgroup;
pub mod means;
mod meter;
pub(crate) mod supervise;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};
use serde::Serialize;

use crate::bpf::{BpfError, Counts, Parameters};
use crate::registry::{self, Entry};
use crate::signals::Signals;
use crate::start::{self, StartError};
use means::{Means, Way};
use meter::Meter;
pub use meter::Reading;

/// Which direction of a connection yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What it sends.
    Sends,
    /// What it receives.
    Receives,
    /// Both.
    Both,
}

/// A TCP connection that Nice controls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Socket {
    /// Number of its control group.
    pub cgroup: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Which direction yields.
    pub direction: Direction,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that the other end has sent.
    pub bytes_received: u64,
    /// Congestion window in segments; may be below one.
    pub window: f64,
    /// Advertised window in segments; zero if receiving is not controlled.
    pub receive_window: f64,
    /// Smoothed round-trip time in milliseconds.
    pub srtt_ms: f64,
    /// Smallest round-trip time seen, in milliseconds, assumed to be that of empty queues.
    pub base_rtt_ms: f64,
    /// Largest round-trip time, assumed to be that of full queues; at first twice the smallest.
    pub max_rtt_ms: f64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Rounds in which it has yielded.
    pub halvings: u32,
    /// How long it has been controlled, in seconds.
    pub age_s: f64,
    /// How much of that it backed off, in seconds: from a congested round to the next that was not.
    pub yielded_s: f64,
}

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct NiceConfig {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// Parameters of TCP Nice; `None` for the defaults, or for those of the loaded one.
    pub parameters: Option<Parameters>,
    /// Whether to limit what the command receives as well.
    pub receive: bool,
    /// Whether to refuse lesser means than TCP Nice in the kernel.
    pub strict: bool,
}

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
    pub reading: Option<Reading>,
}

/// Why a command could not be run in the background.
#[derive(Debug, thiserror::Error)]
pub enum NiceError {
    /// TCP Nice is not available as requested, and lesser means are refused.
    #[error("{reason}; without --strict {instead}")]
    Strict {
        /// Why there is no TCP Nice.
        reason: Box<NiceError>,
        /// What would be used instead.
        instead: &'static str,
    },
    /// TCP Nice is not available, and neither are lesser means.
    #[error("{reason}; {remedy}")]
    Nothing {
        /// Why there is no TCP Nice.
        reason: Box<NiceError>,
        /// What could help.
        remedy: String,
    },
    /// An error that lesser means cannot make up for.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] StartError),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl Fn(io::Error) -> NiceError {
    move |source| NiceError::System { what, source }
}

/// The name of the control group of the session `id`.
pub(crate) fn group_name(id: &str) -> String {
    format!("warpline-nice-{id}")
}

/// Whether the session `id` makes a control group at this path of the hierarchy.
pub(crate) fn is_group(path: &str, id: &str) -> bool {
    let plain = path
        .strip_prefix('/')
        .is_some_and(|path| path.split('/').all(|part| part != ".." && !part.is_empty()));
    plain && path.rsplit('/').next() == Some(group_name(id).as_str())
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
    mut watch: impl FnMut(&Reading),
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
    wait_for_the_left(&mut means, lingers)?;
    Ok(NiceOutcome { status, way: means.way().clone(), counts: means.counts(), reading: meter.last() })
}

/// If processes that the command left running cannot connect without us, waits until they have ended, or until a signal ends the wait.
fn wait_for_the_left(means: &mut Means, lingers: impl FnOnce()) -> Result<(), NiceError> {
    let enough = Arc::new(AtomicBool::new(false));
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&enough)).map_err(system("listen for signals"))?;
    }
    // The end of the last process shows after a moment.
    let mut lingers = Some(lingers);
    for turn in 0.. {
        if !means.is_needed() || enough.load(Ordering::Relaxed) {
            break;
        }
        if turn == 10
            && let Some(tell) = lingers.take()
        {
            tell();
        }
        crate::registry::pause();
    }
    Ok(())
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
