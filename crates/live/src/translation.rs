//! Address translation of UDP datagrams: their places, an address and a port, are exchanged, and the checksums follow (RFC 1624).
//!
//! Bytes that are no UDP datagram, or a fragment after the first, are left alone.

use std::net::IpAddr;

use crate::ip::{IPV6_HEADER, UDP};
use crate::router::updated;

/// An end of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where it comes from.
    Source,
    /// Where it goes.
    Destination,
}

/// Where the UDP header of a datagram begins; none if it has none.
fn udp_at(datagram: &[u8]) -> Option<usize> {
    let first = *datagram.first()?;
    let at = match first >> 4 {
        4 => {
            let head = datagram.first_chunk::<20>()?;
            let offset = u16::from_be_bytes([head[6] & 0x1f, head[7]]);
            (head[9] == UDP && offset == 0).then(|| usize::from(first & 15) * 4)?
        }
        6 => (*datagram.get(6)? == UDP).then_some(IPV6_HEADER)?,
        _ => return None,
    };
    (at >= 20 && datagram.len() >= at + 8).then_some(at)
}

/// The ports of a UDP datagram: source and destination.
pub fn udp_ports(datagram: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *datagram.get(udp_at(datagram)?..)?.first_chunk::<4>()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// Gives one end of a UDP datagram this address, of the same version, and this port.
pub fn set_place(datagram: &mut [u8], side: Side, (address, port): (IpAddr, u16)) {
    let Some(udp) = udp_at(datagram) else { return };
    let v4 = datagram[0] >> 4 == 4;
    let (new, at): (Vec<u8>, usize) = match (address, side) {
        (IpAddr::V4(new), Side::Source) if v4 => (new.octets().into(), 12),
        (IpAddr::V4(new), Side::Destination) if v4 => (new.octets().into(), 16),
        (IpAddr::V6(new), Side::Source) if !v4 => (new.octets().into(), 8),
        (IpAddr::V6(new), Side::Destination) if !v4 => (new.octets().into(), 24),
        _ => return,
    };
    let port_at = udp + if side == Side::Source { 0 } else { 2 };
    let mut words: Vec<(usize, [u8; 2])> =
        new.chunks_exact(2).enumerate().map(|(word, bytes)| (at + 2 * word, [bytes[0], bytes[1]])).collect();
    let header_words = words.len();
    words.push((port_at, port.to_be_bytes()));
    let read = |datagram: &[u8], at: usize| [datagram[at], datagram[at + 1]];
    let (mut head, mut sum) = (read(datagram, 10), read(datagram, udp + 6));
    for (number, (at, new)) in words.into_iter().enumerate() {
        let old = read(datagram, at);
        sum = updated(sum, old, new);
        if number < header_words {
            head = updated(head, old, new);
        }
        datagram[at..at + 2].copy_from_slice(&new);
    }
    if v4 {
        datagram[10..12].copy_from_slice(&head);
    }
    // Zero says that there is none (RFC 768).
    if read(datagram, udp + 6) != [0, 0] {
        let sum = if sum == [0, 0] { [0xff, 0xff] } else { sum };
        datagram[udp + 6..udp + 8].copy_from_slice(&sum);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ip::{self, IpHeader};
    use crate::wire::udp::{self, UdpHeader};

    fn datagram(from: IpAddr, to: IpAddr, ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let header = UdpHeader { source_port: ports.0, destination_port: ports.1 };
        udp::write(&mut out, &IpHeader::new(from, to, UDP), &header, payload).unwrap();
        out
    }

    proptest! {
        #[test]
        fn what_is_translated_is_what_the_other_place_would_have_sent(
            v6: bool, hosts: [u8; 3], ports: [u16; 3], source: bool, payload in prop::collection::vec(any::<u8>(), 0..40)
        ) {
            let address = |host: u8| -> IpAddr {
                if v6 { [0x20, 1, 0xd, 0xb8, 0, 0, host, 0, 0, 0, 0, 0, 0, 0, 0, host].into() } else { [192, host, 2, host].into() }
            };
            let [a, b, new] = hosts.map(address);
            let mut translated = datagram(a, b, (ports[0], ports[1]), &payload);
            let (side, other) = match source {
                true => (Side::Source, datagram(new, b, (ports[2], ports[1]), &payload)),
                false => (Side::Destination, datagram(a, new, (ports[0], ports[2]), &payload)),
            };
            set_place(&mut translated, side, (new, ports[2]));
            prop_assert_eq!(&translated, &other);
            prop_assert!(ip::parse(&translated).is_ok());
        }

        #[test]
        fn any_bytes_are_taken(mut bytes in prop::collection::vec(any::<u8>(), 0..80), v6: bool) {
            if let Some(first) = bytes.first_mut() {
                *first = *first & 15 | if v6 { 0x60 } else { 0x40 };
            }
            let before = (bytes.len(), udp_ports(&bytes));
            set_place(&mut bytes, Side::Source, ([192, 0, 2, 1].into(), 7));
            prop_assert_eq!(bytes.len(), before.0);
        }
    }

    #[test]
    fn a_datagram_without_a_checksum_stays_without_one() {
        let mut bytes = datagram([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), (1, 2), b"hello");
        bytes[26..28].copy_from_slice(&[0, 0]);
        set_place(&mut bytes, Side::Source, ([192, 0, 2, 1].into(), 7));
        assert_eq!((udp_ports(&bytes), &bytes[26..28]), (Some((7, 2)), &[0, 0][..]));
    }
}
