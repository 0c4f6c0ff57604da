//! The event queue: a four-ary heap of 16-byte keys, ordered by (time, class, index), and beside it a wheel for what is
//! near ([`Near`]).
//!
//! Every component has at most one meaningful event of a class pending, so the key alone identifies the event and
//! no sequence number is needed: the order is total and the same in every run. Sources of in-order events (a link's pipe)
//! keep only their head here, so the heap stays as small as the network, however much is in flight.

use warpline_core::Timestamp;

use crate::item::Item;
pub(crate) use crate::item::{Class, MAX_INDEX};
use crate::near::{First, Near};

/// Time, class and index of an event; compares in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(u128);

impl Key {
    /// The key of an event.
    #[inline]
    pub(crate) fn new(time: Timestamp, class: Class, index: u32) -> Self {
        Key::of(time, Item::new(class, index))
    }
    #[inline]
    fn of(time: Timestamp, item: Item) -> Self {
        Key((u128::from(time.as_nanos()) << 64) | u128::from(item.bits()))
    }
    /// Its class and index.
    #[inline]
    pub(crate) fn item(self) -> Item {
        Item::of(self.0 as u32)
    }
    /// The time.
    #[inline]
    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_nanos((self.0 >> 64) as u64)
    }
    /// The class.
    #[inline]
    pub(crate) fn class(self) -> Class {
        self.item().class()
    }
    /// The index of the link or timer.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.item().index()
    }
}

/// The pending events.
///
/// Handling an event nearly always creates another, so the handled one is not removed at once: it leaves a vacancy at the top
/// that the next insertion fills with a single walk down the heap.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Key>,
    vacant: bool,
    near: Near,
}

const ARITY: usize = 4;

impl EventQueue {
    /// Adds an event.
    #[inline]
    pub(crate) fn push(&mut self, key: Key) {
        if self.vacant {
            self.vacant = false;
            self.sift_down(key);
        } else {
            self.heap.push(key);
            self.sift_up(self.heap.len() - 1, key);
        }
    }

    /// Adds space for near events of an item and of those with smaller numbers.
    pub(crate) fn add(&mut self, class: Class, index: u32) {
        self.near.add(Item::new(class, index));
    }

    /// Adds the next arrival of a link that has none pending.
    #[inline]
    pub(crate) fn push_arrival(&mut self, time: Timestamp, index: u32) {
        if !self.near.insert(time, Item::new(Class::Arrival, index)) {
            self.push(Key::new(time, Class::Arrival, index));
        }
    }

    /// Adds an event of a class other than [`Class::Control`]. Others of the same class and index may be pending.
    #[inline]
    pub(crate) fn push_near(&mut self, time: Timestamp, class: Class, index: u32) {
        let item = Item::new(class, index);
        if self.near.has(item) || !self.near.insert(time, item) {
            self.push(Key::of(time, item));
        }
    }

    /// The earliest event if it is in the wheel, as nearly all are.
    #[inline(always)]
    pub(crate) fn first_near(&mut self) -> Option<First> {
        let far = self.peek_far().map_or(Timestamp::NEVER, Key::time);
        // `peek` knows the order of simultaneous ones.
        self.near.first().filter(|first| first.time < far)
    }

    /// Removes `first`, the earliest event, which [`first_near`](Self::first_near) has just returned.
    #[inline]
    pub(crate) fn take_near(&mut self, first: First) {
        self.near.take(first);
        if self.near.is_due() {
            self.adapt(first.time);
        }
    }

    /// The earliest event, if any.
    #[inline(never)]
    pub(crate) fn peek(&mut self) -> Option<Key> {
        let far = self.peek_far();
        let near = self.near.first().map(|first| Key::of(first.time, first.item));
        [near, far].into_iter().flatten().min()
    }

    #[inline]
    fn peek_far(&mut self) -> Option<Key> {
        if self.vacant {
            self.vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sift_down(last);
            }
        }
        self.heap.first().copied()
    }

    /// Removes `top`, the earliest event, which [`peek`](Self::peek) has just returned.
    pub(crate) fn take_top(&mut self, top: Key) {
        let first = self.near.first();
        match first.filter(|first| Key::of(first.time, first.item) == top) {
            Some(first) => self.near.take(first),
            None => {
                debug_assert!(!self.vacant && self.heap.first() == Some(&top));
                self.vacant = true;
                self.near.advance(top.time());
            }
        }
        if self.near.is_due() {
            self.adapt(top.time());
        }
    }

    #[cold]
    #[inline(never)]
    fn adapt(&mut self, now: Timestamp) {
        let mut left = Vec::new();
        self.near.adapt(now, |time, item| left.push(Key::of(time, item)));
        left.into_iter().for_each(|key| self.push(key));
    }

    /// Number of pending events.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant) + self.near.len()
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, key: Key) {
        let heap = &mut self.heap[..];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if heap[parent] <= key {
                break;
            }
            heap[at] = heap[parent];
            at = parent;
        }
        heap[at] = key;
    }

    /// Places `key` in the vacant root.
    #[inline]
    fn sift_down(&mut self, key: Key) {
        let heap = &mut self.heap[..];
        let len = heap.len();
        let mut at = 0;
        loop {
            let first = at * ARITY + 1;
            // Four children compare pairwise, which the compiler turns into conditional moves: mispredicted branches are
            // the main cost of a heap.
            let best = if first + ARITY <= len {
                let children = &heap[first..first + ARITY];
                let left = usize::from(children[1] < children[0]);
                let right = 2 + usize::from(children[3] < children[2]);
                first + if children[right] < children[left] { right } else { left }
            } else if first < len {
                let mut best = first;
                for child in first + 1..len {
                    if heap[child] < heap[best] {
                        best = child;
                    }
                }
                best
            } else {
                break;
            };
            if key <= heap[best] {
                break;
            }
            heap[at] = heap[best];
            at = best;
        }
        heap[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(nanos: u64, class: Class, index: u32) -> Key {
        Key::new(Timestamp::from_nanos(nanos), class, index)
    }

    #[test]
    fn keys_keep_their_parts_and_compare_by_time_class_index() {
        let k = key(u64::MAX - 1, Class::Timer, MAX_INDEX as u32);
        assert_eq!(
            (k.time().as_nanos(), k.class(), k.index()),
            (u64::MAX - 1, Class::Timer, MAX_INDEX as u32)
        );
        assert!(key(1, Class::Timer, 9) < key(2, Class::Control, 0));
        assert!(key(1, Class::Departure, 9) < key(1, Class::Arrival, 0));
        assert!(key(1, Class::Arrival, 0) < key(1, Class::Arrival, 1));
    }

    proptest! {
        /// Events come out as from a sorted list, whatever is pushed and taken.
        #[test]
        fn behaves_like_a_sorted_list(
            scale in 0u32..30,
            ops in prop::collection::vec((0u64..50, 0u32..8, any::<bool>(), any::<bool>()), 1..400),
        ) {
            let mut queue = EventQueue::default();
            for class in [Class::Departure, Class::Arrival, Class::Timer] {
                queue.add(class, 7);
            }
            let mut model: Vec<Key> = Vec::new();
            let mut now = 0;
            for (distance, index, take, arrival) in ops {
                let top = queue.peek();
                prop_assert_eq!(top, model.first().copied());
                if let Some(top) = top.filter(|_| take) {
                    queue.take_top(top);
                    model.remove(0);
                    now = top.time().as_nanos();
                }
                // Nothing happens in the past; a link has one arrival pending, all else may be there more than once.
                let time = now + (distance << scale);
                let pending = model.iter().any(|key| key.class() == Class::Arrival && key.index() == index);
                if !arrival && distance % 2 == 0 {
                    queue.push_near(Timestamp::from_nanos(time), Class::Departure, index);
                    model.push(key(time, Class::Departure, index));
                } else if !arrival {
                    queue.push_near(Timestamp::from_nanos(time), Class::Timer, index);
                    model.push(key(time, Class::Timer, index));
                } else if !pending {
                    queue.push_arrival(Timestamp::from_nanos(time), index);
                    model.push(key(time, Class::Arrival, index));
                }
                model.sort();
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
