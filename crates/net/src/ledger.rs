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
    /// Whether it will be lost on the wire.
    pub(crate) lost: bool,
    /// Bytes on the wire.
    pub(crate) size: u32,
}

/// What a link has carried and lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) queued_time: u64,
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
    /// Bytes of all entries.
    held: u64,
    sums: Sums,
    queued_max: u64,
    /// Arrivals that found no room and may lie in the future.
    overflows: VecDeque<Timestamp>,
}

impl Ledger {
    /// Enters a packet. `now` is the present, which no arrival precedes.
    #[inline]
    pub(crate) fn enter(&mut self, now: Timestamp, entry: Entry) {
        let queued = (entry.start - entry.arrival).as_nanos();
        self.sums.packets += 1;
        self.sums.bytes += u64::from(entry.size);
        self.sums.queued_time += queued;
        self.sums.lost += u64::from(entry.lost);
        self.queued_max = self.queued_max.max(queued);
        if self.entries.len() == self.entries.capacity() {
            self.make_room(now);
        }
        self.held += u64::from(entry.size);
        self.entries.push_back(entry);
    }

    /// Enters an arrival that found the queue full.
    pub(crate) fn enter_overflow(&mut self, arrival: Timestamp) {
        self.overflows.push_back(arrival);
    }

    /// Packets and bytes of the entries, departed or not: an upper bound of what is in the queue.
    #[inline]
    pub(crate) fn held(&self) -> (usize, u64) {
        (self.entries.len(), self.held)
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
        // One or two have departed since the last packet: a search would cost more.
        while let Some(entry) = self.entries.front()
            && entry.departure <= now
        {
            self.held -= u64::from(entry.size);
            self.entries.pop_front();
        }
    }

    /// Packets and bytes that wait at `at`, without the packet in transmission.
    pub(crate) fn waiting(&mut self, now: Timestamp, at: Timestamp) -> (u32, u64) {
        self.forget(now);
        let (mut packets, mut bytes) = (self.entries.len(), self.held);
        for entry in &self.entries {
            // An arrival in the present finds one packet in transmission; one ahead of time, those still to depart too.
            if entry.start > at {
                break;
            }
            packets -= 1;
            bytes -= u64::from(entry.size);
        }
        (packets as u32, bytes)
    }

    /// The sums over packets that have departed by `now`, and what waits then.
    pub(crate) fn read(&mut self, now: Timestamp) -> (Sums, Backlog) {
        self.forget(now);
        while self.overflows.front().is_some_and(|&arrival| arrival <= now) {
            self.sums.overflows += 1;
            self.overflows.pop_front();
        }
        let (mut sums, mut backlog) = (self.sums, Backlog::default());
        for entry in &self.entries {
            sums.packets -= 1;
            sums.bytes -= u64::from(entry.size);
            sums.queued_time -= (entry.start - entry.arrival).as_nanos();
            sums.lost -= u64::from(entry.lost);
            if entry.start <= now {
                backlog.busy = true;
            } else if entry.arrival <= now {
                backlog.packets += 1;
                backlog.bytes += u64::from(entry.size);
            }
        }
        (sums, backlog)
    }

    /// Starts a new interval for [`queued_max`](Self::queued_max).
    pub(crate) fn reset_queued_max(&mut self) {
        self.queued_max = 0;
    }

    /// Longest wait of any packet entered since [`reset_queued_max`](Self::reset_queued_max), in nanoseconds.
    pub(crate) fn queued_max(&self) -> u64 {
        self.queued_max
    }
}
