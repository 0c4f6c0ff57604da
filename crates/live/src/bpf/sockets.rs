//! The sockets that Nice controls, as listed by an iterator in the kernel.

use std::io::Read as _;
use std::mem::size_of;
use std::os::fd::AsFd;

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{Iter, Link, MapHandle, Object};

use super::object::{self, Which};
use super::{BpfError, Direction, SEGMENT, Socket};

/// `struct nice_socket` in `native/bpf/nice.h`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawSocket {
    cgroup: u64,
    bytes_acked: u64,
    bytes_received: u64,
    age: u64,
    yielded: u64,
    local: [u8; 16],
    remote: [u8; 16],
    local_port: u16,
    remote_port: u16,
    family: u16,
    direction: u16,
    window: u32,
    receive_window: u32,
    srtt: u32,
    base_rtt: u32,
    max_rtt: u32,
    halvings: u32,
    mss: u32,
    state: u32,
}

/// Lists the sockets of this network namespace.
#[derive(Debug)]
pub struct Sockets {
    _object: Object,
    link: Link,
}

/// The maps of receivers' states: one for each command that receives in the background.
fn receivers() -> Vec<u32> {
    MapInfoIter::default().filter(|map| map.name == "nice_receive").map(|map| map.id).collect()
}

/// All sockets that Nice controls in this network namespace, of any command.
///
/// # Errors
/// If the kernel refuses the iterator.
pub fn all() -> Result<Vec<Socket>, BpfError> {
    let maps = receivers();
    let mut sockets = Sockets::open(None)?.read()?;
    for id in maps {
        for socket in Sockets::open(Some(id))?.read()? {
            match sockets
                .iter_mut()
                .find(|known| known.local == socket.local && known.remote == socket.remote)
            {
                Some(known) if known.direction == Direction::Sends => *known = socket,
                Some(_) => {}
                None => sockets.push(socket),
            }
        }
    }
    Ok(sockets)
}

impl Sockets {
    /// Loads the iterator; `receivers` is the number of the map with the receivers' states.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn open(receivers: Option<u32>) -> Result<Self, BpfError> {
        let mut open = object::open(Which::Sockets)?;
        if let Some(handle) = receivers.and_then(|id| MapHandle::from_map_id(id).ok()) {
            for mut map in open.maps_mut() {
                if map.name() == "nice_receive" {
                    map.reuse_fd(handle.as_fd()).map_err(|error| object::failed("sharing a map", &error))?;
                }
            }
        }
        let object = object::load(open)?;
        let program = object.progs_mut().next();
        let program = program.ok_or_else(|| BpfError::Kernel("the object holds no iterator".to_owned()))?;
        let link = program.attach().map_err(|error| object::failed("attaching the iterator", &error))?;
        Ok(Sockets { _object: object, link })
    }

    /// The current sockets.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn read(&self) -> Result<Vec<Socket>, BpfError> {
        let fail = |source| BpfError::System { what: "read the list of sockets".to_owned(), source };
        let mut bytes = Vec::new();
        let mut iter = Iter::new(&self.link).map_err(|error| object::failed("listing sockets", &error))?;
        iter.read_to_end(&mut bytes).map_err(fail)?;
        Ok(bytes.chunks_exact(size_of::<RawSocket>()).map(socket).collect())
    }
}

fn socket(bytes: &[u8]) -> Socket {
    debug_assert_eq!(bytes.len(), size_of::<RawSocket>());
    // SAFETY: the slice is as long as the structure, whose every bit pattern is a value; it need not be aligned.
    let raw = unsafe { bytes.as_ptr().cast::<RawSocket>().read_unaligned() };
    let address = |bytes: [u8; 16], port| {
        let ip = if raw.family == nix::libc::AF_INET6 as u16 {
            std::net::Ipv6Addr::from(bytes).to_canonical()
        } else {
            std::net::IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        std::net::SocketAddr::new(ip, port)
    };
    // Before the first sample the kernel's value is the largest number.
    let micros = |value: u32| if value == u32::MAX { 0.0 } else { f64::from(value) / 1e3 };
    Socket {
        cgroup: raw.cgroup,
        local: address(raw.local, raw.local_port),
        remote: address(raw.remote, raw.remote_port),
        direction: match raw.direction {
            1 => Direction::Sends,
            2 => Direction::Receives,
            _ => Direction::Both,
        },
        bytes_acked: raw.bytes_acked,
        bytes_received: raw.bytes_received,
        window: f64::from(raw.window) / f64::from(SEGMENT),
        receive_window: f64::from(raw.receive_window) / f64::from(SEGMENT),
        srtt_ms: micros(raw.srtt),
        base_rtt_ms: micros(raw.base_rtt),
        max_rtt_ms: micros(raw.max_rtt),
        mss: raw.mss,
        halvings: raw.halvings,
        age_s: raw.age as f64 / 1e6,
        yielded_s: raw.yielded as f64 / 1e6,
    }
}
