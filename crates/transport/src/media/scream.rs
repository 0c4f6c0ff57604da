//! SCReAM (Self-Clocked Rate Adaptation for Multimedia), version 2: a reference window that follows delay, marks and losses, and a target rate
//! that is this window in a round trip.
//!
//! Source: draft-johansson-ccwg-rfc8298bis-screamv2, the text in the authors' repository (its constants are those of -02 to -06). The names of
//! constants are its. RFC 8298, which this draft is to replace, is version 1: another algorithm, which is not here.
//!
//! * A loss leaves 0.7 of the window, a classic mark 0.8. With L4S the window falls by half the averaged share of marked packets, as in DCTCP.
//! * Where nothing marks, an averaged queueing delay between half the target delay and the target delay counts as a share of marks from 0 to 1.
//! * The window grows by a packet in a round trip, more where there was no congestion for a while, and less near the window at which congestion
//!   was found last.
//! * More than the window may be in flight, half as much again and in proportion to large frames, so that a frame does not wait at the sender.
//! * The target delay grows where a flow that fills the queue competes.
//!
//! Departures: the share of large frames is a percentile over bins of a tenth. The base delay is the smallest of the last ten minutes (RFC 6817's
//! history), where the draft refers to RFC 6817 without figures. L4S counts as active for ten seconds after a mark, which the draft leaves open.
//! Near the highest rate the window is bounded by bytes in flight and that rate, as the authors' code does. There is one stream, and no compensation
//! of an encoder that misses its rate.

use std::collections::VecDeque;

use warpline_core::parameter::{Parameters, Words};
use warpline_core::{Ecn, Rate, TimeDelta, Timestamp};

use super::{BuiltIn, ControlConfig, Feedback, MediaControl, ReportRule};

/// Lowest reference window in bytes.
const MIN_REF_WND: f64 = 3000.0;
const MAX_QDELAY_TARGET: f64 = 0.4;
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 2.0;
const BYTES_IN_FLIGHT_LIMIT: f64 = 0.9;
const BYTES_IN_FLIGHT_LIMIT_COMPENSATION: f64 = 1.5;
const REF_WND_OVERHEAD: f64 = 1.5;
const L4S_AVG_G: f64 = 1.0 / 16.0;
const QDELAY_AVG_G: f64 = 1.0 / 4.0;
/// In seconds.
const POST_CONGESTION_DELAY: f64 = 4.0;
const MUL_INCREASE_FACTOR: f64 = 0.02;
const VIRTUAL_RTT: TimeDelta = TimeDelta::from_millis(25);
const RATE_PACE_MIN: f64 = 50_000.0;
/// Longest time between two updates of the averaged share of marks.
const ALPHA_INTERVAL: TimeDelta = TimeDelta::from_millis(10);
/// Time after a mark in which the path is taken for one that marks.
const L4S_ACTIVE: TimeDelta = TimeDelta::from_secs(10);
/// A congestion after this time without one is met with more caution.
const LONG_QUIET: TimeDelta = TimeDelta::from_secs(5);
/// Shortest time between two updates of the window at which congestion was found.
const INFLECTION_INTERVAL: TimeDelta = TimeDelta::from_millis(250);
/// Interval at which the target delay is adjusted.
const DELAY_INTERVAL: TimeDelta = TimeDelta::from_millis(50);
/// The base delay is the smallest of so many spans.
const BASE_SPANS: usize = 10;
const BASE_SPAN: TimeDelta = TimeDelta::from_secs(60);

/// Explicit congestion notification with SCReAM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Words)]
pub enum ScreamEcn {
    /// Packets are not ECN-capable.
    #[default]
    None,
    /// Packets carry ECT(0), and a mark reduces the window by a fixed part.
    Classic,
    /// Packets carry ECT(1), and marks reduce the window by their share (RFC 9331).
    L4s,
}

/// SCReAM, version 2 (draft-johansson-ccwg-rfc8298bis-screamv2).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("scream")]
pub struct ScreamParams {
    /// What its packets say of explicit congestion notification, and so what a mark means.
    #[parameter(default = ScreamEcn::None)]
    pub ecn: ScreamEcn,
    /// The lowest target of the queueing delay.
    #[parameter(default = TimeDelta::from_millis(60), min = TimeDelta::from_millis(5), max = TimeDelta::from_millis(400))]
    pub target: TimeDelta,
    /// Whether the target delay grows where flows compete that fill the queue.
    #[parameter(default = true)]
    pub compete: bool,
    /// What a loss leaves of the window.
    #[parameter(default = 0.7, min = 0.3, max = 1.0)]
    pub beta_loss: f64,
    /// What a mark leaves of the window without L4S.
    #[parameter(default = 0.8, min = 0.3, max = 1.0)]
    pub beta_ecn: f64,
    /// Rate at which packets leave, as a multiple of the target rate.
    #[parameter(default = 1.5, min = 1.0, max = 10.0)]
    pub pacing: f64,
}

/// Frame sizes as multiples of what the target rate asks for, in bins of a tenth from 1 on; old ones are gradually forgotten.
#[derive(Clone, Copy, Debug, Default)]
struct FrameSizes {
    bins: [f64; 24],
}

impl FrameSizes {
    fn add(&mut self, size: f64) {
        let bin = (((size - 1.0) * 10.0) as usize).min(self.bins.len() - 1);
        self.bins.iter_mut().for_each(|count| *count *= 63.0 / 64.0);
        self.bins[bin] += 1.0;
    }
    /// The size that three of four frames do not exceed; 1 before the first.
    fn high(&self) -> f64 {
        let all: f64 = self.bins.iter().sum();
        let mut sum = 0.0;
        for (bin, count) in self.bins.iter().enumerate() {
            sum += count;
            if all > 0.0 && sum >= 0.75 * all {
                return 1.0 + (bin + 1) as f64 / 10.0;
            }
        }
        1.0
    }
}

/// Queueing delay: one-way delay above the smallest one. The clocks' offset does not matter.
#[derive(Clone, Debug, Default)]
struct QueueDelay {
    /// The smallest one-way delay of each span in nanoseconds, the newest last.
    bases: VecDeque<i128>,
    span: Option<Timestamp>,
    /// The last queueing delay in seconds, and its average.
    last: f64,
    average: f64,
    averaged: Timestamp,
    /// The target in seconds.
    target: f64,
    /// Delays relative to the lowest target, the newest last.
    history: VecDeque<f64>,
    adjusted: Timestamp,
}

impl QueueDelay {
    fn add(&mut self, now: Timestamp, sent: Timestamp, arrived: Timestamp) {
        let delay = i128::from(arrived.as_nanos()) - i128::from(sent.as_nanos());
        if self.span.is_none_or(|since| now.saturating_since(since) >= BASE_SPAN) {
            self.span = Some(now);
            self.bases.push_back(delay);
            if self.bases.len() > BASE_SPANS {
                self.bases.pop_front();
            }
        }
        if let Some(newest) = self.bases.back_mut() {
            *newest = (*newest).min(delay);
        }
        let base = self.bases.iter().copied().min().unwrap_or(delay);
        self.last = (delay - base) as f64 / 1e9;
    }

    /// Averages the delay once per round trip: slowly upwards, at once downwards.
    fn update_average(&mut self, now: Timestamp, srtt: TimeDelta) {
        if now.saturating_since(self.averaged) >= srtt {
            self.averaged = now;
            self.average = match self.last < self.average {
                true => self.last,
                false => self.average + QDELAY_AVG_G * (self.last - self.average),
            };
        }
    }

    /// Raises the target where flows compete that fill the queue, and lowers it again.
    fn adjust_target(&mut self, now: Timestamp, lowest: f64, loss_event_rate: f64) {
        if now.saturating_since(self.adjusted) < DELAY_INTERVAL {
            return;
        }
        self.adjusted = now;
        self.history.push_back(self.last / lowest);
        if self.history.len() > 200 {
            self.history.pop_front();
        }
        let count = self.history.len() as f64;
        let mean = self.history.iter().sum::<f64>() / count;
        let variance = self.history.iter().map(|delay| (delay - mean) * (delay - mean)).sum::<f64>() / count;
        let recent = self.history.iter().rev().take(50);
        let average = recent.clone().sum::<f64>() / recent.count() as f64;
        let new = (average + variance.sqrt()) * lowest;
        if loss_event_rate > 0.002 {
            self.target = 1.5 * new;
        } else if variance < 0.2 {
            self.target = new;
        } else if new < lowest {
            self.target = (0.5 * self.target).max(new);
        } else {
            self.target *= 0.9;
        }
        self.target = self.target.clamp(lowest, MAX_QDELAY_TARGET.max(lowest));
    }
}

/// SCReAM's congestion control.
#[derive(Clone, Debug)]
pub struct Scream {
    params: ScreamParams,
    /// Lowest and highest rate in bit/s.
    range: (f64, f64),
    mss: f64,
    /// Time between two frames in seconds.
    frame_interval: f64,
    ref_wnd: f64,
    /// The window at which congestion was found last, and when that was noted.
    inflection: f64,
    inflected: Option<Timestamp>,
    target: f64,
    srtt: TimeDelta,
    delay: QueueDelay,
    sizes: FrameSizes,
    /// Most bytes in flight in this round trip and the last one, and when this one began.
    max_in_flight: u64,
    prior_max_in_flight: u64,
    round: Timestamp,
    /// Share of marked packets, averaged; packets since its last update, and when that was.
    alpha: f64,
    delivered: u64,
    marked: u64,
    alpha_updated: Timestamp,
    /// The last mark.
    mark: Option<Timestamp>,
    /// When congestion was found last.
    congested: Option<Timestamp>,
    /// Losses and marks that have not been reacted to.
    lost: bool,
    ce: bool,
    /// Share of round trips with losses, averaged, and whether there was one in this round trip.
    loss_event_rate: f64,
    loss_event: bool,
}

impl BuiltIn for Scream {
    type Params = ScreamParams;
    const REPORTS: ReportRule = ReportRule::Share;

    fn new(params: &ScreamParams, config: &ControlConfig) -> Self {
        let [min, start, max] =
            [config.min_rate, config.start_rate, config.max_rate].map(|rate| rate.as_bps() as f64);
        Scream {
            params: *params,
            range: (min, max.max(min)),
            mss: config.packet as f64,
            frame_interval: config.frame_interval.as_secs_f64(),
            ref_wnd: MIN_REF_WND,
            inflection: 1.0,
            inflected: None,
            target: start,
            srtt: TimeDelta::ZERO,
            delay: QueueDelay { target: params.target.as_secs_f64(), ..QueueDelay::default() },
            sizes: FrameSizes::default(),
            max_in_flight: 0,
            prior_max_in_flight: 0,
            round: Timestamp::ZERO,
            alpha: 0.0,
            delivered: 0,
            marked: 0,
            alpha_updated: Timestamp::ZERO,
            mark: None,
            congested: None,
            lost: false,
            ce: false,
            loss_event_rate: 0.0,
            loss_event: false,
        }
    }
}

impl Scream {
    /// Whether the path marks packets of L4S.
    fn l4s_active(&self, now: Timestamp) -> bool {
        self.params.ecn == ScreamEcn::L4s && self.mark.is_some_and(|at| now.saturating_since(at) < L4S_ACTIVE)
    }

    /// The target of the queueing delay.
    pub fn qdelay_target(&self) -> TimeDelta {
        TimeDelta::from_secs_f64(self.delay.target)
    }

    fn count_marks(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        self.delivered += feedback.acked.len() as u64;
        let marked = feedback.acked.iter().filter(|packet| packet.ce).count() as u64;
        if marked > 0 {
            (self.mark, self.ce) = (Some(now), true);
        }
        self.marked += marked;
        let interval = ALPHA_INTERVAL.min(self.srtt);
        if self.delivered > 0 && now.saturating_since(self.alpha_updated) >= interval {
            let share = self.marked as f64 / self.delivered as f64;
            self.alpha += L4S_AVG_G * (share - self.alpha);
            (self.delivered, self.marked, self.alpha_updated) = (0, 0, now);
        }
    }

    /// Begins a round trip if one is over.
    fn update_round(&mut self, now: Timestamp) {
        if now.saturating_since(self.round) < self.srtt {
            return;
        }
        self.round = now;
        (self.prior_max_in_flight, self.max_in_flight) = (self.max_in_flight, 0);
        let event = f64::from(std::mem::take(&mut self.loss_event));
        self.loss_event_rate += 0.02 * (event - self.loss_event_rate);
    }

    /// Reduces the window if there is congestion, and not more often than once in a short round trip.
    fn reduce(&mut self, now: Timestamp) {
        let quiet = self.congested.map(|at| now.saturating_since(at));
        if quiet.is_some_and(|quiet| quiet < VIRTUAL_RTT.min(self.srtt)) {
            return;
        }
        let (lost, ce) = (std::mem::take(&mut self.lost), std::mem::take(&mut self.ce));
        let half = self.delay.target / 2.0;
        let srtt = self.srtt.as_secs_f64().max(1e-6);
        // The share of marks that two of them in a round trip are.
        let expected = 2.0 / self.target * self.mss * 8.0 / srtt;
        let by_delay = self.delay.last > half && (self.alpha < expected || !self.l4s_active(now));
        if !lost && !ce && !by_delay {
            return;
        }
        if self.inflected.is_none_or(|at| now.saturating_since(at) > INFLECTION_INTERVAL) {
            (self.inflection, self.inflected) = (self.ref_wnd, Some(now));
        }
        if lost {
            self.ref_wnd *= self.params.beta_loss;
        }
        if ce && self.params.ecn == ScreamEcn::L4s {
            let mut part = self.alpha / 2.0 * (1.0 - 2.0 * self.mss / self.ref_wnd).max(0.8);
            if quiet.is_none_or(|quiet| quiet > LONG_QUIET) {
                // The window may be far above what is in flight, and the average too low.
                if self.prior_max_in_flight > 0 {
                    self.ref_wnd = self.ref_wnd.min(self.prior_max_in_flight as f64);
                }
                part = part.max(0.25);
                self.alpha = 0.25;
            }
            self.ref_wnd *= 1.0 - part;
        } else if ce {
            self.ref_wnd *= self.params.beta_ecn;
        }
        if by_delay {
            let share = ((self.delay.average - half) / half).clamp(0.0, 1.0);
            self.ref_wnd *= 1.0 - share / 2.0;
        }
        self.ref_wnd = self.ref_wnd.max(MIN_REF_WND);
        self.congested = Some(now);
    }

    /// Lets the window grow for bytes that arrived without a mark.
    fn grow(&mut self, now: Timestamp, bytes: f64) {
        let ratio = self.mss / self.ref_wnd;
        let since = self.congested.map_or(f64::INFINITY, |at| now.saturating_since(at).as_secs_f64());
        let post_congestion = (since / POST_CONGESTION_DELAY).clamp(0.0, 1.0);
        let short = (self.srtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let mut increment = bytes * ratio * short * short;
        let low = if self.l4s_active(now) { (0.02 / ratio).clamp(0.1, 1.0) } else { 0.1 };
        let distance = 4.0 * (self.ref_wnd - self.inflection) / self.inflection;
        let near = (distance * distance).min(1.0).max(low);
        increment *= near;
        increment *= 1.0 + MUL_INCREASE_FACTOR * self.ref_wnd / self.mss * post_congestion * near;
        let in_flight = self.max_in_flight.max(self.prior_max_in_flight) as f64;
        if self.ref_wnd + increment <= self.mss + in_flight * BYTES_IN_FLIGHT_HEAD_ROOM {
            self.ref_wnd += increment;
        }
        if self.target > 0.95 * self.range.1 {
            // Near the highest rate a larger window would be of no use, and would have to fall first when congestion comes.
            let rate = self.params.pacing * self.sizes.high() * self.range.1 / 8.0;
            let bound = in_flight.max(rate * (self.srtt.as_secs_f64() + 0.001));
            self.ref_wnd = self.ref_wnd.min(bound.max(MIN_REF_WND));
        }
    }

    fn update_target(&mut self, now: Timestamp, in_flight: u64) {
        let mut factor = 1.0;
        let filled = in_flight as f64 / self.ref_wnd;
        if !self.l4s_active(now) && filled > BYTES_IN_FLIGHT_LIMIT {
            factor /= (filled / BYTES_IN_FLIGHT_LIMIT).min(BYTES_IN_FLIGHT_LIMIT_COMPENSATION);
        }
        factor *= 1.0 - (self.mss / self.ref_wnd - 0.1).clamp(0.0, 0.8);
        let rate = factor * 8.0 * self.ref_wnd / self.srtt.as_secs_f64().max(1e-3);
        self.target = rate.clamp(self.range.0, self.range.1);
    }
}

impl MediaControl for Scream {
    fn on_frame(&mut self, _: Timestamp, bytes: u64) {
        let size = bytes as f64 / (self.target * self.frame_interval / 8.0);
        if size > 1.0 {
            self.sizes.add(size);
        }
    }

    fn on_sent(&mut self, _: Timestamp, _: u64, in_flight: u64) {
        self.max_in_flight = self.max_in_flight.max(in_flight);
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        let now = feedback.now;
        if feedback.lost > 0 {
            (self.lost, self.loss_event) = (true, true);
        }
        if self.srtt.is_zero() && !feedback.srtt.is_zero() {
            // The window that belongs to the rate at the start.
            let start = self.target / 8.0 * feedback.srtt.as_secs_f64();
            self.ref_wnd = self.ref_wnd.max(start);
        }
        self.srtt = feedback.srtt;
        if let Some(newest) = feedback.acked.last() {
            self.delay.add(now, newest.sent, newest.arrived);
            self.delay.update_average(now, self.srtt);
            if self.params.compete {
                self.delay.adjust_target(now, self.params.target.as_secs_f64(), self.loss_event_rate);
            }
        }
        self.count_marks(feedback);
        self.update_round(now);
        self.reduce(now);
        let marked: u64 = feedback.acked.iter().filter(|packet| packet.ce).map(|packet| packet.bytes).sum();
        self.grow(now, feedback.passed.saturating_sub(marked) as f64);
        self.update_target(now, feedback.prior_in_flight);
    }

    fn target_rate(&self) -> Rate {
        Rate::from_bps(self.target as u64)
    }

    fn pacing_rate(&self) -> Rate {
        Rate::from_bps((self.target.max(RATE_PACE_MIN) * self.params.pacing) as u64)
    }

    fn window(&self) -> u64 {
        (self.ref_wnd * REF_WND_OVERHEAD * self.sizes.high()) as u64
    }

    fn cwnd(&self) -> Option<u64> {
        Some(self.ref_wnd as u64)
    }

    fn ecn(&self) -> Ecn {
        match self.params.ecn {
            ScreamEcn::None => Ecn::NotEct,
            ScreamEcn::Classic => Ecn::Ect0,
            ScreamEcn::L4s => Ecn::Ect1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::Acked;

    fn scream(params: ScreamParams) -> Scream {
        let config = ControlConfig {
            min_rate: Rate::from_bps(150_000),
            start_rate: Rate::from_bps(2_000_000),
            max_rate: Rate::from_bps(20_000_000),
            packet: 1000,
            frame_interval: TimeDelta::from_millis(33),
        };
        Scream::new(&params, &config)
    }

    /// What is the same for all packets of a test.
    #[derive(Clone, Copy)]
    struct Packets {
        /// One-way delay in milliseconds.
        delay: u64,
        /// Each so many packets are marked; none for 0.
        mark_each: u64,
        lost: u64,
    }

    const PLAIN: Packets = Packets { delay: 50, mark_each: 0, lost: 0 };

    /// Reports on a packet of 1000 bytes each 4 ms, with a round trip of 100 ms and a full window.
    fn feed(scream: &mut Scream, numbers: std::ops::Range<u64>, packets: Packets) {
        for seq in numbers {
            let sent = Timestamp::from_millis(1000 + 4 * seq);
            let in_flight = (0.8 * scream.ref_wnd) as u64;
            scream.on_sent(sent, 1000, in_flight);
            let ce = packets.mark_each > 0 && seq.is_multiple_of(packets.mark_each);
            let arrived = sent + TimeDelta::from_millis(packets.delay);
            scream.on_feedback(&Feedback {
                now: sent + TimeDelta::from_millis(100),
                acked: &[Acked { seq, sent, arrived, bytes: 1000, ce }],
                lost: packets.lost,
                passed: 1000,
                srtt: TimeDelta::from_millis(100),
                prior_in_flight: in_flight,
                in_flight,
            });
        }
    }

    #[test]
    fn the_window_begins_with_the_rate_at_the_start_and_the_target_rate_is_the_window_in_a_round_trip() {
        let mut scream = scream(ScreamParams::default());
        assert_eq!((scream.ecn(), scream.target_rate()), (Ecn::NotEct, Rate::from_bps(2_000_000)));
        feed(&mut scream, 0..1, PLAIN);
        // 25 kB; a packet is less than a tenth of it.
        assert!((25_000.0..25_500.0).contains(&scream.ref_wnd), "{}", scream.ref_wnd);
        let target = scream.target_rate().as_bps() as f64;
        assert!((target / (scream.ref_wnd * 80.0) - 1.0).abs() < 1e-3, "{target}");
        assert_eq!(scream.window(), (scream.ref_wnd * 1.5) as u64);
    }

    #[test]
    fn a_loss_leaves_70_percent_and_counts_once_in_25_ms() {
        let mut scream = scream(ScreamParams::default());
        feed(&mut scream, 0..10, PLAIN);
        let before = scream.ref_wnd;
        feed(&mut scream, 10..15, Packets { lost: 1, ..PLAIN });
        assert!((scream.ref_wnd / before - 0.7).abs() < 0.02, "{} after {before}", scream.ref_wnd);
    }

    #[test]
    fn a_classic_mark_leaves_80_percent() {
        let mut scream = scream(ScreamParams { ecn: ScreamEcn::Classic, ..ScreamParams::default() });
        assert_eq!(scream.ecn(), Ecn::Ect0);
        feed(&mut scream, 1..10, PLAIN);
        let before = scream.ref_wnd;
        feed(&mut scream, 10..11, Packets { mark_each: 10, ..PLAIN });
        assert!((scream.ref_wnd / before - 0.8).abs() < 0.02, "{} after {before}", scream.ref_wnd);
    }

    #[test]
    fn with_l4s_the_average_follows_the_share_of_marks() {
        let mut scream = scream(ScreamParams { ecn: ScreamEcn::L4s, ..ScreamParams::default() });
        assert_eq!(scream.ecn(), Ecn::Ect1);
        feed(&mut scream, 1..4000, Packets { mark_each: 4, ..PLAIN });
        assert!((scream.alpha - 0.25).abs() < 0.08, "{}", scream.alpha);
        assert!(scream.l4s_active(Timestamp::from_secs(17)) && !scream.l4s_active(Timestamp::from_secs(60)));
    }

    #[test]
    fn a_delay_above_half_the_target_reduces_the_window() {
        let mut scream = scream(ScreamParams { compete: false, ..ScreamParams::default() });
        feed(&mut scream, 0..200, PLAIN);
        let before = scream.ref_wnd;
        // 25 ms in the queue are below half the target, 55 ms above.
        feed(&mut scream, 200..400, Packets { delay: 75, ..PLAIN });
        assert!(scream.ref_wnd > before);
        let before = scream.ref_wnd;
        feed(&mut scream, 400..600, Packets { delay: 105, ..PLAIN });
        assert!(scream.ref_wnd < 0.3 * before, "{} after {before}", scream.ref_wnd);
    }

    #[test]
    fn the_target_delay_grows_where_a_long_queue_does_not_vary() {
        let long = Packets { delay: 250, ..PLAIN };
        for (compete, target) in [(false, 60), (true, 200)] {
            let mut scream = scream(ScreamParams { compete, ..ScreamParams::default() });
            feed(&mut scream, 0..500, PLAIN);
            feed(&mut scream, 500..5000, long);
            assert_eq!(scream.qdelay_target().as_millis(), target);
        }
    }

    #[test]
    fn large_frames_raise_what_may_be_in_flight() {
        let mut sizes = FrameSizes::default();
        assert_eq!(sizes.high(), 1.0);
        [1.05, 1.15, 1.25, 1.35].into_iter().for_each(|size| sizes.add(size));
        assert!((sizes.high() - 1.3).abs() < 0.11, "{}", sizes.high());
        sizes.add(100.0);
        assert!(sizes.high() <= 3.5);
    }
}
