//! The states of BBR (Linux tcp_bbr.c, bbr_update_cycle_phase, bbr_check_drain, bbr_update_min_rtt, bbr_update_gains).

use warpline_core::Timestamp;

use super::super::{AckSample, Phase};
use super::{Bbr, MIN_SEGMENTS};

/// What BBR does at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// Rates of PROBE_BW's phases as multiples of the bandwidth.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// PROBE_BW begins in any of the phases but the one that drains.
const FIRST_PHASES: u64 = 7;

impl Bbr {
    pub(super) fn enter_probe_bw(&mut self, now: Timestamp) {
        self.mode = Mode::ProbeBw;
        self.phase = CYCLE.len() - 1 - self.random.below(FIRST_PHASES) as usize;
        self.advance_phase(now);
    }

    fn advance_phase(&mut self, now: Timestamp) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_began = now;
    }

    pub(super) fn update_phase(&mut self, ack: &AckSample) {
        if self.mode == Mode::ProbeBw && self.is_phase_over(ack) {
            self.advance_phase(ack.now);
        }
    }

    fn is_phase_over(&self, ack: &AckSample) -> bool {
        let is_long = ack.now.saturating_since(self.phase_began) > self.min_rtt;
        let (bandwidth, gain) = (self.bandwidth.get(), self.pacing_gain);
        if gain > 1.0 {
            // Until that much is in flight, or does not fit.
            let reached = || self.soon_in_flight(ack.prior_in_flight) >= self.inflight(bandwidth, gain);
            is_long && (self.newly_lost > 0 || reached())
        } else if gain < 1.0 {
            // Until the queue is empty.
            is_long || self.soon_in_flight(ack.prior_in_flight) <= self.inflight(bandwidth, 1.0)
        } else {
            is_long
        }
    }

    pub(super) fn update_drain(&mut self, ack: &AckSample) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(self.bandwidth.get(), 1.0);
        }
        if self.mode == Mode::Drain
            && self.soon_in_flight(ack.in_flight) <= self.inflight(self.bandwidth.get(), 1.0)
        {
            self.enter_probe_bw(ack.now);
        }
    }

    /// An RTT as small as the smallest does not put PROBE_RTT off, only a smaller one does: else a queue that empties now and then would put it
    /// off for ever (Linux since 5.10, "tcp: only postpone PROBE_RTT if RTT is < current min_rtt estimate").
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample) {
        let expired = ack.now.saturating_since(self.min_rtt_at) > self.params.min_rtt_window;
        if let Some(rtt) = ack.rtt
            && (rtt < self.min_rtt || expired && !may_be_delayed(ack))
        {
            self.min_rtt = rtt;
            self.min_rtt_at = ack.now;
        }
        if expired && !self.restarted && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_end = None;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_end.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.leave_probe_rtt(ack.now);
                }
            } else if ack.in_flight <= MIN_SEGMENTS * self.mss {
                self.probe_rtt_end = Some(ack.now + self.params.probe_rtt);
                self.probe_rtt_round = false;
                self.round.restart(ack);
            }
        }
        self.restarted = false;
    }

    /// Ends PROBE_RTT if it has lasted long enough.
    pub(super) fn leave_probe_rtt(&mut self, now: Timestamp) {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return;
        }
        self.min_rtt_at = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.full {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    pub(super) fn update_gains(&mut self) {
        let startup = self.params.startup_gain;
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (startup, startup),
            Mode::Drain => (1.0 / startup, startup),
            Mode::ProbeBw if self.policer.rate().is_some() => (1.0, self.params.cwnd_gain),
            Mode::ProbeBw => (CYCLE[self.phase], self.params.cwnd_gain),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }
}

/// Whether the acknowledgement may have been delayed: of one segment that was not full and alone in flight.
fn may_be_delayed(ack: &AckSample) -> bool {
    ack.acked < ack.mss && ack.prior_in_flight == ack.acked && ack.phase == Phase::Open
}
