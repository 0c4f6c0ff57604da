//! @TITLE@: what it does, in one sentence.
//!
//! Sources: the paper or RFC, with the numbers of the sections that the code follows.
//!
//! Departures: what is done otherwise than there, and why.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// @TITLE@ (author and year).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("@NAME@")]
pub struct @TYPE@Params {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// What remains of the window after a loss.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub beta: f64,
}

/// @TITLE@'s congestion control.
#[derive(Clone, Debug)]
pub struct @TYPE@ {
    window: Window,
    beta: f64,
}

impl BuiltIn for @TYPE@ {
    type Params = @TYPE@Params;

    fn new(params: &@TYPE@Params, config: &CcConfig) -> Self {
        @TYPE@ {
            window: Window::new(config, &params.slow_start),
            // A connection may be made of parameters that nobody has checked.
            beta: within(params.beta, 0.0, 1.0),
        }
    }
}

impl @TYPE@ {
    /// The window after a loss.
    fn threshold(&self) -> u64 {
        self.window.share(self.window.cwnd, self.beta)
    }
}

impl CongestionControl for @TYPE@ {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        // Zero in recovery, or while the window is not what limits sending.
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.threshold());
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.threshold());
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
        // Whatever else is in bytes and counts in segments: `change.scaled(bytes)`.
        self.window.on_mss(change);
    }
    fn name(&self) -> &'static str {
        @TYPE@Params::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::Controller;
    use super::super::testbed::{Bottleneck, config, event, sample};
    use super::*;

    #[test]
    fn the_window_doubles_then_adds_then_falls() {
        let mut @NAME@ = @TYPE@::new(&@TYPE@Params::default(), &config(10));
        @NAME@.on_ack(&sample(1, 10_000));
        assert_eq!(@NAME@.cwnd(), 20_000);
        @NAME@.on_congestion_event(&event(2, 20_000));
        assert_eq!((@NAME@.cwnd(), @NAME@.ssthresh()), (10_000, 10_000));
        @NAME@.on_ack(&sample(3, 10_000));
        assert_eq!(@NAME@.cwnd(), 11_000);
        @NAME@.on_rto(&event(4, 11_000));
        assert_eq!((@NAME@.cwnd(), @NAME@.ssthresh()), (1000, 5000));
        @NAME@.undo(Timestamp::from_millis(5));
        assert_eq!(@NAME@.cwnd(), 11_000);
    }

    #[test]
    fn alone_on_a_link_it_uses_it() {
        // 1000 packets/s and 50 ms: a pipe of 50 packets, and a queue as long.
        let @NAME@ = @TYPE@::new(&@TYPE@Params::default(), &config(10));
        let outcome = Bottleneck::new(vec![Controller::@TYPE@(@NAME@)], 1000, 50, 50).measure(10, 60);
        assert!(outcome.shares[0] > 0.95, "{}", outcome.shares[0]);
    }
}
