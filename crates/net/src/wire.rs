//! A wire that keeps the order of its packets.

use warpline_core::Timestamp;

use crate::arena::OnWire;
use crate::ring::Ring;

/// Packets that will arrive at the far end, in the order in which they left.
#[derive(Debug, Default)]
pub(crate) struct Wire(Ring<OnWire>);

impl Wire {
    /// Puts a packet onto the wire. Returns true when the wire was empty: then its arrival must be announced.
    #[inline]
    pub(crate) fn append(&mut self, packet: OnWire) -> bool {
        let was_empty = self.0.is_empty();
        self.0.push(packet);
        was_empty
    }
    /// Takes the packet that has just arrived from the wire. The second value is the time of the next arrival.
    #[inline]
    pub(crate) fn take(&mut self) -> (Option<OnWire>, Option<Timestamp>) {
        (self.0.pop(), self.0.front().map(|next| next.arrival))
    }
    /// Arrival of the last packet on the wire, if there is one.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.0.back().map(|packet| packet.arrival)
    }
}
