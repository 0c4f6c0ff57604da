//! The receiving side: reassembly, the window offered, when to acknowledge, and the SACK blocks to send. `feedback` has what few receivers do,
//! and `misbehaviour` what none should.

mod feedback;
mod misbehaviour;
mod sizing;

use std::num::NonZeroU64;

use warpline_core::{Bytes, Ecn, Flags, SackBlocks, Segment, TimeDelta, Timestamp};

use super::accecn::{ByteCounters, sack_room};
use super::config::TcpConfig;
use super::ecn::Echo;
use super::handshake::Agreed;
use super::reassembly::{Ahead, Overlap};
use super::rledbat::WindowControl;
use feedback::Unusual;
use misbehaviour::Deceit;
pub use misbehaviour::Misbehaviour;
use sizing::Sizing;

/// Receive state of one connection. Positions include the FIN's byte.
// Two cache lines, both of which every segment with payload touches; ranges only where something is missing. The third is for few connections.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Receiver {
    /// Next byte expected.
    nxt: u64,
    /// Right edge of the window offered last; never moves back.
    edge: u64,
    /// Value of `nxt` in the last acknowledgement sent (RFC 7323 Last.ACK.sent).
    last_ack_sent: u64,
    /// When a delayed acknowledgement is due.
    delayed_until: Timestamp,
    /// Position of the FIN, if one arrived, else [`NO_FIN`]. It counts once everything before it has arrived.
    fin_at: u64,
    /// A duplicate to report (RFC 2883): its first byte, and one past its last.
    dsack: Option<(u64, NonZeroU64)>,
    /// What arrived out of order: allocated when something does, and then kept.
    ahead: Option<Box<Ahead>>,
    /// Most that is offered: the buffer, or less where the sender is [steered](Self::steer) or the window [opens](Self::open_window). A multiple of what windows are counted in.
    offer: u64,
    /// Next byte the application takes; follows `nxt` when `auto_read`.
    read: u64,
    /// Longest delay of an acknowledgement; zero for none.
    delay: TimeDelta,
    /// Timestamp to echo (RFC 7323 TS.Recent).
    ts_recent: u32,
    /// Largest payload seen: a full segment.
    full: u32,
    unacked: u32,
    /// An acknowledgement of what had come before the echo turned is to be sent first, with the echo of then: so far beyond the last one sent;
    /// zero for none. From [`HANDSHAKE`] on: the first of all, with this ACE field.
    early: u32,
    /// Unacknowledged bytes at which an acknowledgement is due: `ack_after` full segments.
    ack_at: u32,
    /// Segments that are still acknowledged one by one.
    quick: u32,
    echo: Echo,
    /// ECN codepoint of pure acknowledgements, and of all else that is not new data.
    codepoint: Ecn,
    ack_after: u8,
    /// An acknowledgement is due now.
    ack_now: bool,
    /// Timestamps are sent.
    timestamps: bool,
    /// SACK blocks are sent.
    sack: bool,
    /// Whether the application takes bytes at once.
    auto_read: bool,
    dsack_on: bool,
    unusual: Unusual,
    scale: u8,

    buffer: u64,
    /// Window to which the receiver has [opened](Self::open_window) by now; `u64::MAX` once that is the buffer.
    opened: u64,
    /// How large the buffer is, where it grows with the transfer.
    sizing: Option<Box<Sizing>>,
    /// What arrived with which codepoint, where the AccECN option says so.
    counters: Option<Box<ByteCounters>>,
    /// What bounds the window, where that is not only the buffer.
    control: Option<Box<WindowControl>>,
    /// How it breaks the rules, if it does.
    deceit: Option<Box<Deceit>>,
}

/// See `Receiver::early`: further apart than any two acknowledgements.
const HANDSHAKE: u32 = u32::MAX - 7;
/// A day, in the milliseconds of timestamps.
const DAY_MS: i32 = 86_400_000;
/// The position of no FIN.
const NO_FIN: u64 = u64::MAX;

/// What a segment's payload did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Bytes that had been received before.
    pub duplicate: u64,
    /// Bytes before it that never came and count as received all the same ([`Misbehaviour::OptimisticAcks`]).
    pub missing: u64,
}

impl Receiver {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let control = WindowControl::new(config);
        let opened = config.receive_ssthresh.map_or(u64::MAX, |Bytes(bytes)| bytes);
        let allowed = control.as_ref().map_or(u64::MAX, |control| control.window()).min(opened);
        let offer = config.receive_buffer.0.min(allowed);
        let mut unusual = Unusual::default();
        unusual.set(Unusual::STEERED, control.is_some());
        unusual.set(Unusual::OPENING, opened < u64::MAX);
        let (deceit, misbehaving) = Deceit::new(config.misbehaviour);
        unusual.set(misbehaving, true);
        Receiver {
            nxt: 0,
            edge: 0,
            last_ack_sent: 0,
            delayed_until: Timestamp::NEVER,
            fin_at: NO_FIN,
            dsack: None,
            ahead: None,
            offer,
            read: 1,
            delay: if deceit.is_some() { TimeDelta::ZERO } else { config.delayed_ack },
            ts_recent: 0,
            full: 0,
            unacked: 0,
            early: 0,
            ack_after: config.delayed_ack_segments.min(u32::from(u8::MAX)) as u8,
            ack_at: 0,
            quick: config.quick_acks,
            echo: Echo::default(),
            codepoint: Ecn::NotEct,
            ack_now: false,
            timestamps: config.timestamps,
            sack: false,
            auto_read: true,
            dsack_on: config.dsack,
            unusual,
            scale: 0,
            buffer: config.receive_buffer.0,
            opened,
            sizing: config.receive_autotuning.then(|| Sizing::new(opened)),
            counters: None,
            control,
            deceit,
        }
    }

    /// The other side's SYN arrived, and the handshake has settled the options.
    pub(super) fn on_syn(&mut self, segment: &Segment, agreed: &Agreed, ce: bool) {
        self.nxt = 1;
        self.timestamps = agreed.timestamps;
        if let Some((value, _)) = segment.timestamps {
            self.ts_recent = value;
        }
        self.sack = agreed.sack;
        self.echo = Echo::new(agreed.ecn.feedback);
        self.codepoint = agreed.ecn.control;
        self.counters = agreed.accecn_option.then(|| Box::new(ByteCounters::new()));
        if segment.flags.contains(Flags::ACK)
            && let Some(ace) = self.echo.on_syn_ack(ce)
        {
            self.early = HANDSHAKE + u32::from(ace);
        }
        if !self.timestamps {
            self.control = None;
            self.unusual.set(Unusual::STEERED, false);
        }
        self.set_scale(agreed.scale.unwrap_or(0));
    }

    /// The connection has ended: no more acknowledgements.
    pub(super) fn stop(&mut self) {
        self.delayed_until = Timestamp::NEVER;
        self.ack_now = false;
        self.early = 0;
    }

    /// ECN codepoint of everything but new data.
    #[inline]
    pub(super) fn codepoint(&self) -> Ecn {
        self.codepoint
    }

    /// Windows are multiples of the scale from here on.
    fn set_scale(&mut self, scale: u8) {
        self.scale = scale;
        self.buffer = self.buffer.min(65_535 << scale);
        // A buffer below one unit of the scale cannot be expressed; the scale is chosen from the buffer, so it can.
        self.buffer = (self.buffer >> scale << scale).max(1 << scale);
        self.set_offer();
    }

    /// Next byte expected.
    #[inline]
    pub(super) fn nxt(&self) -> u64 {
        self.nxt
    }
    /// Right edge of the window offered last.
    pub(super) fn edge(&self) -> u64 {
        self.edge
    }
    /// Whether an acknowledgement is due now.
    #[inline]
    pub(super) fn is_ack_due(&self) -> bool {
        self.ack_now
    }
    /// Asks for an acknowledgement now.
    #[inline]
    pub(super) fn request_ack(&mut self) {
        self.ack_now = true;
    }
    /// When a delayed acknowledgement is due.
    #[inline]
    pub(super) fn poll_timeout(&self) -> Timestamp {
        self.delayed_until
    }
    #[inline]
    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if now >= self.delayed_until {
            self.delayed_until = Timestamp::NEVER;
            self.ack_now = true;
        }
    }

    /// Whether a segment with payload is refused because its timestamp is older than the one to echo (PAWS, RFC 7323 section 5.3). By a
    /// millisecond it may be (Linux TCP_PAWS_WINDOW). It does happen where packets are reordered: a retransmission that fills a gap takes the
    /// timestamp ahead, and what was sent before it and comes after it is refused, though it never came before.
    ///
    /// What seems older by a day is none that was reordered: the clock has gone round in an idle time (RFC 7323 section 5.5).
    #[inline(always)]
    pub(super) fn is_outdated(&self, segment: &Segment) -> bool {
        segment.len > 0
            && segment.timestamps.is_some_and(|(value, _)| {
                (-DAY_MS..-1).contains(&(value.wrapping_sub(self.ts_recent) as i32))
            })
    }

    /// Answers a segment that is [refused](Self::is_outdated). Returns how many of its bytes had been received before: they are reported
    /// (Linux tcp_send_dupack).
    #[cold]
    pub(super) fn on_outdated(&mut self, segment: &Segment) -> u64 {
        self.ack_now = true;
        let (start, end) = (segment.seq, (segment.seq + u64::from(segment.len)).min(self.nxt));
        if start < end {
            self.report_duplicate(start, end);
        }
        end.saturating_sub(start)
    }

    /// Timestamps and ECN of any segment. Returns whether it brought a congestion mark.
    #[inline(always)]
    pub(super) fn on_header(&mut self, segment: &Segment, ecn: Ecn) -> bool {
        if let Some((value, _)) = segment.timestamps
            && segment.seq <= self.last_ack_sent
            && segment.seq + u64::from(segment.len) >= self.last_ack_sent
            && !(-DAY_MS..0).contains(&(value.wrapping_sub(self.ts_recent) as i32))
        {
            // RFC 7323 section 4.3: the earliest unacknowledged segment's value is echoed. One that came before is outside the window (Linux
            // tcp_sequence): a needless retransmission does not take the timestamp ahead.
            self.ts_recent = value;
        }
        self.echo.is_on() && self.on_ecn(segment.flags, segment.seq, segment.len, ecn)
    }

    /// ECN of any segment. Returns whether it brought a congestion mark.
    #[inline(never)]
    fn on_ecn(&mut self, flags: Flags, seq: u64, len: u32, ecn: Ecn) -> bool {
        if ecn == Ecn::Ce && self.unusual.any(Unusual::HIDING) {
            self.on_ecn(flags, seq, len, Ecn::NotEct);
            return len > 0;
        }
        let noted = self.echo.on_segment(flags, len > 0, ecn == Ecn::Ce, self.unacked > 0);
        self.count_bytes(seq, len, ecn);
        if noted.turned {
            self.on_turn();
        }
        self.ack_now |= noted.urgent;
        noted.marked
    }

    /// The echo has turned: what came before is acknowledged with the echo of then, and the segment at hand at once (RFC 8257 section 3.2).
    fn on_turn(&mut self) {
        self.early = (self.nxt - self.last_ack_sent).min(u64::from(HANDSHAKE - 1)) as u32;
        self.ack_now = true;
    }

    /// Timestamps option of a segment sent now.
    #[inline]
    pub(super) fn timestamp_option(&self, now: Timestamp) -> Option<(u32, u32)> {
        self.timestamps.then(|| (now.as_millis() as u32, self.ts_recent))
    }

    /// A segment without payload that acknowledges all there is. The acknowledgement counts as sent.
    #[inline]
    pub(super) fn header(&mut self, now: Timestamp, seq: u64) -> Segment {
        Segment {
            seq,
            window: self.acknowledge(false),
            ack: self.nxt,
            timestamps: self.timestamp_option(now),
            flags: Flags::ACK.with(self.echo.flags()),
            ..Segment::default()
        }
    }

    /// The receiver's fields of a SYN.
    pub(super) fn syn_header(&mut self, now: Timestamp) -> Segment {
        let window = self.acknowledge(true);
        Segment { window, ack: self.nxt, timestamps: self.timestamp_option(now), ..Segment::default() }
    }

    /// The next pure acknowledgement, with SACK blocks and the AccECN option if there are any.
    pub(super) fn make_ack(&mut self, now: Timestamp, seq: u64) -> Segment {
        if self.unusual.any(Unusual::MISBEHAVING) {
            self.make_false_ack(now, seq)
        } else {
            self.make_true_ack(now, seq)
        }
    }

    fn make_true_ack(&mut self, now: Timestamp, seq: u64) -> Segment {
        if self.is_early_due() {
            return self.make_early_ack(now, seq);
        }
        let mut segment = self.header(now, seq);
        let mut others = if self.timestamps { 12 } else { 0 };
        let option = self.take_accecn_option(others);
        if self.has_sack() {
            others += option.map_or(0, |option| option.len());
            // Four blocks alone, or three beside timestamps (RFC 2018 section 3).
            let blocks = self.sack_blocks(sack_room(others));
            if self.sack {
                segment.sack = blocks;
            }
        }
        if let Some(option) = option {
            segment.set_accecn(&option);
        }
        segment
    }

    /// The first acknowledgement, or that of what had come before the echo turned. That of the rest follows.
    fn make_early_ack(&mut self, now: Timestamp, seq: u64) -> Segment {
        let (nxt, echo) = (self.nxt, self.echo);
        let early = std::mem::take(&mut self.early);
        if early >= HANDSHAKE {
            self.echo = echo.saying((early - HANDSHAKE) as u8);
            let mut segment = self.header(now, seq);
            self.echo = echo;
            self.add_all_counters(&mut segment);
            return segment;
        }
        self.nxt = self.last_ack_sent + u64::from(early);
        self.echo = echo.before();
        let segment = self.header(now, seq);
        self.unacked = (nxt - self.nxt).min(u64::from(u32::MAX)) as u32;
        (self.nxt, self.echo, self.ack_now) = (nxt, echo, true);
        segment
    }

    /// Whether an acknowledgement is to be sent before anything else: of what had come before the echo turned, or the first one.
    #[inline]
    pub(super) fn is_early_due(&self) -> bool {
        self.early > 0
    }
    /// Whether there are SACK blocks or a D-SACK to send.
    #[inline]
    fn has_sack(&self) -> bool {
        self.unusual.any(Unusual::GAP) && !self.recent().is_empty() || self.dsack.is_some()
    }
    /// Whether the acknowledgement that is due is more than the state of things: it has SACK blocks or the AccECN option, or an earlier one goes
    /// first, or the receiver misbehaves.
    #[inline]
    pub(super) fn is_ack_special(&self) -> bool {
        self.unusual.any(Unusual::GAP | Unusual::OPTION | Unusual::MISBEHAVING) && self.has_feedback()
            || self.dsack.is_some()
            || self.is_early_due()
    }
    /// Whether there are ranges to report, or bytes that came marked, or acknowledgements are false.
    fn has_feedback(&self) -> bool {
        self.unusual.any(Unusual::OPTION | Unusual::MISBEHAVING) || !self.recent().is_empty()
    }
    /// The out-of-order ranges that changed last, most recent first.
    fn recent(&self) -> &[(u64, u64)] {
        self.ahead.as_ref().map_or(&[], |ahead| ahead.recent())
    }
    /// Payload bytes received in order.
    #[inline]
    pub(super) fn delivered(&self) -> u64 {
        self.nxt.saturating_sub(1 + u64::from(self.fin_received()))
    }
    /// In-order bytes the application has not taken.
    pub(super) fn unread(&self) -> u64 {
        if self.auto_read { 0 } else { (self.delivered() + 1).saturating_sub(self.read) }
    }
    /// The application takes up to `max` bytes. Returns how many, and makes a window update due if it opens by enough
    /// (RFC 1122 section 4.2.3.3).
    pub(super) fn take(&mut self, max: u64) -> u64 {
        let bytes = self.unread().min(max);
        self.read += bytes;
        if bytes > 0 && self.nxt > 0 {
            let offered = self.edge.saturating_sub(self.nxt);
            let possible = self.right_edge() - self.nxt;
            let step = (self.buffer / 2).min(u64::from(self.full.max(536))).max(1 << self.scale);
            if possible >= offered + step.min(self.buffer) && offered < self.offer / 2 {
                self.ack_now = true;
            }
        }
        bytes
    }
    /// Sets whether the application takes bytes at once.
    pub(super) fn set_auto_read(&mut self, on: bool) {
        self.read = (self.delivered() + 1).saturating_sub(self.unread());
        self.auto_read = on;
        if on {
            self.read = self.delivered() + 1;
            self.ack_now |= self.nxt > 0 && self.edge < self.nxt + self.offer / 2;
        }
    }

    /// Right edge to offer: never less than offered, and not moved by less than a segment or half the buffer unless all is
    /// free (receiver side of silly window avoidance, RFC 1122 section 4.2.3.3).
    fn right_edge(&self) -> u64 {
        if self.auto_read {
            return self.edge.max(self.nxt + self.offer);
        }
        let free = self.buffer.saturating_sub(self.unread()).min(self.offer) >> self.scale << self.scale;
        let step = u64::from(self.full).min(self.buffer / 2);
        let edge = self.nxt + free;
        let moves = edge >= self.edge + step || free == self.offer;
        // A FIN may have come one past the edge.
        if moves { edge.max(self.edge) } else { self.edge.max(self.nxt) }
    }

    /// The window to send in an acknowledgement now. The acknowledgement counts as sent.
    #[inline]
    fn acknowledge(&mut self, syn: bool) -> u32 {
        self.ack_now = false;
        self.unacked = 0;
        self.delayed_until = Timestamp::NEVER;
        self.last_ack_sent = self.nxt;
        let whole = self.nxt + self.offer;
        let window = if self.auto_read && whole >= self.edge && !syn {
            // The usual case. The offer is a multiple of the scale that windows can express.
            debug_assert_eq!(self.offer, self.partial_window(false));
            self.offer
        } else {
            self.partial_window(syn)
        };
        self.edge = self.edge.max(self.nxt + window);
        window as u32
    }

    #[inline(never)]
    fn partial_window(&self, syn: bool) -> u64 {
        if syn {
            // Windows of SYN segments are not scaled (RFC 7323 section 2.2).
            return self.offer.min(65_535);
        }
        let window = self.right_edge() - self.nxt;
        let unit = (1u64 << self.scale) - 1;
        ((window + unit) & !unit).min(65_535 << self.scale)
    }

    /// `len` bytes of payload arrived in order, and nothing is missing: the common case.
    #[inline(always)]
    pub(super) fn on_in_order(&mut self, now: Timestamp, len: u32) {
        self.nxt += u64::from(len);
        if len > self.full {
            self.note_full(len);
        }
        self.unacked = self.unacked.saturating_add(len);
        self.schedule(now, false);
    }

    /// Whether [`on_in_order`](Self::on_in_order) applies to `start..end`.
    #[inline(always)]
    pub(super) fn is_simple(&self, start: u64, end: u64) -> bool {
        start == self.nxt
            && !self.unusual.any(Unusual::GAP | Unusual::STEERED | Unusual::OPENING | Unusual::MISBEHAVING)
            && end <= self.edge
            && self.fin_at == NO_FIN
            && self.unread() == 0
    }

    /// A segment with `len` bytes of payload arrived.
    #[inline(never)]
    fn note_full(&mut self, len: u32) {
        if self.full == 0 {
            let half = self.buffer / (2 * u64::from(len.max(1)));
            self.quick = self.quick.min(if half == 0 { 2 } else { half.min(u64::from(u32::MAX)) as u32 });
        }
        self.full = self.full.max(len);
        self.ack_at = u32::from(self.ack_after).saturating_mul(self.full);
    }

    #[inline(always)]
    fn schedule(&mut self, now: Timestamp, at_once: bool) {
        // Linux and RFC 5681 alike: at least every second full-sized segment.
        if at_once || self.quick > 0 || self.unacked >= self.ack_at {
            self.quick = self.quick.saturating_sub(1);
            self.ack_now = true;
        } else if !self.delayed_until.is_set() {
            if self.delay.is_zero() {
                self.ack_now = true;
            } else {
                self.delayed_until = now + self.delay;
            }
        }
    }

    /// Any segment with sequence space `start..end`, which includes a FIN if `fin`.
    ///
    /// Of several FINs, the first in order counts, as in Linux (`tcp_ofo_queue`). Ignored are an old FIN, one that
    /// lies within later payload, and everything after the FIN that counts (RFC 9293 section 3.10.7.4, steps seven
    /// and eight).
    pub(super) fn on_data(&mut self, now: Timestamp, start: u64, end: u64, fin: bool) -> Arrived {
        let payload_end = end - u64::from(fin);
        // A FIN may lie one past the window: it takes no buffer.
        let within = self.edge.max(self.nxt);
        let (end, fin) = if payload_end > within { (within, false) } else { (end, fin) };
        let end = if self.fin_received() { end.min(self.nxt) } else { end };
        if start >= end {
            self.ack_now = true;
            return Arrived::default();
        }
        let len = (payload_end - start).min(u64::from(u32::MAX)) as u32;
        if len > self.full {
            self.note_full(len);
        }
        if end <= self.nxt {
            self.report_duplicate(start, end);
            return Arrived { duplicate: end - start, missing: 0 };
        }
        let missing = self.pass_over(start);
        let mut duplicate = 0;
        let from = start.max(self.nxt);
        if start < self.nxt {
            duplicate += self.nxt - start;
            self.report_duplicate(start, self.nxt);
        }
        if from == self.nxt {
            self.open_window(len);
            let had_gap = self.unusual.any(Unusual::GAP);
            self.nxt = end;
            if fin {
                self.fin_at = end - 1;
            } else if self.fin_at < end {
                self.fin_at = NO_FIN;
            }
            if had_gap {
                duplicate += self.join_ahead();
            }
            self.unacked = self.unacked.saturating_add((end - from) as u32);
            // A segment that fills a gap, or any while a gap remains, is acknowledged at once (RFC 5681 section 4.2).
            self.schedule(now, had_gap || fin || duplicate > 0);
        } else {
            let overlap = self.ahead.get_or_insert_default().insert(from, end);
            self.unusual.set(Unusual::GAP, true);
            // Without SACK the acknowledgement must be a duplicate, with the window of the last one, to start fast retransmit (Linux tcp_data_queue_ofo).
            if overlap.bytes < end - from && self.sack {
                self.open_window(len);
            }
            duplicate += self.report_overlap(overlap);
            if fin {
                self.fin_at = self.fin_at.min(end - 1);
            }
            self.ack_now = true;
        }
        Arrived { duplicate, missing }
    }

    /// Ranges that the data in order reaches become part of it, up to the FIN. Returns how much had arrived before.
    fn join_ahead(&mut self) -> u64 {
        let Some(ahead) = &mut self.ahead else { return 0 };
        let last = self.fin_at.saturating_add(1);
        let (nxt, overlap) = ahead.join(self.nxt, last);
        if nxt == last {
            ahead.clear();
        }
        self.unusual.set(Unusual::GAP, !ahead.ranges().is_empty());
        self.nxt = nxt;
        self.report_overlap(overlap)
    }

    fn report_duplicate(&mut self, start: u64, end: u64) {
        self.ack_now = true;
        if self.dsack_on {
            self.dsack = NonZeroU64::new(end).map(|end| (start, end));
        }
    }

    /// Reports the part of a segment that had arrived before, unless a lower one is reported. Returns its size.
    fn report_overlap(&mut self, overlap: Overlap) -> u64 {
        if let Some((start, end)) = overlap.first.filter(|_| self.dsack_on && self.dsack.is_none()) {
            self.dsack = NonZeroU64::new(end).map(|end| (start, end));
        }
        overlap.bytes
    }

    /// Whether the other side's FIN has been received, with everything before it.
    #[inline]
    pub(super) fn fin_received(&self) -> bool {
        self.nxt > self.fin_at
    }

    /// The blocks for an acknowledgement, at most `room`: the D-SACK first (RFC 2883 section 4), then the ranges that
    /// changed most recently. A D-SACK is sent once.
    fn sack_blocks(&mut self, room: usize) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        let (nxt, dsack) = (self.nxt, self.dsack.take());
        let recent = self.recent();
        if let Some((start, end)) = dsack {
            let end = end.get();
            blocks.push(nxt, start, end);
            // A duplicate within a range is followed by that range.
            let ranges = self.ahead.as_ref().map_or(&[][..], |ahead| ahead.ranges());
            if start >= nxt
                && let Some(range) = ranges.iter().find(|&&(s, e)| s <= start && end <= e)
                && recent.first() != Some(range)
            {
                blocks.push(nxt, range.0, range.1);
            }
        }
        for &(start, end) in recent {
            if blocks.len() >= room {
                break;
            }
            blocks.push(nxt, start, end);
        }
        blocks
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
