//! DualPI2: a queue for L4S and one for classic traffic, coupled so that flows of both get about equal windows, and L4S a short delay.
//!
//! Sources: RFC 9332, with its names (section 2, appendix A); Linux's `sch_dualpi2`, with its defaults and its scheduler; De Schepper et al., "PI2: A
//! Linearized AQM for both Classic and Scalable TCP", CoNEXT 2016. The protection of the L4S queue is RFC 9957's (`protection.rs`).
//!
//! * Packets with ECT(1) or CE go to the L4S queue, all others to the classic one. One limit counts both.
//! * Every `update` the base probability p' moves by `alpha` times the distance of the delay from `target` and `beta` times the delay's
//!   change. The delay is that of the older head of the two queues.
//! * Classic packets are dropped, or marked if they are ECN-capable, with p_C = p'^2. L4S packets are marked with the larger one of
//!   p_CL = k p', and of their own p'_L: 0 up to a delay of `step`, 1 above it, or a slope in between of length `ramp`.
//! * Overload, p_CL above 1 (p_C above 1/k^2, 25 % for k = 2): classic packets are dropped even if they are ECN-capable; L4S packets are
//!   dropped with p_C, and all others marked. Without `drop_overload`, p_CL stays at 1 and the queue may overflow.
//! * Nothing is dropped or marked with p_C or p_CL while fewer bytes than two full packets wait.
//! * Both queues have packets: L4S is served while the credit is not positive; it costs its bytes times the classic share, and classic packets give
//!   back theirs times the L4S share.
//!
//! Departures: drops are drawn at random, as in Linux; the RFC's examples space them. Linux's threshold in packets is not here, and its least
//! number of packets (`step_packets`) is that of packets left when one leaves, as in the RFC, and not on arrival. The updates that are due are
//! made when a packet comes or leaves, each with the delay at its time.

use warpline_core::parameter::{Parameters, Words};
use warpline_core::record::DropReason;
use warpline_core::{Ecn, Rate, Stream, TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::protection::{Protection, ProtectionParams};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Updates that are made up for at once: by then the probability has come to 0 or 1.
const MOST_UPDATES: u64 = 2000;
/// Weights of the scheduler are shares of this.
const WHOLE: i64 = 10_000;

/// Which packets are for the L4S queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum L4sCodepoints {
    /// Those with ECT(1) or CE (RFC 9331).
    #[default]
    L4s,
    /// All that are ECN-capable.
    AnyEct,
}

/// Dual queue coupled AQM with PI2 (RFC 9332).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("dualpi2")]
pub struct DualPi2Params {
    /// How much may wait in both queues together.
    #[parameter(default = QueueLimit::Packets(10_000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Delay that the classic queue is kept at.
    #[parameter(default = TimeDelta::from_millis(15), above = TimeDelta::ZERO)]
    pub target: TimeDelta,
    /// How often the base probability is computed.
    #[parameter(default = TimeDelta::from_millis(16), min = TimeDelta::from_micros(10))]
    pub update: TimeDelta,
    /// Weight of the delay's distance from its target, in base probability per second.
    #[parameter(default = 0.16, min = 0.0)]
    pub alpha: f64,
    /// Weight of the delay's change from update to update, in base probability per second.
    #[parameter(default = 3.2, min = 0.0)]
    pub beta: f64,
    /// Coupling factor: the marking probability of L4S is so many times the base probability.
    #[parameter(default = 2.0, min = 1.0)]
    pub coupling: f64,
    /// Delay above which an L4S packet is marked by its own queue.
    #[parameter(default = TimeDelta::from_millis(1))]
    pub step: TimeDelta,
    /// How far above `step` the probability to be marked comes to 1. Zero: at once.
    pub ramp: TimeDelta,
    /// L4S packets that must be left in the queue for its own marks.
    pub step_packets: u32,
    /// Share of the rate that classic packets have for certain.
    #[parameter(default = 0.1, share)]
    pub classic_share: f64,
    /// Which packets are for the L4S queue.
    pub codepoints: L4sCodepoints,
    /// Whether L4S packets are dropped on overload.
    #[parameter(default = true)]
    pub drop_overload: bool,
    /// Whether the coupled probabilities apply on arrival, and not when packets leave.
    pub drop_early: bool,
    /// Protection of the L4S queue.
    #[parameter(flatten)]
    pub protection: ProtectionParams,
}

/// What the coupled probabilities make of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Mark,
    Drop,
}

/// A DualPI2 queue.
#[derive(Debug)]
pub struct DualPi2 {
    params: DualPi2Params,
    limit: Limit,
    l4s: Fifo,
    classic: Fifo,
    stream: Stream,
    protection: Option<Box<Protection>>,
    /// p'.
    probability: f64,
    last_delay: TimeDelta,
    next_update: Timestamp,
    /// Classic share, in `WHOLE`.
    share: i64,
    /// L4S is served while this is not positive.
    credit: i64,
    /// Bytes of a full packet.
    full: u32,
    /// Seconds per byte at the link's rate; zero if not known.
    byte_time: f64,
}

impl BuiltIn for DualPi2 {
    type Params = DualPi2Params;

    /// Its drops and marks come from `stream`.
    fn new(params: &DualPi2Params, sizing: &Sizing, mut stream: Stream) -> Self {
        let update = params.update.max(TimeDelta::from_nanos(1));
        let guarded = params.protection.protect;
        let protection = guarded.then(|| Box::new(Protection::new(&params.protection, stream.next_u64())));
        let mut queue = DualPi2 {
            params: DualPi2Params { update, coupling: params.coupling.max(1.0), ..*params },
            limit: params.limit.resolve(sizing),
            l4s: Fifo::default(),
            classic: Fifo::default(),
            stream,
            protection,
            probability: 0.0,
            last_delay: TimeDelta::ZERO,
            next_update: Timestamp::ZERO + update,
            share: (params.classic_share * WHOLE as f64 + 0.5) as i64,
            credit: 0,
            full: sizing.packet,
            byte_time: 0.0,
        };
        queue.reset_credit();
        queue
    }
}

impl DualPi2 {
    /// As after idle time: the queue with the greater weight begins.
    fn reset_credit(&mut self) {
        self.credit = i64::from(self.full) * (2 * self.share - WHOLE);
    }

    /// p_CL, which may be above 1.
    fn coupled(&self) -> f64 {
        self.params.coupling * self.probability
    }

    /// p'_L at a delay.
    fn native(&self, delay: TimeDelta) -> f64 {
        let above = delay.saturating_sub(self.params.step);
        if above.is_zero() {
            0.0
        } else if above >= self.params.ramp {
            1.0
        } else {
            above.as_secs_f64() / self.params.ramp.as_secs_f64()
        }
    }

    fn is_l4s(&self, ecn: Ecn) -> bool {
        match self.params.codepoints {
            L4sCodepoints::L4s => matches!(ecn, Ecn::Ect1 | Ecn::Ce),
            L4sCodepoints::AnyEct => ecn != Ecn::NotEct,
        }
    }

    /// Makes the updates that are due.
    fn catch_up(&mut self, now: Timestamp) {
        if now < self.next_update {
            return;
        }
        let update = self.params.update;
        let due = now.saturating_since(self.next_update).as_nanos() / update.as_nanos() + 1;
        self.next_update += update.saturating_mul(due.saturating_sub(MOST_UPDATES));
        for _ in 0..due.min(MOST_UPDATES) {
            self.update(self.next_update);
            self.next_update += update;
        }
    }

    /// Sets the base probability.
    fn update(&mut self, at: Timestamp) {
        let DualPi2Params { target, alpha, beta, coupling, drop_overload, .. } = self.params;
        let age = |fifo: &Fifo| fifo.head().map_or(TimeDelta::ZERO, |head| at.saturating_since(head.arrived));
        let delay = age(&self.l4s).max(age(&self.classic));
        let seconds = |span: TimeDelta| span.as_secs_f64();
        let (distance, change) =
            (seconds(delay) - seconds(target), seconds(delay) - seconds(self.last_delay));
        let most = if drop_overload { 1.0 } else { 1.0 / coupling };
        self.probability = (self.probability + alpha * distance + beta * change).clamp(0.0, most);
        self.last_delay = delay;
    }

    /// Whether too little waits for the coupled probabilities to apply.
    fn is_short(&self) -> bool {
        self.backlog().1 < 2 * u64::from(self.full)
    }

    /// What becomes of a packet by the coupled probabilities.
    fn decide(&mut self, l4s: bool) -> Fate {
        if self.is_short() {
            return Fate::Pass;
        }
        let (base, coupled) = (self.probability, self.coupled());
        let overload = coupled > 1.0;
        let squared = |stream: &mut Stream| stream.chance(base) && stream.chance(base);
        if !l4s {
            return match squared(&mut self.stream) {
                true if overload => Fate::Drop,
                true => Fate::Mark,
                false => Fate::Pass,
            };
        }
        if overload {
            let drops = self.params.drop_overload && squared(&mut self.stream);
            return if drops { Fate::Drop } else { Fate::Mark };
        }
        if self.stream.chance(coupled) { Fate::Mark } else { Fate::Pass }
    }

    /// Carries out a fate; whether the packet remains. One that cannot be marked is dropped.
    fn applied(fate: Fate, packet: &mut Queued) -> bool {
        match fate {
            Fate::Pass => true,
            Fate::Mark => packet.mark(),
            Fate::Drop => false,
        }
    }

    /// Whether an arriving packet is turned away from the L4S queue.
    fn turns_away(&mut self, now: Timestamp, packet: &Queued) -> bool {
        let delay = match self.l4s.head() {
            _ if self.byte_time > 0.0 => {
                TimeDelta::from_secs_f64(self.l4s.backlog().1 as f64 * self.byte_time)
            }
            Some(head) => now.saturating_since(head.arrived),
            None => TimeDelta::ZERO,
        };
        let native = self.native(delay);
        let Some(protection) = &mut self.protection else { return false };
        protection.turns_away(now, (packet.flow, packet.size), delay, native)
    }

    /// The next packet, whether it is of the L4S queue, and what its leaving does to the credit.
    fn next(&mut self) -> Option<(Queued, bool, i64)> {
        let (l4s, classic) = (!self.l4s.is_empty(), !self.classic.is_empty());
        if l4s && (!classic || self.credit <= 0) {
            let packet = self.l4s.pop()?;
            let cost = if classic { self.share * i64::from(packet.size) } else { 0 };
            return Some((packet, true, cost));
        }
        let Some(packet) = self.classic.pop() else {
            self.reset_credit();
            return None;
        };
        let gain = if l4s { (WHOLE - self.share) * i64::from(packet.size) } else { 0 };
        Some((packet, false, -gain))
    }
}

impl Qdisc for DualPi2 {
    fn enqueue(&mut self, now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        self.catch_up(now);
        if !self.limit.admits(self.backlog(), packet.size) {
            return Verdict::Dropped(DropReason::Overflow);
        }
        let l4s = self.is_l4s(packet.ecn) && !(self.protection.is_some() && self.turns_away(now, &packet));
        let mut verdict = Verdict::Queued;
        if self.params.drop_early {
            let fate = self.decide(l4s);
            if !DualPi2::applied(fate, &mut packet) {
                return Verdict::Dropped(DropReason::Aqm);
            }
            if fate == Fate::Mark {
                verdict = Verdict::Marked;
            }
        }
        if l4s {
            self.l4s.push(packet)
        } else {
            self.classic.push(packet)
        }
        verdict
    }

    fn dequeue(&mut self, now: Timestamp, dropped: &mut Dropped) -> Option<Queued> {
        self.catch_up(now);
        loop {
            let (mut packet, l4s, credit) = self.next()?;
            let fate = if self.params.drop_early { Fate::Pass } else { self.decide(l4s) };
            if !DualPi2::applied(fate, &mut packet) {
                dropped.0.push((packet, DropReason::Aqm));
                continue;
            }
            if l4s && self.l4s.backlog().0 >= self.params.step_packets {
                let native = self.native(now.saturating_since(packet.arrived));
                // The larger one of the two: what p_CL has let pass is marked with what is left of p'_L.
                let coupled = if self.is_short() { 0.0 } else { self.coupled().min(1.0) };
                let rest = if native >= 1.0 { 1.0 } else { (native - coupled) / (1.0 - coupled).max(1e-9) };
                if rest > 0.0 && fate == Fate::Pass && self.stream.chance(rest) {
                    packet.mark();
                }
            }
            self.credit += credit;
            return Some(packet);
        }
    }

    #[inline]
    fn backlog(&self) -> (u32, u64) {
        let ((l4s, l4s_bytes), (classic, classic_bytes)) = (self.l4s.backlog(), self.classic.backlog());
        (l4s + classic, l4s_bytes + classic_bytes)
    }
    fn set_rate(&mut self, rate: Rate) {
        self.byte_time = if rate.as_bps() == 0 { 0.0 } else { 8.0 / rate.as_bps() as f64 };
    }
}

#[cfg(test)]
mod tests;
