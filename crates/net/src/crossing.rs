//! Packets on their way from one part of the network to another.

use serde::{Deserialize, Serialize};
use warpline_core::Timestamp;

use crate::arena::{Fields, Rare};
use crate::hops::HopId;

/// A packet on its way, without its rare fields.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Crossing {
    pub(crate) arrival: Timestamp,
    /// The link over which it comes, by its number in the part that it enters.
    pub(crate) index: u32,
    /// The next hop of its route.
    pub(crate) hop: HopId,
    pub(crate) fields: Fields,
}

/// Packets for one part, in the order in which they left.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Crossings {
    packets: Vec<Crossing>,
    /// The rare fields of those that have some, in the same order.
    rare: Vec<Rare>,
}

impl Crossings {
    /// Adds a packet behind the others.
    #[inline]
    pub(crate) fn push(&mut self, crossing: Crossing, rare: Option<&Rare>) {
        self.packets.push(crossing);
        if let Some(rare) = rare {
            self.rare.push(*rare);
        }
    }

    /// Adds all `others` behind its own.
    pub(crate) fn append(&mut self, others: &mut Crossings) {
        self.packets.append(&mut others.packets);
        self.rare.append(&mut others.rare);
    }

    /// Lets `enter` have each packet.
    pub(crate) fn drain(&mut self, mut enter: impl FnMut(&Crossing, Option<Rare>)) {
        let mut rare = self.rare.drain(..);
        for crossing in &self.packets {
            let has_rare = crossing.fields.has_rare();
            enter(crossing, has_rare.then(|| rare.next()).flatten());
        }
        drop(rare);
        self.packets.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.packets.clear();
        self.rare.clear();
    }
}
