//! The services on connections of a simulated host: the traditional small services (RFC 862, 863, 864) and a minimal web server.

use warpline_transport::cc::Controller;
use warpline_transport::tcp::Connection;

use super::http::{self, Response};
use super::payload::{Backlog, HeadThenPattern, Inbox, Pattern, PayloadSource};

/// A service, on either end of a connection. Each closes when the other side has closed and it has nothing left to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Receives everything and sends nothing (RFC 863).
    Discard,
    /// Receives everything, and counts the bytes that differ from the [`Pattern`].
    Verify,
    /// Sends the [`Pattern`] and receives everything (similar to RFC 864): this many bytes, and then closes; or until the
    /// other side closes.
    Source {
        /// How many bytes; `None` for no end.
        bytes: Option<u64>,
    },
    /// Sends back what it receives (RFC 862).
    Echo,
    /// Answers `GET /bytes/N` with N bytes of the [`Pattern`] and closes.
    Http {
        /// Bytes of every other path; `None` if there are no other paths.
        size: Option<u64>,
    },
    /// Receives everything; the caller decides what to send and when to close ([`super::ModelHost::drive`]). It sends the [`Pattern`].
    Driven,
}

impl Service {
    /// Whether it reads payload: then payload is stored until it does.
    pub fn looks(&self) -> bool {
        matches!(self, Service::Verify | Service::Echo | Service::Http { .. })
    }
}

/// The treatment of UDP datagrams on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpService {
    /// They are counted.
    Discard,
    /// They are sent back (RFC 862), but not to ports below 1024: two such services would never end.
    Echo,
}

/// A running service.
#[derive(Debug)]
pub(super) struct Worker {
    service: Service,
    /// Bytes that arrived and were not read.
    pub(super) inbox: Option<Inbox>,
    /// Bytes to send, or to send again.
    pub(super) source: Box<dyn PayloadSource>,
    /// Bytes to send back ([`Service::Echo`]): `source` is empty then.
    backlog: Option<Backlog>,
    /// Room of the backlog.
    room: u64,
    /// The head of a request so far.
    request: Vec<u8>,
    /// Bytes that the application has written and the send buffer has not accepted.
    unwritten: u64,
    started: bool,
    closing: bool,
    closed: bool,
    /// Bytes that differ from the pattern.
    pub(super) differences: u64,
}

/// Room of an inbox beyond the window: a window is rounded up to its unit, at most 2^14 bytes.
const ROUNDING: usize = 1 << 14;

impl Worker {
    /// The service on a new connection, whose receive buffer and send backlog have `room` bytes if it reads payload.
    pub(super) fn new(service: Service, connection: &mut Connection<Controller>, room: u64) -> Self {
        connection.set_auto_read(!service.looks());
        Worker {
            service,
            inbox: service.looks().then(|| Inbox::new(room as usize + ROUNDING)),
            source: Box::new(Pattern),
            backlog: matches!(service, Service::Echo).then(Backlog::default),
            room,
            request: Vec::new(),
            unwritten: 0,
            started: false,
            closing: false,
            closed: false,
            differences: 0,
        }
    }

    /// Fills the payload of a segment.
    pub(super) fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        match &mut self.backlog {
            Some(backlog) => backlog.fill(offset, bytes),
            None => self.source.fill(offset, bytes),
        }
    }

    /// Does everything that is possible now.
    pub(super) fn work(&mut self, connection: &mut Connection<Controller>) {
        let acknowledged = connection.bytes_acked();
        match &mut self.backlog {
            Some(backlog) => backlog.release(acknowledged),
            None => self.source.release(acknowledged),
        }
        match self.service {
            Service::Discard => self.closing |= connection.peer_closed(),
            Service::Verify => {
                let offset = self.inbox.as_ref().map_or(0, Inbox::offset);
                let bytes = self.read(connection, u64::MAX);
                self.differences += Pattern::differences(offset, &bytes);
                self.closing |= connection.peer_closed();
            }
            Service::Source { bytes: None } => {
                if !self.started {
                    connection.set_unlimited(true);
                }
                self.closing |= connection.peer_closed();
            }
            Service::Source { bytes: Some(bytes) } => {
                self.unwritten += if self.started { 0 } else { bytes };
                self.closing = true;
            }
            Service::Echo => {
                let kept = self.backlog.as_ref().map_or(0, Backlog::len);
                let bytes = self.read(connection, self.room.saturating_sub(kept as u64));
                self.unwritten += bytes.len() as u64;
                if let Some(backlog) = &mut self.backlog {
                    backlog.write(bytes);
                }
                self.closing |= connection.peer_closed() && connection.readable() == 0;
            }
            Service::Http { size } => self.serve(connection, size),
            Service::Driven => return,
        }
        self.started = true;
        self.unwritten -= connection.write(self.unwritten);
        if self.closing && self.unwritten == 0 && !self.closed {
            self.closed = true;
            connection.close();
        }
    }

    /// Up to `max` bytes that arrived in order.
    fn read(&mut self, connection: &mut Connection<Controller>, max: u64) -> Vec<u8> {
        let len = connection.read(max);
        self.inbox.as_mut().map_or_else(Vec::new, |inbox| inbox.read(len as usize).collect())
    }

    fn serve(&mut self, connection: &mut Connection<Controller>, size: Option<u64>) {
        let bytes = self.read(connection, u64::MAX);
        if self.closing {
            return; // Answered: nothing else is wanted.
        }
        self.request.extend(bytes);
        if let Some(Response { head, body }) = http::answer(&self.request, size) {
            self.unwritten += head.len() as u64 + body;
            self.source = Box::new(HeadThenPattern(head));
            self.closing = true;
            self.request = Vec::new();
        }
        // A request that will never be complete.
        self.closing |= connection.peer_closed();
    }

    /// Sends only what is already written, and closes.
    pub(super) fn close(&mut self, connection: &mut Connection<Controller>) {
        self.closing = true;
        self.unwritten = 0;
        if !self.closed {
            self.closed = true;
            connection.close();
        }
    }
}
