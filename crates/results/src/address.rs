//! Addresses: which IPv4 address, port and initial sequence number each endpoint has where wire bytes are made.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use warpline_core::Streams;
use warpline_core::packet::{EndpointId, FlowId, NodeId};

/// First port of the openers: the start of the dynamic range (RFC 6335 section 6).
const OPENER_PORTS: u32 = 49_152;
/// How many openers' ports there are.
const OPENER_PORT_COUNT: u32 = 16_384;
/// Port of the other side; one up for every full round of the openers' ports. No well-known protocol lives here, so that
/// no analyser takes the zero payload for something else.
const OTHER_PORT: u32 = 46_000;

/// One end of a flow as it appears on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndpointAddress {
    /// The flow.
    pub flow: FlowId,
    /// 0 for the opener, 1 for the other end.
    pub side: u8,
    /// Its own address and port.
    pub local: SocketAddrV4,
    /// The other end's.
    pub peer: EndpointId,
    /// Initial sequence number: the wire's number of stream position 0, the SYN.
    pub isn: u32,
    /// Shift by which its window field is scaled once the handshake is over (RFC 7323 section 2), where the caller knows it.
    pub window_scale: Option<u8>,
}

/// The addresses of all endpoints of a run.
///
/// Hosts get 10.x.y.z from their node number (node 0 is 10.0.0.1) unless they have an address of their own. Connections get ports in the order in which
/// they open: no two share a pair of sockets.
#[derive(Clone, Debug, Default)]
pub struct AddressBook {
    own: BTreeMap<NodeId, Ipv4Addr>,
    endpoints: BTreeMap<(FlowId, EndpointId), EndpointAddress>,
}

impl AddressBook {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty book for hosts of which these have addresses of their own.
    pub fn with(own: BTreeMap<NodeId, Ipv4Addr>) -> Self {
        AddressBook { own, endpoints: BTreeMap::new() }
    }

    /// Adds a connection of the flow between the opener and the other end. A flow may have many, one after another or at once.
    pub fn add_connection(
        &mut self,
        flow: FlowId,
        opener: (EndpointId, NodeId),
        other: (EndpointId, NodeId),
    ) {
        let number = self.endpoints.len() as u32 / 2;
        let ports = [
            (OPENER_PORTS + number % OPENER_PORT_COUNT) as u16,
            (OTHER_PORT + number / OPENER_PORT_COUNT % 3_000) as u16,
        ];
        for (side, (own, peer)) in [(opener, other), (other, opener)].into_iter().enumerate() {
            let host = self.own.get(&own.1).copied().unwrap_or_else(|| own.1.ipv4());
            let address = EndpointAddress {
                flow,
                side: side as u8,
                local: SocketAddrV4::new(host, ports[side]),
                peer: peer.0,
                isn: initial_sequence_number(flow, own.0),
                window_scale: None,
            };
            self.endpoints.insert((flow, own.0), address);
        }
    }

    /// States the window scale shift that the window fields of an endpoint of a flow carry after the handshake (0 where window scaling
    /// was not agreed). Where it is not stated, captures learn it from the SYNs that they see.
    pub fn set_window_scale(&mut self, flow: FlowId, endpoint: EndpointId, shift: u8) {
        if let Some(address) = self.endpoints.get_mut(&(flow, endpoint)) {
            address.window_scale = Some(shift.min(14));
        }
    }

    /// The address of an endpoint of a flow, if it was added.
    pub fn endpoint(&self, flow: FlowId, endpoint: EndpointId) -> Option<&EndpointAddress> {
        self.endpoints.get(&(flow, endpoint))
    }

    /// 0 for the opener of a flow's connection, 1 for the other end; 0 for an endpoint that was not added.
    pub fn side(&self, flow: FlowId, endpoint: EndpointId) -> u8 {
        self.endpoints.get(&(flow, endpoint)).map_or(0, |address| address.side)
    }
}

/// The initial sequence number of an endpoint: fixed, so that a capture is the same every time, and spread over the
/// 32 bits so that captures exercise wrapping.
fn initial_sequence_number(flow: FlowId, endpoint: EndpointId) -> u32 {
    Streams::new(0).stream(&format!("capture.isn.{}.{}", flow.0, endpoint.0)).next_u64() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn hosts_and_flows_have_their_own_addresses() {
        let mut book = AddressBook::new();
        let mut pairs = BTreeSet::new();
        for flow in 0..40_000 {
            let (a, b) = (EndpointId(2 * flow), EndpointId(2 * flow + 1));
            book.add_connection(FlowId(flow), (a, NodeId(0)), (b, NodeId(1)));
            let (a, b) = (book.endpoint(FlowId(flow), a).unwrap(), book.endpoint(FlowId(flow), b).unwrap());
            assert_eq!((a.side, b.side), (0, 1));
            assert_eq!((a.peer, b.peer), (EndpointId(2 * flow + 1), EndpointId(2 * flow)));
            assert!(pairs.insert((a.local, b.local)), "flow {flow}");
        }
    }

    #[test]
    fn an_address_of_its_own_takes_the_place_of_that_by_number() {
        let own = Ipv4Addr::new(192, 0, 2, 1);
        let mut book = AddressBook::with(BTreeMap::from([(NodeId(1), own)]));
        book.add_connection(FlowId(0), (EndpointId(0), NodeId(0)), (EndpointId(1), NodeId(1)));
        let ip = |end| *book.endpoint(FlowId(0), EndpointId(end)).unwrap().local.ip();
        assert_eq!((ip(0), ip(1)), (NodeId(0).ipv4(), own));
    }

    #[test]
    fn sequence_numbers_start_all_over_the_place() {
        let numbers: Vec<u32> =
            (0..1000).map(|i| initial_sequence_number(FlowId(i / 2), EndpointId(i % 2))).collect();
        let upper = numbers.iter().filter(|&&n| n > u32::MAX / 2).count();
        assert!((400..600).contains(&upper), "{upper}");
        assert_eq!(numbers.iter().collect::<BTreeSet<_>>().len(), 1000);
    }
}
