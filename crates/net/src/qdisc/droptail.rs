//! Drop-tail: first in, first out; what does not fit is dropped on arrival. Linux's `pfifo` and `bfifo`, ns-2's `DropTail`.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Stream, Timestamp};

use super::fifo::{Admission, Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// First in, first out; arrivals at a full queue are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("droptail")]
pub struct DropTailParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
}

/// A FIFO with a limit.
#[derive(Debug)]
pub struct DropTail {
    fifo: Fifo,
    limit: Limit,
}

impl BuiltIn for DropTail {
    type Params = DropTailParams;

    fn new(params: &DropTailParams, sizing: &Sizing, _stream: Stream) -> Self {
        DropTail::up_to(params.limit.resolve(sizing))
    }

    fn admission(params: &DropTailParams, sizing: &Sizing) -> Option<Admission> {
        Some(Admission::up_to(params.limit.resolve(sizing)))
    }
}

impl DropTail {
    /// An empty queue that holds so much.
    pub(crate) fn up_to(limit: Limit) -> Self {
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
