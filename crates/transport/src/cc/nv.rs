//! TCP-NV: grows as Reno until the window is more than what the measured rate needs and ten segments; for networks of its own kind, such as in data
//! centres.
//!
//! Sources: L. Brakmo, "TCP-NV: An Update to TCP-Vegas" (2010; Linux Plumbers Conference); Linux tcp_nv.c, whose rules, constants and order of events
//! these are.
//!
//! * The rate is what was in flight over the smoothed RTT, the largest since the last decision. Rate times smallest RTT is the window that the rate needs.
//! * Once per round trip: above that and `pad` segments the connection is congested. Growth stops, the threshold falls to there, and
//!   the window gives up three tenths of what is too much, at least two segments. `pad_buffer` segments below it, growth goes on. A decision needs
//!   many RTTs (60 to shrink, 30 in the first slow start, 20 to grow), since single ones are noisy.
//! * The smallest RTT is that of the last five to ten seconds, at random, so that connections do not look for it at the same time. What
//!   the connection itself keeps in the queue may become part of it, and the queue longer, unless the base RTT is given.
//! * A loss leaves 0.8 of the window. After one, growth waits for a decision. A time-out halves growth each time, and eight decisions to grow
//!   double it again.
//!
//! Departures: what was in flight when the newest segment was sent, which Linux notes with every segment, is what has been delivered since.
//! A Linux program may set a base RTT by BPF; here it is [`NvParams::base_rtt`]. Rates and RTTs are exact. Where Linux raises a
//! window below two segments at a decision, it is left, since that is for slow start.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{Stream, Streams, TimeDelta, Timestamp};

use super::slow_start::SlowStartParams;
use super::window::{MAX_WINDOW, Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// Time until the smallest RTT is first forgotten (Linux).
const FIRST_RESET: TimeDelta = TimeDelta::from_secs(2);
/// RTTs that a decision needs: to shrink, to end the first slow start, to grow (Linux).
const CALLS_TO_SHRINK: u32 = 60;
const CALLS_TO_END_SLOW_START: u32 = 30;
const CALLS_TO_GROW: u32 = 20;
/// Round trips without a decision that one to shrink waits for, and after which growth stops while there are too few RTTs for one (Linux).
const ROUNDS_TO_SHRINK: u32 = 2;
const ROUNDS_TO_STOP: u32 = 10;
/// How often a time-out may halve growth (Linux).
const LEAST_GROWTH: i8 = -8;
/// Least segments that a round has without being taken for too small a one to be judged: at first, at most, and by how much that rises (Linux).
const MIN_ROUND: u64 = 4;
const MAX_MIN_ROUND: u64 = 81;
const MIN_ROUND_STEP: u64 = 2;
/// What part of the base RTT the smallest one counts as, at least: flows that see less of the queue do not take more (Linux: 205/256).
const LEAST_OF_BASE: f64 = 0.8;

/// TCP-NV (Brakmo 2010).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("nv")]
pub struct NvParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Segments in the queue above which the path counts as congested.
    #[parameter(default = 10.0, min = 0.0, unit = "segments")]
    pub pad: f64,
    /// How many segments below `pad` the window stops growing.
    #[parameter(default = 2.0, min = 0.0, unit = "segments")]
    pub pad_buffer: f64,
    /// By what part of its excess the window shrinks on congestion.
    #[parameter(default = 0.3, above = 0.0, max = 1.0)]
    pub decrease: f64,
    /// What remains of the window after a loss.
    #[parameter(default = 0.8, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// Weight of a new RTT in the smoothed one.
    #[parameter(default = 0.5, above = 0.0, max = 1.0)]
    pub smoothing: f64,
    /// How often the search for the smallest RTT begins anew, a quarter less or more at random. The smallest RTT of one period still counts in the
    /// next.
    #[parameter(default = TimeDelta::from_secs(5), above = TimeDelta::ZERO)]
    pub reset_period: TimeDelta,
    /// Decisions to grow that double growth which time-outs have halved; 0 for never.
    #[parameter(default = 8)]
    pub recover_growth: u32,
    /// Decisions to grow that double growth above Reno's; 0 for never.
    pub raise_growth: u32,
    /// The RTT of the path where that is known, from which on there is congestion; 0s for unknown.
    #[parameter(default = TimeDelta::ZERO)]
    pub base_rtt: TimeDelta,
}

/// TCP-NV's congestion control.
#[derive(Clone, Debug)]
pub struct Nv {
    window: Window,
    params: NvParams,
    /// Smoothed RTT in seconds, none after a reduction; the smallest one that counts, and the one that will.
    rtt: Option<f64>,
    min_rtt: f64,
    next_min_rtt: f64,
    /// When that takes its place; [`Timestamp::NEVER`] before the first acknowledgement.
    reset_at: Timestamp,
    /// Largest rate since the last decision, in bytes per second, and the RTTs and rounds since.
    max_rate: f64,
    calls: u32,
    rounds: u32,
    /// Bytes delivered at which this round ends, and at the last acknowledgement with an RTT.
    round_end: u64,
    delivered: u64,
    /// Least segments of a round that is judged.
    min_round: u64,
    /// Whether the window may grow; growth per round trip as a power of two; decisions to grow in a row.
    may_grow: bool,
    growth: i8,
    clear: u32,
    /// Whether a reduction is under way, after which measuring begins anew.
    reduced: bool,
    random: Stream,
}

impl BuiltIn for Nv {
    type Params = NvParams;

    fn new(params: &NvParams, config: &CcConfig) -> Self {
        let params = NvParams {
            pad: within(params.pad, 0.0, 1e9),
            pad_buffer: within(params.pad_buffer, 0.0, 1e9),
            decrease: within(params.decrease, 0.0, 1.0),
            beta: within(params.beta, 0.0, 1.0),
            smoothing: within(params.smoothing, 1e-6, 1.0),
            ..*params
        };
        Nv {
            window: Window::new(config, &params.slow_start),
            rtt: None,
            min_rtt: f64::INFINITY,
            next_min_rtt: f64::INFINITY,
            reset_at: Timestamp::NEVER,
            max_rate: 0.0,
            calls: 0,
            rounds: 0,
            round_end: 0,
            delivered: 0,
            min_round: MIN_ROUND,
            may_grow: true,
            growth: 0,
            clear: 0,
            reduced: false,
            random: Streams::new(config.seed).stream("nv"),
            params,
        }
    }
}

impl Nv {
    /// A reduction is over: measuring begins anew, with the next acknowledgement (in Linux pkts_acked comes before set_state).
    fn restart(&mut self, ack: &AckSample) {
        self.reduced = false;
        self.rtt = None;
        self.max_rate = 0.0;
        (self.calls, self.rounds, self.clear) = (0, 0, 0);
        (self.round_end, self.delivered) = (ack.delivered, ack.delivered);
    }

    /// Takes the RTT of an acknowledgement and the rate that goes with it.
    fn measure(&mut self, ack: &AckSample, sample: TimeDelta) {
        let sample = sample.max(TimeDelta::from_nanos(1)).as_secs_f64();
        let rtt = match self.rtt {
            Some(former) => former + (sample - former) * self.params.smoothing,
            None => {
                // The smallest RTT of before a reduction is no longer that of the path, as far as it is known.
                self.min_rtt = 2.0 * sample;
                sample
            }
        };
        self.rtt = Some(rtt);
        let in_flight = ack.delivered.saturating_sub(ack.prior_delivered).max(ack.acked);
        self.max_rate = self.max_rate.max(in_flight as f64 / rtt);
        self.calls = self.calls.saturating_add(1);
        let base = self.params.base_rtt.as_secs_f64();
        let bounded = if base > 0.0 { rtt.clamp(LEAST_OF_BASE * base, base) } else { rtt };
        self.min_rtt = self.min_rtt.min(bounded);
        self.next_min_rtt = self.next_min_rtt.min(bounded);
        if !self.reset_at.is_set() {
            self.reset_at = ack.now + FIRST_RESET;
        } else if ack.now >= self.reset_at {
            self.min_rtt = self.next_min_rtt;
            self.next_min_rtt = f64::INFINITY;
            let period = self.params.reset_period.mul_f64(0.75 + 0.5 * self.random.uniform());
            self.reset_at = ack.now + period;
            self.min_round = (self.min_round / 2).max(MIN_ROUND);
        }
    }

    /// The end of a round: whether the window grows, shrinks, or stays until there are more RTTs.
    fn judge(&mut self, ack: &AckSample, delivered: u64) {
        let mss = self.window.mss;
        self.round_end = ack.delivered;
        self.rounds = self.rounds.saturating_add(1);
        // All of the round in one acknowledgement: the window is too small for what the machines on the way put together.
        if self.calls == 1 && delivered >= (self.min_round - 1) * mss && self.min_round < MAX_MIN_ROUND {
            self.min_round = (self.min_round + MIN_ROUND_STEP).min(MAX_MIN_ROUND);
            self.round_end = ack.delivered.saturating_add(self.min_round * mss);
            self.calls = 0;
            self.may_grow = true;
            return;
        }
        let needed = (self.max_rate * self.min_rtt).min(MAX_WINDOW as f64);
        let most = (needed + self.params.pad * mss as f64) as u64;
        let enough = most.saturating_sub((self.params.pad_buffer * mss as f64) as u64);
        let decided = if self.window.cwnd > most {
            self.shrink(most)
        } else if self.window.cwnd <= enough {
            self.allow_growth()
        } else {
            false
        };
        if decided {
            (self.calls, self.rounds) = (0, 0);
            self.max_rate = 0.0;
        }
    }

    /// The window is more than the `most` that it may be. Returns whether that could be decided.
    fn shrink(&mut self, most: u64) -> bool {
        if self.rounds < ROUNDS_TO_SHRINK {
            return false;
        }
        let first = self.window.ssthresh == u64::MAX;
        if self.calls < if first { CALLS_TO_END_SLOW_START } else { CALLS_TO_SHRINK } {
            if !first && self.rounds > ROUNDS_TO_STOP {
                self.may_grow = false;
            }
            return false;
        }
        let two = 2 * self.window.mss;
        let excess = self.window.cwnd - most;
        let target = if excess > two {
            self.window.cwnd - ((excess as f64 * self.params.decrease) as u64).clamp(two, excess)
        } else {
            most
        };
        self.window.cwnd = target.max(two.min(self.window.cwnd));
        self.window.ssthresh = most.max(two);
        self.may_grow = false;
        self.growth = self.growth.min(0);
        self.clear = 0;
        true
    }

    /// There is no congestion. Returns whether that could be decided.
    fn allow_growth(&mut self) -> bool {
        if self.calls < CALLS_TO_GROW {
            return false;
        }
        self.may_grow = true;
        self.clear = self.clear.saturating_add(1);
        let wait = if self.growth < 0 { self.params.recover_growth } else { self.params.raise_growth };
        if wait > 0 && self.clear > wait {
            self.growth = self.growth.saturating_add(1);
            self.clear = 0;
        }
        true
    }

    fn grow(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted == 0 || !self.may_grow {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            let Window { cwnd, mss, .. } = self.window;
            let shift = u32::from(self.growth.unsigned_abs()).min(63);
            let per = if self.growth < 0 { cwnd << shift.min(8) } else { (cwnd >> shift).max(4 * mss) };
            self.window.grow(rest, per);
        }
    }

    fn lose(&mut self) -> u64 {
        self.reduced = true;
        self.may_grow = false;
        self.window.share(self.window.cwnd, self.params.beta)
    }
}

impl CongestionControl for Nv {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        if self.reduced && ack.phase == Phase::Open {
            self.restart(ack);
            return;
        }
        if let Some(rtt) = ack.rtt
            && matches!(ack.phase, Phase::Open | Phase::Disorder)
        {
            let delivered = ack.delivered.saturating_sub(self.delivered);
            self.delivered = ack.delivered;
            self.measure(ack, rtt);
            if ack.prior_delivered >= self.round_end {
                self.judge(ack, delivered);
            }
        }
        self.grow(ack);
    }
    fn on_congestion_event(&mut self, _event: &CongestionEvent) {
        let threshold = self.lose();
        self.window.reduce(threshold);
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let threshold = self.lose();
        self.window.collapse(threshold);
        self.growth = self.growth.min(0);
        if self.params.recover_growth > 0 {
            self.growth = (self.growth - 1).max(LEAST_GROWTH);
        }
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
        NvParams::KIND
    }
}

#[cfg(test)]
#[path = "nv_tests.rs"]
mod tests;
