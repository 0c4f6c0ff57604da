//! LEDBAT++: LEDBAT that shares fairly with itself and gives way faster.
//!
//! Source: draft-irtf-iccrg-ledbat-plus-plus: round-trip instead of one-way delay; a target of 60 ms; a gain of
//! 1/min(16, ceil(2*TARGET/base)); slow start that grows by that gain and, the first time, ends at three quarters of the
//! target; decrease in proportion to the window, at most half of it per round trip; a floor of two segments; and periodic
//! slow-downs to two segments for two round trips, each nine times its own duration after the last, so that the base
//! delay can be measured.
//!
//! Departures: the window is adjusted once per round trip, not per acknowledgement; the first slow-down begins two round
//! trips after the first slow start.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::delay::{BaseDelay, CurrentDelay};
use super::round::Round;
use super::slow_start::{SlowStartParams, may_grow};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// LEDBAT++ (draft-irtf-iccrg-ledbat-plus-plus).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("ledbat++")]
pub struct LedbatPlusPlusParams {
    /// TARGET: queueing delay to keep.
    #[parameter(default = TimeDelta::from_millis(60), above = TimeDelta::ZERO)]
    pub target: TimeDelta,
    /// Constant of the multiplicative decrease.
    #[parameter(default = 1.0, above = 0.0)]
    pub decrease: f64,
    /// Largest divisor of the gain.
    #[parameter(default = 16, min = 1)]
    pub max_gain_divisor: u32,
    /// One-minute minima of the base delay that are kept.
    #[parameter(default = 10, min = 1)]
    pub base_history: u32,
    /// Samples of the current delay.
    #[parameter(default = 4, min = 1)]
    pub current_filter: u32,
    /// Whether the window is slowed down periodically, to measure the base delay.
    #[parameter(default = true)]
    pub slow_down: bool,
}

/// Where the connection is between two slow-downs.
#[derive(Clone, Copy, Debug)]
enum SlowDown {
    /// The first slow start has not ended.
    NotYet,
    /// The next begins at this time.
    At(Timestamp),
    /// At two segments since `began`, for `rounds` more round trips.
    Down { began: Timestamp, rounds: u8, resume: u64 },
    /// Growing back since; the whole began then.
    Regaining { began: Timestamp },
}

/// The draft's congestion control.
#[derive(Clone, Debug)]
pub struct LedbatPlusPlus {
    window: Window,
    params: LedbatPlusPlusParams,
    base: BaseDelay,
    current: CurrentDelay,
    round: Round,
    queueing: TimeDelta,
    slow_down: SlowDown,
}

impl BuiltIn for LedbatPlusPlus {
    type Params = LedbatPlusPlusParams;

    fn new(params: &LedbatPlusPlusParams, config: &CcConfig) -> Self {
        LedbatPlusPlus {
            window: Window::new(config, &SlowStartParams::default()),
            params: LedbatPlusPlusParams {
                target: params.target.max(TimeDelta::from_nanos(1)),
                decrease: within(params.decrease, 0.0, 1e3),
                max_gain_divisor: params.max_gain_divisor.max(1),
                ..*params
            },
            base: BaseDelay::new(params.base_history),
            current: CurrentDelay::new(params.current_filter),
            round: Round::default(),
            queueing: TimeDelta::ZERO,
            slow_down: SlowDown::NotYet,
        }
    }
}

impl LedbatPlusPlus {
    /// 1 / GAIN: min(16, ceil(2 * TARGET / base)).
    fn gain_divisor(&self) -> u64 {
        let base = self.base.get().as_nanos().max(1);
        let divisor = self.params.target.saturating_mul(2).as_nanos().div_ceil(base);
        divisor.clamp(1, u64::from(self.params.max_gain_divisor))
    }

    fn halved(&self) -> u64 {
        (self.window.cwnd / 2).max(2 * self.window.mss)
    }

    /// The additive increase or multiplicative decrease of one round trip.
    fn adjust(&mut self, may_grow: bool) {
        let floor = (2 * self.window.mss).min(self.window.cwnd);
        let cwnd = self.window.cwnd as f64;
        let gain = self.window.mss as f64 / self.gain_divisor() as f64;
        let over = self.queueing.as_secs_f64() / self.params.target.as_secs_f64() - 1.0;
        if over <= 0.0 {
            if may_grow {
                self.window.raise(gain as u64);
            }
        } else {
            let delta = (gain - self.params.decrease * cwnd * over).max(-cwnd / 2.0);
            if delta < 0.0 {
                self.window.cwnd = self.window.cwnd.saturating_sub(-delta as u64).max(floor);
                self.window.ssthresh = self.window.ssthresh.min(self.window.cwnd.max(2 * self.window.mss));
            } else if may_grow {
                self.window.raise(delta as u64);
            }
        }
    }

    /// Leaves slow start: the next slow-down is set.
    fn end_slow_start(&mut self, ack: &AckSample) {
        self.window.ssthresh = self.window.cwnd.max(2 * self.window.mss);
        self.slow_start_ended(ack);
    }

    fn slow_start_ended(&mut self, ack: &AckSample) {
        self.slow_down = match self.slow_down {
            SlowDown::NotYet => SlowDown::At(ack.now + ack.srtt * 2),
            SlowDown::Regaining { began } => SlowDown::At(ack.now + ack.now.saturating_since(began) * 9),
            other => other,
        };
    }

    /// Begins, keeps or ends a slow-down. Returns whether the window stands at two segments.
    fn slowed_down(&mut self, ack: &AckSample, ends: bool) -> bool {
        match self.slow_down {
            SlowDown::At(at) if self.params.slow_down && ack.now >= at => {
                let resume = self.window.cwnd;
                self.window.cwnd = resume.min(2 * self.window.mss);
                self.slow_down = SlowDown::Down { began: ack.now, rounds: 3, resume };
                true
            }
            SlowDown::Down { began, rounds, resume } => {
                let rounds = rounds - u8::from(ends);
                if rounds > 0 {
                    self.slow_down = SlowDown::Down { began, rounds, resume };
                    return true;
                }
                self.window.ssthresh = resume.max(2 * self.window.mss);
                self.slow_down = SlowDown::Regaining { began };
                false
            }
            _ => false,
        }
    }
}

impl CongestionControl for LedbatPlusPlus {
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.base.add(ack.now, rtt);
            let age = if ack.srtt.is_zero() { TimeDelta::MAX } else { ack.srtt };
            self.queueing = self.current.add(ack.now, rtt, age).saturating_sub(self.base.get());
        }
        let ends = self.round.ends(ack);
        if matches!(ack.phase, Phase::Recovery | Phase::Cwr) || self.slowed_down(ack, ends) {
            return;
        }
        if self.window.in_slow_start() {
            let first = matches!(self.slow_down, SlowDown::NotYet);
            if first && self.queueing > self.params.target * 3 / 4 {
                self.end_slow_start(ack);
            } else if may_grow(ack) {
                let counted = self.window.counted(ack) / self.gain_divisor();
                self.window.slow_start(ack, counted);
                if !self.window.in_slow_start() {
                    self.slow_start_ended(ack);
                }
            }
        } else if ends {
            // A loss while the window was being regained also ended that slow start.
            self.slow_start_ended(ack);
            self.adjust(may_grow(ack));
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.halved());
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.halved());
        self.current.clear();
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
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
        LedbatPlusPlusParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Feeder, config};
    use super::*;

    #[test]
    fn gain_and_decrease_are_the_drafts() {
        let mut cfg = config(40);
        cfg.initial_ssthresh = 40_000;
        let params = LedbatPlusPlusParams { slow_down: false, ..LedbatPlusPlusParams::default() };
        let mut ledbat = LedbatPlusPlus::new(&params, &cfg);
        let mut feeder = Feeder::default();
        feeder.round(&mut ledbat, 50);
        // ceil(120 / 50) = 3: a third of a segment per round trip.
        assert_eq!(ledbat.gain_divisor(), 3);
        let before = ledbat.cwnd();
        feeder.round(&mut ledbat, 50);
        assert_eq!(ledbat.cwnd() - before, 333);
        // 50 + 75 ms: a quarter over the target, so a quarter of the window minus the gain.
        ledbat.window.cwnd = 40_000;
        ledbat.queueing = TimeDelta::from_millis(75);
        ledbat.adjust(true);
        assert_eq!(ledbat.cwnd(), 40_000 - 9_666);
        // Far over: half, not more.
        ledbat.window.cwnd = 40_000;
        ledbat.queueing = TimeDelta::from_millis(600);
        ledbat.adjust(true);
        assert_eq!(ledbat.cwnd(), 20_000);
    }

    #[test]
    fn it_slows_down_two_round_trips_after_the_first_slow_start() {
        let mut ledbat = LedbatPlusPlus::new(&LedbatPlusPlusParams::default(), &config(10));
        let mut feeder = Feeder::default();
        feeder.round(&mut ledbat, 120);
        assert!(ledbat.window.in_slow_start());
        // 46 ms over the base: beyond three quarters of the target.
        feeder.round(&mut ledbat, 166);
        assert!(!ledbat.window.in_slow_start());
        let mut windows = vec![];
        for _ in 0..6 {
            feeder.round(&mut ledbat, 120);
            windows.push(ledbat.cwnd());
        }
        let down = windows.iter().filter(|&&cwnd| cwnd == 2000).count();
        assert!((2..=3).contains(&down), "{windows:?}");
        assert!(*windows.last().unwrap() > 2000, "{windows:?}");
    }
}
