//! Round trips of single ICMP echo requests (RFC 792): the far kernel answers them without waking a program.

use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, connect,
    recvmsg, send, setsockopt, socket,
};
use nix::sys::time::TimeSpec;
use rustix::event::{PollFd, PollFlags, poll};
use warpline_core::TimeDelta;

use super::{LoadError, Trips, nap, realtime, system, timespec};

/// Bytes of an IPv4 and of an ICMP header.
const HEADERS: usize = 20 + 8;
/// How long an answer may take.
const PATIENCE: TimeDelta = TimeDelta::from_millis(3000);
/// Round trips before those that count: routes and caches are cold.
const WARM_UP: u64 = 5;

/// Measures `count` round trips of packets of `bytes` from the IP header on, `gap` apart.
pub(super) fn trips(
    address: Ipv4Addr,
    count: u64,
    gap: TimeDelta,
    bytes: usize,
) -> Result<Trips, LoadError> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)
        .map_err(system("open a socket for pings (sysctl net.ipv4.ping_group_range)"))?;
    setsockopt(&socket, ReceiveTimestampns, &true).map_err(system("switch arrival stamps on"))?;
    let [a, b, c, d] = address.octets();
    connect(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).map_err(system("reach the address"))?;
    crate::clock::be_punctual();
    let mut packet = vec![0; bytes.saturating_sub(HEADERS) + 8];
    packet[0] = 8; // echo request; the kernel fills in identifier and checksum
    let mut trips = Trips::default();
    for number in 0..count + WARM_UP {
        packet[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        let sent = realtime();
        send(socket.as_raw_fd(), &packet, MsgFlags::empty()).map_err(system("send a ping"))?;
        match answer(&socket, number as u16)? {
            Some((stamp, seen)) if number >= WARM_UP => {
                trips.stamped.push(stamp.saturating_sub(sent));
                trips.seen.push(seen.saturating_sub(sent));
            }
            None if number >= WARM_UP => trips.lost += 1,
            _ => {}
        }
        nap(gap);
    }
    Ok(trips)
}

/// Waits for the answer with this number: the kernel's stamp, and when it was here.
fn answer(socket: &OwnedFd, number: u16) -> Result<Option<(u64, u64)>, LoadError> {
    let mut buffer = [0; 2048];
    let mut space = nix::cmsg_space!(TimeSpec);
    loop {
        let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(PATIENCE))) {
            Ok(0) => return Ok(None),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(system("wait for an answer")(errno)),
        }
        let mut into = [IoSliceMut::new(&mut buffer)];
        let message =
            recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut into, Some(&mut space), MsgFlags::empty())
                .map_err(system("receive an answer"))?;
        let seen = realtime();
        let stamp = message.cmsgs().ok().and_then(|mut all| {
            all.find_map(|one| match one {
                ControlMessageOwned::ScmTimestampns(time) => {
                    Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
                }
                _ => None,
            })
        });
        let _ = message;
        if buffer[0] == 0 && buffer[6..8] == number.to_be_bytes() {
            return Ok(Some((stamp.unwrap_or(seen), seen)));
        }
    }
}
