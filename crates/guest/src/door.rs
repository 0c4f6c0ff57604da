//! A command of the user's on a guest of a run that another process makes, at a terminal of that guest.
//!
//! A terminal is two named pipes in the guest's directory, where this user's other processes find them. A lock says which of them is in use.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde::{Deserialize, Serialize};
use warpline_agent::terminal::{
    Bytes, FromTerminal, Lines, MOST, Start, TERMINALS, TerminalOrder, ToTerminal, line, order_file,
};
use warpline_agent::{Ending, SHARE};

use crate::error::{Doing, GuestError};
use crate::time::{host_now, pause};

/// How long a guest may take to begin with a command, in nanoseconds of the machine. One that is busy, or dilated, takes its time.
const PATIENCE: u64 = 20_000_000_000;

/// How another process gets to a host of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The guest's directory.
    directory: PathBuf,
    /// The number of the host.
    host: u32,
    /// Environment variables of programs on the host.
    environment: Vec<(String, String)>,
}

/// Why a command cannot run there.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// The guest has gone.
    #[error("cannot get to the guest: {0}; the run may be over, or another user's")]
    Gone(io::Error),
    /// All terminals are in use.
    #[error("all {} terminals of this guest are in use; close one first", TERMINALS)]
    Full,
    /// There is no such program.
    #[error("{0}")]
    NotThere(String),
    /// The command cannot be started.
    #[error("{0}")]
    NotStarted(String),
    /// It does not answer.
    #[error("the guest does not begin with the command within {} s", PATIENCE / 1_000_000_000)]
    Silent,
}

fn place(directory: &Path, number: u32, kind: &str) -> PathBuf {
    directory.join(format!("terminal{number}.{kind}"))
}

/// Makes the pipes of this many terminals: what is typed, and what is printed.
pub(crate) fn pipes(directory: &Path, count: u32) -> Result<Vec<[File; 2]>, GuestError> {
    let pipe = |number: u32, kind: &str| {
        let path = place(directory, number, kind);
        mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR)?;
        open(&path)
    };
    let both = |number| Ok([pipe(number, "typed")?, pipe(number, "printed")?]);
    let made: io::Result<Vec<_>> = (0..count).map(both).collect();
    made.doing(|| "make the terminals of a guest".to_owned())
}

/// Opens a guest's end of a pipe, for both directions: so it has no end while nobody is at the other side.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)
}

impl Door {
    pub(crate) fn new(directory: &Path, host: u32, environment: Vec<(String, String)>) -> Self {
        Door { directory: directory.to_owned(), host, environment }
    }

    /// Starts a command there, at a free terminal. `typed` says whether somebody types; `environment` is added to the host's.
    ///
    /// # Errors
    /// If there is no free terminal, or the guest does not answer.
    pub fn begin(
        &self,
        words: &[String],
        environment: &[(String, String)],
        size: (u16, u16),
        typed: bool,
    ) -> Result<Inside, DoorError> {
        let (lock, number) = self.claim()?;
        let mut options = OpenOptions::new();
        options.custom_flags(libc::O_NONBLOCK);
        let path = |kind| place(&self.directory, number, kind);
        let order = TerminalOrder {
            host: self.host,
            words: words.to_vec(),
            environment: self.environment.iter().chain(environment).cloned().collect(),
            directory: std::env::current_dir().unwrap_or_else(|_| "/".into()).to_string_lossy().into_owned(),
            size,
            typed,
        };
        let place = self.directory.join(SHARE).join(order_file(number));
        fs::write(place, line(&order)).map_err(DoorError::Gone)?;
        let mut inside = Inside {
            typed: options.clone().write(true).open(path("typed")).map_err(DoorError::Gone)?,
            printed: options.read(true).open(path("printed")).map_err(DoorError::Gone)?,
            lines: Lines::default(),
            under_way: false,
            ended: false,
            _lock: lock,
        };
        // Whoever was here before may have gone in the middle of a message.
        let own = host_now();
        inside.write(b"\n");
        inside.say(&ToTerminal::Begin(own));
        while host_now() - own < PATIENCE {
            match inside.next() {
                Some(FromTerminal::Began(number)) if number == own => return Ok(inside),
                Some(FromTerminal::Failed(number, Start { missing, why })) if number == own => {
                    inside.ended = true;
                    return Err(if missing { DoorError::NotThere(why) } else { DoorError::NotStarted(why) });
                }
                // The end of the pipe.
                Some(FromTerminal::Ended(Ending::Stopped)) => {
                    return Err(DoorError::Gone(io::ErrorKind::BrokenPipe.into()));
                }
                Some(_) => {}
                None => pause(),
            }
        }
        Err(DoorError::Silent)
    }

    /// A terminal that nobody uses.
    fn claim(&self) -> Result<(File, u32), DoorError> {
        for number in 0..TERMINALS {
            let path = place(&self.directory, number, "typed");
            let lock = File::open(place(&self.directory, number, "lock")).or_else(|_| {
                // Only where there is a terminal.
                path.metadata()?;
                File::create(place(&self.directory, number, "lock"))
            });
            let lock = lock.map_err(DoorError::Gone)?;
            match lock.try_lock() {
                Ok(()) => return Ok((lock, number)),
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(DoorError::Gone(error)),
            }
        }
        Err(DoorError::Full)
    }
}

/// A command at a terminal of a guest. When dropped, it hears that its terminal has gone.
#[derive(Debug)]
pub struct Inside {
    typed: File,
    printed: File,
    lines: Lines,
    /// Whether something typed was sent that has not been taken yet.
    under_way: bool,
    ended: bool,
    _lock: File,
}

/// What comes from the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What it prints.
    Printed(Vec<u8>),
    /// What it prints as an error, where nobody types.
    Complained(Vec<u8>),
    /// So many of the bytes typed have been passed on, and whether the command itself was in the foreground then.
    Passed(usize, bool),
    /// It has ended.
    Ended(Ending),
}

impl Inside {
    /// Readable when something comes; none if nothing will.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.ended).then(|| self.printed.as_fd())
    }

    /// The next event, if one has come.
    pub fn take(&mut self) -> Option<Event> {
        loop {
            return Some(match self.next()? {
                // Of another command.
                FromTerminal::Began(_) | FromTerminal::Failed(..) => continue,
                FromTerminal::Took => {
                    self.under_way = false;
                    continue;
                }
                FromTerminal::Printed(Bytes(bytes)) => Event::Printed(bytes),
                FromTerminal::Complained(Bytes(bytes)) => Event::Complained(bytes),
                FromTerminal::Passed(count, first) => Event::Passed(count as usize, first),
                FromTerminal::Ended(ending) => {
                    self.ended = true;
                    Event::Ended(ending)
                }
            });
        }
    }

    /// Types the first of these bytes, and returns how many they are: none if the guest takes nothing at the moment. [`Event::Passed`] follows.
    pub fn type_in(&mut self, bytes: &[u8]) -> usize {
        if self.under_way {
            return 0;
        }
        let piece = &bytes[..bytes.len().min(MOST)];
        // So small a message is written as a whole or not at all (pipe(7)).
        let message = line(&ToTerminal::Typed(Bytes(piece.to_vec())));
        match self.typed.write(&message) {
            Ok(_) => {
                self.under_way = true;
                piece.len()
            }
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => {
                0
            }
            // The guest is gone, which an event says.
            Err(_) => piece.len(),
        }
    }

    /// The input is over, where nobody types.
    pub fn end_input(&mut self) {
        self.say(&ToTerminal::Over);
    }

    /// Sends the command a signal, where nobody types.
    pub fn signal(&mut self, signal: i32) {
        self.say(&ToTerminal::Signal(signal));
    }

    /// The terminal has these rows and columns from now on.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.say(&ToTerminal::Size(rows, columns));
    }

    fn next(&mut self) -> Option<FromTerminal> {
        if let Some(message) = self.lines.next_message() {
            return Some(message);
        }
        let mut bytes = [0; 4096];
        match self.printed.read(&mut bytes) {
            // The guest is gone.
            Ok(0) => return Some(FromTerminal::Ended(Ending::Stopped)),
            Ok(count) => self.lines.add(&bytes[..count]),
            // Nothing has come.
            Err(_) => return None,
        }
        self.lines.next_message()
    }

    fn say(&mut self, message: &ToTerminal) {
        self.write(&line(message));
    }

    /// Writes all of it. Waits while the pipe is full: the guest may be slow.
    fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.typed.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pause(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if !self.ended {
            self.say(&ToTerminal::HangUp);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_ends_before_the_command_begins_is_gone_and_not_slow() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(SHARE)).unwrap();
        let ends = pipes(directory.path(), 1).unwrap();
        // The guest: it ends when the first byte was typed.
        let guest = std::thread::spawn(move || {
            let [[mut typed, _printed]]: [[File; 2]; 1] = ends.try_into().unwrap();
            while typed.read(&mut [0]).is_err() {
                pause();
            }
        });
        let door = Door::new(directory.path(), 0, Vec::new());
        let told = door.begin(&["true".to_owned()], &[], (24, 80), false).unwrap_err();
        assert!(matches!(told, DoorError::Gone(_)), "{told}");
        guest.join().unwrap();
    }
}
