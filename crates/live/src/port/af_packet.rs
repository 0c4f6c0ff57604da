//! A port on a network interface: a packet socket (packet(7)) with a receive ring.
//!
//! The kernel stamps frames when the interface passes them to it (`SO_TIMESTAMPNS` switches that on), before the
//! emulator wakes. Sending bypasses the queueing discipline (`PACKET_QDISC_BYPASS`) in batches of `sendmmsg`. The socket does not
//! receive what it sends itself (`PACKET_IGNORE_OUTGOING`). Segments of a TCP stream that leave together are sent as one (`run`), by a
//! second socket that supports this (`PACKET_VNET_HDR`).
//!
//! The emulator should have the interface to itself, as the end of a veth pair: it receives everything that the host behind
//! the interface sends, whatever the destination. Segments larger than the interface's MTU (a sender's offload) do not fit
//! and count as overruns; `crate::offload` switches such offloads off. Checksums that the sender left to its card are
//! completed here.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use warpline_core::Timestamp;

use super::link::{ETHERNET, set_option};
use super::ring::{RxFrame, RxRing, layout};
use super::{Arrival, LivePort, PortCounters, PortError, PortId, departure, run, take};
use crate::clock::RealClock;
use crate::datagram;
use crate::pool::Pool;

/// Datagrams received at a time: some tens of microseconds of work, so that what is due in the meantime is not late.
const BATCH: usize = 256;
/// Datagrams sent by one system call.
const SEND_BATCH: usize = 64;

/// Frames of a receive ring by default: a tenth of a second of small packets, during which the reading
/// thread may be preempted on a busy machine.
pub const RING: usize = 32_768;

/// A MAC address.
pub type Mac = [u8; 6];

/// Settings of a port on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// The interface, in the network namespace of the calling thread.
    pub interface: String,
    /// Destination address of frames: that of the host behind the interface.
    pub destination: Mac,
    /// Source address of frames.
    pub source: Mac,
    /// Frames that the receive ring holds.
    pub ring: usize,
    /// Largest datagram in bytes.
    pub mtu: u32,
}

impl AfPacketConfig {
    /// A port on `interface`, behind which is `destination`.
    pub fn new(interface: impl Into<String>, source: Mac, destination: Mac) -> Self {
        AfPacketConfig { interface: interface.into(), destination, source, ring: RING, mtu: 1500 }
    }
}

/// A port on a network interface.
#[derive(Debug)]
pub struct AfPacketPort {
    name: String,
    socket: OwnedFd,
    /// The socket that sends runs, unless the interface refuses them.
    runs: Option<OwnedFd>,
    ring: RxRing,
    /// Ethernet headers for IPv4 and IPv6.
    headers: [[u8; ETHERNET]; 2],
    counters: PortCounters,
    batch: SendBatch,
}

/// The structures for `sendmmsg`, kept for reuse.
struct SendBatch {
    vectors: Box<[libc::iovec; SEND_BATCH]>,
    messages: Box<[libc::mmsghdr; SEND_BATCH]>,
}

// SAFETY: the pointers in there are set before each call and not used after it.
unsafe impl Send for SendBatch {}

impl std::fmt::Debug for SendBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SendBatch")
    }
}

/// A packet socket. Protocol 0: nothing arrives until it is bound, so it never sees a frame of another interface.
fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed.
    let socket = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    let socket = Errno::result(socket)?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Binds a packet socket to the interface number `index`, to receive frames of `protocol`.
fn bind(socket: BorrowedFd<'_>, index: u32, protocol: c_int) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (protocol as u16).to_be(),
        sll_ifindex: index as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: the address is a sockaddr_ll of the length given and lives through the call.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    Errno::result(bound).map(drop).map_err(io::Error::from)
}

impl AfPacketPort {
    /// Opens the port.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` in the namespace, or if there is no such interface.
    pub fn open(config: &AfPacketConfig) -> Result<Self, PortError> {
        let name = config.interface.clone();
        let fail = |what: &'static str| {
            let name = name.clone();
            move |source: io::Error| PortError::System { name, what, source }
        };
        let index = nix::net::if_::if_nametoindex(name.as_str()).map_err(|errno| {
            fail("find it in this network namespace (ip link lists what there is)")(errno.into())
        })?;
        let open = || open().map_err(fail("open a packet socket (needs CAP_NET_RAW)"));
        let socket = open()?;
        let set = |name: c_int, value: c_int, what| {
            set_option(socket.as_fd(), libc::SOL_PACKET, name, &value).map_err(fail(what))
        };
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int, "choose the ring's version")?;
        set(libc::PACKET_IGNORE_OUTGOING, 1, "leave out what it sends itself (Linux 4.20)")?;
        set(libc::PACKET_QDISC_BYPASS, 1, "send around the queueing discipline")?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
            .map_err(fail("switch arrival timestamps on"))?;
        departure::enable(socket.as_fd()).map_err(fail("switch departure timestamps on"))?;
        // Head, alignment and addresses of a slot take 66 bytes (TPACKET2_HDRLEN and what follows).
        let slot = (config.mtu as usize + ETHERNET + 128).next_power_of_two();
        let request = layout(config.ring.max(64), slot);
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(fail("make the receive ring"))?;
        let ring =
            RxRing::map(&socket, &request).map_err(|errno| fail("map the receive ring")(errno.into()))?;
        bind(socket.as_fd(), index, libc::ETH_P_ALL).map_err(fail("bind to it"))?;
        let runs = open()?;
        for option in [libc::PACKET_QDISC_BYPASS, libc::PACKET_VNET_HDR] {
            set_option(runs.as_fd(), libc::SOL_PACKET, option, &1 as &c_int)
                .map_err(fail("enable sending of whole runs"))?;
        }
        // Protocol 0: it never receives anything.
        bind(runs.as_fd(), index, 0).map_err(fail("bind to it"))?;
        let header = |protocol: c_int| {
            let mut header = [0; ETHERNET];
            header[..6].copy_from_slice(&config.destination);
            header[6..12].copy_from_slice(&config.source);
            header[12..].copy_from_slice(&(protocol as u16).to_be_bytes());
            header
        };
        Ok(AfPacketPort {
            name,
            socket,
            runs: Some(runs),
            ring,
            headers: [header(libc::ETH_P_IP), header(libc::ETH_P_IPV6)],
            counters: PortCounters::default(),
            batch: SendBatch::new(),
        })
    }

    /// Sends up to [`SEND_BATCH`] datagrams, and returns how many of them are finished: sent, or given up.
    fn send_some(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<usize, PortError> {
        let count = handles.len().min(SEND_BATCH);
        for (at, &handle) in handles[..count].iter().enumerate() {
            let frame = framed(&self.headers, pool, handle);
            self.batch.vectors[at] =
                libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            self.batch.messages[at].msg_hdr.msg_iov = &raw mut self.batch.vectors[at];
        }
        // SAFETY: each of the first `count` messages has one vector, set just above to bytes of the pool, which are not moved
        // or freed during the call.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                self.batch.messages.as_mut_ptr(),
                count as u32,
                libc::MSG_DONTWAIT,
            )
        };
        let sent = Errno::result(sent).map(|sent| sent as usize);
        self.account(pool, handles, sent)
    }

    /// Sends the run `handles` as one frame. Returns whether the interface accepted it.
    fn send_run(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<bool, PortError> {
        let ethernet = &self.headers[usize::from(pool.header(handles[0]).version == 6)];
        let (Some(socket), Some(head)) = (&self.runs, run::Head::new(pool, handles, ethernet)) else {
            return Ok(false);
        };
        let mut vectors = [IoSlice::new(&[]); 1 + run::MOST];
        vectors[0] = IoSlice::new(head.bytes());
        for (vector, &handle) in vectors[1..].iter_mut().zip(handles) {
            *vector = IoSlice::new(&pool.datagram(handle)[head.headers..]);
        }
        match nix::sys::uio::writev(socket, &vectors[..=handles.len()]) {
            Ok(_) => self.account(pool, handles, Ok(handles.len())).map(|_| true),
            // An interface that does not support runs: from now on segment by segment.
            Err(Errno::EINVAL | Errno::EMSGSIZE | Errno::EOPNOTSUPP) => {
                self.runs = None;
                Ok(false)
            }
            // Any other error shows with single frames, too.
            Err(_) => Ok(false),
        }
    }

    /// Counts the result for `handles`, the first of which were sent or the first of which was refused, and returns how many are finished.
    fn account(
        &mut self,
        pool: &Pool,
        handles: &[u32],
        sent: Result<usize, Errno>,
    ) -> Result<usize, PortError> {
        match sent {
            Ok(sent) => {
                for &handle in &handles[..sent] {
                    self.counters.sent_bytes += u64::from(pool.header(handle).len);
                }
                self.counters.sent_packets += sent as u64;
                Ok(sent)
            }
            Err(Errno::EINTR) => Ok(0),
            Err(Errno::ENXIO | Errno::ENODEV | Errno::ENETDOWN) => {
                Err(PortError::Vanished(self.name.clone()))
            }
            // The first one cannot be sent: it is lost, and the others are tried again.
            Err(_) => {
                self.counters.send_errors += 1;
                Ok(1)
            }
        }
    }
}

/// Stores the datagram of a frame. If there is none, it is cut short, or there is no room, counts that and returns `None`.
#[inline]
fn take_frame(frame: &RxFrame<'_>, pool: &mut Pool, counters: &mut PortCounters) -> Option<u32> {
    let protocol = frame.bytes.get(12..ETHERNET)?;
    let protocol = c_int::from(u16::from_be_bytes([protocol[0], protocol[1]]));
    if protocol != libc::ETH_P_IP && protocol != libc::ETH_P_IPV6 {
        counters.ignored += 1;
        return None;
    }
    if frame.original_len > frame.bytes.len() {
        counters.pool_overruns += 1;
        return None;
    }
    let (handle, header) = take(&frame.bytes[ETHERNET..], pool, counters)?;
    if frame.partial_checksum {
        datagram::complete(pool.datagram_mut(handle), &header);
    }
    Some(handle)
}

/// Fuzz target: handles any bytes as a frame and its kernel metadata (the first byte).
///
/// # Panics
/// If the parser violates its contract, which is what the fuzzer looks for.
#[doc(hidden)]
pub fn fuzz_frame(bytes: &[u8]) {
    let Some((&flags, bytes)) = bytes.split_first() else { return };
    let mut pool = Pool::new(1500, 1 << 16);
    let mut counters = PortCounters::default();
    let frame = RxFrame {
        bytes,
        original_len: bytes.len() + usize::from(flags >> 4),
        realtime: 0,
        partial_checksum: flags & 1 == 1,
    };
    for _ in 0..3 {
        if let Some(handle) = take_frame(&frame, &mut pool, &mut counters) {
            let len = pool.header(handle).len as usize;
            assert!(len >= 20 && len <= bytes.len() - ETHERNET && pool.datagram(handle).len() == len);
            framed(&[[0; ETHERNET]; 2], &mut pool, handle);
        }
    }
}

/// The frame of a datagram: the datagram behind the Ethernet header of its IP version.
fn framed<'p>(headers: &[[u8; ETHERNET]; 2], pool: &'p mut Pool, handle: u32) -> &'p mut [u8] {
    let header = &headers[usize::from(pool.header(handle).version == 6)];
    let frame = pool.framed_mut(handle, ETHERNET);
    frame[..ETHERNET].copy_from_slice(header);
    frame
}

impl SendBatch {
    fn new() -> Self {
        // SAFETY: all of these are plain numbers and pointers, for which zero (null) is a value.
        let (vectors, mut messages): ([libc::iovec; SEND_BATCH], [libc::mmsghdr; SEND_BATCH]) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        for message in &mut messages {
            message.msg_hdr.msg_iovlen = 1;
        }
        SendBatch { vectors: Box::new(vectors), messages: Box::new(messages) }
    }
}

impl LivePort for AfPacketPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn pending(&self) -> Option<bool> {
        Some(self.ring.ready())
    }

    fn receive(
        &mut self,
        id: PortId,
        clock: &RealClock,
        now: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        for _ in 0..BATCH {
            let Some(frame) = self.ring.peek() else { break };
            let taken = take_frame(&frame, pool, &mut self.counters);
            into.extend(taken.map(|handle| Arrival {
                at: clock.stamp(frame.realtime, now),
                port: id,
                handle,
            }));
            self.ring.advance();
        }
        Ok(())
    }

    fn transmit(&mut self, pool: &mut Pool, mut handles: &[u32]) -> Result<(), PortError> {
        while !handles.is_empty() {
            // Single datagrams up to the beginning of a run, then the run.
            let mut singles = 0;
            let mut together = 1;
            while self.runs.is_some() && singles < handles.len().min(SEND_BATCH) {
                together = run::length(pool, &handles[singles..]);
                if together > 1 {
                    break;
                }
                singles += 1;
            }
            if self.runs.is_none() {
                singles = handles.len();
            }
            let (mut alone, rest) = handles.split_at(singles);
            while !alone.is_empty() {
                let done = self.send_some(pool, alone)?;
                alone = &alone[done..];
            }
            handles = rest;
            if together > 1 {
                let (run, rest) = handles.split_at(together);
                if self.send_run(pool, run)? {
                    handles = rest;
                } else {
                    let done = self.send_some(pool, run)?;
                    handles = &handles[done..];
                }
            }
        }
        Ok(())
    }

    fn transmit_stamped(&mut self, pool: &mut Pool, handle: u32) -> Result<Option<u64>, PortError> {
        loop {
            let sent = departure::send(self.socket.as_fd(), framed(&self.headers, pool, handle));
            if self.account(pool, &[handle], sent.map(|()| 1))? > 0 {
                return Ok(departure::take(self.socket.as_fd()));
            }
        }
    }

    fn check(&mut self) -> Result<(), PortError> {
        // A departure timestamp that came late shows as an error, until it is read.
        let _ = departure::take(self.socket.as_fd());
        // Reading the error clears it. The kernel sets ENETDOWN when the interface goes down or away.
        match rustix::net::sockopt::socket_error(&self.socket) {
            Ok(Err(rustix::io::Errno::NETDOWN | rustix::io::Errno::NODEV | rustix::io::Errno::NXIO)) => {
                Err(PortError::Vanished(self.name.clone()))
            }
            _ => Ok(()),
        }
    }

    fn counters(&mut self) -> PortCounters {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the pointers are to a tpacket_stats and its length, which live through the call.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        // Reading resets the kernel's counters.
        if result == 0 {
            self.counters.ring_overruns += u64::from(statistics.tp_drops);
        }
        self.counters
    }
}
