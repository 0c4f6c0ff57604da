//! When a frame left: the kernel's transmit timestamp of single frames (Linux Documentation/networking/timestamping.rst).
//!
//! A timestamp is requested with the frame (`SOF_TIMESTAMPING_TX_SOFTWARE` as a control message) and comes back on the socket's error
//! queue. A veth pair takes it in the sender's system call, just before the frame is passed to the other end; so does a card's driver,
//! or it takes it later, or not at all.

use std::io::IoSliceMut;
use std::mem::{size_of, size_of_val};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// Room for one control message that holds flags, aligned as its head is.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; 24]);

/// Allows timestamp requests on `socket`. The timestamps come without the frame.
///
/// # Errors
/// If the kernel has no timestamps.
pub(super) fn enable(socket: BorrowedFd<'_>) -> std::io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_SOFTWARE | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    super::link::set_option(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
}

/// Sends one frame and requests its timestamp, which [`take`] reads.
///
/// # Errors
/// Those of sendmsg(2).
pub(super) fn send(socket: BorrowedFd<'_>, frame: &mut [u8]) -> Result<(), Errno> {
    let flags: u32 = libc::SOF_TIMESTAMPING_TX_SOFTWARE;
    let mut control = Control([0; 24]);
    let mut vector = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    // SAFETY: plain numbers and pointers, for which zero (null) is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the control buffer is aligned for a head, and CMSG_SPACE of four bytes is its 24 bytes: head and flags are within it.
    // Frame, vector and control live through the call.
    let sent = unsafe {
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SO_TIMESTAMPING;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<u32>() as u32) as _;
        libc::CMSG_DATA(head).cast::<u32>().write_unaligned(flags);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT)
    };
    Errno::result(sent).map(drop)
}

/// The last timestamp on the error queue, in nanoseconds since 1970, if there is one. Empties the queue.
pub(super) fn take(socket: BorrowedFd<'_>) -> Option<u64> {
    let mut last = None;
    let mut control = cmsg_space!([libc::timespec; 3], [libc::timespec; 1], [u8; 64]);
    loop {
        let mut nothing = [0u8; 0];
        let mut vectors = [IoSliceMut::new(&mut nothing)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut vectors, Some(&mut control), flags);
        let Ok(message) = message else { return last };
        for part in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::ScmTimestampsns(stamps) = part {
                let time = stamps.system;
                last = Some(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn a_datagram_that_asks_for_it_comes_back_with_an_instant() {
        let (from, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        from.connect(to.local_addr().unwrap()).unwrap();
        enable(from.as_fd()).unwrap();
        assert_eq!(take(from.as_fd()), None);
        let now = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let before = now();
        send(from.as_fd(), &mut b"hello".to_vec()).unwrap();
        let stamp = take(from.as_fd()).unwrap();
        assert!((before..=now()).contains(&stamp), "{before} {stamp}");
        assert_eq!(take(from.as_fd()), None);
        let mut buffer = [0; 16];
        assert_eq!(to.recv(&mut buffer).unwrap(), 5);
        // A frame without a request gets no timestamp.
        from.send(b"again").unwrap();
        assert_eq!(take(from.as_fd()), None);
    }
}
