//! What the tests of the algorithms share: samples, a feeder of whole round trips, and a small bottleneck of its own, so
//! that they need no connection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use warpline_core::record::LossTrigger;
use warpline_core::{Rate, TimeDelta, Timestamp};

use super::{AckSample, CcConfig, CongestionControl, CongestionEvent, Controller, LostSegment, Marks, Phase};

/// Payload of a segment in these tests.
pub(super) const MSS: u64 = 1000;

/// A configuration with an initial window of so many segments.
pub(super) fn config(segments: u64) -> CcConfig {
    CcConfig { mss: MSS, initial_window: segments * MSS, initial_ssthresh: u64::MAX, seed: 0, saved: None }
}

/// An acknowledgement at `millis` of `acked` bytes, limited by the window, with an RTT of 100 ms.
pub(super) fn sample(millis: u64, acked: u64) -> AckSample {
    let rtt = TimeDelta::from_millis(100);
    AckSample {
        now: Timestamp::from_millis(millis),
        acked,
        mss: MSS,
        rtt: Some(rtt),
        srtt: rtt,
        min_rtt: rtt,
        one_way_delay: None,
        delivery_rate: None,
        app_limited: false,
        sent_at: Timestamp::NEVER,
        delivered: acked * (millis + 1),
        prior_delivered: 0,
        prior_in_flight: 1 << 30,
        in_flight: 1 << 30,
        next_seq: acked * (millis + 1),
        ack: acked * (millis + 1),
        ce: 0,
        cwnd_limited: true,
        phase: Phase::Open,
    }
}

/// A loss at `millis`.
pub(super) fn event(millis: u64, in_flight: u64) -> CongestionEvent {
    CongestionEvent {
        now: Timestamp::from_millis(millis),
        trigger: LossTrigger::DupAcks,
        in_flight,
        mss: MSS,
        min_rtt: TimeDelta::from_millis(100),
        srtt: TimeDelta::from_millis(100),
    }
}

/// A time-out.
pub(super) fn time_out(millis: u64, in_flight: u64) -> CongestionEvent {
    CongestionEvent { trigger: LossTrigger::Rto, ..event(millis, in_flight) }
}

/// Feeds an algorithm with whole round trips, a segment per acknowledgement.
#[derive(Default)]
pub(super) struct Feeder {
    now: TimeDelta,
    delivered: u64,
}

impl Feeder {
    /// A round trip in which the window's segments all took `rtt` milliseconds.
    pub(super) fn round(&mut self, cc: &mut impl CongestionControl, rtt: u64) {
        let segments = (cc.cwnd() / MSS).max(1);
        self.mixed_round(cc, &[(segments, rtt)]);
    }

    /// A round trip in which so many segments took so many milliseconds each.
    pub(super) fn mixed_round(&mut self, cc: &mut impl CongestionControl, parts: &[(u64, u64)]) {
        self.mixed_round_since(cc, parts, self.delivered);
    }

    /// Bytes delivered so far.
    pub(super) fn mark(&self) -> u64 {
        self.delivered
    }

    /// As [`mixed_round`](Self::mixed_round), of segments that were sent when `begin` bytes had been delivered.
    pub(super) fn mixed_round_since(
        &mut self,
        cc: &mut impl CongestionControl,
        parts: &[(u64, u64)],
        begin: u64,
    ) {
        for &(segments, millis) in parts {
            for _ in 0..segments {
                let rtt = TimeDelta::from_millis(millis);
                self.now += rtt / segments;
                self.delivered += MSS;
                cc.on_ack(&AckSample {
                    now: Timestamp::ZERO + self.now,
                    rtt: Some(rtt),
                    srtt: rtt,
                    delivered: self.delivered,
                    prior_delivered: begin,
                    ack: self.delivered,
                    ..sample(0, MSS)
                });
            }
        }
    }
}

/// One flow's place in the bottleneck model.
struct Flow {
    cc: Controller,
    in_flight: u64,
    delivered: u64,
    next: u64,
    /// Packets below this were sent before the last reduction.
    recover: u64,
    phase: Phase,
    srtt: TimeDelta,
    min_rtt: TimeDelta,
    /// Earliest time of the next packet: of the first one, when the window is below one segment, and at a pacing rate.
    paced: Timestamp,
    /// For delivery rates: when something was delivered last, and when that was sent.
    delivered_at: Timestamp,
    first_sent: Timestamp,
    /// Whether its start is in the events.
    started: bool,
    losses: u64,
}

/// A flow's state when a packet was sent, for delivery rates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Prior {
    delivered: u64,
    delivered_at: Timestamp,
    first_sent: Timestamp,
}

impl Flow {
    /// A congestion episode begins.
    fn reduce(&mut self, now: Timestamp, trigger: LossTrigger, in_flight: u64) {
        let (min_rtt, srtt) = (self.min_rtt, self.srtt);
        self.cc.on_congestion_event(&CongestionEvent { now, trigger, in_flight, mss: MSS, min_rtt, srtt });
        self.recover = self.next;
        self.phase = if trigger == LossTrigger::Ecn { Phase::Cwr } else { Phase::Recovery };
    }
}

/// What comes back to a flow, in order of time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Return {
    at: Timestamp,
    order: u64,
    flow: usize,
    packet: u64,
    sent: Timestamp,
    /// What the flow had seen when it was sent.
    prior: Prior,
    lost: bool,
    /// It was marked congestion-experienced.
    marked: bool,
    wake: bool,
}

impl Return {
    /// At `at`, flow `flow` looks again whether it may send.
    fn wake(at: Timestamp, flow: usize) -> Self {
        Return {
            at,
            order: 0,
            flow,
            packet: 0,
            sent: at,
            prior: Prior::default(),
            lost: false,
            marked: false,
            wake: true,
        }
    }
}

/// Flows of endless data through one drop-tail queue, which marks if asked to: every packet is acknowledged, and losses and marks are
/// reported a round trip later.
pub(super) struct Bottleneck {
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<Return>>,
    order: u64,
    now: Timestamp,
    /// Time that a packet takes on the link, propagation both ways, and the queue's length in packets.
    per_packet: TimeDelta,
    rtt: TimeDelta,
    limit: u64,
    /// One in so many packets is lost whatever the queue; 0 for none.
    pub(super) lose_every: u64,
    /// Packets that find so many in the queue, or more, are marked; `None` for no marks.
    pub(super) mark_above: Option<u64>,
    /// When the link will be free.
    free: Timestamp,
    queue_sum: f64,
    queue_samples: f64,
}

/// What a run of the model gave.
pub(super) struct Outcome {
    /// Bytes delivered per flow over the measured time, as a part of what the link could carry.
    pub(super) shares: Vec<f64>,
    /// Mean packets in the queue on arrival.
    pub(super) queue: f64,
    /// Losses per flow since the beginning.
    pub(super) losses: Vec<u64>,
}

impl Bottleneck {
    /// A link of `packets_per_sec`, a round trip of `rtt_ms` and a queue of `limit` packets.
    pub(super) fn new(flows: Vec<Controller>, packets_per_sec: u64, rtt_ms: u64, limit: u64) -> Self {
        let flows = flows
            .into_iter()
            .map(|cc| Flow {
                cc,
                in_flight: 0,
                delivered: 0,
                next: 0,
                recover: 0,
                phase: Phase::Open,
                srtt: TimeDelta::ZERO,
                min_rtt: TimeDelta::ZERO,
                paced: Timestamp::ZERO,
                delivered_at: Timestamp::ZERO,
                first_sent: Timestamp::ZERO,
                started: false,
                losses: 0,
            })
            .collect();
        Bottleneck {
            flows,
            events: BinaryHeap::new(),
            order: 0,
            now: Timestamp::ZERO,
            per_packet: TimeDelta::from_nanos(1_000_000_000 / packets_per_sec),
            rtt: TimeDelta::from_millis(rtt_ms),
            limit,
            lose_every: 0,
            mark_above: None,
            free: Timestamp::ZERO,
            queue_sum: 0.0,
            queue_samples: 0.0,
        }
    }

    /// A flow's congestion control.
    pub(super) fn controller(&self, flow: usize) -> &Controller {
        &self.flows[flow].cc
    }

    /// A flow's window in bytes.
    pub(super) fn cwnd(&self, flow: usize) -> u64 {
        self.flows[flow].cc.cwnd()
    }

    /// A flow's threshold in bytes.
    pub(super) fn ssthresh(&self, flow: usize) -> u64 {
        self.flows[flow].cc.ssthresh()
    }

    /// Runs until `secs`; measures from `from` on.
    pub(super) fn measure(&mut self, from: u64, secs: u64) -> Outcome {
        self.run_to(Timestamp::from_secs(from));
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        (self.queue_sum, self.queue_samples) = (0.0, 0.0);
        self.run_to(Timestamp::from_secs(secs));
        let capacity = MSS as f64 * (secs - from) as f64 * 1e9 / self.per_packet.as_nanos() as f64;
        Outcome {
            shares: self
                .flows
                .iter()
                .zip(before)
                .map(|(flow, before)| (flow.delivered - before) as f64 / capacity)
                .collect(),
            queue: self.queue_sum / self.queue_samples,
            losses: self.flows.iter().map(|flow| flow.losses).collect(),
        }
    }

    /// Lets the flows start one after the other.
    pub(super) fn stagger(&mut self, span: TimeDelta) {
        for (flow, i) in self.flows.iter_mut().zip(0..) {
            flow.paced = Timestamp::ZERO + span * i;
        }
    }

    /// Runs until `end`.
    pub(super) fn run_to(&mut self, end: Timestamp) {
        for flow in 0..self.flows.len() {
            if !std::mem::replace(&mut self.flows[flow].started, true) {
                self.push(Return::wake(self.flows[flow].paced, flow));
            }
        }
        while self.events.peek().is_some_and(|Reverse(event)| event.at <= end) {
            let Some(Reverse(event)) = self.events.pop() else { break };
            self.now = event.at;
            if !event.wake {
                self.take(&event);
            }
            self.send(event.flow);
        }
        self.now = end;
    }

    fn push(&mut self, event: Return) {
        self.order += 1;
        self.events.push(Reverse(Return { order: self.order, ..event }));
    }

    /// Sends what the window allows.
    fn send(&mut self, index: usize) {
        loop {
            let flow = &mut self.flows[index];
            let cwnd = flow.cc.cwnd();
            let rate = flow.cc.pacing_rate();
            let paced = cwnd < MSS || rate.is_some();
            if (flow.in_flight > 0 && flow.in_flight + MSS > cwnd) || (paced && self.now < flow.paced) {
                return;
            }
            let packet = flow.next;
            flow.next += 1;
            if flow.in_flight == 0 {
                (flow.delivered_at, flow.first_sent) = (self.now, self.now);
            }
            flow.in_flight += MSS;
            flow.cc.on_sent(self.now, MSS, flow.in_flight);
            let prior = Prior {
                delivered: flow.delivered,
                delivered_at: flow.delivered_at,
                first_sent: flow.first_sent,
            };
            let recheck = rate.map_or(flow.srtt * MSS / cwnd.max(1), |rate| rate.time_for(MSS));
            if paced {
                flow.paced = self.now + recheck;
            }
            let waiting = self.free.saturating_since(self.now);
            let queue = waiting.as_nanos() / self.per_packet.as_nanos();
            self.queue_sum += queue as f64;
            self.queue_samples += 1.0;
            let unlucky = self.lose_every > 0 && self.order % self.lose_every == self.lose_every - 1;
            let lost = queue >= self.limit || unlucky;
            if !lost {
                self.free = self.free.max(self.now) + self.per_packet;
            }
            let at = self.free.max(self.now) + self.rtt;
            let (order, flow, sent) = (0, index, self.now);
            let marked = self.mark_above.is_some_and(|threshold| queue >= threshold);
            self.push(Return { at, order, flow, packet, sent, prior, lost, marked, wake: false });
            if paced {
                self.push(Return::wake(self.now + recheck, index));
                return;
            }
        }
    }

    /// An acknowledgement, or the news of a loss, arrives.
    fn take(&mut self, event: &Return) {
        let now = self.now;
        let flow = &mut self.flows[event.flow];
        let prior_in_flight = flow.in_flight;
        let cwnd_limited = prior_in_flight + MSS > flow.cc.cwnd();
        flow.in_flight -= MSS;
        if event.lost {
            flow.losses += 1;
            flow.cc.on_lost(&LostSegment {
                now,
                bytes: MSS,
                sent_at: event.sent,
                delivered: event.prior.delivered,
                app_limited: false,
                trigger: LossTrigger::DupAcks,
            });
            if event.packet >= flow.recover {
                flow.reduce(now, LossTrigger::DupAcks, prior_in_flight);
            }
            return;
        }
        if flow.phase != Phase::Open && event.packet >= flow.recover {
            flow.phase = Phase::Open;
            flow.cc.on_recovery_exit(now);
        }
        let ack = (event.packet + 1) * MSS;
        let next_seq = flow.next * MSS;
        if event.marked {
            flow.cc.on_marks(&Marks { acked: MSS, ce: MSS, next_seq, ack });
            if flow.phase == Phase::Open {
                flow.reduce(now, LossTrigger::Ecn, prior_in_flight);
            }
        }
        let rtt = now.saturating_since(event.sent);
        flow.srtt = if flow.srtt.is_zero() { rtt } else { (flow.srtt * 7 + rtt) / 8 };
        flow.min_rtt = if flow.min_rtt.is_zero() { rtt } else { flow.min_rtt.min(rtt) };
        flow.delivered += MSS;
        (flow.delivered_at, flow.first_sent) = (now, event.sent);
        let span = now
            .saturating_since(event.prior.delivered_at)
            .max(event.sent.saturating_since(event.prior.first_sent));
        let bits = 8e9 * (flow.delivered - event.prior.delivered) as f64;
        flow.cc.on_ack(&AckSample {
            now,
            acked: MSS,
            mss: MSS,
            rtt: Some(rtt),
            srtt: flow.srtt,
            min_rtt: flow.min_rtt,
            one_way_delay: Some(rtt.saturating_sub(self.rtt / 2)),
            delivery_rate: Some(Rate::from_bps((bits / span.as_nanos() as f64) as u64)),
            app_limited: false,
            sent_at: event.sent,
            delivered: flow.delivered,
            prior_delivered: event.prior.delivered,
            prior_in_flight,
            in_flight: flow.in_flight,
            next_seq,
            ack,
            ce: if event.marked { MSS } else { 0 },
            cwnd_limited,
            phase: flow.phase,
        });
    }
}
