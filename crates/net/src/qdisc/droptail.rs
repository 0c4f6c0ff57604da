//! Drop-tail: first in, first out; what does not fit is dropped on arrival. Linux's `pfifo` and `bfifo`, ns-2's `DropTail`.

use warpline_core::Timestamp;
use warpline_core::record::DropReason;

use super::fifo::{Fifo, Limit};
use super::{Dropped, Qdisc, Queued, Verdict};

/// A FIFO with a limit.
#[derive(Debug)]
pub struct DropTail {
    fifo: Fifo,
    limit: Limit,
}

impl DropTail {
    /// An empty queue.
    pub fn new(limit: Limit) -> Self {
        DropTail { fifo: Fifo::default(), limit }
    }
}

impl Qdisc for DropTail {
    #[inline]
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        Verdict::Queued
    }
    #[inline]
    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.fifo.pop()
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
}
