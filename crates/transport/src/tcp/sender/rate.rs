//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): bytes delivered over the longer of the time they took to send
//! and the time they took to be acknowledged.
//!
//! Departure: whether the application limits sending is looked at when it writes, and nowhere else (as Linux mostly does).

use warpline_core::{Rate, TimeDelta, Timestamp};

use super::sent::Sent;

/// Connection-wide state (the draft's `C`).
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryRate {
    /// Bytes delivered so far.
    pub delivered: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    /// What is sent until so many bytes are delivered belongs to a time in which too little was sent (the draft's `C.app_limited`);
    /// zero if that is over. [`UNSAMPLED`] if nobody reads the samples: then only bytes are counted.
    limited_until: u64,
}

/// More bytes than a connection delivers.
const UNSAMPLED: u64 = u64::MAX;

/// What a segment remembers of the connection's state when it was sent (the draft's `P`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendState {
    /// Bytes delivered then.
    pub delivered: u64,
    /// Time since the send time of the segment acknowledged last.
    pub send_span: Span,
    /// Time since the last delivery.
    pub ack_span: Span,
    /// [`Sent::APP_LIMITED`], or nothing.
    pub mark: u8,
}

/// A span of time in 32 bits, so that what is kept of a segment stays small: in nanoseconds up to two seconds, and in units of 1024 ns up to 36
/// minutes, which is more than any segment waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span(u32);

impl Span {
    /// Marks units of 1024 ns.
    const COARSE: u32 = 1 << 31;

    #[inline]
    fn between(then: Timestamp, now: Timestamp) -> Span {
        let nanos = now.saturating_since(then).as_nanos();
        if nanos < u64::from(Self::COARSE) {
            Span(nanos as u32)
        } else {
            Span(Self::COARSE | (nanos >> 10).min(u64::from(Self::COARSE - 1)) as u32)
        }
    }

    #[inline]
    fn nanos(self) -> u64 {
        if self.0 & Self::COARSE == 0 { u64::from(self.0) } else { u64::from(self.0 & !Self::COARSE) << 10 }
    }
}

impl DeliveryRate {
    /// Before anything is sent. Samples are only taken if `sampled`.
    pub(super) fn new(sampled: bool) -> Self {
        DeliveryRate {
            delivered: 0,
            delivered_at: Timestamp::ZERO,
            first_sent_at: Timestamp::ZERO,
            limited_until: if sampled { 0 } else { UNSAMPLED },
        }
    }

    /// Whether samples are taken.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        self.limited_until != UNSAMPLED
    }

    /// Whether what is sent now is marked as limited. Samples must be taken.
    pub(super) fn is_limited(&self) -> bool {
        self.limited_until > 0
    }

    /// Too little is sent now, with `in_flight` bytes in flight: samples are limited until those are delivered. Samples must be taken.
    pub(super) fn mark_limited(&mut self, in_flight: u64) {
        self.limited_until = (self.delivered + in_flight).max(1);
    }

    /// A segment is sent; `idle` when nothing was in flight.
    #[inline]
    pub(super) fn on_send(&mut self, now: Timestamp, idle: bool) -> SendState {
        if !self.is_sampled() {
            return SendState { delivered: self.delivered, ..SendState::default() };
        }
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SendState {
            delivered: self.delivered,
            send_span: Span::between(self.first_sent_at, now),
            ack_span: Span::between(self.delivered_at, now),
            mark: if self.is_limited() { Sent::APP_LIMITED } else { 0 },
        }
    }

    /// `bytes` were delivered, `newest` being the segment among them that was sent last. A sample shorter than the smallest
    /// RTT is an artefact of spurious retransmission and not given.
    #[inline]
    pub(super) fn on_delivered(
        &mut self,
        now: Timestamp,
        bytes: u64,
        newest: &Sent,
        min_rtt: TimeDelta,
    ) -> Option<Rate> {
        self.delivered += bytes;
        if self.is_sampled() { self.sample(now, newest, min_rtt) } else { None }
    }

    #[inline(never)]
    fn sample(&mut self, now: Timestamp, newest: &Sent, min_rtt: TimeDelta) -> Option<Rate> {
        self.delivered_at = now;
        self.first_sent_at = newest.sent_at;
        if self.delivered > self.limited_until {
            self.limited_until = 0;
        }
        let acked_over = now.saturating_since(newest.sent_at).as_nanos() + newest.ack_span.nanos();
        let interval = acked_over.max(newest.send_span.nanos());
        if interval == 0 || interval < min_rtt.as_nanos() {
            return None;
        }
        let bits = (self.delivered - newest.delivered) as f64 * 8e9;
        Some(Rate::from_bps((bits / interval as f64) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_exact_up_to_two_seconds_and_near_beyond() {
        for nanos in [0, 1, (1 << 31) - 1, 1 << 31, 4_300_000_000, 60_000_000_000, 2_000_000_000_000] {
            let then = Timestamp::from_secs(5);
            let span = Span::between(then, then + TimeDelta::from_nanos(nanos)).nanos();
            let off = nanos - span;
            assert!(off < if nanos < 1 << 31 { 1 } else { 1024 }, "{nanos}: {span}");
        }
    }
}
