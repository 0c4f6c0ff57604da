//! Strict priority: a packet of class 0 always leaves before one of class 1, and so on; within a class first in, first out.
//!
//! Linux's `prio` with one FIFO per band. The shared limit with push-out is what the TCP Nice paper (Venkataramani, Kokku,
//! Dahlin, OSDI 2002) compares with as ideal router support: the low class takes nothing, neither time nor buffer, that
//! the high class wants. Not pre-emptive: a packet in transmission is finished. Priority flow control holds each class back by itself.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Stream, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Strict priority by the flows' `class`, 0 first. An arrival at a full queue pushes out the lowest class's last packets.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("priority")]
pub struct PriorityParams {
    /// How much may wait in all classes together.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Number of classes. Flows of a higher class than there is use the last.
    #[parameter(default = 2, min = 2, max = 16)]
    pub classes: u8,
    /// Whether each class has `limit` for itself, and none pushes out another's packets.
    pub per_class: bool,
}

/// A strict priority queue.
#[derive(Debug)]
pub struct Priority {
    bands: Vec<Band>,
    /// Limit over all bands.
    shared: Limit,
    packets: u32,
    bytes: u64,
    /// A bit for each class that is held back; the eighth is for all further ones.
    held: u8,
}

#[derive(Debug)]
struct Band {
    fifo: Fifo,
    limit: Limit,
}

impl BuiltIn for Priority {
    type Params = PriorityParams;

    fn new(params: &PriorityParams, sizing: &Sizing, _stream: Stream) -> Self {
        let limit = params.limit.resolve(sizing);
        let (shared, own) = if params.per_class { (Limit::NONE, limit) } else { (limit, Limit::NONE) };
        let band = |_| Band { fifo: Fifo::default(), limit: own };
        Priority {
            bands: (0..params.classes.max(1)).map(band).collect(),
            shared,
            packets: 0,
            bytes: 0,
            held: 0,
        }
    }
}

impl Priority {
    /// Pushes out younger packets of lower bands until `size` more bytes fit; false, and nothing is done, if it cannot be.
    fn make_room(&mut self, band: usize, size: u32, dropped: &mut Dropped) -> bool {
        let (mut packets, mut bytes) = (self.packets, self.bytes);
        for lower in &self.bands[band + 1..] {
            let (lower_packets, lower_bytes) = lower.fifo.backlog();
            packets -= lower_packets;
            bytes -= lower_bytes;
        }
        if !self.shared.admits((packets, bytes), size) {
            return false;
        }
        for lower in self.bands[band + 1..].iter_mut().rev() {
            while !self.shared.admits((self.packets, self.bytes), size) {
                let Some(victim) = lower.fifo.pop_tail() else { break };
                self.packets -= 1;
                self.bytes -= u64::from(victim.size);
                dropped.0.push((victim, DropReason::Overflow));
            }
        }
        true
    }

    /// Takes the first packet of the classes that are not held back.
    fn pop(&mut self, held: u8) -> Option<Queued> {
        let mut bands = self.bands.iter_mut().enumerate();
        let packet = bands.find_map(
            |(class, band)| {
                if held & (1 << class.min(7)) == 0 { band.fifo.pop() } else { None }
            },
        )?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }
}

impl Qdisc for Priority {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        let index = usize::from(packet.class).min(self.bands.len() - 1);
        let band = &self.bands[index];
        if !band.limit.admits(band.fifo.backlog(), packet.size)
            || (!self.shared.admits((self.packets, self.bytes), packet.size)
                && !self.make_room(index, packet.size, dropped))
        {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        self.bands[index].fifo.push(packet);
        Verdict::Queued
    }
    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.pop(self.held)
    }
    fn discard(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.pop(0)
    }
    fn priorities(&self) -> u8 {
        self.bands.len().min(8) as u8
    }
    fn hold(&mut self, classes: u8) {
        self.held = classes;
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        (self.packets, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::Streams;

    fn priority(classes: u8, limit: QueueLimit, per_class: bool) -> Priority {
        let params = PriorityParams { limit, classes, per_class };
        Priority::new(&params, &Sizing::default(), Streams::new(1).stream("priority"))
    }

    #[test]
    fn a_higher_class_leaves_first_and_pushes_out_the_lowest_tail() {
        let mut queue = priority(3, QueueLimit::Packets(4), false);
        let (now, mut dropped) = (Timestamp::ZERO, Dropped::default());
        for (slot, class) in [(0, 2), (1, 2), (2, 1), (3, 1)] {
            assert_eq!(
                queue.enqueue(now, Queued { class, ..packet(slot, 100) }, &mut dropped),
                Verdict::Queued
            );
        }
        // Its own class is full: nothing lower than itself to push out.
        let low = Queued { class: 9, ..packet(4, 100) };
        assert_eq!(queue.enqueue(now, low, &mut dropped), Verdict::Dropped(DropReason::Overflow));
        assert!(dropped.0.is_empty());
        // Class 0 and class 1 push out the two of class 2, youngest first; the third of class 1 finds nothing lower.
        for (slot, class) in [(5, 0), (6, 1)] {
            assert_eq!(
                queue.enqueue(now, Queued { class, ..packet(slot, 100) }, &mut dropped),
                Verdict::Queued
            );
        }
        let more = Queued { class: 1, ..packet(7, 100) };
        assert_eq!(queue.enqueue(now, more, &mut dropped), Verdict::Dropped(DropReason::Overflow));
        assert_eq!(dropped.0.iter().map(|(p, _)| p.slot).collect::<Vec<_>>(), [1, 0]);
        let order: Vec<u32> =
            std::iter::from_fn(|| queue.dequeue(now, &mut dropped)).map(|p| p.slot).collect();
        assert_eq!(order, [5, 2, 3, 6]);
    }

    #[test]
    fn a_byte_limit_pushes_out_only_if_that_makes_room() {
        let mut queue = priority(2, QueueLimit::Bytes(1000), false);
        let (now, mut dropped) = (Timestamp::ZERO, Dropped::default());
        queue.enqueue(now, packet(0, 600), &mut dropped);
        for slot in 1..4 {
            queue.enqueue(now, Queued { class: 1, ..packet(slot, 100) }, &mut dropped);
        }
        assert_eq!(queue.enqueue(now, packet(4, 500), &mut dropped), Verdict::Dropped(DropReason::Overflow));
        assert!(dropped.0.is_empty());
        assert_eq!(queue.enqueue(now, packet(5, 250), &mut dropped), Verdict::Queued);
        assert_eq!(dropped.0.iter().map(|(p, _)| p.slot).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(queue.backlog(), (3, 950));
    }

    #[test]
    fn a_class_that_is_held_back_lets_others_pass() {
        let mut queue = priority(10, QueueLimit::Unlimited, false);
        let (now, mut dropped) = (Timestamp::ZERO, Dropped::default());
        for class in 0..10 {
            queue.enqueue(now, Queued { class, ..packet(u32::from(class), 100) }, &mut dropped);
        }
        assert_eq!(queue.priorities(), 8);
        // The eighth bit holds all further classes, too.
        queue.hold(0b1000_0101);
        let order: Vec<u8> =
            std::iter::from_fn(|| queue.dequeue(now, &mut dropped)).map(|packet| packet.class).collect();
        assert_eq!((order, queue.backlog()), (vec![1, 3, 4, 5, 6], (5, 500)));
        assert_eq!(queue.discard(now, &mut dropped).map(|packet| packet.class), Some(0));
        queue.hold(0);
        assert_eq!(queue.dequeue(now, &mut dropped).map(|packet| packet.class), Some(2));
    }

    #[test]
    fn each_band_has_its_own_limit() {
        let mut queue = priority(3, QueueLimit::Packets(2), true);
        let mut dropped = Dropped::default();
        let mut taken = [0; 3];
        for slot in 0..12 {
            let arriving = Queued { class: (slot % 3) as u8, ..packet(slot, 100) };
            if queue.enqueue(Timestamp::ZERO, arriving, &mut dropped) == Verdict::Queued {
                taken[slot as usize % 3] += 1;
            }
        }
        assert_eq!((taken, dropped.0.len()), ([2, 2, 2], 0));
    }
}
