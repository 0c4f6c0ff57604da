//! SFQ: stochastic fairness queueing, a round over the queues that flows are hashed to, with another hash from time to time.
//!
//! Sources: McKenney, "Stochastic Fairness Queuing", INFOCOMM 1990; Linux's `sch_sfq`, with its parameters and defaults. A queue's allotment
//! is `quantum` bytes; once it has been used up, the queue gets another one and waits for its next turn. What a packet takes beyond the
//! allotment is subtracted from the next one. A full buffer takes a packet from the queue that has the most. No flow may have more than `depth`
//! packets. With `perturb`, the hash changes so often, and what waits is sorted anew.
//!
//! Departures: allotments are exact, and not in units of 8 bytes. Of several longest queues, the one of the arriving packet gives up a packet,
//! or else the first; in Linux it is the one that changed last. The new hash is made when a packet comes or leaves. Linux's RED in the
//! queues (`redflowlimit`) is not here.

use std::collections::VecDeque;

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::flows::place;
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Stochastic fairness queueing (McKenney 1990, Linux).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("sfq")]
pub struct SfqParams {
    /// How much may wait in all queues together.
    #[parameter(default = QueueLimit::Packets(127), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Packets that may wait in one queue.
    #[parameter(default = 127, min = 1)]
    pub depth: u32,
    /// Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`.
    #[parameter(above = Some(Bytes(0)))]
    pub quantum: Option<Bytes>,
    /// Number of queues that flows are hashed to.
    #[parameter(default = 1024, min = 1, max = 65_536)]
    pub divisor: u32,
    /// Queues that may have packets at a time.
    #[parameter(default = 128, min = 1)]
    pub flows: u32,
    /// How often the hash changes. Zero: never.
    pub perturb: TimeDelta,
    /// Whether the oldest packet of a queue is dropped, and not the youngest.
    pub head_drop: bool,
}

/// An SFQ queue.
#[derive(Debug)]
pub struct Sfq {
    params: SfqParams,
    queues: Vec<Fifo>,
    /// Bytes that each may still send in this round.
    allotments: Vec<i64>,
    /// Those that have packets, in the order of their turns.
    active: VecDeque<u32>,
    quantum: i64,
    limit: Limit,
    stream: Stream,
    salt: u64,
    next_salt: Timestamp,
    packets: u32,
    bytes: u64,
}

impl BuiltIn for Sfq {
    type Params = SfqParams;

    /// The hashes are salted from `stream`.
    fn new(params: &SfqParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let count = params.divisor.max(1) as usize;
        let quantum = params.quantum.map_or(u64::from(sizing.packet), |Bytes(bytes)| bytes);
        let params = SfqParams { depth: params.depth.max(1), flows: params.flows.max(1), ..*params };
        let salt = stream.next_u64();
        let never = params.perturb.is_zero();
        Sfq {
            params,
            queues: (0..count).map(|_| Fifo::default()).collect(),
            allotments: vec![0; count],
            active: VecDeque::new(),
            quantum: quantum.clamp(1, u64::from(u32::MAX)) as i64,
            limit: params.limit.resolve(sizing),
            stream,
            salt,
            next_salt: if never { Timestamp::NEVER } else { Timestamp::ZERO + params.perturb },
            packets: 0,
            bytes: 0,
        }
    }
}

impl Sfq {
    /// Packets in a queue.
    fn depth(&self, index: usize) -> u32 {
        self.queues[index].backlog().0
    }

    /// Puts a packet into its queue; the queue's number, or none if there is no room in it.
    fn put(&mut self, packet: Queued) -> Result<usize, usize> {
        let own = place(self.salt, packet.flow, self.queues.len());
        let depth = self.depth(own);
        if depth >= self.params.depth || depth == 0 && self.active.len() >= self.params.flows as usize {
            return Err(own);
        }
        if depth == 0 {
            self.active.push_back(own as u32);
            self.allotments[own] = self.quantum;
        }
        self.queues[own].push(packet);
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        Ok(own)
    }

    /// Takes the oldest or the youngest packet out of a queue.
    fn take(&mut self, index: usize, oldest: bool) -> Option<Queued> {
        let queue = &mut self.queues[index];
        let packet = if oldest { queue.pop() } else { queue.pop_tail() }?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        if queue.is_empty() {
            self.active.retain(|other| *other as usize != index);
        }
        Some(packet)
    }

    /// The queue with the most packets: `own` if it is one of them.
    fn longest(&self, own: usize) -> usize {
        let length = |index: &u32| (self.depth(*index as usize), *index as usize == own, u32::MAX - index);
        self.active.iter().copied().max_by_key(length).map_or(own, |index| index as usize)
    }

    /// Changes the hash if that is due, and sorts what waits anew.
    fn perturb(&mut self, now: Timestamp, dropped: &mut Dropped) {
        if now < self.next_salt {
            return;
        }
        let due = now.saturating_since(self.next_salt).as_nanos() / self.params.perturb.as_nanos() + 1;
        self.next_salt += self.params.perturb.saturating_mul(due);
        self.salt = self.stream.next_u64();
        let mut active: Vec<u32> = self.active.drain(..).collect();
        active.sort_unstable();
        let mut waiting = Vec::with_capacity(self.packets as usize);
        for index in active {
            waiting.extend(std::iter::from_fn(|| self.queues[index as usize].pop()));
        }
        (self.packets, self.bytes) = (0, 0);
        for packet in waiting {
            if self.put(packet).is_err() {
                dropped.0.push((packet, DropReason::Overflow));
            }
        }
    }
}

impl Qdisc for Sfq {
    fn enqueue(&mut self, now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        const FULL: Verdict = Verdict::Dropped(DropReason::Overflow);
        self.perturb(now, dropped);
        if !self.limit.admits((0, 0), packet.size) {
            return FULL;
        }
        let own = match self.put(packet) {
            Ok(own) => own,
            Err(own) => {
                // Its queue is full, or there are too many queues: in the latter case there is nothing to take its place.
                if !self.params.head_drop || self.depth(own) == 0 {
                    return FULL;
                }
                let Some(oldest) = self.take(own, true) else { return FULL };
                dropped.0.push((oldest, DropReason::Overflow));
                match self.put(packet) {
                    Ok(own) => own,
                    Err(_) => return FULL,
                }
            }
        };
        while self.packets > self.limit.packets || self.bytes > self.limit.bytes {
            let longest = self.longest(own);
            let Some(victim) = self.take(longest, self.params.head_drop) else { break };
            if victim.slot == packet.slot && longest == own {
                return FULL;
            }
            dropped.0.push((victim, DropReason::Overflow));
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        self.perturb(now, dropped);
        loop {
            let index = *self.active.front()? as usize;
            if self.allotments[index] <= 0 {
                self.allotments[index] += self.quantum;
                self.active.rotate_left(1);
                continue;
            }
            let packet = self.queues[index].pop()?;
            self.packets -= 1;
            self.bytes -= u64::from(packet.size);
            self.allotments[index] -= i64::from(packet.size);
            if self.queues[index].is_empty() {
                self.active.pop_front();
            }
            return Some(packet);
        }
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

    const FULL: Verdict = Verdict::Dropped(DropReason::Overflow);

    fn sfq(params: SfqParams) -> Sfq {
        Sfq::new(&params, &Sizing::default(), Streams::new(3).stream("sfq"))
    }

    fn offer(queue: &mut Sfq, flow: u32, slot: u32, dropped: &mut Dropped) -> Verdict {
        queue.enqueue(Timestamp::ZERO, Queued { flow, ..packet(slot, 1000) }, dropped)
    }

    fn slots(dropped: &Dropped) -> Vec<u32> {
        dropped.0.iter().map(|(packet, _)| packet.slot).collect()
    }

    #[test]
    fn flows_share_by_bytes_in_turn() {
        let mut queue = sfq(SfqParams { limit: QueueLimit::Unlimited, ..SfqParams::default() });
        let mut none = Dropped::default();
        for slot in 0..120 {
            queue.enqueue(Timestamp::ZERO, Queued { flow: 1, ..packet(slot, 1500) }, &mut none);
            queue.enqueue(Timestamp::ZERO, Queued { flow: 2, ..packet(slot, 500) }, &mut none);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.dequeue(Timestamp::ZERO, &mut none))
            .map(|packet| packet.flow)
            .collect();
        assert_eq!(order[..8], [1, 2, 2, 2, 1, 2, 2, 2]);
        assert_eq!(order.len(), 240);
    }

    #[test]
    fn what_exceeds_an_allotment_is_paid_back() {
        let quantum = Some(Bytes(500));
        let mut queue = sfq(SfqParams { quantum, ..SfqParams::default() });
        let mut none = Dropped::default();
        for slot in 0..10 {
            offer(&mut queue, 1, slot, &mut none);
            queue.enqueue(Timestamp::ZERO, Queued { flow: 2, ..packet(slot, 500) }, &mut none);
        }
        let order: Vec<u32> =
            (0..6).filter_map(|_| queue.dequeue(Timestamp::ZERO, &mut none)).map(|p| p.flow).collect();
        assert_eq!(order, [1, 2, 2, 1, 2, 2]);
    }

    #[test]
    fn a_full_buffer_takes_from_the_queue_with_the_most_packets() {
        for (head_drop, victim) in [(false, 2), (true, 0)] {
            let limit = QueueLimit::Packets(4);
            let mut queue = sfq(SfqParams { limit, head_drop, ..SfqParams::default() });
            let mut dropped = Dropped::default();
            for (slot, flow) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3)] {
                assert_eq!(offer(&mut queue, flow, slot, &mut dropped), Verdict::Queued);
            }
            assert_eq!(slots(&dropped), [victim]);
        }
        let mut queue = sfq(SfqParams { limit: QueueLimit::Packets(2), ..SfqParams::default() });
        let mut dropped = Dropped::default();
        let verdicts = [1, 1, 1].map(|flow| offer(&mut queue, flow, 7, &mut dropped));
        assert_eq!((verdicts, dropped.0.len()), ([Verdict::Queued, Verdict::Queued, FULL], 0));
    }

    #[test]
    fn depth_and_number_of_queues_are_limited() {
        for head_drop in [false, true] {
            let mut queue = sfq(SfqParams { depth: 2, flows: 2, head_drop, ..SfqParams::default() });
            let mut dropped = Dropped::default();
            let verdicts = [(1, 0), (1, 1), (1, 2), (2, 3), (3, 4)]
                .map(|(flow, slot)| offer(&mut queue, flow, slot, &mut dropped) == Verdict::Queued);
            assert_eq!(verdicts, [true, true, head_drop, true, false]);
            assert_eq!(slots(&dropped), if head_drop { vec![0] } else { vec![] });
            assert_eq!(queue.backlog(), (3, 3000));
        }
    }

    #[test]
    fn another_hash_parts_flows_that_shared_a_queue_and_keeps_their_order() {
        let params = SfqParams { divisor: 2, perturb: TimeDelta::from_secs(10), ..SfqParams::default() };
        let mut queue = sfq(params);
        let mut none = Dropped::default();
        let together = |queue: &Sfq| place(queue.salt, 1, 2) == place(queue.salt, 2, 2);
        let (mut now, mut seen) = (Timestamp::ZERO, [false; 2]);
        for slot in 0..20 {
            offer(&mut queue, 1, 2 * slot, &mut none);
            offer(&mut queue, 2, 2 * slot + 1, &mut none);
        }
        for _ in 0..40 {
            let salt = queue.salt;
            now += TimeDelta::from_secs(10);
            queue.perturb(now, &mut none);
            assert_ne!(queue.salt, salt);
            seen[usize::from(together(&queue))] = true;
            assert_eq!(queue.backlog(), (40, 40_000));
        }
        assert_eq!((seen, none.0.len()), ([true; 2], 0));
        let left: Vec<Queued> = std::iter::from_fn(|| queue.dequeue(now, &mut none)).collect();
        for flow in [1, 2] {
            let slots: Vec<u32> = left.iter().filter(|p| p.flow == flow).map(|p| p.slot).collect();
            assert!(slots.len() == 20 && slots.is_sorted(), "{slots:?}");
        }
    }
}
