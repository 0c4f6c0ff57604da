//! What a simulated host tells: connections that open and end, and counters.

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

/// What an application may want to know.
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
        /// Its state machine as it was at the end, for what it counted and recorded.
        connection: Box<Connection<Controller>>,
    },
}

/// Datagrams of a host, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Datagrams that came.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams that could not be read, or with a wrong checksum, or fragments.
    pub malformed: u64,
    /// Datagrams for others, or from what is no host.
    pub not_ours: u64,
    /// TCP segments of a connection that were not let in.
    pub refused: u64,
    /// SYNs dropped because there was no room.
    pub syns_dropped: u64,
    /// Resets sent for want of a connection.
    pub resets: u64,
    /// Datagrams dropped because too many answers were waiting, or too many ICMP errors told.
    pub unanswered: u64,
    /// UDP datagrams taken.
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
    /// Received bytes that were not those of the pattern, where [`super::Service::Verify`] runs.
    pub differences: u64,
}
