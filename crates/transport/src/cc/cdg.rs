//! CDG, delay gradients: the window falls with a probability that rises with how fast round trips become longer, before there are losses.
//!
//! Sources: D. A. Hayes, G. Armitage, "Revisiting TCP Congestion Control Using Delay Gradients" (IFIP Networking 2011); Linux tcp_cdg.c, from which the
//! defaults, the limits of the shadow window and the order of events come.
//!
//! * Once per round trip, the change of its smallest and of its largest RTT since the round before is a gradient; each is averaged over 8
//!   rounds. The first, or the second where the first falls, is g. It needs no base RTT.
//! * With probability 1 - exp(-g / G) the window falls to 0.707 of itself, over a round trip, as by PRR. In that round it is not judged,
//!   nor does a loss reduce it again.
//! * After 5 of these backoffs in a row without a falling gradient it goes without them: the queue is others'.
//! * The shadow window is what the window would be without backoffs, at most: a loss leaves half of it, if that is more than half of the
//!   window, so that backoffs do not cost twice.
//! * [`CdgParams::loss_tolerance`]: a loss counts only where the largest RTT has stopped rising while the smallest rises, as it does with a full queue.
//!
//! Departures: times are exact, where Linux has microseconds, and takes 1 / 1000 for the paper's 1 / (8 G). A smallest RTT that does not
//! change at all counts as rising, by nothing; in Linux the largest one counts then. HyStart sees the RTTs of delayed acknowledgements, too.
//! An acknowledgement is taken for delayed as in Linux, but where Linux asks whether anything is selectively acknowledged, the connection's
//! state answers.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::{Stream, Streams, TimeDelta, Timestamp, float};

use super::round::Round;
use super::slow_start::{Hystart, SlowStartParams};
use super::window::{Window, within};
use super::{AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, MssChange, Phase};

/// A sum of gradients that falls by so much says that a backoff has helped, in nanoseconds (Linux).
const HELPED: i64 = -32_000;
/// For the tolerance of losses, sums are rounded to so many nanoseconds (Linux).
const COARSE: f64 = 64_000.0;
/// Acknowledgements of single segments, at most, that are taken for delayed after those of several (Linux).
const MAX_DELAYED: u8 = 5;

/// CDG (Hayes and Armitage 2011).
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("cdg")]
pub struct CdgParams {
    /// Slow start and byte counting.
    #[parameter(flatten, default = SlowStartParams { hystart: Hystart::Cdg, ..SlowStartParams::default() })]
    pub slow_start: SlowStartParams,
    /// Rounds that a gradient is averaged over.
    #[parameter(default = 8, min = 1, max = 256)]
    pub rounds: u32,
    /// G: the mean rise of the RTT per round at which the window falls with probability 1 - 1/e.
    #[parameter(default = TimeDelta::from_millis(3), above = TimeDelta::ZERO)]
    pub scale: TimeDelta,
    /// What remains of the window after a backoff: about the square root of a half.
    #[parameter(default = 0.707, above = 0.0, below = 1.0)]
    pub beta: f64,
    /// Backoffs in a row without effect after which there are none; 0 for no limit, as befits background traffic.
    #[parameter(default = 5)]
    pub ineffectual: u32,
    /// Whether there is a shadow window; no, for background traffic.
    #[parameter(default = true)]
    pub shadow: bool,
    /// Whether a loss counts only where the gradients say that the queue is full.
    pub loss_tolerance: bool,
}

/// What the gradients say of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    Unknown,
    NotFull,
    Full,
}

/// A number for the smallest RTT and one for the largest, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pair {
    min: i64,
    max: i64,
}

impl Pair {
    fn less(self, other: Pair) -> Pair {
        Pair { min: self.min.saturating_sub(other.min), max: self.max.saturating_sub(other.max) }
    }

    fn and(self, other: Pair) -> Pair {
        Pair { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }
}

/// The gradients of the last rounds.
#[derive(Clone, Debug)]
struct Gradients {
    last: Vec<Pair>,
    /// Where the next one goes; how many there are.
    next: usize,
    count: usize,
    sum: Pair,
}

impl Gradients {
    fn new(rounds: u32) -> Self {
        Gradients { last: vec![Pair::default(); rounds as usize], next: 0, count: 0, sum: Pair::default() }
    }

    fn add(&mut self, gradient: Pair) {
        let oldest = std::mem::replace(&mut self.last[self.next], gradient);
        self.sum = self.sum.and(gradient.less(oldest));
        self.next = (self.next + 1) % self.last.len();
        self.count = (self.count + 1).min(self.last.len());
    }

    /// g, the mean change per round in nanoseconds, of those rounds that there were. If the smallest RTT has not changed at all, g is zero: by the
    /// largest one, the bursts of slow start would be taken for a queue, as they are not in guests (see agreement.md in the book).
    fn mean(&self) -> f64 {
        let sum = if self.sum.min >= 0 { self.sum.min } else { self.sum.max };
        sum as f64 / self.count.max(1) as f64
    }

    fn clear(&mut self) {
        self.last.fill(Pair::default());
        (self.next, self.count, self.sum) = (0, 0, Pair::default());
    }
}

/// CDG's congestion control.
#[derive(Clone, Debug)]
pub struct Cdg {
    window: Window,
    params: CdgParams,
    round: Round,
    /// Smallest and largest RTT of this round and of the one before, if they have one.
    rtt: Option<Pair>,
    former_rtt: Option<Pair>,
    gradients: Gradients,
    queue: Queue,
    /// What the window would be without backoffs, at most.
    shadow: u64,
    /// Whether this round follows a backoff.
    backing_off: bool,
    /// Backoffs since a gradient last fell.
    backoffs: u32,
    /// Acknowledgements of single segments that will be taken for delayed.
    delayed: u8,
    random: Stream,
}

impl BuiltIn for Cdg {
    type Params = CdgParams;

    fn new(params: &CdgParams, config: &CcConfig) -> Self {
        let window = Window::new(config, &params.slow_start);
        let params = CdgParams {
            rounds: params.rounds.clamp(1, 256),
            scale: params.scale.max(TimeDelta::from_nanos(1)),
            beta: within(params.beta, 0.0, 1.0),
            ..*params
        };
        Cdg {
            round: Round::default(),
            rtt: None,
            former_rtt: None,
            gradients: Gradients::new(params.rounds),
            queue: Queue::Unknown,
            shadow: window.cwnd,
            backing_off: false,
            backoffs: 0,
            delayed: 0,
            random: Streams::new(config.seed).stream("cdg"),
            params,
            window,
        }
    }
}

impl Cdg {
    /// Takes an RTT, unless the acknowledgement was delayed: then it only counts if it is the smallest.
    fn take_sample(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        let rtt = i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX).max(1);
        if ack.phase == Phase::Open {
            let several = ack.acked > ack.mss;
            if !several && self.delayed > 0 {
                self.delayed -= 1;
                if let Some(pair) = &mut self.rtt {
                    pair.min = pair.min.min(rtt);
                }
                return;
            }
            self.delayed += u8::from(several && self.delayed < MAX_DELAYED);
        }
        let pair = self.rtt.get_or_insert(Pair { min: rtt, max: rtt });
        *pair = Pair { min: pair.min.min(rtt), max: pair.max.max(rtt) };
    }

    fn begin_round(&mut self, ack: &AckSample) {
        self.round.restart(ack);
        self.former_rtt = self.rtt.take();
    }

    /// The end of a round. Returns whether it is time to back off.
    fn judge(&mut self, ack: &AckSample) -> bool {
        let (Some(rtt), former) = (self.rtt, self.former_rtt) else { return false };
        self.begin_round(ack);
        let Some(former) = former else { return false };
        self.gradients.add(rtt.less(former));
        let (sum, mean) = (self.gradients.sum, self.gradients.mean());
        if sum.min <= HELPED || sum.max <= HELPED {
            self.backoffs = 0;
        }
        if self.params.loss_tolerance {
            let (min, max) = ((sum.min as f64 / COARSE).round(), (sum.max as f64 / COARSE).round());
            if min > 0.0 && max <= 0.0 {
                self.queue = Queue::Full;
            } else if (min > 0.0 && max > 0.0) || max < 0.0 {
                self.queue = Queue::NotFull;
            }
        }
        if mean <= 0.0 {
            return false;
        }
        let stays = float::exp(-mean / self.params.scale.as_nanos() as f64);
        if self.random.uniform() <= stays {
            return false;
        }
        self.backoffs = self.backoffs.saturating_add(1);
        self.params.ineffectual == 0 || self.backoffs <= self.params.ineffectual
    }

    /// The window begins to fall without a loss, which is nothing that could be undone.
    fn back_off(&mut self) {
        self.shadow = self.shadow.max(self.window.cwnd);
        self.window.ssthresh = self.window.share(self.window.cwnd, self.params.beta);
        self.backing_off = true;
    }

    /// The window falls by its share of what is acknowledged: at the end of the round it is where it should be.
    fn fall(&mut self, ack: &AckSample) {
        let part = (ack.acked as f64 * (1.0 - self.params.beta)) as u64;
        let lower = self.window.cwnd.saturating_sub(part).max(self.window.ssthresh);
        self.window.cwnd = self.window.cwnd.min(lower);
    }

    /// A reduction is over: what was measured meanwhile is no gradient.
    fn end_reduction(&mut self) {
        self.backing_off = false;
        self.queue = Queue::Unknown;
    }

    /// A loss: what remains of the window.
    fn lose(&mut self) -> u64 {
        let cwnd = self.window.cwnd;
        // One reduction is enough for what was in flight at a backoff.
        let backed_off = std::mem::take(&mut self.backing_off);
        if backed_off {
            return cwnd.min(self.window.ssthresh).max(2 * self.window.mss);
        }
        if self.params.loss_tolerance && self.queue == Queue::NotFull {
            return cwnd.max(2 * self.window.mss);
        }
        self.shadow = (self.shadow / 2).min(cwnd);
        let half = self.window.share(cwnd, 0.5);
        if self.params.shadow { half.max(self.window.whole(self.shadow)) } else { half }
    }

    fn grow(&mut self, ack: &AckSample) {
        let counted = self.window.counted(ack);
        if counted == 0 {
            return;
        }
        let before = self.window.cwnd;
        let rest = self.window.slow_start(ack, counted);
        if rest > 0 {
            self.window.additive_increase(rest);
        }
        // An early end of slow start can lower the window (SEARCH).
        self.shadow = self.shadow.saturating_add(self.window.cwnd.saturating_sub(before));
    }
}

impl CongestionControl for Cdg {
    #[inline]
    fn on_ack(&mut self, ack: &AckSample) {
        self.take_sample(ack);
        if matches!(ack.phase, Phase::Recovery | Phase::Cwr) {
            return;
        }
        if self.backing_off {
            if !self.round.ends(ack) {
                self.fall(ack);
                return;
            }
            self.window.cwnd = self.window.cwnd.min(self.window.ssthresh);
            self.end_reduction();
            self.begin_round(ack);
        } else if self.round.ends(ack) && self.judge(ack) {
            self.back_off();
            return;
        }
        if ack.cwnd_limited {
            self.grow(ack);
        } else {
            self.shadow = self.shadow.min(self.window.cwnd);
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
    fn on_recovery_exit(&mut self, _now: Timestamp) {
        self.end_reduction();
        self.former_rtt = self.rtt.take();
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        let before = self.window.cwnd;
        self.window.restart(idle, rto);
        if idle >= rto {
            self.end_reduction();
            self.gradients.clear();
            (self.rtt, self.former_rtt) = (None, None);
            (self.backoffs, self.delayed) = (0, 0);
            self.shadow = self.window.cwnd.min(before);
        }
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
        let fresh = self.shadow == self.window.cwnd;
        self.window.on_mss(change);
        self.shadow = if fresh { self.window.cwnd } else { change.scaled(self.shadow) };
    }
    fn name(&self) -> &'static str {
        CdgParams::KIND
    }
}

#[cfg(test)]
#[path = "cdg_tests.rs"]
mod tests;
