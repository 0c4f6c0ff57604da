//! Vegas: keeps between alpha and beta segments of its own in the bottleneck's queue.
//!
//! Sources: L. Brakmo and L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet" (IEEE JSAC 13(8),
//! 1995); the details follow Linux tcp_vegas.c (the smallest RTT of a round is judged, Reno where a round gave too few
//! samples, no change to loss detection, half the window after a loss).
//!
//! [`VegasParams::estimate`] and [`VegasParams::decrease`] give the paper's rules in place of the kernel's.
//!
//! Departures: The paper's Diff is compared exactly, and not rounded to the nearest segment as in ns-2. Rounds are
//! counted by delivered bytes. The defaults are the kernel's (2, 4, 1). As in Linux, sending with
//! nothing in flight begins with a new base RTT. After a time-out alone, when Linux counts nothing as in flight
//! either, the base RTT stays, as in the paper: the path is still the same.

use warpline_core::parameter::{Component, Parameters, Words};
use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::slow_start::SlowStartParams;
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// How Diff, the segments that the connection itself holds in the queue, is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum VegasEstimate {
    /// `cwnd * (rtt - base) / base` in whole segments, rounded down, as in Linux: with a `beta` of 4, the window shrinks from
    /// five segments on. This is more than what waits, and far more where the queue is longer than the pipe.
    #[default]
    Linux,
    /// `cwnd * (rtt - base) / base` with its fraction: with a `beta` of 4, the window shrinks above four segments.
    Exact,
    /// `cwnd * (rtt - base) / rtt`, the paper's (Expected - Actual) * BaseRTT.
    Paper,
}

/// TCP Vegas (Brakmo and Peterson 1995).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("vegas")]
pub struct VegasParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Segments in the queue below which the window grows.
    #[parameter(default = 2.0, min = 0.0, unit = "segments")]
    pub alpha: f64,
    /// Segments in the queue above which it shrinks.
    #[parameter(default = 4.0, min = 0.0, not_below = "alpha", unit = "segments")]
    pub beta: f64,
    /// Segments in the queue above which slow start ends.
    #[parameter(default = 1.0, min = 0.0, unit = "segments")]
    pub gamma: f64,
    /// RTT samples that a round needs to be judged; where it has fewer, the window grows as Reno's.
    #[parameter(default = 3, min = 1)]
    pub min_samples: u32,
    /// Whether slow start doubles the window only every other round trip, as in the paper; Linux does not.
    pub alternate_slow_start: bool,
    /// How the segments in the queue are counted.
    pub estimate: VegasEstimate,
    /// What remains of the window after a loss that was no time-out; 0.75 in the paper, half in Linux.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub decrease: f64,
}

/// Vegas's rule for the window once per round trip, without its answer to losses (Nice shares it).
#[derive(Clone, Debug)]
pub(super) struct VegasRule {
    alpha: f32,
    beta: f32,
    gamma: f32,
    min_samples: u32,
    /// Smallest RTT of the connection (baseRTT) and of the present round.
    base_rtt: TimeDelta,
    round_rtt: TimeDelta,
    samples: u32,
    /// Whether the rounds of slow start alternate, and whether this one stands still.
    alternate: bool,
    resting: bool,
    estimate: VegasEstimate,
}

impl VegasRule {
    pub(super) fn new(params: &VegasParams) -> Self {
        VegasRule {
            alpha: within(params.alpha, 0.0, 1e9) as f32,
            beta: within(params.beta, 0.0, 1e9) as f32,
            gamma: within(params.gamma, 0.0, 1e9) as f32,
            min_samples: params.min_samples.max(1),
            base_rtt: TimeDelta::MAX,
            round_rtt: TimeDelta::MAX,
            samples: 0,
            alternate: params.alternate_slow_start,
            resting: false,
            estimate: params.estimate,
        }
    }

    /// Takes the RTT sample of an acknowledgement.
    #[inline]
    pub(super) fn take_sample(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(TimeDelta::from_nanos(1));
            self.base_rtt = self.base_rtt.min(rtt);
            self.round_rtt = self.round_rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
    }

    /// Sets the base RTT, for an algorithm that measures it in its own way.
    pub(super) fn set_base_rtt(&mut self, base: TimeDelta) {
        self.base_rtt = base;
    }

    /// Smallest RTT of the present round; the longest span before its first sample.
    pub(super) fn round_rtt(&self) -> TimeDelta {
        self.round_rtt
    }

    /// Forgets the present round.
    pub(super) fn begin_round(&mut self) {
        self.round_rtt = TimeDelta::MAX;
        self.samples = 0;
    }

    /// Forgets everything, as after idle time.
    pub(super) fn restart(&mut self) {
        self.begin_round();
        self.base_rtt = TimeDelta::MAX;
    }

    /// Whether slow start grows in this round.
    #[inline]
    pub(super) fn slow_start_grows(&self) -> bool {
        !self.resting
    }

    /// The end of a round: moves the window, never below `floor` bytes, and begins the next; where Vegas grows, by `growth` bytes. Returns
    /// false where the round gave too few samples to judge.
    pub(super) fn end_round(&mut self, window: &mut Window, floor: u64, growth: i64) -> bool {
        let judged = self.samples >= self.min_samples;
        if judged {
            let base = u128::from(self.base_rtt.as_nanos());
            let rtt = u128::from(self.round_rtt.as_nanos()).max(base);
            // The unit of what is divided: the kernel's windows are numbers of segments, and it divides whole numbers.
            let unit = if self.estimate == VegasEstimate::Linux { window.mss } else { 1 };
            let cwnd = u128::from(window.cwnd / unit);
            // Diff in bytes: what the connection itself holds in the queue.
            let divisor = if self.estimate == VegasEstimate::Paper { rtt } else { base };
            let diff = (cwnd * (rtt - base) / divisor) as f64 * unit as f64;
            let mss = window.mss as f64;
            if window.in_slow_start() {
                if diff > f64::from(self.gamma) * mss {
                    // Down to the rate that got through, plus a segment against rounding.
                    let actual = (cwnd * base / rtt) as u64 * unit + window.mss;
                    window.cwnd = window.cwnd.min(actual).max(floor.min(window.cwnd));
                    window.ssthresh = window.ssthresh.min(window.cwnd.max(floor));
                }
                self.resting = self.alternate && !self.resting;
            } else if diff > f64::from(self.beta) * mss {
                let lower = window.cwnd.saturating_sub(window.mss);
                window.cwnd = lower.max(floor.min(window.cwnd));
                window.ssthresh = window.ssthresh.min(window.cwnd.max(floor));
            } else if diff < f64::from(self.alpha) * mss {
                let moved = window.cwnd.saturating_add_signed(growth).min(MAX_WINDOW);
                window.cwnd = moved.max(floor.min(window.cwnd));
                if growth < 0 {
                    window.ssthresh = window.ssthresh.min(window.cwnd.max(floor));
                }
            }
        }
        self.begin_round();
        judged
    }
}

/// Vegas's congestion control.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: Window,
    rule: VegasRule,
    round: Round,
    /// Off in recovery and after a time-out, when Reno's rules hold.
    enabled: bool,
    decrease: f64,
}

impl BuiltIn for Vegas {
    type Params = VegasParams;

    fn new(params: &VegasParams, config: &CcConfig) -> Self {
        Vegas {
            window: Window::new(config, &params.slow_start),
            rule: VegasRule::new(params),
            round: Round::default(),
            enabled: true,
            decrease: within(params.decrease, 0.0, 1.0),
        }
    }
}

impl Vegas {
    /// Nothing is in flight: what is sent next begins anew (tcp_vegas_cwnd_event at CA_EVENT_TX_START).
    fn restart(&mut self, ack: &AckSample) {
        self.rule.restart();
        self.round.restart(ack);
    }

    /// The window's growth at an acknowledgement.
    #[inline]
    fn grow(&mut self, ack: &AckSample) {
        self.rule.take_sample(ack);
        let counted = self.window.counted(ack);
        let ends = self.round.ends(ack);
        let normal = matches!(ack.phase, Phase::Open | Phase::Disorder);
        if !normal || !self.enabled {
            // The round in which Vegas takes over again has samples of the recovery: it is not judged.
            if normal && ends {
                self.enabled = true;
                self.rule.begin_round();
            } else if !normal {
                self.enabled = false;
            }
            if counted > 0 {
                let rest = self.window.slow_start(ack, counted);
                self.window.additive_increase(rest);
            }
            return;
        }
        let judged = ends && {
            let floor = 2 * self.window.mss;
            let slow = self.window.in_slow_start();
            let growth = if ack.cwnd_limited { self.window.mss as i64 } else { 0 };
            self.rule.end_round(&mut self.window, floor, growth) && !(slow && self.window.in_slow_start())
        };
        if judged || counted == 0 {
            return;
        }
        if self.window.in_slow_start() {
            if self.rule.slow_start_grows() {
                self.window.slow_start(ack, counted);
            }
        } else if ends {
            self.window.additive_increase(counted);
        }
    }
}

impl CongestionControl for Vegas {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.grow(ack);
        if ack.in_flight == 0 {
            self.restart(ack);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.window.share(self.window.cwnd, self.decrease));
        self.enabled = false;
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.window.share(self.window.cwnd, 0.5));
        self.enabled = false;
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
        self.rule.restart();
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
        VegasParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Feeder, config, event, sample};
    use super::*;

    /// A Vegas in congestion avoidance at 20 segments whose base RTT is 100 ms.
    fn avoiding(params: &VegasParams) -> (Vegas, Feeder) {
        let mut cfg = config(20);
        cfg.initial_ssthresh = 20_000;
        let mut vegas = Vegas::new(params, &cfg);
        let mut feeder = Feeder::default();
        feeder.round(&mut vegas, 100);
        (vegas, feeder)
    }

    #[test]
    fn diff_decides_once_per_round_trip() {
        // Diff = 20 * (rtt - 100) / 100 segments: 109 ms is 1.8 (grow), 115 ms is 3, 124 ms is 4.8, which counts as 4 (stay), 125 ms is 5 (shrink).
        for (rtt, then) in [(109, 21_000), (115, 20_000), (124, 20_000), (125, 19_000)] {
            let (mut vegas, mut feeder) = avoiding(&VegasParams::default());
            let at = vegas.cwnd();
            // A round is judged by the acknowledgement that begins the next.
            feeder.round(&mut vegas, rtt);
            let judged_base = vegas.cwnd();
            assert_eq!(judged_base, at + 1000, "the first round, at the base RTT, makes it grow");
            vegas.window.cwnd = 20_000;
            feeder.round(&mut vegas, rtt);
            assert_eq!(vegas.cwnd(), then, "rtt {rtt}");
        }
    }

    #[test]
    fn only_the_exact_estimate_counts_a_part_of_a_segment() {
        // Diff is 4.8 segments.
        for (estimate, then) in [(VegasEstimate::Linux, 20_000), (VegasEstimate::Exact, 19_000)] {
            let (mut vegas, mut feeder) = avoiding(&VegasParams { estimate, ..VegasParams::default() });
            feeder.round(&mut vegas, 124);
            vegas.window.cwnd = 20_000;
            feeder.round(&mut vegas, 124);
            assert_eq!(vegas.cwnd(), then, "{estimate:?}");
        }
    }

    #[test]
    fn the_paper_counts_what_waits_and_gives_up_a_quarter() {
        // RTT twice the base: 10 of the 20 segments wait, which Linux counts as 20.
        for (estimate, beta, then) in [
            (VegasEstimate::Paper, 12.0, 20_000),
            (VegasEstimate::Exact, 12.0, 19_000),
            (VegasEstimate::Linux, 12.0, 19_000),
        ] {
            let params = VegasParams { alpha: 1.0, beta, estimate, decrease: 0.75, ..VegasParams::default() };
            let (mut vegas, mut feeder) = avoiding(&params);
            feeder.round(&mut vegas, 200);
            vegas.window.cwnd = 20_000;
            feeder.round(&mut vegas, 200);
            assert_eq!(vegas.cwnd(), then, "{estimate:?}");
            vegas.on_congestion_event(&event(1, 0));
            // In whole segments.
            assert_eq!(vegas.cwnd(), then / 1000 * 3 / 4 * 1000);
        }
    }

    #[test]
    fn slow_start_ends_when_a_segment_waits() {
        let mut vegas = Vegas::new(&VegasParams::default(), &config(10));
        let mut feeder = Feeder::default();
        feeder.round(&mut vegas, 100);
        assert_eq!(vegas.cwnd(), 20_000);
        feeder.round(&mut vegas, 130);
        // 20..40 segments and 130 ms: Diff is above gamma, and the window falls to cwnd * 100 / 130 plus one.
        let before = vegas.cwnd();
        feeder.round(&mut vegas, 130);
        assert_eq!(vegas.cwnd(), before / 1000 * 100 / 130 * 1000 + 1000);
        assert!(!vegas.window.in_slow_start());
    }

    #[test]
    fn what_is_sent_with_nothing_in_flight_begins_with_a_new_base_rtt() {
        // The path has become longer by half. Against the old base RTT of 100 ms the window would shrink.
        for (in_flight, then) in [(1, 19_000), (0, 21_000)] {
            let (mut vegas, mut feeder) = avoiding(&VegasParams::default());
            let idle = AckSample {
                in_flight,
                delivered: feeder.mark(),
                prior_delivered: feeder.mark() - 1,
                ..sample(1, 1)
            };
            vegas.on_ack(&AckSample { rtt: None, ..idle });
            vegas.window.cwnd = 20_000;
            // The first acknowledgement after the pause ends a round of one sample, which is not judged.
            feeder.round(&mut vegas, 150);
            vegas.window.cwnd = 20_000;
            feeder.round(&mut vegas, 150);
            assert_eq!(vegas.cwnd(), then, "in flight {in_flight}");
        }
    }

    #[test]
    fn losses_are_renos() {
        let (mut vegas, _) = avoiding(&VegasParams::default());
        let before = vegas.cwnd();
        vegas.on_congestion_event(&event(1, 0));
        assert_eq!(vegas.cwnd(), before / 2);
        vegas.undo(Timestamp::from_millis(2));
        assert_eq!(vegas.cwnd(), before);
    }
}
