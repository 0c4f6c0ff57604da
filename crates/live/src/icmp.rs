//! What routers and hosts say about datagrams: ICMP (RFC 792, RFC 1812 section 4.3) and ICMPv6 (RFC 4443) errors and echo
//! replies, and TCP resets (RFC 9293 section 3.5.2).
//!
//! Errors quote as much as fits a datagram of 576 (IPv4) or 1280 bytes (IPv6), and are never said about errors, later
//! fragments, or what came from or went to no single host (RFC 1122 section 3.2.2, RFC 4443 section 2.4 e).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{folded, sum};
use crate::router::{addresses, finish_header, payload};
use crate::{checksum, datagram};

/// ICMP.
pub const ICMP: u8 = 1;
/// TCP.
pub const TCP: u8 = 6;
/// UDP.
pub const UDP: u8 = 17;
/// ICMPv6.
pub const ICMPV6: u8 = 58;

/// Time to live of what is made here, Linux's default.
const TTL: u8 = 64;
/// Largest ICMP error, and the smallest MTU of IPv6.
const LARGEST: [usize; 2] = [576, 1280];

/// What is wrong with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its time to live is over.
    TimeExceeded,
    /// Nobody knows the way to its destination.
    NoRoute,
    /// Nobody listens at the port.
    PortUnreachable,
    /// The host does not speak the protocol.
    ProtocolUnreachable,
    /// It is larger than the next link's MTU in bytes, and must not be cut.
    TooBig(u32),
}

impl Problem {
    /// Type, code and the second word of the ICMP header.
    fn v4(self) -> (u8, u8, u32) {
        match self {
            Problem::TimeExceeded => (11, 0, 0),
            Problem::NoRoute => (3, 0, 0),
            Problem::ProtocolUnreachable => (3, 2, 0),
            Problem::PortUnreachable => (3, 3, 0),
            // RFC 1191 section 4.
            Problem::TooBig(mtu) => (3, 4, mtu & 0xffff),
        }
    }

    fn v6(self) -> (u8, u8, u32) {
        match self {
            Problem::TimeExceeded => (3, 0, 0),
            Problem::NoRoute => (1, 0, 0),
            // Unrecognised next header, at its place in the fixed header.
            Problem::ProtocolUnreachable => (4, 1, 6),
            Problem::PortUnreachable => (1, 4, 0),
            Problem::TooBig(mtu) => (2, 0, mtu),
        }
    }
}

/// A host or router that speaks: its two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speaker {
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
}

/// The error that `speaker` sends to whoever sent `about`; none where there must not be one. `id` is the identification of the
/// new datagram.
pub fn error(speaker: &Speaker, about: &[u8], problem: Problem, id: u16) -> Option<Vec<u8>> {
    let (source, destination) = addresses(about)?;
    let inner = payload(about)?;
    if inner.later_fragment || !is_single(source) || !is_single(destination) {
        return None;
    }
    let kind = about.get(inner.at).copied();
    match (source, inner.protocol) {
        // Echo and the like may be answered; errors may not, and what cannot be told neither.
        (IpAddr::V4(_), ICMP) if !matches!(kind, Some(0 | 8 | 13..=18)) => return None,
        (IpAddr::V6(_), ICMPV6) if kind.is_none_or(|kind| kind < 128) => return None,
        _ => {}
    }
    let (number, (kind, code, word)) = match source {
        IpAddr::V4(_) => (0, problem.v4()),
        IpAddr::V6(_) => (1, problem.v6()),
    };
    let head = [20, 40][number] + 8;
    let quoted = &about[..about.len().min(LARGEST[number] - head)];
    let mut message = vec![kind, code, 0, 0];
    message.extend(word.to_be_bytes());
    message.extend_from_slice(quoted);
    Some(match source {
        // Precedence of control traffic: RFC 1812 section 4.3.2.5.
        IpAddr::V4(to) => icmp_v4(speaker.v4, to, 0xc0, id, message),
        IpAddr::V6(to) => icmp_v6(speaker.v6, to, 0, message),
    })
}

/// The answer to an echo request that went to `speaker`; none if `request` is anything else, or a fragment.
pub fn echo_reply(speaker: &Speaker, request: &[u8], id: u16) -> Option<Vec<u8>> {
    let (source, _) = addresses(request)?;
    let inner = payload(request)?;
    let mut message = request.get(inner.at..)?.to_vec();
    if inner.fragment
        || message.len() < 8
        || !is_single(source)
        || !sums_to_zero(request, inner.at, inner.protocol)
    {
        return None;
    }
    match (source, inner.protocol, message[0]) {
        (IpAddr::V4(to), ICMP, 8) => {
            message[0] = 0;
            Some(icmp_v4(speaker.v4, to, request[1], id, message))
        }
        (IpAddr::V6(to), ICMPV6, 128) => {
            message[0] = 129;
            let class = request[0] << 4 | request[1] >> 4;
            Some(icmp_v6(speaker.v6, to, class, message))
        }
        _ => None,
    }
}

/// The reset that answers a TCP segment to a port where nobody listens; none for a reset.
pub fn reset(segment: &[u8], id: u16) -> Option<Vec<u8>> {
    let (source, destination) = addresses(segment)?;
    let inner = payload(segment)?;
    let tcp = segment.get(inner.at..)?;
    let flags = *tcp.get(13)?;
    if inner.protocol != TCP || inner.fragment || tcp.len() < 20 || flags & 4 != 0 || !is_single(source) {
        return None;
    }
    let word = |at: usize| u32::from_be_bytes([tcp[at], tcp[at + 1], tcp[at + 2], tcp[at + 3]]);
    let mut header = vec![tcp[2], tcp[3], tcp[0], tcp[1]];
    if flags & 0x10 != 0 {
        header.extend(word(8).to_be_bytes());
        header.extend([0, 0, 0, 0, 5 << 4, 4]);
    } else {
        let data = (tcp.len()).saturating_sub(usize::from(tcp[12] >> 4) * 4) as u32;
        // SYN and FIN take a number each.
        let len = data + u32::from(flags & 2 != 0) + u32::from(flags & 1 != 0);
        header.extend([0, 0, 0, 0]);
        header.extend(word(4).wrapping_add(len).to_be_bytes());
        header.extend([5 << 4, 0x14]);
    }
    header.extend([0; 6]);
    let mut answer = match (destination, source) {
        (IpAddr::V4(from), IpAddr::V4(to)) => datagram_v4(from, to, 0, id, TCP, &header),
        (IpAddr::V6(from), IpAddr::V6(to)) => datagram_v6(from, to, 0, TCP, &header),
        _ => return None,
    };
    let read = datagram::read(&answer).ok()?;
    checksum::complete(&mut answer, &read);
    Some(answer)
}

/// Whether an address is a single host's.
fn is_single(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !(broadcast || address.is_multicast() || address.is_unspecified() || address.is_loopback())
}

/// Whether the checksum of an ICMP message is right.
fn sums_to_zero(datagram: &[u8], at: usize, protocol: u8) -> bool {
    let message = &datagram[at..];
    let pseudo = match protocol {
        ICMPV6 => sum(&datagram[8..40]) + u64::from(ICMPV6) + message.len() as u64,
        _ => 0,
    };
    folded(pseudo + sum(message)) == 0
}

fn icmp_v4(from: Ipv4Addr, to: Ipv4Addr, tos: u8, id: u16, mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    let checksum = folded(sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    datagram_v4(from, to, tos, id, ICMP, &message)
}

fn icmp_v6(from: Ipv6Addr, to: Ipv6Addr, class: u8, mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    let pseudo = sum(&from.octets()) + sum(&to.octets()) + u64::from(ICMPV6) + message.len() as u64;
    let checksum = folded(pseudo + sum(&message));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
    datagram_v6(from, to, class, ICMPV6, &message)
}

fn datagram_v4(from: Ipv4Addr, to: Ipv4Addr, tos: u8, id: u16, protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, tos];
    bytes.extend((20 + inner.len() as u16).to_be_bytes());
    bytes.extend(id.to_be_bytes());
    bytes.extend([0, 0, TTL, protocol, 0, 0]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend_from_slice(inner);
    finish_header(&mut bytes);
    bytes
}

fn datagram_v6(from: Ipv6Addr, to: Ipv6Addr, class: u8, protocol: u8, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60 | class >> 4, class << 4, 0, 0];
    bytes.extend((inner.len() as u16).to_be_bytes());
    bytes.extend([protocol, TTL]);
    bytes.extend(from.octets());
    bytes.extend(to.octets());
    bytes.extend_from_slice(inner);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::set_ttl;

    const SPEAKER: Speaker =
        Speaker { v4: Ipv4Addr::new(10, 0, 0, 9), v6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9) };
    const HOST4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const HOST6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);

    fn udp(v6: bool, payload: usize) -> Vec<u8> {
        let mut inner = vec![0x10, 0, 0x82, 0x9b];
        inner.extend((8 + payload as u16).to_be_bytes());
        inner.extend([0, 0]);
        inner.resize(8 + payload, 1);
        if v6 {
            datagram_v6(HOST6, SPEAKER.v6, 0, UDP, &inner)
        } else {
            datagram_v4(HOST4, SPEAKER.v4, 0, 1, UDP, &inner)
        }
    }

    /// What an answer is: its type and code, if all its checksums hold and it goes back.
    fn read_back(answer: &[u8]) -> (u8, u8) {
        let header = datagram::read(answer).unwrap();
        assert_eq!(header.len as usize, answer.len());
        let inner = payload(answer).unwrap();
        let (source, destination) = addresses(answer).unwrap();
        match header.version {
            4 => assert!(folded(sum(&answer[..20])) == 0 && source == SPEAKER.v4 && destination == HOST4),
            _ => assert!(source == SPEAKER.v6 && destination == HOST6),
        }
        assert!(sums_to_zero(answer, inner.at, inner.protocol));
        (answer[inner.at], answer[inner.at + 1])
    }

    #[test]
    fn errors_have_the_numbers_that_the_rfcs_give_and_quote_the_datagram() {
        for (problem, v4, v6) in [
            (Problem::TimeExceeded, (11, 0), (3, 0)),
            (Problem::NoRoute, (3, 0), (1, 0)),
            (Problem::PortUnreachable, (3, 3), (1, 4)),
            (Problem::ProtocolUnreachable, (3, 2), (4, 1)),
            (Problem::TooBig(1400), (3, 4), (2, 0)),
        ] {
            for (is_v6, expected, head, most) in [(false, v4, 28, 576), (true, v6, 48, 1280)] {
                let about = udp(is_v6, 1400);
                let answer = error(&SPEAKER, &about, problem, 7).unwrap();
                assert_eq!((read_back(&answer), answer.len()), (expected, most));
                assert_eq!(answer[head..], about[..most - head]);
                if let Problem::TooBig(_) = problem {
                    assert_eq!(answer[head - 2..head], 1400u16.to_be_bytes());
                }
                // Never about an error, nor about what no single host sent.
                let mut back = answer.clone();
                set_ttl(&mut back, 1);
                assert_eq!(error(&SPEAKER, &back, problem, 7), None);
                let mut group = about.clone();
                let at = if is_v6 { 24 } else { 16 };
                group[at..at + 2].copy_from_slice(if is_v6 { &[0xff, 5] } else { &[239, 1] });
                assert_eq!(error(&SPEAKER, &group, problem, 7), None);
            }
        }
    }

    #[test]
    fn an_echo_comes_back_as_it_went() {
        for v6 in [false, true] {
            let message = vec![if v6 { 128 } else { 8 }, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7];
            let request = if v6 {
                icmp_v6(HOST6, SPEAKER.v6, 0xb8, message.clone())
            } else {
                icmp_v4(HOST4, SPEAKER.v4, 0xb8, 1, message.clone())
            };
            let reply = echo_reply(&SPEAKER, &request, 1).unwrap();
            assert_eq!(read_back(&reply), (if v6 { 129 } else { 0 }, 0));
            assert!(reply.ends_with(&message[4..]) && datagram::read(&reply).unwrap().dscp == 0xb8 >> 2);
            assert_eq!(echo_reply(&SPEAKER, &reply, 1), None);
            let mut damaged = request.clone();
            *damaged.last_mut().unwrap() ^= 1;
            assert_eq!(echo_reply(&SPEAKER, &damaged, 1), None);
            for end in 0..request.len() {
                echo_reply(&SPEAKER, &request[..end], 1);
                error(&SPEAKER, &request[..end], Problem::NoRoute, 1);
                reset(&request[..end], 1);
            }
        }
    }

    #[test]
    fn a_syn_to_nobody_is_reset_and_a_reset_is_not() {
        let mut syn = vec![1, 2, 0, 80];
        syn.extend(0xffff_ffffu32.to_be_bytes());
        syn.extend([0, 0, 0, 0, 5 << 4, 2, 0, 0, 0, 0, 0, 0]);
        let request = datagram_v4(HOST4, SPEAKER.v4, 0, 1, TCP, &syn);
        let answer = reset(&request, 1).unwrap();
        assert_eq!(answer[20..24], [0, 80, 1, 2]);
        // Sequence 0, acknowledging the SYN: its number and one, which wraps.
        assert_eq!((&answer[24..32], answer[33]), (&[0; 8][..], 0x14));
        let pseudo = sum(&answer[12..20]) + u64::from(TCP) + 20;
        assert_eq!(folded(pseudo + sum(&answer[20..])), 0);
        assert_eq!(reset(&answer, 1), None);
    }
}
