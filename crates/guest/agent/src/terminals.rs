//! Terminals: shells and commands that somebody of the machine types into while the run goes on ([`warpline_agent::terminal`]).
//!
//! Each has a thread. It passes on what is typed to a pseudo-terminal of the guest, and what is printed there back. The agent's own thread starts the
//! commands and learns how they end, as of all other processes.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios::{OutputFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpid, pipe2, setsid, tcgetpgrp};
use warpline_agent::Ending;
use warpline_agent::terminal::{
    Bytes, FIRST, FromTerminal, Lines, MOST, TerminalOrder, ToTerminal, line, order_file,
};

use crate::failure::{Doing, Failure};
use crate::hosts::Hosts;
use crate::mounts::SHARED;
use crate::programs;

/// Stack size of a terminal's thread.
const STACK: usize = 128 << 10;
/// How long a command has to end after its terminal is gone.
const GRACE: Duration = Duration::from_secs(1);
/// How often to look whether a command has ended that has closed its terminal, in milliseconds.
const LOOK: u8 = 20;
/// Bytes that may wait for a command that does not read, before nothing more is taken for it.
const WAITING: usize = 1 << 16;

/// A command that a terminal's thread wants to be started.
struct Wanted {
    order: TerminalOrder,
    /// The command's end of the pseudo-terminal.
    end: OwnedFd,
    /// The command's input, where that is not the terminal.
    input: Option<OwnedFd>,
    /// Where its process, and then its ending, is told.
    told: Sender<Told>,
}

/// What a terminal's thread is told of its command.
enum Told {
    Started(Pid),
    NotStarted(Failure),
    Ended(Ending),
}

/// The commands at all terminals.
pub(crate) struct Terminals {
    wanted: Receiver<Wanted>,
    running: Vec<(Pid, Sender<Told>)>,
}

impl Terminals {
    /// Opens this many terminals.
    pub(crate) fn open(count: u32) -> Result<Self, Failure> {
        let (want, wanted) = channel();
        for number in 0..count {
            let path = format!("/dev/tty{}", FIRST + number);
            let mut options = OpenOptions::new();
            let console = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path);
            let console = console.doing(|| format!("open {path}"))?;
            let mut raw = tcgetattr(&console).doing(|| format!("ask {path}"))?;
            cfmakeraw(&mut raw);
            tcsetattr(&console, SetArg::TCSANOW, &raw).doing(|| format!("set {path}"))?;
            let want = want.clone();
            let serve = move || Line { number, console, lines: Lines::default(), want }.serve();
            let thread = std::thread::Builder::new().stack_size(STACK).spawn(serve);
            thread.doing(|| "start a thread for a terminal".to_owned())?;
        }
        Ok(Terminals { wanted, running: Vec::new() })
    }

    /// Starts the commands that are asked for.
    pub(crate) fn start(&mut self, hosts: &Hosts) {
        while let Ok(Wanted { order, end, input, told }) = self.wanted.try_recv() {
            match spawn(&order, end, input, hosts) {
                Ok(pid) => {
                    let _ = told.send(Told::Started(pid));
                    self.running.push((pid, told));
                }
                Err(failure) => {
                    let _ = told.send(Told::NotStarted(failure));
                }
            }
        }
    }

    /// Records that a process has ended. Returns whether it was a command at a terminal.
    pub(crate) fn reaped(&mut self, pid: Pid, ending: &Ending) -> bool {
        let Some(at) = self.running.iter().position(|(own, _)| *own == pid) else { return false };
        let (_, told) = self.running.swap_remove(at);
        let _ = told.send(Told::Ended(ending.clone()));
        true
    }
}

/// Starts a command whose controlling terminal is `end`.
fn spawn(order: &TerminalOrder, end: OwnedFd, input: Option<OwnedFd>, hosts: &Hosts) -> Result<Pid, Failure> {
    let doing = || "prepare a terminal".to_owned();
    let mut command =
        programs::command(&order.words, &order.environment, &order.directory, hosts, order.host)?;
    let again = || end.try_clone().doing(doing);
    let input = input.map_or_else(again, Ok)?;
    command.stdin(Stdio::from(input)).stdout(again()?).stderr(again()?);
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            // SAFETY: no pointers are passed.
            Errno::result(libc::ioctl(end.as_raw_fd(), libc::TIOCSCTTY, 0))?;
            Ok(())
        });
    }
    let child = command.spawn().doing(|| format!("start {}", order.words[0]))?;
    Ok(Pid::from_raw(child.id() as i32))
}

/// A terminal, as its thread knows it.
struct Line {
    number: u32,
    console: File,
    lines: Lines,
    want: Sender<Wanted>,
}

/// The number of a command that is to begin.
type Next = u64;

/// Why a command is not served any longer.
enum After {
    /// It has ended.
    Ended(Ending),
    /// Whoever types has gone, perhaps because another command is to begin.
    Gone(Option<Next>),
}

impl Line {
    /// Serves one command after another.
    fn serve(mut self) {
        while let Some(message) = self.wait() {
            let ToTerminal::Begin(number) = message else { continue };
            let mut next = Some(number);
            while let Some(number) = next {
                next = self.command(number).unwrap_or_else(|failure| {
                    self.say(&FromTerminal::Failed(number, failure.to_string()));
                    None
                });
            }
        }
    }

    /// The next message. None if the console is gone.
    fn wait(&mut self) -> Option<ToTerminal> {
        loop {
            if let Some(message) = self.lines.next_message() {
                return Some(message);
            }
            self.read()?;
        }
    }

    /// Reads what has come, or waits for it.
    fn read(&mut self) -> Option<()> {
        let mut bytes = [0; 4096];
        let count = self.console.read(&mut bytes).ok().filter(|count| *count > 0)?;
        self.lines.add(&bytes[..count]);
        Some(())
    }

    fn say(&mut self, message: &FromTerminal) {
        let _ = self.console.write_all(&line(message));
    }

    /// The order of the next command.
    fn order(&self) -> Result<TerminalOrder, Failure> {
        let path = Path::new(SHARED).join(order_file(self.number));
        let bytes = fs::read(&path).doing(|| format!("read {}", path.display()))?;
        serde_json::from_slice(&bytes).doing(|| "understand a terminal's order".to_owned())
    }

    /// From a command's start to its end. Returns the one that comes after it, if that is known.
    fn command(&mut self, number: u64) -> Result<Option<Next>, Failure> {
        let order = self.order()?;
        let doing = || "make a terminal".to_owned();
        let (rows, columns) = order.size;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let OpenptyResult { master, slave } = openpty(&size, None).doing(doing)?;
        for own in [&master, &slave] {
            // Other commands do not inherit it.
            // SAFETY: no pointers are passed.
            Errno::result(unsafe { libc::fcntl(own.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) })
                .doing(doing)?;
        }
        let (read, write) = if order.typed {
            (None, None)
        } else {
            let mut plain = tcgetattr(&slave).doing(doing)?;
            plain.output_flags.remove(OutputFlags::OPOST);
            tcsetattr(&slave, SetArg::TCSANOW, &plain).doing(doing)?;
            let (read, write) = pipe2(OFlag::O_CLOEXEC).doing(doing)?;
            (Some(read), Some(write))
        };
        let mut inside = Inside {
            // The same end again: what is typed and what is printed are awaited apart.
            input: Some(write.map_or_else(|| master.try_clone(), Ok).doing(doing)?.into()),
            terminal: master.into(),
            waiting: Vec::new(),
            over: false,
        };
        for own in inside.input.iter().chain([&inside.terminal]) {
            // SAFETY: no pointers are passed.
            let set = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
            Errno::result(set).doing(doing)?;
        }
        let (told, ending) = channel();
        let _ = self.want.send(Wanted { order, end: slave, input: read, told });
        // The agent waits for signals.
        let _ = kill(getpid(), Signal::SIGIO);
        let pid = match ending.recv() {
            Ok(Told::Started(pid)) => pid,
            Ok(Told::NotStarted(failure)) => return Err(failure),
            // The agent is about to end.
            Ok(Told::Ended(_)) | Err(_) => return Ok(None),
        };
        self.say(&FromTerminal::Began(number));
        match self.pass(&mut inside, pid, &ending) {
            After::Ended(ending) => {
                self.say(&FromTerminal::Ended(ending));
                Ok(None)
            }
            After::Gone(next) => {
                // What still runs there hears that the terminal is gone.
                let _ = killpg(pid, Signal::SIGHUP);
                drop(inside);
                if ending.recv_timeout(GRACE).is_err() {
                    let _ = killpg(pid, Signal::SIGKILL);
                    let _ = ending.recv();
                }
                Ok(next)
            }
        }
    }

    /// Passes on what is typed and printed until the command has ended, or whoever types has gone.
    fn pass(&mut self, inside: &mut Inside, pid: Pid, told: &Receiver<Told>) -> After {
        // Whether no process has the terminal any longer. The command may still be about to end.
        let mut closed = false;
        // Whether nobody was told yet that what was typed has been taken.
        let mut owed = false;
        loop {
            if closed && let Ok(Told::Ended(ending)) = told.try_recv() {
                return After::Ended(ending);
            }
            while let Some(message) = self.lines.next_message() {
                match message {
                    ToTerminal::Typed(Bytes(bytes)) => {
                        inside.waiting.extend(bytes);
                        owed = true;
                    }
                    ToTerminal::Size(rows, columns) => inside.resize(rows, columns),
                    ToTerminal::Over => inside.over = true,
                    ToTerminal::Signal(signal) => {
                        let _ = Signal::try_from(signal).map(|signal| killpg(pid, signal));
                    }
                    ToTerminal::HangUp => return After::Gone(None),
                    ToTerminal::Begin(number) => return After::Gone(Some(number)),
                }
            }
            while let Some(front) = inside.feed(pid) {
                self.say(&FromTerminal::Passed(front));
            }
            if owed && inside.waiting.len() < WAITING {
                owed = false;
                self.say(&FromTerminal::Took);
            }
            let (come, printed) = self.await_any(inside, closed);
            if printed {
                let mut bytes = [0; MOST];
                match inside.terminal.read(&mut bytes) {
                    Ok(count @ 1..) => self.say(&FromTerminal::Printed(Bytes(bytes[..count].to_vec()))),
                    Err(error) if [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&error.kind()) => {
                    }
                    // The end of the last process there is an error (EIO).
                    _ => closed = true,
                }
            }
            if come && self.read().is_none() {
                return After::Gone(None);
            }
        }
    }

    /// Waits until something comes or is printed, or what waits can be passed on. Returns the former two.
    fn await_any(&self, inside: &Inside, closed: bool) -> (bool, bool) {
        let mut fds = vec![PollFd::new(self.console.as_fd(), PollFlags::POLLIN)];
        if !closed {
            fds.push(PollFd::new(inside.terminal.as_fd(), PollFlags::POLLIN));
            let input = inside.input.as_ref().filter(|_| !inside.waiting.is_empty());
            fds.extend(input.map(|input| PollFd::new(input.as_fd(), PollFlags::POLLOUT)));
        }
        let _ = poll(&mut fds, if closed { PollTimeout::from(LOOK) } else { PollTimeout::NONE });
        let ready =
            |at: usize| fds.get(at).and_then(|fd| fd.revents()).is_some_and(|events| !events.is_empty());
        (ready(0), !closed && ready(1))
    }
}

/// The agent's ends of a command's terminal.
struct Inside {
    terminal: File,
    /// Where its input goes; none if that is over.
    input: Option<File>,
    /// What has not been passed on yet.
    waiting: Vec<u8>,
    /// Whether nothing will follow it.
    over: bool,
}

impl Inside {
    /// Passes on what waits, as far as the command takes it, up to the end of a line or Ctrl-C. Returns whether the command `pid` itself was in the foreground
    /// then; none if no such end was passed on.
    fn feed(&mut self, pid: Pid) -> Option<bool> {
        while !self.waiting.is_empty() {
            let end = self.waiting.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 3));
            let piece = end.map_or(self.waiting.len(), |end| end + 1);
            let front = tcgetpgrp(&self.terminal).is_ok_and(|front| front == pid);
            let taken = match self.input.as_mut().map(|input| input.write(&self.waiting[..piece])) {
                Some(Ok(taken)) => taken,
                Some(Err(error))
                    if [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&error.kind()) =>
                {
                    return None;
                }
                // Nobody will read it.
                _ => piece,
            };
            self.waiting.drain(..taken);
            if taken == piece && end.is_some() {
                return Some(front);
            }
        }
        if self.over {
            self.input = None;
        }
        None
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the pointer is to a size that lives through the call.
        unsafe { libc::ioctl(self.terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    }
}
