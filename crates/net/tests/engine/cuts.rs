//! Networks that are cut: whatever the parts, everything that can be seen is as in the whole.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use warpline_core::record::LinkRecord;
use warpline_core::{Ecn, LinkId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp};
use warpline_net::apart::{Processes, Threads};
use warpline_net::{
    CutError, Hosts, LinkConfig, LinkStats, Network, PartHosts, Pause, Port, RateConfig, RouteId, Workers,
};

use crate::hosts::{Burst, Delivery, Scripted, packet};
use crate::world::{Manner, World, counters, least_delay, reset_some, sampled, world};

/// Scripted hosts of one part. They have nothing to tell each other.
struct Part(Scripted);

impl Hosts for Part {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>) {
        self.0.handle_packet(now, packet, port);
    }
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        self.0.handle_timeout(now, timer, port);
    }
}

impl PartHosts for Part {
    type Note = ();
    fn take_notes(&mut self) -> Vec<(usize, ())> {
        Vec::new()
    }
    fn handle_note(&mut self, (): ()) {}
}

/// At an instant: the counters of all links; packets sent, delivered and in flight; events handled.
type Sample = (Vec<warpline_net::LinkStats>, (u64, u64, i64), u64);

/// All that can be seen of a run.
#[derive(Debug, PartialEq)]
struct Seen {
    deliveries: Vec<Delivery>,
    samples: Vec<Sample>,
    records: Vec<String>,
}

/// What a record says, as text.
fn told(record: &LinkRecord) -> String {
    format!("{record:?}")
}

/// The part of each node: `wanted`, but for nodes that links without delay join. Parts are numbered without gaps.
fn parts(world: &World, wanted: &[u32]) -> Vec<u32> {
    let nodes = world.links.iter().map(|link| link.from.0.max(link.to.0)).max().unwrap_or(0) as usize + 1;
    let mut parts: Vec<u32> = (0..nodes).map(|node| wanted[node % wanted.len()]).collect();
    loop {
        let joined = world.links.iter().filter(|link| least_delay(link).is_zero()).find_map(|link| {
            let (a, b) = (parts[link.from.index()], parts[link.to.index()]);
            (a != b).then_some((a.max(b), a.min(b)))
        });
        let Some((from, to)) = joined else { break };
        parts.iter_mut().filter(|part| **part == from).for_each(|part| *part = to);
    }
    let mut names: Vec<u32> = parts.clone();
    names.sort_unstable();
    names.dedup();
    parts.iter().map(|part| names.partition_point(|name| name < part) as u32).collect()
}

/// The network of a world, before it is cut, and its routes.
fn network(world: &World, manner: &Manner) -> (Network, Vec<RouteId>) {
    let mut network = world.network(manner);
    let routes =
        world.routes.iter().map(|route| network.add_route(route).expect("links that meet")).collect();
    (network, routes)
}

/// The hosts of a part.
fn hosts(world: &World, network: &Network, routes: &[RouteId], part: usize) -> Part {
    let here = |route: usize| {
        let first = &world.links[world.routes[route][0].index()];
        network.part_of(first.from) == part
    };
    let bursts: Vec<_> = world.bursts.iter().filter(|burst| here(burst.route)).copied().collect();
    Part(Scripted::new(routes.to_vec(), world.answers(), &bursts))
}

/// Runs a world in parts in several processes, which are threads here.
fn run_apart(world: &World, manner: &Manner, part_of: &[u32], processes: usize, budget: u64) -> Seen {
    let links = || (0..world.links.len() as u32).map(LinkId);
    let run = |mut others: Threads| {
        let (mut network, routes) = network(world, manner);
        network.cut_apart(part_of, others.own()).expect("links with delay");
        let mut hosts = hosts(world, &network, &routes, others.own());
        hosts.0.start(&mut network.port(Timestamp::ZERO));
        let mut samples: Vec<(Vec<(LinkId, LinkStats)>, _, _)> = Vec::new();
        for instant in sampled() {
            let at = Timestamp::from_nanos(instant);
            while network.run_apart(at, &mut hosts, budget, &mut others) == Ok(Pause::Budget) {}
            assert_eq!(network.now(), at);
            let here: Vec<LinkId> = links().filter(|&link| network.has_link(link)).collect();
            let counters = here.iter().map(|&link| (link, network.link_stats(link))).collect();
            samples.push((counters, network.packets(), network.events()));
            here.iter().filter(|link| link.0 % 2 == 0).for_each(|&link| network.reset_queued_max(link));
        }
        (hosts.0.deliveries, samples, network.take_records())
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            Threads::new(processes).into_iter().map(|others| scope.spawn(move || run(others))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no process panics")).collect()
    });
    let mut deliveries: Vec<Delivery> = all.iter().flat_map(|(deliveries, ..)| deliveries.clone()).collect();
    deliveries.sort_by_key(|delivery| (delivery.time, delivery.id));
    let sample = |index: usize| {
        // Idle links are in no process.
        let mut counters = vec![LinkStats::default(); world.links.len()];
        let (mut packets, mut events) = ((0, 0, 0), 0);
        for (_, samples, _) in &all {
            let (own, (sent, delivered, under_way), handled) = &samples[index];
            own.iter().for_each(|&(link, stats)| counters[link.index()] = stats);
            packets = (packets.0 + sent, packets.1 + delivered, packets.2 + under_way);
            events += handled;
        }
        (counters, packets, events)
    };
    let samples = (0..all[0].1.len()).map(sample).collect();
    let mut records: Vec<LinkRecord> = all.into_iter().flat_map(|(.., records)| records).collect();
    records.sort_by_key(LinkRecord::order);
    Seen { deliveries, samples, records: records.iter().map(told).collect() }
}

/// Runs a world in parts.
fn run(world: &World, manner: &Manner, part_of: &[u32], budget: u64) -> Seen {
    let (mut network, routes) = network(world, manner);
    network.cut(part_of).expect("links with delay");
    let mut hosts: Vec<Part> =
        (0..network.part_count()).map(|part| hosts(world, &network, &routes, part)).collect();
    for (part, hosts) in hosts.iter().enumerate() {
        hosts.0.start(&mut network.port_of(part, Timestamp::ZERO));
    }
    let mut samples = Vec::new();
    for instant in sampled() {
        let at = Timestamp::from_nanos(instant);
        let mut workers = [Workers::Threads, Workers::Caller].into_iter().cycle().skip(samples.len());
        // Pauses now and then whatever is left.
        let asked = AtomicU64::new(0);
        let enough = || asked.fetch_add(1, Ordering::Relaxed) % 5 == 4;
        while network.run_parts(at, &mut hosts, budget, workers.next().unwrap_or(Workers::Caller), &enough)
            == Pause::Budget
        {}
        assert_eq!(network.now(), at);
        samples.push((counters(&mut network), network.packets(), network.events()));
        reset_some(&mut network);
    }
    let mut deliveries: Vec<Delivery> = hosts.into_iter().flat_map(|hosts| hosts.0.deliveries).collect();
    deliveries.sort_by_key(|delivery| (delivery.time, delivery.id));
    Seen { deliveries, samples, records: network.take_records().iter().map(told).collect() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 300 }))]
    #[test]
    fn parts_change_nothing(
        world in world(),
        record in prop::collection::vec(prop::bool::weighted(0.3), 9),
        wanted in prop::collection::vec(0u32..7, 6),
        budget in prop_oneof![Just(u64::MAX), 1u64..2_000],
        idle in any::<bool>(),
    ) {
        let manner = Manner { record, idle, ..Manner::default() };
        let whole = run(&world, &manner, &[0; 6], u64::MAX);
        for count in [2, 3, 7] {
            let wanted: Vec<u32> = wanted.iter().map(|part| part % count).collect();
            let seen = run(&world, &manner, &parts(&world, &wanted), budget);
            prop_assert_eq!(&seen, &whole);
            // One process more than there are parts has nothing to do.
            let seen = run_apart(&world, &manner, &parts(&world, &wanted), count as usize + 1, budget);
            prop_assert_eq!(&seen, &whole);
        }
    }
}

fn link(name: &str, from: u32, to: u32, delay_ms: u64) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(10_000_000)),
        delay: TimeDelta::from_millis(delay_ms),
        ..LinkConfig::new(name, NodeId(from), NodeId(to))
    }
}

#[test]
fn a_cut_that_cannot_be_is_refused_and_leaves_the_network_as_it_was() {
    let mut network = Network::new();
    let near = network.add_link(link("near", 0, 1, 0), &Streams::new(1));
    let far = network.add_link(link("far", 1, 2, 3), &Streams::new(1));
    network.add_route(&[near, far]).unwrap();
    assert_eq!(network.cut(&[0, 1, 1]), Err(CutError::NoDelay("near".to_owned())));
    assert_eq!(network.cut(&[0, 0, 2]), Err(CutError::Empty(1)));
    assert_eq!(network.cut(&[0, 1]), Err(CutError::NoDelay("near".to_owned())));
    assert_eq!(network.cut(&[1, 1]).unwrap_err(), CutError::Empty(0));
    assert_eq!((network.part_count(), network.link_count(), network.lookahead()), (1, 2, None));
    network.cut(&[0, 0, 1]).unwrap();
    assert_eq!((network.part_count(), network.part_of(NodeId(2))), (2, 1));
    assert_eq!(network.lookahead(), Some(TimeDelta::from_millis(3)));
    assert_eq!(network.cut(&[0, 0, 1]), Err(CutError::Late));
    assert!(network.add_route(&[far]).is_err());
    assert_eq!(network.link(far).name(), "far");

    let mut used = Network::new();
    let first = used.add_link(link("first", 0, 1, 1), &Streams::new(1));
    let route_of_used = used.add_route(&[first]).unwrap();
    used.port(Timestamp::ZERO).send(route_of_used, single());
    assert_eq!(used.cut(&[0, 1]), Err(CutError::Late));
}

/// One small packet.
fn single() -> Packet {
    let (at, route, count, size, class) = (0, 0, 1, 100, 0);
    packet(1, 0, &Burst { at, route, count, size, class, ecn: Ecn::NotEct, answered: false })
}

/// A host that panics when a packet arrives.
struct Fragile;

impl Hosts for Fragile {
    fn handle_packet(&mut self, _: Timestamp, _: &Packet, _: &mut Port<'_>) {
        panic!("a host has a fault");
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Port<'_>) {}
}

impl PartHosts for Fragile {
    type Note = ();
    fn take_notes(&mut self) -> Vec<(usize, ())> {
        Vec::new()
    }
    fn handle_note(&mut self, (): ()) {}
}

#[test]
#[should_panic(expected = "a host has a fault")]
fn a_panic_in_one_part_ends_the_run_of_all() {
    let mut network = Network::new();
    let over = network.add_link(link("over", 0, 1, 1), &Streams::new(1));
    let route = network.add_route(&[over]).unwrap();
    network.cut(&[0, 1]).unwrap();
    network.port_of(0, Timestamp::ZERO).send(route, single());
    network
        .run_parts(Timestamp::from_secs(1), &mut [Fragile, Fragile], u64::MAX, Workers::Threads, &|| false);
}
