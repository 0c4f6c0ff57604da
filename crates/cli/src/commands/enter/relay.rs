//! This process's terminal, joined to one on a host: keys go there, and what is printed there comes here.

use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write, stderr, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use warpline_live::signals::{Signal, Signals};

use super::keys::{INTERRUPT, Keys, Typed};
use crate::failure::Code;

/// Rows and columns, where there is no terminal that has some.
const SIZE: (u16, u16) = (24, 80);
/// Bytes that may wait for the other end before nothing more is read here.
const WAITING: usize = 1 << 16;
/// What is taken from the other end at a time, before keys and signals here are looked at again.
const EVENTS: usize = 16;
/// How often to look whether the command has ended.
const LOOK: Timespec = millis(100);
/// How often to try whether the other end takes more.
const PAUSE: Timespec = millis(5);

const fn millis(millis: i64) -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 }
}

/// What comes from the other end.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// What is printed there.
    Printed(Vec<u8>),
    /// What is printed there as an error, where that is apart.
    Complained(Vec<u8>),
    /// So many of the bytes typed have been passed on, and whether the command itself was in the foreground then, not one that it has started.
    Passed(usize, bool),
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
    /// Readable when something comes; none if nothing does any more but the command's end.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// The next event, if one has come.
    fn take(&mut self) -> Option<Event>;
    /// Types the first of these bytes, and returns how many they are. [`Event::Passed`] follows.
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
    /// The first command, a shell for example, has got a line, whose text is not always known.
    fn line(&mut self, text: Option<&str>);
    /// Ctrl-C was typed, for the first command or for one that it has started.
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

/// Whether somebody types here and sees what is printed.
pub(super) fn is_typed() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Rows and columns of this process's terminal.
pub(super) fn size() -> (u16, u16) {
    let size = tcgetwinsize(stdin()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or(SIZE, |size| (size.ws_row, size.ws_col))
}

/// Bytes that were typed, on their way.
#[derive(Default)]
struct Way {
    /// Those that were not taken yet.
    waiting: Vec<u8>,
    /// Those that were taken, and not passed on yet.
    sent: VecDeque<u8>,
    keys: Keys,
}

impl Way {
    /// Sends what the other end takes.
    fn send(&mut self, far: &mut dyn Far) {
        while !self.waiting.is_empty() {
            match far.type_in(&self.waiting) {
                0 => break,
                taken => self.sent.extend(self.waiting.drain(..taken)),
            }
        }
    }

    /// So many bytes have been passed on.
    fn passed(&mut self, count: usize, first: bool, notes: &mut dyn Notes) {
        for byte in self.sent.drain(..count.min(self.sent.len())) {
            if !first {
                // Keys for another program are no part of the shell's next line.
                self.keys = Keys::default();
                if byte == INTERRUPT {
                    notes.interrupt(false);
                }
                continue;
            }
            match self.keys.press(byte) {
                Some(Typed::Interrupt) => notes.interrupt(true),
                Some(Typed::Line(text)) => notes.line(text.as_deref()),
                None => {}
            }
        }
    }
}

/// Joins this process's terminal to the other until the command there has ended, or a signal ends this process. `typed` says whether somebody types.
///
/// # Errors
/// If the system refuses something.
pub(super) fn relay(far: &mut dyn Far, notes: &mut dyn Notes, typed: bool) -> io::Result<Ended> {
    let signals = Signals::listen()?;
    let _raw = typed.then(Raw::begin).transpose()?;
    let mut way = Way::default();
    let (mut open, mut told, mut more) = (true, false, false);
    loop {
        way.send(far);
        let wanted = open && way.waiting.len() < WAITING;
        let patience = match (more, way.waiting.is_empty()) {
            (true, _) => millis(0),
            (false, false) => PAUSE,
            (false, true) => LOOK,
        };
        if await_any(far, &signals, wanted, patience) {
            let mut bytes = [0; 4096];
            // Not buffered: nothing is to wait there.
            let count = rustix::io::read(stdin(), &mut bytes).unwrap_or(0);
            open = count > 0;
            way.waiting.extend(&bytes[..count]);
        }
        if !open && !told && way.waiting.is_empty() {
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
        let mut taken = 0;
        while taken < EVENTS
            && let Some(event) = far.take()
        {
            taken += 1;
            match event {
                Event::Printed(bytes) => print(&mut stdout(), &bytes)?,
                Event::Complained(bytes) => print(&mut stderr(), &bytes)?,
                Event::Passed(count, first) => way.passed(count, first, notes),
                Event::Ended(ended) => return Ok(ended),
            }
        }
        more = taken == EVENTS;
    }
}

fn print(to: &mut dyn Write, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes)?;
    to.flush()
}

/// Waits until something comes from the other end, is typed here if that is `wanted`, or a signal comes, and for `patience` at most. Returns whether
/// something was typed.
fn await_any(far: &dyn Far, signals: &Signals, wanted: bool, patience: Timespec) -> bool {
    let (input, far) = (stdin(), far.fd());
    let mut fds = vec![PollFd::from_borrowed_fd(signals.bell(), PollFlags::IN)];
    if wanted {
        fds.push(PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN));
    }
    fds.extend(far.map(|far| PollFd::from_borrowed_fd(far, PollFlags::IN)));
    // A signal interrupts it, and rings the bell.
    let _ = poll(&mut fds, Some(&patience));
    wanted && !fds[1].revents().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<String>);

    impl Notes for Seen {
        fn line(&mut self, text: Option<&str>) {
            self.0.push(text.unwrap_or("?").to_owned());
        }
        fn interrupt(&mut self, first: bool) {
            self.0.push(format!("^C {first}"));
        }
    }

    #[test]
    fn keys_for_another_program_are_no_part_of_a_line() {
        let (mut way, mut seen) = (Way::default(), Seen::default());
        for (bytes, first) in [
            ("less file\r", true),
            ("q", false),
            ("ls", true),
            ("\r", true),
            ("text for cat\r", false),
            ("\x03", false),
            ("\x1b[A", false),
            ("ps\r", true),
            ("half\x03", true),
        ] {
            way.sent.extend(bytes.bytes());
            way.passed(bytes.len(), first, &mut seen);
        }
        assert_eq!(seen.0, ["less file", "ls", "^C false", "ps", "^C true"]);
    }
}
