//! UDP (RFC 768; over IPv6, RFC 8200 section 8.1).

use super::WireError;
use crate::checksum::{fold, sum};
use crate::ip::{IpDatagram, IpHeader, UDP};

/// Bytes of a UDP header.
pub const HEADER: usize = 8;

/// A UDP datagram's header, without the fields that follow from its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpHeader {
    /// Port it comes from; 0 if no answer is wanted.
    pub source_port: u16,
    /// Port it is for.
    pub destination_port: u16,
}

/// Reads the UDP datagram in an IP datagram: the header and the payload.
///
/// # Errors
/// If there is no UDP datagram, it is cut short, or its checksum is wrong. A checksum of zero means that there is none, which IPv4 allows.
pub fn parse<'a>(ip: &IpDatagram<'a>) -> Result<(UdpHeader, &'a [u8]), WireError> {
    if ip.header.protocol != UDP {
        return Err(WireError::Protocol(ip.header.protocol));
    }
    if ip.fragment.is_some() {
        return Err(WireError::Fragment);
    }
    let fixed = ip.payload.first_chunk::<HEADER>().ok_or(WireError::Short)?;
    let word = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let len = usize::from(word(4));
    if len < HEADER {
        return Err(WireError::Length);
    }
    let bytes = ip.payload.get(..len).ok_or(WireError::Short)?;
    let unchecked = word(6) == 0 && ip.header.source.is_ipv4();
    if !unchecked && fold(ip.header.pseudo_sum(len) + sum(bytes)) != 0 {
        return Err(WireError::Checksum("UDP"));
    }
    Ok((UdpHeader { source_port: word(0), destination_port: word(2) }, &bytes[HEADER..]))
}

/// Appends an IP datagram with a UDP datagram in it. The protocol of `ip` is assumed to be UDP.
///
/// # Errors
/// As [`IpHeader::write`].
pub fn write(out: &mut Vec<u8>, ip: &IpHeader, udp: &UdpHeader, payload: &[u8]) -> Result<(), WireError> {
    let ip = IpHeader { protocol: UDP, ..*ip };
    let total = HEADER + payload.len();
    let len = u16::try_from(total).map_err(|_| WireError::TooLong(total))?;
    ip.write(out, total)?;
    let start = out.len();
    out.extend_from_slice(&udp.source_port.to_be_bytes());
    out.extend_from_slice(&udp.destination_port.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload);
    let checksum = match fold(ip.pseudo_sum(total) + sum(&out[start..])) {
        // Zero would mean that there is no checksum.
        0 => 0xffff,
        checksum => checksum,
    };
    out[start + 6..start + 8].copy_from_slice(&checksum.to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip;
    use proptest::prelude::*;

    fn header(v6: bool) -> IpHeader {
        let address = |last: u8| match v6 {
            true => std::net::IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => std::net::IpAddr::from([192, 0, 2, last]),
        };
        IpHeader::new(address(1), address(2), UDP)
    }

    proptest! {
        #[test]
        fn datagrams_survive_the_round_trip(
            v6: bool, source_port: u16, destination_port: u16,
            payload in prop::collection::vec(any::<u8>(), 0..200), bit: prop::sample::Index,
        ) {
            let udp = UdpHeader { source_port, destination_port };
            let mut bytes = Vec::new();
            write(&mut bytes, &header(v6), &udp, &payload).unwrap();
            prop_assert_eq!(parse(&ip::parse(&bytes).unwrap()).unwrap(), (udp, &payload[..]));
            // Any single wrong bit is detected.
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
    }

    #[test]
    fn a_datagram_without_checksum_is_taken_over_ipv4_only() {
        for v6 in [false, true] {
            let mut bytes = Vec::new();
            write(&mut bytes, &header(v6), &UdpHeader { source_port: 1, destination_port: 2 }, &[7]).unwrap();
            let at = header(v6).len() + 6;
            bytes[at..at + 2].fill(0);
            assert_eq!(parse(&ip::parse(&bytes).unwrap()).is_ok(), !v6);
        }
    }
}
