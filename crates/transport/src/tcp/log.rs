//! What one endpoint counts and, if somebody asked for it, records.

use warpline_core::record::TcpEvent;
use warpline_core::{Segment, TimeDelta, Timestamp};

use super::stats::Stats;

/// Counters and records of one connection.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub stats: Stats,
    recording: bool,
    log_latencies: bool,
    records: Vec<(Timestamp, TcpEvent)>,
    latencies: Vec<TimeDelta>,
}

impl Log {
    #[inline]
    pub(super) fn is_recording(&self) -> bool {
        self.recording
    }
    pub(super) fn set_recording(&mut self, on: bool) {
        self.recording = on;
    }
    pub(super) fn set_latency_log(&mut self, on: bool) {
        self.log_latencies = on;
    }
    pub(super) fn drain_records(&mut self) -> impl Iterator<Item = (Timestamp, TcpEvent)> + '_ {
        self.records.drain(..)
    }
    pub(super) fn drain_latencies(&mut self) -> impl Iterator<Item = TimeDelta> + '_ {
        self.latencies.drain(..)
    }

    #[inline]
    pub(super) fn record(&mut self, now: Timestamp, event: TcpEvent) {
        if self.recording {
            self.records.push((now, event));
        }
    }
    /// A segment was sent.
    #[inline]
    pub(super) fn count_sent(&mut self, segment: &Segment) {
        self.stats.segments_sent += 1;
        self.stats.bytes_sent += u64::from(segment.wire_size());
    }
    /// A segment that was sent first at `sent` was acknowledged.
    #[inline]
    pub(super) fn note_latency(&mut self, now: Timestamp, sent: Timestamp) {
        let latency = now.saturating_since(sent);
        self.stats.latency_count += 1;
        self.stats.latency_sum_ns += latency.as_nanos();
        self.stats.latency_max_ns = self.stats.latency_max_ns.max(latency.as_nanos());
        if self.log_latencies {
            self.latencies.push(latency);
        }
    }
}
