//! Completes checksums that a sender left to its card.
//!
//! A veth is a card that never computes them, so frames of a container come without. The kernel says where a checksum stands and where what it covers
//! begins (`struct virtio_net_hdr`, `linux/virtio_net.h`), so what is around does not matter: a tunnel, IPv6 extension headers, a tag. A tunnel's own
//! checksum is right as soon as the one inside is (local checksum offload, Linux Documentation/networking/checksum-offloads.rst).

use super::link::ETHERNET;
use super::vnet::{NEEDS_CSUM, VNET};
use crate::checksum::{fold, sum};
use crate::datagram::{self, Header};

/// Where SCTP has its checksum (RFC 9260 section 3.1), and no other protocol that is left to cards. It is a CRC32c, and the kernel does not say so.
const SCTP_FIELD: usize = 8;

/// A checksum that is still to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// That of the TCP segment or UDP datagram. Nothing more is known of frames from our own hosts, which leave none to their cards (`crate::offload`).
    Usual,
    /// It covers the datagram from `start` on, and stands at `field` from there. The field has the sum of the pseudo header, if there is one.
    At {
        /// From the end of the Ethernet header.
        start: usize,
        /// From `start`.
        field: usize,
    },
}

impl Unfinished {
    /// Reads what the kernel says of a frame. `None` if its checksum is complete.
    pub(super) fn read(vnet: &[u8; VNET]) -> Option<Unfinished> {
        let [flags, _, _, _, _, _, start, more, field, last] = *vnet;
        if flags & NEEDS_CSUM == 0 {
            return None;
        }
        let [start, field] =
            [[start, more], [field, last]].map(|bytes| usize::from(u16::from_ne_bytes(bytes)));
        Some(match start.checked_sub(ETHERNET) {
            Some(start) => Unfinished::At { start, field },
            None => Unfinished::Usual,
        })
    }

    /// Computes it. `header` is that of the datagram, or has the version 0 if the bytes are none. A place beyond the end is left alone.
    pub(super) fn complete(self, datagram: &mut [u8], header: &Header) {
        let (start, field) = match self {
            Unfinished::Usual if header.version > 0 => return datagram::complete(datagram, header),
            Unfinished::Usual => return,
            Unfinished::At { start, field } => (start, field),
        };
        let Some(covered) = datagram.get_mut(start..) else { return };
        if field == SCTP_FIELD {
            if covered.len() >= SCTP_FIELD + 4 {
                covered[SCTP_FIELD..SCTP_FIELD + 4].fill(0);
                let checksum = crc32c(covered);
                covered[SCTP_FIELD..SCTP_FIELD + 4].copy_from_slice(&checksum.to_le_bytes());
            }
            return;
        }
        if covered.len() < field + 2 {
            return;
        }
        // Both zeros mean the same, but for UDP, where one says that there is no checksum (RFC 768).
        let checksum = match fold(sum(covered)) {
            0 => 0xffff,
            checksum => checksum,
        };
        covered[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    }
}

/// The remainders of all bytes.
static REMAINDERS: [u32; 256] = remainders();

const fn remainders() -> [u32; 256] {
    let mut all = [0; 256];
    let mut byte = 0;
    while byte < all.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            // Castagnoli's polynomial, reflected.
            rest = if rest & 1 == 1 { (rest >> 1) ^ 0x82f6_3b78 } else { rest >> 1 };
            bit += 1;
        }
        all[byte] = rest;
        byte += 1;
    }
    all
}

/// CRC32c (RFC 9260 appendix A). SCTP sends its lowest byte first.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes
        .iter()
        .fold(u32::MAX, |rest, &byte| REMAINDERS[((rest ^ u32::from(byte)) & 0xff) as usize] ^ (rest >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::TCP;

    /// 10.0.0.1 to 10.0.0.2, for 20 bytes of TCP; the segment, whose checksum is to be 0x9bdc; and the sum of the pseudo header.
    const IPV4: [u8; 20] = [0x45, 0, 0, 40, 0, 1, 0x40, 0, 64, 6, 0x26, 0xcd, 10, 0, 0, 1, 10, 0, 0, 2];
    const SYN: [u8; 20] = [0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0x14, 0x1d, 0, 0];
    const RIGHT: [u8; 2] = [0x9b, 0xdc];
    const TCP_FIELD: usize = 16;

    fn vnet(start: usize, field: usize) -> [u8; VNET] {
        let [a, b] = (start as u16).to_ne_bytes();
        let [c, d] = (field as u16).to_ne_bytes();
        [NEEDS_CSUM, 0, 0, 0, 0, 0, a, b, c, d]
    }

    /// The datagram with the checksum completed that stands at `field` behind `start`, as the kernel would say it.
    fn completed(datagram: &[u8], start: usize, field: usize) -> Vec<u8> {
        let mut bytes = datagram.to_vec();
        let header = datagram::read(datagram).unwrap_or_default();
        Unfinished::read(&vnet(ETHERNET + start, field)).unwrap().complete(&mut bytes, &header);
        bytes
    }

    #[test]
    fn the_checksum_inside_is_completed_whatever_is_around() {
        let outer = |protocol: u8, len: u8| {
            [&[0x45, 0, 0, 20 + len, 0, 7, 0, 0, 64, protocol, 0, 0][..], &[192, 0, 2, 1, 192, 0, 2, 2]]
                .concat()
        };
        // UDP to port 4789 without a checksum, VXLAN of network 5 (RFC 7348), an Ethernet header.
        let vxlan = [
            &[0xc0, 0, 0x12, 0xb5, 0, 70, 0, 0][..],
            &[8, 0, 0, 0, 0, 0, 5, 0],
            &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0],
        ]
        .concat();
        for around in [
            Vec::new(),
            [outer(4, 40), Vec::new()].concat(),
            [outer(47, 44), vec![0, 0, 8, 0]].concat(),
            [outer(17, 70), vxlan].concat(),
        ] {
            let datagram = [&around[..], &IPV4, &SYN].concat();
            let start = around.len() + IPV4.len();
            let mut expected = datagram.clone();
            expected[start + TCP_FIELD..start + TCP_FIELD + 2].copy_from_slice(&RIGHT);
            assert_eq!(completed(&datagram, start, TCP_FIELD), expected, "{}", around.len());
        }
    }

    #[test]
    fn tcp_behind_an_extension_header_of_ipv6_is_completed() {
        let mut datagram = vec![0x60, 0, 0, 0, 0, 28, 60, 64];
        for last in [1, 2] {
            datagram.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        // Destination options: padding.
        datagram.extend([TCP, 0, 1, 4, 0, 0, 0, 0]);
        let start = datagram.len();
        datagram.extend(SYN);
        datagram[start + TCP_FIELD..start + TCP_FIELD + 2].copy_from_slice(&[0x5b, 0x8f]);
        let mut expected = datagram.clone();
        expected[start + TCP_FIELD..start + TCP_FIELD + 2].copy_from_slice(&[0x54, 0x6a]);
        assert_eq!(completed(&datagram, start, TCP_FIELD), expected);
    }

    #[test]
    fn sctp_gets_its_crc() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let ip = [0x45, 0, 0, 36, 0, 1, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        // A chunk COOKIE ACK, behind the common header.
        let sctp = [0x0b, 0x59, 0x0b, 0x5a, 1, 2, 3, 4, 0, 0, 0, 0, 0x0b, 0, 0, 4];
        let datagram = [&ip[..], &sctp].concat();
        let mut expected = datagram.clone();
        expected[28..32].copy_from_slice(&[0xd1, 0x4e, 0xf3, 0x0b]);
        assert_eq!(completed(&datagram, 20, SCTP_FIELD), expected);
    }

    #[test]
    fn a_sum_of_zero_is_written_in_its_other_form() {
        // UDP with a pseudo header's sum that makes everything cancel out.
        let datagram = [&IPV4[..], &[0xff, 0xff, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(completed(&datagram, 20, 6)[26..28], [0xff, 0xff]);
    }

    #[test]
    fn a_place_that_is_not_there_is_left_alone() {
        let datagram = [IPV4, SYN].concat();
        for (start, field) in [(41, 16), (40, 0), (30, 16), (30, SCTP_FIELD), (20, 19), (65_000, 65_000)] {
            assert_eq!(completed(&datagram, start, field), datagram, "{start} {field}");
        }
        let mut complete = vnet(34, 16);
        complete[0] = 2;
        assert_eq!(Unfinished::read(&complete), None);
        // A place within the Ethernet header is none: what is usual is done.
        assert_eq!(Unfinished::read(&vnet(13, 16)), Some(Unfinished::Usual));
    }
}
