//! ICMP for IPv4 (RFC 792, RFC 1191, RFC 1812 section 4.3) and IPv6 (RFC 4443): echo and the errors that hosts and routers tell.

use std::net::IpAddr;

use super::WireError;
use super::ip::{self, ICMP, ICMPV6, IpDatagram, IpHeader, fold, sum};

/// What an ICMP message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Asks for an echo.
    EchoRequest {
        /// Tells one that asks from another.
        identifier: u16,
        /// Counts the requests.
        sequence: u16,
        /// Comes back as it is.
        data: &'a [u8],
    },
    /// The echo.
    EchoReply {
        /// As in the request.
        identifier: u16,
        /// As in the request.
        sequence: u16,
        /// As in the request.
        data: &'a [u8],
    },
    /// An error, with the beginning of the datagram that caused it.
    Error {
        /// What is wrong.
        error: Error,
        /// The datagram's first bytes.
        quoted: &'a [u8],
    },
    /// Anything else.
    Other {
        /// Its type.
        kind: u8,
        /// Its code.
        code: u8,
    },
}

/// What went wrong with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// Its time to live ran out on the way (time exceeded, code 0).
    TimeExceeded,
    /// Nobody listens on its port (destination unreachable: code 3, for IPv6 code 4).
    PortUnreachable,
    /// There is no way to its destination (destination unreachable: code 1, for IPv6 code 3, "address unreachable").
    HostUnreachable,
    /// It does not fit into the next link and may not be fragmented (destination unreachable code 4, RFC 1191 section 4; for IPv6
    /// "packet too big").
    TooBig {
        /// Bytes that fit, from the IP header on. Over IPv4, 65535 at the most, and 0 from routers older than RFC 1191.
        mtu: u32,
    },
}

/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// Bytes of an ICMP error over IPv4 at the most (RFC 1812 section 4.3.2.3).
const LARGEST_V4: usize = 576;
/// Bytes of an ICMP error over IPv6 at the most: the least MTU (RFC 4443 section 2.4 (c)).
const LARGEST_V6: usize = 1280;

/// Reads the ICMP message in an IP datagram.
///
/// # Errors
/// If there is none, it is cut short, or its checksum is wrong.
pub fn parse<'a>(ip: &IpDatagram<'a>) -> Result<Message<'a>, WireError> {
    let v4 = ip.header.source.is_ipv4();
    if ip.header.protocol != if v4 { ICMP } else { ICMPV6 } {
        return Err(WireError::Protocol(ip.header.protocol));
    }
    if ip.fragment {
        return Err(WireError::Fragment);
    }
    let fixed = ip.payload.first_chunk::<HEADER>().ok_or(WireError::Short)?;
    let pseudo = if v4 { 0 } else { ip.header.pseudo_sum(ip.payload.len()) };
    if fold(pseudo + sum(ip.payload)) != 0 {
        return Err(WireError::Checksum("ICMP"));
    }
    let rest = &ip.payload[HEADER..];
    let (identifier, sequence) =
        (u16::from_be_bytes([fixed[4], fixed[5]]), u16::from_be_bytes([fixed[6], fixed[7]]));
    let error = |error| Message::Error { error, quoted: rest };
    Ok(match (v4, fixed[0], fixed[1]) {
        (true, 8, 0) | (false, 128, 0) => Message::EchoRequest { identifier, sequence, data: rest },
        (true, 0, 0) | (false, 129, 0) => Message::EchoReply { identifier, sequence, data: rest },
        (true, 11, 0) | (false, 3, 0) => error(Error::TimeExceeded),
        (true, 3, 3) | (false, 1, 4) => error(Error::PortUnreachable),
        (true, 3, 1) | (false, 1, 3) => error(Error::HostUnreachable),
        (true, 3, 4) => error(Error::TooBig { mtu: u32::from(sequence) }),
        (false, 2, 0) => {
            error(Error::TooBig { mtu: u32::from_be_bytes([fixed[4], fixed[5], fixed[6], fixed[7]]) })
        }
        (_, kind, code) => Message::Other { kind, code },
    })
}

fn write(
    out: &mut Vec<u8>,
    (source, destination): (IpAddr, IpAddr),
    (kind, code): (u8, u8),
    word: [u8; 4],
    rest: &[u8],
) -> Result<(), WireError> {
    let v4 = source.is_ipv4();
    let ip = IpHeader::new(source, destination, if v4 { ICMP } else { ICMPV6 });
    let total = HEADER + rest.len();
    ip.write(out, total)?;
    let start = out.len();
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(&word);
    out.extend_from_slice(rest);
    let pseudo = if v4 { 0 } else { ip.pseudo_sum(total) };
    let checksum = fold(pseudo + sum(&out[start..])).to_be_bytes();
    out[start + 2..start + 4].copy_from_slice(&checksum);
    Ok(())
}

/// Appends the echo that `request` asks for. Returns whether it asks for one.
///
/// # Errors
/// As [`IpHeader::write`].
pub fn write_echo_reply(out: &mut Vec<u8>, request: &IpDatagram<'_>) -> Result<bool, WireError> {
    let Ok(Message::EchoRequest { identifier, sequence, data }) = parse(request) else { return Ok(false) };
    let kind = if request.header.source.is_ipv4() { 0 } else { 129 };
    let [a, b] = identifier.to_be_bytes();
    let [c, d] = sequence.to_be_bytes();
    let ends = (request.header.destination, request.header.source);
    write(out, ends, (kind, 0), [a, b, c, d], data).map(|()| true)
}

/// Appends an error about `offending`, told by `from`. Nothing is told, and false returned, where that is forbidden: about ICMP
/// errors, about fragments but the first, to or about multicast and unspecified addresses (RFC 1122 section 3.2.2, RFC 4443
/// section 2.4 (e)). The caller bounds the rate (section 2.4 (f)).
///
/// The datagram is quoted as far as an error of 576 bytes allows, with IPv6 of 1280.
///
/// # Errors
/// As [`IpHeader::write`].
pub fn write_error(
    out: &mut Vec<u8>,
    from: IpAddr,
    offending: &[u8],
    error: Error,
) -> Result<bool, WireError> {
    let Ok(datagram) = ip::parse(offending) else { return Ok(false) };
    let header = datagram.header;
    // IPv6 tells of a packet too big to a multicast address, too: that is how the path's MTU is found.
    let too_big = matches!(error, Error::TooBig { .. }) && header.destination.is_ipv6();
    if is_no_host(header.source) || (is_no_host(header.destination) && !too_big) || datagram.fragment {
        return Ok(false);
    }
    let is_error = match header.protocol {
        ICMP => !matches!(datagram.payload.first(), Some(0 | 8 | 13..=18)),
        ICMPV6 => !matches!(datagram.payload.first(), Some(128..)),
        _ => false,
    };
    if is_error {
        return Ok(false);
    }
    let v4 = header.source.is_ipv4();
    let (kind, word) = match (error, v4) {
        (Error::TimeExceeded, true) => ((11, 0), [0; 4]),
        (Error::TimeExceeded, false) => ((3, 0), [0; 4]),
        (Error::PortUnreachable, true) => ((3, 3), [0; 4]),
        (Error::PortUnreachable, false) => ((1, 4), [0; 4]),
        (Error::HostUnreachable, true) => ((3, 1), [0; 4]),
        (Error::HostUnreachable, false) => ((1, 3), [0; 4]),
        (Error::TooBig { mtu }, true) => ((3, 4), mtu.min(65_535).to_be_bytes()),
        (Error::TooBig { mtu }, false) => ((2, 0), mtu.to_be_bytes()),
    };
    let room = if v4 { LARGEST_V4 - ip::IPV4_HEADER } else { LARGEST_V6 - ip::IPV6_HEADER } - HEADER;
    let quoted = &datagram.bytes[..datagram.bytes.len().min(room)];
    write(out, (from, header.source), kind, word, quoted).map(|()| true)
}

/// Whether an address is not that of one host.
pub(super) fn is_no_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_multicast() || address.is_broadcast() || address.is_unspecified(),
        IpAddr::V6(address) => address.is_multicast() || address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::udp::{self, UdpHeader};

    fn ends(v6: bool) -> (IpAddr, IpAddr) {
        let address = |last: u8| match v6 {
            true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last]),
        };
        (address(1), address(2))
    }

    fn datagram(v6: bool, payload: usize) -> Vec<u8> {
        let (source, destination) = ends(v6);
        let mut bytes = Vec::new();
        let udp = UdpHeader { source_port: 7, destination_port: 9 };
        udp::write(&mut bytes, &IpHeader::new(source, destination, ip::UDP), &udp, &vec![5; payload])
            .unwrap();
        bytes
    }

    #[test]
    fn errors_quote_what_caused_them_as_far_as_allowed() {
        for v6 in [false, true] {
            let (source, destination) = ends(v6);
            for error in [
                Error::TimeExceeded,
                Error::PortUnreachable,
                Error::HostUnreachable,
                Error::TooBig { mtu: 1280 },
            ] {
                for payload in [0, 100, 3000] {
                    let offending = datagram(v6, payload);
                    let mut out = Vec::new();
                    assert_eq!(write_error(&mut out, destination, &offending, error), Ok(true));
                    assert!(out.len() <= if v6 { 1280 } else { 576 });
                    let read = ip::parse(&out).unwrap();
                    assert_eq!((read.header.source, read.header.destination), (destination, source));
                    let Ok(Message::Error { error: told, quoted }) = parse(&read) else { panic!("{out:?}") };
                    assert_eq!((told, quoted), (error, &offending[..quoted.len()]));
                    assert!(quoted.len() == offending.len() || out.len() == if v6 { 1280 } else { 576 });
                    // An error about an error is not told.
                    assert_eq!(write_error(&mut Vec::new(), source, &out, error), Ok(false));
                }
            }
        }
    }

    #[test]
    fn nothing_is_told_to_or_about_groups() {
        let mut out = Vec::new();
        let mut header = IpHeader::new("192.0.2.1".parse().unwrap(), "224.0.0.5".parse().unwrap(), ip::UDP);
        let udp = UdpHeader { source_port: 7, destination_port: 9 };
        udp::write(&mut out, &header, &udp, &[]).unwrap();
        let from = "192.0.2.9".parse().unwrap();
        assert_eq!(write_error(&mut Vec::new(), from, &out, Error::PortUnreachable), Ok(false));
        out.clear();
        (header.source, header.destination) = ("0.0.0.0".parse().unwrap(), from);
        udp::write(&mut out, &header, &udp, &[]).unwrap();
        assert_eq!(write_error(&mut Vec::new(), from, &out, Error::PortUnreachable), Ok(false));
        assert_eq!(write_error(&mut Vec::new(), from, &[1, 2, 3], Error::PortUnreachable), Ok(false));
    }

    #[test]
    fn an_echo_brings_everything_back() {
        for v6 in [false, true] {
            let (source, destination) = ends(v6);
            let mut request = Vec::new();
            let kind = if v6 { 128 } else { 8 };
            write(&mut request, (source, destination), (kind, 0), [1, 2, 3, 4], b"ping").unwrap();
            let mut reply = Vec::new();
            assert_eq!(write_echo_reply(&mut reply, &ip::parse(&request).unwrap()), Ok(true));
            let read = ip::parse(&reply).unwrap();
            assert_eq!((read.header.source, read.header.destination), (destination, source));
            let expected = Message::EchoReply { identifier: 0x102, sequence: 0x304, data: b"ping" };
            assert_eq!(parse(&read), Ok(expected));
            // A reply is not answered, nor a damaged request.
            assert_eq!(write_echo_reply(&mut Vec::new(), &read), Ok(false));
            *request.last_mut().unwrap() ^= 1;
            assert_eq!(write_echo_reply(&mut Vec::new(), &ip::parse(&request).unwrap()), Ok(false));
        }
    }
}
