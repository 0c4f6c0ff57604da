//! A program on a live host: prepared before the run's clock starts, started by one write, stopped by signals.
//!
//! Starting a process takes milliseconds, in which an emulator would carry no packet. So the process is created beforehand and waits,
//! in the host's namespace, at a gate (`held`); then it becomes the program. A thread of its own waits for its end: the kernel
//! kills the process when that thread ends, so that it does not outlive an emulator that is killed. What it has started itself is left to
//! [`crate::keeper`].

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns};
pub use nix::sys::signal::Signal;
use nix::sys::signal::killpg;
use nix::unistd::Pid;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use warpline_core::TimeDelta;

use crate::held::{Gate, Held, hold};
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
    /// What it waits for, from its creation to its start.
    gate: Option<Gate>,
}

/// A program.
#[derive(Debug)]
pub struct Program {
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
}

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
        let namespace = namespace.fd().try_clone_to_owned()?;
        let shared = Arc::new(Mutex::new(Shared { state: State::Waiting, pid: None, gate: None }));
        let (own, changes) = (Arc::clone(&shared), changes.clone());
        let session = session.to_owned();
        let (made, known) = channel();
        let life = move || live(config, namespace, &session, &own, made, &changes);
        let thread = std::thread::Builder::new().name("program".to_owned()).spawn(life)?;
        // Until the process waits, or it is known that there will be none.
        let _ = known.recv();
        Ok(Program { shared, thread: Some(thread) })
    }

    /// Lets it run.
    pub fn start(&self) {
        let mut shared = locked(&self.shared);
        if shared.state == State::Waiting {
            shared.state = State::Running;
            if let Some(gate) = shared.gate.take() {
                gate.open();
            }
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
        // In a block, since the thread takes the lock, too.
        {
            let shared = locked(&self.shared);
            if let Some(pid) = shared.pid {
                let _ = killpg(pid, Signal::SIGKILL);
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The life of a program, on a thread of its own. `made` is dropped when the process waits, or when there will be none.
fn live(
    config: ProgramConfig,
    namespace: OwnedFd,
    session: &str,
    shared: &Mutex<Shared>,
    made: Sender<()>,
    changes: &Changes,
) {
    match spawn(config, namespace, session) {
        Err(error) => locked(shared).state = State::NotStarted(error.to_string()),
        Ok((held, gate)) => {
            {
                let mut shared = locked(shared);
                (shared.pid, shared.gate) = (Some(held.pid()), Some(gate));
            }
            drop(made);
            // Not reaped, so that its number stays its own until the lock is held.
            held.wait_for_end();
            let mut shared = locked(shared);
            (shared.pid, shared.gate) = (None, None);
            shared.state = match held.reap() {
                Ok(status) => State::Ended(status),
                Err(error) => State::NotStarted(error.to_string()),
            };
        }
    }
    changes.notify();
}

/// Creates the process; returns when it waits.
fn spawn(config: ProgramConfig, namespace: OwnedFd, session: &str) -> io::Result<(Held, Gate)> {
    let mut command = start::command(&config.words, session)?;
    command.envs(config.environment).stdin(Stdio::null()).stdout(config.stdout).stderr(config.stderr);
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    let ordinary = config.ordinary;
    let prepare = move || -> io::Result<()> {
        setns(&namespace, CloneFlags::CLONE_NEWNET)?;
        // Ctrl-C at a terminal is for the run, which stops programs itself.
        nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        if ordinary {
            privilege::keep_capabilities()?;
        }
        Ok(())
    };
    hold(command, prepare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_one_is_noticed_while_others_wait_and_they_go_in_any_order() {
        if !privilege::is_privileged() {
            return warpline_skip::skip("root", "this needs root's privileges for networks");
        }
        let (namespace, changes) = (NetNs::current().unwrap(), Changes::new().unwrap());
        let nowhere = || File::options().write(true).open("/dev/null").unwrap();
        let prepare = |words: &[&str]| {
            let config = ProgramConfig {
                words: words.iter().map(OsString::from).collect(),
                environment: Vec::new(),
                directory: None,
                stdout: nowhere(),
                stderr: nowhere(),
                ordinary: false,
            };
            Program::prepare(config, &namespace, "a-test", &changes).unwrap()
        };
        let first = prepare(&["sh", "-c", "exit 3"]);
        let missing = prepare(&["/nowhere/at/all"]);
        let waiting = prepare(&["true"]);
        let running = prepare(&["sleep", "600"]);
        for program in [&first, &missing, &running] {
            program.start();
        }
        for _ in 0..2 {
            if !matches!((first.state(), missing.state()), (State::Ended(_), State::NotStarted(_))) {
                changes.wait(TimeDelta::from_secs(20));
                changes.clear();
            }
        }
        assert!(matches!(first.state(), State::Ended(status) if status.code() == Some(3)));
        assert!(matches!(missing.state(), State::NotStarted(why) if why.contains("os error 2")));
        assert_eq!((waiting.state(), running.state()), (State::Waiting, State::Running));
        // None waits for another to go.
        drop(running);
        drop(waiting);
    }
}
