//! A program on a live host: prepared before the run's clock starts, started by one write, stopped by signals.
//!
//! Starting a process takes milliseconds, in which an emulator would carry no packet. So the process is created beforehand and waits,
//! in the host's namespace, for a byte in a pipe; then it becomes the program. A thread of its own waits for its end: the kernel
//! kills the process when that thread ends, so that nothing outlives an emulator that is killed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::fcntl::OFlag;
use nix::libc;
use nix::sched::{CloneFlags, setns};
pub use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::{Pid, pipe2};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use warpline_core::TimeDelta;

use crate::netns::NetNs;
use crate::privilege;
use crate::start;

/// What to run, and how.
#[derive(Debug)]
pub struct ProgramConfig {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Environment variables in addition to this process's.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; `None` for this process's.
    pub directory: Option<PathBuf>,
    /// The file for its standard output.
    pub stdout: File,
    /// The file for its standard error.
    pub stderr: File,
    /// Whether this process is an ordinary user's in a user namespace: then the program gets its capabilities.
    pub ordinary: bool,
}

/// The state of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has not been started.
    Waiting,
    /// It runs.
    Running,
    /// It could not be started, for this reason.
    NotStarted(String),
    /// It has ended.
    Ended(ExitStatus),
}

/// A descriptor that becomes readable when any of several programs changes its state.
#[derive(Clone, Debug)]
pub struct Changes(Arc<OwnedFd>);

impl Changes {
    /// One for any number of programs.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Changes(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// Readable after a change, until [`clear`](Self::clear).
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Waits until there is a change, at most for `span`.
    pub fn wait(&self, span: TimeDelta) {
        let nanos = span.as_nanos();
        let span =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let _ = poll(&mut [PollFd::new(&*self.0, PollFlags::IN)], Some(&span));
    }

    /// Forgets the changes so far.
    pub fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0u8; 8]);
    }

    fn notify(&self) {
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

#[derive(Debug)]
struct Shared {
    state: State,
    /// The process, from its creation to its end.
    pid: Option<Pid>,
}

/// A program.
#[derive(Debug)]
pub struct Program {
    shared: Arc<Mutex<Shared>>,
    gate: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

/// The byte that opens the gate.
const GO: u8 = 1;
const NEVER: u8 = 0;

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing panics while it holds the lock; and if it did, the content would still be valid.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Program {
    /// Prepares a program in `namespace`, as one of `session`'s. State changes are signalled through `changes`.
    ///
    /// # Errors
    /// If the process cannot be made.
    pub fn prepare(
        config: ProgramConfig,
        namespace: &NetNs,
        session: &str,
        changes: &Changes,
    ) -> io::Result<Self> {
        let (gate_read, gate) = pipe2(OFlag::O_CLOEXEC)?;
        let (ready_read, ready) = pipe2(OFlag::O_CLOEXEC)?;
        let namespace = namespace.fd().try_clone_to_owned()?;
        let shared = Arc::new(Mutex::new(Shared { state: State::Waiting, pid: None }));
        let (own, changes) = (Arc::clone(&shared), changes.clone());
        let session = session.to_owned();
        let life = move || live(config, namespace, &session, (gate_read, ready), &own, &changes);
        let thread = std::thread::Builder::new().name("program".to_owned()).spawn(life)?;
        // The process has been created and sends its number, or it never will be.
        let mut number = [0u8; 4];
        let _ = nix::unistd::read(&ready_read, &mut number);
        let number = i32::from_ne_bytes(number);
        if number > 0 {
            locked(&shared).pid = Some(Pid::from_raw(number));
        }
        Ok(Program { shared, gate, thread: Some(thread) })
    }

    /// Lets it run.
    pub fn start(&self) {
        let mut shared = locked(&self.shared);
        if shared.state == State::Waiting {
            shared.state = State::Running;
            let _ = nix::unistd::write(&self.gate, &[GO]);
        }
    }

    /// Its state.
    pub fn state(&self) -> State {
        locked(&self.shared).state.clone()
    }

    /// Sends a signal to it and to those of its children that have not left its process group.
    pub fn signal(&self, signal: Signal) {
        let shared = locked(&self.shared);
        // Its number is its own as long as the lock is held: the thread that reaps it takes the lock too.
        if let (State::Running, Some(pid)) = (&shared.state, shared.pid) {
            let _ = killpg(pid, signal);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let waiting = locked(&self.shared).state == State::Waiting;
        if waiting {
            let _ = nix::unistd::write(&self.gate, &[NEVER]);
        } else {
            self.signal(Signal::SIGKILL);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The life of a program, on a thread of its own.
fn live(
    config: ProgramConfig,
    namespace: OwnedFd,
    session: &str,
    (gate, ready): (OwnedFd, OwnedFd),
    shared: &Mutex<Shared>,
    changes: &Changes,
) {
    let ready_too = ready.try_clone();
    let spawned = ready_too.and_then(|ready| spawn(config, namespace, session, gate, ready));
    // In case the process did not get as far as sending its number.
    let _ = nix::unistd::write(&ready, &[0; 4]);
    match spawned {
        Err(error) => locked(shared).state = State::NotStarted(error.to_string()),
        Ok(mut child) => {
            let pid = Pid::from_raw(child.id() as i32);
            // Not reaped, so that its number stays its own until the lock is held.
            while waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
                == Err(nix::errno::Errno::EINTR)
            {}
            let mut shared = locked(shared);
            shared.pid = None;
            shared.state = match child.wait() {
                Ok(status) => State::Ended(status),
                Err(error) => State::NotStarted(error.to_string()),
            };
        }
    }
    changes.notify();
}

/// Creates the process; returns when it has become the program.
fn spawn(
    config: ProgramConfig,
    namespace: OwnedFd,
    session: &str,
    gate: OwnedFd,
    ready: OwnedFd,
) -> io::Result<std::process::Child> {
    let mut command = start::command(&config.words, session)?;
    command.envs(config.environment).stdin(Stdio::null()).stdout(config.stdout).stderr(config.stderr);
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    let ordinary = config.ordinary;
    let prepare = move || {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        // Ctrl-C at a terminal is for the run, which stops programs itself.
        nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        if ordinary {
            privilege::keep_capabilities()?;
        }
        nix::unistd::write(&ready, &nix::unistd::getpid().as_raw().to_ne_bytes())?;
        let mut byte = [NEVER];
        // SAFETY: the descriptor is open and the buffer has the length that is given.
        while unsafe { libc::read(gate.as_raw_fd(), byte.as_mut_ptr().cast(), 1) } < 0 {
            if nix::errno::Errno::last() != nix::errno::Errno::EINTR {
                return Err(io::Error::last_os_error());
            }
        }
        if byte[0] == GO { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ECANCELED)) }
    };
    start::start(&mut command, rustix::process::Signal::KILL, prepare)
}
