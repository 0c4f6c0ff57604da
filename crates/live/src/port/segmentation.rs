//! Cuts what a sender or a card has merged: a "segment" that is larger than a packet, into the packets that a wire would carry.
//!
//! A container's kernel leaves it to the card to cut a TCP stream (TSO), and a pair of veths is a card that never does; a card may merge what it
//! has received (GRO, LRO). The kernel says how large the packets are or were (`struct virtio_net_hdr`, `linux/virtio_net.h`; Linux
//! Documentation/networking/segmentation-offloads.rst). What comes out has the headers and checksums that the card would have made.

use super::link::{ETHERNET, ether_type};
use super::unfinished::Unfinished;
use super::vnet::{ECN, TCP_V4, TCP_V6, UDP_L4, VNET};
use crate::checksum::{fold, sum};
use crate::datagram;
use crate::ip::{self, IPV4_HEADER, IPV6_HEADER, TCP, UDP};
use crate::router::finish_header;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;
/// What a tunnel's datagram can have in it: IPv4, IPv6, GRE (RFC 2784); or UDP with VXLAN and the like.
const IN_IP: [u8; 2] = [4, 41];
const GRE: u8 = 47;
/// GRE's flags for a checksum and for a key, each of which takes four bytes (RFC 2890).
const GRE_CHECKSUM: u8 = 0x80;
const GRE_KEY: u8 = 0x20;
/// The type of what is in GRE if an Ethernet header comes first.
const GRE_ETHERNET: [u8; 2] = [0x65, 0x58];
/// Bytes of a UDP header, and the fewest of a TCP header.
const UDP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;

/// How a merged datagram is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    kind: u8,
    /// Bytes of payload of each packet but the last.
    size: usize,
    /// Where the header of TCP or UDP begins, if the kernel says so.
    start: Option<usize>,
}

impl Merged {
    /// Reads what the kernel says of a frame. `None` if it is one packet.
    pub(super) fn read(vnet: &[u8; VNET]) -> Option<Merged> {
        let kind = vnet[1] & !ECN;
        let size = usize::from(u16::from_ne_bytes([vnet[4], vnet[5]]));
        let start = match Unfinished::read(vnet) {
            Some(Unfinished::At { start, .. }) => Some(start),
            Some(Unfinished::Usual) | None => None,
        };
        (kind != 0 && size > 0).then_some(Merged { kind, size, start })
    }
}

/// Where the parts of a datagram begin.
struct Parts {
    /// The tunnel that it comes through, if it does: what its datagram has in it, and where that begins.
    tunnel: Option<(u8, usize)>,
    /// The header of IP, and that of TCP or UDP: what is cut.
    ip: usize,
    transport: usize,
    /// The payload.
    headers: usize,
    protocol: u8,
}

/// The protocol of what an IP datagram has in it, and where that begins. `None` for a fragment of IPv6, and for one whose destination is not yet its last:
/// checksums cover the last, which stands elsewhere.
fn inside(datagram: &[u8]) -> Option<(u8, usize)> {
    match datagram.first()? >> 4 {
        4 => {
            let at = usize::from(datagram[0] & 0xf) * 4;
            (at >= IPV4_HEADER && at <= datagram.len()).then_some((*datagram.get(9)?, at))
        }
        6 => ip::inner_ipv6(datagram)
            .filter(|inner| inner.fragment.is_none() && !inner.to_be_routed)
            .map(|inner| (inner.protocol, inner.at)),
        _ => None,
    }
}

fn parts(bytes: &[u8], merged: Merged) -> Option<Parts> {
    let around = inside(bytes)?;
    let (tunnel, ip) = match merged.start {
        // What is cut does not begin where the first header ends.
        Some(start) if start != around.1 => (Some(around), tunnelled(bytes, around, start)?),
        _ => (None, 0),
    };
    let (protocol, at) = inside(&bytes[ip..])?;
    let version = bytes[ip] >> 4;
    let right = match merged.kind {
        TCP_V4 => (version, protocol) == (4, TCP),
        TCP_V6 => (version, protocol) == (6, TCP),
        UDP_L4 => protocol == UDP,
        _ => false,
    };
    if !right {
        return None;
    }
    let transport = ip + at;
    let (least, own) = match protocol {
        TCP => (TCP_HEADER, usize::from(bytes.get(transport + 12)? >> 4) * 4),
        _ => (UDP_HEADER, UDP_HEADER),
    };
    let headers = transport + own;
    (own >= least && bytes.len() > headers).then_some(Parts { tunnel, ip, transport, headers, protocol })
}

/// Where in a tunnel's payload, which begins at `at`, the IP header begins that ends at `start`. `None` if there is none, or the tunnel's own header is
/// one that cannot be made anew for each packet.
fn tunnelled(bytes: &[u8], (protocol, at): (u8, usize), start: usize) -> Option<usize> {
    let (version, ip) = [(4, IPV4_HEADER), (6, IPV6_HEADER)].into_iter().find_map(|(version, header)| {
        let ip = start.checked_sub(header).filter(|&ip| ip >= at)?;
        let datagram = bytes.get(ip..)?;
        let fits = is_whole(datagram) && datagram[0] >> 4 == version && inside(datagram)?.1 == header;
        fits.then_some((version, ip))
    })?;
    let (own, kind) = (&bytes[at..ip], ether_type(version).to_be_bytes());
    let known = match protocol {
        GRE => is_gre(own, kind),
        // Nothing else (FOU), or VXLAN and the like with an Ethernet header.
        UDP => own.len() == UDP_HEADER || (own.len() >= UDP_HEADER + ETHERNET && own.ends_with(&kind)),
        _ => IN_IP.contains(&protocol) && own.is_empty(),
    };
    // Between the two may be a third, of a tunnel in the tunnel, whose lengths and checksums would stay as they are.
    let nested = (at..ip).map(|between| &bytes[between..]).any(|datagram| {
        let has = |(protocol, _)| [UDP, GRE].contains(&protocol) || IN_IP.contains(&protocol);
        is_whole(datagram) && inside(datagram).is_some_and(has)
    });
    (known && !nested).then_some(ip)
}

/// Whether bytes begin like an IP datagram, and are as long as that says.
fn is_whole(bytes: &[u8]) -> bool {
    let (field, uncounted) = match bytes.first().map(|first| first >> 4) {
        Some(4) => (2, 0),
        Some(6) => (4, IPV6_HEADER),
        _ => return false,
    };
    let told = bytes.get(field..).and_then(|rest| rest.first_chunk::<2>());
    told.is_some_and(|&told| usize::from(u16::from_be_bytes(told)) + uncounted == bytes.len())
}

/// Whether bytes are a header of GRE, without a number for each packet, around an IP datagram of this type.
fn is_gre(own: &[u8], kind: [u8; 2]) -> bool {
    let Some(&[flags, _, high, low]) = own.first_chunk::<4>() else { return false };
    let options = usize::from(flags & GRE_CHECKSUM != 0) + usize::from(flags & GRE_KEY != 0);
    let len = 4 + 4 * options;
    let right = match [high, low] {
        GRE_ETHERNET => own.len() == len + ETHERNET && own.ends_with(&kind),
        told => own.len() == len && told == kind,
    };
    right && flags & !(GRE_CHECKSUM | GRE_KEY) == 0
}

/// Writes the length and the identification of the IP datagram in packet `number`, and the checksum of its header.
fn finish_ip(datagram: &mut [u8], number: usize) {
    if datagram[0] >> 4 == 4 {
        let len = datagram.len() as u16;
        datagram[2..4].copy_from_slice(&len.to_be_bytes());
        let id = u16::from_be_bytes([datagram[4], datagram[5]]).wrapping_add(number as u16);
        datagram[4..6].copy_from_slice(&id.to_be_bytes());
        finish_header(datagram);
    } else {
        let len = (datagram.len() - IPV6_HEADER) as u16;
        datagram[4..6].copy_from_slice(&len.to_be_bytes());
    }
}

/// Writes the length and the checksum of a tunnel's header, which begins at `at` of a datagram. One without a checksum stays without.
fn finish_tunnel(datagram: &mut [u8], protocol: u8, at: usize) {
    match protocol {
        UDP => {
            let len = (datagram.len() - at) as u16;
            datagram[at + 4..at + 6].copy_from_slice(&len.to_be_bytes());
            if datagram[at + 6..at + 8] != [0, 0] {
                datagram::complete_at(datagram, UDP, at);
            }
        }
        GRE if datagram[at] & GRE_CHECKSUM != 0 => {
            datagram[at + 4..at + 6].fill(0);
            let checksum = fold(sum(&datagram[at..]));
            datagram[at + 4..at + 6].copy_from_slice(&checksum.to_be_bytes());
        }
        _ => {}
    }
}

/// Cuts a merged datagram, and hands each packet to `take`, in `buffer`. Returns whether it could be cut.
pub(super) fn cut(bytes: &[u8], merged: Merged, buffer: &mut Vec<u8>, mut take: impl FnMut(&[u8])) -> bool {
    let Some(Parts { tunnel, ip, transport, headers, protocol }) = parts(bytes, merged) else { return false };
    let (head, payload) = bytes.split_at(headers);
    let count = payload.len().div_ceil(merged.size);
    for (number, piece) in payload.chunks(merged.size).enumerate() {
        buffer.clear();
        buffer.extend_from_slice(head);
        buffer.extend_from_slice(piece);
        let (first, last) = (number == 0, number + 1 == count);
        if protocol == TCP {
            let sequence = word(head, transport + 4).wrapping_add((number * merged.size) as u32);
            buffer[transport + 4..transport + 8].copy_from_slice(&sequence.to_be_bytes());
            buffer[transport + 13] &= !(if last { 0 } else { FIN | PSH } | if first { 0 } else { CWR });
        } else {
            let len = (buffer.len() - transport) as u16;
            buffer[transport + 4..transport + 6].copy_from_slice(&len.to_be_bytes());
        }
        finish_ip(&mut buffer[ip..], number);
        datagram::complete_at(&mut buffer[ip..], protocol, transport - ip);
        if let Some((around, at)) = tunnel {
            finish_ip(buffer, number);
            finish_tunnel(buffer, around, at);
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
    let Some(Parts { headers, .. }) = parts(bytes, merged) else { return };
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
    fn tcp_behind_an_extension_header_is_cut() {
        let mut whole = merged(6, TCP, 250, 0x10);
        // Destination options: padding.
        whole.splice(40..40, [TCP, 0, 1, 4, 0, 0, 0, 0]);
        whole[6] = 60;
        let packets = cut_up(&whole, TCP_V6, 100);
        assert_eq!(packets.iter().map(Vec::len).collect::<Vec<_>>(), [168, 168, 118]);
        for packet in &packets {
            assert_eq!(datagram::read(packet).unwrap().len as usize, packet.len());
            let pseudo = sum(&packet[8..40]) + u64::from(TCP) + (packet.len() - 48) as u64;
            assert_eq!(fold(pseudo + sum(&packet[48..])), 0);
        }
    }

    /// A datagram of a tunnel, with `own` between the header of IP and the datagram inside; and how it is to be cut.
    fn in_tunnel(protocol: u8, own: &[u8], inner: &[u8], kind: u8) -> (Vec<u8>, Merged) {
        let mut whole = Vec::new();
        let [from, to] = [8, 9].map(|last| std::net::IpAddr::from([192, 0, 2, last]));
        IpHeader::new(from, to, protocol).write(&mut whole, own.len() + inner.len()).unwrap();
        whole.extend(own);
        let start = ETHERNET + whole.len() + if inner[0] >> 4 == 4 { 20 } else { 40 };
        whole.extend(inner);
        let mut told = vnet(kind, 100);
        told[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
        (whole, Merged::read(&told).unwrap())
    }

    /// The headers of UDP, with a checksum or zeros, of VXLAN and of Ethernet.
    fn vxlan([high, low]: [u8; 2], version: u8) -> Vec<u8> {
        let udp = [0xc0, 0, 0x12, 0xb5, 0, 0, high, low];
        [&udp[..], &[8, 0, 0, 0, 0, 0, 5, 0], &ethernet(version)[..]].concat()
    }

    fn ethernet(version: u8) -> Vec<u8> {
        [&[2u8; ETHERNET - 2][..], &ether_type(version).to_be_bytes()].concat()
    }

    #[test]
    fn what_comes_through_a_tunnel_is_cut_inside_of_it() {
        for (version, protocol, kind) in
            [(4, TCP, TCP_V4), (6, TCP, TCP_V6), (4, UDP, UDP_L4), (6, UDP, UDP_L4)]
        {
            let inner = merged(version, protocol, 250, 0x10);
            let plain = cut_up(&inner, kind, 100);
            let [high, low] = ether_type(version).to_be_bytes();
            for (around, own) in [
                (IN_IP[usize::from(version == 6)], vec![]),
                (GRE, vec![0, 0, high, low]),
                (GRE, vec![GRE_CHECKSUM, 0, high, low, 9, 9, 0, 0]),
                (GRE, vec![GRE_KEY, 0, high, low, 0, 0, 0, 7]),
                (GRE, vec![GRE_CHECKSUM | GRE_KEY, 0, high, low, 9, 9, 0, 0, 0, 0, 0, 7]),
                (GRE, [&[0, 0, 0x65, 0x58][..], &ethernet(version)[..]].concat()),
                (UDP, vec![0xc0, 0, 0x15, 0xb3, 0, 0, 0, 0]),
                (UDP, vxlan([0, 0], version)),
                (UDP, vxlan([9, 9], version)),
            ] {
                let (whole, how) = in_tunnel(around, &own, &inner, kind);
                let mut packets: Vec<Vec<u8>> = Vec::new();
                assert!(cut(&whole, how, &mut Vec::new(), |packet| packets.push(packet.to_owned())));
                assert_eq!(packets.len(), plain.len());
                for (packet, plain) in packets.iter().zip(&plain) {
                    assert_eq!(packet[20 + own.len()..], plain[..]);
                    assert_eq!(datagram::read(packet).unwrap().len as usize, packet.len());
                    assert_eq!(fold(sum(&packet[..20])), 0);
                    let behind = &packet[20..];
                    let pseudo = sum(&packet[12..20]) + u64::from(UDP) + behind.len() as u64;
                    match (around, own.get(..8)) {
                        (UDP, Some([.., 0, 0])) => assert_eq!(behind[6..8], [0, 0]),
                        (UDP, _) => assert_eq!(fold(pseudo + sum(behind)), 0),
                        (GRE, _) if own[0] & GRE_CHECKSUM != 0 => assert_eq!(fold(sum(behind)), 0),
                        _ => {}
                    }
                    if around == UDP {
                        assert_eq!(usize::from(u16::from_be_bytes([behind[4], behind[5]])), behind.len());
                    }
                }
            }
        }
    }

    #[test]
    fn a_tunnel_that_numbers_its_packets_or_is_unknown_or_in_another_is_refused() {
        let inner = merged(4, TCP, 250, 0x10);
        // The header of IP of a tunnel in the tunnel, in which `own` comes before the datagram.
        let nested = |protocol: u8, own: &[u8]| {
            let [from, to] = [6, 7].map(|last| std::net::IpAddr::from([192, 0, 2, last]));
            let mut header = Vec::new();
            IpHeader::new(from, to, protocol).write(&mut header, own.len() + inner.len()).unwrap();
            [&header[..], own].concat()
        };
        let through = vxlan([0, 0], 4);
        for (around, own) in [
            (GRE, vec![0x10, 0, 8, 0, 0, 0, 0, 1]),
            // Of a length, or with a type, that its flags and what follows do not have.
            (GRE, vec![0, 0, 8, 0, 0, 0, 0, 1]),
            (GRE, vec![0, 0, 0x86, 0xdd]),
            (GRE, [&[0, 0, 0x65, 0x58][..], &ethernet(6)[..]].concat()),
            (50, vec![0; 8]),
            (4, vec![0; 8]),
            (UDP, vec![0; 4]),
            (UDP, vxlan([0, 0], 6)),
            (UDP, [&through[..], &nested(4, &[])[..]].concat()),
            (GRE, [&[0, 0, 8, 0][..], &nested(4, &[])[..]].concat()),
            (UDP, [&through[..], &nested(UDP, &through)[..]].concat()),
        ] {
            let (whole, how) = in_tunnel(around, &own, &inner, TCP_V4);
            assert!(!cut(&whole, how, &mut Vec::new(), |_| panic!("it was cut")), "{around} {own:?}");
        }
    }

    #[test]
    fn what_has_other_places_to_go_to_is_refused() {
        for (left, expected) in [(0, (true, 3)), (1, (false, 0))] {
            let mut bytes = merged(6, TCP, 250, 0x10);
            // A routing header with one address.
            let mut routing = vec![TCP, 2, 4, left];
            routing.resize(24, 0);
            bytes.splice(40..40, routing);
            bytes[6] = 43;
            let how = Merged { kind: TCP_V6, size: 100, start: None };
            let mut packets = 0;
            let whole = cut(&bytes, how, &mut Vec::new(), |_| packets += 1);
            assert_eq!((whole, packets), expected, "{left}");
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
            let cut = cut(&bytes, Merged { kind, size: 100, start: None }, &mut Vec::new(), |_| {
                panic!("it was cut")
            });
            assert!(!cut, "{kind}");
        }
    }
}
