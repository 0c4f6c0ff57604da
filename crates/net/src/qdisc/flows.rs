//! What fair queues share: the hash of flows, and the rounds of RFC 8290, by deficit with new flows first.

use std::collections::VecDeque;

use super::Queued;
use super::fifo::{Fifo, Limit};
use super::longest::Longest;

/// A flow's hash: SplitMix64's mixing, with a secret so that collisions differ from seed to seed.
pub(crate) fn hash(salt: u64, flow: u32) -> u64 {
    let mut z = salt ^ u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One of `count` queues, by a flow's hash.
pub(crate) fn place(salt: u64, flow: u32, count: usize) -> usize {
    ((u128::from(hash(salt, flow)) * count as u128) >> 64) as usize
}

/// The queue of one flow, or of several whose hashes agree.
#[derive(Debug)]
pub(crate) struct Flow<T> {
    pub(crate) fifo: Fifo,
    /// The state of its own control.
    pub(crate) control: T,
    /// Bytes that it may still send in this round.
    deficit: i64,
    /// Whether it is on one of the two lists.
    listed: bool,
}

/// The queues of all flows, and whose turn it is (RFC 8290 section 4).
#[derive(Debug)]
pub(crate) struct Flows<T> {
    flows: Vec<Flow<T>>,
    longest: Longest,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    quantum: i64,
    salt: u64,
    packets: u32,
    bytes: u64,
}

impl<T> Flows<T> {
    /// `count` queues, at least one, each of which may send `quantum` bytes per round.
    pub(crate) fn new(count: u32, quantum: u32, salt: u64, control: impl Fn() -> T) -> Self {
        let flow = |_| Flow { fifo: Fifo::default(), control: control(), deficit: 0, listed: false };
        Flows {
            flows: (0..count.max(1)).map(flow).collect(),
            longest: Longest::default(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: i64::from(quantum.max(1)),
            salt,
            packets: 0,
            bytes: 0,
        }
    }

    /// The number of a flow's queue.
    pub(crate) fn queue_of(&self, flow: u32) -> usize {
        place(self.salt, flow, self.flows.len())
    }

    /// One queue.
    pub(crate) fn flow(&mut self, index: usize) -> &mut Flow<T> {
        &mut self.flows[index]
    }

    /// Packets and bytes in all queues.
    #[inline]
    pub(crate) fn backlog(&self) -> (u32, u64) {
        (self.packets, self.bytes)
    }

    /// Whether more waits than may.
    pub(crate) fn exceeds(&self, limit: Limit) -> bool {
        self.packets > limit.packets || self.bytes > limit.bytes
    }

    /// Puts a packet into a queue, without giving the queue a turn.
    pub(crate) fn push(&mut self, index: usize, packet: Queued) {
        let fifo = &mut self.flows[index].fifo;
        fifo.push(packet);
        self.longest.grown(index, fifo.backlog().1);
        self.packets += 1;
        self.bytes += u64::from(packet.size);
    }

    /// The number of the longest queue, the first of equals.
    pub(crate) fn longest(&mut self) -> usize {
        self.longest.find(self.flows.len(), |index| self.flows[index].fifo.backlog().1)
    }

    /// Takes the head of a queue.
    pub(crate) fn pop(&mut self, index: usize) -> Option<Queued> {
        let packet = self.flows[index].fifo.pop()?;
        self.packets -= 1;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }

    /// Gives a queue a turn if it has none to come: it is a new one then.
    pub(crate) fn list(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, self.quantum);
            self.new.push_back(index as u32);
        }
    }

    /// The next packet. `take` removes it from the queue whose turn it is, and may drop others there. Its second argument is how many bytes wait in
    /// all other queues.
    pub(crate) fn dequeue(
        &mut self,
        mut take: impl FnMut(&mut Flow<T>, u64) -> Option<Queued>,
    ) -> Option<Queued> {
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
            let packet = take(flow, self.bytes - bytes);
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
}

#[cfg(test)]
impl<T> Flows<T> {
    pub(crate) fn quantum(&self) -> i64 {
        self.quantum
    }
}
