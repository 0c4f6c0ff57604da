//! BBR 3's pacing rate and window, made of what the model says (draft-ietf-ccwg-bbr section 5.6).

use warpline_core::TimeDelta;

use super::super::window::MAX_WINDOW;
use super::super::{AckSample, Phase};
use super::states::State;
use super::{Bbr3, MIN_SEGMENTS, UNBOUNDED};

/// RTT that stands for the path's before there is one.
const NOMINAL_RTT: TimeDelta = TimeDelta::from_millis(1);
/// Largest burst in bytes.
const MAX_BURST: u64 = 64 * 1024;
/// Window of UP as a multiple of that of the other states.
const UP_CWND: f64 = 1.125;

impl Bbr3 {
    // ---- Pacing ----

    pub(super) fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => self.params.startup_gain,
            State::Drain => 0.5,
            State::Down => 0.9,
            State::Up => 1.25,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    /// The rate before the first sample: that of STARTUP for a window per RTT.
    pub(super) fn begin_pacing(&mut self, srtt: TimeDelta) {
        self.has_rtt = !srtt.is_zero();
        let rtt = if self.has_rtt { srtt } else { NOMINAL_RTT };
        self.pacing = self.params.startup_gain * self.cwnd as f64 / rtt.as_secs_f64();
    }

    /// Sets the rate to a multiple of the bandwidth, less the margin. Until the pipe has been full it only rises.
    pub(super) fn set_pacing(&mut self, gain: f64, srtt: TimeDelta) {
        if !self.has_rtt && !srtt.is_zero() {
            self.begin_pacing(srtt);
        }
        let rate = gain * self.bandwidth() * (1.0 - self.params.pacing_margin);
        if self.full || rate > self.pacing {
            self.pacing = rate;
        }
    }

    // ---- What is to be in flight ----

    pub(super) fn min_rtt_or_zero(&self) -> TimeDelta {
        if self.min_rtt == TimeDelta::MAX { TimeDelta::ZERO } else { self.min_rtt }
    }

    /// A multiple of the bandwidth-delay product.
    pub(super) fn product(&self, bandwidth: f64, gain: f64) -> u64 {
        if self.min_rtt == TimeDelta::MAX {
            return self.initial;
        }
        (gain * (bandwidth * self.min_rtt.as_secs_f64())).min(MAX_WINDOW as f64) as u64
    }

    /// Bytes that may leave at one moment.
    pub(super) fn burst(&self) -> u64 {
        let bytes = (self.pacing * self.params.quantum.as_secs_f64()) as u64;
        bytes.min(MAX_BURST).max(2 * self.mss)
    }

    /// `bytes`, or three bursts, or four segments: whatever is most.
    fn roomy(&self, bytes: u64) -> u64 {
        let room = bytes.max(3 * self.burst()).max(MIN_SEGMENTS * self.mss);
        if self.state == State::Up { room.saturating_add(2 * self.mss) } else { room }
    }

    /// What a multiple of the bandwidth has in flight.
    pub(super) fn inflight(&self, bandwidth: f64, gain: f64) -> u64 {
        self.roomy(self.product(bandwidth, gain))
    }

    /// What there should be in flight: what the path holds, unless losses have cut the window.
    pub(super) fn target_inflight(&self) -> u64 {
        self.product(self.bandwidth(), 1.0).min(self.cwnd)
    }

    /// The long-term bound, with room for others.
    pub(super) fn with_headroom(&self) -> u64 {
        if self.inflight_longterm == UNBOUNDED {
            return UNBOUNDED;
        }
        let free = ((self.params.headroom * self.inflight_longterm as f64) as u64).max(self.mss);
        self.inflight_longterm.saturating_sub(free).max(MIN_SEGMENTS * self.mss)
    }

    // ---- The window ----

    /// Keeps the window for when recovery or PROBE_RTT is over.
    pub(super) fn save_cwnd(&mut self) {
        let cut = self.prior_phase >= Phase::Recovery || self.state == State::ProbeRtt;
        self.prior_cwnd = if cut { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    pub(super) fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    /// Moves the window towards its target, within all bounds.
    pub(super) fn set_cwnd(&mut self, ack: &AckSample) {
        let before = std::mem::replace(&mut self.prior_phase, ack.phase);
        if before >= Phase::Recovery && ack.phase < Phase::Recovery {
            self.restore_cwnd();
            self.undo.saved = false;
        }
        let gain = self.params.cwnd_gain * if self.state == State::Up { UP_CWND } else { 1.0 };
        let gain = if self.state == State::ProbeRtt { 0.5 } else { gain };
        let target = self.product(self.bandwidth(), gain).saturating_add(self.extra.get() as u64);
        let target = self.roomy(target);
        let grown = self.cwnd.saturating_add(ack.acked);
        if self.full {
            self.cwnd = grown.min(target);
        } else if self.cwnd < target || ack.delivered < self.initial {
            self.cwnd = grown;
        }
        let least = MIN_SEGMENTS * self.mss;
        self.cwnd = self.cwnd.max(least);
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        let bound = match self.state {
            State::Cruise | State::ProbeRtt => self.with_headroom(),
            State::Down | State::Refill | State::Up => self.inflight_longterm,
            State::Startup | State::Drain => UNBOUNDED,
        };
        self.cwnd = self.cwnd.min(bound.min(self.inflight_shortterm).max(least)).min(MAX_WINDOW);
    }
}
