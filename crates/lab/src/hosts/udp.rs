//! The receiving end of a datagram flow: what arrived, what is missing, and the delays.

use std::collections::BTreeMap;

use warpline_core::counter::Counter as _;
use warpline_core::{Datagram, Timestamp};

use super::counters::{Delays, Distribution, FlowTotals};

/// What a datagram flow has sent so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// Bytes on the wire, from the IP header on.
    pub(crate) bytes: u64,
}

impl Sent {
    /// Adds the sender's counters to those of its flow.
    pub(crate) fn add_to(&self, totals: &mut FlowTotals) {
        totals.sent_packets += self.packets;
        totals.sent_bytes += self.bytes;
    }
}

/// Gaps that a sink remembers. Of those before, whatever comes late is taken for a copy.
const GAPS: usize = 4_096;

/// Which sequence numbers have been seen.
#[derive(Debug, Default)]
struct Seen {
    /// One past the highest.
    next: u64,
    /// Those below that have not been seen: the first of each gap, and one past its last.
    gaps: BTreeMap<u64, u64>,
}

impl Seen {
    /// Adds a number. Returns whether it is new.
    #[inline]
    fn add(&mut self, seq: u64) -> bool {
        if seq == self.next {
            self.next += 1;
            return true;
        }
        self.add_out_of_order(seq)
    }

    #[cold]
    fn add_out_of_order(&mut self, seq: u64) -> bool {
        if seq > self.next {
            self.gaps.insert(self.next, seq);
            self.next = seq + 1;
            if self.gaps.len() > GAPS {
                self.gaps.pop_first();
            }
            return true;
        }
        let Some((&first, &end)) = self.gaps.range(..=seq).next_back().filter(|&(_, &end)| seq < end) else {
            return false;
        };
        self.gaps.remove(&first);
        for (first, end) in [(first, seq), (seq + 1, end)] {
            if first < end {
                self.gaps.insert(first, end);
            }
        }
        true
    }
}

/// A datagram sink. Of a datagram that comes more than once, it takes the first copy.
#[derive(Debug, Default)]
pub(crate) struct UdpSink {
    packets: u64,
    payload: u64,
    ce: u64,
    seen: Seen,
    delays: Delays,
    distribution: Option<Distribution>,
    last: Option<Timestamp>,
}

impl UdpSink {
    /// A sink; it records the distribution of delays if `distribution` is true.
    pub(crate) fn new(distribution: bool) -> Self {
        UdpSink { distribution: distribution.then(Distribution::default), ..UdpSink::default() }
    }

    #[inline]
    pub(crate) fn handle_datagram(&mut self, now: Timestamp, datagram: &Datagram, ce: bool) {
        if !self.seen.add(datagram.seq) {
            return;
        }
        self.packets += 1;
        self.payload += u64::from(datagram.len);
        self.ce += u64::from(ce);
        self.last = Some(now);
        let delay = now - datagram.created;
        self.delays.add(delay);
        if let Some(distribution) = &mut self.distribution {
            distribution.record(delay);
        }
    }

    /// When the last datagram arrived.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.last
    }

    pub(crate) fn reset_extremes(&mut self) {
        self.delays.reset_extremes();
        self.distribution = self.distribution.as_ref().map(|_| Distribution::default());
    }

    /// Adds the sink's counters to those of its flow. Gaps in the sequence numbers count as losses (RFC 7680).
    pub(crate) fn add_to(&self, totals: &mut FlowTotals) {
        totals.delivered_bytes += self.payload;
        totals.lost_packets += self.seen.next.saturating_sub(self.packets);
        totals.ce_marks += self.ce;
        totals.latency.merge(&self.delays);
        if let Some(distribution) = &self.distribution {
            // A flow has only one sink.
            totals.latencies = distribution.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_for_nothing_and_a_late_datagram_closes_its_gap() {
        let mut sink = UdpSink::new(false);
        let totals = |sink: &UdpSink| {
            let mut totals = FlowTotals::default();
            sink.add_to(&mut totals);
            (totals.delivered_bytes, totals.lost_packets, totals.ce_marks, totals.latency.count)
        };
        let take = |sink: &mut UdpSink, seqs: &[u64]| {
            for &seq in seqs {
                sink.handle_datagram(
                    Timestamp::from_secs(1),
                    &Datagram { seq, len: 100, ..Datagram::default() },
                    true,
                );
            }
        };
        take(&mut sink, &[0, 0, 1, 5, 5, 1]);
        assert_eq!(totals(&sink), (300, 3, 3, 3));
        take(&mut sink, &[3, 3, 3]);
        assert_eq!(totals(&sink), (400, 2, 4, 4));
        take(&mut sink, &[4, 2, 4, 2, 0]);
        assert_eq!(totals(&sink), (600, 0, 6, 6));
        assert!(sink.seen.gaps.is_empty());
        take(&mut sink, &(1_000..30_000).step_by(2).collect::<Vec<_>>());
        assert_eq!(sink.seen.gaps.len(), GAPS);
        // Of a gap long ago it is not known what has come: a copy, if anything.
        take(&mut sink, &[7]);
        assert_eq!(totals(&sink).0, 600 + 14_500 * 100);
        take(&mut sink, &[29_997]);
        assert_eq!(totals(&sink).0, 600 + 14_501 * 100);
    }
}
