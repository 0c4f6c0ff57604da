//! YeAH-TCP: fast as Scalable TCP while the queue is short, Reno while it is not; and it drains the queue that it has made.
//!
//! Sources: A. Baiocchi, A. P. Castellani, F. Vacirca, "YeAH-TCP: Yet Another Highspeed TCP" (PFLDnet 2007); Linux tcp_yeah.c, whose constants and
//! order of events these are.
//!
//! Once per round trip, from the smallest of its RTTs, Q = cwnd (RTT - base) / RTT is what the connection holds in the queue.
//!
//! * Fast mode, with Q up to alpha = 80 segments and a queueing delay up to an eighth of the base RTT: growth is Scalable TCP's.
//! * Slow mode, else: growth is Reno's. Where Q is above alpha, the window falls by Q, at most by half, but not below the estimate of what Reno's
//!   window would be ("precautionary decongestion"). That estimate begins at half the window, grows by a segment with each round of slow
//!   mode, halves with a loss, and is forgotten after 50 rounds of fast mode.
//! * A loss takes Q, at least an eighth of the window and at most half; after 16 rounds of slow mode in a row there is competition by
//!   greedy flows, and it takes half.
//!
//! Departures: Q is exact, where Linux has whole segments. Rounds are counted by delivered bytes. As in `vegas.rs`, sending with nothing in flight
//! begins with a new base RTT, but after a time-out alone it stays.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::slow_start::{SlowStartParams, may_grow};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// RTT samples that a round needs to be judged: with fewer all may be of delayed acknowledgements.
const MIN_SAMPLES: u32 = 3;
/// Bytes of the window per byte of growth and round trip, in fast mode: Scalable TCP's increase is a hundredth.
const SCALABLE: u64 = 100;

/// YeAH-TCP (Baiocchi, Castellani and Vacirca 2007).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("yeah")]
pub struct YeahParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Segments in the queue up to which it is fast.
    #[parameter(default = 80.0, min = 0.0, unit = "segments")]
    pub alpha: f64,
    /// Queueing delay up to which it is fast, as a part of the base RTT (1 / phi).
    #[parameter(default = 0.125, min = 0.0)]
    pub max_delay: f64,
    /// What part of the window is drained in a round, at most (2^-epsilon).
    #[parameter(default = 0.5, min = 0.0, below = 1.0)]
    pub drain: f64,
    /// What part of the window a loss takes, at least (2^-delta).
    #[parameter(default = 0.125, above = 0.0, max = 0.5)]
    pub decrease: f64,
    /// Rounds of slow mode in a row after which a loss takes half.
    #[parameter(default = 16)]
    pub rho: u32,
    /// Rounds of fast mode after which the estimate of Reno's window is forgotten.
    #[parameter(default = 50)]
    pub zeta: u32,
}

/// YeAH-TCP's congestion control.
#[derive(Clone, Debug)]
pub struct Yeah {
    window: Window,
    params: YeahParams,
    round: Round,
    /// Smallest RTT of the connection, and of the present round; and the round's samples.
    base_rtt: TimeDelta,
    round_rtt: TimeDelta,
    samples: u32,
    /// Q of the last round judged, in bytes.
    queued: u64,
    /// What Reno's window would be, in bytes; two segments while it is not known.
    reno: u64,
    /// Rounds of slow mode in a row; none in fast mode.
    slow_rounds: u32,
    fast_rounds: u32,
    /// Whether the last acknowledgement came in good order.
    open: bool,
}

impl BuiltIn for Yeah {
    type Params = YeahParams;

    fn new(params: &YeahParams, config: &CcConfig) -> Self {
        let window = Window::new(config, &params.slow_start);
        Yeah {
            params: YeahParams {
                alpha: within(params.alpha, 0.0, 1e9) * window.mss as f64,
                max_delay: within(params.max_delay, 0.0, 1e9),
                drain: within(params.drain, 0.0, 1.0),
                decrease: within(params.decrease, 0.0, 0.5),
                ..*params
            },
            round: Round::default(),
            base_rtt: TimeDelta::MAX,
            round_rtt: TimeDelta::MAX,
            samples: 0,
            queued: 0,
            reno: 2 * window.mss,
            slow_rounds: 0,
            fast_rounds: 0,
            open: true,
            window,
        }
    }
}

impl Yeah {
    fn take_sample(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.max(TimeDelta::from_nanos(1));
            self.base_rtt = self.base_rtt.min(rtt);
            self.round_rtt = self.round_rtt.min(rtt);
            self.samples = self.samples.saturating_add(1);
        }
    }

    fn begin_round(&mut self) {
        self.round_rtt = TimeDelta::MAX;
        self.samples = 0;
    }

    /// The end of a round: which mode comes next, and what is drained.
    fn judge(&mut self) {
        if self.samples < MIN_SAMPLES {
            return;
        }
        let waited = self.round_rtt.saturating_sub(self.base_rtt);
        let share = waited.as_secs_f64() / self.round_rtt.as_secs_f64();
        self.queued = (self.window.cwnd as f64 * share) as u64;
        let long = self.queued as f64 > self.params.alpha;
        if !long && waited <= self.base_rtt.mul_f64(self.params.max_delay) {
            self.fast_rounds += 1;
            if self.fast_rounds > self.params.zeta {
                self.fast_rounds = 0;
                self.reno = 2 * self.window.mss;
            }
            self.slow_rounds = 0;
            return;
        }
        if long && self.window.cwnd > self.reno {
            let most = (self.window.cwnd as f64 * self.params.drain) as u64;
            self.window.cwnd = (self.window.cwnd - self.queued.min(most)).max(self.reno);
            self.window.ssthresh = self.window.cwnd;
        }
        let two = 2 * self.window.mss;
        self.reno = if self.reno <= two {
            self.window.share(self.window.cwnd, 0.5)
        } else {
            self.reno.saturating_add(self.window.mss)
        };
        self.slow_rounds = self.slow_rounds.saturating_add(1);
    }

    /// A loss: what remains of the window. Reno's would halve.
    fn lose(&mut self) -> u64 {
        let cwnd = self.window.cwnd;
        let half = cwnd / 2;
        let reduction = if self.slow_rounds < self.params.rho {
            self.queued.min(half).max((cwnd as f64 * self.params.decrease) as u64)
        } else {
            half
        };
        self.fast_rounds = 0;
        self.reno = self.window.share(self.reno, 0.5);
        self.window.less(cwnd, reduction)
    }
}

impl CongestionControl for Yeah {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.take_sample(ack);
        let open = ack.phase == Phase::Open;
        if open != std::mem::replace(&mut self.open, open) {
            // What was measured in a reduction says nothing of the round after it.
            self.begin_round();
            self.round.restart(ack);
        }
        let counted = self.window.counted(ack);
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                let reno = self.window.cwnd.max(2 * self.window.mss);
                let fast = reno.min(SCALABLE * self.window.mss);
                self.window.grow(rest, if self.slow_rounds == 0 { fast } else { reno });
            }
        }
        if may_grow(ack) && self.round.ends(ack) {
            self.judge();
            self.begin_round();
        }
        if ack.in_flight == 0 {
            self.base_rtt = TimeDelta::MAX;
            self.begin_round();
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        let threshold = self.lose();
        self.window.reduce(threshold);
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let threshold = self.lose();
        self.window.collapse(threshold);
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
        self.base_rtt = TimeDelta::MAX;
        self.begin_round();
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
        self.params.alpha = change.scaled_part(self.params.alpha);
        self.queued = change.scaled(self.queued);
        self.reno = change.scaled(self.reno);
    }
    fn name(&self) -> &'static str {
        YeahParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One in congestion avoidance with so many segments whose base RTT is 100 ms.
    fn avoiding(segments: u64) -> (Yeah, Feeder) {
        let config = CcConfig { initial_ssthresh: segments * MSS, ..config(segments) };
        let mut yeah = Yeah::new(&YeahParams::default(), &config);
        yeah.base_rtt = TimeDelta::from_millis(100);
        (yeah, Feeder::default())
    }

    /// A round at `rtt` from a window of `segments`, and its judgement, by the next round's first acknowledgement. How much it grew before that,
    /// in segments.
    fn round(yeah: &mut Yeah, feeder: &mut Feeder, segments: u64, rtt: u64) -> u64 {
        yeah.window.cwnd = segments * MSS;
        feeder.round(yeah, rtt);
        let grown = yeah.window.cwnd / MSS - segments;
        yeah.window.cwnd = segments * MSS;
        feeder.mixed_round(yeah, &[(1, rtt)]);
        grown
    }

    #[test]
    fn it_is_scalable_with_a_short_queue_and_reno_with_a_long_one() {
        // Q = 500 (rtt - 100) / rtt: 41 segments at 109 ms. 114 ms is more than an eighth above the base.
        for (rtt, slow, grown) in [(100, 0, 5), (109, 0, 5), (112, 0, 5), (114, 1, 1)] {
            let (mut yeah, mut feeder) = avoiding(500);
            round(&mut yeah, &mut feeder, 500, rtt);
            assert_eq!(yeah.slow_rounds, slow, "{rtt} ms");
            // The mode holds until the next round is judged; the first acknowledgement of this one only begins it.
            yeah.window.cwnd = 500 * MSS;
            let before = yeah.window.cwnd;
            feeder.round(&mut yeah, rtt);
            assert!(((yeah.cwnd() - before) / MSS).abs_diff(grown) <= 1, "{rtt} ms: {}", yeah.cwnd());
        }
        // A small window grows as Reno's in either mode.
        let (mut yeah, mut feeder) = avoiding(20);
        assert_eq!(round(&mut yeah, &mut feeder, 20, 100), 1);
    }

    #[test]
    fn a_queue_of_more_than_alpha_is_drained_down_to_renos_window() {
        // 125 ms: a fifth of 1000 segments waits, and is drained; then Reno's window is taken to be half of what is left.
        let (mut yeah, mut feeder) = avoiding(1000);
        round(&mut yeah, &mut feeder, 1000, 125);
        assert_eq!((yeah.queued, yeah.cwnd(), yeah.ssthresh()), (200 * MSS, 800 * MSS, 800 * MSS));
        assert_eq!(yeah.reno, 400 * MSS);
        // 400 ms: three quarters wait, half is drained.
        let (mut yeah, mut feeder) = avoiding(1000);
        round(&mut yeah, &mut feeder, 1000, 400);
        assert_eq!((yeah.cwnd(), yeah.reno), (500 * MSS, 250 * MSS));
        // Not below Reno's window, which grows by a segment a round.
        yeah.reno = 900 * MSS;
        round(&mut yeah, &mut feeder, 1000, 400);
        assert_eq!((yeah.cwnd(), yeah.reno), (900 * MSS, 901 * MSS));
    }

    #[test]
    fn a_loss_takes_the_queue_or_half_where_there_is_competition() {
        // An eighth at least, half at most.
        for (queued, slow_rounds, remain) in
            [(0, 0, 700), (100, 15, 700), (200, 15, 600), (700, 15, 400), (0, 16, 400)]
        {
            let (mut yeah, _) = avoiding(800);
            (yeah.queued, yeah.slow_rounds, yeah.reno) = (queued * MSS, slow_rounds, 100 * MSS);
            yeah.on_congestion_event(&event(1, 0));
            assert_eq!((yeah.cwnd(), yeah.ssthresh(), yeah.reno), (remain * MSS, remain * MSS, 50 * MSS));
            yeah.undo(Timestamp::from_millis(2));
            assert_eq!(yeah.cwnd(), 800 * MSS);
            yeah.on_rto(&event(3, 0));
            assert_eq!((yeah.cwnd(), yeah.ssthresh()), (MSS, remain * MSS));
        }
    }

    #[test]
    fn renos_window_is_forgotten_after_fifty_fast_rounds() {
        let (mut yeah, mut feeder) = avoiding(100);
        yeah.reno = 60 * MSS;
        for _ in 0..51 {
            assert_eq!(yeah.reno, 60 * MSS);
            feeder.mixed_round(&mut yeah, &[(5, 100)]);
        }
        // The first round is judged by the second's first acknowledgement.
        feeder.mixed_round(&mut yeah, &[(1, 100)]);
        assert_eq!(yeah.reno, 2 * MSS);
    }

    #[test]
    fn a_round_with_a_reduction_and_one_of_two_samples_are_not_judged() {
        let (mut yeah, mut feeder) = avoiding(100);
        for _ in 0..5 {
            feeder.mixed_round(&mut yeah, &[(2, 200)]);
        }
        assert_eq!((yeah.queued, yeah.slow_rounds), (0, 0));
        let (mut yeah, mut feeder) = avoiding(100);
        let in_recovery = AckSample { phase: Phase::Recovery, ..sample(1, MSS) };
        for _ in 0..10 {
            yeah.on_ack(&AckSample { rtt: Some(TimeDelta::from_millis(200)), ..in_recovery });
        }
        feeder.mixed_round(&mut yeah, &[(1, 200)]);
        assert_eq!((yeah.queued, yeah.slow_rounds), (0, 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_is_filled_sooner_than_by_reno_with_less_of_a_queue_than_by_scalable_tcp() {
        let outcome = |name: &str, rtt, limit| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            let outcome = Bottleneck::new(vec![flow], 4000, rtt, limit).measure(5, 60);
            (outcome.shares[0], outcome.queue)
        };
        // 4000 packets/s and 200 ms: a pipe of 800 packets, a tenth of it as queue.
        let (yeah, reno) = (outcome("yeah", 200, 80), outcome("reno", 200, 80));
        assert!(yeah.0 > 0.8 && yeah.0 > reno.0 + 0.2, "{yeah:?} against {reno:?}");
        // Where half the pipe fits in the queue, Scalable TCP uses most of it.
        let (yeah, scalable) = (outcome("yeah", 200, 400), outcome("scalable", 200, 400));
        assert!(yeah.0 > 0.95 && yeah.1 < 80.0 && scalable.1 > 150.0, "{yeah:?} against {scalable:?}");
    }
}
