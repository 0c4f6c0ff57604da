//! Notices between a guest and its driver: frames of their own type on the guest's network device.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::net::if_::if_nametoindex;
use warpline_agent::Notice;
use warpline_agent::notice::ETHERTYPE;

use crate::clock;
use crate::failure::{Doing, Failure};
use crate::hosts::DEVICE;

/// Longest notice in bytes.
const MOST: usize = 1500;
/// How long to wait before a notice is sent again for which the device had no room, in nanoseconds, and how often to try.
const PAUSE: u64 = 1_000_000;
const TRIES: u32 = 1000;

/// Sends and receives notices.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
    /// The broadcast address on the device.
    everybody: libc::sockaddr_ll,
}

impl Channel {
    /// Opens it, in the network namespace of the device. SIGIO signals incoming notices to this process.
    pub(crate) fn open() -> Result<Self, Failure> {
        let doing = || "open a channel to whoever drives this guest".to_owned();
        let index = if_nametoindex(DEVICE).doing(doing)?;
        let protocol = ETHERTYPE.to_be();
        // SAFETY: no pointers are passed, and the descriptor has no other owner.
        let socket = unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let socket =
                Errno::result(libc::socket(libc::AF_PACKET, kind, i32::from(protocol))).doing(doing)?;
            OwnedFd::from_raw_fd(socket)
        };
        let everybody = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol,
            sll_ifindex: index as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
        };
        // SAFETY: the address lives through the call, and its length is that of its type. The other calls have no pointers.
        unsafe {
            let (address, length) = (&raw const everybody, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
            Errno::result(libc::bind(socket.as_raw_fd(), address.cast(), length)).doing(doing)?;
            Errno::result(libc::fcntl(socket.as_raw_fd(), libc::F_SETOWN, libc::getpid())).doing(doing)?;
            let flags = libc::O_ASYNC | libc::O_NONBLOCK;
            Errno::result(libc::fcntl(socket.as_raw_fd(), libc::F_SETFL, flags)).doing(doing)?;
        }
        Ok(Channel { socket, everybody })
    }

    /// Sends a notice. While the device has no room, it tries again, for about a second: whoever waits for a lost notice waits in vain.
    pub(crate) fn report(&self, notice: &Notice) {
        let bytes = notice.payload();
        let (address, length) =
            (&raw const self.everybody, size_of::<libc::sockaddr_ll>() as libc::socklen_t);
        for _ in 0..TRIES {
            // SAFETY: both pointers are to values that live through the call, with their lengths.
            let sent = unsafe {
                libc::sendto(
                    self.socket.as_raw_fd(),
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    0,
                    address.cast(),
                    length,
                )
            };
            // The socket's buffer or the device's queue is full.
            let is_full = matches!(Errno::result(sent), Err(Errno::EAGAIN | Errno::ENOBUFS));
            if !is_full {
                return;
            }
            clock::sleep(PAUSE);
        }
    }

    /// The next notice received.
    pub(crate) fn take(&self) -> Option<Notice> {
        let mut bytes = [0; MOST];
        loop {
            // SAFETY: the kernel writes at most as many bytes as there are.
            let length = unsafe { libc::recv(self.socket.as_raw_fd(), bytes.as_mut_ptr().cast(), MOST, 0) };
            let length = Errno::result(length).ok()? as usize;
            // Other frames are ignored.
            if let Some(notice) = Notice::read(&bytes[..length.min(MOST)]) {
                return Some(notice);
            }
        }
    }
}
