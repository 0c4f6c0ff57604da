//! The classes of HTB, their buckets, and which of them may send when.
//!
//! A class has two buckets: one fills at its rate, one at its ceil. With tokens in both it may send; with tokens in the second only, it may
//! borrow from its parent; else it has to wait. Buckets count time, as in Linux: a packet costs the time that it takes at the bucket's rate, and may be
//! sent while the bucket is not in debt.

use warpline_core::{Rate, TimeDelta, Timestamp};

use super::line::ClassLine;

/// No debt and no time without a packet is counted beyond this.
const MOST: i64 = 60_000_000_000;

/// A bucket of time, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: i64,
    depth: i64,
    rate: Rate,
}

fn nanos(span: TimeDelta) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX).min(MOST)
}

impl Bucket {
    fn new(rate: Rate, bytes: u64) -> Self {
        let depth = nanos(rate.time_for(bytes));
        Bucket { tokens: depth, depth, rate }
    }

    /// Fills for so long, and pays for a packet.
    fn pay(&mut self, passed: i64, size: u32) {
        let tokens = (self.tokens + passed).min(self.depth) - nanos(self.rate.time_for(u64::from(size)));
        self.tokens = tokens.max(1 - MOST);
    }
}

/// A class.
#[derive(Debug)]
struct Class {
    parent: Option<usize>,
    /// 0 for a class that takes packets; those that lend have the higher, the nearer they are to the root.
    level: u32,
    rate: Bucket,
    ceil: Bucket,
    /// Up to when its buckets have been filled.
    since: Timestamp,
}

impl Class {
    fn after(&self, bucket: &Bucket) -> Timestamp {
        self.since + TimeDelta::from_nanos(bucket.tokens.min(0).unsigned_abs())
    }
}

/// All classes.
#[derive(Debug)]
pub(super) struct Tree {
    classes: Vec<Class>,
}

impl Tree {
    pub(super) fn new(lines: &[ClassLine]) -> Self {
        let place = |name: &String| lines.iter().position(|line| line.name == *name);
        let parents: Vec<Option<usize>> =
            lines.iter().map(|line| line.parent.as_ref().and_then(place)).collect();
        let depth = |of: usize| std::iter::successors(parents[of], |&class| parents[class]).count();
        let deepest = (0..lines.len()).map(depth).max().unwrap_or(0);
        let class = |(number, line): (usize, &ClassLine)| Class {
            parent: parents[number],
            level: match parents.contains(&Some(number)) {
                true => (deepest - depth(number)) as u32,
                false => 0,
            },
            rate: Bucket::new(line.rate, line.burst.0),
            ceil: Bucket::new(line.ceil, line.cburst.0),
            since: Timestamp::ZERO,
        };
        Tree { classes: lines.iter().enumerate().map(class).collect() }
    }

    /// Whether a class lends to others, and takes no packets itself.
    pub(super) fn lends(&self, class: usize) -> bool {
        self.classes.iter().any(|other| other.parent == Some(class))
    }

    /// How many levels there are.
    pub(super) fn levels(&self) -> usize {
        self.classes.iter().map(|class| class.level as usize + 1).max().unwrap_or(1)
    }

    /// How many classes there are.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// The class and those that it borrows from, directly or not, with their numbers.
    fn way(&self, class: usize) -> impl Iterator<Item = (usize, &Class)> {
        let numbers = std::iter::successors(Some(class), |&number| self.classes[number].parent);
        numbers.map(|number| (number, &self.classes[number]))
    }

    /// The class by whose rate a class may send now, itself or one that lends to it, and its level; none if it has to wait.
    pub(super) fn lender(&self, class: usize, now: Timestamp) -> Option<(u32, usize)> {
        let mut allowed = self.way(class).take_while(|(_, class)| class.after(&class.ceil) <= now);
        let (number, lender) = allowed.find(|(_, class)| class.after(&class.rate) <= now)?;
        Some((lender.level, number))
    }

    /// When a class may send, if nothing else is sent.
    pub(super) fn ready(&self, class: usize) -> Timestamp {
        let (mut earliest, mut ceils) = (Timestamp::NEVER, Timestamp::ZERO);
        for (_, class) in self.way(class) {
            ceils = ceils.max(class.after(&class.ceil));
            earliest = earliest.min(ceils.max(class.after(&class.rate)));
        }
        earliest
    }

    /// A class has sent a packet at this level: those on the way up pay for it, by their rates only from that level on.
    pub(super) fn pay(&mut self, class: usize, level: u32, size: u32, now: Timestamp) {
        let mut next = Some(class);
        while let Some(number) = next {
            let class = &mut self.classes[number];
            let passed = nanos(now.saturating_since(class.since));
            if class.level >= level {
                class.rate.pay(passed, size);
            } else {
                class.rate.tokens += passed;
            }
            class.ceil.pay(passed, size);
            class.since = now;
            next = class.parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte takes a microsecond at the root, two at the first class, four at the second; buckets hold 1000 bytes.
    fn tree() -> Tree {
        let lines = [
            "all rate 8Mbit/s burst 1000B cburst 1000B",
            "a parent all rate 4Mbit/s ceil 8Mbit/s burst 1000B cburst 1000B",
            "b parent all rate 2Mbit/s burst 1000B cburst 1000B",
        ];
        Tree::new(&lines.map(|line| line.parse().unwrap()))
    }

    fn level(tree: &Tree, class: usize, now: Timestamp) -> Option<u32> {
        tree.lender(class, now).map(|(level, _)| level)
    }

    #[test]
    fn a_class_sends_by_its_rate_then_borrows_then_waits() {
        let (mut tree, at) = (tree(), |micros: u64| Timestamp::from_nanos(micros * 1000));
        assert_eq!((tree.levels(), tree.lends(0), tree.lends(1)), (2, true, false));
        // A bucket may go into debt by one packet.
        tree.pay(1, 0, 1000, at(0));
        assert_eq!(level(&tree, 1, at(0)), Some(0));
        tree.pay(1, 0, 1000, at(0));
        // 2000 us to go by its rate, and 1000 us by its ceil and by the root's rate.
        assert_eq!((level(&tree, 1, at(999)), tree.ready(1)), (None, at(1000)));
        assert_eq!((level(&tree, 1, at(1000)), level(&tree, 1, at(2000))), (Some(1), Some(0)));
        // What it borrows does not count against its own rate, but against the root's.
        tree.pay(1, 1, 1000, at(1000));
        assert_eq!((level(&tree, 1, at(1999)), level(&tree, 1, at(2000))), (None, Some(0)));
        // The other one may send by its own rate, even while the root is in debt by rate, but not by its ceil.
        assert_eq!((level(&tree, 2, at(1000)), tree.ready(2)), (Some(0), at(0)));
    }

    #[test]
    fn a_full_bucket_does_not_fill_further() {
        let (mut tree, at) = (tree(), |micros: u64| Timestamp::from_nanos(micros * 1000));
        tree.pay(2, 0, 1000, at(50_000));
        tree.pay(2, 0, 1000, at(50_000));
        assert_eq!((tree.ready(2), level(&tree, 2, at(53_999))), (at(54_000), None));
    }
}
