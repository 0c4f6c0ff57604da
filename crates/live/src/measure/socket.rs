//! A UDP socket with batches, ECN and kernel timestamps, which watches what the kernel does to its datagrams.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, TransportErrorPayload, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};
use warpline_capacity::{Datagram, HostResults, Peer, Unreachable};
use warpline_core::{Ecn, TimeDelta, Timestamp};

use super::MeasureError;
use crate::clock::RealClock;

/// Largest payload of a UDP datagram over IPv4, and of a batch.
const MOST: usize = 65_507;
/// Requested receive buffer: a fifth of a second at 400 Mbit/s. The system may give less.
const RECEIVE_BUFFER: usize = 8 << 20;
/// Send buffer: more than a few batches would only hide how long the host's own queue is.
const SEND_BUFFER: usize = 1 << 20;
/// How often to ask the kernel for the socket's queues.
const LOOK: TimeDelta = TimeDelta::from_millis(20);
/// Number of peers for which the largest datagram sent alone is remembered.
const REMEMBERED: usize = 1 << 10;
/// Failed receptions in a row after which a server's socket counts as broken, and the pause after each.
const FAILURES: u32 = 100;
const FAILURE_PAUSE: TimeDelta = TimeDelta::from_millis(10);
/// How long a server waits for room to send; then it drops the datagrams, so that one slow interface does not delay all.
const ROOM_WAIT: TimeDelta = TimeDelta::from_millis(100);

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When it arrived, by the kernel's timestamp.
    pub at: Timestamp,
    /// Its source, and which of this host's addresses it was sent to.
    pub from: Peer,
    /// Its payload.
    pub bytes: &'a [u8],
    /// Whether it was marked congestion-experienced.
    pub ce: bool,
}

/// An error that the network reported for sent datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Complaint {
    /// Nothing listens there, or it cannot be reached.
    Unreachable(Unreachable),
    /// They are too large; with the MTU if it was reported.
    TooBig(Option<u32>),
}

/// A batch to be sent: datagrams of one length to one destination.
#[derive(Clone, Copy, Debug)]
struct Batch {
    to: Peer,
    ecn: Ecn,
    segment: usize,
    count: usize,
    /// A shorter datagram has ended it.
    over: bool,
}

/// The socket.
#[derive(Debug)]
pub struct Endpoint {
    socket: UdpSocket,
    state: UdpSocketState,
    /// Whether many peers share the socket: then an error of one peer is not the socket's.
    serves: bool,
    /// Whether the socket listens on several addresses of this host, so that answers must state theirs.
    names_source: bool,
    /// Largest datagram sent alone to each peer: batches contain no larger ones. If one in a batch is too large, the system may report
    /// an error that looks as if batches were not supported, and disable them for all peers.
    sent_alone: BTreeMap<SocketAddr, usize>,
    /// Datagrams that the system refused to send to one peer.
    refused: Vec<(SocketAddr, u64)>,
    /// Peers to which a datagram was too large, where many share the socket.
    too_large: Vec<SocketAddr>,
    failures: u32,
    out: Vec<u8>,
    batch: Option<Batch>,
    receive: Vec<u8>,
    slot: usize,
    host: HostResults,
    looked: Timestamp,
    busy_before: u64,
    drops_before: u64,
    complaint: Option<Complaint>,
    /// Whether segmentation offload may be used.
    offload: bool,
}

fn unreachable(errno: i32) -> Complaint {
    Complaint::Unreachable(if errno == libc::ECONNREFUSED { Unreachable::Port } else { Unreachable::Host })
}

fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    EcnCodepoint::from_bits(ecn as u8)
}

impl Endpoint {
    /// A socket bound to `local`, connected to `remote` if there is one.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn new(local: SocketAddr, remote: Option<SocketAddr>, offload: bool) -> Result<Self, MeasureError> {
        let domain = if local.is_ipv4() { socket2::Domain::IPV4 } else { socket2::Domain::IPV6 };
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, Some(socket2::Protocol::UDP))
            .map_err(MeasureError::socket("make a UDP socket"))?;
        if local.is_ipv6() && local.ip().is_unspecified() && remote.is_none() {
            // One server socket for both families.
            socket.set_only_v6(false).map_err(MeasureError::socket("serve IPv4 and IPv6 alike"))?;
        }
        socket.bind(&local.into()).map_err(MeasureError::socket(format!("listen at {local}")))?;
        if let Some(remote) = remote {
            socket.connect(&remote.into()).map_err(MeasureError::socket(format!("send to {remote}")))?;
        }
        let socket: UdpSocket = socket.into();
        let state =
            UdpSocketState::new((&socket).into()).map_err(MeasureError::socket("prepare the UDP socket"))?;
        // If the system gives smaller buffers, they are used and reported.
        let _ = state.set_recv_buffer_size((&socket).into(), RECEIVE_BUFFER);
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &RECEIVE_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SEND_BUFFER);
        if remote.is_some() {
            // Then the kernel also reports drops in its own queues.
            let _ = state.enable_transport_errors((&socket).into());
        }
        let slot = MOST + 64;
        let mut endpoint = Endpoint {
            receive: vec![0; slot * BATCH_SIZE],
            slot,
            out: Vec::with_capacity(2 * MOST),
            batch: None,
            serves: remote.is_none(),
            names_source: remote.is_none() && local.ip().is_unspecified(),
            sent_alone: BTreeMap::new(),
            refused: Vec::new(),
            too_large: Vec::new(),
            failures: 0,
            host: HostResults { batch_max: 1, ..HostResults::default() },
            looked: Timestamp::ZERO,
            busy_before: super::thread_ns(),
            drops_before: 0,
            complaint: None,
            offload: offload && state.max_gso_segments() > 1,
            socket,
            state,
        };
        endpoint.look();
        Ok(endpoint)
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn local(&self) -> Result<SocketAddr, MeasureError> {
        self.socket.local_addr().map_err(MeasureError::socket("learn the socket's address"))
    }

    /// Resets the counters before a measurement.
    pub fn begin(&mut self) {
        self.look();
        self.drops_before += self.host.receive_drops;
        self.busy_before = super::thread_ns();
        self.host = HostResults { batch_max: 1, ..HostResults::default() };
    }

    /// What happened in the host so far; `since` is when the measurement began.
    pub fn host(&mut self, now: Timestamp, since: Timestamp) -> HostResults {
        self.look();
        self.host.elapsed_ns = now.saturating_since(since).as_nanos();
        self.host.busy_ns = super::thread_ns() - self.busy_before;
        self.host
    }

    /// The errors that the network reported since the last call.
    pub fn take_complaint(&mut self) -> Option<Complaint> {
        self.complaint.take()
    }

    /// Datagrams that the system refused to send since the last call, by destination.
    pub fn take_refused(&mut self) -> impl Iterator<Item = (SocketAddr, u64)> + '_ {
        self.refused.drain(..)
    }

    /// Peers of a server to which a datagram was too large to be sent since the last call.
    pub fn take_too_large(&mut self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.too_large.drain(..)
    }

    /// Checks the socket's queues if it has not for a while; returns whether it did.
    pub fn watch(&mut self, now: Timestamp) -> bool {
        let due = now.saturating_since(self.looked) >= LOOK;
        if due {
            self.looked = now;
            self.look();
        }
        due
    }

    /// Asks the kernel how much is in the socket's queue and what it has dropped (`SO_MEMINFO`, linux/sock_diag.h).
    fn look(&mut self) {
        const WORDS: usize = 9;
        let mut info = [0_u32; WORDS];
        let mut len = size_of_val(&info) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `info`, which lives through the call.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                info.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if result != 0 {
            return;
        }
        let [received, receive_buffer, sent, send_buffer, .., drops] = info.map(u64::from);
        let host = &mut self.host;
        host.receive_queue_max = host.receive_queue_max.max(received);
        host.send_queue_max = host.send_queue_max.max(sent);
        (host.receive_buffer, host.send_buffer, host.receive_drops) =
            (receive_buffer, send_buffer, drops.saturating_sub(self.drops_before));
    }

    /// Where to append the next datagram.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// The datagram was appended: it is sent with others like it, at the latest at [`flush`](Self::flush).
    ///
    /// # Errors
    /// If the system refuses for a permanent reason.
    #[inline]
    pub fn queue(
        &mut self,
        to: impl Into<Peer>,
        datagram: Datagram,
        clock: &RealClock,
    ) -> Result<(), MeasureError> {
        let to = to.into();
        let start = self.out.len() - datagram.len;
        if let Some(batch) = &mut self.batch {
            let room = batch.count < self.state.max_gso_segments() && self.out.len() <= MOST;
            let like = batch.to == to && batch.ecn == datagram.ecn && datagram.len <= batch.segment;
            let known = || self.sent_alone.get(&to.address).is_some_and(|&size| size >= batch.segment);
            if self.offload && like && room && !batch.over && (batch.count > 1 || known()) {
                batch.count += 1;
                batch.over = datagram.len < batch.segment;
                return Ok(());
            }
            self.send(start, clock)?;
            self.out.drain(..start);
        }
        let (ecn, segment) = (datagram.ecn, datagram.len);
        self.batch = Some(Batch { to, ecn, segment, count: 1, over: false });
        Ok(())
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// If the system refuses for a permanent reason.
    pub fn flush(&mut self, clock: &RealClock) -> Result<(), MeasureError> {
        if self.batch.is_some() {
            self.send(self.out.len(), clock)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Sends the first `len` bytes as the batch requires.
    fn send(&mut self, len: usize, clock: &RealClock) -> Result<(), MeasureError> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        self.host.batch_max = self.host.batch_max.max(batch.count as u64);
        let mut at = 0;
        let mut step = len;
        let mut tries = 0;
        let mut began = None;
        while at < len {
            let end = (at + step).min(len);
            let many = end - at > batch.segment;
            let transmit = Transmit {
                destination: batch.to.address,
                ecn: codepoint(batch.ecn),
                contents: &self.out[at..end],
                segment_size: many.then_some(batch.segment),
                src_ip: batch.to.local.filter(|_| self.names_source),
            };
            let Err(error) = self.state.try_send((&self.socket).into(), &transmit) else {
                if !many {
                    self.note_size(batch.to.address, end - at);
                }
                at = end;
                tries = 0;
                continue;
            };
            let count = (end - at).div_ceil(batch.segment.max(1)) as u64;
            tries += 1;
            if error.raw_os_error() == Some(libc::EINVAL)
                && self.serves
                && let Ok(state) = UdpSocketState::new((&self.socket).into())
            {
                // An invalid address or a missing route gives the same error as a kernel without ECN and
                // batches, and quinn-udp assumes the latter. Restore its state.
                self.state = state;
            }
            match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EAGAIN) => {
                    let now = clock.now();
                    if self.serves && now >= *began.get_or_insert(now) + ROOM_WAIT {
                        self.host.send_drops += count;
                        at = end;
                    } else {
                        self.wait_for_room(clock);
                    }
                }
                Some(libc::ENOBUFS | libc::ENOMEM) => {
                    // A queue of this host is full: the datagrams are gone, and were never on the path.
                    self.host.send_drops += count;
                    at = end;
                }
                // The card, the driver or the route to this peer does not split after all: send one by one.
                Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE) if many => {
                    self.offload &= error.raw_os_error() != Some(libc::EIO);
                    self.sent_alone.remove(&batch.to.address);
                    step = batch.segment;
                }
                Some(libc::EMSGSIZE) => {
                    if self.serves {
                        self.note_too_large(batch.to.address);
                    } else {
                        self.complaint = Some(Complaint::TooBig(None));
                    }
                    at = end;
                }
                // An error for an earlier datagram, which the system reports at the next opportunity: this one has not been sent yet.
                _ if tries < 3 && self.drain_errors() => {}
                // An error of one peer (a firewall, no route, an invalid address) concerns neither the other peers nor the socket.
                _ if self.serves => {
                    self.note_refused(batch.to.address, count);
                    at = end;
                }
                Some(errno @ (libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH)) => {
                    self.complaint = Some(unreachable(errno));
                    at = end;
                }
                Some(libc::EPERM | libc::EACCES) => {
                    return Err(MeasureError::socket(format!("send to {}", batch.to.address))(error));
                }
                _ => {
                    self.host.send_drops += count;
                    at = end;
                }
            }
        }
        Ok(())
    }

    /// Records that a datagram of this size was sent to `to` alone.
    fn note_size(&mut self, to: SocketAddr, size: usize) {
        if self.sent_alone.len() >= REMEMBERED && !self.sent_alone.contains_key(&to) {
            // Active peers are known again after one datagram.
            self.sent_alone.clear();
        }
        let largest = self.sent_alone.entry(to).or_default();
        *largest = (*largest).max(size);
    }

    fn note_refused(&mut self, to: SocketAddr, count: u64) {
        if let Some((_, sum)) = self.refused.last_mut().filter(|(last, _)| *last == to) {
            *sum += count;
        } else if self.refused.len() < REMEMBERED {
            self.refused.push((to, count));
        }
    }

    fn note_too_large(&mut self, to: SocketAddr) {
        if self.too_large.last() != Some(&to) && self.too_large.len() < REMEMBERED {
            self.too_large.push(to);
        }
    }

    fn wait_for_room(&mut self, clock: &RealClock) {
        let before = clock.now();
        self.host.send_waits += 1;
        let mut fds = [PollFd::new(&self.socket, PollFlags::OUT)];
        let longest = if self.serves { ROOM_WAIT } else { TimeDelta::from_secs(1) };
        let _ = poll(&mut fds, super::timespec(before, before + longest).as_ref());
        self.host.send_wait_ns += clock.now().saturating_since(before).as_nanos();
    }

    /// Reads the error queue. Returns whether there was anything.
    fn drain_errors(&mut self) -> bool {
        let mut any = false;
        while let Ok(Some(error)) = self.state.recv_transport_error((&self.socket).into()) {
            any = true;
            self.complaint = match error.payload {
                TransportErrorPayload::TooBig { mtu } => Some(Complaint::TooBig(Some(mtu))),
                TransportErrorPayload::Unreachable => Some(unreachable(error.raw_errno)),
                _ if error.raw_os_error_is(libc::ENOBUFS) => {
                    self.host.send_drops += 1;
                    self.complaint
                }
                _ => self.complaint,
            };
        }
        any
    }

    /// Receives at most a batch and passes it on datagram by datagram. Returns whether anything had arrived.
    ///
    /// # Errors
    /// If the socket no longer works.
    pub fn receive(
        &mut self,
        clock: &RealClock,
        mut each: impl FnMut(Arrival<'_>),
    ) -> Result<bool, MeasureError> {
        let now = clock.now();
        let mut meta = [RecvMeta::default(); BATCH_SIZE];
        let result = {
            let mut slots: Vec<IoSliceMut<'_>> =
                self.receive.chunks_exact_mut(self.slot).map(IoSliceMut::new).collect();
            self.state.recv((&self.socket).into(), &mut slots, &mut meta)
        };
        let count = match result {
            Ok(count) => count,
            Err(error) => {
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(false),
                    io::ErrorKind::ConnectionRefused
                    | io::ErrorKind::HostUnreachable
                    | io::ErrorKind::NetworkUnreachable => {
                        self.drain_errors();
                        self.complaint.get_or_insert(unreachable(error.raw_os_error().unwrap_or_default()));
                        Ok(true)
                    }
                    _ if self.drain_errors() => Ok(true),
                    // Lack of memory, for example, is temporary. A socket that keeps failing is broken.
                    _ if self.serves && self.failures < FAILURES => {
                        self.failures += 1;
                        let now = clock.now();
                        let _ = poll(&mut [], super::timespec(now, now + FAILURE_PAUSE).as_ref());
                        Ok(false)
                    }
                    _ => Err(MeasureError::socket("receive")(error)),
                };
            }
        };
        self.failures = 0;
        for (slot, meta) in self.receive.chunks_exact(self.slot).zip(&meta).take(count) {
            let stamp = meta.timestamp.map_or(0, |stamp| stamp.as_nanos() as u64);
            let at = clock.stamp(stamp, now);
            let waited = now.saturating_since(at).as_nanos();
            self.host.served += 1;
            self.host.serve_wait_ns += waited;
            self.host.serve_wait_max_ns = self.host.serve_wait_max_ns.max(waited);
            let ce = meta.ecn == Some(EcnCodepoint::Ce);
            let stride = meta.stride.max(1);
            for bytes in slot[..meta.len.min(slot.len())].chunks(stride) {
                each(Arrival { at, from: Peer { address: meta.addr, local: meta.dst_ip }, bytes, ce });
            }
        }
        Ok(count > 0)
    }

    /// Waits for a message, until `until` at the latest.
    pub fn wait(&mut self, now: Timestamp, until: Timestamp) {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        // A signal wakes too; the caller checks everything again.
        let _ = poll(&mut fds, super::timespec(now, until).as_ref());
    }
}

/// The raw error in a [`quinn_udp::TransportError`].
trait RawError {
    fn raw_os_error_is(&self, errno: i32) -> bool;
}

impl RawError for quinn_udp::TransportError {
    fn raw_os_error_is(&self, errno: i32) -> bool {
        self.raw_errno == errno
    }
}
