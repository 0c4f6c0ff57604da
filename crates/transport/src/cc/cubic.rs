//! CUBIC: the window is a cubic function of the time since the last reduction, at least as large as Reno's would be.
//!
//! Source: RFC 9438 (section numbers below are its), with Linux's HyStart in slow start (section 4.10 asks for HyStart++, RFC 9406,
//! which is there too). Like Linux's bictcp_update, the function is evaluated when the window has grown by a segment or 1/32 s has
//! passed, and a byte counter stands between.
//!
//! Departures: the threshold is a part of the congestion window, not of FlightSize (section 4.6), as in Linux. Time
//! in which the application was the limit is taken out of the epoch at each acknowledgement (section 5.8). Some rules
//! are those of Linux (bictcp_update) and not of section 4.3. The window always grows at the faster of the two rates,
//! the function's and Reno's, where the RFC uses the function's rate whenever the function is ahead. Reno's window
//! does not grow faster once the last maximum is regained ([`CubicParams::catch_up`]). The function is looked up a smallest RTT ahead (delay_min),
//! where section 4.2 says the smoothed one, so a queue does not make the window grow faster. Maximum, target and Reno's
//! lead are in whole segments, which matters at small windows. An undo restores the window, and not the function
//! ([`CubicParams::restore`]). Before the first loss, or after a time-out, the window
//! grows by at least 5 % per round trip.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp, float};

use super::slow_start::{Hystart, SlowStartParams};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// How long a growth rate is used at most (Linux: HZ/32).
const REFRESH: TimeDelta = TimeDelta::from_micros(31_250);

/// CUBIC (RFC 9438).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("cubic")]
pub struct CubicParams {
    /// Slow start and byte counting.
    #[parameter(flatten, default = SlowStartParams { hystart: Hystart::Linux, ..SlowStartParams::default() })]
    pub slow_start: SlowStartParams,
    /// C, the aggressiveness, in segments per second cubed.
    #[parameter(default = 0.4, above = 0.0)]
    pub c: f64,
    /// What remains of the window after a loss.
    #[parameter(default = 0.7, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// What remains of the window after an ECN echo; RFC 8511 recommends 0.85.
    #[parameter(default = 0.7, above = 0.0, below = 1.0)]
    pub beta_ecn: f64,
    /// Whether a flow that lost before it regained its last maximum gives way to newer flows (RFC 9438 section 4.7).
    #[parameter(default = true)]
    pub fast_convergence: bool,
    /// Whether the window is at least what Reno's would be (RFC 9438 section 4.3).
    #[parameter(default = true)]
    pub reno_friendly: bool,
    /// Whether Reno's window is taken to grow by a whole segment per round trip once it has regained the last maximum, as RFC 9438 section 4.3
    /// has it; Linux (tcp_cubic.c, bictcp_update) does not.
    pub catch_up: bool,
    /// Whether the undo of a needless reduction restores the function as well as the window (RFC 9438 section 4.9.2). Linux restores the window only, and the
    /// function begins anew.
    pub restore: bool,
}

/// Without a known maximum the window grows by at least this part of itself per round trip (5 %; Linux bictcp_update).
const BLIND_PART: u64 = 20;

/// What belongs to one stage of congestion avoidance. Windows in bytes.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it began; [`Timestamp::NEVER`] before.
    start: Timestamp,
    /// Seconds from its start until the function reaches `w_max`.
    k: f64,
    /// Window before the last reduction, after fast convergence; 0 while there was none.
    w_max: f64,
    /// Window that Reno would have.
    w_est: f64,
    /// Window before the last reduction.
    cwnd_prior: f64,
}

/// What a reduction changes beside the window.
#[derive(Clone, Copy, Debug)]
struct Prior {
    epoch: Epoch,
    blind: bool,
}

/// RFC 9438's congestion control.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: Window,
    c: f64,
    beta: f64,
    beta_ecn: f64,
    fast_convergence: bool,
    reno_friendly: bool,
    catch_up: bool,
    restore: bool,
    /// No loss is remembered: none has been, or a time-out was the last.
    blind: bool,
    epoch: Epoch,
    /// The state before the last reduction, for undo; allocated at the first one.
    prior: Option<Box<Prior>>,
    /// Bytes acknowledged per segment of growth, until `refresh`.
    per: u64,
    refresh: Timestamp,
    /// Bytes acknowledged since the last evaluation.
    counted: u64,
    last_ack: Timestamp,
}

impl BuiltIn for Cubic {
    type Params = CubicParams;

    fn new(params: &CubicParams, config: &CcConfig) -> Self {
        Cubic {
            window: Window::new(config, &params.slow_start),
            c: within(params.c, 1e-9, 1e9),
            beta: within(params.beta, 0.0, 1.0),
            beta_ecn: within(params.beta_ecn, 0.0, 1.0),
            fast_convergence: params.fast_convergence,
            reno_friendly: params.reno_friendly,
            catch_up: params.catch_up,
            restore: params.restore,
            blind: true,
            epoch: Epoch { start: Timestamp::NEVER, k: 0.0, w_max: 0.0, w_est: 0.0, cwnd_prior: 0.0 },
            prior: None,
            per: u64::MAX,
            refresh: Timestamp::ZERO,
            counted: 0,
            last_ack: Timestamp::ZERO,
        }
    }
}

impl Cubic {
    /// Begins an epoch at the present window (section 4.2, equation 2).
    fn begin_epoch(&mut self, now: Timestamp) {
        let cwnd = self.window.cwnd as f64;
        let epoch = &mut self.epoch;
        epoch.start = now;
        epoch.w_est = cwnd;
        if epoch.w_max > cwnd {
            epoch.k = float::cbrt((epoch.w_max - cwnd) / (self.c * self.window.mss as f64));
        } else {
            // After a time-out or without any loss before: the convex part begins here (section 4.8).
            epoch.k = 0.0;
            epoch.w_max = cwnd;
        }
        self.counted = 0;
    }

    /// Sets `per` by the faster of the function and Reno.
    fn evaluate(&mut self, ack: &AckSample) {
        let cwnd = self.window.cwnd as f64;
        let mss = self.window.mss as f64;
        let t = ack.now.saturating_since(self.epoch.start).as_secs_f64();
        self.refresh = ack.now + REFRESH;
        let counted = std::mem::take(&mut self.counted);
        // The function (equation 1) a round trip ahead, in whole segments as Linux has it: what is missing to W_max is rounded down.
        let d = t + ack.min_rtt.as_secs_f64() - self.epoch.k;
        let distance = (self.c * (d * d * d)).trunc() * mss;
        let gap = self.epoch.w_max + distance - cwnd;
        self.per = if gap >= 1.0 { (cwnd * mss / gap) as u64 } else { u64::MAX };
        if self.blind {
            self.per = self.per.min(BLIND_PART * self.window.mss);
        }
        if self.reno_friendly {
            // Reno's increase with this beta (section 4.3).
            let beta = self.beta;
            let alpha = if self.catch_up && self.epoch.w_est >= self.epoch.cwnd_prior {
                1.0
            } else {
                3.0 * (1.0 - beta) / (1.0 + beta)
            };
            self.epoch.w_est += alpha * mss * (counted as f64 / cwnd);
            let ahead = self.epoch.w_est - cwnd;
            if ahead >= mss {
                self.per = self.per.min((cwnd * mss / ahead) as u64);
            }
        }
        // At most half of a window per round trip.
        self.per = self.per.max(2 * self.window.mss);
    }

    /// A loss has shown the largest window that the path takes: this one, or less where it is below the last (fast convergence, section 4.7).
    fn take_maximum(&mut self) {
        let cwnd = self.window.cwnd as f64;
        let below = self.fast_convergence && cwnd < self.epoch.w_max;
        let maximum = if below { cwnd * (1.0 + self.beta) / 2.0 } else { cwnd };
        self.epoch.w_max = self.window.whole(maximum as u64) as f64;
        self.blind = false;
    }

    fn before_reduction(&mut self) {
        let state = Prior { epoch: self.epoch, blind: self.blind };
        match &mut self.prior {
            Some(prior) => **prior = state,
            None => self.prior = Some(Box::new(state)),
        }
        self.epoch.start = Timestamp::NEVER;
        self.epoch.cwnd_prior = self.window.cwnd as f64;
    }

    fn threshold(&self, event: &CongestionEvent) -> u64 {
        let beta = if event.trigger == LossTrigger::Ecn { self.beta_ecn } else { self.beta };
        self.window.share(self.window.cwnd, beta)
    }
}

impl CongestionControl for Cubic {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        let last_ack = std::mem::replace(&mut self.last_ack, ack.now);
        let counted = self.window.counted(ack);
        if counted == 0 {
            if !ack.cwnd_limited && self.epoch.start.is_set() {
                self.epoch.start += ack.now.saturating_since(last_ack);
            }
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest == 0 {
            return;
        }
        if !self.epoch.start.is_set() {
            self.begin_epoch(ack.now);
            self.refresh = ack.now;
        }
        self.counted = self.counted.saturating_add(rest);
        if ack.now >= self.refresh {
            self.evaluate(ack);
        }
        if self.window.grow(rest, self.per) {
            self.refresh = ack.now;
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.before_reduction();
        self.take_maximum();
        self.window.reduce(self.threshold(event));
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.before_reduction();
        // Tahoe's fast retransmit comes here, too, but a loss has shown the maximum.
        if event.trigger == LossTrigger::Rto {
            self.blind = true;
            // The next stage starts with K = 0 at its own window (section 4.8).
            self.epoch.w_max = 0.0;
        } else {
            self.take_maximum();
        }
        self.window.collapse(self.threshold(event));
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, now: Timestamp) {
        let outgrown = self.window.has_outgrown();
        // Section 4.9.2, if wanted: the function goes on as if nothing had been. But if the window has grown beyond what it lost, the present function stays.
        if self.window.undo()
            && self.restore
            && !outgrown
            && let Some(prior) = &self.prior
        {
            (self.epoch, self.blind) = (prior.epoch, prior.blind);
            self.refresh = now;
        }
    }
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.on_restart(now, true);
        let before = self.window.cwnd;
        self.window.restart(idle, rto);
        if self.window.cwnd < before {
            self.epoch.start = Timestamp::NEVER;
        }
    }
    fn on_restart(&mut self, now: Timestamp, _app_limited: bool) {
        // Time in which nothing was in flight is not the function's (section 5.8; Linux cubictcp_cwnd_event).
        let idle = now.saturating_since(std::mem::replace(&mut self.last_ack, now));
        if self.epoch.start.is_set() {
            self.epoch.start += idle;
        }
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
        let prior = self.prior.as_deref_mut().map(|prior| &mut prior.epoch);
        for epoch in std::iter::once(&mut self.epoch).chain(prior) {
            for window in [&mut epoch.w_max, &mut epoch.w_est, &mut epoch.cwnd_prior] {
                *window = change.scaled_part(*window);
            }
        }
        self.counted = change.scaled(self.counted);
        self.per = if self.per == u64::MAX { u64::MAX } else { change.scaled(self.per) };
    }
    fn name(&self) -> &'static str {
        CubicParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, event, sample, time_out};
    use super::*;

    /// Window after `seconds` of a steady stream of acknowledgements, a window per `rtt_ms`, after a loss at `segments`.
    fn after_loss(params: &CubicParams, segments: u64, rtt_ms: u64, seconds: f64) -> f64 {
        let mut cubic = Cubic::new(params, &config(segments));
        cubic.on_congestion_event(&event(0, segments * 1000));
        let mut now = 0u64;
        let end = (seconds * 1e9) as u64;
        while now < end {
            let mut ack = sample(0, 1000);
            ack.now = Timestamp::from_nanos(now);
            // A queue as long as the path is no reason to look further ahead.
            ack.min_rtt = TimeDelta::from_millis(rtt_ms);
            ack.srtt = ack.min_rtt * 2;
            cubic.on_ack(&ack);
            now += rtt_ms * 1_000_000 * 1000 / cubic.cwnd();
        }
        cubic.cwnd() as f64 / 1000.0
    }

    #[test]
    fn the_window_follows_the_function_of_the_rfc() {
        // W_max 1000, beta 0.7: K = cbrt(300 / 0.4) = 9.0856 s. With an RTT of 100 ms the target is a round trip ahead.
        let params = CubicParams::default();
        let k = float::cbrt(300.0 / 0.4);
        for t in [2.0, 5.0, 9.0, 12.0, 15.0] {
            let expected = 0.4 * float::powf(t - k, 3.0) + 1000.0;
            let got = after_loss(&params, 1000, 100, t);
            assert!((got - expected).abs() < 0.02 * expected, "t={t}: {got} instead of {expected}");
        }
    }

    #[test]
    fn on_a_short_path_the_window_is_renos() {
        // W_max 20, RTT 10 ms: W_est = 14 + 0.529 per round trip: 20 are reached after 113 ms. It is looked at every 1/32 s, which is three
        // round trips, and followed in whole segments.
        let got = after_loss(&CubicParams::default(), 20, 10, 0.1);
        assert!((17.0..=14.0 + 0.529 * 10.0).contains(&got), "{got}");
        // Linux goes on like that (tcp_cubic.c, bictcp_update); by the RFC it is one per round trip from there.
        let got = after_loss(&CubicParams::default(), 20, 10, 0.5);
        assert!((got - (14.0 + 0.529 * 50.0)).abs() < 2.0, "{got}");
        let rfc = CubicParams { catch_up: true, ..CubicParams::default() };
        let got = after_loss(&rfc, 20, 10, 0.5);
        // Three round trips behind, and some until the lead has been made good.
        let w_est = 20.0 + (500.0 - 113.4) / 10.0;
        assert!((w_est - 6.0..=w_est).contains(&got), "{got}");
        let alone = CubicParams { reno_friendly: false, ..CubicParams::default() };
        // Without it the function alone: K = cbrt(6 / 0.4) = 2.466 s, W(0.5) = 20 - 0.4 * 1.966^3 = 16.96.
        let got = after_loss(&alone, 20, 10, 0.5);
        assert!((got - 16.96).abs() < 1.01, "{got}");
    }

    #[test]
    fn a_second_loss_below_the_maximum_lowers_the_maximum() {
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.on_congestion_event(&event(1, 0));
        assert_eq!((cubic.cwnd(), cubic.epoch.w_max), (70_000, 100_000.0));
        cubic.on_congestion_event(&event(2, 0));
        assert_eq!(cubic.cwnd(), 49_000);
        // 59.5 segments, of which the whole ones count.
        assert_eq!(cubic.epoch.w_max, 59_000.0);
        cubic.undo(Timestamp::from_millis(3));
        assert_eq!((cubic.cwnd(), cubic.epoch.w_max), (70_000, 59_000.0));
    }

    #[test]
    fn an_undone_reduction_leaves_nothing_behind() {
        let rfc = CubicParams { restore: true, ..CubicParams::default() };
        let state = |cubic: &Cubic| {
            let Epoch { start, k, w_max, w_est, cwnd_prior } = cubic.epoch;
            (cubic.cwnd(), cubic.ssthresh(), cubic.blind, start, [k, w_max, w_est, cwnd_prior])
        };
        // The smallest window is not reduced, but the reduction is counted, and the threshold falls.
        let mut cubic = Cubic::new(&rfc, &config(2));
        let before = state(&cubic);
        cubic.on_congestion_event(&event(0, 2000));
        assert!(!cubic.blind);
        cubic.undo(Timestamp::from_millis(10));
        assert_eq!(state(&cubic), before);
        // In congestion avoidance, with a maximum that a loss has shown and without one.
        for lost in [true, false] {
            let mut cubic = Cubic::new(&rfc, &config(100));
            cubic.window.ssthresh = 100_000;
            if lost {
                cubic.on_congestion_event(&event(0, 100_000));
            }
            cubic.on_ack(&sample(10, 1000));
            let before = state(&cubic);
            assert_eq!((before.2, before.3), (!lost, Timestamp::from_millis(10)));
            cubic.on_congestion_event(&event(20, 100_000));
            assert!(!cubic.blind && !cubic.epoch.start.is_set());
            cubic.undo(Timestamp::from_millis(30));
            assert_eq!(state(&cubic), before);
            cubic.on_rto(&time_out(40, 100_000));
            assert!(cubic.blind && !cubic.epoch.start.is_set());
            cubic.undo(Timestamp::from_millis(50));
            assert_eq!(state(&cubic), before);
        }
    }

    #[test]
    fn an_undo_that_comes_after_the_window_has_grown_again_leaves_the_function_as_it_is() {
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.on_congestion_event(&event(0, 100_000));
        cubic.window.cwnd = 120_000;
        cubic.undo(Timestamp::from_secs(10));
        assert_eq!((cubic.cwnd(), cubic.blind, cubic.epoch.w_max), (120_000, false, 100_000.0));
    }

    #[test]
    fn after_a_fast_retransmit_of_tahoe_the_function_leads_to_the_maximum() {
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.on_rto(&event(0, 100_000));
        assert_eq!((cubic.cwnd(), cubic.ssthresh(), cubic.blind), (1000, 70_000, false));
        assert_eq!(cubic.epoch.w_max, 100_000.0);
    }

    #[test]
    fn after_a_time_out_the_function_starts_at_the_window_it_finds() {
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.on_rto(&time_out(0, 100_000));
        assert_eq!((cubic.cwnd(), cubic.ssthresh()), (1000, 70_000));
        for _ in 0..70 {
            cubic.on_ack(&sample(1, 1000));
        }
        assert_eq!((cubic.epoch.k, cubic.epoch.w_max), (0.0, 70_000.0));
    }

    #[test]
    fn without_a_loss_to_go_by_it_grows_by_a_twentieth_per_round_trip() {
        // Slow start was left at 100 segments by a time-out long ago: K = 0, so that the function alone gives next to nothing at first.
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.window.ssthresh = 100_000;
        for now in 0..20 {
            let mut ack = sample(now, 5000);
            ack.srtt = TimeDelta::from_millis(20);
            cubic.on_ack(&ack);
        }
        assert!((104_000..=106_000).contains(&cubic.cwnd()), "{}", cubic.cwnd());
    }

    #[test]
    fn time_without_anything_to_send_is_not_in_the_epoch() {
        let mut cubic = Cubic::new(&CubicParams::default(), &config(100));
        cubic.on_congestion_event(&event(0, 100_000));
        cubic.on_ack(&sample(10, 1000));
        let start = cubic.epoch.start;
        cubic.on_ack(&AckSample { cwnd_limited: false, ..sample(60, 1000) });
        assert_eq!(cubic.epoch.start - start, TimeDelta::from_millis(50));
        cubic.on_idle(Timestamp::from_millis(200), TimeDelta::from_millis(100), TimeDelta::from_millis(300));
        assert_eq!(cubic.epoch.start - start, TimeDelta::from_millis(190));
        // So does any other start of sending, where an idle window does not restart.
        cubic.on_restart(Timestamp::from_millis(300), false);
        assert_eq!(cubic.epoch.start - start, TimeDelta::from_millis(290));
    }
}
