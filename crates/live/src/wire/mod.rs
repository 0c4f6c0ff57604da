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
//! - [`codec`], [`udp`], with [`crate::ip`] and [`crate::icmp`]: bytes to typed headers and back, checksums made and verified. The bytes
//!   that come in may be anything.
//! - [`translate`]: one connection's numbers: initial sequence numbers, unwrapping, window scales, timestamps; and what a
//!   connection need not see because no honest peer sends it.
//! - [`payload`]: where payload comes from and where it goes.
//! - [`service`]: what runs on the connections of a simulated host; [`http`]: `GET /bytes/N`.
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

/// Why bytes are no packet, or a packet cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// There are fewer bytes than the headers have, or than they say that there are.
    #[error("cut short")]
    Short,
    /// Neither IPv4 nor IPv6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// A length field that cannot be.
    #[error("a length field that cannot be")]
    Length,
    /// A checksum that is not that of the bytes.
    #[error("a wrong {0} checksum")]
    Checksum(&'static str),
    /// Another protocol than was asked for.
    #[error("IP protocol {0} where another was expected")]
    Protocol(u8),
    /// A fragment: there is no reassembly here.
    #[error("a fragment of a datagram")]
    Fragment,
    /// One address is IPv4, the other IPv6.
    #[error("an IPv4 and an IPv6 address in one datagram")]
    Families,
    /// More payload than an IP datagram takes.
    #[error("{0} bytes do not fit into an IP datagram")]
    TooLong(usize),
}
