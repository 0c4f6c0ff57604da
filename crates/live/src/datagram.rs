//! The fields of an IP datagram from outside that the emulator needs to carry it.
//!
//! The bytes may be anything: cut short, padded, with wrong lengths. [`read`] reads only what it has checked to be
//! there and never panics.

use warpline_core::Ecn;

use crate::checksum::{fold, sum};
use crate::ip::{self, SCTP, TCP, UDP};

/// Fields of a datagram's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Bytes of the datagram from the IP header on; the rest is padding.
    pub len: u32,
    /// IP version: 4 or 6.
    pub version: u8,
    /// ECN field.
    pub ecn: Ecn,
    /// Differentiated services code point (RFC 2474).
    pub dscp: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Protocol of the payload (IANA's number), behind IPv6 extension headers if those are simple.
    pub protocol: u8,
    /// A hash of addresses, protocol and ports, the same for all packets of a flow in one direction and on every machine.
    pub flow: u32,
}

impl Header {
    /// The class in priority queues for this code point: 0 for urgent traffic (network control, expedited forwarding;
    /// RFC 4594), 2 for traffic that can wait (CS1, lower effort; RFC 8622), 1 for all other traffic.
    pub fn class(&self) -> u8 {
        match self.dscp {
            40..=56 => 0,
            1 | 8 => 2,
            _ => 1,
        }
    }
}

/// Why bytes are not a datagram that can be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// There are fewer bytes than the header has, or than it declares.
    #[error("cut short")]
    Short,
    /// Neither IPv4 nor IPv6.
    #[error("neither IPv4 nor IPv6")]
    Version,
    /// An impossible length field.
    #[error("an impossible length field")]
    Length,
}

const DCCP: u8 = 33;

/// Mixes eight bytes into a hash (the multiplier is that of FxHash; the fold brings high bits down).
fn mix(hash: u64, word: u64) -> u64 {
    let product = (hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    product ^ (product >> 32)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, &byte| (word << 8) | u64::from(byte))
}

/// Reads the headers of the datagram at the beginning of `bytes`.
///
/// # Errors
/// If they are not a datagram.
#[inline]
pub fn read(bytes: &[u8]) -> Result<Header, Malformed> {
    match bytes.first().map(|first| first >> 4) {
        Some(4) => read_ipv4(bytes),
        Some(6) => read_ipv6(bytes),
        Some(_) => Err(Malformed::Version),
        None => Err(Malformed::Short),
    }
}

fn read_ipv4(bytes: &[u8]) -> Result<Header, Malformed> {
    let fixed = bytes.first_chunk::<20>().ok_or(Malformed::Short)?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if header_len < 20 || len < header_len {
        return Err(Malformed::Length);
    }
    if len > bytes.len() {
        return Err(Malformed::Short);
    }
    let protocol = fixed[9];
    let mut hash = mix(u64::from(protocol), word(&fixed[12..20]));
    // Only the first fragment has ports, so no fragment uses them.
    let fragmented = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x3fff != 0;
    if !fragmented {
        hash = mix_ports(hash, protocol, &bytes[header_len..len]);
    }
    Ok(Header {
        len: len as u32,
        version: 4,
        ecn: ip::ecn(fixed[1]),
        dscp: fixed[1] >> 2,
        ttl: fixed[8],
        protocol,
        flow: hash as u32,
    })
}

fn read_ipv6(bytes: &[u8]) -> Result<Header, Malformed> {
    let fixed = bytes.first_chunk::<40>().ok_or(Malformed::Short)?;
    let len = 40 + usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    if len > bytes.len() {
        return Err(Malformed::Short);
    }
    let traffic_class = (fixed[0] << 4) | (fixed[1] >> 4);
    let (protocol, payload): (u8, &[u8]) = match ip::inner_ipv6(&bytes[..len]) {
        Some(inner) if inner.fragment.is_none() => (inner.protocol, &bytes[inner.at..len]),
        // A fragment has no ports, so no fragment uses them.
        Some(inner) => (inner.protocol, &[]),
        None => (fixed[6], &[]),
    };
    let mut hash = u64::from(protocol);
    for chunk in fixed[8..40].chunks_exact(8) {
        hash = mix(hash, word(chunk));
    }
    Ok(Header {
        len: len as u32,
        version: 6,
        ecn: ip::ecn(traffic_class),
        dscp: traffic_class >> 2,
        ttl: fixed[7],
        protocol,
        flow: mix_ports(hash, protocol, payload) as u32,
    })
}

fn mix_ports(hash: u64, protocol: u8, payload: &[u8]) -> u64 {
    match payload.first_chunk::<4>() {
        Some(ports) if matches!(protocol, TCP | UDP | SCTP | DCCP) => mix(hash, word(ports)),
        _ => hash,
    }
}

/// The flow ([`Header::flow`]) of what comes back on the connection of a datagram: that of its addresses and ports exchanged.
pub fn opposite_flow(datagram: &[u8]) -> Option<u32> {
    let header = read(datagram).ok()?;
    let mut bytes = datagram.to_vec();
    let (addresses, payload) = match header.version {
        4 => (12..20, usize::from(bytes[0] & 0xf) * 4),
        _ => (8..40, ip::inner_ipv6(datagram).map_or(bytes.len(), |inner| inner.at)),
    };
    let half = addresses.len() / 2;
    bytes[addresses].rotate_left(half);
    if let Some(ports) = bytes.get_mut(payload..payload + 4) {
        ports.rotate_left(2);
    }
    Some(read(&bytes).ok()?.flow)
}

/// Whether a datagram is addressed to a multicast group of its own link only (224.0.0.0/24, RFC 5771; ff02::/16, RFC 4291),
/// or to the link's broadcast address, or comes from a link-local address: routers do not forward these.
pub fn link_local_multicast(datagram: &[u8]) -> bool {
    match datagram {
        [first, ..] if *first >> 4 == 4 => {
            matches!(datagram.get(16..20), Some([224, 0, 0, _] | [255, 255, 255, 255]))
        }
        [first, ..] if *first >> 4 == 6 => {
            matches!(datagram.get(24..26), Some([0xff, scope]) if scope & 0xf <= 2)
                || matches!(datagram.get(8..10), Some([0xfe, next]) if next & 0xc0 == 0x80)
        }
        _ => false,
    }
}

/// Computes the checksum, which a sender may have left to its network card, of the TCP segment or UDP datagram in a datagram whose header has been read. Other protocols, and datagrams that are too
/// short, are left alone.
pub fn complete(datagram: &mut [u8], header: &Header) {
    match header.version {
        4 => complete_at(datagram, header.protocol, usize::from(datagram[0] & 0xf) * 4),
        // With extension headers the sender has computed it itself.
        _ if datagram[6] == header.protocol => complete_at(datagram, header.protocol, 40),
        _ => {}
    }
}

/// Computes the checksum of the TCP segment or UDP datagram that begins at `start`, behind the IP header with which `datagram` begins. Other protocols,
/// and what is too short, are left alone.
pub(crate) fn complete_at(datagram: &mut [u8], protocol: u8, start: usize) {
    let addresses = if datagram[0] >> 4 == 4 { 12..20 } else { 8..40 };
    let at = match protocol {
        TCP => start + 16,
        UDP => start + 6,
        _ => return,
    };
    if datagram.len() < at + 2 {
        return;
    }
    datagram[at..at + 2].fill(0);
    let pseudo = sum(&datagram[addresses]) + u64::from(protocol) + (datagram.len() - start) as u64;
    let checksum = match fold(pseudo + sum(&datagram[start..])) {
        // RFC 768: zero means that there is no checksum.
        0 if protocol == UDP => 0xffff,
        checksum => checksum,
    };
    datagram[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP datagram with a correct checksum: 192.0.2.1:1000 to 192.0.2.2:2000, 8 bytes of payload.
    fn ipv4() -> Vec<u8> {
        let mut bytes = vec![0x45, 0x02, 0, 36, 0, 1, 0x40, 0, 64, UDP, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        let sum = fold(sum(&bytes));
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([3, 232, 7, 208, 0, 16, 0, 0]);
        bytes.extend([0; 8]);
        bytes
    }

    fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x6b, 0x90, 0, 0, 0, payload.len() as u8, next, 63];
        bytes.extend([1; 16]);
        bytes.extend([2; 16]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn headers_are_read_and_padding_is_left_out() {
        let mut bytes = ipv4();
        bytes.extend([0; 10]); // Ethernet's padding
        let header = read(&bytes).unwrap();
        assert_eq!((header.len, header.version, header.ecn, header.ttl), (36, 4, Ecn::Ect0, 64));
        assert_eq!((header.protocol, header.dscp, header.class()), (UDP, 0, 1));
        let header = read(&ipv6(TCP, &[1, 2, 3, 4])).unwrap();
        // Traffic class 0xb9: expedited forwarding, ECT(1).
        assert_eq!((header.len, header.dscp, header.ecn, header.class()), (44, 46, Ecn::Ect1, 0));
    }

    #[test]
    fn flows_are_told_apart_by_their_ports() {
        let (one, mut other) = (ipv4(), ipv4());
        other[21] ^= 1;
        let flow = |bytes: &[u8]| read(bytes).unwrap().flow;
        assert_ne!(flow(&one), flow(&other));
        // Behind a hop-by-hop header, too.
        let behind = |port: u8| ipv6(0, &[TCP, 0, 0, 0, 0, 0, 0, 0, 1, port, 3, 4]);
        assert_ne!(flow(&behind(1)), flow(&behind(2)));
        assert_eq!(read(&behind(1)).unwrap().protocol, TCP);
        // Fragments stay together.
        let fragment = |byte: u8| {
            let mut bytes = ipv4();
            (bytes[6], bytes[20]) = (0x20, byte);
            flow(&bytes)
        };
        assert_eq!(fragment(1), fragment(2));
    }

    #[test]
    fn what_lies_about_its_length_is_refused() {
        let with = |at: usize, byte: u8| {
            let mut bytes = ipv4();
            bytes[at] = byte;
            read(&bytes)
        };
        assert_eq!(with(0, 0x44), Err(Malformed::Length));
        assert_eq!(with(3, 10), Err(Malformed::Length));
        assert_eq!(with(2, 1), Err(Malformed::Short));
        assert_eq!(with(0, 0x75), Err(Malformed::Version));
        assert_eq!(read(&ipv4()[..19]), Err(Malformed::Short));
        assert_eq!(read(&[]), Err(Malformed::Short));
        assert_eq!(read(&ipv6(0, &[0, 255, 0, 0])).unwrap().protocol, 0);
    }

    #[test]
    fn what_is_completed_sums_to_zero() {
        for (version, protocol, payload) in [(4, UDP, 7), (4, TCP, 12), (6, UDP, 8), (6, TCP, 1)] {
            let transport = if protocol == TCP { 20 } else { 8 } + payload;
            let mut bytes = if version == 4 {
                let mut bytes = vec![0x45, 0, 0, 20 + transport as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
                bytes.extend([192, 0, 2, 1, 192, 0, 2, 2]);
                bytes
            } else {
                let mut bytes = vec![0x60, 0, 0, 0, 0, transport as u8, protocol, 64];
                bytes.extend([7; 32]);
                bytes
            };
            let start = bytes.len();
            bytes.extend((0..transport).map(|i| (i as u8).wrapping_mul(37)));
            let header = read(&bytes).unwrap();
            complete(&mut bytes, &header);
            let addresses = if version == 4 { 12..20 } else { 8..40 };
            let all = sum(&bytes[addresses]) + u64::from(protocol) + transport as u64 + sum(&bytes[start..]);
            assert_eq!(fold(all), 0, "{version} {protocol}");
            // Again gives the same.
            let once = bytes.clone();
            complete(&mut bytes, &header);
            assert_eq!(bytes, once);
        }
    }

    #[test]
    fn what_is_too_short_is_left_alone() {
        let mut bytes =
            vec![0x45, 0, 0, 25, 0, 0, 0, 0, 64, UDP, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5];
        let (before, header) = (bytes.clone(), read(&bytes).unwrap());
        complete(&mut bytes, &header);
        assert_eq!(bytes, before);
    }
}
