//! H-TCP: the longer ago the last loss, the faster the window grows; and it shrinks by no more than it takes to empty the queue.
//!
//! Sources: D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks" (PFLDnet 2004); draft-leith-tcp-htcp-06 (the sections
//! below are its); Linux tcp_htcp.c, from which the constants, the scaling by the round trip, the fading of the largest one and the
//! bookkeeping of growth come.
//!
//! * Section 3.1: up to a second after a loss the window grows as Reno's; D seconds later by 1 + 10 D + (D / 2)^2 segments per round trip,
//!   times 2 (1 - beta), so that how it shares does not depend on beta.
//! * Section 3.2: beta is the smallest round trip over the largest, within 0.5 and 0.8: what remains then just fills the path. Where the
//!   throughput before a loss differs by more than a fifth from that before the last one, the path is being shared anew, and beta is 0.5.
//!
//! As in Linux, growth is a whole multiple of 2 (1 - beta) segments, computed at a loss and with every segment that is added. What fills
//! a window adds that segment with the next acknowledgement, which counts for nothing else, and what was counted beyond the window is
//! forgotten: a window of a few segments grows more slowly than the draft has it. The time since a loss begins when it has been repaired.
//!
//! Departure: windows are counted in bytes and round trips in nanoseconds, where Linux has segments and jiffies.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// The round trip at which scaling by the round trip changes nothing.
const REFERENCE_RTT: TimeDelta = TimeDelta::from_millis(100);
/// By how much the largest round trip rises at most with a sample: a longer one is an accident.
const RTT_STEP: TimeDelta = TimeDelta::from_millis(20);
/// A shorter path has no beta of its own: its round trips are measured too coarsely.
const SHORT_PATH: TimeDelta = TimeDelta::from_millis(10);
/// What remains of the distance between the smallest and the largest round trip after a loss, so that another route is taken up.
const FADING: f64 = 0.95;

/// H-TCP (Leith and Shorten 2004, draft-leith-tcp-htcp).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("htcp")]
pub struct HtcpParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Time after a loss in which the window grows as Reno's.
    #[parameter(default = TimeDelta::from_secs(1))]
    pub low_speed: TimeDelta,
    /// What remains of the window after a loss, at least.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// What remains of the window after a loss, at most.
    #[parameter(default = 0.8, above = 0.0, below = 1.0, not_below = "beta")]
    pub beta_max: f64,
    /// Whether what remains after a loss is the smallest round trip divided by the largest, within `beta` and `beta_max`. If not, it is always
    /// `beta`.
    #[parameter(default = true)]
    pub adaptive_backoff: bool,
    /// Whether `beta` remains after a loss if the throughput has changed by more than a fifth since the loss before.
    #[parameter(default = true)]
    pub bandwidth_switch: bool,
    /// Whether flows with a round trip of less than 100ms grow more slowly, and those with a longer one faster, so that they share.
    #[parameter(default = true)]
    pub rtt_scaling: bool,
}

/// What has been measured since a loss.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    /// When it was repaired, and until then when it was; the connection's first acknowledgement before any.
    began: Timestamp,
    /// Largest round trip, zero before the first sample.
    max_rtt: TimeDelta,
    /// Largest throughput in bytes per second; and that of the epoch before, zero before there was one.
    throughput: f64,
    last_throughput: f64,
}

/// H-TCP's congestion control.
#[derive(Clone, Debug)]
pub struct Htcp {
    window: Window,
    params: HtcpParams,
    epoch: Epoch,
    /// The epoch before the last reduction, for undo; until the loss has been repaired.
    prior: Option<Epoch>,
    /// Smallest round trip of the connection.
    min_rtt: TimeDelta,
    beta: f64,
    /// Segments of growth per round trip.
    alpha: f64,
    /// Whether the last loss found the throughput as it was before.
    steady: bool,
    /// The present sample of the throughput: since when, and the bytes acknowledged; and the smoothed one.
    sampled: Timestamp,
    acked: u64,
    smoothed: f64,
}

impl BuiltIn for Htcp {
    type Params = HtcpParams;

    fn new(params: &HtcpParams, config: &CcConfig) -> Self {
        let beta = within(params.beta, 0.0, 1.0);
        let beta_max = within(params.beta_max, beta, 1.0);
        Htcp {
            window: Window::new(config, &params.slow_start),
            params: HtcpParams { beta, beta_max, ..*params },
            epoch: Epoch {
                began: Timestamp::NEVER,
                max_rtt: TimeDelta::ZERO,
                throughput: 0.0,
                last_throughput: 0.0,
            },
            prior: None,
            min_rtt: TimeDelta::MAX,
            beta,
            alpha: 1.0,
            steady: false,
            sampled: Timestamp::ZERO,
            acked: 0,
            smoothed: 0.0,
        }
    }
}

impl Htcp {
    /// Segments of growth per round trip at `now`.
    fn growth(&self, now: Timestamp) -> f64 {
        let since =
            now.saturating_since(self.epoch.began).saturating_sub(self.params.low_speed).as_secs_f64();
        let mut growth = (1.0 + 10.0 * since + (since / 2.0) * (since / 2.0)).floor();
        if self.params.rtt_scaling && self.min_rtt != TimeDelta::MAX {
            let longer = self.min_rtt.as_secs_f64() / REFERENCE_RTT.as_secs_f64();
            growth = (growth * longer.clamp(0.1, 2.0)).floor().max(1.0);
        }
        2.0 * (1.0 - self.beta) * growth
    }

    fn measure(&mut self, ack: &AckSample) {
        if !self.epoch.began.is_set() {
            (self.epoch.began, self.sampled) = (ack.now, ack.now);
        }
        if ack.phase == Phase::Open && self.prior.take().is_some() {
            self.epoch.began = ack.now;
        }
        if let Some(rtt) = ack.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            if ack.phase == Phase::Open {
                let max = self.epoch.max_rtt.max(self.min_rtt);
                self.epoch.max_rtt = if rtt <= max + RTT_STEP { max.max(rtt) } else { max };
            }
        }
        self.acked = self.acked.saturating_add(ack.acked);
        let span = ack.now.saturating_since(self.sampled);
        let is_window = self.acked >= self.window.cwnd.saturating_sub(self.window.mss);
        if !is_window || span < self.min_rtt || span.is_zero() || ack.phase != Phase::Open {
            return;
        }
        let sample = self.acked as f64 / span.as_secs_f64();
        (self.sampled, self.acked) = (ack.now, 0);
        // Just after a loss the past does not count.
        if ack.now.saturating_since(self.epoch.began) <= self.min_rtt * 3 {
            (self.smoothed, self.epoch.throughput) = (sample, sample);
        } else {
            self.smoothed += (sample - self.smoothed) / 4.0;
            self.epoch.throughput = self.epoch.throughput.max(self.smoothed);
        }
    }

    /// A loss at `now`: sets beta, begins the next epoch, and says what remains of the window.
    fn lose(&mut self, now: Timestamp) -> u64 {
        self.prior = Some(self.epoch);
        self.beta = self.backoff();
        self.alpha = self.growth(now);
        let share = self.window.share(self.window.cwnd, self.beta);
        let distance = self.epoch.max_rtt.saturating_sub(self.min_rtt).mul_f64(FADING);
        self.epoch.max_rtt = if distance.is_zero() { self.epoch.max_rtt } else { self.min_rtt + distance };
        self.epoch.last_throughput = self.epoch.throughput;
        self.epoch.began = now;
        (self.sampled, self.acked) = (now, 0);
        share
    }

    /// Congestion avoidance of an acknowledgement that counts for so many bytes, as htcp_cong_avoid has it.
    fn avoid(&mut self, ack: &AckSample, counted: u64) {
        let counted = if ack.phase == Phase::Open { counted } else { self.window.mss };
        let per = (self.window.cwnd as f64 / self.alpha).ceil() as u64;
        if self.window.grow_late(counted, per) {
            self.alpha = self.growth(ack.now);
        }
    }

    /// What part of the window remains after a loss.
    fn backoff(&mut self) -> f64 {
        let Epoch { throughput, last_throughput: last, max_rtt, .. } = self.epoch;
        let HtcpParams { beta: least, beta_max, adaptive_backoff, bandwidth_switch, .. } = self.params;
        if !adaptive_backoff {
            return least;
        }
        if bandwidth_switch && (throughput - last).abs() > 0.2 * last {
            self.steady = false;
            return least;
        }
        let was_steady = std::mem::replace(&mut self.steady, true);
        if !was_steady || self.min_rtt <= SHORT_PATH || self.min_rtt == TimeDelta::MAX || max_rtt.is_zero() {
            return least;
        }
        (self.min_rtt.as_secs_f64() / max_rtt.as_secs_f64()).clamp(least, beta_max)
    }
}

impl CongestionControl for Htcp {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.measure(ack);
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            self.avoid(ack, rest);
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        let threshold = self.lose(event.now);
        self.window.reduce(threshold);
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        let threshold = self.lose(event.now);
        self.window.collapse(threshold);
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        if self.window.undo()
            && let Some(prior) = self.prior.take()
        {
            self.epoch = prior;
        }
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
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
    }
    fn name(&self) -> &'static str {
        HtcpParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One that has just lost, at time zero of the feeder, with a window of `segments`.
    fn after_loss(params: &HtcpParams, segments: u64) -> Htcp {
        let mut htcp = Htcp::new(params, &config(2 * segments));
        htcp.on_congestion_event(&event(0, 2 * segments * MSS));
        assert_eq!(htcp.cwnd(), segments * MSS);
        htcp
    }

    #[test]
    fn growth_is_renos_for_a_second_and_then_rises_with_time() {
        let mut htcp = after_loss(&HtcpParams::default(), 50);
        let mut feeder = Feeder::default();
        let mut grown = Vec::new();
        for _ in 0..40 {
            let before = htcp.cwnd();
            feeder.round(&mut htcp, 100);
            grown.push((htcp.cwnd() - before) as f64 / MSS as f64);
        }
        // beta is a half, so 2 (1 - beta) is one.
        assert!(grown[..9].iter().all(|segments| *segments <= 2.0), "{grown:?}");
        // Two and three seconds after the loss 1 + 10 D + (D / 2)^2 is 11 and 22; an acknowledgement in eleven counts for nothing.
        assert!((8.0..=11.0).contains(&grown[20]), "{grown:?}");
        assert!((18.0..=21.0).contains(&grown[30]), "{grown:?}");
    }

    #[test]
    fn growth_is_scaled_by_the_round_trip_within_limits() {
        let growth = |rtt: u64, rtt_scaling: bool| {
            let mut htcp = after_loss(&HtcpParams { rtt_scaling, ..HtcpParams::default() }, 50);
            Feeder::default().round(&mut htcp, rtt);
            htcp.growth(htcp.epoch.began + TimeDelta::from_secs(3))
        };
        assert_eq!(growth(100, true), 22.0);
        assert_eq!((growth(50, true), growth(200, true)), (11.0, 44.0));
        assert_eq!((growth(1, true), growth(1000, true)), (2.0, 44.0));
        assert_eq!((growth(1, false), growth(1000, false)), (22.0, 22.0));
    }

    #[test]
    fn beta_empties_the_queue_once_the_throughput_is_steady() {
        let lose_after = |params: &HtcpParams, rtt: u64| {
            let mut htcp = after_loss(params, 50);
            let mut feeder = Feeder::default();
            let mut betas = Vec::new();
            for _ in 0..4 {
                for _ in 0..5 {
                    feeder.round(&mut htcp, 100);
                    feeder.mixed_round(&mut htcp, &[(50, rtt)]);
                }
                // The window at the loss is the same each time, and so is the throughput.
                htcp.window.cwnd = 100 * MSS;
                let now = Timestamp::ZERO + TimeDelta::from_nanos(feeder.mark());
                htcp.on_congestion_event(&event(now.as_millis(), 100 * MSS));
                betas.push(htcp.beta);
            }
            betas
        };
        let betas = lose_after(&HtcpParams { bandwidth_switch: false, ..HtcpParams::default() }, 115);
        assert!((betas[3] - 0.8).abs() < 1e-9, "100 over 115 is more than the most: {betas:?}");
        let plain = HtcpParams { adaptive_backoff: false, ..HtcpParams::default() };
        assert_eq!(lose_after(&plain, 115), [0.5; 4]);
    }

    #[test]
    fn a_change_of_throughput_makes_it_give_way() {
        let mut htcp = after_loss(&HtcpParams::default(), 50);
        (htcp.min_rtt, htcp.epoch.max_rtt) = (TimeDelta::from_millis(70), TimeDelta::from_millis(100));
        for (throughput, beta) in
            [(1000.0, 0.5), (1100.0, 0.5), (1200.0, 0.7), (2000.0, 0.5), (2100.0, 0.5), (2000.0, 0.7)]
        {
            htcp.epoch.throughput = throughput;
            (htcp.epoch.max_rtt, htcp.min_rtt) = (TimeDelta::from_millis(100), TimeDelta::from_millis(70));
            htcp.on_congestion_event(&event(1, 100 * MSS));
            assert!((htcp.beta - beta).abs() < 1e-9, "{throughput}: {}", htcp.beta);
        }
    }

    #[test]
    fn undo_brings_the_time_since_the_last_loss_back() {
        let mut htcp = after_loss(&HtcpParams::default(), 50);
        htcp.on_congestion_event(&event(3000, 50 * MSS));
        assert_eq!(htcp.epoch.began, Timestamp::from_secs(3));
        htcp.undo(Timestamp::from_secs(4));
        assert_eq!((htcp.cwnd(), htcp.epoch.began), (50 * MSS, Timestamp::ZERO));
        // Time counts from when a loss has been repaired.
        htcp.on_congestion_event(&event(5000, 50 * MSS));
        htcp.on_ack(&AckSample { phase: Phase::Recovery, ..sample(5500, MSS) });
        assert_eq!(htcp.epoch.began, Timestamp::from_secs(5));
        htcp.on_ack(&sample(6000, MSS));
        htcp.on_ack(&sample(7000, MSS));
        assert_eq!(htcp.epoch.began, Timestamp::from_secs(6));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_is_filled_sooner_than_by_reno_and_shared_with_itself() {
        // 4000 packets/s and 200 ms: a pipe of 800 packets, a tenth of it as queue.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            Bottleneck::new(vec![flow], 4000, 200, 80).measure(5, 60).shares[0]
        };
        let (htcp, reno) = (share("htcp"), share("reno"));
        assert!(htcp > 0.85 && htcp > reno + 0.1, "{htcp} against {reno}");
        let flows = (0..2).map(|_| Htcp::new(&HtcpParams::default(), &config(10)));
        let flows = flows.map(|htcp| super::super::Controller::Htcp(Box::new(htcp))).collect();
        let shares = Bottleneck::new(flows, 2000, 40, 80).measure(20, 120).shares;
        assert!(shares[0] + shares[1] > 0.9, "{shares:?}");
        assert!(shares[0].min(shares[1]) / shares[0].max(shares[1]) > 0.5, "{shares:?}");
    }
}
