//! Hosts of this process whose packets are real: simulated hosts that meet programs or stacks, and transport stacks.
//!
//! What a flow's application wants comes as [`Order`]s from the simulated world; what becomes of its connections is told to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use warpline_core::{FlowId, Streams, TimerId, Timestamp};
use warpline_live::ip::{SCTP, TCP, UDP};
use warpline_live::wire::{HostConfig, ModelHost, Service, Stack};
use warpline_net::Port;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{App, Expanded, Protocol, Scenario, Traffic};
use warpline_stacks::stack::{Builder, Place, SocketOptions};

use super::Sent;
use super::foreign::Foreign;
use super::wire_host::{Event, Name, Settings, WireHost};
use crate::hosts::wire::{Ended, Meets, OpenConnections, Order};
use crate::hosts::{End, ModelHosts};
use crate::run::RunError;

/// One host.
#[derive(Debug)]
struct Model {
    node: u32,
    /// The protocol of its flows' datagrams, as IP numbers it.
    protocol: u8,
    host: WireHost,
    timer: TimerId,
    connections: BTreeMap<Name, Session>,
    /// The flow behind each port that is listened on.
    services: BTreeMap<u16, FlowId>,
    /// It may have something to send, or to tell: it is in the queue.
    awake: bool,
}

/// A connection of a flow.
#[derive(Clone, Copy, Debug)]
struct Session {
    endpoint: TimerId,
    flow: FlowId,
    local: SocketAddr,
    /// The other end, if this one has connected. Two connections may have the same local socket.
    remote: Option<SocketAddr>,
    /// Whether this end sends the flow's data.
    sends: bool,
    established: bool,
}

/// One end of a flow's connections.
#[derive(Debug)]
struct Side {
    /// The host, among those of this process.
    model: usize,
    settings: Settings,
}

/// How a flow goes over the wire.
#[derive(Debug)]
struct Meeting {
    flow: FlowId,
    meets: Meets,
    port: u16,
    class: u8,
    /// The ends that are here: that of `from`, and that of `to`.
    sides: [Option<Side>; 2],
    /// The addresses of both ends.
    addresses: [IpAddr; 2],
    /// The end that listens, if it is here.
    listens: Option<usize>,
}

impl Meeting {
    fn paired(&self) -> bool {
        self.meets == Meets::Host
    }
}

/// Sends a datagram of a node.
pub(in crate::run) type Send<'a> = dyn FnMut(&Models, u32, &[u8], &mut Port<'_>) + 'a;

/// All of them.
#[derive(Debug, Default)]
pub(in crate::run) struct Models {
    models: Vec<Model>,
    by_node: BTreeMap<u32, usize>,
    by_timer: BTreeMap<TimerId, usize>,
    by_endpoint: BTreeMap<TimerId, (usize, Name)>,
    meetings: BTreeMap<FlowId, Meeting>,
    /// Flows whose connections keep records.
    recorded: BTreeSet<FlowId>,
    /// Whose packets those of a connection are, and their class: by the end that has connected, and the other.
    connected: BTreeMap<(u8, SocketAddr, SocketAddr), (FlowId, u8)>,
    /// Whose packets those from and to a socket that listens here are, and their class.
    services: BTreeMap<(u8, SocketAddr), (FlowId, u8)>,
    /// Connections that one host here has begun and that have not come to the other: by the end that connects and the other, the end to be.
    coming: BTreeMap<(SocketAddr, SocketAddr), (FlowId, End, crate::hosts::app::Exchange)>,
    /// Hosts that are awake.
    queue: VecDeque<usize>,
    out: Vec<u8>,
    mtu: u32,
}

fn fail(flow: &str, error: &dyn std::fmt::Display) -> RunError {
    RunError::Build(format!("flow {flow}: {error}"))
}

impl Models {
    /// The stacks of a scenario, and the hosts that the flows of `world` need. `mtu` is what a node's interface takes.
    ///
    /// # Errors
    /// If a stack cannot be made, or a flow's options are not valid on the wire.
    pub(in crate::run) fn build(
        world: &mut ModelHosts,
        (scenario, expanded): (&Scenario, &Expanded),
        plan: &AddressPlan,
        mtu: impl Fn(u32) -> u32,
    ) -> Result<Self, RunError> {
        let streams = Streams::new(scenario.seed);
        let mut models = Models::default();
        let mut builder = Builder::new(scenario.base());
        for host in scenario.host.iter().filter(|host| host.traffic() == Traffic::Stack) {
            let Some(node) = expanded.nodes.find(&host.name) else { continue };
            let (v4, v6) = plan.of(node as usize);
            let stream = streams.stream(&format!("host.{}.stack", host.name));
            let place = Place { addresses: vec![v4.into(), v6.into()], mtu: mtu(node), stream };
            let made = builder
                .build(&host.endpoint, place)
                .map_err(|error| RunError::Build(format!("host {}: {error}", host.name)))?;
            let kind = host.endpoint.about().name;
            let stack = made.ok_or_else(|| {
                RunError::Build(format!("host {}: this build of Warpline has no {kind}", host.name))
            })?;
            let foreign = WireHost::Stack(Box::new(Foreign::new(stack)));
            let protocol = match host.endpoint.about().protocol {
                Protocol::Tcp => TCP,
                Protocol::Quic => UDP,
                Protocol::Sctp => SCTP,
            };
            models.add(world, (node, mtu(node), protocol), foreign);
        }
        for index in 0..world.flows.len() {
            let spec = world.flows[index].spec.clone();
            let Some(wire) = spec.wire else { continue };
            let flow = FlowId(index as u32);
            let running = world.flows[index].running.as_ref();
            let at_receiver = running.is_some_and(|running| running.app.is_at_receiver());
            let ends = [&spec.from, &spec.to];
            let here = match wire.meets {
                Meets::Program => [true, false],
                Meets::Sender | Meets::Users(..) => [false, true],
                Meets::Host => [true, true],
            };
            let service = match wire.meets {
                Meets::Program | Meets::Host => Service::Driven,
                Meets::Users(App::Echo, _) => Service::Echo,
                Meets::Users(App::Source, bytes) => Service::Source { bytes },
                Meets::Users(App::Http, size) => Service::Http { size },
                Meets::Sender | Meets::Users(..) => Service::Discard,
            };
            let mut sides = [None, None];
            for (side, config) in [(0, &spec.config.0), (1, &spec.config.1)] {
                if !here[side] {
                    continue;
                }
                let (node, name) = (ends[side].0.0, &ends[side].1);
                let model = match models.by_node.get(&node) {
                    Some(&model) => model,
                    None => {
                        let (v4, v6) = plan.of(node as usize);
                        let config =
                            HostConfig { mtu: mtu(node), ..HostConfig::new(vec![v4.into(), v6.into()]) };
                        let stream = streams.stream(&format!("host.{name}.wire"));
                        let host =
                            ModelHost::new(config, stream).map_err(|error| fail(&spec.name, &error))?;
                        models.add(world, (node, mtu(node), TCP), WireHost::Model(Box::new(host)))
                    }
                };
                let sends = side == 0 && wire.sends();
                let settings = Settings {
                    tcp: Stack {
                        tcp: (**config).clone(),
                        controller: spec.controller.clone(),
                        recording: spec.record_tcp,
                        latency_log: spec.record_latency && (sends || !wire.paired()),
                        dscp: spec.marking.dscp,
                        verify: wire.is_checked(),
                    },
                    options: SocketOptions { cc: spec.socket_cc.clone().filter(|_| side == 0) },
                    service,
                    checks: wire.is_checked(),
                };
                sides[side] = Some(Side { model, settings });
            }
            let addresses = ends.map(|(node, _)| {
                let (v4, v6) = plan.of(node.index());
                if wire.ipv6 { v6.into() } else { v4.into() }
            });
            let listens = match wire.meets {
                Meets::Program => None,
                Meets::Sender | Meets::Users(..) => Some(1),
                Meets::Host => Some(if at_receiver { 0 } else { 1 }),
            };
            let meeting = Meeting {
                flow,
                meets: wire.meets,
                port: wire.port,
                class: spec.marking.class,
                sides,
                addresses,
                listens,
            };
            models.meetings.insert(flow, meeting);
            if spec.record_tcp || spec.record_latency {
                models.recorded.insert(flow);
            }
        }
        models.listen_to_hosts(world)?;
        models.claim_services(plan);
        Ok(models)
    }

    /// Adds a host: its node, MTU, and the protocol of its flows' datagrams. Returns its index.
    fn add(
        &mut self,
        world: &mut ModelHosts,
        (node, mtu, protocol): (u32, u32, u8),
        host: WireHost,
    ) -> usize {
        let (index, timer) = (self.models.len(), world.add_timer());
        self.by_node.insert(node, index);
        self.by_timer.insert(timer, index);
        self.mtu = self.mtu.max(mtu);
        let (connections, services) = (BTreeMap::new(), BTreeMap::new());
        self.models.push(Model { node, protocol, host, timer, connections, services, awake: false });
        index
    }

    /// Lets hosts listen for each other, from the beginning.
    fn listen_to_hosts(&mut self, world: &ModelHosts) -> Result<(), RunError> {
        for meeting in self.meetings.values().filter(|meeting| meeting.paired()) {
            let Some(side) = meeting.listens.and_then(|side| meeting.sides[side].as_ref()) else { continue };
            let model = &mut self.models[side.model];
            let listening = model.host.listen(Timestamp::ZERO, meeting.port, &side.settings);
            listening.map_err(|error| fail(&world.flows[meeting.flow.index()].spec.name, &error))?;
            model.services.insert(meeting.port, meeting.flow);
        }
        Ok(())
    }

    /// Marks the services' packets as theirs, from the beginning: a SYN comes before there is a connection.
    fn claim_services(&mut self, plan: &AddressPlan) {
        for meeting in self.meetings.values() {
            let Some(side) = meeting.listens.and_then(|side| meeting.sides[side].as_ref()) else { continue };
            let &Model { node, protocol, .. } = &self.models[side.model];
            let (v4, v6) = plan.of(node as usize);
            for address in [IpAddr::from(v4), v6.into()] {
                let socket = (protocol, SocketAddr::new(address, meeting.port));
                self.services.insert(socket, (meeting.flow, meeting.class));
            }
        }
    }

    /// The largest datagram that one of them sends, in bytes.
    pub(in crate::run) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Their nodes.
    pub(in crate::run) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.models.iter().map(|model| model.node)
    }

    /// The pairs of them that talk to each other.
    pub(in crate::run) fn pairs(&self) -> BTreeSet<(u32, u32)> {
        let node = |side: &Side| self.models[side.model].node;
        let pair = |meeting: &Meeting| match &meeting.sides {
            [Some(from), Some(to)] => Some((node(from), node(to))),
            _ => None,
        };
        self.meetings.values().filter_map(pair).collect()
    }

    /// The hosts whose stacks have failed, as messages. `name` gives the name of a node.
    pub(in crate::run) fn failures<'a>(&self, name: impl Fn(u32) -> &'a str) -> Vec<String> {
        let failed = |model: &Model| {
            let why = model.host.failure()?;
            Some(format!("the stack of host {} has failed: {why}", name(model.node)))
        };
        self.models.iter().filter_map(failed).collect()
    }

    /// Whether a node is one of them.
    pub(in crate::run) fn has(&self, node: u32) -> bool {
        self.by_node.contains_key(&node)
    }

    /// Whether only its packets tell what a node has sent on a flow: it is a stack that sends the flow's data.
    pub(in crate::run) fn is_told_by_packets(&self, flow: FlowId, node: u32) -> bool {
        let Some(side) = self.meetings.get(&flow).and_then(|meeting| meeting.sides[0].as_ref()) else {
            return false;
        };
        let model = &self.models[side.model];
        model.node == node && model.host.is_stack()
    }

    /// Whose packet a datagram is, and its class, if it is one of a flow's.
    pub(in crate::run) fn owner(&self, datagram: &[u8]) -> Option<(FlowId, u8)> {
        if self.services.is_empty() && self.connected.is_empty() {
            return None;
        }
        let inner = warpline_live::ip::quoted(datagram)?;
        let &[a, b, c, d] = inner.payload.first_chunk::<4>()?;
        let to = SocketAddr::new(inner.destination, u16::from_be_bytes([c, d]));
        let from = SocketAddr::new(inner.source, u16::from_be_bytes([a, b]));
        let connected = |here, there| self.connected.get(&(inner.protocol, here, there));
        let service = |socket| self.services.get(&(inner.protocol, socket));
        let found = connected(to, from).or_else(|| connected(from, to));
        found.or_else(|| service(to)).or_else(|| service(from)).copied()
    }

    /// Puts a host into the queue of those that are awake.
    fn wake(&mut self, index: usize) {
        if !std::mem::replace(&mut self.models[index].awake, true) {
            self.queue.push_back(index);
        }
    }

    /// A datagram has come to a node that is one of them.
    pub(in crate::run) fn handle_datagram(
        &mut self,
        now: Timestamp,
        node: u32,
        bytes: &[u8],
        world: &mut ModelHosts,
        port: &mut Port<'_>,
    ) {
        let Some(&index) = self.by_node.get(&node) else { return };
        self.wake(index);
        let model = &mut self.models[index];
        if let Some((name, progress)) = model.host.handle_datagram(now, bytes)
            && let Some(session) = model.connections.get(&name)
        {
            world.on_progress(now, session.endpoint, progress, port);
        }
    }

    /// A timer has fired. Returns whether it was one of theirs.
    pub(in crate::run) fn handle_timeout(&mut self, now: Timestamp, timer: TimerId) -> bool {
        let Some(&index) = self.by_timer.get(&timer) else { return false };
        self.models[index].host.handle_timeout(now);
        self.wake(index);
        true
    }

    /// Does what the flows want, and hands each datagram that is to be sent to `send`, with the node that sends it.
    pub(in crate::run) fn settle(
        &mut self,
        now: Timestamp,
        world: &mut ModelHosts,
        port: &mut Port<'_>,
        send: &mut Send<'_>,
    ) {
        loop {
            for order in world.take_orders() {
                self.obey(now, order, world, port);
            }
            let Some(index) = self.queue.pop_front() else { return };
            let mut out = std::mem::take(&mut self.out);
            while self.models[index].host.poll_transmit(now, &mut out) {
                send(self, self.models[index].node, &out, port);
            }
            self.out = out;
            let model = &mut self.models[index];
            model.awake = false;
            let deadline = model.host.poll_timeout();
            if deadline.is_set() {
                port.set_timer(model.timer, deadline);
            }
            while let Some(event) = self.models[index].host.poll_event() {
                self.tell(now, index, event, world, port);
            }
            let model = &mut self.models[index];
            while let Some((name, progress)) = model.host.poll_progress() {
                if let Some(session) = model.connections.get(&name) {
                    world.on_progress(now, session.endpoint, progress, port);
                }
            }
        }
    }

    fn obey(&mut self, now: Timestamp, order: Order, world: &mut ModelHosts, port: &mut Port<'_>) {
        match order {
            Order::Open { flow, endpoint, end, exchange } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                let Some(side) = &meeting.sides[end.side()] else { return };
                let (paired, class) = (meeting.paired(), meeting.class);
                let remote = SocketAddr::new(meeting.addresses[1 - end.side()], meeting.port);
                let index = side.model;
                match self.models[index].host.connect(now, remote, &side.settings) {
                    Err(why) => world.on_wire_closed(now, endpoint, Err(why), port),
                    Ok((name, local)) => {
                        let (remote_end, sends) = (Some(remote), end.sends());
                        let session =
                            Session { endpoint, flow, local, remote: remote_end, sends, established: false };
                        self.models[index].connections.insert(name, session);
                        let key = (self.models[index].protocol, local, remote);
                        self.connected.insert(key, (flow, class));
                        self.by_endpoint.insert(endpoint, (index, name));
                        if paired {
                            self.coming.insert((local, remote), (flow, end.other(), exchange));
                        }
                        self.wake(index);
                    }
                }
            }
            Order::Write { endpoint, bytes } => {
                self.command(endpoint, |host, name| host.write(now, name, bytes));
            }
            Order::WriteOn { endpoint } => self.command(endpoint, |host, name| host.write_on(now, name)),
            Order::Close { endpoint } => self.command(endpoint, |host, name| host.close(now, name)),
            Order::Listen { flow } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                let Some(side) = meeting.listens.and_then(|side| meeting.sides[side].as_ref()) else {
                    return;
                };
                let model = &mut self.models[side.model];
                // No two services have a port (the scenario is checked), and the options have been.
                if model.host.listen(now, meeting.port, &side.settings).is_ok() {
                    model.services.insert(meeting.port, flow);
                }
            }
            Order::Shut { flow } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                let Some(side) = meeting.listens.and_then(|side| meeting.sides[side].as_ref()) else {
                    return;
                };
                self.models[side.model].host.stop_listening(now, meeting.port);
            }
        }
    }

    fn command(&mut self, endpoint: TimerId, action: impl FnOnce(&mut WireHost, Name)) {
        if let Some(&(index, name)) = self.by_endpoint.get(&endpoint) {
            action(&mut self.models[index].host, name);
            self.wake(index);
        }
    }

    /// A connection has come to a port that is listened on. Returns the session; none if nobody expects it.
    fn accept(
        &mut self,
        now: Timestamp,
        (flow, local, remote): (FlowId, SocketAddr, Option<SocketAddr>),
        world: &mut ModelHosts,
    ) -> Option<Session> {
        let meeting = self.meetings.get(&flow)?;
        if meeting.paired() {
            let (flow, end, exchange) = self.coming.remove(&(remote?, local))?;
            let endpoint = world.accept_paired(flow, end, exchange);
            let sends = end.sends();
            return Some(Session { endpoint, flow, local, remote: None, sends, established: true });
        }
        let sends = world.flows[flow.index()].spec.wire.is_some_and(|wire| wire.sends());
        let endpoint = world.accept(now, flow);
        Some(Session { endpoint, flow, local, remote: None, sends, established: true })
    }

    fn tell(
        &mut self,
        now: Timestamp,
        index: usize,
        event: Event,
        world: &mut ModelHosts,
        port: &mut Port<'_>,
    ) {
        match event {
            Event::Opened { name, local, remote } => {
                let model = &mut self.models[index];
                if let Some(session) = model.connections.get_mut(&name) {
                    session.established = true;
                } else if let Some(&flow) = model.services.get(&local.port())
                    && let Some(session) = self.accept(now, (flow, local, remote), world)
                {
                    let model = &mut self.models[index];
                    model.connections.insert(name, session);
                    self.by_endpoint.insert(session.endpoint, (index, name));
                    if let Some(progress) = model.host.progress(name) {
                        world.on_progress(now, session.endpoint, progress, port);
                    }
                }
            }
            Event::Closed { name, mut gone } => {
                let model = &mut self.models[index];
                let Some(session) = model.connections.remove(&name) else { return };
                self.by_endpoint.remove(&session.endpoint);
                if let Some(remote) = session.remote {
                    self.connected.remove(&(model.protocol, session.local, remote));
                    self.coming.remove(&(session.local, remote));
                }
                if let Some(connection) = &mut gone.connection {
                    world.drain_wire(session.endpoint, connection);
                }
                let paired = self.meetings.get(&session.flow).is_some_and(Meeting::paired);
                let ended = Ended {
                    outcome: gone.outcome,
                    established: session.established,
                    differences: gone.differences,
                    progress: gone.progress,
                    totals: gone.totals(session.sends, paired),
                };
                world.on_wire_closed(now, session.endpoint, Ok(ended), port);
            }
        }
    }

    /// Tells the world what all connections have done, and hands over their records. `sent` is what the packets of a flow say.
    pub(in crate::run) fn report(&mut self, world: &mut ModelHosts, sent: impl Fn(FlowId) -> Sent) {
        let mut readings: BTreeMap<FlowId, OpenConnections> =
            self.meetings.keys().map(|&flow| (flow, OpenConnections::default())).collect();
        for model in &self.models {
            for (&name, session) in &model.connections {
                let Some(reading) = readings.get_mut(&session.flow) else { continue };
                let paired = self.meetings.get(&session.flow).is_some_and(Meeting::paired);
                model.host.add_to(name, session.sends, paired, reading);
                // Between two hosts here, one is always under way.
                reading.unanswered |= !session.established && !paired;
            }
        }
        for (flow, mut reading) in readings {
            let Some(meeting) = self.meetings.get(&flow) else { continue };
            let stack = |side: &Side| self.models[side.model].host.is_stack();
            // A program sends, or a stack, which does not tell.
            if meeting.sides[0].as_ref().is_none_or(stack) {
                let Sent { packets, bytes, again, lost } = sent(flow);
                reading.totals.sent_packets += packets;
                reading.totals.sent_bytes += bytes;
                reading.totals.retransmitted_packets += again;
                reading.totals.lost_packets += lost;
            }
            world.set_reading(flow, reading);
        }
    }

    /// Hands over the records of all connections.
    pub(in crate::run) fn drain(&mut self, world: &mut ModelHosts) {
        let Models { models, recorded, .. } = self;
        // It is called often, and mostly no flow is recorded.
        if recorded.is_empty() {
            return;
        }
        for model in models {
            for (&name, session) in
                model.connections.iter().filter(|(_, session)| recorded.contains(&session.flow))
            {
                model.host.drive(name, |connection| world.drain_wire(session.endpoint, connection));
            }
        }
    }

    /// The measured part begins.
    pub(in crate::run) fn end_warmup(&mut self) {
        for model in &mut self.models {
            for &name in model.connections.keys() {
                model.host.drive(name, |connection| connection.reset_extremes());
            }
        }
    }
}
