//! smoltcp: a TCP/IP stack for small machines, in Rust, in virtual time.
//!
//! Its clock is the caller's, in microseconds, and its random numbers come from one seed. It has one socket for each connection that it can accept:
//! here, one waits at each port, and another takes its place as soon as a connection is begun, up to [`BACKLOG`] of them. It offers no timestamps here: its generator of timestamps is a plain
//! function, which would have to read a clock of the whole process. A connection without an answer for [`TIMEOUT`] is given up, as smoltcp by itself
//! never does.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{self, CongestionControl, State};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use warpline_core::{Bytes, Stream, TimeDelta, Timestamp};

use super::{Event, Outcome, SocketError, SocketId, SocketInfo, SocketOptions, Stack, StackConfig};

/// Send and receive buffer of a socket. smoltcp has no default, as its applications bring the memory.
const BUFFER: Bytes = Bytes(256 << 10);
/// Most connections at each port whose handshakes are not complete; further ones are refused.
const BACKLOG: usize = 256;
/// A connection on which nothing is acknowledged for this long has failed.
const TIMEOUT: Duration = Duration::from_secs(120);
/// First port for outgoing connections (RFC 6335 section 6).
const EPHEMERAL: u16 = 49_152;
/// Its congestion controls, the default first.
const CONGESTION_CONTROLS: &[&str] = &["cubic", "reno"];
/// Where the flags are in a TCP header, and the bit of RST.
const FLAGS: usize = 13;
const RST: u8 = 4;

/// Packets on their way into the stack and out of it.
#[derive(Debug)]
struct Wire {
    mtu: usize,
    incoming: Option<Vec<u8>>,
    outgoing: VecDeque<Vec<u8>>,
    /// Buffers to be used again.
    spare: Vec<Vec<u8>>,
}

struct Incoming(Vec<u8>);

impl RxToken for Incoming {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Outgoing<'a>(&'a mut VecDeque<Vec<u8>>, &'a mut Vec<Vec<u8>>);

impl TxToken for Outgoing<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = self.1.pop().unwrap_or_default();
        packet.clear();
        packet.resize(len, 0);
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Wire {
    type RxToken<'a> = Incoming;
    type TxToken<'a> = Outgoing<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Incoming, Outgoing<'_>)> {
        let packet = self.incoming.take()?;
        Some((Incoming(packet), Outgoing(&mut self.outgoing, &mut self.spare)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Outgoing<'_>> {
        Some(Outgoing(&mut self.outgoing, &mut self.spare))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// A connection.
#[derive(Debug)]
struct Connection {
    handle: SocketHandle,
    local: SocketAddr,
    /// The port that it came to, if it was accepted.
    accepted: Option<u16>,
    established: bool,
    /// Whether the caller was told that the other end has closed.
    finished: bool,
    /// Whether this end was aborted.
    aborted: bool,
    /// Bytes written so far, and those of them that were not acknowledged when it was last looked at.
    written: u64,
    unacked: usize,
}

/// The stack.
pub(super) struct Smoltcp {
    interface: Interface,
    sockets: SocketSet<'static>,
    wire: Wire,
    stream: Stream,
    addresses: Vec<IpAddr>,
    buffers: [usize; 2],
    connections: BTreeMap<SocketId, Connection>,
    /// By port: the sockets whose handshakes are not complete, and the congestion control of their connections.
    listeners: BTreeMap<u16, (Vec<SocketHandle>, CongestionControl)>,
    /// Sockets whose connections are over for the application.
    lingering: Vec<SocketHandle>,
    events: VecDeque<Event>,
    /// Connections to forget once their end has been told.
    gone: Vec<SocketId>,
    next: u64,
    /// Whether there may be something to send.
    awake: bool,
}

impl std::fmt::Debug for Smoltcp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smoltcp").field("connections", &self.connections).finish_non_exhaustive()
    }
}

fn instant(now: Timestamp) -> Instant {
    Instant::from_micros((now.as_nanos() / 1000) as i64)
}

fn socket_address(endpoint: IpEndpoint) -> SocketAddr {
    SocketAddr::new(endpoint.addr.into(), endpoint.port)
}

fn congestion_control(options: &SocketOptions) -> Result<CongestionControl, SocketError> {
    match options.cc.as_deref() {
        None | Some("cubic") => Ok(CongestionControl::Cubic),
        Some("reno") => Ok(CongestionControl::Reno),
        Some(name) => Err(SocketError::Cc { name: name.to_owned(), known: CONGESTION_CONTROLS }),
    }
}

impl Smoltcp {
    /// A stack without connections.
    ///
    /// # Errors
    /// If it has more addresses than smoltcp can have.
    pub(super) fn new(config: StackConfig) -> Result<Self, String> {
        let StackConfig { addresses, mtu, mut stream, send_buffer, receive_buffer } = config;
        let (outgoing, spare) = (VecDeque::new(), Vec::new());
        let mut wire = Wire { mtu: mtu as usize, incoming: None, outgoing, spare };
        let mut own = Config::new(HardwareAddress::Ip);
        own.random_seed = stream.next_u64();
        let mut interface = Interface::new(own, &mut wire, Instant::ZERO);
        let mut room = true;
        interface.update_ip_addrs(|list| {
            for &address in &addresses {
                // All addresses are on its link, so that it needs no routes.
                room &= list.push(IpCidr::new(IpAddress::from(address), 0)).is_ok();
            }
        });
        if !room {
            return Err(format!("smoltcp takes fewer than {} addresses", addresses.len()));
        }
        let size = |given: Option<Bytes>| given.unwrap_or(BUFFER).0 as usize;
        Ok(Smoltcp {
            interface,
            sockets: SocketSet::new(Vec::new()),
            wire,
            stream,
            addresses,
            buffers: [size(receive_buffer), size(send_buffer)],
            connections: BTreeMap::new(),
            listeners: BTreeMap::new(),
            lingering: Vec::new(),
            events: VecDeque::new(),
            gone: Vec::new(),
            next: 0,
            awake: false,
        })
    }

    fn new_socket(&mut self, cc: CongestionControl) -> SocketHandle {
        let [receive, send] = self.buffers.map(|size| tcp::SocketBuffer::new(vec![0; size]));
        let mut socket = tcp::Socket::new(receive, send);
        socket.set_congestion_control(cc);
        socket.set_timeout(Some(TIMEOUT));
        self.sockets.add(socket)
    }

    fn new_id(&mut self) -> SocketId {
        self.next += 1;
        SocketId(self.next)
    }

    /// Lets a socket wait at a port, if none does.
    fn wait_at(&mut self, port: u16) {
        let Some((waiting, cc)) = self.listeners.get(&port) else { return };
        let listens =
            |&handle: &SocketHandle| self.sockets.get::<tcp::Socket<'_>>(handle).state() == State::Listen;
        if waiting.len() >= BACKLOG || waiting.iter().any(listens) {
            return;
        }
        let handle = self.new_socket(*cc);
        // It has no connection, and the port is not 0.
        let _ = self.sockets.get_mut::<tcp::Socket<'_>>(handle).listen(port);
        if let Some((waiting, _)) = self.listeners.get_mut(&port) {
            waiting.push(handle);
        }
    }

    /// Runs the stack, and notes what has changed. `reset` says that a reset has come.
    fn run(&mut self, now: Timestamp, reset: bool) {
        self.interface.poll(instant(now), &mut self.wire, &mut self.sockets);
        self.accept();
        let ids: Vec<SocketId> = self.connections.keys().copied().collect();
        for id in ids {
            self.look(id, reset);
        }
        let sockets = &mut self.sockets;
        self.lingering.retain(|&handle| {
            let over = sockets.get::<tcp::Socket<'_>>(handle).state() == State::Closed;
            if over {
                sockets.remove(handle);
            }
            !over
        });
    }

    /// Takes sockets whose handshakes are complete, and lets others wait in their places.
    fn accept(&mut self) {
        let ports: Vec<u16> = self.listeners.keys().copied().collect();
        for port in ports {
            let mut taken = Vec::new();
            if let Some((waiting, _)) = self.listeners.get_mut(&port) {
                waiting.retain(|&handle| {
                    let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
                    match socket.state() {
                        State::Listen | State::SynReceived => true,
                        State::Closed => socket.listen(port).is_ok(),
                        _ => {
                            taken.push(handle);
                            false
                        }
                    }
                });
            }
            for handle in taken {
                let socket = self.sockets.get::<tcp::Socket<'_>>(handle);
                let (Some(local), Some(remote)) = (socket.local_endpoint(), socket.remote_endpoint()) else {
                    self.lingering.push(handle);
                    continue;
                };
                let (local, remote) = (socket_address(local), socket_address(remote));
                let socket = self.new_id();
                self.connections.insert(socket, Connection::new(handle, local, Some(port)));
                self.events.push_back(Event::Accepted { port, socket, remote });
            }
            self.wait_at(port);
        }
    }

    /// Notes what has changed on a connection.
    fn look(&mut self, id: SocketId, reset: bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let socket = self.sockets.get::<tcp::Socket<'_>>(connection.handle);
        let state = socket.state();
        if !connection.established && !matches!(state, State::SynSent | State::SynReceived | State::Closed) {
            connection.established = true;
            if connection.accepted.is_none() {
                self.events.push_back(Event::Connected(id));
            }
        }
        if socket.can_recv() {
            self.events.push_back(Event::Readable(id));
        }
        let unacked = socket.send_queue();
        if unacked < connection.unacked {
            self.events.push_back(Event::Writable(id));
        }
        connection.unacked = unacked;
        let peer_closed =
            matches!(state, State::CloseWait | State::LastAck | State::Closing | State::TimeWait);
        // From LAST-ACK a connection may be over before it was looked at.
        let ended_well = state == State::TimeWait || state == State::Closed && connection.finished && !reset;
        if peer_closed && socket.recv_queue() == 0 && !std::mem::replace(&mut connection.finished, true) {
            self.events.push_back(Event::Finished(id));
        }
        if state == State::Closed || state == State::TimeWait && socket.recv_queue() == 0 {
            let outcome = match (ended_well, connection.aborted) {
                (_, true) => Outcome::Aborted,
                (true, _) => Outcome::Complete,
                (false, _) if reset => Outcome::Reset,
                (false, _) => Outcome::TimedOut,
            };
            if !self.gone.contains(&id) {
                self.gone.push(id);
                self.events.push_back(Event::Closed(id, outcome));
            }
        }
    }
}

impl Connection {
    fn new(handle: SocketHandle, local: SocketAddr, accepted: Option<u16>) -> Connection {
        Connection {
            handle,
            local,
            established: accepted.is_some(),
            accepted,
            finished: false,
            aborted: false,
            written: 0,
            unacked: 0,
        }
    }
}

/// Whether a datagram is a TCP segment with RST.
fn is_reset(packet: &[u8]) -> bool {
    let (protocol, header) = match packet.first().map(|first| first >> 4) {
        Some(4) => (packet.get(9), usize::from(packet[0] & 15) * 4),
        _ => (packet.get(6), 40),
    };
    protocol == Some(&6) && packet.get(header + FLAGS).is_some_and(|flags| flags & RST != 0)
}

impl Stack for Smoltcp {
    fn handle_packet(&mut self, now: Timestamp, packet: &[u8]) {
        let mut buffer = self.wire.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(packet);
        self.wire.incoming = Some(buffer);
        self.run(now, is_reset(packet));
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        self.run(now, false);
    }

    fn poll_transmit(&mut self, now: Timestamp, packet: &mut Vec<u8>) -> bool {
        if self.wire.outgoing.is_empty() && std::mem::take(&mut self.awake) {
            self.run(now, false);
        }
        let Some(mut next) = self.wire.outgoing.pop_front() else { return false };
        std::mem::swap(packet, &mut next);
        self.wire.spare.push(next);
        true
    }

    fn poll_timeout(&mut self, now: Timestamp) -> Timestamp {
        match self.interface.poll_at(instant(now), &self.sockets) {
            None => Timestamp::NEVER,
            // In a microsecond at the earliest: what was to be done now has been done.
            Some(at) => {
                let at = Timestamp::from_nanos(at.total_micros().max(0) as u64 * 1000);
                at.max(now + TimeDelta::from_micros(1))
            }
        }
    }

    fn listen(&mut self, _: Timestamp, port: u16, options: &SocketOptions) -> Result<(), SocketError> {
        let cc = congestion_control(options)?;
        if port == 0 || self.listeners.contains_key(&port) {
            return Err(SocketError::Taken(port));
        }
        self.listeners.insert(port, (Vec::new(), cc));
        self.wait_at(port);
        Ok(())
    }

    fn stop_listening(&mut self, _: Timestamp, port: u16) {
        if let Some((waiting, _)) = self.listeners.remove(&port) {
            for handle in waiting {
                self.sockets.remove(handle);
            }
        }
    }

    fn connect(
        &mut self,
        _: Timestamp,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<SocketId, SocketError> {
        let cc = congestion_control(options)?;
        let family = if remote.is_ipv6() { "IPv6" } else { "IPv4" };
        let own = self.addresses.iter().find(|address| address.is_ipv6() == remote.is_ipv6());
        let own = *own.ok_or(SocketError::NoAddress(family))?;
        let ports = u64::from(u16::MAX - EPHEMERAL) + 1;
        let first = self.stream.below(ports);
        let mut candidates = (0..ports).map(|step| EPHEMERAL + ((first + step) % ports) as u16);
        let taken = |port: u16| {
            let mut own = self.sockets.iter().filter_map(|(_, socket)| match socket {
                smoltcp::socket::Socket::Tcp(socket) => socket.local_endpoint(),
            });
            own.any(|end| end.port == port)
        };
        let port = candidates.find(|&port| !taken(port)).ok_or(SocketError::Ports(remote))?;
        let handle = self.new_socket(cc);
        let local = SocketAddr::new(own, port);
        let to = IpEndpoint::new(remote.ip().into(), remote.port());
        let from = IpEndpoint::new(own.into(), port);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        if let Err(error) = socket.connect(self.interface.context(), to, from) {
            self.sockets.remove(handle);
            return Err(SocketError::Other(error.to_string()));
        }
        let id = self.new_id();
        self.connections.insert(id, Connection::new(handle, local, None));
        self.awake = true;
        Ok(id)
    }

    fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        self.connections.get(&socket).map(|connection| connection.local)
    }

    fn write(&mut self, _: Timestamp, socket: SocketId, bytes: &[u8]) -> usize {
        let Some(connection) = self.connections.get_mut(&socket) else { return 0 };
        let own = self.sockets.get_mut::<tcp::Socket<'_>>(connection.handle);
        let taken = own.send_slice(bytes).unwrap_or(0);
        connection.written += taken as u64;
        connection.unacked = own.send_queue();
        self.awake |= taken > 0;
        taken
    }

    fn read(&mut self, _: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize {
        let Some(connection) = self.connections.get(&socket) else { return 0 };
        let own = self.sockets.get_mut::<tcp::Socket<'_>>(connection.handle);
        let len = own.recv_slice(buffer).unwrap_or(0);
        if len > 0 {
            // The window may have to be told; and this may have been all before the end.
            self.awake = true;
        }
        len
    }

    fn close(&mut self, _: Timestamp, socket: SocketId) {
        if let Some(connection) = self.connections.get(&socket) {
            self.sockets.get_mut::<tcp::Socket<'_>>(connection.handle).close();
            self.awake = true;
        }
    }

    fn abort(&mut self, _: Timestamp, socket: SocketId) {
        if let Some(connection) = self.connections.get_mut(&socket) {
            connection.aborted = true;
            self.sockets.get_mut::<tcp::Socket<'_>>(connection.handle).abort();
            self.awake = true;
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Closed(id, _) = event
            && let Some(connection) = self.connections.remove(&id)
        {
            self.gone.retain(|gone| *gone != id);
            self.lingering.push(connection.handle);
        }
        Some(event)
    }

    fn info(&self, socket: SocketId) -> Option<SocketInfo> {
        let connection = self.connections.get(&socket)?;
        let own = self.sockets.get::<tcp::Socket<'_>>(connection.handle);
        Some(SocketInfo { acked: connection.written - own.send_queue() as u64, ..SocketInfo::default() })
    }
}
