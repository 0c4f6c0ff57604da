//! Westwood+: Reno whose reduction goes to what the path was measured to carry.
//!
//! Sources: S. Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over Wireless Links"
//! (MobiCom 2001) and the + variant (one bandwidth sample per round trip, A. Dell'Aera, L. Grieco, S. Mascolo, 2004).
//! The filter, the constants and the order of events follow Linux tcp_westwood.c: after a loss the window halves, and
//! it takes the estimate when recovery ends (CA_EVENT_COMPLETE_CWR); an acknowledgement that ends a sample belongs to
//! the next one; a sample spans at least the last RTT.
//!
//! The kernel measures in ticks of its clock: RTTs are rounded up, and the bandwidth is in whole bytes per tick. That
//! is coarse on a short path: with 100 ticks a second, an RTT of 11 ms counts as 20 ms. [`WestwoodParams::tick`] does
//! the same.
//!
//! Departures: until there is an estimate the window halves. A sample counts the bytes acknowledged cumulatively and selectively, where
//! Linux reconstructs them from duplicate ACKs.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange};

/// Westwood+ (Grieco and Mascolo 2004).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("westwood")]
pub struct WestwoodParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Shortest time that a bandwidth sample spans, where the round trip is shorter.
    #[parameter(default = TimeDelta::from_millis(50), above = TimeDelta::ZERO)]
    pub min_sample: TimeDelta,
    /// Weight of the past in each of the two filters.
    #[parameter(default = 0.875, min = 0.0, below = 1.0)]
    pub smoothing: f64,
    /// Tick of the clock that times are measured in, as the kernel measures in jiffies: 10ms with HZ=100. 0s is exact.
    #[parameter(default = TimeDelta::ZERO)]
    pub tick: TimeDelta,
}

/// Westwood+'s congestion control.
#[derive(Clone, Debug)]
pub struct Westwood {
    window: Window,
    min_sample: TimeDelta,
    smoothing: f64,
    tick: u64,
    /// Bandwidth in bytes per second after the first filter and after both; zero before the first sample.
    once: f64,
    bandwidth: f64,
    /// When the present sample began, and the bytes acknowledged since.
    began: Option<Timestamp>,
    acked: u64,
    /// The last RTT and the smallest.
    rtt: TimeDelta,
    rtt_min: TimeDelta,
    /// A time-out may mean another path: the next RTT sample is taken as the smallest.
    reset_rtt_min: bool,
}

impl BuiltIn for Westwood {
    type Params = WestwoodParams;

    fn new(params: &WestwoodParams, config: &CcConfig) -> Self {
        Westwood {
            window: Window::new(config, &params.slow_start),
            min_sample: params.min_sample.max(TimeDelta::from_nanos(1)),
            smoothing: within(params.smoothing, 0.0, 1.0),
            tick: params.tick.as_nanos(),
            once: 0.0,
            bandwidth: 0.0,
            began: None,
            acked: 0,
            rtt: TimeDelta::ZERO,
            rtt_min: TimeDelta::MAX,
            reset_rtt_min: false,
        }
    }
}

impl Westwood {
    /// The bandwidth estimate in bytes per second; zero before the first sample.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// A time in whole ticks, rounded up.
    fn ticked(&self, span: TimeDelta) -> TimeDelta {
        match self.tick {
            0 => span,
            tick => TimeDelta::from_nanos(span.as_nanos().div_ceil(tick).saturating_mul(tick)),
        }
    }

    /// The beginning of the tick that `now` lies in.
    fn tick_of(&self, now: Timestamp) -> Timestamp {
        match self.tick {
            0 => now,
            tick => Timestamp::from_nanos(now.as_nanos() - now.as_nanos() % tick),
        }
    }

    /// A bandwidth in whole bytes per tick.
    fn whole(&self, bandwidth: f64) -> f64 {
        match self.tick {
            0 => bandwidth,
            tick => (bandwidth * tick as f64 / 1e9).trunc() * 1e9 / tick as f64,
        }
    }

    #[inline]
    fn measure(&mut self, ack: &AckSample) {
        let now = self.tick_of(ack.now);
        let began = *self.began.get_or_insert(now);
        let span = now.saturating_since(began);
        if !self.rtt.is_zero() && span > self.rtt.max(self.min_sample) {
            let sample = self.whole(self.acked as f64 / span.as_secs_f64());
            if self.bandwidth == 0.0 {
                self.once = sample;
                self.bandwidth = sample;
            } else {
                let old = self.smoothing;
                self.once = self.whole(old * self.once + (1.0 - old) * sample);
                self.bandwidth = self.whole(old * self.bandwidth + (1.0 - old) * self.once);
            }
            self.began = Some(now);
            self.acked = 0;
        }
        self.acked = self.acked.saturating_add(ack.acked);
        if let Some(rtt) = ack.rtt {
            self.rtt = self.ticked(rtt);
            self.rtt_min = if self.reset_rtt_min { self.rtt } else { self.rtt_min.min(self.rtt) };
            self.reset_rtt_min = false;
        }
    }

    /// The estimate times the smallest RTT in whole segments, at least two; half the window without an estimate.
    fn pipe(&self) -> u64 {
        if self.bandwidth == 0.0 || self.rtt_min == TimeDelta::MAX {
            return self.window.share(self.window.cwnd, 0.5);
        }
        let pipe = (self.bandwidth * self.rtt_min.as_secs_f64()) as u64;
        self.window.whole(pipe).clamp(2 * self.window.mss, MAX_WINDOW)
    }
}

impl CongestionControl for Westwood {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.measure(ack);
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.window.share(self.window.cwnd, 0.5));
    }
    fn on_recovery_exit(&mut self, _now: Timestamp) {
        if self.bandwidth > 0.0 {
            self.window.ssthresh = self.pipe();
            self.window.cwnd = self.window.ssthresh;
        }
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.pipe());
        self.reset_rtt_min = true;
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
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
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
    }
    fn name(&self) -> &'static str {
        WestwoodParams::KIND
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
    fn a_loss_halves_and_the_end_of_recovery_takes_what_the_path_carries() {
        for segments in [200, 20] {
            let mut westwood = steady(segments, 1000);
            assert!((westwood.bandwidth() - 1e6).abs() < 1.0, "{}", westwood.bandwidth());
            westwood.on_congestion_event(&event(1000, 0));
            assert_eq!(westwood.cwnd(), segments * 500);
            westwood.on_recovery_exit(Timestamp::from_millis(1100));
            // 1 MB/s * 60 ms: 60 segments, or 59 by rounding.
            assert!((59_000..=60_000).contains(&westwood.cwnd()), "{}", westwood.cwnd());
            assert_eq!(westwood.cwnd(), westwood.ssthresh());
            westwood.on_rto(&event(1101, 0));
            assert_eq!(westwood.cwnd(), 1000);
            assert!((59_000..=60_000).contains(&westwood.ssthresh()));
        }
    }

    #[test]
    fn after_a_time_out_the_path_may_be_longer() {
        let mut westwood = steady(200, 1000);
        westwood.on_rto(&event(1000, 0));
        westwood.on_ack(&AckSample { cwnd_limited: false, ..sample(1001, 1000) });
        // The sample of 100 ms has replaced the smallest of 60.
        assert!((99_000..=100_000).contains(&westwood.pipe()), "{}", westwood.pipe());
    }

    #[test]
    fn both_filters_smooth_and_what_ends_a_sample_belongs_to_the_next() {
        let mut westwood = steady(200, 102);
        assert!((westwood.bandwidth() - 1e6).abs() < 1.0);
        // A sample of one segment, 200 ms long: 5 kB/s. 1 MB/s * 7/8 + that / 8 = 875.6 kB/s, and 7/8 of 1 + 1/8 of that 984.45.
        westwood.on_ack(&sample(301, 100_000));
        assert!((westwood.bandwidth() - 984_453.0).abs() < 10.0, "{}", westwood.bandwidth());
    }

    #[test]
    fn a_clock_with_ticks_rounds_as_the_kernel_does() {
        let tick = TimeDelta::from_millis(10);
        let mut westwood = Westwood::new(&WestwoodParams { tick, ..WestwoodParams::default() }, &config(20));
        for now in 0..500 {
            let mut ack = sample(now, 1001);
            ack.rtt = Some(TimeDelta::from_millis(11));
            westwood.on_ack(&ack);
        }
        // 1001 bytes per millisecond are 10010 per tick, and 11 ms are two ticks.
        assert!((westwood.bandwidth() - 1_001_000.0).abs() < 1.0, "{}", westwood.bandwidth());
        assert_eq!(westwood.pipe(), 20_000);
    }

    #[test]
    fn without_an_estimate_it_halves() {
        let mut westwood = Westwood::new(&WestwoodParams::default(), &config(20));
        westwood.on_congestion_event(&event(1, 0));
        assert_eq!(westwood.cwnd(), 10_000);
    }
}
