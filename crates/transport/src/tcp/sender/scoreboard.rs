//! The retransmission queue: a ring of the segments in flight, what is known of each, and counts that give the pipe.
//!
//! The bookkeeping is Linux's: `in_flight = outstanding - sacked - lost + retransmitted`, which is RFC 6675's pipe. Positions
//! in the ring are absolute (they count every segment ever sent), so cursors survive the removal of acknowledged segments.
//! Every cursor moves forward, except after an undo or the loss of a retransmission, so that an acknowledgement costs
//! amortised constant time and a binary search per new SACK block.

use std::collections::VecDeque;

use warpline_core::Timestamp;

use super::rack::Rack;
use super::sent::Sent;

/// The segments in flight of one connection.
// Laid out by hand: the counts, which every segment asks for; the ring, for those that acknowledge or carry data; what losses touch.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Scoreboard {
    /// Segments lost and not retransmitted since.
    lost_waiting: u32,
    /// Segments selectively acknowledged.
    pub sacked_segments: u32,
    /// Bytes selectively acknowledged, or as many as duplicate acknowledgements stand for without SACK.
    pub sacked: u64,
    /// Bytes declared lost, whether retransmitted or not.
    pub lost: u64,
    /// Bytes of retransmissions in flight.
    pub retrans: u64,
    segments: VecDeque<Sent>,
    /// Absolute position of the first.
    base: u64,
    /// No lost segment that waits is before.
    retransmit_cursor: u64,
    /// Every segment before is sacked, lost, or retransmitted.
    mark_cursor: u64,
    /// One past the highest sacked segment, and its last byte.
    sacked_top: u64,
    pub sacked_end: u64,
    /// Retransmissions in the order of their sending: position and time. Stale ones are skipped. Only kept for RACK.
    retransmissions: VecDeque<(u64, Timestamp)>,
    /// Blocks of the last acknowledgement with SACK: what they cover is marked.
    known_blocks: [(u64, u64); 4],
}

impl Scoreboard {
    /// Bytes in flight, given the bytes outstanding.
    #[inline]
    pub(super) fn in_flight(&self, outstanding: u64) -> u64 {
        (outstanding + self.retrans).saturating_sub(self.sacked + self.lost)
    }
    /// Whether nothing is sacked, lost or retransmitted.
    #[inline]
    pub(super) fn is_clean(&self) -> bool {
        self.sacked | self.lost | self.retrans == 0
    }
    /// Whether a lost segment waits to be sent again.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.lost_waiting > 0
    }
    /// Segments outstanding.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.segments.len()
    }
    #[inline]
    pub(super) fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }
    pub(super) fn last_position(&self) -> Option<u64> {
        (!self.segments.is_empty()).then(|| self.base + self.segments.len() as u64 - 1)
    }
    pub(super) fn at(&self, position: u64) -> Option<&Sent> {
        self.segments.get(position.checked_sub(self.base)? as usize)
    }
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter()
    }

    /// A new segment was sent.
    #[inline]
    pub(super) fn push(&mut self, sent: Sent) {
        self.segments.push_back(sent);
    }

    /// Takes the first segment off if it ends at or before `ack`, without a look at marks: only for a clean board.
    #[inline]
    pub(super) fn pop_clean(&mut self, ack: u64) -> Option<Sent> {
        match self.segments.front() {
            Some(front) if front.end() <= ack => {
                self.base += 1;
                self.segments.pop_front()
            }
            _ => None,
        }
    }

    /// Takes the first segment off if it ends at or before `ack`, and its marks out of the counts.
    pub(super) fn pop(&mut self, ack: u64) -> Option<Sent> {
        let sent = self.pop_clean(ack)?;
        let len = u64::from(sent.len);
        if sent.flags & Sent::SACKED != 0 {
            self.sacked -= len;
            self.sacked_segments -= 1;
        } else {
            self.unmark(&sent);
        }
        Some(sent)
    }

    /// The bytes before `ack` of the first segment, if it lies across, are acknowledged. Returns how many.
    pub(super) fn trim(&mut self, ack: u64) -> u64 {
        let Some(front) = self.segments.front_mut() else { return 0 };
        let bytes = ack.saturating_sub(front.seq).min(u64::from(front.len));
        if bytes == 0 {
            return 0;
        }
        front.seq += bytes;
        front.len -= bytes as u32;
        if front.flags & Sent::SACKED != 0 {
            self.sacked -= bytes;
            return 0;
        }
        if front.flags & Sent::LOST != 0 {
            self.lost -= bytes;
        }
        if front.flags & Sent::RETRANS != 0 {
            self.retrans -= bytes;
        }
        bytes
    }

    fn unmark(&mut self, sent: &Sent) {
        let len = u64::from(sent.len);
        if sent.flags & Sent::LOST != 0 {
            self.lost -= len;
            self.lost_waiting -= u32::from(sent.flags & Sent::RETRANS == 0);
        }
        if sent.flags & Sent::RETRANS != 0 {
            self.retrans -= len;
        }
    }

    /// Marks what `blocks` (at most four, none below `una`) newly cover and hands each newly sacked segment, as it was, to
    /// `each`.
    #[inline]
    pub(super) fn sack(&mut self, blocks: &[(u64, u64)], mut each: impl FnMut(&Sent)) {
        let mut marked = [(0, 0); 4];
        for (&(start, end), marked) in blocks.iter().zip(&mut marked) {
            *marked = (start, end);
            // Blocks mostly repeat the last acknowledgement's, or extend one of them.
            let mut from = start;
            for &(known_start, known_end) in &self.known_blocks {
                if known_start <= from && from < known_end {
                    from = known_end;
                }
            }
            if from >= end {
                continue;
            }
            let mut i = self.segments.partition_point(|sent| sent.seq < from);
            while let Some(sent) = self.segments.get_mut(i) {
                if sent.end() > end {
                    // Not all of it: it is still to be looked at when the block grows.
                    marked.1 = marked.1.min(sent.seq);
                    break;
                }
                if sent.flags & Sent::SACKED == 0 {
                    let was = *sent;
                    sent.flags = (sent.flags | Sent::SACKED) & !(Sent::LOST | Sent::RETRANS);
                    self.unmark(&was);
                    self.sacked += u64::from(was.len);
                    self.sacked_segments += 1;
                    self.sacked_top = self.sacked_top.max(self.base + i as u64 + 1);
                    self.sacked_end = self.sacked_end.max(was.end());
                    each(&was);
                }
                i += 1;
            }
        }
        self.known_blocks = marked;
    }

    /// Declares the segment at `position` lost, or its retransmission if one is in flight. Returns it if that is news.
    pub(super) fn mark_lost(&mut self, position: u64) -> Option<Sent> {
        let sent = self.segments.get_mut(position.checked_sub(self.base)? as usize)?;
        let len = u64::from(sent.len);
        let flags = sent.flags;
        if flags & Sent::SACKED != 0 || flags & (Sent::LOST | Sent::RETRANS) == Sent::LOST {
            return None;
        }
        sent.flags = (flags | Sent::LOST) & !Sent::RETRANS;
        if flags & Sent::LOST == 0 {
            self.lost += len;
        }
        if flags & Sent::RETRANS != 0 {
            self.retrans -= len;
        }
        self.lost_waiting += 1;
        self.retransmit_cursor = self.retransmit_cursor.min(position);
        Some(*sent)
    }

    /// Declares the first segment lost.
    pub(super) fn mark_first_lost(&mut self) -> Option<Sent> {
        self.mark_lost(self.base)
    }

    /// Declares everything that is not sacked lost (a time-out).
    pub(super) fn mark_all_lost(&mut self, mut each: impl FnMut(&Sent)) {
        for position in self.base..self.base + self.segments.len() as u64 {
            if let Some(sent) = self.mark_lost(position) {
                each(&sent);
            }
        }
        self.mark_cursor = self.base + self.segments.len() as u64;
        self.retransmissions.clear();
    }

    /// RFC 6675 `IsLost` for all at once: a segment is lost when `threshold` discontiguous runs, or more than
    /// `threshold - 1` full segments, are sacked above it.
    pub(super) fn mark_by_sack(&mut self, threshold: u32, mss: u64, mut each: impl FnMut(&Sent)) {
        let limit = u64::from(threshold.saturating_sub(1)) * mss;
        let (mut bytes, mut runs, mut in_run) = (0u64, 0u32, false);
        let mut position = self.sacked_top;
        while position > self.mark_cursor.max(self.base) {
            position -= 1;
            let Some(sent) = self.at(position) else { continue };
            let sacked = sent.flags & Sent::SACKED != 0;
            if sacked {
                bytes += u64::from(sent.len);
                runs += u32::from(!in_run);
                if bytes > limit || runs >= threshold {
                    break;
                }
            }
            in_run = sacked;
        }
        if bytes <= limit && runs < threshold {
            return;
        }
        for p in self.mark_cursor.max(self.base)..position {
            let fresh = self.at(p).is_some_and(|sent| sent.flags & Sent::RETRANS == 0);
            if fresh && let Some(sent) = self.mark_lost(p) {
                each(&sent);
            }
        }
        self.mark_cursor = self.mark_cursor.max(position);
    }

    /// RFC 8985 section 6.2 step 5: marks what RACK shows to be lost by `now`; returns when the next segment would be, if
    /// any waits.
    #[inline]
    pub(super) fn mark_by_time(
        &mut self,
        rack: &Rack,
        now: Timestamp,
        mut each: impl FnMut(&Sent),
    ) -> Option<Timestamp> {
        let mut wake = None;
        // Segments sent once are in the order of sending. (After an undo there may be others among them, which then wait
        // for a segment sent after them.)
        self.mark_cursor = self.mark_cursor.max(self.base);
        while let Some(&sent) = self.at(self.mark_cursor) {
            if sent.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANS) == 0 {
                if !rack.sent_before(&sent) {
                    break;
                }
                let due = rack.lost_at(&sent);
                if due > now {
                    wake = Some(due);
                    break;
                }
                if let Some(sent) = self.mark_lost(self.mark_cursor) {
                    each(&sent);
                }
            }
            self.mark_cursor += 1;
        }
        // So are retransmissions among themselves.
        while let Some(&(position, at)) = self.retransmissions.front() {
            if let Some(&sent) = self.at(position)
                && sent.flags & (Sent::SACKED | Sent::RETRANS) == Sent::RETRANS
                && sent.sent_at == at
            {
                if !rack.sent_before(&sent) {
                    break;
                }
                let due = rack.lost_at(&sent);
                if due > now {
                    wake = Some(wake.map_or(due, |w: Timestamp| w.min(due)));
                    break;
                }
                if let Some(sent) = self.mark_lost(position) {
                    each(&sent);
                }
            }
            self.retransmissions.pop_front();
        }
        wake
    }

    /// Position of the first lost segment that waits.
    pub(super) fn next_waiting(&mut self) -> Option<u64> {
        if self.lost_waiting == 0 {
            return None;
        }
        self.retransmit_cursor = self.retransmit_cursor.max(self.base);
        while let Some(sent) = self.at(self.retransmit_cursor) {
            if sent.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANS) == Sent::LOST {
                return Some(self.retransmit_cursor);
            }
            self.retransmit_cursor += 1;
        }
        None
    }

    /// Position of the first segment below the highest sacked one that is neither sacked, lost, nor retransmitted (RFC 6675
    /// `NextSeg` rule 3).
    pub(super) fn next_unsacked_below_top(&self) -> Option<u64> {
        let from = self.mark_cursor.max(self.base);
        (from..self.sacked_top).find(|&p| {
            self.at(p).is_some_and(|s| s.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANSMITTED) == 0)
        })
    }

    /// The segment at `position` is sent again now. Returns it, marked.
    pub(super) fn retransmit(
        &mut self,
        position: u64,
        now: Timestamp,
        state: super::rate::SendState,
        in_time_order: bool,
    ) -> Option<Sent> {
        let sent = self.segments.get_mut(position.checked_sub(self.base)? as usize)?;
        if sent.flags & (Sent::LOST | Sent::RETRANS) == Sent::LOST {
            self.lost_waiting -= 1;
        }
        if sent.flags & Sent::RETRANS == 0 {
            self.retrans += u64::from(sent.len);
        }
        sent.flags |= Sent::RETRANS | Sent::RETRANSMITTED;
        sent.sent_at = now;
        sent.delivered = state.delivered;
        sent.send_span = state.send_span;
        sent.ack_span = state.ack_span;
        let sent = *sent;
        if in_time_order {
            self.retransmissions.push_back((position, now));
        }
        Some(sent)
    }

    /// Cuts every segment with more than `limit` bytes of payload that is not sacked into pieces, and declares those lost: as they were,
    /// they did not get through. Returns whether there was one.
    pub(super) fn split(&mut self, limit: u32) -> bool {
        let too_large = |sent: &Sent| sent.payload() > limit && sent.flags & Sent::SACKED == 0;
        if limit == 0 || !self.segments.iter().any(too_large) {
            return false;
        }
        let whole = std::mem::take(&mut self.segments);
        for sent in whole {
            if !too_large(&sent) {
                self.segments.push_back(sent);
                continue;
            }
            self.unmark(&sent);
            self.lost += u64::from(sent.len);
            let (mut seq, end) = (sent.seq, sent.end());
            while seq < end {
                let last = sent.payload() - (seq - sent.seq) as u32 <= limit;
                let len = if last { (end - seq) as u32 } else { limit };
                let fin = if last { 0 } else { Sent::FIN };
                let flags = (sent.flags | Sent::LOST) & !(Sent::RETRANS | fin);
                self.segments.push_back(Sent { seq, len, flags, ..sent });
                self.lost_waiting += 1;
                seq += u64::from(len);
            }
        }
        // Positions have moved: everything that is found by them is found anew.
        self.retransmit_cursor = self.base;
        self.mark_cursor = self.base;
        let sacked = self.segments.iter().rposition(|sent| sent.flags & Sent::SACKED != 0);
        self.sacked_top = sacked.map_or(0, |index| self.base + index as u64 + 1);
        let under_way = |(sent, position): (&Sent, u64)| {
            (sent.flags & Sent::RETRANS != 0).then_some((position, sent.sent_at))
        };
        let mut again: Vec<_> = self.segments.iter().zip(self.base..).filter_map(under_way).collect();
        again.sort_by_key(|&(position, at)| (at, position));
        self.retransmissions = again.into();
        true
    }

    /// Forgets all loss marks: the losses were none.
    pub(super) fn clear_lost(&mut self) {
        for sent in &mut self.segments {
            sent.flags &= !Sent::LOST;
        }
        self.lost = 0;
        self.lost_waiting = 0;
        self.mark_cursor = self.base;
    }

    /// Forgets all selective acknowledgements (RFC 2018 section 8: the receiver may renege).
    pub(super) fn clear_sacked(&mut self) {
        for sent in &mut self.segments {
            sent.flags &= !Sent::SACKED;
        }
        self.sacked = 0;
        self.sacked_segments = 0;
        self.sacked_top = 0;
        self.known_blocks = [(0, 0); 4];
        self.mark_cursor = self.base;
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
