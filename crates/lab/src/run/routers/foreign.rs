//! A transport stack of this process as a host: its sockets, what is written to each, and what is read from it.
//!
//! What is sent is a pattern that depends only on the offset, so that what arrives can be checked; a service for programs sends its answers. The stack's
//! own code does all the rest.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use warpline_core::Timestamp;
use warpline_live::wire::PayloadSource as _;
use warpline_live::wire::http;
use warpline_live::wire::payload::{Backlog, HeadThenPattern, Pattern};
use warpline_stacks::stack::{Event, Outcome, SocketError, SocketId, SocketInfo, SocketOptions, Stack};

use crate::hosts::wire::Progress;

/// Most bytes that are offered to a stack at once, as an application with much to send does.
const OFFER: usize = 32 << 10;
/// An offer is filled up if it has fewer bytes than this: a stack may end a segment where a write ends.
const LEAST_OFFER: usize = 16 << 10;
/// Most bytes that are read at once.
const READ: usize = 64 << 10;
/// Most bytes that an echo keeps. What comes beyond stays in the stack.
const ECHO: usize = 64 << 10;

/// What a socket does by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// It receives everything; its owner says what it sends, and when it closes.
    Driven,
    /// It receives everything, and closes when the other end has.
    Discard,
    /// It sends this many bytes and closes; or, without a number, it sends until the other end has closed.
    Source(Option<u64>),
    /// It sends back what it receives (RFC 862), and closes when the other end has.
    Echo,
    /// It answers a request of HTTP, with so many bytes for every path that names no number, and closes.
    Http(Option<u64>),
}

/// Where the bytes that are written come from.
#[derive(Debug)]
enum Bytes {
    Pattern,
    Echo(Backlog),
    Response(HeadThenPattern),
}

impl Bytes {
    /// Fills `bytes` with those from `offset` on, which are asked for once and in order.
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        match self {
            Bytes::Pattern => Pattern.fill(offset, bytes),
            Bytes::Response(response) => response.fill(offset, bytes),
            Bytes::Echo(backlog) => {
                backlog.fill(offset, bytes);
                backlog.release(offset + bytes.len() as u64);
            }
        }
    }
}

/// A socket.
#[derive(Debug)]
struct Socket {
    duty: Duty,
    local: SocketAddr,
    source: Bytes,
    /// The head of a request of HTTP so far.
    request: Vec<u8>,
    /// Bytes that are still to be written; `u64::MAX` for no end.
    unwritten: u64,
    /// The next of them. The stack has taken those before `taken`.
    offer: Vec<u8>,
    taken: usize,
    written: u64,
    read: u64,
    /// Bytes that were read and are not those of the pattern.
    differences: u64,
    /// Whether what it receives is the pattern.
    checks: bool,
    established: bool,
    peer_closed: bool,
    /// It closes when all is written.
    closing: bool,
    closed: bool,
    info: SocketInfo,
}

impl Socket {
    fn new(duty: Duty, local: SocketAddr, checks: bool) -> Socket {
        let unwritten = match duty {
            Duty::Source(bytes) => bytes.unwrap_or(u64::MAX),
            Duty::Driven | Duty::Discard | Duty::Echo | Duty::Http(_) => 0,
        };
        Socket {
            duty,
            local,
            source: if duty == Duty::Echo { Bytes::Echo(Backlog::default()) } else { Bytes::Pattern },
            request: Vec::new(),
            unwritten,
            offer: Vec::new(),
            taken: 0,
            written: 0,
            read: 0,
            differences: 0,
            checks,
            established: false,
            peer_closed: false,
            closing: matches!(duty, Duty::Source(Some(_))),
            closed: false,
            info: SocketInfo::default(),
        }
    }

    /// The bytes that are offered next. Makes more of them if few are left.
    fn offer(&mut self) -> &[u8] {
        let want = self.unwritten.min(OFFER as u64) as usize;
        let left = self.offer.len() - self.taken;
        if left < want.min(LEAST_OFFER) {
            self.offer.copy_within(self.taken.., 0);
            self.taken = 0;
            self.offer.resize(want, 0);
            self.source.fill(self.written + left as u64, &mut self.offer[left..]);
        }
        let end = self.offer.len().min(self.taken + want);
        &self.offer[self.taken..end]
    }

    /// How much may be read now.
    fn room(&self) -> usize {
        match self.duty {
            Duty::Echo => ECHO.saturating_sub(self.unwritten as usize).min(READ),
            _ => READ,
        }
    }

    /// Takes what was read.
    fn take(&mut self, bytes: &[u8]) {
        if self.checks {
            self.differences += Pattern::differences(self.read, bytes);
        }
        self.read += bytes.len() as u64;
        match (self.duty, &mut self.source) {
            (Duty::Echo, Bytes::Echo(backlog)) => {
                backlog.write(bytes.iter().copied());
                self.unwritten += bytes.len() as u64;
            }
            (Duty::Http(size), Bytes::Pattern) => {
                self.request.extend_from_slice(bytes);
                if let Some(http::Response { head, body }) = http::answer(&self.request, size) {
                    self.unwritten = head.len() as u64 + body;
                    self.source = Bytes::Response(HeadThenPattern(head));
                    self.closing = true;
                    self.request = Vec::new();
                }
            }
            _ => {}
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            acked: self.info.acked,
            delivered: self.read,
            peer_closed: self.peer_closed,
            finished: self.closed && self.info.acked >= self.written,
        }
    }
}

/// What has happened to a socket.
#[derive(Clone, Copy, Debug)]
pub(super) enum Happened {
    /// Its handshake is complete.
    Opened { socket: SocketId, local: SocketAddr, remote: Option<SocketAddr> },
    /// It has ended.
    Closed { socket: SocketId, outcome: Outcome, differences: u64, progress: Progress },
}

/// A stack with its sockets.
#[derive(Debug)]
pub(super) struct Foreign {
    stack: Box<dyn Stack>,
    sockets: BTreeMap<SocketId, Socket>,
    /// What the sockets of each listening port do, and whether they receive the pattern.
    services: BTreeMap<u16, (Duty, bool)>,
    happened: VecDeque<Happened>,
    /// Sockets that have come further.
    moved: Vec<SocketId>,
    buffer: Vec<u8>,
}

impl Foreign {
    pub(super) fn new(stack: Box<dyn Stack>) -> Foreign {
        Foreign {
            stack,
            sockets: BTreeMap::new(),
            services: BTreeMap::new(),
            happened: VecDeque::new(),
            moved: Vec::new(),
            buffer: Vec::new(),
        }
    }

    // ---- The network ----

    pub(super) fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8]) {
        self.stack.handle_packet(now, bytes);
        self.work(now);
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        self.stack.handle_timeout(now);
        self.work(now);
    }

    pub(super) fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        self.stack.poll_transmit(now, out)
    }

    pub(super) fn poll_timeout(&mut self) -> Timestamp {
        self.stack.poll_timeout()
    }

    // ---- Flows ----

    /// Listens on a port. `checks` says whether what comes is the pattern.
    pub(super) fn listen(
        &mut self,
        now: Timestamp,
        (port, duty, checks): (u16, Duty, bool),
        options: &SocketOptions,
    ) -> Result<(), SocketError> {
        self.stack.listen(now, port, options)?;
        self.services.insert(port, (duty, checks));
        Ok(())
    }

    pub(super) fn stop_listening(&mut self, now: Timestamp, port: u16) {
        self.stack.stop_listening(now, port);
    }

    /// Connects, and returns the socket and this end's address.
    pub(super) fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        checks: bool,
        options: &SocketOptions,
    ) -> Result<(SocketId, SocketAddr), SocketError> {
        let socket = self.stack.connect(now, remote, options)?;
        let local = self.stack.local_address(socket).unwrap_or(remote);
        self.sockets.insert(socket, Socket::new(Duty::Driven, local, checks));
        Ok((socket, local))
    }

    /// Sends so many bytes more; `u64::MAX` for no end.
    pub(super) fn write(&mut self, now: Timestamp, socket: SocketId, bytes: u64) {
        if let Some(own) = self.sockets.get_mut(&socket) {
            own.unwritten = own.unwritten.saturating_add(bytes);
            self.write_on(now, socket);
        }
    }

    /// Sends what was asked for, then closes; a socket that sends without end closes at once.
    pub(super) fn close(&mut self, now: Timestamp, socket: SocketId) {
        let Some(own) = self.sockets.get_mut(&socket) else { return };
        own.closing = true;
        if own.unwritten == u64::MAX {
            own.unwritten = 0;
        }
        self.write_on(now, socket);
    }

    /// The next thing that has happened to a socket.
    pub(super) fn poll_event(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// Takes a socket that has come further, with how far it is.
    pub(super) fn poll_progress(&mut self) -> Option<(SocketId, Progress)> {
        while let Some(socket) = self.moved.pop() {
            if let Some(own) = self.sockets.get(&socket) {
                return Some((socket, own.progress()));
            }
        }
        None
    }

    /// How far a socket is, and what the stack says of it.
    pub(super) fn info(&self, socket: SocketId) -> Option<(Progress, SocketInfo)> {
        let own = self.sockets.get(&socket)?;
        let info = self.stack.info(socket).unwrap_or(own.info);
        Some((Progress { acked: info.acked, ..own.progress() }, info))
    }

    /// Why the stack does nothing any more, if one of its assertions has failed.
    pub(super) fn failure(&self) -> Option<String> {
        self.stack.failure()
    }

    /// Handles what the stack has to say.
    fn work(&mut self, now: Timestamp) {
        while let Some(event) = self.stack.poll_event() {
            match event {
                Event::Connected(socket) => self.opened(now, socket, None),
                Event::Accepted { port, socket, remote } => {
                    let (duty, checks) = self.services.get(&port).copied().unwrap_or((Duty::Discard, false));
                    let local = self.stack.local_address(socket).unwrap_or(remote);
                    self.sockets.insert(socket, Socket::new(duty, local, checks));
                    self.opened(now, socket, Some(remote));
                }
                Event::Readable(socket) => self.read_all(now, socket),
                Event::Writable(socket) => {
                    self.write_on(now, socket);
                    if self.sockets.get(&socket).is_some_and(|own| own.duty == Duty::Echo) {
                        self.read_all(now, socket);
                    }
                }
                Event::Finished(socket) => {
                    self.read_all(now, socket);
                    if let Some(own) = self.sockets.get_mut(&socket) {
                        own.peer_closed = true;
                        match own.duty {
                            Duty::Driven => {}
                            // It closes when it has sent back all that is still to be read.
                            Duty::Echo => self.read_all(now, socket),
                            _ => self.close(now, socket),
                        }
                        self.note_moved(socket);
                    }
                }
                Event::Closed(socket, outcome) => {
                    let Some(mut own) = self.sockets.remove(&socket) else { continue };
                    if outcome == Outcome::Complete {
                        // The stack does not say any more how far it is.
                        own.info.acked = own.written;
                    }
                    self.happened.push_back(Happened::Closed {
                        socket,
                        outcome,
                        differences: own.differences,
                        progress: own.progress(),
                    });
                }
            }
        }
    }

    fn opened(&mut self, now: Timestamp, socket: SocketId, remote: Option<SocketAddr>) {
        let Some(own) = self.sockets.get_mut(&socket) else { return };
        if !std::mem::replace(&mut own.established, true) {
            self.happened.push_back(Happened::Opened { socket, local: own.local, remote });
        }
        self.write_on(now, socket);
    }

    fn note_moved(&mut self, socket: SocketId) {
        if let Some(own) = self.sockets.get_mut(&socket) {
            own.info = self.stack.info(socket).unwrap_or(own.info);
            if self.moved.last() != Some(&socket) {
                self.moved.push(socket);
            }
        }
    }

    fn read_all(&mut self, now: Timestamp, socket: SocketId) {
        self.buffer.resize(READ, 0);
        while let Some(own) = self.sockets.get_mut(&socket) {
            let room = own.room();
            let len = self.stack.read(now, socket, &mut self.buffer[..room]);
            own.take(&self.buffer[..len]);
            let answers = matches!(own.duty, Duty::Echo | Duty::Http(_));
            if len == 0 {
                own.closing |= own.duty == Duty::Echo && own.peer_closed && room > 0;
                if answers {
                    self.write_on(now, socket);
                }
                break;
            }
            if answers {
                self.write_on(now, socket);
            }
        }
        self.note_moved(socket);
    }

    fn write_on(&mut self, now: Timestamp, socket: SocketId) {
        let Some(own) = self.sockets.get_mut(&socket) else { return };
        while own.established && own.unwritten > 0 {
            let offer = own.offer();
            let (len, taken) = (offer.len(), self.stack.write(now, socket, offer));
            own.taken += taken;
            own.written += taken as u64;
            if own.unwritten != u64::MAX {
                own.unwritten -= taken as u64;
            }
            if taken < len {
                break;
            }
        }
        if own.closing && own.established && own.unwritten == 0 && !std::mem::replace(&mut own.closed, true) {
            self.stack.close(now, socket);
        }
        self.note_moved(socket);
    }
}
