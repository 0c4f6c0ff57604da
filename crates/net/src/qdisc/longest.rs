//! The longest of many queues, without a look at all of them for each packet.
//!
//! It is a heap of lengths, of which only the one on top has to be right. It is filled when somebody asks for the longest queue, and given up when
//! nobody has asked for long: a buffer that is never full takes no time for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Knows which of some queues has the most bytes.
#[derive(Debug, Default)]
pub(crate) struct Longest {
    /// Bytes and numbers of queues, as they are or were. No queue has more than its newest entry says, and only an empty one has no entry. While the
    /// heap is not in use, it has none at all.
    heap: BinaryHeap<(u64, Reverse<u32>)>,
    /// What the newest entry of each queue says. Older ones count no more.
    newest: Vec<u64>,
}

impl Longest {
    /// A queue has grown to `bytes`. This must be called for each that grows; whether one has shrunk is seen when it is asked for.
    #[inline]
    pub(crate) fn grown(&mut self, index: usize, bytes: u64) {
        if !self.heap.is_empty() {
            self.note(index, bytes);
        }
    }

    #[inline(never)]
    fn note(&mut self, index: usize, bytes: u64) {
        if self.heap.len() >= 2 * self.newest.len() {
            // At least half of the entries count no more. To fill it anew takes no longer than adding those did.
            self.heap.clear();
        } else if bytes > self.newest[index] {
            self.newest[index] = bytes;
            self.heap.push((bytes, Reverse(index as u32)));
        }
    }

    /// The number of the queue with the most bytes; of equals, the first. `count` is the number of queues, and `bytes` gives the bytes in each.
    pub(crate) fn find(&mut self, count: usize, bytes: impl Fn(usize) -> u64) -> usize {
        if self.heap.is_empty() {
            self.newest = (0..count).map(&bytes).collect();
            let entries = self.newest.iter().zip(0..).map(|(&bytes, index)| (bytes, Reverse(index)));
            self.heap = entries.filter(|&(bytes, _)| bytes > 0).collect();
        }
        while let Some(mut top) = self.heap.peek_mut() {
            let (said, Reverse(index)) = *top;
            let index = index as usize;
            let has = bytes(index);
            if has == said {
                return index;
            }
            let is_newest = self.newest[index] == said;
            if is_newest {
                self.newest[index] = has;
            }
            if is_newest && has > 0 {
                top.0 = has;
            } else {
                PeekMut::pop(top);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens to a queue: it grows by so much, it shrinks by so much, or somebody asks.
    fn steps() -> impl Strategy<Value = Vec<(u8, usize, u64)>> {
        prop::collection::vec((0u8..5, 0usize..6, 1u64..4), 1..300)
    }

    proptest! {
        #[test]
        fn it_is_the_first_of_those_with_the_most(count in 1usize..6, steps in steps()) {
            let (mut longest, mut queues) = (Longest::default(), vec![0u64; count]);
            for (kind, index, by) in steps {
                let index = index % count;
                match kind {
                    0 | 1 => {
                        queues[index] += by;
                        longest.grown(index, queues[index]);
                    }
                    2 | 3 => queues[index] = queues[index].saturating_sub(by),
                    _ => {
                        let most = queues.iter().max();
                        let first = queues.iter().position(|bytes| Some(bytes) == most).unwrap();
                        prop_assert_eq!(longest.find(count, |index| queues[index]), first);
                    }
                }
            }
            prop_assert!(longest.heap.len() <= 2 * count);
        }
    }

    #[test]
    fn it_is_given_up_when_nobody_asks() {
        let (mut longest, mut queues) = (Longest::default(), [0u64; 4]);
        let mut fill = |longest: &mut Longest, packets| {
            for _ in 0..packets {
                queues[1] += 1;
                longest.grown(1, queues[1]);
            }
            queues[1]
        };
        fill(&mut longest, 100);
        assert!(longest.heap.is_empty(), "nobody has asked");
        assert_eq!(longest.find(4, |index| if index == 1 { 100 } else { 0 }), 1);
        assert_eq!(fill(&mut longest, 5), 105);
        assert_eq!(longest.heap.len(), 6);
        fill(&mut longest, 3);
        assert!(longest.heap.is_empty());
        assert_eq!(longest.find(4, |index| if index == 1 { 108 } else { 107 }), 1);
    }
}
