//! What an event is about: its class, and the number of a link or timer.

/// The class of an event, in the order in which events of one instant are handled.
///
/// Control first, so that a link that goes down at t drops what arrives at t. Departures precede arrivals, so that a packet
/// that leaves a queue at t makes room for one that arrives at t. Timers come last, so that they know of arrivals at t.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Class {
    /// A link goes down or up.
    Control = 0,
    /// A link finished sending a packet.
    Departure = 1,
    /// The packet at the head of a link's pipe arrives.
    Arrival = 2,
    /// An endpoint's timer.
    Timer = 3,
}

/// A kind of event and the number of its link or timer. They compare in the order in which they are handled at one instant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Item(u32);

const INDEX_BITS: u32 = 30;

/// Largest number of links or timers, limited by the bits of an item.
// One less than fits, for the mark of the end.
pub(crate) const MAX_INDEX: usize = (1 << INDEX_BITS) - 2;

impl Item {
    /// Marks the end of a list.
    pub(crate) const NONE: Item = Item(u32::MAX);

    #[inline]
    pub(crate) const fn new(class: Class, index: u32) -> Item {
        debug_assert!(index as usize <= MAX_INDEX);
        Item((class as u32) << INDEX_BITS | index)
    }
    /// The item with these bits, which [`bits`](Self::bits) has returned.
    #[inline]
    pub(crate) const fn of(bits: u32) -> Item {
        Item(bits)
    }
    #[inline]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
    #[inline]
    pub(crate) const fn class(self) -> Class {
        match self.0 >> INDEX_BITS {
            0 => Class::Control,
            1 => Class::Departure,
            2 => Class::Arrival,
            _ => Class::Timer,
        }
    }
    /// The number of the link or timer.
    #[inline]
    pub(crate) const fn index(self) -> u32 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }
}
