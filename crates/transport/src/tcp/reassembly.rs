//! Reassembly: what arrived out of order, and which of it was reported last.

/// Out-of-order ranges that are kept at most. Linux bounds their memory and not their number (`tcp_prune_ofo_queue`): these are as many
/// as fit into its largest default receive buffer (`tcp_rmem`, 6 MiB) if each is the smallest segment, which it charges with 768 bytes.
pub(super) const MAX_RANGES: usize = (6 << 20) / 768;

/// Bytes that arrived before, and the first stretch of them: as in Linux (tcp_dsack_extend), a D-SACK grows as long as it is one stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlap {
    pub bytes: u64,
    pub first: Option<(u64, u64)>,
}

impl Overlap {
    fn add(&mut self, start: u64, end: u64) {
        if start < end {
            self.bytes += end - start;
            match &mut self.first {
                Some(first) if first.1 == start => first.1 = end,
                Some(_) => {}
                None => self.first = Some((start, end)),
            }
        }
    }
}

/// The ranges beyond the first gap.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Sorted and apart.
    ranges: Vec<(u64, u64)>,
    /// The ranges that changed last, most recent first (RFC 2018 section 4).
    recent: [(u64, u64); 4],
    recent_len: u8,
}

impl Ahead {
    pub(super) fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }
    /// Those that changed last and are still ahead, most recent first.
    pub(super) fn recent(&self) -> &[(u64, u64)] {
        &self.recent[..usize::from(self.recent_len)]
    }

    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.recent_len = 0;
    }

    /// Bytes up to `end` have arrived in order: what they reach joins them. Returns where they end now, at `last` at most, and what had
    /// arrived before.
    pub(super) fn join(&mut self, end: u64, last: u64) -> (u64, Overlap) {
        let (mut nxt, mut overlap, mut joined) = (end, Overlap::default(), 0);
        for &(range_start, range_end) in &self.ranges {
            if range_start > nxt {
                break;
            }
            overlap.add(range_start, end.min(range_end));
            nxt = nxt.max(range_end).min(last);
            joined += 1;
        }
        self.ranges.drain(..joined);
        self.keep_recent(|(_, end)| end > nxt);
        (nxt, overlap)
    }

    /// Adds a range. Returns how much of it had arrived before.
    pub(super) fn insert(&mut self, start: u64, end: u64) -> Overlap {
        // Mostly it extends the range that changed last, and nothing is beyond that.
        if let Some(last) = self.ranges.last_mut()
            && last.1 == start
            && self.recent_len > 0
            && *last == self.recent[0]
        {
            last.1 = end;
            self.recent[0].1 = end;
            return Overlap::default();
        }
        self.insert_anywhere(start, end)
    }

    #[inline(never)]
    fn insert_anywhere(&mut self, start: u64, end: u64) -> Overlap {
        let first = self.ranges.partition_point(|&(_, e)| e < start);
        let last = first + self.ranges[first..].partition_point(|&(s, _)| s <= end);
        let mut merged = (start, end);
        let mut overlap = Overlap::default();
        for &(s, e) in &self.ranges[first..last] {
            overlap.add(s.max(start), e.min(end));
            merged = (merged.0.min(s), merged.1.max(e));
        }
        if last > first {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        } else {
            if self.ranges.len() >= MAX_RANGES && !self.make_room(first) {
                return Overlap::default();
            }
            self.ranges.insert(first, merged);
        }
        // It becomes the first block to report, and replaces those that it covers.
        let mut kept = [merged; 4];
        let mut n = 1;
        for &block in self.recent() {
            let swallowed = block.0 >= merged.0 && block.1 <= merged.1;
            if !swallowed && n < 4 {
                kept[n] = block;
                n += 1;
            }
        }
        self.recent = kept;
        self.recent_len = n as u8;
        overlap
    }

    /// Makes room for a range at index `place`: forgets the eighth of the ranges that is furthest ahead, but none
    /// before `place`. The sender keeps what was only selectively acknowledged (RFC 2018 section 8) and sends it
    /// again. Returns whether there is room now. There is none for a range beyond all others: it would be the first
    /// to go.
    #[cold]
    fn make_room(&mut self, place: usize) -> bool {
        let kept = place.max(MAX_RANGES - MAX_RANGES / 8);
        let Some(&(from, _)) = self.ranges.get(kept) else { return false };
        self.ranges.truncate(kept);
        self.keep_recent(|(start, _)| start < from);
        true
    }

    fn keep_recent(&mut self, keep: impl Fn((u64, u64)) -> bool) {
        let mut n = 0;
        for i in 0..usize::from(self.recent_len) {
            if keep(self.recent[i]) {
                self.recent[n] = self.recent[i];
                n += 1;
            }
        }
        self.recent_len = n as u8;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The short way to extend a range against the way for every case.
        #[test]
        fn a_range_is_extended_as_if_inserted(
            pieces in prop::collection::vec((0u64..40, 1u64..6, prop::bool::weighted(0.7)), 1..120),
        ) {
            let (mut short, mut long) = (Ahead::default(), Ahead::default());
            let (mut nxt, mut end) = (0, 10);
            for (start, len, on) in pieces {
                // Mostly behind the last piece.
                let start = (if on { end } else { nxt + 1 + start }).max(nxt + 1);
                end = start + len;
                prop_assert_eq!(short.insert(start, end), long.insert_anywhere(start, end));
                if len == 5 && !on {
                    let to = nxt + 20;
                    let joined = short.join(to, u64::MAX);
                    prop_assert_eq!(joined, long.join(to, u64::MAX));
                    nxt = joined.0;
                }
                prop_assert_eq!(short.ranges(), long.ranges());
                prop_assert_eq!(short.recent(), long.recent());
            }
        }
    }
}
