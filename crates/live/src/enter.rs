//! A command of the user's on a live host of a run that another process makes.
//!
//! Namespaces of hosts have no names. The run holds them by descriptors, which another process of the same user opens below `/proc`. What it starts
//! there has the mark of the run's session, and ends with the run.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};

use nix::sched::{CloneFlags, setns};
use nix::unistd::tcgetpgrp;
use pty_process::Size;
use pty_process::blocking::{Command, open};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::{Deserialize, Serialize};

use crate::host::Hosts;
use crate::privilege;
use crate::signals::heed_terminal;
use crate::start::{self, MARK, StartError};

/// Bytes that are read after a command's end: more than its terminal holds.
const LEFT: usize = 1 << 18;

/// How another process gets to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The descriptor of its network namespace, below `/proc`.
    pub network: PathBuf,
    /// The user namespace of the run, if that is an ordinary user's.
    pub user: Option<PathBuf>,
    /// The name of the run's session, which marks its processes.
    pub session: String,
    /// Environment variables of programs on the host.
    pub environment: BTreeMap<String, String>,
}

/// Why a command cannot be run on a host.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The namespaces cannot be entered.
    #[error("cannot get to the host: {what}: {source}; the run may be over, or another user's")]
    Enter {
        /// What failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The command cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Door {
    /// The door to host `at` of this process's `hosts`.
    pub fn to(hosts: &Hosts, at: usize, environment: BTreeMap<String, String>) -> Self {
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        Door {
            network: own.join(format!("fd/{}", hosts.namespace(at).fd().as_raw_fd())),
            user: privilege::in_user_namespace().then(|| own.join("ns/user")),
            session: hosts.session().to_owned(),
            environment,
        }
    }

    /// Starts the command with these words on the host, at a terminal of its own with these rows and columns. This process moves there, too, and must have
    /// only one thread.
    ///
    /// # Errors
    /// If the namespaces cannot be entered, or the command cannot be started.
    pub fn begin(&self, words: &[OsString], (rows, columns): (u16, u16)) -> Result<Inside, EnterError> {
        let fail = |error: pty_process::Error| {
            let source = match error {
                pty_process::Error::Io(source) => source,
                other => io::Error::other(other),
            };
            StartError { command: words.first().cloned().unwrap_or_default(), source }
        };
        let (pty, end) = open().map_err(fail)?;
        pty.resize(Size::new(rows, columns)).map_err(fail)?;
        self.enter()?;
        let (program, arguments) =
            words.split_first().ok_or_else(|| fail(io::Error::from(io::ErrorKind::InvalidInput).into()))?;
        let command = Command::new(program).args(arguments).envs(&self.environment).env(MARK, &self.session);
        // SAFETY: the function makes system calls only, and allocates nothing.
        let command = unsafe { command.pre_exec(heed_terminal) };
        let child = command.spawn(end).map_err(fail)?;
        let pty = File::from(OwnedFd::from(pty));
        rustix::io::ioctl_fionbio(&pty, true).map_err(|errno| fail(io::Error::from(errno).into()))?;
        Ok(Inside { pty, child, closed: false, after: 0, passed: VecDeque::new() })
    }

    /// Becomes the command with these words on the host. This process must have only one thread. Returns only if that fails.
    pub fn become_command(&self, words: &[OsString]) -> EnterError {
        if let Err(error) = self.enter() {
            return error;
        }
        let fail = |source| StartError { command: words.first().cloned().unwrap_or_default(), source };
        match start::command(words, &self.session) {
            Ok(mut command) => fail(command.envs(&self.environment).exec()).into(),
            Err(source) => fail(source).into(),
        }
    }

    fn enter(&self) -> Result<(), EnterError> {
        let failed = |what| move |source: io::Error| EnterError::Enter { what, source };
        // Opened before this process moves: the files are those of the machine's own `/proc`.
        let network = File::open(&self.network).map_err(failed("open its network namespace"))?;
        if let Some(path) = &self.user {
            let user = File::open(path).map_err(failed("open the run's user namespace"))?;
            if !is_own(&user, Path::new("/proc/self/ns/user")) {
                setns(&user, CloneFlags::CLONE_NEWUSER)
                    .map_err(|errno| failed("enter the run's user namespace")(errno.into()))?;
            }
            // So that ping works, although this is not root.
            privilege::keep_capabilities().map_err(failed("keep the network capabilities"))?;
        }
        setns(&network, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| failed("enter its network namespace")(errno.into()))
    }
}

/// A command on a host at a terminal of its own. When dropped, it hears that its terminal has gone.
#[derive(Debug)]
pub struct Inside {
    /// Our end of the terminal.
    pty: File,
    child: Child,
    /// Whether no process has the terminal any longer.
    closed: bool,
    /// Bytes that came after the command's end.
    after: usize,
    /// What was typed and is not yet told of: how many bytes, and whether the command itself was in the foreground.
    passed: VecDeque<(usize, bool)>,
}

/// What comes from the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What it prints.
    Printed(Vec<u8>),
    /// So many of the bytes typed have been passed on, and whether the command itself was in the foreground then.
    Passed(usize, bool),
    /// It has ended; none if the system does not say how.
    Ended(Option<ExitStatus>),
}

impl Inside {
    /// Readable when the command prints something; none if nothing has the terminal any longer.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.closed).then(|| self.pty.as_fd())
    }

    /// The next event, if one has come. The command's end comes after all that it has printed, whatever else still has its terminal.
    pub fn take(&mut self) -> Option<Event> {
        if let Some((count, first)) = self.passed.pop_front() {
            return Some(Event::Passed(count, first));
        }
        // Asked before: what it printed is there then.
        let ended = self.child.try_wait();
        let mut bytes = [0; 4096];
        match if self.closed { Ok(0) } else { self.pty.read(&mut bytes) } {
            // Others may go on printing after its end.
            Ok(count @ 1..) if self.after < LEFT => {
                self.after += if matches!(ended, Ok(None)) { 0 } else { count };
                return Some(Event::Printed(bytes[..count].to_vec()));
            }
            Ok(1..) => {}
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
            }
            // An error of the device (EIO), where no process has it any longer.
            _ => self.closed = true,
        }
        match ended {
            Ok(None) => None,
            Ok(Some(status)) => Some(Event::Ended(Some(status))),
            Err(_) => Some(Event::Ended(None)),
        }
    }

    /// Types the first of these bytes, and returns how many they are: none if the command takes nothing at the moment. [`Event::Passed`] follows.
    pub fn type_in(&mut self, bytes: &[u8]) -> usize {
        let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 3));
        // The program in front may be another one behind the end of a line.
        let piece = &bytes[..end.map_or(bytes.len(), |end| end + 1)];
        let first = tcgetpgrp(&self.pty).is_ok_and(|front| front.as_raw() as u32 == self.child.id());
        let taken = match self.pty.write(piece) {
            Ok(taken) => taken,
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
                0
            }
            // Nobody has the terminal any longer.
            Err(_) => piece.len(),
        };
        if taken > 0 {
            self.passed.push_back((taken, first));
        }
        taken
    }

    /// The terminal has these rows and columns from now on.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let _ = tcsetwinsize(&self.pty, size);
    }
}

/// Whether a program can be found that is called so in a command.
pub fn is_there(program: &OsString) -> bool {
    let path = Path::new(program);
    let directories = std::env::var_os("PATH").unwrap_or_default();
    match path.components().count() {
        1 => std::env::split_paths(&directories).any(|directory| directory.join(path).is_file()),
        _ => path.is_file(),
    }
}

/// Whether a namespace is that of this process.
fn is_own(namespace: &File, own: &Path) -> bool {
    let inode = namespace.metadata().map(|data| data.ino());
    matches!((inode, std::fs::metadata(own)), (Ok(inode), Ok(own)) if inode == own.ino())
}

/// Lets other processes of this user look at this one below `/proc`: the kernel forbids it of a process that has entered a user namespace.
///
/// # Errors
/// If the system refuses.
pub fn let_others_look() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}
