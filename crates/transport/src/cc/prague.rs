//! Prague: DCTCP for the Internet. It keeps the queue of a path that marks as L4S does very short, and is as fast on short round trips as on long.
//!
//! Sources: draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331 section 4 (what L4S asks of a sender); Linux tcp_prague.c of the L4S team,
//! from which the constants come.
//!
//! * Marks: alpha is the moving average of the marked part of the data, with gain 1/16. It begins to move with the first mark, which halves the
//!   window. After that marks take half of alpha off, once per round trip.
//! * Growth: a segment per round trip, of which every acknowledged byte that was not marked brings its part. Marks do not stop it, as they do
//!   DCTCP's: an L4S queue marks a few packets in every round trip.
//! * Round trips below the virtual one, 25 ms: some rounds after slow start, growth is less by the square of how much shorter the round
//!   trip is, so that the rate grows as with the virtual one; and alpha moves and marks count once per virtual round trip: the
//!   first mark after one, where Linux waits for the next episode, which may be a round trip later.
//! * Segments are paced at a window per round trip, and at two in slow start. What a quarter of a millisecond sends leaves at one moment.
//! * A loss halves the window, and so does a time-out, after which it is one segment. Nothing grows in recovery.
//! * It runs with Accurate ECN and ECT(1), which its connection negotiates without being asked to. Where the other side knows no AccECN, it is
//!   Reno, and its packets say ECT(0).
//!
//! Departures: the window is not below two segments, where Linux paces two small packets more slowly. Linux goes over from a window
//! to a rate where the window is below four segments, and lets the rate swing by 3 %; here it is always a window. The first window is not paced,
//! since no round trip is known before it. A queue that marks as RFC 3168 says is taken for an L4S queue; Linux can detect such queues (RFC 9331
//! section 4.3, item 3), but does not by default.

use warpline_core::parameter::{Component, Parameters};
use warpline_core::record::LossTrigger;
use warpline_core::{Rate, TimeDelta, Timestamp};

use super::dctcp::MarkedPart;
use super::slow_start::SlowStartParams;
use super::window::{Window, within};
use super::{
    AckSample, BuiltIn, CcConfig, CongestionControl, CongestionEvent, EcnNeed, Marks, MssChange, Phase,
};

/// What remains of the window after a loss, and after the first mark.
const BETA: f64 = 0.5;
/// Bytes of a packet beside its payload: IPv4, TCP and timestamps. The pacing rate is of whole packets.
const HEADERS: u64 = 52;
/// The rate before there is a round trip: no pacing.
const UNPACED: Rate = Rate::from_bps(u64::MAX);

/// Prague (draft-briscoe-iccrg-prague-congestion-control), for paths with L4S (RFC 9330). It turns Accurate ECN on.
#[derive(Clone, Copy, Debug, PartialEq, Parameters)]
#[component("prague")]
pub struct PragueParams {
    /// Slow start and byte counting.
    #[parameter(flatten)]
    pub slow_start: SlowStartParams,
    /// Weight of a round trip in the moving average of the marked part.
    #[parameter(default = 0.0625, above = 0.0, max = 1.0)]
    pub gain: f64,
    /// Flows with a shorter round trip grow as fast as with this one; 0s for none.
    #[parameter(default = TimeDelta::from_millis(25))]
    pub virtual_rtt: TimeDelta,
    /// How many round trips after slow start `virtual_rtt` begins to hold.
    #[parameter(default = 4)]
    pub rtt_transition: u32,
    /// Data that is sent at one moment, as a time at the pacing rate: one segment at least.
    #[parameter(default = TimeDelta::from_micros(244))]
    pub quantum: TimeDelta,
}

/// Prague's congestion control.
#[derive(Clone, Debug)]
pub struct Prague {
    window: Window,
    part: MarkedPart,
    virtual_rtt: TimeDelta,
    rtt_transition: u32,
    /// Marked packets are counted; if not, it is Reno.
    accurate: bool,
    /// There was a mark: the path has a queue that marks.
    marked: bool,
    /// Round trips since slow start.
    rounds: u32,
    /// When alpha moved last, and when marks last reduced the window.
    moved: Timestamp,
    reduced: Timestamp,
    /// The connection's episode began too soon after that to reduce the window.
    too_soon: bool,
    /// Bytes by which the window has grown beyond the whole ones.
    fraction: f64,
    pacing: Rate,
    quantum: TimeDelta,
}

impl BuiltIn for Prague {
    type Params = PragueParams;

    fn new(params: &PragueParams, config: &CcConfig) -> Self {
        Prague {
            window: Window::new(config, &params.slow_start),
            part: MarkedPart::new(0.0, within(params.gain, 0.0, 1.0)),
            virtual_rtt: params.virtual_rtt,
            rtt_transition: params.rtt_transition,
            accurate: true,
            marked: false,
            rounds: 0,
            moved: Timestamp::ZERO,
            reduced: Timestamp::ZERO,
            too_soon: false,
            fraction: 0.0,
            pacing: UNPACED,
            quantum: params.quantum,
        }
    }
}

impl Prague {
    /// The part of the data that came marked, averaged over the last round trips.
    pub fn alpha(&self) -> f64 {
        self.part.alpha
    }

    /// Whether shorter round trips count as the virtual one.
    fn is_independent(&self) -> bool {
        !self.window.in_slow_start() && self.rounds >= self.rtt_transition
    }

    /// Whether something that is to happen once per round trip, and last did at `last`, may happen now.
    fn is_due(&self, now: Timestamp, last: Timestamp) -> bool {
        !self.is_independent() || now.saturating_since(last) >= self.virtual_rtt
    }

    /// Segments of growth per round trip.
    fn growth(&self, srtt: TimeDelta) -> f64 {
        if !self.is_independent() || srtt >= self.virtual_rtt || srtt.is_zero() {
            return 1.0;
        }
        let part = srtt.as_nanos() as f64 / self.virtual_rtt.as_nanos() as f64;
        part * part
    }

    /// A round trip may be over: alpha moves.
    fn measure(&mut self, ack: &AckSample) {
        let marks = Marks::from(ack);
        self.marked |= marks.ce > 0;
        self.part.count(&marks);
        if !self.part.is_over(&marks) || !self.is_due(ack.now, self.moved) {
            return;
        }
        if self.marked {
            self.part.update(&marks);
            self.moved = ack.now;
        } else {
            self.part.skip(&marks);
        }
        if !self.window.in_slow_start() {
            self.rounds = self.rounds.saturating_add(1);
        }
    }

    fn grow(&mut self, ack: &AckSample) {
        let unmarked = AckSample { acked: ack.acked.saturating_sub(ack.ce), ..*ack };
        // Marks do not hold growth up.
        let phase = if ack.phase == Phase::Cwr { Phase::Open } else { ack.phase };
        let counted = self.window.counted(&AckSample { phase, ..unmarked });
        if counted == 0 {
            return;
        }
        let rest = self.window.slow_start(ack, counted);
        let step = self.window.mss as f64 * self.growth(ack.srtt) / self.window.cwnd as f64;
        self.fraction += rest as f64 * step;
        let whole = self.fraction as u64;
        self.fraction -= whole as f64;
        self.window.raise(whole);
    }

    fn pace(&mut self, ack: &AckSample) {
        if ack.srtt.is_zero() {
            return;
        }
        let doubling = self.window.cwnd < self.window.ssthresh / 2;
        let bits = 8.0 * self.window.cwnd as f64;
        let packets = (self.window.mss + HEADERS) as f64 / self.window.mss as f64;
        let rate = bits * packets * if doubling { 2.0 } else { 1.0 } / ack.srtt.as_secs_f64();
        self.pacing = Rate::from_bps((rate as u64).max(1));
    }

    /// Marks came: reduces the window, unless that was done in the last round trip that counts.
    fn heed_marks(&mut self, now: Timestamp) {
        self.too_soon = self.marked && !self.is_due(now, self.reduced);
        if self.too_soon {
            // An episode that can be undone, without a reduction so far.
            return self.window.reduce(self.window.cwnd);
        }
        let beta = if self.marked { 1.0 - self.part.alpha / 2.0 } else { BETA };
        self.reduced = now;
        let remains = (self.window.cwnd as f64 * beta) as u64;
        self.window.reduce(remains.max(2 * self.window.mss));
    }

    fn lose(&mut self) -> u64 {
        (self.fraction, self.too_soon) = (0.0, false);
        self.window.share(self.window.cwnd, BETA)
    }
}

impl CongestionControl for Prague {
    fn on_ack(&mut self, ack: &AckSample) {
        if self.accurate {
            // An episode lasts for a round trip of the path, and the connection tells of no mark within it.
            if self.too_soon && ack.ce > 0 && ack.phase == Phase::Cwr {
                self.heed_marks(ack.now);
            }
            self.measure(ack);
            self.grow(ack);
        } else {
            let counted = self.window.counted(ack);
            if counted > 0 {
                let rest = self.window.slow_start(ack, counted);
                self.window.additive_increase(rest);
            }
        }
        self.pace(ack);
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        if event.trigger == LossTrigger::Ecn && self.accurate {
            self.heed_marks(event.now);
        } else {
            let threshold = self.lose();
            self.window.reduce(threshold);
        }
    }
    fn on_rto(&mut self, _event: &CongestionEvent) {
        let threshold = self.lose();
        self.window.collapse(threshold);
    }
    fn on_recovery_exit(&mut self, _now: Timestamp) {
        self.too_soon = false;
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.window.set(cwnd, ssthresh)
    }
    fn undo(&mut self, _now: Timestamp) {
        self.too_soon = false;
        self.window.undo();
    }
    fn on_idle(&mut self, _now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        self.too_soon = false;
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
    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }
    fn send_quantum(&self) -> u64 {
        (self.pacing.as_bps() as f64 / 8.0 * self.quantum.as_secs_f64()) as u64
    }
    fn ecn_need(&self) -> EcnNeed {
        EcnNeed::L4s
    }
    fn on_ecn_agreed(&mut self, accurate: bool) {
        self.accurate = accurate;
    }
    fn on_mss(&mut self, change: &MssChange) {
        self.window.on_mss(change);
    }
    fn name(&self) -> &'static str {
        PragueParams::KIND
    }
}

#[cfg(test)]
mod tests {
    use super::super::Controller;
    use super::super::testbed::{Bottleneck, MSS, config, event, sample};
    use super::*;

    /// Round trips of a segment per acknowledgement.
    struct Rounds {
        now: TimeDelta,
        acked: u64,
    }

    impl Rounds {
        /// A round trip of so many milliseconds, in which this part of the window comes marked, one in so many.
        fn round(&mut self, prague: &mut Prague, millis: u64, mark_one_in: Option<u64>, phase: Phase) {
            let segments = prague.cwnd() / MSS;
            let rtt = TimeDelta::from_millis(millis);
            for segment in 0..segments {
                self.now += rtt / segments;
                self.acked += MSS;
                let ce = if mark_one_in.is_some_and(|one| segment % one == one - 1) { MSS } else { 0 };
                prague.on_ack(&AckSample {
                    now: Timestamp::ZERO + self.now,
                    rtt: Some(rtt),
                    srtt: rtt,
                    ack: self.acked,
                    next_seq: self.acked + segments * MSS,
                    ce,
                    phase,
                    ..sample(0, MSS)
                });
            }
        }
    }

    fn marks(millis: u64) -> CongestionEvent {
        CongestionEvent { trigger: LossTrigger::Ecn, ..event(millis, 0) }
    }

    /// One in congestion avoidance with a window of so many segments, after its first mark.
    fn avoiding(segments: u64) -> (Prague, Rounds) {
        let mut prague = Prague::new(&PragueParams::default(), &config(2 * segments));
        prague.on_congestion_event(&marks(0));
        prague.marked = true;
        assert_eq!(prague.cwnd(), segments * MSS, "the first mark halves");
        (prague, Rounds { now: TimeDelta::ZERO, acked: 0 })
    }

    #[test]
    fn the_rate_grows_as_with_25_ms_whatever_is_shorter() {
        // Bytes of window per round trip, after the transition; a round trip is of whole segments.
        let grown = |millis: u64| {
            let (mut prague, mut rounds) = avoiding(100);
            for _ in 0..5 {
                rounds.round(&mut prague, millis, None, Phase::Open);
            }
            let before = prague.cwnd();
            for _ in 0..25 {
                rounds.round(&mut prague, millis, None, Phase::Open);
            }
            (prague.cwnd() - before) as f64 / 25.0 / MSS as f64
        };
        for (millis, growth) in [(100, 1.0), (25, 1.0), (10, 0.16), (5, 0.04), (1, 0.0016)] {
            assert!((grown(millis) / growth - 1.0).abs() < 0.06, "{millis} ms: {}", grown(millis));
        }
        // Before that, and without it, a segment per round trip.
        let (mut prague, mut rounds) = avoiding(100);
        rounds.round(&mut prague, 5, None, Phase::Open);
        assert!((990..=1000).contains(&(prague.cwnd() - 100 * MSS)), "{}", prague.cwnd());
        let params = PragueParams { virtual_rtt: TimeDelta::ZERO, ..PragueParams::default() };
        let plain =
            Prague { rounds: 10, ..Prague::new(&params, &CcConfig { initial_ssthresh: 0, ..config(10) }) };
        assert_eq!(plain.growth(TimeDelta::from_millis(5)), 1.0);
    }

    #[test]
    fn alpha_and_reductions_go_by_the_virtual_round_trip() {
        let (mut prague, mut rounds) = avoiding(100);
        for _ in 0..4 {
            rounds.round(&mut prague, 5, Some(10), Phase::Open);
        }
        // From here on alpha moves every 25 ms, which is five round trips.
        let mut moves = 0;
        let mut last = prague.alpha();
        for _ in 0..50 {
            rounds.round(&mut prague, 5, Some(10), Phase::Open);
            moves += u32::from(prague.alpha() != last);
            last = prague.alpha();
        }
        assert!((8..=10).contains(&moves), "{moves}");
        for _ in 0..500 {
            rounds.round(&mut prague, 5, Some(10), Phase::Open);
        }
        assert!((prague.alpha() - 0.1).abs() < 0.005, "{}", prague.alpha());
        let now = rounds.now.as_millis() + 1;
        let before = prague.cwnd();
        prague.on_congestion_event(&marks(now));
        let after = prague.cwnd();
        assert!((after as f64 / before as f64 - 0.95).abs() < 0.003, "{before} to {after}");
        prague.on_congestion_event(&marks(now + 24));
        assert_eq!(prague.cwnd(), after, "the same virtual round trip");
        prague.on_congestion_event(&marks(now + 25));
        assert!(prague.cwnd() < after);
    }

    #[test]
    fn the_first_mark_after_a_virtual_round_trip_counts_within_an_episode_too() {
        let (mut prague, mut rounds) = avoiding(100);
        for _ in 0..200 {
            rounds.round(&mut prague, 20, Some(10), Phase::Open);
        }
        // The connection begins an episode after a round trip of 20 ms, which is too soon, and says no more until its end.
        let mut now = rounds.now.as_millis();
        prague.on_congestion_event(&marks(now));
        let first = prague.cwnd();
        prague.on_congestion_event(&marks(now + 20));
        assert_eq!(prague.cwnd(), first);
        let mut mark = |at: u64, ce: u64| {
            let before = prague.cwnd();
            let ack = AckSample { now: Timestamp::from_millis(at), phase: Phase::Cwr, ce, ..sample(0, MSS) };
            prague.on_ack(&ack);
            prague.cwnd() as f64 / before as f64
        };
        now += 24;
        assert!(mark(now, MSS) > 0.999, "too soon");
        assert!(mark(now + 1, 0) > 0.999, "no mark");
        let remains = mark(now + 2, MSS);
        assert!((remains - 0.95).abs() < 0.005, "{remains}");
        assert!(mark(now + 3, MSS) > 0.999, "once");
    }

    #[test]
    fn marks_do_not_hold_growth_up_and_marked_bytes_do_not_cause_it() {
        let (mut prague, mut rounds) = avoiding(100);
        rounds.round(&mut prague, 50, Some(2), Phase::Cwr);
        assert!((490..=500).contains(&(prague.cwnd() - 100 * MSS)), "{}", prague.cwnd());
        let before = prague.cwnd();
        rounds.round(&mut prague, 50, None, Phase::Recovery);
        assert_eq!(prague.cwnd(), before);
        prague.on_congestion_event(&event(1, 0));
        assert_eq!(prague.cwnd(), 50 * MSS, "a loss halves");
    }

    #[test]
    fn without_accurate_feedback_it_is_reno() {
        let mut prague = Prague::new(&PragueParams::default(), &config(40));
        prague.on_ecn_agreed(false);
        prague.on_congestion_event(&marks(0));
        assert_eq!(prague.cwnd(), 20 * MSS);
        prague.on_congestion_event(&marks(1));
        assert_eq!(prague.cwnd(), 10 * MSS, "every echo halves, since it stands for one window at least");
        let mut rounds = Rounds { now: TimeDelta::ZERO, acked: 0 };
        rounds.round(&mut prague, 5, None, Phase::Cwr);
        assert_eq!(prague.cwnd(), 10 * MSS);
        for _ in 0..10 {
            rounds.round(&mut prague, 5, None, Phase::Open);
        }
        assert_eq!(prague.cwnd(), 20 * MSS, "a segment per round trip, however short");
    }

    #[test]
    fn a_window_is_paced_over_the_round_trip_and_two_in_slow_start() {
        let mut prague = Prague::new(&PragueParams::default(), &config(100));
        assert_eq!(prague.pacing_rate(), Some(UNPACED));
        let still = AckSample { cwnd_limited: false, ..sample(0, MSS) };
        prague.on_ack(&still);
        // 100 packets of 1052 bytes in 100 ms, twice.
        assert_eq!(prague.pacing_rate(), Some(Rate::from_bps(2 * 1052 * 8 * 1000)));
        prague.on_congestion_event(&event(0, 0));
        prague.on_ack(&still);
        assert_eq!(prague.pacing_rate(), Some(Rate::from_bps(1052 * 8 * 500)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "too long for Miri")]
    fn the_queue_stays_short_and_the_link_full() {
        // 2000 packets/s and 30 ms: a pipe of 60. Packets are marked from the fifth in the queue on.
        let make = |_| Controller::Prague(Box::new(Prague::new(&PragueParams::default(), &config(10))));
        for flows in [1, 2, 4] {
            let mut link = Bottleneck::new((0..flows).map(make).collect(), 2000, 30, 1000);
            link.mark_above = Some(5);
            link.stagger(TimeDelta::from_millis(200));
            let outcome = link.measure(30, 90);
            let sum = outcome.shares.iter().sum::<f64>();
            assert!(sum > 0.97, "{flows}: {:?}", outcome.shares);
            assert!(outcome.queue < 9.0, "{flows}: {}", outcome.queue);
            assert_eq!(outcome.losses, vec![0; flows]);
            let least = outcome.shares.iter().fold(1.0, |least: f64, share| least.min(*share));
            assert!(least * flows as f64 > 0.7, "{flows}: {:?}", outcome.shares);
        }
    }
}
