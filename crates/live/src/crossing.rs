//! The smallest network with live ends: two ports, and a link each way between them.

use warpline_core::{EndpointId, NodeId, Packet, Streams, Timestamp};
use warpline_net::{LinkConfig, Network, Port, RouteId};

use crate::emulator::{Gate, World};
use crate::port::{Arrival, PortId};

/// The two directions: packets from one port leave by the other.
#[derive(Debug)]
pub struct Crossing {
    routes: [RouteId; 2],
}

impl Crossing {
    /// A network of two links, from port 0 to port 1 and back, and the world that sends packets over them. The links' ends are filled in.
    pub fn network(links: [&LinkConfig; 2], seed: u64) -> (Network, Crossing) {
        let streams = Streams::new(seed);
        let mut network = Network::new();
        let mut route = |from: u32| {
            let ends = (NodeId(from), NodeId(1 - from));
            let link = LinkConfig { from: ends.0, to: ends.1, ..links[from as usize].clone() };
            let id = network.add_link(link, &streams);
            network.add_route(&[id]).expect("a single link, and no packet so far")
        };
        let routes = [route(0), route(1)];
        (network, Crossing { routes })
    }
}

impl World for Crossing {
    #[inline]
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let from = arrival.port.0;
        // Endpoints have the numbers of their ports.
        let packet = gate.packet(arrival.handle, EndpointId(1 - from));
        let behind = port.send_at(arrival.at, self.routes[from as usize], packet);
        gate.note_behind(arrival.handle, behind);
    }
    #[inline]
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, _: &mut Port<'_>) {
        gate.transmit(now, packet, PortId(packet.to.0));
    }
    fn handle_timeout(&mut self, _: Timestamp, _: EndpointId, _: &mut Gate, _: &mut Port<'_>) {}
}
