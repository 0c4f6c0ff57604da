//! The receiver's results: which segments arrived, in which order, how late, and which never arrived. Transmissions are distinguished by their
//! number, so that a retransmission is not mistaken for reordering, nor a copy for a retransmission.

use std::collections::{BTreeSet, VecDeque};

use warpline_core::{TimeDelta, Timestamp};

use super::results::{DELAY_ZERO, ReceiverResults};
use super::wire::{Stamp, unfold};

/// Segments that overtake one and so cause a fast retransmit (RFC 5681 section 3.2).
const DUPACKS: u64 = 3;
/// Lateness from which no time-out can distinguish reordering from loss.
const LATE: TimeDelta = TimeDelta::from_secs(1);
/// Most missing numbers, and newest arrivals, that are remembered: more than any window has.
const MEMORY: usize = 1 << 16;
/// Most delay samples: when there are as many, every other one is dropped, and new ones are taken only as rarely.
const SAMPLES: usize = 1 << 13;

/// Delays by two clocks, in microseconds: the extremes and the mean of all, and evenly spaced samples for the quantiles.
#[derive(Clone, Debug)]
struct Delays {
    samples: Vec<i32>,
    stride: u64,
    count: u64,
    sum: i64,
    min: i32,
    max: i32,
}

impl Delays {
    fn new() -> Self {
        Delays { samples: Vec::new(), stride: 1, count: 0, sum: 0, min: i32::MAX, max: i32::MIN }
    }
    fn add(&mut self, value: i32) {
        if self.count.is_multiple_of(self.stride) {
            if self.samples.len() == SAMPLES {
                let mut keep = false;
                self.samples.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.stride *= 2;
            }
            if self.count.is_multiple_of(self.stride) {
                self.samples.push(value);
            }
        }
        self.count += 1;
        self.sum += i64::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }
    fn fill(&self, results: &mut ReceiverResults) {
        if self.count == 0 {
            return;
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        let above = |value: i32| (i64::from(value) - i64::from(self.min)) as u64;
        let quantile = |part: f64| {
            let place = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len()) - 1;
            above(sorted[place])
        };
        results.delay_count = self.count;
        results.delay_min_us = (i64::from(self.min) + DELAY_ZERO) as u64;
        results.delay_mean_us = (self.sum / self.count as i64 - i64::from(self.min)).max(0) as u64;
        results.delay_max_us = above(self.max);
        (results.delay_p50_us, results.delay_p95_us, results.delay_p99_us) =
            (quantile(0.5), quantile(0.95), quantile(0.99));
    }
}

/// Takes data segments as they arrive.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    results: ReceiverResults,
    first: Option<Timestamp>,
    last: Timestamp,
    /// One past the highest number that arrived.
    next: u64,
    arrived: u64,
    missing: BTreeSet<u64>,
    /// Missing numbers that are no longer remembered.
    given_up: u64,
    /// Arrivals that were the highest so far: number, how many had arrived, when.
    records: VecDeque<(u64, u64, Timestamp)>,
    delays: Delays,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Arrivals {
            results: ReceiverResults::default(),
            first: None,
            last: Timestamp::ZERO,
            next: 0,
            arrived: 0,
            missing: BTreeSet::new(),
            given_up: 0,
            records: VecDeque::new(),
            delays: Delays::new(),
        }
    }

    /// When the first data segment arrived.
    pub(crate) fn started(&self) -> Option<Timestamp> {
        self.first
    }
    /// Bytes on the wire that have arrived.
    pub(crate) fn wire_bytes(&self) -> u64 {
        self.results.wire_bytes
    }

    /// A data segment of `wire` bytes arrived at `at`, when the wall clock here read `wall_us` (low 32 bits of microseconds).
    pub(crate) fn segment(&mut self, at: Timestamp, stamp: Stamp, wall_us: u32, wire: u32, ce: bool) {
        self.first.get_or_insert(at);
        self.last = self.last.max(at);
        self.arrived += 1;
        self.results.segments += 1;
        self.results.wire_bytes += u64::from(wire);
        self.results.ce_marks += u64::from(ce);
        let number = unfold(stamp.number, self.next);
        if number >= self.next {
            // A jump further than any window must be forged: do not fill memory with it.
            if number - self.next <= MEMORY as u64 {
                self.missing.extend(self.next..number);
                while self.missing.len() > MEMORY {
                    self.given_up += u64::from(self.missing.pop_first().is_some());
                }
            } else {
                self.given_up += number - self.next;
            }
            self.next = number + 1;
            self.records.push_back((number, self.arrived, at));
            if self.records.len() > MEMORY {
                self.records.pop_front();
            }
        } else if self.missing.remove(&number) {
            self.reordered(at, number);
        } else {
            self.results.copies += 1;
        }
        self.delays.add(wall_us.wrapping_sub(stamp.sent_us) as i32);
    }

    fn reordered(&mut self, at: Timestamp, number: u64) {
        let overtaker = self.records.partition_point(|&(record, ..)| record < number);
        let Some(&(_, arrived, when)) = self.records.get(overtaker) else { return };
        let extent = self.arrived - arrived;
        let lateness = at.saturating_since(when);
        let results = &mut self.results;
        results.reordered += 1;
        if lateness >= LATE {
            results.reordered_late += 1;
        } else if extent >= DUPACKS {
            results.reordered_retransmit += 1;
        } else {
            results.reordered_slightly += 1;
        }
        results.max_extent = results.max_extent.max(extent);
        results.max_lateness_ns = results.max_lateness_ns.max(lateness.as_nanos());
    }

    /// The counts so far, with those of the connection: unique bytes, duplicates and acknowledgements.
    pub(crate) fn results(&self, data_bytes: u64, duplicate_bytes: u64, acks: (u64, u64)) -> ReceiverResults {
        let mut results = ReceiverResults {
            elapsed_ns: self.first.map_or(0, |first| self.last.saturating_since(first).as_nanos()),
            data_bytes,
            duplicate_bytes,
            acks_sent: acks.0,
            acks_wire_bytes: acks.1,
            missing: self.given_up + self.missing.len() as u64,
            ..self.results
        };
        self.delays.fill(&mut results);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come(arrivals: &mut Arrivals, millis: u64, number: u32, delay_us: u32) {
        let at = Timestamp::from_millis(millis);
        let wall = 5_000_u32.wrapping_add((millis * 1000) as u32);
        arrivals.segment(at, Stamp { number, sent_us: wall.wrapping_sub(delay_us) }, wall, 1500, false);
    }

    #[test]
    fn order_copies_and_gaps_are_told_apart() {
        let mut a = Arrivals::new();
        for number in [0, 1, 3, 2, 4, 4, 9, 10, 11, 5, 12] {
            come(&mut a, 10 + u64::from(number), number, 100);
        }
        come(&mut a, 5000, 6, 100);
        let r = a.results(9, 1, (6, 360));
        assert_eq!((r.segments, r.copies, r.missing), (12, 1, 2));
        assert_eq!(
            (r.reordered, r.reordered_slightly, r.reordered_retransmit, r.reordered_late),
            (3, 1, 1, 1)
        );
        // Number 6 was overtaken by 9, 10, 11, 5 and 12.
        assert_eq!((r.max_extent, r.max_lateness_ns), (5, 4_981_000_000));
        assert_eq!((r.data_bytes, r.duplicate_bytes, r.acks_sent, r.acks_wire_bytes), (9, 1, 6, 360));
    }

    #[test]
    fn delays_are_distances_from_the_smallest_whatever_the_clocks_say() {
        for offset in [0_u32, 123_456_789, u32::MAX - 20_000] {
            let mut a = Arrivals::new();
            for i in 0..1000 {
                come(&mut a, u64::from(i), i, offset.wrapping_add(10_000 + i % 100));
            }
            let r = a.results(0, 0, (0, 0));
            assert_eq!((r.delay_count, r.delay_p50_us, r.delay_p99_us, r.delay_max_us), (1000, 49, 98, 99));
            assert_eq!(r.delay_min(), Some(i64::from(offset.wrapping_add(10_000) as i32)));
        }
    }

    #[test]
    fn many_delays_take_bounded_memory() {
        let mut delays = Delays::new();
        for i in 0..100_000 {
            delays.add(i % 1000);
        }
        assert!(delays.samples.len() <= SAMPLES);
        let mut r = ReceiverResults::default();
        delays.fill(&mut r);
        assert!((470..530).contains(&r.delay_p50_us), "{}", r.delay_p50_us);
    }

    #[test]
    fn a_lie_about_numbers_takes_no_memory() {
        let mut a = Arrivals::new();
        come(&mut a, 1, 0, 0);
        come(&mut a, 2, 0x7000_0000, 0);
        assert_eq!(a.results(0, 0, (0, 0)).missing, 0x6fff_ffff);
        assert!(a.missing.is_empty());
    }
}
