//! The receiving end of a datagram flow: what came, what is missing, how long it took.

use warpline_core::{Datagram, Timestamp};

use super::counters::{Delays, Distribution, FlowTotals};

/// What a datagram flow has sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) packets: u64,
    /// On the wire, from the IP header on.
    pub(crate) bytes: u64,
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
    /// A sink that keeps the distribution of its delays if `distribution` says so.
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

    /// When the last datagram came.
    pub(crate) fn last_arrival(&self) -> Option<Timestamp> {
        self.last
    }

    pub(crate) fn reset_extremes(&mut self) {
        self.delays.reset_extremes();
        self.distribution = self.distribution.as_ref().map(|_| Distribution::default());
    }

    /// Adds the sink's counters to its flow's. Gaps in the numbers that came are losses (RFC 7680), whoever lost them.
    pub(crate) fn add_to(&self, sent: &Sent, totals: &mut FlowTotals) {
        totals.sent_packets += sent.packets;
        totals.sent_bytes += sent.bytes;
        totals.delivered_bytes += self.payload;
        totals.lost_packets += self.next.saturating_sub(self.packets);
        totals.ce_marks += self.ce;
        totals.latency.merge(&self.delays);
        if let Some(distribution) = &self.distribution {
            // The one sink of its flow.
            totals.latencies = distribution.clone();
        }
    }
}
