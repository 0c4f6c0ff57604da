//! Cuts what a sender or a card has merged: a "segment" that is larger than a packet, into the packets that a wire would carry.
//!
//! A container's kernel leaves it to the card to cut a TCP stream (TSO), and a pair of veths is a card that never does; a card may merge what it
//! has received (GRO, LRO). The kernel says how large the packets are or were (`struct virtio_net_hdr`, `linux/virtio_net.h`; Linux
//! Documentation/networking/segmentation-offloads.rst). What comes out has the headers and checksums that the card would have made.

use crate::checksum::{fold, sum};
use crate::datagram;
use crate::ip::{IPV4_HEADER, IPV6_HEADER, TCP, UDP};

/// Bytes of `struct virtio_net_hdr`.
pub(super) const VNET: usize = 10;
/// What the payload of each packet is a part of: TCP over IPv4 or IPv6, or UDP datagrams of one size (`VIRTIO_NET_HDR_GSO_*`).
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
const UDP_L4: u8 = 5;
/// The connection uses ECN: only the first packet has the flag CWR.
const ECN: u8 = 0x80;
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// Bytes of a UDP header, and the fewest of a TCP header.
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

/// How a merged datagram is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    kind: u8,
    /// Bytes of payload of each packet but the last.
    size: usize,
}

impl Merged {
    /// Reads what the kernel says of a frame. `None` if it is one packet.
    pub(super) fn read(vnet: &[u8; VNET]) -> Option<Merged> {
        let kind = vnet[1] & !ECN;
        let size = usize::from(u16::from_ne_bytes([vnet[4], vnet[5]]));
        (kind != 0 && size > 0).then_some(Merged { kind, size })
    }
}

/// Where the parts of a datagram begin.
struct Parts {
    ip: usize,
    headers: usize,
    protocol: u8,
}

fn parts(bytes: &[u8], kind: u8) -> Option<Parts> {
    let version = bytes.first()? >> 4;
    let (ip, protocol) = match version {
        4 => (usize::from(bytes[0] & 0xf) * 4, *bytes.get(9)?),
        6 => (IPV6_HEADER, *bytes.get(6)?),
        _ => return None,
    };
    let right = match kind {
        TCP_V4 => (version, protocol) == (4, TCP),
        TCP_V6 => (version, protocol) == (6, TCP),
        UDP_L4 => protocol == UDP,
        _ => false,
    };
    if !right || ip < IPV4_HEADER {
        return None;
    }
    let own = if protocol == TCP { usize::from(bytes.get(ip + 12)? >> 4) * 4 } else { UDP_HEADER };
    let least = if protocol == TCP { TCP_HEADER } else { UDP_HEADER };
    (own >= least && bytes.len() > ip + own).then_some(Parts { ip, headers: ip + own, protocol })
}

/// Cuts a merged datagram, and hands each packet to `take`, in `buffer`. Returns whether it could be cut.
pub(super) fn cut(bytes: &[u8], merged: Merged, buffer: &mut Vec<u8>, mut take: impl FnMut(&[u8])) -> bool {
    let Some(Parts { ip, headers, protocol }) = parts(bytes, merged.kind) else { return false };
    let (head, payload) = bytes.split_at(headers);
    let count = payload.len().div_ceil(merged.size);
    for (number, piece) in payload.chunks(merged.size).enumerate() {
        buffer.clear();
        buffer.extend_from_slice(head);
        buffer.extend_from_slice(piece);
        let (first, last) = (number == 0, number + 1 == count);
        let len = buffer.len();
        if protocol == TCP {
            let sequence = word(head, ip + 4).wrapping_add((number * merged.size) as u32);
            buffer[ip + 4..ip + 8].copy_from_slice(&sequence.to_be_bytes());
            buffer[ip + 13] &= !(if last { 0 } else { FIN | PSH } | if first { 0 } else { CWR });
        } else {
            buffer[ip + 4..ip + 6].copy_from_slice(&((len - ip) as u16).to_be_bytes());
        }
        if head[0] >> 4 == 4 {
            buffer[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            let id = u16::from_be_bytes([head[4], head[5]]).wrapping_add(number as u16);
            buffer[4..6].copy_from_slice(&id.to_be_bytes());
            buffer[10..12].fill(0);
            let checksum = fold(sum(&buffer[..ip]));
            buffer[10..12].copy_from_slice(&checksum.to_be_bytes());
        } else {
            buffer[4..6].copy_from_slice(&((len - IPV6_HEADER) as u16).to_be_bytes());
        }
        if let Ok(header) = datagram::read(buffer) {
            datagram::complete(buffer, &header);
        }
        take(buffer);
    }
    true
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().fold(0, |word, &byte| word << 8 | u32::from(byte))
}

/// Fuzz target: any bytes as what the kernel says of a frame, and as the datagram.
///
/// # Panics
/// If a packet is larger than it may be, or bytes are lost.
pub(super) fn fuzz(bytes: &[u8]) {
    let Some((vnet, bytes)) = bytes.split_first_chunk::<VNET>() else { return };
    let Some(merged) = Merged::read(vnet) else { return };
    let Some(Parts { headers, .. }) = parts(bytes, merged.kind) else { return };
    let mut payload = Vec::new();
    let whole = cut(bytes, merged, &mut Vec::new(), |packet| {
        assert!(packet.len() <= headers + merged.size);
        payload.extend_from_slice(&packet[headers..]);
    });
    assert!(whole && payload == bytes[headers..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::IpHeader;

    fn vnet(kind: u8, size: u16) -> [u8; VNET] {
        let [low, high] = size.to_ne_bytes();
        [1, kind, 0, 0, low, high, 0, 0, 0, 0]
    }

    fn merged(version: u8, protocol: u8, payload: usize, flags: u8) -> Vec<u8> {
        let (from, to) = match version {
            4 => (std::net::IpAddr::from([192, 0, 2, 1]), [192, 0, 2, 2].into()),
            _ => ([1u8; 16].into(), [2u8; 16].into()),
        };
        let own: Vec<u8> = match protocol {
            TCP => {
                let sequence = (u32::MAX - 99).to_be_bytes();
                [&[1, 0, 2, 0][..], &sequence, &[0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]].concat()
            }
            _ => vec![1, 0, 2, 0, 0, 0, 0, 0],
        };
        let mut bytes = Vec::new();
        let header = IpHeader { identification: 0xffff, ..IpHeader::new(from, to, protocol) };
        header.write(&mut bytes, own.len() + payload).unwrap();
        bytes.extend(own);
        bytes.extend((0..payload).map(|at| at as u8));
        bytes
    }

    fn cut_up(bytes: &[u8], kind: u8, size: u16) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let merged = Merged::read(&vnet(kind, size)).unwrap();
        assert!(cut(bytes, merged, &mut Vec::new(), |packet| packets.push(packet.to_owned())));
        packets
    }

    #[test]
    fn the_packets_are_those_that_a_card_would_have_sent() {
        for (version, kind) in [(4, TCP_V4), (6, TCP_V6)] {
            let whole = merged(version, TCP, 250, CWR | 0x10 | PSH | FIN);
            let packets = cut_up(&whole, kind | ECN, 100);
            let ip = if version == 4 { 20 } else { 40 };
            assert_eq!(
                packets.iter().map(|packet| packet.len() - ip - 20).collect::<Vec<_>>(),
                [100, 100, 50]
            );
            let sequences: Vec<u32> = packets.iter().map(|packet| word(packet, ip + 4)).collect();
            assert_eq!(sequences, [u32::MAX - 99, 0, 100]);
            let flags: Vec<u8> = packets.iter().map(|packet| packet[ip + 13]).collect();
            assert_eq!(flags, [CWR | 0x10, 0x10, 0x10 | PSH | FIN]);
            for packet in &packets {
                let header = datagram::read(packet).unwrap();
                assert_eq!(header.len as usize, packet.len());
                let mut completed = packet.clone();
                datagram::complete(&mut completed, &header);
                assert_eq!(&completed, packet);
                if version == 4 {
                    assert_eq!(fold(sum(&packet[..20])), 0);
                }
            }
            if version == 4 {
                assert_eq!(packets[1][4..6], [0, 0]);
            }
        }
    }

    #[test]
    fn datagrams_of_one_send_are_told_apart() {
        for version in [4, 6] {
            let packets = cut_up(&merged(version, UDP, 25, 0), UDP_L4, 10);
            let ip = if version == 4 { 20 } else { 40 };
            let lengths: Vec<u8> = packets.iter().map(|packet| packet[ip + 5]).collect();
            assert_eq!(lengths, [18, 18, 13]);
            assert_eq!(packets[2][ip + 8..], [20, 21, 22, 23, 24]);
        }
    }

    #[test]
    fn one_packet_is_left_whole_and_nonsense_is_refused() {
        assert_eq!(Merged::read(&vnet(0, 1448)), None);
        assert_eq!(Merged::read(&vnet(TCP_V4, 0)), None);
        for (bytes, kind) in [
            (merged(6, TCP, 250, 0), TCP_V4),
            (merged(4, UDP, 250, 0), TCP_V4),
            (merged(4, TCP, 250, 0), 3),
            (merged(4, TCP, 0, 0), TCP_V4),
            (merged(4, TCP, 250, 0)[..30].to_vec(), TCP_V4),
            (Vec::new(), UDP_L4),
        ] {
            let cut = cut(&bytes, Merged { kind, size: 100 }, &mut Vec::new(), |_| panic!("it was cut"));
            assert!(!cut, "{kind}");
        }
    }
}
