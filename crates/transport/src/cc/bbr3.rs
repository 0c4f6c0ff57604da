//! BBR, version 3: as [`Bbr`](super::Bbr), but a path may also be modelled by how much it holds before it loses too much.
//!
//! Source: draft-ietf-ccwg-bbr-05 (section 5), with corrections of its working copy of 2026 where that says so below.
//!
//! On each acknowledgement the model is updated (`model`): the bandwidth of the last two cycles of probing, the smallest RTT of ten seconds, the
//! largest volume in flight that was safe (`inflight_longterm`), and, between probes, bounds that follow losses down to what is delivered
//! (`bw_shortterm`, `inflight_shortterm`). A rate of loss above 2 % in a round trip is too much. Then the state follows (`states`): STARTUP until
//! the bandwidth stops growing or too much is lost, DRAIN, and the cycle of PROBE_BW: DOWN, CRUISE, REFILL, UP. A cycle takes two to three seconds, or
//! as many round trips as Reno would need to grow by what is in flight, 63 at most. PROBE_RTT halves what is in flight every five seconds.
//! `control` makes the pacing rate and the window of all that. `flight_log` knows what was in flight when something was sent.
//!
//! From the working copy: DRAIN lasts three round trips at most, an undo fills the pipe (REFILL) before it probes again and restores the window.
//! Not from it: precautionary probes, and PROBE_RTT only when the smallest RTT expires.
//!
//! Departures: ECN is left out, as in the draft (Linux' BBR 3 answers to the marks of data centres). As in Linux, an acknowledgement that shows
//! losses counts as one lost range. Whether there is SACK is not known here: without it, a loss counts by its share as with it. What one
//! acknowledgement delivers counts only after the losses that it shows. What an undo restores is saved once for each episode of recovery, and
//! not at the first loss of each round trip: the losses that end a probe would make it forget the probe.

mod control;
mod flight_log;
mod model;
mod states;
#[cfg(test)]
mod tests;

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{Rate, Stream, Streams, TimeDelta, Timestamp};

use super::bbr::MaxFilter;
use super::round::Round;
use super::window::{MAX_WINDOW, within};
use super::{
    AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, LostSegment, MssChange, Phase,
};
use flight_log::FlightLog;
use model::{CycleMax, Undo};
use states::{AckPhase, State};

/// BBR, version 3 (draft-ietf-ccwg-bbr).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("bbr3")]
pub struct Bbr3Params {
    /// Rate of STARTUP as a multiple of the bandwidth: 4 ln 2.
    #[parameter(default = 2.77, above = 1.0)]
    pub startup_gain: f64,
    /// Window as a multiple of the bandwidth-delay product; a quarter more while probing.
    #[parameter(default = 2.0, min = 1.0)]
    pub cwnd_gain: f64,
    /// Part of the rate that is left unused, so that queues get shorter.
    #[parameter(default = 0.01, min = 0.0, below = 1.0)]
    pub pacing_margin: f64,
    /// Part of a round trip's data whose loss is too much.
    #[parameter(default = 0.02, above = 0.0, below = 1.0)]
    pub loss_threshold: f64,
    /// What remains of the bounds at least after a round trip with too much loss.
    #[parameter(default = 0.7, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// Part of what the path holds that is left free for others between probes.
    #[parameter(default = 0.15, min = 0.0, below = 1.0)]
    pub headroom: f64,
    /// How long an RTT counts.
    #[parameter(default = TimeDelta::from_secs(10), above = TimeDelta::ZERO)]
    pub min_rtt_window: TimeDelta,
    /// How long an RTT puts off PROBE_RTT.
    #[parameter(default = TimeDelta::from_secs(5), above = TimeDelta::ZERO)]
    pub probe_rtt_interval: TimeDelta,
    /// How long PROBE_RTT lasts, and a round trip at least.
    #[parameter(default = TimeDelta::from_millis(200), above = TimeDelta::ZERO)]
    pub probe_rtt: TimeDelta,
    /// Time from a probe to the next at least, where it is not counted in round trips.
    #[parameter(default = TimeDelta::from_secs(2))]
    pub probe_wait: TimeDelta,
    /// The largest random time that is added to `probe_wait`.
    #[parameter(default = TimeDelta::from_secs(1))]
    pub probe_wait_spread: TimeDelta,
    /// Data that is sent at one moment, as a time at the pacing rate: two segments at least, and 64 KiB at most. The window holds three such
    /// bursts.
    #[parameter(default = TimeDelta::from_millis(1))]
    pub quantum: TimeDelta,
}

/// Segments in flight at least: two acknowledgements of two segments each are under way.
const MIN_SEGMENTS: u64 = 4;
/// No bound.
const UNBOUNDED: u64 = u64::MAX;

/// BBR 3's congestion control.
#[derive(Clone, Debug)]
pub struct Bbr3 {
    params: Bbr3Params,
    mss: u64,
    initial: u64,
    cwnd: u64,
    random: Stream,
    /// Pacing rate in bytes per second, and whether it rests on an RTT of the path.
    pacing: f64,
    has_rtt: bool,

    state: State,
    ack_phase: AckPhase,
    /// When the cycle of PROBE_BW began, how long until the next probe, and round trips since the last.
    cycle_began: Timestamp,
    probe_wait: TimeDelta,
    rounds_since_probe: u64,
    /// Round trips of growth in this probe, bytes acknowledged that may raise the bound, and how many raise it by a segment.
    up_rounds: u32,
    up_acked: u64,
    up_per_segment: u64,
    /// Losses now are of what was sent while probing, and not answered yet.
    probe_samples: bool,
    drain_round: u64,

    round: Round,
    rounds: u64,
    round_start: bool,
    /// The window was used up in this round trip, or in the one before.
    used_up: [bool; 2],

    bandwidth: CycleMax,
    bw_shortterm: f64,
    inflight_shortterm: u64,
    inflight_longterm: u64,
    /// Largest bandwidth and volume delivered in this round trip of losses.
    bw_latest: f64,
    inflight_latest: u64,
    /// A round trip as losses count it.
    loss_round: Round,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Acknowledgements with losses in this round trip.
    loss_events: u32,
    newly_lost: bool,
    lost: u64,
    delivered: u64,
    flights: FlightLog,

    extra: MaxFilter,
    extra_began: Timestamp,
    extra_acked: u64,

    full_bandwidth: f64,
    full_rounds: u32,
    full_now: bool,
    /// The pipe has been full.
    full: bool,

    /// Smallest RTT; the longest span before the first. And since when it holds.
    min_rtt: TimeDelta,
    min_rtt_at: Timestamp,
    /// The same for PROBE_RTT's interval.
    probe_rtt_min: TimeDelta,
    probe_rtt_min_at: Timestamp,
    probe_rtt_expired: bool,
    probe_rtt_end: Option<Timestamp>,
    probe_rtt_round: bool,
    /// Sending began after a pause of the application, and nothing was delivered since.
    restarted: bool,

    prior_cwnd: u64,
    prior_phase: Phase,
    undo: Undo,
}

impl BuiltIn for Bbr3 {
    type Params = Bbr3Params;
    const READS_DELIVERY_RATE: bool = true;

    fn new(params: &Bbr3Params, config: &CcConfig) -> Self {
        let mss = config.mss.clamp(1, 1 << 20);
        let initial = config.initial_window.clamp(mss, MAX_WINDOW);
        let mut bbr = Bbr3 {
            params: Bbr3Params {
                startup_gain: within(params.startup_gain, 1.0, 1e3),
                cwnd_gain: within(params.cwnd_gain, 1.0, 1e3),
                pacing_margin: within(params.pacing_margin, 0.0, 0.99),
                loss_threshold: within(params.loss_threshold, 0.0, 0.99),
                beta: within(params.beta, 0.0, 1.0),
                headroom: within(params.headroom, 0.0, 1.0),
                ..*params
            },
            mss,
            initial,
            cwnd: initial,
            random: Streams::new(config.seed).stream("bbr3"),
            pacing: 0.0,
            has_rtt: false,
            state: State::Startup,
            ack_phase: AckPhase::Init,
            cycle_began: Timestamp::ZERO,
            probe_wait: TimeDelta::ZERO,
            rounds_since_probe: 0,
            up_rounds: 0,
            up_acked: 0,
            up_per_segment: UNBOUNDED,
            probe_samples: false,
            drain_round: 0,
            round: Round::default(),
            rounds: 0,
            round_start: false,
            used_up: [false; 2],
            bandwidth: CycleMax::default(),
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: UNBOUNDED,
            inflight_longterm: UNBOUNDED,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_round: Round::default(),
            loss_round_start: false,
            loss_in_round: false,
            loss_events: 0,
            newly_lost: false,
            lost: 0,
            delivered: 0,
            flights: FlightLog::default(),
            extra: MaxFilter::default(),
            extra_began: Timestamp::ZERO,
            extra_acked: 0,
            full_bandwidth: 0.0,
            full_rounds: 0,
            full_now: false,
            full: false,
            min_rtt: TimeDelta::MAX,
            min_rtt_at: Timestamp::ZERO,
            probe_rtt_min: TimeDelta::MAX,
            probe_rtt_min_at: Timestamp::ZERO,
            probe_rtt_expired: false,
            probe_rtt_end: None,
            probe_rtt_round: false,
            restarted: false,
            prior_cwnd: 0,
            prior_phase: Phase::Open,
            undo: Undo::default(),
        };
        bbr.begin_pacing(TimeDelta::ZERO);
        bbr
    }
}

impl Bbr3 {
    /// The bandwidth of the path in bytes per second, within its bound of the last losses; zero before the first sample.
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth.get().min(self.bw_shortterm)
    }

    /// The smallest RTT of the path; the longest span before the first.
    pub fn min_rtt(&self) -> TimeDelta {
        self.min_rtt
    }
}

impl CongestionControl for Bbr3 {
    fn on_sent(&mut self, now: Timestamp, _bytes: u64, in_flight: u64) {
        self.flights.push(now, in_flight, self.lost);
        self.used_up[0] |= in_flight.saturating_add(self.mss) > self.cwnd;
    }
    fn on_ack(&mut self, ack: &AckSample) {
        self.update_model(ack);
        self.update_state(ack);
        self.advance_latest(ack);
        self.set_pacing(self.pacing_gain(), ack.srtt);
        self.set_cwnd(ack);
        self.newly_lost = false;
    }
    fn on_established(&mut self, now: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        if !min_rtt.is_zero() {
            (self.min_rtt, self.probe_rtt_min) = (min_rtt, min_rtt);
        }
        (self.min_rtt_at, self.probe_rtt_min_at, self.extra_began) = (now, now, now);
        self.begin_pacing(srtt);
    }
    fn on_restart(&mut self, now: Timestamp, app_limited: bool) {
        if !app_limited {
            return;
        }
        self.restarted = true;
        self.extra_began = now;
        if self.state.is_probe_bw() {
            self.set_pacing(1.0, TimeDelta::ZERO);
        } else if self.state == State::ProbeRtt {
            self.leave_probe_rtt(now);
        }
    }
    fn on_lost(&mut self, lost: &LostSegment) {
        self.handle_lost(lost);
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.save_cwnd();
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.save_cwnd();
        self.save_for_undo();
        self.cwnd = self.mss;
        self.prior_phase = Phase::Loss;
    }
    fn undo(&mut self, _now: Timestamp) {
        self.take_back();
    }
    fn holds_back(&self) -> bool {
        self.state == State::ProbeRtt
    }
    fn governs_recovery(&self) -> bool {
        true
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// The largest volume in flight that was safe; unset while none is known. Nothing else depends on it.
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.inflight_longterm.max(2 * self.mss)
    }
    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::from_bps((8.0 * self.pacing).max(1.0) as u64))
    }
    fn paces_payload(&self) -> bool {
        true
    }
    #[inline]
    fn send_quantum(&self) -> u64 {
        self.burst()
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.mss = change.after.mss.clamp(1, 1 << 20);
        self.cwnd = change.window(self.cwnd).max(self.mss);
        self.initial = change.after.initial_window.clamp(self.mss, MAX_WINDOW);
        self.prior_cwnd = change.scaled(self.prior_cwnd);
        if !self.has_rtt {
            self.begin_pacing(TimeDelta::ZERO);
        }
    }
    fn name(&self) -> &'static str {
        Bbr3Params::KIND
    }
}
