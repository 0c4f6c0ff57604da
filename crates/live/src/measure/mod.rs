//! Sockets under the measuring tools: [`cap`] and [`capd`] (bulk transfer capacity with a server), [`treno`] and [`sender_only`] (from one side).
//!
//! The protocols are in [`warpline_capacity`]; here are the system calls, the real clock, and what happens to datagrams inside the host.

pub mod cap;
pub mod capd;
pub mod path;
pub mod probe;
pub mod probing;
pub mod sender_only;
pub mod socket;
pub mod treno;

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};

use rustix::time::{ClockId, clock_gettime};
use warpline_core::{TimeDelta, Timestamp};

use crate::clock::{Precedence, RealClock, be_punctual};

/// The port of `capd` by default: the number of the RFC.
pub const PORT: u16 = 3148;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// The host's name cannot be resolved.
    #[error("cannot find an {family}address of {host}: {source}")]
    Resolve {
        /// The name.
        host: String,
        /// "IPv4 ", "IPv6 " or nothing.
        family: &'static str,
        /// The error.
        source: io::Error,
    },
    /// A socket could not be made or used.
    #[error("cannot {what}: {source}")]
    Socket {
        /// The operation that failed.
        what: String,
        /// The error.
        source: io::Error,
    },
    /// The user may not open the socket.
    #[error(
        "ICMP needs a ping socket or a raw one, and this user may have neither: let the group use ping sockets (sysctl -w \
         net.ipv4.ping_group_range=\"0 2147483647\"), run as root, or use --mode udp"
    )]
    Privilege,
    /// Segments of the requested size cannot leave this host.
    #[error("a segment of {size} bytes is larger than the path's MTU{}: choose a smaller --segment", of_mtu(.mtu))]
    TooLarge {
        /// Bytes on the wire.
        size: u32,
        /// The path's MTU, if known.
        mtu: Option<u32>,
    },
    /// The system returned no random bytes.
    #[error("cannot get random bytes: {0}")]
    Random(getrandom::Error),
}

fn of_mtu(mtu: &Option<u32>) -> String {
    mtu.map_or_else(String::new, |mtu| format!(", which is {mtu}"))
}

impl MeasureError {
    fn socket(what: impl Into<String>) -> impl FnOnce(io::Error) -> MeasureError {
        let what = what.into();
        move |source| MeasureError::Socket { what, source }
    }
}

/// Which addresses of a host to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Family {
    /// The first that the system returns.
    #[default]
    Any,
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The address of a host.
///
/// # Errors
/// If it has no address of the requested family.
pub fn resolve(host: &str, port: u16, family: Family) -> Result<SocketAddr, MeasureError> {
    let name = match family {
        Family::Any => "",
        Family::V4 => "IPv4 ",
        Family::V6 => "IPv6 ",
    };
    let fail = |source| MeasureError::Resolve { host: host.to_owned(), family: name, source };
    let wanted = |address: &SocketAddr| match family {
        Family::Any => true,
        Family::V4 => address.is_ipv4(),
        Family::V6 => address.is_ipv6(),
    };
    let mut addresses = (host, port).to_socket_addrs().map_err(fail)?;
    addresses.find(wanted).ok_or_else(|| fail(io::Error::new(io::ErrorKind::NotFound, "it has none")))
}

/// The unspecified address of the same family.
fn unspecified(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
    }
}

/// A socket for which the system has chosen the way to `target`: the interface, and its own address. Nothing is sent.
fn towards(mut target: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((unspecified(target.ip()), 0))?;
    // Any port will do but 0.
    target.set_port(9);
    socket.connect(target)?;
    Ok(socket)
}

/// Random bytes from the system.
///
/// # Errors
/// If the system returns none.
pub fn random<const N: usize>() -> Result<[u8; N], MeasureError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(MeasureError::Random)?;
    Ok(bytes)
}

fn nanos(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    (time.tv_sec as u64) * 1_000_000_000 + time.tv_nsec as u64
}

/// Wall-clock time at the start of `clock`, in microseconds since 1970.
fn wall_us(clock: &RealClock) -> u64 {
    let (wall, now) = (nanos(ClockId::Realtime), clock.now());
    wall.saturating_sub(now.as_nanos()) / 1000
}

/// Time so far in which this thread ran or waited for a processor, in nanoseconds. If the system does not
/// report waiting (`CONFIG_SCHED_INFO`), only the time it ran counts.
fn thread_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    nanos(ClockId::ThreadCPUTime) + waited
}

/// How often a measuring thread checks its use of its core.
const LOOK: TimeDelta = TimeDelta::from_millis(20);

/// The priority of a measuring thread: if it wakes late, the emulated TCP sends late and in bursts, as no kernel's TCP would.
struct Foremost {
    precedence: Precedence,
    looked: Timestamp,
    intakes: u64,
}

impl Foremost {
    fn ask() -> Self {
        be_punctual();
        Foremost { precedence: Precedence::ask(0), looked: Timestamp::ZERO, intakes: 0 }
    }
    /// To be called on every turn, with whether something came in.
    fn turn(&mut self, now: Timestamp, came: bool) {
        self.intakes += u64::from(came);
        if now.saturating_since(self.looked) >= LOOK {
            self.looked = now;
            self.precedence.look(now, self.intakes);
        }
    }
}

/// A time span for poll(2); `None` waits for ever.
fn timespec(from: Timestamp, until: Timestamp) -> Option<rustix::event::Timespec> {
    if !until.is_set() {
        return None;
    }
    let nanos = until.saturating_since(from).as_nanos();
    Some(rustix::event::Timespec {
        tv_sec: (nanos / 1_000_000_000) as i64,
        tv_nsec: (nanos % 1_000_000_000) as _,
    })
}
