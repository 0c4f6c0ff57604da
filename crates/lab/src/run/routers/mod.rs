//! What the emulated routers and hosts do with live packets.
//!
//! The fate of a packet is known when it is sent: at which router its time to live ends, before which link it is too
//! large, or that it arrives. It is sent on the route to that node, and what is to happen there happens when it arrives. So exactly the
//! links that it crosses, with their queues and losses, act on it.
//!
//! Every node on the path except the last decrements the time to live. Routers, and simulated hosts that talk to no programs, answer
//! pings, report that nothing listens (for ports and protocols; for TCP by a reset), and report packets that they cannot forward. Simulated
//! hosts that talk to programs are in `models`.

mod crossings;
mod foreign;
mod limiter;
mod models;
mod outline;
pub(in crate::run) mod paths;
mod rebind;
mod traffic;
mod wire_host;

use std::collections::BTreeMap;
use std::net::IpAddr;

use warpline_core::record::LinkRecord;
use warpline_core::{Body, Ecn, EndpointId, FlowId, Frame, Packet, TimeDelta, TimerId, Timestamp};
use warpline_live::datagram::Header;
use warpline_live::emulator::{Gate, World};
use warpline_live::icmp::{self, Problem};
use warpline_live::ip::{ICMP, ICMPV6, TCP, UDP};
use warpline_live::pool::Pool;
use warpline_live::port::{Arrival, PortId};
use warpline_live::reassembly::Reassembly;
use warpline_live::wire::translate;
use warpline_live::{datagram, ip, router};
use warpline_net::{Hosts as _, Port};
use warpline_results::{FlowSample, Frames, Opposite};
use warpline_scenario::addresses::AddressPlan;

use crate::hosts::ModelHosts;
use crate::run::course::Measured;
pub(in crate::run) use crossings::Crossings;
use limiter::Limiter;
pub(in crate::run) use models::Models;
pub(in crate::run) use paths::{Door, End, Paths};
pub(in crate::run) use rebind::Nats;
pub(in crate::run) use traffic::{Known, Sent, StreamKey, Traffic};

/// Marks the flow numbers of live packets (a hash of addresses and ports), so that they differ from those of simulated flows.
pub(in crate::run) const LIVE_FLOW: u32 = 1 << 31;

/// Simulated hosts and live traffic in one network.
#[derive(Debug)]
pub(in crate::run) struct LiveWorld {
    pub(in crate::run) hosts: ModelHosts,
    pub(in crate::run) models: Models,
    pub(in crate::run) routers: Routers,
}

/// The flow and the class of a packet.
#[derive(Clone, Copy, Debug, Default)]
struct Label {
    flow: u32,
    class: u8,
    /// Whether the traffic of its flow is counted by such packets.
    counts: bool,
}

impl Label {
    /// The label of a datagram: a flow of the scenario, or a number made from addresses and ports.
    fn of(models: &Models, bytes: &[u8], header: &Header) -> Label {
        match models.owner(bytes) {
            Some((flow, class)) => Label { flow: flow.0, class, counts: true },
            None => Label::unnamed(header),
        }
    }

    /// The label of a datagram that is no flow's of the scenario.
    fn unnamed(header: &Header) -> Label {
        // Ordinary packets have the first class, like flows without a class.
        Label { flow: header.flow | LIVE_FLOW, class: header.class().saturating_sub(1), counts: true }
    }
}

/// The state of a live packet in the network.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    path: u32,
    /// The link of the path that it started on, and the one that it stops before.
    from: u16,
    stop: u16,
    /// Time to live on the link that it started on.
    ttl: u8,
    label: Label,
    /// The identification of the image of a simulated flow's packet, if it is one.
    image: Option<u16>,
}

/// What is for a node of the caller.
enum Left {
    /// A datagram, for a host of this process whose packets are real.
    Datagram(u32),
    /// A packet of a simulated flow.
    Packet(Packet),
}

/// The routers, and the paths between live hosts.
#[derive(Debug)]
pub(in crate::run) struct Routers {
    plan: AddressPlan,
    paths: Paths,
    /// Where datagrams come from and go to: live hosts in the order of their ports, then simulated hosts that talk to programs.
    ends: Vec<End>,
    /// By the number of the port: the addresses that the emulator has for the machines outside behind it.
    gateways: Vec<Option<Vec<IpAddr>>>,
    /// Packets of simulated flows in guests that forward.
    crossings: Crossings,
    /// The index of each node among them.
    places: Vec<Option<usize>>,
    /// The MTU of each node's interface, in bytes.
    mtu: Vec<u32>,
    /// NATs in front of live hosts.
    nats: Nats,
    /// By the number of the frame.
    under_way: Vec<UnderWay>,
    limiter: Limiter,
    /// Fragments that are being reassembled, by node.
    fragments: BTreeMap<u32, Reassembly>,
    /// The traffic between programs.
    pub(in crate::run) traffic: Traffic,
    /// Identification of the last datagram that was made here.
    id: u16,
}

impl Routers {
    /// Routers between `ends`, of which those with ports come first, in order. `gateways` has the addresses of the emulator at each port behind which
    /// are machines outside. `mtu` is the MTU of each node's interface.
    pub(in crate::run) fn new(
        plan: AddressPlan,
        paths: Paths,
        (ends, gateways): (Vec<End>, Vec<Option<Vec<IpAddr>>>),
        (crossings, nats): (Crossings, Nats),
        mtu: Vec<u32>,
    ) -> Self {
        let mut places = vec![None; mtu.len()];
        for (place, end) in ends.iter().enumerate() {
            places[end.node as usize] = Some(place);
        }
        Routers {
            plan,
            paths,
            ends,
            gateways,
            crossings,
            places,
            mtu,
            nats,
            under_way: Vec::new(),
            limiter: Limiter::default(),
            fragments: BTreeMap::new(),
            traffic: Traffic::default(),
            id: 0,
        }
    }

    fn next_id(&mut self) -> u16 {
        self.id = self.id.wrapping_add(1);
        self.id
    }

    /// Handles a datagram from a live host.
    fn arrive(&mut self, arrival: &Arrival, models: &Models, gate: &mut Gate, port: &mut Port<'_>) {
        let host = arrival.port.0 as usize;
        if self.greet(arrival, gate) {
            return gate.release(arrival.handle);
        }
        if self.nats.has(arrival.port) {
            if !self.nats.leave(arrival.at, arrival.port, gate.pool_mut().datagram_mut(arrival.handle)) {
                return gate.release(arrival.handle);
            }
            gate.pool_mut().reread(arrival.handle);
        }
        let bytes = gate.pool().datagram(arrival.handle);
        let destination = ip::addresses(bytes).map(|(_, to)| self.plan.owner(to));
        let header = gate.pool().header(arrival.handle);
        let own = &self.ends[host];
        // A guest that forwards sends other hosts' datagrams, too.
        let forwarded = own.door.is_some()
            && ip::addresses(bytes).is_some_and(|(from, _)| self.plan.owner(from) != Some(own.node));
        let image = self.crossings.recognise(bytes).filter(|_| forwarded);
        let label = match image {
            Some((_, packet)) => Label { flow: packet.flow.0, class: packet.class, counts: false },
            None => Label::of(models, bytes, &header),
        };
        let image = image.map(|(identification, _)| identification);
        if !forwarded {
            let ends = (own.node, destination.flatten());
            self.traffic.on_sent(arrival.at, label.flow, ends, bytes, &header);
        }
        let path = match destination {
            None => None,
            Some(None) => self.paths.nowhere(host),
            Some(Some(node)) => self.paths.there(host, node).or_else(|| self.paths.nowhere(host)),
        };
        match path {
            Some(path) if header.len > self.paths.get(path).mtu(0) && self.is_outside(host) => {
                self.shrink(arrival, path, label, gate, port);
                gate.release(arrival.handle);
            }
            Some(path) => self.set_out(Some(arrival.at), path, 0, (arrival.handle, label, image), gate, port),
            None => gate.release(arrival.handle),
        }
    }

    /// Whether machines outside are behind a port.
    fn is_outside(&self, port: usize) -> bool {
        self.gateways.get(port).is_some_and(Option::is_some)
    }

    /// Answers a datagram for an address of the emulator's own. Returns whether it was one.
    fn greet(&mut self, arrival: &Arrival, gate: &mut Gate) -> bool {
        let host = arrival.port.0 as usize;
        let Some(Some(gateways)) = self.gateways.get(host) else { return false };
        let bytes = gate.pool().datagram(arrival.handle);
        let Some((_, to)) = ip::addresses(bytes).filter(|(_, to)| gateways.contains(to)) else {
            return false;
        };
        let node = self.ends[host].node;
        if let Some(answer) = self.answer(arrival.at, (node, to), bytes) {
            self.return_to(arrival, &answer, gate);
        }
        true
    }

    /// Handles a datagram of a machine outside that is too large for the first link: sends it in fragments, or tells the machine the link's MTU.
    fn shrink(&mut self, arrival: &Arrival, path: u32, label: Label, gate: &mut Gate, port: &mut Port<'_>) {
        let host = arrival.port.0 as usize;
        let datagram = gate.pool().datagram(arrival.handle);
        let own = self.paths.get(path);
        let (mtu, next) = (own.mtu(0), own.nodes[1]);
        if router::may_fragment(datagram) {
            for part in router::fragments(datagram, mtu, 0).unwrap_or_default() {
                if let Some(handle) = keep(&part, gate.pool_mut()) {
                    self.set_out(Some(arrival.at), path, 0, (handle, label, None), gate, port);
                }
            }
            return;
        }
        let Some((from, _)) = ip::addresses(datagram) else { return };
        let (v4, v6) = self.plan.of(next as usize);
        let gateways = self.gateways[host].iter().flatten().copied();
        let own = gateways.chain([v4.into(), v6.into()]).find(|own| own.is_ipv4() == from.is_ipv4());
        let error =
            own.and_then(|own| self.complaint(arrival.at, (next, own), datagram, Problem::TooBig { mtu }));
        if let Some(error) = error {
            self.return_to(arrival, &error, gate);
        }
    }

    /// Sends a datagram that was made here back to where another has come from, without a link between.
    fn return_to(&mut self, arrival: &Arrival, bytes: &[u8], gate: &mut Gate) {
        let node = self.ends[arrival.port.0 as usize].node;
        let mtu = self.mtu[node as usize];
        let parts = match bytes.len() <= mtu as usize {
            true => vec![bytes.to_vec()],
            false => {
                let id = self.next_id();
                router::fragments(bytes, mtu, id.into()).unwrap_or_default()
            }
        };
        for part in parts {
            if let Some(handle) = keep(&part, gate.pool_mut()) {
                let packet = gate.packet(handle, EndpointId(node));
                gate.transmit(arrival.at, &packet, arrival.port);
            }
        }
    }

    /// Sends a frame on a path from link `from` on, as far as it gets. `due` is when it should have been sent, if that is not now.
    fn set_out(
        &mut self,
        due: Option<Timestamp>,
        number: u32,
        from: usize,
        (handle, label, image): (u32, Label, Option<u16>),
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let header = gate.pool().header(handle);
        // Use what was parsed on arrival; fragments and forwarded packets are parsed again if they are kept.
        let ttl = header.ttl;
        let path = self.paths.get(number);
        // Node k is reached with a time to live of ttl - (k - 1 - from).
        let expires = from + usize::from(ttl.max(1));
        let narrow = path.narrow(from, header.len).unwrap_or(usize::MAX);
        let stop = expires.min(narrow).min(path.len());
        let under_way = UnderWay { path: number, from: from as u16, stop: stop as u16, ttl, label, image };
        if self.under_way.len() <= handle as usize {
            self.under_way.resize(handle as usize + 1, UnderWay::default());
        }
        self.under_way[handle as usize] = under_way;
        let Some(route) = path.part(from, stop) else {
            // Too large for the first link. The interface's MTU prevents this for a live host.
            return gate.release(handle);
        };
        let mut packet = gate.packet(handle, EndpointId(path.nodes[stop]));
        packet.flow = FlowId(label.flow);
        packet.class = label.class;
        match due {
            Some(due) => {
                let behind = port.send_at(due, route, packet);
                gate.note_behind(handle, behind);
            }
            None => port.send(route, packet),
        }
    }

    /// Handles a frame that has left the network. Returns what is for the caller: of a datagram, the frame then belongs to the caller, too.
    fn handle(
        &mut self,
        now: Timestamp,
        packet: &Packet,
        handle: u32,
        models: &Models,
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) -> Option<Left> {
        let UnderWay { path: number, from, stop, ttl, label, image } = self.under_way[handle as usize];
        let (from, stop) = (usize::from(from), usize::from(stop));
        let path = self.paths.get(number);
        let node = path.nodes[stop];
        let left = ttl.saturating_sub((stop - 1 - from) as u8);
        if ttl != left {
            router::set_ttl(gate.pool_mut().datagram_mut(handle), left);
        }
        if stop < path.len() || !path.leads {
            if left <= 1 {
                self.complain(now, node, handle, Problem::TimeExceeded, gate, port);
            } else if !path.leads {
                self.complain(now, node, handle, Problem::NoRoute, gate, port);
            } else {
                self.squeeze(now, number, stop, (handle, left), gate, port);
            }
            gate.release(handle);
            return None;
        }
        // What leaves by the port: a NAT may have given it another destination.
        let mut out = handle;
        if let Some(port) = path.port.map(PortId).filter(|port| self.nats.has(*port)) {
            let Some(translated) = self.nats.enter(port, handle, gate) else {
                if label.counts {
                    self.traffic.on_lost(label.flow);
                }
                gate.release(handle);
                return None;
            };
            out = translated;
        }
        let (bytes, header) = (gate.pool().datagram(handle), gate.pool().header(handle));
        match packet.damaged {
            _ if !label.counts => {}
            true => self.traffic.on_lost(label.flow),
            false if self.is_for(node, bytes) => {
                self.traffic.on_delivered(now, label.flow, bytes, &header, packet.ecn);
            }
            false => {}
        }
        if let Some(live) = path.port {
            if out == handle {
                gate.transmit(now, packet, PortId(live));
            } else {
                let translated = Packet { body: Body::Frame(Frame { handle: out }), ..*packet };
                gate.transmit(now, &translated, PortId(live));
                gate.release(handle);
            }
            return None;
        }
        if packet.damaged {
            // Its checksum does not fit.
            gate.release(handle);
            return None;
        }
        if let Some(image) = image {
            gate.release(handle);
            return self.crossings.arrive(image, packet.ecn).map(Left::Packet);
        }
        if packet.ecn == Ecn::Ce && header.ecn != Ecn::Ce {
            gate.pool_mut().mark_congestion(handle);
        }
        if models.has(node) {
            return Some(Left::Datagram(node));
        }
        let bytes = gate.pool().datagram(handle);
        let own = ip::addresses(bytes).map_or(IpAddr::from(self.plan.of(node as usize).0), |(_, to)| to);
        let answer = self.answer(now, (node, own), bytes);
        gate.release(handle);
        if let Some(answer) = answer {
            self.reply(node, &answer, gate, port);
        }
        None
    }

    /// A frame is a copy of another, on the same way.
    fn copied(&mut self, of: u32, copy: u32) {
        let state = self.under_way[of as usize];
        if self.under_way.len() <= copy as usize {
            self.under_way.resize(copy as usize + 1, UnderWay::default());
        }
        self.under_way[copy as usize] = state;
    }

    /// The port by which a frame will leave when it comes out of the network, if it will; writes its bytes into `out`.
    fn foresee(&mut self, packet: &Packet, handle: u32, pool: &Pool, out: &mut Vec<u8>) -> Option<PortId> {
        let UnderWay { path: number, from, stop, ttl, .. } = self.under_way[handle as usize];
        let (from, stop) = (usize::from(from), usize::from(stop));
        let path = self.paths.get(number);
        if stop < path.len() || !path.leads {
            return None;
        }
        let live = path.port?;
        out.clear();
        out.extend_from_slice(pool.datagram(handle));
        let left = ttl.saturating_sub((stop - 1 - from) as u8);
        if ttl != left {
            router::set_ttl(out, left);
        }
        if packet.ecn == Ecn::Ce && pool.header(handle).ecn != Ecn::Ce {
            router::set_ecn(out, Ecn::Ce);
        }
        let whole = out.len();
        packet.damage(out, whole);
        Some(PortId(live))
    }

    /// Whether a datagram that has come to a node is for it, and not to be forwarded by it.
    fn is_for(&self, node: u32, bytes: &[u8]) -> bool {
        let place = self.places[node as usize];
        let forwards = place.is_some_and(|place| self.ends[place].door.is_some());
        !forwards || ip::addresses(bytes).is_some_and(|(_, to)| self.plan.owner(to) == Some(node))
    }

    /// A packet of a simulated flow has come to a guest that forwards, at this port: its image goes there.
    fn hand_over(&mut self, now: Timestamp, packet: &Packet, port: PortId, gate: &mut Gate) {
        let mut bytes = Vec::new();
        let early = self.crossings.keep(packet, &mut bytes);
        let Some(handle) = keep(&bytes, gate.pool_mut()) else { return };
        if early {
            gate.note_ahead(handle);
        }
        let image = gate.packet(handle, packet.to);
        gate.transmit(now, &image, port);
    }

    /// A router has a packet that does not fit the next link, `stop`: it fragments it or reports that.
    fn squeeze(
        &mut self,
        now: Timestamp,
        number: u32,
        stop: usize,
        (handle, ttl): (u32, u8),
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let path = self.paths.get(number);
        let (node, mtu) = (path.nodes[stop], path.mtu(stop));
        let UnderWay { label, image, .. } = self.under_way[handle as usize];
        let datagram = gate.pool().datagram(handle);
        if !router::may_fragment(datagram) {
            return self.complain(now, node, handle, Problem::TooBig { mtu }, gate, port);
        }
        let parts = router::fragments(datagram, mtu, 0).unwrap_or_default();
        for mut part in parts {
            router::set_ttl(&mut part, ttl - 1);
            if let Some(handle) = keep(&part, gate.pool_mut()) {
                self.set_out(None, number, stop, (handle, label, image), gate, port);
            }
        }
    }

    /// A router reports to the sender what is wrong with a packet.
    fn complain(
        &mut self,
        now: Timestamp,
        node: u32,
        handle: u32,
        problem: Problem,
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let bytes = gate.pool().datagram(handle);
        let (v4, v6) = self.plan.of(node as usize);
        let own = match ip::addresses(bytes) {
            Some((IpAddr::V6(_), _)) => v6.into(),
            _ => v4.into(),
        };
        if let Some(error) = self.complaint(now, (node, own), bytes, problem) {
            self.reply(node, &error, gate, port);
        }
    }

    /// The ICMP error that a router or host sends about a datagram, from its address `own`, unless too many were sent.
    fn complaint(
        &mut self,
        now: Timestamp,
        (node, own): (u32, IpAddr),
        bytes: &[u8],
        problem: Problem,
    ) -> Option<Vec<u8>> {
        let (source, _) = ip::addresses(bytes)?;
        let id = self.next_id();
        let error = icmp::error(own, bytes, problem, id)?;
        // Linux does not limit the errors that path MTU discovery needs.
        let counted = !matches!(problem, Problem::TooBig { .. });
        let source = self.plan.owner(source)?;
        (!counted || self.limiter.allow(now, node, source)).then_some(error)
    }

    /// The answer of a router, or of a simulated host that talks to no programs, to a datagram for its address `own`.
    fn answer(&mut self, now: Timestamp, (node, own): (u32, IpAddr), bytes: &[u8]) -> Option<Vec<u8>> {
        let datagram = ip::parse(bytes).ok()?;
        if datagram.fragment.is_some() {
            let whole = self.fragments.entry(node).or_default().add(now, bytes)?;
            return self.answer(now, (node, own), &whole);
        }
        match datagram.header.protocol {
            ICMP | ICMPV6 => icmp::echo_reply(&datagram, self.next_id()),
            TCP => translate::refuse(&datagram),
            UDP => self.complaint(now, (node, own), bytes, Problem::PortUnreachable),
            _ => self.complaint(now, (node, own), bytes, Problem::ProtocolUnreachable),
        }
    }

    /// Sends a datagram that a node has made, in fragments if it is larger than the first link allows.
    fn reply(&mut self, node: u32, bytes: &[u8], gate: &mut Gate, port: &mut Port<'_>) {
        let Some(path) = self.path_to(node, bytes) else { return };
        let room = self.mtu[node as usize];
        if bytes.len() <= room as usize {
            return self.launch(path, bytes, None, gate, port);
        }
        let id = self.next_id();
        for part in router::fragments(bytes, room, id.into()).unwrap_or_default() {
            self.launch(path, &part, None, gate, port);
        }
    }

    /// Sends bytes made here on a path. `label` is their flow and class, if they belong to a flow.
    fn launch(
        &mut self,
        path: u32,
        bytes: &[u8],
        label: Option<Label>,
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let Some(handle) = keep(bytes, gate.pool_mut()) else { return };
        let label = label.unwrap_or_else(|| Label::unnamed(&gate.pool().header(handle)));
        self.set_out(None, path, 0, (handle, label, None), gate, port);
    }

    /// Sends a datagram of a host of this process whose packets are real.
    fn send(
        &mut self,
        now: Timestamp,
        models: &Models,
        (node, bytes): (u32, &[u8]),
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let Some(path) = self.path_to(node, bytes) else { return };
        let label = models.owner(bytes).map(|(flow, class)| {
            let counts = models.is_told_by_packets(flow, node);
            Label { flow: flow.0, class, counts }
        });
        if let Some(Label { flow, counts: true, .. }) = label
            && let Ok(header) = datagram::read(bytes)
        {
            self.traffic.on_sent(now, flow, (node, None), bytes, &header);
        }
        self.launch(path, bytes, label, gate, port);
    }

    /// The path of a datagram that a node has made.
    fn path_to(&self, node: u32, bytes: &[u8]) -> Option<u32> {
        let (_, to) = ip::addresses(bytes)?;
        let place = self.places[self.plan.owner(to)? as usize]?;
        self.paths.back(node, place)
    }

    /// Whether there are NATs, which decide only on arrival where a datagram goes.
    pub(in crate::run) fn has_nats(&self) -> bool {
        !self.nats.is_empty()
    }

    /// The address plan.
    pub(in crate::run) fn plan(&self) -> &AddressPlan {
        &self.plan
    }
}

/// Puts bytes made here into the pool.
fn keep(bytes: &[u8], pool: &mut Pool) -> Option<u32> {
    let header = datagram::read(bytes).ok()?;
    pool.insert(bytes, header)
}

impl LiveWorld {
    /// Lets hosts whose packets are real do what their flows want.
    fn settle(&mut self, now: Timestamp, gate: &mut Gate, port: &mut Port<'_>) {
        let LiveWorld { hosts, models, routers } = self;
        models.settle(now, hosts, port, &mut |models, node, bytes, port| {
            routers.send(now, models, (node, bytes), gate, port);
        });
    }
}

impl Measured for LiveWorld {
    fn hosts(&mut self) -> &mut [ModelHosts] {
        std::slice::from_mut(&mut self.hosts)
    }
    fn before_reading(&mut self) {
        let traffic = &self.routers.traffic;
        self.models.report(&mut self.hosts, |flow| traffic.sent(flow.0));
    }
    fn end_warmup(&mut self, now: Timestamp) {
        self.models.end_warmup();
        self.routers.traffic.end_warmup(now);
    }
    fn samples(&mut self, now: Timestamp, span: TimeDelta) -> Vec<FlowSample> {
        self.routers.traffic.sample(now, span)
    }
}

impl World for LiveWorld {
    #[inline]
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        self.routers.arrive(arrival, &self.models, gate, port);
    }
    #[inline]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, port: &mut Port<'_>) {
        let Body::Frame(Frame { handle }) = packet.body else {
            match self.routers.crossings.entry(packet) {
                Some(entry) => self.routers.hand_over(now, packet, entry, gate),
                None => self.hosts.handle_packet(now, packet, port),
            }
            return;
        };
        match self.routers.handle(now, packet, handle, &self.models, gate, port) {
            Some(Left::Datagram(node)) => {
                if self.hosts.has_orders() {
                    // A service that exists from the beginning must be there for the first packet.
                    self.settle(now, gate, port);
                }
                let bytes = gate.pool().datagram(handle);
                self.models.handle_datagram(now, node, bytes, &mut self.hosts, port);
                gate.release(handle);
                self.settle(now, gate, port);
            }
            Some(Left::Packet(packet)) => self.hosts.handle_packet(now, &packet, port),
            None => {}
        }
    }
    #[inline]
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, gate: &mut Gate, port: &mut Port<'_>) {
        if !self.models.handle_timeout(now, timer) {
            self.hosts.handle_timeout(now, timer, port);
        }
        self.settle(now, gate, port);
    }
    fn handle_copy(&mut self, of: u32, copy: u32) {
        self.routers.copied(of, copy);
    }
    fn handle_loss(&mut self, handle: u32) {
        if let Some(under_way) = self.routers.under_way.get(handle as usize)
            && under_way.label.counts
        {
            self.routers.traffic.on_lost(under_way.label.flow);
        }
    }
    fn foresee(&mut self, packet: &Packet, pool: &Pool, out: &mut Vec<u8>) -> Option<PortId> {
        let Body::Frame(Frame { handle }) = packet.body else {
            let entry = self.routers.crossings.entry(packet)?;
            if packet.damaged {
                // It is dropped on arrival.
                return None;
            }
            self.routers.crossings.foresee(packet, out);
            return (!out.is_empty()).then_some(entry);
        };
        self.routers.foresee(packet, handle, pool, out)
    }
}

/// The bytes of the frames of one turn, as they were on each link.
pub(in crate::run) struct TurnFrames<'a> {
    pub(in crate::run) routers: &'a Routers,
    pub(in crate::run) pool: &'a Pool,
}

impl Frames for TurnFrames<'_> {
    fn frame(&self, record: &LinkRecord) -> Option<Vec<u8>> {
        let Body::Frame(Frame { handle }) = record.packet.body else { return None };
        let under_way = self.routers.under_way.get(handle as usize)?;
        let path = self.routers.paths.get(under_way.path);
        let at = path.links.iter().position(|&link| link == record.link)?;
        let mut bytes = self.pool.datagram(handle).to_vec();
        let crossed = at.saturating_sub(usize::from(under_way.from)) as u8;
        router::set_ttl(&mut bytes, under_way.ttl.saturating_sub(crossed));
        router::set_ecn(&mut bytes, record.packet.ecn);
        Some(bytes)
    }

    fn opposite(&self, record: &LinkRecord, datagram: &[u8]) -> Option<Opposite> {
        let Body::Frame(Frame { handle }) = record.packet.body else { return None };
        let under_way = self.routers.under_way.get(handle as usize)?;
        let from = *self.routers.paths.get(under_way.path).nodes.first()?;
        // A flow of the scenario has one number for both directions.
        let flow = match under_way.label.flow {
            own if own & LIVE_FLOW == 0 => own,
            _ => datagram::opposite_flow(datagram)? | LIVE_FLOW,
        };
        Some(Opposite { flow: FlowId(flow), to: EndpointId(from) })
    }
}
