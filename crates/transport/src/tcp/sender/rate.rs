//! Delivery rate (draft-cheng-iccrg-delivery-rate-estimation): bytes delivered over the longer of the time they took to send
//! and the time they took to be acknowledged.
//!
//! Departure: the two times of a segment are kept as 32-bit spans before it was sent; if one exceeds 4.29 s, there is
//! no sample. Application-limited samples are not marked here; `AckSample::cwnd_limited` shows them.

use warpline_core::{Rate, TimeDelta, Timestamp};

use super::sent::Sent;

/// Connection-wide state (the draft's `C`).
#[derive(Clone, Copy, Debug)]
pub(super) struct DeliveryRate {
    /// Bytes delivered so far.
    pub delivered: u64,
    delivered_at: Timestamp,
    first_sent_at: Timestamp,
    /// Whether anyone reads the samples. Without that, only bytes are counted.
    sampled: bool,
}

/// What a segment remembers of the connection's state when it was sent (the draft's `P`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendState {
    /// Bytes delivered then.
    pub delivered: u64,
    /// Nanoseconds since the send time of the segment acknowledged last; `u32::MAX` for too long.
    pub send_span: u32,
    /// Nanoseconds since the last delivery; `u32::MAX` for too long.
    pub ack_span: u32,
}

#[inline]
fn span(now: Timestamp, then: Timestamp) -> u32 {
    now.saturating_since(then).as_nanos().min(u64::from(u32::MAX)) as u32
}

impl DeliveryRate {
    /// Before anything is sent. Samples are only taken if `sampled`.
    pub(super) fn new(sampled: bool) -> Self {
        DeliveryRate { delivered: 0, delivered_at: Timestamp::ZERO, first_sent_at: Timestamp::ZERO, sampled }
    }

    /// A segment is sent; `idle` when nothing was in flight.
    #[inline]
    pub(super) fn on_send(&mut self, now: Timestamp, idle: bool) -> SendState {
        if !self.sampled {
            return SendState { delivered: self.delivered, send_span: 0, ack_span: 0 };
        }
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SendState {
            delivered: self.delivered,
            send_span: span(now, self.first_sent_at),
            ack_span: span(now, self.delivered_at),
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
        if self.sampled { self.sample(now, newest, min_rtt) } else { None }
    }

    #[inline(never)]
    fn sample(&mut self, now: Timestamp, newest: &Sent, min_rtt: TimeDelta) -> Option<Rate> {
        self.delivered_at = now;
        self.first_sent_at = newest.sent_at;
        if newest.send_span == u32::MAX || newest.ack_span == u32::MAX {
            return None;
        }
        let acked_over = now.saturating_since(newest.sent_at).as_nanos() + u64::from(newest.ack_span);
        let interval = acked_over.max(u64::from(newest.send_span));
        if interval == 0 || interval < min_rtt.as_nanos() {
            return None;
        }
        let bits = (self.delivered - newest.delivered) as f64 * 8e9;
        Some(Rate::from_bps((bits / interval as f64) as u64))
    }
}
