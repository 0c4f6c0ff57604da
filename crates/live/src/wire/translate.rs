//! One connection's numbers: from the simulator's 64-bit stream positions to the 32 bits of the wire and back.
//!
//! | | [`Segment`] | [`WireSegment`] |
//! |---|---|---|
//! | sequence numbers | position, the SYN is 0, never wraps | position + initial sequence number, modulo 2^32 |
//! | window | bytes | bytes >> shift, in a SYN bytes (RFC 7323 section 2.2) |
//! | timestamps | milliseconds of the run | plus an offset, by connection; the peer's so that its clock looks like ours |
//! | SACK blocks | offsets from `ack` | sequence numbers |
//!
//! A simulated peer is honest, a real one may be anything. Segments that a stack refuses before its state machine sees them are refused here,
//! so that the state machine stays the simulator's: the acceptability test of RFC 9293 section 3.10.7.4, RFC 5961 (blind
//! resets, SYNs and acknowledgements), and PAWS (RFC 7323 section 5) where there is no payload.
//!
//! Departures: a segment without timestamps is accepted even if they were agreed, as in Linux; data in a SYN is ignored (RFC 9293
//! section 3.4 allows it; its sender sends it again), and so is a FIN.

use warpline_core::{Flags, SackBlocks, Segment, SynOptions, TimeDelta, Timestamp};

use super::codec::{self, WireSack, WireSegment};
use crate::icmp::is_single;
use crate::ip::{IpDatagram, IpHeader, TCP};

/// Largest shift of a window (RFC 7323 section 2.3: a larger one counts as this).
const MAX_SHIFT: u8 = 14;
/// Smallest credible MSS, as in Linux (`tcp_min_snd_mss`): less would be a packet for a few bytes.
const MIN_MSS: u16 = 48;
/// Challenge acknowledgements of one connection are this far apart (RFC 5961 section 7; Linux `tcp_invalid_ratelimit`).
const CHALLENGE_INTERVAL: TimeDelta = TimeDelta::from_millis(500);
/// By how many milliseconds a peer's clock is shifted ahead of ours: enough that clocks that drift apart do not let it fall
/// behind within a run.
const CLOCK_LEAD: u32 = 60_000;
/// A timestamp this far below the latest one is as old as a reordered segment may be (Linux `TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;
/// Timestamps older than this are not compared: they may have wrapped (RFC 7323 section 5.5).
const PAWS_IDLE: TimeDelta = TimeDelta::from_secs(24 * 24 * 3600);
/// URG: the urgent pointer counts. It is ignored: RFC 6093 advises against its use.
const URG: u16 = 0x20;

/// What to do with an incoming segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Pass it to the connection. Its payload is all of the segment's, if [`Segment::len`] says so, or none.
    Deliver(Segment),
    /// Drop it silently.
    Drop(Refusal),
    /// Drop it and send an acknowledgement ([`Translator::acknowledgement`]).
    Acknowledge(Refusal),
    /// Drop it and answer with this reset.
    Reset(WireSegment),
}

/// Why a segment is not passed to the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No part of it is in the window (RFC 9293 section 3.10.7.4).
    OutsideWindow,
    /// It acknowledges data that was never sent, or that was acknowledged too long ago (RFC 5961 section 5.2).
    Acknowledgement,
    /// A SYN on an established connection (RFC 5961 section 4.2).
    Syn,
    /// Its timestamp is older than that of an earlier segment of the stream (RFC 7323 section 5.3).
    Timestamp,
    /// It is invalid before the SYNs have been exchanged.
    Unsynchronised,
}

/// The numbers of one connection.
#[derive(Clone, Debug)]
pub struct Translator {
    local_port: u16,
    peer_port: u16,
    /// Our initial sequence number.
    isn: u32,
    /// The peer's, when its SYN has arrived.
    peer_isn: Option<u32>,
    /// MSS of a peer that states none.
    default_mss: u16,
    /// Added to our timestamps.
    clock_offset: u32,
    /// Added to the peer's timestamps.
    peer_clock_offset: u32,
    /// The peer's SYN had timestamps, and ours.
    timestamps: [bool; 2],
    /// SACK was permitted by the peer's SYN, and by ours.
    sack: [bool; 2],
    /// Window shift in the peer's SYN, and in ours.
    shifts: [Option<u8>; 2],
    /// Next position expected from the peer, as last acknowledged.
    next_in: u64,
    /// Right edge of the window last offered.
    edge_in: u64,
    /// Next position to send.
    next_out: u64,
    /// Oldest position not acknowledged.
    una: u64,
    /// Largest window that the peer offered.
    max_window: u32,
    /// Latest timestamp of the peer (RFC 7323 TS.Recent), shifted to our clock, and when it arrived.
    recent: Option<(u32, Timestamp)>,
    /// When a challenge may be sent again.
    challenge_at: Timestamp,
    /// Window field of the last acknowledgement.
    last_window: u16,
}

const PEER: usize = 0;
const OURS: usize = 1;

impl Translator {
    /// A connection between two ports. `isn` is its initial sequence number and `clock_offset` the shift of its timestamps;
    /// both should be random (RFC 9293 section 3.4.1, RFC 7323 section 7.1). A peer that states no MSS has 536 bytes over IPv4, 1220
    /// over IPv6 (RFC 9293 section 3.7.1).
    pub fn new(local_port: u16, peer_port: u16, v6: bool, isn: u32, clock_offset: u32) -> Self {
        Translator {
            local_port,
            peer_port,
            isn,
            peer_isn: None,
            default_mss: if v6 { 1220 } else { 536 },
            clock_offset,
            peer_clock_offset: 0,
            timestamps: [false; 2],
            sack: [false; 2],
            shifts: [None; 2],
            next_in: 0,
            edge_in: 0,
            next_out: 0,
            una: 0,
            max_window: 0,
            recent: None,
            challenge_at: Timestamp::ZERO,
            last_window: 0,
        }
    }

    /// The shift of `side`'s windows: none unless both SYNs offered one (RFC 7323 section 2.2).
    fn shift(&self, side: usize) -> u8 {
        match (self.shifts[side], self.shifts[1 - side]) {
            (Some(shift), Some(_)) => shift,
            _ => 0,
        }
    }

    fn timestamps_agreed(&self) -> bool {
        self.timestamps == [true; 2]
    }

    fn wire_out(&self, position: u64) -> u32 {
        self.isn.wrapping_add(position as u32)
    }

    fn wire_in(&self, position: u64) -> u32 {
        self.peer_isn.unwrap_or(0).wrapping_add(position as u32)
    }

    /// The position nearest to `near` that a number on the wire can stand for; negative before the SYN.
    fn unwrap(number: u32, wire_near: u32, near: u64) -> i64 {
        near as i64 + i64::from(number.wrapping_sub(wire_near) as i32)
    }

    // ---- Sending ----

    /// The segment on the wire. To be called for every segment that the connection sends, in that order.
    pub fn outgoing(&mut self, segment: &Segment) -> WireSegment {
        let flags = segment.flags;
        let (syn, rst) = (flags.contains(Flags::SYN), flags.contains(Flags::RST));
        let mut wire = WireSegment {
            source_port: self.local_port,
            destination_port: self.peer_port,
            seq: self.wire_out(segment.seq),
            flags,
            ..WireSegment::default()
        };
        if flags.contains(Flags::ACK) {
            wire.ack = self.wire_in(segment.ack);
        }
        if let Some((value, echo)) = segment.timestamps {
            let value = value.wrapping_add(self.clock_offset);
            // Without ACK there is nothing to echo (RFC 7323 section 3.2).
            let echo = if flags.contains(Flags::ACK) { echo.wrapping_sub(self.peer_clock_offset) } else { 0 };
            wire.timestamps = Some((value, echo));
        }
        if syn {
            self.shifts[OURS] = segment.syn.window_scale;
            self.sack[OURS] = segment.syn.sack_permitted;
            self.timestamps[OURS] = segment.timestamps.is_some();
            wire.mss = Some(segment.syn.mss);
            wire.window_scale = segment.syn.window_scale;
            wire.sack_permitted = segment.syn.sack_permitted;
        }
        let shift = if syn { 0 } else { self.shift(OURS) };
        wire.window = u16::try_from(segment.window >> shift).unwrap_or(u16::MAX);
        for (start, end) in segment.sack.iter(segment.ack) {
            wire.sack.push(self.wire_in(start), self.wire_in(end));
        }
        wire.accecn = segment.accecn();
        if !rst {
            self.next_out = self.next_out.max(segment.seq + segment.seq_len());
            if flags.contains(Flags::ACK) {
                self.next_in = self.next_in.max(segment.ack);
                self.edge_in = self.edge_in.max(segment.ack + (u64::from(wire.window) << shift));
                self.last_window = wire.window;
            }
        }
        wire
    }

    /// An acknowledgement of data that was already acknowledged: the answer to [`Incoming::Acknowledge`].
    pub fn acknowledgement(&self, now: Timestamp) -> WireSegment {
        let timestamps = self.timestamps_agreed().then(|| {
            let echo = self.recent.map_or(0, |(value, _)| value.wrapping_sub(self.peer_clock_offset));
            ((now.as_millis() as u32).wrapping_add(self.clock_offset), echo)
        });
        WireSegment {
            source_port: self.local_port,
            destination_port: self.peer_port,
            seq: self.wire_out(self.next_out),
            ack: self.wire_in(self.next_in),
            flags: Flags::ACK,
            window: self.last_window,
            timestamps,
            ..WireSegment::default()
        }
    }

    // ---- Receiving ----

    /// A segment of `len` payload bytes from the peer's port to ours.
    pub fn incoming(&mut self, now: Timestamp, wire: &WireSegment, len: usize) -> Incoming {
        let flags = Flags(wire.flags.0 & !URG);
        let (syn, rst, acks) =
            (flags.contains(Flags::SYN), flags.contains(Flags::RST), flags.contains(Flags::ACK));
        let ack = Self::unwrap(wire.ack, self.wire_out(self.una), self.una);
        let ack_in_order = ack >= 0 && ack as u64 >= self.una && ack as u64 <= self.next_out;
        if self.una == 0 && acks && !(ack_in_order && ack > 0) {
            // Our SYN is not acknowledged, and this acknowledges something else, from an earlier connection (RFC 9293 section
            // 3.10.7.3, and 3.10.7.4 for SYN-RECEIVED).
            if rst {
                return Incoming::Drop(Refusal::Acknowledgement);
            }
            return Incoming::Reset(reset_for(wire));
        }
        if self.peer_isn.is_none() {
            if rst {
                // Of our SYN: a position without a number yet is 0.
                let segment = Segment { ack: ack as u64, flags, ..Segment::default() };
                return if acks {
                    Incoming::Deliver(segment)
                } else {
                    Incoming::Drop(Refusal::Unsynchronised)
                };
            }
            if !syn {
                return Incoming::Drop(Refusal::Unsynchronised);
            }
            self.learn(now, wire);
        } else if syn && !rst {
            // RFC 5961 section 4.2, whatever the sequence number; but the connection handles a repetition of the peer's own SYN.
            if self.peer_isn != Some(wire.seq) || (acks && (ack < 0 || ack as u64 > self.next_out)) {
                return self.challenge(now, Refusal::Syn);
            }
        }
        if syn && !rst {
            // The acknowledgement of our SYN, or an old SYN/ACK again: both were handled above.
            let ack = if acks { ack.max(0) as u64 } else { 0 };
            self.una = self.una.max(ack);
            return Incoming::Deliver(self.syn_segment(wire, flags, ack));
        }
        self.synchronised(now, wire, flags, len, ack)
    }

    /// Learns from the peer's SYN.
    fn learn(&mut self, now: Timestamp, wire: &WireSegment) {
        self.peer_isn = Some(wire.seq);
        self.next_in = 0;
        self.edge_in = 1;
        self.shifts[PEER] = wire.window_scale.map(|shift| shift.min(MAX_SHIFT));
        self.sack[PEER] = wire.sack_permitted;
        self.timestamps[PEER] = wire.timestamps.is_some();
        if let Some((value, _)) = wire.timestamps {
            let ours = (now.as_millis() as u32).wrapping_add(CLOCK_LEAD);
            self.peer_clock_offset = ours.wrapping_sub(value);
            self.recent = Some((ours, now));
        }
    }

    fn timestamps_in(&self, wire: &WireSegment, acks: bool) -> Option<(u32, u32)> {
        wire.timestamps.map(|(value, echo)| {
            let echo = if acks { echo.wrapping_sub(self.clock_offset) } else { 0 };
            (value.wrapping_add(self.peer_clock_offset), echo)
        })
    }

    fn syn_segment(&mut self, wire: &WireSegment, flags: Flags, ack: u64) -> Segment {
        let acks = flags.contains(Flags::ACK);
        self.max_window = self.max_window.max(u32::from(wire.window));
        let mut segment = Segment {
            seq: 0,
            ack,
            len: 0,
            window: u32::from(wire.window),
            timestamps: self.timestamps_in(wire, acks),
            sack: SackBlocks::NONE,
            syn: SynOptions {
                mss: wire.mss.unwrap_or(self.default_mss).max(MIN_MSS),
                window_scale: self.shifts[PEER],
                sack_permitted: wire.sack_permitted,
            },
            flags: Flags(flags.0 & !(Flags::FIN.0 | Flags::PSH.0)),
        };
        if let Some(option) = &wire.accecn {
            segment.set_accecn(option);
        }
        segment
    }

    /// Handles anything after the SYNs (RFC 9293 section 3.10.7.4).
    fn synchronised(
        &mut self,
        now: Timestamp,
        wire: &WireSegment,
        flags: Flags,
        len: usize,
        ack: i64,
    ) -> Incoming {
        let (rst, acks) = (flags.contains(Flags::RST), flags.contains(Flags::ACK));
        // A SYN in a reset takes no room.
        let flags = Flags(flags.0 & !Flags::SYN.0);
        let seq = Self::unwrap(wire.seq, self.wire_in(self.next_in), self.next_in);
        let end = seq + len as i64 + i64::from(flags.contains(Flags::FIN));
        // A FIN or a probe may lie right behind the window. Old segments go to the connection, which answers and reports
        // duplicates, unless they are older than any of the windows offered.
        let oldest =
            self.next_in.saturating_sub((self.edge_in - self.next_in).max(u64::from(u16::MAX) + 1)) as i64;
        let outside = seq > self.edge_in as i64 || end < oldest || seq < 0;
        if rst {
            if outside || seq < self.next_in as i64 {
                return Incoming::Drop(Refusal::OutsideWindow);
            }
            return Incoming::Deliver(Segment {
                seq: seq as u64,
                ack: ack.max(0) as u64,
                flags,
                ..Segment::default()
            });
        }
        if let Some(refused) = self.refused_by_timestamp(now, wire, (seq, end, len)) {
            return refused;
        }
        if outside {
            return self.challenge(now, Refusal::OutsideWindow);
        }
        if !acks {
            return Incoming::Drop(Refusal::Acknowledgement);
        }
        let oldest_ack = self.una as i64 - i64::from(self.max_window).max(i64::from(u16::MAX));
        if ack > self.next_out as i64 || ack < oldest_ack.max(0) {
            return self.challenge(now, Refusal::Acknowledgement);
        }
        let ack = ack as u64;
        self.una = self.una.max(ack);
        // The SYN's own position, to which a keep-alive's byte may belong.
        let (seq, len) = if seq == 0 && len > 0 { (1, len - 1) } else { (seq, len) };
        let window = u32::from(wire.window) << self.shift(PEER);
        self.max_window = self.max_window.max(window);
        let mut segment = Segment {
            seq: seq as u64,
            ack,
            len: len as u32,
            window,
            timestamps: self.timestamps_in(wire, true).filter(|_| self.timestamps_agreed()),
            sack: self.sack_in(&wire.sack, ack),
            syn: SynOptions::default(),
            flags,
        };
        if let Some(option) = &wire.accecn {
            segment.set_accecn(option);
        }
        Incoming::Deliver(segment)
    }

    /// PAWS (RFC 7323 section 5.3); keeps TS.Recent (section 4.3).
    fn refused_by_timestamp(
        &mut self,
        now: Timestamp,
        wire: &WireSegment,
        (seq, end, len): (i64, i64, usize),
    ) -> Option<Incoming> {
        if !self.timestamps_agreed() {
            return None;
        }
        let (value, _) = self.timestamps_in(wire, true)?;
        let ahead = self.recent.map_or(0, |(recent, _)| value.wrapping_sub(recent) as i32);
        let fresh = self.recent.is_some_and(|(_, at)| now.saturating_since(at) < PAWS_IDLE);
        if ahead < -PAWS_WINDOW && fresh {
            // An old acknowledgement that the network reordered needs no answer. With payload, the connection refuses it, since it reports what
            // came twice.
            return match (end == seq, len) {
                (true, _) => Some(Incoming::Drop(Refusal::Timestamp)),
                (false, 0) => Some(self.challenge(now, Refusal::Timestamp)),
                (false, _) => None,
            };
        }
        if (ahead >= 0 || !fresh) && seq <= self.next_in as i64 && end >= self.next_in as i64 {
            self.recent = Some((value, now));
        }
        None
    }

    /// The peer's SACK blocks, if plausible.
    fn sack_in(&self, sack: &WireSack, ack: u64) -> SackBlocks {
        let mut blocks = SackBlocks::NONE;
        if self.sack != [true; 2] {
            return blocks;
        }
        for &(left, right) in sack.blocks() {
            let start = Self::unwrap(left, self.wire_out(ack), ack);
            let end = Self::unwrap(right, self.wire_out(ack), ack);
            if 0 < start && start < end && end <= self.next_out as i64 {
                blocks.push(ack, start as u64, end as u64);
            }
        }
        blocks
    }

    /// Drops a segment and requests an acknowledgement, unless one was sent recently: two stacks that disagree would answer each other
    /// for ever.
    fn challenge(&mut self, now: Timestamp, refusal: Refusal) -> Incoming {
        if now < self.challenge_at {
            return Incoming::Drop(refusal);
        }
        self.challenge_at = now + CHALLENGE_INTERVAL;
        Incoming::Acknowledge(refusal)
    }

    /// Whether a number of ours was sent and is not acknowledged: an ICMP error must quote such a number to be believed (RFC 5927
    /// section 4).
    pub fn is_outstanding(&self, number: u32) -> bool {
        let position = Self::unwrap(number, self.wire_out(self.una), self.una);
        position >= self.una as i64 && position < self.next_out as i64
    }

    /// Whether a SYN that meets this connection in TIME-WAIT begins a new one: its number, or its timestamp, is beyond all of this one's
    /// (RFC 9293 section 3.10.7.4, RFC 6191).
    pub fn is_succeeded_by(&self, syn: &WireSegment) -> bool {
        let newer = match (self.recent, syn.timestamps) {
            (Some((recent, _)), Some((value, _))) if self.timestamps_agreed() => {
                value.wrapping_add(self.peer_clock_offset).wrapping_sub(recent) as i32 > 0
            }
            _ => false,
        };
        newer || syn.seq.wrapping_sub(self.wire_in(self.next_in)) as i32 > 0
    }
}

/// The reset that answers a segment without a connection (RFC 9293 section 3.10.7.1). Do not send it in answer to a
/// reset.
pub fn reset_for(wire: &WireSegment) -> WireSegment {
    let reset = WireSegment {
        source_port: wire.destination_port,
        destination_port: wire.source_port,
        flags: Flags::RST,
        ..WireSegment::default()
    };
    if wire.flags.contains(Flags::ACK) {
        return WireSegment { seq: wire.ack, ..reset };
    }
    reset
}

/// Like [`reset_for`] if the segment acknowledges nothing: `len` is its payload's length in bytes.
pub fn reset_with_ack(wire: &WireSegment, len: usize) -> WireSegment {
    let control = u32::from(wire.flags.contains(Flags::SYN)) + u32::from(wire.flags.contains(Flags::FIN));
    let reset = reset_for(wire);
    if wire.flags.contains(Flags::ACK) {
        return reset;
    }
    WireSegment {
        ack: wire.seq.wrapping_add(len as u32).wrapping_add(control),
        flags: Flags::RST.with(Flags::ACK),
        ..reset
    }
}

/// The datagram that refuses a TCP segment to a port where nothing listens: a reset; `None` if the segment is one itself.
pub fn refuse(datagram: &IpDatagram<'_>) -> Option<Vec<u8>> {
    let (wire, payload) = codec::parse(datagram).ok()?;
    if wire.flags.contains(Flags::RST) || !is_single(datagram.header.source) {
        return None;
    }
    let back = IpHeader::new(datagram.header.destination, datagram.header.source, TCP);
    let mut out = Vec::new();
    codec::write(&mut out, &back, &reset_with_ack(&wire, payload.len()), 0, |_| ()).ok()?;
    Some(out)
}

#[cfg(test)]
#[path = "translate_tests.rs"]
mod tests;
