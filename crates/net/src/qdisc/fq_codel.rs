//! FQ-CoDel: a queue for each flow, served by deficit round robin, new flows first, each under its own CoDel. RFC 8290.
//!
//! CoDel's "no more than one packet waits" looks at all queues together, as Linux does (`net/sched/sch_fq_codel.c`). RFC 8290 leaves open at which.
//! A full buffer drops half of the longest queue's bytes, as Linux does, where RFC 8290 (section 4.1) has half of its packets; CoDel counts these drops as its own.
//!
//! Departures: a limit in bytes counts those on the wire and not the kernel's own structures (`memory_limit`); filters and `ce_threshold` are left out.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, Timestamp};

use super::codel::{CodelParams, Control, Law};
use super::fifo::Limit;
use super::flows::Flows;
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
    /// Most packets that a full buffer drops at once. It drops from the head of the longest queue, up to half of the bytes there.
    #[parameter(default = 64, min = 1)]
    pub drop_batch: u32,
}

/// An FQ-CoDel queue.
#[derive(Debug)]
pub struct FqCodel {
    flows: Flows<Control>,
    law: Law,
    limit: Limit,
    drop_batch: u32,
}

impl BuiltIn for FqCodel {
    type Params = FqCodelParams;

    /// The hash is salted from `stream`.
    fn new(params: &FqCodelParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let quantum =
            params.quantum.map_or(sizing.packet, |Bytes(bytes)| bytes.min(u64::from(u32::MAX)) as u32);
        FqCodel {
            flows: Flows::new(params.flows, quantum, stream.next_u64(), Control::default),
            law: Law::new(&params.codel, sizing),
            limit: params.codel.limit.resolve(sizing),
            drop_batch: params.drop_batch,
        }
    }
}

impl FqCodel {
    /// Makes room at the cost of the longest queue. Returns whether the packet in `arriving` is among those that had to go; the others are in `dropped`.
    fn make_room(&mut self, arriving: u32, dropped: &mut Dropped) -> bool {
        let longest = self.flows.longest();
        let enough = self.flows.flow(longest).fifo.backlog().1 / 2;
        let (mut packets, mut bytes, mut among) = (0, 0, false);
        while packets < self.drop_batch.max(1) && (packets == 0 || bytes < enough) {
            let Some(victim) = self.flows.pop(longest) else { break };
            packets += 1;
            bytes += u64::from(victim.size);
            if victim.slot == arriving {
                among = true;
            } else {
                dropped.0.push((victim, DropReason::Overflow));
            }
        }
        self.flows.flow(longest).control.overflowed(packets);
        among
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, dropped: &mut Dropped) -> Verdict {
        if !self.limit.admits((0, 0), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        let own = self.flows.queue_of(packet.flow);
        self.flows.push(own, packet);
        self.flows.list(own);
        let mut taken_in = true;
        while self.flows.exceeds(self.limit) {
            taken_in &= !self.make_room(packet.slot, dropped);
        }
        if taken_in { Verdict::Queued } else { Verdict::Dropped(DropReason::Overflow) }
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        let law = &self.law;
        self.flows
            .dequeue(|flow, elsewhere| flow.control.dequeue(law, now, &mut flow.fifo, elsewhere, dropped))
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.flows.backlog()
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
    fn a_full_buffer_drops_half_of_the_longest_queue_from_its_head() {
        // Half of the bytes, or as many packets as a batch has.
        for (waiting, drop_batch, lost) in [(6, 64, 3), (7, 64, 4), (6, 2, 2), (200, 64, 64)] {
            let codel = CodelParams { limit: QueueLimit::Packets(waiting), ..CodelParams::default() };
            let params = FqCodelParams { codel, drop_batch, ..FqCodelParams::default() };
            let mut queue = FqCodel::new(&params, &Sizing::default(), Streams::new(2).stream("fq"));
            let mut dropped = Dropped::default();
            let mut offer = |slot, flow, size| {
                let verdict =
                    queue.enqueue(Timestamp::ZERO, Queued { flow, ..packet(slot, size) }, &mut dropped);
                assert_eq!(verdict, Verdict::Queued);
            };
            (0..waiting).for_each(|slot| offer(slot, 1, 1500));
            offer(waiting, 2, 100);
            let slots: Vec<u32> = dropped.0.iter().map(|(packet, _)| packet.slot).collect();
            assert_eq!(slots, (0..lost).collect::<Vec<u32>>());
            assert_eq!(queue.backlog(), (waiting + 1 - lost, u64::from(waiting - lost) * 1500 + 100));
        }
    }

    #[test]
    fn an_arrival_that_is_most_of_the_longest_queue_goes_itself() {
        let (mut queue, now) = (queue(QueueLimit::Packets(1)), Timestamp::ZERO);
        let mut dropped = Dropped::default();
        queue.enqueue(now, Queued { flow: 1, ..packet(0, 100) }, &mut dropped);
        let arriving = Queued { flow: 1, ..packet(1, 1500) };
        assert_eq!(queue.enqueue(now, arriving, &mut dropped), Verdict::Dropped(DropReason::Overflow));
        assert_eq!((dropped.0.len(), queue.backlog()), (1, (0, 0)));
        assert!(queue.dequeue(now, &mut dropped).is_none());
    }

    /// CoDel spares the last packet of the buffer, not that of each flow (Linux `fq_codel_dequeue`).
    #[test]
    fn a_flow_with_one_packet_at_a_time_loses_some_while_others_wait() {
        for (others, lost) in [(1000, true), (0, false)] {
            let mut queue = queue(QueueLimit::Unlimited);
            let mut dropped = Dropped::default();
            for slot in 0..others {
                queue.enqueue(Timestamp::ZERO, Queued { flow: 1, ..packet(slot, 1500) }, &mut dropped);
            }
            for turn in 0..50 {
                let now = Timestamp::from_millis(20 + 10 * turn);
                let late = Queued { flow: 2, arrived: Timestamp::from_millis(10 * turn), ..packet(0, 1500) };
                queue.enqueue(now, late, &mut dropped);
                while queue.dequeue(now, &mut dropped).is_some_and(|sent| sent.flow != 2) {}
            }
            assert_eq!(dropped.0.iter().any(|(packet, _)| packet.flow == 2), lost, "{others} others");
        }
    }

    #[test]
    fn a_full_packet_counts_what_the_link_adds_to_it() {
        let stream = Streams::new(2).stream("fq");
        let sizing = Sizing { packet: 1514, ..Sizing::default() };
        assert_eq!(FqCodel::new(&FqCodelParams::default(), &sizing, stream.clone()).flows.quantum(), 1514);
        let given = FqCodelParams { quantum: Some(Bytes(300)), ..FqCodelParams::default() };
        assert_eq!(FqCodel::new(&given, &sizing, stream).flows.quantum(), 300);
    }
}
