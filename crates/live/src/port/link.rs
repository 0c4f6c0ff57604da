//! What the sockets of an Ethernet interface share.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{self, c_int};

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;

/// Sets an option that no library sets.
pub(super) fn set_option<T>(socket: BorrowedFd<'_>, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and length are those of `value`, which is plain data of the type that the option takes and lives
    // through the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}
