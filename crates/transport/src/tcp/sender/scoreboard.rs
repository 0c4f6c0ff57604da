//! The retransmission queue: a ring of the segments in flight, what is known of each, and counts that give the pipe.
//!
//! The bookkeeping is Linux's: `in_flight = outstanding - sacked - lost + retransmitted`, which is RFC 6675's pipe. Positions
//! in the ring are absolute (they count every segment ever sent), so cursors survive the removal of acknowledged segments.
//! Every cursor moves forward, except after an undo or the loss of a retransmission, and what is sacked is passed over at once, so that an
//! acknowledgement costs amortised constant time and a binary search per new SACK block.

use std::collections::VecDeque;

use warpline_core::Timestamp;

use super::rack::Rack;
use super::ring::Ring;
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
    segments: Ring,
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
    /// Start of the highest segment that has arrived, as far as SACK tells, and otherwise what is acknowledged, `una` (Linux tcp_highest_sack_seq).
    pub(super) fn highest(&self, una: u64) -> u64 {
        let top = self.sacked_top.checked_sub(1).and_then(|position| self.at(position));
        top.filter(|_| self.sacked_segments > 0).map_or(una, |sent| sent.seq)
    }
    /// Segments outstanding.
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.segments.len()
    }
    #[inline]
    pub(super) fn front(&self) -> Option<&Sent> {
        self.segments.front()
    }
    pub(super) fn last_position(&self) -> Option<u64> {
        (!self.segments.is_empty()).then(|| self.segments.end() - 1)
    }
    #[inline]
    pub(super) fn at(&self, position: u64) -> Option<&Sent> {
        self.segments.at(position)
    }
    /// The segments with bytes from `start` to `end`, in order.
    pub(super) fn between(&self, start: u64, end: u64) -> impl Iterator<Item = &Sent> {
        // One that begins before `start` may reach beyond it.
        let first = self.segments.first_from(start).saturating_sub(1).max(self.segments.first());
        let from = (first..self.segments.end()).map_while(|position| self.segments.at(position));
        from.skip_while(move |sent| sent.end() <= start).take_while(move |sent| sent.seq < end)
    }
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.segments.iter().map(|(_, sent)| sent)
    }

    /// A new segment was sent.
    #[inline]
    pub(super) fn push(&mut self, sent: Sent) {
        self.segments.push(sent);
    }

    /// Takes off the segments that end at or before `ack`, which must be one at least, and hands each to `each`. Returns the first and the
    /// last of them. For a clean board only: it does not look at marks.
    #[inline]
    pub(super) fn take_clean(&mut self, ack: u64, mut each: impl FnMut(&Sent)) -> Option<(&Sent, &Sent)> {
        debug_assert!(self.is_clean());
        self.segments.take_while(|sent| {
            let taken = sent.end() <= ack;
            if taken {
                each(sent);
            }
            taken
        })
    }

    /// Takes the first segment off if it ends at or before `ack`, and its marks out of the counts.
    pub(super) fn pop(&mut self, ack: u64) -> Option<Sent> {
        let sent = *self.segments.front().filter(|front| front.end() <= ack)?;
        self.segments.pop();
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
        let Some(front) = self.segments.at_mut(self.segments.first()) else { return 0 };
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
    pub(super) fn sack(&mut self, blocks: impl Iterator<Item = (u64, u64)>, mut each: impl FnMut(&Sent)) {
        let mut marked = [(0, 0); 4];
        for ((start, end), marked) in blocks.zip(&mut marked) {
            *marked = (start, end);
            // Blocks mostly repeat the last acknowledgement's, or extend one of them.
            let known = self.known_blocks.iter().find(|known| known.0 <= start && start < known.1);
            let from = known.map_or(start, |known| known.1);
            // An acknowledgement that was overtaken has less of it.
            marked.1 = end.max(from);
            if from >= end {
                continue;
            }
            let first = self.first_from(from);
            let mut position = first;
            while let Some(sent) = self.segments.at_mut(position) {
                if sent.end() > end {
                    // Not all of it: it is still to be looked at when the block grows.
                    marked.1 = marked.1.min(sent.seq);
                    break;
                }
                if sent.flags & Sent::SACKED != 0 {
                    position += u64::from(sent.sacked_behind);
                } else {
                    let was = *sent;
                    sent.flags = (sent.flags | Sent::SACKED) & !(Sent::LOST | Sent::RETRANS);
                    self.unmark(&was);
                    self.sacked += u64::from(was.len);
                    self.sacked_segments += 1;
                    self.sacked_top = self.sacked_top.max(position + 1);
                    self.sacked_end = self.sacked_end.max(was.end());
                    each(&was);
                }
                position += 1;
            }
            self.note_run(first, position);
        }
        self.known_blocks = marked;
    }

    /// Says at the first of these segments, which are all sacked, how many are behind it. So a block that begins there can be named again later without
    /// a walk through all of it. Where their number does not fit, several of them say it.
    #[inline]
    fn note_run(&mut self, mut first: u64, end: u64) {
        while first + 1 < end
            && let Some(sent) = self.segments.at_mut(first)
        {
            sent.sacked_behind = u16::try_from(end - first - 1).unwrap_or(u16::MAX);
            first += 1 + u64::from(sent.sacked_behind);
        }
    }

    /// Position of the first segment that does not begin before `seq`.
    #[inline]
    fn first_from(&self, seq: u64) -> u64 {
        // Mostly it is the one above all that is sacked.
        if seq == self.sacked_end && self.sacked_top > self.segments.first() {
            self.sacked_top
        } else {
            self.segments.first_from(seq)
        }
    }

    /// Declares the segment at `position` lost, or its retransmission if one is in flight. Returns it if that is news.
    pub(super) fn mark_lost(&mut self, position: u64) -> Option<Sent> {
        let sent = self.segments.at_mut(position)?;
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
        self.mark_lost(self.segments.first())
    }

    /// Declares everything that is not sacked lost (a time-out).
    pub(super) fn mark_all_lost(&mut self, mut each: impl FnMut(&Sent)) {
        for position in self.segments.first()..self.segments.end() {
            if let Some(sent) = self.mark_lost(position) {
                each(&sent);
            }
        }
        self.mark_cursor = self.segments.end();
        self.retransmissions.clear();
    }

    /// RFC 6675 `IsLost` for all at once: a segment is lost when `threshold` discontiguous runs, or more than
    /// `threshold - 1` full segments, are sacked above it.
    pub(super) fn mark_by_sack(&mut self, threshold: u32, mss: u64, mut each: impl FnMut(&Sent)) {
        let limit = u64::from(threshold.saturating_sub(1)) * mss;
        let (mut bytes, mut runs, mut in_run) = (0u64, 0u32, false);
        let mut position = self.sacked_top;
        while position > self.mark_cursor.max(self.segments.first()) {
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
        for p in self.mark_cursor.max(self.segments.first())..position {
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
        self.mark_cursor = self.mark_cursor.max(self.segments.first());
        while let Some(sent) = self.at(self.mark_cursor) {
            if sent.flags & (Sent::SACKED | Sent::LOST | Sent::RETRANS) == 0 {
                if !rack.sent_before(sent) {
                    break;
                }
                let due = rack.lost_at(sent);
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
            if let Some(sent) = self.at(position)
                && sent.flags & (Sent::SACKED | Sent::RETRANS) == Sent::RETRANS
                && sent.sent_at == at
            {
                if !rack.sent_before(sent) {
                    break;
                }
                let due = rack.lost_at(sent);
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
        self.retransmit_cursor = self.retransmit_cursor.max(self.segments.first());
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
        let from = self.mark_cursor.max(self.segments.first());
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
        let sent = self.segments.at_mut(position)?;
        if sent.flags & (Sent::LOST | Sent::RETRANS) == Sent::LOST {
            self.lost_waiting -= 1;
        }
        if sent.flags & Sent::RETRANS == 0 {
            self.retrans += u64::from(sent.len);
        }
        sent.flags |= Sent::RETRANS;
        sent.send_again(now, state);
        let sent = *sent;
        if in_time_order {
            self.retransmissions.push_back((position, now));
        }
        Some(sent)
    }

    /// The last segment is sent again as a tail loss probe. It is not lost, so it is in flight already. Returns it, marked.
    pub(super) fn probe_last(&mut self, now: Timestamp, state: super::rate::SendState) -> Option<Sent> {
        let sent = self.segments.at_mut(self.segments.end().wrapping_sub(1))?;
        sent.send_again(now, state);
        Some(*sent)
    }

    /// Cuts every segment with more than `limit` bytes of payload that is not sacked into pieces, and declares those lost: as they were,
    /// they did not get through. Returns whether there was one.
    pub(super) fn split(&mut self, limit: u32) -> bool {
        let too_large = |sent: &Sent| sent.payload() > limit && sent.flags & Sent::SACKED == 0;
        if limit == 0 || !self.segments.iter().any(|(_, sent)| too_large(sent)) {
            return false;
        }
        let first = self.segments.first();
        let whole = std::mem::replace(&mut self.segments, Ring::starting_at(first));
        for (_, &sent) in whole.iter() {
            if !too_large(&sent) {
                self.segments.push(sent);
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
                self.segments.push(Sent { seq, len, flags, ..sent });
                self.lost_waiting += 1;
                seq += u64::from(len);
            }
        }
        // Positions have moved: everything that is found by them is found anew.
        self.retransmit_cursor = first;
        self.mark_cursor = first;
        let sacked = self.segments.iter().rfind(|(_, sent)| sent.flags & Sent::SACKED != 0);
        self.sacked_top = sacked.map_or(0, |(position, _)| position + 1);
        let under_way = |(position, sent): (u64, &Sent)| {
            (sent.flags & Sent::RETRANS != 0).then_some((position, sent.sent_at))
        };
        let mut again: Vec<_> = self.segments.iter().filter_map(under_way).collect();
        again.sort_by_key(|&(position, at)| (at, position));
        self.retransmissions = again.into();
        true
    }

    /// Forgets all loss marks: the losses were none.
    pub(super) fn clear_lost(&mut self) {
        if self.lost > 0 {
            self.segments.for_each_mut(|sent| sent.flags &= !Sent::LOST);
        }
        self.lost = 0;
        self.lost_waiting = 0;
        self.mark_cursor = self.segments.first();
    }

    /// Forgets all selective acknowledgements (RFC 2018 section 8: the receiver may renege).
    pub(super) fn clear_sacked(&mut self) {
        self.segments.for_each_mut(|sent| {
            sent.flags &= !Sent::SACKED;
            sent.sacked_behind = 0;
        });
        self.sacked = 0;
        self.sacked_segments = 0;
        (self.sacked_top, self.sacked_end) = (0, 0);
        self.known_blocks = [(0, 0); 4];
        self.mark_cursor = self.segments.first();
    }
}

#[cfg(test)]
#[path = "scoreboard_tests.rs"]
mod tests;
