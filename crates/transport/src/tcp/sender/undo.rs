//! Undo of reductions that proved spurious: Eifel detection by timestamps (RFC 3522) with the response of RFC 4015, detection by D-SACK
//! (RFC 3708), and F-RTO by what is acknowledged after a time-out (RFC 5682, in the form of Linux `tcp_process_loss`).

use warpline_core::record::TcpEvent;
use warpline_core::{Segment, Timestamp};

use super::ack::Delivery;
use super::episode::{Episode, Frto};
use super::{Log, Sender};
use crate::cc::{CongestionControl, Phase};

/// What is needed to find out whether the last reduction was spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// Retransmissions since it, and how many of them D-SACKs have not yet shown to be needless.
    sent: u32,
    unexplained: u32,
    /// Timestamp of the first retransmission, of one before the reduction if that was still under way.
    first: Option<u32>,
    /// Where the reduction began: D-SACKs below are about older retransmissions.
    from: u64,
}

impl Undo {
    /// A reduction begins with `una` as the oldest byte outstanding, and so many retransmissions under way, which count as its own (Linux
    /// tcp_init_undo).
    pub(super) fn new(una: u64, under_way: u32) -> Undo {
        Undo { sent: under_way, unexplained: under_way, first: None, from: una }
    }

    /// A retransmission was sent. `first` is the timestamp of the first of those that are under way.
    pub(super) fn on_retransmit(&mut self, first: Option<u32>) {
        self.sent += 1;
        self.unexplained += 1;
        self.first = self.first.or(first);
    }

    /// A D-SACK for a block that ends at `end` came.
    pub(super) fn on_dsack(&mut self, end: u64) {
        if end > self.from {
            self.unexplained = self.unexplained.saturating_sub(1);
        }
    }

    /// RFC 3522 section 3.2: the acknowledgement that advances was triggered by a segment sent before the first
    /// retransmission.
    fn echo_is_older(&self, segment: &Segment) -> bool {
        matches!((self.first, segment.timestamps), (Some(first), Some((_, echo))) if (echo.wrapping_sub(first) as i32) < 0)
    }

    /// Whether every retransmission has proved needless.
    fn is_explained(&self) -> bool {
        self.sent > 0 && self.unexplained == 0
    }
}

impl<C: CongestionControl> Sender<C> {
    /// Undoes the last reduction if the acknowledgement shows that it was spurious. Returns whether losses are to be looked for.
    pub(super) fn try_undo(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        segment: &Segment,
        prior_una: u64,
    ) -> bool {
        self.episode.set_hold(false);
        let Some(undo) = self.undo else { return true };
        let phase = self.episode.phase();
        let by_echo = self.una > prior_una && phase >= Phase::Recovery && undo.echo_is_older(segment);
        if by_echo && phase == Phase::Recovery && self.una < self.recover {
            // A segment was late (Linux tcp_try_undo_partial).
            self.rack.note_reordering();
            self.allow_lateness(self.board.highest(self.una).saturating_sub(prior_una));
            if self.board.retrans > 0 {
                // But of others retransmissions are under way: until they are answered, nothing more is taken for lost or sent again.
                self.episode.set_hold(true);
                return false;
            }
        }
        if by_echo || undo.is_explained() {
            // D-SACKs speak of what was sent again, not of all that counts as lost (Linux tcp_try_undo_dsack).
            self.take_back(now, log, by_echo || phase == Phase::Loss);
        }
        true
    }

    /// A segment came late, behind so many bytes that had arrived (Linux tcp_check_sack_reordering).
    pub(super) fn allow_lateness(&mut self, bytes: u64) {
        let segments = bytes.div_ceil(self.mss).min(u64::from(self.config.max_reordering)) as u32;
        self.reordering = self.reordering.max(segments);
    }

    /// F-RTO after a time-out: data that was sent once and is acknowledged shows that it was not lost. So that there may be such an
    /// acknowledgement, the first one lets new data out and no more retransmissions.
    pub(super) fn judge_time_out(
        &mut self,
        now: Timestamp,
        log: &mut Log,
        advanced: bool,
        duplicate: bool,
        delivery: &Delivery,
    ) {
        let Episode::Loss { frto, .. } = &mut self.episode else { return };
        if *frto == Frto::Off {
            return;
        }
        // Without SACK, what was sent once may only have waited at the receiver for what was sent again.
        let original = self.uses.sack || !delivery.ambiguous;
        if original && delivery.lowest_once <= self.recover {
            return self.take_back(now, log, true);
        }
        let next = if self.nxt > self.recover {
            // Of the new data something arrived, and what it was to show was not there.
            if duplicate || delivery.sacked { Frto::Off } else { Frto::Watching }
        } else if !advanced {
            *frto
        } else if self.una < self.recover && self.has_new_segment() {
            Frto::NewData
        } else {
            Frto::Off
        };
        if let Episode::Loss { frto, .. } = &mut self.episode {
            *frto = next;
        }
    }

    /// Whether new data can go out, as far as the other side's window and Nagle's rule are concerned.
    fn has_new_segment(&self) -> bool {
        let available = self.app_end.saturating_sub(self.nxt);
        let room = self.offered.end.saturating_sub(self.nxt);
        available.min(room) >= self.mss
            || available > 0 && available <= room && (!self.config.nagle || self.small_end <= self.una)
    }

    /// The last reduction was spurious, and if `nothing_lost`, so is what is known of losses.
    #[inline(never)]
    fn take_back(&mut self, now: Timestamp, log: &mut Log, nothing_lost: bool) {
        self.undo = None;
        self.cc.undo(now);
        if nothing_lost {
            self.board.clear_lost();
        }
        self.rtt.reset_backoff();
        log.stats.undos += 1;
        log.record(now, TcpEvent::Undo);
        if !self.uses.sack {
            self.board.sacked = 0;
            // Duplicates mean something again, although what they are about was sent before (Linux tcp_try_keep_open).
            self.recover = self.una.saturating_sub(1);
        }
        // Signs of a loss remain.
        let signs = self.episode.signs().copied().unwrap_or_default();
        self.enter(now, log, Episode::Open(signs));
    }
}
