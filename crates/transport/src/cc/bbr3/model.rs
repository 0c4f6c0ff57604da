//! What BBR 3 knows of the path, and how acknowledgements and losses change it (draft-ietf-ccwg-bbr section 5.5).

use warpline_core::Timestamp;

use super::super::{AckSample, LostSegment, Phase};
use super::states::{AckPhase, State};
use super::{Bbr3, UNBOUNDED};

/// The largest bandwidth of the present cycle of probing, and of the one before (section 5.5.5). Bytes per second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CycleMax {
    now: f64,
    before: f64,
}

impl CycleMax {
    #[inline]
    pub(super) fn get(&self) -> f64 {
        self.now.max(self.before)
    }
    pub(super) fn take(&mut self, sample: f64) {
        self.now = self.now.max(sample);
    }
    /// A cycle ends. One without a sample says nothing, and goes on.
    pub(super) fn advance(&mut self) {
        if self.now > 0.0 {
            (self.before, self.now) = (self.now, 0.0);
        }
    }
}

/// What held before the losses of an episode, in case they were none (section 5.5.11).
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// It is of the episode that goes on.
    pub saved: bool,
    /// The state that they ended.
    pub state: Option<State>,
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Default for Undo {
    /// Nothing is to be restored.
    fn default() -> Self {
        Undo { saved: false, state: None, bw_shortterm: 0.0, inflight_shortterm: 0, inflight_longterm: 0 }
    }
}

/// What is known of a flight of segments: bytes lost since one of them was sent, and in flight then.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    lost: u64,
    in_flight: u64,
    app_limited: bool,
}

/// Growth of the bandwidth in a round trip that counts, and how many without it show that the pipe is full.
const GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// Lost ranges in a round trip of STARTUP, at least, that end it.
const FULL_LOSSES: u32 = 6;
/// Round trips for which the excess of acknowledgements counts.
const EXTRA_ROUNDS: u64 = 10;

impl Bbr3 {
    /// Takes what an acknowledgement says of the path, but for its RTT.
    pub(super) fn update_model(&mut self, ack: &AckSample) {
        self.delivered = ack.delivered;
        self.flights.forget(ack.now, ack.srtt.max(self.min_rtt_or_zero()).saturating_mul(4));
        let rate = rate_of(ack);
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest =
            self.inflight_latest.max(ack.delivered - ack.prior_delivered.min(ack.delivered));
        self.loss_round_start = self.loss_round.ends(ack);
        self.loss_events += u32::from(self.newly_lost);
        self.update_round(ack);
        if rate > 0.0 && (rate >= self.bandwidth.get() || !ack.app_limited) {
            self.bandwidth.take(rate);
        }
        if self.loss_round_start && self.loss_in_round && !self.state.is_probing() {
            self.lower_bounds();
        }
        self.update_extra(ack);
        self.look_whether_full(ack, rate);
        self.look_whether_lossy(ack);
        if self.loss_round_start {
            self.loss_in_round = false;
            self.loss_events = 0;
        }
    }

    /// The bandwidth and volume of the next round trip begin with what was found last.
    pub(super) fn advance_latest(&mut self, ack: &AckSample) {
        if self.loss_round_start {
            self.bw_latest = rate_of(ack);
            self.inflight_latest = ack.delivered - ack.prior_delivered.min(ack.delivered);
        }
    }

    fn update_round(&mut self, ack: &AckSample) {
        self.round_start = self.round.ends(ack);
        if self.round_start {
            self.rounds += 1;
            self.rounds_since_probe += 1;
            self.used_up = [false, self.used_up[0]];
        }
    }

    /// The short-term bounds after a round trip with losses: what is delivered, but not below `beta` of what they were.
    fn lower_bounds(&mut self) {
        let beta = self.params.beta;
        let bandwidth = if self.bw_shortterm.is_finite() { self.bw_shortterm } else { self.bandwidth.get() };
        self.bw_shortterm = self.bw_latest.max(beta * bandwidth);
        let inflight = if self.inflight_shortterm == UNBOUNDED { self.cwnd } else { self.inflight_shortterm };
        self.inflight_shortterm = self.inflight_latest.max((beta * inflight as f64) as u64);
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = UNBOUNDED;
    }

    /// A new cycle: what was lost and delivered in the last one does not count.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    /// Section 5.5.9: how much more is acknowledged than the bandwidth explains.
    fn update_extra(&mut self, ack: &AckSample) {
        let span = ack.now.saturating_since(self.extra_began).as_secs_f64();
        let mut expected = (self.bandwidth() * span) as u64;
        if self.extra_acked <= expected {
            self.extra_acked = 0;
            self.extra_began = ack.now;
            expected = 0;
        }
        self.extra_acked = self.extra_acked.saturating_add(ack.acked);
        let extra = self.extra_acked.saturating_sub(expected).min(self.cwnd);
        let window = if self.full { EXTRA_ROUNDS } else { 1 };
        self.extra.take(window, self.rounds, extra as f64);
    }

    // ---- Whether the pipe is full ----

    pub(super) fn reset_full(&mut self) {
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        self.full_now = false;
    }

    /// Begins to look for a full pipe at this bandwidth.
    pub(super) fn reset_full_at(&mut self, ack: &AckSample) {
        self.reset_full();
        self.full_bandwidth = rate_of(ack);
    }

    fn look_whether_full(&mut self, ack: &AckSample, rate: f64) {
        if self.full_now || !self.round_start || ack.app_limited || rate == 0.0 {
            return;
        }
        if rate >= self.full_bandwidth * GROWTH {
            self.reset_full();
            self.full_bandwidth = rate;
            return;
        }
        self.full_rounds += 1;
        self.full_now = self.full_rounds >= FULL_ROUNDS;
        self.full |= self.full_now;
    }

    /// STARTUP ends, too, when a round trip of recovery has lost too much, and not all in one place (section 5.3.1.3).
    fn look_whether_lossy(&mut self, ack: &AckSample) {
        if self.state != State::Startup
            || self.full
            || !self.loss_round_start
            || self.prior_phase != Phase::Recovery
            || ack.phase != Phase::Recovery
            || self.loss_events < FULL_LOSSES
            || !self.is_too_high(self.flight_of(ack))
        {
            return;
        }
        self.undo.state = Some(State::Startup);
        self.full = true;
        let product = self.product(self.bandwidth(), 1.0);
        self.inflight_longterm = product.max(self.inflight_latest);
    }

    // ---- What the path holds ----

    fn flight_at(&self, sent_at: Timestamp, app_limited: bool) -> Flight {
        let Some(entry) = self.flights.at(sent_at) else { return Flight::default() };
        Flight { lost: self.lost.saturating_sub(entry.lost), in_flight: entry.in_flight, app_limited }
    }

    fn flight_of(&self, ack: &AckSample) -> Flight {
        self.flight_at(ack.sent_at, ack.app_limited)
    }

    /// Whether that much was in flight that too much was lost.
    fn is_too_high(&self, flight: Flight) -> bool {
        flight.lost as f64 > flight.in_flight as f64 * self.params.loss_threshold
    }

    /// Raises the bound to what was safe, and in UP beyond.
    pub(super) fn adapt_long_term(&mut self, ack: &AckSample) {
        if self.ack_phase == AckPhase::ProbeStarting && self.round_start {
            self.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.ack_phase == AckPhase::ProbeStopping && self.round_start {
            self.probe_samples = false;
            self.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() && !ack.app_limited {
                self.bandwidth.advance();
            }
        }
        let flight = self.flight_of(ack);
        if self.is_too_high(flight) || self.inflight_longterm == UNBOUNDED {
            return;
        }
        self.inflight_longterm = self.inflight_longterm.max(flight.in_flight);
        if self.state == State::Up {
            self.probe_long_term(ack);
        }
    }

    /// Raises the bound by a segment per so many bytes acknowledged, where the window is used up and bound by it.
    fn probe_long_term(&mut self, ack: &AckSample) {
        if !self.is_used_up() || self.cwnd < self.inflight_longterm {
            return;
        }
        self.up_acked = self.up_acked.saturating_add(ack.acked);
        if self.up_acked >= self.up_per_segment {
            let segments = self.up_acked / self.up_per_segment;
            self.up_acked -= segments * self.up_per_segment;
            self.inflight_longterm =
                self.inflight_longterm.saturating_add(segments.saturating_mul(self.mss)).min(UNBOUNDED - 1);
        }
        if self.round_start {
            self.steepen();
        }
    }

    /// Each round trip of a probe raises the bound twice as fast as the one before: 1, 2, 4 ... segments.
    pub(super) fn steepen(&mut self) {
        let growth = 1u64 << self.up_rounds;
        self.up_rounds = (self.up_rounds + 1).min(30);
        self.up_per_segment = (self.cwnd / growth).max(self.mss);
    }

    /// Whether the window was used up in the last round trip.
    pub(super) fn is_used_up(&self) -> bool {
        self.used_up[0] || self.used_up[1]
    }

    /// A segment is lost (section 5.5.10.2).
    pub(super) fn handle_lost(&mut self, lost: &LostSegment) {
        self.lost = self.lost.saturating_add(lost.bytes);
        self.newly_lost = true;
        if !self.loss_in_round {
            self.loss_round.restart_at(self.delivered);
        }
        self.loss_in_round = true;
        self.save_for_undo();
        if !self.probe_samples {
            return;
        }
        let mut flight = self.flight_at(lost.sent_at, lost.app_limited);
        if self.is_too_high(flight) {
            flight.in_flight = self.inflight_at_loss(flight, lost.bytes);
            self.handle_too_high(flight, lost.now);
        }
    }

    /// What was in flight when the losses crossed the threshold: somewhere within the lost segment of `size` bytes.
    fn inflight_at_loss(&self, flight: Flight, size: u64) -> u64 {
        let threshold = self.params.loss_threshold;
        let before = flight.in_flight.saturating_sub(size) as f64;
        let lost_before = flight.lost.saturating_sub(size) as f64;
        let prefix = (threshold * before - lost_before) / (1.0 - threshold);
        (before + prefix).max(0.0) as u64
    }

    /// Too much was in flight: the bound falls, and a probe ends. Once per probe.
    fn handle_too_high(&mut self, flight: Flight, now: Timestamp) {
        self.probe_samples = false;
        if !flight.app_limited {
            let least = (self.target_inflight() as f64 * self.params.beta) as u64;
            self.inflight_longterm = flight.in_flight.max(least);
        }
        if self.state == State::Up {
            self.undo.state = Some(State::Up);
            self.start_down(now);
        }
    }

    // ---- Undo ----

    /// Before the first change of an episode of losses.
    pub(super) fn save_for_undo(&mut self) {
        if self.undo.saved {
            return;
        }
        self.save_cwnd();
        self.undo = Undo {
            saved: true,
            state: None,
            bw_shortterm: self.bw_shortterm,
            inflight_shortterm: self.inflight_shortterm,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// The last losses were none.
    pub(super) fn take_back(&mut self) {
        self.restore_cwnd();
        self.loss_in_round = false;
        self.reset_full();
        let undo = self.undo;
        self.bw_shortterm = self.bw_shortterm.max(undo.bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::Up) if self.state != State::Up && self.state != State::ProbeRtt => {
                self.start_refill()
            }
            _ => {}
        }
        self.undo = Undo::default();
    }
}

/// The delivery rate of an acknowledgement in bytes per second; zero without one.
fn rate_of(ack: &AckSample) -> f64 {
    ack.delivery_rate.map_or(0.0, |rate| rate.as_bps() as f64 / 8.0)
}
