//! Routes that cannot be: each is refused with what is wrong.

use warpline_core::{Datagram, EndpointId, FlowId, LinkId, NodeId, Packet, Streams, TimerId, Timestamp};
use warpline_net::{LinkConfig, Network, RouteError};

/// Two links in a row, "a>b" and "b>c".
fn network() -> (Network, [LinkId; 2]) {
    let mut network = Network::new();
    let links = [("a>b", 0), ("b>c", 1)].map(|(name, from)| {
        network.add_link(LinkConfig::new(name, NodeId(from), NodeId(from + 1)), &Streams::new(1))
    });
    (network, links)
}

#[test]
fn a_route_needs_links_of_this_network_that_meet() {
    let (mut network, [first, second]) = network();
    let gap = RouteError::Gap { before: "b>c".into(), after: "a>b".into() };
    assert_eq!(network.add_route(&[second, first]), Err(gap));
    assert_eq!(network.add_route(&[]), Err(RouteError::Empty));
    assert_eq!(network.add_route(&[first, LinkId(2)]), Err(RouteError::Unknown(2)));
    assert!(network.add_route(&[first, second]).is_ok());
}

#[test]
fn a_route_comes_before_the_first_packet() {
    let (mut network, [first, second]) = network();
    let route = network.add_route(&[first]).unwrap();
    let packet = Packet::udp(FlowId(0), EndpointId(0), Datagram::default());
    network.port(Timestamp::ZERO).send(route, packet);
    assert_eq!(network.add_route(&[second]), Err(RouteError::Late));
}

#[test]
#[should_panic(expected = "timer 1073741824")]
fn an_endpoint_that_no_timer_can_tell_is_refused() {
    network().0.port(Timestamp::ZERO).set_timer(TimerId(1 << 30), Timestamp::from_secs(1));
}
