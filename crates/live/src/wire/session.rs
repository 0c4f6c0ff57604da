//! One connection of a simulated host: its state machine, its numbers, its service.

use std::net::{IpAddr, SocketAddr};

use warpline_core::{Dscp, Ecn, Segment, TimeDelta, Timestamp};
use warpline_transport::cc::Controller;
use warpline_transport::tcp::Connection;

use super::codec::{self, WireSegment};
use super::payload::{Pattern, PayloadSink};
use super::report::SessionReport;
use super::service::Worker;
use super::translate::Translator;
use crate::ip::{IpHeader, TCP};

/// Both ends of a connection, which identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FourTuple {
    pub(super) local: IpAddr,
    pub(super) local_port: u16,
    pub(super) remote: IpAddr,
    pub(super) remote_port: u16,
}

impl FourTuple {
    /// This end and the other.
    pub(super) fn ends(&self) -> (SocketAddr, SocketAddr) {
        (SocketAddr::new(self.local, self.local_port), SocketAddr::new(self.remote, self.remote_port))
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) tuple: FourTuple,
    pub(super) connection: Connection<Controller>,
    pub(super) translator: Translator,
    pub(super) worker: Worker,
    pub(super) sink: Option<Box<dyn PayloadSink>>,
    /// Whether what it receives is compared with the pattern.
    pub(super) verify: bool,
    /// Code point of its packets.
    pub(super) dscp: Dscp,
    /// Bytes of memory set aside for it.
    pub(super) reserved: u64,
    /// The peer began the handshake, which is not complete.
    pub(super) half_open: bool,
    /// Its handshake is complete, and that has been reported.
    pub(super) opened: bool,
    /// It is in the queue of those that may have something to send.
    pub(super) queued: bool,
    /// When a segment was last accepted.
    pub(super) heard: Timestamp,
    /// Its deadline in the timers.
    pub(super) timer: Timestamp,
}

impl Session {
    /// Handles a segment for the connection, with its payload.
    pub(super) fn handle_segment(&mut self, now: Timestamp, segment: &Segment, payload: &[u8], ecn: Ecn) {
        self.heard = now;
        let len = segment.len as usize;
        if len > 0 {
            // A keep-alive's byte at the SYN's position has been removed from the front.
            let payload = &payload[payload.len().saturating_sub(len)..];
            let offset = segment.seq.saturating_sub(1);
            if let Some(sink) = &mut self.sink {
                sink.take(offset, payload);
            }
            if let Some(inbox) = &mut self.worker.inbox {
                inbox.take(offset, payload);
            } else if self.verify {
                self.worker.differences += Pattern::differences(offset, payload);
            }
        }
        self.connection.handle_segment(now, segment, ecn);
        self.worker.work(&mut self.connection);
    }

    /// Writes a segment of this connection as a datagram to `out`.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        wire: &WireSegment,
        ecn: Ecn,
        id: u16,
        segment: Option<&Segment>,
    ) -> bool {
        let plain = IpHeader::new(self.tuple.local, self.tuple.remote, TCP);
        let header = IpHeader { ecn, dscp: self.dscp.value(), identification: id, ..plain };
        let (offset, len) =
            segment.map_or((0, 0), |segment| (segment.seq.saturating_sub(1), segment.len as usize));
        let worker = &mut self.worker;
        codec::write(out, &header, wire, len, |place| worker.fill(offset, place)).is_ok()
    }

    /// Writes the next segment to send. Returns whether there was one.
    pub(super) fn transmit(&mut self, now: Timestamp, out: &mut Vec<u8>, id: u16) -> bool {
        while let Some((segment, ecn)) = self.connection.poll_transmit(now) {
            let wire = self.translator.outgoing(&segment);
            if self.write(out, &wire, ecn, id, Some(&segment)) {
                return true;
            }
        }
        false
    }

    /// Its deadline: its connection's, or else the end of the idle time.
    pub(super) fn deadline(&self, idle: TimeDelta) -> Timestamp {
        match self.connection.poll_timeout() {
            deadline if deadline.is_set() || self.connection.is_closed() => deadline,
            _ => self.heard + idle,
        }
    }

    /// A deadline has come.
    pub(super) fn handle_timeout(&mut self, now: Timestamp, idle: TimeDelta) {
        if !self.connection.poll_timeout().is_set() && now >= self.heard + idle {
            self.connection.abort(now);
            return;
        }
        self.connection.handle_timeout(now);
        self.worker.work(&mut self.connection);
    }

    /// The connection's report.
    pub(super) fn report(&self) -> SessionReport {
        SessionReport {
            outcome: self.connection.outcome(),
            bytes_acked: self.connection.bytes_acked(),
            bytes_received: self.connection.bytes_delivered(),
            differences: self.worker.differences,
        }
    }
}
