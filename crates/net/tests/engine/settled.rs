//! [`Network::take_settled`] predicts every arrival correctly and in time.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpline_core::{
    Body, Dscp, Ecn, EndpointId, FlowId, Frame, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp,
};
use warpline_net::jitter::{Exponential, JitterKind, Order};
use warpline_net::loss::{BernoulliParams, LossKind};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::{Hosts, LinkConfig, Network, Port, RateConfig};

/// Records what arrives, and when.
#[derive(Default)]
struct Ends(BTreeMap<u32, Timestamp>);

impl Hosts for Ends {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, _: &mut Port<'_>) {
        if let Body::Frame(Frame { handle }) = packet.body {
            assert!(self.0.insert(handle, now).is_none());
        }
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Port<'_>) {}
}

fn link(name: &str, from: u32, reorders: bool, random: bool) -> LinkConfig {
    let jitter = Exponential { mean: TimeDelta::from_millis(2), order: Order { reorder: reorders } };
    LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(2_000_000)),
        delay: TimeDelta::from_millis(3),
        qdisc: QdiscConfig::drop_tail(QueueLimit::Packets(5)),
        loss: LossKind::Bernoulli(BernoulliParams { probability: 0.1, longest: None }).into(),
        jitter: if random { JitterKind::Exponential(jitter) } else { JitterKind::default() },
        ..LinkConfig::new(name, NodeId(from), NodeId(from + 1))
    }
}

proptest! {
    #[test]
    fn packets_on_the_last_wire_arrive_as_predicted(
        (random, reorders, far) in any::<(bool, bool, bool)>(),
        pauses in prop::collection::vec(0u64..8_000, 1..200),
        seed in any::<u64>(),
    ) {
        let mut network = Network::new();
        let streams = Streams::new(seed);
        let links = [
            network.add_link(link("a", 0, reorders, random && far), &streams),
            network.add_link(link("b", 1, reorders, random), &streams),
        ];
        let route = network.add_route(&links).unwrap();
        // Packets that only pass through are not predicted.
        network.watch(links[0]);
        network.watch(links[1]);
        let mut ends = Ends::default();
        let mut told: BTreeMap<u32, (Timestamp, Timestamp)> = BTreeMap::new();
        let mut sends = pauses.iter().scan(0, |at, pause| { *at += pause; Some(Timestamp::from_nanos(*at * 1000)) }).enumerate().peekable();
        loop {
            let due = sends.peek().map(|(_, at)| *at);
            let Some(now) = [due, network.next_event()].into_iter().flatten().min() else { break };
            network.run_until(now, &mut ends, u64::MAX);
            if due == Some(now) && let Some((number, _)) = sends.next() {
                let packet = Packet {
                    flow: FlowId(0),
                    to: EndpointId(2),
                    size: 1000,
                    ecn: Ecn::NotEct,
                    class: 0,
                    damaged: false,
                    dscp: Dscp::default(),
                    id: 0,
                    body: Body::Frame(Frame { handle: number as u32 }),
                };
                network.port(now).send(route, packet);
            }
            for settled in network.take_settled() {
                let Body::Frame(Frame { handle }) = settled.packet.body else { panic!() };
                // Predicted at least the link's delay before the arrival.
                prop_assert!(now + TimeDelta::from_millis(3) <= settled.arrival);
                prop_assert!(told.insert(handle, (now, settled.arrival)).is_none());
            }
        }
        let foretold: BTreeMap<u32, Timestamp> = told.into_iter().map(|(handle, (_, at))| (handle, at)).collect();
        prop_assert_eq!(foretold, ends.0);
    }
}
