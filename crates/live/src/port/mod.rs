//! Ports: where live packets come in and go out.
//!
//! A port reads all that has come in, each datagram with the instant at which the kernel saw it, into the [`Pool`]; and it sends
//! what it is given in one batch. It does not wait: the emulator waits for all ports together, by their descriptors.

pub mod af_packet;
mod departure;
mod ring;
mod run;
pub mod tun;

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};
use warpline_core::Timestamp;

use crate::clock::RealClock;
use crate::datagram::{self, Header};
use crate::pool::Pool;

/// Number of a port within an emulator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortId(pub u32);

/// A datagram that has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the kernel saw it, on the run's clock.
    pub at: Timestamp,
    /// Where it came in.
    pub port: PortId,
    /// Its bytes.
    pub handle: u32,
}

/// What a port has carried, and what it has lost. None of the losses is an emulated one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Datagrams that came in and were taken.
    pub received_packets: u64,
    /// Their bytes from the IP header on.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Their bytes from the IP header on.
    pub sent_bytes: u64,
    /// Datagrams that the kernel had no room for in the ring: the emulator was too slow.
    pub ring_overruns: u64,
    /// Datagrams that the pool had no room for, or that were larger than it takes.
    pub pool_overruns: u64,
    /// Frames that are no IP datagram, or a damaged one.
    pub malformed: u64,
    /// Frames that do not concern the emulated network: ARP, link-local multicast and the like.
    pub ignored: u64,
    /// Datagrams that the kernel refused to send.
    pub send_errors: u64,
}

impl PortCounters {
    /// Datagrams lost here for want of room or by an error.
    pub fn lost(&self) -> u64 {
        self.ring_overruns + self.pool_overruns + self.send_errors
    }
}

/// Keeps the datagram that `bytes` begin with; what follows it is padding. None, and counted, if it is damaged, is for its own link only,
/// or has no room.
#[inline]
pub fn take(bytes: &[u8], pool: &mut Pool, counters: &mut PortCounters) -> Option<(u32, Header)> {
    let Ok(header) = datagram::read(bytes) else {
        counters.malformed += 1;
        return None;
    };
    let bytes = &bytes[..header.len as usize];
    if datagram::link_local_multicast(bytes) {
        counters.ignored += 1;
        return None;
    }
    let Some(handle) = pool.insert(bytes, header) else {
        counters.pool_overruns += 1;
        return None;
    };
    counters.received_packets += 1;
    counters.received_bytes += u64::from(header.len);
    Some((handle, header))
}

/// Why a port cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The interface has gone or is down.
    #[error(
        "interface {0} has gone or is down; bring it up (ip link set {0} up) and start again, or leave it alone while a run uses it"
    )]
    Vanished(String),
    /// A system call failed.
    #[error("interface {name}: cannot {what}: {source}")]
    System {
        /// The interface.
        name: String,
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A way in and out of the emulated network.
pub trait LivePort: std::fmt::Debug + Send {
    /// The interface's name.
    fn name(&self) -> &str;
    /// What becomes readable when something comes in; none where another port tells of it.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether something has come in that has not been read, if that can be known without asking the kernel.
    fn pending(&self) -> Option<bool>;
    /// Reads what has come in, up to some hundred datagrams, as arrivals at port `id`; `now` is the present.
    ///
    /// # Errors
    /// If nothing will ever come in again.
    fn receive(
        &mut self,
        id: PortId,
        clock: &RealClock,
        now: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError>;
    /// Sends datagrams in this order. What cannot be sent is counted. The frames stay the caller's.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn transmit(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<(), PortError>;
    /// Sends one datagram as [`transmit`](Self::transmit) does, and says when it left, in nanoseconds since 1970, where the kernel tells:
    /// for measuring what sending takes. An instant from before the call is of an earlier one.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn transmit_stamped(&mut self, pool: &mut Pool, handle: u32) -> Result<Option<u64>, PortError> {
        self.transmit(pool, &[handle]).map(|()| None)
    }
    /// Looks what is wrong after the descriptor has shown an error.
    ///
    /// # Errors
    /// If the port cannot go on.
    fn check(&mut self) -> Result<(), PortError>;
    /// What has been carried and lost so far.
    fn counters(&mut self) -> PortCounters;
}
