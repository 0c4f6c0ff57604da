//! Careful Resume: a connection that begins where an earlier one on the same path left off, and steps back at the first sign that the path is not
//! what it was. Around any congestion control that goes by a window.
//!
//! Source: RFC 9959, read as draft-ietf-tsvwg-careful-resume-24, of which it was made; section numbers are the draft's. The phases are those of
//! section 3.
//!
//! * Reconnaissance (3.2): the algorithm's own start, until the initial window is acknowledged, while more is to be sent than the window lets out.
//!   Where the smallest RTT is not above half of the saved one, or is above ten times it, or anything shows congestion, all goes on as without.
//! * Unvalidated (3.3): the window jumps to half of the saved one, and what it lets out is paced over a round trip. It ends when the window is full,
//!   when something sent in it is acknowledged, or after a round trip.
//! * Validating (3.4): the algorithm goes on from what is in flight, until all that was sent before is acknowledged.
//! * Safe Retreat (3.5): at a loss or mark in either, the window falls to half of what the path has shown to hold (PipeSize), without proportional
//!   rate reduction. When all that was sent is acknowledged, the algorithm goes on from there, with half of PipeSize as its threshold.
//!
//! Departures: what was saved is a parameter, so that it is neither observed, nor shared out, nor dropped after a failure, and it has no lifetime;
//! there is no `max_jump` but the saved window itself; Beta is one half for every algorithm. PipeSize grows with every acknowledgement, as sections
//! 3.3 and 3.4 say; the example in the draft's appendix does not count those of what was in flight before the jump. An undo of the reduction
//! ends the retreat.

use warpline_core::{Rate, TimeDelta, Timestamp};

use super::round::Round;
use super::{
    AckSample, CcConfig, CongestionControl, CongestionEvent, Controller, EcnNeed, LostSegment, Marks,
    MssChange, Phase, SavedPath, Subflow,
};

/// By how much the RTT may differ: it has to be above this part of the saved one (section 4.2.1), and not above so many times it.
const LEAST_PART: u64 = 2;
const MOST_TIMES: u64 = 10;

/// A phase, and what belongs to it.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The handshake is not complete.
    Connecting,
    Reconnaissance,
    Unvalidated {
        since: Timestamp,
        rtt: TimeDelta,
        round: Round,
        pipe: u64,
    },
    Validating {
        /// One past what was sent before.
        last: u64,
        pipe: u64,
    },
    Retreat {
        cwnd: u64,
        pipe: u64,
        /// One past what was sent before the retreat, once an acknowledgement has told it.
        last: Option<u64>,
    },
    /// The algorithm alone.
    Normal,
}

/// A congestion control that resumes.
#[derive(Debug)]
struct CarefulResume {
    inner: Controller,
    saved: SavedPath,
    /// The initial window.
    initial: u64,
    mss: u64,
    stage: Stage,
}

/// `inner`, which resumes if `config` says from where. An algorithm that does not go by a window is left as it is.
pub(super) fn resume(mut inner: Controller, config: &CcConfig) -> Controller {
    let (cwnd, ssthresh) = (inner.cwnd(), inner.ssthresh());
    match config.saved {
        Some(saved) if inner.set_window(cwnd, ssthresh) => Controller::Boxed(Box::new(CarefulResume {
            inner,
            saved,
            initial: config.initial_window,
            mss: config.mss,
            stage: Stage::Connecting,
        })),
        _ => inner,
    }
}

impl CarefulResume {
    /// jump_cwnd.
    fn jump(&self) -> u64 {
        self.saved.cwnd / 2
    }

    /// Whether the round-trip time is too small for the saved window: what was sent in it would come faster than it ever did.
    fn is_too_short(&self, min_rtt: TimeDelta) -> bool {
        min_rtt * LEAST_PART <= self.saved.rtt
    }

    /// The window while nothing shows congestion, and the algorithm's threshold stays.
    fn go_on_from(&mut self, cwnd: u64) {
        let ssthresh = self.inner.ssthresh();
        self.inner.set_window(cwnd, ssthresh);
    }

    fn reconnoitre(&mut self, ack: &AckSample) -> Stage {
        let calm = matches!(ack.phase, Phase::Open | Phase::Disorder);
        let cwnd = self.inner.cwnd();
        if !calm || cwnd >= self.inner.ssthresh() || self.jump() <= cwnd {
            return Stage::Normal;
        }
        if ack.delivered < self.initial || !ack.cwnd_limited || ack.min_rtt.is_zero() {
            return Stage::Reconnaissance;
        }
        if self.is_too_short(ack.min_rtt) || ack.min_rtt > self.saved.rtt * MOST_TIMES {
            return Stage::Normal;
        }
        let mut round = Round::default();
        round.restart(ack);
        Stage::Unvalidated { since: ack.now, rtt: ack.rtt.unwrap_or(ack.srtt), round, pipe: ack.in_flight }
    }

    /// The end of the unvalidated phase.
    fn check_flight(&mut self, ack: &AckSample, pipe: u64) -> Stage {
        let flight = ack.in_flight;
        if flight < self.initial || flight <= pipe {
            self.go_on_from(pipe.max(self.initial));
            return Stage::Normal;
        }
        self.go_on_from(flight);
        Stage::Validating { last: ack.next_seq, pipe }
    }

    fn retreat(&self, pipe: u64, last: Option<u64>) -> Stage {
        Stage::Retreat { cwnd: (pipe / 2).max(2 * self.mss).min(self.cwnd()), pipe, last }
    }
}

impl CongestionControl for CarefulResume {
    fn on_ack(&mut self, ack: &AckSample) {
        self.inner.on_ack(ack);
        self.stage = match self.stage {
            Stage::Connecting | Stage::Reconnaissance => self.reconnoitre(ack),
            Stage::Unvalidated { since, rtt, mut round, pipe } => {
                let pipe = pipe + ack.acked;
                let full = ack.prior_in_flight + self.mss > self.jump();
                if self.is_too_short(ack.min_rtt) {
                    self.retreat(pipe, Some(ack.next_seq))
                } else if round.ends(ack) || full || ack.now.saturating_since(since) > rtt {
                    self.check_flight(ack, pipe)
                } else {
                    Stage::Unvalidated { since, rtt, round, pipe }
                }
            }
            Stage::Validating { last, .. } if ack.ack >= last => Stage::Normal,
            Stage::Validating { last, pipe } => Stage::Validating { last, pipe: pipe + ack.acked },
            Stage::Retreat { cwnd, pipe, last } => {
                let pipe = pipe + ack.acked;
                let last = last.unwrap_or(ack.next_seq);
                if ack.ack >= last {
                    self.inner.set_window(cwnd, pipe / 2);
                    Stage::Normal
                } else {
                    Stage::Retreat { cwnd, pipe, last: Some(last) }
                }
            }
            Stage::Normal => return,
        };
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.stage = match self.stage {
            Stage::Unvalidated { pipe, .. } => self.retreat(pipe, None),
            Stage::Validating { pipe, last } => self.retreat(pipe, Some(last)),
            retreat @ Stage::Retreat { .. } => retreat,
            Stage::Connecting | Stage::Reconnaissance | Stage::Normal => Stage::Normal,
        };
        self.inner.on_congestion_event(event);
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.stage = Stage::Normal;
        self.inner.on_rto(event);
    }
    fn undo(&mut self, now: Timestamp) {
        self.stage = Stage::Normal;
        self.inner.undo(now);
    }
    fn on_idle(&mut self, now: Timestamp, idle: TimeDelta, rto: TimeDelta) {
        if !matches!(self.stage, Stage::Connecting | Stage::Reconnaissance) {
            self.stage = Stage::Normal;
        }
        self.inner.on_idle(now, idle, rto);
    }
    fn on_established(&mut self, now: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        self.stage = Stage::Reconnaissance;
        self.inner.on_established(now, srtt, min_rtt);
    }
    fn cwnd(&self) -> u64 {
        match self.stage {
            Stage::Unvalidated { .. } => self.jump().max(self.inner.cwnd()),
            Stage::Retreat { cwnd, .. } => cwnd,
            _ => self.inner.cwnd(),
        }
    }
    fn ssthresh(&self) -> u64 {
        self.inner.ssthresh()
    }
    fn pacing_rate(&self) -> Option<Rate> {
        match self.stage {
            // An algorithm that will give a rate has to give one from the beginning. Nothing is sent by this one.
            Stage::Connecting => self.inner.pacing_rate().or(Some(Rate::from_bps(u64::MAX))),
            Stage::Unvalidated { rtt, .. } => {
                let bits = 8e9 * self.jump() as f64 / rtt.as_nanos().max(1) as f64;
                Some(Rate::from_bps(bits as u64))
            }
            _ => self.inner.pacing_rate(),
        }
    }
    fn paces_payload(&self) -> bool {
        matches!(self.stage, Stage::Unvalidated { .. }) || self.inner.paces_payload()
    }
    fn send_quantum(&self) -> u64 {
        if matches!(self.stage, Stage::Unvalidated { .. }) { 0 } else { self.inner.send_quantum() }
    }
    fn governs_recovery(&self) -> bool {
        matches!(self.stage, Stage::Retreat { .. }) || self.inner.governs_recovery()
    }

    // The rest is the algorithm's.

    fn on_sent(&mut self, now: Timestamp, bytes: u64, in_flight: u64) {
        self.inner.on_sent(now, bytes, in_flight);
    }
    fn reads_delivery_rate(&self) -> bool {
        self.inner.reads_delivery_rate()
    }
    fn on_restart(&mut self, now: Timestamp, app_limited: bool) {
        self.inner.on_restart(now, app_limited);
    }
    fn on_marks(&mut self, marks: &Marks) {
        self.inner.on_marks(marks);
    }
    fn on_lost(&mut self, lost: &LostSegment) {
        self.inner.on_lost(lost);
    }
    fn holds_back(&self) -> bool {
        self.inner.holds_back()
    }
    fn on_recovery_exit(&mut self, now: Timestamp) {
        self.inner.on_recovery_exit(now);
    }
    fn set_window(&mut self, cwnd: u64, ssthresh: u64) -> bool {
        self.stage = Stage::Normal;
        self.inner.set_window(cwnd, ssthresh)
    }
    fn min_burst(&self) -> u32 {
        self.inner.min_burst()
    }
    fn ecn_need(&self) -> EcnNeed {
        self.inner.ecn_need()
    }
    fn on_ecn_agreed(&mut self, accurate: bool) {
        self.inner.on_ecn_agreed(accurate);
    }
    // The saved window is bytes of a path, whatever a segment is.
    fn on_mss(&mut self, change: &MssChange) {
        self.inner.on_mss(change);
        (self.initial, self.mss) = (change.after.initial_window, change.after.mss);
    }
    fn on_subflows(&mut self, subflows: &[Subflow], own: usize) {
        self.inner.on_subflows(subflows, own);
    }
    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

#[cfg(test)]
mod tests {
    use warpline_core::parameter::Choice;

    use super::super::testbed::{MSS, config, event, sample};
    use super::super::{Algorithm, RenoParams};
    use super::*;

    /// The path as saved: 100 ms, and 200 segments in them.
    const SAVED: SavedPath = SavedPath { cwnd: 200 * MSS, rtt: TimeDelta::from_millis(100) };

    /// A Reno that resumes, and a path on which each acknowledgement is of one segment.
    struct Path {
        cc: Controller,
        millis: u64,
        rtt: u64,
        acked: u64,
        sent: u64,
        /// Segments delivered when each segment was sent.
        delivered_at: Vec<u64>,
    }

    impl Path {
        fn new(saved: Option<SavedPath>, rtt: u64) -> Path {
            let mut cc = Algorithm::Reno(RenoParams::default()).build(&CcConfig { saved, ..config(10) });
            cc.on_established(Timestamp::ZERO, TimeDelta::from_millis(rtt), TimeDelta::from_millis(rtt));
            Path { cc, millis: 0, rtt, acked: 0, sent: 0, delivered_at: Vec::new() }
        }
        fn cwnd(&self) -> u64 {
            self.cc.cwnd() / MSS
        }
        fn in_flight(&self) -> u64 {
            self.sent - self.acked
        }
        /// Sends so many segments, or as many as the window takes.
        fn send(&mut self, most: u64) -> u64 {
            let segments = most.min(self.cwnd().saturating_sub(self.in_flight()));
            self.sent += segments;
            self.delivered_at.resize(self.sent as usize, self.acked);
            segments
        }
        /// The oldest segment is acknowledged.
        fn ack(&mut self) {
            self.ack_in(Phase::Open);
        }
        fn ack_in(&mut self, phase: Phase) {
            let prior_delivered = self.delivered_at[self.acked as usize] * MSS;
            let prior_in_flight = self.in_flight() * MSS;
            self.acked += 1;
            let rtt = TimeDelta::from_millis(self.rtt);
            self.cc.on_ack(&AckSample {
                rtt: Some(rtt),
                srtt: rtt,
                min_rtt: rtt,
                delivered: self.acked * MSS,
                prior_delivered,
                prior_in_flight,
                in_flight: self.in_flight() * MSS,
                next_seq: self.sent * MSS,
                ack: self.acked * MSS,
                phase,
                ..sample(self.millis, MSS)
            });
        }
        /// The handshake is over, the initial window is acknowledged, and each acknowledgement has let out two more.
        fn reconnoitre(&mut self) {
            assert_eq!(self.send(u64::MAX), 10);
            self.millis += self.rtt;
            for _ in 0..9 {
                self.ack();
                self.send(u64::MAX);
            }
            assert_eq!((self.cwnd(), self.in_flight()), (19, 19));
            self.ack();
        }
    }

    #[test]
    fn the_initial_window_is_acknowledged_before_the_window_jumps_to_half_of_the_saved_one_paced() {
        let mut path = Path::new(Some(SAVED), 100);
        assert_eq!(path.cc.pacing_rate(), None);
        path.reconnoitre();
        assert_eq!(path.cwnd(), 100);
        assert_eq!(path.cc.pacing_rate(), Some(Rate::from_bps(100 * MSS * 8 * 10)));
        // Without, and where there is nothing to gain, it is Reno's.
        for saved in [None, Some(SavedPath { cwnd: 20 * MSS, ..SAVED })] {
            let mut path = Path::new(saved, 100);
            path.reconnoitre();
            assert_eq!((path.cwnd(), path.cc.pacing_rate()), (20, None));
        }
    }

    #[test]
    fn segments_that_the_handshake_made_smaller_make_the_initial_window_smaller() {
        let mut path = Path::new(Some(SAVED), 100);
        let before = CcConfig { saved: Some(SAVED), ..config(10) };
        let after = CcConfig { mss: MSS / 2, initial_window: before.initial_window / 2, ..before };
        path.cc.on_mss(&MssChange { before, after });
        assert_eq!(path.cc.cwnd(), 5 * MSS);
    }

    #[test]
    fn a_rate_is_given_from_the_beginning_and_a_control_without_a_window_is_left_alone() {
        let build = |name: &str| {
            name.parse::<Algorithm>().unwrap().build(&CcConfig { saved: Some(SAVED), ..config(10) })
        };
        assert!(build("reno").pacing_rate().is_some());
        assert!(matches!(build("bbr"), Controller::Bbr(_)));
        assert!(matches!(build("fixed"), Controller::Fixed(_)));
        for algorithm in Algorithm::all() {
            let cc = algorithm.build(&CcConfig { saved: Some(SAVED), ..config(10) });
            let plain = algorithm.build(&config(10));
            assert_eq!((cc.name(), cc.cwnd(), cc.ssthresh()), (plain.name(), plain.cwnd(), plain.ssthresh()));
        }
    }

    #[test]
    fn a_path_whose_round_trip_is_another_is_not_resumed() {
        for (rtt, jumps) in [(50, false), (51, true), (1000, true), (1001, false)] {
            let mut path = Path::new(Some(SAVED), rtt);
            path.reconnoitre();
            assert_eq!(path.cwnd() == 100, jumps, "{rtt} ms");
        }
    }

    #[test]
    fn congestion_in_reconnaissance_ends_it() {
        let mut path = Path::new(Some(SAVED), 100);
        path.send(u64::MAX);
        path.cc.on_congestion_event(&event(1, 10 * MSS));
        for _ in 0..10 {
            path.ack();
        }
        assert!(path.cwnd() < 10, "{}", path.cwnd());
    }

    #[test]
    fn who_has_little_to_send_waits_with_the_jump() {
        let mut path = Path::new(Some(SAVED), 100);
        path.send(u64::MAX);
        for _ in 0..10 {
            let ack = AckSample { cwnd_limited: false, delivered: 20 * MSS, ..sample(100, MSS) };
            path.cc.on_ack(&ack);
        }
        assert_eq!(path.cwnd(), 10);
    }

    #[test]
    fn what_came_through_is_validated_and_slow_start_goes_on_from_it() {
        let mut path = Path::new(Some(SAVED), 100);
        path.reconnoitre();
        // All that was in flight is acknowledged while the jump leaves.
        for _ in 0..18 {
            path.send(5);
            path.ack();
            assert_eq!(path.cwnd(), 100);
        }
        path.send(u64::MAX);
        let flight = path.in_flight();
        assert_eq!(flight, 100);
        // The first one of the jump is acknowledged: the window is what is in flight.
        path.ack();
        assert_eq!(path.cwnd(), 99);
        assert_eq!(path.cc.pacing_rate(), None);
        for _ in 0..99 {
            path.ack();
        }
        // Each has let it grow by one, as in slow start; then it is Reno's own.
        assert!((197..=199).contains(&path.cwnd()), "{}", path.cwnd());
        path.cc.on_congestion_event(&event(500, 198 * MSS));
        assert!((98..=99).contains(&path.cwnd()) && !path.cc.governs_recovery(), "{}", path.cwnd());
    }

    #[test]
    fn a_sender_that_does_not_fill_the_jump_falls_back_to_what_it_used() {
        let mut path = Path::new(Some(SAVED), 100);
        path.reconnoitre();
        // 18 were in flight, and 20 more are sent.
        for _ in 0..18 {
            path.send(1);
            path.ack();
        }
        path.ack();
        // 18 and 19 acknowledged: more than is in flight.
        assert_eq!(path.cwnd(), 37);
        // And not for longer than a round trip, whatever is acknowledged.
        let mut path = Path::new(Some(SAVED), 100);
        path.reconnoitre();
        path.send(60);
        path.millis += 101;
        path.ack();
        assert!(path.cwnd() < 80, "{}", path.cwnd());
    }

    #[test]
    fn a_loss_brings_the_window_to_half_of_what_came_through_and_later_the_threshold() {
        for trigger in [warpline_core::record::LossTrigger::DupAcks, warpline_core::record::LossTrigger::Ecn]
        {
            let mut path = Path::new(Some(SAVED), 100);
            path.reconnoitre();
            for _ in 0..18 {
                path.send(5);
                path.ack();
            }
            path.send(u64::MAX);
            for _ in 0..34 {
                path.ack();
            }
            // PipeSize: 18 that were in flight, the 18 acknowledged, and 34 of the jump.
            path.cc.on_congestion_event(&CongestionEvent { trigger, ..event(300, 66 * MSS) });
            assert_eq!(path.cwnd(), 35);
            assert!(path.cc.governs_recovery(), "no proportional reduction");
            for _ in 0..65 {
                path.ack_in(Phase::Recovery);
                assert_eq!(path.cwnd(), 35, "it does not grow");
            }
            path.ack_in(Phase::Recovery);
            // 136 came through in all.
            assert_eq!((path.cwnd(), path.cc.ssthresh() / MSS), (35, 68));
            assert!(!path.cc.governs_recovery());
            path.cc.on_recovery_exit(Timestamp::from_secs(1));
            path.send(1);
            path.ack_in(Phase::Open);
            assert_eq!(path.cwnd(), 36, "slow start up to the threshold");
        }
    }

    #[test]
    fn a_time_out_ends_it() {
        let mut path = Path::new(Some(SAVED), 100);
        path.reconnoitre();
        path.send(u64::MAX);
        path.cc.on_rto(&event(400, 100 * MSS));
        assert_eq!((path.cwnd(), path.cc.pacing_rate()), (1, None));
    }
}
