//! This process's terminal, joined to one on a host: keys go there, and what is printed there comes here.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use warpline_live::signals::{Signal, Signals};

use super::keys::{Keys, Typed};
use crate::failure::Code;

/// Rows and columns, where there is no terminal that has some.
const SIZE: (u16, u16) = (24, 80);

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
    /// Types this, up to an end of a line or Ctrl-C as the last byte; an [`Event::Passed`] follows.
    fn type_in(&mut self, bytes: &[u8]);
    /// The input is over.
    fn end_input(&mut self);
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
    // What has been typed, and not been passed on yet.
    let mut sent: VecDeque<Typed> = VecDeque::new();
    let mut open = true;
    loop {
        let typed = {
            let input = stdin();
            let (far, bell) = (far.fd(), signals.bell());
            let mut fds = vec![
                PollFd::from_borrowed_fd(far, PollFlags::IN),
                PollFd::from_borrowed_fd(bell, PollFlags::IN),
            ];
            if open {
                fds.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
            }
            // A signal interrupts it, and rings the bell.
            let _ = poll(&mut fds, None);
            fds.get(2).is_some_and(|fd| !fd.revents().is_empty())
        };
        for signal in signals.take() {
            match signal {
                Signal::SIGWINCH => {
                    let (rows, columns) = size();
                    far.resize(rows, columns);
                }
                Signal::SIGINT => {
                    sent.push_back(Typed::Interrupt);
                    far.type_in(&[3]);
                }
                Signal::SIGQUIT => far.type_in(&[28]),
                other => return Ok(Ended::Code(Code::signalled(other as i32))),
            }
        }
        if typed {
            let mut bytes = [0; 4096];
            // Not buffered: nothing is to wait there.
            let count = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
            if count == 0 {
                open = false;
                far.end_input();
            }
            for piece in bytes[..count].split_inclusive(|byte| Keys::is_end(*byte)) {
                sent.extend(piece.iter().filter_map(|byte| keys.press(*byte)));
                far.type_in(piece);
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
