//! The headers of IPv4 (RFC 791) and IPv6 (RFC 8200): written, and parsed in full for datagrams to hosts of ours. For datagrams
//! that are only carried, see [`crate::datagram`].
//!
//! The bytes may be anything: [`parse`] reads only what it has checked to be there and never panics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_core::Ecn;

use crate::checksum::{fold, sum};
use crate::wire::WireError;

/// IP protocol number of ICMP for IPv4.
pub const ICMP: u8 = 1;
/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// IP protocol number of SCTP.
pub const SCTP: u8 = 132;
/// IP protocol number of ICMP for IPv6.
pub const ICMPV6: u8 = 58;

/// Hop limit of datagrams, Linux's default.
pub const HOP_LIMIT: u8 = 64;
/// Bytes of an IPv6 header without extensions.
pub const IPV6_HEADER: usize = 40;
/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: usize = 20;
/// Next header of a routing header (RFC 8200 section 4.4).
const ROUTING: u8 = 43;
/// Next header of a fragment header (RFC 8200 section 4.5).
pub(crate) const FRAGMENT: u8 = 44;
/// Most extension headers that are skipped.
const MAX_EXTENSIONS: usize = 8;

/// The fields of an IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol of the payload (IANA's number), behind IPv6 extension headers.
    pub protocol: u8,
    /// ECN field (RFC 3168 section 5).
    pub ecn: Ecn,
    /// Differentiated services code point (RFC 2474).
    pub dscp: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Identification of an IPv4 datagram; has no meaning if the datagram may not be fragmented (RFC 6864). Zero for IPv6.
    pub identification: u16,
    /// Whether routers may not fragment it, as in path MTU discovery (RFC 1191). With IPv6 they never do.
    pub dont_fragment: bool,
}

impl IpHeader {
    /// A header from `source` to `destination`, with default values in all other fields.
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        IpHeader {
            source,
            destination,
            protocol,
            ecn: Ecn::NotEct,
            dscp: 0,
            ttl: HOP_LIMIT,
            identification: 0,
            dont_fragment: true,
        }
    }

    /// Bytes of the header when written.
    pub fn len(&self) -> usize {
        if self.source.is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
    }

    /// Always false: a header has bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Appends the header of a datagram with `payload_len` bytes of payload.
    ///
    /// # Errors
    /// If the addresses are of two families, or the datagram is too long.
    pub fn write(&self, out: &mut Vec<u8>, payload_len: usize) -> Result<(), WireError> {
        let class = (self.dscp << 2) | self.ecn as u8;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = IPV4_HEADER + payload_len;
                let total = u16::try_from(total).map_err(|_| WireError::TooLong(total))?.to_be_bytes();
                let id = self.identification.to_be_bytes();
                let mut header = [0; IPV4_HEADER];
                header[..12].copy_from_slice(&[
                    0x45,
                    class,
                    total[0],
                    total[1],
                    id[0],
                    id[1],
                    if self.dont_fragment { 0x40 } else { 0 },
                    0,
                    self.ttl,
                    self.protocol,
                    0,
                    0,
                ]);
                header[12..16].copy_from_slice(&source.octets());
                header[16..].copy_from_slice(&destination.octets());
                let checksum = fold(sum(&header)).to_be_bytes();
                header[10..12].copy_from_slice(&checksum);
                out.extend_from_slice(&header);
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let len = u16::try_from(payload_len).map_err(|_| WireError::TooLong(payload_len))?;
                out.extend_from_slice(&[0x60 | (class >> 4), class << 4, 0, 0]);
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(&[self.protocol, self.ttl]);
                out.extend_from_slice(&source.octets());
                out.extend_from_slice(&destination.octets());
            }
            _ => return Err(WireError::Families),
        }
        Ok(())
    }

    /// The sum of the pseudo-header of TCP, UDP and ICMPv6 (RFC 9293 section 3.1, RFC 8200 section 8.1) with a transport
    /// header and payload of `len` bytes.
    pub(crate) fn pseudo_sum(&self, len: usize) -> u64 {
        let addresses = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                sum(&source.octets()) + sum(&destination.octets())
            }
            _ => 0,
        };
        addresses + u64::from(self.protocol) + len as u64
    }
}

/// The position of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Offset of its first byte in the fragmented payload.
    pub offset: usize,
    /// Whether others follow.
    pub more: bool,
    /// Common to all fragments of a datagram.
    pub identification: u32,
}

/// A datagram: its header and its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpDatagram<'a> {
    /// The header.
    pub header: IpHeader,
    /// Its payload, behind options and extension headers and without padding.
    pub payload: &'a [u8],
    /// Its position, if it is a fragment.
    pub fragment: Option<Fragment>,
    /// The datagram from the header on, without padding.
    pub bytes: &'a [u8],
}

/// Reads the datagram at the beginning of `bytes`.
///
/// # Errors
/// If there is no datagram, or its header's checksum is wrong.
pub fn parse(bytes: &[u8]) -> Result<IpDatagram<'_>, WireError> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => parse_ipv4(bytes),
        Some(6) => parse_ipv6(bytes),
        Some(_) => Err(WireError::Version),
        None => Err(WireError::Short),
    }
}

/// The ECN field of a traffic class (RFC 3168 section 5).
#[inline]
pub(crate) fn ecn(class: u8) -> Ecn {
    match class & 3 {
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        3 => Ecn::Ce,
        _ => Ecn::NotEct,
    }
}

fn parse_ipv4(bytes: &[u8]) -> Result<IpDatagram<'_>, WireError> {
    let fixed = bytes.first_chunk::<IPV4_HEADER>().ok_or(WireError::Short)?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if header_len < IPV4_HEADER || len < header_len {
        return Err(WireError::Length);
    }
    let bytes = bytes.get(..len).ok_or(WireError::Short)?;
    let (header, payload) = bytes.split_at(header_len);
    if fold(sum(header)) != 0 {
        return Err(WireError::Checksum("IPv4"));
    }
    let octets = |at: usize| [fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]];
    let identification = u16::from_be_bytes([fixed[4], fixed[5]]);
    let word = u16::from_be_bytes([fixed[6], fixed[7]]);
    Ok(IpDatagram {
        header: IpHeader {
            source: Ipv4Addr::from(octets(12)).into(),
            destination: Ipv4Addr::from(octets(16)).into(),
            protocol: fixed[9],
            ecn: ecn(fixed[1]),
            dscp: fixed[1] >> 2,
            ttl: fixed[8],
            identification,
            dont_fragment: word & 0x4000 != 0,
        },
        payload,
        // More fragments, or not the first.
        fragment: (word & 0x3fff != 0).then(|| Fragment {
            offset: usize::from(word & 0x1fff) * 8,
            more: word & 0x2000 != 0,
            identification: identification.into(),
        }),
        bytes,
    })
}

fn parse_ipv6(bytes: &[u8]) -> Result<IpDatagram<'_>, WireError> {
    let fixed = bytes.first_chunk::<IPV6_HEADER>().ok_or(WireError::Short)?;
    let len = IPV6_HEADER + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let bytes = bytes.get(..len).ok_or(WireError::Short)?;
    let class = (fixed[0] << 4) | (fixed[1] >> 4);
    let address = |at: usize| {
        let mut octets = [0; 16];
        octets.copy_from_slice(&fixed[at..at + 16]);
        IpAddr::V6(Ipv6Addr::from(octets))
    };
    let inner = inner_ipv6(bytes).ok_or(WireError::Short)?;
    Ok(IpDatagram {
        header: IpHeader {
            source: address(8),
            destination: address(24),
            protocol: inner.protocol,
            ecn: ecn(class),
            dscp: class >> 2,
            ttl: fixed[7],
            identification: 0,
            dont_fragment: true,
        },
        payload: &bytes[inner.at..],
        fragment: inner.fragment,
        bytes,
    })
}

/// The payload behind the extension headers of an IPv6 datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// Protocol (IANA's number).
    pub(crate) protocol: u8,
    /// Offset of its first byte.
    pub(crate) at: usize,
    /// Its position, if it is a fragment. Headers after a fragment header are not read.
    pub(crate) fragment: Option<Fragment>,
    /// Offset of the byte that announces the fragment header.
    pub(crate) fragment_named_at: usize,
    /// Whether a routing header has more places that it is to go to, so that the destination is not its last.
    pub(crate) to_be_routed: bool,
}

/// Skips the extension headers of a datagram (RFC 8200 section 4), a few at most. `None` if they are cut short.
#[inline]
pub(crate) fn inner_ipv6(datagram: &[u8]) -> Option<Inner> {
    let mut inner = Inner {
        protocol: *datagram.get(6)?,
        at: IPV6_HEADER,
        fragment: None,
        fragment_named_at: 6,
        to_be_routed: false,
    };
    for _ in 0..MAX_EXTENSIONS {
        let rest = datagram.get(inner.at..)?;
        match inner.protocol {
            // Hop-by-hop options, routing, destination options (RFC 8200 sections 4.3, 4.4, 4.6).
            0 | ROUTING | 60 => {
                let [next, words, ..] = rest else { return None };
                // Its fourth byte is how many are left.
                inner.to_be_routed |= inner.protocol == ROUTING && rest.get(3).is_some_and(|&left| left > 0);
                inner.protocol = *next;
                inner.fragment_named_at = inner.at;
                inner.at += (usize::from(*words) + 1) * 8;
            }
            FRAGMENT => {
                let [next, _, high, low, a, b, c, d, ..] = rest else { return None };
                let word = u16::from_be_bytes([*high, *low]);
                inner.protocol = *next;
                inner.at += 8;
                // A fragment that is the whole datagram is not a fragment (RFC 6946).
                if word & 0xfff9 != 0 {
                    inner.fragment = Some(Fragment {
                        offset: usize::from(word & 0xfff8),
                        more: word & 1 != 0,
                        identification: u32::from_be_bytes([*a, *b, *c, *d]),
                    });
                    break;
                }
            }
            _ => break,
        }
    }
    (inner.at <= datagram.len()).then_some(inner)
}

/// A datagram's source and destination.
pub fn addresses(datagram: &[u8]) -> Option<(IpAddr, IpAddr)> {
    match datagram.first()? >> 4 {
        4 => {
            let both = datagram.get(12..20)?.first_chunk::<8>()?;
            let address = |at: usize| Ipv4Addr::new(both[at], both[at + 1], both[at + 2], both[at + 3]);
            Some((address(0).into(), address(4).into()))
        }
        6 => {
            let source: [u8; 16] = *datagram.get(8..24)?.first_chunk()?;
            let destination: [u8; 16] = *datagram.get(24..40)?.first_chunk()?;
            Some((Ipv6Addr::from(source).into(), Ipv6Addr::from(destination).into()))
        }
        _ => None,
    }
}

/// The first bytes of a datagram, as ICMP errors quote them: its source and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol of the payload.
    pub protocol: u8,
    /// The beginning of the payload (of the first fragment, if fragmented).
    pub payload: &'a [u8],
}

/// Parses the first bytes of a datagram, however few of its payload there are. `None` if they do not identify its flow.
pub fn quoted(bytes: &[u8]) -> Option<Quoted<'_>> {
    let (source, destination) = addresses(bytes)?;
    let (protocol, at, later) = match source {
        IpAddr::V4(_) => {
            let word = u16::from_be_bytes([bytes[6], bytes[7]]);
            (bytes[9], usize::from(bytes[0] & 0xf) * 4, word & 0x1fff != 0)
        }
        IpAddr::V6(_) => {
            let inner = inner_ipv6(bytes)?;
            (inner.protocol, inner.at, inner.fragment.is_some_and(|fragment| fragment.offset > 0))
        }
    };
    let payload = bytes.get(at..).filter(|_| at >= IPV4_HEADER && !later)?;
    Some(Quoted { source, destination, protocol, payload })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends(v6: bool) -> (IpAddr, IpAddr) {
        if v6 {
            ("2001:db8::1".parse().unwrap(), "2001:db8::2:3".parse().unwrap())
        } else {
            ("192.0.2.1".parse().unwrap(), "198.51.100.7".parse().unwrap())
        }
    }

    fn written(header: &IpHeader, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        header.write(&mut bytes, payload.len()).unwrap();
        bytes.extend(payload);
        bytes
    }

    proptest! {
        #[test]
        fn headers_survive_the_round_trip(
            v6: bool, protocol in 61u8.., ecn in 0u8..4, dscp in 0u8..64, ttl: u8, id: u16, df: bool,
            payload in prop::collection::vec(any::<u8>(), 0..100), padding in 0usize..50,
        ) {
            let (source, destination) = ends(v6);
            let (identification, dont_fragment) = if v6 { (0, true) } else { (id, df) };
            let header =
                IpHeader { source, destination, protocol, ecn: super::ecn(ecn), dscp, ttl, identification, dont_fragment };
            let mut bytes = written(&header, &payload);
            let len = bytes.len();
            bytes.resize(len + padding, 0xaa);
            let read = parse(&bytes).unwrap();
            prop_assert_eq!(read, IpDatagram { header, payload: &payload, fragment: None, bytes: &bytes[..len] });
            prop_assert!(parse(&bytes[..len - 1]).is_err());
        }

        /// Any single wrong bit of an IPv4 header is found.
        #[test]
        fn a_wrong_bit_is_found(bit in 0usize..160) {
            let (source, destination) = ends(false);
            let mut bytes = written(&IpHeader::new(source, destination, TCP), &[1, 2, 3]);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(parse(&bytes).is_err());
        }

        #[test]
        fn no_bytes_panic(first in prop::sample::select(vec![0x45u8, 0x46, 0x4f, 0x60, 0x6f, 0]),
                          mut bytes in prop::collection::vec(any::<u8>(), 1..120)) {
            bytes[0] = first;
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn extension_headers_are_gone_past_and_fragments_are_told() {
        let (source, destination) = ends(true);
        let with = |payload: &[u8], next: u8| written(&IpHeader::new(source, destination, next), payload);
        let bytes = with(&[TCP, 0, 1, 4, 0, 0, 0, 0, 9, 9], 60);
        let read = parse(&bytes).unwrap();
        assert_eq!((read.header.protocol, read.payload, read.fragment), (TCP, &[9, 9][..], None));
        let bytes = with(&[UDP, 0, 0, 1, 0, 0, 0, 7, 9], 44);
        let first = Fragment { offset: 0, more: true, identification: 7 };
        assert_eq!(parse(&bytes).unwrap().fragment, Some(first));
        let bytes = with(&[UDP, 0, 0, 0, 0, 0, 0, 7, 9], 44);
        assert_eq!(parse(&bytes).unwrap().fragment, None);
        assert_eq!(parse(&with(&[TCP, 9, 1, 4], 0)), Err(WireError::Short));
    }

    #[test]
    fn what_cannot_be_is_not_made() {
        let ((v4, _), (v6, _)) = (ends(false), ends(true));
        let mut out = Vec::new();
        assert_eq!(IpHeader::new(v4, v6, TCP).write(&mut out, 0), Err(WireError::Families));
        assert_eq!(IpHeader::new(v4, v4, TCP).write(&mut out, 65_516), Err(WireError::TooLong(65_536)));
        assert_eq!(IpHeader::new(v6, v6, TCP).write(&mut out, 65_535), Ok(()));
    }

    #[test]
    fn addresses_are_found_where_there_are_enough_bytes() {
        for v6 in [false, true] {
            let (source, destination) = ends(v6);
            let bytes = written(&IpHeader::new(source, destination, TCP), &[1, 2, 3]);
            assert_eq!(addresses(&bytes), Some((source, destination)));
            let needed = if v6 { IPV6_HEADER } else { IPV4_HEADER };
            assert!((0..bytes.len()).all(|end| addresses(&bytes[..end]).is_some() == (end >= needed)));
        }
    }
}
