//! What one endpoint counts and, on request, records.

use warpline_core::record::TcpEvent;
use warpline_core::{Segment, TimeDelta, Timestamp};

use super::stats::Stats;

/// Counters and records of one connection.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Log {
    /// Allocated when records are first asked for.
    records: Option<Box<Records>>,
    pub stats: Stats,
}

/// What is recorded.
#[derive(Debug, Default)]
struct Records {
    events_on: bool,
    latencies_on: bool,
    events: Vec<(Timestamp, TcpEvent)>,
    latencies: Vec<TimeDelta>,
}

impl Log {
    #[inline]
    pub(super) fn is_recording(&self) -> bool {
        self.records.as_ref().is_some_and(|records| records.events_on)
    }
    pub(super) fn set_recording(&mut self, on: bool) {
        if on || self.records.is_some() {
            self.records.get_or_insert_default().events_on = on;
        }
    }
    pub(super) fn set_latency_log(&mut self, on: bool) {
        if on || self.records.is_some() {
            self.records.get_or_insert_default().latencies_on = on;
        }
    }
    pub(super) fn drain_records(&mut self) -> impl Iterator<Item = (Timestamp, TcpEvent)> + '_ {
        self.records.iter_mut().flat_map(|records| records.events.drain(..))
    }
    pub(super) fn drain_latencies(&mut self) -> impl Iterator<Item = TimeDelta> + '_ {
        self.records.iter_mut().flat_map(|records| records.latencies.drain(..))
    }

    #[inline]
    pub(super) fn record(&mut self, now: Timestamp, event: TcpEvent) {
        if self.is_recording() {
            self.keep(now, event);
        }
    }
    // Apart, here and below: pushing is long, and would stand between what every segment runs through.
    #[cold]
    fn keep(&mut self, now: Timestamp, event: TcpEvent) {
        if let Some(records) = &mut self.records {
            records.events.push((now, event));
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
        if self.records.is_some() {
            self.keep_latency(latency);
        }
    }
    #[cold]
    fn keep_latency(&mut self, latency: TimeDelta) {
        if let Some(records) = self.records.as_mut().filter(|records| records.latencies_on) {
            records.latencies.push(latency);
        }
    }
}
