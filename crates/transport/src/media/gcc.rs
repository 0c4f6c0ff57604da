//! Google Congestion Control (GCC): the rate follows how one-way delay changes, and losses where there are many.
//!
//! Sources: draft-ietf-rmcat-gcc-02 (the sections below are its), in its first version, with both controllers at the sender and reports per
//! packet; G. Carlucci, L. De Cicco, S. Holmer and S. Mascolo, "Analysis and Design of the Google Congestion Control for Web Real-time
//! Communication (WebRTC)" (MMSys 2016), for the adaptive threshold. What the draft leaves open is as in aiortc's rate.py, which is adapted from
//! WebRTC's code.
//!
//! * Section 5.2: packets are taken together in groups of 5 ms; a packet that arrives in a burst belongs to the group before.
//! * Section 5.3: a Kalman filter estimates from group to group by how much the delay grows.
//! * Section 5.4: the estimate is held against a threshold that follows it, quickly upwards and slowly downwards, so that a TCP flow that fills
//!   the queue does not starve the stream.
//! * Section 5.5: over-use sets the rate to 0.85 of what arrives; else it grows, by 8 % a second, or near the rate at which over-use was found
//!   before by half a packet per round trip and 100 ms.
//! * Section 6: more than 10 % of loss reduces the rate, less than 2 % lets it grow. The lower of both rates counts.
//!
//! Departures and what the draft leaves open:
//!
//! * The detector compares the estimate times the number of groups, at most 60, with its threshold. Only so are 12.5 ms a threshold for a
//!   change from group to group; the code in use does the same, the draft does not say it.
//! * The variance of the rate at over-use is relative to that rate and lies between 0.4 and 2.5 kbit/s, as in aiortc.
//! * The loss-based rate changes once for at least 20 packets and 200 ms, where the draft has every report, and falls from the rate in use.
//! * Packets are paced at 2.5 times the target rate, as in WebRTC; the draft paces at the target rate, with which frames wait at the sender.
//! * There is no probing, with which WebRTC finds a high rate early.

use std::collections::VecDeque;

use warpline_core::parameter::Parameters;
use warpline_core::{Rate, TimeDelta, Timestamp, float};

use super::{Acked, BuiltIn, ControlConfig, Feedback, MediaControl, ReportRule};

/// Packets sent within this time are one group, in milliseconds.
const BURST: f64 = 5.0;
/// Groups by which the estimate is multiplied at most.
const MOST_GROUPS: u32 = 60;
/// Variance of the state noise, and the first variance of the estimate.
const STATE_NOISE: f64 = 1e-3;
const FIRST_ERROR: f64 = 0.1;
/// Weight in the variance of the measured noise, at 30 groups a second (chi).
const CHI: f64 = 0.01;
/// The threshold in milliseconds lies between these, and does not follow an estimate that is further above it than this.
const THRESHOLD: (f64, f64) = (6.0, 600.0);
const OUTLIER: f64 = 15.0;
/// Window of the received rate.
const WINDOW: TimeDelta = TimeDelta::from_millis(500);
/// Time and packets for one change of the loss-based rate.
const LOSS_INTERVAL: TimeDelta = TimeDelta::from_millis(200);
const LOSS_PACKETS: u64 = 20;

/// Google Congestion Control (draft-ietf-rmcat-gcc-02; Carlucci et al. 2016).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("gcc")]
pub struct GccParams {
    /// What over-use leaves of the received rate.
    #[parameter(default = 0.85, min = 0.5, max = 0.95)]
    pub beta: f64,
    /// Growth of the rate in a second, far from the rate at which over-use was found.
    #[parameter(default = 1.08, above = 1.0, max = 2.0)]
    pub growth: f64,
    /// The threshold of the over-use detector at the start.
    #[parameter(default = TimeDelta::from_micros(12_500), min = TimeDelta::from_millis(6), max = TimeDelta::from_millis(600))]
    pub threshold: TimeDelta,
    /// How fast the threshold follows a larger estimate, per millisecond (K_u). With 0 here and in `threshold_down` it is fixed.
    #[parameter(default = 0.01, min = 0.0, max = 0.1)]
    pub threshold_up: f64,
    /// How fast the threshold follows a smaller estimate, per millisecond (K_d).
    #[parameter(default = 0.00018, min = 0.0, max = 0.1)]
    pub threshold_down: f64,
    /// How long the estimate must be above the threshold.
    #[parameter(default = TimeDelta::from_millis(10))]
    pub overuse_time: TimeDelta,
    /// Rate at which packets leave, as a multiple of the target rate.
    #[parameter(default = 2.5, min = 1.0, max = 10.0)]
    pub pacing: f64,
}

/// What the detector says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    Normal,
    Overuse,
    Underuse,
}

/// What the delay-based rate does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Decrease,
    Hold,
}

/// A group of packets; times in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: f64,
    sent: f64,
    arrived: f64,
}

/// Takes packets together, and says how the delay changes from one group to the next.
#[derive(Clone, Copy, Debug, Default)]
struct Groups {
    present: Option<Group>,
    last: Option<Group>,
    /// One past the last packet's number.
    next: u64,
}

fn ms(at: Timestamp) -> f64 {
    at.as_nanos() as f64 / 1e6
}

impl Groups {
    /// Takes a packet. If it begins a group: how long after the one before the last group was sent, how long after it that arrived, and when.
    fn add(&mut self, packet: &Acked) -> Option<(f64, f64, f64)> {
        // What was overtaken is left out.
        if packet.seq < self.next {
            return None;
        }
        self.next = packet.seq + 1;
        let (sent, arrived) = (ms(packet.sent), ms(packet.arrived));
        let fresh = Group { first_sent: sent, sent, arrived };
        let Some(group) = &mut self.present else {
            self.present = Some(fresh);
            return None;
        };
        let between = arrived - group.arrived;
        let in_burst = between < BURST && between - (sent - group.sent) < 0.0;
        if sent - group.first_sent <= BURST || in_burst {
            (group.sent, group.arrived) = (sent, group.arrived.max(arrived));
            return None;
        }
        let group = *group;
        let deltas =
            self.last.map(|last| (group.sent - last.sent, group.arrived - last.arrived, group.arrived));
        (self.last, self.present) = (Some(group), Some(fresh));
        deltas
    }
}

/// The Kalman filter of section 5.3; in milliseconds.
#[derive(Clone, Debug)]
struct Filter {
    estimate: f64,
    error: f64,
    noise: f64,
    /// The last times between groups.
    intervals: VecDeque<f64>,
}

impl Filter {
    fn new() -> Self {
        Filter { estimate: 0.0, error: FIRST_ERROR, noise: 1.0, intervals: VecDeque::new() }
    }

    /// Takes by how much the delay has grown from one group to the next, which was sent `interval` later.
    fn update(&mut self, growth: f64, interval: f64) {
        if self.intervals.len() == MOST_GROUPS as usize {
            self.intervals.pop_front();
        }
        self.intervals.push_back(interval);
        let shortest = self.intervals.iter().copied().fold(f64::INFINITY, f64::min);
        let alpha = float::powf(1.0 - CHI, 30.0 * shortest / 1000.0);
        let residual = growth - self.estimate;
        let bounded = residual.min(3.0 * self.noise.sqrt());
        self.noise = (alpha * self.noise + (1.0 - alpha) * bounded * bounded).max(1.0);
        let error = self.error + STATE_NOISE;
        let gain = error / (self.noise + error);
        self.estimate += residual * gain;
        self.error = (1.0 - gain) * error;
    }
}

/// The over-use detector of section 5.4; in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Detector {
    threshold: f64,
    /// How long the estimate has been above the threshold.
    above: f64,
    groups: u32,
    last: f64,
    at: Option<f64>,
}

impl Detector {
    /// Holds the estimate after a group, which arrived at `at`, against the threshold.
    fn detect(&mut self, estimate: f64, interval: f64, at: f64, params: &GccParams) -> Signal {
        self.groups = (self.groups + 1).min(MOST_GROUPS);
        let offset = f64::from(self.groups) * estimate;
        let over = offset > self.threshold;
        self.above = if over { self.above + interval } else { 0.0 };
        let lasting = self.above >= params.overuse_time.as_nanos() as f64 / 1e6;
        let signal = match over {
            true if lasting && estimate >= self.last => Signal::Overuse,
            false if offset < -self.threshold => Signal::Underuse,
            _ => Signal::Normal,
        };
        self.last = estimate;
        let span = self.at.map_or(0.0, |last| (at - last).clamp(0.0, 100.0));
        self.at = Some(at);
        if offset.abs() - self.threshold <= OUTLIER {
            let down = offset.abs() < self.threshold;
            let speed = if down { params.threshold_down } else { params.threshold_up };
            let next = self.threshold + span * speed * (offset.abs() - self.threshold);
            self.threshold = next.clamp(THRESHOLD.0, THRESHOLD.1);
        }
        signal
    }
}

/// The rate at which packets arrive, in bit/s.
#[derive(Clone, Debug, Default)]
struct Received {
    packets: VecDeque<(Timestamp, u64)>,
    bytes: u64,
    first: Option<Timestamp>,
}

impl Received {
    fn add(&mut self, packet: &Acked) {
        self.first.get_or_insert(packet.arrived);
        self.packets.push_back((packet.arrived, packet.bytes));
        self.bytes += packet.bytes;
        while let Some(&(at, bytes)) = self.packets.front()
            && packet.arrived.saturating_since(at) > WINDOW
        {
            self.packets.pop_front();
            self.bytes -= bytes;
        }
    }

    /// The rate; none before there is enough to tell.
    fn rate(&self) -> Option<f64> {
        let (first, &(last, _)) = (self.first?, self.packets.back()?);
        let span = last.saturating_since(first).min(WINDOW).as_secs_f64();
        (span >= 0.2).then(|| self.bytes as f64 * 8.0 / span)
    }
}

/// The received rate at over-use: its average and variance, in kbit/s.
#[derive(Clone, Copy, Debug)]
struct Limit {
    average: f64,
    /// Relative to the average.
    variance: f64,
}

impl Limit {
    fn deviation(&self) -> f64 {
        (self.variance * self.average).sqrt()
    }
    fn add(&mut self, kbps: f64) {
        self.average += 0.05 * (kbps - self.average);
        let square = (self.average - kbps) * (self.average - kbps) / self.average.max(1.0);
        self.variance = (self.variance + 0.05 * (square - self.variance)).clamp(0.4, 2.5);
    }
}

/// Google Congestion Control.
#[derive(Clone, Debug)]
pub struct Gcc {
    params: GccParams,
    /// Lowest and highest rate in bit/s.
    range: (f64, f64),
    groups: Groups,
    filter: Filter,
    detector: Detector,
    received: Received,
    state: State,
    limit: Option<Limit>,
    /// Rates in bit/s: by delay, by losses, and the one in use.
    by_delay: f64,
    by_loss: f64,
    target: f64,
    updated: Option<Timestamp>,
    /// Since the last change of the loss-based rate: packets that arrived, packets lost, and when that was.
    arrived: u64,
    lost: u64,
    loss_updated: Option<Timestamp>,
}

impl BuiltIn for Gcc {
    type Params = GccParams;
    const REPORTS: ReportRule = ReportRule::Frame;

    fn new(params: &GccParams, config: &ControlConfig) -> Self {
        let [min, start, max] =
            [config.min_rate, config.start_rate, config.max_rate].map(|rate| rate.as_bps() as f64);
        Gcc {
            params: *params,
            range: (min, max.max(min)),
            groups: Groups::default(),
            filter: Filter::new(),
            detector: Detector {
                threshold: params.threshold.as_nanos() as f64 / 1e6,
                above: 0.0,
                groups: 0,
                last: 0.0,
                at: None,
            },
            received: Received::default(),
            state: State::Increase,
            limit: None,
            by_delay: start,
            by_loss: start,
            target: start,
            updated: None,
            arrived: 0,
            lost: 0,
            loss_updated: None,
        }
    }
}

impl Gcc {
    /// The threshold of the over-use detector.
    pub fn threshold(&self) -> TimeDelta {
        TimeDelta::from_secs_f64(self.detector.threshold / 1000.0)
    }

    /// Reacts to the detector.
    fn on_signal(&mut self, signal: Signal) {
        self.state = match (signal, self.state) {
            (Signal::Overuse, _) => State::Decrease,
            (Signal::Normal, State::Decrease) | (Signal::Underuse, _) => State::Hold,
            (Signal::Normal, State::Hold | State::Increase) => State::Increase,
        };
        if signal != Signal::Overuse {
            return;
        }
        let Some(received) = self.received.rate() else { return };
        let kbps = received / 1000.0;
        let far = |limit: &Limit| (kbps - limit.average).abs() > 3.0 * limit.deviation();
        match &mut self.limit {
            Some(limit) if !far(limit) => limit.add(kbps),
            other => *other = Some(Limit { average: kbps, variance: 0.4 }),
        }
        self.by_delay = self.by_delay.min(self.params.beta * received);
    }

    /// Lets the delay-based rate grow, `span` seconds after the last report.
    fn grow(&mut self, span: f64, srtt: TimeDelta) {
        let received = self.received.rate();
        if let (Some(limit), Some(received)) = (self.limit, received)
            && received / 1000.0 > limit.average + 3.0 * limit.deviation()
        {
            // There is more room than before.
            self.limit = None;
        }
        let near = |limit: Limit| {
            received
                .is_some_and(|received| (received / 1000.0 - limit.average).abs() <= 3.0 * limit.deviation())
        };
        let grown = if self.limit.is_some_and(near) {
            let frame = self.by_delay / 30.0;
            let packet = frame / (frame / (1200.0 * 8.0)).ceil().max(1.0);
            let response = 0.1 + srtt.as_secs_f64();
            self.by_delay + (0.5 * (span / response).min(1.0) * packet).max(1000.0)
        } else {
            self.by_delay * float::powf(self.params.growth, span.min(1.0))
        };
        // A stream that sends less than it may learns nothing of what there is.
        let bound = received.map_or(self.by_delay, |received| 1.5 * received);
        self.by_delay = grown.min(bound).max(self.by_delay.min(bound));
    }

    /// The loss-based controller.
    fn on_losses(&mut self, now: Timestamp) {
        let since = *self.loss_updated.get_or_insert(now);
        let packets = self.arrived + self.lost;
        if packets < LOSS_PACKETS || now.saturating_since(since) < LOSS_INTERVAL {
            return;
        }
        let share = self.lost as f64 / packets as f64;
        if share > 0.1 {
            self.by_loss = self.target * (1.0 - 0.5 * share);
        } else if share < 0.02 {
            self.by_loss = (1.05 * self.by_loss).min(self.range.1);
        }
        (self.arrived, self.lost, self.loss_updated) = (0, 0, Some(now));
    }
}

impl MediaControl for Gcc {
    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        self.arrived += feedback.acked.len() as u64;
        self.lost += feedback.lost;
        for packet in feedback.acked {
            self.received.add(packet);
            if let Some((sent, arrived, at)) = self.groups.add(packet) {
                self.filter.update(arrived - sent, sent);
                let signal = self.detector.detect(self.filter.estimate, sent, at, &self.params);
                self.on_signal(signal);
            }
        }
        let span = self.updated.map_or(0.0, |last| feedback.now.saturating_since(last).as_secs_f64());
        self.updated = Some(feedback.now);
        if self.state == State::Increase {
            self.grow(span, feedback.srtt);
        }
        self.on_losses(feedback.now);
        let (min, max) = self.range;
        self.by_delay = self.by_delay.clamp(min, max);
        self.target = self.by_delay.min(self.by_loss).clamp(min, max);
    }

    fn target_rate(&self) -> Rate {
        Rate::from_bps(self.target as u64)
    }

    fn pacing_rate(&self) -> Rate {
        Rate::from_bps((self.target * self.params.pacing) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> ControlConfig {
        ControlConfig {
            min_rate: Rate::from_bps(150_000),
            start_rate: Rate::from_bps(1_000_000),
            max_rate: Rate::from_bps(10_000_000),
            packet: 1200,
            frame_interval: TimeDelta::from_millis(33),
        }
    }

    /// Reports on a packet of 1200 bytes each 10 ms, 960 kbit/s, whose one-way delay in milliseconds is a function of its number.
    fn feed(gcc: &mut Gcc, packets: std::ops::Range<u64>, delay: impl Fn(u64) -> f64, lost: u64) {
        for seq in packets {
            let sent = Timestamp::from_millis(10 * seq);
            let arrived = sent + TimeDelta::from_secs_f64(delay(seq) / 1000.0);
            let acked = [Acked { seq, sent, arrived, bytes: 1200, ce: false }];
            gcc.on_feedback(&Feedback {
                now: arrived + TimeDelta::from_millis(20),
                acked: &acked,
                lost,
                passed: 1200,
                srtt: TimeDelta::from_millis(40),
                prior_in_flight: 12_000,
                in_flight: 12_000,
            });
        }
    }

    fn new() -> Gcc {
        Gcc::new(&GccParams::default(), &config())
    }

    #[test]
    fn the_rate_grows_by_8_percent_a_second_and_not_beyond_1_5_times_what_arrives() {
        let mut gcc = new();
        feed(&mut gcc, 0..200, |_| 20.0, 0);
        let before = gcc.target;
        feed(&mut gcc, 200..300, |_| 20.0, 0);
        assert!((gcc.target / before - 1.08).abs() < 0.001, "{}", gcc.target / before);
        feed(&mut gcc, 300..2000, |_| 20.0, 0);
        assert!((gcc.target / 960e3 - 1.5).abs() < 0.05, "{}", gcc.target);
    }

    #[test]
    fn a_growing_delay_sets_the_rate_to_85_percent_of_what_arrives() {
        let mut gcc = new();
        feed(&mut gcc, 0..200, |_| 20.0, 0);
        // The queue grows by a millisecond with each packet: ten elevenths of the rate arrive.
        feed(&mut gcc, 200..280, |seq| 20.0 + (seq - 200) as f64, 0);
        let expected = 0.85 * 960e3 / 1.1;
        assert!((gcc.target / expected - 1.0).abs() < 0.05, "{} instead of {expected}", gcc.target);
        assert_eq!(gcc.state, State::Decrease);
        // While the queue drains, it waits.
        let reduced = gcc.target;
        feed(&mut gcc, 280..320, |seq| 100.0 - 2.0 * (seq - 280) as f64, 0);
        assert_eq!(gcc.state, State::Hold);
        assert!(gcc.target < 1.05 * reduced, "{} after {reduced}", gcc.target);
    }

    #[test]
    fn the_threshold_follows_the_estimate_up_quickly_and_down_slowly() {
        let mut gcc = new();
        assert_eq!(gcc.threshold(), TimeDelta::from_micros(12_500));
        // An eighth of a millisecond per packet: with 60 groups an offset of 7.5 ms, below the threshold.
        feed(&mut gcc, 0..1000, |seq| 20.0 + 0.125 * seq as f64, 0);
        let low = gcc.threshold();
        assert!(low < TimeDelta::from_millis(9) && low >= TimeDelta::from_millis(6), "{low}");
        assert_eq!(gcc.state, State::Increase);
        // Three eighths: 22.5 ms are above it, but not by more than what is followed.
        feed(&mut gcc, 1000..1200, |seq| 145.0 + 0.375 * (seq - 1000) as f64, 0);
        let high = gcc.threshold();
        assert!(high > TimeDelta::from_millis(18), "{high}");
    }

    #[test]
    fn much_loss_reduces_and_some_loss_holds_the_rate() {
        let mut gcc = new();
        feed(&mut gcc, 0..200, |_| 20.0, 0);
        // Half of the packets are lost: each change takes a quarter.
        let before = gcc.target;
        feed(&mut gcc, 200..250, |_| 20.0, 1);
        assert!(gcc.target < 0.6 * before, "{} after {before}", gcc.target);
        let mut gcc = new();
        let mut rates = Vec::new();
        // One of twenty.
        for start in 0..10 {
            let seq = 20 * start;
            feed(&mut gcc, seq..seq + 1, |_| 20.0, 1);
            feed(&mut gcc, seq + 1..seq + 20, |_| 20.0, 0);
            rates.push(gcc.by_loss);
        }
        assert_eq!(rates, [1e6; 10]);
    }

    #[test]
    fn a_burst_after_an_outage_is_one_group() {
        let mut groups = Groups::default();
        let packet = |seq: u64, arrived: u64| Acked {
            seq,
            sent: Timestamp::from_millis(10 * seq),
            arrived: Timestamp::from_millis(arrived),
            bytes: 1200,
            ce: false,
        };
        let arrivals = [20, 30, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151];
        let deltas: Vec<_> =
            arrivals.iter().zip(0..).filter_map(|(&at, seq)| groups.add(&packet(seq, at))).collect();
        assert_eq!(deltas, [(10.0, 10.0, 30.0)]);
    }
}
