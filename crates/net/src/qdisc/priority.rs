//! Strict priority: a packet of class 0 always leaves before one of class 1, and so on; within a class first in, first out.
//!
//! Linux's `prio` with one FIFO per band. The shared limit with push-out is what the TCP Nice paper (Venkataramani, Kokku,
//! Dahlin, OSDI 2002) compares with as ideal router support: the low class takes nothing, neither time nor buffer, that
//! the high class wants. Not pre-emptive: a packet in transmission is finished.

use warpline_core::Timestamp;
use warpline_core::record::DropReason;

use super::fifo::{Fifo, Limit};
use super::{Dropped, Qdisc, Queued, Verdict};
use crate::parameter::InvalidParameter;

/// Parameters of [`Priority`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityConfig {
    /// Number of bands, 1 to 256; packets of a higher class than the last go to the last. Default 2.
    pub bands: u16,
    /// Who shares the buffer. Default: 1000 packets shared.
    pub limit: PriorityLimit,
}

/// The limit of a priority queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PriorityLimit {
    /// One limit over all bands. An arriving packet that does not fit pushes out the youngest packets of the lowest band
    /// below its own (as many as it needs, none if they would not suffice).
    Shared(Limit),
    /// A limit for each band, in order; bands beyond the list have the last one's.
    PerBand(Vec<Limit>),
}

impl Default for PriorityConfig {
    fn default() -> Self {
        PriorityConfig { bands: 2, limit: PriorityLimit::Shared(Limit::packets(1000)) }
    }
}

impl PriorityConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        if !(1..=256).contains(&self.bands) {
            return Err(InvalidParameter::new("bands", self.bands, "it must lie between 1 and 256"));
        }
        match &self.limit {
            PriorityLimit::Shared(limit) => limit.validate(),
            PriorityLimit::PerBand(limits) if limits.is_empty() => {
                Err(InvalidParameter::new("limit", "an empty list", "give at least one limit"))
            }
            PriorityLimit::PerBand(limits) => limits.iter().try_for_each(Limit::validate),
        }
    }
}

/// A strict priority queue.
#[derive(Debug)]
pub struct Priority {
    bands: Vec<Band>,
    /// Limit over all bands.
    shared: Limit,
    packets: u32,
    bytes: u64,
}

#[derive(Debug)]
struct Band {
    fifo: Fifo,
    limit: Limit,
}

impl Priority {
    /// An empty queue.
    pub fn new(config: &PriorityConfig) -> Self {
        let shared = match config.limit {
            PriorityLimit::Shared(limit) => limit,
            PriorityLimit::PerBand(_) => Limit::NONE,
        };
        let limit_of = |band: usize| match &config.limit {
            PriorityLimit::Shared(_) => Limit::NONE,
            PriorityLimit::PerBand(limits) => {
                limits.get(band).or(limits.last()).copied().unwrap_or(Limit::NONE)
            }
        };
        let bands = (0..usize::from(config.bands.max(1)))
            .map(|band| Band { fifo: Fifo::default(), limit: limit_of(band) })
            .collect();
        Priority { bands, shared, packets: 0, bytes: 0 }
    }

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
        let packet = self.bands.iter_mut().find_map(|band| band.fifo.pop())?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
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

    #[test]
    fn a_higher_class_leaves_first_and_pushes_out_the_lowest_tail() {
        let mut queue =
            Priority::new(&PriorityConfig { bands: 3, limit: PriorityLimit::Shared(Limit::packets(4)) });
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
        let mut queue =
            Priority::new(&PriorityConfig { bands: 2, limit: PriorityLimit::Shared(Limit::bytes(1000)) });
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
    fn each_band_has_its_own_limit() {
        let limits = vec![Limit::packets(1), Limit::packets(2)];
        let mut queue = Priority::new(&PriorityConfig { bands: 3, limit: PriorityLimit::PerBand(limits) });
        let mut dropped = Dropped::default();
        let mut taken = [0; 3];
        for slot in 0..12 {
            let arriving = Queued { class: (slot % 3) as u8, ..packet(slot, 100) };
            if queue.enqueue(Timestamp::ZERO, arriving, &mut dropped) == Verdict::Queued {
                taken[slot as usize % 3] += 1;
            }
        }
        assert_eq!((taken, dropped.0.len()), ([1, 2, 2], 0));
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(PriorityConfig::default().validate().is_ok());
        assert!(PriorityConfig { bands: 0, ..Default::default() }.validate().is_err());
        let empty = PriorityConfig { bands: 2, limit: PriorityLimit::PerBand(vec![]) };
        assert!(empty.validate().unwrap_err().to_string().contains("at least one"));
    }
}
