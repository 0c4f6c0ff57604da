//! A connection of quinn-proto as a socket: what its streams do, and how it ends.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{
    Connection as Inner, ConnectionError, ConnectionHandle, Dir, Event as Told, ReadError, StreamEvent,
    StreamId, VarInt,
};
use warpline_core::{TimeDelta, Timestamp};

use super::datagram::Ends;
use crate::quic::congestion::{self, Shared};
use crate::stack::{Event, Outcome, SocketId, SocketInfo};

/// Why a connection is closed, as the other end reads it: both directions have been delivered, or it was aborted.
const COMPLETE: VarInt = VarInt::from_u32(0);
const ABORTED: VarInt = VarInt::from_u32(1);

/// How far the application knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The handshake is open.
    Handshake,
    /// The application was told that it is connected.
    Established,
    /// The application was told that it has ended. quinn may still answer for it.
    Ended,
}

/// A connection.
pub(super) struct Connection {
    id: SocketId,
    pub(super) inner: Inner,
    pub(super) handle: ConnectionHandle,
    pub(super) ends: Ends,
    /// The port that it came to, if it came from the other end.
    passive: bool,
    pub(super) stage: Stage,
    /// The state of a congestion control of Warpline's, which must be woken.
    pub(super) shared: Option<Arc<Shared>>,
    outgoing: Option<StreamId>,
    incoming: Option<StreamId>,
    written: u64,
    /// Whether the outgoing stream was finished, and whether all of it was acknowledged.
    finishing: bool,
    delivered: bool,
    /// Whether the incoming stream was read to its end.
    finished: bool,
    /// How it was lost, if it was before it was complete.
    lost: Option<Outcome>,
    /// ACK frames that have come, when last looked at.
    acks: u64,
    /// Events of this connection that wait to be taken.
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) is_ready: bool,
    pub(super) deadline: Timestamp,
}

impl Connection {
    pub(super) fn new(
        id: SocketId,
        (handle, inner): (ConnectionHandle, Inner),
        ends: Ends,
        passive: bool,
    ) -> Connection {
        let shared = congestion::within(inner.congestion_state().clone_box());
        Connection {
            id,
            inner,
            handle,
            ends,
            passive,
            stage: Stage::Handshake,
            shared,
            outgoing: None,
            incoming: None,
            written: 0,
            finishing: false,
            delivered: false,
            finished: false,
            lost: None,
            acks: 0,
            readable: false,
            writable: false,
            is_ready: false,
            deadline: Timestamp::NEVER,
        }
    }

    /// When quinn, or the gate of a small window, wants to be woken.
    pub(super) fn due(&mut self) -> Option<Instant> {
        let gate = self.shared.as_ref().and_then(|shared| shared.state().opens_at());
        self.inner.poll_timeout().into_iter().chain(gate).min()
    }

    /// Handles deadlines that have come.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.inner.handle_timeout(now);
        if let Some(shared) = &self.shared {
            shared.state().open(now);
        }
    }

    /// Takes what quinn says, and tells the application. Returns whether there was anything.
    pub(super) fn observe(&mut self, now: Instant, events: &mut impl Extend<Event>) -> bool {
        let mut is_any = false;
        while let Some(told) = self.inner.poll() {
            is_any = true;
            self.hear(told, events);
        }
        let acks = self.inner.stats().frame_rx.acks;
        if acks != self.acks {
            self.acks = acks;
            self.tell_writable(events);
        }
        self.conclude(now, events);
        is_any
    }

    fn hear(&mut self, told: Told, events: &mut impl Extend<Event>) {
        match told {
            Told::Connected => {
                self.stage = Stage::Established;
                self.outgoing = self.inner.streams().open(Dir::Uni);
                let (here, remote) = self.ends;
                events.extend([match self.passive {
                    true => Event::Accepted { port: here.port(), socket: self.id, remote },
                    false => Event::Connected(self.id),
                }]);
            }
            Told::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                // There is one; those of an end that is no stack of ours stay unread.
                let opened = self.inner.streams().accept(Dir::Uni);
                self.incoming = self.incoming.or(opened);
                self.tell_readable(events);
            }
            Told::Stream(StreamEvent::Readable { .. }) => self.tell_readable(events),
            Told::Stream(StreamEvent::Writable { .. }) => self.tell_writable(events),
            Told::Stream(StreamEvent::Finished { .. }) => self.delivered = true,
            Told::ConnectionLost { reason } => match reason {
                // The other end closes so when it has everything from here, and knows that this end has everything from there.
                ConnectionError::ApplicationClosed(close)
                    if close.error_code == COMPLETE && self.finishing =>
                {
                    self.delivered = true;
                }
                ConnectionError::TimedOut => self.lost = Some(Outcome::TimedOut),
                _ => self.lost = Some(Outcome::Reset),
            },
            _ => {}
        }
    }

    fn tell_readable(&mut self, events: &mut impl Extend<Event>) {
        if self.stage == Stage::Established && !std::mem::replace(&mut self.readable, true) {
            events.extend([Event::Readable(self.id)]);
        }
    }

    fn tell_writable(&mut self, events: &mut impl Extend<Event>) {
        if self.stage == Stage::Established && !std::mem::replace(&mut self.writable, true) {
            events.extend([Event::Writable(self.id)]);
        }
    }

    /// Ends it if both directions are complete, or if it was lost.
    fn conclude(&mut self, now: Instant, events: &mut impl Extend<Event>) {
        let is_complete = self.delivered && self.finished;
        let outcome = if is_complete { Some(Outcome::Complete) } else { self.lost };
        if let Some(outcome) = outcome {
            self.end(now, outcome, COMPLETE, events);
        }
    }

    fn end(&mut self, now: Instant, outcome: Outcome, code: VarInt, events: &mut impl Extend<Event>) {
        if self.stage == Stage::Ended {
            return;
        }
        // The application never knew of one that came and did not complete its handshake.
        if !(self.passive && self.stage == Stage::Handshake) {
            events.extend([Event::Closed(self.id, outcome)]);
        }
        self.stage = Stage::Ended;
        self.inner.close(now, code, Bytes::new());
    }

    /// Whether nothing of it is needed any more.
    pub(super) fn is_gone(&self) -> bool {
        self.stage == Stage::Ended && self.inner.is_drained()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let Some(stream) = self.outgoing else { return 0 };
        let mut stream = self.inner.send_stream(stream);
        let mut taken = 0;
        // quinn tells of room only after a write that found none.
        while taken < bytes.len() {
            match stream.write(&bytes[taken..]) {
                Ok(more) => taken += more,
                Err(_) => break,
            }
        }
        self.written += taken as u64;
        taken
    }

    /// Reads into `buffer`. Returns how much, and whether the other end is to be told of the room.
    pub(super) fn read(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
        events: &mut impl Extend<Event>,
    ) -> (usize, bool) {
        let Some(stream) = self.incoming else { return (0, false) };
        let mut stream = self.inner.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else { return (0, false) };
        let (mut taken, mut is_end) = (0, false);
        while taken < buffer.len() {
            match chunks.next(buffer.len() - taken) {
                Ok(Some(chunk)) => {
                    buffer[taken..taken + chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    taken += chunk.bytes.len();
                }
                Ok(None) => {
                    is_end = true;
                    break;
                }
                Err(ReadError::Blocked | ReadError::Reset(_)) => break,
            }
        }
        let transmits = chunks.finalize().should_transmit();
        if is_end {
            self.finished = true;
            events.extend([Event::Finished(self.id)]);
            self.conclude(now, events);
        }
        (taken, transmits || self.stage == Stage::Ended)
    }

    pub(super) fn close(&mut self, now: Instant, events: &mut impl Extend<Event>) {
        match self.outgoing {
            Some(stream) if !self.finishing => {
                self.finishing = true;
                // It fails only if the other end has refused the stream, which a stack of ours does not.
                let _ = self.inner.send_stream(stream).finish();
            }
            Some(_) => {}
            None => self.abort(now, events),
        }
    }

    pub(super) fn abort(&mut self, now: Instant, events: &mut impl Extend<Event>) {
        self.end(now, Outcome::Aborted, ABORTED, events);
    }

    pub(super) fn info(&self) -> SocketInfo {
        let (stats, control) = (self.inner.stats(), self.inner.congestion_state().metrics());
        let srtt = u64::try_from(stats.path.rtt.as_nanos()).unwrap_or(u64::MAX);
        SocketInfo {
            acked: if self.delivered { self.written } else { 0 },
            cwnd: Some(control.congestion_window),
            // quinn's value for none.
            ssthresh: control.ssthresh.filter(|&ssthresh| ssthresh != u64::MAX),
            srtt: Some(TimeDelta::from_nanos(srtt)),
            in_flight: None,
            lost: Some(stats.path.lost_packets),
        }
    }
}
