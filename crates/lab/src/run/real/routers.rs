//! What the emulated routers and hosts do with live packets.
//!
//! What becomes of a packet on its way is known when it sets out: which router ends its time to live, before which link it is too
//! large, or that it gets through. It is sent on the route to there, and what is to be done is done when it comes out: so the
//! links of the way, their queues and losses, and only those, act on it.
//!
//! Time to live is counted down by every node on the way but the last. Routers and simulated hosts answer pings, say that
//! no program listens (ports, protocols; TCP by a reset), and report what they cannot forward.

use warpline_core::record::LinkRecord;
use warpline_core::{Body, EndpointId, FlowId, Frame, Packet, Timestamp};
use warpline_live::emulator::{Gate, World as EmulatorWorld};
use warpline_live::icmp::{self, Problem, Speaker};
use warpline_live::pool::Pool;
use warpline_live::port::{Arrival, PortId};
use warpline_live::{datagram, router};
use warpline_net::{Hosts as _, Port};

use super::limiter::Limiter;
use super::ways::Ways;
use crate::hosts::World;
use crate::results::Frames;
use crate::run::addresses::AddressPlan;

/// Marks the flow numbers of live packets (a hash of addresses and ports), so that none is a simulated flow's.
const LIVE_FLOW: u32 = 1 << 31;

/// Simulated hosts and live rules in one network.
#[derive(Debug)]
pub(super) struct LiveWorld {
    pub(super) hosts: World,
    pub(super) routers: Routers,
}

/// What is known of a live packet under way.
#[derive(Clone, Copy, Debug, Default)]
struct UnderWay {
    way: u32,
    /// The link of the way that it set out on, and the one that it stops before.
    from: u16,
    stop: u16,
    /// Time to live on the link that it set out on.
    ttl: u8,
}

/// The routers, and the ways between live hosts.
#[derive(Debug)]
pub(super) struct Routers {
    plan: AddressPlan,
    ways: Ways,
    /// The node of each port.
    hosts: Vec<u32>,
    /// The port of each node that has one.
    ports: Vec<Option<u32>>,
    /// By the number of the frame.
    under_way: Vec<UnderWay>,
    limiter: Limiter,
    /// Identification of the last datagram that was made here.
    id: u16,
}

impl Routers {
    /// Routers for `hosts`, the nodes of the ports in order, out of `nodes` in all.
    pub(super) fn new(plan: AddressPlan, ways: Ways, hosts: Vec<u32>, nodes: usize) -> Self {
        let mut ports = vec![None; nodes];
        for (port, &node) in (0u32..).zip(&hosts) {
            ports[node as usize] = Some(port);
        }
        Routers { plan, ways, hosts, ports, under_way: Vec::new(), limiter: Limiter::default(), id: 0 }
    }

    fn speaker(&self, node: u32) -> Speaker {
        let (v4, v6) = self.plan.of(node as usize);
        Speaker { v4, v6 }
    }

    /// A datagram has come from a live host.
    fn arrive(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let host = arrival.port.0 as usize;
        let destination = router::addresses(gate.pool().datagram(arrival.handle)).map(|(_, to)| to);
        let way = match destination.map(|to| self.plan.owner(to)) {
            None => None,
            Some(None) => self.ways.nowhere(host),
            Some(Some(node)) => self.ways.there(host, node).or_else(|| self.ways.nowhere(host)),
        };
        match way {
            Some(way) => self.set_out(Some(arrival.at), way, 0, arrival.handle, gate, port),
            None => gate.release(arrival.handle),
        }
    }

    /// Sends a frame over a way from link `from` on, as far as it gets. `due` is when it should have been sent, if that is not now.
    fn set_out(
        &mut self,
        due: Option<Timestamp>,
        number: u32,
        from: usize,
        handle: u32,
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let header = gate.pool().header(handle);
        // What was read when it came in; a fragment's or a forwarded packet's is read anew when it is kept.
        let ttl = header.ttl;
        let way = self.ways.get(number);
        // Node k is reached with a time to live of ttl - (k - 1 - from).
        let expires = from + usize::from(ttl.max(1));
        let narrow = way.narrow(from, header.len).unwrap_or(usize::MAX);
        let stop = expires.min(narrow).min(way.len());
        let under_way = UnderWay { way: number, from: from as u16, stop: stop as u16, ttl };
        if self.under_way.len() <= handle as usize {
            self.under_way.resize(handle as usize + 1, UnderWay::default());
        }
        self.under_way[handle as usize] = under_way;
        let Some(route) = way.part(from, stop) else {
            // Too large for the first link, which the interface's MTU does not let happen to a live host.
            return gate.release(handle);
        };
        let mut packet = gate.packet(handle, EndpointId(way.nodes[stop]));
        packet.flow = FlowId(packet.flow.0 | LIVE_FLOW);
        // Ordinary packets are equal to flows that have been given no class, which have the first.
        packet.class = packet.class.saturating_sub(1);
        match due {
            Some(due) => port.send_at(due, route, packet),
            None => port.send(route, packet),
        }
    }

    /// A frame has come out of the network.
    fn handle(&mut self, now: Timestamp, packet: &Packet, handle: u32, gate: &mut Gate, port: &mut Port<'_>) {
        let UnderWay { way: number, from, stop, ttl } = self.under_way[handle as usize];
        let (from, stop) = (usize::from(from), usize::from(stop));
        let way = self.ways.get(number);
        let node = way.nodes[stop];
        let left = ttl.saturating_sub((stop - 1 - from) as u8);
        if ttl != left {
            router::set_ttl(gate.pool_mut().datagram_mut(handle), left);
        }
        if stop < way.len() || !way.leads {
            if left <= 1 {
                self.complain(now, node, handle, Problem::TimeExceeded, gate, port);
            } else if !way.leads {
                self.complain(now, node, handle, Problem::NoRoute, gate, port);
            } else {
                self.squeeze(now, number, stop, (handle, left), gate, port);
            }
            return gate.release(handle);
        }
        match self.ports[node as usize] {
            Some(live) => gate.transmit(now, packet, PortId(live)),
            None => {
                self.answer(now, node, handle, gate, port);
                gate.release(handle);
            }
        }
    }

    /// A router has a packet that does not fit the next link, `stop`: it cuts it up, or says so.
    fn squeeze(
        &mut self,
        now: Timestamp,
        number: u32,
        stop: usize,
        (handle, ttl): (u32, u8),
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        let way = self.ways.get(number);
        let (node, mtu) = (way.nodes[stop], way.mtu(stop));
        let datagram = gate.pool().datagram(handle);
        if !router::may_fragment(datagram) {
            return self.complain(now, node, handle, Problem::TooBig(mtu), gate, port);
        }
        let parts = router::fragments(datagram, mtu).unwrap_or_default();
        for mut part in parts {
            router::set_ttl(&mut part, ttl - 1);
            if let Some(handle) = keep(&part, gate.pool_mut()) {
                self.set_out(None, number, stop, handle, gate, port);
            }
        }
    }

    /// A router or host says to the sender what is wrong with a packet.
    fn complain(
        &mut self,
        now: Timestamp,
        node: u32,
        handle: u32,
        problem: Problem,
        gate: &mut Gate,
        port: &mut Port<'_>,
    ) {
        self.id = self.id.wrapping_add(1);
        let datagram = gate.pool().datagram(handle);
        let source = router::addresses(datagram).and_then(|(from, _)| self.plan.owner(from));
        let Some(answer) = icmp::error(&self.speaker(node), datagram, problem, self.id) else { return };
        // Linux does not count what path MTU discovery lives on.
        let counted = !matches!(problem, Problem::TooBig(_));
        if let Some(source) = source
            && (!counted || self.limiter.allow(now, node, source))
        {
            self.reply(node, &answer, gate, port);
        }
    }

    /// A packet is for a router or a simulated host.
    fn answer(&mut self, now: Timestamp, node: u32, handle: u32, gate: &mut Gate, port: &mut Port<'_>) {
        self.id = self.id.wrapping_add(1);
        let datagram = gate.pool().datagram(handle);
        let Some(inner) = router::payload(datagram) else { return };
        // Nothing is put together here: what comes in fragments finds nobody.
        if inner.fragment {
            return;
        }
        let answer = match inner.protocol {
            icmp::ICMP | icmp::ICMPV6 => icmp::echo_reply(&self.speaker(node), datagram, self.id),
            icmp::TCP => icmp::reset(datagram, self.id),
            icmp::UDP => return self.complain(now, node, handle, Problem::PortUnreachable, gate, port),
            _ => return self.complain(now, node, handle, Problem::ProtocolUnreachable, gate, port),
        };
        if let Some(answer) = answer {
            self.reply(node, &answer, gate, port);
        }
    }

    /// Sends what a node has made to the live host that it is for.
    fn reply(&mut self, node: u32, bytes: &[u8], gate: &mut Gate, port: &mut Port<'_>) {
        let to = router::addresses(bytes).and_then(|(_, to)| self.plan.owner(to));
        let host = to.and_then(|to| self.ports[to as usize]);
        let Some(way) = host.and_then(|host| self.ways.back(node, host as usize)) else { return };
        if let Some(handle) = keep(bytes, gate.pool_mut()) {
            self.set_out(None, way, 0, handle, gate, port);
        }
    }

    /// The node behind a port.
    pub(super) fn host(&self, port: usize) -> u32 {
        self.hosts[port]
    }
    /// The address plan.
    pub(super) fn plan(&self) -> &AddressPlan {
        &self.plan
    }
}

/// Puts bytes made here into the pool.
fn keep(bytes: &[u8], pool: &mut Pool) -> Option<u32> {
    let header = datagram::read(bytes).ok()?;
    pool.insert(bytes, header)
}

impl EmulatorWorld for LiveWorld {
    #[inline]
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        self.routers.arrive(arrival, gate, port);
    }
    #[inline]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, port: &mut Port<'_>) {
        match packet.body {
            Body::Frame(Frame { handle }) => self.routers.handle(now, packet, handle, gate, port),
            _ => self.hosts.handle_packet(now, packet, port),
        }
    }
    #[inline]
    fn handle_timeout(&mut self, now: Timestamp, endpoint: EndpointId, _: &mut Gate, port: &mut Port<'_>) {
        self.hosts.handle_timeout(now, endpoint, port);
    }
}

/// The bytes of the frames of a turn as they were on each link.
pub(super) struct TurnFrames<'a> {
    pub(super) routers: &'a Routers,
    pub(super) pool: &'a Pool,
}

impl Frames for TurnFrames<'_> {
    fn frame(&self, record: &LinkRecord) -> Option<Vec<u8>> {
        let Body::Frame(Frame { handle }) = record.packet.body else { return None };
        let under_way = self.routers.under_way.get(handle as usize)?;
        let way = self.routers.ways.get(under_way.way);
        let at = way.links.iter().position(|&link| link == record.link)?;
        let mut bytes = self.pool.datagram(handle).to_vec();
        let crossed = at.saturating_sub(usize::from(under_way.from)) as u8;
        router::set_ttl(&mut bytes, under_way.ttl.saturating_sub(crossed));
        router::set_ecn(&mut bytes, record.packet.ecn);
        Some(bytes)
    }
}
