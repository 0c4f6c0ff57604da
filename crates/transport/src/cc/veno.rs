//! TCP Veno: Reno that asks the delay, as Vegas does, whether a loss is one of congestion; if it is not, the window falls by a fifth.
//!
//! Sources: C. P. Fu, S. C. Liew, "TCP Veno: TCP Enhancement for Transmission over Wireless Access Networks" (IEEE JSAC 21(2), 2003); Linux
//! tcp_veno.c, from which it comes that N is computed anew from the RTTs of each acknowledgement.
//!
//! * N = cwnd (RTT - BaseRTT) / RTT is what the connection itself holds in the queue. From beta = 3 segments on the path counts as congested.
//! * Section III-A: on a congested path the window grows by a segment every other round trip, else every round trip, as Reno's.
//! * Section III-B: a loss on a congested path halves the window, another takes a fifth of it.
//!
//! Departures: N is exact, where Linux has it in half segments. Every other round trip is half a segment per window acknowledged, where Linux
//! counts windows. As in Linux, the first two RTT samples are not judged, a reduction makes it Reno until it is over, and sending with nothing in flight
//! begins with a new BaseRTT (see `vegas.rs`: after a time-out alone it stays). A time-out reduces the threshold by the same rule as a loss, as
//! in Linux, where the paper halves it.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::{SlowStartParams, may_grow};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// RTT samples until N is computed (Linux: `cntrtt <= 2` is too few).
const MIN_SAMPLES: u32 = 3;

/// TCP Veno (Fu and Liew 2003).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("veno")]
pub struct VenoParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Segments in the queue from which on the path counts as congested.
    #[parameter(default = 3.0, min = 0.0, unit = "segments")]
    pub beta: f64,
    /// What remains of the window after a loss on a path that is not congested.
    #[parameter(default = 0.8, above = 0.0, below = 1.0)]
    pub random_loss: f64,
}

/// TCP Veno's congestion control.
#[derive(Clone, Debug)]
pub struct Veno {
    window: Window,
    /// In bytes.
    beta: f64,
    random_loss: f64,
    /// Smallest RTT of the connection, and since N was last computed.
    base_rtt: TimeDelta,
    rtt: TimeDelta,
    samples: u32,
    /// N in bytes.
    queued: f64,
}

impl BuiltIn for Veno {
    type Params = VenoParams;

    fn new(params: &VenoParams, config: &CcConfig) -> Self {
        let window = Window::new(config, &params.slow_start);
        Veno {
            beta: within(params.beta, 0.0, 1e9) * window.mss as f64,
            random_loss: within(params.random_loss, 0.0, 1.0),
            base_rtt: TimeDelta::MAX,
            rtt: TimeDelta::MAX,
            samples: 0,
            queued: 0.0,
            window,
        }
    }
}

impl Veno {
    fn congested(&self) -> bool {
        self.queued >= self.beta
    }

    fn take_sample(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(TimeDelta::from_nanos(1));
            self.base_rtt = self.base_rtt.min(rtt);
            self.rtt = self.rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
    }

    /// Computes N. Returns whether it holds for this acknowledgement.
    fn judge(&mut self, ack: &AckSample) -> bool {
        if !matches!(ack.phase, Phase::Open) {
            self.rtt = TimeDelta::MAX;
            return false;
        }
        if !may_grow(ack) || self.samples < MIN_SAMPLES {
            return false;
        }
        if self.rtt != TimeDelta::MAX {
            let rtt = self.rtt.as_secs_f64();
            self.queued = self.window.cwnd as f64 * (rtt - self.base_rtt.as_secs_f64()) / rtt;
            self.rtt = TimeDelta::MAX;
        }
        true
    }

    /// Forgets the path's RTT: nothing is in flight, and what comes next may find another.
    fn restart(&mut self) {
        (self.base_rtt, self.rtt) = (TimeDelta::MAX, TimeDelta::MAX);
    }

    /// What remains of the window after a loss.
    fn reduced(&self) -> u64 {
        let remain = if self.congested() { 0.5 } else { self.random_loss };
        self.window.share(self.window.cwnd, remain)
    }
}

impl CongestionControl for Veno {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.take_sample(ack);
        let judged = self.judge(ack);
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                let reno = self.window.cwnd.max(2 * self.window.mss);
                self.window.grow(rest, if judged && self.congested() { 2 * reno } else { reno });
            }
        }
        if ack.in_flight == 0 {
            self.restart();
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
        self.restart();
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
        self.beta = change.scaled_part(self.beta);
        self.queued = change.scaled_part(self.queued);
    }
    fn name(&self) -> &'static str {
        VenoParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One in congestion avoidance at so many segments whose base RTT is 100 ms.
    fn avoiding(segments: u64) -> (Veno, Feeder) {
        let config = CcConfig { initial_ssthresh: segments * MSS, ..config(segments) };
        let mut veno = Veno::new(&VenoParams::default(), &config);
        let mut feeder = Feeder::default();
        feeder.mixed_round(&mut veno, &[(3, 100)]);
        (veno, feeder)
    }

    #[test]
    fn with_a_queue_of_three_segments_growth_is_half_of_renos() {
        // N = 30 (rtt - 100) / rtt: 2.97 and 3.06 segments.
        for (rtt, grown) in [(100, 10), (111, 5)] {
            let (mut veno, mut feeder) = avoiding(30);
            for _ in 0..10 {
                feeder.round(&mut veno, rtt);
            }
            assert!((veno.cwnd() / MSS - 30).abs_diff(grown) <= 1, "{rtt} ms: {}", veno.cwnd());
        }
        for (rtt, queued) in [(111, 2.973), (112, 3.214)] {
            let (mut veno, _) = avoiding(30);
            let rtt = Some(TimeDelta::from_millis(rtt));
            veno.on_ack(&AckSample { rtt, ..sample(1, 1) });
            assert!((veno.queued / MSS as f64 - queued).abs() < 0.001, "{}", veno.queued);
            assert_eq!(veno.congested(), queued > 3.0);
        }
    }

    #[test]
    fn a_loss_takes_a_fifth_without_a_queue_and_half_with_one() {
        for (rtt, remain) in [(100, 24), (111, 24), (112, 15)] {
            let (mut veno, _) = avoiding(30);
            veno.on_ack(&AckSample { rtt: Some(TimeDelta::from_millis(rtt)), ..sample(1, 1) });
            veno.on_congestion_event(&event(1, 0));
            assert_eq!((veno.cwnd(), veno.ssthresh()), (remain * MSS, remain * MSS), "{rtt} ms");
            veno.undo(Timestamp::from_millis(2));
            assert_eq!(veno.cwnd(), 30 * MSS);
            veno.on_rto(&event(3, 0));
            assert_eq!((veno.cwnd(), veno.ssthresh()), (MSS, remain * MSS));
        }
    }

    #[test]
    fn a_reduction_and_the_first_samples_are_not_judged() {
        let (mut veno, _) = avoiding(30);
        let long = AckSample { rtt: Some(TimeDelta::from_millis(200)), ..sample(1, 1) };
        let short = AckSample { rtt: Some(TimeDelta::from_millis(110)), ..long };
        veno.on_ack(&AckSample { phase: Phase::Recovery, ..short });
        veno.on_ack(&AckSample { phase: Phase::Loss, ..short });
        veno.on_ack(&AckSample { cwnd_limited: false, ..long });
        assert_eq!(veno.queued, 0.0);
        veno.on_ack(&long);
        assert_eq!(veno.queued, 15.0 * MSS as f64);
        let mut new = Veno::new(&VenoParams::default(), &config(30));
        new.on_ack(&sample(1, 1));
        new.on_ack(&long);
        assert_eq!(new.queued, 0.0);
    }

    #[test]
    fn what_is_sent_with_nothing_in_flight_begins_with_a_new_base_rtt() {
        let (mut veno, _) = avoiding(30);
        veno.on_ack(&AckSample { in_flight: 0, ..sample(1, 1) });
        veno.on_ack(&AckSample { rtt: Some(TimeDelta::from_millis(200)), ..sample(2, 1) });
        assert_eq!((veno.base_rtt, veno.queued), (TimeDelta::from_millis(200), 0.0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn random_losses_cost_it_less_than_reno() {
        // One packet in 200 is lost at random on a pipe of 50.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            let mut link = Bottleneck::new(vec![flow], 1000, 50, 30);
            link.lose_every = 200;
            link.measure(10, 60).shares[0]
        };
        let (veno, reno) = (share("veno"), share("reno"));
        assert!(veno > 1.3 * reno, "{veno} against {reno}");
    }
}
