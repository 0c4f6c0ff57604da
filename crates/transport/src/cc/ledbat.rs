//! LEDBAT: a background transport that keeps a target delay in the bottleneck's queue.
//!
//! Source: RFC 6817 (section numbers below are its), with its constants: TARGET at most 100 ms, GAIN at most 1,
//! ALLOWED_INCREASE 1, MIN_CWND 2, ten one-minute base-delay minima, a filter over four samples none of which is older
//! than a round trip.
//!
//! Departures: INIT_CWND (2) is the connection's initial window, set it there; without timestamps the RTT stands in for the
//! one-way delay; there is no slow start, as in the RFC's pseudo-code, unless asked for; the congestion time-out is the
//! connection's retransmission timer; MIN_CWND does not raise a window that did not limit sending.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::delay::{BaseDelay, CurrentDelay};
use super::slow_start::{SlowStartParams, may_grow};
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// LEDBAT (RFC 6817).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("ledbat")]
pub struct LedbatParams {
    /// TARGET: queueing delay to keep; RFC 6817 allows 100ms at most.
    #[parameter(default = TimeDelta::from_millis(100), above = TimeDelta::ZERO)]
    pub target: TimeDelta,
    /// GAIN: segments per round trip at an empty queue; RFC 6817 allows 1 at most.
    #[parameter(default = 1.0, above = 0.0)]
    pub gain: f64,
    /// ALLOWED_INCREASE: segments by which the window may exceed what is in flight.
    #[parameter(default = 1.0, min = 0.0, unit = "segments")]
    pub allowed_increase: f64,
    /// MIN_CWND: smallest window, but for time-outs.
    #[parameter(default = 2.0, above = 0.0, unit = "segments", was = "min_window")]
    pub floor: f64,
    /// BASE_HISTORY: one-minute minima of the base delay that are kept.
    #[parameter(default = 10, min = 1)]
    pub base_history: u32,
    /// CURRENT_FILTER: samples of the current delay.
    #[parameter(default = 4, min = 1)]
    pub current_filter: u32,
    /// Whether the connection starts in slow start, until the first loss or until the delay reaches the target.
    pub slow_start: bool,
}

/// RFC 6817's congestion control.
#[derive(Clone, Debug)]
pub struct Ledbat {
    window: Window,
    params: LedbatParams,
    base: BaseDelay,
    current: CurrentDelay,
    /// Part of a byte that the window owes, below 1 in size.
    remainder: f64,
    /// Last measured queueing delay.
    queueing: TimeDelta,
}

impl BuiltIn for Ledbat {
    type Params = LedbatParams;

    fn new(params: &LedbatParams, config: &CcConfig) -> Self {
        let mut window = Window::new(config, &SlowStartParams::default());
        if !params.slow_start {
            window.ssthresh = window.cwnd.max(2 * window.mss);
        }
        Ledbat {
            window,
            params: LedbatParams {
                target: params.target.max(TimeDelta::from_nanos(1)),
                gain: within(params.gain, 0.0, 1e3),
                allowed_increase: within(params.allowed_increase, 0.0, 1e6),
                floor: within(params.floor, 0.0, 1e6),
                ..*params
            },
            base: BaseDelay::new(params.base_history),
            current: CurrentDelay::new(params.current_filter),
            remainder: 0.0,
            queueing: TimeDelta::ZERO,
        }
    }
}

impl Ledbat {
    /// Last measured queueing delay.
    pub fn queueing_delay(&self) -> TimeDelta {
        self.queueing
    }

    /// MIN_CWND in bytes.
    fn smallest(&self) -> u64 {
        ((self.params.floor * self.window.mss as f64) as u64).max(1)
    }

    /// Loss: half the window, not below MIN_CWND and never more than it was (section 2.4.2).
    fn halved(&self) -> u64 {
        (self.window.cwnd / 2).max(self.smallest()).min(self.window.cwnd)
    }

    /// The window of section 2.4.2 after `acked` bytes at the measured delay.
    fn adjust(&mut self, ack: &AckSample) {
        let cwnd = self.window.cwnd;
        let mss = self.window.mss as f64;
        let target = self.params.target.as_secs_f64();
        // The RFC leaves the decrease unbounded: only MIN_CWND holds it.
        let off_target = (target - self.queueing.as_secs_f64()) / target;
        let delta = self.params.gain * off_target * ack.acked as f64 * mss / cwnd as f64 + self.remainder;
        let smallest = self.smallest().min(cwnd);
        if delta < 0.0 {
            let whole = delta.ceil();
            self.remainder = delta - whole;
            self.window.cwnd = cwnd.saturating_sub(-whole as u64).max(smallest);
        } else if may_grow(ack) {
            let whole = delta.floor();
            self.remainder = delta - whole;
            self.window.raise(whole as u64);
            self.window.cwnd = self.window.cwnd.max(self.smallest());
        }
        let allowed = (self.params.allowed_increase * mss) as u64;
        let most = ack.prior_in_flight.saturating_add(allowed).min(MAX_WINDOW);
        if self.window.cwnd > most {
            self.window.cwnd = most.max(smallest);
        }
    }
}

impl CongestionControl for Ledbat {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(delay) = ack.one_way_delay.or(ack.rtt) {
            self.base.add(ack.now, delay);
            let age = if ack.srtt.is_zero() { TimeDelta::MAX } else { ack.srtt };
            self.queueing = self.current.add(ack.now, delay, age).saturating_sub(self.base.get());
        }
        if matches!(ack.phase, Phase::Recovery | Phase::Cwr) {
            return;
        }
        if self.window.in_slow_start() && self.queueing < self.params.target {
            let counted = self.window.counted(ack);
            self.window.slow_start(ack, counted);
            return;
        }
        self.adjust(ack);
        // From here the delay governs: the window must not fall back into slow start.
        self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd.max(2 * self.window.mss));
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        let halved = self.halved();
        self.window.reduce(halved.max(2 * self.window.mss));
        self.window.cwnd = self.window.cwnd.min(halved);
        self.remainder = 0.0;
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        // One segment, and from there by the delay (section 2.4.2): no slow start unless it was asked for.
        let halved = self.halved().max(2 * self.window.mss);
        self.window.collapse(if self.params.slow_start { halved } else { 2 * self.window.mss });
        self.remainder = 0.0;
        self.current.clear();
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        let threshold = self.window.ssthresh;
        self.window.restart(idle, rto);
        if !self.params.slow_start {
            self.window.ssthresh = threshold.min(self.window.cwnd.max(2 * self.window.mss));
        }
        self.current.clear();
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
        LedbatParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, event, sample};
    use super::*;

    /// Acknowledges one window of 20 segments at the given one-way delays in milliseconds; returns the last windows.
    fn ramp(delays: &[u64]) -> Vec<u64> {
        let mut ledbat = Ledbat::new(&LedbatParams::default(), &config(20));
        let mut now = 0;
        delays
            .iter()
            .map(|&delay| {
                for _ in 0..20 {
                    now += 5;
                    let mut ack = sample(now, 1000);
                    ack.one_way_delay = Some(TimeDelta::from_millis(delay));
                    ack.srtt = TimeDelta::from_millis(100);
                    ack.prior_in_flight = 100_000;
                    ledbat.on_ack(&ack);
                }
                ledbat.cwnd()
            })
            .collect()
    }

    #[test]
    fn the_window_follows_a_ramp_of_the_one_way_delay() {
        // The offset of the clocks (here 1000 ms) does not matter. At the base delay a segment per round trip; at half the
        // target half a segment; at the target nothing; at twice the target minus one.
        let windows = ramp(&[1000, 1000, 1050, 1100, 1200]);
        let steps: Vec<f64> =
            windows.windows(2).map(|pair| (pair[1] as f64 - pair[0] as f64) / 1000.0).collect();
        assert!((windows[0] as f64 - 20_977.0).abs() < 30.0, "{windows:?}");
        // 20 acknowledgements of a window that has grown to 21, 22; and three samples' lag of the filter.
        for (step, expected) in steps.iter().zip([0.93, 0.53, 0.07, -0.75]) {
            assert!((step - expected).abs() < 0.08, "{steps:?}");
        }
    }

    #[test]
    fn the_window_stays_near_what_is_in_flight() {
        let mut ledbat = Ledbat::new(&LedbatParams::default(), &config(20));
        let mut ack = sample(1, 1000);
        ack.prior_in_flight = 5000;
        ledbat.on_ack(&ack);
        assert_eq!(ledbat.cwnd(), 6000);
        ack.prior_in_flight = 0;
        ledbat.on_ack(&ack);
        assert_eq!(ledbat.cwnd(), 2000);
    }

    #[test]
    fn losses_halve_and_a_time_out_leaves_one_segment() {
        let mut ledbat = Ledbat::new(&LedbatParams::default(), &config(20));
        ledbat.on_congestion_event(&event(1, 0));
        assert_eq!(ledbat.cwnd(), 10_000);
        ledbat.undo(Timestamp::from_millis(1));
        assert_eq!(ledbat.cwnd(), 20_000);
        ledbat.window.cwnd = 3000;
        ledbat.on_congestion_event(&event(2, 0));
        assert_eq!(ledbat.cwnd(), 2000);
        ledbat.on_rto(&event(3, 0));
        assert_eq!(ledbat.cwnd(), 1000);
        ledbat.on_ack(&AckSample { phase: Phase::Loss, ..sample(4, 1000) });
        assert_eq!(ledbat.cwnd(), 2000);
    }
}
