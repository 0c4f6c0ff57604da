//! The near future: arrivals within the next few thousand events, in a wheel of buckets.
//!
//! Most events are arrivals at the far end of a link, and most of those are close. A heap pays for each with a walk over its
//! whole depth; here a shift finds the bucket, which holds about one event. Events too far away for the wheel, and those in
//! crowded buckets, are left to the heap, so that neither long delays nor simultaneous events cost more than there.
//!
//! The width of the buckets follows the events: it depends only on the run itself.

use warpline_core::Timestamp;

/// Buckets of the wheel: a word of bits for each bit of a word.
const BUCKETS: usize = 64 * 64;
/// Marks the end of a list.
const NONE: u32 = u32::MAX;
/// How far to search for an event's place in a bucket before leaving it to the heap.
const WALK: usize = 8;
/// Events between two checks of the width.
const PERIOD: u32 = 4096;
/// Width at the start: 2^14 ns, some 16 us.
const SHIFT: u32 = 14;

/// An event in its bucket's list.
#[derive(Clone, Copy, Debug)]
struct Node {
    time: Timestamp,
    next: u32,
}

/// The earliest event of the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) time: Timestamp,
    pub(crate) index: u32,
    next: u32,
    place: usize,
}

/// The wheel. An event is a time and an index; each index has one event at most.
#[derive(Debug)]
pub(crate) struct Near {
    /// Logarithm of the width of a bucket in nanoseconds.
    shift: u32,
    /// Number of the current bucket: a time's bucket number is its quotient by the width.
    present: u64,
    /// One bit for each word that is not zero.
    summary: u64,
    /// One bit for each bucket that is not empty.
    words: [u64; 64],
    /// The first event of each bucket.
    heads: Box<[u32; BUCKETS]>,
    /// By index.
    nodes: Vec<Node>,
    /// Events handled since the last check of the width, and when that was.
    handled: u32,
    since: Timestamp,
}

impl Default for Near {
    fn default() -> Self {
        Near {
            shift: SHIFT,
            present: 0,
            summary: 0,
            words: [0; 64],
            heads: Box::new([NONE; BUCKETS]),
            nodes: Vec::new(),
            handled: 0,
            since: Timestamp::ZERO,
        }
    }
}

impl Near {
    /// Adds space for an index.
    pub(crate) fn add_index(&mut self, index: u32) {
        let node = Node { time: Timestamp::NEVER, next: NONE };
        if self.nodes.len() <= index as usize {
            self.nodes.resize(index as usize + 1, node);
        }
    }

    /// Inserts an event for an index without one. Returns false, and does nothing, if the event does not belong in the wheel.
    #[inline]
    pub(crate) fn insert(&mut self, time: Timestamp, index: u32) -> bool {
        let number = time.as_nanos() >> self.shift;
        if number.wrapping_sub(self.present) >= BUCKETS as u64 {
            return false;
        }
        let place = number as usize % BUCKETS;
        let next = self.heads[place];
        if next != NONE {
            return self.insert_behind(place, time, index);
        }
        self.nodes[index as usize] = Node { time, next };
        self.heads[place] = index;
        self.words[place / 64] |= 1 << (place % 64);
        self.summary |= 1 << (place / 64);
        true
    }

    /// Inserts an event into a non-empty bucket, in order.
    #[inline(never)]
    fn insert_behind(&mut self, place: usize, time: Timestamp, index: u32) -> bool {
        let (mut before, mut next) = (NONE, self.heads[place]);
        for _ in 0..WALK {
            let later = next == NONE || (self.nodes[next as usize].time, next) > (time, index);
            if later {
                self.nodes[index as usize] = Node { time, next };
                match before {
                    NONE => self.heads[place] = index,
                    before => self.nodes[before as usize].next = index,
                }
                return true;
            }
            (before, next) = (next, self.nodes[next as usize].next);
        }
        false
    }

    /// The bucket of the earliest event.
    #[inline]
    fn first_place(&self) -> Option<usize> {
        let from = self.present as usize % BUCKETS;
        let (word, bit) = (from / 64, from % 64);
        let ahead = self.words[word] & (u64::MAX << bit);
        if ahead != 0 {
            return Some(word * 64 + ahead.trailing_zeros() as usize);
        }
        // The words after this one come first, then from the wheel's beginning on, this one last.
        let after = self.summary & (u64::MAX - 1) << word;
        let summary = if after != 0 { after } else { self.summary };
        if summary == 0 {
            return None;
        }
        let word = summary.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The earliest event, lowest index first among simultaneous ones.
    #[inline]
    pub(crate) fn first(&self) -> Option<First> {
        let place = self.first_place()? % BUCKETS;
        let index = self.heads[place];
        let Node { time, next } = self.nodes[index as usize];
        Some(First { time, index, next, place })
    }

    /// An event happens at `now`, here or elsewhere; no event is earlier.
    #[inline]
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.present = now.as_nanos() >> self.shift;
        self.handled += 1;
    }

    /// Removes the earliest event, which happens now.
    #[inline]
    pub(crate) fn take(&mut self, first: First) {
        let First { time, index, next, place } = first;
        let place = place % BUCKETS;
        debug_assert_eq!(self.heads[place], index);
        self.advance(time);
        self.heads[place] = next;
        if next == NONE {
            let word = &mut self.words[place / 64];
            *word &= !(1 << (place % 64));
            if *word == 0 {
                self.summary &= !(1 << (place / 64));
            }
        }
    }

    /// Number of events in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let next = |&index: &u32| Some(self.nodes[index as usize].next).filter(|&next| next != NONE);
        let lists = self.heads.iter().filter(|&&head| head != NONE);
        lists.map(|&head| std::iter::successors(Some(head), next).count()).sum()
    }

    /// Whether it is time to check the width.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.handled >= PERIOD
    }

    /// Fits the width to the mean distance of recent events. Events that no longer fit into the wheel are passed to
    /// `leave`.
    #[inline(never)]
    pub(crate) fn adapt(&mut self, now: Timestamp, mut leave: impl FnMut(Timestamp, u32)) {
        let gap = now.saturating_since(self.since).as_nanos() / u64::from(self.handled.max(1));
        (self.handled, self.since) = (0, now);
        let shift = gap.max(1).ilog2();
        // A factor of two either way does not matter.
        if shift.abs_diff(self.shift) < 2 {
            return;
        }
        let mut events = Vec::new();
        while let Some(first) = self.first() {
            self.take(first);
            events.push((first.time, first.index));
        }
        self.shift = shift;
        self.advance(now);
        self.handled = 0;
        for (time, index) in events {
            if !self.insert(time, index) {
                leave(time, index);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Accepted events come out in order of time and index, whatever the distances; refused ones are left alone.
        #[test]
        fn events_come_out_in_order(
            scale in 0u32..40,
            ops in prop::collection::vec((any::<bool>(), 0u64..1 << 14, 0u32..40), 1..600),
        ) {
            let mut near = Near::default();
            near.add_index(39);
            let (mut model, mut now) = (BTreeSet::new(), Timestamp::ZERO);
            for (take, distance, index) in ops {
                let first = near.first();
                prop_assert_eq!(first.map(|first| (first.time, first.index)), model.first().copied());
                if take {
                    model.pop_first();
                    if let Some(first) = first {
                        near.take(first);
                        now = first.time;
                    }
                } else if model.iter().all(|&(_, known)| known != index) {
                    let time = Timestamp::from_nanos(now.as_nanos() + (distance << scale >> 10));
                    if near.insert(time, index) {
                        model.insert((time, index));
                    } else {
                        let far = time.as_nanos() >> near.shift >= near.present + BUCKETS as u64;
                        prop_assert!(far || model.len() >= WALK);
                    }
                }
                if distance % 37 == 0 {
                    near.adapt(now, |time, index| assert!(model.remove(&(time, index))));
                }
            }
        }
    }

    #[test]
    fn a_crowd_and_the_far_future_are_left_to_others() {
        let mut near = Near::default();
        near.add_index(100);
        let at = Timestamp::from_nanos(7_000);
        let taken = (0..100).filter(|&index| near.insert(at, index)).count();
        assert_eq!(taken, WALK);
        assert!(!near.insert(Timestamp::from_secs(60), 100));
        assert_eq!(near.first().map(|first| (first.time, first.index)), Some((at, 0)));
    }

    #[test]
    fn the_width_follows_the_events() {
        let mut near = Near::default();
        near.add_index(0);
        let mut now = Timestamp::ZERO;
        for step in [100u64, 10_000_000] {
            for _ in 0..3 * PERIOD {
                now = Timestamp::from_nanos(now.as_nanos() + step);
                // Events too far away for the previous width happen elsewhere.
                match near.insert(now, 0).then(|| near.first()).flatten() {
                    Some(first) => near.take(first),
                    None => near.advance(now),
                }
                if near.is_due() {
                    near.adapt(now, |_, _| panic!("there is nothing else"));
                }
            }
            let width = 1u64 << near.shift;
            assert!(width <= 2 * step && step < 8 * width, "{step}: {width}");
        }
    }
}
