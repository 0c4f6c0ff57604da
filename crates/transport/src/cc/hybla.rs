//! TCP Hybla: a connection with a long round trip grows as fast, in time, as one with a round trip of 25 ms would; for satellites.
//!
//! Sources: C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks" (International Journal of Satellite Communications and
//! Networking 22, 2004); Linux tcp_hybla.c.
//!
//! With rho the round trip over 25 ms, and at least 1:
//!
//! * In slow start every segment acknowledged adds 2^rho - 1 segments, up to the threshold.
//! * In congestion avoidance it adds rho^2 / W segments: rho^2 per round trip.
//! * Losses are Reno's. Until the connection is in good order again, growth is Reno's, too.
//!
//! The window stays below 65536 segments, as in Linux. The round trip is the smallest smoothed one so far, as in Linux, so that the queue does not count.
//!
//! Departures: rho and 2^rho are exact, where Linux has steps of an eighth. Growth goes by the bytes acknowledged and not by acknowledgement, so
//! that delayed ones do not halve it; `counting = acks` gives Linux's. The initial window is the connection's, where Linux sets
//! it to rho segments.

use warpline_core::float;
use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// Largest rho that slow start goes by (Linux).
const MAX_EXPONENT: f64 = 16.0;

/// TCP Hybla (Caini and Firrincieli 2004).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("hybla")]
pub struct HyblaParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Round trip whose growth a connection with a longer one has (RTT0).
    #[parameter(default = TimeDelta::from_millis(25), above = TimeDelta::ZERO)]
    pub reference: TimeDelta,
    /// Largest window: without a threshold, a slow start over a long path has no other end before the first news of a loss.
    #[parameter(default = 65_535, min = 2, unit = "segments")]
    pub max_window: u32,
}

/// TCP Hybla's congestion control.
#[derive(Clone, Debug)]
pub struct Hybla {
    window: Window,
    reference: f64,
    /// In bytes.
    max_window: u64,
    /// Smallest smoothed RTT.
    rtt: TimeDelta,
    rho: f64,
    /// Segments that a segment acknowledged adds in slow start.
    step: f64,
}

impl BuiltIn for Hybla {
    type Params = HyblaParams;

    fn new(params: &HyblaParams, config: &CcConfig) -> Self {
        let window = Window::new(config, &params.slow_start);
        Hybla {
            max_window: u64::from(params.max_window.max(2)) * window.mss,
            window,
            reference: params.reference.max(TimeDelta::from_nanos(1)).as_secs_f64(),
            rtt: TimeDelta::MAX,
            rho: 1.0,
            step: 1.0,
        }
    }
}

impl Hybla {
    #[cold]
    fn take_rtt(&mut self, rtt: TimeDelta) {
        self.rtt = rtt;
        self.rho = within(rtt.as_secs_f64() / self.reference, 1.0, 1e6);
        self.step = float::powf(2.0, self.rho.min(MAX_EXPONENT)) - 1.0;
    }
}

impl CongestionControl for Hybla {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        if ack.srtt < self.rtt && !ack.srtt.is_zero() {
            self.take_rtt(ack.srtt);
        }
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let before = self.window.cwnd;
        let (step, rho) = if ack.phase == Phase::Open { (self.step, self.rho) } else { (1.0, 1.0) };
        let rest = if self.window.in_slow_start() {
            self.window.slow_start_times(ack, counted, step)
        } else {
            counted
        };
        if rest > 0 {
            let reno = self.window.cwnd.max(2 * self.window.mss);
            self.window.grow(rest, (reno as f64 / (rho * rho)) as u64);
        }
        self.window.cwnd = self.window.cwnd.min(self.max_window.max(before));
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.window.share(self.window.cwnd, 0.5));
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.window.share(self.window.cwnd, 0.5));
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
        self.max_window = change.scaled(self.max_window);
    }
    fn name(&self) -> &'static str {
        HyblaParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    fn with_threshold(window: u64, threshold: u64) -> Hybla {
        let config = CcConfig { initial_ssthresh: threshold * MSS, ..config(window) };
        Hybla::new(&HyblaParams::default(), &config)
    }

    /// An acknowledgement of a segment at a round trip of so many milliseconds.
    fn ack(rtt: u64) -> AckSample {
        let rtt = TimeDelta::from_millis(rtt);
        AckSample { rtt: Some(rtt), srtt: rtt, ..sample(1, MSS) }
    }

    #[test]
    fn a_segment_adds_two_to_the_rho_less_one_in_slow_start() {
        // 60 ms: 2^2.4 = 5.278.
        for (rtt, added) in [(10, 1000), (25, 1000), (50, 3000), (60, 4278), (100, 15_000)] {
            let mut hybla = with_threshold(10, 1000);
            hybla.on_ack(&ack(rtt));
            assert_eq!(hybla.cwnd() - 10 * MSS, added, "{rtt} ms");
        }
        // Up to the threshold and no further; and rho is at most 16.
        let mut hybla = with_threshold(10, 20);
        hybla.on_ack(&ack(100));
        hybla.on_ack(&ack(100));
        assert_eq!(hybla.cwnd(), 20 * MSS);
        let mut hybla = with_threshold(10, 1 << 40);
        hybla.max_window = 70_000 * MSS;
        hybla.on_ack(&ack(10_000));
        assert_eq!(hybla.cwnd(), (10 + 65_535) * MSS);
        hybla.on_ack(&ack(10_000));
        assert_eq!(hybla.cwnd(), 70_000 * MSS);
    }

    #[test]
    fn a_round_trip_adds_rho_squared_in_congestion_avoidance() {
        for (rtt, added) in [(10, 1), (25, 1), (50, 4), (100, 16)] {
            let mut hybla = with_threshold(400, 400);
            Feeder::default().round(&mut hybla, rtt);
            let grown = hybla.cwnd() / MSS - 400;
            // The window grows on the way.
            assert!(grown <= added && grown + 1 >= added, "{rtt} ms: {grown}");
        }
    }

    #[test]
    fn rho_is_that_of_the_shortest_round_trip() {
        let mut hybla = with_threshold(400, 400);
        for (rtt, rho) in [(200, 8.0), (100, 4.0), (300, 4.0), (20, 1.0)] {
            hybla.on_ack(&AckSample { cwnd_limited: false, ..ack(rtt) });
            assert!((hybla.rho - rho).abs() < 1e-9, "{rtt} ms: {}", hybla.rho);
        }
    }

    #[test]
    fn losses_are_renos_and_so_is_growth_until_they_are_repaired() {
        let mut hybla = with_threshold(40, 40);
        hybla.on_congestion_event(&event(1, 0));
        assert_eq!((hybla.cwnd(), hybla.ssthresh()), (20 * MSS, 20 * MSS));
        hybla.undo(Timestamp::from_millis(2));
        assert_eq!(hybla.cwnd(), 40 * MSS);
        hybla.on_rto(&event(3, 0));
        assert_eq!((hybla.cwnd(), hybla.ssthresh()), (MSS, 20 * MSS));
        hybla.on_ack(&AckSample { phase: Phase::Loss, ..ack(100) });
        assert_eq!(hybla.cwnd(), 2 * MSS);
        hybla.on_ack(&ack(100));
        assert_eq!(hybla.cwnd(), 17 * MSS);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_with_random_losses_costs_it_less_than_reno() {
        // A satellite: 1000 packets/s and 500 ms, a pipe of 500 packets; one packet in 2000 is lost.
        let share = |name: &str| {
            let config = CcConfig { initial_ssthresh: 250 * MSS, ..config(10) };
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config);
            let mut link = Bottleneck::new(vec![flow], 1000, 500, 500);
            link.lose_every = 2000;
            link.measure(10, 100).shares[0]
        };
        let (hybla, reno) = (share("hybla"), share("reno"));
        assert!(hybla > 3.0 * reno, "{hybla} against {reno}");
    }
}
