//! Where packets live while the network has them: slots that are reused, addressed by number, and linked into pipes.
//!
//! A packet is written once and moves by its number; in steady state nothing is allocated.

use warpline_core::{Packet, Timestamp};

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// A packet and what the network keeps about it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// When it arrives at the far end of the link whose pipe it is in.
    pub(crate) time: Timestamp,
    /// The packet behind it in the pipe, or in the list of free slots.
    pub(crate) next: u32,
    /// Where its route goes on: an index into the table of hops.
    pub(crate) hop: u32,
    /// The packet. Its loss on the wire, once decided, is told by `lost`.
    pub(crate) packet: Packet,
    /// It will be lost at the end of the link it is on.
    pub(crate) lost: bool,
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Arena {
    slots: Vec<Slot>,
    free: u32,
    live: u32,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Arena { slots: Vec::new(), free: NIL, live: 0 }
    }

    /// Puts a packet into a free slot.
    #[inline]
    pub(crate) fn insert(&mut self, packet: Packet, hop: u32) -> u32 {
        self.live += 1;
        let slot = Slot { time: Timestamp::ZERO, next: NIL, hop, packet, lost: false };
        if self.free == NIL {
            return self.grow(slot);
        }
        let index = self.free;
        let place = &mut self.slots[index as usize];
        self.free = place.next;
        *place = slot;
        index
    }

    #[cold]
    fn grow(&mut self, slot: Slot) -> u32 {
        let index = self.slots.len() as u32;
        self.slots.push(slot);
        index
    }

    /// Gives the slot back.
    #[inline]
    pub(crate) fn free(&mut self, index: u32) {
        self.live -= 1;
        self.slots[index as usize].next = self.free;
        self.free = index;
    }

    /// Packets in the network now.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }
}

impl std::ops::Index<u32> for Arena {
    type Output = Slot;
    #[inline]
    fn index(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }
}
impl std::ops::IndexMut<u32> for Arena {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }
}
