//! A ring of segments by position. Positions count every segment ever sent, so they stay what they are when others are taken off, and the
//! place of one is a few of its low bits.

use super::sent::Sent;

/// Segments at consecutive positions.
#[derive(Debug, Default)]
pub(super) struct Ring {
    /// As many as a power of two, or none. A segment at position `p` is at `p` modulo their number; the others are of no meaning.
    slots: Box<[Sent]>,
    /// Position of the first segment, and one past the last.
    first: u64,
    end: u64,
}

/// Slots of the smallest ring that holds anything.
const SMALLEST: usize = 4;

impl Ring {
    /// An empty ring whose first segment will be at `first`.
    pub(super) fn starting_at(first: u64) -> Self {
        Ring { slots: Box::default(), first, end: first }
    }

    /// Position of the first segment.
    #[inline]
    pub(super) fn first(&self) -> u64 {
        self.first
    }
    /// One past the position of the last segment.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.end
    }
    #[inline]
    pub(super) fn len(&self) -> u64 {
        self.end - self.first
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.first == self.end
    }

    /// Where `position` lies, if it is in the ring.
    #[inline]
    fn place(&self, position: u64) -> Option<usize> {
        let held = position.wrapping_sub(self.first) < self.end - self.first;
        held.then(|| position as usize & (self.slots.len() - 1))
    }
    #[inline]
    pub(super) fn at(&self, position: u64) -> Option<&Sent> {
        self.slots.get(self.place(position)?)
    }
    #[inline]
    pub(super) fn at_mut(&mut self, position: u64) -> Option<&mut Sent> {
        let place = self.place(position)?;
        self.slots.get_mut(place)
    }
    #[inline]
    pub(super) fn front(&self) -> Option<&Sent> {
        self.at(self.first)
    }

    /// The segment gets position [`end`](Self::end).
    #[inline]
    pub(super) fn push(&mut self, sent: Sent) {
        if self.len() == self.slots.len() as u64 {
            self.grow();
        }
        let place = self.end as usize & (self.slots.len() - 1);
        self.slots[place] = sent;
        self.end += 1;
    }

    /// Takes off the first segments as long as `taken` says so. Returns the first and the last of them.
    #[inline]
    pub(super) fn take_while(&mut self, mut taken: impl FnMut(&Sent) -> bool) -> Option<(&Sent, &Sent)> {
        let mask = self.slots.len().wrapping_sub(1);
        let (mut position, mut ends) = (self.first, None);
        while position != self.end
            && let Some(sent) = self.slots.get(position as usize & mask)
            && taken(sent)
        {
            ends = Some((ends.map_or(sent, |(first, _)| first), sent));
            position += 1;
        }
        self.first = position;
        // They lie where they were until others are pushed.
        ends
    }

    /// Takes the first segment off.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.first += u64::from(!self.is_empty());
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let mut slots = vec![Sent::default(); (2 * self.slots.len()).max(SMALLEST)].into_boxed_slice();
        let mask = slots.len() - 1;
        for position in self.first..self.end {
            if let Some(sent) = self.at(position) {
                slots[position as usize & mask] = *sent;
            }
        }
        self.slots = slots;
    }

    /// All segments with their positions, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &Sent)> {
        (self.first..self.end).filter_map(|position| Some((position, self.at(position)?)))
    }

    /// Changes all segments.
    pub(super) fn for_each_mut(&mut self, mut change: impl FnMut(&mut Sent)) {
        for position in self.first..self.end {
            if let Some(sent) = self.at_mut(position) {
                change(sent);
            }
        }
    }

    /// Position of the first segment that does not begin before `seq`; segments lie in the order of their bytes.
    #[inline]
    pub(super) fn first_from(&self, seq: u64) -> u64 {
        let (mut low, mut high) = (self.first, self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle).is_some_and(|sent| sent.seq < seq) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the queue of the standard library.
        #[test]
        fn it_holds_what_was_pushed(steps in prop::collection::vec((0u8..3, 1u64..40), 1..200)) {
            let (mut ring, mut model) = (Ring::default(), VecDeque::<(u64, u64)>::new());
            let mut seq = 1;
            for (kind, count) in steps {
                if kind == 0 {
                    let mut left = 0..count;
                    let ends = ring.take_while(|_| left.next().is_some());
                    let ends = ends.map(|(first, last)| (first.seq, last.seq));
                    let taken: Vec<_> = model.drain(..model.len().min(count as usize)).collect();
                    prop_assert_eq!(ends, taken.first().zip(taken.last()).map(|(first, last)| (first.1, last.1)));
                    if count > 20 && !model.is_empty() {
                        ring.pop();
                        model.pop_front();
                    }
                } else {
                    for len in 1..=count {
                        let sent = Sent { seq, len: len as u32, ..Sent::default() };
                        ring.push(sent);
                        model.push_back((ring.end() - 1, seq));
                        seq += len;
                    }
                }
                let held: Vec<_> = ring.iter().map(|(position, sent)| (position, sent.seq)).collect();
                prop_assert!(held.iter().eq(&model));
                prop_assert!(ring.at(ring.end()).is_none() && ring.at(ring.first().wrapping_sub(1)).is_none());
                for at in [0, seq / 2, seq] {
                    let index = model.partition_point(|&(_, seq)| seq < at);
                    prop_assert_eq!(ring.first_from(at), ring.first() + index as u64);
                }
            }
        }
    }
}
