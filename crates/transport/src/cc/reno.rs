//! Reno: slow start, additive increase, multiplicative decrease.
//!
//! Sources: RFC 5681 section 3.1, RFC 3465 (byte counting), RFC 8511 (a milder answer to ECN), Linux tcp_cong.c.
//!
//! Departures: the threshold after a loss is a part of the congestion window, as in Linux, not of FlightSize, unless
//! [`RenoParams::reduce_from`] says so; congestion avoidance counts bytes and adds whole segments instead of
//! SMSS*SMSS/cwnd per acknowledgement.

use warpline_core::parameter::{Component, Parameters, Words};
use warpline_core::record::LossTrigger;
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// What a reduction starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum ReduceFrom {
    /// The congestion window (Linux).
    #[default]
    Window,
    /// The bytes in flight (RFC 5681 equation 4), where there are any.
    Flight,
}

/// Reno's window: slow start, one segment per round trip, half on loss (RFC 5681).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("reno")]
pub struct RenoParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// What remains of the window after a loss.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// What remains of the window after an ECN echo; RFC 8511 recommends 0.8.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub beta_ecn: f64,
    /// What a reduction starts from.
    pub reduce_from: ReduceFrom,
}

/// RFC 5681's congestion control.
#[derive(Clone, Debug)]
pub struct Reno {
    window: Window,
    beta: f64,
    beta_ecn: f64,
    reduce_from: ReduceFrom,
}

impl BuiltIn for Reno {
    type Params = RenoParams;

    fn new(params: &RenoParams, config: &CcConfig) -> Self {
        Reno {
            window: Window::new(config, &params.slow_start),
            beta: within(params.beta, 0.0, 1.0),
            beta_ecn: within(params.beta_ecn, 0.0, 1.0),
            reduce_from: params.reduce_from,
        }
    }
}

impl Reno {
    fn threshold(&self, event: &CongestionEvent) -> u64 {
        let base = match self.reduce_from {
            // A connection that marks everything lost at a time-out has nothing in flight: the window then stands in.
            ReduceFrom::Flight if event.in_flight > 0 => event.in_flight.min(self.window.cwnd),
            _ => self.window.cwnd,
        };
        let beta = if event.trigger == LossTrigger::Ecn { self.beta_ecn } else { self.beta };
        self.window.share(base, beta)
    }
}

impl CongestionControl for Reno {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.window.reduce(self.threshold(event));
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.window.collapse(self.threshold(event));
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
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
        RenoParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::slow_start::AckCounting;
    use super::super::testbed::{config, event, sample};
    use super::*;
    use crate::cc::Phase;

    #[test]
    fn the_window_doubles_then_adds_then_halves() {
        let mut reno = Reno::new(&RenoParams::default(), &config(10));
        for i in 0..5 {
            reno.on_ack(&sample(i, 2000));
        }
        assert_eq!(reno.cwnd(), 20_000);
        reno.on_congestion_event(&event(5, 20_000));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (10_000, 10_000));
        for i in 5..10 {
            reno.on_ack(&sample(i, 2000));
        }
        assert_eq!(reno.cwnd(), 11_000);
        reno.on_rto(&event(10, 11_000));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (1000, 5000));
        reno.undo(Timestamp::from_millis(11));
        assert_eq!((reno.cwnd(), reno.ssthresh()), (11_000, 10_000));
    }

    #[test]
    fn acknowledgements_count_as_the_decade_says() {
        let grown = |slow_start: SlowStartParams| {
            let mut reno = Reno::new(&RenoParams { slow_start, ..RenoParams::default() }, &config(10));
            for i in 1..=3 {
                reno.on_ack(&sample(i, 4000));
            }
            reno.cwnd()
        };
        assert_eq!(grown(SlowStartParams::default()), 22_000);
        assert_eq!(grown(SlowStartParams { limit: 2, ..Default::default() }), 16_000);
        assert_eq!(grown(SlowStartParams { limit: 1, ..Default::default() }), 13_000);
        assert_eq!(grown(SlowStartParams { counting: AckCounting::Acks, ..Default::default() }), 13_000);
    }

    #[test]
    fn the_threshold_comes_from_flight_where_asked_and_is_two_segments_at_least() {
        let params = RenoParams { reduce_from: ReduceFrom::Flight, beta_ecn: 0.8, ..RenoParams::default() };
        let mut reno = Reno::new(&params, &config(10));
        reno.on_congestion_event(&event(1, 6000));
        assert_eq!(reno.ssthresh(), 3000);
        reno.on_congestion_event(&event(2, 3000));
        assert_eq!(reno.ssthresh(), 2000);
        let mut reno = Reno::new(&params, &config(10));
        reno.on_congestion_event(&CongestionEvent { trigger: LossTrigger::Ecn, ..event(1, 10_000) });
        assert_eq!(reno.cwnd(), 8000);
    }

    #[test]
    fn nothing_grows_in_recovery_or_when_the_application_is_the_limit() {
        let mut reno = Reno::new(&RenoParams::default(), &config(10));
        for phase in [Phase::Recovery, Phase::Cwr] {
            reno.on_ack(&AckSample { phase, ..sample(1, 5000) });
        }
        reno.on_ack(&AckSample { cwnd_limited: false, ..sample(2, 5000) });
        assert_eq!(reno.cwnd(), 10_000);
        reno.on_ack(&AckSample { phase: Phase::Loss, ..sample(3, 1000) });
        assert_eq!(reno.cwnd(), 11_000);
    }
}
