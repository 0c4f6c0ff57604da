//! Real transport stacks as hosts of the network: the stack's own code makes and reads every packet; time, randomness and packets come from
//! the caller.
//!
//! A stack implements [`Stack`], which is sans-I/O and has the verbs of the rest of the library. After [`handle_packet`](Stack::handle_packet),
//! [`handle_timeout`](Stack::handle_timeout) and the application's calls, call [`poll_event`](Stack::poll_event) until it returns nothing,
//! [`poll_transmit`](Stack::poll_transmit) until it returns false, then [`poll_timeout`](Stack::poll_timeout). The same calls at the same
//! times give the same bytes.
//!
//! Payload is real: what one end writes, the other reads.

mod build;
#[cfg(target_os = "linux")]
pub mod crash;
#[cfg(target_os = "linux")]
pub mod globaliser;
#[cfg(target_os = "linux")]
mod object;
mod ports;
pub mod quinn;
pub mod smoltcp;

#[cfg(target_os = "linux")]
pub use build::file;
pub use build::{Builder, DIRECTORY, Place, places};

use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

use warpline_core::{Bytes, Stream, TimeDelta, Timestamp};

/// Names a socket of a stack. Names are not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// Settings of a stack.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Its addresses: of IPv4, of IPv6, or both. A stack without IPv6 ignores those.
    pub addresses: Vec<IpAddr>,
    /// Largest datagram that it sends, in bytes, from the IP header on.
    pub mtu: u32,
    /// Where all its random numbers come from: initial sequence numbers, ports, keys.
    pub stream: Stream,
    /// Send buffer of a socket; none for the stack's own default.
    pub send_buffer: Option<Bytes>,
    /// Receive buffer of a socket; none for the stack's own default.
    pub receive_buffer: Option<Bytes>,
}

/// Settings of a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// Congestion control, by the stack's name for it; none for the stack's default.
    pub cc: Option<String>,
}

/// Why a stack cannot do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// Something listens on the port.
    #[error("port {0} is taken")]
    Taken(u16),
    /// It has no address of that family.
    #[error("the host has no {0} address")]
    NoAddress(&'static str),
    /// All ports towards that address are in use.
    #[error("all ports towards {0} are taken")]
    Ports(SocketAddr),
    /// It has as many sockets as it may have.
    #[error("the host has as many sockets as it may have")]
    Full,
    /// It has no such congestion control.
    #[error("unknown congestion control `{name}`; this stack has {}", known.join(", "))]
    Cc {
        /// The name asked for.
        name: String,
        /// The names that it knows.
        known: &'static [&'static str],
    },
    /// The stack's own reason.
    #[error("{0}")]
    Other(String),
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Both ends closed, and everything was delivered.
    Complete,
    /// The other end reset it, or refused it.
    Reset,
    /// The other end did not answer for too long.
    TimedOut,
    /// It was aborted by this end.
    Aborted,
}

/// What has happened to a socket. The same event may come more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake of a socket that was asked to connect is complete.
    Connected(SocketId),
    /// Another host has connected to a port that is listened on; the handshake is complete.
    Accepted {
        /// The port.
        port: u16,
        /// The new socket.
        socket: SocketId,
        /// The other end.
        remote: SocketAddr,
    },
    /// Bytes have arrived: read until nothing is left.
    Readable(SocketId),
    /// There is room to write again after a write that took less than it was given, or something was acknowledged.
    Writable(SocketId),
    /// The other end has closed its direction, and everything from there has been read.
    Finished(SocketId),
    /// The connection has ended, and the socket with it: its name finds nothing any more.
    Closed(SocketId, Outcome),
}

/// What a stack says of a socket. What it does not know is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketInfo {
    /// Bytes written that the other end has acknowledged.
    pub acked: u64,
    /// Congestion window in bytes.
    pub cwnd: Option<u64>,
    /// Slow-start threshold in bytes.
    pub ssthresh: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<TimeDelta>,
    /// Bytes in flight.
    pub in_flight: Option<u64>,
    /// Packets that it has taken for lost, and whose content it sends again; none where its packets themselves show what is sent again.
    pub lost: Option<u64>,
}

/// A transport stack that is a host. The module says how it is driven.
pub trait Stack: Debug {
    // ---- The network ----

    /// Handles a datagram that has arrived, from the IP header on.
    fn handle_packet(&mut self, now: Timestamp, packet: &[u8]);

    /// Handles deadlines that have come. Calling this early does nothing.
    fn handle_timeout(&mut self, now: Timestamp);

    /// Writes the next datagram to send into `packet`, from the IP header on, replacing its content. Returns whether there was one.
    fn poll_transmit(&mut self, now: Timestamp, packet: &mut Vec<u8>) -> bool;

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest: after the time of the last call; [`Timestamp::NEVER`] if nothing is due.
    fn poll_timeout(&mut self) -> Timestamp;

    // ---- The application ----

    /// Listens on a port of all addresses.
    ///
    /// # Errors
    /// If the port is taken, or an option is not known.
    fn listen(&mut self, now: Timestamp, port: u16, options: &SocketOptions) -> Result<(), SocketError>;

    /// Stops listening on a port; its connections continue.
    fn stop_listening(&mut self, now: Timestamp, port: u16);

    /// Connects to another host.
    ///
    /// # Errors
    /// Without an address of that family, if a limit is reached, or if an option is not known.
    fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<SocketId, SocketError>;

    /// This end's address of a connection; none if there is no such socket.
    fn local_address(&self, socket: SocketId) -> Option<SocketAddr>;

    /// Writes bytes to be sent. Returns how many of them were taken: fewer if there is no room, none if it cannot be written to.
    fn write(&mut self, now: Timestamp, socket: SocketId, bytes: &[u8]) -> usize;

    /// Reads bytes that have arrived in order into `buffer`. Returns how many; 0 if there are none now.
    fn read(&mut self, now: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize;

    /// Closes this direction: what was written is still delivered, and the other direction can still be read.
    fn close(&mut self, now: Timestamp, socket: SocketId);

    /// Resets a connection.
    fn abort(&mut self, now: Timestamp, socket: SocketId);

    /// What has happened since the last call; call until nothing is left.
    fn poll_event(&mut self) -> Option<Event>;

    /// What it says of a socket; none if there is no such socket.
    fn info(&self, socket: SocketId) -> Option<SocketInfo>;

    /// Why it does nothing any more, if an assertion of its code has failed.
    fn failure(&self) -> Option<String> {
        None
    }
}
