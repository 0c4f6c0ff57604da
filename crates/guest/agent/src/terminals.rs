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
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpid, pipe2, setsid, tcgetpgrp};
use warpline_agent::Ending;
use warpline_agent::terminal::{
    Bytes, FIRST, FromTerminal, Lines, MOST, Start, TerminalOrder, ToTerminal, line, order_file,
};

use crate::failure::{Doing, Failure};
use crate::hosts::Hosts;
use crate::mounts::SHARED;
use crate::programs;

/// Stack size of a terminal's thread.
const STACK: usize = 128 << 10;
/// How long a command has to end after its terminal is gone.
const GRACE: Duration = Duration::from_secs(1);
/// How often to look whether a command has ended, in milliseconds.
const LOOK: u8 = 20;
/// Pieces of what is printed that are passed on before anything else is looked at again; and after a command's end, more than its terminal holds.
const ROUND: usize = 8;
const LEFT: usize = 1000;
/// Bytes that may wait for a command that does not read, before nothing more is taken for it.
const WAITING: usize = 1 << 16;

/// A command that a terminal's thread wants to be started.
struct Wanted {
    order: TerminalOrder,
    /// The command's end of the pseudo-terminal.
    end: OwnedFd,
    /// The command's ends of the pipes that are its input, output and errors, where these are not the terminal.
    pipes: Option<[OwnedFd; 3]>,
    /// Receives the number of its process, and later how it ended.
    told: Sender<Told>,
}

/// News of a command, for the thread of its terminal.
enum Told {
    Started(Pid),
    NotStarted(Start),
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
        while let Ok(Wanted { order, end, pipes, told }) = self.wanted.try_recv() {
            match spawn(&order, end, pipes, hosts) {
                Ok(pid) => {
                    let _ = told.send(Told::Started(pid));
                    self.running.push((pid, told));
                }
                Err(start) => {
                    let _ = told.send(Told::NotStarted(start));
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

impl From<Failure> for Start {
    fn from(failure: Failure) -> Self {
        Start { missing: false, why: failure.to_string() }
    }
}

/// Starts a command whose controlling terminal is `end`.
fn spawn(
    order: &TerminalOrder,
    end: OwnedFd,
    pipes: Option<[OwnedFd; 3]>,
    hosts: &Hosts,
) -> Result<Pid, Start> {
    let again = || end.try_clone().doing(|| "prepare a terminal".to_owned());
    // A directory of the machine's own `/run` is not here.
    let directory = if Path::new(&order.directory).is_dir() { &order.directory } else { "/" };
    let mut command = programs::command(&order.words, &order.environment, directory, hosts, order.host)?;
    let [input, output, errors] = match pipes {
        Some(pipes) => pipes,
        None => [again()?, again()?, again()?],
    };
    command.stdin(Stdio::from(input)).stdout(output).stderr(errors);
    // SAFETY: the closure makes two system calls and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            setsid()?;
            // SAFETY: no pointers are passed.
            Errno::result(libc::ioctl(end.as_raw_fd(), libc::TIOCSCTTY, 0))?;
            Ok(())
        });
    }
    match command.spawn() {
        Ok(child) => Ok(Pid::from_raw(child.id() as i32)),
        Err(error) => {
            let why = format!("cannot start {}: {error}", order.words[0]);
            Err(Start { missing: error.kind() == ErrorKind::NotFound, why })
        }
    }
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
                next = self.command(number).unwrap_or_else(|start| {
                    self.say(&FromTerminal::Failed(number, start));
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
    fn command(&mut self, number: u64) -> Result<Option<Next>, Start> {
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
        let mut inside = Inside { sources: Vec::new(), input: None, waiting: Vec::new(), over: false };
        let pipe = || pipe2(OFlag::O_CLOEXEC).doing(doing);
        let pipes = if order.typed {
            // Our end twice: what is typed and what is printed are awaited apart.
            inside.input = Some(master.try_clone().doing(doing)?.into());
            None
        } else {
            let (input, output, errors) = (pipe()?, pipe()?, pipe()?);
            inside.input = Some(input.1.into());
            inside.sources.push((output.0.into(), FromTerminal::Printed));
            inside.sources.push((errors.0.into(), FromTerminal::Complained));
            Some([input.0, output.1, errors.1])
        };
        let terminal = File::from(master.try_clone().doing(doing)?);
        inside.sources.push((master.into(), FromTerminal::Printed));
        for own in inside.sources.iter().map(|(file, _)| file).chain(&inside.input) {
            // SAFETY: no pointers are passed.
            let set = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
            Errno::result(set).doing(doing)?;
        }
        let (told, ending) = channel();
        let _ = self.want.send(Wanted { order, end: slave, pipes, told });
        // The agent waits for signals.
        let _ = kill(getpid(), Signal::SIGIO);
        let pid = match ending.recv() {
            Ok(Told::Started(pid)) => pid,
            Ok(Told::NotStarted(start)) => return Err(start),
            // The agent is about to end.
            Ok(Told::Ended(_)) | Err(_) => return Ok(None),
        };
        self.say(&FromTerminal::Began(number));
        match self.pass(&mut inside, &terminal, pid, &ending) {
            After::Ended(ending) => {
                self.say(&FromTerminal::Ended(ending));
                Ok(None)
            }
            After::Gone(next) => {
                // What still runs there hears that the terminal is gone.
                let _ = killpg(pid, Signal::SIGHUP);
                drop((inside, terminal));
                if ending.recv_timeout(GRACE).is_err() {
                    let _ = killpg(pid, Signal::SIGKILL);
                    let _ = ending.recv();
                }
                Ok(next)
            }
        }
    }

    /// Passes on what is typed and printed until the command has ended, or whoever types has gone.
    fn pass(&mut self, inside: &mut Inside, terminal: &File, pid: Pid, told: &Receiver<Told>) -> After {
        // Whether nobody was told yet that what was typed has been taken.
        let mut owed = false;
        loop {
            // Asked before: what it printed is there then. Others may still have its terminal.
            let ended = told.try_recv();
            let most = if ended.is_ok() { LEFT } else { ROUND };
            for printed in std::iter::from_fn(|| inside.read()).take(most) {
                self.say(&printed);
            }
            if let Ok(Told::Ended(ending)) = ended {
                return After::Ended(ending);
            }
            while let Some(message) = self.lines.next_message() {
                match message {
                    ToTerminal::Typed(Bytes(bytes)) => {
                        inside.waiting.extend(bytes);
                        owed = true;
                    }
                    ToTerminal::Size(rows, columns) => resize(terminal, rows, columns),
                    ToTerminal::Over => inside.over = true,
                    ToTerminal::Signal(signal) => {
                        let _ = Signal::try_from(signal).map(|signal| killpg(pid, signal));
                    }
                    ToTerminal::HangUp => return After::Gone(None),
                    ToTerminal::Begin(number) => return After::Gone(Some(number)),
                }
            }
            while let Some((count, first)) = inside.feed(terminal, pid) {
                self.say(&FromTerminal::Passed(count as u32, first));
            }
            if owed && inside.waiting.len() < WAITING {
                owed = false;
                self.say(&FromTerminal::Took);
            }
            if self.await_any(inside) && self.read().is_none() {
                return After::Gone(None);
            }
        }
    }

    /// Waits until something comes or is printed, or what waits can be passed on; not for long, since the command may end. Returns whether something comes.
    fn await_any(&self, inside: &Inside) -> bool {
        let mut fds = vec![PollFd::new(self.console.as_fd(), PollFlags::POLLIN)];
        fds.extend(inside.sources.iter().map(|(file, _)| PollFd::new(file.as_fd(), PollFlags::POLLIN)));
        let input = inside.input.as_ref().filter(|_| !inside.waiting.is_empty());
        fds.extend(input.map(|input| PollFd::new(input.as_fd(), PollFlags::POLLOUT)));
        let _ = poll(&mut fds, PollTimeout::from(LOOK));
        fds[0].revents().is_some_and(|events| !events.is_empty())
    }
}

/// Gives a terminal new rows and columns.
fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the pointer is to a size that lives through the call.
    unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
}

/// Makes the message with what was printed.
type Telling = fn(Bytes) -> FromTerminal;

/// The agent's ends of what a command reads and prints.
struct Inside {
    /// Where its output is read until that has ended, and the kind of message that carries it.
    sources: Vec<(File, Telling)>,
    /// Where its input goes; none if that is over.
    input: Option<File>,
    /// What has not been passed on yet.
    waiting: Vec<u8>,
    /// Whether nothing will follow it.
    over: bool,
}

/// Whether an error only says that there is nothing to do at the moment.
fn is_later(error: &std::io::Error) -> bool {
    [ErrorKind::Interrupted, ErrorKind::WouldBlock].contains(&error.kind())
}

impl Inside {
    /// The next that is printed, if something is.
    fn read(&mut self) -> Option<FromTerminal> {
        let mut bytes = [0; MOST];
        let mut at = 0;
        while let Some((file, told)) = self.sources.get_mut(at) {
            match file.read(&mut bytes) {
                Ok(count @ 1..) => return Some(told(Bytes(bytes[..count].to_vec()))),
                Err(error) if is_later(&error) => at += 1,
                // Where no process has a terminal any longer, that is an error (EIO).
                _ => drop(self.sources.remove(at)),
            }
        }
        None
    }

    /// Passes on what waits, as far as the command takes it, up to the end of a line or Ctrl-C. Returns how many bytes that were, and whether the command `pid`
    /// itself was in the foreground then; none if nothing was passed on.
    fn feed(&mut self, terminal: &File, pid: Pid) -> Option<(usize, bool)> {
        if self.waiting.is_empty() {
            if self.over {
                self.input = None;
            }
            return None;
        }
        let end = self.waiting.iter().position(|byte| matches!(byte, b'\r' | b'\n' | 3));
        // The program in front may be another one behind the end of a line.
        let piece = end.map_or(self.waiting.len(), |end| end + 1);
        let first = tcgetpgrp(terminal).is_ok_and(|front| front == pid);
        let taken = match self.input.as_mut().map(|input| input.write(&self.waiting[..piece])) {
            Some(Ok(taken)) => taken,
            Some(Err(error)) if is_later(&error) => return None,
            // Nobody will read it.
            _ => piece,
        };
        self.waiting.drain(..taken);
        Some((taken, first))
    }
}
