//! Typed records of events, created where they happen and written by `lab` to Parquet, pcapng and qlog.
//!
//! Records are plain values in buffers that the driver drains; a record that was not requested costs nothing.

use serde::{Deserialize, Serialize};

use crate::packet::{EndpointId, FlowId, LinkId, Packet};
use crate::time::{TimeDelta, Timestamp};

/// Why a packet was lost in the network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum DropReason {
    /// The queue was full.
    Overflow,
    /// Active queue management dropped it early.
    Aqm,
    /// The link's loss model dropped it.
    Loss,
    /// The link was down.
    Down,
}

impl DropReason {
    /// The word used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::Overflow => "overflow",
            DropReason::Aqm => "aqm",
            DropReason::Loss => "loss",
            DropReason::Down => "down",
        }
    }
}

/// What happened to a packet on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LinkEvent {
    /// Taken into the queue (or straight into transmission).
    Enqueue,
    /// Lost, and why.
    Drop(DropReason),
    /// Marked congestion-experienced.
    Mark,
    /// Its first bit left on the link, after this long in the queue. This is the packet that a capture shows.
    Transmit {
        /// Time spent waiting in the queue.
        queued: TimeDelta,
    },
    /// The link has made a copy of it, which arrives behind it.
    Duplicate,
    /// The link has changed a bit of it.
    Corrupt,
    /// Its last bit arrived at the far end.
    Deliver,
}

/// One packet event on a recorded link. `backlog` counts packets and bytes that wait after the event, without the packet
/// in transmission.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct LinkRecord {
    /// When it happened.
    pub time: Timestamp,
    /// The link.
    pub link: LinkId,
    /// The event.
    pub event: LinkEvent,
    /// Packets waiting.
    pub backlog_packets: u32,
    /// Bytes waiting.
    pub backlog_bytes: u64,
    /// The packet.
    pub packet: Packet,
}

impl LinkRecord {
    /// The order of records: that of time and, within an instant, of links. Those of one link keep the order in which they were made.
    pub fn order(&self) -> (Timestamp, LinkId) {
        (self.time, self.link)
    }
}

/// Why a segment was declared lost or the window was reduced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum LossTrigger {
    /// Three duplicate ACKs or the SACK rule of RFC 6675.
    DupAcks,
    /// Time since a later segment was delivered (RFC 8985).
    Rack,
    /// Retransmission time-out (RFC 6298).
    Rto,
    /// ECN echo (RFC 3168).
    Ecn,
}

impl LossTrigger {
    /// The word used in tables and qlog.
    pub const fn name(self) -> &'static str {
        match self {
            LossTrigger::DupAcks => "dup_acks",
            LossTrigger::Rack => "rack",
            LossTrigger::Rto => "rto",
            LossTrigger::Ecn => "ecn",
        }
    }
}

/// Congestion state of the connection, as in Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Phase {
    /// Nothing wrong.
    #[default]
    Open,
    /// Duplicate ACKs or SACKs seen, nothing declared lost yet. Growth goes on.
    Disorder,
    /// Reduced because of an ECN echo; not growing until the window's end is acknowledged.
    Cwr,
    /// Fast recovery; not growing.
    Recovery,
    /// After a retransmission time-out; slow start goes on.
    Loss,
}

impl Phase {
    /// Its name in Linux, which tables and qlog use.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Disorder => "disorder",
            Phase::Cwr => "cwr",
            Phase::Recovery => "recovery",
            Phase::Loss => "loss",
        }
    }
}

/// What a TCP endpoint did or saw. Positions are stream bytes counted from the SYN, which is byte 0.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub enum TcpEvent {
    /// A segment with payload, SYN or FIN was sent.
    Sent {
        /// First byte.
        seq: u64,
        /// Payload bytes.
        len: u32,
        /// Whether it had been sent before.
        retransmit: bool,
        /// Whether it is a tail loss probe (RFC 8985 section 7).
        probe: bool,
    },
    /// An acknowledgement arrived; state after its processing.
    Acked {
        /// Cumulative acknowledgement.
        ack: u64,
        /// Advertised window's right edge, as a stream position.
        window_end: u64,
        /// Bytes newly acknowledged, cumulatively or selectively.
        newly_acked: u32,
        /// Of these, bytes that it reports as marked congestion-experienced. RFC 3168's echo does not say how many, so that while it lasts all are.
        ce: u32,
        /// RTT sample, if it gave one.
        rtt: Option<TimeDelta>,
    },
    /// A block was newly selectively acknowledged.
    Sacked {
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
    /// Window and timing state after it changed.
    Metrics {
        /// Window in bytes that limits sending now (recovery's window during a recovery).
        cwnd: u64,
        /// Slow-start threshold in bytes; `u64::MAX` while unset.
        ssthresh: u64,
        /// Bytes in flight.
        in_flight: u64,
        /// Smoothed RTT; zero before the first sample.
        srtt: TimeDelta,
        /// Smallest RTT seen; zero before the first sample.
        min_rtt: TimeDelta,
        /// Retransmission time-out in force.
        rto: TimeDelta,
    },
    /// A segment was declared lost.
    Lost {
        /// First byte.
        seq: u64,
        /// Payload bytes.
        len: u32,
        /// The evidence.
        trigger: LossTrigger,
    },
    /// The congestion state changed.
    State {
        /// The new state.
        state: Phase,
    },
    /// A reduction was undone because the retransmission proved spurious.
    Undo,
    /// The connection is established.
    Established,
    /// The connection ended; true when every byte had been acknowledged and both sides had closed.
    Closed {
        /// Whether it ended normally.
        complete: bool,
    },
}

/// One event of a recorded TCP endpoint.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct TcpRecord {
    /// When it happened.
    pub time: Timestamp,
    /// The connection.
    pub flow: FlowId,
    /// The end of the connection.
    pub endpoint: EndpointId,
    /// The event.
    pub event: TcpEvent,
}

impl TcpRecord {
    /// The order of records: that of time and, within an instant, of flows and ends. Those of one end keep the order in which they were made.
    pub fn order(&self) -> (Timestamp, FlowId, EndpointId) {
        (self.time, self.flow, self.endpoint)
    }
}
