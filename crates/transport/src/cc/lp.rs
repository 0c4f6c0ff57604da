//! TCP-LP: Reno that takes a rise of the one-way delay for congestion, and then holds still for a while.
//!
//! Sources: A. Kuzmanovic, E. Knightly, "TCP-LP: A Distributed Algorithm for Low Priority Data Transfer" (INFOCOM 2003):
//! the smoothed one-way delay is compared with `smallest + 0.15 * (largest - smallest)`; above it the window halves and an
//! inference phase of three round trips begins, in which it does not grow; a second indication within the phase leaves one
//! segment. The first slow start learns the two delays, so indications count once it is over. There is at most one reaction
//! in a round trip, to an indication or to a loss. And Linux net/ipv4/tcp_lp.c, whose departures from the paper
//! [`LpVariant::Linux`] lists.
//!
//! Departures: without timestamps the RTT stands in for the one-way delay; in the paper's variant the threshold of slow start
//! falls with the window, and a segment that was alone in flight indicates nothing, since the receiver may have delayed its
//! acknowledgement: a window of one segment would never grow again (a delay that is shorter than the smoothed one still counts);
//! the kernel's variant has no offset in its delays, see there.

use warpline_core::parameter::{Component, Parameters, Words};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// Whose TCP-LP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum LpVariant {
    /// The paper's: the delays' range is that of the connection, learned in the first slow start; one reaction in a round trip
    /// at most; growth after an indication is congestion avoidance.
    #[default]
    Paper,
    /// The kernel's: every acknowledgement may be an indication, in slow start, too. After one the smoothed delay counts as the
    /// smallest and twice that as the largest, so that the queue that it met becomes part of the path. The threshold of slow
    /// start stays where it was. In the kernel the offset between the timestamps of the two hosts is part of the delay; it may
    /// be weeks, next to which no queue counts as a rise, so that most connections behave like Reno. Here it is zero.
    Linux,
}

/// TCP-LP (Kuzmanovic and Knightly 2003).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("lp")]
pub struct LpParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Part of the way from the smallest to the largest one-way delay at which congestion begins.
    #[parameter(default = 0.15, min = 0.0, max = 1.0)]
    pub threshold: f64,
    /// Weight of a new sample in the smoothed delay.
    #[parameter(default = 0.125, min = 0.0, max = 1.0)]
    pub smoothing: f64,
    /// Length of the phase without growth after an indication of congestion.
    #[parameter(default = 3.0, above = 0.0, unit = "round trips")]
    pub inference: f64,
    /// Whose rules.
    pub variant: LpVariant,
}

/// TCP-LP's congestion control.
#[derive(Clone, Debug)]
pub struct Lp {
    window: Window,
    params: LpParams,
    /// One-way delays in seconds: smoothed, smallest, largest; none before the first sample.
    delay: Option<Delay>,
    /// When the window was last reduced for an indication.
    indicated: Option<Timestamp>,
    /// When the window was last reduced for an indication or a loss.
    reacted: Option<Timestamp>,
    /// Whether the first slow start is over.
    has_learned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Delay {
    smoothed: f64,
    smallest: f64,
    largest: f64,
    /// The newest of the largest, which counts once another exceeds it: one stray sample does not widen the range.
    candidate: f64,
}

impl Delay {
    fn new(sample: f64) -> Self {
        Delay { smoothed: sample, smallest: sample, largest: sample, candidate: sample }
    }

    fn add(&mut self, sample: f64, weight: f64) {
        self.smallest = self.smallest.min(sample);
        if sample > self.largest {
            self.largest = sample.min(self.candidate.max(self.largest));
            self.candidate = self.candidate.max(sample);
        }
        self.smoothed += weight * (sample - self.smoothed);
    }

    /// The smoothed delay at which congestion begins, in seconds.
    fn limit(&self, threshold: f64) -> f64 {
        self.smallest + threshold * (self.largest - self.smallest)
    }
}

impl BuiltIn for Lp {
    type Params = LpParams;

    fn new(params: &LpParams, config: &CcConfig) -> Self {
        Lp {
            window: Window::new(config, &params.slow_start),
            params: LpParams {
                threshold: within(params.threshold, 0.0, 1.0),
                smoothing: within(params.smoothing, 0.0, 1.0),
                inference: within(params.inference, 0.0, 1e6),
                ..*params
            },
            delay: None,
            indicated: None,
            reacted: None,
            has_learned: false,
        }
    }
}

impl Lp {
    /// Whether the inference phase after the last indication is still on.
    fn is_inferring(&self, ack: &AckSample) -> bool {
        let phase = ack.rtt.unwrap_or(ack.srtt).mul_f64(self.params.inference);
        self.indicated.is_some_and(|at| ack.now.saturating_since(at) < phase)
    }

    /// Whether the receiver may have delayed the acknowledgement, because the segment was alone.
    fn may_be_late(&self, ack: &AckSample) -> bool {
        self.params.variant == LpVariant::Paper && ack.prior_in_flight <= ack.mss
    }

    /// Whether the delay indicates congestion, and an indication counts now.
    fn is_indicated(&self, ack: &AckSample) -> bool {
        let Some(delay) = &self.delay else { return false };
        let limit = delay.limit(self.params.threshold);
        match self.params.variant {
            LpVariant::Paper => {
                let round = ack.rtt.unwrap_or(ack.srtt);
                let has_reacted = self.reacted.is_some_and(|at| ack.now.saturating_since(at) < round);
                self.has_learned && !has_reacted && !self.may_be_late(ack) && delay.smoothed > limit
            }
            LpVariant::Linux => delay.smoothed >= limit,
        }
    }

    /// Answers an early indication of congestion.
    fn reduce(&mut self, ack: &AckSample, inferring: bool) {
        let lower = if inferring { self.window.mss } else { (self.window.cwnd / 2).max(self.window.mss) };
        self.window.cwnd = self.window.cwnd.min(lower);
        match (self.params.variant, &mut self.delay) {
            (LpVariant::Paper, _) => {
                self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd.max(2 * self.window.mss));
            }
            (LpVariant::Linux, Some(delay)) => {
                delay.smallest = delay.smoothed;
                delay.largest = 2.0 * delay.smoothed;
                delay.candidate = delay.largest;
            }
            (LpVariant::Linux, None) => {}
        }
        self.indicated = Some(ack.now);
        self.reacted = Some(ack.now);
    }

    /// Notes a loss.
    fn lost(&mut self, event: &CongestionEvent) {
        self.reacted = Some(event.now);
        self.has_learned = true;
    }
}

impl CongestionControl for Lp {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(sample) = ack.one_way_delay.or(ack.rtt) {
            let sample = sample.as_secs_f64();
            let may_be_late = self.may_be_late(ack);
            match &mut self.delay {
                Some(delay) if may_be_late && sample > delay.smoothed => {}
                Some(delay) => delay.add(sample, self.params.smoothing),
                None => self.delay = Some(Delay::new(sample)),
            }
        }
        self.has_learned |= !self.window.in_slow_start();
        let inferring = self.is_inferring(ack);
        if self.is_indicated(ack) {
            self.reduce(ack, inferring);
            return;
        }
        let counted = self.window.counted(ack);
        if counted > 0 && !inferring {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.lost(event);
        self.window.reduce(self.window.share(self.window.cwnd, 0.5));
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.lost(event);
        self.window.collapse(self.window.share(self.window.cwnd, 0.5));
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
        self.indicated = None;
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
    }
    fn name(&self) -> &'static str {
        LpParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Feeder, MSS, config, event, sample};
    use super::*;

    /// A TCP-LP in congestion avoidance at 20 segments whose delays range from 100 to 200 ms, most of them 100 ms.
    fn avoiding(variant: LpVariant) -> (Lp, Feeder) {
        let mut cfg = config(20);
        cfg.initial_ssthresh = 20_000;
        let mut lp = Lp::new(&LpParams { variant, ..LpParams::default() }, &cfg);
        let mut feeder = Feeder::default();
        feeder.round(&mut lp, 100);
        lp.delay = Some(Delay { smoothed: 0.1, smallest: 0.1, largest: 0.2, candidate: 0.2 });
        (lp.indicated, lp.reacted) = (None, None);
        lp.window.cwnd = 20_000;
        (lp, feeder)
    }

    #[test]
    fn a_rise_of_the_delay_halves_and_one_that_lasts_leaves_a_segment() {
        let (mut lp, mut feeder) = avoiding(LpVariant::Paper);
        // Smoothed, 160 ms pass 115 ms with the third of the samples.
        feeder.mixed_round(&mut lp, &[(2, 160)]);
        assert!(lp.cwnd() >= 20_000);
        feeder.mixed_round(&mut lp, &[(1, 160)]);
        assert!((10_000..10_500).contains(&lp.cwnd()), "{}", lp.cwnd());
        // The rest of the round trip is the same congestion; the next one is the second indication.
        let (halved, at) = (lp.cwnd(), lp.reacted.unwrap());
        let rtt = TimeDelta::from_millis(160);
        lp.on_ack(&AckSample { now: at + rtt / 2, rtt: Some(rtt), ..sample(0, MSS) });
        assert_eq!(lp.cwnd(), halved);
        feeder.mixed_round(&mut lp, &[(1, 160)]);
        assert_eq!(lp.cwnd(), 1000);
        // Down again: not before the phase of three round trips is over does it grow.
        feeder.mixed_round(&mut lp, &[(20, 100)]);
        feeder.mixed_round(&mut lp, &[(10, 100)]);
        assert_eq!(lp.cwnd(), 1000);
        for _ in 0..6 {
            feeder.mixed_round(&mut lp, &[(4, 100)]);
        }
        assert!(lp.cwnd() > 2000, "{}", lp.cwnd());
    }

    #[test]
    fn below_the_threshold_it_is_reno() {
        let (mut lp, mut feeder) = avoiding(LpVariant::Paper);
        feeder.mixed_round(&mut lp, &[(20, 114)]);
        assert_eq!(lp.cwnd(), 21_000);
        lp.on_congestion_event(&event(1, 0));
        // Half of 21 segments, in whole ones.
        assert_eq!((lp.cwnd(), lp.ssthresh()), (10_000, 10_000));
        lp.undo(Timestamp::from_millis(2));
        assert_eq!(lp.cwnd(), 21_000);
        lp.on_rto(&event(1, 0));
        assert_eq!(lp.cwnd(), 1000);
    }

    #[test]
    fn the_kernels_takes_the_queue_that_it_met_for_the_path() {
        for (variant, again) in [(LpVariant::Paper, true), (LpVariant::Linux, false)] {
            let (mut lp, mut feeder) = avoiding(variant);
            (0..2).for_each(|_| feeder.mixed_round(&mut lp, &[(20, 130)]));
            assert_eq!(lp.cwnd() == 1000, again, "{variant:?}: {}", lp.cwnd());
        }
    }

    #[test]
    fn the_first_slow_start_learns_the_delays() {
        let delays = [100, 120, 180, 260];
        for (variant, grows) in [(LpVariant::Paper, true), (LpVariant::Linux, false)] {
            let mut lp = Lp::new(&LpParams { variant, ..LpParams::default() }, &config(10));
            let mut feeder = Feeder::default();
            delays.iter().for_each(|&millis| feeder.round(&mut lp, millis));
            assert_eq!(lp.cwnd() == 160 * MSS, grows, "{variant:?}: {}", lp.cwnd());
        }
        // A loss ends it. The queue that is still full then is no second reason in the same round trip, but one after it.
        let mut lp = Lp::new(&LpParams::default(), &config(10));
        let mut feeder = Feeder::default();
        delays.iter().for_each(|&millis| feeder.round(&mut lp, millis));
        lp.on_congestion_event(&CongestionEvent { now: Timestamp::from_millis(661), ..event(0, 0) });
        assert_eq!(lp.cwnd(), 80 * MSS);
        feeder.mixed_round(&mut lp, &[(1, 250)]);
        assert_eq!(lp.cwnd(), 80 * MSS);
        feeder.mixed_round(&mut lp, &[(1, 250)]);
        assert_eq!(lp.cwnd(), 40 * MSS);
    }

    #[test]
    fn a_delayed_acknowledgement_of_a_lone_segment_is_no_queue() {
        let (mut lp, _) = avoiding(LpVariant::Paper);
        lp.window.set(MSS, 2 * MSS);
        let alone = |n: u64, millis: u64| AckSample {
            prior_in_flight: MSS,
            rtt: Some(TimeDelta::from_millis(millis)),
            ..sample(1000 * n, MSS)
        };
        // Above the limit of 115 ms, from before.
        lp.delay = Some(Delay { smoothed: 0.14, smallest: 0.1, largest: 0.2, candidate: 0.2 });
        (1..4).for_each(|n| lp.on_ack(&alone(n, 140)));
        assert!(lp.cwnd() > MSS, "{}", lp.cwnd());
        // One that is shorter is the path's, delayed or not.
        lp.delay = Some(Delay { smoothed: 0.2, smallest: 0.1, largest: 0.2, candidate: 0.2 });
        lp.on_ack(&alone(4, 140));
        assert!(lp.delay.unwrap().smoothed < 0.2);
    }

    #[test]
    fn one_stray_sample_does_not_widen_the_range() {
        let mut delay = Delay::new(0.1);
        delay.add(0.15, 0.125);
        assert_eq!(delay.largest, 0.1);
        delay.add(9.0, 0.125);
        assert_eq!(delay.largest, 0.15);
        delay.add(0.16, 0.125);
        assert_eq!(delay.largest, 0.16);
    }
}
