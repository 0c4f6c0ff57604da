//! A constant window: for flows limited to a window, and for tests.
//!
//! Departure from RFC 5681, and the point of it: neither losses nor time-outs change the window.

use warpline_core::Timestamp;
use warpline_core::parameter::{Component, Parameters};

use super::window::{MAX_WINDOW, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// A constant window: neither losses nor time-outs change it.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("fixed")]
pub struct FixedParams {
    /// The window; may be a fraction of a segment.
    #[parameter(default = 10.0, above = 0.0, unit = "segments")]
    pub segments: f64,
}

/// A window that does not move.
#[derive(Clone, Debug)]
pub struct Fixed {
    cwnd: u64,
}

impl BuiltIn for Fixed {
    type Params = FixedParams;

    fn new(params: &FixedParams, config: &CcConfig) -> Self {
        let bytes = params.segments * config.mss.max(1) as f64;
        Fixed { cwnd: within(bytes, 1.0, MAX_WINDOW as f64) as u64 }
    }
}

impl CongestionControl for Fixed {
    fn on_ack(&mut self, _ack: &AckSample) {}
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {}
    fn on_rto(&mut self, _event: &CongestionEvent) {}
    fn undo(&mut self, _now: Timestamp) {}
    #[inline]
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// The window itself: it is never in slow start.
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.cwnd
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.cwnd = change.scaled(self.cwnd).max(1);
    }
    fn name(&self) -> &'static str {
        FixedParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, event, sample};
    use super::*;

    #[test]
    fn it_stays() {
        let mut fixed = Fixed::new(&FixedParams { segments: 2.5 }, &config(10));
        fixed.on_ack(&sample(1, 1000));
        fixed.on_congestion_event(&event(2, 2000));
        fixed.on_rto(&event(3, 2000));
        assert_eq!((fixed.cwnd(), fixed.ssthresh()), (2500, 2500));
    }
}
