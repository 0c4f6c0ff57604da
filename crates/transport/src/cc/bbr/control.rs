//! BBR's pacing rate and window, made of what the model says (Linux tcp_bbr.c, bbr_set_pacing_rate and bbr_set_cwnd).

use warpline_core::TimeDelta;

use super::super::window::MAX_WINDOW;
use super::super::{AckSample, Phase};
use super::states::Mode;
use super::{Bbr, MIN_SEGMENTS};

/// RTT that stands for the path's before there is one.
const NOMINAL_RTT: TimeDelta = TimeDelta::from_millis(1);
/// Below this pacing rate in bytes per second bursts are of one segment, above of two at least.
const SLOW: f64 = 1_200_000.0 / 8.0;
/// Largest burst in bytes and in segments: what fits into a packet of 65535 bytes beside the largest headers.
const MAX_BURST: u64 = 65_535 - 320;
const MAX_BURST_SEGMENTS: u64 = 127;

impl Bbr {
    // ---- Pacing ----

    /// The rate before the first sample: that of STARTUP for a window per RTT.
    pub(super) fn begin_pacing(&mut self, srtt: TimeDelta) {
        self.has_rtt = !srtt.is_zero();
        let rtt = if self.has_rtt { srtt } else { NOMINAL_RTT };
        let bandwidth = self.cwnd as f64 / rtt.as_secs_f64();
        self.pacing = self.paced(bandwidth, self.params.startup_gain);
    }

    /// A multiple of the bandwidth, less the margin.
    fn paced(&self, bandwidth: f64, gain: f64) -> f64 {
        bandwidth * gain * (1.0 - self.params.pacing_margin)
    }

    /// Sets the rate to a multiple of the bandwidth. Until the pipe has been full it only rises.
    pub(super) fn set_pacing(&mut self, gain: f64, srtt: TimeDelta) {
        if !self.has_rtt && !srtt.is_zero() {
            self.begin_pacing(srtt);
        }
        let rate = self.paced(self.bandwidth(), gain);
        if self.full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    // ---- What is to be in flight ----

    /// Bytes that may leave at one moment.
    pub(super) fn burst(&self) -> u64 {
        let least = if self.pacing < SLOW { 1 } else { 2 };
        let bytes = ((self.pacing * self.params.quantum.as_secs_f64()) as u64).min(MAX_BURST);
        (bytes / self.mss).clamp(least, MAX_BURST_SEGMENTS) * self.mss
    }

    /// A multiple of the bandwidth-delay product in whole segments, rounded up.
    fn product(&self, bandwidth: f64, gain: f64) -> u64 {
        if self.min_rtt == TimeDelta::MAX {
            return self.initial;
        }
        let bytes = (gain * (bandwidth * self.min_rtt.as_secs_f64())).min(MAX_WINDOW as f64);
        ((bytes / self.mss as f64).ceil() as u64).saturating_mul(self.mss)
    }

    /// `bytes` with room for bursts, as an even number of segments, so that acknowledgements of two segments are not delayed.
    fn roomy(&self, bytes: u64) -> u64 {
        let segments = bytes.saturating_add(3 * self.burst()).div_ceil(self.mss);
        let even = segments + segments % 2;
        // Where the product is small, the probe must exceed it all the same.
        let probe = if self.mode == Mode::ProbeBw && self.phase == 0 { 2 } else { 0 };
        (even + probe).saturating_mul(self.mss)
    }

    /// What a multiple of the bandwidth has in flight.
    pub(super) fn inflight(&self, bandwidth: f64, gain: f64) -> u64 {
        self.roomy(self.product(bandwidth, gain))
    }

    /// What will be in flight when the next burst has left.
    pub(super) fn soon_in_flight(&self, in_flight: u64) -> u64 {
        in_flight.saturating_add(if self.pacing_gain > 1.0 { self.burst() } else { 0 })
    }

    // ---- The window ----

    /// Keeps the window for when recovery or PROBE_RTT is over.
    pub(super) fn save_cwnd(&mut self) {
        let cut = self.prior_phase >= Phase::Recovery || self.mode == Mode::ProbeRtt;
        self.prior_cwnd = if cut { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    /// Moves the window towards its target. `ack` must acknowledge something.
    pub(super) fn set_cwnd(&mut self, ack: &AckSample) {
        self.follow_recovery(ack);
        let least = MIN_SEGMENTS * self.mss;
        if self.conserving {
            self.cwnd = self.cwnd.max(ack.in_flight.saturating_add(ack.acked));
        } else {
            let bandwidth = self.bandwidth();
            let mut target = self.product(bandwidth, self.cwnd_gain);
            if self.full && self.params.aggregation {
                target = target.saturating_add(self.aggregation.allowance(bandwidth));
            }
            let target = self.roomy(target);
            let grown = self.cwnd.saturating_add(ack.acked);
            if self.full {
                self.cwnd = grown.min(target);
            } else if self.cwnd < target || ack.delivered < self.initial {
                self.cwnd = grown;
            }
            self.cwnd = self.cwnd.max(least);
        }
        self.cwnd = self.cwnd.min(MAX_WINDOW);
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(least);
        }
    }

    /// In recovery at most two segments leave for each that arrives: what was lost is taken off the window here, and what was delivered is
    /// added as in slow start. In its first round trip, one leaves for each that arrives. After it the window is what it was.
    fn follow_recovery(&mut self, ack: &AckSample) {
        if self.newly_lost > 0 {
            self.cwnd = self.cwnd.saturating_sub(self.newly_lost).max(self.mss);
        }
        let before = std::mem::replace(&mut self.prior_phase, ack.phase);
        if ack.phase == Phase::Recovery && before != Phase::Recovery {
            self.conserving = true;
            self.round.restart(ack);
            self.cwnd = ack.in_flight.saturating_add(ack.acked).max(self.mss);
        } else if before >= Phase::Recovery && ack.phase < Phase::Recovery {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.conserving = false;
        }
    }
}
