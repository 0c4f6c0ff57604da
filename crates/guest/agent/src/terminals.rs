//! Terminals: shells and commands that somebody of the machine types into while the run goes on ([`warpline_agent::terminal`]).
//!
//! Each has a thread. It passes on what is typed to a pseudo-terminal of the guest, and what is printed there back. The agent's own thread starts the
//! commands and learns how they end, as of all other processes.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios::{LocalFlags, OutputFlags, SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpid, setsid, tcgetpgrp};
use warpline_agent::Ending;
use warpline_agent::terminal::{Bytes, FIRST, FromTerminal, Lines, MOST, TerminalOrder, ToTerminal, line};

use crate::failure::{Doing, Failure};
use crate::hosts::Hosts;
use crate::programs;

/// Stack size of a terminal's thread.
const STACK: usize = 128 << 10;
/// How long a command has to end after its terminal is gone.
const GRACE: Duration = Duration::from_secs(1);
/// Keys that a waiting command takes as an interruption, or as the end of a line.
const ENDS: [u8; 3] = [b'\r', b'\n', 3];

/// A command that a terminal's thread wants to be started.
struct Wanted {
    order: TerminalOrder,
    /// The command's end of the pseudo-terminal.
    end: OwnedFd,
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
        for number in FIRST..FIRST + count {
            let path = format!("/dev/tty{number}");
            let mut options = OpenOptions::new();
            let console = options.read(true).write(true).custom_flags(libc::O_NOCTTY).open(&path);
            let console = console.doing(|| format!("open {path}"))?;
            let mut raw = tcgetattr(&console).doing(|| format!("ask {path}"))?;
            cfmakeraw(&mut raw);
            tcsetattr(&console, SetArg::TCSANOW, &raw).doing(|| format!("set {path}"))?;
            let want = want.clone();
            let serve = move || Line { console, lines: Lines::default(), want }.serve();
            let thread = std::thread::Builder::new().stack_size(STACK).spawn(serve);
            thread.doing(|| "start a thread for a terminal".to_owned())?;
        }
        Ok(Terminals { wanted, running: Vec::new() })
    }

    /// Starts the commands that are asked for.
    pub(crate) fn start(&mut self, hosts: &Hosts) {
        while let Ok(Wanted { order, end, told }) = self.wanted.try_recv() {
            match spawn(&order, end, hosts) {
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
fn spawn(order: &TerminalOrder, end: OwnedFd, hosts: &Hosts) -> Result<Pid, Failure> {
    let doing = || "prepare a terminal".to_owned();
    let mut command =
        programs::command(&order.words, &order.environment, &order.directory, hosts, order.host)?;
    let again = || end.try_clone().doing(doing);
    command.stdin(Stdio::from(again()?)).stdout(again()?).stderr(again()?);
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
    console: File,
    lines: Lines,
    want: Sender<Wanted>,
}

/// Why a command is not served any longer.
enum Next {
    /// It has ended.
    Wait,
    /// Another one is to begin.
    Begin(u64, TerminalOrder),
}

impl Line {
    /// Serves one command after another.
    fn serve(mut self) {
        while let Some(message) = self.wait() {
            let mut next = message;
            while let ToTerminal::Begin(number, order) = next {
                match self.command(number, order) {
                    Ok(Next::Wait) => break,
                    Ok(Next::Begin(number, order)) => next = ToTerminal::Begin(number, order),
                    Err(failure) => {
                        self.say(&FromTerminal::Failed(number, failure.to_string()));
                        break;
                    }
                }
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

    /// From a command's start to its end.
    fn command(&mut self, number: u64, order: TerminalOrder) -> Result<Next, Failure> {
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
        let typed = order.typed;
        if !typed {
            let mut plain = tcgetattr(&slave).doing(doing)?;
            plain.local_flags.remove(LocalFlags::ECHO);
            plain.output_flags.remove(OutputFlags::OPOST);
            tcsetattr(&slave, SetArg::TCSANOW, &plain).doing(doing)?;
        }
        let (told, ending) = channel();
        let _ = self.want.send(Wanted { order, end: slave, told });
        // The agent waits for signals.
        let _ = kill(getpid(), Signal::SIGIO);
        let pid = match ending.recv() {
            Ok(Told::Started(pid)) => pid,
            Ok(Told::NotStarted(failure)) => return Err(failure),
            // The agent is about to end.
            Ok(Told::Ended(_)) | Err(_) => return Ok(Next::Wait),
        };
        self.say(&FromTerminal::Began(number));
        let mut terminal = File::from(master);
        let after = self.pass(&mut terminal, pid);
        // What still runs there hears that the terminal is gone.
        drop(terminal);
        let ended = ending.recv_timeout(GRACE).or_else(|_| {
            let _ = killpg(pid, Signal::SIGKILL);
            ending.recv()
        });
        if let (Ok(Told::Ended(ending)), Next::Wait) = (ended, &after) {
            self.say(&FromTerminal::Ended(ending));
        }
        Ok(after)
    }

    /// Passes on what is typed and printed until no process has the terminal any longer, or whoever types has gone.
    fn pass(&mut self, terminal: &mut File, pid: Pid) -> Next {
        loop {
            while let Some(message) = self.lines.next_message() {
                match message {
                    ToTerminal::Typed(Bytes(bytes)) => {
                        let front = tcgetpgrp(&*terminal).is_ok_and(|front| front == pid);
                        let _ = terminal.write_all(&bytes);
                        if bytes.last().is_some_and(|last| ENDS.contains(last)) {
                            self.say(&FromTerminal::Passed(front));
                        }
                    }
                    ToTerminal::Size(rows, columns) => {
                        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
                        // SAFETY: the pointer is to a size that lives through the call.
                        unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
                    }
                    // At the beginning of a line, this key is the end of the input.
                    ToTerminal::Over => drop(terminal.write_all(&[4])),
                    ToTerminal::HangUp => {
                        let _ = killpg(pid, Signal::SIGHUP);
                        return Next::Wait;
                    }
                    ToTerminal::Begin(number, order) => {
                        let _ = killpg(pid, Signal::SIGHUP);
                        return Next::Begin(number, order);
                    }
                }
            }
            let (come, printed) = {
                let watched = |fd| PollFd::new(fd, PollFlags::POLLIN);
                let mut fds = [watched(self.console.as_fd()), watched(terminal.as_fd())];
                let _ = poll(&mut fds, PollTimeout::NONE);
                let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
                (ready(&fds[0]), ready(&fds[1]))
            };
            if printed {
                let mut bytes = [0; MOST];
                // The end of the last process there is an error (EIO).
                match terminal.read(&mut bytes) {
                    Ok(count @ 1..) => self.say(&FromTerminal::Printed(Bytes(bytes[..count].to_vec()))),
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    _ => return Next::Wait,
                }
            }
            if come && self.read().is_none() {
                return Next::Wait;
            }
        }
    }
}
