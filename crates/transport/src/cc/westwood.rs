//! Westwood+: Reno whose reduction goes to what the path was measured to carry.
//!
//! Sources: S. Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over Wireless Links" (MobiCom
//! 2001) and the + variant (one bandwidth sample per round trip, A. Dell'Aera, L. Grieco, S. Mascolo, 2004); filter and
//! constants follow Linux tcp_westwood.c.
//!
//! Departures: after a loss the threshold is the estimate at once, as in the papers, while Linux halves and takes the
//! estimate when recovery ends; the window is never raised by it. Until there is an estimate the window halves. RTTmin is
//! the smallest RTT sample, not the smallest smoothed RTT. A sample counts the bytes acknowledged cumulatively and
//! selectively, where Linux reconstructs them from duplicate ACKs.

use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::{SlowStart, SlowStartParams};
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, CcConfig, CongestionControl, CongestionEvent};

/// Parameters of [`Westwood`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WestwoodParams {
    /// Slow start and byte counting.
    pub slow_start: SlowStartParams,
    /// Shortest time that a bandwidth sample spans, where the round trip is shorter. Default 50 ms.
    pub min_sample: TimeDelta,
    /// Weight of the past in each of the two filters. Default 7/8.
    pub smoothing: f64,
}

impl Default for WestwoodParams {
    fn default() -> Self {
        WestwoodParams {
            slow_start: SlowStartParams::default(),
            min_sample: TimeDelta::from_millis(50),
            smoothing: 0.875,
        }
    }
}

/// Westwood+'s congestion control.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: Window,
    slow_start: SlowStart,
    min_sample: TimeDelta,
    smoothing: f64,
    /// Bandwidth in bytes per second after the first filter and after both; zero before the first sample.
    once: f64,
    bandwidth: f64,
    /// When the present sample began, and the bytes acknowledged since.
    began: Option<Timestamp>,
    acked: u64,
    rtt_min: TimeDelta,
    /// A time-out may mean another path: the next RTT sample is taken as the smallest.
    reset_rtt_min: bool,
}

impl Westwood {
    /// A new connection's.
    pub fn new(params: &WestwoodParams, config: &CcConfig) -> Self {
        Westwood {
            window: Window::new(config),
            slow_start: SlowStart::new(&params.slow_start),
            min_sample: params.min_sample.max(TimeDelta::from_nanos(1)),
            smoothing: within(params.smoothing, 0.0, 1.0),
            once: 0.0,
            bandwidth: 0.0,
            began: None,
            acked: 0,
            rtt_min: TimeDelta::MAX,
            reset_rtt_min: false,
        }
    }

    /// The bandwidth estimate in bytes per second; zero before the first sample.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    #[inline]
    fn measure(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.rtt_min = if self.reset_rtt_min { rtt } else { self.rtt_min.min(rtt) };
            self.reset_rtt_min = false;
        }
        let Some(began) = self.began else {
            // What the first acknowledgement covers was sent before the sample.
            self.began = Some(ack.now);
            return;
        };
        // The acknowledgement that closes a sample belongs to it: it is what the path delivered by now.
        self.acked = self.acked.saturating_add(ack.acked);
        let span = ack.now.saturating_since(began);
        if span > ack.srtt.max(self.min_sample) {
            let sample = self.acked as f64 / span.as_secs_f64();
            if self.bandwidth == 0.0 {
                self.once = sample;
                self.bandwidth = sample;
            } else {
                let old = self.smoothing;
                self.once = old * self.once + (1.0 - old) * sample;
                self.bandwidth = old * self.bandwidth + (1.0 - old) * self.once;
            }
            self.began = Some(ack.now);
            self.acked = 0;
        }
    }

    /// The estimate times the smallest RTT, at least two segments; half the window without an estimate.
    fn threshold(&self) -> u64 {
        if self.bandwidth == 0.0 || self.rtt_min == TimeDelta::MAX {
            return self.window.share(self.window.cwnd, 0.5);
        }
        let pipe = (self.bandwidth * self.rtt_min.as_secs_f64()) as u64;
        pipe.clamp(2 * self.window.mss, MAX_WINDOW)
    }
}

impl CongestionControl for Westwood {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.measure(ack);
        let counted = self.slow_start.counted(ack);
        if counted > 0 {
            let rest = self.slow_start.on_ack(&mut self.window, ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        // Never above the window: a loss must not raise the threshold into new slow start.
        let threshold = self.threshold().min(self.window.cwnd.max(2 * self.window.mss));
        self.window.reduce(threshold);
        self.slow_start.on_reduction();
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.threshold());
        self.reset_rtt_min = true;
        self.slow_start.on_rto();
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
        // Idle time is no bandwidth of the path.
        self.began = Some(now);
        self.acked = 0;
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.window.cwnd
    }
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }
    fn name(&self) -> &'static str {
        "westwood"
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{config, event, sample};
    use super::*;

    /// A kilobyte per millisecond for `millis`, at an RTT of 100 ms of which 60 are the path's.
    fn steady(segments: u64, millis: u64) -> Westwood {
        let mut westwood = Westwood::new(&WestwoodParams::default(), &config(segments));
        for now in 0..millis {
            let mut ack = sample(now, 1000);
            ack.rtt = Some(TimeDelta::from_millis(if now == 0 { 60 } else { 100 }));
            ack.srtt = TimeDelta::from_millis(100);
            ack.cwnd_limited = false;
            westwood.on_ack(&ack);
        }
        westwood
    }

    #[test]
    fn a_loss_leaves_what_the_path_carries() {
        let mut westwood = steady(200, 1000);
        assert!((westwood.bandwidth() - 1e6).abs() < 1.0, "{}", westwood.bandwidth());
        westwood.on_congestion_event(&event(1000, 0));
        // 1 MB/s * 60 ms, to a byte of rounding.
        assert!(westwood.cwnd().abs_diff(60_000) <= 1);
        // A loss of a small window does not raise it.
        let mut westwood = steady(20, 1000);
        westwood.on_congestion_event(&event(1000, 0));
        assert_eq!((westwood.cwnd(), westwood.ssthresh()), (20_000, 20_000));
        westwood.on_rto(&event(1001, 0));
        assert_eq!(westwood.cwnd(), 1000);
        assert!(westwood.ssthresh().abs_diff(60_000) <= 1);
    }

    #[test]
    fn after_a_time_out_the_path_may_be_longer() {
        let mut westwood = steady(200, 1000);
        westwood.on_rto(&event(1000, 0));
        westwood.on_ack(&AckSample { cwnd_limited: false, ..sample(1001, 1000) });
        westwood.on_congestion_event(&event(1002, 0));
        // The sample of 100 ms has replaced the smallest of 60.
        assert!(westwood.threshold().abs_diff(100_000) <= 1);
    }

    #[test]
    fn both_filters_smooth() {
        let mut westwood = steady(200, 102);
        assert!((westwood.bandwidth() - 1e6).abs() < 1.0);
        // A sample of nothing but one byte, 200 ms long: 1 MB/s * 7/8 = 0.875, and 7/8 of 1 + 1/8 of that is 0.984375.
        let mut ack = sample(301, 1);
        ack.srtt = TimeDelta::from_millis(100);
        westwood.on_ack(&ack);
        assert!((westwood.bandwidth() - 984_375.0).abs() < 100.0, "{}", westwood.bandwidth());
    }

    #[test]
    fn without_an_estimate_it_halves() {
        let mut westwood = Westwood::new(&WestwoodParams::default(), &config(20));
        westwood.on_congestion_event(&event(1, 0));
        assert_eq!(westwood.cwnd(), 10_000);
    }
}
