//! FQ-CoDel: a queue for each flow, served by deficit round robin, new flows first, each under its own CoDel. RFC 8290.
//!
//! Departures: a full buffer drops from the head of the longest queue one packet at a time, not in batches as
//! Linux does, and CoDel's "no more than one packet waits" looks at the flow's own queue, where Linux looks at all.

use std::collections::VecDeque;

use warpline_core::record::DropReason;
use warpline_core::{Stream, Timestamp};

use super::codel::{CodelConfig, Control, Law};
use super::fifo::{Fifo, Limit};
use super::{Dropped, Qdisc, Queued, Verdict};
use crate::parameter::InvalidParameter;

/// Parameters of [`FqCodel`]; the defaults are RFC 8290's (section 5.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// CoDel's parameters for each flow; its limit is over all flows. Default 10240 packets, ECN on.
    pub codel: CodelConfig,
    /// Bytes that a flow may send per round. Default 1500, a full packet (RFC 8290 section 5.2.4; its 1514 count the header of Ethernet, as packets
    /// there do; a link that counts it gives 1514).
    pub quantum: u32,
    /// Queues that flows are hashed onto. Default 1024.
    pub flows: u32,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        let codel = CodelConfig { limit: Limit::packets(10_240), ecn: true, ..CodelConfig::default() };
        FqCodelConfig { codel, quantum: 1500, flows: 1024 }
    }
}

impl FqCodelConfig {
    /// Checks the parameters.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        if self.quantum == 0 {
            return Err(InvalidParameter::new("quantum", 0, "it must be at least 1 byte"));
        }
        if !(1..=65_536).contains(&self.flows) {
            return Err(InvalidParameter::new("flows", self.flows, "it must lie between 1 and 65536"));
        }
        self.codel.validate()
    }
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

impl FqCodel {
    /// An empty queue whose hash is salted from `stream`.
    pub fn new(config: &FqCodelConfig, mut stream: Stream) -> Self {
        let CodelConfig { target, interval, limit, ecn, mtu } = config.codel;
        FqCodel {
            flows: (0..config.flows.max(1)).map(|_| Flow::default()).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            law: Law { target, interval, ecn, mtu },
            limit,
            quantum: i64::from(config.quantum.max(1)),
            salt: stream.next_u64(),
            packets: 0,
            bytes: 0,
        }
    }

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

    fn queue(limit: Limit) -> FqCodel {
        let codel = CodelConfig { limit, ..CodelConfig::default() };
        let config = FqCodelConfig { codel, ..FqCodelConfig::default() };
        config.validate().unwrap();
        FqCodel::new(&config, Streams::new(2).stream("fq"))
    }

    #[test]
    fn flows_share_by_bytes_and_a_new_one_goes_first() {
        let (mut queue, now) = (queue(Limit::NONE), Timestamp::ZERO);
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
        let (mut queue, now) = (queue(Limit::packets(4)), Timestamp::ZERO);
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
    fn bad_parameters_are_refused() {
        assert!(FqCodelConfig { quantum: 0, ..Default::default() }.validate().is_err());
        assert!(FqCodelConfig { flows: 0, ..Default::default() }.validate().is_err());
    }
}
