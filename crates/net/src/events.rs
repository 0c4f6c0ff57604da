//! The event queue: a four-ary heap of 16-byte keys, ordered by (time, class, index).
//!
//! Every component has at most one meaningful event of a class pending, so that the key alone says what is to be done and
//! no sequence number is needed: the order is total and the same in every run. Sources of in-order events (a link's pipe)
//! keep only their head here, which is why the heap stays as small as the network, whatever is in flight.

use warpline_core::Timestamp;

/// What kind of event a key stands for, in the order in which events of one instant are handled.
///
/// Control first, so that a link that goes down at t drops what arrives at t. Departures precede arrivals, so that a packet
/// that leaves a queue at t makes room for one that arrives at t. Timers come last: what arrives at t is known to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Class {
    /// A link goes down or up.
    Control = 0,
    /// A link finished sending a packet.
    Departure = 1,
    /// The packet at the head of a link's pipe arrives.
    Arrival = 2,
    /// An endpoint's timer.
    Timer = 3,
}

const INDEX_BITS: u32 = 30;

/// Largest number of links or endpoints: what a key has room for.
pub(crate) const MAX_INDEX: usize = (1 << INDEX_BITS) - 1;

/// When, what and whose: compares as (time, class, index).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Key(u128);

impl Key {
    /// The key of an event.
    #[inline]
    pub(crate) fn new(time: Timestamp, class: Class, index: u32) -> Self {
        debug_assert!(index as usize <= MAX_INDEX);
        Key((u128::from(time.as_nanos()) << 64) | u128::from((class as u32) << INDEX_BITS | index))
    }
    /// When.
    #[inline]
    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_nanos((self.0 >> 64) as u64)
    }
    /// What.
    #[inline]
    pub(crate) fn class(self) -> Class {
        match (self.0 as u32) >> INDEX_BITS {
            0 => Class::Control,
            1 => Class::Departure,
            2 => Class::Arrival,
            _ => Class::Timer,
        }
    }
    /// Whose.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32 & MAX_INDEX as u32
    }
}

/// The pending events.
///
/// Handling an event nearly always makes another, so the handled one is not removed at once: it leaves a vacancy at the top
/// that the next insertion fills with a single walk down the heap.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: Vec<Key>,
    vacant: bool,
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

    /// The earliest event, if any.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<Key> {
        if self.vacant {
            self.vacant = false;
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sift_down(last);
            }
        }
        self.heap.first().copied()
    }

    /// Takes the earliest event out, which [`peek`](Self::peek) has just shown.
    #[inline]
    pub(crate) fn vacate_top(&mut self) {
        debug_assert!(!self.vacant && !self.heap.is_empty());
        self.vacant = true;
    }

    /// Puts another event in the place of the earliest one, which [`peek`](Self::peek) has just shown.
    #[inline]
    pub(crate) fn replace_top(&mut self, key: Key) {
        debug_assert!(!self.vacant && !self.heap.is_empty());
        self.sift_down(key);
    }

    /// Number of pending events.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant)
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
            // what a heap costs.
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
        /// Whatever is pushed, vacated and replaced, events come out as from a sorted list.
        #[test]
        fn behaves_like_a_sorted_list(ops in prop::collection::vec((0u64..50, 0u32..8, 0u8..4), 1..400)) {
            let mut queue = EventQueue::default();
            let mut model: Vec<Key> = Vec::new();
            for (time, index, op) in ops {
                let k = key(time, Class::Arrival, index);
                let top = queue.peek();
                prop_assert_eq!(top, model.first().copied());
                match op {
                    0 if top.is_some() => { queue.vacate_top(); model.remove(0); }
                    1 if top.is_some() => { queue.replace_top(k); model[0] = k; model.sort(); }
                    2 if top.is_some() => { queue.vacate_top(); queue.push(k); model[0] = k; model.sort(); }
                    _ => { queue.push(k); model.push(k); model.sort(); }
                }
                prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
