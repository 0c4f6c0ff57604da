//! TCP Nice: Vegas that yields to everybody, for background transfers.
//!
//! Source: A. Venkataramani, R. Kokku, M. Dahlin, "TCP Nice: A Mechanism for Background Transfers" (OSDI 2002), section
//! 2.2 and the constants of section 2.3: an acknowledgement is late when its RTT exceeds
//! minRTT + threshold * (maxRTT - minRTT); when more than `fraction` of a round's packets were late the window halves,
//! down to 1/48 of a segment; otherwise Vegas(1, 3), and Reno after a loss.
//!
//! Departures: the paper's pseudo-code compares with minRTT + threshold * maxRTT, its text with the difference: the text
//! holds here. Late packets are counted in bytes (an acknowledgement of two segments counts twice), against the fraction
//! of the smaller of the window and what the round acknowledged. Below two segments the prototype sends pairs: the
//! connection is asked to by `min_burst`. One RTT sample suffices to judge a round, since a window below one
//! gives no more. A loss never raises a window that is below two segments.

use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::slow_start::{SlowStart, SlowStartParams};
use super::vegas::{VegasParams, VegasRule};
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, CcConfig, CongestionControl, CongestionEvent, Phase};

/// Parameters of [`Nice`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NiceParams {
    /// Slow start and byte counting.
    pub slow_start: SlowStartParams,
    /// Where between minRTT (0) and maxRTT (1) a packet counts as late. Default 0.2.
    pub threshold: f64,
    /// Part of a round's packets that must be late for the window to halve. Default 0.5.
    pub fraction: f64,
    /// What remains of the window when it is reduced for delay. Default 0.5.
    pub decrease: f64,
    /// Smallest window in segments. Default 1/48; 1 is the paper's "W >= 1".
    pub floor: f64,
    /// Segments sent together while the window is below two segments. Default 2.
    pub burst: u32,
    /// Vegas's alpha in segments. Default 1.
    pub alpha: f64,
    /// Vegas's beta in segments. Default 3.
    pub beta: f64,
    /// Vegas's gamma in segments. Default 1.
    pub gamma: f64,
}

impl Default for NiceParams {
    fn default() -> Self {
        NiceParams {
            slow_start: SlowStartParams::default(),
            threshold: 0.2,
            fraction: 0.5,
            decrease: 0.5,
            floor: 1.0 / 48.0,
            burst: 2,
            alpha: 1.0,
            beta: 3.0,
            gamma: 1.0,
        }
    }
}

/// TCP Nice's congestion control.
#[derive(Clone, Debug)]
pub struct Nice {
    window: Window,
    slow_start: SlowStart,
    rule: VegasRule,
    round: Round,
    threshold: f64,
    fraction: f64,
    decrease: f64,
    /// Smallest window in bytes.
    floor: u64,
    max_rtt: TimeDelta,
    /// Above this RTT a packet is late.
    late_above: TimeDelta,
    /// Bytes of this round that were late, and all of its bytes.
    late: u64,
    seen: u64,
    /// Off in recovery and after a time-out: Reno's rules then.
    enabled: bool,
    burst: u32,
}

impl Nice {
    /// A new connection's.
    pub fn new(params: &NiceParams, config: &CcConfig) -> Self {
        let vegas = VegasParams {
            alpha: params.alpha,
            beta: params.beta,
            gamma: params.gamma,
            min_samples: 1,
            ..VegasParams::default()
        };
        let mut window = Window::new(config);
        let floor = within((params.floor * window.mss as f64).ceil(), 1.0, MAX_WINDOW as f64) as u64;
        window.cwnd = window.cwnd.max(floor);
        window.ssthresh = window.ssthresh.max(floor);
        Nice {
            window,
            slow_start: SlowStart::new(&params.slow_start),
            rule: VegasRule::new(&vegas),
            round: Round::default(),
            threshold: within(params.threshold, 0.0, 1e6),
            fraction: within(params.fraction, 0.0, 1.0),
            decrease: within(params.decrease, 0.0, 1.0),
            floor,
            max_rtt: TimeDelta::ZERO,
            late_above: TimeDelta::MAX,
            late: 0,
            seen: 0,
            enabled: true,
            burst: params.burst.max(1),
        }
    }

    /// Takes an acknowledgement into the interference detector.
    #[inline]
    fn detect(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        let base = self.rule.base_rtt();
        self.rule.take_sample(ack);
        if rtt < base || rtt > self.max_rtt {
            let base = self.rule.base_rtt();
            if self.max_rtt.is_zero() {
                self.max_rtt = base * 2;
            }
            self.max_rtt = self.max_rtt.max(rtt);
            self.late_above = base + self.max_rtt.saturating_sub(base).mul_f64(self.threshold);
        }
        self.seen = self.seen.saturating_add(ack.acked);
        if rtt > self.late_above {
            self.late = self.late.saturating_add(ack.acked);
        }
    }

    /// Whether the round that ends was delayed by others' packets, or our own.
    fn congested(&self) -> bool {
        self.late as f64 > self.fraction * self.window.cwnd.min(self.seen) as f64
    }

    /// Judges the round that ends, and begins the next.
    fn end_round(&mut self, ack: &AckSample) {
        if self.congested() {
            self.window.cwnd = self.shrunk(self.decrease);
            self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd);
            self.rule.begin_round();
        } else {
            // Linear decrease stops at one segment: only the detector leads below.
            let floor = self.window.mss.max(self.floor);
            self.rule.end_round(&mut self.window, floor, ack.cwnd_limited);
        }
        self.forget_round();
    }

    fn forget_round(&mut self) {
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
        let counted = self.slow_start.counted(ack);
        if !normal || !self.enabled {
            self.detect(ack);
            if normal && ends {
                self.enabled = true;
                self.rule.begin_round();
                self.forget_round();
            } else if !normal {
                self.enabled = false;
            }
            if counted > 0 {
                let rest = self.slow_start.on_ack(&mut self.window, ack, counted);
                self.window.additive_increase(rest);
            }
            return;
        }
        if ends {
            self.end_round(ack);
        }
        self.detect(ack);
        if ack.in_flight == 0 && self.seen > 0 && self.window.cwnd < u64::from(self.burst) * self.window.mss {
            // A burst is a round. Its end is known now, not with the next burst, which may be 96 round trips away.
            self.end_round(ack);
        }
        if counted > 0 && self.window.in_slow_start() {
            self.slow_start.on_ack(&mut self.window, ack, counted);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.shrunk(0.5));
        self.slow_start.on_reduction();
        self.enabled = false;
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.shrunk(0.5));
        self.window.cwnd = self.window.cwnd.max(self.floor);
        self.slow_start.on_rto();
        self.enabled = false;
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
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
    fn name(&self) -> &'static str {
        "nice"
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Feeder, config, event};
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
        let (mut nice, mut feeder) = avoiding(&NiceParams::default());
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
        let (mut nice, mut feeder) = avoiding(&NiceParams::default());
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
        let (mut nice, mut feeder) = avoiding(&NiceParams::default());
        feeder.round(&mut nice, 600);
        // 100 + 0.2 * 500.
        assert_eq!(nice.late_above, TimeDelta::from_millis(200));
    }

    #[test]
    fn the_variant_that_never_goes_below_one() {
        let (mut nice, mut feeder) = avoiding(&NiceParams { floor: 1.0, ..NiceParams::default() });
        for _ in 0..12 {
            feeder.round(&mut nice, 150);
        }
        assert_eq!(nice.cwnd(), 1000);
        nice.on_rto(&event(1, 0));
        assert_eq!(nice.cwnd(), 1000);
    }

    #[test]
    fn a_window_below_two_is_sent_in_pairs() {
        assert_eq!(avoiding(&NiceParams::default()).0.min_burst(), 2);
        assert_eq!(avoiding(&NiceParams { burst: 0, ..NiceParams::default() }).0.min_burst(), 1);
    }

    #[test]
    fn a_loss_halves_and_never_raises() {
        let (mut nice, _) = avoiding(&NiceParams::default());
        nice.window.cwnd = 16_000;
        nice.on_congestion_event(&event(1, 0));
        assert_eq!((nice.cwnd(), nice.ssthresh()), (8000, 8000));
        nice.undo(Timestamp::from_millis(2));
        assert_eq!(nice.cwnd(), 16_000);
        nice.window.cwnd = 300;
        nice.on_congestion_event(&event(3, 0));
        assert_eq!(nice.cwnd(), 150);
        nice.on_rto(&event(4, 0));
        assert_eq!(nice.cwnd(), 150);
    }
}
