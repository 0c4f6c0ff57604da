//! What a router does to datagrams: time to live, fragments, and the fields that captures show.
//!
//! [`fuzz_read`] is the entry for a fuzzer. All other functions work on datagrams that [`crate::datagram::read`] has accepted; other bytes are left alone.

use warpline_core::Ecn;

use crate::checksum::{fold, sum};
use crate::datagram::{self, Header};
use crate::ip::{FRAGMENT, IPV6_HEADER};

/// Changes the 16-bit word at `at` of an IPv4 header and updates its checksum.
fn change_word(datagram: &mut [u8], at: usize, new: [u8; 2]) {
    let (Some(&old), Some(&checksum)) = (
        datagram.get(at..).and_then(|rest| rest.first_chunk()),
        datagram.get(10..).and_then(|rest| rest.first_chunk()),
    ) else {
        return;
    };
    datagram[at..at + 2].copy_from_slice(&new);
    datagram[10..12].copy_from_slice(&updated(checksum, old, new));
}

/// A checksum after the 16-bit word `old` of what it covers has become `new` (RFC 1624, equation 3).
pub(crate) fn updated(checksum: [u8; 2], old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let mut sum = u32::from(!u16::from_be_bytes(checksum))
        + u32::from(!u16::from_be_bytes(old))
        + u32::from(u16::from_be_bytes(new));
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_be_bytes()
}

/// Sets the time to live (hop limit) of a datagram, and updates the checksum of an IPv4 header.
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

/// Sets the ECN field of a datagram (RFC 3168), and updates the checksum of an IPv4 header.
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

/// Whether a router may fragment the datagram: IPv4 without "don't fragment". Only senders fragment IPv6 (RFC 8200 section 5).
pub fn may_fragment(datagram: &[u8]) -> bool {
    datagram.first().is_some_and(|first| first >> 4 == 4)
        && datagram.get(6).is_some_and(|flags| flags & 0x40 == 0)
}

/// Splits a datagram into fragments of at most `mtu` bytes: an IPv4 one anywhere (RFC 791 section 3.2), an IPv6 one, which has no
/// extension headers, at its sender (RFC 8200 section 4.5), with the identification `id`. IPv4 options stay with the first. `None`
/// if the header alone does not fit.
pub fn fragments(datagram: &[u8], mtu: u32, id: u32) -> Option<Vec<Vec<u8>>> {
    if datagram.first()? >> 4 == 6 {
        return fragments_ipv6(datagram, mtu, id);
    }
    let header_len = usize::from(datagram.first()? & 0xf) * 4;
    let (header, data) = datagram.split_at_checked(header_len)?;
    let word = u16::from_be_bytes([*header.get(6)?, *header.get(7)?]);
    let (start, more) = (usize::from(word & 0x1fff) * 8, word & 0x2000);
    let mut all = Vec::new();
    let mut at = 0;
    while at < data.len() {
        // Later fragments have the fixed header only.
        let own = if at == 0 { header_len } else { 20 };
        let end = piece(at, data.len(), mtu, own)?;
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

/// The end of the fragment that begins at `at` of `len` bytes, behind headers of `own` bytes: all but the last have a multiple of
/// eight bytes.
fn piece(at: usize, len: usize, mtu: u32, own: usize) -> Option<usize> {
    let room = (mtu as usize).checked_sub(own)? & !7;
    (room > 0).then(|| len.min(at + room))
}

fn fragments_ipv6(datagram: &[u8], mtu: u32, id: u32) -> Option<Vec<Vec<u8>>> {
    let (header, data) = datagram.split_at_checked(IPV6_HEADER)?;
    let mut all = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let end = piece(at, data.len(), mtu, IPV6_HEADER + 8)?;
        let mut bytes = header.to_vec();
        bytes[4..6].copy_from_slice(&((8 + end - at) as u16).to_be_bytes());
        bytes[6] = FRAGMENT;
        let word = at as u16 | u16::from(end < data.len());
        bytes.extend([header[6], 0]);
        bytes.extend(word.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend_from_slice(&data[at..end]);
        all.push(bytes);
        at = end;
    }
    Some(all)
}

/// Computes the checksum of an IPv4 header.
pub(crate) fn finish_header(datagram: &mut [u8]) {
    let len = usize::from(datagram[0] & 0xf) * 4;
    datagram[10..12].fill(0);
    let checksum = fold(sum(&datagram[..len]));
    datagram[10..12].copy_from_slice(&checksum.to_be_bytes());
}

/// Fuzz target: passes any bytes through everything that touches bytes from outside.
///
/// # Panics
/// If the parser violates its contract, which is what the fuzzer looks for.
pub fn fuzz_read(bytes: &[u8]) {
    let Ok(header) = datagram::read(bytes) else { return };
    let len = header.len as usize;
    assert!(len >= 20 && len <= bytes.len(), "{header:?} of {} bytes", bytes.len());
    datagram::link_local_multicast(&bytes[..len]);
    datagram::complete(&mut bytes[..len].to_vec(), &header);
    let mut marked = bytes[..len].to_vec();
    set_ecn(&mut marked, Ecn::Ce);
    assert_eq!(datagram::read(&marked), Ok(Header { ecn: Ecn::Ce, ..header }));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            assert_eq!((bytes[8], fold(sum(&bytes[..20]))), (ttl, 0));
            for ecn in [Ecn::Ce, Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
                set_ecn(&mut bytes, ecn);
                assert_eq!((read(&bytes).unwrap().ecn, fold(sum(&bytes[..20]))), (ecn, 0));
            }
        }
    }

    #[test]
    fn fragments_put_together_are_the_datagram() {
        for (len, mtu) in [(1500, 600), (1500, 1500), (1501, 1500), (4000, 68), (29, 28)] {
            let whole = ipv4(len, 9);
            let parts = fragments(&whole, mtu, 0).unwrap();
            let mut data = Vec::new();
            for (i, part) in parts.iter().enumerate() {
                assert!(part.len() <= mtu as usize && read(part).unwrap().len as usize == part.len());
                assert_eq!(fold(sum(&part[..20])), 0);
                let word = u16::from_be_bytes([part[6], part[7]]);
                assert_eq!(
                    (usize::from(word & 0x1fff) * 8, word & 0x2000 != 0),
                    (data.len(), i + 1 < parts.len())
                );
                data.extend_from_slice(&part[20..]);
            }
            assert_eq!(data, whole[20..]);
        }
        // A fragment of a fragment has its position in the whole.
        let first = &fragments(&ipv4(1500, 9), 1000, 0).unwrap()[1];
        let again = fragments(first, 300, 0).unwrap();
        assert_eq!(u16::from_be_bytes([again[0][6], again[0][7]]) & 0x1fff, 976 / 8);
        assert_eq!(again.last().unwrap()[6] & 0x20, 0);
        assert_eq!(fragments(&ipv4(100, 9), 27, 0), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            fuzz_read(&bytes);
        }

        /// Bytes that are almost a datagram reach more of the parser.
        #[test]
        fn no_damaged_datagram_panics(v6: bool, at in 0usize..64, byte: u8, cut in 0usize..64) {
            let mut bytes = if v6 {
                [&[0x6b, 0x90, 0, 0, 0, 12, 0, 63][..], &[1; 16], &[2; 16], &[6, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]].concat()
            } else {
                ipv4(36, 64)
            };
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            fuzz_read(&bytes);
        }
    }
}
