//! Wires: one that keeps the order of its packets, and one on which they may overtake each other.

use std::collections::BTreeMap;

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
    /// Packets on the wire.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
    /// Arrival of the last packet on the wire, if there is one.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.0.back().map(|packet| packet.arrival)
    }
}

/// A wire on which packets may overtake each other.
#[derive(Debug)]
pub(crate) struct Unordered {
    /// By arrival, then by the order in which they left.
    packets: BTreeMap<(Timestamp, u64), OnWire>,
    departures: u64,
    /// The earliest arrival that was announced.
    announced: Timestamp,
}

impl Default for Unordered {
    fn default() -> Self {
        Unordered { packets: BTreeMap::new(), departures: 0, announced: Timestamp::NEVER }
    }
}

impl Unordered {
    /// Puts a packet onto the wire. Returns true if its arrival must be announced, because it is earlier than any announced before.
    pub(crate) fn insert(&mut self, packet: OnWire) -> bool {
        self.packets.insert((packet.arrival, self.departures), packet);
        self.departures += 1;
        let first = packet.arrival < self.announced;
        self.announced = self.announced.min(packet.arrival);
        first
    }

    /// Packets on the wire.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Takes the packet that arrives now. If an earlier announcement has already delivered it, there is nothing to take. The second
    /// value is the time of the next arrival, if that must be announced.
    pub(crate) fn take(&mut self, now: Timestamp) -> (Option<OnWire>, Option<Timestamp>) {
        let due = self.packets.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove());
        if now < self.announced {
            return (due, None);
        }
        let next = self.packets.first_key_value().map(|(&(arrival, _), _)| arrival);
        self.announced = next.unwrap_or(Timestamp::NEVER);
        (due, next)
    }
}
