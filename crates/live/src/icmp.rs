//! ICMP for IPv4 (RFC 792, RFC 1191, RFC 1812 section 4.3) and IPv6 (RFC 4443): echo, and the errors of hosts and routers.
//!
//! Errors quote as much as fits a datagram of 576 (IPv4) or 1280 bytes (IPv6). They are never sent about errors, later
//! fragments, or datagrams whose source or destination is not a single host (RFC 1122 section 3.2.2, RFC 4443 section 2.4 (e)).

use std::net::IpAddr;

use crate::checksum::{fold, sum};
use crate::ip::{self, ICMP, ICMPV6, IpDatagram, IpHeader};
use crate::wire::WireError;

/// An ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Asks for an echo.
    EchoRequest {
        /// Distinguishes the senders of requests.
        identifier: u16,
        /// Counts the requests.
        sequence: u16,
        /// Returned unchanged.
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
        problem: Problem,
        /// The datagram's first bytes ([`ip::quoted`]).
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

/// What is wrong with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its time to live ran out on the way.
    TimeExceeded,
    /// There is no route to its destination.
    NoRoute,
    /// The last router does not reach its destination.
    HostUnreachable,
    /// The host does not support the protocol.
    ProtocolUnreachable,
    /// Nothing listens at the port.
    PortUnreachable,
    /// It is larger than the MTU of the next link, and must not be fragmented.
    TooBig {
        /// Bytes that fit, from the IP header on. Over IPv4, 65535 at most, and 0 from routers older than RFC 1191.
        mtu: u32,
    },
}

/// Bytes of an ICMP header.
const HEADER: usize = 8;
/// Largest ICMP error over IPv4, in bytes (RFC 1812 section 4.3.2.3).
const LARGEST_V4: usize = 576;
/// Largest ICMP error over IPv6, in bytes: the minimum MTU (RFC 4443 section 2.4 (c)).
const LARGEST_V6: usize = 1280;
/// Code point of routers' messages, precedence 6 (RFC 1812 section 4.3.2.5).
const INTERNETWORK_CONTROL: u8 = 48;

impl Problem {
    /// Type and code of the message.
    const fn numbers(self, v4: bool) -> (u8, u8) {
        match (self, v4) {
            (Problem::TimeExceeded, true) => (11, 0),
            (Problem::TimeExceeded, false) => (3, 0),
            (Problem::NoRoute, true) => (3, 0),
            (Problem::NoRoute, false) => (1, 0),
            (Problem::HostUnreachable, true) => (3, 1),
            // "Address unreachable".
            (Problem::HostUnreachable, false) => (1, 3),
            (Problem::ProtocolUnreachable, true) => (3, 2),
            // "Unrecognized next header".
            (Problem::ProtocolUnreachable, false) => (4, 1),
            (Problem::PortUnreachable, true) => (3, 3),
            (Problem::PortUnreachable, false) => (1, 4),
            (Problem::TooBig { .. }, true) => (3, 4),
            (Problem::TooBig { .. }, false) => (2, 0),
        }
    }

    /// The second word of the header.
    fn word(self, v4: bool) -> u32 {
        match (self, v4) {
            // RFC 1191 section 4.
            (Problem::TooBig { mtu }, true) => mtu.min(65_535),
            (Problem::TooBig { mtu }, false) => mtu,
            // The offset of the next-header field, in the fixed header.
            (Problem::ProtocolUnreachable, false) => 6,
            _ => 0,
        }
    }

    /// The problem that a message reports.
    fn read(v4: bool, kind: u8, code: u8, word: u32) -> Option<Problem> {
        let mtu = if v4 { word & 0xffff } else { word };
        let all = [
            Problem::TimeExceeded,
            Problem::NoRoute,
            Problem::HostUnreachable,
            Problem::ProtocolUnreachable,
            Problem::PortUnreachable,
            Problem::TooBig { mtu },
        ];
        all.into_iter().find(|problem| problem.numbers(v4) == (kind, code))
    }
}

/// Reads the ICMP message in an IP datagram.
///
/// # Errors
/// If there is no ICMP message, it is cut short, or its checksum is wrong.
pub fn parse<'a>(ip: &IpDatagram<'a>) -> Result<Message<'a>, WireError> {
    let v4 = ip.header.source.is_ipv4();
    if ip.header.protocol != if v4 { ICMP } else { ICMPV6 } {
        return Err(WireError::Protocol(ip.header.protocol));
    }
    if ip.fragment.is_some() {
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
    let word = u32::from(identifier) << 16 | u32::from(sequence);
    Ok(match (v4, fixed[0], fixed[1]) {
        (true, 8, 0) | (false, 128, 0) => Message::EchoRequest { identifier, sequence, data: rest },
        (true, 0, 0) | (false, 129, 0) => Message::EchoReply { identifier, sequence, data: rest },
        (_, kind, code) => match Problem::read(v4, kind, code, word) {
            Some(problem) => Message::Error { problem, quoted: rest },
            None => Message::Other { kind, code },
        },
    })
}

/// A datagram with an ICMP message.
fn message(ip: IpHeader, (kind, code): (u8, u8), word: u32, rest: &[u8]) -> Option<Vec<u8>> {
    let v4 = ip.source.is_ipv4();
    let ip = IpHeader { protocol: if v4 { ICMP } else { ICMPV6 }, ..ip };
    let total = HEADER + rest.len();
    let mut out = Vec::with_capacity(ip.len() + total);
    ip.write(&mut out, total).ok()?;
    let start = out.len();
    out.extend_from_slice(&[kind, code, 0, 0]);
    out.extend_from_slice(&word.to_be_bytes());
    out.extend_from_slice(rest);
    let pseudo = if v4 { 0 } else { ip.pseudo_sum(total) };
    let checksum = fold(pseudo + sum(&out[start..])).to_be_bytes();
    out[start + 2..start + 4].copy_from_slice(&checksum);
    Some(out)
}

/// The reply to the echo request `request`, from the address it was sent to; `None` if it is not an echo request. Like Linux's it may be fragmented on the way,
/// with the identification `id`.
pub fn echo_reply(request: &IpDatagram<'_>, id: u16) -> Option<Vec<u8>> {
    let Ok(Message::EchoRequest { identifier, sequence, data }) = parse(request) else { return None };
    let asked = &request.header;
    if !is_single(asked.source) {
        return None;
    }
    let kind = if asked.source.is_ipv4() { 0 } else { 129 };
    let ip = IpHeader {
        dscp: asked.dscp,
        identification: id,
        dont_fragment: false,
        ..IpHeader::new(asked.destination, asked.source, ICMP)
    };
    message(ip, (kind, 0), u32::from(identifier) << 16 | u32::from(sequence), data)
}

/// The error that `from` sends to the sender of `about`; `None` if an error is not allowed. `id` is the identification of the new datagram.
/// The caller limits the rate (RFC 4443 section 2.4 (f)).
pub fn error(from: IpAddr, about: &[u8], problem: Problem, id: u16) -> Option<Vec<u8>> {
    let datagram = ip::parse(about).ok()?;
    let header = datagram.header;
    // IPv6 reports a packet too big to a multicast address, too: that is how the path's MTU is found.
    let too_big = matches!(problem, Problem::TooBig { .. }) && header.destination.is_ipv6();
    if !is_single(header.source)
        || !(is_single(header.destination) || too_big)
        || datagram.fragment.is_some_and(|fragment| fragment.offset > 0)
    {
        return None;
    }
    // Echo and the like may be answered; errors may not, and neither may unreadable messages.
    let kind = datagram.payload.first();
    match header.protocol {
        ICMP if !matches!(kind, Some(0 | 8 | 13..=18)) => return None,
        ICMPV6 if !matches!(kind, Some(128..)) => return None,
        _ => {}
    }
    let v4 = header.source.is_ipv4();
    let room = if v4 { LARGEST_V4 - ip::IPV4_HEADER } else { LARGEST_V6 - ip::IPV6_HEADER } - HEADER;
    let quoted = &datagram.bytes[..datagram.bytes.len().min(room)];
    let ip = IpHeader {
        dscp: if v4 { INTERNETWORK_CONTROL } else { 0 },
        identification: id,
        dont_fragment: false,
        ..IpHeader::new(from, header.source, ICMP)
    };
    message(ip, problem.numbers(v4), problem.word(v4), quoted)
}

/// Whether an address is that of one host.
pub fn is_single(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || address.is_multicast() || address.is_unspecified() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::UDP;
    use crate::wire::udp::{self, UdpHeader};

    fn ends(v6: bool) -> (IpAddr, IpAddr) {
        let address = |last: u8| match v6 {
            true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last]),
        };
        (address(1), address(2))
    }

    fn datagram(header: &IpHeader, payload: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let udp = UdpHeader { source_port: 7, destination_port: 9 };
        udp::write(&mut bytes, header, &udp, &vec![5; payload]).unwrap();
        bytes
    }

    #[test]
    fn errors_have_the_numbers_that_the_rfcs_give_and_quote_what_caused_them_as_far_as_allowed() {
        for (problem, numbers) in [
            (Problem::TimeExceeded, [(11, 0), (3, 0)]),
            (Problem::NoRoute, [(3, 0), (1, 0)]),
            (Problem::HostUnreachable, [(3, 1), (1, 3)]),
            (Problem::PortUnreachable, [(3, 3), (1, 4)]),
            (Problem::ProtocolUnreachable, [(3, 2), (4, 1)]),
            (Problem::TooBig { mtu: 1400 }, [(3, 4), (2, 0)]),
        ] {
            for (v6, numbers, most) in [(false, numbers[0], 576), (true, numbers[1], 1280)] {
                let (source, destination) = ends(v6);
                for payload in [0, 100, 3000] {
                    let about = datagram(&IpHeader::new(source, destination, UDP), payload);
                    let sent = error(destination, &about, problem, 7).unwrap();
                    assert!(sent.len() == most || sent.len() < most && payload < 3000);
                    let read = ip::parse(&sent).unwrap();
                    assert_eq!((read.header.source, read.header.destination), (destination, source));
                    assert_eq!((read.payload[0], read.payload[1]), numbers);
                    let Ok(Message::Error { problem: found, quoted }) = parse(&read) else {
                        panic!("{sent:?}")
                    };
                    assert_eq!((found, quoted), (problem, &about[..quoted.len()]));
                    assert!(quoted.len() == about.len() || sent.len() == most);
                    let inner = ip::quoted(quoted).unwrap();
                    assert_eq!((inner.source, inner.destination, inner.protocol), (source, destination, UDP));
                    assert_eq!(inner.payload[..4], [0, 7, 0, 9]);
                    // Never about an error.
                    assert_eq!(error(source, &sent, problem, 7), None);
                }
            }
        }
    }

    #[test]
    fn nothing_is_sent_to_or_about_groups_and_later_fragments() {
        let sent = |header: &IpHeader, problem| {
            error("192.0.2.9".parse().unwrap(), &datagram(header, 0), problem, 1)
        };
        let (source, destination) = ends(false);
        let good = IpHeader::new(source, destination, UDP);
        assert!(sent(&good, Problem::PortUnreachable).is_some());
        let group: IpAddr = "224.0.0.5".parse().unwrap();
        assert_eq!(sent(&IpHeader { destination: group, ..good }, Problem::PortUnreachable), None);
        assert_eq!(sent(&IpHeader { source: [0; 4].into(), ..good }, Problem::PortUnreachable), None);
        let (source, _) = ends(true);
        let group = IpHeader::new(source, "ff05::1".parse().unwrap(), UDP);
        assert!(sent(&group, Problem::NoRoute).is_none());
        assert!(error(source, &datagram(&group, 0), Problem::TooBig { mtu: 1280 }, 1).is_some());
        let whole = datagram(&IpHeader { dont_fragment: false, ..good }, 2000);
        let parts = crate::router::fragments(&whole, 1000, 0).unwrap();
        let sent = |part: &[u8]| error(destination, part, Problem::TimeExceeded, 1).is_some();
        assert!(sent(&parts[0]) && !sent(&parts[1]));
        for end in 0..whole.len() {
            assert_eq!(error(destination, &whole[..end], Problem::NoRoute, 1), None);
            ip::quoted(&whole[..end]);
        }
    }

    #[test]
    fn an_echo_brings_everything_back() {
        for v6 in [false, true] {
            let (source, destination) = ends(v6);
            let ip = IpHeader { dscp: 46, ..IpHeader::new(source, destination, ICMP) };
            let kind = if v6 { 128 } else { 8 };
            let mut request = message(ip, (kind, 0), 0x0102_0304, b"ping").unwrap();
            let reply = echo_reply(&ip::parse(&request).unwrap(), 5).unwrap();
            let read = ip::parse(&reply).unwrap();
            assert_eq!((read.header.source, read.header.destination), (destination, source));
            assert_eq!(read.header.dscp, 46);
            let expected = Message::EchoReply { identifier: 0x102, sequence: 0x304, data: b"ping" };
            assert_eq!(parse(&read), Ok(expected));
            // A reply is not answered, nor a damaged request.
            assert_eq!(echo_reply(&read, 1), None);
            *request.last_mut().unwrap() ^= 1;
            assert_eq!(echo_reply(&ip::parse(&request).unwrap(), 1), None);
        }
    }
}
