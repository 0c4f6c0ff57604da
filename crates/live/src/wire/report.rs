//! Events and counters of a simulated host.

use std::net::SocketAddr;

use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, Outcome};

/// Names a connection of a host, for as long as the host lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ConnectionId {
    pub(super) slot: u32,
    /// How many connections had the slot before.
    pub(super) generation: u32,
}

/// An event for the application.
#[derive(Debug)]
pub enum HostEvent {
    /// A handshake is complete.
    Opened {
        /// The connection.
        id: ConnectionId,
        /// This end.
        local: SocketAddr,
        /// The other end.
        remote: SocketAddr,
    },
    /// A connection has ended.
    Closed {
        /// The connection.
        id: ConnectionId,
        /// What it has carried.
        report: SessionReport,
        /// Its state machine at the end, with its counters and records.
        connection: Box<Connection<Controller>>,
    },
}

/// Counters of a host's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that could not be parsed, or with a wrong checksum, or fragments.
    pub malformed: u64,
    /// Datagrams for other hosts, or from an address that is not a host's.
    pub not_ours: u64,
    /// TCP segments of a connection that were refused.
    pub refused: u64,
    /// SYNs dropped because there was no room.
    pub syns_dropped: u64,
    /// Resets sent because there was no connection.
    pub resets: u64,
    /// Datagrams dropped because too many answers were waiting, or because of the ICMP rate limit.
    pub unanswered: u64,
    /// UDP datagrams accepted.
    pub udp: u64,
}

/// What a connection has carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// How it ended, if it has.
    pub outcome: Option<Outcome>,
    /// Payload bytes sent and acknowledged.
    pub bytes_acked: u64,
    /// Payload bytes received in order, each once.
    pub bytes_received: u64,
    /// Received bytes that differ from the pattern, if [`super::Service::Verify`] runs, or [`super::Stack::verify`] is set.
    pub differences: u64,
}
