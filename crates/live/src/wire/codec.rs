//! TCP's header and options (RFC 9293 section 3.1): parsed to typed values with the 32-bit numbers of the wire, and written.
//!
//! Options are laid out as Linux does (net/ipv4/tcp_output.c, `tcp_options_write`; RFC 7323 appendix A): a SYN has MSS, SACK-permitted and
//! timestamps in three words, NOP and window scale; other segments have NOP NOP timestamps, NOP NOP SACK. Sizes are therefore
//! those of [`warpline_core::Segment::wire_size`]. The AccECN option (RFC 9768) is last, with NOPs behind it.
//!
//! The incoming bytes may be anything: the parser never panics; `fuzz_parse` is the entry for a fuzzer.

use warpline_core::{AccEcn, Flags};

use super::WireError;
use crate::checksum::{fold, sum};
use crate::ip::{self, IpDatagram, IpHeader, TCP};

/// Bytes of a header without options.
pub const HEADER: usize = 20;
/// Bytes that options can take: a data offset of 15 words.
pub const MAX_OPTIONS: usize = 40;

/// Kinds of options (IANA, "TCP Option Kind Numbers").
mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WINDOW_SCALE: u8 = 3;
    pub(super) const SACK_PERMITTED: u8 = 4;
    pub(super) const SACK: u8 = 5;
    pub(super) const TIMESTAMPS: u8 = 8;
}

/// SACK blocks as on the wire: left edge, and right edge one past the last byte (RFC 2018 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WireSack {
    len: u8,
    blocks: [(u32, u32); 4],
}

impl WireSack {
    /// No blocks.
    pub const NONE: WireSack = WireSack { len: 0, blocks: [(0, 0); 4] };

    /// Adds a block. Returns false, and adds nothing, when there are four.
    pub fn push(&mut self, left: u32, right: u32) -> bool {
        match self.blocks.get_mut(usize::from(self.len)) {
            Some(block) => {
                *block = (left, right);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The blocks in option order.
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.blocks[..usize::from(self.len)]
    }
}

/// A TCP header as on the wire: numbers have 32 bits, the window is not scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WireSegment {
    /// Port it comes from.
    pub source_port: u16,
    /// Port it is for.
    pub destination_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number; meaningful with [`Flags::ACK`].
    pub ack: u32,
    /// The eight flags of RFC 3168, and AE of RFC 9768. URG (0x20) is read and written; the urgent pointer is not read, and written as zero.
    pub flags: Flags,
    /// Window field.
    pub window: u16,
    /// Maximum segment size in bytes; only a SYN has it.
    pub mss: Option<u16>,
    /// Window scale shift; only a SYN has it (RFC 7323 section 2.2).
    pub window_scale: Option<u8>,
    /// SACK permitted; only a SYN has it (RFC 2018 section 2).
    pub sack_permitted: bool,
    /// Timestamps: value and echo reply (RFC 7323 section 3.2).
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks (RFC 2018 section 3).
    pub sack: WireSack,
    /// AccECN option (RFC 9768 section 3.2.3). On a SYN without ACK it means nothing and is not read.
    pub accecn: Option<AccEcn>,
}

impl WireSegment {
    /// Reads an option. Options of the wrong length, or in segments where they mean nothing, are ignored.
    fn take_option(&mut self, kind: u8, data: &[u8]) {
        let syn = self.flags.contains(Flags::SYN);
        match (kind, data) {
            (kind::MSS, &[high, low]) if syn => self.mss = Some(u16::from_be_bytes([high, low])),
            (kind::WINDOW_SCALE, &[shift]) if syn => self.window_scale = Some(shift),
            (kind::SACK_PERMITTED, []) if syn => self.sack_permitted = true,
            (kind::TIMESTAMPS, data) if data.len() == 8 => {
                self.timestamps = Some((word(data, 0), word(data, 4)));
            }
            (kind::SACK, data) if !data.is_empty() && data.len().is_multiple_of(8) && !syn => {
                self.sack = WireSack::NONE;
                for block in data.chunks_exact(8) {
                    self.sack.push(word(block, 0), word(block, 4));
                }
            }
            (kind, data) if !syn || self.flags.contains(Flags::ACK) => {
                self.accecn = AccEcn::read(kind, data).or(self.accecn);
            }
            _ => {}
        }
    }

    /// Reads the options. An option with an impossible length ends them: what follows it has no known beginning (as Linux does;
    /// RFC 9293 section 3.1 suggests a reset).
    fn take_options(&mut self, mut options: &[u8]) {
        while let [first, rest @ ..] = options {
            match *first {
                kind::END => return,
                kind::NOP => options = rest,
                kind => {
                    let Some(len) = rest.first().map(|len| usize::from(*len)) else { return };
                    if len < 2 {
                        return;
                    }
                    let Some(data) = options.get(2..len) else { return };
                    self.take_option(kind, data);
                    options = &options[len..];
                }
            }
        }
    }

    /// The options, padded to whole words. SACK blocks that do not fit beside the others are left out.
    fn options(&self) -> ([u8; MAX_OPTIONS], usize) {
        let mut options = OptionWriter { bytes: [kind::NOP; MAX_OPTIONS], len: 0 };
        let syn = self.flags.contains(Flags::SYN);
        let sack_permitted = syn && self.sack_permitted;
        if let Some(mss) = self.mss.filter(|_| syn) {
            options.put(&[kind::MSS, 4]);
            options.put(&mss.to_be_bytes());
        }
        match self.timestamps {
            Some((value, echo)) => {
                options.put(if sack_permitted { &[kind::SACK_PERMITTED, 2] } else { &[kind::NOP; 2] });
                options.put(&[kind::TIMESTAMPS, 10]);
                options.put(&value.to_be_bytes());
                options.put(&echo.to_be_bytes());
            }
            None if sack_permitted => options.put(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]),
            None => {}
        }
        if let Some(shift) = self.window_scale.filter(|_| syn) {
            options.put(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
        }
        let accecn = self.accecn.filter(|_| !syn || self.flags.contains(Flags::ACK));
        let left = (MAX_OPTIONS - options.len).saturating_sub(accecn.map_or(0, |option| option.len()));
        let room = left.saturating_sub(4) / 8;
        let blocks = self.sack.blocks();
        let blocks = &blocks[..blocks.len().min(room)];
        if !blocks.is_empty() && !syn {
            options.put(&[kind::NOP, kind::NOP, kind::SACK, 2 + 8 * blocks.len() as u8]);
            for (left, right) in blocks {
                options.put(&left.to_be_bytes());
                options.put(&right.to_be_bytes());
            }
        }
        if let Some(option) = accecn {
            let (bytes, len) = option.bytes();
            options.put(&bytes[..len]);
        }
        (options.bytes, options.len)
    }
}

/// Options as they are written.
struct OptionWriter {
    bytes: [u8; MAX_OPTIONS],
    len: usize,
}

impl OptionWriter {
    fn put(&mut self, bytes: &[u8]) {
        // All options that can occur together have at most 40 bytes: a SYN's options 20 and AccECN's 12, others' 12 and 12 and SACK in the rest.
        if let Some(place) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            place.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, &byte| (word << 8) | u32::from(byte))
}

/// Reads the TCP segment in an IP datagram: the header and the payload.
///
/// # Errors
/// If there is no TCP segment, it is cut short, or its checksum is wrong.
pub fn parse<'a>(ip: &IpDatagram<'a>) -> Result<(WireSegment, &'a [u8]), WireError> {
    if ip.header.protocol != TCP {
        return Err(WireError::Protocol(ip.header.protocol));
    }
    if ip.fragment.is_some() {
        return Err(WireError::Fragment);
    }
    let fixed = ip.payload.first_chunk::<HEADER>().ok_or(WireError::Short)?;
    let header_len = usize::from(fixed[12] >> 4) * 4;
    if header_len < HEADER {
        return Err(WireError::Length);
    }
    let options = ip.payload.get(HEADER..header_len).ok_or(WireError::Short)?;
    if fold(ip.header.pseudo_sum(ip.payload.len()) + sum(ip.payload)) != 0 {
        return Err(WireError::Checksum("TCP"));
    }
    let half = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let mut segment = WireSegment {
        source_port: half(0),
        destination_port: half(2),
        seq: word(fixed, 4),
        ack: word(fixed, 8),
        flags: Flags(u16::from_be_bytes([fixed[12] & 1, fixed[13]])),
        window: half(14),
        ..WireSegment::default()
    };
    segment.take_options(options);
    Ok((segment, &ip.payload[header_len..]))
}

/// Appends an IP datagram with a TCP segment in it. Calls `fill` with the place of the `payload_len` bytes of payload. The protocol of
/// `ip` is assumed to be TCP.
///
/// # Errors
/// As [`IpHeader::write`]; then `out` is unchanged.
pub fn write(
    out: &mut Vec<u8>,
    ip: &IpHeader,
    segment: &WireSegment,
    payload_len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Result<(), WireError> {
    let ip = IpHeader { protocol: TCP, ..*ip };
    let (options, options_len) = segment.options();
    let header_len = HEADER + options_len;
    let total = header_len + payload_len;
    ip.write(out, total)?;
    let start = out.len();
    out.extend_from_slice(&segment.source_port.to_be_bytes());
    out.extend_from_slice(&segment.destination_port.to_be_bytes());
    out.extend_from_slice(&segment.seq.to_be_bytes());
    out.extend_from_slice(&segment.ack.to_be_bytes());
    let [accurate, flags] = (segment.flags.0 & 0x1ff).to_be_bytes();
    out.extend_from_slice(&[(header_len as u8 / 4) << 4 | accurate, flags]);
    out.extend_from_slice(&segment.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    out.extend_from_slice(&options[..options_len]);
    out.resize(start + total, 0);
    fill(&mut out[start + header_len..]);
    let checksum = fold(ip.pseudo_sum(total) + sum(&out[start..]));
    out[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

/// Fuzz target: passes any bytes through all parsers; what parses is written and parsed again.
///
/// # Panics
/// If a parser violates its contract, which is what the fuzzer looks for.
pub fn fuzz_parse(bytes: &[u8]) {
    let Ok(datagram) = ip::parse(bytes) else { return };
    assert!(datagram.bytes.len() <= bytes.len() && datagram.payload.len() < datagram.bytes.len());
    let _ = super::udp::parse(&datagram);
    let _ = crate::icmp::parse(&datagram);
    let Ok((segment, payload)) = parse(&datagram) else { return };
    let mut again = Vec::new();
    let written =
        write(&mut again, &datagram.header, &segment, payload.len(), |place| place.copy_from_slice(payload));
    if let Err(error) = written {
        // Options that were not padded take more room when they are.
        assert!(matches!(error, WireError::TooLong(_)) && payload.len() > 60_000);
        return;
    }
    let datagram =
        ip::parse(&again).map(|datagram| parse(&datagram).map(|(again, rest)| (again, rest.to_vec())));
    assert_eq!(datagram, Ok(Ok((fitting(&segment), payload.to_vec()))));
}

/// The segment without the SACK blocks that do not fit into this file's layout: other stacks pad less.
fn fitting(segment: &WireSegment) -> WireSegment {
    let others =
        if segment.timestamps.is_some() { 12 } else { 0 } + segment.accecn.map_or(0, |option| option.len());
    let mut sack = WireSack::NONE;
    for &(left, right) in segment.sack.blocks().iter().take((MAX_OPTIONS - others - 4) / 8) {
        sack.push(left, right);
    }
    WireSegment { sack, ..*segment }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::IpAddr;
    use warpline_core::{Segment, SynOptions};

    fn header(v6: bool) -> IpHeader {
        let address = |last: u8| match v6 {
            true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last]),
        };
        IpHeader::new(address(1), address(2), TCP)
    }

    fn bytes(v6: bool, segment: &WireSegment, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes, &header(v6), segment, payload.len(), |place| place.copy_from_slice(payload))
            .unwrap();
        bytes
    }

    prop_compose! {
        fn any_segment()(
            ports in any::<(u16, u16)>(), numbers in any::<(u32, u32)>(), flags in 0u16..0x200, window: u16,
            mss: Option<u16>, window_scale: Option<u8>, sack_permitted: bool, timestamps: Option<(u32, u32)>,
            blocks in prop::collection::vec(any::<(u32, u32)>(), 0..=4),
            accecn in prop::option::of((any::<[u32; 3]>(), any::<bool>(), 0usize..=3)),
        ) -> WireSegment {
            let flags = Flags(flags);
            let syn = flags.contains(Flags::SYN);
            let accecn = accecn.map(|(counts, order, fields)| AccEcn::new(counts, order, fields));
            let accecn = accecn.filter(|_| !syn || flags.contains(Flags::ACK));
            let mut sack = WireSack::NONE;
            let others = if timestamps.is_some() { 12 } else { 0 } + accecn.map_or(0, |option| option.len());
            let room = (MAX_OPTIONS - others - 4) / 8;
            for (left, right) in blocks.into_iter().take(if syn { 0 } else { room }) {
                sack.push(left, right);
            }
            WireSegment {
                source_port: ports.0,
                destination_port: ports.1,
                seq: numbers.0,
                ack: numbers.1,
                flags,
                window,
                mss: mss.filter(|_| syn),
                window_scale: window_scale.filter(|_| syn),
                sack_permitted: sack_permitted && syn,
                timestamps,
                sack,
                accecn,
            }
        }
    }

    /// A segment with raw options after a good header, correct checksum.
    fn with_options(flags: Flags, options: &[u8]) -> WireSegment {
        let mut raw = bytes(false, &WireSegment { flags, ..WireSegment::default() }, options);
        let at = ip::IPV4_HEADER;
        raw[at + 12] = ((HEADER + options.len()) as u8 / 4) << 4;
        raw[at + 16..at + 18].fill(0);
        let checksum = fold(header(false).pseudo_sum(raw.len() - at) + sum(&raw[at..]));
        raw[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
        parse(&ip::parse(&raw).unwrap()).unwrap().0
    }

    proptest! {
        #[test]
        fn every_option_survives_the_round_trip(
            v6: bool, segment in any_segment(), payload in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let bytes = bytes(v6, &segment, &payload);
            let datagram = ip::parse(&bytes).unwrap();
            prop_assert_eq!(parse(&datagram).unwrap(), (segment, &payload[..]));
            fuzz_parse(&bytes);
        }

        /// Any single wrong bit is detected.
        #[test]
        fn a_wrong_bit_is_found(v6: bool, segment in any_segment(), bit: prop::sample::Index) {
            let mut bytes = bytes(v6, &segment, &[1, 2, 3]);
            let bit = bit.index(bytes.len() * 8);
            // IPv6's flow label is not covered by a checksum.
            prop_assume!(!(v6 && matches!(bit, 8..12 | 16..32)));
            bytes[bit / 8] ^= 1 << (bit % 8);
            let found = match ip::parse(&bytes) {
                Ok(datagram) => parse(&datagram).is_err() || datagram.header != header(v6),
                Err(_) => true,
            };
            prop_assert!(found);
        }

        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_parse(&bytes);
        }

        /// Options may be anything, behind a good header with a correct checksum.
        #[test]
        fn no_options_panic(syn: bool, words in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..40)) {
            let whole = words.len() / 4 * 4;
            with_options(if syn { Flags::SYN } else { Flags::ACK }, &words[..whole]);
        }
    }

    #[test]
    fn sizes_are_those_the_simulator_counts_with() {
        for (flags, timestamps, window_scale, sack_permitted, blocks) in [
            (Flags::SYN, true, Some(7), true, 0),
            (Flags::SYN, false, Some(7), true, 0),
            (Flags::SYN, false, None, false, 0),
            (Flags::ACK, true, None, false, 3),
            (Flags::ACK, false, None, false, 4),
            (Flags::ACK, false, None, false, 0),
        ] {
            let mut sack = WireSack::NONE;
            let mut typed = Segment {
                flags,
                timestamps: timestamps.then_some((1, 2)),
                syn: SynOptions { mss: 1460, window_scale, sack_permitted },
                len: 10,
                ..Segment::default()
            };
            for block in 0..blocks {
                sack.push(block, block + 1);
                typed.sack.push(0, 1, 2);
            }
            let wire = WireSegment {
                flags,
                mss: Some(1460),
                window_scale,
                sack_permitted,
                timestamps: timestamps.then_some((1, 2)),
                sack,
                ..WireSegment::default()
            };
            assert_eq!(bytes(false, &wire, &[0; 10]).len(), typed.wire_size() as usize, "{wire:?}");
        }
    }

    #[test]
    fn unknown_options_are_skipped_and_impossible_lengths_end_them() {
        let syn = |options: &[u8]| with_options(Flags::SYN, options);
        // Kind 254 (experiments), then MSS, end, and one that is no longer read.
        let read = syn(&[254, 4, 9, 9, 2, 4, 5, 180, 0, 3, 3, 9]);
        assert_eq!((read.mss, read.window_scale), (Some(1460), None));
        // Length zero, one, and more than there is.
        for bad in [[254, 0, 1, 1], [254, 1, 1, 1], [254, 40, 1, 1]] {
            let mut options = vec![2, 4, 5, 180];
            options.extend(bad);
            options.extend([3, 3, 9, 1]);
            let read = syn(&options);
            assert_eq!((read.mss, read.window_scale), (Some(1460), None), "{bad:?}");
        }
        // Known options with a wrong length.
        let read = syn(&[2, 3, 5, 4, 3, 1, 8, 4, 1, 1, 3, 3, 5, 1]);
        assert_eq!((read.mss, read.sack_permitted, read.timestamps), (None, false, None));
        // Not of a SYN.
        let read = with_options(Flags::ACK, &[2, 4, 5, 180, 3, 3, 9, 1]);
        assert_eq!((read.mss, read.window_scale), (None, None));
    }
}
