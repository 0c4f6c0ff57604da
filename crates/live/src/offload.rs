//! Switches off the offloads of an interface (ethtool's old requests, `linux/ethtool.h`), or only those with which it merges what it receives.
//!
//! A veth pair passes on segments of up to 64 kB without checksums, as if both ends were one card. An emulated
//! link must carry what would be on a wire: packets of at most its MTU. With segmentation and checksum offloads off on the hosts'
//! ends, their kernels split segments and compute checksums just before they hand them over, in their own time, as for a card without offloads.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;

/// The features to switch off, in this order, by ethtool's names.
const FEATURES: [(&str, u32); 6] = [
    ("tx", 0x17),  // ETHTOOL_STXCSUM
    ("sg", 0x19),  // ETHTOOL_SSG
    ("tso", 0x1f), // ETHTOOL_STSO
    ("ufo", 0x22), // ETHTOOL_SUFO
    ("gso", 0x24), // ETHTOOL_SGSO
    ("gro", 0x2c), // ETHTOOL_SGRO
];

/// A request to switch one feature on or off (`struct ethtool_value`).
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// A request about interface `name` through the kernel's older interface (netdevice(7)), with all other fields zero.
///
/// # Errors
/// If the name is too long.
pub(crate) fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: plain numbers, bytes and a pointer, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte ends the name.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Switches off the offloads of interface `name`, in the network namespace of the calling thread. Returns those that stay
/// unchanged because the interface needs them or does not have them.
///
/// # Errors
/// If the interface has no such settings at all, or without `CAP_NET_ADMIN`.
pub fn switch_off(name: &str) -> io::Result<Vec<&'static str>> {
    let socket = socket()?;
    let mut left = Vec::new();
    for (feature, command) in FEATURES {
        match exchange(&socket, name, command, 0) {
            Ok(_) => {}
            Err(Errno::EOPNOTSUPP | Errno::EINVAL) => left.push(feature),
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(left)
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    let socket = Errno::result(socket)?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Sends one request about interface `name`, with this value, and returns the value that comes back.
fn exchange(socket: &OwnedFd, name: &str, command: u32, data: u32) -> Result<u32, Errno> {
    let mut value = EthtoolValue { command, data };
    let mut request = interface_request(name).map_err(|_| Errno::ENODEV)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request is an ifreq whose data are an ethtool_value, as these commands take; both live through the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
    Errno::result(result).map(|_| value.data)
}

/// How a card merges packets that it has received, before anyone sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merging {
    /// Generic receive offload: the kernel does it, with what one interrupt brings.
    Gro,
    /// Large receive offload: the card's driver does it.
    Lro,
}

/// Requests for all flags of an older kind (`ETHTOOL_GFLAGS`, `ETHTOOL_SFLAGS`), and the one among them.
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const LRO_FLAG: u32 = 1 << 15;
/// `ETHTOOL_GGRO`, `ETHTOOL_SGRO`
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;

impl Merging {
    /// All of them.
    pub const ALL: [Merging; 2] = [Merging::Gro, Merging::Lro];

    /// Its name for ethtool.
    pub const fn name(self) -> &'static str {
        match self {
            Merging::Gro => "gro",
            Merging::Lro => "lro",
        }
    }

    /// Whether interface `name` of this thread's network namespace does it.
    ///
    /// # Errors
    /// If the interface has no such setting.
    pub fn is_on(self, name: &str) -> io::Result<bool> {
        let (command, mask) = match self {
            Merging::Gro => (GET_GRO, u32::MAX),
            Merging::Lro => (GET_FLAGS, LRO_FLAG),
        };
        Ok(exchange(&socket()?, name, command, 0)? & mask != 0)
    }

    /// Switches it on or off.
    ///
    /// # Errors
    /// If the interface cannot, or without `CAP_NET_ADMIN`.
    pub fn set(self, name: &str, on: bool) -> io::Result<()> {
        let socket = socket()?;
        let (command, value) = match self {
            Merging::Gro => (SET_GRO, u32::from(on)),
            Merging::Lro => {
                let others = exchange(&socket, name, GET_FLAGS, 0)? & !LRO_FLAG;
                (SET_FLAGS, if on { others | LRO_FLAG } else { others })
            }
        };
        exchange(&socket, name, command, value)?;
        Ok(())
    }
}
