//! The window itself: congestion window, slow-start threshold, and the moves that every algorithm makes with them. An algorithm adds what it does
//! in congestion avoidance, and how far it falls.
//!
//! Sources: RFC 5681 (slow start, congestion avoidance), RFC 3465 (appropriate byte counting), RFC 2861 and Linux
//! tcp_cwnd_restart (restart after idle), Linux tcp_undo_cwnd_reduction (undo).

use warpline_core::TimeDelta;

use super::slow_start::{Growth, SlowStart, SlowStartParams};
use super::{AckSample, CcConfig, MssChange};

/// Largest window in bytes that any built-in algorithm reaches (1 PiB: beyond every receiver window).
pub const MAX_WINDOW: u64 = 1 << 50;

/// Largest segment in bytes that the algorithms compute with.
const MAX_SEGMENT: u64 = 1 << 20;

/// A connection's congestion window and slow-start threshold in bytes, with the state before the last reduction.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// Congestion window in bytes.
    pub(super) cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` while unset.
    pub(super) ssthresh: u64,
    /// Payload of a full segment in bytes.
    pub(super) mss: u64,
    /// Bytes acknowledged since the window last grew in congestion avoidance (Linux snd_cwnd_cnt).
    credit: u64,
    /// Initial window in bytes, to which an idle connection falls back.
    initial: u64,
    /// Window before the last reduction; 0 when there is none to undo.
    prior_cwnd: u64,
    /// Threshold before the last reduction.
    prior_ssthresh: u64,
    /// How it grows below the threshold.
    slow_start: SlowStart,
}

impl Window {
    /// The window of a new connection.
    pub(super) fn new(config: &CcConfig, slow_start: &SlowStartParams) -> Self {
        let mss = config.mss.clamp(1, MAX_SEGMENT);
        let initial = config.initial_window.clamp(mss, MAX_WINDOW);
        Window {
            cwnd: initial,
            ssthresh: config.initial_ssthresh.max(2 * mss),
            mss,
            credit: 0,
            initial,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            slow_start: SlowStart::new(slow_start),
        }
    }

    /// Segments carry another number of bytes: all windows stay as many segments.
    pub(super) fn on_mss(&mut self, change: &MssChange) {
        let MssChange { before, after } = change;
        let least = |config: &CcConfig| config.initial_ssthresh.max(2 * config.mss.clamp(1, MAX_SEGMENT));
        let threshold = |ssthresh| match ssthresh {
            u64::MAX => u64::MAX,
            _ if ssthresh == least(before) => least(after),
            _ => change.scaled(ssthresh),
        };
        self.mss = after.mss.clamp(1, MAX_SEGMENT);
        let initial = after.initial_window.clamp(self.mss, MAX_WINDOW);
        self.cwnd =
            if self.cwnd == self.initial { initial } else { change.scaled(self.cwnd).clamp(1, MAX_WINDOW) };
        self.initial = initial;
        self.ssthresh = threshold(self.ssthresh).max(2 * self.mss);
        self.credit = change.scaled(self.credit);
        self.prior_cwnd = change.scaled(self.prior_cwnd);
        self.prior_ssthresh = threshold(self.prior_ssthresh);
    }

    /// The initial window in bytes, as the configuration has it.
    pub(super) fn initial(&self) -> u64 {
        self.initial
    }

    /// Whether the window is below the threshold.
    #[inline]
    pub(super) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Raises the window by `bytes`, up to [`MAX_WINDOW`].
    #[inline]
    pub(super) fn raise(&mut self, bytes: u64) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(MAX_WINDOW);
    }

    /// Lowers the window by a segment, to one at least.
    pub(super) fn lower(&mut self) {
        self.cwnd = self.cwnd.saturating_sub(self.mss).max(self.mss.min(self.cwnd));
    }

    /// The bytes that `ack` counts for; zero where the window must not grow from it.
    #[inline]
    pub(super) fn counted(&mut self, ack: &AckSample) -> u64 {
        let counted = self.slow_start.counted(ack);
        if counted == 0 && self.in_slow_start() && self.slow_start.watch(self.cwnd, self.mss, ack) {
            self.end_slow_start(0);
        }
        counted
    }

    /// Slow start, while the window is below the threshold. Returns what is left of `counted` for congestion avoidance.
    #[inline]
    pub(super) fn slow_start(&mut self, ack: &AckSample, counted: u64) -> u64 {
        if self.in_slow_start() { self.step_up(ack, counted) } else { counted }
    }

    fn step_up(&mut self, ack: &AckSample, counted: u64) -> u64 {
        match self.slow_start.step(self.cwnd, self.mss, ack, counted) {
            Growth::By(bytes) => self.double(bytes),
            Growth::Ends(rest) => self.end_slow_start(rest),
            Growth::Falls { to, last } => self.drain(to, last),
        }
    }

    /// Slow start by `times` the bytes of an ordinary one, for a window below the threshold. Returns what is left of `counted` where slow start ends
    /// here; what would go beyond the threshold is lost.
    pub(super) fn slow_start_times(&mut self, ack: &AckSample, counted: u64, times: f64) -> u64 {
        match self.slow_start.step(self.cwnd, self.mss, ack, counted) {
            Growth::By(bytes) => {
                self.double((bytes as f64 * times) as u64);
                0
            }
            Growth::Ends(rest) => self.end_slow_start(rest),
            Growth::Falls { to, last } => self.drain(to, last),
        }
    }

    /// Slow start has gone too far: the window falls to `to`, and if that is the `last` step, it ends there. Nothing is left to grow by.
    #[cold]
    fn drain(&mut self, to: u64, last: bool) -> u64 {
        self.cwnd = self.cwnd.min(to);
        if last { self.end_slow_start(0) } else { 0 }
    }

    fn end_slow_start(&mut self, rest: u64) -> u64 {
        self.ssthresh = self.cwnd.max(2 * self.mss);
        rest
    }

    /// A byte for every byte in `counted`, up to the threshold. Returns the rest.
    #[inline]
    fn double(&mut self, counted: u64) -> u64 {
        let step = counted.min(self.ssthresh.saturating_sub(self.cwnd));
        self.raise(step);
        counted - step
    }

    /// Congestion avoidance: one segment for every `per` bytes acknowledged. Returns whether the window grew.
    ///
    /// `per` may change between calls: credit that already suffices under a smaller `per` counts for one segment only, so
    /// that a long slow stretch does not turn into a burst (as Linux tcp_cong_avoid_ai).
    #[inline]
    pub(super) fn grow(&mut self, counted: u64, per: u64) -> bool {
        let per = per.max(1);
        let before = self.cwnd;
        if self.credit >= per {
            self.credit = 0;
            self.raise(self.mss);
        }
        self.credit = self.credit.saturating_add(counted);
        if self.credit >= per {
            // Almost always one: the division is for an acknowledgement of more than a whole window.
            let segments = if self.credit - per < per { 1 } else { self.credit / per };
            self.credit -= segments * per;
            self.raise(segments.saturating_mul(self.mss));
        }
        self.cwnd != before
    }

    /// As [`grow`](Self::grow), but where the window grows, the bytes beyond whole segments are forgotten.
    #[inline]
    pub(super) fn grow_in_whole(&mut self, counted: u64, per: u64) -> bool {
        self.credit = self.credit.saturating_add(counted);
        let segments = self.credit / per.max(1);
        if segments > 0 {
            self.credit = 0;
            self.raise(segments.saturating_mul(self.mss));
        }
        segments > 0
    }

    /// As [`grow`](Self::grow), but by a segment at most, and with the acknowledgement after the one that filled `per` bytes, which counts for
    /// nothing else. Returns whether the window grew.
    #[inline]
    pub(super) fn grow_late(&mut self, counted: u64, per: u64) -> bool {
        if self.credit < per {
            self.credit = self.credit.saturating_add(counted);
            return false;
        }
        self.credit = 0;
        self.raise(self.mss);
        true
    }

    /// Reno's congestion avoidance: one segment per window of data acknowledged (RFC 5681 section 3.1). A window below two
    /// segments counts as two: less is never acknowledged at a time, and a fraction of it must not count for many windows.
    #[inline]
    pub(super) fn additive_increase(&mut self, counted: u64) {
        self.grow(counted, self.cwnd.max(2 * self.mss));
    }

    /// The share `beta` of `base` bytes in whole segments, as Linux has it, at least two.
    pub(super) fn share(&self, base: u64, beta: f64) -> u64 {
        self.whole((base as f64 * beta) as u64).max(2 * self.mss)
    }

    /// `base` bytes without the share `part` of them; at least two segments remain. What goes is in whole segments, rounded down, as in
    /// Linux's `cwnd - (cwnd * part)`: of a small window that is much less than in bytes.
    pub(super) fn without(&self, base: u64, part: f64) -> u64 {
        self.less(base, (base as f64 * part) as u64)
    }

    /// `base` bytes without `bytes` of them, as [`without`](Self::without).
    pub(super) fn less(&self, base: u64, bytes: u64) -> u64 {
        base.saturating_sub(self.whole(bytes)).max(2 * self.mss)
    }

    /// So many bytes in whole segments.
    pub(super) fn whole(&self, bytes: u64) -> u64 {
        bytes - bytes % self.mss
    }

    /// Window and threshold are set from outside, and there is nothing to undo. Returns true: there is a window.
    pub(super) fn set(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.cwnd = cwnd.clamp(1, MAX_WINDOW);
        self.ssthresh = ssthresh.max(2 * self.mss);
        self.credit = 0;
        self.prior_cwnd = 0;
        true
    }

    /// Remembers the present state for [`undo`](Self::undo).
    fn remember(&mut self) {
        self.prior_cwnd = self.cwnd;
        self.prior_ssthresh = self.ssthresh;
    }

    /// A new congestion episode: the window falls to `ssthresh` (and is never raised by it).
    pub(super) fn reduce(&mut self, ssthresh: u64) {
        self.remember();
        self.slow_start.on_reduction();
        self.ssthresh = ssthresh;
        self.cwnd = self.cwnd.min(ssthresh);
        self.credit = 0;
    }

    /// A retransmission time-out: the window falls to one segment.
    pub(super) fn collapse(&mut self, ssthresh: u64) {
        self.remember();
        self.slow_start.on_rto();
        self.ssthresh = ssthresh;
        self.cwnd = self.cwnd.min(self.mss);
        self.credit = 0;
    }

    /// Takes the last reduction back; a second call in a row does nothing. Returns whether there was one.
    pub(super) fn undo(&mut self) -> bool {
        if self.prior_cwnd == 0 {
            return false;
        }
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.ssthresh = self.ssthresh.max(self.prior_ssthresh);
        self.prior_cwnd = 0;
        true
    }

    /// Whether the window is larger now than before the reduction that [`undo`](Self::undo) would take back.
    pub(super) fn has_outgrown(&self) -> bool {
        self.cwnd > self.prior_cwnd
    }

    /// Restart after idle: the window halves for every time-out's worth of idle time, not below the initial window, and
    /// the threshold remembers three quarters of what it was (RFC 2861, Linux tcp_cwnd_restart).
    pub(super) fn restart(&mut self, idle: TimeDelta, rto: TimeDelta) {
        let halvings = (idle.as_nanos() / rto.as_nanos().max(1)).min(63);
        if halvings == 0 {
            return;
        }
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3);
        self.cwnd = (self.cwnd >> halvings).max(self.initial.min(self.cwnd));
        self.credit = 0;
    }
}

/// `value` where it lies in `[low, high]`, else the nearer bound; the lower one for not-a-number.
pub(super) fn within(value: f64, low: f64, high: f64) -> f64 {
    if value.is_nan() { low } else { value.clamp(low, high) }
}

#[cfg(test)]
mod tests {
    use super::super::slow_start::Hystart;
    use super::super::testbed::{MSS, sample};
    use super::*;

    fn window(segments: u64) -> Window {
        let config = CcConfig {
            mss: 1000,
            initial_window: segments * 1000,
            initial_ssthresh: u64::MAX,
            seed: 0,
            saved: None,
        };
        Window::new(&config, &SlowStartParams::default())
    }

    #[test]
    fn what_a_loss_takes_is_in_whole_segments() {
        let window = window(12);
        assert_eq!(window.without(12 * MSS, 0.125), 11 * MSS, "an eighth of twelve is one");
        assert_eq!(window.without(7 * MSS, 0.125), 7 * MSS, "and of seven none");
        assert_eq!((window.less(12 * MSS, 2 * MSS + 1), window.less(3 * MSS, 9 * MSS)), (10 * MSS, 2 * MSS));
    }

    #[test]
    fn growth_forgets_what_is_beyond_a_segment() {
        let grown = |grow: &dyn Fn(&mut Window) -> bool| {
            let mut window = window(10);
            let _ = (0..4).map(|_| grow(&mut window)).last();
            window.cwnd / MSS - 10
        };
        // Twelve segments, of which four are one of growth; three at a time that is three with what is beyond, and two without.
        assert_eq!(grown(&|window| window.grow(3 * MSS, 4 * MSS)), 3);
        assert_eq!(grown(&|window| window.grow_in_whole(3 * MSS, 4 * MSS)), 2);
        // The third acknowledgement adds the segment, and the fourth begins anew.
        assert_eq!(grown(&|window| window.grow_late(3 * MSS, 4 * MSS)), 1);
    }

    #[test]
    fn slow_start_stops_at_the_threshold_and_hands_back_the_rest() {
        let mut w = window(10);
        w.ssthresh = 11_500;
        assert_eq!(w.double(2_000), 500);
        assert_eq!(w.cwnd, 11_500);
        assert!(!w.in_slow_start());
    }

    #[test]
    fn additive_increase_is_a_segment_per_window() {
        let mut w = window(4);
        for _ in 0..3 {
            w.additive_increase(1000);
        }
        assert_eq!(w.cwnd, 4000);
        w.additive_increase(1000);
        assert_eq!(w.cwnd, 5000);
        // A stretch acknowledgement of two windows and a half: two segments, and half a window stays in credit.
        w.additive_increase(12_500);
        assert_eq!((w.cwnd, w.credit), (7000, 2500));
    }

    #[test]
    fn a_fraction_of_a_segment_grows_by_one_segment_a_pair() {
        let mut w = window(4);
        w.cwnd = 21;
        w.additive_increase(2000);
        assert_eq!(w.cwnd, 1021);
    }

    #[test]
    fn credit_from_a_slow_stretch_is_no_burst() {
        let mut w = window(10);
        w.grow(99_000, 100_000);
        w.grow(0, 1000);
        assert_eq!((w.cwnd, w.credit), (11_000, 0));
    }

    #[test]
    fn a_window_given_in_bytes_does_not_follow_the_size_of_segments_until_it_moves() {
        let config =
            |mss| CcConfig { mss, initial_window: 64_000, initial_ssthresh: 65_535, seed: 0, saved: None };
        let mut w = Window::new(&config(1000), &SlowStartParams::default());
        w.on_mss(&MssChange { before: config(1000), after: config(500) });
        assert_eq!((w.cwnd, w.ssthresh), (64_000, 65_535));
        w.reduce(32_000);
        w.on_mss(&MssChange { before: config(500), after: config(250) });
        assert_eq!((w.cwnd, w.ssthresh, w.mss), (16_000, 16_000, 250));
        assert!(w.undo());
        assert_eq!((w.cwnd, w.ssthresh), (32_000, 65_535));
    }

    #[test]
    fn a_delay_ends_slow_start_of_a_window_that_the_application_does_not_use() {
        let config =
            CcConfig { mss: 1000, initial_window: 20_000, initial_ssthresh: u64::MAX, seed: 0, saved: None };
        let hystart = SlowStartParams { hystart: Hystart::Linux, ..SlowStartParams::default() };
        let mut w = Window::new(&config, &hystart);
        for n in 0..20 {
            // A round trip of one sample, which is the path's; those of the next are longer by a half.
            let mut ack = AckSample { cwnd_limited: false, ..sample(1000 + 3 * n, 1000) };
            (ack.prior_delivered, ack.delivered) = (if n == 0 { 0 } else { 1000 }, 1000 * (n + 1));
            ack.rtt = Some(TimeDelta::from_millis(if n == 0 { 100 } else { 150 }));
            assert_eq!(w.counted(&ack), 0);
        }
        assert_eq!((w.cwnd, w.ssthresh), (20_000, 20_000));
    }

    #[test]
    fn undo_restores_once() {
        let mut w = window(20);
        w.reduce(10_000);
        assert_eq!((w.cwnd, w.ssthresh), (10_000, 10_000));
        assert!(w.undo());
        assert_eq!((w.cwnd, w.ssthresh), (20_000, u64::MAX));
        w.cwnd = 5000;
        assert!(!w.undo());
        assert_eq!(w.cwnd, 5000);
    }

    #[test]
    fn idle_halves_per_time_out_down_to_the_initial_window() {
        let mut w = window(10);
        w.cwnd = 80_000;
        w.ssthresh = 30_000;
        let rto = TimeDelta::from_millis(200);
        w.restart(TimeDelta::from_millis(199), rto);
        assert_eq!(w.cwnd, 80_000);
        w.restart(TimeDelta::from_millis(450), rto);
        assert_eq!((w.cwnd, w.ssthresh), (20_000, 60_000));
        w.restart(TimeDelta::from_secs(3600), rto);
        assert_eq!(w.cwnd, 10_000);
        w.cwnd = 1000;
        w.restart(TimeDelta::from_secs(1), TimeDelta::ZERO);
        assert_eq!(w.cwnd, 1000, "idle time never raises a window");
    }
}
