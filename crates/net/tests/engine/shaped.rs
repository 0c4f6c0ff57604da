//! Links whose queue holds packets back, with times computed by hand: at 8 Mbit/s a byte takes a microsecond, at 4 Mbit/s of tokens two.

use warpline_core::{Bytes, Ecn, LinkId, NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::qdisc::{QdiscConfig, TbfParams};
use warpline_net::{LinkConfig, LinkStats, RateConfig};

use crate::hosts::Burst;
use crate::world::{Manner, World, conserved, counters};

/// Sends packets of 1000 bytes, so many at each of these milliseconds, over a link with 1 ms of delay and a token bucket. Returns when they
/// arrive in microseconds, the link's counters, and the number of events.
fn run(
    rate: RateConfig,
    burst: u64,
    outages: Vec<(Timestamp, Timestamp)>,
    sent: &[(u64, u32)],
) -> (Vec<u64>, LinkStats, u64) {
    play(
        shaped(rate, burst, outages),
        sent.iter().map(|&(ms, count)| packets(ms * 1_000_000, count, 1000)).collect(),
    )
}

/// A link with 1 ms of delay and a token bucket.
fn shaped(rate: RateConfig, burst: u64, outages: Vec<(Timestamp, Timestamp)>) -> LinkConfig {
    let (shaped, burst) = (Some(Rate::from_bps(4_000_000)), Some(Bytes(burst)));
    let qdisc = QdiscConfig::Tbf(TbfParams { rate: shaped, burst, ..TbfParams::default() });
    LinkConfig {
        rate,
        qdisc,
        outages,
        delay: TimeDelta::from_millis(1),
        ..LinkConfig::new("0", NodeId(0), NodeId(1))
    }
}

fn packets(at: u64, count: u32, size: u32) -> Burst {
    Burst { at, route: 0, count, size, class: 0, ecn: Ecn::NotEct, answered: false }
}

fn play(link: LinkConfig, bursts: Vec<Burst>) -> (Vec<u64>, LinkStats, u64) {
    let world = World { links: vec![link], routes: vec![vec![LinkId(0)]], bursts };
    let (mut network, mut hosts) = world.build(&Manner::default());
    network.run_until(Timestamp::from_secs(60), &mut hosts, u64::MAX);
    let stats = counters(&mut network);
    conserved(&world.links, &stats, network.packets());
    let micros = |at: Timestamp| at.as_nanos() / 1000;
    (hosts.deliveries.iter().map(|d| micros(d.time)).collect(), stats[0], network.events())
}

fn constant() -> RateConfig {
    RateConfig::Constant(Rate::from_bps(8_000_000))
}

#[test]
fn a_packet_leaves_when_there_are_tokens_for_it() {
    assert_eq!(run(constant(), 1000, vec![], &[(0, 3)]).0, [2000, 4000, 6000]);
    // While the link sends, half of what it sends comes back.
    assert_eq!(run(constant(), 3000, vec![], &[(0, 7)]).0, [2000, 3000, 4000, 5000, 6000, 8000, 10_000]);
    // Without serialisation, all that the bucket holds at once.
    assert_eq!(run(RateConfig::Unlimited, 3000, vec![], &[(0, 5)]).0, [1000, 1000, 1000, 3000, 5000]);
}

#[test]
fn the_link_asks_once_for_each_packet_that_waits() {
    let (arrivals, stats, events) = run(constant(), 1000, vec![], &[(0, 3), (1, 1), (3, 1)]);
    assert_eq!(arrivals, [2000, 4000, 6000, 8000, 10_000]);
    assert_eq!((stats.queued_max, stats.sent_packets), (TimeDelta::from_millis(5), 5));
    // Three bursts; the end, the arrival and the tokens of each packet, but for those of the first.
    assert_eq!(events, 3 + 3 * 5 - 1);
}

#[test]
fn an_outage_takes_what_is_held_back() {
    let outage = vec![(Timestamp::from_millis(3), Timestamp::from_millis(5))];
    let (arrivals, stats, _) = run(constant(), 1000, outage, &[(0, 4), (10, 2)]);
    assert_eq!((arrivals, stats.drops_down), (vec![2000, 4000, 12_000, 14_000], 2));
}

#[test]
fn what_the_link_was_to_ask_for_does_not_cut_another_packet_short() {
    // The second packet is to leave at 6 ms, but an outage takes it. The third one is in transmission at that time, from 5.5 to 6.5 ms.
    let outage = vec![(Timestamp::from_millis(4), Timestamp::from_millis(5))];
    let bursts = vec![packets(0, 2, 3000), packets(5_500_000, 1, 1000)];
    let (arrivals, stats, _) = play(shaped(constant(), 3000, outage), bursts);
    assert_eq!((arrivals, stats.drops_down), (vec![4000, 7500], 1));
}
