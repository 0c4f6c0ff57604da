//! This process's terminal, joined to one on a host: keys go there, and what is printed there comes here.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use warpline_live::signals::{Signal, Signals};

use super::keys::{Keys, Typed};
use crate::failure::Code;

/// Rows and columns, where there is no terminal that has some.
const SIZE: (u16, u16) = (24, 80);

/// Bytes that may wait for the other end before nothing more is read here.
const WAITING: usize = 1 << 16;
/// How often to try whether the other end takes more.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };

/// What comes from the other end.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// What is printed there.
    Printed(Vec<u8>),
    /// The end of a line, or Ctrl-C, has been passed on, and whether the command itself was in the foreground then, not one that it has started.
    Passed(bool),
    /// The command has ended.
    Ended(Ended),
}

/// How a command has ended.
#[derive(Clone, Debug)]
pub(super) enum Ended {
    /// With this exit code.
    Code(Code),
    /// The run is over.
    Over,
}

/// A terminal on a host, with a command.
pub(super) trait Far {
    /// Readable when something comes.
    fn fd(&self) -> BorrowedFd<'_>;
    /// The next event, if one has come.
    fn take(&mut self) -> Option<Event>;
    /// Types the first of these bytes, and returns how many they are. For each end of a line and Ctrl-C among them, an [`Event::Passed`] follows.
    fn type_in(&mut self, bytes: &[u8]) -> usize;
    /// The input is over, where nobody types.
    fn end_input(&mut self);
    /// Sends the command a signal, where nobody types.
    fn signal(&mut self, signal: i32);
    /// It has these rows and columns from now on.
    fn resize(&mut self, rows: u16, columns: u16);
}

/// Takes note of what is typed.
pub(super) trait Notes {
    /// A line has ended: its text, if that is known, and whether the first command took it, a shell for example, and not one that it has started.
    fn line(&mut self, text: Option<&str>, first: bool);
    /// Ctrl-C was typed, for the first command or one that it has started.
    fn interrupt(&mut self, first: bool);
}

/// This process's terminal, which passes on every key while this lives.
struct Raw(Termios);

impl Raw {
    fn begin() -> io::Result<Self> {
        let usual = tcgetattr(stdin())?;
        let mut raw = usual.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Raw(usual))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Whether somebody types at this process's input.
pub(super) fn is_typed() -> bool {
    stdin().is_terminal()
}

/// Rows and columns of this process's terminal.
pub(super) fn size() -> (u16, u16) {
    let size = tcgetwinsize(stdin()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or(SIZE, |size| (size.ws_row, size.ws_col))
}

/// Joins this process's terminal to the other until the command there has ended, or a signal ends this process.
///
/// # Errors
/// If the system refuses something.
pub(super) fn relay(far: &mut dyn Far, notes: &mut dyn Notes) -> io::Result<Ended> {
    let signals = Signals::listen()?;
    let _raw = is_typed().then(Raw::begin).transpose()?;
    let mut keys = Keys::default();
    // What has been typed and not been taken, and what of that has an end which was not passed on yet.
    let mut waiting: Vec<u8> = Vec::new();
    let mut sent: VecDeque<Typed> = VecDeque::new();
    let (mut open, mut told) = (true, false);
    loop {
        while !waiting.is_empty() {
            match far.type_in(&waiting) {
                0 => break,
                taken => drop(waiting.drain(..taken)),
            }
        }
        if await_any(far, &signals, open && waiting.len() < WAITING, !waiting.is_empty()) {
            let mut bytes = [0; 4096];
            // Not buffered: nothing is to wait there.
            let count = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
            open = count > 0;
            sent.extend(bytes[..count].iter().filter_map(|byte| keys.press(*byte)));
            waiting.extend(&bytes[..count]);
        }
        if !open && !told && waiting.is_empty() {
            told = true;
            far.end_input();
        }
        for signal in signals.take() {
            match signal {
                Signal::SIGWINCH => {
                    let (rows, columns) = size();
                    far.resize(rows, columns);
                }
                Signal::SIGINT | Signal::SIGQUIT => far.signal(signal as i32),
                other => return Ok(Ended::Code(Code::signalled(other as i32))),
            }
        }
        while let Some(event) = far.take() {
            match event {
                Event::Printed(bytes) => {
                    let mut output = stdout();
                    output.write_all(&bytes)?;
                    output.flush()?;
                }
                Event::Passed(first) => match sent.pop_front() {
                    Some(Typed::Line(text)) => notes.line(text.as_deref(), first),
                    Some(Typed::Interrupt) => notes.interrupt(first),
                    None => {}
                },
                Event::Ended(ended) => return Ok(ended),
            }
        }
    }
}

/// Waits until something comes from the other end, is typed here if that is `wanted`, or a signal comes; not for long if something waits to be taken.
/// Returns whether something was typed.
fn await_any(far: &dyn Far, signals: &Signals, wanted: bool, waits: bool) -> bool {
    let input = stdin();
    let (far, bell) = (far.fd(), signals.bell());
    let mut fds =
        vec![PollFd::from_borrowed_fd(far, PollFlags::IN), PollFd::from_borrowed_fd(bell, PollFlags::IN)];
    if wanted {
        fds.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
    }
    // A signal interrupts it, and rings the bell.
    let _ = poll(&mut fds, waits.then_some(&PAUSE));
    fds.get(2).is_some_and(|fd| !fd.revents().is_empty())
}
