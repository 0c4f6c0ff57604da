//! What a router does to the datagrams that pass it: time to live, fragments, and the fields that captures show.
//!
//! All of it works on datagrams that [`crate::datagram::read`] has accepted; anything else is left alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_core::Ecn;

use crate::checksum::{folded, sum};

/// Where a datagram comes from and where it goes.
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

/// Changes the 16-bit word at `at` of an IPv4 header and its checksum with it (RFC 1624, equation 3).
fn change_word(datagram: &mut [u8], at: usize, new: [u8; 2]) {
    let (Some(&[a, b]), Some(&[c, d])) = (
        datagram.get(at..).and_then(|rest| rest.first_chunk()),
        datagram.get(10..).and_then(|rest| rest.first_chunk()),
    ) else {
        return;
    };
    let mut sum = u32::from(!u16::from_be_bytes([c, d]))
        + u32::from(!u16::from_be_bytes([a, b]))
        + u32::from(u16::from_be_bytes(new));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    datagram[at..at + 2].copy_from_slice(&new);
    datagram[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Sets the time to live (hop limit) of a datagram; the checksum of an IPv4 header changes by as much.
pub fn set_ttl(datagram: &mut [u8], ttl: u8) {
    match datagram.first().map(|first| first >> 4) {
        Some(4) if datagram.len() >= 20 => {
            let protocol = datagram[9];
            change_word(datagram, 8, [ttl, protocol]);
        }
        Some(6) if datagram.len() >= 40 => datagram[7] = ttl,
        _ => {}
    }
}

/// Sets the ECN field of a datagram (RFC 3168); the checksum of an IPv4 header changes by as much.
pub fn set_ecn(datagram: &mut [u8], ecn: Ecn) {
    let (bits, len) = (ecn as u8 & 3, datagram.len());
    match datagram {
        [first, tos, ..] if *first >> 4 == 4 && len >= 20 => {
            let word = [*first, *tos & !3 | bits];
            change_word(datagram, 0, word);
        }
        [first, second, ..] if *first >> 4 == 6 => *second = *second & !0x30 | bits << 4,
        _ => {}
    }
}

/// Where the transport header of a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Protocol (IANA's number).
    pub protocol: u8,
    /// Offset of its first byte.
    pub at: usize,
    /// Whether this is a fragment of a datagram.
    pub fragment: bool,
    /// Whether this is a fragment other than the first, which has no transport header.
    pub later_fragment: bool,
}

/// Finds the transport header behind IPv4 options or IPv6 extension headers (RFC 8200 section 4), a few at the most.
pub fn payload(datagram: &[u8]) -> Option<Payload> {
    if datagram.first()? >> 4 == 4 {
        let at = usize::from(datagram[0] & 0xf) * 4;
        let word = u16::from_be_bytes([*datagram.get(6)?, *datagram.get(7)?]);
        let (fragment, later_fragment) = (word & 0x3fff != 0, word & 0x1fff != 0);
        return (datagram.len() >= at).then_some(Payload {
            protocol: datagram[9],
            at,
            fragment,
            later_fragment,
        });
    }
    let (mut next, mut at) = (*datagram.get(6)?, 40);
    for _ in 0..4 {
        let rest = datagram.get(at..)?;
        match (next, rest) {
            (0 | 43 | 60, [following, words, ..]) => {
                at += (usize::from(*words) + 1) * 8;
                next = *following;
            }
            (44, [following, _, high, low, ..]) => {
                let later = u16::from_be_bytes([*high, *low]) & 0xfff8 != 0;
                return Some(Payload {
                    protocol: *following,
                    at: at + 8,
                    fragment: true,
                    later_fragment: later,
                });
            }
            _ => break,
        }
    }
    (at <= datagram.len()).then_some(Payload { protocol: next, at, fragment: false, later_fragment: false })
}

/// Whether a router may cut the datagram: IPv4 without "don't fragment". IPv6 is cut by senders only (RFC 8200 section 5).
pub fn may_fragment(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 4 == 4)
        && datagram.get(6).is_some_and(|flags| flags & 0x40 == 0)
}

/// Cuts an IPv4 datagram into fragments of at most `mtu` bytes (RFC 791 section 3.2). Options stay with the first. None if the
/// header alone does not fit.
pub fn fragments(datagram: &[u8], mtu: u32) -> Option<Vec<Vec<u8>>> {
    let header_len = usize::from(datagram.first()? & 0xf) * 4;
    let (header, data) = datagram.split_at_checked(header_len)?;
    let word = u16::from_be_bytes([*header.get(6)?, *header.get(7)?]);
    let (start, more) = (usize::from(word & 0x1fff) * 8, word & 0x2000);
    let mut all = Vec::new();
    let mut at = 0;
    while at < data.len() {
        // Later fragments have the fixed header only.
        let own = if at == 0 { header_len } else { 20 };
        let room = (mtu as usize).checked_sub(own)? & !7;
        if room == 0 {
            return None;
        }
        let end = data.len().min(at + room);
        let mut bytes = header[..own].to_vec();
        bytes.extend_from_slice(&data[at..end]);
        bytes[0] = 0x40 | (own / 4) as u8;
        let len = bytes.len() as u16;
        bytes[2..4].copy_from_slice(&len.to_be_bytes());
        let more = if end < data.len() { 0x2000 } else { more };
        let word = more | ((start + at) / 8) as u16;
        bytes[6..8].copy_from_slice(&word.to_be_bytes());
        finish_header(&mut bytes);
        all.push(bytes);
        at = end;
    }
    Some(all)
}

/// Computes the checksum of an IPv4 header.
pub(crate) fn finish_header(datagram: &mut [u8]) {
    let len = usize::from(datagram[0] & 0xf) * 4;
    datagram[10..12].fill(0);
    let checksum = folded(sum(&datagram[..len]));
    datagram[10..12].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::read;

    fn ipv4(len: usize, ttl: u8) -> Vec<u8> {
        let mut bytes = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        bytes.extend((20..len).map(|i| i as u8));
        finish_header(&mut bytes);
        bytes
    }

    #[test]
    fn every_change_of_a_header_keeps_its_checksum_right() {
        for ttl in 0..=255 {
            let mut bytes = ipv4(60, 255 - ttl);
            set_ttl(&mut bytes, ttl);
            assert_eq!((bytes[8], folded(sum(&bytes[..20]))), (ttl, 0));
            for ecn in [Ecn::Ce, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
                set_ecn(&mut bytes, ecn);
                assert_eq!((read(&bytes).unwrap().ecn, folded(sum(&bytes[..20]))), (ecn, 0));
            }
        }
    }

    #[test]
    fn fragments_put_together_are_the_datagram() {
        for (len, mtu) in [(1500, 600), (1500, 1500), (1501, 1500), (4000, 68), (29, 28)] {
            let whole = ipv4(len, 9);
            let parts = fragments(&whole, mtu).unwrap();
            let mut data = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                assert!(part.len() <= mtu as usize && read(part).unwrap().len as usize == part.len());
                assert_eq!(folded(sum(&part[..20])), 0);
                let word = u16::from_be_bytes([part[6], part[7]]);
                assert_eq!(
                    (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0),
                    (data.len(), i + 1 < parts.len())
                );
                data.extend_from_slice(&part[20..]);
            }
            assert_eq!(data, whole[20..]);
        }
        // A fragment of a fragment says where it is in the whole.
        let first = &fragments(&ipv4(1500, 9), 1000).unwrap()[1];
        let again = fragments(first, 300).unwrap();
        assert_eq!(u16::from_be_bytes([again[0][6], again[0][7]]) & 0x1fff, 976 / 8);
        assert_eq!(again.last().unwrap()[6] & 0x20, 0);
        assert_eq!(fragments(&ipv4(100, 9), 27), None);
    }

    #[test]
    fn the_transport_header_is_found() {
        let mut bytes = vec![0x60, 0, 0, 0, 0, 24, 44, 64];
        bytes.extend([7; 32]);
        bytes.extend([17, 0, 0, 1, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0]);
        let found = payload(&bytes).unwrap();
        assert_eq!(found, Payload { protocol: 17, at: 48, fragment: true, later_fragment: false });
        for end in 0..bytes.len() {
            payload(&bytes[..end]);
            addresses(&bytes[..end]);
        }
        let addresses = addresses(&ipv4(40, 1)).unwrap();
        assert_eq!(
            (addresses.0.to_string(), addresses.1.to_string()),
            ("10.0.0.1".to_owned(), "10.0.0.2".to_owned())
        );
    }
}
