//! A first-in first-out ring whose size is a power of two: what a link touches for every packet.
//!
//! `VecDeque` does the same and more; for an entry of a few words its bookkeeping costs as much as the entry.

/// A queue of small values.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// A power of two of them, or none.
    slots: Box<[T]>,
    /// Number of the first entry. Counts on beyond the size: the slot is its remainder.
    head: u32,
    /// Number after the last entry.
    tail: u32,
}

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Ring { slots: Box::default(), head: 0, tail: 0 }
    }
}

impl<T: Copy + Default> Ring<T> {
    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Number of entries.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.tail.wrapping_sub(self.head) as usize
    }

    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Whether the next entry makes it grow.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.slots.len()
    }

    /// Adds an entry.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) {
        if self.is_full() {
            self.grow();
        }
        self.push_within(entry);
    }

    /// Adds an entry at the back; there must be room.
    #[inline]
    pub(crate) fn push_within(&mut self, entry: T) {
        debug_assert!(!self.is_full());
        let place = self.place(self.tail);
        self.slots[place] = entry;
        self.tail = self.tail.wrapping_add(1);
    }

    /// Doubles its size.
    #[cold]
    #[inline(never)]
    pub(crate) fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(4);
        let mut slots: Vec<T> = Vec::with_capacity(size);
        slots.extend(self.iter());
        slots.resize(size, T::default());
        (self.tail, self.head) = (self.len() as u32, 0);
        self.slots = slots.into_boxed_slice();
    }

    /// The oldest entry.
    #[inline]
    pub(crate) fn front(&self) -> Option<T> {
        (!self.is_empty()).then(|| self.slots[self.place(self.head)])
    }

    /// The newest entry.
    #[inline]
    pub(crate) fn back(&self) -> Option<T> {
        (!self.is_empty()).then(|| self.slots[self.place(self.tail.wrapping_sub(1))])
    }

    /// The entry with this number, from 0 for the oldest.
    #[inline]
    pub(crate) fn at(&self, number: usize) -> Option<T> {
        (number < self.len()).then(|| self.slots[self.place(self.head.wrapping_add(number as u32))])
    }

    /// Takes the oldest entry out.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<T> {
        let front = self.front()?;
        self.head = self.head.wrapping_add(1);
        Some(front)
    }

    /// Takes out the oldest entries for as long as `take` accepts them.
    #[inline]
    pub(crate) fn pop_while(&mut self, mut take: impl FnMut(&T) -> bool) {
        let mask = self.slots.len().wrapping_sub(1);
        let mut head = self.head;
        while head != self.tail && take(&self.slots[head as usize & mask]) {
            head = head.wrapping_add(1);
        }
        self.head = head;
    }

    /// The entries, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = T> + '_ {
        (0..self.len() as u32).map(|n| self.slots[self.place(self.head.wrapping_add(n))])
    }

    /// How many entries it holds without growing.
    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It does what a `VecDeque` does, also when its counts wrap around.
        #[test]
        fn behaves_like_a_deque(start in prop::sample::select(vec![0u32, u32::MAX - 5]), pushes in prop::collection::vec(any::<bool>(), 0..200)) {
            let mut ring = Ring { head: start, tail: start, ..Ring::default() };
            let mut model = VecDeque::new();
            for (n, push) in pushes.into_iter().enumerate() {
                if n % 16 == 15 {
                    ring.pop_while(|&entry| entry < n / 2);
                    while model.front().is_some_and(|&entry| entry < n / 2) {
                        model.pop_front();
                    }
                }
                if push {
                    ring.push(n);
                    model.push_back(n);
                } else {
                    prop_assert_eq!(ring.pop(), model.pop_front());
                }
                prop_assert_eq!((ring.len(), ring.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!((ring.front(), ring.back()), (model.front().copied(), model.back().copied()));
                prop_assert_eq!(ring.at(n / 3), model.get(n / 3).copied());
                prop_assert!(ring.iter().eq(model.iter().copied()));
                prop_assert!(ring.capacity() <= 2 * model.len().max(200) && ring.capacity() >= ring.len());
            }
        }
    }
}
