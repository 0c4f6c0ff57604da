//! UDP datagrams (RFC 768) in IP packets: read and written.
//!
//! Checksums are written. Those of packets that arrive are not looked at: what is encrypted has its own, and a changed header leads to nobody.

use std::net::{IpAddr, SocketAddr};

use etherparse::{
    IpEcn, IpNumber, Ipv4Header, Ipv6Header, NetSlice, SlicedPacket, TransportSlice, UdpHeader,
};
use quinn_proto::EcnCodepoint;

/// Time to live of what is sent: Linux's default.
const HOPS: u8 = 64;

/// This end and the other end of a connection.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// A datagram that has arrived.
pub(super) struct Datagram<'a> {
    /// Where it was sent to, and where it comes from.
    pub(super) ends: Ends,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) payload: &'a [u8],
}

impl Datagram<'_> {
    /// The datagram in a packet. None if it is something else, or a fragment.
    pub(super) fn parse(packet: &[u8]) -> Option<Datagram<'_>> {
        let sliced = SlicedPacket::from_ip(packet).ok()?;
        let (source, destination, ecn): (IpAddr, IpAddr, u8) = match sliced.net.as_ref()? {
            NetSlice::Ipv4(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into(), header.ecn().value())
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header();
                (header.source_addr().into(), header.destination_addr().into(), header.ecn().value())
            }
            _ => return None,
        };
        let Some(TransportSlice::Udp(udp)) = sliced.transport else { return None };
        let here = SocketAddr::new(destination, udp.destination_port());
        let there = SocketAddr::new(source, udp.source_port());
        Some(Datagram { ends: (here, there), ecn: EcnCodepoint::from_bits(ecn), payload: udp.payload() })
    }
}

/// Replaces `packet` by a datagram from the first of `ends` to the second, which routers may not fragment. False if it cannot be: the ends are of two
/// families, or it is too long.
pub(super) fn write(
    packet: &mut Vec<u8>,
    (here, there): Ends,
    ecn: Option<EcnCodepoint>,
    payload: &[u8],
) -> bool {
    packet.clear();
    let bits = ecn.map_or(0, |ecn| ecn as u8);
    let Ok(length) = u16::try_from(UdpHeader::LEN + payload.len()) else { return false };
    let (from, to) = (here.port(), there.port());
    let udp = match (here.ip(), there.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = Ipv4Header::new(length, HOPS, IpNumber::UDP, source.octets(), destination.octets());
            let (Ok(mut ip), Ok(ecn)) = (ip, IpEcn::try_new(bits)) else { return false };
            ip.dont_fragment = true;
            ip.ecn = ecn;
            ip.header_checksum = ip.calc_header_checksum();
            packet.extend_from_slice(&ip.to_bytes());
            UdpHeader::with_ipv4_checksum(from, to, &ip, payload)
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Header {
                traffic_class: bits,
                payload_length: length,
                next_header: IpNumber::UDP,
                hop_limit: HOPS,
                source: source.octets(),
                destination: destination.octets(),
                ..Ipv6Header::default()
            };
            packet.extend_from_slice(&ip.to_bytes());
            UdpHeader::with_ipv6_checksum(from, to, &ip, payload)
        }
        _ => return false,
    };
    let Ok(udp) = udp else { return false };
    packet.extend_from_slice(&udp.to_bytes());
    packet.extend_from_slice(payload);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for ends in [("10.0.0.1:50000", "10.0.0.2:80"), ("[fd00::1]:50000", "[fd00::2]:80")] {
            let ends = (ends.0.parse().unwrap(), ends.1.parse().unwrap());
            let mut packet = vec![1];
            for (ecn, payload) in [(None, &b"hello"[..]), (Some(EcnCodepoint::Ect0), &[7; 1200])] {
                assert!(write(&mut packet, ends, ecn, payload));
                let read = Datagram::parse(&packet).unwrap();
                assert_eq!((read.ends, read.ecn, read.payload), ((ends.1, ends.0), ecn, payload));
            }
            assert!(Datagram::parse(&packet[..packet.len() - 1]).is_none());
        }
    }
}
