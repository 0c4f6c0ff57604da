//! Compound TCP: Reno's window, and on top of it one that grows fast while the queue is short and melts away when it is not.
//!
//! Sources: K. Tan, J. Song, Q. Zhang, M. Sridharan, "A Compound TCP Approach for High-Speed and Long Distance Networks" (INFOCOM 2006);
//! draft-sridharan-tcpm-ctcp-02. Rules and constants were taken from two implementations, and not compared with those texts: L. Andrew's for Linux
//! (tcp_compound.c, 2008, never merged) and that for ns-3 by Siddharth V, K. Kalmady and A. Aithal (2017), whose weight lambda is 0.8 (Linux's patch has 1/2).
//!
//! The window is win = cwnd + dwnd. Reno's part, cwnd, grows by a segment per round trip, and halves with a loss. In slow start there is no other. After it,
//! once per round trip, with diff = win (RTT - base) / RTT, what the connection holds in the queue:
//!
//! * diff below gamma: dwnd grows by alpha win^k - 1 segments, at least none. With alpha = 1/8 and k = 3/4 that is some from 16 segments on.
//! * diff from gamma on: dwnd shrinks by eta diff.
//! * A loss: win falls to (1 - beta) win, and dwnd is what that is more than half of cwnd.
//!
//! Gamma is 30 segments at first, and is tuned at each loss, since a short queue may never hold so many: 3/4 of what Reno's part alone held in the queue
//! before it counts with weight lambda, within 5 and 30.
//!
//! A time-out ends dwnd, resets gamma, and takes the smoothed RTT for the base RTT: the path may be another.
//!
//! Departures: diff is exact, and a round's is of its smallest RTT, as in both implementations. Rounds are counted by delivered bytes; one of fewer
//! than three RTTs, or with a reduction in it, is not judged. As in Linux's patch, idle time ends dwnd.

use warpline_core::float;
use warpline_core::parameter::{Component, Parameters};
use warpline_core::{TimeDelta, Timestamp};

use super::round::Round;
use super::slow_start::{SlowStartParams, may_grow};
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// RTT samples that a round needs to be judged: with fewer all may be of delayed acknowledgements.
const MIN_SAMPLES: u32 = 3;
/// What part of Reno's queue before a loss gamma is to be.
const GAMMA_PART: f64 = 0.75;

/// Compound TCP (Tan et al. 2006, draft-sridharan-tcpm-ctcp).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("compound")]
pub struct CompoundParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Factor of the growth per round trip, alpha win^k.
    #[parameter(default = 0.125, min = 0.0)]
    pub alpha: f64,
    /// Exponent of the growth per round trip.
    #[parameter(default = 0.75, min = 0.0, max = 1.0)]
    pub k: f64,
    /// What part of the window a loss takes.
    #[parameter(default = 0.5, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// What part of its queue the connection gives up in a round trip.
    #[parameter(default = 1.0, min = 0.0)]
    pub eta: f64,
    /// Segments in the queue from which on the window is too large, and the upper limit of this number where it is tuned.
    #[parameter(default = 30.0, above = 0.0, unit = "segments")]
    pub gamma: f64,
    /// Lower limit of `gamma` where it is tuned.
    #[parameter(default = 5.0, min = 0.0, not_above = "gamma", unit = "segments")]
    pub gamma_min: f64,
    /// Weight of a loss in the tuning of gamma; 0 for none.
    #[parameter(default = 0.8, min = 0.0, max = 1.0)]
    pub lambda: f64,
}

/// Compound TCP's congestion control.
#[derive(Clone, Debug)]
pub struct Compound {
    window: Window,
    params: CompoundParams,
    /// The part of the window that follows the delay (dwnd), in bytes.
    delay: u64,
    /// Present gamma in segments.
    gamma: f64,
    /// What Reno's part held in the queue in the last round judged since a loss, in segments.
    reno_queue: Option<f64>,
    /// `delay` and `gamma` before the last reduction, for undo.
    prior: Option<(u64, f64)>,
    round: Round,
    /// Smallest RTT of the connection, and of the present round; and the round's samples.
    base_rtt: TimeDelta,
    round_rtt: TimeDelta,
    samples: u32,
    /// Whether the last acknowledgement came in good order.
    open: bool,
}

impl BuiltIn for Compound {
    type Params = CompoundParams;

    fn new(params: &CompoundParams, config: &CcConfig) -> Self {
        let gamma = within(params.gamma, 0.0, 1e9);
        Compound {
            window: Window::new(config, &params.slow_start),
            params: CompoundParams {
                alpha: within(params.alpha, 0.0, 1e3),
                k: within(params.k, 0.0, 1.0),
                beta: within(params.beta, 0.0, 1.0),
                eta: within(params.eta, 0.0, 1e3),
                gamma,
                gamma_min: within(params.gamma_min, 0.0, gamma),
                lambda: within(params.lambda, 0.0, 1.0),
                ..*params
            },
            delay: 0,
            gamma,
            reno_queue: None,
            prior: None,
            round: Round::default(),
            base_rtt: TimeDelta::MAX,
            round_rtt: TimeDelta::MAX,
            samples: 0,
            open: true,
        }
    }
}

impl Compound {
    /// Reno's part of the window in bytes.
    fn reno(&self) -> u64 {
        self.window.cwnd.saturating_sub(self.delay)
    }

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

    /// The end of a round: the part that follows the delay grows or shrinks.
    fn judge(&mut self) {
        if self.samples < MIN_SAMPLES {
            return;
        }
        let mss = self.window.mss as f64;
        let waited = self.round_rtt.saturating_sub(self.base_rtt).as_secs_f64();
        let queued = waited / self.round_rtt.as_secs_f64();
        let segments = self.window.cwnd as f64 / mss;
        let diff = segments * queued;
        self.reno_queue = Some(self.reno() as f64 / mss * queued);
        if diff < self.gamma {
            let growth = self.params.alpha * float::powf(segments, self.params.k) - 1.0;
            let before = self.window.cwnd;
            self.window.raise((growth.clamp(0.0, MAX_WINDOW as f64) * mss) as u64);
            self.delay += self.window.cwnd - before;
        } else {
            let less = self.delay.min((self.params.eta * diff * mss) as u64);
            self.delay -= less;
            self.window.cwnd -= less;
        }
    }

    /// Tunes gamma to the queue that there was before a loss.
    fn tune(&mut self) {
        if let Some(queue) = self.reno_queue.take() {
            let CompoundParams { lambda, gamma, gamma_min, .. } = self.params;
            self.gamma += lambda * (GAMMA_PART * queue - self.gamma);
            self.gamma = self.gamma.clamp(gamma_min, gamma);
        }
    }
}

impl CongestionControl for Compound {
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
        let slow = self.window.in_slow_start();
        if counted > 0 {
            let rest = self.window.slow_start(ack, counted);
            if rest > 0 {
                self.window.additive_increase(rest);
            }
        }
        if open && may_grow(ack) && self.round.ends(ack) {
            if !slow {
                self.judge();
            }
            self.begin_round();
        }
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        self.prior = Some((self.delay, self.gamma));
        self.tune();
        let half = self.reno() / 2;
        let threshold = self.window.share(self.window.cwnd, 1.0 - self.params.beta).max(half);
        self.window.reduce(threshold);
        self.delay = self.window.cwnd.saturating_sub(half.max(2 * self.window.mss));
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.prior = Some((self.delay, self.gamma));
        self.window.collapse(self.window.share(self.window.cwnd, 1.0 - self.params.beta));
        (self.delay, self.gamma, self.reno_queue) = (0, self.params.gamma, None);
        if !event.srtt.is_zero() {
            self.base_rtt = event.srtt;
        }
        self.begin_round();
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        if self.window.undo()
            && let Some((delay, gamma)) = self.prior.take()
        {
            (self.delay, self.gamma) = (delay, gamma);
        }
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.window.restart(idle, rto);
        self.delay = 0;
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
        self.delay = change.scaled(self.delay);
        self.prior = self.prior.map(|(delay, gamma)| (change.scaled(delay), gamma));
    }
    fn name(&self) -> &'static str {
        CompoundParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::testbed::{Bottleneck, Feeder, MSS, config, event, sample};
    use super::*;

    /// One in congestion avoidance with so many segments, `delay` of them above Reno's, whose base RTT is 100 ms.
    fn avoiding(segments: u64, delay: u64) -> (Compound, Feeder) {
        let config = CcConfig { initial_ssthresh: segments * MSS, ..config(segments) };
        let mut compound = Compound::new(&CompoundParams::default(), &config);
        compound.base_rtt = TimeDelta::from_millis(100);
        compound.delay = delay * MSS;
        (compound, Feeder::default())
    }

    /// Judges a round at `rtt`.
    fn judge(compound: &mut Compound, rtt: u64) {
        (compound.round_rtt, compound.samples) = (TimeDelta::from_millis(rtt), 3);
        compound.judge();
    }

    #[test]
    fn with_a_short_queue_it_grows_by_an_eighth_of_the_window_to_three_quarters() {
        // 81^(3/4) = 27, 256^(3/4) = 64, 10^4^(3/4) = 1000.
        for (segments, grown) in [(16, 0), (10, 0), (81, 2375), (256, 7000), (10_000, 124_000)] {
            let (mut compound, _) = avoiding(segments, 5);
            judge(&mut compound, 100);
            assert!(
                (compound.cwnd() - segments * MSS).abs_diff(grown) <= 1,
                "{segments}: {}",
                compound.cwnd()
            );
            assert_eq!(compound.reno(), (segments - 5) * MSS);
        }
        // A round trip of 256 segments, with Reno's segment, judged by the next round's first acknowledgement.
        let (mut compound, mut feeder) = avoiding(256, 0);
        feeder.mixed_round(&mut compound, &[(256, 100)]);
        assert_eq!((compound.cwnd(), compound.delay), (257 * MSS, 0));
        feeder.mixed_round(&mut compound, &[(1, 100)]);
        assert!((compound.delay / MSS) == 7 && compound.reno() == 257 * MSS, "{compound:?}");
    }

    #[test]
    fn with_a_long_queue_it_gives_up_what_is_in_the_queue() {
        // 125 ms: a fifth of 100 segments waits, less than gamma; 160 ms: three eighths of 200, of which there are 80.
        let (mut compound, _) = avoiding(100, 50);
        judge(&mut compound, 125);
        assert!(compound.delay > 50 * MSS);
        for (delay, left) in [(80, 5), (60, 0)] {
            let (mut compound, _) = avoiding(200, delay);
            judge(&mut compound, 160);
            assert_eq!((compound.delay, compound.reno()), (left * MSS, (200 - delay) * MSS));
        }
    }

    #[test]
    fn a_loss_halves_both_parts_and_undo_gives_them_back() {
        for (beta, remain, delay) in [(0.5, 50, 20), (0.25, 75, 45), (0.9, 30, 0)] {
            let (mut compound, _) = avoiding(100, 40);
            compound.params.beta = beta;
            compound.on_congestion_event(&event(1, 0));
            assert_eq!((compound.cwnd(), compound.ssthresh()), (remain * MSS, remain * MSS));
            assert_eq!(compound.delay, delay * MSS);
            compound.undo(Timestamp::from_millis(2));
            assert_eq!((compound.cwnd(), compound.delay), (100 * MSS, 40 * MSS));
        }
    }

    #[test]
    fn a_time_out_ends_what_follows_the_delay() {
        let (mut compound, _) = avoiding(100, 40);
        compound.gamma = 7.0;
        compound.on_rto(&CongestionEvent { srtt: TimeDelta::from_millis(170), ..event(1, 0) });
        assert_eq!((compound.cwnd(), compound.ssthresh(), compound.delay), (MSS, 50 * MSS, 0));
        assert_eq!((compound.gamma, compound.base_rtt), (30.0, TimeDelta::from_millis(170)));
        compound.undo(Timestamp::from_millis(2));
        assert_eq!((compound.cwnd(), compound.delay, compound.gamma), (100 * MSS, 40 * MSS, 7.0));
        let (mut compound, _) = avoiding(100, 40);
        compound.on_idle(Timestamp::from_secs(9), TimeDelta::from_secs(1), TimeDelta::from_secs(1));
        assert_eq!(compound.delay, 0);
    }

    #[test]
    fn gamma_follows_the_queue_that_reno_held_before_a_loss() {
        // Of 60 segments of Reno's a sixth waits at 120 ms: 3/4 of 10 with weight 0.8, and 30 with 0.2. At most 30, at least 5.
        for (rtt, gamma) in [(120, 12.0), (125, 13.2), (101, 6.356_436), (300, 30.0)] {
            let (mut compound, _) = avoiding(100, 40);
            judge(&mut compound, rtt);
            compound.on_congestion_event(&event(1, 0));
            assert!((compound.gamma - gamma).abs() < 1e-6, "{rtt} ms: {}", compound.gamma);
            // A second loss has no queue of its own.
            compound.on_congestion_event(&event(2, 0));
            assert!((compound.gamma - gamma).abs() < 1e-6);
        }
        let (mut compound, _) = avoiding(100, 40);
        for _ in 0..3 {
            judge(&mut compound, 100);
            compound.on_congestion_event(&event(1, 0));
        }
        assert_eq!(compound.gamma, 5.0);
    }

    #[test]
    fn slow_start_a_reduction_and_rounds_of_two_samples_are_not_judged() {
        let mut slow = Compound::new(&CompoundParams::default(), &config(100));
        let mut feeder = Feeder::default();
        for _ in 0..3 {
            feeder.round(&mut slow, 100);
        }
        assert_eq!((slow.cwnd(), slow.delay), (800 * MSS, 0));
        let (mut compound, mut feeder) = avoiding(100, 40);
        for _ in 0..5 {
            feeder.mixed_round(&mut compound, &[(2, 100)]);
        }
        for _ in 0..10 {
            compound.on_ack(&AckSample { phase: Phase::Recovery, ..sample(1, MSS) });
        }
        assert_eq!(compound.delay, 40 * MSS);
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn a_long_path_is_filled_sooner_than_by_reno() {
        // 4000 packets/s and 200 ms: a pipe of 800 packets, a tenth of it as queue.
        let share = |name: &str| {
            let flow = name.parse::<super::super::Algorithm>().unwrap().build(&config(10));
            Bottleneck::new(vec![flow], 4000, 200, 80).measure(5, 60).shares[0]
        };
        let (compound, reno) = (share("compound"), share("reno"));
        assert!(compound > 0.8 && compound > reno + 0.2, "{compound} against {reno}");
    }
}
