//! BBR, version 1: sends at the rate at which the path was seen to deliver, with little more in flight than that rate fills.
//!
//! Sources: N. Cardwell et al., "BBR: Congestion-Based Congestion Control" (ACM Queue 14(5), 2016); draft-cardwell-iccrg-bbr-congestion-control-00;
//! Linux tcp_bbr.c, which is followed where they differ, and tcp_rate.c for the samples.
//!
//! On each acknowledgement the model of the path is updated: its bandwidth (`max_filter`: the largest delivery rate of ten round trips, unless
//! `policer` finds one), its smallest RTT of ten seconds, and how much is acknowledged at once (`aggregation`). Then the state follows (`states`).
//! STARTUP doubles the rate each round trip, until it stops growing in three of them. DRAIN empties the queue that this made. PROBE_BW sends at
//! the bandwidth, but for one smallest RTT in eight, in which it sends a quarter more, and one after, in which it sends a quarter less. PROBE_RTT,
//! where no RTT was smaller for ten seconds, has four segments in flight for 200 ms and a round trip. `control` makes the pacing rate and the
//! window of all that. Losses change neither the rate nor, after recovery, the window.
//!
//! Segments leave in bursts, as the large ones of a host with segmentation offload do (Linux tcp_tso_autosize; [`BbrParams::quantum`]).
//!
//! Departures: bytes and exact times and gains, where Linux counts segments, clock ticks and 256ths. On paths with a smallest RTT below 6 ms Linux
//! makes bursts larger than here (tcp_tso_rtt_log). No queue of segments in the host waits for its departure: what is in flight is in the network.
//! Losses that a timer finds count at the next acknowledgement,
//! where Linux only adds them to the total. An acknowledgement of nothing new changes nothing. Without a smallest RTT, the window's target is the
//! initial window of the connection, not ten segments.

mod aggregation;
mod control;
mod max_filter;
mod policer;
mod states;
#[cfg(test)]
mod tests;

use warpline_core::parameter::{Component, Parameters};
use warpline_core::record::LossTrigger;
use warpline_core::{Rate, Stream, Streams, TimeDelta, Timestamp};

use super::round::Round;
use super::window::{MAX_WINDOW, within};
use super::{
    AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, LostSegment, MssChange, Phase,
};
use aggregation::Aggregation;
pub(super) use max_filter::MaxFilter;
use policer::{Policer, Report};
use states::Mode;

/// BBR, version 1 (Cardwell et al. 2016).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("bbr")]
pub struct BbrParams {
    /// Rate of STARTUP as a multiple of the bandwidth, and its window as a multiple of the bandwidth-delay product: 2/ln 2. DRAIN sends
    /// at its inverse.
    #[parameter(default = 2.885, above = 1.0)]
    pub startup_gain: f64,
    /// Window of PROBE_BW as a multiple of the bandwidth-delay product.
    #[parameter(default = 2.0, min = 1.0)]
    pub cwnd_gain: f64,
    /// Part of the rate that is left unused, so that queues get shorter.
    #[parameter(default = 0.01, min = 0.0, below = 1.0)]
    pub pacing_margin: f64,
    /// How long a delivery rate counts.
    #[parameter(default = 10, min = 1, unit = "round trips")]
    pub bandwidth_window: u32,
    /// How long an RTT counts; then PROBE_RTT looks for the smallest.
    #[parameter(default = TimeDelta::from_secs(10), above = TimeDelta::ZERO)]
    pub min_rtt_window: TimeDelta,
    /// How long PROBE_RTT lasts, and a round trip at least.
    #[parameter(default = TimeDelta::from_millis(200), above = TimeDelta::ZERO)]
    pub probe_rtt: TimeDelta,
    /// Data that is sent at one moment, as a time at the pacing rate: two segments at least, or one below 1.2 Mbit/s, and 64 KiB at most. The
    /// window allows for three such bursts.
    #[parameter(default = TimeDelta::from_millis(1))]
    pub quantum: TimeDelta,
    /// Whether the window allows for acknowledgements that come together.
    #[parameter(default = true)]
    pub aggregation: bool,
    /// Whether it looks for policers, and keeps to their rate.
    #[parameter(default = true)]
    pub policers: bool,
}

/// Segments in flight in PROBE_RTT, and at least at any other time: two acknowledgements of two segments each are under way.
const MIN_SEGMENTS: u64 = 4;
/// Growth of the bandwidth in a round trip of STARTUP that counts, and how many round trips without it end STARTUP.
const GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// BBR's congestion control.
#[derive(Clone, Debug)]
pub struct Bbr {
    params: BbrParams,
    mss: u64,
    initial: u64,
    cwnd: u64,
    ssthresh: u64,
    random: Stream,

    mode: Mode,
    /// Phase of PROBE_BW, and when it began.
    phase: usize,
    phase_began: Timestamp,
    pacing_gain: f64,
    cwnd_gain: f64,
    /// Pacing rate in bytes per second.
    pacing: f64,
    /// The pacing rate rests on an RTT of the path.
    has_rtt: bool,

    round: Round,
    /// Round trips so far, and whether the acknowledgement in hand ended one.
    rounds: u64,
    round_start: bool,

    bandwidth: MaxFilter,
    policer: Policer,
    aggregation: Aggregation,
    /// Bandwidth that counts as grown from, round trips in which it did not grow, and whether the pipe has been full.
    full_bandwidth: f64,
    full_rounds: u32,
    full: bool,

    /// Smallest RTT; the longest span before the first. And since when it holds.
    min_rtt: TimeDelta,
    min_rtt_at: Timestamp,
    /// PROBE_RTT has little in flight, and lasts until then. Whether a round trip has ended in it.
    probe_rtt_end: Option<Timestamp>,
    probe_rtt_round: bool,
    /// Sending began after a pause of the application, and nothing was delivered since.
    restarted: bool,

    /// Window before recovery or PROBE_RTT cut it.
    prior_cwnd: u64,
    /// The connection's phase at the last acknowledgement.
    prior_phase: Phase,
    /// In the first round trip of recovery: what is delivered may be sent.
    conserving: bool,

    delivered: u64,
    /// Bytes lost so far, and since the last acknowledgement.
    lost: u64,
    newly_lost: u64,
}

impl BuiltIn for Bbr {
    type Params = BbrParams;
    const READS_DELIVERY_RATE: bool = true;

    fn new(params: &BbrParams, config: &CcConfig) -> Self {
        let mss = config.mss.clamp(1, 1 << 20);
        let initial = config.initial_window.clamp(mss, MAX_WINDOW);
        let mut bbr = Bbr {
            params: BbrParams {
                startup_gain: within(params.startup_gain, 1.0, 1e3),
                cwnd_gain: within(params.cwnd_gain, 1.0, 1e3),
                pacing_margin: within(params.pacing_margin, 0.0, 0.99),
                ..*params
            },
            mss,
            initial,
            cwnd: initial,
            ssthresh: u64::MAX,
            random: Streams::new(config.seed).stream("bbr"),
            mode: Mode::Startup,
            phase: 0,
            phase_began: Timestamp::ZERO,
            pacing_gain: 1.0,
            cwnd_gain: 1.0,
            pacing: 0.0,
            has_rtt: false,
            round: Round::default(),
            rounds: 0,
            round_start: false,
            bandwidth: MaxFilter::default(),
            policer: Policer::default(),
            aggregation: Aggregation::new(),
            full_bandwidth: 0.0,
            full_rounds: 0,
            full: false,
            min_rtt: TimeDelta::MAX,
            min_rtt_at: Timestamp::ZERO,
            probe_rtt_end: None,
            probe_rtt_round: false,
            restarted: false,
            prior_cwnd: 0,
            prior_phase: Phase::Open,
            conserving: false,
            delivered: 0,
            lost: 0,
            newly_lost: 0,
        };
        bbr.update_gains();
        bbr.begin_pacing(TimeDelta::ZERO);
        bbr
    }
}

impl Bbr {
    /// The bandwidth of the path in bytes per second; zero before the first sample.
    pub fn bandwidth(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    /// The smallest RTT of the path; the longest span before the first.
    pub fn min_rtt(&self) -> TimeDelta {
        self.min_rtt
    }

    // ---- The model ----

    fn update_bandwidth(&mut self, ack: &AckSample) {
        self.round_start = false;
        let Some(sample) = ack.delivery_rate else { return };
        if self.round.ends(ack) {
            self.rounds += 1;
            self.round_start = true;
            self.conserving = false;
        }
        if self.params.policers {
            self.look_for_policer(ack.now, ack.app_limited, self.newly_lost > 0);
        }
        let sample = sample.as_bps() as f64 / 8.0;
        if !ack.app_limited || sample >= self.bandwidth.get() {
            self.bandwidth.take(u64::from(self.params.bandwidth_window), self.rounds, sample);
        }
    }

    fn look_for_policer(&mut self, now: Timestamp, app_limited: bool, losing: bool) {
        let given_up = self.policer.take(&Report {
            now,
            delivered: self.delivered,
            lost: self.lost,
            losing,
            app_limited,
            round_start: self.round_start,
            steady: self.mode == Mode::ProbeBw,
        });
        if given_up {
            self.enter_probe_bw(now);
        }
    }

    fn update_aggregation(&mut self, ack: &AckSample) {
        if !self.params.aggregation || ack.delivery_rate.is_none() {
            return;
        }
        if self.round_start {
            self.aggregation.on_round();
        }
        self.aggregation.on_ack(ack.now, ack.acked, self.bandwidth(), self.cwnd, self.mss);
    }

    /// Whether the pipe is full: the bandwidth has not grown for three round trips.
    fn look_whether_full(&mut self, ack: &AckSample) {
        if self.full || !self.round_start || ack.app_limited {
            return;
        }
        if self.bandwidth.get() >= self.full_bandwidth * GROWTH {
            self.full_bandwidth = self.bandwidth.get();
            self.full_rounds = 0;
        } else {
            self.full_rounds += 1;
            self.full = self.full_rounds >= FULL_ROUNDS;
        }
    }
}

impl CongestionControl for Bbr {
    fn on_ack(&mut self, ack: &AckSample) {
        self.delivered = ack.delivered;
        self.update_bandwidth(ack);
        self.update_aggregation(ack);
        self.update_phase(ack);
        self.look_whether_full(ack);
        self.update_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();
        self.set_pacing(self.pacing_gain, ack.srtt);
        self.set_cwnd(ack);
        self.newly_lost = 0;
    }
    fn on_established(&mut self, now: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        if !min_rtt.is_zero() {
            self.min_rtt = min_rtt;
        }
        self.min_rtt_at = now;
        self.aggregation.restart(now);
        self.begin_pacing(srtt);
    }
    fn on_restart(&mut self, now: Timestamp, app_limited: bool) {
        if !app_limited {
            return;
        }
        self.restarted = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing(1.0, TimeDelta::ZERO),
            Mode::ProbeRtt => self.leave_probe_rtt(now),
            Mode::Startup | Mode::Drain => {}
        }
    }
    fn on_lost(&mut self, lost: &LostSegment) {
        self.lost = self.lost.saturating_add(lost.bytes);
        if lost.trigger != LossTrigger::Rto {
            self.newly_lost = self.newly_lost.saturating_add(lost.bytes);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.save_cwnd();
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.save_cwnd();
        self.cwnd = self.mss;
        self.prior_phase = Phase::Loss;
        self.full_bandwidth = 0.0;
        // A time-out counts as the end of a round trip.
        self.round_start = true;
        self.newly_lost = 0;
        if self.params.policers {
            self.look_for_policer(event.now, false, true);
        }
    }
    /// The window comes back when the next acknowledgement finds the connection out of recovery.
    fn undo(&mut self, _now: Timestamp) {
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        self.policer.reset();
    }
    fn holds_back(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }
    fn governs_recovery(&self) -> bool {
        true
    }
    #[inline]
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    /// What the path held at the end of STARTUP. Nothing depends on it.
    #[inline]
    fn ssthresh(&self) -> u64 {
        self.ssthresh
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
        BbrParams::KIND
    }
}
