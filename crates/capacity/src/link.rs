//! A connection whose segments travel in UDP datagrams: the common part of both ends of a test.

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Segment, TimeDelta, Timestamp};

use super::arrivals::Arrivals;
use super::auth::Key;
use super::meter::Meter;
use super::options::CapOptions;
use super::results::{ReceiverResults, SenderResults};
use super::wire::{Stamp, WireSegment, padded, write_segment};
use warpline_transport::cc::{Controller, Phase};
use warpline_transport::tcp::{Connection, Outcome};

/// Longest wait for acknowledgements under way: no path needs more, and the other end waits for the report meanwhile.
const LONGEST_LINGER: TimeDelta = TimeDelta::from_secs(1);

/// A datagram that was appended to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Bytes of UDP payload.
    pub len: usize,
    /// ECN field to send it with.
    pub ecn: Ecn,
}

/// An event at one end, for traces and captures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Traced {
    /// A record of its connection.
    Event(Timestamp, TcpEvent),
    /// A segment that it sent.
    Sent(Timestamp, Segment, Ecn),
    /// A segment that it received, and whether it was marked congestion-experienced.
    Received(Timestamp, Segment, bool),
}

/// The progress of a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time since the first data segment; `None` before it.
    pub elapsed: Option<TimeDelta>,
    /// Unique bytes acknowledged, or received, so far.
    pub data_bytes: u64,
    /// Congestion window in bytes, at the sender.
    pub cwnd: u64,
    /// Slow-start threshold; `u64::MAX` while unset.
    pub ssthresh: u64,
    /// Bytes in flight, at the sender.
    pub in_flight: u64,
    /// Smoothed round-trip time.
    pub srtt: TimeDelta,
    /// Segments sent again so far.
    pub retransmits: u64,
    /// Time-outs so far.
    pub rtos: u64,
    /// The connection's state.
    pub phase: Phase,
}

/// The payload's bytes, which no link can compress.
static FILLER: [u8; 1 << 16] = filler();

const fn filler() -> [u8; 1 << 16] {
    let mut bytes = [0; 1 << 16];
    // xorshift32 (Marsaglia 2003).
    let mut state = 0x9e37_79b9_u32;
    let mut i = 0;
    while i < bytes.len() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[i] = (state >> 24) as u8;
        i += 1;
    }
    bytes
}

/// Settings of a link.
#[derive(Debug)]
pub(super) struct LinkParts {
    pub token: u64,
    pub from_server: bool,
    pub sends: bool,
    pub key: Option<Key>,
    /// The heartbeat's phase.
    pub phase: TimeDelta,
    /// Wall-clock time at the run's start, in microseconds.
    pub wall_us: u64,
    /// Bytes of IP and UDP headers on this path.
    pub headers: u32,
    pub trace: bool,
}

/// One end's connection and its counters.
#[derive(Debug)]
pub(super) struct Link {
    pub connection: Connection<Controller>,
    parts: LinkParts,
    pub meter: Meter,
    pub arrivals: Arrivals,
    number: u32,
    /// Largest window that the other side may advertise, in bytes.
    window: u32,
    /// The next position expected from the other side, and the one that it is expected to acknowledge.
    near: (u64, u64),
    payload: u64,
    acks_sent: (u64, u64),
    acks_received: (u64, u64),
    sent_wire: u64,
    /// The latest time passed to the connection.
    clock: Timestamp,
    traced: Vec<Traced>,
}

impl Link {
    pub(super) fn new(options: &CapOptions, parts: LinkParts) -> Link {
        let config = options.tcp(parts.phase);
        let control = options.controller(&config);
        let segment = config.payload();
        let mut connection = if parts.from_server {
            Connection::server(config, control)
        } else {
            Connection::client(config, control)
        };
        connection.set_recording(parts.sends || parts.trace);
        if parts.sends {
            connection.set_unlimited(true);
        }
        Link {
            connection,
            parts,
            meter: Meter::new(segment),
            arrivals: Arrivals::new(),
            number: 0,
            window: options.window.min(u64::from(u32::MAX)) as u32,
            near: (0, 0),
            payload: 0,
            acks_sent: (0, 0),
            acks_received: (0, 0),
            sent_wire: 0,
            clock: Timestamp::ZERO,
            traced: Vec::new(),
        }
    }

    /// Bytes of IP and UDP headers on this path.
    pub(super) fn headers(&self) -> u32 {
        self.parts.headers
    }
    pub(super) fn token(&self) -> u64 {
        self.parts.token
    }
    pub(super) fn key(&self) -> Option<&Key> {
        self.parts.key.as_ref()
    }
    pub(super) fn sends(&self) -> bool {
        self.parts.sends
    }
    /// When the first data segment was sent or received.
    pub(super) fn started(&self) -> Option<Timestamp> {
        if self.parts.sends { self.meter.started() } else { self.arrivals.started() }
    }
    /// Unique bytes acknowledged, or received, so far.
    pub(super) fn delivered(&self) -> u64 {
        if self.parts.sends {
            self.acknowledged()
        } else {
            self.payload.saturating_sub(self.connection.stats().duplicate_bytes)
        }
    }

    /// The progress so far.
    pub(super) fn progress(&self, now: Timestamp) -> Progress {
        let connection = &self.connection;
        Progress {
            elapsed: self.started().map(|started| now.saturating_since(started)),
            data_bytes: self.delivered(),
            cwnd: connection.window(),
            ssthresh: connection.ssthresh(),
            in_flight: connection.in_flight(),
            srtt: connection.srtt(),
            retransmits: connection.stats().retransmitted_segments,
            rtos: connection.stats().rtos,
            phase: connection.phase(),
        }
    }

    /// Duplicate acknowledgements without SACK stand for segments that count again when they are acknowledged: the
    /// cumulative acknowledgement limits them.
    fn acknowledged(&self) -> u64 {
        let cumulative = self.connection.bytes_acked();
        if self.connection.config().sack { self.meter.delivered().max(cumulative) } else { cumulative }
    }

    /// A time that never goes back: kernel timestamps of arrivals may lie before what was sent meanwhile.
    fn monotone(&mut self, at: Timestamp) -> Timestamp {
        self.clock = self.clock.max(at);
        self.clock
    }

    /// A segment arrived at `at` in a datagram of `datagram` bytes. Returns whether it was plausible.
    #[inline]
    pub(super) fn handle(
        &mut self,
        at: Timestamp,
        wire: &WireSegment,
        (bytes, header_len): (&[u8], usize),
        ce: bool,
    ) -> bool {
        if !self.is_from_peer(wire, (bytes, header_len)) {
            return false;
        }
        let mut segment = wire.unfold(self.near.0, self.near.1);
        if !self.is_plausible(&segment, bytes.len()) {
            return false;
        }
        // Both ends have agreed on the largest window.
        segment.window = segment.window.min(self.window);
        let size = bytes.len() as u32 + self.parts.headers;
        if let Some(stamp) = wire.stamp {
            self.payload += u64::from(segment.len);
            let wall = (self.parts.wall_us.wrapping_add(at.as_micros())) as u32;
            self.arrivals.segment(at, stamp, wall, size, ce);
        } else if segment.flags.contains(Flags::ACK) {
            self.count_ack(size);
        }
        if self.parts.trace {
            self.traced.push(Traced::Received(at, segment, ce));
        }
        let at = self.monotone(at);
        // Which codepoint one without a mark had is not known, and nothing here asks for it.
        let ecn = if ce { Ecn::Ce } else { Ecn::NotEct };
        self.connection.handle_segment(at, &segment, ecn);
        true
    }

    /// A segment that arrived after the end of the data. An acknowledgement was under way at the end, and was not lost: it counts as received,
    /// and is traced. The connection does not get it. Returns whether it counted.
    pub(super) fn handle_late(
        &mut self,
        at: Timestamp,
        wire: &WireSegment,
        (bytes, header_len): (&[u8], usize),
        ce: bool,
    ) -> bool {
        let counts = wire.stamp.is_none()
            && wire.rest.flags.contains(Flags::ACK)
            && self.is_from_peer(wire, (bytes, header_len));
        if counts {
            self.count_ack(bytes.len() as u32 + self.parts.headers);
            let results = self.meter.results_mut();
            (results.acks_received, results.acks_wire_bytes) = self.acks_received;
            if self.parts.trace {
                let mut segment = wire.unfold(self.near.0, self.near.1);
                segment.window = segment.window.min(self.window);
                self.traced.push(Traced::Received(at, segment, ce));
            }
        }
        counts
    }

    /// How long acknowledgements may still be under way after the end of the data: two of the longest round trips, since a queue may have grown after
    /// the last one that was measured, and the wait of a delayed one.
    pub(super) fn linger(&self) -> TimeDelta {
        let rtt = TimeDelta::from_nanos(self.meter.results().rtt_max_ns).min(LONGEST_LINGER);
        (rtt * 2 + self.connection.config().delayed_ack).min(LONGEST_LINGER)
    }

    fn count_ack(&mut self, size: u32) {
        self.acks_received.0 += 1;
        self.acks_received.1 += u64::from(size);
    }

    /// Whether a segment comes from the other end, with its signature if there is a key.
    #[inline]
    fn is_from_peer(&self, wire: &WireSegment, (bytes, header_len): (&[u8], usize)) -> bool {
        wire.from_server != self.parts.from_server
            && self.parts.key.as_ref().is_none_or(|key| wire.signed(bytes, header_len, key))
    }

    /// Whether a segment is consistent with the agreed TCP, in a datagram of this many bytes. Payload is counted and not carried, so a peer could
    /// otherwise claim any amount.
    #[inline]
    fn is_plausible(&self, segment: &Segment, datagram: usize) -> bool {
        let syn = segment.flags.contains(Flags::SYN);
        (segment.len == 0 || datagram >= padded(segment))
            && u64::from(segment.len) <= self.connection.config().mss.0
            && (!syn || u64::from(segment.syn.mss) == self.connection.config().mss.0)
    }

    /// Appends the next datagram to `out`.
    #[inline]
    pub(super) fn poll(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Datagram> {
        let now = self.monotone(now);
        let Some((segment, ecn)) = self.connection.poll_transmit(now) else {
            self.drain();
            return None;
        };
        let control =
            u64::from(segment.flags.contains(Flags::SYN)) + u64::from(segment.flags.contains(Flags::FIN));
        self.near.0 = self.near.0.max(segment.ack);
        self.near.1 = self.near.1.max(segment.seq + u64::from(segment.len) + control);
        let mut stamp = Stamp::default();
        if segment.len > 0 {
            stamp.number = self.number;
            stamp.sent_us = self.parts.wall_us.wrapping_add(now.as_micros()) as u32;
            self.number = self.number.wrapping_add(1);
        }
        let header = write_segment(
            out,
            (self.parts.token, self.parts.from_server),
            &segment,
            stamp,
            self.parts.key.as_ref(),
        );
        let mut len = header;
        if segment.len > 0 {
            len = padded(&segment).max(header);
            out.extend_from_slice(&FILLER[..len - header]);
        } else if segment.flags.contains(Flags::ACK) {
            // Not the client's SYN: the other end counts the same segments.
            self.acks_sent.0 += 1;
            self.acks_sent.1 += len as u64 + u64::from(self.parts.headers);
        }
        self.sent_wire += len as u64 + u64::from(self.parts.headers);
        if self.parts.trace {
            self.traced.push(Traced::Sent(now, segment, ecn));
        }
        Some(Datagram { len, ecn })
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        let now = self.monotone(now);
        self.connection.handle_timeout(now);
    }

    pub(super) fn failed(&self) -> bool {
        matches!(self.connection.outcome(), Some(Outcome::TimedOut | Outcome::Reset))
    }

    fn drain(&mut self) {
        for (time, event) in self.connection.drain_records() {
            self.meter.record(time, &event);
            if self.parts.trace {
                self.traced.push(Traced::Event(time, event));
            }
        }
    }

    pub(super) fn drain_trace(&mut self) -> impl Iterator<Item = Traced> + '_ {
        self.drain();
        self.traced.drain(..)
    }

    /// The data has ended: segments in flight no longer count.
    pub(super) fn finish(&mut self, now: Timestamp) {
        self.drain();
        let data = self.acknowledged();
        self.meter.finish(now);
        let stats = *self.connection.stats();
        let config = self.connection.config();
        let sack = u64::from(config.sack);
        let results = self.meter.results_mut();
        results.data_bytes = data;
        results.sent_wire_bytes = self.sent_wire;
        (results.acks_received, results.acks_wire_bytes) = self.acks_received;
        (results.dsacks, results.tail_probes) = (stats.dsacks_received, stats.tail_probes);
        results.rtos = stats.rtos;
        results.segment_payload = self.connection.segment_payload();
        results.sack_used = sack;
        self.connection.set_unlimited(false);
    }

    pub(super) fn sender_results(&self) -> Option<SenderResults> {
        self.parts.sends.then(|| *self.meter.results())
    }
    pub(super) fn receiver_results(&self) -> Option<ReceiverResults> {
        (!self.parts.sends).then(|| {
            let duplicates = self.connection.stats().duplicate_bytes;
            self.arrivals.results(self.payload.saturating_sub(duplicates), duplicates, self.acks_sent)
        })
    }
}
