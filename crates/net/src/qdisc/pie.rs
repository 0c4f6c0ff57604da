//! PIE: drops arriving packets with a probability that a proportional integral controller sets, so that the delay comes to a target.
//!
//! Source: RFC 8033 (section numbers below are its), with its constants; Linux's `sch_pie` has the same parameters.
//!
//! * Every `update` the probability moves by alpha times the distance of the delay from its target and beta times its change (4.2), the less
//!   the smaller it is (the scaling of 4.2), by 2 % at most once it is 10 % or more (5.5), and decays where the queue is empty.
//! * Nothing is dropped in the first `max_burst` of congestion (4.4), while the delay is below half of the target and the probability below a
//!   fifth, or where fewer than two full packets wait (4.1).
//! * Drops are spaced: not before the probabilities since the last one come to 0.85, and certainly when they come to 8.5 (5.4).
//! * ECN-capable packets are marked while the probability is low (5.1).
//!
//! Departures: the updates that are due are made when a packet comes or leaves, as nothing changes between. As in Linux (`sch_pie.c`), PIE is always
//! active, and not only while a third of the buffer is in use (5.3); two full packets are enough for a drop, where the RFC wants more (4.1); the delay
//! that prevents drops is the present one, and not that of the last update (4.1); and a packet that leaves the queue empty counts as not delayed.

use warpline_core::parameter::{Parameters, Words};
use warpline_core::record::DropReason;
use warpline_core::{Stream, TimeDelta, Timestamp};

use super::fifo::{Fifo, Limit};
use super::{BuiltIn, Dropped, Qdisc, QueueLimit, Queued, Sizing, Verdict};

/// Bytes that a measurement of the departure rate takes (DQ_THRESHOLD), and the weight of the newest (5.2).
const RATE_BYTES: u64 = 1 << 14;
const RATE_WEIGHT: f64 = 0.25;
/// Updates that are made up for at once: by then the probability of an empty queue has decayed to nothing.
const MOST_UPDATES: u64 = 2000;

/// How the delay of the queue is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum PieDelay {
    /// By how long the packet that left last had waited: not at all if it left the queue empty.
    #[default]
    Timestamps,
    /// By the bytes that wait and the rate at which bytes leave (RFC 8033 section 5.2).
    DepartureRate,
}

/// Proportional integral controller enhanced (RFC 8033).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("pie")]
pub struct PieParams {
    /// How much may wait.
    #[parameter(default = QueueLimit::Packets(1000), above = QueueLimit::Packets(0))]
    pub limit: QueueLimit,
    /// Delay that the queue is kept at (QDELAY_REF).
    #[parameter(default = TimeDelta::from_millis(15), above = TimeDelta::ZERO)]
    pub target: TimeDelta,
    /// How often the drop probability is computed (T_UPDATE).
    #[parameter(default = TimeDelta::from_millis(15), min = TimeDelta::from_micros(10))]
    pub update: TimeDelta,
    /// How long a burst passes without drops (MAX_BURST).
    #[parameter(default = TimeDelta::from_millis(150))]
    pub max_burst: TimeDelta,
    /// Weight of the delay's distance from its target, in drop probability per second.
    #[parameter(default = 0.125, min = 0.0)]
    pub alpha: f64,
    /// Weight of the delay's change from update to update, in drop probability per second.
    #[parameter(default = 1.25, min = 0.0)]
    pub beta: f64,
    /// How the delay is known.
    pub delay: PieDelay,
    /// Whether drops are spaced, and not each drawn by itself.
    #[parameter(default = true)]
    pub derandomize: bool,
    /// Whether ECN-capable packets are marked instead of dropped, while the probability is not above `mark_up_to`.
    pub ecn: bool,
    /// Drop probability up to which packets are marked.
    #[parameter(default = 0.1, share)]
    pub mark_up_to: f64,
}

/// A measurement of the departure rate.
#[derive(Clone, Copy, Debug)]
struct Departures {
    since: Timestamp,
    bytes: u64,
}

/// What the control of one queue goes by: the parameters, on a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieLaw {
    params: PieParams,
    /// Nothing is dropped early while fewer bytes wait.
    spared: u64,
}

impl PieLaw {
    pub(crate) fn new(params: &PieParams, sizing: &Sizing) -> Self {
        let update = params.update.max(TimeDelta::from_nanos(1));
        PieLaw { params: PieParams { update, ..*params }, spared: 2 * u64::from(sizing.packet) }
    }
}

/// The control of one queue: its state, without the queue, whose bytes the caller gives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieControl {
    probability: f64,
    /// Sum of the probabilities since the last drop.
    accumulated: f64,
    /// The delay at the last update, and how long the packet that left last had waited.
    last_delay: TimeDelta,
    sojourn: TimeDelta,
    burst_left: TimeDelta,
    next_update: Timestamp,
    measured: Option<Departures>,
    /// Seconds that [`RATE_BYTES`] take to leave; zero before the first measurement.
    departure_time: f64,
}

impl PieControl {
    pub(crate) fn new(law: &PieLaw) -> Self {
        PieControl {
            probability: 0.0,
            accumulated: 0.0,
            last_delay: TimeDelta::ZERO,
            sojourn: TimeDelta::ZERO,
            burst_left: law.params.max_burst,
            next_update: Timestamp::ZERO + law.params.update,
            measured: None,
            departure_time: 0.0,
        }
    }

    /// The delay of the queue as it is known.
    fn delay(&self, law: &PieLaw, bytes: u64) -> TimeDelta {
        match law.params.delay {
            _ if bytes == 0 => TimeDelta::ZERO,
            PieDelay::Timestamps => self.sojourn,
            PieDelay::DepartureRate => {
                TimeDelta::from_secs_f64(bytes as f64 * self.departure_time / RATE_BYTES as f64)
            }
        }
    }

    /// Makes the updates that are due, before a packet comes or leaves.
    pub(crate) fn catch_up(&mut self, law: &PieLaw, now: Timestamp, bytes: u64) {
        if now < self.next_update {
            return;
        }
        let update = law.params.update;
        let due = now.saturating_since(self.next_update).as_nanos() / update.as_nanos() + 1;
        for _ in 0..due.min(MOST_UPDATES) {
            self.update(law, bytes);
        }
        self.next_update += update.saturating_mul(due);
    }

    /// Sets the drop probability (4.2) and the allowance for bursts (4.4).
    fn update(&mut self, law: &PieLaw, bytes: u64) {
        let PieParams { target, update, max_burst, alpha, beta, .. } = law.params;
        let (delay, last) = (self.delay(law, bytes), self.last_delay);
        let seconds = |span: TimeDelta| span.as_secs_f64();
        let mut step = alpha * (seconds(delay) - seconds(target)) + beta * (seconds(delay) - seconds(last));
        step /= divisor(self.probability);
        if self.probability >= 0.1 {
            step = step.min(0.02);
        }
        self.probability += step;
        if delay.is_zero() && last.is_zero() {
            self.probability *= 0.98;
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        self.last_delay = delay;
        self.burst_left = self.burst_left.saturating_sub(update);
        if self.probability == 0.0 && delay < target / 2 && last < target / 2 {
            self.burst_left = max_burst;
        }
    }

    /// Whether the arriving packet is to be dropped or marked (4.1, 5.4).
    fn is_chosen(&mut self, law: &PieLaw, bytes: u64, stream: &mut Stream) -> bool {
        let quiet = self.delay(law, bytes) < law.params.target / 2 && self.probability < 0.2;
        if !self.burst_left.is_zero() || quiet || bytes < law.spared {
            return false;
        }
        if law.params.derandomize {
            self.accumulated =
                if self.probability == 0.0 { 0.0 } else { self.accumulated + self.probability };
            if self.accumulated < 0.85 {
                return false;
            }
        }
        let chosen = law.params.derandomize && self.accumulated >= 8.5 || stream.chance(self.probability);
        if chosen {
            self.accumulated = 0.0;
        }
        chosen
    }

    /// What becomes of an arriving packet for which there is room.
    pub(crate) fn admit(
        &mut self,
        law: &PieLaw,
        bytes: u64,
        stream: &mut Stream,
        packet: &mut Queued,
    ) -> Verdict {
        if !self.is_chosen(law, bytes, stream) {
            return Verdict::Queued;
        }
        let may_mark = law.params.ecn && self.probability <= law.params.mark_up_to;
        if may_mark && packet.mark() { Verdict::Marked } else { Verdict::Dropped(DropReason::Aqm) }
    }

    /// There was no room for a packet: the next drop is spaced from here.
    pub(crate) fn overflowed(&mut self) {
        self.accumulated = 0.0;
    }

    /// A packet has left, and so many bytes are left.
    pub(crate) fn left(&mut self, law: &PieLaw, now: Timestamp, packet: &Queued, bytes: u64) {
        self.sojourn = if bytes == 0 { TimeDelta::ZERO } else { now.saturating_since(packet.arrived) };
        if law.params.delay == PieDelay::DepartureRate {
            self.measure(now, packet.size, bytes);
        }
    }

    /// Measures the rate at which bytes leave (5.2).
    fn measure(&mut self, now: Timestamp, size: u32, left: u64) {
        if let Some(Departures { since, bytes }) = &mut self.measured {
            *bytes += u64::from(size);
            if *bytes >= RATE_BYTES {
                let time = now.saturating_since(*since).as_secs_f64() * RATE_BYTES as f64 / *bytes as f64;
                let first = self.departure_time == 0.0;
                self.departure_time += (time - self.departure_time) * if first { 1.0 } else { RATE_WEIGHT };
                self.measured = None;
            }
        }
        if self.measured.is_none() && left >= RATE_BYTES {
            self.measured = Some(Departures { since: now, bytes: 0 });
        }
    }
}

/// A PIE queue.
#[derive(Debug)]
pub struct Pie {
    fifo: Fifo,
    limit: Limit,
    law: PieLaw,
    control: PieControl,
    stream: Stream,
}

impl BuiltIn for Pie {
    type Params = PieParams;

    /// Its drops come from `stream`.
    fn new(params: &PieParams, sizing: &Sizing, stream: Stream) -> Self {
        let law = PieLaw::new(params, sizing);
        let (limit, control) = (params.limit.resolve(sizing), PieControl::new(&law));
        Pie { fifo: Fifo::default(), limit, law, control, stream }
    }
}

/// By how much smaller a step is where the probability is small (4.2).
fn divisor(probability: f64) -> f64 {
    const SCALE: [(f64, f64); 6] =
        [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    SCALE.into_iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, divisor)| divisor)
}

impl Qdisc for Pie {
    fn enqueue(&mut self, now: Timestamp, mut packet: Queued, _dropped: &mut Dropped) -> Verdict {
        let bytes = self.fifo.backlog().1;
        self.control.catch_up(&self.law, now, bytes);
        if !self.limit.admits(self.fifo.backlog(), packet.size) {
            self.control.overflowed();
            return Verdict::Dropped(DropReason::Overflow);
        }
        let verdict = self.control.admit(&self.law, bytes, &mut self.stream, &mut packet);
        if !matches!(verdict, Verdict::Dropped(_)) {
            self.fifo.push(packet);
        }
        verdict
    }
    fn dequeue(&mut self, now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.control.catch_up(&self.law, now, self.fifo.backlog().1);
        let packet = self.fifo.pop()?;
        self.control.left(&self.law, now, &packet, self.fifo.backlog().1);
        Some(packet)
    }
    #[inline]
    fn backlog(&self) -> (u32, u64) {
        self.fifo.backlog()
    }
}

#[cfg(test)]
impl PieControl {
    pub(crate) fn probability(&self) -> f64 {
        self.probability
    }
    pub(crate) fn accumulated(&mut self) -> &mut f64 {
        &mut self.accumulated
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::packet;
    use super::*;
    use warpline_core::{Ecn, Streams};

    fn pie(params: PieParams) -> Pie {
        Pie::new(&params, &Sizing::default(), Streams::new(1).stream("pie"))
    }

    /// What a queue did under a constant load.
    #[derive(Debug, Default)]
    struct Outcome {
        dropped: f64,
        marked: f64,
        /// Mean delay in milliseconds, and the longest.
        delay: f64,
    }

    /// Packets of 1000 bytes leave every millisecond and come `load` times as often, for `secs`; the second half counts.
    fn loaded(params: PieParams, load: f64, ecn: Ecn, secs: u64) -> Outcome {
        let (mut queue, mut none) = (pie(params), Dropped::default());
        let (mut came, mut sent, mut outcome) = (0u64, 0.0, Outcome::default());
        let gap = TimeDelta::from_secs_f64(0.001 / load);
        for ms in 0..secs * 1000 {
            let now = Timestamp::from_millis(ms);
            while Timestamp::ZERO + gap.saturating_mul(came) <= now {
                let arrived = Timestamp::ZERO + gap.saturating_mul(came);
                came += 1;
                let verdict = queue.enqueue(arrived, Queued { ecn, arrived, ..packet(0, 1000) }, &mut none);
                if ms >= secs * 500 {
                    outcome.dropped += f64::from(u8::from(matches!(verdict, Verdict::Dropped(_))));
                    outcome.marked += f64::from(u8::from(verdict == Verdict::Marked));
                }
            }
            if let Some(packet) = queue.dequeue(now, &mut none)
                && ms >= secs * 500
            {
                sent += 1.0;
                outcome.delay += now.saturating_since(packet.arrived).as_secs_f64() * 1e3;
            }
        }
        outcome.delay /= sent;
        outcome.dropped /= came as f64 / 2.0;
        outcome.marked /= came as f64 / 2.0;
        outcome
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn the_delay_comes_to_its_target_and_what_is_too_much_is_dropped() {
        for delay in [PieDelay::Timestamps, PieDelay::DepartureRate] {
            for target in [15, 40] {
                let params =
                    PieParams { delay, target: TimeDelta::from_millis(target), ..PieParams::default() };
                let outcome = loaded(params, 1.25, Ecn::NotEct, 120);
                assert!((0.15..0.25).contains(&outcome.dropped), "{params:?}: {outcome:?}");
                let ratio = outcome.delay / target as f64;
                assert!((0.6..1.6).contains(&ratio), "{params:?}: {outcome:?}");
            }
        }
    }

    #[test]
    fn an_idle_link_and_a_short_burst_lose_nothing() {
        assert_eq!(loaded(PieParams::default(), 0.9, Ecn::NotEct, 20).dropped, 0.0);
        let (mut queue, mut none) = (pie(PieParams::default()), Dropped::default());
        for ms in 0..140u64 {
            let now = Timestamp::from_millis(ms);
            for _ in 0..4 {
                let arriving = Queued { arrived: now, ..packet(0, 1000) };
                assert_eq!(queue.enqueue(now, arriving, &mut none), Verdict::Queued);
            }
            queue.dequeue(now, &mut none);
        }
        // The allowance is used up, and comes back with an empty queue.
        assert!(queue.control.burst_left < TimeDelta::from_millis(20) && queue.control.probability > 0.0);
        while queue.dequeue(Timestamp::from_millis(200), &mut none).is_some() {}
        queue.control.catch_up(&queue.law, Timestamp::from_secs(60), 0);
        assert_eq!(queue.control.burst_left, TimeDelta::from_millis(150));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn marks_take_the_place_of_drops_while_the_probability_is_low() {
        let offer = |probability: f64, ecn: Ecn| {
            let mut queue = pie(PieParams { ecn: true, ..PieParams::default() });
            for slot in 0..10 {
                queue.fifo.push(packet(slot, 1000));
            }
            // A drop is due for certain.
            (queue.control.probability, queue.control.accumulated) = (probability, 8.5);
            (queue.control.sojourn, queue.control.burst_left) = (TimeDelta::from_millis(15), TimeDelta::ZERO);
            queue.enqueue(Timestamp::ZERO, Queued { ecn, ..packet(10, 1000) }, &mut Dropped::default())
        };
        let dropped = Verdict::Dropped(DropReason::Aqm);
        assert_eq!((offer(0.1, Ecn::Ect0), offer(0.1, Ecn::NotEct)), (Verdict::Marked, dropped));
        assert_eq!(offer(0.11, Ecn::Ect0), dropped);
        // What does not give way to marks is dropped in the end.
        let params = PieParams { ecn: true, ..PieParams::default() };
        let outcome = loaded(params, 1.5, Ecn::Ect0, 120);
        assert!(outcome.dropped > 0.25 && outcome.marked < 0.1, "{outcome:?}");
        assert_eq!(loaded(params, 1.03, Ecn::NotEct, 60).marked, 0.0);
    }

    #[test]
    fn drops_are_spaced() {
        let gaps = |derandomize: bool| {
            let mut queue = pie(PieParams { derandomize, ..PieParams::default() });
            for slot in 0..10 {
                queue.fifo.push(packet(slot, 1000));
            }
            (queue.control.probability, queue.control.sojourn) = (0.05, TimeDelta::from_millis(15));
            queue.control.burst_left = TimeDelta::ZERO;
            let (mut gaps, mut last) = (Vec::new(), 0u32);
            for n in 1..200_000u32 {
                if queue.control.is_chosen(&queue.law, queue.fifo.backlog().1, &mut queue.stream) {
                    gaps.push(n - last);
                    last = n;
                }
            }
            gaps
        };
        // 0.85 and 8.5 of a twentieth each.
        let spaced = gaps(true);
        assert!(spaced.iter().all(|gap| (17..=171).contains(gap)), "{:?}", spaced.iter().max());
        let drawn = gaps(false);
        assert!(drawn.iter().any(|gap| *gap < 17) && drawn.len() > spaced.len());
    }

    #[test]
    fn two_full_packets_are_enough_for_a_drop_unless_the_last_packet_waited_little() {
        let offer = |waiting: u32, sojourn: TimeDelta| {
            let mut queue = pie(PieParams::default());
            for slot in 0..waiting {
                queue.fifo.push(packet(slot, 1500));
            }
            // A drop is due for certain.
            (queue.control.probability, queue.control.accumulated) = (0.1, 8.5);
            (queue.control.sojourn, queue.control.burst_left) = (sojourn, TimeDelta::ZERO);
            queue.enqueue(Timestamp::ZERO, packet(10, 1500), &mut Dropped::default())
        };
        let (long, short) = (TimeDelta::from_millis(15), TimeDelta::from_millis(7));
        assert_eq!(offer(1, long), Verdict::Queued);
        assert_eq!(offer(2, long), Verdict::Dropped(DropReason::Aqm));
        assert_eq!(offer(2, short), Verdict::Queued);
        // What leaves an empty queue was not delayed, however long it waited.
        let mut queue = pie(PieParams::default());
        queue.fifo.push(Queued { arrived: Timestamp::ZERO, ..packet(0, 1500) });
        assert!(queue.dequeue(Timestamp::from_millis(20), &mut Dropped::default()).is_some());
        assert_eq!(queue.control.sojourn, TimeDelta::ZERO);
    }

    #[test]
    fn steps_are_scaled_capped_and_decay() {
        assert_eq!(
            [1e-7, 5e-6, 5e-5, 5e-4, 5e-3, 0.05, 0.5].map(divisor),
            [2048.0, 512.0, 128.0, 32.0, 8.0, 2.0, 1.0]
        );
        let mut queue = pie(PieParams::default());
        queue.fifo.push(packet(0, 1000));
        (queue.control.probability, queue.control.sojourn) = (0.3, TimeDelta::from_secs(1));
        queue.control.update(&queue.law, queue.fifo.backlog().1);
        assert!(
            (queue.control.probability - 0.32).abs() < 1e-12,
            "2 % at most: {}",
            queue.control.probability
        );
        queue.fifo.pop();
        queue.control.update(&queue.law, queue.fifo.backlog().1);
        let after = queue.control.probability;
        queue.control.update(&queue.law, queue.fifo.backlog().1);
        // An empty queue: alpha's part, and a fiftieth less.
        assert!((queue.control.probability - ((after - 0.125 * 0.015).max(0.0) * 0.98)).abs() < 1e-12);
    }
}
