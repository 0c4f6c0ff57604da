//! Ports: where live packets come in and go out.
//!
//! A port reads all arrivals, each datagram with the instant at which the kernel saw it, into the [`Pool`]; and it sends
//! datagrams in batches. It does not wait: the emulator waits for all ports together, by their descriptors.

pub mod af_packet;
mod departure;
mod discovery;
mod filter;
mod intake;
pub(crate) mod link;
mod neighbours;
mod ring;
mod run;
mod segmentation;
pub mod tun;
mod unfinished;
mod vnet;

pub use neighbours::SegmentConfig;

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};
use warpline_core::Timestamp;

use crate::clock::RealClock;
use crate::datagram::{self, Header};
use crate::pool::Pool;

/// Datagrams that a port reads at a time: some tens of microseconds of work, so that what is due in the meantime is not late.
pub const BATCH: usize = 256;

/// Number of a port within an emulator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PortId(pub u32);

/// A datagram that has come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When the kernel saw it, on the run's clock.
    pub at: Timestamp,
    /// The port of arrival.
    pub port: PortId,
    /// Its bytes in the pool.
    pub handle: u32,
}

/// Counters of a port: packets carried, and losses outside the emulated network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortCounters {
    /// Datagrams received.
    pub received_packets: u64,
    /// Their bytes from the IP header on.
    pub received_bytes: u64,
    /// Datagrams sent.
    pub sent_packets: u64,
    /// Their bytes from the IP header on.
    pub sent_bytes: u64,
    /// Datagrams that the kernel had no room for in the ring: the emulator was too slow.
    pub ring_overruns: u64,
    /// Datagrams without room in the pool, or larger than its frames.
    pub pool_overruns: u64,
    /// Frames that are not an IP datagram, or a damaged one.
    pub malformed: u64,
    /// Frames that do not concern the emulated network: ARP, link-local multicast and the like.
    pub ignored: u64,
    /// Datagrams that the kernel refused to send.
    pub send_errors: u64,
    /// Datagrams that the host's own network card dropped, since its CPU is slow in the experiment: no fault of the emulator.
    pub card_drops: u64,
    /// Datagrams for machines outside that have not answered for their address.
    pub unanswered: u64,
}

impl PortCounters {
    /// Datagrams lost here for lack of room or by an error, without those that the experiment explains.
    pub fn lost(&self) -> u64 {
        self.ring_overruns + self.pool_overruns + self.send_errors
    }
}

/// Stores the datagram at the beginning of `bytes`; the rest is padding. If it is damaged, is for its own link only,
/// or there is no room, counts that and returns `None`.
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

/// Why a port cannot continue.
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
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// A port of the emulated network to the outside.
pub trait LivePort: std::fmt::Debug + Send {
    /// The interface's name.
    fn name(&self) -> &str;
    /// The descriptor that becomes readable when something arrives; `None` if another port's does.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
    /// Whether there are unread arrivals, if that is known without asking the kernel.
    fn pending(&self) -> Option<bool>;
    /// When the port wants [`receive`](Self::receive) to be called even if nothing arrives, as a reading of `CLOCK_MONOTONIC` in nanoseconds.
    fn due(&self) -> Option<u64> {
        None
    }
    /// Whether something may be there long before the descriptor says so. That is so for a guest's port: the guest may stand still between sending a
    /// frame and telling of it.
    fn tells_late(&self) -> bool {
        false
    }
    /// Called when the descriptor has become readable during a wait.
    fn on_readable(&mut self) {}
    /// Reads arrivals, up to [`BATCH`] datagrams, as those of port `id`; `now` is the current time.
    ///
    /// # Errors
    /// If nothing will ever arrive again.
    fn receive(
        &mut self,
        id: PortId,
        clock: &RealClock,
        now: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError>;
    /// Sends datagrams in this order, and counts those that cannot be sent. The caller keeps the frames.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn transmit(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<(), PortError>;
    /// Sends one datagram as [`transmit`](Self::transmit) does, and returns when it left, in nanoseconds since 1970, if the kernel reports that:
    /// it measures how long sending takes. An instant before the call belongs to an earlier datagram.
    ///
    /// # Errors
    /// If nothing can be sent any more.
    fn transmit_stamped(&mut self, pool: &mut Pool, handle: u32) -> Result<Option<u64>, PortError> {
        self.transmit(pool, &[handle]).map(|()| None)
    }
    /// Checks what is wrong after the descriptor has shown an error.
    ///
    /// # Errors
    /// If the port cannot go on.
    fn check(&mut self) -> Result<(), PortError>;
    /// The counters so far.
    fn counters(&mut self) -> PortCounters;
}
