//! Mahimahi traces: no bytes make the reader panic, reading in pieces gives the same result, and a trace that is read can be used.
use std::sync::Arc;

use warpline_core::Timestamp;
use warpline_net::mahimahi::{Trace, TraceLink, TraceParser};

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let whole = Trace::parse(bytes);
    let mut parser = TraceParser::default();
    let fed = bytes.chunks(3).try_for_each(|piece| parser.feed(piece)).and_then(|()| parser.finish());
    assert_eq!(whole.is_ok(), fed.is_ok(), "whole and in pieces");
    let Ok(trace) = whole else { return };
    assert!(trace.period_ms() > 0);
    let _ = trace.mean_rate();
    let mut link = TraceLink::new(Arc::new(trace));
    let mut now = Timestamp::ZERO;
    for (bytes, waited) in [(1, false), (1500, true), (1501, false), (65_000, true)] {
        let end = link.finish_of(now, bytes, waited);
        assert!(end >= now, "{end:?} before {now:?}");
        now = end;
    }
}
