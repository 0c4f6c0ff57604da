//! The counters of one endpoint.

use warpline_core::TimeDelta;

/// Counters of one endpoint since it was made. All bytes on the wire count from the IPv4 header on.
// In this order in memory: what every segment counts comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[repr(C)]
pub struct Stats {
    /// Segments sent, of every kind.
    pub segments_sent: u64,
    /// Bytes sent on the wire.
    pub bytes_sent: u64,
    /// Segments received.
    pub segments_received: u64,
    /// Segments sent that carried payload, retransmissions included.
    pub data_segments_sent: u64,
    /// RTT samples.
    pub rtt_count: u64,
    /// Sum of RTT samples in nanoseconds.
    pub rtt_sum_ns: u64,
    /// Smallest RTT sample in nanoseconds; meaningless while `rtt_count` is zero.
    pub rtt_min_ns: u64,
    /// Largest RTT sample in nanoseconds.
    pub rtt_max_ns: u64,
    /// Segments acknowledged.
    pub latency_count: u64,
    /// Sum of the times from first transmission to acknowledgement (cumulative or selective), in nanoseconds.
    pub latency_sum_ns: u64,
    /// Longest such time in nanoseconds.
    pub latency_max_ns: u64,
    /// Segments with payload, SYN or FIN that were sent again.
    pub retransmitted_segments: u64,
    /// Payload bytes that were sent again.
    pub retransmitted_bytes: u64,
    /// Payload bytes received that had been received before.
    pub duplicate_bytes: u64,
    /// Segments the sender declared lost.
    pub lost_segments: u64,
    /// Retransmission time-outs.
    pub rtos: u64,
    /// Fast recoveries begun.
    pub recoveries: u64,
    /// Reductions because of an ECN echo.
    pub ecn_reductions: u64,
    /// Reductions undone because they proved spurious.
    pub undos: u64,
    /// D-SACKs received: segments that the other side had twice.
    pub dsacks_received: u64,
    /// Tail loss probes sent (RFC 8985 section 7).
    pub tail_probes: u64,
    /// Zero-window probes sent.
    pub window_probes: u64,
    /// Data segments that arrived marked congestion-experienced.
    pub ce_marks: u64,
    /// Payload bytes that count as received and never came, where the receiver passes over losses
    /// ([`Misbehaviour::OptimisticAcks`](super::Misbehaviour::OptimisticAcks)).
    pub missing_bytes: u64,
}

impl Stats {
    /// Mean RTT; `None` before the first sample.
    pub fn rtt_mean(&self) -> Option<TimeDelta> {
        self.rtt_sum_ns.checked_div(self.rtt_count).map(TimeDelta::from_nanos)
    }
    /// Mean time from first transmission to acknowledgement; `None` before the first.
    pub fn latency_mean(&self) -> Option<TimeDelta> {
        self.latency_sum_ns.checked_div(self.latency_count).map(TimeDelta::from_nanos)
    }

    /// Forgets the smallest and largest samples.
    pub(super) fn reset_extremes(&mut self) {
        (self.rtt_min_ns, self.rtt_max_ns, self.latency_max_ns) = (u64::MAX, 0, 0);
    }

    #[inline]
    pub(super) fn note_rtt(&mut self, rtt: TimeDelta) {
        let rtt = rtt.as_nanos();
        self.rtt_min_ns = if self.rtt_count == 0 { rtt } else { self.rtt_min_ns.min(rtt) };
        self.rtt_max_ns = self.rtt_max_ns.max(rtt);
        self.rtt_sum_ns += rtt;
        self.rtt_count += 1;
    }
}
