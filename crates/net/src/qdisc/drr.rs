//! DRR: deficit round robin over the queues of flows.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queuing using Deficit Round Robin", SIGCOMM 1995, figure 2. A flow's turn adds `quantum` to its
//! deficit; it sends while its next packet is not larger than the deficit, which it keeps for its next turn if packets remain. A flow that was
//! empty gets its turn after all others. Where the buffer is full, the longest queue gives up packets (McKenney's buffer stealing).
//!
//! Departures: the paper does not say which packet of the longest queue is given up; here it is the youngest, which may be the one that arrives.

use std::collections::VecDeque;

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, Timestamp};

use super::fifo::{Fifo, Limit};
use super::flows::place;
use super::longest::Longest;
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Deficit round robin (Shreedhar and Varghese 1995).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("drr")]
pub struct DrrParams {
    /// How much may wait in all queues together.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Bytes that a turn adds to what a queue may send. Without it a full packet of 1500B with the link's `framing`.
    #[parameter(above = Some(Bytes(0)))]
    pub quantum: Option<Bytes>,
    /// Number of queues that flows are hashed to.
    #[parameter(default = 1024, min = 1, max = 65_536)]
    pub flows: u32,
}

/// A DRR queue.
#[derive(Debug)]
pub struct Drr {
    queues: Vec<Fifo>,
    longest: Longest,
    /// Bytes that each may send beyond its quantum.
    deficits: Vec<i64>,
    /// Those that have packets, in the order of their turns.
    active: VecDeque<u32>,
    /// Whether the first of these has had its quantum for this turn.
    begun: bool,
    quantum: i64,
    limit: Limit,
    salt: u64,
    packets: u32,
    bytes: u64,
}

impl BuiltIn for Drr {
    type Params = DrrParams;

    /// The hash is salted from `stream`.
    fn new(params: &DrrParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let count = params.flows.max(1) as usize;
        let quantum = params.quantum.map_or(u64::from(sizing.packet), |Bytes(bytes)| bytes);
        Drr {
            queues: (0..count).map(|_| Fifo::default()).collect(),
            longest: Longest::default(),
            deficits: vec![0; count],
            active: VecDeque::new(),
            begun: false,
            quantum: quantum.clamp(1, u64::from(u32::MAX)) as i64,
            limit: params.limit.resolve(sizing),
            salt: stream.next_u64(),
            packets: 0,
            bytes: 0,
        }
    }
}

impl Drr {
    /// The longest queue gives up its youngest packet.
    fn steal(&mut self) -> Option<(usize, Queued)> {
        let index = self.longest.find(self.queues.len(), |index| self.queues[index].backlog().1);
        let victim = self.queues[index].pop_tail()?;
        self.packets -= 1;
        self.bytes -= u64::from(victim.size);
        if self.queues[index].is_empty() {
            self.deficits[index] = 0;
            let place = self.active.iter().position(|other| *other as usize == index);
            if let Some(place) = place {
                self.active.remove(place);
                self.begun &= place != 0;
            }
        }
        Some((index, victim))
    }
}

impl Qdisc for Drr {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits((0, 0), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        let own = place(self.salt, packet.flow, self.queues.len());
        if self.queues[own].is_empty() {
            self.active.push_back(own as u32);
        }
        self.queues[own].push(packet);
        self.longest.grown(own, self.queues[own].backlog().1);
        self.packets += 1;
        self.bytes += u64::from(packet.size);
        while self.packets > self.limit.packets || self.bytes > self.limit.bytes {
            let Some((index, victim)) = self.steal() else { break };
            if index == own {
                // The youngest there is the arriving one.
                return Verdict::Dropped(DropReason::Overflow);
            }
            dropped.0.push((victim, DropReason::Overflow));
        }
        Verdict::Queued
    }

    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        loop {
            let index = *self.active.front()? as usize;
            let (queue, deficit) = (&mut self.queues[index], &mut self.deficits[index]);
            if !self.begun {
                *deficit += self.quantum;
                self.begun = true;
            }
            let packet = match queue.head() {
                Some(head) if i64::from(head.size) <= *deficit => queue.pop(),
                _ => None,
            };
            if let Some(packet) = packet {
                *deficit -= i64::from(packet.size);
                self.packets -= 1;
                self.bytes -= u64::from(packet.size);
                if queue.is_empty() {
                    *deficit = 0;
                    self.active.pop_front();
                    self.begun = false;
                }
                return Some(packet);
            }
            self.active.rotate_left(1);
            self.begun = false;
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

    fn drr(limit: QueueLimit, quantum: u64) -> Drr {
        let params = DrrParams { limit, quantum: Some(Bytes(quantum)), ..DrrParams::default() };
        Drr::new(&params, &Sizing::default(), Streams::new(3).stream("drr"))
    }

    fn fill(queue: &mut Drr, flows: &[(u32, u32)], count: u32) {
        for slot in 0..count {
            for &(flow, size) in flows {
                let arriving = Queued { flow, ..packet(slot, size) };
                assert_eq!(
                    queue.enqueue(Timestamp::ZERO, arriving, &mut Dropped::default()),
                    Verdict::Queued
                );
            }
        }
    }

    fn next(queue: &mut Drr) -> (u32, u32) {
        let sent = queue.dequeue(Timestamp::ZERO, &mut Dropped::default());
        sent.map_or((0, 0), |packet| (packet.flow, packet.size))
    }

    #[test]
    fn the_paper_s_example() {
        // Figure 1 and 2: quantum 500; the first flow's first packet of 200 leaves 300 of its deficit, and its next one of 750 must wait a turn.
        let mut queue = drr(QueueLimit::Unlimited, 500);
        for (flow, sizes) in [(1, vec![200, 750, 20]), (2, vec![500, 500]), (3, vec![200, 600, 100])] {
            sizes.into_iter().for_each(|size| fill(&mut queue, &[(flow, size)], 1));
        }
        let order: Vec<(u32, u32)> = (0..8).map(|_| next(&mut queue)).collect();
        let expected = [(1, 200), (2, 500), (3, 200), (1, 750), (1, 20), (2, 500), (3, 600), (3, 100)];
        assert_eq!(order, expected);
        assert_eq!((queue.backlog(), queue.deficits.iter().sum::<i64>()), ((0, 0), 0));
    }

    #[test]
    fn flows_share_by_bytes_whatever_their_packets_and_the_quantum() {
        for quantum in [100, 1500, 4000] {
            let mut queue = drr(QueueLimit::Unlimited, quantum);
            fill(&mut queue, &[(1, 1500), (2, 400), (3, 40)], 4000);
            let mut bytes = [0i64; 4];
            for _ in 0..4000 {
                let (flow, size) = next(&mut queue);
                bytes[flow as usize] += i64::from(size);
            }
            // Lemma 2: within a quantum and a largest packet of each other, and one turn.
            let most = quantum as i64 + 1500;
            assert!((bytes[1] - bytes[2]).abs() <= most && (bytes[1] - bytes[3]).abs() <= most, "{bytes:?}");
        }
    }

    #[test]
    fn the_longest_queue_gives_up_its_youngest() {
        let mut queue = drr(QueueLimit::Packets(4), 1500);
        fill(&mut queue, &[(1, 1000)], 3);
        fill(&mut queue, &[(2, 100)], 1);
        let mut dropped = Dropped::default();
        let mut offer =
            |flow, slot| queue.enqueue(Timestamp::ZERO, Queued { flow, ..packet(slot, 1000) }, &mut dropped);
        assert_eq!((offer(2, 8), offer(1, 9)), (Verdict::Queued, Verdict::Dropped(DropReason::Overflow)));
        assert_eq!(dropped.0.iter().map(|(p, _)| (p.flow, p.slot)).collect::<Vec<_>>(), [(1, 2)]);
        assert_eq!(queue.backlog(), (4, 3100));
    }
}
