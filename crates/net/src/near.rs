//! The near future: departures, arrivals and timers within the next few thousand events, in a wheel of buckets.
//!
//! Most events are arrivals at the far end of a link, and most of those are close. A heap pays for each with a walk over its
//! whole depth; here a shift finds the bucket, which holds about one event. Events too far away for the wheel, and those in
//! crowded buckets, are left to the heap, so that neither long delays nor simultaneous events cost more than there.
//!
//! The width of the buckets follows the events: it is about half their mean distance, and up to four times that if many would be too far
//! away otherwise. It depends only on the run itself.

use warpline_core::Timestamp;

use crate::item::Item;

/// Words of bits that say which words of bits are not zero.
const GROUPS: usize = 4;
/// Words of bits that say which buckets are not empty.
const WORDS: usize = GROUPS * 64;
/// Buckets of the wheel.
const BUCKETS: usize = WORDS * 64;
/// How far to search for an event's place in a bucket before leaving it to the heap.
const WALK: usize = 8;
/// Events between two checks of the width.
const PERIOD: u32 = 4096;
/// Width at the start: 2^14 ns, some 16 us.
const SHIFT: u32 = 14;
/// Logarithm of how many times wider than half the mean distance of events the buckets may become.
const WIDER: u32 = 2;
/// The wheel becomes wider when more events than this were too far away since the last check.
const FAR: u32 = PERIOD / 32;

/// An event in its bucket's list.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// [`Timestamp::NEVER`] while the item is not in the wheel.
    time: Timestamp,
    next: Item,
}

impl Node {
    const FREE: Node = Node { time: Timestamp::NEVER, next: Item::NONE };
}

/// The earliest event of the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct First {
    pub(crate) time: Timestamp,
    pub(crate) item: Item,
    next: Item,
    place: usize,
}

/// The wheel. An event is a time and an item; each item has one event at most.
#[derive(Debug)]
pub(crate) struct Near {
    /// Logarithm of the width of a bucket in nanoseconds.
    shift: u32,
    /// By how much that is more than the mean distance of events asks for.
    wider: u32,
    /// Number of the current bucket: a time's bucket number is its quotient by the width.
    present: u64,
    /// One bit for each word that is not zero.
    summary: [u64; GROUPS],
    /// One bit for each bucket that is not empty.
    words: Box<[u64; WORDS]>,
    /// The first event of each bucket.
    heads: Box<[Item; BUCKETS]>,
    /// By class and number.
    nodes: [Vec<Node>; 4],
    /// Events handled since the last check of the width, and when that was.
    handled: u32,
    since: Timestamp,
    /// Events since then that were too far away.
    far: u32,
}

impl Default for Near {
    fn default() -> Self {
        Near {
            shift: SHIFT,
            wider: 0,
            present: 0,
            summary: [0; GROUPS],
            words: Box::new([0; WORDS]),
            heads: Box::new([Item::NONE; BUCKETS]),
            nodes: Default::default(),
            handled: 0,
            since: Timestamp::ZERO,
            far: 0,
        }
    }
}

impl Near {
    /// Adds space for an item and those with smaller numbers.
    pub(crate) fn add(&mut self, item: Item) {
        let nodes = &mut self.nodes[item.class() as usize];
        if nodes.len() <= item.index() as usize {
            nodes.resize(item.index() as usize + 1, Node::FREE);
        }
    }

    #[inline]
    fn node(&mut self, item: Item) -> &mut Node {
        &mut self.nodes[item.class() as usize][item.index() as usize]
    }

    /// Whether an item has an event in the wheel.
    #[inline]
    pub(crate) fn has(&self, item: Item) -> bool {
        self.nodes[item.class() as usize][item.index() as usize].time.is_set()
    }

    /// Inserts an event for an item without one. Returns false, and does nothing, if the event does not belong in the wheel.
    #[inline]
    pub(crate) fn insert(&mut self, time: Timestamp, item: Item) -> bool {
        let number = time.as_nanos() >> self.shift;
        if number.wrapping_sub(self.present) >= BUCKETS as u64 {
            self.far += 1;
            return false;
        }
        let place = number as usize % BUCKETS;
        let next = self.heads[place];
        if next != Item::NONE {
            return self.insert_behind(place, time, item);
        }
        *self.node(item) = Node { time, next };
        self.heads[place] = item;
        self.words[place / 64] |= 1 << (place % 64);
        self.summary[place / 64 / 64] |= 1 << (place / 64 % 64);
        true
    }

    /// Inserts an event into a non-empty bucket, in order.
    #[inline(never)]
    fn insert_behind(&mut self, place: usize, time: Timestamp, item: Item) -> bool {
        let (mut before, mut next) = (Item::NONE, self.heads[place]);
        for _ in 0..WALK {
            let later = next == Item::NONE || (self.node(next).time, next) > (time, item);
            if later {
                *self.node(item) = Node { time, next };
                match before {
                    Item::NONE => self.heads[place] = item,
                    before => self.node(before).next = item,
                }
                return true;
            }
            (before, next) = (next, self.node(next).next);
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
        self.first_place_behind(word)
    }

    /// The bucket of the earliest event that is not in the rest of `word`.
    #[inline(never)]
    fn first_place_behind(&self, word: usize) -> Option<usize> {
        // The words after this one come first, then those from the wheel's beginning on, this one last.
        let found = |group: usize, bits: u64| {
            (bits != 0).then(|| {
                let word = group * 64 + bits.trailing_zeros() as usize;
                word * 64 + self.words[word].trailing_zeros() as usize
            })
        };
        let (group, bit) = (word / 64, word % 64);
        let after = found(group, self.summary[group] & (u64::MAX - 1) << bit);
        let others = (1..=GROUPS).map(|step| (group + step) % GROUPS);
        after.or_else(|| others.into_iter().find_map(|group| found(group, self.summary[group])))
    }

    /// The earliest event, lowest item first among simultaneous ones.
    #[inline]
    pub(crate) fn first(&self) -> Option<First> {
        let place = self.first_place()? % BUCKETS;
        let item = self.heads[place];
        let Node { time, next } = self.nodes[item.class() as usize][item.index() as usize];
        Some(First { time, item, next, place })
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
        let First { time, item, next, place } = first;
        let place = place % BUCKETS;
        debug_assert_eq!(self.heads[place], item);
        self.advance(time);
        self.heads[place] = next;
        self.node(item).time = Timestamp::NEVER;
        if next == Item::NONE {
            let word = &mut self.words[place / 64];
            *word &= !(1 << (place % 64));
            if *word == 0 {
                self.summary[place / 64 / 64] &= !(1 << (place / 64 % 64));
            }
        }
    }

    /// Number of events in it.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        let node = |item: Item| self.nodes[item.class() as usize][item.index() as usize];
        let next = |&item: &Item| Some(node(item).next).filter(|&next| next != Item::NONE);
        let lists = self.heads.iter().filter(|&&head| head != Item::NONE);
        lists.map(|&head| std::iter::successors(Some(head), next).count()).sum()
    }

    /// Whether it is time to check the width.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.handled >= PERIOD
    }

    /// Fits the width to the mean distance of recent events, and to how far away new ones were. Events that no longer fit into the wheel are
    /// passed to `leave`.
    #[inline(never)]
    pub(crate) fn adapt(&mut self, now: Timestamp, mut leave: impl FnMut(Timestamp, Item)) {
        let gap = now.saturating_since(self.since).as_nanos() / u64::from(self.handled.max(1));
        let fitting = (gap / 2).max(1).ilog2();
        let shift = self.shift;
        // A factor of two either way does not matter.
        if fitting.abs_diff(self.shift - self.wider) > 1 {
            (self.shift, self.wider) = (fitting, 0);
        } else if self.far > FAR && self.wider < WIDER {
            (self.shift, self.wider) = (self.shift + 1, self.wider + 1);
        }
        (self.handled, self.since, self.far) = (0, now, 0);
        let shift = std::mem::replace(&mut self.shift, shift);
        if shift == self.shift {
            return;
        }
        let mut events = Vec::new();
        while let Some(first) = self.first() {
            self.take(first);
            events.push((first.time, first.item));
        }
        self.shift = shift;
        self.advance(now);
        for (time, item) in events {
            if !self.insert(time, item) {
                leave(time, item);
            }
        }
        (self.handled, self.far) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::item::Class;

    proptest! {
        /// Accepted events come out in order of time and index, whatever the distances; refused ones are left alone.
        #[test]
        fn events_come_out_in_order(
            scale in 0u32..40,
            ops in prop::collection::vec((any::<bool>(), 0u64..1 << 14, 0u32..40), 1..600),
        ) {
            let mut near = Near::default();
            near.add(Item::new(Class::Arrival, 19));
            near.add(Item::new(Class::Timer, 19));
            let (mut model, mut now) = (BTreeSet::new(), Timestamp::ZERO);
            for (take, distance, number) in ops {
                let item = if number < 20 { Item::new(Class::Arrival, number) } else { Item::new(Class::Timer, number - 20) };
                let first = near.first();
                prop_assert_eq!(first.map(|first| (first.time, first.item)), model.first().copied());
                if take {
                    model.pop_first();
                    if let Some(first) = first {
                        near.take(first);
                        now = first.time;
                    }
                } else if model.iter().all(|&(_, known)| known != item) {
                    let time = Timestamp::from_nanos(now.as_nanos() + (distance << scale >> 10));
                    if near.insert(time, item) {
                        model.insert((time, item));
                    } else {
                        let far = time.as_nanos() >> near.shift >= near.present + BUCKETS as u64;
                        prop_assert!(far || model.len() >= WALK);
                    }
                }
                if distance % 37 == 0 {
                    near.adapt(now, |time, item| assert!(model.remove(&(time, item))));
                }
            }
        }
    }

    #[test]
    fn a_crowd_and_the_far_future_are_left_to_others() {
        let mut near = Near::default();
        near.add(Item::new(Class::Arrival, 100));
        let at = Timestamp::from_nanos(7_000);
        let taken = (0..100).filter(|&link| near.insert(at, Item::new(Class::Arrival, link))).count();
        assert_eq!(taken, WALK);
        assert!(!near.insert(Timestamp::from_secs(60), Item::new(Class::Arrival, 100)));
        assert_eq!(
            near.first().map(|first| (first.time, first.item)),
            Some((at, Item::new(Class::Arrival, 0)))
        );
    }

    #[test]
    fn the_width_follows_the_events() {
        let mut near = Near::default();
        near.add(Item::new(Class::Arrival, 0));
        let mut now = Timestamp::ZERO;
        for step in [100u64, 10_000_000] {
            for _ in 0..3 * PERIOD {
                now = Timestamp::from_nanos(now.as_nanos() + step);
                // Events too far away for the previous width happen elsewhere.
                match near.insert(now, Item::new(Class::Arrival, 0)).then(|| near.first()).flatten() {
                    Some(first) => near.take(first),
                    None => near.advance(now),
                }
                if near.is_due() {
                    near.adapt(now, |_, _| panic!("there is nothing else"));
                }
            }
            let width = 1u64 << near.shift;
            assert!(width <= step && step < 16 * width, "{step}: {width}");
        }
    }

    #[test]
    fn timers_come_after_arrivals_and_are_gone_when_taken() {
        let mut near = Near::default();
        near.add(Item::new(Class::Arrival, 1));
        near.add(Item::new(Class::Timer, 0));
        let at = Timestamp::from_nanos(5_000);
        assert!(
            near.insert(at, Item::new(Class::Timer, 0))
                && near.insert(at, Item::new(Class::Arrival, 1))
                && near.has(Item::new(Class::Timer, 0))
        );
        for expected in [Item::new(Class::Arrival, 1), Item::new(Class::Timer, 0)] {
            let first = near.first().unwrap();
            assert_eq!((first.time, first.item), (at, expected));
            near.take(first);
        }
        assert!(near.first().is_none() && !near.has(Item::new(Class::Timer, 0)));
    }

    #[test]
    fn the_wheel_reaches_further_if_many_events_are_far_away() {
        let mut near = Near::default();
        near.add(Item::new(Class::Arrival, 0));
        let mut now = Timestamp::ZERO;
        let mut refused = Vec::new();
        for _ in 0..6 {
            let mut far = 0;
            for n in 0..PERIOD {
                now = Timestamp::from_nanos(now.as_nanos() + (2 << SHIFT));
                near.advance(now);
                // One in eight is 20,000 buckets away.
                if n % 8 == 0 {
                    let time = Timestamp::from_nanos(now.as_nanos() + (20_000 << SHIFT));
                    match near.insert(time, Item::new(Class::Arrival, 0)) {
                        true => {
                            let first = near.first().unwrap();
                            near.take(first);
                            near.advance(now);
                        }
                        false => far += 1,
                    }
                }
            }
            refused.push(far);
            near.adapt(now, |_, _| panic!("there is nothing in it"));
        }
        assert_eq!(refused, [PERIOD / 8, 0, 0, 0, 0, 0]);
    }
}
