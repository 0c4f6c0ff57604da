//! What few receivers do: the AccECN option of acknowledgements, and a window that is bounded by more than the buffer: by rLEDBAT, or while it
//! opens step by step as Linux's does (`net/ipv4/tcp_input.c`, `tcp_grow_window`).
//!
//! Departure: what waits in the buffer does not slow the opening.

use warpline_core::{AccEcn, Ecn, Segment, Timestamp};

use super::Receiver;

/// What is not as it mostly is, so that one look shows that nothing is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unusual(u8);

impl Unusual {
    /// Something arrived out of order, and a gap before it is still open.
    pub(super) const GAP: u8 = 1;
    /// The next acknowledgement has the AccECN option.
    pub(super) const OPTION: u8 = 2;
    /// The window is [steered](Receiver::steer).
    pub(super) const STEERED: u8 = 4;
    /// The window [opens](Receiver::open_window).
    pub(super) const OPENING: u8 = 8;
    /// Acknowledgements are [false](Receiver::make_false_ack).
    pub(super) const MISBEHAVING: u8 = 16;
    /// Marks are not reported.
    pub(super) const HIDING: u8 = 32;

    #[inline]
    pub(super) fn any(self, of: u8) -> bool {
        self.0 & of != 0
    }
    #[inline]
    pub(super) fn set(&mut self, which: u8, on: bool) {
        self.0 = if on { self.0 | which } else { self.0 & !which };
    }
}

/// Payload that is too small to open the window (Linux tcp_event_data_recv).
const SMALL: u32 = 128;

impl Receiver {
    /// Offers as much as is allowed.
    pub(super) fn set_offer(&mut self) {
        let steered = self.control.as_ref().map_or(u64::MAX, |control| control.window());
        let allowed = steered.min(self.opened);
        self.offer =
            self.buffer.min(allowed.max(1).checked_next_multiple_of(1 << self.scale).unwrap_or(u64::MAX));
    }

    /// A segment with payload is about to be taken: where the receiver steers the sender, its delay decides what is offered from now on. Where the buffer
    /// grows with the transfer, it tells how long a round trip is.
    pub(in crate::tcp) fn steer(&mut self, now: Timestamp, segment: &Segment) {
        if let Some(sizing) = &mut self.sizing {
            sizing.on_segment(now, segment, self.full, self.nxt, self.edge);
        }
        if let Some(control) = &mut self.control
            && let Some(timestamps) = segment.timestamps
        {
            control.on_segment(now, segment.seq, segment.len, timestamps);
            self.set_offer();
        }
    }

    /// A segment with payload was taken, and the application has taken what it could: the buffer may have to grow.
    pub(in crate::tcp) fn resize(&mut self, now: Timestamp) {
        let read = if self.auto_read { self.nxt } else { self.read };
        if let Some(sizing) = &mut self.sizing {
            sizing.on_read(now, read, self.full, self.buffer);
        }
    }

    /// New data of `len` bytes arrived, in order or not: what is offered grows by two full segments (Linux tcp_grow_window), and the
    /// acknowledgement of this one is not delayed. Small segments open nothing, as in Linux where they come in order.
    pub(super) fn open_window(&mut self, len: u32) {
        if len < SMALL || !self.unusual.any(Unusual::OPENING) {
            return;
        }
        let most = self.sizing.as_ref().map_or(u64::MAX, |sizing| sizing.room());
        if self.opened >= most {
            return;
        }
        self.opened = self.opened.saturating_add(2 * u64::from(self.full)).min(most);
        self.quick |= 1;
        if self.opened >= self.buffer {
            self.opened = u64::MAX;
            self.sizing = None;
            self.unusual.set(Unusual::OPENING, false);
        }
        self.set_offer();
    }

    /// So many bytes of payload from `seq` on arrived with this codepoint.
    pub(super) fn count_bytes(&mut self, seq: u64, len: u32, ecn: Ecn) {
        if let Some(counters) = &mut self.counters
            && len > 0
        {
            counters.count(ecn, len, seq + u64::from(len) <= self.last_ack_sent);
            self.unusual.set(Unusual::OPTION, counters.is_due());
            if counters.is_blocked() {
                self.stop_accecn_option();
            }
        }
    }

    /// Options seem to be what keeps segments from arriving.
    fn stop_accecn_option(&mut self) {
        self.counters = None;
        self.unusual.set(Unusual::OPTION, false);
    }

    /// The SYN/ACK has an AccECN option, but not if it is sent `again` (RFC 9768 section 3.2.3.2.2).
    pub(in crate::tcp) fn add_accecn_to_answer(&mut self, segment: &mut Segment, again: bool) {
        if again {
            self.stop_accecn_option();
        }
        self.add_all_counters(segment);
    }

    pub(super) fn add_all_counters(&self, segment: &mut Segment) {
        if let Some(counters) = &self.counters {
            segment.set_accecn(&counters.all());
        }
    }

    /// The AccECN option of an acknowledgement sent now, whose other options but SACK take so many bytes.
    pub(super) fn take_accecn_option(&mut self, others: usize) -> Option<AccEcn> {
        let blocks = if self.sack { self.recent().len() + usize::from(self.dsack.is_some()) } else { 0 };
        let option = self.counters.as_mut()?.option(others, blocks)?;
        self.unusual.set(Unusual::OPTION, false);
        Some(option)
    }
}
