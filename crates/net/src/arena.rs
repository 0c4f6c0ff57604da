//! The memory of packets in the network: slots of one cache line that are reused and addressed by number.
//!
//! A packet is written once, when it is sent, and read once, when it is delivered. In between only its number travels, with
//! the little that a hop needs to know ([`OnWire`]): in steady state nothing is allocated, and a hop touches no packet.
//! Thousands of packets are in flight on a fast path, and they have left the cache by the time they arrive, so rare
//! fields (SACK blocks, a SYN's options) are stored separately.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::{Deserialize, Serialize};
use warpline_core::{
    Body, Datagram, Dscp, Ecn, EndpointId, Flags, FlowId, Frame, Packet, SackBlocks, Segment, SynOptions,
    Timestamp,
};

use crate::hops::HopId;

/// A slot, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotId(pub(crate) u32);

impl SlotId {
    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A packet on a wire: the data needed to move it on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnWire {
    /// When it arrives at the far end.
    pub(crate) arrival: Timestamp,
    /// The slot of the packet.
    pub(crate) slot: SlotId,
    /// The next hop of its route.
    pub(crate) hop: HopId,
    /// Its bytes on the wire, without framing.
    pub(crate) size: u32,
}

/// The kind of a slot's packet, and which fields it has.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Kind(u8);

impl Kind {
    /// A segment without options, which has no bit.
    const TCP: Kind = Kind(0);
    const UDP: Kind = Kind(1);
    const TIMESTAMPS: Kind = Kind(2);
    const RARE: Kind = Kind(4);
    /// Combined with `UDP`, so that it costs TCP nothing: the bytes of a packet from outside, whose handle is in `seq`.
    const FRAME: Kind = Kind(8);
    /// A bit of it has been changed. Combined with `UDP` or `RARE` bits it is tested with them, so that it costs others nothing.
    const DAMAGED: Kind = Kind(16);

    #[inline]
    const fn with(self, other: Kind) -> Kind {
        Kind(self.0 | other.0)
    }
    /// Whether it has one of `others`.
    #[inline]
    const fn has(self, others: Kind) -> bool {
        self.0 & others.0 != 0
    }
}

/// A packet in its place: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Slot(Fields);

/// A packet without its rare fields.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Fields {
    seq: u64,
    /// A segment's acknowledgement, or when a datagram was created.
    ack_or_created: u64,
    id: u64,
    flow: FlowId,
    to: EndpointId,
    size: u32,
    len: u32,
    window: u32,
    timestamps: (u32, u32),
    /// The next hop of its route, while it waits in a queueing discipline; otherwise its mover knows it.
    hop: HopId,
    flags: Flags,
    kind: Kind,
    ecn: Ecn,
    class: u8,
    dscp: Dscp,
}

impl Fields {
    /// Whether it also has rare ones.
    pub(crate) fn has_rare(&self) -> bool {
        self.kind.has(Kind::RARE)
    }
    /// Its bytes on the wire, without framing.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Its packet, given the contents.
    #[inline(always)]
    fn with(&self, body: Body) -> Packet {
        Packet {
            flow: self.flow,
            to: self.to,
            size: self.size,
            ecn: self.ecn,
            class: self.class,
            damaged: self.kind.has(Kind::DAMAGED),
            dscp: self.dscp,
            id: self.id,
            body,
        }
    }
}

/// Fields that few segments have.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Rare {
    sack: SackBlocks,
    syn: SynOptions,
}

/// All slots.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    slots: Vec<Slot>,
    /// In parallel with `slots`, as far as ever needed.
    rare: Vec<Rare>,
    free: Vec<SlotId>,
    /// Handles of frames that were dropped.
    released: Vec<u32>,
    /// For each frame that several packets have, since a link has copied one: by how many they are more than one.
    shared: BTreeMap<u32, u32>,
}

impl Arena {
    /// Puts a packet into a free slot.
    // Always inlined: then the caller's packet never exists in memory except in its slot.
    #[inline(always)]
    pub(crate) fn insert(&mut self, packet: &Packet) -> SlotId {
        let mut fields = Fields {
            seq: 0,
            ack_or_created: 0,
            id: packet.id,
            flow: packet.flow,
            to: packet.to,
            size: packet.size,
            len: 0,
            window: 0,
            timestamps: (0, 0),
            hop: HopId::default(),
            flags: Flags::default(),
            kind: Kind::TCP,
            ecn: packet.ecn,
            class: packet.class,
            dscp: packet.dscp,
        };
        let mut rare = None;
        match &packet.body {
            Body::Tcp(segment) => {
                fields.seq = segment.seq;
                fields.ack_or_created = segment.ack;
                fields.len = segment.len;
                fields.window = segment.window;
                fields.flags = segment.flags;
                if let Some(timestamps) = segment.timestamps {
                    fields.timestamps = timestamps;
                    fields.kind = fields.kind.with(Kind::TIMESTAMPS);
                }
                if !segment.sack.is_bare() || segment.flags.contains(Flags::SYN) {
                    fields.kind = fields.kind.with(Kind::RARE);
                    rare = Some(Rare { sack: segment.sack, syn: segment.syn });
                }
            }
            Body::Udp(datagram) => {
                fields.seq = datagram.seq;
                fields.ack_or_created = datagram.created.as_nanos();
                fields.len = datagram.len;
                let [first, second, third] = datagram.note;
                (fields.window, fields.timestamps) = (first, (second, third));
                fields.kind = Kind::UDP;
            }
            Body::Frame(frame) => {
                fields.seq = u64::from(frame.handle);
                fields.kind = Kind::UDP.with(Kind::FRAME);
            }
        }
        self.put(&fields, rare)
    }

    /// Puts a packet into a free slot.
    #[inline(always)]
    pub(crate) fn put(&mut self, fields: &Fields, rare: Option<Rare>) -> SlotId {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        self.slots[index.index()] = Slot(*fields);
        if let Some(rare) = rare {
            self.keep_rare(index, rare);
        }
        index
    }

    /// The packet in a slot as [`put`](Self::put) takes it.
    #[inline]
    pub(crate) fn fields(&self, index: SlotId) -> (&Fields, Option<&Rare>) {
        let Slot(fields) = &self.slots[index.index()];
        (fields, fields.has_rare().then(|| &self.rare[index.index()]))
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> SlotId {
        self.slots.push(Slot::default());
        SlotId(self.slots.len() as u32 - 1)
    }

    #[inline(never)]
    fn keep_rare(&mut self, index: SlotId, rare: Rare) {
        let index = index.index();
        if index >= self.rare.len() {
            self.rare.resize(index + 1, Rare::default());
        }
        self.rare[index] = rare;
    }

    /// The packet in a slot if it is a segment without rare fields, as nearly all are: the fast path of [`packet`](Self::packet).
    // Always inlined: then the segment never exists in memory except in its slot.
    #[inline(always)]
    pub(crate) fn plain(&self, index: SlotId) -> Option<Packet> {
        let Slot(slot) = &self.slots[index.index()];
        if slot.kind.has(Kind::UDP.with(Kind::RARE).with(Kind::DAMAGED)) {
            return None;
        }
        let body = Body::Tcp(Segment {
            seq: slot.seq,
            ack: slot.ack_or_created,
            len: slot.len,
            window: slot.window,
            timestamps: (slot.kind.has(Kind::TIMESTAMPS)).then_some(slot.timestamps),
            sack: SackBlocks::NONE,
            syn: SynOptions::default(),
            flags: slot.flags,
        });
        Some(slot.with(body))
    }

    /// The packet in a slot.
    pub(crate) fn packet(&self, index: SlotId) -> Packet {
        let Slot(slot) = &self.slots[index.index()];
        let body = if !slot.kind.has(Kind::UDP) {
            let rare = if !slot.kind.has(Kind::RARE) { Rare::default() } else { self.rare[index.index()] };
            Body::Tcp(Segment {
                seq: slot.seq,
                ack: slot.ack_or_created,
                len: slot.len,
                window: slot.window,
                timestamps: (slot.kind.has(Kind::TIMESTAMPS)).then_some(slot.timestamps),
                sack: rare.sack,
                syn: rare.syn,
                flags: slot.flags,
            })
        } else if slot.kind.has(Kind::FRAME) {
            Body::Frame(Frame { handle: slot.seq as u32 })
        } else {
            let created = Timestamp::from_nanos(slot.ack_or_created);
            let note = [slot.window, slot.timestamps.0, slot.timestamps.1];
            Body::Udp(Datagram { seq: slot.seq, created, len: slot.len, note })
        };
        slot.with(body)
    }

    /// Frees the slot.
    #[inline]
    pub(crate) fn free(&mut self, index: SlotId) {
        self.free.push(index);
    }

    /// Frees the slot of a lost packet; if it is a frame, its bytes are no longer needed.
    #[inline]
    pub(crate) fn drop_packet(&mut self, index: SlotId) {
        let Slot(slot) = &self.slots[index.index()];
        if slot.kind.has(Kind::FRAME) {
            let handle = slot.seq as u32;
            if !self.unshare(handle) {
                self.released.push(handle);
            }
        }
        self.free(index);
    }

    /// A copy of a packet, in a slot of its own. The copy of a frame has the same bytes, by the same handle.
    pub(crate) fn copy(&mut self, index: SlotId) -> SlotId {
        let (&fields, rare) = self.fields(index);
        let rare = rare.copied();
        if fields.kind.has(Kind::FRAME) {
            *self.shared.entry(fields.seq as u32).or_default() += 1;
        }
        self.put(&fields, rare)
    }

    /// A packet with this frame leaves the network: whether another one has the frame, too, so that its bytes are still needed.
    #[inline]
    pub(crate) fn unshare(&mut self, handle: u32) -> bool {
        !self.shared.is_empty() && self.one_user_less(handle)
    }

    #[cold]
    #[inline(never)]
    fn one_user_less(&mut self, handle: u32) -> bool {
        let Entry::Occupied(mut others) = self.shared.entry(handle) else { return false };
        *others.get_mut() -= 1;
        if *others.get() == 0 {
            others.remove();
        }
        true
    }

    /// A bit of a packet is changed.
    pub(crate) fn damage(&mut self, index: SlotId) {
        let kind = &mut self.slots[index.index()].0.kind;
        *kind = kind.with(Kind::DAMAGED);
    }

    /// Handles of the frames dropped since the last call.
    pub(crate) fn released(&mut self) -> std::vec::Drain<'_, u32> {
        self.released.drain(..)
    }

    /// Packets in the network now.
    pub(crate) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// The next hop of a waiting packet.
    pub(crate) fn hop(&self, index: SlotId) -> HopId {
        self.slots[index.index()].0.hop
    }

    /// Stores the next hop of a packet that has to wait.
    pub(crate) fn set_hop(&mut self, index: SlotId, hop: HopId) {
        self.slots[index.index()].0.hop = hop;
    }

    /// A packet's bytes on the wire, without framing.
    pub(crate) fn size(&self, index: SlotId) -> u32 {
        self.slots[index.index()].0.size
    }

    /// A packet's traffic class.
    pub(crate) fn class(&self, index: SlotId) -> u8 {
        self.slots[index.index()].0.class
    }

    /// A packet's ECN field.
    pub(crate) fn ecn(&self, index: SlotId) -> Ecn {
        self.slots[index.index()].0.ecn
    }

    /// Marks a packet congestion-experienced. Returns false if it was already.
    pub(crate) fn mark(&mut self, index: SlotId) -> bool {
        let ecn = &mut self.slots[index.index()].0.ecn;
        std::mem::replace(ecn, Ecn::Ce) != Ecn::Ce
    }
}

#[cfg(test)]
mod tests {
    use warpline_core::AccEcn;

    use super::*;

    #[test]
    fn a_slot_is_one_cache_line() {
        assert_eq!(size_of::<Slot>(), 64);
    }

    #[test]
    fn packets_come_out_as_they_went_in() {
        let mut arena = Arena::default();
        let mut segment = Segment {
            seq: 1 << 40,
            ack: 7,
            len: 1448,
            window: 65_535,
            timestamps: Some((3, 4)),
            flags: Flags::ACK.with(Flags::ECE),
            ..Segment::default()
        };
        let packet = |body| Packet {
            flow: FlowId(1),
            to: EndpointId(2),
            size: 1500,
            ecn: Ecn::Ect0,
            class: 3,
            damaged: false,
            dscp: Dscp::EF,
            id: 9,
            body,
        };
        let mut packets = vec![packet(Body::Tcp(segment))];
        segment.timestamps = None;
        assert!(segment.sack.push(7, 100, 200));
        packets.push(packet(Body::Tcp(segment)));
        segment.sack = SackBlocks::NONE;
        assert!(segment.set_accecn(&AccEcn::new([1, 2, 3], false, 2)));
        packets.push(packet(Body::Tcp(segment)));
        segment.flags = Flags::SYN;
        segment.syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };
        packets.push(packet(Body::Tcp(segment)));
        let datagram =
            Datagram { seq: 5, created: Timestamp::from_secs(2), len: 100, note: [1, u32::MAX, 3] };
        packets.push(packet(Body::Udp(datagram)));
        packets.push(packet(Body::Frame(Frame { handle: u32::MAX })));
        // Twice, so that slots are used again, each by another kind.
        for packets in [packets.clone(), packets.into_iter().rev().collect()] {
            let slots: Vec<SlotId> = packets.iter().map(|packet| arena.insert(packet)).collect();
            for (slot, packet) in slots.iter().zip(&packets) {
                assert_eq!(arena.packet(*slot), *packet);
                assert!(arena.plain(*slot).is_none_or(|plain| plain == *packet));
            }
            assert!(arena.mark(slots[0]) && !arena.mark(slots[0]));
            slots.into_iter().for_each(|slot| arena.free(slot));
        }
        assert_eq!((arena.live(), arena.slots.len()), (0, 6));
    }

    #[test]
    fn only_frames_that_are_dropped_are_released() {
        let mut arena = Arena::default();
        let bodies = [
            Body::Udp(Datagram { seq: 1, ..Datagram::default() }),
            Body::Frame(Frame { handle: 2 }),
            Body::Frame(Frame { handle: 3 }),
            Body::Tcp(Segment { seq: 4, ..Segment::default() }),
        ];
        let slots = bodies.map(|body| {
            let (flow, to) = (FlowId(0), EndpointId(0));
            let (ecn, dscp) = (Ecn::NotEct, Dscp::default());
            arena.insert(&Packet { flow, to, size: 40, ecn, class: 0, damaged: false, dscp, id: 0, body })
        });
        arena.free(slots[1]); // delivered
        [slots[0], slots[2], slots[3]].into_iter().for_each(|slot| arena.drop_packet(slot));
        assert_eq!(arena.released().collect::<Vec<_>>(), [3]);
        assert_eq!((arena.released().count(), arena.live()), (0, 0));
    }

    #[test]
    fn a_frame_is_released_with_the_last_of_its_copies() {
        let mut arena = Arena::default();
        let body = Body::Frame(Frame { handle: 7 });
        let packet = Packet { body, ..Packet::udp(FlowId(0), EndpointId(0), Datagram::default()) };
        let slot = arena.insert(&packet);
        let copies = [arena.copy(slot), arena.copy(slot)];
        arena.damage(copies[0]);
        assert_eq!(copies.map(|copy| arena.packet(copy)), [Packet { damaged: true, ..packet }, packet]);
        assert!(arena.unshare(7)); // delivered
        arena.drop_packet(copies[1]);
        assert_eq!(arena.released().count(), 0);
        arena.drop_packet(slot);
        assert_eq!((arena.released().collect::<Vec<_>>(), arena.unshare(7)), (vec![7], false));
    }
}
