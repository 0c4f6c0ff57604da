//! The ledger of a constant-rate FIFO: who arrived when and leaves when, for as long as that can still matter.
//!
//! Such a queue needs no list of waiting packets, only their departure times, which are known on arrival. Entries are made
//! in the order of arrival, possibly ahead of time (see `Core::forward` in `network` on express hops). The sums count every
//! packet on entry; a reading takes back what has not happened by then, so the counters are exact at every instant.

use std::collections::VecDeque;

use warpline_core::Timestamp;

/// One packet's stay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// When it was offered.
    pub(crate) arrival: Timestamp,
    /// When its transmission begins.
    pub(crate) start: Timestamp,
    /// When its transmission is complete.
    pub(crate) departure: Timestamp,
    /// Bytes on the wire.
    pub(crate) size: u32,
    /// Whether it will be lost on the wire.
    pub(crate) lost: bool,
}

impl Entry {
    /// Nanoseconds in the queue.
    fn queued(&self) -> u64 {
        (self.start - self.arrival).as_nanos()
    }
    /// The same; 0 for a transmission that began by `interval`.
    fn queued_in(&self, interval: Option<Timestamp>) -> u64 {
        if interval.is_some_and(|interval| self.start <= interval) { 0 } else { self.queued() }
    }
}

/// What a link has carried and lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Of all packets whose transmission has begun.
    pub(crate) queued_time: u64,
    pub(crate) queued_max: u64,
    pub(crate) lost: u64,
    pub(crate) overflows: u64,
}

/// What waits in a link's queue at some instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Packets waiting, without the one in transmission.
    pub(crate) packets: u32,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Whether a packet is in transmission.
    pub(crate) busy: bool,
}

/// The stays of packets that have not all departed yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: VecDeque<Entry>,
    sums: Sums,
    /// Transmissions that began by then are no matter of the present interval of `queued_max`; none before the first.
    interval: Option<Timestamp>,
    /// Arrivals that found no room and may lie in the future.
    overflows: VecDeque<Timestamp>,
}

impl Ledger {
    /// Enters a packet. `now` is the present, which no arrival precedes.
    #[inline]
    pub(crate) fn enter(&mut self, now: Timestamp, entry: Entry) {
        debug_assert!(entry.arrival >= now && entry.start >= entry.arrival && entry.departure >= entry.start);
        debug_assert!(self.entries.back().is_none_or(|last| last.arrival <= entry.arrival), "out of order");
        self.sums.packets += 1;
        self.sums.bytes += u64::from(entry.size);
        // A reading takes back the waits still to come, which may be ages: only the difference need fit.
        self.sums.queued_time = self.sums.queued_time.wrapping_add(entry.queued());
        self.sums.lost += u64::from(entry.lost);
        if self.entries.len() == self.entries.capacity() {
            self.make_room(now);
        }
        self.entries.push_back(entry);
    }

    /// Enters an arrival that found the queue full.
    pub(crate) fn enter_overflow(&mut self, now: Timestamp, arrival: Timestamp) {
        self.count_overflows(now);
        if arrival <= now {
            self.sums.overflows += 1;
        } else {
            self.overflows.push_back(arrival);
        }
    }

    fn count_overflows(&mut self, now: Timestamp) {
        while self.overflows.front().is_some_and(|&arrival| arrival <= now) {
            self.sums.overflows += 1;
            self.overflows.pop_front();
        }
    }

    /// Entries, departed or not: an upper bound of those in the queue.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets what has departed, so that the ledger grows with the queue and not with the run.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, now: Timestamp) {
        self.forget(now);
        // Growing unless a quarter became free keeps the cost per packet constant.
        if self.entries.len() * 4 >= self.entries.capacity() * 3 {
            self.entries.reserve(self.entries.len().max(4));
        }
    }

    fn forget(&mut self, now: Timestamp) {
        while let Some(entry) = self.entries.front()
            && entry.departure <= now
        {
            self.sums.queued_max = self.sums.queued_max.max(entry.queued_in(self.interval));
            self.entries.pop_front();
        }
    }

    /// Packets that have not departed at `at`: the one in transmission and those that wait. Nothing that has departed by
    /// `now` is asked for again.
    pub(crate) fn undeparted(&mut self, now: Timestamp, at: Timestamp) -> usize {
        self.forget(now);
        self.entries.len() - self.entries.partition_point(|entry| entry.departure <= at)
    }

    /// Bytes that wait at `at`, without the packet in transmission.
    pub(crate) fn waiting_bytes(&self, at: Timestamp) -> u64 {
        self.entries
            .iter()
            .rev()
            .take_while(|entry| entry.start > at)
            .map(|entry| u64::from(entry.size))
            .sum()
    }

    /// The sums over packets that have departed by `now`, and what waits then.
    pub(crate) fn read(&mut self, now: Timestamp) -> (Sums, Backlog) {
        self.forget(now);
        self.count_overflows(now);
        let (mut sums, mut backlog) = (self.sums, Backlog::default());
        for entry in &self.entries {
            sums.packets -= 1;
            sums.bytes -= u64::from(entry.size);
            sums.lost -= u64::from(entry.lost);
            if entry.start <= now {
                backlog.busy = true;
                sums.queued_max = sums.queued_max.max(entry.queued_in(self.interval));
                continue;
            }
            sums.queued_time = sums.queued_time.wrapping_sub(entry.queued());
            if entry.arrival <= now {
                backlog.packets += 1;
                backlog.bytes += u64::from(entry.size);
            }
        }
        (sums, backlog)
    }

    /// Packets entered that will be lost only after `now`, on the wire or for want of room.
    pub(crate) fn doomed(&self, now: Timestamp) -> usize {
        let lost = self.entries.iter().filter(|entry| entry.lost && entry.departure > now).count();
        lost + self.overflows.iter().filter(|&&arrival| arrival > now).count()
    }

    /// Starts a new interval for `queued_max`.
    pub(crate) fn reset_queued_max(&mut self, now: Timestamp) {
        self.forget(now);
        self.sums.queued_max = 0;
        self.interval = Some(now);
    }
}
