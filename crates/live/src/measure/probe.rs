//! Sockets that send probes and receive the answers: ICMP echo, or UDP to ports where nothing listens, either with a hop limit.
//!
//! ICMP needs no privilege if `net.ipv4.ping_group_range` includes the user's group (icmp(7), ping sockets); otherwise it needs a raw socket. UDP never
//! needs any: the answers of routers and the target come through the socket's error queue (ip(7), `IP_RECVERR`).

#![expect(
    clippy::disallowed_types,
    reason = "the code in a probe must be one that nobody foresees; no result depends on it"
)]

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrLike as _, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use warpline_capacity::ProbeReply;
use warpline_core::Timestamp;

use super::MeasureError;
use crate::clock::RealClock;

/// The kind of probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeMode {
    /// ICMP echo requests (ping).
    #[default]
    Icmp,
    /// UDP datagrams to high ports (traceroute).
    Udp,
}

/// The socket for ICMP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ping,
    Raw,
    Udp,
}

/// First destination port of UDP probes, like traceroute's; the port distinguishes probes.
const FIRST_PORT: u16 = 33_434;
/// Source ports of UDP probes.
const OWN_PORTS: (u16, u16) = (20_000, 33_400);
/// Bytes of an ICMP echo header, and of a UDP header.
const HEADER: usize = 8;
/// Largest answer: a datagram, or the part of one that a router quotes.
const ROOM: usize = 65_536;
/// Requested buffer size.
const BUFFER: usize = 4 << 20;

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A probe was answered: its number modulo [`ProbeSocket::modulus`], how, and by whom.
    Reply(u64, ProbeReply, IpAddr),
    /// A router, or this host, has this MTU for the probe with this number modulo [`ProbeSocket::modulus`].
    TooBig(u64, u32),
}

/// The result of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// The probe was sent.
    Away,
    /// The kernel had no room for it.
    Refused,
    /// It is too large for the interface.
    TooLarge,
}

/// A socket for probes to one target with one hop limit.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: OwnedFd,
    kind: Kind,
    target: SocketAddr,
    /// Identifier of our echo requests on a raw socket.
    id: u16,
    packet: Vec<u8>,
    answer: Vec<u8>,
    /// Whether a probe has left.
    has_sent: bool,
    /// Makes the code in echo requests: without seeing a request, nobody can forge the answer.
    secret: RandomState,
}

/// Smallest credible MTU: no IPv6 link has less (RFC 8200, section 5), and Linux accepts no less from IPv4 routers
/// (`net.ipv4.route.min_pmtu`).
fn least_mtu(v4: bool) -> u32 {
    if v4 { 552 } else { 1280 }
}

/// Whether an error is a router's or host's answer to an earlier probe, which the system reports at the next call (icmp(7); the tables
/// `icmp_err_convert` in linux/net/ipv4/icmp.c and `tab_unreach` in linux/net/ipv6/icmp.c). It is in the error queue, too.
fn is_of_network(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENETUNREACH
            | Errno::ENONET
            | Errno::ENOPROTOOPT
            | Errno::EOPNOTSUPP
            | Errno::EPROTO
            | Errno::EACCES
            | Errno::EMSGSIZE
    )
}

fn last(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno as i32)
}

impl ProbeSocket {
    /// A socket for probes to `target`, whose port has no meaning, limited to `ttl` hops.
    ///
    /// # Errors
    /// If the user may not open it, or the system refuses.
    pub fn open(mut target: SocketAddr, mode: ProbeMode, ttl: Option<u8>) -> Result<Self, MeasureError> {
        use socket2::{Domain, Protocol, Socket, Type};
        let v4 = target.is_ipv4();
        let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
        let icmp = if v4 { Protocol::ICMPV4 } else { Protocol::ICMPV6 };
        let (socket, kind) = match mode {
            ProbeMode::Udp => {
                let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
                    .map_err(MeasureError::socket("make a UDP socket"))?;
                (socket, Kind::Udp)
            }
            ProbeMode::Icmp => match Socket::new(domain, Type::DGRAM, Some(icmp)) {
                Ok(socket) => (socket, Kind::Ping),
                Err(_) => match Socket::new(domain, Type::RAW, Some(icmp)) {
                    Ok(socket) => (socket, Kind::Raw),
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                        return Err(MeasureError::Privilege);
                    }
                    Err(error) => return Err(MeasureError::socket("make an ICMP socket")(error)),
                },
            },
        };
        let fail = |what: &'static str| MeasureError::socket(what);
        socket.set_nonblocking(true).map_err(fail("prepare the socket"))?;
        // If the system gives smaller buffers, they are used.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER / 4);
        let option = |level, name, value: libc::c_int| {
            // SAFETY: the pointer is to an integer that lives through the call, and the length is its size.
            let result = unsafe {
                libc::setsockopt(
                    socket.as_raw_fd(),
                    level,
                    name,
                    (&raw const value).cast(),
                    size_of_val(&value) as libc::socklen_t,
                )
            };
            if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
        };
        let (level, receive_errors, discover, probe) = if v4 {
            (libc::SOL_IP, libc::IP_RECVERR, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
        } else {
            (libc::SOL_IPV6, libc::IPV6_RECVERR, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
        };
        option(level, receive_errors, 1).map_err(fail("ask for ICMP errors"))?;
        // Do not fragment, and do not use the MTU that other sockets have learnt of the path.
        option(level, discover, probe).map_err(fail("forbid fragmentation"))?;
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
        if let Some(ttl) = ttl {
            let name = if v4 { libc::IP_TTL } else { libc::IPV6_UNICAST_HOPS };
            option(level, name, i32::from(ttl)).map_err(fail("limit the hops"))?;
        }
        let random = u64::from_be_bytes(super::random()?);
        if kind == Kind::Udp {
            // Below the ports of probes: a probe to this very host must not reach this socket.
            let bound = (0..32).any(|step| {
                let port = OWN_PORTS.0 + ((random >> 16) + step) as u16 % (OWN_PORTS.1 - OWN_PORTS.0);
                socket.bind(&SocketAddr::new(super::unspecified(target.ip()), port).into()).is_ok()
            });
            if !bound {
                return Err(MeasureError::socket("find a free UDP port below 33434")(
                    io::ErrorKind::AddrInUse.into(),
                ));
            }
        }
        // A raw socket of IPv6 takes no other port.
        target.set_port(0);
        Ok(ProbeSocket {
            socket: socket.into(),
            kind,
            target,
            id: random as u16,
            packet: vec![0xa5; ROOM],
            answer: vec![0; ROOM],
            has_sent: false,
            secret: RandomState::new(),
        })
    }

    /// Probes whose numbers differ by a multiple of this cannot be distinguished.
    pub fn modulus(&self) -> u64 {
        match self.kind {
            Kind::Ping | Kind::Raw => 1 << 16,
            Kind::Udp => u64::from(u16::MAX - FIRST_PORT) + 1,
        }
    }

    /// The kind of probe as text.
    pub fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Ping => "ICMP echo through a ping socket",
            Kind::Raw => "ICMP echo through a raw socket",
            Kind::Udp => "UDP to ports where nothing listens",
        }
    }

    fn ip_header(&self) -> usize {
        if self.target.is_ipv4() { 20 } else { 40 }
    }

    /// Sends probe `number` of `size` bytes on the wire.
    ///
    /// # Errors
    /// If nothing can be sent to the target.
    pub fn send(&mut self, number: u64, size: u32) -> Result<Sent, MeasureError> {
        let len = (size as usize).clamp(self.ip_header() + HEADER + 8, ROOM) - self.ip_header();
        let sequence = (number % self.modulus()) as u16;
        let (start, to) = match self.kind {
            Kind::Udp => {
                let mut to = self.target;
                to.set_port(FIRST_PORT + sequence);
                self.packet[HEADER..HEADER + 8].copy_from_slice(&number.to_be_bytes());
                (HEADER, to)
            }
            Kind::Ping | Kind::Raw => {
                let kind = if self.target.is_ipv4() { 8 } else { 128 };
                self.packet[..HEADER].copy_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
                self.packet[4..6].copy_from_slice(&self.id.to_be_bytes());
                self.packet[6..8].copy_from_slice(&sequence.to_be_bytes());
                let code = self.secret.hash_one(sequence);
                self.packet[HEADER..HEADER + 8].copy_from_slice(&code.to_be_bytes());
                if self.kind == Kind::Raw && self.target.is_ipv4() {
                    // The kernel makes all other checksums.
                    let sum = internet_checksum(&self.packet[..len]);
                    self.packet[2..4].copy_from_slice(&sum.to_be_bytes());
                }
                (0, self.target)
            }
        };
        let address = SockaddrStorage::from(to);
        let mut failure = None;
        for _ in 0..4 {
            let iov = [IoSlice::new(&self.packet[start..len])];
            match sendmsg(self.socket.as_raw_fd(), &iov, &[], MsgFlags::empty(), Some(&address)) {
                Ok(_) => {
                    self.has_sent = true;
                    return Ok(Sent::Away);
                }
                Err(Errno::EMSGSIZE) => return Ok(Sent::TooLarge),
                Err(Errno::ENOBUFS | Errno::EAGAIN | Errno::ENOMEM) => return Ok(Sent::Refused),
                // An error for an earlier probe, which is in the error queue too: this one has not been sent yet.
                Err(Errno::EINTR) => {}
                Err(errno) if is_of_network(errno) || (self.has_sent && errno != Errno::EBADF) => {
                    failure = Some(errno);
                }
                Err(errno) => {
                    return Err(MeasureError::socket(format!("send to {}", self.target.ip()))(last(errno)));
                }
            }
        }
        match failure {
            // Nothing could be sent yet: this host has no route to the target. Later, such an error is a route that comes and goes.
            Some(errno) if !self.has_sent => {
                Err(MeasureError::socket(format!("send to {}", self.target.ip()))(last(errno)))
            }
            _ => Ok(Sent::Refused),
        }
    }

    /// The MTU of the interface towards the target, if the system knows it.
    pub fn interface_mtu(&self) -> Option<u32> {
        let socket = super::towards(self.target).ok()?;
        let (level, name) = if self.target.is_ipv4() {
            (libc::SOL_IP, libc::IP_MTU)
        } else {
            (libc::SOL_IPV6, libc::IPV6_MTU)
        };
        let mut mtu: libc::c_int = 0;
        let mut len = size_of_val(&mtu) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `mtu`, which lives through the call.
        let result =
            unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut mtu).cast(), &raw mut len) };
        (result == 0).then_some(mtu.max(0) as u32)
    }

    /// Receives answers, and then the error queue. Returns whether there was anything.
    ///
    /// # Errors
    /// If the socket no longer works.
    pub fn receive(
        &mut self,
        clock: &RealClock,
        mut each: impl FnMut(Timestamp, Heard),
    ) -> Result<bool, MeasureError> {
        const MOST: usize = 64;
        let mut any = false;
        for flags in [MsgFlags::empty(), MsgFlags::MSG_ERRQUEUE] {
            for _ in 0..MOST {
                if !self.receive_one(clock, flags, &mut each)? {
                    break;
                }
                any = true;
            }
        }
        Ok(any)
    }

    fn receive_one(
        &mut self,
        clock: &RealClock,
        flags: MsgFlags,
        each: &mut impl FnMut(Timestamp, Heard),
    ) -> Result<bool, MeasureError> {
        let now = clock.now();
        let mut control =
            nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6, nix::sys::time::TimeSpec, [u8; 64]);
        let mut iov = [IoSliceMut::new(&mut self.answer)];
        let message =
            recvmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &mut iov, Some(&mut control), flags);
        let message = match message {
            Ok(message) => message,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            // The error itself follows in the error queue.
            Err(errno) if is_of_network(errno) => return Ok(!flags.contains(MsgFlags::MSG_ERRQUEUE)),
            Err(errno) => return Err(MeasureError::socket("receive")(last(errno))),
        };
        let from = message.address.and_then(|address| to_socket(&address));
        let mut at = now;
        let mut error = None;
        if let Ok(messages) = message.cmsgs() {
            for message in messages {
                match message {
                    ControlMessageOwned::ScmTimestampns(stamp) => {
                        let nanos = stamp.tv_sec() as u64 * 1_000_000_000 + stamp.tv_nsec() as u64;
                        at = clock.stamp(nanos, now);
                    }
                    ControlMessageOwned::Ipv4RecvErr(report, offender) => {
                        let offender =
                            offender.map(|address| IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()));
                        error = Some((report, offender));
                    }
                    ControlMessageOwned::Ipv6RecvErr(report, offender) => {
                        let offender = offender.map(|address| IpAddr::from(address.sin6_addr.s6_addr));
                        error = Some((report, offender));
                    }
                    _ => {}
                }
            }
        }
        let len = message.bytes.min(self.answer.len());
        let bytes = &self.answer[..len];
        let heard = if flags.contains(MsgFlags::MSG_ERRQUEUE) {
            error.and_then(|(report, offender)| self.understand_error(&report, offender, from, bytes))
        } else {
            from.and_then(|from| self.understand_answer(from.ip(), bytes))
        };
        if let Some(heard) = heard {
            each(at, heard);
        }
        Ok(true)
    }

    /// An ICMP message received as data.
    fn understand_answer(&self, from: IpAddr, bytes: &[u8]) -> Option<Heard> {
        if self.kind == Kind::Udp {
            // A server on the port answered: that is not an answer to a probe.
            return None;
        }
        let v4 = self.target.is_ipv4();
        // A raw IPv4 socket returns the IP header, too.
        let icmp = if self.kind == Kind::Raw && v4 { behind_ipv4(bytes)?.1 } else { bytes };
        let heard = read_icmp(icmp, v4, (self.kind == Kind::Raw).then_some(self.id), from, self.target.ip())?;
        let Heard::Reply(number, ProbeReply::Echo, _) = heard else { return Some(heard) };
        let code = self.secret.hash_one(number as u16).to_be_bytes();
        (icmp.get(HEADER..HEADER + 8) == Some(&code[..])).then_some(heard)
    }

    /// An error about a datagram of ours: `bytes` is the quoted part from its payload on (UDP) or its ICMP header on.
    fn understand_error(
        &self,
        report: &libc::sock_extended_err,
        offender: Option<IpAddr>,
        to: Option<SocketAddr>,
        bytes: &[u8],
    ) -> Option<Heard> {
        let sequence = match self.kind {
            Kind::Udp => to?.port().checked_sub(FIRST_PORT)?,
            Kind::Ping | Kind::Raw => u16::from_be_bytes(*bytes.get(6..8)?.first_chunk()?),
        };
        let number = u64::from(sequence);
        let local = report.ee_origin == libc::SO_EE_ORIGIN_LOCAL;
        if report.ee_errno == libc::EMSGSIZE as u32 {
            let believed = local || report.ee_info >= least_mtu(self.target.is_ipv4());
            return believed.then_some(Heard::TooBig(number, report.ee_info));
        }
        let v4 = report.ee_origin == libc::SO_EE_ORIGIN_ICMP;
        if !v4 && report.ee_origin != libc::SO_EE_ORIGIN_ICMP6 {
            return None;
        }
        let kind = classify(v4, report.ee_type, report.ee_code)?;
        Some(Heard::Reply(number, kind, offender.unwrap_or(self.target.ip())))
    }

    /// Waits for a message, until `until` at the latest.
    pub fn wait(&self, now: Timestamp, until: Timestamp) {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let _ = poll(&mut fds, super::timespec(now, until).as_ref());
    }
}

fn to_socket(address: &SockaddrStorage) -> Option<SocketAddr> {
    match address.family()? {
        nix::sys::socket::AddressFamily::Inet => {
            address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()))
        }
        nix::sys::socket::AddressFamily::Inet6 => {
            address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
        }
        _ => None,
    }
}

/// The meaning of an ICMP error for a probe (RFC 792; RFC 4443).
fn classify(v4: bool, kind: u8, code: u8) -> Option<ProbeReply> {
    match (v4, kind, code) {
        (true, 11, 0) | (false, 3, 0) => Some(ProbeReply::TimeExceeded),
        (true, 3, 3) | (false, 1, 4) => Some(ProbeReply::PortUnreachable),
        (true, 3, _) | (false, 1, _) => Some(ProbeReply::Unreachable),
        _ => None,
    }
}

/// Header and payload of an IPv4 datagram that may be cut short.
fn behind_ipv4(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = *bytes.first()?;
    let len = usize::from(first & 0xf) * 4;
    if first >> 4 != 4 || len < 20 {
        return None;
    }
    bytes.split_at_checked(len)
}

/// The meaning of an ICMP message for our probes: `id` is that of our requests, if messages of other sockets arrive too.
fn read_icmp(icmp: &[u8], v4: bool, id: Option<u16>, from: IpAddr, target: IpAddr) -> Option<Heard> {
    let word = |at: usize, bytes: &[u8]| Some(u16::from_be_bytes(*bytes.get(at..at + 2)?.first_chunk()?));
    let (kind, code) = (*icmp.first()?, *icmp.get(1)?);
    let ours = |header: &[u8]| id.is_none_or(|id| word(4, header) == Some(id));
    if (v4 && kind == 0) || (!v4 && kind == 129) {
        let sequence = word(6, icmp)?;
        return (ours(icmp) && from == target).then_some(Heard::Reply(
            u64::from(sequence),
            ProbeReply::Echo,
            from,
        ));
    }
    // An error quotes the datagram that it is about.
    let quoted = icmp.get(HEADER..)?;
    let inner = if v4 {
        let (header, inner) = behind_ipv4(quoted)?;
        let to: [u8; 4] = *header.get(16..20)?.first_chunk()?;
        (IpAddr::from(to) == target && header.get(9) == Some(&1)).then_some(inner)?
    } else {
        let to: [u8; 16] = *quoted.get(24..40)?.first_chunk()?;
        (IpAddr::from(to) == target && quoted.get(6) == Some(&58)).then_some(quoted.get(40..)?)?
    };
    let request = if v4 { 8 } else { 128 };
    if inner.first() != Some(&request) || !ours(inner) {
        return None;
    }
    let number = u64::from(word(6, inner)?);
    let too_big = match (v4, kind, code) {
        (true, 3, 4) => Some(u32::from(word(6, icmp)?)),
        (false, 2, _) => Some(u32::from_be_bytes(*icmp.get(4..8)?.first_chunk()?)),
        _ => None,
    };
    match too_big {
        Some(mtu) => (mtu >= least_mtu(v4)).then_some(Heard::TooBig(number, mtu)),
        None => Some(Heard::Reply(number, classify(v4, kind, code)?, from)),
    }
}

/// Takes any bytes through everything that reads answers, as a fuzzer makes them.
pub fn fuzz_answer(bytes: &[u8]) {
    let target = IpAddr::from([192, 0, 2, 1]);
    for v4 in [true, false] {
        for id in [None, Some(7)] {
            let _ = read_icmp(bytes, v4, id, target, target);
        }
    }
    if let Some((_, icmp)) = behind_ipv4(bytes) {
        let _ = read_icmp(icmp, true, Some(7), target, target);
    }
}

/// The Internet checksum (RFC 1071).
fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TARGET: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 7));
    const ROUTER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    /// An ICMP error of `kind` and `code` about our echo request with sequence number 513.
    fn error(kind: u8, code: u8, rest: [u8; 4]) -> Vec<u8> {
        let mut bytes = vec![kind, code, 0, 0];
        bytes.extend(rest);
        let mut header = vec![0x45, 0, 5, 220, 0, 0, 0x40, 0, 1, 1, 0, 0, 10, 0, 0, 9, 192, 0, 2, 7];
        bytes.append(&mut header);
        bytes.extend([8, 0, 0, 0, 0, 7, 2, 1]);
        bytes
    }

    #[test]
    fn answers_are_understood() {
        let echo = [0, 0, 0, 0, 0, 7, 2, 1, 9, 9];
        let heard = Heard::Reply(513, ProbeReply::Echo, TARGET);
        assert_eq!(read_icmp(&echo, true, Some(7), TARGET, TARGET), Some(heard));
        assert_eq!(read_icmp(&echo, true, Some(8), TARGET, TARGET), None, "somebody else's");
        assert_eq!(read_icmp(&echo, true, Some(7), ROUTER, TARGET), None, "from somebody else");
        let heard = |bytes: &[u8]| read_icmp(bytes, true, Some(7), ROUTER, TARGET);
        assert_eq!(heard(&error(11, 0, [0; 4])), Some(Heard::Reply(513, ProbeReply::TimeExceeded, ROUTER)));
        assert_eq!(heard(&error(3, 1, [0; 4])), Some(Heard::Reply(513, ProbeReply::Unreachable, ROUTER)));
        assert_eq!(heard(&error(3, 4, [0, 0, 5, 120])), Some(Heard::TooBig(513, 1400)));
        assert_eq!(heard(&error(3, 4, [0, 0, 0, 48])), None, "no path is as narrow as that");
        assert_eq!(heard(&error(11, 1, [0; 4])), None, "reassembly");
        let mut cut = error(11, 0, [0; 4]);
        cut.truncate(34);
        assert_eq!(heard(&cut), None);
    }

    #[test]
    fn the_checksum_of_a_packet_with_its_checksum_is_zero() {
        let mut packet = vec![8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7];
        let sum = internet_checksum(&packet);
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(internet_checksum(&packet), 0);
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            fuzz_answer(&bytes);
        }
        #[test]
        fn no_damaged_answer_panics(at in 0usize..40, byte: u8, cut in 0usize..48) {
            let mut bytes = error(11, 0, [0; 4]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            fuzz_answer(&bytes);
        }
    }
}
