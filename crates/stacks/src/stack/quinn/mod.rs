//! quinn-proto 0.11 as a host: QUIC version 1 (RFC 9000) in UDP datagrams.
//!
//! A socket is a connection with one unidirectional stream in each direction, so that either end may send first, and each direction ends by itself: a
//! close of the socket finishes its stream. A connection is closed by the end that first knows both directions to be complete: everything from here has
//! been acknowledged, and everything from there has been read. Nothing is cut off by that: the other end has all bytes by then, and reads what it has
//! not read yet from its connection, closed as that is.
//!
//! What quinn leaves to its caller is chosen here:
//! - A host has one endpoint for all its ports: connections differ by their IDs. Local ports are chosen as for TCP.
//! - An end that has heard nothing for 30 s gives up (quinn's default). The end that connected asks for an answer every 7.5 s, so that a
//!   connection may be idle.
//! - A connection to a port on which nothing listens is refused (CONNECTION_REFUSED). UDP itself would answer by ICMP.
//! - TLS 1.3 with raw public keys instead of certificates, as in [`crate::quic`]; all hosts have the same key. Handshakes are shorter than
//!   on the web by the certificates.
//! - The path MTU is looked for up to the host's own, from 1200 bytes.
//!
//! Everything else is quinn's default. Every byte repeats (`random.rs`). Only quinn's BBR draws numbers of its own, for its pacing rate, and quinn's
//! pacer goes by the window and does not use that rate.

mod connection;
mod datagram;
mod random;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::congestion::{BbrConfig, Controller, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, DatagramEvent, Endpoint, EndpointConfig, MtuDiscoveryConfig, NoneTokenStore, ServerConfig,
    Transmit, TransportConfig, VarInt,
};
use warpline_core::{Stream, TimeDelta, Timestamp};
use warpline_scenario::endpoint::{Controls, Quinn as Keys};
use warpline_transport::cc::Algorithm;

use self::connection::{Connection, Stage};
use self::datagram::{Datagram, Ends};
use super::{Event, SocketError, SocketId, SocketInfo, SocketOptions, Stack, StackConfig, ports};
use crate::quic::congestion::Factory;
use crate::quic::{Identity, Trust, tls};

/// How long the end that connected lets a connection be silent.
const KEEP_ALIVE: Duration = Duration::from_millis(7500);

/// The smallest MTU: a datagram of QUIC has 1200 bytes at least (RFC 9000 section 14), and IPv6 needs 1280.
const SMALLEST_MTU: u32 = 1280;

/// Bytes of the headers of IPv6 and UDP.
const HEADERS: u32 = 48;

/// The secret of the key that every host shows.
const SECRET: &[u8; 32] = b"warpline: hosts of one simulated";

/// What the connections of a host have in common.
struct Settings {
    controls: Controls,
    initial_window: Option<u64>,
    send_buffer: Option<u64>,
    receive_buffer: Option<u64>,
    mtu: u32,
}

/// A host with quinn.
pub struct Quinn {
    endpoint: Endpoint,
    settings: Settings,
    /// quinn's time of [`Timestamp::ZERO`].
    epoch: Instant,
    addresses: Vec<IpAddr>,
    stream: Stream,
    client: Arc<QuicClientConfig>,
    /// The configuration of a listener, but for its transport.
    server: ServerConfig,
    listeners: BTreeMap<u16, Arc<ServerConfig>>,
    connections: BTreeMap<SocketId, Connection>,
    by_handle: BTreeMap<usize, SocketId>,
    by_ends: BTreeMap<Ends, SocketId>,
    deadlines: BTreeSet<(Timestamp, SocketId)>,
    /// Connections that may have something to send; each at most once.
    ready: VecDeque<SocketId>,
    /// Answers to packets that are of no connection.
    replies: VecDeque<Vec<u8>>,
    events: VecDeque<Event>,
    /// The payload of the datagram that is being made.
    payload: Vec<u8>,
    next: u64,
}

/// Makes a congestion control of Warpline's for each connection, with a seed of its own.
struct Drawn(Algorithm);

impl ControllerFactory for Drawn {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let seed = random::next().unwrap_or_default();
        Arc::new(Factory::new(self.0, TimeDelta::ZERO).seeded(seed)).build(now, mtu)
    }
}

impl Settings {
    /// Makes the congestion controls of the connections of a socket with this option.
    fn control(&self, cc: Option<&str>) -> Result<Arc<dyn ControllerFactory + Send + Sync>, SocketError> {
        /// A configuration of quinn's with the initial window, if one is given.
        macro_rules! own {
            ($config:ty) => {{
                let mut config = <$config>::default();
                if let Some(window) = self.initial_window {
                    config.initial_window(window);
                }
                Arc::new(config)
            }};
        }
        if self.controls == Controls::Warpline {
            let algorithm = cc.map_or_else(|| Ok(Algorithm::default()), str::parse);
            return Ok(Arc::new(Drawn(algorithm.map_err(|error| SocketError::Other(error.to_string()))?)));
        }
        Ok(match cc {
            None | Some("cubic") => own!(CubicConfig),
            Some("newreno") => own!(NewRenoConfig),
            Some("bbr") => own!(BbrConfig),
            Some(other) => {
                return Err(SocketError::Cc { name: other.to_owned(), known: Keys::CONGESTION_CONTROLS });
            }
        })
    }

    /// The configuration of the connections of a socket with these options. `connects`: they are begun here.
    fn transport(
        &self,
        options: &SocketOptions,
        connects: bool,
    ) -> Result<Arc<TransportConfig>, SocketError> {
        let mut config = TransportConfig::default();
        config.congestion_controller_factory(self.control(options.cc.as_deref())?);
        if let Some(bytes) = self.send_buffer {
            config.send_window(bytes);
        }
        if let Some(bytes) = self.receive_buffer {
            config.stream_receive_window(VarInt::from_u64(bytes).unwrap_or(VarInt::MAX));
        }
        let mut search = MtuDiscoveryConfig::default();
        search.upper_bound(u16::try_from(self.mtu - HEADERS).unwrap_or(u16::MAX));
        config.mtu_discovery_config(Some(search));
        config.keep_alive_interval(connects.then_some(KEEP_ALIVE));
        Ok(Arc::new(config))
    }
}

impl Quinn {
    /// A host with these settings and keys.
    ///
    /// # Errors
    /// If the MTU is below 1280 bytes, or the TLS library fails.
    pub fn new(config: StackConfig, keys: &Keys) -> Result<Self, String> {
        let StackConfig { addresses, mtu, mut stream, send_buffer, receive_buffer } = config;
        if mtu < SMALLEST_MTU {
            return Err(format!("an MTU of {mtu} bytes is too small; QUIC over IPv6 needs {SMALLEST_MTU}"));
        }
        let settings = Settings {
            controls: keys.controls(),
            initial_window: keys.initial_window.map(|window| window.0.0),
            send_buffer: send_buffer.map(|bytes| bytes.0),
            receive_buffer: receive_buffer.map(|bytes| bytes.0),
            mtu,
        };
        let (client, server) = Self::cryptography()?;
        let mut key = [0; 32];
        random::fill(&mut stream, &mut key);
        let token = ring::hkdf::Salt::new(ring::hkdf::HKDF_SHA256, &[]).extract(&key);
        let server = ServerConfig::new(server, Arc::new(token));
        random::fill(&mut stream, &mut key);
        let mut own = EndpointConfig::new(Arc::new(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key)));
        random::fill(&mut stream, &mut key);
        own.rng_seed(Some(key)).cid_generator(|| Box::new(random::Identifiers));
        let largest = u16::try_from(mtu - 28).unwrap_or(u16::MAX).min(65_527);
        own.max_udp_payload_size(largest).map_err(|error| error.to_string())?;
        // Whether a port is listened on is looked at later, so that the endpoint must take connections.
        let endpoint = Endpoint::new(Arc::new(own), Some(Arc::new(server.clone())), true, None);
        Ok(Quinn {
            endpoint,
            settings,
            epoch: epoch(),
            addresses,
            stream,
            client,
            server,
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            by_handle: BTreeMap::new(),
            by_ends: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            payload: Vec::new(),
            next: 0,
        })
    }

    /// TLS for connections that are begun here, and for those that come.
    fn cryptography() -> Result<(Arc<QuicClientConfig>, Arc<QuicServerConfig>), String> {
        let identity = Identity::of_secret(SECRET).ok_or("the TLS library refuses the hosts' key")?;
        let (trust, provider) = (Trust::only(identity.public()), Arc::new(random::provider()));
        let failed = |error: rustls::Error| error.to_string();
        let client = tls::client_by(&identity, &trust, provider.clone()).map_err(failed)?;
        let server = tls::server_by(&identity, &trust, provider).map_err(failed)?;
        let client = QuicClientConfig::try_from(client).map_err(|error| error.to_string())?;
        let server = QuicServerConfig::try_from(server).map_err(|error| error.to_string())?;
        Ok((Arc::new(client), Arc::new(server)))
    }

    fn instant(&self, now: Timestamp) -> Instant {
        self.epoch + Duration::from_nanos(now.as_nanos())
    }

    /// Adds a connection.
    fn add(
        &mut self,
        now: Timestamp,
        made: (quinn_proto::ConnectionHandle, quinn_proto::Connection),
        ends: Ends,
        passive: bool,
    ) -> SocketId {
        let id = SocketId(self.next);
        self.next += 1;
        self.by_handle.insert(made.0.0, id);
        self.by_ends.insert(ends, id);
        self.connections.insert(id, Connection::new(id, made, ends, passive));
        self.advance(now, id);
        id
    }

    /// A connection comes to a port.
    fn accept(&mut self, now: Timestamp, incoming: quinn_proto::Incoming, ends: Ends) {
        let (at, mut answer) = (self.instant(now), Vec::new());
        let Some(listener) = self.listeners.get(&ends.0.port()).cloned() else {
            let transmit = self.endpoint.refuse(incoming, &mut answer);
            return self.reply(ends, &transmit, &answer);
        };
        let endpoint = &mut self.endpoint;
        let made = random::with(&mut self.stream, || {
            endpoint.accept(incoming, at, &mut answer, Some(listener)).map_err(|error| error.response)
        });
        match made {
            Ok(made) => {
                self.add(now, made, ends, true);
            }
            Err(Some(transmit)) => self.reply(ends, &transmit, &answer),
            Err(None) => {}
        }
    }

    /// Sends a datagram that is of no connection.
    fn reply(&mut self, ends: Ends, transmit: &Transmit, payload: &[u8]) {
        let mut packet = Vec::new();
        if datagram::write(&mut packet, ends, transmit.ecn, &payload[..transmit.size]) {
            self.replies.push_back(packet);
        }
    }

    /// Lets a connection and the endpoint tell each other what they have to, and the application what has happened. The connection may then have
    /// something to send.
    fn advance(&mut self, now: Timestamp, id: SocketId) {
        let at = self.instant(now);
        let Some(connection) = self.connections.get_mut(&id) else { return };
        loop {
            let mut is_done = true;
            while let Some(event) = connection.inner.poll_endpoint_events() {
                is_done = false;
                if event.is_drained() {
                    // quinn gives the handle to another connection.
                    self.by_handle.remove(&connection.handle.0);
                }
                let (endpoint, handle) = (&mut self.endpoint, connection.handle);
                let answer = random::with(&mut self.stream, || endpoint.handle_event(handle, event));
                if let Some(answer) = answer {
                    connection.inner.handle_event(answer);
                }
            }
            if !connection.observe(at, &mut self.events) && is_done {
                break;
            }
        }
        self.mark_ready(id);
    }

    fn mark_ready(&mut self, id: SocketId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut connection.is_ready, true)
        {
            self.ready.push_back(id);
        }
    }

    /// The connection that the application means; none once it was told that it has ended.
    fn of_application(&mut self, id: SocketId) -> Option<&mut Connection> {
        self.connections.get_mut(&id).filter(|connection| connection.stage != Stage::Ended)
    }

    /// Keeps when a connection is due, once it has nothing to send; removes it if it is gone.
    fn settle(&mut self, now: Timestamp, id: SocketId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let due = connection.due().map_or(Timestamp::NEVER, |due| {
            let nanos = due.saturating_duration_since(self.epoch).as_nanos();
            // What is due now would have been done: never return to the same time.
            let due = Timestamp::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            due.max(now + TimeDelta::from_nanos(1))
        });
        if due != connection.deadline {
            self.deadlines.remove(&(connection.deadline, id));
            connection.deadline = due;
            if due.is_set() {
                self.deadlines.insert((due, id));
            }
        }
        if connection.is_gone() {
            self.by_ends.remove(&connection.ends);
            self.deadlines.remove(&(connection.deadline, id));
            self.connections.remove(&id);
        }
    }
}

/// A time of the machine's clock, as quinn has no other times. It stands for the beginning of the run; only differences from it are ever used.
#[expect(
    clippy::disallowed_methods,
    reason = "quinn-proto's times need a starting point; nothing depends on it"
)]
fn epoch() -> Instant {
    Instant::now()
}

impl fmt::Debug for Quinn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listeners: Vec<&u16> = self.listeners.keys().collect();
        f.debug_struct("Quinn")
            .field("addresses", &self.addresses)
            .field("listeners", &listeners)
            .field("connections", &self.by_ends)
            .finish_non_exhaustive()
    }
}

impl Stack for Quinn {
    fn handle_packet(&mut self, now: Timestamp, packet: &[u8]) {
        let Some(Datagram { ends, ecn, payload }) = Datagram::parse(packet) else { return };
        let (here, remote) = ends;
        if !self.addresses.contains(&here.ip()) {
            return;
        }
        let (at, mut answer) = (self.instant(now), Vec::new());
        let payload = BytesMut::from(payload);
        match self.endpoint.handle(at, remote, Some(here.ip()), ecn, payload, &mut answer) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(&id) = self.by_handle.get(&handle.0) else { return };
                let Some(connection) = self.connections.get_mut(&id) else { return };
                random::with(&mut self.stream, || connection.inner.handle_event(event));
                self.advance(now, id);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming, ends),
            Some(DatagramEvent::Response(transmit)) => self.reply(ends, &transmit, &answer),
            None => {}
        }
    }

    fn handle_timeout(&mut self, now: Timestamp) {
        let at = self.instant(now);
        while let Some(&(due, id)) = self.deadlines.first() {
            if due > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.deadline = Timestamp::NEVER;
            connection.handle_timeout(at);
            self.advance(now, id);
        }
    }

    fn poll_transmit(&mut self, now: Timestamp, packet: &mut Vec<u8>) -> bool {
        if let Some(reply) = self.replies.pop_front() {
            *packet = reply;
            return true;
        }
        let at = self.instant(now);
        while let Some(id) = self.ready.pop_front() {
            let Some(connection) = self.connections.get_mut(&id) else { continue };
            connection.is_ready = false;
            self.payload.clear();
            if let Some(transmit) = connection.inner.poll_transmit(at, 1, &mut self.payload) {
                let ends = connection.ends;
                self.mark_ready(id);
                if datagram::write(packet, ends, transmit.ecn, &self.payload[..transmit.size]) {
                    return true;
                }
                continue;
            }
            self.settle(now, id);
        }
        false
    }

    fn poll_timeout(&mut self) -> Timestamp {
        self.deadlines.first().map_or(Timestamp::NEVER, |&(due, _)| due)
    }

    fn listen(&mut self, _now: Timestamp, port: u16, options: &SocketOptions) -> Result<(), SocketError> {
        let transport = self.settings.transport(options, false)?;
        if port == 0 {
            return Err(SocketError::Other("port 0 cannot be listened on".to_owned()));
        }
        if self.listeners.contains_key(&port) {
            return Err(SocketError::Taken(port));
        }
        let mut config = self.server.clone();
        config.transport_config(transport);
        self.listeners.insert(port, Arc::new(config));
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
        let transport = self.settings.transport(options, true)?;
        let family = if remote.is_ipv4() { "IPv4" } else { "IPv6" };
        let address = self.addresses.iter().find(|address| address.is_ipv4() == remote.is_ipv4());
        let address = *address.ok_or(SocketError::NoAddress(family))?;
        let by_ends = &self.by_ends;
        let free = |port: &u16| !by_ends.contains_key(&(SocketAddr::new(address, *port), remote));
        let port = ports::choose(&mut self.stream, free).ok_or(SocketError::Ports(remote))?;
        let mut config = ClientConfig::new(self.client.clone());
        config
            .transport_config(transport)
            .token_store(Arc::new(NoneTokenStore))
            .initial_dst_cid_provider(Arc::new(random::connection_id));
        let (at, endpoint) = (self.instant(now), &mut self.endpoint);
        let made = random::with(&mut self.stream, || endpoint.connect(at, config, remote, "warpline"));
        let made =
            made.map_err(|error| SocketError::Other(format!("cannot connect to {remote}: {error}")))?;
        Ok(self.add(now, made, (SocketAddr::new(address, port), remote), false))
    }

    fn local_address(&self, socket: SocketId) -> Option<SocketAddr> {
        let connection = self.connections.get(&socket)?;
        (connection.stage != Stage::Ended).then_some(connection.ends.0)
    }

    fn write(&mut self, _now: Timestamp, socket: SocketId, bytes: &[u8]) -> usize {
        let Some(connection) = self.of_application(socket) else { return 0 };
        let taken = connection.write(bytes);
        self.mark_ready(socket);
        taken
    }

    fn read(&mut self, now: Timestamp, socket: SocketId, buffer: &mut [u8]) -> usize {
        let at = self.instant(now);
        let Some(connection) = self.connections.get_mut(&socket) else { return 0 };
        if connection.stage == Stage::Ended {
            return 0;
        }
        let (taken, transmits) = connection.read(at, buffer, &mut self.events);
        if transmits {
            self.mark_ready(socket);
        }
        taken
    }

    fn close(&mut self, now: Timestamp, socket: SocketId) {
        let at = self.instant(now);
        let Some(connection) = self.connections.get_mut(&socket) else { return };
        connection.close(at, &mut self.events);
        self.mark_ready(socket);
    }

    fn abort(&mut self, now: Timestamp, socket: SocketId) {
        let at = self.instant(now);
        let Some(connection) = self.connections.get_mut(&socket) else { return };
        connection.abort(at, &mut self.events);
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
        let connection = self.connections.get(&socket)?;
        (connection.stage != Stage::Ended).then(|| connection.info())
    }
}
