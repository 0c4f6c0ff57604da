//! Simulated hosts that meet programs: their connections, carried by [`ModelHost`]s, between the flows' applications and the network.
//!
//! What a flow's application wants comes as [`Order`]s from the simulated world; what becomes of its connections is told to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use warpline_core::{FlowId, Streams, TimerId, Timestamp};
use warpline_live::wire::{ConnectionId, HostConfig, HostError, HostEvent, ModelHost, Service, Stack};
use warpline_net::Port;
use warpline_scenario::App;
use warpline_scenario::addresses::AddressPlan;
use warpline_transport::cc::Controller;
use warpline_transport::tcp::Connection;

use crate::hosts::ModelHosts;
use crate::hosts::wire::{OpenConnections, Order};
use crate::run::RunError;

/// One host.
#[derive(Debug)]
struct Model {
    node: u32,
    host: ModelHost,
    timer: TimerId,
    connections: BTreeMap<ConnectionId, Session>,
    /// The flow behind each port that programs connect to.
    services: BTreeMap<u16, FlowId>,
    /// It may have something to send, or to tell.
    awake: bool,
}

/// A connection of a flow.
#[derive(Clone, Copy, Debug)]
struct Session {
    endpoint: TimerId,
    flow: FlowId,
    local: SocketAddr,
    established: bool,
}

/// How a flow meets programs.
#[derive(Debug)]
struct Meeting {
    flow: FlowId,
    model: usize,
    /// The program, where the flow connects.
    remote: SocketAddr,
    service: Service,
    port: u16,
    stack: Stack,
    class: u8,
    sends: bool,
    listens: bool,
}

/// Sends a datagram of a node.
pub(in crate::run) type Send<'a> = dyn FnMut(&Models, u32, &[u8], &mut Port<'_>) + 'a;

/// All of them.
#[derive(Debug, Default)]
pub(in crate::run) struct Models {
    models: Vec<Model>,
    by_node: BTreeMap<u32, usize>,
    by_timer: BTreeMap<TimerId, usize>,
    by_endpoint: BTreeMap<TimerId, (usize, ConnectionId)>,
    meetings: BTreeMap<FlowId, Meeting>,
    /// Whose packets those from and to an address and port here are, and their class.
    sockets: BTreeMap<SocketAddr, (FlowId, u8)>,
    out: Vec<u8>,
}

fn fail(flow: &str, error: &HostError) -> RunError {
    RunError::Build(format!("flow {flow}: {error}"))
}

impl Models {
    /// The hosts that the flows of `world` need. `mtu` is what a node's interface takes.
    pub(in crate::run) fn build(
        world: &mut ModelHosts,
        plan: &AddressPlan,
        seed: u64,
        mtu: impl Fn(u32) -> u32,
    ) -> Result<Self, RunError> {
        let streams = Streams::new(seed);
        let mut models = Models::default();
        for index in 0..world.flows.len() {
            let spec = &world.flows[index].spec;
            let Some(wire) = spec.wire else { continue };
            let (own, other) = match wire.service {
                Some(_) => (&spec.to, &spec.from),
                None => (&spec.from, &spec.to),
            };
            let (node, name) = (own.0.0, own.1.clone());
            let (v4, v6) = plan.of(node as usize);
            let remote = plan.of(other.0.index());
            let remote: IpAddr = if wire.ipv6 { remote.1.into() } else { remote.0.into() };
            let service = match wire.service {
                None => Service::Driven,
                Some((App::Echo, _)) => Service::Echo,
                Some((App::Source, bytes)) => Service::Source { bytes },
                Some((App::Http, size)) => Service::Http { size },
                Some(_) => Service::Discard,
            };
            let flow = FlowId(index as u32);
            let meeting = Meeting {
                flow,
                model: 0,
                remote: SocketAddr::new(remote, wire.port),
                service,
                port: wire.port,
                stack: Stack {
                    tcp: if wire.service.is_some() {
                        (*spec.config.1).clone()
                    } else {
                        (*spec.config.0).clone()
                    },
                    controller: spec.controller.clone(),
                    recording: spec.record_tcp,
                    latency_log: spec.record_latency,
                    dscp: spec.marking.dscp,
                },
                class: spec.marking.class,
                sends: wire.sends(),
                listens: wire.service.is_some(),
            };
            let flow_name = spec.name.clone();
            let model = match models.by_node.get(&node) {
                Some(&model) => model,
                None => {
                    let config = HostConfig { mtu: mtu(node), ..HostConfig::new(vec![v4.into(), v6.into()]) };
                    let stream = streams.stream(&format!("host.{name}.wire"));
                    let host = ModelHost::new(config, stream).map_err(|error| fail(&flow_name, &error))?;
                    let timer = world.add_timer();
                    models.by_node.insert(node, models.models.len());
                    models.by_timer.insert(timer, models.models.len());
                    models.models.push(Model {
                        node,
                        host,
                        timer,
                        connections: BTreeMap::new(),
                        services: BTreeMap::new(),
                        awake: false,
                    });
                    models.models.len() - 1
                }
            };
            models.meetings.insert(flow, Meeting { model, ..meeting });
        }
        Ok(models)
    }

    /// The largest datagram that one of them sends, in bytes.
    pub(in crate::run) fn mtu(&self) -> u32 {
        self.models.iter().map(|model| model.host.mtu()).max().unwrap_or(0)
    }

    /// Their nodes.
    pub(in crate::run) fn nodes(&self) -> impl Iterator<Item = u32> + '_ {
        self.models.iter().map(|model| model.node)
    }

    /// Whether a node is one of them.
    pub(in crate::run) fn has(&self, node: u32) -> bool {
        self.by_node.contains_key(&node)
    }

    /// Whose packet a datagram is, and its class, if it is one of a flow's.
    pub(in crate::run) fn owner(&self, datagram: &[u8]) -> Option<(FlowId, u8)> {
        if self.sockets.is_empty() {
            return None;
        }
        let inner = warpline_live::ip::quoted(datagram)?;
        let &[a, b, c, d] = inner.payload.first_chunk::<4>()?;
        let ends = [(inner.destination, [c, d]), (inner.source, [a, b])];
        if inner.protocol != warpline_live::ip::TCP {
            return None;
        }
        ends.into_iter().find_map(|(address, port)| {
            self.sockets.get(&SocketAddr::new(address, u16::from_be_bytes(port))).copied()
        })
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
        let model = &mut self.models[index];
        model.awake = true;
        if let Some(id) = model.host.handle_datagram(now, bytes)
            && let Some(session) = model.connections.get(&id)
            && let Some(connection) = model.host.connection(id)
        {
            world.on_progress(now, session.endpoint, connection, port);
        }
    }

    /// A timer has fired. Returns whether it was one of theirs.
    pub(in crate::run) fn handle_timeout(&mut self, now: Timestamp, timer: TimerId) -> bool {
        let Some(&index) = self.by_timer.get(&timer) else { return false };
        self.models[index].host.handle_timeout(now);
        self.models[index].awake = true;
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
            let Some(index) = self.models.iter().position(|model| model.awake) else { return };
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
        }
    }

    fn obey(&mut self, now: Timestamp, order: Order, world: &mut ModelHosts, port: &mut Port<'_>) {
        match order {
            Order::Open { flow, endpoint, exchange } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                let model = &mut self.models[meeting.model];
                let made = model.host.connect_with(now, meeting.remote, meeting.service, &meeting.stack);
                let Ok(id) = made else {
                    world.on_wire_closed(now, endpoint, None, false, port);
                    return;
                };
                model.host.drive(id, |connection| {
                    match exchange.response {
                        None => connection.set_unlimited(true),
                        Some(bytes) => {
                            connection.write(bytes);
                        }
                    }
                    if exchange.close {
                        connection.close();
                    }
                });
                model.awake = true;
                if let Some((local, _)) = model.host.ends(id) {
                    let session = Session { endpoint, flow, local, established: false };
                    model.connections.insert(id, session);
                    self.sockets.insert(local, (flow, meeting.class));
                }
                self.by_endpoint.insert(endpoint, (meeting.model, id));
            }
            Order::Write { endpoint, bytes } => {
                self.drive(endpoint, |connection| {
                    connection.write(bytes);
                });
            }
            Order::Close { endpoint } => self.drive(endpoint, |connection| connection.close()),
            Order::Listen { flow } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                let model = &mut self.models[meeting.model];
                // No two services have a port (the scenario is checked), and the options have been.
                if model.host.listen_with(meeting.port, meeting.service, meeting.stack.clone()).is_ok() {
                    model.services.insert(meeting.port, flow);
                }
            }
            Order::Shut { flow } => {
                let Some(meeting) = self.meetings.get(&flow) else { return };
                self.models[meeting.model].host.stop_listening(meeting.port);
            }
        }
    }

    fn drive(&mut self, endpoint: TimerId, action: impl FnOnce(&mut Connection<Controller>)) {
        if let Some(&(model, id)) = self.by_endpoint.get(&endpoint) {
            self.models[model].host.drive(id, action);
            self.models[model].awake = true;
        }
    }

    fn tell(
        &mut self,
        now: Timestamp,
        index: usize,
        event: HostEvent,
        world: &mut ModelHosts,
        port: &mut Port<'_>,
    ) {
        let model = &mut self.models[index];
        match event {
            HostEvent::Opened { id, local, .. } => {
                if let Some(session) = model.connections.get_mut(&id) {
                    session.established = true;
                } else if let Some(&flow) = model.services.get(&local.port()) {
                    let endpoint = world.accept(now, flow);
                    let session = Session { endpoint, flow, local, established: true };
                    model.connections.insert(id, session);
                    self.by_endpoint.insert(endpoint, (index, id));
                }
            }
            HostEvent::Closed { id, mut connection, .. } => {
                let Some(session) = model.connections.remove(&id) else { return };
                self.by_endpoint.remove(&session.endpoint);
                if !model.services.contains_key(&session.local.port()) {
                    self.sockets.remove(&session.local);
                }
                let established = session.established;
                world.on_wire_closed(now, session.endpoint, Some(&mut connection), established, port);
            }
        }
    }

    /// Marks the services' packets as theirs, from the beginning: a SYN comes before there is a connection.
    pub(in crate::run) fn claim_services(&mut self, plan: &AddressPlan) {
        for meeting in self.meetings.values().filter(|meeting| meeting.listens) {
            let (v4, v6) = plan.of(self.models[meeting.model].node as usize);
            for address in [IpAddr::from(v4), v6.into()] {
                self.sockets.insert(SocketAddr::new(address, meeting.port), (meeting.flow, meeting.class));
            }
        }
    }

    /// Tells the world what all connections have done, and hands over their records. `sent` is what programs have put into a flow: packets,
    /// bytes, and packets again.
    pub(in crate::run) fn report(
        &mut self,
        world: &mut ModelHosts,
        sent: impl Fn(FlowId) -> (u64, u64, u64),
    ) {
        let mut readings: BTreeMap<FlowId, OpenConnections> =
            self.meetings.keys().map(|&flow| (flow, OpenConnections::default())).collect();
        for model in &mut self.models {
            for (&id, session) in &model.connections {
                let Some(reading) = readings.get_mut(&session.flow) else { continue };
                let sends = self.meetings.get(&session.flow).is_some_and(|meeting| meeting.sends);
                if let Some(connection) = model.host.connection(id) {
                    reading.add(connection, sends);
                    reading.unanswered |= !session.established;
                }
            }
        }
        for (flow, mut reading) in readings {
            if self.meetings.get(&flow).is_some_and(|meeting| !meeting.sends) {
                let (packets, bytes, again) = sent(flow);
                reading.totals.sent_packets += packets;
                reading.totals.sent_bytes += bytes;
                reading.totals.retransmitted_packets += again;
            }
            world.set_reading(flow, reading);
        }
    }

    /// Hands over the records of all connections.
    pub(in crate::run) fn drain(&mut self, world: &mut ModelHosts) {
        let recorded: BTreeSet<FlowId> = self
            .meetings
            .values()
            .filter(|meeting| meeting.stack.recording || meeting.stack.latency_log)
            .map(|meeting| meeting.flow)
            .collect();
        for model in &mut self.models {
            for (&id, session) in
                model.connections.iter().filter(|(_, session)| recorded.contains(&session.flow))
            {
                model.host.drive(id, |connection| world.drain_wire(session.endpoint, connection));
            }
        }
    }

    /// The measured part begins.
    pub(in crate::run) fn end_warmup(&mut self) {
        for model in &mut self.models {
            for &id in model.connections.keys() {
                model.host.drive(id, |connection| connection.reset_extremes());
            }
        }
    }
}
