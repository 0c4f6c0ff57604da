//! Round trips of single ICMP echo requests (RFC 792): the far kernel answers them without waking a program.

use std::io::IoSliceMut;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::sys::socket::sockopt::{ReceiveTimeout, Timestamping};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn,
    TimestampingFlag, Timestamps, connect, recvmsg, send, setsockopt, socket,
};
use warpline_core::TimeDelta;

use super::{LoadError, Trips, nap, realtime, system};

/// Bytes of an IPv4 and of an ICMP header.
const HEADERS: usize = 20 + 8;
/// How long an answer may take, in seconds.
const PATIENCE_S: i64 = 3;
/// Round trips before those that count, while routes and caches are cold.
const WARM_UP: u64 = 5;

/// Measures `count` round trips of packets of `bytes` from the IP header on, `gap` apart.
pub(super) fn trips(address: Ipv4Addr, count: u64, gap: TimeDelta, bytes: usize) -> Result<Trips, LoadError> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, SockProtocol::Icmp)
        .map_err(system("open a socket for pings (sysctl net.ipv4.ping_group_range)"))?;
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE;
    setsockopt(&socket, Timestamping, &stamps).map_err(system("switch timestamps on"))?;
    // Not by waiting for input or errors: the timestamp of the send, which is in the error queue, would end that.
    let patience = nix::sys::time::TimeVal::new(PATIENCE_S, 0);
    setsockopt(&socket, ReceiveTimeout, &patience).map_err(system("limit the wait for an answer"))?;
    let [a, b, c, d] = address.octets();
    connect(socket.as_raw_fd(), &SockaddrIn::new(a, b, c, d, 0)).map_err(system("reach the address"))?;
    crate::clock::be_punctual();
    let mut packet = vec![0; bytes.saturating_sub(HEADERS) + 8];
    packet[0] = 8; // echo request; the kernel fills in identifier and checksum
    let mut trips = Trips::default();
    for number in 0..count + WARM_UP {
        packet[6..8].copy_from_slice(&(number as u16).to_be_bytes());
        let began = realtime();
        send(socket.as_raw_fd(), &packet, MsgFlags::empty()).map_err(system("send a ping"))?;
        let answered = answer(&socket, number as u16)?;
        // The kernel returns the timestamp of the send through the socket's error queue.
        let sent = stamped(&socket, &mut [0; 2048], MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT);
        match answered {
            Some((stamp, seen)) if number >= WARM_UP => {
                let sent = sent.ok().flatten().unwrap_or(began);
                trips.stamped.push(stamp.saturating_sub(sent));
                trips.seen.push(seen.saturating_sub(began));
            }
            None if number >= WARM_UP => trips.lost += 1,
            _ => {}
        }
        nap(gap);
    }
    Ok(trips)
}

/// Receives a message, and its timestamp if it has one.
fn stamped(socket: &OwnedFd, buffer: &mut [u8], flags: MsgFlags) -> nix::Result<Option<u64>> {
    let mut space = nix::cmsg_space!(Timestamps, [u8; 64]);
    let mut into = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrIn>(socket.as_raw_fd(), &mut into, Some(&mut space), flags)?;
    let stamp = message.cmsgs()?.find_map(|one| match one {
        ControlMessageOwned::ScmTimestampsns(all) => Some(all.system),
        _ => None,
    });
    Ok(stamp.map(|time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64))
}

/// Waits for the answer with this number: returns the kernel's timestamp, and when the program had it.
fn answer(socket: &OwnedFd, number: u16) -> Result<Option<(u64, u64)>, LoadError> {
    let mut buffer = [0; 2048];
    loop {
        match stamped(socket, &mut buffer, MsgFlags::empty()) {
            Ok(stamp) if buffer[0] == 0 && buffer[6..8] == number.to_be_bytes() => {
                let seen = realtime();
                return Ok(Some((stamp.unwrap_or(seen), seen)));
            }
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(nix::errno::Errno::EAGAIN) => return Ok(None),
            Err(errno) => return Err(system("receive an answer")(errno)),
        }
    }
}
