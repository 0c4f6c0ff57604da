//! A simulated host that talks to real ones: many connections with real addresses, in datagrams.
//!
//! Sans-I/O: after [`handle_datagram`](ModelHost::handle_datagram), [`handle_timeout`](ModelHost::handle_timeout) and the application's
//! calls, call [`poll_transmit`](ModelHost::poll_transmit) until it returns false, then [`poll_timeout`](ModelHost::poll_timeout).
//!
//! It follows a path MTU that shrinks (RFC 1191, RFC 8201), but does not notice when it grows again. It resolves no link-layer addresses.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use warpline_core::{Flags, Stream, TimeDelta, Timestamp};
use warpline_transport::cc::Controller;
use warpline_transport::tcp::{Connection, State, TcpConfig};

use super::codec::{self, WireSegment};
use super::options::{HostConfig, HostError, Stack, mss_of};
use super::payload::{PayloadSink, PayloadSource};
use super::report::{ConnectionId, HostCounters, HostEvent, SessionReport};
use super::service::{Service, UdpService, Worker};
use super::session::{FourTuple, Session};
use super::translate::{self, Incoming, Translator};
use super::udp;
use crate::checksum::{fold, sum};
use crate::icmp::{self, Message, Problem};
use crate::ip::{self, ICMP, ICMPV6, IpDatagram, IpHeader, TCP, UDP};
use crate::reassembly::Reassembly;
use crate::router;

/// Most answers without a connection that wait to be sent.
const MAX_ANSWERS: usize = 256;
/// Most pending events; the oldest are dropped.
const MAX_EVENTS: usize = 4096;
/// Burst of ICMP errors.
const ICMP_BURST: u64 = 50;
/// Bytes of memory counted for a connection besides its payload.
const OVERHEAD: u64 = 4096;
/// Smallest credible MTUs: Linux's (`net.ipv4.route.min_pmtu`), and that of IPv6 (RFC 8200 section 5).
const LEAST_MTU_V4: u32 = 552;
const LEAST_MTU_V6: u32 = 1280;
/// Most paths whose MTU is remembered.
const MAX_PATHS: usize = 1024;
/// First port for outgoing connections (RFC 6335 section 6).
const EPHEMERAL: u16 = 49_152;

/// A simulated host.
#[derive(Debug)]
pub struct ModelHost {
    config: HostConfig,
    stream: Stream,
    listeners: BTreeMap<u16, (Service, Stack)>,
    udp: BTreeMap<u16, UdpService>,
    slots: Vec<(u32, Option<Box<Session>>)>,
    free: Vec<u32>,
    by_tuple: BTreeMap<FourTuple, u32>,
    /// Connections that may have something to send.
    ready: VecDeque<u32>,
    timers: BTreeSet<(Timestamp, u32)>,
    answers: VecDeque<Vec<u8>>,
    events: VecDeque<HostEvent>,
    counters: HostCounters,
    half_open: usize,
    memory: u64,
    /// When the next ICMP error would be sent at a steady rate.
    icmp_at: Timestamp,
    identification: u16,
    fragments: Reassembly,
    /// MTUs of paths that are narrower than the host's own link, by destination.
    paths: BTreeMap<IpAddr, u32>,
}

impl ModelHost {
    /// A host. Initial sequence numbers, ports and timestamps' offsets are drawn from `stream`.
    ///
    /// # Errors
    /// If the TCP options are invalid, or there is no address.
    pub fn new(config: HostConfig, stream: Stream) -> Result<Self, HostError> {
        if config.addresses.is_empty() {
            return Err(HostError::NoAddress("IP"));
        }
        let host = ModelHost {
            config,
            stream,
            listeners: BTreeMap::new(),
            udp: BTreeMap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            by_tuple: BTreeMap::new(),
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            counters: HostCounters::default(),
            half_open: 0,
            memory: 0,
            icmp_at: Timestamp::ZERO,
            identification: 0,
            fragments: Reassembly::default(),
            paths: BTreeMap::new(),
        };
        host.check(&host.config.tcp)?;
        Ok(host)
    }

    /// Checks whether these TCP options are valid here.
    fn check(&self, tcp: &TcpConfig) -> Result<(), HostError> {
        for address in &self.config.addresses {
            for looks in [false, true] {
                self.config.tcp_for(tcp, address.is_ipv6(), self.config.mtu, looks).validate()?;
            }
        }
        Ok(())
    }

    // ---- Calls of the application ----

    /// Listens on a TCP port of all addresses.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn listen(&mut self, port: u16, service: Service) -> Result<(), HostError> {
        self.listen_with(port, service, self.config.stack())
    }

    /// Like [`listen`](Self::listen), with TCP settings of its own.
    ///
    /// # Errors
    /// If the port is taken, or the TCP options are invalid.
    pub fn listen_with(&mut self, port: u16, service: Service, stack: Stack) -> Result<(), HostError> {
        self.check(&stack.tcp)?;
        match self.listeners.entry(port) {
            Entry::Occupied(_) => Err(HostError::Taken(port)),
            Entry::Vacant(place) => {
                place.insert((service, stack));
                Ok(())
            }
        }
    }

    /// Stops listening on a TCP port; its connections continue.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Receives UDP datagrams on a port.
    ///
    /// # Errors
    /// If the port is taken.
    pub fn listen_udp(&mut self, port: u16, service: UdpService) -> Result<(), HostError> {
        match self.udp.entry(port) {
            Entry::Occupied(_) => Err(HostError::Taken(port)),
            Entry::Vacant(place) => {
                place.insert(service);
                Ok(())
            }
        }
    }

    /// Connects to `remote` and runs `service` there.
    ///
    /// # Errors
    /// Without an address of that family, or if a limit is reached.
    pub fn connect(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        service: Service,
    ) -> Result<ConnectionId, HostError> {
        self.connect_with(now, remote, service, &self.config.stack())
    }

    /// Like [`connect`](Self::connect), with TCP settings of its own.
    ///
    /// # Errors
    /// As for `connect`, or if the TCP options are invalid.
    pub fn connect_with(
        &mut self,
        now: Timestamp,
        remote: SocketAddr,
        service: Service,
        stack: &Stack,
    ) -> Result<ConnectionId, HostError> {
        self.check(&stack.tcp)?;
        let v6 = remote.is_ipv6();
        let mut addresses = self.config.addresses.iter().copied();
        let family = if v6 { "IPv6" } else { "IPv4" };
        let local = addresses.find(|address| address.is_ipv6() == v6).ok_or(HostError::NoAddress(family))?;
        let ports = u64::from(u16::MAX - EPHEMERAL) + 1;
        let first = self.stream.below(ports);
        let tuple = (0..ports)
            .map(|step| FourTuple {
                local,
                local_port: EPHEMERAL + ((first + step) % ports) as u16,
                remote: remote.ip(),
                remote_port: remote.port(),
            })
            .find(|tuple| !self.by_tuple.contains_key(tuple))
            .ok_or(HostError::Ports(remote))?;
        let slot = self.add(now, tuple, service, stack, false).ok_or(HostError::Full)?;
        let id = self.id(slot);
        if let Some(session) = self.session(slot) {
            session.connection.open(now);
        }
        self.wake(slot);
        Ok(id)
    }

    /// The state machine of an open connection.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection<Controller>> {
        self.named(id).map(|session| &session.connection)
    }

    /// The addresses of an open connection: here, and there.
    pub fn ends(&self, id: ConnectionId) -> Option<(SocketAddr, SocketAddr)> {
        self.named(id).map(|session| session.tuple.ends())
    }

    /// Runs `action` on an open connection, which may then have something to send. `None` if there is no such connection.
    pub fn drive<R>(
        &mut self,
        id: ConnectionId,
        action: impl FnOnce(&mut Connection<Controller>) -> R,
    ) -> Option<R> {
        let done = action(&mut self.named_mut(id)?.connection);
        self.wake(id.slot);
        Some(done)
    }

    /// What an open connection has carried.
    pub fn report(&self, id: ConnectionId) -> Option<SessionReport> {
        self.named(id).map(Session::report)
    }

    /// Also passes what a connection receives to `sink`. Returns whether there is such a connection.
    pub fn set_sink(&mut self, id: ConnectionId, sink: Box<dyn PayloadSink>) -> bool {
        self.named_mut(id).map(|session| session.sink = Some(sink)).is_some()
    }

    /// Takes the payload of a [`Service::Source`] from `source`; to be called before anything is sent. Returns whether there is
    /// such a connection.
    pub fn set_source(&mut self, id: ConnectionId, source: Box<dyn PayloadSource>) -> bool {
        self.named_mut(id).map(|session| session.worker.source = source).is_some()
    }

    /// Closes a connection: written data is still sent.
    pub fn close(&mut self, id: ConnectionId) {
        if let Some(session) = self.named_mut(id) {
            session.worker.close(&mut session.connection);
            self.wake(id.slot);
        }
    }

    /// Resets a connection.
    pub fn abort(&mut self, now: Timestamp, id: ConnectionId) {
        if let Some(session) = self.named_mut(id) {
            session.connection.abort(now);
            self.wake(id.slot);
        }
    }

    /// The next event since the last call; call until `None`.
    pub fn poll_event(&mut self) -> Option<HostEvent> {
        self.events.pop_front()
    }

    /// Largest datagram that it sends, in bytes.
    pub fn mtu(&self) -> u32 {
        self.config.mtu
    }

    /// Counters.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// Number of connections.
    pub fn connections(&self) -> usize {
        self.by_tuple.len()
    }

    // ---- Receiving ----

    /// Handles a datagram, from the IP header on. Returns the connection that it was for.
    pub fn handle_datagram(&mut self, now: Timestamp, bytes: &[u8]) -> Option<ConnectionId> {
        self.counters.received += 1;
        let Ok(datagram) = ip::parse(bytes) else {
            self.counters.malformed += 1;
            return None;
        };
        let (source, destination) = (datagram.header.source, datagram.header.destination);
        let addresses = &self.config.addresses;
        if !addresses.contains(&destination) || addresses.contains(&source) || !icmp::is_single(source) {
            self.counters.not_ours += 1;
            return None;
        }
        if datagram.fragment.is_none() {
            return self.on_datagram(now, &datagram);
        }
        let whole = self.fragments.add(now, datagram.bytes)?;
        self.on_datagram(now, &ip::parse(&whole).ok()?)
    }

    /// Handles a complete datagram for this host.
    fn on_datagram(&mut self, now: Timestamp, datagram: &IpDatagram<'_>) -> Option<ConnectionId> {
        let read = match datagram.header.protocol {
            TCP => codec::parse(datagram)
                .map(|(wire, payload)| self.on_tcp(now, &datagram.header, &wire, payload)),
            UDP => udp::parse(datagram).map(|(header, payload)| {
                self.on_udp(now, datagram, header, payload);
                None
            }),
            ICMP | ICMPV6 => icmp::parse(datagram).map(|message| {
                self.on_icmp(now, datagram, message);
                None
            }),
            _ => {
                self.complain(now, datagram, Problem::ProtocolUnreachable);
                Ok(None)
            }
        };
        self.counters.malformed += u64::from(read.is_err());
        read.ok().flatten()
    }

    fn on_icmp(&mut self, now: Timestamp, datagram: &IpDatagram<'_>, message: Message<'_>) {
        match message {
            Message::EchoRequest { .. } => {
                let id = self.next_identification();
                if let Some(reply) = icmp::echo_reply(datagram, id) {
                    self.answer(reply);
                }
            }
            Message::Error { problem, quoted } => self.on_error(now, problem, quoted),
            Message::EchoReply { .. } | Message::Other { .. } => {}
        }
    }

    /// Handles an ICMP error about a segment of ours. It is believed if the segment is outstanding (RFC 5927 section 4).
    fn on_error(&mut self, now: Timestamp, problem: Problem, quoted: &[u8]) {
        let Some(quoted) = ip::quoted(quoted).filter(|quoted| quoted.protocol == TCP) else { return };
        let Some(&[a, b, c, d, e, f, g, h]) = quoted.payload.first_chunk::<8>() else { return };
        let tuple = FourTuple {
            local: quoted.source,
            local_port: u16::from_be_bytes([a, b]),
            remote: quoted.destination,
            remote_port: u16::from_be_bytes([c, d]),
        };
        let Some(&slot) = self.by_tuple.get(&tuple) else { return };
        let own = self.config.mtu;
        let Some(session) = self.session(slot) else { return };
        if !session.translator.is_outstanding(u32::from_be_bytes([e, f, g, h])) {
            return;
        }
        match problem {
            Problem::TooBig { mtu } => {
                let v6 = tuple.remote.is_ipv6();
                // No link has a smaller MTU; a router that does not state its own has at least that.
                let mtu = mtu.max(if v6 { LEAST_MTU_V6 } else { LEAST_MTU_V4 });
                if mtu < own {
                    session.connection.reduce_mss(now, mss_of(mtu, v6));
                    if self.paths.len() < MAX_PATHS || self.paths.contains_key(&tuple.remote) {
                        self.paths.insert(tuple.remote, mtu);
                    }
                }
            }
            Problem::TimeExceeded => {}
            Problem::NoRoute
            | Problem::HostUnreachable
            | Problem::ProtocolUnreachable
            | Problem::PortUnreachable => {
                session.connection.on_unreachable(now);
            }
        }
        self.wake(slot);
    }

    /// Reports an error to the sender of a datagram, within the rate limit.
    fn complain(&mut self, now: Timestamp, datagram: &IpDatagram<'_>, problem: Problem) {
        if !self.may_report(now) {
            self.counters.unanswered += 1;
            return;
        }
        let id = self.next_identification();
        if let Some(message) = icmp::error(datagram.header.destination, datagram.bytes, problem, id) {
            self.answer(message);
        }
    }

    fn next_identification(&mut self) -> u16 {
        self.identification = self.identification.wrapping_add(1);
        self.identification
    }

    fn on_udp(&mut self, now: Timestamp, datagram: &IpDatagram<'_>, header: udp::UdpHeader, payload: &[u8]) {
        let (source, destination) = (datagram.header.source, datagram.header.destination);
        match self.udp.get(&header.destination_port).copied() {
            Some(service) => {
                self.counters.udp += 1;
                let back = udp::UdpHeader {
                    source_port: header.destination_port,
                    destination_port: header.source_port,
                };
                let ip = IpHeader::new(destination, source, UDP);
                let mut out = Vec::new();
                if service == UdpService::Echo
                    && header.source_port >= 1024
                    && udp::write(&mut out, &ip, &back, payload).is_ok()
                {
                    self.answer(out);
                }
            }
            None => self.complain(now, datagram, Problem::PortUnreachable),
        }
    }

    /// Whether an ICMP error may be sent now.
    fn may_report(&mut self, now: Timestamp) -> bool {
        let each = TimeDelta::from_nanos(1_000_000_000 / u64::from(self.config.icmp_rate.max(1)));
        let steady = self.icmp_at.max(now);
        let may = self.config.icmp_rate > 0 && steady.saturating_since(now) <= each * ICMP_BURST;
        self.icmp_at = if may { steady + each } else { self.icmp_at };
        may
    }

    fn on_tcp(
        &mut self,
        now: Timestamp,
        header: &IpHeader,
        wire: &WireSegment,
        payload: &[u8],
    ) -> Option<ConnectionId> {
        let tuple = FourTuple {
            local: header.destination,
            local_port: wire.destination_port,
            remote: header.source,
            remote_port: wire.source_port,
        };
        let bare_syn = wire.flags.0 & (Flags::SYN.0 | Flags::ACK.0 | Flags::RST.0) == Flags::SYN.0;
        let mut known = self.by_tuple.get(&tuple).copied();
        if let Some(slot) = known.filter(|_| bare_syn)
            && let Some(session) = self.session(slot)
            && session.connection.state() == State::TimeWait
            && session.translator.is_succeeded_by(wire)
        {
            self.remove(slot);
            known = None;
        }
        let slot = match known {
            Some(slot) => slot,
            None if !bare_syn || !self.listeners.contains_key(&wire.destination_port) => {
                if !wire.flags.contains(Flags::RST) {
                    self.counters.resets += 1;
                    self.answer_segment(tuple, &translate::reset_with_ack(wire, payload.len()));
                }
                return None;
            }
            None => match self.accept(now, tuple) {
                Some(slot) => slot,
                None => {
                    self.counters.syns_dropped += 1;
                    return None;
                }
            },
        };
        let session = self.session(slot)?;
        match session.translator.incoming(now, wire, payload.len()) {
            Incoming::Deliver(segment) => session.handle_segment(now, &segment, payload, header.ecn),
            Incoming::Drop(_) => self.counters.refused += 1,
            Incoming::Acknowledge(_) => {
                let answer = session.translator.acknowledgement(now);
                self.counters.refused += 1;
                self.answer_segment(tuple, &answer);
            }
            Incoming::Reset(answer) => {
                self.counters.refused += 1;
                self.answer_segment(tuple, &answer);
            }
        }
        self.wake(slot);
        Some(self.id(slot))
    }

    fn accept(&mut self, now: Timestamp, tuple: FourTuple) -> Option<u32> {
        let (service, stack) = self.listeners.get(&tuple.local_port)?.clone();
        if self.half_open >= self.config.max_half_open {
            return None;
        }
        self.add(now, tuple, service, &stack, true)
    }

    /// Handles deadlines that have come. Calling this early does nothing.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let idle = self.config.idle;
        while let Some(&(deadline, slot)) = self.timers.first()
            && deadline <= now
        {
            self.timers.pop_first();
            if let Some(session) = self.session(slot) {
                session.timer = Timestamp::NEVER;
                session.handle_timeout(now, idle);
            }
            self.wake(slot);
        }
    }

    // ---- Sending ----

    /// When to call [`handle_timeout`](Self::handle_timeout); [`Timestamp::NEVER`] if nothing is due.
    pub fn poll_timeout(&self) -> Timestamp {
        self.timers.first().map_or(Timestamp::NEVER, |&(deadline, _)| deadline)
    }

    /// Writes the next datagram to send into `out`, replacing its content. Returns whether there was one; call until false.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> bool {
        out.clear();
        if let Some(answer) = self.answers.pop_front() {
            *out = answer;
            self.counters.sent += 1;
            return true;
        }
        while let Some(&slot) = self.ready.front() {
            let id = self.identification;
            if let Some(session) = self.session(slot) {
                if session.transmit(now, out, id) {
                    self.identification = id.wrapping_add(1);
                    self.counters.sent += 1;
                    // The next connection's turn.
                    self.ready.rotate_left(1);
                    return true;
                }
                session.queued = false;
            }
            self.ready.pop_front();
            self.settle(slot);
        }
        false
    }

    /// After a connection has nothing more to send: sets its deadline, reports its events, and removes it if it has ended.
    fn settle(&mut self, slot: u32) {
        let id = self.id(slot);
        let idle = self.config.idle;
        let Some(session) = self.session(slot) else { return };
        let (deadline, before) = (session.deadline(idle), session.timer);
        session.timer = deadline;
        let opened = !session.opened && session.connection.is_established();
        session.opened |= opened;
        let completed = session.half_open && session.connection.is_established();
        session.half_open &= !completed;
        let ended = session.connection.is_closed();
        let (local, remote) = session.tuple.ends();
        if deadline != before {
            self.timers.remove(&(before, slot));
            if deadline.is_set() {
                self.timers.insert((deadline, slot));
            }
        }
        self.half_open -= usize::from(completed);
        if opened {
            self.note(HostEvent::Opened { id, local, remote });
        }
        if ended {
            self.remove(slot);
        }
    }

    // ---- Connections ----

    fn id(&self, slot: u32) -> ConnectionId {
        ConnectionId { slot, generation: self.slots.get(slot as usize).map_or(0, |slot| slot.0) }
    }

    fn session(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)?.1.as_deref_mut()
    }

    fn named(&self, id: ConnectionId) -> Option<&Session> {
        let (generation, session) = self.slots.get(id.slot as usize)?;
        session.as_deref().filter(|_| *generation == id.generation)
    }

    fn named_mut(&mut self, id: ConnectionId) -> Option<&mut Session> {
        let (generation, session) = self.slots.get_mut(id.slot as usize)?;
        session.as_deref_mut().filter(|_| *generation == id.generation)
    }

    /// Adds a connection, if there is room.
    fn add(
        &mut self,
        now: Timestamp,
        tuple: FourTuple,
        service: Service,
        stack: &Stack,
        half_open: bool,
    ) -> Option<u32> {
        let kept = if service.looks() { 2 * self.config.buffer } else { 0 };
        let reserved = OVERHEAD + kept;
        if self.by_tuple.len() >= self.config.max_connections || self.memory + reserved > self.config.memory {
            return None;
        }
        let v6 = tuple.local.is_ipv6();
        let mtu = self.paths.get(&tuple.remote).copied().unwrap_or(self.config.mtu);
        let tcp = self.config.tcp_for(&stack.tcp, v6, mtu, service.looks());
        let controller = (stack.controller)(&tcp);
        let mut connection = match half_open {
            true => Connection::server(tcp, controller),
            false => Connection::client(tcp, controller),
        };
        connection.set_recording(stack.recording);
        connection.set_latency_log(stack.latency_log);
        let random = self.stream.next_u64();
        let translator =
            Translator::new(tuple.local_port, tuple.remote_port, v6, random as u32, (random >> 32) as u32);
        let mut worker = Worker::new(service, &mut connection, self.config.buffer);
        worker.work(&mut connection);
        let session = Box::new(Session {
            tuple,
            connection,
            translator,
            worker,
            sink: None,
            verify: stack.verify,
            dscp: stack.dscp,
            reserved,
            half_open,
            opened: false,
            queued: false,
            heard: now,
            timer: Timestamp::NEVER,
        });
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(place) => place.1 = Some(session),
            None => self.slots.push((0, Some(session))),
        }
        self.memory += reserved;
        self.half_open += usize::from(half_open);
        self.by_tuple.insert(tuple, slot);
        Some(slot)
    }

    fn remove(&mut self, slot: u32) {
        let id = self.id(slot);
        let Some(place) = self.slots.get_mut(slot as usize) else { return };
        let Some(session) = place.1.take() else { return };
        // A holder of the old name finds nothing under it.
        place.0 = place.0.wrapping_add(1);
        self.timers.remove(&(session.timer, slot));
        self.by_tuple.remove(&session.tuple);
        self.memory -= session.reserved;
        self.half_open -= usize::from(session.half_open);
        if session.queued {
            self.ready.retain(|&other| other != slot);
        }
        self.free.push(slot);
        let report = session.report();
        self.note(HostEvent::Closed { id, report, connection: Box::new(session.connection) });
    }

    /// A connection may have something to send.
    fn wake(&mut self, slot: u32) {
        if let Some(session) = self.session(slot)
            && !session.queued
        {
            session.queued = true;
            self.ready.push_back(slot);
        }
    }

    fn note(&mut self, event: HostEvent) {
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// Sends an answer, in fragments if it is larger than the link's MTU.
    fn answer(&mut self, datagram: Vec<u8>) {
        let pieces = if datagram.len() > self.config.mtu as usize {
            let id = self.next_identification();
            router::fragments(&datagram, self.config.mtu, id.into()).unwrap_or_default()
        } else {
            vec![datagram]
        };
        if self.answers.len() + pieces.len() <= MAX_ANSWERS {
            self.answers.extend(pieces);
        } else {
            self.counters.unanswered += 1;
        }
    }

    fn answer_segment(&mut self, tuple: FourTuple, wire: &WireSegment) {
        let mut out = Vec::new();
        let header = IpHeader::new(tuple.local, tuple.remote, TCP);
        if codec::write(&mut out, &header, wire, 0, |_| ()).is_ok() {
            self.answer(out);
        }
    }
}

/// Fuzz target: applies bytes to a host with services. Each piece says how much time passes, and is a TCP segment,
/// UDP datagram, ICMP message or fragment whose checksums are corrected.
///
/// # Panics
/// If the host violates its contract, which is what the fuzzer looks for.
pub fn fuzz_host(bytes: &[u8]) {
    let own = IpAddr::from([192, 0, 2, 1]);
    let config = HostConfig { memory: 16 << 20, ..HostConfig::new(vec![own]) };
    let Ok(mut host) = ModelHost::new(config, warpline_core::Streams::new(1).stream("fuzz")) else { return };
    let services = [
        Service::Echo,
        Service::Discard,
        Service::Source { bytes: Some(5000) },
        Service::Http { size: Some(9) },
    ];
    for (port, service) in (1..).zip(services) {
        let _ = host.listen(port, service);
    }
    let _ = host.listen_udp(1, UdpService::Echo);
    let (mut now, mut out) = (Timestamp::ZERO, Vec::new());
    let mut last = Vec::new();
    for piece in bytes.chunks(48) {
        let [wait, protocol, rest @ ..] = piece else { break };
        now += TimeDelta::from_millis(u64::from(*wait) * 8);
        let protocol = [TCP, TCP, UDP, ICMP][usize::from(protocol & 3)];
        let header = IpHeader::new([192, 0, 2, 2].into(), own, protocol);
        let mut datagram = Vec::new();
        if header.write(&mut datagram, rest.len()).is_ok() {
            datagram.extend_from_slice(rest);
            // An ICMP error is about the last datagram that the host has sent.
            if protocol == ICMP && !last.is_empty() {
                let start = ip::IPV4_HEADER.min(last.len());
                let quoted = rest
                    .iter()
                    .copied()
                    .take(8)
                    .chain(last[..start + 8.min(last.len() - start)].iter().copied());
                let message: Vec<u8> = quoted.collect();
                datagram.clear();
                let _ = header.write(&mut datagram, message.len());
                datagram.extend(message);
            }
            let at = match protocol {
                TCP => Some(36),
                UDP => Some(26),
                _ => Some(22),
            };
            if let Some(place) = at.and_then(|at| datagram.get_mut(at..at + 2)) {
                place.fill(0);
                let pseudo =
                    if protocol == ICMP { 0 } else { header.pseudo_sum(datagram.len() - ip::IPV4_HEADER) };
                let checksum = fold(pseudo + sum(&datagram[ip::IPV4_HEADER..])).to_be_bytes();
                if let Some(place) = at.and_then(|at| datagram.get_mut(at..at + 2)) {
                    place.copy_from_slice(&checksum);
                }
            }
            host.handle_datagram(now, &datagram);
        }
        host.handle_timeout(now);
        let mut sent = 0;
        while host.poll_transmit(now, &mut out) {
            assert!(ip::parse(&out).is_ok(), "{out:?}");
            sent += 1;
            assert!(sent < 10_000, "it sends without end");
            std::mem::swap(&mut last, &mut out);
        }
        assert!(host.poll_timeout() > now, "a deadline that has passed");
        while host.poll_event().is_some() {}
    }
}
