//! FQ-CoDel: a queue for each flow, served by deficit round robin, new flows first, each under its own CoDel. RFC 8290.
//!
//! Departures: a full buffer drops from the head of the longest queue one packet at a time, not in batches as
//! Linux does, and CoDel's "no more than one packet waits" looks at the flow's own queue, where Linux looks at all.

use std::collections::VecDeque;

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, Timestamp};

use super::codel::{CodelParams, Control, Law};
use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Fair queueing with CoDel in each flow's queue (RFC 8290). The limit is over all flows.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("fq_codel")]
pub struct FqCodelParams {
    /// CoDel's in each queue.
    #[parameter(flatten, default = CodelParams { limit: QueueLimit::Packets(10_240), ecn: true, ..CodelParams::default() })]
    pub codel: CodelParams,
    /// Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`: with the 14B of Ethernet's header,
    /// the 1514B of RFC 8290 (section 5.2.4) and Linux.
    #[parameter(above = Some(Bytes(0)))]
    pub quantum: Option<Bytes>,
    /// Number of queues that flows are hashed to.
    #[parameter(default = 1024, min = 1, max = 65_536)]
    pub flows: u32,
}

#[derive(Debug, Default)]
struct Flow {
    fifo: Fifo,
    control: Control,
    /// Bytes that it may still send in this round.
    deficit: i64,
    /// Whether it is on one of the two lists.
    listed: bool,
}

/// An FQ-CoDel queue.
#[derive(Debug)]
pub struct FqCodel {
    flows: Vec<Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    law: Law,
    limit: Limit,
    quantum: i64,
    /// Secret of the hash, so that collisions differ from seed to seed.
    salt: u64,
    packets: u32,
    bytes: u64,
}

impl BuiltIn for FqCodel {
    type Params = FqCodelParams;

    /// The hash is salted from `stream`.
    fn new(params: &FqCodelParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let quantum =
            params.quantum.map_or(sizing.packet, |Bytes(bytes)| bytes.min(u64::from(u32::MAX)) as u32);
        FqCodel {
            flows: (0..params.flows.max(1)).map(|_| Flow::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            law: Law::new(&params.codel, sizing),
            limit: params.codel.limit.resolve(sizing),
            quantum: i64::from(quantum.max(1)),
            salt: stream.next_u64(),
            packets: 0,
            bytes: 0,
        }
    }
}

impl FqCodel {
    /// The queue of a flow: SplitMix64's mixing, folded onto the queues.
    fn queue_of(&self, flow: u32) -> usize {
        let mut z = self.salt ^ u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((u128::from(z) * self.flows.len() as u128) >> 64) as usize
    }
    /// The queue with the most bytes, the first of equals.
    fn longest(&self) -> usize {
        let bytes = |index: &usize| (self.flows[*index].fifo.backlog().1, std::cmp::Reverse(*index));
        (0..self.flows.len()).max_by_key(bytes).unwrap_or(0)
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits((0, 0), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        let own = self.queue_of(packet.flow);
        self.flows[own].fifo.push(packet);
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        while self.packets > self.limit.packets || self.bytes > self.limit.bytes {
            let longest = self.longest();
            let Some(victim) = self.flows[longest].fifo.pop() else { break };
            self.packets -= 1;
            self.bytes -= u64::from(victim.size);
            if longest == own && self.flows[own].fifo.is_empty() {
                // The arriving packet was the only one left there.
                return Verdict::Dropped(DropReason::Overflow);
            }
            dropped.0.push((victim, DropReason::Overflow));
        }
        let flow = &mut self.flows[own];
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, self.quantum);
            self.new.push_back(own as u32);
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let index = *list.front()?;
            let flow = &mut self.flows[index as usize];
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (packets, bytes) = flow.fifo.backlog();
            let packet = flow.control.dequeue(&self.law, now, &mut flow.fifo, dropped);
            let (packets_left, bytes_left) = flow.fifo.backlog();
            self.packets -= packets - packets_left;
            self.bytes -= bytes - bytes_left;
            let Some(packet) = packet else {
                // A new flow that ran dry passes through the old ones, or it would starve them by coming back as new.
                list.pop_front();
                if is_new {
                    self.old.push_back(index);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            flow.deficit -= i64::from(packet.size);
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

    fn queue(limit: QueueLimit) -> FqCodel {
        let codel = CodelParams { limit, ..CodelParams::default() };
        let params = FqCodelParams { codel, ..FqCodelParams::default() };
        FqCodel::new(&params, &Sizing::default(), Streams::new(2).stream("fq"))
    }

    #[test]
    fn flows_share_by_bytes_and_a_new_one_goes_first() {
        let (mut queue, now) = (queue(QueueLimit::Unlimited), Timestamp::ZERO);
        let mut dropped = Dropped::default();
        for slot in 0..100 {
            queue.enqueue(now, Queued { flow: 1, ..packet(slot, 1500) }, &mut dropped);
            queue.enqueue(now, Queued { flow: 2, ..packet(slot, 500) }, &mut dropped);
        }
        let mut bytes = [0u32; 4];
        for _ in 0..80 {
            let sent = queue.dequeue(now, &mut dropped).unwrap();
            bytes[sent.flow as usize] += sent.size;
        }
        assert_eq!(bytes[1], 30_000);
        assert_eq!(bytes[2], 30_000);
        queue.enqueue(now, Queued { flow: 3, ..packet(0, 100) }, &mut dropped);
        assert_eq!(queue.dequeue(now, &mut dropped).unwrap().flow, 3);
        assert!(dropped.0.is_empty());
    }

    #[test]
    fn a_full_buffer_drops_from_the_head_of_the_longest_queue() {
        let (mut queue, now) = (queue(QueueLimit::Packets(4)), Timestamp::ZERO);
        let mut dropped = Dropped::default();
        for slot in 0..4 {
            queue.enqueue(now, Queued { flow: 1, ..packet(slot, 1500) }, &mut dropped);
        }
        for slot in 4..6 {
            let arriving = Queued { flow: 2, ..packet(slot, 100) };
            assert_eq!(queue.enqueue(now, arriving, &mut dropped), Verdict::Queued);
        }
        assert_eq!(dropped.0.iter().map(|(p, _)| p.slot).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(queue.backlog(), (4, 3200));
    }

    #[test]
    fn a_full_packet_counts_what_the_link_adds_to_it() {
        let stream = Streams::new(2).stream("fq");
        let sizing = Sizing { packet: 1514, ..Sizing::default() };
        assert_eq!(FqCodel::new(&FqCodelParams::default(), &sizing, stream.clone()).quantum, 1514);
        let given = FqCodelParams { quantum: Some(Bytes(300)), ..FqCodelParams::default() };
        assert_eq!(FqCodel::new(&given, &sizing, stream).quantum, 300);
    }
}
