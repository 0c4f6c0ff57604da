//! Undo of reductions that proved spurious: Eifel detection by timestamps (RFC 3522) with the response of RFC 4015, and
//! detection by D-SACK (RFC 3708).

use warpline_core::record::TcpEvent;
use warpline_core::{Segment, Timestamp};

use super::connection::Connection;
use crate::cc::{CongestionControl, Phase};

/// What is needed to find out whether the last reduction was spurious.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// Whether a reduction can be undone.
    pub armed: bool,
    /// Retransmissions since it, and how many of them D-SACKs have not yet shown to be needless.
    pub sent: u32,
    pub unexplained: u32,
    /// Timestamp of the first retransmission.
    pub first: Option<u32>,
    /// Where the reduction began: D-SACKs below are about older retransmissions.
    pub from: u64,
}

impl Undo {
    /// A reduction begins.
    pub(super) fn arm(&mut self, una: u64, enabled: bool) {
        *self = Undo { armed: enabled, from: una, ..Undo::default() };
    }

    /// A retransmission was sent with timestamp `value`.
    pub(super) fn on_retransmit(&mut self, value: Option<u32>) {
        if self.armed {
            self.sent += 1;
            self.unexplained += 1;
            self.first = self.first.or(value);
        }
    }

    /// A D-SACK for a block that ends at `end` came.
    pub(super) fn on_dsack(&mut self, end: u64) {
        if self.armed && end > self.from {
            self.unexplained = self.unexplained.saturating_sub(1);
        }
    }

    /// RFC 3522 section 3.2: the acknowledgement that advances was triggered by a segment sent before the first
    /// retransmission.
    pub(super) fn echo_is_older(&self, segment: &Segment) -> bool {
        matches!((self.first, segment.timestamps), (Some(first), Some((_, echo))) if (echo.wrapping_sub(first) as i32) < 0)
    }
}

impl<C: CongestionControl> Connection<C> {
    /// Undoes the last reduction if the acknowledgement shows that it was spurious.
    pub(super) fn try_undo(&mut self, now: Timestamp, segment: &Segment, advanced: bool) {
        if !self.undo.armed {
            return;
        }
        let by_echo = advanced
            && matches!(self.phase, Phase::Recovery | Phase::Loss)
            && self.undo.echo_is_older(segment);
        let by_dsack = self.undo.sent > 0 && self.undo.unexplained == 0;
        if !(by_echo || by_dsack) {
            return;
        }
        self.undo = Undo::default();
        self.cc.undo(now);
        self.board.clear_lost();
        self.rtt.reset_backoff();
        self.force_retransmit = false;
        self.stats.undos += 1;
        self.record(now, TcpEvent::Undo);
        if self.phase != Phase::Cwr {
            self.dupacks = 0;
            if !self.sack_used {
                self.board.sacked = 0;
            }
            self.set_phase(now, Phase::Open);
        }
    }
}
