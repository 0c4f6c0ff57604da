//! TCP-Illinois: losses say when the window falls, and the queueing delay says by how much, and how fast it grows: much and steeply while the queue is
//! short.
//!
//! Sources: S. Liu, T. Basar, R. Srikant, "TCP-Illinois: A Loss- and Delay-Based Congestion Control Algorithm for High-Speed Networks" (Performance
//! Evaluation 65, 2008; VALUETOOLS 2006); Linux tcp_illinois.c, whose constants these are.
//!
//! Once per round trip the mean of its RTTs is taken. With d_a its distance from the smallest RTT, and d_m that of the largest:
//!
//! * Growth per round trip, alpha, is 10 segments up to d_a = d_m / 100, and from there on k1 / (k2 + d_a), which falls to 0.3 at d_m. Back from a longer
//!   queue it takes five rounds without one until alpha is 10 again.
//! * What a loss takes of the window, beta, is 1/8 up to d_m / 10, a half from 8/10 of d_m on, and a straight line between.
//! * As in Linux, an acknowledgement counts for all that it adds to what is acknowledged in sequence. The one that ends a recovery counts for
//!   all of the recovery, so that the window grows by alpha at once. Where it grows, what is beyond whole segments is forgotten.
//! * Below 15 segments both are Reno's, and after a time-out, too, until the next round is judged.
//!
//! Departures: alpha and beta are exact, where Linux has steps of 1/128 and 1/64. Rounds are counted by delivered bytes. Where Linux cuts RTTs
//! above 3.3 s, against overflow, they count in full.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::slow_start::{AckCounting, SlowStartParams};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// Part of the largest queueing delay up to which the window grows at its fastest.
const SHORT_QUEUE: f64 = 0.01;
/// Parts of the largest queueing delay between which beta rises.
const BETA_RISES: (f64, f64) = (0.1, 0.8);

/// TCP-Illinois (Liu, Basar and Srikant 2006).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("illinois")]
pub struct IllinoisParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Growth per round trip with the longest queue.
    #[parameter(default = 0.3, above = 0.0, unit = "segments")]
    pub alpha_min: f64,
    /// Growth per round trip without a queue.
    #[parameter(default = 10.0, above = 0.0, not_below = "alpha_min", unit = "segments")]
    pub alpha_max: f64,
    /// What part of the window a loss takes where the queue was short.
    #[parameter(default = 0.125, above = 0.0, below = 1.0)]
    pub beta_min: f64,
    /// What part of the window a loss takes where the queue was long.
    #[parameter(default = 0.5, above = 0.0, below = 1.0, not_below = "beta_min")]
    pub beta_max: f64,
    /// Window below which it is Reno.
    #[parameter(default = 15, unit = "segments")]
    pub low_window: u32,
    /// Rounds with hardly a queue until the window grows at its fastest again.
    #[parameter(default = 5, min = 1)]
    pub theta: u32,
}

/// TCP-Illinois's congestion control.
#[derive(Clone, Debug)]
pub struct Illinois {
    window: Window,
    params: IllinoisParams,
    round: Round,
    /// Highest cumulative acknowledgement.
    ack: u64,
    /// RTTs of the present round: their sum in seconds, and how many.
    sum: f64,
    count: u32,
    /// Smallest and largest RTT of the connection.
    min_rtt: TimeDelta,
    max_rtt: TimeDelta,
    alpha: f64,
    beta: f64,
    /// Whether there has been a queue since alpha was last at its largest, and rounds without one since.
    had_queue: bool,
    clear_rounds: u32,
}

impl BuiltIn for Illinois {
    type Params = IllinoisParams;

    fn new(params: &IllinoisParams, config: &CcConfig) -> Self {
        let alpha_min = within(params.alpha_min, 1e-6, 1e6);
        let alpha_max = within(params.alpha_max, alpha_min, 1e6);
        let beta_min = within(params.beta_min, 0.0, 1.0);
        let beta_max = within(params.beta_max, beta_min, 1.0);
        Illinois {
            window: Window::new(config, &params.slow_start),
            params: IllinoisParams { alpha_min, alpha_max, beta_min, beta_max, ..*params },
            round: Round::default(),
            ack: 0,
            sum: 0.0,
            count: 0,
            min_rtt: TimeDelta::MAX,
            max_rtt: TimeDelta::ZERO,
            alpha: alpha_max,
            beta: beta_max,
            had_queue: false,
            clear_rounds: 0,
        }
    }
}

impl Illinois {
    /// Growth per round trip at a mean queueing delay of `mean`, of at most `most`, in seconds.
    fn growth(&mut self, mean: f64, most: f64) -> f64 {
        let IllinoisParams { alpha_min, alpha_max, theta, .. } = self.params;
        let short = most * SHORT_QUEUE;
        if mean <= short {
            if self.had_queue {
                self.clear_rounds += 1;
                if self.clear_rounds < theta {
                    return self.alpha;
                }
                self.clear_rounds = 0;
                self.had_queue = false;
            }
            return alpha_max;
        }
        self.had_queue = true;
        let (mean, most) = (mean - short, most - short);
        most * alpha_max / (most + mean * (alpha_max - alpha_min) / alpha_min)
    }

    /// What part of the window a loss takes at a mean queueing delay of `mean`, of at most `most`, in seconds.
    fn decrease(&self, mean: f64, most: f64) -> f64 {
        let IllinoisParams { beta_min, beta_max, .. } = self.params;
        let (low, high) = (most * BETA_RISES.0, most * BETA_RISES.1);
        if mean <= low {
            beta_min
        } else if mean >= high {
            beta_max
        } else {
            beta_min + (beta_max - beta_min) * (mean - low) / (high - low)
        }
    }

    /// The end of a round: alpha and beta of the next.
    fn judge(&mut self) {
        if self.window.cwnd < u64::from(self.params.low_window) * self.window.mss {
            self.be_reno();
        } else if self.count > 0 {
            let mean = self.sum / f64::from(self.count) - self.min_rtt.as_secs_f64();
            let most = self.max_rtt.saturating_sub(self.min_rtt).as_secs_f64();
            // A mean of equal RTTs may be off by a rounding.
            let mean = if most > 0.0 { mean.clamp(0.0, most) } else { 0.0 };
            self.alpha = self.growth(mean, most);
            self.beta = self.decrease(mean, most);
        }
        self.begin_round();
    }

    fn begin_round(&mut self) {
        (self.sum, self.count) = (0.0, 0);
    }

    fn be_reno(&mut self) {
        (self.alpha, self.beta) = (1.0, self.params.beta_max);
    }

    /// What remains of the window after a loss.
    fn reduced(&self) -> u64 {
        self.window.without(self.window.cwnd, self.beta)
    }
}

impl CongestionControl for Illinois {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.min_rtt = self.min_rtt.min(rtt);
            self.max_rtt = self.max_rtt.max(rtt);
            self.sum += rtt.as_secs_f64();
            self.count = self.count.saturating_add(1);
        }
        // A round that ends in recovery goes on until after it.
        let reducing = matches!(ack.phase, Phase::Recovery | Phase::Cwr);
        if !reducing && self.round.ends(ack) {
            self.judge();
        }
        let in_sequence = ack.ack.saturating_sub(self.ack).max(ack.mss);
        self.ack = self.ack.max(ack.ack);
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            let per = self.window.cwnd.max(2 * self.window.mss) as f64 / self.alpha;
            let counted = match self.params.slow_start.counting {
                AckCounting::Bytes => in_sequence,
                AckCounting::Acks => rest,
            };
            self.window.grow_in_whole(counted, per as u64);
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.window.reduce(self.reduced());
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        self.window.collapse(self.reduced());
        self.be_reno();
        (self.had_queue, self.clear_rounds) = (false, 0);
        self.begin_round();
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
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
        IllinoisParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One in congestion avoidance with so many segments that has seen RTTs from 100 to 200 ms.
    fn avoiding(segments: u64) -> (Illinois, Feeder) {
        let config = CcConfig { initial_ssthresh: segments * MSS, ..config(segments) };
        let mut illinois = Illinois::new(&IllinoisParams::default(), &config);
        (illinois.min_rtt, illinois.max_rtt) = (TimeDelta::from_millis(100), TimeDelta::from_millis(200));
        (illinois, Feeder::default())
    }

    /// Its alpha and beta after a round at `rtt`, which the next round's first acknowledgement judges.
    fn after(rtt: u64) -> (f64, f64) {
        let (mut illinois, mut feeder) = avoiding(100);
        feeder.mixed_round(&mut illinois, &[(1000, rtt)]);
        feeder.mixed_round(&mut illinois, &[(1, rtt)]);
        (illinois.alpha, illinois.beta)
    }

    #[test]
    fn alpha_falls_and_beta_rises_with_the_delay() {
        // d_m is 100 ms. alpha = 99 10 / (99 + (d_a - 1) 9.7 / 0.3), beta = 1/8 + 3/8 (d_a - 10) / 70.
        let table: [(u64, f64, f64); 8] = [
            (100, 10.0, 0.125),
            (101, 10.0, 0.125),
            (110, 2.538_462, 0.125),
            (120, 1.387_850, 0.178_571),
            (145, 0.650_602, 0.312_5),
            (150, 0.588_119, 0.339_286),
            (180, 0.373_116, 0.5),
            (200, 0.3, 0.5),
        ];
        for (rtt, alpha, beta) in table {
            let (is_alpha, is_beta) = after(rtt);
            assert!((is_alpha - alpha).abs() < 1e-5, "alpha at {rtt} ms: {is_alpha}");
            assert!((is_beta - beta).abs() < 1e-5, "beta at {rtt} ms: {is_beta}");
        }
    }

    #[test]
    fn a_round_trip_grows_by_alpha() {
        for (rtt, rounds, grown) in [(100, 1, 10), (200, 10, 3)] {
            let (mut illinois, mut feeder) = avoiding(400);
            feeder.round(&mut illinois, rtt);
            feeder.mixed_round(&mut illinois, &[(1, rtt)]);
            let before = illinois.cwnd();
            for _ in 0..rounds {
                feeder.round(&mut illinois, rtt);
            }
            let grown_by = (illinois.cwnd() - before) / MSS;
            assert!(grown_by.abs_diff(grown) <= 1, "{grown_by} at {rtt} ms");
        }
    }

    #[test]
    fn growth_is_largest_only_after_five_rounds_without_a_queue() {
        let (mut illinois, mut feeder) = avoiding(100);
        feeder.round(&mut illinois, 150);
        let mut alphas = Vec::new();
        for _ in 0..7 {
            feeder.mixed_round(&mut illinois, &[(200, 100)]);
            alphas.push(illinois.alpha);
        }
        // The round of 150 ms is judged at the start of the first here, whose last one is judged at the start of the next.
        assert!(alphas[..5].iter().all(|alpha| (0.5..0.7).contains(alpha)), "{alphas:?}");
        assert_eq!(alphas[5..], [10.0, 10.0]);
    }

    #[test]
    fn a_small_window_and_a_time_out_are_renos() {
        let (mut illinois, mut feeder) = avoiding(10);
        feeder.round(&mut illinois, 100);
        feeder.round(&mut illinois, 100);
        assert_eq!((illinois.alpha, illinois.beta), (1.0, 0.5));
        let (mut illinois, mut feeder) = avoiding(100);
        feeder.mixed_round(&mut illinois, &[(10, 105)]);
        assert!(illinois.alpha > 4.0 && illinois.beta == 0.125, "{illinois:?}");
        (illinois.had_queue, illinois.clear_rounds) = (true, 3);
        illinois.on_rto(&event(1, 0));
        assert_eq!((illinois.alpha, illinois.beta), (1.0, 0.5));
        assert_eq!((illinois.had_queue, illinois.clear_rounds), (false, 0));
        assert_eq!((illinois.cwnd(), illinois.ssthresh()), (MSS, 88 * MSS));
    }

    #[test]
    fn the_end_of_a_recovery_counts_for_all_that_it_acknowledges() {
        for (counting, grown) in [(AckCounting::Bytes, 2), (AckCounting::Acks, 0)] {
            let params = IllinoisParams {
                slow_start: SlowStartParams { counting, ..SlowStartParams::default() },
                ..IllinoisParams::default()
            };
            let config = CcConfig { initial_ssthresh: 100 * MSS, ..config(100) };
            let mut illinois = Illinois::new(&params, &config);
            illinois.alpha = 1.0;
            let ack = AckSample { delivered: 0, ack: 10 * MSS, ..sample(1, MSS) };
            illinois.on_ack(&AckSample { phase: Phase::Recovery, ..ack });
            illinois.round.restart_at(1 << 40);
            illinois.alpha = 1.0;
            illinois.on_ack(&AckSample { ack: 260 * MSS, ..ack });
            assert_eq!(illinois.cwnd() / MSS - 100, grown, "{counting:?}");
        }
    }

    #[test]
    fn a_loss_takes_beta_and_undo_gives_it_back() {
        for (rtt, remain) in [(100, 88), (145, 69), (200, 50)] {
            let (mut illinois, mut feeder) = avoiding(100);
            feeder.mixed_round(&mut illinois, &[(1000, rtt)]);
            feeder.mixed_round(&mut illinois, &[(1, rtt)]);
            illinois.window.cwnd = 100 * MSS;
            illinois.on_congestion_event(&event(1, 0));
            assert_eq!((illinois.cwnd(), illinois.ssthresh()), (remain * MSS, remain * MSS), "{rtt} ms");
            illinois.undo(Timestamp::from_millis(2));
            assert_eq!(illinois.cwnd(), 100 * MSS);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_is_filled_sooner_than_by_reno() {
        // 4000 packets/s and 200 ms: a pipe of 800 packets, a tenth of it as queue.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            Bottleneck::new(vec![flow], 4000, 200, 80).measure(5, 60).shares[0]
        };
        let (illinois, reno) = (share("illinois"), share("reno"));
        assert!(illinois > 0.8 && illinois > reno + 0.2, "{illinois} against {reno}");
    }
}
