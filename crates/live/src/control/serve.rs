//! The end of a control socket that a run has, and the thread that serves it.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::process::umask;

use super::place::{Place, clear};
use super::{ControlError, system};

/// Clients at a time. When one more comes, the one that has been there longest has to go.
const CLIENTS: usize = 16;
/// Bytes of the longest request.
const LONGEST: usize = 64 << 10;
/// Bytes of answers that a client may leave unread.
const UNREAD: usize = 1 << 20;
/// Bytes that are read at a time.
const PIECE: usize = 4096;

/// A socket at which clients can already queue up. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Makes the socket of a run called `name`, for this user alone. What a run has left at its path that was killed is removed.
    ///
    /// To be called from a process with one thread: the mask of new files is that of the whole process.
    ///
    /// # Errors
    /// If the path is taken, or the system refuses.
    pub fn bind(place: &Place, name: &str) -> Result<Self, ControlError> {
        let path = place.path(name)?;
        if let Ok(found) = fs::symlink_metadata(&path) {
            if !found.file_type().is_socket() {
                return Err(ControlError::Taken(path));
            }
            if !clear(&path) {
                return Err(ControlError::InUse(path));
            }
        }
        let mask = umask(Mode::RWXG | Mode::RWXO | Mode::XUSR);
        let bound = UnixListener::bind(&path);
        umask(mask);
        let listener = bound.map_err(system("listen at", &path))?;
        listener.set_nonblocking(true).map_err(system("listen at", &path))?;
        // A client may be in another directory.
        let path = path.canonicalize().unwrap_or(path);
        Ok(Socket { listener, path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves it from a thread of its own from now on: `answer` makes a line of a line.
    ///
    /// # Errors
    /// If there can be no thread.
    pub fn serve(self, answer: impl FnMut(&str) -> String + Send + 'static) -> Result<Serving, ControlError> {
        let path = self.path.clone();
        let (stop, stopped) = UnixStream::pair().map_err(system("serve", &path))?;
        let thread = thread::Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || Server { socket: self, clients: Vec::new(), answer }.run(&stopped));
        Ok(Serving { stop: Some(stop), thread: Some(thread.map_err(system("serve", &path))?) })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A socket that is being served. When this is dropped, the thread ends and the socket is gone.
#[derive(Debug)]
pub struct Serving {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        // The thread sees the other end close.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A client, with what it has said and not ended yet, and what it has not read yet.
#[derive(Debug)]
struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Whether it goes once it has read all.
    last: bool,
}

/// The thread's work.
struct Server<A> {
    socket: Socket,
    clients: Vec<Client>,
    answer: A,
}

impl<A: FnMut(&str) -> String> Server<A> {
    fn run(mut self, stopped: &UnixStream) {
        loop {
            let mut fds =
                vec![PollFd::new(stopped, PollFlags::IN), PollFd::new(&self.socket.listener, PollFlags::IN)];
            fds.extend(self.clients.iter().map(|client| {
                let writes = if client.output.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
                let reads = if client.last { PollFlags::empty() } else { PollFlags::IN };
                PollFd::from_borrowed_fd(client.stream.as_fd(), reads | writes)
            }));
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            let ready: Vec<PollFlags> = fds.iter().map(|fd| fd.revents()).collect();
            if !ready[0].is_empty() {
                return;
            }
            let answer = &mut self.answer;
            let mut ready_clients = ready[2..].iter();
            self.clients.retain_mut(|client| {
                let shown = ready_clients.next().copied().unwrap_or(PollFlags::empty());
                // Who has hung up reads no answer: what it has said is not done behind its back. One that has only ended what it says still reads, and
                // does not show this.
                !shown.contains(PollFlags::HUP)
                    && (shown.is_empty() || client.attend(answer).is_ok_and(|stays| stays))
            });
            if !ready[1].is_empty() {
                self.welcome();
            }
        }
    }

    fn welcome(&mut self) {
        while let Ok((stream, _)) = self.socket.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() == CLIENTS {
                self.clients.remove(0);
            }
            self.clients.push(Client { stream, input: Vec::new(), output: Vec::new(), last: false });
        }
    }
}

impl Client {
    /// Reads a piece of what it says, answers what is complete, and writes what it takes. Returns whether it stays.
    fn attend(&mut self, answer: &mut impl FnMut(&str) -> String) -> io::Result<bool> {
        if !self.last {
            let mut piece = [0; PIECE];
            match self.stream.read(&mut piece) {
                // It may still read, and what it has said is complete.
                Ok(0) => self.last = true,
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(error) if is_patience(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            self.output.extend_from_slice(answer(line.trim()).as_bytes());
            self.output.push(b'\n');
        }
        if self.input.len() > LONGEST || self.output.len() > UNREAD {
            return Ok(false);
        }
        while !self.output.is_empty() {
            match self.stream.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) if is_patience(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(!self.last || !self.output.is_empty())
    }
}

/// Whether it is only not ready.
fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
