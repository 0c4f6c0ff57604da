//! Loss: how it is found (duplicate acknowledgements, RFC 6675, RFC 8985, time-outs), the episodes it opens, and their end.

use warpline_core::record::{LossTrigger, TcpEvent};
use warpline_core::{Segment, TimeDelta, Timestamp};

use super::super::config::Recovery;
use super::ack::Delivery;
use super::episode::{Episode, Frto, Signs};
use super::prr::Prr;
use super::sent::Sent;
use super::timers::{Alarm, Auxiliary};
use super::undo::Undo;
use super::{Log, Sender, TailProbe};
use crate::cc::{CongestionControl, CongestionEvent, EcnNeed, LostSegment, Phase};

/// Shortest wait for an acknowledgement that shows that the other side has not reneged.
const RENEGING_WAIT: TimeDelta = TimeDelta::from_millis(10);

impl<C: CongestionControl> Sender<C> {
    /// Begins an episode. The one before ends, and its state goes with it.
    #[inline]
    pub(super) fn enter(&mut self, now: Timestamp, log: &mut Log, episode: Episode) {
        let (before, phase) = (self.episode.phase(), episode.phase());
        self.episode = episode;
        if before != phase && log.is_recording() {
            log.record(now, TcpEvent::State { state: phase });
        }
    }

    fn congestion_event(&mut self, now: Timestamp, trigger: LossTrigger) -> CongestionEvent {
        // RFC 5681 section 3.2: segments sent by limited transmit are not counted in FlightSize.
        let outstanding = self.nxt - self.una;
        let flight = self.episode.signs().map_or(0, |signs| signs.flight);
        let in_flight = if flight > 0 { flight.min(outstanding) } else { outstanding };
        CongestionEvent {
            now,
            trigger,
            in_flight,
            mss: self.mss,
            min_rtt: self.rtt.min(),
            srtt: self.rtt.srtt(),
        }
    }

    /// What an acknowledgement says about loss and congestion: ends, continues or begins episodes. Returns whether more was
    /// lost.
    pub(super) fn on_signs(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        advanced: bool,
        prior_una: u64,
        delivery: &Delivery,
    ) -> bool {
        if let Episode::Open(signs) = &mut self.episode
            && self.board.sacked > 0
            && signs.flight == 0
        {
            signs.flight = self.nxt - prior_una;
        }
        let over = match self.episode {
            Episode::Open(_) | Episode::Disorder(_) => false,
            Episode::Cwr { end, .. } => self.una > end,
            Episode::Recovery(_) if self.config.recovery == Recovery::Reno => advanced,
            Episode::Recovery(_) | Episode::Loss { .. } => self.una >= self.recover,
        };
        if over {
            self.leave_episode(now, log);
        }
        let newly_lost = self.find_losses(now, log, advanced);
        match self.episode {
            Episode::Recovery(_) | Episode::Loss { .. } => {}
            _ if self.board.lost > 0 => {
                let trigger = if self.uses.rack { LossTrigger::Rack } else { LossTrigger::DupAcks };
                if self.config.recovery == Recovery::Tahoe {
                    log.stats.recoveries += 1;
                    self.enter_loss(now, log, LossTrigger::DupAcks);
                } else {
                    self.enter_recovery(now, log, trigger, delivery.bytes);
                }
            }
            Episode::Cwr { .. } => {}
            Episode::Open(signs) | Episode::Disorder(signs) => {
                // What was marked in a window that was reduced for a loss is answered by that (RFC 3168 section 6.1.2).
                if delivery.marked && self.una > self.recover {
                    self.enter_cwr(now, log, signs, self.nxt - prior_una, delivery.bytes);
                } else if self.board.sacked > 0 || signs.dupacks > 0 {
                    self.enter(now, log, Episode::Disorder(signs));
                } else {
                    self.enter(now, log, Episode::OPEN);
                }
            }
        }
        newly_lost
    }

    /// Marks losses by the rule in use. Returns whether there were new ones.
    fn find_losses(&mut self, now: Timestamp, log: &mut Log, advanced: bool) -> bool {
        let threshold = self.reordering;
        let mss = self.mss;
        let before = log.stats.lost_segments;
        if self.uses.rack {
            let immediate =
                self.episode.phase() >= Phase::Recovery || self.board.sacked_segments >= threshold;
            self.rack.update_window(immediate, self.rtt.min(), self.rtt.srtt());
            let cc = &mut self.cc;
            let wake = self
                .board
                .mark_by_time(&self.rack, now, |sent| note_lost(cc, log, now, sent, LossTrigger::Rack));
            self.rack_wake = wake.unwrap_or(Timestamp::NEVER);
        } else if self.uses.sack {
            if self.episode.phase() != Phase::Loss {
                let cc = &mut self.cc;
                self.board
                    .mark_by_sack(threshold, mss, |sent| note_lost(cc, log, now, sent, LossTrigger::DupAcks));
            }
        } else {
            let first_is_lost = match &self.episode {
                // RFC 6582 section 3.2 step 2: not for duplicates of what was sent before the last episode.
                Episode::Open(signs) | Episode::Disorder(signs) | Episode::Cwr { signs, .. } => {
                    signs.dupacks >= threshold && self.una > self.recover
                }
                // Step 3, partial acknowledgement.
                Episode::Recovery(_) => advanced && self.una < self.recover,
                Episode::Loss { .. } => false,
            };
            if first_is_lost && let Some(sent) = self.board.mark_first_lost() {
                note_lost(&mut self.cc, log, now, &sent, LossTrigger::DupAcks);
                if let Episode::Recovery(recovery) = &mut self.episode {
                    recovery.force = true;
                }
                let limit = (self.nxt - self.una).saturating_sub(self.board.lost);
                self.board.sacked = self.board.sacked.min(limit);
            }
        }
        log.stats.lost_segments > before
    }

    /// Sets the auxiliary timer after an acknowledgement. The reordering deadline takes precedence over a tail probe,
    /// which is for the states without losses only.
    pub(super) fn rearm_reordering(&mut self, now: Timestamp) {
        if self.rack_wake.is_set() && self.una < self.nxt {
            let at = self.rtt.tick_after(now, self.rack_wake);
            self.timers.auxiliary.set(Auxiliary::Reordering, at);
        } else if self.timers.auxiliary.purpose() == Auxiliary::Reordering
            || !self.episode.may_probe()
            || self.board.sacked > 0
        {
            self.timers.auxiliary.stop();
        }
    }

    /// RFC 8985 section 6.2 step 5: the reordering window is over.
    pub(super) fn on_reordering_timeout(&mut self, now: Timestamp, log: &mut Log) {
        if self.una == self.nxt {
            return;
        }
        let newly_lost = self.find_losses(now, log, false);
        self.rearm_reordering(now);
        if newly_lost && self.episode.phase() < Phase::Recovery {
            self.enter_recovery(now, log, LossTrigger::Rack, 0);
        } else if newly_lost {
            self.episode.set_hold(false);
            let in_flight = self.in_flight();
            if let Some(prr) = self.episode.prr() {
                prr.on_ack(0, false, in_flight, self.mss);
            }
        }
        self.refresh_window();
    }

    #[inline(never)]
    fn enter_recovery(&mut self, now: Timestamp, log: &mut Log, trigger: LossTrigger, delivered: u64) {
        log.stats.recoveries += 1;
        // An algorithm that needs ECN falls by little for marks: losses are more (RFC 8257 section 3.5; Linux dctcp_state).
        let prr = if let Episode::Cwr { prr, .. } = self.episode
            && self.cc.ecn_need() == EcnNeed::Any
        {
            prr
        } else {
            let event = self.congestion_event(now, trigger);
            let under_way = self.board.retrans.div_ceil(self.mss.max(1)) as u32;
            self.undo = self.config.undo.then(|| Undo::new(self.una, under_way));
            self.cc.on_congestion_event(&event);
            self.announce_reduction();
            self.begin_reduction(delivered)
        };
        self.recover = self.nxt;
        self.enter(now, log, Episode::recovery(prr));
        self.forget_tail_probe();
        if self.timers.auxiliary.purpose() == Auxiliary::TailProbe {
            self.timers.auxiliary.stop();
        }
        self.refresh_window();
        self.record_metrics(now, log);
    }

    /// RFC 9937 section 6.1: RecoverFS is what is outstanding and will still be delivered or lost in the episode, with what the acknowledgement
    /// that begins it has `delivered`.
    fn begin_reduction(&self, delivered: u64) -> Option<Prr> {
        let flight = (self.nxt - self.una + delivered).saturating_sub(self.board.sacked);
        let proportional =
            self.config.prr && self.config.recovery != Recovery::Tahoe && !self.cc.governs_recovery();
        proportional.then(|| Prr::begin(self.cc.cwnd(), flight, self.in_flight()))
    }

    /// The window was reduced, for whatever reason: the next new data says so, which ends the echo of a mark (RFC 3168 section 6.1.2).
    fn announce_reduction(&mut self) {
        self.cwr_pending = self.uses.ecn.is_on() && !self.uses.ecn.is_accurate();
    }

    #[inline(never)]
    fn enter_cwr(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        signs: Signs,
        prior_outstanding: u64,
        delivered: u64,
    ) {
        log.stats.ecn_reductions += 1;
        let mut event = self.congestion_event(now, LossTrigger::Ecn);
        if event.in_flight == 0 {
            // The acknowledgement covers all that was outstanding before it came.
            event.in_flight = prior_outstanding;
        }
        self.undo = None;
        self.cc.on_congestion_event(&event);
        self.announce_reduction();
        // A scalable window falls by little, and is to be in force at once (Linux tcp_prague.c does without, too).
        let prr = if self.cc.ecn_need() == EcnNeed::L4s { None } else { self.begin_reduction(delivered) };
        self.enter(now, log, Episode::Cwr { end: self.nxt, signs: Signs { flight: 0, ..signs }, prr });
        self.refresh_window();
        self.record_metrics(now, log);
    }

    /// A time-out (RFC 6298 section 5, RFC 5681 section 3.1), or Tahoe's fast retransmit: everything goes out again in slow
    /// start.
    pub(super) fn enter_loss(&mut self, now: Timestamp, log: &mut Log, trigger: LossTrigger) {
        let (before, repeated) = (self.episode.phase(), self.retries > 1);
        // Repeated time-outs without progress are no new congestion.
        if before != Phase::Loss || !repeated {
            let event = self.congestion_event(now, trigger);
            self.cc.on_rto(&event);
            self.announce_reduction();
            // A time-out that ends a partial recovery is never spurious: a retransmission is always under way then. Linux begins no undo there either
            // (tcp_enter_loss).
            let genuine = self.episode.is_partial();
            self.undo = (self.config.undo && !genuine).then(|| Undo::new(self.una, 0));
        }
        let reneged = self.board.front().is_some_and(|sent| sent.flags & Sent::SACKED != 0);
        if !self.uses.sack {
            self.board.sacked = 0;
        } else if reneged {
            self.board.clear_sacked();
        }
        if before <= Phase::Disorder && self.board.sacked_segments >= self.config.dupack_threshold {
            // Segments were taken to come later than they do: else the loss would have been seen in time (Linux tcp_enter_loss, which does so only with SACK).
            self.reordering = self.reordering.min(self.config.dupack_threshold);
        }
        let cc = &mut self.cc;
        self.board.mark_all_lost(|sent| note_lost(cc, log, now, sent, trigger));
        self.recover = self.nxt;
        self.forget_tail_probe();
        self.timers.auxiliary.stop();
        self.rack_wake = Timestamp::NEVER;
        let timed_out = trigger == LossTrigger::Rto;
        // Not within a recovery, but where time-outs of the same segment follow each other (RFC 5682 section 3.2; Linux tcp_enter_loss).
        let watched = timed_out && self.undo.is_some() && (before < Phase::Recovery || repeated);
        let frto = if watched { Frto::Watching } else { Frto::Off };
        self.enter(now, log, Episode::Loss { force: timed_out, frto });
        self.pacer.reset();
        self.refresh_window();
    }

    /// Whether this recovery has restarted its retransmission timer for the last time.
    pub(super) fn is_impatient(&self) -> bool {
        self.config.impatient && self.episode.is_partial()
    }

    /// Restarts the deadlines because data was acknowledged. In a recovery without SACK that is to be [impatient](super::super::TcpConfig::impatient), only the first partial
    /// acknowledgement does so (RFC 6582 sections 3.2 and 4). Such a recovery fills one hole per round trip, so a window with many holes ends in a time-out.
    pub(super) fn rearm_unless_impatient(&mut self, now: Timestamp) {
        if !self.is_impatient() {
            self.rearm(now);
        }
        if let Episode::Recovery(recovery) = &mut self.episode {
            recovery.partial = !self.uses.sack;
        }
    }

    /// The other side has acknowledged data only up to what it had selectively acknowledged: it has thrown that away (RFC 2018 section 8). The
    /// time-out that sends it again comes after half an RTT (Linux tcp_check_sack_reneging).
    pub(super) fn hasten_after_reneging(&mut self, now: Timestamp) {
        if self.board.front().is_some_and(|sent| sent.flags & Sent::SACKED != 0) {
            let wait = (self.rtt.srtt() / 2).max(RENEGING_WAIT);
            self.timers.alarm.set(Alarm::Retransmit, (now + wait).min(self.timers.alarm.at()));
        }
    }

    fn leave_episode(&mut self, now: Timestamp, log: &mut Log) {
        if self.episode.phase() != Phase::Loss {
            self.cc.on_recovery_exit(now);
        }
        if self.episode.phase() != Phase::Cwr {
            self.rack.on_recovery_exit();
        }
        if !self.uses.sack {
            self.board.sacked = 0;
        }
        self.enter(now, log, Episode::OPEN);
    }

    /// RFC 8985 section 7.4: was the tail loss probe needed? `repeats`: the segment says what one before it has said, and nothing else.
    pub(super) fn on_probe_ack(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        segment: &Segment,
        repeats: bool,
        dsack: bool,
    ) {
        if let Some(probe) = self.tail_probe.filter(|probe| segment.ack >= probe.end) {
            self.settle_tail_probe(now, log, segment, repeats, dsack, probe);
        }
    }

    #[inline(never)]
    fn settle_tail_probe(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        segment: &Segment,
        repeats: bool,
        dsack: bool,
        TailProbe { end, again }: TailProbe,
    ) {
        if !again || dsack {
            // New data was sent, or the probe came twice: nothing was lost.
            self.tail_probe = None;
        } else if segment.ack > end {
            // The probe repaired a loss, which is congestion all the same.
            self.tail_probe = None;
            log.stats.lost_segments += 1;
            // As when a recovery begins: for an algorithm that needs ECN, a loss is more than a mark.
            let more = self.episode.phase() == Phase::Cwr && self.cc.ecn_need() != EcnNeed::Any;
            if self.episode.phase() <= Phase::Disorder || more {
                let event = self.congestion_event(now, LossTrigger::Rack);
                self.undo = None;
                log.stats.recoveries += 1;
                self.cc.on_congestion_event(&event);
                self.announce_reduction();
                self.cc.on_recovery_exit(now);
                if let Some(signs) = self.episode.signs() {
                    signs.flight = 0;
                }
                if let Episode::Cwr { signs, .. } = self.episode {
                    self.enter(now, log, Episode::Open(signs));
                }
                self.refresh_window();
            }
        } else if repeats && segment.sack.is_empty() {
            // A duplicate acknowledgement without SACK: the probe was one segment too many.
            self.tail_probe = None;
        }
    }
}

fn note_lost(
    cc: &mut impl CongestionControl,
    log: &mut Log,
    now: Timestamp,
    sent: &Sent,
    trigger: LossTrigger,
) {
    log.stats.lost_segments += 1;
    cc.on_lost(&LostSegment {
        now,
        bytes: u64::from(sent.len),
        sent_at: sent.sent_at,
        delivered: sent.delivered,
        app_limited: sent.flags & Sent::APP_LIMITED != 0,
        trigger,
    });
    log.record(now, TcpEvent::Lost { seq: sent.seq, len: sent.payload(), trigger });
}
