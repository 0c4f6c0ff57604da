//! What moves the guests' frames, as the driver of the lock-step sees it.

use warpline_agent::Notice;
use warpline_core::Timestamp;

/// Number of a host among all guests: in the order of guests and of hosts in their orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct HostId(pub u32);

/// What moves the guests' frames.
pub trait Simulator {
    /// When its next event is, if it has any.
    fn next_event(&mut self) -> Option<Timestamp>;
    /// Handles all events up to and including `until`, which becomes its present.
    fn run_until(&mut self, until: Timestamp);
    /// A host has sent an IP datagram, at its present.
    fn handle_datagram(&mut self, from: HostId, datagram: &[u8]);
    /// Hands out, each once, the datagrams that will come to a host later for certain, with the instants at which they do. All others that
    /// will come, come no earlier than the lookahead ([`crate::LockStep::boot`]) after the next event or the next datagram that a host sends.
    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &[u8]));
    /// Hands out the datagrams that have come to a host at its present and have not been handed out ahead, in their order.
    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8]));
    /// A guest, by its number, has told something, at its present.
    fn handle_notice(&mut self, _guest: usize, _notice: Notice) {}
    /// Hands out what is to be told to guests. It comes to them a lookahead later.
    fn poll_notice(&mut self, _deliver: &mut dyn FnMut(usize, Notice)) {}
    /// Whether the run is over, before its time.
    fn is_over(&self) -> bool {
        false
    }
}
