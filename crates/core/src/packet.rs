//! The packet: small, typed, without payload bytes. Wire bytes exist only at ports and in captures, and are made there.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::accecn::AccEcn;
use crate::dscp::Dscp;
use crate::time::Timestamp;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        pub struct $name(pub u32);
        impl $name {
            /// The id as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}
id!(
    /// One connection or datagram flow between two hosts.
    FlowId
);
id!(
    /// One end of a flow, to which packets are addressed. Hosts number them as they like.
    EndpointId
);
id!(
    /// A timer of a host. Hosts number them as they like.
    TimerId
);
id!(
    /// A host or router.
    NodeId
);
id!(
    /// One direction of a link.
    LinkId
);

/// The ECN field of the IP header (RFC 3168 section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable: congestion is signalled by dropping.
    #[default]
    NotEct = 0,
    /// ECT(1), which L4S uses.
    Ect1 = 1,
    /// ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// TCP flags, in the order of the wire (RFC 9293 section 3.1, RFC 3168 section 6.1, RFC 9768 section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Flags(pub u16);

impl Flags {
    /// Sender is done.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgement field is valid.
    pub const ACK: Flags = Flags(0x10);
    /// ECN echo.
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced.
    pub const CWR: Flags = Flags(0x80);
    /// Accurate ECN. With CWR and ECE it is the ACE field, a counter of three bits.
    pub const AE: Flags = Flags(0x100);

    /// The flags of a TCP header's flag bits; those without a meaning here are left out.
    pub const fn from_bits_truncate(bits: u16) -> Flags {
        Flags(bits & 0x1df)
    }

    /// Whether all of `other` is set.
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
    /// The ACE field (RFC 9768 section 3.2.2): AE, CWR and ECE as a number.
    #[inline]
    pub const fn ace(self) -> u8 {
        (self.0 >> 6) as u8 & 7
    }
    /// The same flags with another ACE field, of which the three lowest bits count.
    #[must_use]
    pub const fn with_ace(self, ace: u8) -> Flags {
        Flags(self.0 & !0x1c0 | (ace as u16 & 7) << 6)
    }
    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    /// Tcpdump's letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (flag, letter) in [
            (Flags::SYN, "S"),
            (Flags::FIN, "F"),
            (Flags::RST, "R"),
            (Flags::PSH, "P"),
            (Flags::AE, "e"),
            (Flags::CWR, "W"),
            (Flags::ECE, "E"),
            (Flags::ACK, "."),
        ] {
            if self.contains(flag) {
                f.write_str(letter)?;
            }
        }
        Ok(())
    }
}

/// Up to four SACK blocks (RFC 2018 section 3), the first of which may be a D-SACK (RFC 2883).
///
/// A block is an offset from the segment's `ack` and a length: a D-SACK below `ack` has a negative offset.
///
/// Beside them may be an [AccECN option](AccEcn), which [`Segment::accecn`] reads. A header has no room for it and four blocks.
// So the option lies in the place of the fourth block, and a segment is no larger for it: that of ten bytes and three that would be empty.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SackBlocks {
    len: u8,
    /// The first three bytes of the option, zero for none. The rest is in the last block.
    accecn: [u8; 3],
    blocks: [(i32, u32); 4],
}

impl SackBlocks {
    /// No blocks.
    pub const NONE: SackBlocks = SackBlocks { len: 0, accecn: [0; 3], blocks: [(0, 0); 4] };

    /// Number of blocks.
    pub const fn len(&self) -> usize {
        self.len as usize
    }
    /// Whether there are no blocks.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Whether there are neither blocks nor an AccECN option.
    #[inline]
    pub const fn is_bare(&self) -> bool {
        self.len == 0 && self.accecn[0] == 0
    }
    /// Adds the block of stream bytes `start..end`, seen from cumulative acknowledgement `ack`. Returns false, and adds
    /// nothing, when there is no room or the block is further than 2 GiB away.
    pub fn push(&mut self, ack: u64, start: u64, end: u64) -> bool {
        let (offset, length) = (start as i64 - ack as i64, end.saturating_sub(start));
        let (Ok(offset), Ok(length)) = (i32::try_from(offset), u32::try_from(length)) else { return false };
        if self.len() == self.blocks.len() - usize::from(self.accecn[0] != 0) {
            return false;
        }
        self.blocks[self.len()] = (offset, length);
        self.len += 1;
        true
    }
    /// The blocks as stream byte ranges `(start, end)`, seen from cumulative acknowledgement `ack`, in option order.
    pub fn iter(&self, ack: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.blocks[..self.len()].iter().map(move |&(offset, length)| {
            let start = ack.saturating_add_signed(i64::from(offset));
            (start, start + u64::from(length))
        })
    }

    fn accecn(&self) -> Option<AccEcn> {
        let [a, b, c] = self.accecn;
        let (left, right) = self.blocks[3];
        let ([d, e, f, g], [h, i, j, _]) = (left.to_le_bytes(), right.to_le_bytes());
        if a == 0 { None } else { AccEcn::unpack([a, b, c, d, e, f, g, h, i, j]) }
    }
    fn set_accecn(&mut self, option: &AccEcn) -> bool {
        if self.len() == self.blocks.len() {
            return false;
        }
        let [a, b, c, d, e, f, g, h, i, j] = option.pack();
        self.accecn = [a, b, c];
        self.blocks[3] = (i32::from_le_bytes([d, e, f, g]), u32::from_le_bytes([h, i, j, 0]));
        true
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.blocks[..self.len()]).finish()
    }
}

/// The options of a SYN (RFC 9293 section 3.7.1, RFC 7323 section 2, RFC 2018 section 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SynOptions {
    /// Largest segment that its sender can receive, in payload bytes.
    pub mss: u16,
    /// Window scale shift, if window scaling is offered.
    pub window_scale: Option<u8>,
    /// Whether SACK is permitted.
    pub sack_permitted: bool,
}

/// A TCP segment.
///
/// Sequence numbers are 64-bit stream positions counted from the SYN (which is byte 0): they never wrap here, and are
/// folded onto the 32 bits of the wire, plus an initial sequence number, where wire bytes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[repr(C)]
pub struct Segment {
    /// Position of the first byte (of the SYN or FIN if there is no payload).
    pub seq: u64,
    /// Next byte expected from the other side; meaningful with [`Flags::ACK`].
    pub ack: u64,
    /// Payload length in bytes.
    pub len: u32,
    /// Receive window in bytes, already scaled (RFC 7323 section 2.2 rounds it at the sender).
    pub window: u32,
    /// Timestamps option: value and echo reply in milliseconds, if in use (RFC 7323 section 3). 1 ms as in Linux.
    pub timestamps: Option<(u32, u32)>,
    /// SACK blocks, if any, and the AccECN option.
    pub sack: SackBlocks,
    /// Options of a SYN; all zero otherwise.
    pub syn: SynOptions,
    /// Flags.
    pub flags: Flags,
}

/// A UDP datagram of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Datagram {
    /// Sequence number within the flow, from 0.
    pub seq: u64,
    /// When the application made it.
    pub created: Timestamp,
    /// Payload length in bytes.
    pub len: u32,
    /// What its application says in it, for its other end; the network does not read it.
    pub note: [u32; 3],
}

/// A packet from outside: its bytes stay where it came in, and only their number travels.
///
/// The network does not read the bytes. Its size, ECN field and flow are those of the [`Packet`] around it, taken from the IP
/// header at the port; a mark is written back into the header where the packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Frame {
    /// Number of the bytes in the pool of the ports. The last user of the packet gives it back.
    pub handle: u32,
}

/// What a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Body {
    /// A TCP segment.
    Tcp(Segment),
    /// A UDP datagram.
    Udp(Datagram),
    /// The bytes of a packet from outside.
    Frame(Frame),
}

impl Body {
    /// The TCP segment, if it is one.
    pub fn tcp(&self) -> Option<&Segment> {
        match self {
            Body::Tcp(segment) => Some(segment),
            Body::Udp(_) | Body::Frame(_) => None,
        }
    }
}

/// A packet in the network. Laid out so that the fields that every hop needs come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[repr(C)]
pub struct Packet {
    /// The flow it belongs to.
    pub flow: FlowId,
    /// The endpoint it is delivered to.
    pub to: EndpointId,
    /// Bytes on the wire from the IP header on. Links add no framing of their own unless the scenario sets it.
    pub size: u32,
    /// ECN field.
    pub ecn: Ecn,
    /// Traffic class for priority queues: 0 is served first.
    pub class: u8,
    /// Whether a link has changed a bit of it: its checksum does not fit, and whoever looks at it drops it.
    pub damaged: bool,
    /// Differentiated services code point.
    pub dscp: Dscp,
    /// Unique number of this packet within the run, assigned by the network when it is sent.
    pub id: u64,
    /// Contents.
    pub body: Body,
}

impl Packet {
    /// A TCP segment of a flow on its way to an endpoint, as large as over IPv4 and in the first traffic class. The network numbers it.
    #[inline]
    pub fn tcp(flow: FlowId, to: EndpointId, segment: Segment, ecn: Ecn) -> Self {
        let (size, body) = (segment.wire_size(), Body::Tcp(segment));
        Packet { flow, to, size, ecn, class: 0, damaged: false, dscp: Dscp::default(), id: 0, body }
    }

    /// A UDP datagram; otherwise as [`tcp`](Self::tcp).
    pub fn udp(flow: FlowId, to: EndpointId, datagram: Datagram) -> Self {
        let size = datagram.len.saturating_add(IPV4_HEADER + UDP_HEADER);
        let body = Body::Udp(datagram);
        let (ecn, dscp) = (Ecn::NotEct, Dscp::default());
        Packet { flow, to, size, ecn, class: 0, damaged: false, dscp, id: 0, body }
    }

    /// Changes one bit if it is damaged. `bytes` are its first ones from the IP header on, of `whole`: the bit may lie behind them. Which bit it is follows from
    /// the packet's number, so that every capture shows the same one.
    pub fn damage(&self, bytes: &mut [u8], whole: usize) {
        // A multiplicative hash (Knuth, volume 3, section 6.4): packets in a row are damaged at places far apart.
        let hash = self.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let bit = hash as usize % (whole * 8).max(1);
        if self.damaged
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: u32 = 20;
/// Bytes of a TCP header without options.
pub const TCP_HEADER: u32 = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER: u32 = 8;

impl Segment {
    /// Bytes of TCP options, padded to words as stacks lay them out (RFC 7323 appendix A).
    #[inline]
    pub fn options_len(&self) -> u32 {
        let mut len = 0;
        if self.flags.contains(Flags::SYN) {
            len += 4; // MSS
            len += if self.syn.window_scale.is_some() { 4 } else { 0 };
            len += if self.syn.sack_permitted && self.timestamps.is_none() { 4 } else { 0 };
        }
        // On a SYN, SACK-permitted takes the two bytes that would pad the timestamps.
        len += if self.timestamps.is_some() { 12 } else { 0 };
        len + if self.sack.is_bare() { 0 } else { self.feedback_len() }
    }
    /// Bytes of SACK and AccECN options.
    #[inline(never)]
    fn feedback_len(&self) -> u32 {
        let sack = if self.sack.is_empty() { 0 } else { 4 + 8 * self.sack.len() as u32 };
        sack + self.accecn().map_or(0, |option| option.len() as u32)
    }
    /// The AccECN option (RFC 9768 section 3.2.3), if there is one.
    pub fn accecn(&self) -> Option<AccEcn> {
        self.sack.accecn()
    }
    /// Gives it this AccECN option. Returns false, and changes nothing, beside four SACK blocks: there is no room.
    pub fn set_accecn(&mut self, option: &AccEcn) -> bool {
        self.sack.set_accecn(option)
    }
    /// Bytes on the wire from the IPv4 header on.
    #[inline]
    pub fn wire_size(&self) -> u32 {
        IPV4_HEADER + TCP_HEADER + self.options_len() + self.len
    }
    /// Sequence space used: payload plus one each for SYN and FIN.
    pub fn seq_len(&self) -> u64 {
        u64::from(self.len)
            + u64::from(self.flags.contains(Flags::SYN))
            + u64::from(self.flags.contains(Flags::FIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sack_blocks_survive_the_round_trip_below_and_above_ack() {
        let mut blocks = SackBlocks::NONE;
        assert!(blocks.push(10_000, 8_000, 9_460)); // D-SACK below the cumulative acknowledgement
        assert!(blocks.push(10_000, 11_460, 12_920));
        assert!(!blocks.push(10_000, 10_000 + (1 << 40), (1 << 41) + 1));
        assert_eq!(blocks.iter(10_000).collect::<Vec<_>>(), [(8_000, 9_460), (11_460, 12_920)]);
    }

    #[test]
    fn an_accecn_option_takes_the_fourth_blocks_place() {
        let mut segment = Segment { flags: Flags::ACK, ..Segment::default() };
        let option = AccEcn::new([0x12_3456, 0xfe_dcba, 0x98_7654], true, 3);
        assert!(segment.sack.is_bare() && segment.accecn().is_none());
        assert!(segment.set_accecn(&option));
        for start in [10, 30, 50] {
            assert!(segment.sack.push(0, start, start + 10));
        }
        assert!(!segment.sack.push(0, 70, 80));
        assert_eq!((segment.accecn(), segment.sack.len()), (Some(option), 3));
        assert_eq!(segment.sack.iter(0).last(), Some((50, 60)));
        assert_eq!(segment.wire_size(), 40 + 28 + 12);
        let mut full = Segment::default();
        (0..4).for_each(|n| assert!(full.sack.push(0, 20 * n + 1, 20 * n + 9)));
        assert!(!full.set_accecn(&option));
        assert_eq!(full.accecn(), None);
    }

    #[test]
    fn the_ace_field_is_ae_cwr_and_ece() {
        let flags = Flags::ACK.with(Flags::AE).with(Flags::ECE);
        assert_eq!((flags.ace(), format!("{flags:?}")), (5, "eE.".to_owned()));
        assert_eq!(flags.with_ace(10), Flags::ACK.with(Flags::CWR));
        assert_eq!(Flags(0x3f).ace(), 0);
    }

    #[test]
    fn header_sizes_are_those_of_real_stacks() {
        let mut segment =
            Segment { len: 1448, timestamps: Some((1, 1)), flags: Flags::ACK, ..Segment::default() };
        assert_eq!(segment.wire_size(), 1500);
        segment.len = 0;
        assert!(segment.sack.push(0, 10, 20));
        assert_eq!(segment.wire_size(), 64);
        let syn = Segment {
            flags: Flags::SYN,
            timestamps: Some((1, 0)),
            syn: SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true },
            ..Segment::default()
        };
        assert_eq!(syn.wire_size(), 60);
    }

    #[test]
    fn damage_is_one_bit_and_always_the_same() {
        let packet = Packet { id: 77, ..Packet::udp(FlowId(0), EndpointId(0), Datagram::default()) };
        let bytes = |packet: &Packet, len| {
            let mut bytes = vec![0x5a; len];
            packet.damage(&mut bytes, 40);
            bytes
        };
        assert_eq!(bytes(&packet, 40), [0x5a; 40]);
        let damaged = Packet { damaged: true, ..packet };
        let changed: u32 = bytes(&damaged, 40).iter().map(|byte| (byte ^ 0x5a).count_ones()).sum();
        assert_eq!((changed, bytes(&damaged, 40)), (1, bytes(&damaged, 40)));
        assert_ne!(bytes(&damaged, 40), bytes(&Packet { id: 78, ..damaged }, 40));
        assert_eq!(bytes(&damaged, 1)[0] == 0x5a, bytes(&damaged, 40)[0] == 0x5a);
    }

    #[test]
    fn a_packet_fits_two_cache_lines_with_the_network_s_own_fields() {
        assert!(size_of::<Packet>() <= 104, "{}", size_of::<Packet>());
    }
}
