//! The far end of a link whose near end is in another part of the network: the packets that come over it.

use warpline_core::Timestamp;

use crate::arena::OnWire;
use crate::wire::{Unordered, Wire};

/// The wire of a link that leads into this part.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// It keeps the order of its packets.
    Ordered(Wire),
    /// Packets may overtake each other.
    Unordered(Unordered),
}

impl Incoming {
    /// An empty wire.
    pub(crate) fn new(reorders: bool) -> Self {
        if reorders { Incoming::Unordered(Unordered::default()) } else { Incoming::Ordered(Wire::default()) }
    }

    /// Whether it has at most one arrival announced at a time.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Incoming::Ordered(_))
    }

    /// Puts a packet onto the wire. Returns true if its arrival must be announced.
    pub(crate) fn append(&mut self, packet: OnWire) -> bool {
        match self {
            Incoming::Ordered(wire) => wire.append(packet),
            Incoming::Unordered(wire) => wire.insert(packet),
        }
    }

    /// Takes the packet that arrives at `now`, if there is one, and returns when the next one does.
    pub(crate) fn take(&mut self, now: Timestamp) -> (Option<OnWire>, Option<Timestamp>) {
        match self {
            Incoming::Ordered(wire) => wire.take(),
            Incoming::Unordered(wire) => wire.take(now),
        }
    }
}
