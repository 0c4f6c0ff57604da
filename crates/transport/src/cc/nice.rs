//! TCP Nice: Vegas that yields to everybody, for background transfers.
//!
//! Source: A. Venkataramani, R. Kokku, M. Dahlin, "TCP Nice: A Mechanism for Background Transfers" (OSDI 2002), section
//! 2.2 and the constants of section 2.3: an acknowledgement is late when its RTT exceeds
//! minRTT + threshold * (maxRTT - minRTT); when more than `fraction` of a round's packets were late the window halves,
//! down to 1/48 of a segment; otherwise Vegas(1, 3), and Reno after a loss.
//!
//! The default goes beyond the paper in these points ([`NiceParams::paper`] has the paper's rules):
//! * maxRTT is the largest of the rounds' smallest RTTs, not of all samples. An odd segment whose acknowledgement a receiver delays by 40 to 200 ms
//!   would raise it for good, and the threshold with it.
//! * A packet that queued for more than 10 ms is late, however long the queue may become (`most_delay`): a fifth of a
//!   long queue is long, and so is, at the start, a fifth of a long RTT. (With a smaller start value instead, the one
//!   to three packets that a flow keeps in the queue when it is alone make it yield to itself where they are a tenth
//!   of the RTT: 78 % of 10 Mbit/s at 40 ms.)
//! * What a packet and the flow's own packets ahead of it take at the narrowest link does not make it late, up to four packets (`own_packets`), one more
//!   than Vegas's beta. Without it, a flow on a link of 2 Mbit/s or less yields to itself until it starves. The packet itself counts, since minRTT may be
//!   that of a small one. On a slow line, where a segment takes longer than the delay that is late, the delay of an acknowledgement counts too (40 ms at most): the
//!   receiver waits for a second segment, which comes after its timer. Until the time of a segment is known, from a train of at least three, nothing is late.
//! * A connection begins with two segments at most, whatever others may send (`initial_window`): nothing takes back what leaves before the first sample.
//!   After idle time it goes on with as few, since what it knew of the queue is old.
//! * The window grows by 1.5 segments per round trip while the queue is empty, and by less the longer the queue is.
//!   At half of the delay that is late it stays, and beyond that it shrinks (`growth`, `target`). Sixteen flows that
//!   add a segment each until the queue is late overshoot it together and halve together.
//! * The window shrinks to 0.7 of its size once more than 0.4 of its packets are late, where the paper has a half for
//!   both: it reacts earlier, and less.
//! * On a slow line one packet of others is as bad as a long queue elsewhere. There the window shrinks several times at once: as many times as the delay
//!   that is late fits into the delay by others, of which one segment's time counts at most; sixteen times at most. Sixteen flows on a modem would otherwise need
//!   minutes to empty the queue of their first windows, at a round trip of seconds. There, too, slow start ends with the first packet that is delayed by more than one
//!   packet in flight explains. Elsewhere Vegas ends it, after a round, by the packet that was delayed least.
//! * The window is reduced as soon as more than `fraction` of it was late, not at the end of that round. The packets
//!   in flight at that time are not judged.
//! * minRTT and maxRTT are those of the last ten to twenty minutes (the paper speculates about decaying averages), so
//!   that a route that became longer is taken up; LEDBAT's history has ten (RFC 6817, section 4.2). A queue that
//!   others keep up for that long is taken for part of the path.
//!
//! Other departures: the paper's pseudo-code compares with minRTT + threshold * maxRTT, its text with the difference: the text
//! holds here. Late packets are counted in bytes (an acknowledgement of two segments counts twice), against the fraction
//! of the smaller of the window and what the round acknowledged. Below two segments the prototype sends pairs: the
//! connection is asked to by `min_burst`. One RTT sample suffices to judge a round, since a window below one
//! gives no more; a burst is judged when it has been acknowledged, not when the next one is. A loss, or a time-out, halves a window
//! below two segments as any other, and only a round without delay raises it.

use warpline_core::parameter::{Component, Parameters, Words};
use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::rtt_range::Range;
use super::slow_start::SlowStartParams;
use super::train::Train;
use super::vegas::{VegasEstimate, VegasParams, VegasRule};
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// Whose TCP Nice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum NiceVariant {
    /// The paper's with a better notion of the queue, and quicker: interferes less.
    #[default]
    Revised,
    /// The paper's.
    Paper,
}

/// TCP Nice (Venkataramani, Kokku and Dahlin 2002).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("nice")]
pub struct NiceParams {
    /// Whose rules: the defaults of all that follows.
    #[parameter(preset = NiceParams::of)]
    pub variant: NiceVariant,
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Where between minRTT (0) and maxRTT (1) a packet counts as late.
    #[parameter(default = 0.2, min = 0.0, max = 1.0)]
    pub threshold: f64,
    /// Part of a round's packets that must be late for the window to be reduced.
    #[parameter(default = 0.4, min = 0.0, max = 1.0)]
    pub fraction: f64,
    /// What remains of the window when it is reduced for delay.
    #[parameter(default = 0.7, above = 0.0, below = 1.0)]
    pub decrease: f64,
    /// Smallest window; 1 is the paper's "W >= 1".
    #[parameter(default = 1.0 / 48.0, above = 0.0, unit = "segments", was = "min_window")]
    pub floor: f64,
    /// Segments sent together while the window is below two segments.
    #[parameter(default = 2, min = 1, unit = "segments")]
    pub burst: u32,
    /// Vegas's alpha: segments in the queue below which the window grows.
    #[parameter(default = 1.0, min = 0.0, unit = "segments")]
    pub alpha: f64,
    /// Vegas's beta: segments in the queue above which it shrinks.
    #[parameter(default = 3.0, min = 0.0, not_below = "alpha", unit = "segments")]
    pub beta: f64,
    /// Vegas's gamma: segments in the queue above which slow start ends.
    #[parameter(default = 1.0, min = 0.0, unit = "segments")]
    pub gamma: f64,
    /// Segments by which the window grows in a round trip where the queue is empty.
    #[parameter(default = 1.5, above = 0.0, unit = "segments")]
    pub growth: f64,
    /// Queueing delay at which the window stays as it is, as a part of the delay from which packets are late. With less delay the window grows, the
    /// less the nearer the delay is to this. With more it shrinks, by `growth` at most in a round trip. 0: it grows at any delay.
    #[parameter(default = 0.5, min = 0.0, max = 1.0)]
    pub target: f64,
    /// maxRTT after the first sample, in minRTTs.
    #[parameter(default = 2.0, min = 1.0)]
    pub start: f64,
    /// Delay above minRTT at which a packet is late, whatever the threshold says.
    #[parameter(default = TimeDelta::from_millis(10), above = TimeDelta::ZERO)]
    pub most_delay: TimeDelta,
    /// How many of the flow's own packets, the delayed one among them, are taken off a delay at most before it is judged: each with its time at the
    /// narrowest link.
    #[parameter(default = 4.0, min = 0.0, unit = "packets")]
    pub own_packets: f64,
    /// Largest initial window, and largest window after idle time.
    #[parameter(default = 2.0, above = 0.0, unit = "segments")]
    pub initial_window: f64,
    /// Whether maxRTT is the largest of the rounds' smallest RTTs, which delayed ACKs do not raise, and not of all.
    #[parameter(default = true)]
    pub max_of_rounds: bool,
    /// Whether the window is reduced as soon as enough packets were late, not at the round's end.
    #[parameter(default = true)]
    pub prompt: bool,
    /// How long minRTT and maxRTT are remembered at least; twice that at most. 0s for ever.
    #[parameter(default = TimeDelta::from_secs(600))]
    pub base_window: TimeDelta,
}

impl NiceParams {
    /// How often the window is reduced at once, at most.
    pub const MOST_REDUCTIONS: u32 = 16;
    /// How long a receiver waits for a second segment before it acknowledges the first (Linux, TCP_DELACK_MIN).
    pub const ACK_DELAY: TimeDelta = TimeDelta::from_millis(40);

    /// The defaults of a variant.
    pub fn of(variant: NiceVariant) -> Self {
        match variant {
            NiceVariant::Revised => NiceParams::default(),
            NiceVariant::Paper => NiceParams::paper(),
        }
    }

    /// As the paper has it.
    pub fn paper() -> Self {
        NiceParams {
            variant: NiceVariant::Paper,
            fraction: 0.5,
            decrease: 0.5,
            growth: 1.0,
            target: 0.0,
            most_delay: TimeDelta::MAX,
            own_packets: 0.0,
            max_of_rounds: false,
            prompt: false,
            base_window: TimeDelta::ZERO,
            ..NiceParams::default()
        }
    }
}

/// TCP Nice's congestion control.
#[derive(Clone, Debug)]
pub struct Nice {
    window: Window,
    rule: VegasRule,
    round: Round,
    threshold: f64,
    fraction: f64,
    decrease: f64,
    growth: f64,
    target: f64,
    /// Smallest window in segments and in bytes.
    floor_segments: f64,
    floor: u64,
    /// Largest initial window in segments.
    initial_segments: f64,
    /// minRTT and maxRTT.
    range: Range,
    /// Above this RTT a packet is late, unless its own flow delayed it.
    late_above: TimeDelta,
    most_delay: TimeDelta,
    own_packets: f64,
    /// What a segment takes at the narrowest link.
    train: Train,
    /// Bytes of this round that were late, and all of its bytes.
    late: u64,
    seen: u64,
    /// Off in recovery and after a time-out, when Reno's rules hold.
    enabled: bool,
    burst: u32,
    prompt: bool,
    /// The packets of this round left before the window was reduced.
    before_halving: bool,
}

/// A window of so many segments in bytes.
fn window_bytes(segments: f64, mss: u64) -> u64 {
    within((segments * mss as f64).ceil(), 1.0, MAX_WINDOW as f64) as u64
}

impl BuiltIn for Nice {
    type Params = NiceParams;

    fn new(params: &NiceParams, config: &CcConfig) -> Self {
        let vegas = VegasParams {
            alpha: params.alpha,
            beta: params.beta,
            gamma: params.gamma,
            min_samples: 1,
            estimate: VegasEstimate::Exact,
            ..VegasParams::default()
        };
        let mut window = Window::new(config, &params.slow_start);
        let floor = window_bytes(params.floor, window.mss);
        window.ssthresh = window.ssthresh.max(floor);
        let mut nice = Nice {
            window,
            rule: VegasRule::new(&vegas),
            round: Round::default(),
            threshold: within(params.threshold, 0.0, 1e6),
            fraction: within(params.fraction, 0.0, 1.0),
            decrease: within(params.decrease, 0.0, 1.0),
            growth: within(params.growth, 0.0, 1000.0),
            target: within(params.target, 0.0, 1.0),
            floor_segments: params.floor,
            floor,
            initial_segments: params.initial_window,
            range: Range::new(params.base_window, params.start, params.max_of_rounds),
            late_above: TimeDelta::MAX,
            most_delay: params.most_delay,
            own_packets: within(params.own_packets, 0.0, 1e6),
            train: Train::default(),
            late: 0,
            seen: 0,
            enabled: true,
            burst: params.burst.max(1),
            prompt: params.prompt,
            before_halving: false,
        };
        nice.window.cwnd = nice.initial_window();
        nice
    }
}

/// Bytes of the flow that were delivered from when the newest segment that `ack` acknowledges left until it was acknowledged: those in flight, but for lost ones.
fn flight(ack: &AckSample) -> u64 {
    ack.delivered.saturating_sub(ack.prior_delivered)
}

impl Nice {
    /// The window with which it begins, and with which it goes on after idle time if it was larger.
    fn initial_window(&self) -> u64 {
        let own = window_bytes(self.initial_segments, self.window.mss);
        self.window.initial().min(own).max(self.floor)
    }

    /// Takes an acknowledgement into the interference detector.
    #[inline]
    fn detect(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        self.rule.take_sample(ack);
        if self.range.take_sample(ack.now, rtt) {
            self.set_threshold();
        }
        self.train.take_sample(ack);
        self.seen = self.seen.saturating_add(ack.acked);
        if self.is_late(rtt, flight(ack)) {
            self.late = self.late.saturating_add(ack.acked);
        }
        if self.window.in_slow_start() && self.is_slow() && rtt > self.base() + self.own_delay(1.0) {
            self.window.ssthresh = self.window.cwnd;
        }
    }

    /// Whether others delayed a packet of which the flow had so many bytes in flight, its own included.
    #[inline]
    fn is_late(&self, rtt: TimeDelta, in_flight: u64) -> bool {
        rtt > self.late_above
            && rtt > self.base() + self.own_delay((in_flight as f64 / self.mss()).min(self.own_packets))
    }

    /// minRTT.
    fn base(&self) -> TimeDelta {
        self.range.get().0
    }

    fn mss(&self) -> f64 {
        self.window.mss as f64
    }

    /// What so many full packets take at the narrowest link, if that is known.
    fn time_of(&self, packets: f64) -> TimeDelta {
        self.train.segment_time().map_or(TimeDelta::ZERO, |each| each.mul_f64(packets))
    }

    /// The delay that so many packets of the flow explain.
    fn own_delay(&self, packets: f64) -> TimeDelta {
        let timer =
            if self.is_slow() { self.time_of(1.0).min(NiceParams::ACK_DELAY) } else { TimeDelta::ZERO };
        self.time_of(packets) + timer
    }

    /// Whether a full packet takes longer at the narrowest link than the delay that is late.
    fn is_slow(&self) -> bool {
        self.own_packets > 0.0 && self.time_of(1.0) > self.late_delay()
    }

    /// The delay above minRTT that is late.
    fn late_delay(&self) -> TimeDelta {
        self.late_above.saturating_sub(self.base())
    }

    /// How many times to reduce the window for a round that ended with this sample: as many times as the delay that is late fits into the delay by others, of
    /// which one segment's time counts at most; once at least.
    fn reductions(&self, ack: &AckSample) -> u32 {
        let (true, Some(rtt)) = (self.own_packets > 0.0, ack.rtt) else { return 1 };
        let own = self.base() + self.own_delay(flight(ack) as f64 / self.mss());
        let by_others = rtt.min(self.rule.round_rtt()).saturating_sub(own);
        let times =
            by_others.min(self.time_of(1.0)).as_secs_f64() / self.late_delay().as_secs_f64().max(1e-9);
        (times as u32).clamp(1, NiceParams::MOST_REDUCTIONS)
    }

    /// The range of the RTTs has changed.
    #[cold]
    fn set_threshold(&mut self) {
        let (base, max) = self.range.get();
        self.rule.set_base_rtt(base);
        let delay = max.saturating_sub(base).mul_f64(self.threshold).min(self.most_delay);
        let unknown = self.own_packets > 0.0 && self.train.segment_time().is_none();
        self.late_above = if unknown { TimeDelta::MAX } else { base + delay };
    }

    /// Whether the round that ends was delayed by others' packets, or our own.
    fn congested(&self) -> bool {
        self.late as f64 > self.fraction * self.window.cwnd.min(self.seen) as f64
    }

    /// Judges the round that ends, and begins the next.
    fn end_round(&mut self, ack: &AckSample) {
        let shorter = self.train.end_round(self.window.mss);
        if self.range.end_round(self.rule.round_rtt()) || shorter {
            self.set_threshold();
        }
        if std::mem::take(&mut self.before_halving) {
            self.rule.begin_round();
        } else if self.congested() {
            self.reduce(ack);
        } else {
            // Linear decrease stops at one segment: only the detector leads below.
            let floor = self.window.mss.max(self.floor);
            let growth = if ack.cwnd_limited { self.growth_of_round() } else { 0 };
            self.rule.end_round(&mut self.window, floor, growth);
        }
        self.forget_round();
    }

    /// By how much the window changes after a round without congestion, in bytes, where Vegas would have it grow.
    fn growth_of_round(&self) -> i64 {
        let mss = self.mss();
        if self.target == 0.0 {
            return (self.growth * mss) as i64;
        }
        if self.window.cwnd < self.window.mss {
            // Little of the queue is its own.
            return mss as i64;
        }
        // Not by what is in flight: a flow alone with one or two packets would never grow.
        let late = self.late_delay().max(self.time_of(self.own_packets)).as_secs_f64();
        let queue = self.rule.round_rtt().saturating_sub(self.base()).as_secs_f64();
        (self.growth * (1.0 - queue / (self.target * late)).max(-1.0) * mss) as i64
    }

    fn reduce(&mut self, ack: &AckSample) {
        let left = (0..self.reductions(ack)).fold(1.0, |left, _| left * self.decrease);
        self.window.cwnd = self.shrunk(left);
        self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd);
        self.rule.begin_round();
    }

    /// Whether so many packets of the present round were late that nothing can undo it.
    #[inline]
    fn is_lost_round(&self) -> bool {
        self.late as f64 > self.fraction * self.window.cwnd as f64
    }

    /// Whether the window is sent in bursts, each of which is a round.
    #[inline]
    fn is_small(&self) -> bool {
        self.window.cwnd < u64::from(self.burst) * self.window.mss
    }

    fn forget_round(&mut self) {
        self.train.forget_round();
        self.late = 0;
        self.seen = 0;
    }

    fn shrunk(&self, factor: f64) -> u64 {
        ((self.window.cwnd as f64 * factor) as u64).max(self.floor).min(self.window.cwnd)
    }
}

impl CongestionControl for Nice {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        // The acknowledgement that ends a round was sent in the next one: the round is judged before it counts.
        let ends = self.round.ends(ack);
        let normal = matches!(ack.phase, Phase::Open | Phase::Disorder);
        let counted = self.window.counted(ack);
        if !normal || !self.enabled {
            // No samples meanwhile: in recovery they are often those of echoed timestamps, in whole milliseconds, and a minRTT that is short
            // by one would have the window too small for ten minutes.
            if normal && ends {
                self.enabled = true;
                self.before_halving = false;
                self.rule.begin_round();
                self.forget_round();
            } else if !normal {
                self.enabled = false;
            }
            if counted > 0 {
                let rest = self.window.slow_start(ack, counted);
                // Below two segments nothing but a round without delay raises the window: where many flows keep the queue full
                // by their losses alone, none of them would ever see how short it can be.
                if !self.is_small() {
                    self.window.additive_increase(rest);
                }
            }
            return;
        }
        if ends {
            self.end_round(ack);
        }
        self.detect(ack);
        if self.prompt && !self.before_halving && !self.is_small() && self.is_lost_round() {
            self.reduce(ack);
            self.forget_round();
            // What is in flight was sent before: it is a round of its own, which is not judged.
            self.before_halving = true;
            self.round.restart(ack);
            return;
        }
        if ack.in_flight == 0 && self.seen > 0 && self.is_small() {
            // A burst is a round. Its end is known now, not with the next burst, which may be 96 round trips away.
            self.end_round(ack);
        }
        if counted > 0 && self.window.in_slow_start() {
            self.window.slow_start(ack, counted);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.shrunk(0.5));
        self.enabled = false;
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let half = self.shrunk(0.5);
        self.window.collapse(half);
        self.window.cwnd = self.window.cwnd.min(half).max(self.floor);
        self.enabled = false;
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        let before = self.window.cwnd;
        self.window.restart(idle, rto);
        if idle >= rto {
            // At once, as RFC 5681 section 4.1 has it, and not by halves.
            self.window.cwnd = before.min(self.initial_window());
        }
        self.rule.begin_round();
        self.forget_round();
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn min_burst(&self) -> u32 {
        self.burst
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
        self.floor = window_bytes(self.floor_segments, self.window.mss);
        self.window.cwnd = self.window.cwnd.max(self.floor);
    }
    fn name(&self) -> &'static str {
        NiceParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Feeder, MSS, config, event};
    use super::*;

    fn avoiding(params: &NiceParams) -> (Nice, Feeder) {
        let mut cfg = config(16);
        cfg.initial_ssthresh = 16_000;
        let mut nice = Nice::new(params, &cfg);
        let mut feeder = Feeder::default();
        feeder.round(&mut nice, 100);
        (nice, feeder)
    }

    #[test]
    fn a_delayed_round_halves_down_to_a_48th_of_a_segment() {
        // minRTT 100 ms, so maxRTT starts at 200 ms: late is above 120 ms.
        let (mut nice, mut feeder) = avoiding(&NiceParams::paper());
        assert_eq!(nice.late_above, TimeDelta::from_secs_f64(0.12));
        feeder.round(&mut nice, 121);
        nice.window.cwnd = 16_000;
        let mut seen = vec![];
        for _ in 0..11 {
            feeder.round(&mut nice, 121);
            seen.push(nice.cwnd());
        }
        assert_eq!(seen, [8000, 4000, 2000, 1000, 500, 250, 125, 62, 31, 21, 21]);
        // And back: at the next round without delay the window is one segment larger (Vegas).
        feeder.round(&mut nice, 100);
        feeder.round(&mut nice, 100);
        assert_eq!(nice.cwnd(), 1021);
    }

    #[test]
    fn half_late_is_not_too_many() {
        let (mut nice, mut feeder) = avoiding(&NiceParams::paper());
        feeder.round(&mut nice, 100);
        nice.window.cwnd = 16_000;
        // Eight of sixteen late: not more than half, so Vegas's segment is added; nine are.
        feeder.mixed_round(&mut nice, &[(8, 150), (8, 100)]);
        let before = nice.cwnd();
        feeder.mixed_round(&mut nice, &[(1, 100)]);
        assert_eq!(nice.cwnd(), before + 1000);
        nice.window.cwnd = 16_000;
        feeder.mixed_round(&mut nice, &[(9, 150), (7, 100)]);
        let before = nice.cwnd();
        feeder.mixed_round(&mut nice, &[(1, 100)]);
        assert_eq!(nice.cwnd(), before / 2);
    }

    #[test]
    fn the_largest_rtt_moves_the_threshold() {
        let (mut nice, mut feeder) = avoiding(&NiceParams::paper());
        feeder.round(&mut nice, 600);
        // 100 + 0.2 * 500.
        assert_eq!(nice.late_above, TimeDelta::from_millis(200));
    }

    #[test]
    fn the_variant_that_never_goes_below_one() {
        let (mut nice, mut feeder) = avoiding(&NiceParams { floor: 1.0, ..NiceParams::paper() });
        for _ in 0..12 {
            feeder.round(&mut nice, 150);
        }
        assert_eq!(nice.cwnd(), 1000);
        nice.on_rto(&event(1, 0));
        assert_eq!(nice.cwnd(), 1000);
    }

    #[test]
    fn a_window_below_two_is_sent_in_pairs() {
        assert_eq!(avoiding(&NiceParams::paper()).0.min_burst(), 2);
        assert_eq!(avoiding(&NiceParams { burst: 0, ..NiceParams::paper() }).0.min_burst(), 1);
    }

    #[test]
    fn a_loss_halves_and_never_raises() {
        let (mut nice, _) = avoiding(&NiceParams::paper());
        nice.window.cwnd = 16_000;
        nice.on_congestion_event(&event(1, 0));
        assert_eq!((nice.cwnd(), nice.ssthresh()), (8000, 8000));
        nice.undo(Timestamp::from_millis(2));
        assert_eq!(nice.cwnd(), 16_000);
        nice.window.cwnd = 300;
        nice.on_congestion_event(&event(3, 0));
        assert_eq!(nice.cwnd(), 150);
        nice.on_rto(&event(4, 0));
        assert_eq!(nice.cwnd(), 75);
    }

    #[test]
    fn after_idle_time_it_goes_on_with_its_own_initial_window_and_not_tcps() {
        let rto = TimeDelta::from_millis(300);
        // TCP begins with 16 segments here, and Nice with two, or with its smallest window.
        for (floor, initial) in [(1.0 / 48.0, 2_000), (20.0, 20_000)] {
            let mut nice = Nice::new(&NiceParams { floor, ..NiceParams::default() }, &config(16));
            assert_eq!(nice.cwnd(), initial);
            nice.window.set(80_000, 20_000);
            nice.on_idle(Timestamp::from_secs(9), TimeDelta::from_millis(299), rto);
            assert_eq!((nice.cwnd(), nice.ssthresh()), (80_000, 20_000), "no time-out has passed");
            nice.on_idle(Timestamp::from_secs(10), rto, rto);
            // The threshold remembers the window, as in RFC 2861.
            assert_eq!((nice.cwnd(), nice.ssthresh()), (initial, 60_000));
        }
        let mut nice = Nice::new(&NiceParams::default(), &config(16));
        nice.window.cwnd = 500;
        nice.on_idle(Timestamp::from_secs(10), TimeDelta::from_secs(3600), rto);
        assert_eq!(nice.cwnd(), 500, "idle time raises no window");
    }

    #[test]
    fn the_largest_rtt_is_that_of_a_round_and_a_long_queue_is_late_in_any_case() {
        // 100 + 0.2 * 100 at the start, but for `most_delay`.
        let plain = NiceParams {
            own_packets: 0.0,
            most_delay: TimeDelta::from_micros(12_500),
            ..NiceParams::default()
        };
        let (nice, _) = avoiding(&plain);
        assert_eq!(nice.late_above, TimeDelta::from_micros(112_500));
        let params = NiceParams { start: 1.5, ..plain };
        let (mut nice, mut feeder) = avoiding(&params);
        assert_eq!(nice.late_above, TimeDelta::from_millis(110));
        // One acknowledgement that the receiver delayed, of a round that was quick otherwise, says nothing of the queue.
        feeder.mixed_round(&mut nice, &[(15, 100), (1, 300)]);
        feeder.round(&mut nice, 100);
        assert_eq!(nice.late_above, TimeDelta::from_millis(110));
        // A round all of which took 160 ms does: 100 + 0.2 * 60. And one of 600 ms would allow 100 ms.
        nice.window.cwnd = 16_000;
        feeder.round(&mut nice, 160);
        feeder.round(&mut nice, 100);
        assert_eq!(nice.late_above, TimeDelta::from_millis(112));
        feeder.round(&mut nice, 600);
        feeder.round(&mut nice, 600);
        assert_eq!(nice.late_above, TimeDelta::from_micros(112_500));
    }

    #[test]
    fn it_halves_as_soon_as_enough_packets_were_late_and_once_per_round_trip() {
        let (mut nice, mut feeder) = avoiding(&NiceParams { prompt: true, ..NiceParams::paper() });
        feeder.round(&mut nice, 100);
        // The first of these ends the round before, which was quick: a segment more.
        nice.window.cwnd = 15_000;
        let begin = feeder.mark();
        feeder.mixed_round_since(&mut nice, &[(8, 150)], begin);
        assert_eq!(nice.cwnd(), 16_000);
        feeder.mixed_round_since(&mut nice, &[(1, 150)], begin);
        assert_eq!(nice.cwnd(), 8000);
        // The seven others of that window were under way already.
        feeder.mixed_round_since(&mut nice, &[(7, 150)], begin);
        let begin = begin + 9 * 1000;
        assert_eq!(nice.cwnd(), 8000);
        // Those sent since count: five of eight.
        feeder.mixed_round_since(&mut nice, &[(4, 150)], begin);
        assert_eq!(nice.cwnd(), 8000);
        feeder.mixed_round_since(&mut nice, &[(1, 150)], begin);
        assert_eq!(nice.cwnd(), 4000);
    }

    #[test]
    fn the_longer_the_queue_the_less_it_grows_and_beyond_half_of_what_is_late_it_shrinks() {
        // Late above 110 ms: the window stays at 105.
        let params = NiceParams { own_packets: 0.0, ..NiceParams::default() };
        for (rtt, growth) in [(100, 1500), (102, 900), (104, 300), (105, 0), (107, -600), (109, -1200)] {
            let (mut nice, mut feeder) = avoiding(&params);
            feeder.round(&mut nice, 100);
            (nice.window.cwnd, nice.window.ssthresh) = (8_000, 8_000);
            feeder.round(&mut nice, rtt);
            // The first acknowledgement of the next round ends it; Vegas's alpha of one segment is not reached.
            nice.window.cwnd = 8_000;
            let before = nice.cwnd();
            feeder.mixed_round(&mut nice, &[(1, 100)]);
            assert!(
                (nice.cwnd() as i64 - before as i64 - growth).abs() <= 1,
                "{rtt} ms: {before} to {}",
                nice.cwnd()
            );
        }
        // A window below one segment grows by one, whoever fills the queue, and no window shrinks below one segment for it.
        let (mut nice, mut feeder) = avoiding(&params);
        (nice.window.cwnd, nice.window.ssthresh) = (500, 500);
        feeder.round(&mut nice, 104);
        nice.window.cwnd = 500;
        feeder.round(&mut nice, 109);
        assert_eq!(nice.cwnd(), 1500);
        nice.window.ssthresh = 500;
        feeder.round(&mut nice, 109);
        assert_eq!(nice.cwnd(), 1000);
    }

    #[test]
    fn what_its_own_packets_take_at_the_narrowest_link_does_not_make_a_packet_late() {
        let mut nice = Nice::new(&NiceParams::default(), &config(16));
        let mut feeder = Feeder::default();
        // The RTT in milliseconds above which a packet is late that had left with so many in flight.
        let late_above = |nice: &Nice, in_flight: u64| {
            (0..10_000).take_while(|&rtt| !nice.is_late(TimeDelta::from_millis(rtt), in_flight * MSS)).last()
        };
        // The acknowledgement of a SYN, which ends a round; then a train of three, 20 ms apart. Nothing is late before it is known.
        feeder.mixed_round(&mut nice, &[(1, 40)]);
        feeder.mixed_round(&mut nice, &[(3, 60)]);
        assert_eq!(late_above(&nice, 1), Some(9_999));
        // 20 ms for each, above the SYN's 40, up to four, and 20 for the receiver's timer; and a longer train, in which others' packets were, says nothing.
        for millis in [120, 60] {
            feeder.mixed_round(&mut nice, &[(3, millis)]);
            let late = [1, 2, 3, 4, 5, 50].map(|in_flight| late_above(&nice, in_flight));
            assert_eq!(late, [80, 100, 120, 140, 140, 140].map(Some));
        }
        // A shorter one does: 16 in 64 ms. Less than `threshold` of the smallest RTT is not late either, and this line is not slow.
        feeder.mixed_round(&mut nice, &[(16, 64)]);
        feeder.mixed_round(&mut nice, &[(1, 64)]);
        assert_eq!(
            [1, 2, 3, 4, 5].map(|in_flight| late_above(&nice, in_flight)),
            [50, 50, 52, 56, 56].map(Some)
        );
    }

    #[test]
    fn on_a_slow_line_slow_start_ends_with_a_packet_that_waits_for_more_than_one_of_its_own() {
        // A packet takes 20 ms, and the receiver's timer counts 20: from 60 ms on, up to 100.
        for (rtt, ends) in [(100, false), (101, true)] {
            let mut nice = Nice::new(&NiceParams::default(), &config(16));
            let mut feeder = Feeder::default();
            feeder.mixed_round(&mut nice, &[(3, 60)]);
            feeder.mixed_round(&mut nice, &[(1, 60)]);
            let begin = feeder.mark();
            nice.window.ssthresh = MAX_WINDOW;
            feeder.mixed_round_since(&mut nice, &[(1, rtt)], begin);
            assert_eq!(nice.window.ssthresh < MAX_WINDOW, ends, "{rtt} ms");
        }
    }

    #[test]
    fn on_a_slow_line_it_is_reduced_as_many_times_as_the_delay_that_is_late_fits_into_that_by_others() {
        // A packet takes 20 or 300 ms, and what is late is 10. minRTT is 60 or 900 ms, a packet alone may take its own time above that, and the receiver's
        // timer counts 20 or 40.
        for (train, rtt, times) in [
            (60, 101, 1),
            (60, 110, 1),
            (60, 121, 2),
            (60, 1000, 2),
            (900, 1271, 3),
            (900, 1391, 15),
            (900, 3000, 16),
        ] {
            let mut nice = Nice::new(&NiceParams::default(), &config(16));
            let mut feeder = Feeder::default();
            feeder.mixed_round(&mut nice, &[(3, train)]);
            feeder.mixed_round(&mut nice, &[(1, rtt)]);
            (nice.window.cwnd, nice.window.ssthresh) = (1_000_000, 1_000_000);
            nice.late = 1_000_000;
            // The next acknowledgement ends the round, and its delay counts.
            feeder.mixed_round(&mut nice, &[(1, rtt)]);
            let left = (0..times).fold(1e6, |left, _| left * 0.7);
            assert!(nice.cwnd().abs_diff(left as u64) <= 1, "{rtt} ms: {}", nice.cwnd());
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_longer_route_is_taken_up_after_twenty_minutes_and_never_by_the_papers() {
        for (params, then) in [(NiceParams::default(), true), (NiceParams::paper(), false)] {
            let (mut nice, mut feeder) = avoiding(&params);
            feeder.round(&mut nice, 100);
            for _ in 0..5000 {
                feeder.round(&mut nice, 300);
            }
            assert_eq!(nice.range.get().0 == TimeDelta::from_millis(300), then);
            assert_eq!(nice.cwnd() > 1000, then, "{}", nice.cwnd());
        }
    }
}
