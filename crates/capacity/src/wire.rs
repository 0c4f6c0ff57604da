//! Cap's messages, version 1, one in each UDP datagram. Numbers are in network byte order.
//!
//! Every message begins with the version, `0xB1`, and its kind. Before an address has shown that it receives what is sent to it, the
//! server keeps no state for it and never answers with more bytes than it received.
//!
//! | kind | from | content |
//! |---|---|---|
//! | 1 hello | client | nonce (16), padded to [`HELLO`] bytes |
//! | 2 cookie | server | nonce (16), time (8), cookie (16) |
//! | 3 open | client | nonce (16), time (8), cookie (16), options |
//! | 4 accept | server | nonce (16), token (8), duration granted in ms (4), rate granted in bit/s (8, 0 for any) |
//! | 5 refuse | server | nonce (16), or token (8) and eight zeros; reason (1), value (4) |
//! | 6 segment | both | see below |
//! | 7 finish | client | token (8): the client has sent everything; answer with a report |
//! | 8 report | server | token (8), counters |
//! | 9 close | client | token (8): the report has arrived; forget the session |
//!
//! With a pre-shared key the messages 3, 4, 7, 8 and 9 end with a code of 16 bytes over the sender's side and everything before; in a segment the code
//! covers its header and follows it. Message 3 is signed with the key itself, all others with one derived from it for the session, and so
//! are refusals of a server that has seen the key. Hello, cookie, and refusals of a server that has not are unsigned: a client with a key
//! treats such a refusal as a hint, and follows it only if nothing better arrives in time.
//!
//! A segment is a TCP header: flags (1, those of RFC 9293), shape (1), token (8), sequence number (4), acknowledgement (4),
//! window in bytes (4), then, depending on the shape, timestamps (4 and 4, milliseconds), the options of a SYN (MSS 2, scale 1, bits 1), what
//! goes with payload (length 2, zero 2, number of the transmission 4, time of sending in microseconds 4), and up to four SACK blocks
//! (distance from the acknowledgement 4, signed; length 4). Bits of the shape: 0-2 SACK blocks, 3 timestamps, 4 payload, 5 SYN options,
//! 6 sent by the server.
//!
//! A segment with payload is padded to the size on the wire that the emulated TCP segment would have; a pure acknowledgement is not,
//! and has 60 bytes with the IPv4 header where TCP's has 52.

use warpline_core::{Flags, SackBlocks, Segment, SynOptions};

use super::auth::{Key, TAG};
use super::bytes::{Reader, Writer};
use super::options::CapOptions;
use super::results::Report;

/// Version 1 of the protocol.
pub const VERSION: u8 = 0xb1;
/// Bytes of a hello: more than any answer to it.
pub const HELLO: usize = 64;
/// Bytes by which a TCP header is longer than a UDP header.
const TCP_LESS_UDP: usize = 12;

/// Why a server refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// It has as many clients as it accepts; the value is how many.
    Busy,
    /// It requires messages signed with its key, or the key is different.
    Key,
    /// It does not know the session: it was restarted, or has given it up.
    Unknown,
    /// The session's packets come from a different address than before.
    Moved,
    /// The client sent faster than it was granted.
    TooFast,
    /// The session lasted longer than it was granted.
    TooLong,
    /// The server is being stopped.
    Stopping,
    /// It uses another version; the value is which.
    Version,
    /// It cannot do what the options ask. The value is the code of the [`Bound`](super::Bound) that a client without a key must keep; zero
    /// if it does not understand the options.
    Options,
    /// The client's address has as many tests as allowed; the value is how many.
    Crowded,
    /// Full packets of the test are larger than the MTU of the server's interface, so that none can leave it. An older client does not
    /// know this reason, and ignores the message.
    TooLarge,
}

impl Refusal {
    const ALL: [Refusal; 11] = [
        Refusal::Busy,
        Refusal::Key,
        Refusal::Unknown,
        Refusal::Moved,
        Refusal::TooFast,
        Refusal::TooLong,
        Refusal::Stopping,
        Refusal::Version,
        Refusal::Options,
        Refusal::Crowded,
        Refusal::TooLarge,
    ];
}

/// A message other than a segment.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack, between its bytes and who handles it"
)]
pub(super) enum Message {
    Hello { nonce: [u8; 16] },
    Cookie { nonce: [u8; 16], time: u64, cookie: [u8; 16] },
    Open { nonce: [u8; 16], time: u64, cookie: [u8; 16], options: CapOptions },
    Accept { nonce: [u8; 16], token: u64, duration_ms: u32, rate_bps: u64 },
    Refuse { to: [u8; 16], reason: Refusal, value: u32 },
    Finish { token: u64 },
    Report { token: u64, report: Box<Report> },
    Close { token: u64 },
}

/// Kind of an opening.
pub(super) const OPEN: u8 = 3;
/// Kind of a segment.
pub(super) const SEGMENT: u8 = 6;

/// The session field of a refusal within a session.
pub(super) fn addressed(token: u64) -> [u8; 16] {
    let mut to = [0; 16];
    to[..8].copy_from_slice(&token.to_be_bytes());
    to
}

/// The byte that identifies the sender's side in a code.
fn side(from_server: bool) -> [u8; 1] {
    [u8::from(from_server)]
}

impl Message {
    const fn kind(&self) -> u8 {
        match self {
            Message::Hello { .. } => 1,
            Message::Cookie { .. } => 2,
            Message::Open { .. } => OPEN,
            Message::Accept { .. } => 4,
            Message::Refuse { .. } => 5,
            Message::Finish { .. } => 7,
            Message::Report { .. } => 8,
            Message::Close { .. } => 9,
        }
    }

    /// Whether messages of this kind come from clients, of those that [`read`](Self::read) reads.
    pub(super) const fn is_from_client(kind: u8) -> bool {
        matches!(kind, 1 | OPEN | 7 | 9)
    }

    /// Writes the message to the empty `out`, signed if there is a key.
    pub(super) fn write(&self, from_server: bool, key: Option<&Key>, out: &mut Vec<u8>) {
        let mut to = Writer::new(out);
        to.u8(VERSION);
        to.u8(self.kind());
        match self {
            Message::Hello { nonce } => to.bytes(nonce),
            Message::Cookie { nonce, time, cookie } => {
                to.bytes(nonce);
                to.u64(*time);
                to.bytes(cookie);
            }
            Message::Open { nonce, time, cookie, options } => {
                to.bytes(nonce);
                to.u64(*time);
                to.bytes(cookie);
                options.write(&mut to);
            }
            Message::Accept { nonce, token, duration_ms, rate_bps } => {
                to.bytes(nonce);
                to.u64(*token);
                to.u32(*duration_ms);
                to.u64(*rate_bps);
            }
            Message::Refuse { to: whom, reason, value } => {
                to.bytes(whom);
                to.u8(*reason as u8);
                to.u32(*value);
            }
            Message::Finish { token } | Message::Close { token } => to.u64(*token),
            Message::Report { token, report } => {
                to.u64(*token);
                report.write(&mut to);
            }
        }
        if let Message::Hello { .. } = self {
            out.resize(HELLO, 0);
        }
        if let Some(key) = key {
            let tag = key.tag(&[&side(from_server), out]);
            out.extend_from_slice(&tag);
        }
    }

    /// Reads a message. Does not check codes: see [`signed`].
    pub(super) fn read(bytes: &[u8]) -> Option<Message> {
        let mut from = Reader::new(bytes);
        if from.u8()? != VERSION {
            return None;
        }
        Some(match from.u8()? {
            1 if bytes.len() >= HELLO => Message::Hello { nonce: from.block()? },
            2 => Message::Cookie { nonce: from.block()?, time: from.u64()?, cookie: from.block()? },
            OPEN => Message::Open {
                nonce: from.block()?,
                time: from.u64()?,
                cookie: from.block()?,
                options: CapOptions::read(&mut from)?,
            },
            4 => Message::Accept {
                nonce: from.block()?,
                token: from.u64()?,
                duration_ms: from.u32()?,
                rate_bps: from.u64()?,
            },
            5 => Message::Refuse {
                to: from.block()?,
                reason: *Refusal::ALL.get(usize::from(from.u8()?))?,
                value: from.u32()?,
            },
            7 => Message::Finish { token: from.u64()? },
            8 => Message::Report { token: from.u64()?, report: Box::new(Report::read(&mut from)?) },
            9 => Message::Close { token: from.u64()? },
            _ => return None,
        })
    }
}

/// The beginning of an opening: nonce, time and cookie. Check them before anything else of it is read.
#[inline]
pub(super) fn read_opening(bytes: &[u8]) -> Option<([u8; 16], u64, [u8; 16])> {
    let mut from = Reader::new(bytes);
    let head = (from.u8()?, from.u8()?);
    let (nonce, time, cookie) = (from.block()?, from.u64()?, from.block()?);
    (head == (VERSION, OPEN)).then_some((nonce, time, cookie))
}

/// Whether the last bytes of a message are its code.
pub(super) fn signed(bytes: &[u8], from_server: bool, key: &Key) -> bool {
    bytes
        .split_last_chunk::<TAG>()
        .is_some_and(|(message, tag)| key.verify(&[&side(from_server), message], tag))
}

/// What goes with payload besides the TCP header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Stamp {
    /// Number of the transmission: unique for every segment with payload, also for retransmissions.
    pub number: u32,
    /// When it was sent, by the sender's clock, in microseconds; wraps after 71 minutes.
    pub sent_us: u32,
}

/// A segment as it crosses the network: 32-bit numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WireSegment {
    pub token: u64,
    pub from_server: bool,
    pub seq: u32,
    pub ack: u32,
    /// Everything else; its `seq` and `ack` are meaningless.
    pub rest: Segment,
    pub stamp: Option<Stamp>,
    /// SACK blocks as distance from `ack` and length.
    pub sack: [(i32, u32); 4],
    pub sack_len: u8,
}

const TIMESTAMPS: u8 = 8;
const PAYLOAD: u8 = 16;
const SYN_OPTIONS: u8 = 32;
const FROM_SERVER: u8 = 64;

/// Bytes of UDP payload that represent a segment with payload on the wire.
#[inline]
pub(super) fn padded(segment: &Segment) -> usize {
    (segment.len + segment.options_len()) as usize + TCP_LESS_UDP
}

/// Writes a segment to the end of `out`, without padding, and returns how many bytes it took.
#[inline]
pub(super) fn write_segment(
    out: &mut Vec<u8>,
    (token, from_server): (u64, bool),
    segment: &Segment,
    stamp: Stamp,
    key: Option<&Key>,
) -> usize {
    let start = out.len();
    let syn = segment.flags.contains(Flags::SYN);
    let blocks = segment.sack.len() as u8;
    let mut shape = blocks;
    shape |= if segment.timestamps.is_some() { TIMESTAMPS } else { 0 };
    shape |= if segment.len > 0 { PAYLOAD } else { 0 };
    shape |= if syn { SYN_OPTIONS } else { 0 };
    shape |= if from_server { FROM_SERVER } else { 0 };
    // One copy of a fixed size: the common case is a segment without SACK.
    let mut head = [0; 24];
    head[0] = VERSION;
    head[1] = SEGMENT;
    head[2] = flags_byte(segment.flags);
    head[3] = shape;
    head[4..12].copy_from_slice(&token.to_be_bytes());
    head[12..16].copy_from_slice(&(segment.seq as u32).to_be_bytes());
    head[16..20].copy_from_slice(&(segment.ack as u32).to_be_bytes());
    head[20..24].copy_from_slice(&segment.window.to_be_bytes());
    let mut to = Writer::new(out);
    to.bytes(&head);
    if let Some((value, echo)) = segment.timestamps {
        to.u32(value);
        to.u32(echo);
    }
    if syn {
        to.u16(segment.syn.mss);
        to.u8(segment.syn.window_scale.unwrap_or(255));
        to.u8(u8::from(segment.syn.sack_permitted));
    }
    if segment.len > 0 {
        to.u16(segment.len as u16);
        to.u16(0);
        to.u32(stamp.number);
        to.u32(stamp.sent_us);
    }
    for (start, end) in segment.sack.iter(segment.ack) {
        to.u32((start as i64 - segment.ack as i64) as i32 as u32);
        to.u32((end - start) as u32);
    }
    if let Some(key) = key {
        let tag = key.tag(&[&side(from_server), &out[start..]]);
        out.extend_from_slice(&tag);
    }
    out.len() - start
}

/// URG, which nothing here has: AE of Accurate ECN is in its place, where a peer that does not know it takes no notice.
const AE_BIT: u8 = 0x20;

/// Flags in one byte.
fn flags_byte(flags: Flags) -> u8 {
    flags.0 as u8 & !AE_BIT | if flags.contains(Flags::AE) { AE_BIT } else { 0 }
}

/// Flags of one byte.
fn flags_of(byte: u8) -> Flags {
    let flags = Flags(u16::from(byte & !AE_BIT));
    if byte & AE_BIT != 0 { flags.with(Flags::AE) } else { flags }
}

/// Reads a segment, and returns where its header ends. `None` for a datagram that is shorter than the payload that it claims to carry.
#[inline]
pub(super) fn read_segment(bytes: &[u8]) -> Option<(WireSegment, usize)> {
    let mut from = Reader::new(bytes);
    let (version, kind, flags, shape) = (from.u8()?, from.u8()?, from.u8()?, from.u8()?);
    let sack_len = shape & 7;
    if version != VERSION || kind != SEGMENT || sack_len > 4 || shape & 128 != 0 {
        return None;
    }
    let (token, seq, ack, window) = (from.u64()?, from.u32()?, from.u32()?, from.u32()?);
    let mut rest = Segment { window, flags: flags_of(flags), ..Segment::default() };
    let mut len = 24;
    if shape & TIMESTAMPS != 0 {
        rest.timestamps = Some((from.u32()?, from.u32()?));
        len += 8;
    }
    if shape & SYN_OPTIONS != 0 {
        let mss = from.u16()?;
        let window_scale = Some(from.u8()?).filter(|&scale| scale <= 14);
        rest.syn = SynOptions { mss, window_scale, sack_permitted: from.u8()? & 1 == 1 };
        len += 4;
    }
    let mut stamp = None;
    if shape & PAYLOAD != 0 {
        rest.len = u32::from(from.u16()?);
        from.u16()?;
        stamp = Some(Stamp { number: from.u32()?, sent_us: from.u32()? });
        len += 12;
    }
    let mut sack = [(0, 0); 4];
    for block in &mut sack[..usize::from(sack_len)] {
        *block = (from.u32()? as i32, from.u32()?);
        len += 8;
    }
    if rest.len > 0 && bytes.len() < padded(&rest) {
        return None;
    }
    let from_server = shape & FROM_SERVER != 0;
    Some((WireSegment { token, from_server, seq, ack, rest, stamp, sack, sack_len }, len))
}

impl WireSegment {
    /// Whether the code behind the header, `header_len` bytes long, is right.
    #[inline]
    pub(super) fn signed(&self, bytes: &[u8], header_len: usize, key: &Key) -> bool {
        match (bytes.get(..header_len), bytes.get(header_len..header_len + TAG)) {
            (Some(header), Some(tag)) => key.verify(&[&side(self.from_server), header], tag),
            _ => false,
        }
    }

    /// The segment with 64-bit positions: those nearest to the expected ones.
    #[inline]
    pub(super) fn unfold(&self, near_seq: u64, near_ack: u64) -> Segment {
        let ack = unfold(self.ack, near_ack);
        let mut segment = self.rest;
        segment.seq = unfold(self.seq, near_seq);
        segment.ack = ack;
        if self.sack_len > 0 {
            let mut blocks = SackBlocks::NONE;
            for &(distance, length) in &self.sack[..usize::from(self.sack_len)] {
                let start = ack.saturating_add_signed(i64::from(distance));
                blocks.push(ack, start, start.saturating_add(u64::from(length)));
            }
            segment.sack = blocks;
        }
        segment
    }
}

/// The position nearest to `near` whose low 32 bits are `low` (RFC 9293 section 3.4 arithmetic, with the whole position kept).
#[inline]
pub(super) fn unfold(low: u32, near: u64) -> u64 {
    let distance = low.wrapping_sub(near as u32) as i32;
    match near.checked_add_signed(i64::from(distance)) {
        Some(position) => position,
        // Below the beginning: one wrap up.
        None => u64::from(low),
    }
}

/// Fuzz target: passes any bytes through everything that reads bytes from the network.
///
/// # Panics
/// If a message does not come back as it was written, which is what the fuzzer looks for.
pub fn fuzz_read(bytes: &[u8]) {
    if let Some((segment, len)) = read_segment(bytes) {
        assert!(len <= bytes.len());
        segment.unfold(1 << 40, 5);
    }
    if let Some(message) = Message::read(bytes) {
        let mut again = Vec::new();
        message.write(false, None, &mut again);
        assert_eq!(Message::read(&again), Some(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_carries_the_payload_that_it_claims() {
        for timestamps in [None, Some((7, 8))] {
            let segment =
                Segment { seq: 1, ack: 1, len: 1448, timestamps, flags: Flags::ACK, ..Segment::default() };
            let mut bytes = Vec::new();
            write_segment(&mut bytes, (9, false), &segment, Stamp::default(), None);
            assert_eq!(read_segment(&bytes), None, "a header alone");
            bytes.resize(padded(&segment), 0);
            let (read, _) = read_segment(&bytes).unwrap();
            assert_eq!(read.unfold(1, 1), segment);
            bytes.pop();
            assert_eq!(read_segment(&bytes), None, "one byte is missing");
        }
    }
}
