//! The interface between the lock-step driver and the simulator that moves the guests' frames.

use warpline_agent::Notice;
use warpline_core::Timestamp;

/// Number of a host among the hosts of all guests, in the order of guests and, within a guest, of its hosts. A host that forwards has one for each
/// of its interfaces ([`Order::ports`](warpline_agent::Order::ports)).
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
    /// Hands out, once each, the datagrams that are certain to reach a host later, with their arrival times. All other datagrams arrive no
    /// earlier than the lookahead ([`crate::LockStep::boot`]) after the next event or the next datagram that a host sends. `deliver` may keep the
    /// bytes, and leaves other memory in their place.
    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &mut Vec<u8>));
    /// Hands out, in order, the datagrams that reach a host at the current time and have not been handed out in advance.
    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8]));
    /// The guest with this number has sent a notice, at the current time.
    fn handle_notice(&mut self, _guest: usize, _notice: Notice) {}
    /// Hands out notices to guests. They arrive a lookahead later.
    fn poll_notice(&mut self, _deliver: &mut dyn FnMut(usize, Notice)) {}
    /// Whether the run has ended before its time.
    fn is_over(&self) -> bool {
        false
    }
}
