//! The interface of the lock-step driver to whatever moves the guests' frames.

use warpline_agent::Notice;
use warpline_core::Timestamp;

/// Number of a host among all guests: in the order of guests, and of hosts in their orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u32);

/// Moves the guests' frames.
pub trait Simulator {
    /// The time of its next event, if it has any.
    fn next_event(&mut self) -> Option<Timestamp>;
    /// Handles all events up to and including `until`, which becomes its current time.
    fn run_until(&mut self, until: Timestamp);
    /// A host has sent an IP datagram, at the current time.
    fn handle_datagram(&mut self, from: HostId, datagram: &[u8]);
    /// Hands out, each once, the datagrams that are certain to reach a host later, with the instants at which they do. All others
    /// arrive no earlier than the lookahead ([`crate::LockStep::boot`]) after the next event or the next datagram that a host sends.
    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &[u8]));
    /// Hands out the datagrams that have reached a host at the current time and have not been handed out ahead, in order.
    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8]));
    /// A guest, by its number, has sent a notice, at the current time.
    fn handle_notice(&mut self, _guest: usize, _notice: Notice) {}
    /// Hands out notices to guests. They arrive a lookahead later.
    fn poll_notice(&mut self, _deliver: &mut dyn FnMut(usize, Notice)) {}
    /// Whether the run has ended before its time.
    fn is_over(&self) -> bool {
        false
    }
}
