//! Small networks whose times were computed by hand, with both implementations of a link.
//!
//! At 8 Mbit/s a byte takes a microsecond.

use std::sync::Arc;

use warpline_core::{Ecn, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp};
use warpline_net::jitter::{JitterKind, Order, Uniform};
use warpline_net::loss::{EveryParams, LossKind};
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::{
    CodelParams, Dropped, OwnQueue, PriorityParams, Qdisc, QdiscConfig, QueueLimit, Queued, RedParams,
    Verdict,
};
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{Hosts, LinkConfig, LinkStats, Network, Pause, Port, RateConfig, RouteError};

use crate::hosts::{Burst, Scripted};
use crate::world::{World, conserved, counters};

const MS: u64 = 1_000_000;
const MBIT: u64 = 1_000_000;

const fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}
fn constant(rate: u64) -> RateConfig {
    RateConfig::Constant(Rate::from_bps(rate))
}
fn drop_tail(limit: QueueLimit) -> QdiscConfig {
    QdiscConfig::drop_tail(limit)
}
/// A link from node `from` to the next, at 8 Mbit/s and with 1 ms of delay.
fn link(from: u32) -> LinkConfig {
    LinkConfig {
        rate: constant(8 * MBIT),
        delay: TimeDelta::from_millis(1),
        ..LinkConfig::new(format!("{from}"), NodeId(from), NodeId(from + 1))
    }
}
/// `count` packets of `size` bytes at `at` nanoseconds.
fn burst(at: u64, count: u32, size: u32) -> Burst {
    Burst { at, route: 0, count, size, class: 0, ecn: Ecn::NotEct, answered: false }
}

/// Sends over all of `links`, one after the other, and runs for an hour. Returns the deliveries as (nanoseconds, packet) and the links'
/// counters, which must be the same with and without recording.
fn run(links: Vec<LinkConfig>, bursts: &[Burst]) -> (Vec<(u64, u64)>, Vec<LinkStats>) {
    let route = (0..links.len() as u32).map(warpline_core::LinkId).collect();
    let recorded = vec![true; links.len()];
    let world = World { links, routes: vec![route], bursts: bursts.to_vec() };
    let mut outcomes = [vec![], recorded].map(|record| {
        let (mut network, mut hosts) = world.build(&crate::world::Manner { record, ..Default::default() });
        network.run_until(Timestamp::from_secs(3600), &mut hosts, u64::MAX);
        let stats = counters(&mut network);
        conserved(&world.links, &stats, network.packets());
        // Packets that enter at the same link have every so manieth number.
        let number = |id: u64| id / (stats.len() as u64 | 1);
        (
            hosts.deliveries.iter().map(|d| (d.time.as_nanos(), number(d.id))).collect::<Vec<_>>(),
            stats.clone(),
        )
    });
    assert_eq!(outcomes[0], outcomes[1]);
    std::mem::take(&mut outcomes[0])
}
fn times(links: Vec<LinkConfig>, bursts: &[Burst]) -> Vec<u64> {
    run(links, bursts).0.into_iter().map(|(time, _)| time).collect()
}

#[test]
fn packets_are_stored_and_forwarded() {
    assert_eq!(times(vec![link(0), link(1)], &[burst(0, 3, 1000)]), [4 * MS, 5 * MS, 6 * MS]);
    let framed = LinkConfig { framing: 18, ..link(0) };
    let (deliveries, stats) = run(vec![framed, link(1)], &[burst(0, 2, 1000)]);
    assert_eq!(deliveries, [(4_018_000, 0), (5_036_000, 1)]);
    assert_eq!((stats[0].sent_bytes, stats[1].sent_bytes), (2036, 2000));
    assert_eq!((stats[0].queued_time, stats[1].queued_time).0, TimeDelta::from_micros(1018));
    assert_eq!(stats[1].queued_time, TimeDelta::ZERO);
}

#[test]
fn fractions_of_a_nanosecond_are_carried() {
    // 8000 bits at 7 Mbit/s: 1 142 857 1/7 ns.
    let slow = LinkConfig { rate: constant(7 * MBIT), delay: TimeDelta::ZERO, ..link(0) };
    let exact: Vec<u64> = (1..=7).map(|n| n * 8 * MS / 7).collect();
    assert_eq!(times(vec![slow], &[burst(0, 7, 1000)]), exact);
    assert_eq!((exact[2], exact[6]), (3_428_571, 8 * MS));
}

#[test]
fn drop_tail_counts_packets_without_the_one_in_transmission() {
    let short = LinkConfig { qdisc: drop_tail(QueueLimit::Packets(2)), ..link(0) };
    // One in transmission and two waiting; a departure at 1 ms makes room for an arrival at 1 ms.
    let bursts = [burst(0, 5, 1000), burst(MS, 2, 1000)];
    let (deliveries, stats) = run(vec![short], &bursts);
    assert_eq!(deliveries, [(2 * MS, 0), (3 * MS, 1), (4 * MS, 2), (5 * MS, 5)]);
    assert_eq!((stats[0].arrivals, stats[0].sent_packets, stats[0].drops_overflow), (7, 4, 3));
    assert_eq!(stats[0].queued_time, TimeDelta::from_millis(1 + 2 + 2));
    assert_eq!(stats[0].queued_max, TimeDelta::from_millis(2));
}

#[test]
fn drop_tail_counts_bytes_with_framing() {
    let limit = drop_tail(QueueLimit::Bytes(2536));
    let short = LinkConfig { qdisc: limit, framing: 18, delay: TimeDelta::ZERO, ..link(0) };
    // 1018 in transmission, 1018 and 1018 waiting; the next does not fit, 482 + 18 does, one more byte would not.
    let bursts = [burst(0, 4, 1000), burst(1, 1, 483), burst(2, 1, 482), burst(3, 1, 1)];
    let (deliveries, stats) = run(vec![short], &bursts);
    let us = 1_000;
    assert_eq!(deliveries, [(1018 * us, 0), (2036 * us, 1), (3054 * us, 2), (3554 * us, 5)]);
    assert_eq!(stats[0].drops_overflow, 3);
}

#[test]
fn packets_lost_on_the_wire_have_used_the_link() {
    let lossy = LinkConfig { loss: LossKind::Every(EveryParams { n: 2 }).into(), ..link(0) };
    let (deliveries, stats) = run(vec![lossy, link(1)], &[burst(0, 4, 1000)]);
    assert_eq!(deliveries, [(4 * MS, 0), (6 * MS, 2)]);
    assert_eq!((stats[0].sent_packets, stats[0].drops_loss, stats[1].arrivals), (4, 2, 2));
}

#[test]
fn a_copy_arrives_behind_its_packet_and_takes_time_from_the_next_link_on() {
    let twice = LinkConfig { duplicate: LossKind::Every(EveryParams { n: 2 }), ..link(0) };
    let (deliveries, stats) = run(vec![twice.clone(), link(1)], &[burst(0, 3, 1000)]);
    assert_eq!(deliveries, [(4 * MS, 0), (5 * MS, 1), (6 * MS, 1), (7 * MS, 2)]);
    assert_eq!((stats[0].sent_packets, stats[0].duplicated, stats[1].arrivals), (3, 1, 4));
    // A copy is copied by the next link, and a packet that is lost is not.
    let both = LinkConfig { loss: LossKind::Every(EveryParams { n: 4 }).into(), ..twice.clone() };
    let again = LinkConfig { name: "1".into(), from: NodeId(1), to: NodeId(2), ..twice };
    let (deliveries, stats) = run(vec![both, again], &[burst(0, 4, 1000)]);
    assert_eq!(deliveries.iter().map(|&(_, id)| id).collect::<Vec<_>>(), [0, 1, 1, 1, 2, 2]);
    assert_eq!([0, 1].map(|link| (stats[link].duplicated, stats[link].drops_loss)), [(1, 1), (2, 0)]);
}

#[test]
fn a_packet_changed_on_the_wire_arrives_damaged_and_its_copy_whole() {
    let all = LossKind::Every(EveryParams { n: 1 });
    let second = LossKind::Every(EveryParams { n: 2 });
    let bad = LinkConfig { duplicate: all, corrupt: second, ..link(0) };
    let world = |record| {
        let (links, route) =
            (vec![bad.clone(), link(1)], vec![warpline_core::LinkId(0), warpline_core::LinkId(1)]);
        let world = World { links, routes: vec![route], bursts: vec![burst(0, 2, 1000)] };
        let outcome = world.run(&crate::world::Manner { record: vec![record; 2], ..Default::default() });
        let damaged: Vec<bool> = outcome.deliveries.iter().map(|delivery| delivery.damaged).collect();
        (damaged, outcome.samples.last().unwrap().0[0].corrupted)
    };
    assert_eq!(
        (world(false), world(true)),
        ((vec![false, false, true, false], 1), (vec![false, false, true, false], 1))
    );
}

/// Last in, first out.
#[derive(Debug, Default)]
struct Stack(Vec<Queued>);

impl Qdisc for Stack {
    fn enqueue(&mut self, _now: Timestamp, packet: Queued, _dropped: &mut Dropped) -> Verdict {
        self.0.push(packet);
        Verdict::Queued
    }
    fn dequeue(&mut self, _now: Timestamp, _dropped: &mut Dropped) -> Option<Queued> {
        self.0.pop()
    }
    fn backlog(&self) -> (u32, u64) {
        (self.0.len() as u32, self.0.iter().map(|packet| u64::from(packet.size)).sum())
    }
}

#[test]
fn a_link_can_have_a_custom_queue() {
    let own = OwnQueue(Arc::new(|_, _| Box::new(Stack::default())));
    let link = LinkConfig { own_queue: Some(own), ..link(0) };
    let (deliveries, _) = run(vec![link], &[burst(0, 4, 1000)]);
    // The first is sent at once. Of the others, the last goes first.
    assert_eq!(deliveries.iter().map(|(_, packet)| *packet).collect::<Vec<_>>(), [0, 3, 2, 1]);
}

#[test]
fn a_higher_class_overtakes_all_but_the_packet_in_transmission() {
    let limit = QueueLimit::Packets(3);
    let priority = QdiscConfig::Priority(PriorityParams { limit, ..PriorityParams::default() });
    let low = Burst { class: 1, ..burst(0, 4, 1000) };
    let (deliveries, stats) =
        run(vec![LinkConfig { qdisc: priority, ..link(0) }], &[low, burst(MS / 2, 2, 500)]);
    // The two of class 0 push packets 3 and 2 out.
    assert_eq!(deliveries, [(2 * MS, 0), (2_500_000, 4), (3 * MS, 5), (4 * MS, 1)]);
    assert_eq!(stats[0].drops_overflow, 2);
}

#[test]
fn an_outage_empties_the_queue_and_finishes_the_packet_in_transmission() {
    let from = Timestamp::from_nanos(2_500_000);
    let broken = LinkConfig { outages: vec![(from, ms(5))], ..link(0) };
    let bursts =
        [burst(0, 5, 1000), burst(2_500_000, 1, 1000), burst(4 * MS, 1, 1000), burst(5 * MS, 1, 1000)];
    let (deliveries, stats) = run(vec![broken], &bursts);
    assert_eq!(deliveries, [(2 * MS, 0), (3 * MS, 1), (4 * MS, 2), (7 * MS, 7)]);
    assert_eq!((stats[0].arrivals, stats[0].sent_packets, stats[0].drops_down), (8, 4, 4));
}

#[test]
fn a_longer_route_delays_later_packets_and_a_shorter_one_lets_none_overtake() {
    let far = TimeDelta::from_millis(20);
    let steps = [(TimeDelta::from_millis(2), far), (TimeDelta::from_millis(4), TimeDelta::ZERO)];
    let detour = Steps::new(TimeDelta::ZERO, &steps, None).unwrap();
    let bursts = [burst(0, 5, 1000), burst(40 * MS, 1, 1000)];
    // They leave at 1, 2, ... 5 ms and take 1 ms; those of 2 and 3 ms take 21, behind which the others arrive.
    let deliveries = times(vec![LinkConfig { detour: Some(detour), ..link(0) }], &bursts);
    assert_eq!(deliveries, [2, 23, 24, 24, 24, 42].map(|at| at * MS));
}

#[test]
fn packets_lost_in_an_outage_are_not_drops_of_codel() {
    let millis = TimeDelta::from_millis;
    let codel = CodelParams {
        target: millis(1),
        interval: millis(2),
        limit: QueueLimit::Unlimited,
        ..Default::default()
    };
    let broken = LinkConfig { qdisc: QdiscConfig::Codel(codel), outages: vec![(ms(59), ms(70))], ..link(0) };
    // Packets take 10 ms, so more drops are due at each dequeue.
    let world = World {
        links: vec![broken],
        routes: vec![vec![warpline_core::LinkId(0)]],
        bursts: vec![burst(0, 400, 10_000)],
    };
    let (mut network, mut hosts) = world.build(&Default::default());
    network.run_until(ms(58), &mut hosts, u64::MAX);
    let before = counters(&mut network)[0];
    assert!(before.drops_aqm > 0 && before.backlog_packets > 10);
    network.run_until(ms(100), &mut hosts, u64::MAX);
    let after = counters(&mut network)[0];
    assert_eq!((after.drops_aqm, after.drops_down), (before.drops_aqm, u64::from(before.backlog_packets)));
}

#[test]
fn a_hop_that_takes_no_time_keeps_the_order_within_an_instant() {
    // Two packets meet at node 2 after 1 ms, one of them by way of a second hop that takes no time.
    let hop = |name: &str, from, to, delay| LinkConfig {
        delay: TimeDelta::from_millis(delay),
        ..LinkConfig::new(name, NodeId(from), NodeId(to))
    };
    let links =
        vec![hop("free", 1, 2, 0), hop("other", 4, 2, 1), hop("first", 0, 1, 1), LinkConfig { ..link(2) }];
    let id = warpline_core::LinkId;
    let routes = vec![vec![id(2), id(0), id(3)], vec![id(1), id(3)]];
    let world =
        World { links, routes, bursts: vec![burst(0, 1, 1000), Burst { route: 1, ..burst(0, 1, 1000) }] };
    for no_express in [false, true] {
        let outcome = world.run(&crate::world::Manner { no_express, ..Default::default() });
        assert_eq!(outcome.deliveries.iter().map(|d| d.id).collect::<Vec<_>>(), [1, 2]);
    }
}

#[test]
fn outages_may_begin_at_once_overlap_and_last_for_ever() {
    let outages = vec![
        (ms(3), ms(9)),
        (Timestamp::ZERO, ms(2)),
        (ms(4), ms(6)),
        (ms(9), ms(10)),
        (ms(1), ms(1)),
        (ms(20), Timestamp::NEVER),
    ];
    let broken = LinkConfig { outages, ..link(0) };
    let bursts = [0, 1, 2, 3, 6, 9, 10, 19, 20, 30].map(|at| burst(at * MS, 1, 1000));
    let (deliveries, stats) = run(vec![broken.clone()], &bursts);
    assert_eq!(deliveries, [(4 * MS, 2), (12 * MS, 6), (21 * MS, 7)]);
    assert_eq!(stats[0].drops_down, 7);

    // Sent at the start from outside, before any event has been handled.
    let mut network = Network::new();
    let id = network.add_link(broken, &Streams::new(1));
    let route = network.add_route(&[id]).unwrap();
    let packet = crate::hosts::packet(1, 0, &burst(0, 1, 1000));
    network.port(Timestamp::ZERO).send(route, packet);
    assert_eq!(network.link_stats(id).drops_down, 1);
}

#[test]
fn an_invalid_or_late_route_is_refused() {
    let mut network = Network::new();
    let ids = [0, 1, 2].map(|n| network.add_link(link(n), &Streams::new(1)));
    let idle = network.add_idle_link();
    assert_eq!(network.add_route(&[]), Err(RouteError::Empty));
    assert_eq!(network.add_route(&[idle]), Err(RouteError::Idle(3)));
    assert_eq!(network.add_route(&[warpline_core::LinkId(4)]), Err(RouteError::Unknown(4)));
    assert_eq!((network.link_count(), network.links().collect::<Vec<_>>()), (4, ids.to_vec()));
    let gap = network.add_route(&[ids[0], ids[2]]).unwrap_err();
    assert!(gap.to_string().contains(network.link(ids[2]).name()), "{gap}");
    let route = network.add_route(&[ids[0], ids[1]]).unwrap();
    network.port(Timestamp::ZERO).send(route, crate::hosts::packet(1, 0, &burst(0, 1, 1000)));
    // It could share a link with the packet that is under way.
    assert_eq!(network.add_route(&ids), Err(RouteError::Late));
}

fn up_to_5_ms(reorder: bool) -> JitterKind {
    let max = TimeDelta::from_millis(5);
    JitterKind::Uniform(Uniform { min: TimeDelta::ZERO, max, order: Order { reorder } })
}

#[test]
fn jitter_in_order_is_the_running_maximum_of_jitter_that_reorders() {
    let jittery = |reorder| LinkConfig { jitter: up_to_5_ms(reorder), ..link(0) };
    let bursts = [burst(0, 200, 1000)];
    let mut free = run(vec![jittery(true)], &bursts).0;
    assert!(free.windows(2).any(|pair| pair[0].1 > pair[1].1), "nothing was overtaken");
    free.sort_by_key(|&(_, id)| id);
    let mut latest = 0;
    for (time, id) in &mut free {
        let sent = (*id + 1) * MS;
        assert!((sent + MS..=sent + 6 * MS).contains(time));
        latest = latest.max(*time);
        *time = latest;
    }
    assert_eq!(run(vec![jittery(false)], &bursts).0, free);
}

#[test]
fn a_lost_packet_delays_no_other_and_changes_no_random_delay() {
    let clean = LinkConfig { jitter: up_to_5_ms(true), ..link(0) };
    let lossy = LinkConfig { loss: LossKind::Every(EveryParams { n: 3 }).into(), ..clean.clone() };
    let bursts = [burst(0, 30, 1000)];
    let mut left = run(vec![clean], &bursts).0;
    left.retain(|&(_, id)| id % 3 != 2);
    assert_eq!(run(vec![lossy], &bursts).0, left);
}

#[test]
fn a_schedule_stalls_and_speeds_up_transmissions() {
    let rate = |mbit| Rate::from_bps(mbit * MBIT);
    let steps = [(TimeDelta::from_micros(1500), rate(0)), (TimeDelta::from_millis(4), rate(16))];
    let schedule = RateSchedule::new(Steps::new(rate(8), &steps, None).unwrap());
    let scheduled = LinkConfig { rate: RateConfig::Scheduled(schedule), ..link(0) };
    assert_eq!(times(vec![scheduled], &[burst(0, 3, 1000)]), [2 * MS, 5_250_000, 5_750_000]);
}

#[test]
fn a_trace_delivers_at_its_opportunities() {
    let trace = Arc::new(Trace::parse(b"2\n2\n5\n10\n").unwrap());
    let cellular = LinkConfig { rate: RateConfig::Trace(trace), delay: TimeDelta::ZERO, ..link(0) };
    let full = times(vec![cellular.clone()], &[burst(0, 5, 1500)]);
    assert_eq!(full, [2 * MS, 2 * MS, 5 * MS, 10 * MS, 12 * MS]);
    // Two to an opportunity; the last begins in the second opportunity of 2 ms and ends in that of 5 ms.
    let small = times(vec![cellular], &[burst(0, 3, 750), burst(0, 1, 1000)]);
    assert_eq!(small, [2 * MS, 2 * MS, 2 * MS, 5 * MS]);
}

#[test]
fn a_packet_that_comes_with_an_opportunity_is_too_late_for_what_others_leave_of_it() {
    let trace = Arc::new(Trace::parse(b"2\n2\n5\n10\n").unwrap());
    let cellular = LinkConfig { rate: RateConfig::Trace(trace), delay: TimeDelta::ZERO, ..link(0) };
    // One ends at 2 ms in half of the first opportunity, and another one comes then: it is as late as one that finds no other.
    let alone = times(vec![cellular.clone()], &[burst(2 * MS, 1, 750)]);
    assert_eq!(alone, [5 * MS]);
    let behind = times(vec![cellular], &[burst(0, 1, 750), burst(2 * MS, 1, 750)]);
    assert_eq!(behind, [2 * MS, 5 * MS]);
}

#[test]
fn packets_are_marked_that_would_have_been_dropped() {
    let red = |ecn| {
        let config = RedParams {
            ecn,
            limit: QueueLimit::Packets(50),
            min_threshold: Some(QueueLimit::Packets(1)),
            max_threshold: Some(QueueLimit::Packets(3)),
            weight: 1.0,
            max_probability: 1.0,
            ..Default::default()
        };
        LinkConfig { qdisc: QdiscConfig::Red(config), ..link(0) }
    };
    let bursts = [Burst { ecn: Ecn::Ect0, ..burst(0, 5, 1000) }];
    let world = World {
        links: vec![red(true)],
        routes: vec![vec![warpline_core::LinkId(0)]],
        bursts: bursts.to_vec(),
    };
    let outcome = world.run(&Default::default());
    let stats = outcome.samples.last().unwrap().0[0];
    let marked = outcome.deliveries.iter().filter(|delivery| delivery.ecn == Ecn::Ce).count() as u64;
    assert!(marked > 0 && marked == stats.marks && stats.drops() == 0, "{stats:?}");
    let (deliveries, stats) = run(vec![red(false)], &bursts);
    assert!(stats[0].drops_aqm > 0 && stats[0].marks == 0 && deliveries.len() < 5);
}

#[test]
fn transmissions_that_take_no_time_never_queue() {
    // Without limit, and so fast that 125 bytes take a picosecond.
    for rate in [RateConfig::Unlimited, constant(1_000_000_000_000_000)] {
        let limited = LinkConfig { rate, qdisc: drop_tail(QueueLimit::Packets(1)), ..link(0) };
        let (deliveries, stats) = run(vec![limited], &[burst(0, 500, 1)]);
        assert_eq!((deliveries.len(), stats[0].drops_overflow), (500, 0));
    }
    // A byte limit below a packet's size does not matter if nothing waits.
    let tiny = LinkConfig { rate: RateConfig::Unlimited, qdisc: drop_tail(QueueLimit::Bytes(10)), ..link(0) };
    assert_eq!(times(vec![tiny], &[burst(0, 3, 1000)]), [MS; 3]);
}

#[test]
fn extreme_rates_and_sizes_neither_overflow_nor_end_time() {
    for rate in [0, 1, 3] {
        let slow = LinkConfig {
            rate: constant(rate),
            framing: u32::MAX,
            qdisc: drop_tail(QueueLimit::Unlimited),
            ..link(0)
        };
        let mut network = Network::new();
        let id = network.add_link(slow.clone(), &Streams::new(1));
        let route = network.add_route(&[id]).unwrap();
        let mut hosts = Scripted::new(vec![route], vec![None], &[burst(0, 20, u32::MAX)]);
        hosts.start(&mut network.port(Timestamp::ZERO));
        assert_eq!(network.run_until(Timestamp::NEVER, &mut hosts, u64::MAX), Pause::Reached);
        let stats = network.link_stats(id);
        assert!(hosts.deliveries.len() < 2, "at {rate} bit/s");
        assert_eq!(stats.arrivals, 20);
        conserved(&[slow], &[stats], network.packets());
    }
}

#[test]
fn the_longest_wait_counts_in_the_interval_in_which_it_ended() {
    for record in [false, true] {
        let mut network = Network::new();
        let id = network.add_link(LinkConfig { record, ..link(0) }, &Streams::new(1));
        let route = network.add_route(&[id]).unwrap();
        let mut hosts =
            Scripted::new(vec![route], vec![None], &[burst(0, 4, 1000), burst(3_500_000, 1, 1000)]);
        hosts.start(&mut network.port(Timestamp::ZERO));
        let mut longest = |at| {
            network.run_until(Timestamp::from_nanos(at), &mut hosts, u64::MAX);
            let stats = network.link_stats(id);
            network.reset_queued_max(id);
            (stats.queued_max.as_nanos(), stats.queued_packets, stats.sent_packets, stats.backlog_packets)
        };
        assert_eq!(longest(500_000), (0, 1, 0, 3));
        assert_eq!(longest(2 * MS), (2 * MS, 3, 2, 1));
        assert_eq!(longest(2_500_000), (0, 3, 2, 1));
        assert_eq!(longest(3 * MS), (3 * MS, 4, 3, 0));
        assert_eq!(longest(9 * MS), (500_000, 5, 5, 0));
    }
}

/// Records when its timer fires, and sets it again by a script.
struct Alarm {
    calls: Vec<u64>,
    again: Vec<u64>,
}

impl Hosts for Alarm {
    fn handle_packet(&mut self, _: Timestamp, _: &Packet, _: &mut Port<'_>) {}
    fn handle_timeout(&mut self, now: Timestamp, timer: TimerId, port: &mut Port<'_>) {
        self.calls.push(now.as_nanos());
        if let Some(next) = self.again.pop() {
            port.set_timer(timer, Timestamp::from_nanos(next));
        }
    }
}

#[test]
fn the_earliest_deadline_counts_and_superseded_timers_do_not_fire() {
    let mut network = Network::new();
    let mut alarm = Alarm { calls: vec![], again: vec![10, 3] };
    let mut port = network.port(Timestamp::ZERO);
    for deadline in [u64::MAX, 10, 5, 7] {
        port.set_timer(TimerId(3), Timestamp::from_nanos(deadline));
    }
    // Set again for the past, which means now, and for an instant at which a superseded event is pending.
    network.run_until(Timestamp::NEVER, &mut alarm, u64::MAX);
    assert_eq!(alarm.calls, [5, 5, 10]);
}

#[test]
fn a_timer_that_is_reset_fires_at_its_last_deadline_only() {
    let mut network = Network::new();
    let mut alarm = Alarm { calls: vec![], again: vec![] };
    let mut port = network.port(Timestamp::ZERO);
    for (timer, deadlines) in [(0, &[10, 20, u64::MAX][..]), (1, &[10, 30][..]), (2, &[30, 5, 40][..])] {
        for &deadline in deadlines {
            port.reset_timer(TimerId(timer), Timestamp::from_nanos(deadline));
        }
    }
    network.run_until(Timestamp::from_nanos(25), &mut alarm, u64::MAX);
    assert_eq!(alarm.calls, [0; 0]);
    // Stopped, it starts anew; an earlier request counts against a later one of `set_timer`.
    let mut port = network.port(Timestamp::from_nanos(25));
    port.reset_timer(TimerId(0), Timestamp::from_nanos(26));
    port.set_timer(TimerId(0), Timestamp::from_nanos(27));
    network.run_until(Timestamp::NEVER, &mut alarm, u64::MAX);
    assert_eq!(alarm.calls, [26, 30, 40]);
}

#[test]
fn packets_from_outside_count_at_the_instant_of_sending() {
    let mut network = Network::new();
    let id = network.add_link(link(0), &Streams::new(1));
    let route = network.add_route(&[id]).unwrap();
    let mut hosts = Scripted::new(vec![route], vec![None], &[]);
    let packet = crate::hosts::packet(1, 0, &burst(0, 1, 1000));
    for at in [3, 9] {
        network.run_until(ms(at), &mut hosts, u64::MAX);
        network.port(ms(at + 1)).send(route, packet);
        let stats = network.link_stats(id);
        assert_eq!(
            (network.now(), stats.arrivals, stats.backlog_packets),
            (ms(at + 1), at / 3 - u64::from(at > 3), 0)
        );
    }
    network.run_until(ms(20), &mut hosts, u64::MAX);
    assert_eq!(hosts.deliveries.iter().map(|d| d.time).collect::<Vec<_>>(), [ms(6), ms(12)]);
}
