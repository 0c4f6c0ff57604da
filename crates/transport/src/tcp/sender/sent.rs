//! A segment in flight: where it lies, when it was sent, and what became of it.

use warpline_core::Timestamp;

use super::rate::{SendState, Span};

/// A segment in flight. 48 bytes: a window of thousands stays in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// First byte.
    pub seq: u64,
    /// Last transmission.
    pub sent_at: Timestamp,
    /// First transmission.
    pub first_sent_at: Timestamp,
    /// Bytes delivered over the connection at the last transmission.
    pub delivered: u64,
    /// See [`super::rate::SendState`].
    pub send_span: Span,
    /// See [`super::rate::SendState`].
    pub ack_span: Span,
    /// Sequence space, SYN and FIN included.
    pub len: u32,
    /// Marks.
    pub flags: u8,
    /// If this one is selectively acknowledged: at least so many of those behind it are, too.
    pub sacked_behind: u16,
}

const _: () = assert!(size_of::<Sent>() == 48);

impl Sent {
    /// Selectively acknowledged.
    pub(super) const SACKED: u8 = 1;
    /// Declared lost.
    pub(super) const LOST: u8 = 2;
    /// A retransmission is in flight.
    pub(super) const RETRANS: u8 = 4;
    /// Sent more than once.
    pub(super) const RETRANSMITTED: u8 = 8;
    /// Carries the SYN.
    pub(super) const SYN: u8 = 16;
    /// Carries the FIN.
    pub(super) const FIN: u8 = 32;
    /// Too little was being sent at its last transmission for its delivery rate to be the path's.
    pub(super) const APP_LIMITED: u8 = 64;

    /// One past the last byte.
    #[inline]
    pub(super) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
    /// It is sent once more.
    pub(super) fn send_again(&mut self, now: Timestamp, state: SendState) {
        self.flags = (self.flags & !Sent::APP_LIMITED) | Sent::RETRANSMITTED | state.mark;
        self.sent_at = now;
        self.delivered = state.delivered;
        self.send_span = state.send_span;
        self.ack_span = state.ack_span;
    }
    /// Payload bytes.
    #[inline]
    pub(super) fn payload(&self) -> u32 {
        self.len - u32::from(self.flags & (Self::SYN | Self::FIN) != 0)
    }
    #[inline]
    pub(super) fn was_retransmitted(&self) -> bool {
        self.flags & Self::RETRANSMITTED != 0
    }
}
