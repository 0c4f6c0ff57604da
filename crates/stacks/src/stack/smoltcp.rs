//! smoltcp 0.14 as a host.
//!
//! smoltcp looks for the socket of a packet, and for the next deadline, among all sockets of a set. Here every connection has a set of its own,
//! and its packets are found by addresses and ports, so that the work per packet does not grow with the number of connections. A
//! listener needs no socket: the socket is made when a SYN arrives.
//!
//! What smoltcp leaves to its caller is chosen here:
//! - Local ports are between 49152 and 65535 (RFC 6335 section 6), from a random start.
//! - A connection is given up [`USER_TIMEOUT`] after the last packet from the other end, while data, a SYN or a FIN is outstanding. smoltcp's own
//!   time-out, off by default, runs on idle connections as well.
//! - At most [`BACKLOG`] handshakes are open at a port; the SYNs of others are dropped.
//!
//! TCP timestamps are off, as in smoltcp by default: it takes their clock from a function without arguments, which only a global
//! variable could give the time of a run. It counts time in microseconds, so a run's nanoseconds are rounded down.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ::smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use ::smoltcp::phy::{self, DeviceCapabilities, Medium};
use ::smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use ::smoltcp::time::Instant;
use ::smoltcp::wire::{HardwareAddress, IpCidr, IpProtocol, IpVersion, Ipv4Packet, Ipv6Packet, TcpPacket};
use warpline_core::{Stream, TimeDelta, Timestamp};
use warpline_scenario::endpoint::Smoltcp as Keys;

use super::{Event, Outcome, SocketError, SocketId, SocketInfo, SocketOptions, Stack, StackConfig, ports};

/// How long an other end may be silent while something is outstanding: the five minutes of RFC 9293 section 3.9.1.1.
pub const USER_TIMEOUT: TimeDelta = TimeDelta::from_secs(300);

/// Handshakes that may be open at one port.
pub const BACKLOG: usize = 128;

/// Size of each buffer of a socket, if none is given; smoltcp has no default.
pub const BUFFER: u64 = 256 << 10;

/// Sizes that a buffer can have. smoltcp refuses more than the largest window of TCP.
const BUFFERS: std::ops::RangeInclusive<u64> = 1..=1 << 30;

/// This end and the other end of a connection.
type Ends = (SocketAddr, SocketAddr);

/// A host with smoltcp.
pub struct Smoltcp {
    interface: Interface,
    addresses: Vec<IpAddr>,
    mtu: usize,
    send_buffer: usize,
    receive_buffer: usize,
    stream: Stream,
    listeners: BTreeMap<u16, Listener>,
    connections: BTreeMap<SocketId, Connection>,
    by_ends: BTreeMap<Ends, SocketId>,
    deadlines: BTreeSet<(Timestamp, SocketId)>,
    /// Connections that may have something to send; each at most once.
    ready: VecDeque<SocketId>,
    /// Answers to packets, and used buffers for more of them.
    replies: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    events: VecDeque<Event>,
    next: u64,
}

#[derive(Debug)]
struct Listener {
    cc: CongestionControl,
    /// Handshakes that are open.
    open: usize,
}

/// How far the application knows of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The handshake is open.
    Handshake,
    /// The application was told that it is connected.
    Established,
    /// The application was told that it has ended. smoltcp may still answer for it (TIME-WAIT).
    Ended,
}

#[derive(Debug)]
struct Connection {
    set: SocketSet<'static>,
    handle: SocketHandle,
    ends: Ends,
    /// Whether it came from a listener.
    passive: bool,
    stage: Stage,
    /// Why it was aborted, if it was.
    aborted: Option<Outcome>,
    /// Whether the other end's close has been reported.
    finished: bool,
    /// Whether a write took less than it was given.
    wants_room: bool,
    /// Events of this connection that wait to be taken.
    readable: bool,
    writable: bool,
    written: u64,
    /// Bytes unacknowledged when last looked at.
    queued: usize,
    /// When the last packet arrived, or something became outstanding.
    heard: Timestamp,
    outstanding: bool,
    is_ready: bool,
    deadline: Timestamp,
}

impl Connection {
    fn socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
    }

    fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// When it is given up, unless a packet arrives.
    fn gives_up(&self) -> Timestamp {
        if self.outstanding { self.heard + USER_TIMEOUT } else { Timestamp::NEVER }
    }

    /// Keeps the time since when something is outstanding.
    fn watch(&mut self, now: Timestamp) {
        let socket = self.socket();
        let control = matches!(
            socket.state(),
            State::SynSent | State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        );
        let outstanding = control || socket.send_queue() > 0;
        if outstanding && !self.outstanding {
            self.heard = now;
        }
        self.outstanding = outstanding;
    }
}

/// One packet in, one packet out.
struct Device<'a> {
    input: Option<&'a [u8]>,
    output: &'a mut Vec<u8>,
    mtu: usize,
}

struct Input<'a>(&'a [u8]);

struct Output<'a>(&'a mut Vec<u8>);

impl phy::RxToken for Input<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

impl phy::TxToken for Output<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        self.0.clear();
        self.0.resize(length, 0);
        f(self.0)
    }
}

impl phy::Device for Device<'_> {
    type RxToken<'a>
        = Input<'a>
    where
        Self: 'a;
    type TxToken<'a>
        = Output<'a>
    where
        Self: 'a;

    fn receive(&mut self, _now: Instant) -> Option<(Input<'_>, Output<'_>)> {
        Some((Input(self.input.take()?), Output(self.output)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Output<'_>> {
        self.output.is_empty().then_some(Output(self.output))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// What decides which connection a packet belongs to.
struct Segment {
    ends: Ends,
    syn: bool,
    rst: bool,
}

impl Segment {
    /// None if it is no TCP segment.
    fn of(packet: &[u8]) -> Option<Segment> {
        let (destination, source, payload): (IpAddr, IpAddr, &[u8]) = match IpVersion::of_packet(packet)
            .ok()?
        {
            IpVersion::Ipv4 => {
                let packet = Ipv4Packet::new_checked(packet).ok()?;
                if packet.next_header() != IpProtocol::Tcp || packet.more_frags() || packet.frag_offset() > 0
                {
                    return None;
                }
                (packet.dst_addr().into(), packet.src_addr().into(), packet.payload())
            }
            IpVersion::Ipv6 => {
                let packet = Ipv6Packet::new_checked(packet).ok()?;
                if packet.next_header() != IpProtocol::Tcp {
                    return None;
                }
                (packet.dst_addr().into(), packet.src_addr().into(), packet.payload())
            }
        };
        let tcp = TcpPacket::new_checked(payload).ok()?;
        let here = SocketAddr::new(destination, tcp.dst_port());
        let there = SocketAddr::new(source, tcp.src_port());
        Some(Segment { ends: (here, there), syn: tcp.syn() && !tcp.ack(), rst: tcp.rst() })
    }
}

fn instant(now: Timestamp) -> Instant {
    Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}

fn congestion_control(options: &SocketOptions) -> Result<CongestionControl, SocketError> {
    match options.cc.as_deref() {
        None | Some("cubic") => Ok(CongestionControl::Cubic),
        Some("reno") => Ok(CongestionControl::Reno),
        Some(other) => Err(SocketError::Cc { name: other.to_owned(), known: Keys::CONGESTION_CONTROLS }),
    }
}

impl Smoltcp {
    /// A host with these settings.
    ///
    /// # Errors
    /// If it has more addresses than smoltcp takes (eight), the MTU is below 1280 bytes, or a buffer is empty or above 1 GiB.
    pub fn new(config: StackConfig) -> Result<Self, String> {
        let StackConfig { addresses, mtu, mut stream, send_buffer, receive_buffer } = config;
        let size = |name: &str, given: Option<warpline_core::Bytes>| {
            let bytes = given.map_or(BUFFER, |given| given.0);
            let fits = BUFFERS.contains(&bytes);
            let size = usize::try_from(bytes).ok().filter(|_| fits);
            size.ok_or_else(|| format!("`{name}` is {bytes} bytes; smoltcp takes 1 byte to 1GiB"))
        };
        let (send_buffer, receive_buffer) =
            (size("send_buffer", send_buffer)?, size("receive_buffer", receive_buffer)?);
        if mtu < 1280 {
            return Err(format!("an MTU of {mtu} bytes is too small; IPv6 needs 1280"));
        }
        let mtu = mtu as usize;
        let mut own = Config::new(HardwareAddress::Ip);
        own.random_seed = stream.next_u64();
        let mut nothing = Vec::new();
        let mut device = Device { input: None, output: &mut nothing, mtu };
        let mut interface = Interface::new(own, &mut device, Instant::ZERO);
        let mut refused = None;
        interface.update_ip_addrs(|list| {
            for &address in &addresses {
                // A network of one address: no address of another host is then a broadcast address.
                let bits = if address.is_ipv4() { 32 } else { 128 };
                if list.push(IpCidr::new(address.into(), bits)).is_err() {
                    refused = Some(address);
                    return;
                }
            }
        });
        if let Some(address) = refused {
            return Err(format!("smoltcp has no room for the address {address}; it takes eight"));
        }
        Ok(Smoltcp {
            interface,
            addresses,
            mtu,
            send_buffer,
            receive_buffer,
            stream,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            spare: Vec::new(),
            events: VecDeque::new(),
            next: 0,
        })
    }

    fn new_socket(&self, cc: CongestionControl) -> Socket<'static> {
        let buffer = |size| SocketBuffer::new(vec![0; size]);
        let mut socket = Socket::new(buffer(self.receive_buffer), buffer(self.send_buffer));
        socket.set_congestion_control(cc);
        socket
    }

    /// Adds a connection whose socket is in `set`.
    fn add(
        &mut self,
        now: Timestamp,
        set: SocketSet<'static>,
        handle: SocketHandle,
        ends: Ends,
        passive: bool,
    ) -> SocketId {
        let id = SocketId(self.next);
        self.next += 1;
        let connection = Connection {
            set,
            handle,
            ends,
            passive,
            stage: Stage::Handshake,
            aborted: None,
            finished: false,
            wants_room: false,
            readable: false,
            writable: false,
            written: 0,
            queued: 0,
            heard: now,
            outstanding: true,
            is_ready: true,
            deadline: Timestamp::NEVER,
        };
        self.connections.insert(id, connection);
        self.by_ends.insert(ends, id);
        self.ready.push_back(id);
        id
    }

    fn mark_ready(&mut self, id: SocketId) {
        if let Some(connection) = self.connections.get_mut(&id).filter(|connection| !connection.is_ready) {
            connection.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// The connection that the application means; none once it was told that it has ended.
    fn of_application(&mut self, id: SocketId) -> Option<&mut Connection> {
        self.connections.get_mut(&id).filter(|connection| connection.stage != Stage::Ended)
    }

    /// Gives a packet to the interface with the sockets in `set`, and keeps the answer.
    fn ingress(&mut self, now: Timestamp, packet: &[u8], set: &mut SocketSet<'static>) {
        let mut reply = self.spare.pop().unwrap_or_default();
        reply.clear();
        let mut device = Device { input: Some(packet), output: &mut reply, mtu: self.mtu };
        self.interface.poll_ingress_single(instant(now), &mut device, set);
        if reply.is_empty() { self.spare.push(reply) } else { self.replies.push_back(reply) }
    }

    /// A SYN to a port: a new connection if it is listened on.
    fn accept(&mut self, now: Timestamp, packet: &[u8], ends: Ends) {
        let port = ends.0.port();
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let Some(listener) = self.listeners.get(&port) else {
            return self.ingress(now, packet, &mut set);
        };
        if listener.open >= BACKLOG {
            return;
        }
        let mut socket = self.new_socket(listener.cc);
        if socket.listen(port).is_err() {
            return;
        }
        let handle = set.add(socket);
        self.ingress(now, packet, &mut set);
        let is_open = set.get::<Socket<'_>>(handle).state() == State::SynReceived;
        if !is_open {
            return;
        }
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.open += 1;
        }
        self.add(now, set, handle, ends, true);
    }

    /// Reports what has changed at a connection. `reset`: by a segment with RST.
    fn observe(&mut self, now: Timestamp, id: SocketId, reset: bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.watch(now);
        let socket: &Socket<'static> = connection.set.get(connection.handle);
        let (state, unread, queued) = (socket.state(), socket.recv_queue(), socket.send_queue());
        let (can_send, is_gone) = (socket.can_send(), socket.local_endpoint().is_none());
        if connection.stage == Stage::Handshake {
            let is_open = matches!(state, State::SynSent | State::SynReceived);
            if is_open {
                return;
            }
            if connection.passive
                && let Some(listener) = self.listeners.get_mut(&connection.ends.0.port())
            {
                listener.open = listener.open.saturating_sub(1);
            }
            if !matches!(state, State::Closed | State::Listen) {
                connection.stage = Stage::Established;
                let (here, remote) = connection.ends;
                self.events.push_back(if connection.passive {
                    Event::Accepted { port: here.port(), socket: id, remote }
                } else {
                    Event::Connected(id)
                });
            } else if connection.passive {
                // The application never knew of it.
                connection.stage = Stage::Ended;
            }
        }
        if connection.stage != Stage::Ended {
            if unread > 0 && !connection.readable {
                connection.readable = true;
                self.events.push_back(Event::Readable(id));
            }
            let was_acked = queued < connection.queued;
            if can_send && (was_acked || connection.wants_room) && !connection.writable {
                connection.writable = true;
                connection.wants_room = false;
                self.events.push_back(Event::Writable(id));
            }
            let closed_there =
                matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
            let is_complete = state == State::TimeWait || (state == State::Closed && !reset);
            if (closed_there || is_complete)
                && connection.aborted.is_none()
                && unread == 0
                && !connection.finished
            {
                connection.finished = true;
                self.events.push_back(Event::Finished(id));
            }
            let outcome = match (state, connection.aborted) {
                (State::Closed | State::Listen, Some(outcome)) => Some(outcome),
                (State::Closed | State::Listen, None) if reset => Some(Outcome::Reset),
                (State::Closed | State::TimeWait, None) => (unread == 0).then_some(Outcome::Complete),
                _ => None,
            };
            if let Some(outcome) = outcome {
                connection.stage = Stage::Ended;
                self.events.push_back(Event::Closed(id, outcome));
            }
        }
        connection.queued = queued;
        if connection.stage == Stage::Ended && is_gone {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: SocketId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.by_ends.remove(&connection.ends);
        self.deadlines.remove(&(connection.deadline, id));
    }

    /// Keeps when a connection is due, once it has nothing to send.
    fn settle(&mut self, now: Timestamp, id: SocketId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let due = self.interface.poll_at(instant(now), &connection.set);
        let due = due.map_or(Timestamp::NEVER, |due| {
            let micros = u64::try_from(due.total_micros()).unwrap_or(0);
            // What is due now would have been done: never return to the same time.
            Timestamp::from_nanos(micros.saturating_mul(1000)).max(now + TimeDelta::from_micros(1))
        });
        let due = due.min(connection.gives_up());
        if due != connection.deadline {
            self.deadlines.remove(&(connection.deadline, id));
            connection.deadline = due;
            if due.is_set() {
                self.deadlines.insert((due, id));
            }
        }
    }
}

impl fmt::Debug for Smoltcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smoltcp")
            .field("addresses", &self.addresses)
            .field("listeners", &self.listeners)
            .field("connections", &self.by_ends)
            .finish_non_exhaustive()
    }
}

impl Stack for Smoltcp {
    fn handle_packet(&mut self, now: Timestamp, packet: &[u8]) {
        let segment = Segment::of(packet);
        let id = segment.as_ref().and_then(|segment| self.by_ends.get(&segment.ends).copied());
        let (Some(segment), Some(id)) = (&segment, id) else {
            return match segment {
                Some(Segment { ends, syn: true, .. }) => self.accept(now, packet, ends),
                // The interface answers: a reset, or ICMP.
                _ => self.ingress(now, packet, &mut SocketSet::new(Vec::new())),
            };
        };
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.heard = now;
        let mut set = std::mem::replace(&mut connection.set, SocketSet::new(Vec::new()));
        self.ingress(now, packet, &mut set);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.set = set;
        }
        self.observe(now, id, segment.rst);
        self.mark_ready(id);
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        while let Some(&(due, id)) = self.deadlines.first() {
            if due > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.deadline = Timestamp::NEVER;
            if now >= connection.gives_up() {
                connection.aborted = connection.aborted.or(Some(Outcome::TimedOut));
                connection.socket_mut().abort();
                self.observe(now, id, false);
            }
            self.mark_ready(id);
        }
    }

    fn poll_transmit(&mut self, now: Timestamp, packet: &mut Vec<u8>) -> bool {
        if let Some(mut reply) = self.replies.pop_front() {
            std::mem::swap(packet, &mut reply);
            self.spare.push(reply);
            return true;
        }
        packet.clear();
        while let Some(id) = self.ready.pop_front() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.is_ready = false;
            let mut device = Device { input: None, output: packet, mtu: self.mtu };
            self.interface.poll_egress(instant(now), &mut device, &mut connection.set);
            self.observe(now, id, false);
            if !packet.is_empty() {
                self.mark_ready(id);
                return true;
            }
            self.settle(now, id);
        }
        false
    }

    fn poll_timeout(&mut self) -> Timestamp {
        self.deadlines.first().map_or(Timestamp::NEVER, |&(due, _)| due)
    }

    fn listen(&mut self, _now: Timestamp, port: u16, options: &SocketOptions) -> Result<(), SocketError> {
        let cc = congestion_control(options)?;
        if port == 0 {
            return Err(SocketError::Other("port 0 cannot be listened on".to_owned()));
        }
        if self.listeners.contains_key(&port) {
            return Err(SocketError::Taken(port));
        }
        self.listeners.insert(port, Listener { cc, open: 0 });
        Ok(())
    }

    fn stop_listening(&mut self, _now: Timestamp, port: u16) {
        self.listeners.remove(&port);
    }

    fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<SocketId, SocketError> {
        let mut socket = self.new_socket(congestion_control(options)?);
        let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
        let address = self.addresses.iter().find(|address| address.is_ipv4() == remote.is_ipv4());
        let address = *address.ok_or(SocketError::NoAddress(family))?;
        let by_ends = &self.by_ends;
        let free = |port: &u16| !by_ends.contains_key(&(SocketAddr::new(address, *port), remote));
        let port = ports::choose(&mut self.stream, free).ok_or(SocketError::Ports(remote))?;
        let here = SocketAddr::new(address, port);
        let refused = |error| SocketError::Other(format!("cannot connect to {remote}: {error}"));
        socket.connect(self.interface.context(), remote, here).map_err(refused)?;
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(socket);
        Ok(self.add(now, set, handle, (here, remote), false))
    }

    fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        let connection = self.connections.get(&socket)?;
        (connection.stage != Stage::Ended).then_some(connection.ends.0)
    }

    fn write(&mut self, now: Timestamp, socket: SocketId, bytes: &[u8]) -> usize {
        let Some(connection) = self.of_application(socket) else { return 0 };
        let taken = connection.socket_mut().send_slice(bytes).unwrap_or(0);
        connection.wants_room = taken < bytes.len();
        connection.written += taken as u64;
        connection.queued += taken;
        connection.watch(now);
        if taken > 0 {
            self.mark_ready(socket);
        }
        taken
    }

    fn read(&mut self, now: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize {
        let Some(connection) = self.of_application(socket) else { return 0 };
        let taken = connection.socket_mut().recv_slice(buffer).unwrap_or(0);
        if taken > 0 {
            self.observe(now, socket, false);
            // The window may be worth an update.
            self.mark_ready(socket);
        }
        taken
    }

    fn close(&mut self, now: Timestamp, socket: SocketId) {
        let Some(connection) = self.of_application(socket) else { return };
        if connection.stage == Stage::Handshake {
            return self.abort(now, socket);
        }
        connection.socket_mut().close();
        self.observe(now, socket, false);
        self.mark_ready(socket);
    }

    fn abort(&mut self, now: Timestamp, socket: SocketId) {
        let Some(connection) = self.of_application(socket) else { return };
        connection.aborted = connection.aborted.or(Some(Outcome::Aborted));
        connection.socket_mut().abort();
        self.observe(now, socket, false);
        self.mark_ready(socket);
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        let (Event::Readable(id) | Event::Writable(id)) = event else { return Some(event) };
        if let Some(connection) = self.connections.get_mut(&id) {
            match event {
                Event::Readable(_) => connection.readable = false,
                _ => connection.writable = false,
            }
        }
        Some(event)
    }

    fn info(&self, socket: SocketId) -> Option<SocketInfo> {
        let connection =
            self.connections.get(&socket).filter(|connection| connection.stage != Stage::Ended)?;
        let acked = connection.written - connection.socket().send_queue() as u64;
        Some(SocketInfo { acked, ..SocketInfo::default() })
    }
}
