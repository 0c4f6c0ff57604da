//! What the sockets of an Ethernet interface share.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::errno::Errno;
use nix::libc::{self, c_int};

/// A MAC address.
pub type Mac = [u8; 6];

/// Bytes of an Ethernet header.
pub(super) const ETHERNET: usize = 14;
/// EtherTypes.
pub(super) const IPV4: u16 = 0x0800;
pub(super) const ARP: u16 = 0x0806;
pub(super) const IPV6: u16 = 0x86dd;
/// The EtherType of a VLAN tag (IEEE 802.1Q).
pub(super) const VLAN: u16 = 0x8100;

/// The EtherType of a datagram of this IP version.
pub(super) fn ether_type(version: u8) -> u16 {
    if version == 6 { IPV6 } else { IPV4 }
}

/// An Ethernet header, with a VLAN tag or without.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Front {
    bytes: [u8; ETHERNET + 4],
    len: usize,
}

impl Front {
    /// The header from one station to another. `tag` is a tag's EtherType and content.
    pub(super) fn new(to: &[u8], from: &[u8], tag: Option<(u16, u16)>, ether_type: u16) -> Self {
        let mut front = Front::default();
        let mut add = |bytes: &[u8]| {
            front.bytes[front.len..front.len + bytes.len()].copy_from_slice(bytes);
            front.len += bytes.len();
        };
        add(to);
        add(from);
        if let Some((kind, content)) = tag {
            add(&kind.to_be_bytes());
            add(&content.to_be_bytes());
        }
        add(&ether_type.to_be_bytes());
        front
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

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
