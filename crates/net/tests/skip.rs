//! Time that is cut out of a network's future: what is planned comes earlier, and nothing else changes.
#![allow(clippy::unwrap_used, reason = "tests")]

use warpline_core::{
    Datagram, EndpointId, FlowId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp,
};
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{Hosts, LinkConfig, Network, Pause, Port, RateConfig, RouteId};

/// Sends a packet every millisecond, and notes when they arrive.
struct Sender {
    route: RouteId,
    arrivals: Vec<Timestamp>,
}

impl Hosts for Sender {
    fn handle_packet(&mut self, now: Timestamp, _: &Packet, _: &mut Port<'_>) {
        self.arrivals.push(now);
    }
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        let datagram = Datagram { len: 972, ..Datagram::default() };
        port.send(self.route, Packet::udp(FlowId(0), EndpointId(1), datagram));
        port.set_timer(timer, now + TimeDelta::from_millis(1));
    }
}

/// What happens over two links whose plans come `early` milliseconds before their time, if so much is skipped at 200 ms.
fn run(early: u64, skip: bool) -> (Vec<Timestamp>, [u64; 4]) {
    let ms = TimeDelta::from_millis;
    let moved = if skip { 0 } else { early };
    let at = |millis: u64| Timestamp::from_millis(millis - moved);
    let delta = |millis: u64| ms(millis - moved);
    let mut network = Network::new();
    let rates = [(delta(2_000), Rate::from_bps(4_000_000)), (delta(3_000), Rate::from_bps(16_000_000))];
    let schedule = RateSchedule::new(Steps::new(Rate::from_bps(16_000_000), &rates, None).unwrap());
    let first = LinkConfig {
        rate: RateConfig::Scheduled(schedule),
        delay: ms(10),
        ..LinkConfig::new("a>b", NodeId(0), NodeId(1))
    };
    let second = LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(16_000_000)),
        delay: ms(10),
        detour: Some(Steps::new(ms(0), &[(delta(1_500), ms(5))], None).unwrap()),
        outages: vec![(at(1_200), at(1_250)), (at(3_500), at(3_600))],
        ..LinkConfig::new("b>c", NodeId(1), NodeId(2))
    };
    let streams = Streams::new(1);
    let links = [network.add_link(first, &streams), network.add_link(second, &streams)];
    let route = network.add_route(&links).unwrap();
    let mut sender = Sender { route, arrivals: Vec::new() };
    network.port(Timestamp::ZERO).set_timer(TimerId(0), Timestamp::ZERO);
    assert_eq!(network.next_change(), at(1_200));
    network.run_until(Timestamp::from_millis(200), &mut sender, u64::MAX);
    if skip {
        // In two parts: one after the other is as much.
        network.skip(ms(early / 4));
        network.skip(ms(early - early / 4));
    }
    assert_eq!(network.now(), Timestamp::from_millis(200));
    assert_eq!(network.next_change(), Timestamp::from_millis(1_200 - early));
    assert_eq!(network.run_until(Timestamp::from_millis(4_000), &mut sender, u64::MAX), Pause::Reached);
    let stats = links.map(|link| network.link_stats(link));
    (sender.arrivals, [stats[0].sent_packets, stats[0].drops(), stats[1].sent_packets, stats[1].drops_down])
}

#[test]
fn plans_come_earlier_and_nothing_else_changes() {
    for early in [0, 4, 500, 900] {
        let (skipped, planned) = (run(early, true), run(early, false));
        assert_eq!(skipped, planned, "{early} ms");
        assert!(planned.1[3] > 100, "{:?}", planned.1);
    }
}
