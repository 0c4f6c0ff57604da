//! The receiving end of a datagram flow: what arrived, what is missing, and the delays.

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

/// A datagram sink.
#[derive(Debug, Default)]
pub(crate) struct UdpSink {
    packets: u64,
    payload: u64,
    ce: u64,
    /// One past the highest sequence number seen.
    next: u64,
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
        self.packets += 1;
        self.payload += u64::from(datagram.len);
        self.ce += u64::from(ce);
        self.next = self.next.max(datagram.seq + 1);
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
        totals.lost_packets += self.next.saturating_sub(self.packets);
        totals.ce_marks += self.ce;
        totals.latency.merge(&self.delays);
        if let Some(distribution) = &self.distribution {
            // A flow has only one sink.
            totals.latencies = distribution.clone();
        }
    }
}
