//! Scalable TCP: every acknowledgement of a segment adds a hundredth of one, and a loss takes an eighth; how long a window needs to recover does not
//! depend on its size.
//!
//! Sources: T. Kelly, "Scalable TCP: Improving Performance in Highspeed Wide Area Networks" (ACM CCR 33(2), 2003); Linux tcp_scalable.c, from which
//! it comes that a window below 100 segments grows as Reno's, which is faster there.
//!
//! Departures: the paper is Reno up to a window of 16 segments (its "legacy window") and grows by a hundredth above it, so that growth falls to a sixth
//! at that window. Here, as in Linux, growth is the larger of the two, and a loss takes an eighth of every window;
//! [`ScalableParams::legacy_window`] gives the paper's halving.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// Scalable TCP (Kelly 2003).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("scalable")]
pub struct ScalableParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Segments of growth per segment acknowledged (the paper's a), where that is more than Reno's growth: above 100 segments with the default.
    #[parameter(default = 0.01, above = 0.0, max = 1.0, unit = "segments")]
    pub increase: f64,
    /// What part of the window a loss takes (the paper's b).
    #[parameter(default = 0.125, above = 0.0, below = 1.0)]
    pub decrease: f64,
    /// Window up to which a loss takes half of it: 16 segments in the paper, none in Linux.
    #[parameter(default = 0.0, min = 0.0, unit = "segments")]
    pub legacy_window: f64,
}

/// Scalable TCP's congestion control.
#[derive(Clone, Debug)]
pub struct Scalable {
    window: Window,
    /// Bytes acknowledged per segment of growth, whatever the window.
    per: u64,
    decrease: f64,
    /// In bytes.
    legacy: u64,
}

impl BuiltIn for Scalable {
    type Params = ScalableParams;

    fn new(params: &ScalableParams, config: &CcConfig) -> Self {
        let window = Window::new(config, &params.slow_start);
        let mss = window.mss as f64;
        Scalable {
            per: (mss / within(params.increase, 1e-9, 1.0)).round() as u64,
            decrease: within(params.decrease, 0.0, 1.0),
            legacy: (mss * within(params.legacy_window, 0.0, 1e9)) as u64,
            window,
        }
    }
}

impl Scalable {
    /// What remains of the window after a loss.
    fn reduced(&self) -> u64 {
        let decrease = if self.window.cwnd <= self.legacy { 0.5 } else { self.decrease };
        self.window.without(self.window.cwnd, decrease)
    }
}

impl CongestionControl for Scalable {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            // A window below two segments counts as two, as Reno's does.
            let reno = self.window.cwnd.max(2 * self.window.mss);
            self.window.grow(rest, reno.min(self.per));
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.reduced());
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.reduced());
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
        self.per = change.scaled(self.per);
        self.legacy = change.scaled(self.legacy);
    }
    fn name(&self) -> &'static str {
        ScalableParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event};
    use super::*;

    /// One in congestion avoidance with so many segments.
    fn avoiding(params: &ScalableParams, segments: u64) -> Scalable {
        Scalable::new(params, &CcConfig { initial_ssthresh: segments * MSS, ..config(segments) })
    }

    #[test]
    fn a_large_window_grows_by_a_hundredth_and_a_small_one_as_renos() {
        for (increase, segments, grown) in
            [(0.01, 20, 1), (0.01, 100, 1), (0.01, 1000, 10), (0.01, 5000, 50), (0.02, 1000, 20)]
        {
            let mut scalable = avoiding(&ScalableParams { increase, ..ScalableParams::default() }, segments);
            Feeder::default().round(&mut scalable, 100);
            assert_eq!(scalable.cwnd() / MSS - segments, grown, "{increase} of {segments}");
        }
    }

    #[test]
    fn a_loss_takes_an_eighth_and_undo_gives_it_back() {
        let paper = ScalableParams { legacy_window: 16.0, ..ScalableParams::default() };
        for (params, segments, remain) in [
            (ScalableParams::default(), 800, 700),
            (ScalableParams::default(), 16, 14),
            (paper, 16, 8),
            (paper, 24, 21),
        ] {
            let mut scalable = avoiding(&params, segments);
            scalable.on_congestion_event(&event(1, 0));
            assert_eq!((scalable.cwnd(), scalable.ssthresh()), (remain * MSS, remain * MSS));
            scalable.undo(Timestamp::from_millis(2));
            assert_eq!(scalable.cwnd(), segments * MSS);
            scalable.on_rto(&event(3, 0));
            assert_eq!((scalable.cwnd(), scalable.ssthresh()), (MSS, remain * MSS));
        }
    }

    #[test]
    fn recovery_takes_as_many_round_trips_whatever_the_window() {
        // From 7/8 back to the whole by a hundredth a round: ln(8/7) / ln(1.01) = 13.4 round trips.
        for segments in [800, 8000] {
            let mut scalable = avoiding(&ScalableParams::default(), segments);
            scalable.on_congestion_event(&event(0, 0));
            let mut feeder = Feeder::default();
            let rounds = (1..).find(|_| {
                feeder.round(&mut scalable, 100);
                scalable.cwnd() >= segments * MSS
            });
            assert_eq!(rounds, Some(14), "{segments}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_is_filled_sooner_than_by_reno() {
        // 4000 packets/s and 200 ms: a pipe of 800 packets, a tenth of it as queue.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            Bottleneck::new(vec![flow], 4000, 200, 80).measure(5, 60).shares[0]
        };
        let (scalable, reno) = (share("scalable"), share("reno"));
        assert!(scalable > 0.8 && scalable > reno + 0.3, "{scalable} against {reno}");
    }
}
