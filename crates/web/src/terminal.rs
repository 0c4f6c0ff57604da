//! Terminals of the page: shells on hosts of runs in progress.
//!
//! Each is `warpline enter` at a terminal device of its own (pty(7)). The page shows what it prints as plain text, and sends what is typed.
//! A terminal is open for as long as the page reads what it prints, so that none is left over by a page that goes away.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use pty_process::Size;
use pty_process::blocking::{Command, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde::Deserialize;
use serde_json::json;

use crate::answer::{Answer, Refusal};
use crate::course::{Course, Follower};
use crate::live;

/// Terminals at a time. All pages of a browser share six connections to a server (HTTP/1.1). Each terminal takes one for as long as it is open, and what is
/// typed and asked for needs some, too.
const MOST: usize = 4;
/// Bytes that a terminal prints, at most: a page shows all of them.
const LARGEST: usize = 16 << 20;
/// Rows and columns.
const SIZE: (u16, u16) = (30, 100);
/// Bytes that are read at a time.
const PIECE: usize = 8192;
/// How often to look whether a process has ended that has closed its device.
const PAUSE: Duration = Duration::from_millis(50);

/// A wish for a terminal.
#[derive(Debug, Deserialize)]
pub(crate) struct Wish {
    socket: String,
    host: String,
}

#[derive(Debug)]
struct Terminal {
    /// Our end of the device.
    pty: Arc<File>,
    child: Arc<Mutex<Child>>,
    course: Arc<Course>,
}

/// The terminals of a lab.
#[derive(Debug)]
pub(crate) struct Terminals {
    program: PathBuf,
    open: Mutex<(u64, BTreeMap<u64, Terminal>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by whoever reads what a terminal prints. When it is dropped, the terminal is closed.
#[derive(Debug)]
pub(crate) struct Reader {
    terminals: Arc<Terminals>,
    number: u64,
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.terminals.close(self.number);
    }
}

impl Terminals {
    /// Terminals in which this program, `warpline`, enters hosts.
    pub(crate) fn new(program: PathBuf) -> Self {
        Terminals { program, open: Mutex::default() }
    }

    /// Opens a terminal on a host. Returns what it prints: its number first, then texts.
    pub(crate) fn open(self: &Arc<Self>, wish: &Wish) -> Answer<(Follower, Reader)> {
        let socket = live::socket(&wish.socket)?;
        // Whatever runs there hears that the page understands plain text only.
        let command =
            Command::new(&self.program).env("TERM", "dumb").env("NO_COLOR", "1").env("PAGER", "cat");
        self.start(command.arg("enter").arg("--control").arg(socket).arg(&wish.host))
    }

    /// Starts a command at a terminal of its own.
    fn start(self: &Arc<Self>, command: Command) -> Answer<(Follower, Reader)> {
        let failed = |error: pty_process::Error| Refusal::failed(format!("cannot open a terminal: {error}"));
        let (pty, end) = open().map_err(failed)?;
        pty.resize(Size::new(SIZE.0, SIZE.1)).map_err(failed)?;
        // `enter` does so, too, but what is typed before must not be echoed here.
        make_raw(&pty).map_err(Refusal::failed)?;
        let mut open = lock(&self.open);
        // Those that have ended make room.
        open.1.retain(|_, terminal| lock(&terminal.child).try_wait().is_ok_and(|ended| ended.is_none()));
        if open.1.len() >= MOST {
            return Err(Refusal::conflict(format!(
                "the pages of this lab have {MOST} open terminals; close one first: a browser has few connections to a server, and each terminal takes one"
            )));
        }
        let child = command.spawn(end).map_err(failed)?;
        let terminal = Terminal {
            pty: Arc::new(File::from(OwnedFd::from(pty))),
            child: Arc::new(Mutex::new(child)),
            course: Course::new(),
        };
        let number = open.0;
        open.0 += 1;
        terminal.course.add(&json!({ "terminal": number }).to_string(), false);
        let follower = terminal.course.follow();
        let (pty, child, course) = (&terminal.pty, &terminal.child, &terminal.course);
        let (pty, child, course) = (Arc::clone(pty), Arc::clone(child), Arc::clone(course));
        thread::spawn(move || attend(&pty, &child, &course));
        open.1.insert(number, terminal);
        Ok((follower, Reader { terminals: Arc::clone(self), number }))
    }

    /// Types this text.
    pub(crate) fn type_in(&self, number: u64, text: &str) -> Answer<()> {
        let pty =
            lock(&self.open).1.get(&number).map(|terminal| Arc::clone(&terminal.pty)).ok_or_else(gone)?;
        (&*pty).write_all(text.as_bytes()).map_err(|_| gone())
    }

    /// Closes a terminal. What runs there hears that, as when a window is closed.
    fn close(&self, number: u64) {
        if let Some(terminal) = lock(&self.open).1.remove(&number) {
            hang_up(&mut lock(&terminal.child));
        }
    }

    /// Closes all of them, as the lab ends.
    pub(crate) fn close_all(&self) {
        let numbers: Vec<u64> = lock(&self.open).1.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close(number));
    }
}

/// What a terminal prints as events, as they come. `reader` is dropped when they have ended, or nobody reads them any longer.
pub(crate) fn stream(follower: Follower, reader: Reader) -> Response {
    let lines = futures_util::stream::unfold((follower, reader), async |(mut follower, reader)| {
        let line = follower.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(&*line)), (follower, reader)))
    });
    Sse::new(lines).keep_alive(KeepAlive::default()).into_response()
}

/// Ends a process. What it has started on the host hears that its terminal has gone. Not by SIGHUP, which a process ignores that `nohup` started.
fn hang_up(child: &mut Child) {
    // One that has been waited for has no number any longer.
    if let (Ok(None), Some(pid)) = (child.try_wait(), Pid::from_raw(child.id().cast_signed())) {
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Lets a terminal pass on every key as it is.
fn make_raw(pty: &impl AsFd) -> io::Result<()> {
    let mut settings = tcgetattr(pty)?;
    settings.make_raw();
    Ok(tcsetattr(pty, OptionalActions::Now, &settings)?)
}

fn gone() -> Refusal {
    Refusal::missing("this terminal has ended")
}

/// Reads what a terminal prints until its end.
fn attend(mut pty: &File, child: &Mutex<Child>, course: &Course) {
    let mut rest: Vec<u8> = Vec::new();
    let mut piece = [0; PIECE];
    let (mut printed, mut over) = (0, false);
    // The end of the last process there is an error of the device (EIO).
    while let Ok(count @ 1..) = pty.read(&mut piece) {
        printed += count;
        if printed > LARGEST {
            // Read on until it has ended: it may be about to print, and would not hear that it is to end.
            if !over {
                over = true;
                hang_up(&mut lock(child));
                let words = "\n[more than this page can show; the terminal was closed]\n";
                course.add(&json!({ "text": words }).to_string(), false);
            }
            continue;
        }
        rest.extend_from_slice(&piece[..count]);
        let text = complete(&mut rest);
        course.add(&json!({ "text": text }).to_string(), false);
    }
    // A process may close the device and go on: it can still be killed meanwhile.
    let code = loop {
        match lock(child).try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => break status.code(),
            Err(_) => break None,
        }
        pause();
    };
    course.add(&json!({ "ended": true, "code": code }).to_string(), true);
}

#[expect(clippy::disallowed_methods, reason = "a process is waited for, not the clock of a run")]
fn pause() {
    thread::sleep(PAUSE);
}

/// Takes the characters that are complete out of `bytes`; what is no UTF-8 is replaced.
fn complete(bytes: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(bytes) {
        // The last character is not complete yet.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    };
    let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
    bytes.drain(..whole);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_terminal_is_closed_when_nobody_reads_it_any_longer() {
        let terminals = Arc::new(Terminals::new(PathBuf::new()));
        let (mut follower, reader) = terminals.start(Command::new("sleep").arg("1000")).unwrap();
        assert_eq!(follower.next().await.as_deref(), Some("{\"terminal\":0}"));
        drop(reader);
        assert!(lock(&terminals.open).1.is_empty());
        // What runs there ends, too.
        let last = follower.next().await.unwrap();
        assert!(last.contains("\"ended\":true"), "{last}");
        assert_eq!(follower.next().await, None);
    }

    #[test]
    fn a_character_that_comes_in_two_pieces_stays_one() {
        let mut bytes = vec![b'a', 0xc3];
        assert_eq!(complete(&mut bytes), "a");
        bytes.push(0xa9);
        assert_eq!(complete(&mut bytes), "é");
        assert!(bytes.is_empty());
        bytes.extend([0xff, b'b']);
        assert_eq!(complete(&mut bytes), "\u{fffd}b");
    }
}
