//! @TITLE@: what it does, in one sentence.
//!
//! Sources: the paper or RFC, with the numbers of the sections that the code follows.
//!
//! Departures: what is done otherwise than there, and why.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// @TITLE@ (author and year).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("@NAME@")]
pub struct @TYPE@Params {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// A packet that has waited for longer is dropped instead of sent.
    #[parameter(default = TimeDelta::from_millis(100), above = TimeDelta::ZERO)]
    pub patience: TimeDelta,
}

/// A queue as [`@TYPE@Params`] describes it.
#[derive(Debug)]
pub struct @TYPE@ {
    fifo: Fifo,
    limit: Limit,
    patience: TimeDelta,
}

impl BuiltIn for @TYPE@ {
    type Params = @TYPE@Params;

    fn new(params: &@TYPE@Params, sizing: &Sizing, _stream: Stream) -> Self {
        @TYPE@ { fifo: Fifo::default(), limit: params.limit.resolve(sizing), patience: params.patience }
    }
}

impl Qdisc for @TYPE@ {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits(self.fifo.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.fifo.push(packet);
        Verdict::Queued
    }
    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        while let Some(packet) = self.fifo.pop() {
            if now.saturating_since(packet.arrived) <= self.patience {
                return Some(packet);
            }
            dropped.0.push((packet, DropReason::Aqm));
        }
        None
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::Streams;

    #[test]
    fn what_has_waited_for_too_long_is_dropped() {
        let params = @TYPE@Params { limit: QueueLimit::Packets(2), ..@TYPE@Params::default() };
        let mut queue = @TYPE@::new(&params, &Sizing::default(), Streams::new(1).stream("@NAME@"));
        let mut dropped = Dropped::default();
        assert_eq!(queue.enqueue(Timestamp::ZERO, packet(0, 1000), &mut dropped), Verdict::Queued);
        let later = Timestamp::from_millis(101);
        let second = Queued { arrived: later, ..packet(1, 1000) };
        assert_eq!(queue.enqueue(later, second, &mut dropped), Verdict::Queued);
        let full = queue.enqueue(later, packet(2, 1000), &mut dropped);
        assert_eq!(full, Verdict::Dropped(DropReason::Overflow));
        assert_eq!(queue.dequeue(later, &mut dropped).map(|packet| packet.slot), Some(1));
        assert_eq!((dropped.0.len(), queue.backlog()), (1, (0, 0)));
    }
}
