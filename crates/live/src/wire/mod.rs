//! Simulated hosts that talk to real TCP stacks: from typed segments to IP datagrams and back.
//!
//! ```text
//!   warpline_transport::tcp::Connection        a Linux host
//!     Segment: 64-bit positions,                 |
//!     lengths, windows in bytes                  |
//!        |                                       |
//!   translate  <->  WireSegment  <->  codec  <->  IP datagrams
//! ```
//!
//! - [`codec`], [`udp`], with [`crate::ip`] and [`crate::icmp`]: parsing and writing of headers, with checksums. The incoming bytes
//!   may be anything.
//! - [`translate`]: one connection's numbers: initial sequence numbers, unwrapping, window scales, timestamps; it also drops
//!   segments that no honest peer sends.
//! - [`payload`]: where payload comes from and where it goes.
//! - [`service`]: the services on the connections of a simulated host; [`http`]: `GET /bytes/N`.
//! - [`host`]: a simulated host with addresses: listens, connects, answers; its [`options`] and [`report`]s.
//!
//! No I/O: time, bytes and the random stream are arguments.

pub mod codec;
pub mod host;
pub mod http;
pub mod options;
pub mod payload;
pub mod report;
pub mod service;
mod session;
pub mod translate;
pub mod udp;

#[cfg(test)]
mod host_tests;

pub use codec::WireSegment;
pub use host::ModelHost;
pub use options::{HostConfig, HostError, MakeController, Stack};
pub use payload::{PayloadSink, PayloadSource};
pub use report::{ConnectionId, HostCounters, HostEvent, SessionReport};
pub use service::{Service, UdpService};
pub use translate::Translator;

/// Why bytes are not a packet, or a packet cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// There are fewer bytes than the headers have, or than they declare.
    #[error("cut short")]
    Short,
    /// Neither IPv4 nor IPv6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// An impossible length field.
    #[error("an impossible length field")]
    Length,
    /// A checksum that does not match the bytes.
    #[error("a wrong {0} checksum")]
    Checksum(&'static str),
    /// A different protocol than expected.
    #[error("IP protocol {0} where another was expected")]
    Protocol(u8),
    /// A fragment, which is not reassembled here.
    #[error("a fragment of a datagram")]
    Fragment,
    /// One address is IPv4, the other IPv6.
    #[error("an IPv4 and an IPv6 address in one datagram")]
    Families,
    /// More payload than an IP datagram can hold.
    #[error("{0} bytes do not fit into an IP datagram")]
    TooLong(usize),
}
