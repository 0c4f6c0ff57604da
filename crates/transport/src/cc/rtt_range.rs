//! The range of a path's round-trip times, for TCP Nice: minRTT stands for an empty queue, maxRTT for a full one.
//!
//! The paper keeps both for ever and speculates about decaying averages (section 2.2). Here they are those of the present span and the one before,
//! as the delay histories of RFC 6817 forget by the minute.

use warpline_core::{TimeDelta, Timestamp};

use super::window::within;

/// The smallest and the largest RTT of the last while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    smallest: TimeDelta,
    largest: TimeDelta,
    /// Those of the present span, which began at `began`.
    new_smallest: TimeDelta,
    new_largest: TimeDelta,
    began: Timestamp,
    /// Length of a span; zero for ever.
    span: TimeDelta,
    start: f64,
    of_rounds: bool,
}

impl Range {
    /// Before the first sample. `span` is how long a sample counts at least (zero for ever); `start` times the
    /// smallest RTT stands for the largest at first; with `of_rounds`, the largest is that of the rounds' smallest
    /// RTTs.
    pub(super) fn new(span: TimeDelta, start: f64, of_rounds: bool) -> Self {
        Range {
            smallest: TimeDelta::MAX,
            largest: TimeDelta::ZERO,
            new_smallest: TimeDelta::MAX,
            new_largest: TimeDelta::ZERO,
            began: Timestamp::ZERO,
            span,
            start: within(start, 1.0, 1e6),
            of_rounds,
        }
    }

    /// minRTT and maxRTT.
    pub(super) fn get(&self) -> (TimeDelta, TimeDelta) {
        (self.smallest, self.largest.max(self.smallest.mul_f64(self.start)))
    }

    /// Takes an RTT. Returns whether that moved the range.
    #[inline]
    pub(super) fn take_sample(&mut self, now: Timestamp, rtt: TimeDelta) -> bool {
        let rtt = rtt.max(TimeDelta::from_nanos(1));
        let turns = !self.span.is_zero() && now.saturating_since(self.began) >= self.span;
        if turns {
            self.turn(now);
        }
        self.new_smallest = self.new_smallest.min(rtt);
        let lower = rtt < self.smallest;
        self.smallest = self.smallest.min(rtt);
        let higher = !self.of_rounds && self.raise(rtt);
        turns || lower || higher
    }

    /// A round ended whose smallest RTT was this; the longest span if it gave none. Returns whether that moved the range.
    pub(super) fn end_round(&mut self, rtt: TimeDelta) -> bool {
        self.of_rounds && rtt != TimeDelta::MAX && self.raise(rtt)
    }

    fn raise(&mut self, rtt: TimeDelta) -> bool {
        self.new_largest = self.new_largest.max(rtt);
        let higher = rtt > self.largest;
        self.largest = self.largest.max(rtt);
        higher
    }

    /// A span is over: what is older than it is forgotten.
    #[cold]
    fn turn(&mut self, now: Timestamp) {
        // A span without a sample (idle time, or the time before the first one) says nothing.
        if self.new_smallest != TimeDelta::MAX {
            self.smallest = self.new_smallest;
            self.largest = self.new_largest;
        }
        self.new_smallest = TimeDelta::MAX;
        self.new_largest = TimeDelta::ZERO;
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }

    #[test]
    fn both_ends_are_forgotten_after_two_spans_but_not_for_want_of_samples() {
        let mut range = Range::new(TimeDelta::from_secs(10), 1.5, false);
        let at = Timestamp::from_secs;
        for (now, rtt) in [(1, 100), (2, 400), (12, 200), (13, 220)] {
            range.take_sample(at(now), ms(rtt));
        }
        assert_eq!(range.get(), (ms(100), ms(400)));
        assert!(range.take_sample(at(23), ms(210)));
        assert_eq!(range.get(), (ms(200), ms(300)), "1.5 times the smallest at least");
        range.take_sample(at(90), ms(230));
        range.take_sample(at(190), ms(240));
        assert_eq!(range.get().0, ms(230));
    }
}
