//! The states of BBR 3 (draft-ietf-ccwg-bbr section 5.3), and what moves it from one to the next.

use warpline_core::{TimeDelta, Timestamp};

use super::super::AckSample;
use super::{Bbr3, MIN_SEGMENTS, UNBOUNDED};

/// What BBR 3 does at present.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    /// PROBE_BW: below the bandwidth, so that the queue empties and others find room.
    Down,
    /// PROBE_BW: at the bandwidth, with headroom.
    Cruise,
    /// PROBE_BW: at the bandwidth, for a round trip, so that the pipe is full before the probe.
    Refill,
    /// PROBE_BW: the probe.
    Up,
    ProbeRtt,
}

impl State {
    /// Whether it is one of PROBE_BW.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }
    /// Whether it tries to find more bandwidth.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }
}

/// What acknowledgements tell of a probe for bandwidth, a round trip after it was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AckPhase {
    /// Nothing.
    Init,
    /// Of the filling before.
    Refilling,
    /// Not yet of the probe.
    ProbeStarting,
    /// Of the probe.
    ProbeFeedback,
    /// Still of the probe, which is over.
    ProbeStopping,
}

/// Round trips between probes at most, so that Reno can grow by as many segments as it needs on a path of some 60.
const RENO_ROUNDS: u64 = 63;
/// Round trips that DRAIN lasts at most.
const DRAIN_ROUNDS: u64 = 3;

impl Bbr3 {
    /// Moves on to the next state where it is time.
    pub(super) fn update_state(&mut self, ack: &AckSample) {
        if self.state == State::Startup && self.full {
            self.state = State::Drain;
            self.drain_round = self.rounds;
        }
        if self.state == State::Drain
            && (ack.in_flight <= self.inflight(self.bandwidth(), 1.0)
                || self.rounds > self.drain_round + DRAIN_ROUNDS)
        {
            self.start_down(ack.now);
        }
        self.update_cycle(ack);
        self.update_min_rtt(ack);
        self.update_probe_rtt(ack);
    }

    // ---- PROBE_BW ----

    fn update_cycle(&mut self, ack: &AckSample) {
        if !self.full {
            return;
        }
        self.adapt_long_term(ack);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(ack.now) => self.start_refill(),
            State::Down if self.is_time_to_cruise(ack) => self.state = State::Cruise,
            State::Refill if self.round_start => {
                self.probe_samples = true;
                self.start_up(ack);
            }
            State::Up => self.update_up(ack),
            _ => {}
        }
    }

    pub(super) fn start_down(&mut self, now: Timestamp) {
        self.reset_congestion_signals();
        self.up_per_segment = UNBOUNDED;
        self.rounds_since_probe = self.random.below(2);
        let spread = self.random.below(self.params.probe_wait_spread.as_nanos().saturating_add(1));
        self.probe_wait = self.params.probe_wait + TimeDelta::from_nanos(spread);
        self.cycle_began = now;
        self.ack_phase = AckPhase::ProbeStopping;
        self.round.restart_at(self.delivered);
        self.state = State::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.up_rounds = 0;
        self.up_acked = 0;
        self.ack_phase = AckPhase::Refilling;
        self.round.restart_at(self.delivered);
        self.state = State::Refill;
    }

    fn start_up(&mut self, ack: &AckSample) {
        self.ack_phase = AckPhase::ProbeStarting;
        self.round.restart_at(self.delivered);
        self.reset_full_at(ack);
        self.state = State::Up;
        self.steepen();
    }

    /// Section 5.3.3.5.3: after two to three seconds, or as many round trips as Reno would need.
    fn is_time_to_probe(&self, now: Timestamp) -> bool {
        let reno = (self.target_inflight() / self.mss).min(RENO_ROUNDS);
        now.saturating_since(self.cycle_began) > self.probe_wait || self.rounds_since_probe >= reno
    }

    /// The queue is empty, and there is room for others.
    fn is_time_to_cruise(&self, ack: &AckSample) -> bool {
        ack.in_flight <= self.with_headroom() && ack.in_flight <= self.inflight(self.bandwidth.get(), 1.0)
    }

    /// Ends the probe when the bandwidth does not grow any more, unless the bound holds it back.
    fn update_up(&mut self, ack: &AckSample) {
        if self.is_used_up() && self.cwnd >= self.inflight_longterm {
            self.reset_full_at(ack);
        } else if self.full_now {
            self.start_down(ack.now);
        }
    }

    // ---- PROBE_RTT ----

    fn update_min_rtt(&mut self, ack: &AckSample) {
        let is_over = |since: Timestamp, span: TimeDelta| ack.now.saturating_since(since) > span;
        self.probe_rtt_expired = is_over(self.probe_rtt_min_at, self.params.probe_rtt_interval);
        if let Some(rtt) = ack.rtt
            && (rtt < self.probe_rtt_min || self.probe_rtt_expired)
        {
            self.probe_rtt_min = rtt;
            self.probe_rtt_min_at = ack.now;
        }
        let expired = is_over(self.min_rtt_at, self.params.min_rtt_window);
        if self.probe_rtt_min < self.min_rtt || expired {
            self.min_rtt = self.probe_rtt_min;
            self.min_rtt_at = self.probe_rtt_min_at;
        }
    }

    fn update_probe_rtt(&mut self, ack: &AckSample) {
        if self.state != State::ProbeRtt && self.probe_rtt_expired && !self.restarted {
            self.state = State::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt_end = None;
            self.ack_phase = AckPhase::ProbeStopping;
            self.round.restart(ack);
        }
        if self.state == State::ProbeRtt {
            if self.probe_rtt_end.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.leave_probe_rtt(ack.now);
                }
            } else if ack.in_flight <= self.probe_rtt_cwnd() {
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
        self.probe_rtt_min_at = now;
        self.restore_cwnd();
        self.reset_short_term();
        if self.full {
            self.start_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// The window of PROBE_RTT: half of what the path holds.
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.product(self.bandwidth(), 0.5).max(MIN_SEGMENTS * self.mss)
    }
}
