//! A queue of a switch whose links share one buffer, with a dynamic threshold: the more of the buffer is in use, the less each queue may hold.
//!
//! Source: Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2),
//! 1998. A queue takes a packet while it holds less than alpha times what is free. So one queue alone comes to hold alpha/(1+alpha) of the
//! buffer, and each of n full ones alpha/(1+n alpha), and 1/(1+n alpha) of the buffer stays free for others. The queues with this discipline in
//! front of the links that begin at one node share that node's buffer; `Network::add_link` joins them.
//!
//! A packet that finds `threshold` waiting is marked, or dropped if it is not ECN-capable, as by the discipline `step`.
//!
//! Departures: bytes are counted and not cells, and a packet in transmission does not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Part of a buffer that all links of a switch share, by a dynamic threshold (Choudhury and Hahne 1998).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("shared")]
pub struct SharedParams {
    /// The buffer of the node at which the link begins. All its links with such a queue share it, and have to say the same.
    #[parameter(default = Bytes(4_000_000), above = Bytes(0))]
    pub buffer: Bytes,
    /// The queue takes packets while it holds less than this times what is free of the buffer.
    #[parameter(default = 1.0, above = 0.0)]
    pub alpha: f64,
    /// How much must wait in this queue for an arriving packet to be marked, or dropped if it is not ECN-capable. Without it none is.
    pub threshold: Option<QueueLimit>,
}

/// A buffer, and how much of it is in use. Only the queues of one node use it, and these are never at work at the same time: the counter is
/// atomic because the node may be run by one thread after another.
#[derive(Debug)]
pub(crate) struct Buffer {
    size: u64,
    used: AtomicU64,
}

impl Buffer {
    pub(crate) fn new(size: u64) -> Self {
        Buffer { size, used: AtomicU64::new(0) }
    }

    fn free(&self) -> u64 {
        self.size.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn take(&self, bytes: u32) {
        self.used.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u32) {
        self.used.fetch_sub(u64::from(bytes), Ordering::Relaxed);
    }
}

/// A queue with a part of a shared buffer.
#[derive(Debug)]
pub struct Shared {
    fifo: Fifo,
    buffer: Arc<Buffer>,
    alpha: f64,
    threshold: Limit,
}

impl BuiltIn for Shared {
    type Params = SharedParams;

    /// With a buffer of its own.
    fn new(params: &SharedParams, sizing: &Sizing, _stream: Stream) -> Self {
        Shared {
            fifo: Fifo::default(),
            buffer: Arc::new(Buffer::new(params.buffer.0)),
            alpha: params.alpha,
            threshold: params.threshold.map_or(Limit::NONE, |threshold| threshold.resolve(sizing)),
        }
    }
}

impl Shared {
    /// Uses the buffer of the node in place of its own. Called while nothing waits. The node's first queue brings the buffer.
    pub(crate) fn join(&mut self, of_node: &mut Option<Arc<Buffer>>) {
        self.buffer = Arc::clone(of_node.get_or_insert_with(|| Arc::clone(&self.buffer)));
    }
}

impl Qdisc for Shared {
    fn enqueue(&mut self, _now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let (packets, bytes) = self.fifo.backlog();
        let mut verdict = Verdict::Queued;
        if packets >= self.threshold.packets || bytes >= self.threshold.bytes {
            if !packet.mark() {
                return Verdict::Dropped(DropReason::Aqm);
            }
            verdict = Verdict::Marked;
        }
        let free = self.buffer.free();
        if bytes as f64 >= self.alpha * free as f64 || u64::from(packet.size) > free {
            return Verdict::Dropped(DropReason::Overflow);
        }
        self.buffer.take(packet.size);
        self.fifo.push(packet);
        verdict
    }
    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        let packet = self.fifo.pop()?;
        self.buffer.give_back(packet.size);
        Some(packet)
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
    use warpline_core::{Ecn, Streams};

    /// Queues of one node, with a buffer of 120 packets of 1000 bytes.
    fn queues(count: usize, params: &SharedParams) -> Vec<Shared> {
        let mut buffer = None;
        let queue = |_| {
            let stream = Streams::new(1).stream("shared");
            let mut queue = Shared::new(params, &Sizing::default(), stream);
            queue.join(&mut buffer);
            queue
        };
        (0..count).map(queue).collect()
    }

    fn offer(queue: &mut Shared) -> Verdict {
        queue.enqueue(Timestamp::ZERO, packet(0, 1000), &mut Dropped::default())
    }

    fn fill(queue: &mut Shared) {
        for _ in 0..200 {
            offer(queue);
        }
    }

    fn params(alpha: f64) -> SharedParams {
        SharedParams { buffer: Bytes(120_000), alpha, ..SharedParams::default() }
    }

    /// The paper's fixed point: each of n full queues holds alpha/(1 + n alpha) of the buffer.
    #[test]
    fn full_queues_hold_equal_shares_and_leave_one_free() {
        for (alpha, count, each) in [(1.0, 1, 60), (1.0, 2, 40), (1.0, 5, 20), (2.0, 1, 80), (0.5, 4, 20)] {
            let mut queues = queues(count, &params(alpha));
            for _ in 0..200 {
                for queue in &mut queues {
                    offer(queue);
                }
            }
            let held: Vec<u32> = queues.iter().map(|queue| queue.backlog().0).collect();
            assert!(held.iter().all(|&held| (each..=each + 1).contains(&held)), "{alpha} {count}: {held:?}");
        }
    }

    #[test]
    fn a_queue_alone_gives_way_when_others_fill() {
        let mut queues = queues(2, &params(1.0));
        fill(&mut queues[0]);
        assert_eq!(queues[0].backlog().0, 60);
        // The second finds 60 free and takes up to half of what is left. The first may take none until it holds less than what is free.
        fill(&mut queues[1]);
        assert_eq!(
            (queues[1].backlog().0, offer(&mut queues[0])),
            (30, Verdict::Dropped(DropReason::Overflow))
        );
        for _ in 0..20 {
            queues[0].dequeue(Timestamp::ZERO, &mut Dropped::default());
        }
        assert_eq!((offer(&mut queues[1]), offer(&mut queues[0])), (Verdict::Queued, Verdict::Queued));
    }

    #[test]
    fn the_buffer_is_the_end_of_it_and_is_given_back() {
        let mut queues = queues(1, &params(1000.0));
        fill(&mut queues[0]);
        assert_eq!((queues[0].backlog().0, queues[0].buffer.free()), (120, 0));
        while queues[0].dequeue(Timestamp::ZERO, &mut Dropped::default()).is_some() {}
        assert_eq!(queues[0].buffer.free(), 120_000);
    }

    #[test]
    fn what_finds_the_threshold_is_marked() {
        let threshold = Some(QueueLimit::Packets(2));
        let mut queue = queues(1, &SharedParams { threshold, ..params(1.0) }).remove(0);
        let mut offer =
            |ecn| queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(0, 1000) }, &mut Dropped::default());
        assert_eq!([Ecn::Ect0; 3].map(&mut offer), [Verdict::Queued, Verdict::Queued, Verdict::Marked]);
        assert_eq!(offer(Ecn::NotEct), Verdict::Dropped(DropReason::Aqm));
    }
}
