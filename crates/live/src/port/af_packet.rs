//! A port on a network interface: a packet socket (packet(7)) with a receive ring.
//!
//! The kernel stamps frames when the interface passes them to it (`SO_TIMESTAMPNS` switches that on), before the
//! emulator wakes. Sending bypasses the queueing discipline (`PACKET_QDISC_BYPASS`) in batches of `sendmmsg`. The socket does not
//! receive what it sends itself (`PACKET_IGNORE_OUTGOING`). Segments of a TCP stream that leave together are sent as one (`run`), by a
//! second socket that supports this (`PACKET_VNET_HDR`).
//!
//! What is behind the interface ([`Far`]) decides what the port takes in and which addresses its frames have:
//!
//! - One host, at the other end of a veth pair that is ours: everything that comes is the host's, whatever the destination. Segments larger than the
//!   interface's MTU (a sender's offload) do not fit and count as overruns; `crate::offload` switches such offloads off.
//! - A segment with machines of others. The port is one more station there, with a MAC address of its own, so that this machine's kernel takes no
//!   notice of what is for the port (`super::neighbours`). What a card or a container's kernel has merged is cut into packets
//!   (`super::segmentation`); frames that do not fit a slot of the ring come as messages (`PACKET_COPY_THRESH`).
//! - A segment whose frames go to another segment as they are.
//!
//! Checksums that the sender left to its card are completed (`super::unfinished`). Whatever the port asks of the card, as to receive frames for all stations, ends with
//! its socket, however that ends.

use std::ffi::c_int;
use std::io::{self, IoSlice};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::MsgFlags;
use warpline_core::Timestamp;

use super::intake::Intake;
pub use super::link::Mac;
use super::link::{ETHERNET, Front, ether_type, set_option};
use super::neighbours::{Frame, Neighbours, SegmentConfig};
use super::ring::{RxFrame, RxRing, layout};
use super::segmentation::{self, Merged};
use super::unfinished::Unfinished;
use super::vnet::VNET;
use super::{Arrival, BATCH, LivePort, PortCounters, PortError, PortId, departure, filter, run};
use crate::clock::{RealClock, host_now};
use crate::pool::Pool;

/// Datagrams sent by one system call.
const SEND_BATCH: usize = 64;

/// Frames of a receive ring by default, and at most: a tenth of a second of small packets, during which the reading
/// thread may be preempted on a busy machine.
pub const RING: usize = 32_768;

/// Room for one frame that does not fit a slot, with what the kernel says of it: an IP datagram, an Ethernet header with a tag.
const LARGEST: usize = VNET + ETHERNET + 4 + (1 << 16);
/// Bytes of such frames that wait to be read, as the kernel counts them.
const QUEUE: c_int = 16 << 20;

/// Bytes of a slot behind an interface of others, at most.
const LARGEST_SLOT: usize = 1 << 14;
/// Bytes of all slots, at most. So there are fewer slots where packets are larger than usual.
const RING_MEMORY: usize = 64 << 20;

/// What is behind an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Far {
    /// One host.
    Host {
        /// Its MAC address.
        destination: Mac,
        /// The source of the frames that it gets.
        source: Mac,
    },
    /// A segment with machines of others.
    Segment(SegmentConfig),
    /// A segment whose frames go to another one as they are, except those to and from these stations.
    Bridge(Vec<Mac>),
}

/// Settings of a port on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// The interface, in the network namespace of the calling thread.
    pub interface: String,
    /// What is behind it.
    pub far: Far,
    /// Frames that the receive ring holds.
    pub ring: usize,
    /// Largest datagram in bytes.
    pub mtu: u32,
}

impl AfPacketConfig {
    /// A port on `interface`, behind which is the host `destination`.
    pub fn new(interface: impl Into<String>, source: Mac, destination: Mac) -> Self {
        AfPacketConfig::with(interface, Far::Host { destination, source })
    }

    /// A port on `interface`, with this behind it.
    pub fn with(interface: impl Into<String>, far: Far) -> Self {
        AfPacketConfig { interface: interface.into(), far, ring: RING, mtu: 1500 }
    }
}

/// A port on a network interface.
#[derive(Debug)]
pub struct AfPacketPort {
    name: String,
    /// The socket that receives.
    socket: OwnedFd,
    /// The one that sends; the same if the kernel says nothing more of a frame than its bytes.
    sender: OwnedFd,
    /// The socket that sends runs, unless the interface refuses them.
    runs: Option<OwnedFd>,
    ring: RxRing,
    station: Station,
    counters: PortCounters,
    batch: SendBatch,
    /// The machine's time at the last look, in nanoseconds.
    now: u64,
    /// A frame that does not fit a slot, and a packet that is cut out of one.
    large: Vec<u8>,
    buffer: Vec<u8>,
    /// Datagrams whose machines are known.
    ready: Vec<u32>,
}

/// What a port is on its interface, with what it knows of the far end.
#[derive(Debug)]
enum Station {
    /// Headers for IPv4 and IPv6.
    Host([Front; 2]),
    Segment(Box<Neighbours>),
    Bridge(Vec<Mac>),
}

impl Station {
    fn new(far: &Far) -> Self {
        match far {
            Far::Host { destination, source } => Station::Host(
                [4, 6].map(|version| Front::new(destination, source, None, ether_type(version))),
            ),
            Far::Segment(config) => Station::Segment(Box::new(Neighbours::new(config, host_now()))),
            Far::Bridge(spared) => Station::Bridge(spared.clone()),
        }
    }
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
        // Frames of our own hosts are what they sent; those of others may be merged.
        let merged = !matches!(config.far, Far::Host { .. });
        set(libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as c_int, "choose the ring's version")?;
        set(libc::PACKET_IGNORE_OUTGOING, 1, "leave out what it sends itself (Linux 4.20)")?;
        set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)
            .map_err(fail("switch arrival timestamps on"))?;
        if merged {
            set(libc::PACKET_VNET_HDR, 1, "learn how frames are merged (Linux 4.6)")?;
            set(libc::PACKET_COPY_THRESH, 1, "receive frames that are larger than a slot")?;
            // Beyond the system's limit if this process may; otherwise a burst of large frames may be lost, and is counted.
            if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &QUEUE).is_err() {
                let _ = set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE);
            }
            promiscuous(socket.as_fd(), index).map_err(fail("receive what is for other stations"))?;
        }
        if let Far::Segment(segment) = &config.far {
            filter::attach(socket.as_fd(), segment.mac).map_err(fail("leave out what is for others"))?;
        }
        // Head, alignment and addresses of a slot take 66 bytes (TPACKET2_HDRLEN and what follows).
        let mut slot = (config.mtu as usize + ETHERNET + 128).next_power_of_two();
        if merged {
            // The MTU is not ours to choose, and what does not fit a slot comes all the same.
            slot = slot.min(LARGEST_SLOT);
        }
        let slots = config.ring.min(RING_MEMORY / slot).max(64);
        let request = layout(slots, slot);
        set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .map_err(fail("make the receive ring"))?;
        let ring = RxRing::map(&socket, &request, merged)
            .map_err(|errno| fail("map the receive ring")(errno.into()))?;
        bind(socket.as_fd(), index, libc::ETH_P_ALL).map_err(fail("bind to it"))?;
        // A socket that says how frames are merged has to be told so of those that it sends. Protocol 0: it never receives anything.
        let quiet = || {
            let socket = open()?;
            bind(socket.as_fd(), index, 0).map_err(fail("bind to it"))?;
            Ok(socket)
        };
        let sender =
            if merged { quiet()? } else { socket.try_clone().map_err(fail("open a packet socket"))? };
        set_option(sender.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1 as &c_int)
            .map_err(fail("send around the queueing discipline"))?;
        departure::enable(sender.as_fd()).map_err(fail("switch departure timestamps on"))?;
        let station = Station::new(&config.far);
        let tagged = matches!(&station, Station::Segment(own) if own.vlan().is_some());
        // Whether a run can have a tag depends on the kernel, and frames of a bridge have addresses of their own each.
        let runs = if tagged || matches!(station, Station::Bridge(_)) {
            None
        } else {
            let runs = quiet()?;
            for option in [libc::PACKET_QDISC_BYPASS, libc::PACKET_VNET_HDR] {
                set_option(runs.as_fd(), libc::SOL_PACKET, option, &1 as &c_int)
                    .map_err(fail("enable sending of whole runs"))?;
            }
            Some(runs)
        };
        Ok(AfPacketPort {
            name,
            socket,
            sender,
            runs,
            ring,
            station,
            counters: PortCounters::default(),
            batch: SendBatch::new(),
            now: host_now(),
            large: if merged { vec![0; LARGEST] } else { Vec::new() },
            buffer: Vec::new(),
            ready: Vec::new(),
        })
    }

    /// Sends what the port has to say as a station, and the datagrams that have waited for an answer. Nobody waits for it: what cannot be sent
    /// is lost, and a question is asked again.
    fn speak(&mut self) -> Result<(), PortError> {
        let Station::Segment(neighbours) = &mut self.station else { return Ok(()) };
        for Frame { bytes, datagram } in neighbours.take_frames() {
            match nix::unistd::write(&self.sender, &bytes) {
                Err(Errno::ENXIO | Errno::ENODEV | Errno::ENETDOWN) => {
                    return Err(PortError::Vanished(self.name.clone()));
                }
                Err(_) => self.counters.send_errors += 1,
                Ok(_) => {
                    if let Some(len) = datagram {
                        self.counters.sent_packets += 1;
                        self.counters.sent_bytes += len;
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the Ethernet header in front of a datagram, if it is known.
    #[inline]
    fn address(&mut self, pool: &mut Pool, handle: u32) -> bool {
        match &mut self.station {
            Station::Host(fronts) => {
                let front = &fronts[usize::from(pool.header(handle).version == 6)];
                pool.put_front(handle, front.bytes());
                true
            }
            Station::Segment(neighbours) => {
                let front = neighbours.front(self.now, pool.datagram(handle));
                front.inspect(|front| pool.put_front(handle, front.bytes())).is_some()
            }
            Station::Bridge(_) => true,
        }
    }

    /// Sends datagrams with their headers, in this order.
    fn send(&mut self, pool: &mut Pool, mut handles: &[u32]) -> Result<(), PortError> {
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

    /// Sends up to [`SEND_BATCH`] datagrams, and returns how many of them are finished: sent, or given up.
    fn send_some(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<usize, PortError> {
        let count = handles.len().min(SEND_BATCH);
        for (at, &handle) in handles[..count].iter().enumerate() {
            let frame = pool.framed_mut(handle);
            self.batch.vectors[at] =
                libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
            self.batch.messages[at].msg_hdr.msg_iov = &raw mut self.batch.vectors[at];
        }
        // SAFETY: each of the first `count` messages has one vector, set just above to bytes of the pool, which are not moved
        // or freed during the call.
        let sent = unsafe {
            libc::sendmmsg(
                self.sender.as_raw_fd(),
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
        let (Some(socket), Some(head)) = (&self.runs, run::Head::new(pool, handles)) else {
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

/// Lets the card receive what is for other stations, as long as the socket is open.
fn promiscuous(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let request = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Fuzz target: handles any bytes as a frame and its kernel metadata (the first bytes), behind an interface of each kind.
///
/// # Panics
/// If the parser violates its contract, which is what the fuzzer looks for.
#[doc(hidden)]
pub fn fuzz_frame(bytes: &[u8]) {
    segmentation::fuzz(bytes);
    let Some((&flags, bytes)) = bytes.split_first() else { return };
    let mut pool = Pool::new(1500, 1 << 16);
    let mut counters = PortCounters::default();
    let mut buffer = Vec::new();
    let mut frame = RxFrame {
        bytes,
        original_len: bytes.len() + usize::from(flags >> 4),
        realtime: 0,
        unfinished: (flags & 1 == 1).then_some(Unfinished::Usual),
        tag: None,
        merged: None,
        queued: false,
    };
    for _ in 0..3 {
        let mut intake = Intake { pool: &mut pool, counters: &mut counters, buffer: &mut buffer };
        if let Some(handle) = intake.take_of_host(&frame) {
            let len = pool.header(handle).len as usize;
            assert!(len >= 20 && len <= bytes.len() - ETHERNET && pool.datagram(handle).len() == len);
        }
    }
    // What the kernel says of frames of others.
    let Some((vnet, rest)) = bytes.split_first_chunk::<VNET>() else { return };
    frame = RxFrame {
        bytes: rest,
        original_len: rest.len() + usize::from(flags >> 4),
        unfinished: Unfinished::read(vnet),
        merged: Merged::read(vnet),
        tag: (flags & 2 == 2).then_some((0x8100, u16::from(flags >> 2 & 1))),
        ..frame
    };
    let mut neighbours = Neighbours::new(&SegmentConfig::example(), 0);
    for now in 0..3 {
        let mut intake = Intake { pool: &mut pool, counters: &mut counters, buffer: &mut buffer };
        let mut handles = Vec::new();
        intake.take_of_segment(&frame, &mut neighbours, now, |handle| handles.push(handle));
        intake.take_of_bridge(&frame, &[[0; 6]], |handle| handles.push(handle));
        for handle in handles {
            if let Some(front) = neighbours.front(now, pool.datagram(handle)) {
                pool.put_front(handle, front.bytes());
            }
            assert!(pool.framed_mut(handle).len() >= pool.datagram(handle).len());
        }
        neighbours.tick(now << 32);
        neighbours.take_frames();
        neighbours.assert_bounded();
    }
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

    fn due(&self) -> Option<u64> {
        match &self.station {
            Station::Segment(neighbours) => neighbours.due(),
            Station::Host(_) | Station::Bridge(_) => None,
        }
    }

    fn receive(
        &mut self,
        id: PortId,
        clock: &RealClock,
        now: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        self.now = host_now();
        let AfPacketPort { ring, station, counters, large, buffer, .. } = self;
        if let Station::Segment(neighbours) = station {
            neighbours.tick(self.now);
        }
        for _ in 0..BATCH {
            let Some(mut frame) = ring.peek() else { break };
            if frame.queued {
                // Its whole length, even if it does not fit.
                let whole = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
                match nix::sys::socket::recv(self.socket.as_raw_fd(), large, whole) {
                    Ok(len) if len > VNET => {
                        let end = len.min(large.len());
                        (frame.bytes, frame.original_len) = (&large[VNET..end], len - VNET)
                    }
                    // Counted as one that is cut short.
                    _ => {}
                }
            }
            let at = clock.stamp(frame.realtime, now);
            let mut intake = Intake { pool, counters, buffer };
            let each = |handle| into.push(Arrival { at, port: id, handle });
            match station {
                Station::Host(_) => intake.take_of_host(&frame).into_iter().for_each(each),
                Station::Segment(neighbours) => intake.take_of_segment(&frame, neighbours, self.now, each),
                Station::Bridge(spared) => intake.take_of_bridge(&frame, spared, each),
            }
            ring.advance();
        }
        self.speak()
    }

    fn transmit(&mut self, pool: &mut Pool, handles: &[u32]) -> Result<(), PortError> {
        if !matches!(self.station, Station::Segment(_)) {
            handles.iter().for_each(|&handle| _ = self.address(pool, handle));
            return self.send(pool, handles);
        }
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        ready.extend(handles.iter().copied().filter(|&handle| self.address(pool, handle)));
        let sent = self.send(pool, &ready);
        self.ready = ready;
        sent?;
        self.speak()
    }

    fn transmit_stamped(&mut self, pool: &mut Pool, handle: u32) -> Result<Option<u64>, PortError> {
        if !self.address(pool, handle) {
            return self.speak().map(|()| None);
        }
        loop {
            let sent = departure::send(self.sender.as_fd(), pool.framed_mut(handle));
            if self.account(pool, &[handle], sent.map(|()| 1))? > 0 {
                return Ok(departure::take(self.sender.as_fd()));
            }
        }
    }

    fn check(&mut self) -> Result<(), PortError> {
        // A departure timestamp that came late shows as an error, until it is read.
        let _ = departure::take(self.sender.as_fd());
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
        if let Station::Segment(neighbours) = &self.station {
            self.counters.unanswered = neighbours.unanswered();
        }
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Frames of the committed corpus, which reach most of the parsers.
    const SAMPLES: [&[u8]; 4] = [
        include_bytes!("../../../../fuzz/corpus/af_packet/segment_arp"),
        include_bytes!("../../../../fuzz/corpus/af_packet/segment_solicitation"),
        include_bytes!("../../../../fuzz/corpus/af_packet/segment_merged"),
        include_bytes!("../../../../fuzz/corpus/af_packet/merged"),
    ];

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            fuzz_frame(&bytes);
        }

        #[test]
        fn no_damaged_frame_panics(
            sample in 0..SAMPLES.len(), changes in prop::collection::vec((0usize..330, any::<u8>()), 0..6), cut in 0usize..400,
        ) {
            let mut bytes = SAMPLES[sample].to_vec();
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            bytes.truncate(cut);
            fuzz_frame(&bytes);
        }
    }
}
