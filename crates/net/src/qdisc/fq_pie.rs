//! FQ-PIE: a queue for each flow, served by deficit round robin, new flows first, each under its own PIE.
//!
//! Sources: Linux's `sch_fq_pie`; RFC 8033 for the control (`pie.rs`), RFC 8290 for the rounds (`flows.rs`). An arrival at a full buffer is
//! dropped, whichever flow it belongs to.
//!
//! Departures: those of `pie.rs`. Linux's `memory_limit` only counts what is above it, and is not here. Linux updates the probabilities of 2048
//! queues at a time; here all are updated at the same instants.

use warpline_core::parameter::Parameters;
use warpline_core::record::DropReason;
use warpline_core::{Bytes, Stream, Timestamp};

use super::fifo::Limit;
use super::flows::Flows;
use super::pie::{PieControl, PieLaw, PieParams};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Fair queueing with PIE in each flow's queue (Linux). The limit is over all flows.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("fq_pie")]
pub struct FqPieParams {
    /// PIE's in each queue.
    #[parameter(flatten, default = PieParams { limit: QueueLimit::Packets(10_240), ..PieParams::default() })]
    pub pie: PieParams,
    /// Bytes that a queue may send per round. Without it a full packet of 1500B with the link's `framing`.
    #[parameter(above = Some(Bytes(0)))]
    pub quantum: Option<Bytes>,
    /// Number of queues that flows are hashed to.
    #[parameter(default = 1024, min = 1, max = 65_536)]
    pub flows: u32,
}

/// An FQ-PIE queue.
#[derive(Debug)]
pub struct FqPie {
    flows: Flows<PieControl>,
    law: PieLaw,
    limit: Limit,
    stream: Stream,
}

impl BuiltIn for FqPie {
    type Params = FqPieParams;

    /// The hash is salted from `stream`, and its drops come from there.
    fn new(params: &FqPieParams, sizing: &Sizing, mut stream: Stream) -> Self {
        let quantum =
            params.quantum.map_or(sizing.packet, |Bytes(bytes)| bytes.min(u64::from(u32::MAX)) as u32);
        let law = PieLaw::new(&params.pie, sizing);
        FqPie {
            flows: Flows::new(params.flows, quantum, stream.next_u64(), || PieControl::new(&law)),
            law,
            limit: params.pie.limit.resolve(sizing),
            stream,
        }
    }
}

impl Qdisc for FqPie {
    fn enqueue(&mut self, now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let (own, room) = (self.flows.queue_of(packet.flow), self.limit.admits(self.backlog(), packet.size));
        let flow = self.flows.flow(own);
        let bytes = flow.fifo.backlog().1;
        flow.control.catch_up(&self.law, now, bytes);
        if !room {
            flow.control.overflowed();
            return Verdict::Dropped(DropReason::Overflow);
        }
        let verdict = flow.control.admit(&self.law, bytes, &mut self.stream, &mut packet);
        if !matches!(verdict, Verdict::Dropped(_)) {
            self.flows.push(own, packet);
            self.flows.list(own);
        }
        verdict
    }

    fn dequeue(&mut self, now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        let law = &self.law;
        self.flows.dequeue(|flow, _| {
            flow.control.catch_up(law, now, flow.fifo.backlog().1);
            let packet = flow.fifo.pop()?;
            flow.control.left(law, now, &packet, flow.fifo.backlog().1);
            Some(packet)
        })
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
    use warpline_core::{Ecn, Streams, TimeDelta};

    fn queue(params: FqPieParams) -> FqPie {
        FqPie::new(&params, &Sizing::default(), Streams::new(2).stream("fq"))
    }

    #[test]
    fn flows_share_by_bytes_and_a_new_one_goes_first() {
        let (mut queue, now) = (queue(FqPieParams::default()), Timestamp::ZERO);
        let mut none = Dropped::default();
        for slot in 0..100 {
            queue.enqueue(now, Queued { flow: 1, ..packet(slot, 1500) }, &mut none);
            queue.enqueue(now, Queued { flow: 2, ..packet(slot, 500) }, &mut none);
        }
        let mut bytes = [0u32; 4];
        for _ in 0..80 {
            let sent = queue.dequeue(now, &mut none).unwrap();
            bytes[sent.flow as usize] += sent.size;
        }
        assert_eq!(bytes[1..3], [30_000, 30_000]);
        queue.enqueue(now, Queued { flow: 3, ..packet(0, 100) }, &mut none);
        assert_eq!(queue.dequeue(now, &mut none).unwrap().flow, 3);
    }

    #[test]
    fn the_arrival_at_a_full_buffer_is_dropped() {
        let pie = PieParams { limit: QueueLimit::Packets(2), ..PieParams::default() };
        let (mut queue, mut dropped) =
            (queue(FqPieParams { pie, ..FqPieParams::default() }), Dropped::default());
        let mut offer =
            |slot, flow| queue.enqueue(Timestamp::ZERO, Queued { flow, ..packet(slot, 1500) }, &mut dropped);
        assert_eq!([offer(0, 1), offer(1, 1)], [Verdict::Queued; 2]);
        assert_eq!(offer(2, 2), Verdict::Dropped(DropReason::Overflow));
        assert!(dropped.0.is_empty());
        // The spacing of its flow's drops begins anew.
        let own = queue.flows.queue_of(1);
        *queue.flows.flow(own).control.accumulated() = 0.5;
        queue.enqueue(Timestamp::ZERO, Queued { flow: 1, ..packet(3, 1500) }, &mut dropped);
        assert_eq!(*queue.flows.flow(own).control.accumulated(), 0.0);
    }

    /// Packets of 1000 bytes leave every millisecond; one flow sends twice as many for a minute, another one a fifth. What
    /// each lost and had marked, by share of its packets, and its mean delay in milliseconds.
    fn loaded(ecn: bool) -> [(f64, f64, f64); 2] {
        let pie = PieParams { ecn, mark_up_to: 1.0, ..FqPieParams::default().pie };
        let (mut queue, mut none) =
            (queue(FqPieParams { pie, ..FqPieParams::default() }), Dropped::default());
        let (mut came, mut sent) = ([0.0; 2], [0.0; 2]);
        let mut outcome = [(0.0, 0.0, 0.0); 2];
        for ms in 0..60_000u64 {
            let now = Timestamp::from_millis(ms);
            let light = usize::from(ms % 5 == 0);
            for flow in [0, 0, 1].into_iter().take(2 + light) {
                let arriving = Queued { flow, arrived: now, ecn: Ecn::Ect0, ..packet(flow, 1000) };
                let verdict = queue.enqueue(now, arriving, &mut none);
                came[flow as usize] += 1.0;
                outcome[flow as usize].0 += f64::from(u8::from(matches!(verdict, Verdict::Dropped(_))));
                outcome[flow as usize].1 += f64::from(u8::from(verdict == Verdict::Marked));
            }
            if let Some(packet) = queue.dequeue(now, &mut none) {
                sent[packet.flow as usize] += 1.0;
                outcome[packet.flow as usize].2 += now.saturating_since(packet.arrived).as_secs_f64() * 1e3;
            }
        }
        for flow in 0..2 {
            outcome[flow].0 /= came[flow];
            outcome[flow].1 /= came[flow];
            outcome[flow].2 /= sent[flow];
        }
        outcome
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn only_the_flow_that_sends_too_much_is_controlled() {
        let [heavy, light] = loaded(false);
        // It gets four fifths of the link, and offers two links.
        assert!((0.55..0.65).contains(&heavy.0), "{heavy:?}");
        assert!(light.0 == 0.0 && light.2 < 3.0, "{light:?}");
        let [marked, light] = loaded(true);
        assert!(marked.1 > 0.05 && light.1 == 0.0, "{marked:?} {light:?}");
    }

    #[test]
    fn a_flow_s_probability_is_its_own() {
        let mut queue = queue(FqPieParams::default());
        let (own, other) = (queue.flows.queue_of(1), queue.flows.queue_of(2));
        assert_ne!(own, other);
        let mut none = Dropped::default();
        for slot in 0..100 {
            queue.enqueue(Timestamp::ZERO, Queued { flow: 1, ..packet(slot, 1500) }, &mut none);
        }
        let late = Timestamp::ZERO + TimeDelta::from_millis(500);
        queue.dequeue(late, &mut none);
        queue.dequeue(late + TimeDelta::from_millis(20), &mut none);
        let probability = |queue: &mut FqPie, index| queue.flows.flow(index).control.probability();
        assert!(probability(&mut queue, own) > 0.0);
        assert_eq!(probability(&mut queue, other), 0.0);
    }
}
