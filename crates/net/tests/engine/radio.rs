//! Wi-Fi against its formula, and what becomes of packets that are not received.

use warpline_core::{Ecn, LinkId, NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::radio::Wifi;
use warpline_net::{LinkConfig, LinkStats, RateConfig};

use crate::hosts::{Burst, Delivery};
use crate::world::{Manner, World, conserved, counters};

const RATE: f64 = 144.4e6;

fn wifi(frames: u32, error: f64) -> Wifi {
    Wifi { rate: Rate::from_bps(RATE as u64), frames, error, ..Wifi::default() }
}

/// Offers `count` packets of 1500 bytes at once, and runs until all have been handled.
fn play(wifi: Wifi, count: u32) -> (Vec<Delivery>, LinkStats) {
    let link = LinkConfig {
        rate: RateConfig::Wifi(wifi),
        qdisc: QdiscConfig::drop_tail(QueueLimit::Unlimited),
        delay: TimeDelta::from_millis(1),
        ..LinkConfig::new("0", NodeId(0), NodeId(1))
    };
    let burst = Burst { at: 0, route: 0, count, size: 1500, class: 0, ecn: Ecn::NotEct, answered: false };
    let world = World { links: vec![link], routes: vec![vec![LinkId(0)]], bursts: vec![burst] };
    let (mut network, mut hosts) = world.build(&Manner::default());
    network.run_until(Timestamp::from_secs(600), &mut hosts, u64::MAX);
    let stats = counters(&mut network);
    conserved(&world.links, &stats, network.packets());
    assert_eq!(network.packets().2, 0);
    (hosts.deliveries, stats[0])
}

/// Bits per second from the first packet to the last.
fn goodput(deliveries: &[Delivery]) -> f64 {
    let span = deliveries[deliveries.len() - 1].time.as_nanos() - deliveries[0].time.as_nanos();
    deliveries.len() as f64 * 1500.0 * 8e9 / span as f64
}

/// The rate of the model of "Ending the Anomaly" for aggregates of `n` packets: n L / (T_data + T_oh), in bits per second.
fn expected(n: f64) -> f64 {
    // AIFS, the mean backoff of 7.5 slots, the preamble for two streams, SIFS, and the block acknowledgement, in microseconds.
    let overhead = 43.0 + 7.5 * 9.0 + 40.0 + 16.0 + 32.0;
    // 42 bytes of headers, padded to a multiple of four; service and tail bits.
    let data = (n * 1544.0 * 8.0 + 22.0) / RATE * 1e6;
    n * 1500.0 * 8.0 / (data + overhead) * 1e6
}

#[test]
fn throughput_is_that_of_the_formula() {
    for frames in [1, 2, 8, 32, 64] {
        let found = goodput(&play(wifi(frames, 0.0), 20_000).0);
        // An aggregate of 1544 bytes each takes 85.5 us: the airtime allows 64 of them.
        let expected = expected(f64::from(frames));
        assert!((found / expected - 1.0).abs() < 0.01, "{frames}: {found} {expected}");
    }
    // Eleven packets of 85.5 us fit.
    let short = Wifi { airtime: TimeDelta::from_micros(1000), ..wifi(64, 0.0) };
    let found = goodput(&play(short, 20_000).0);
    assert!((found / expected(11.0) - 1.0).abs() < 0.01, "{found}");
}

#[test]
fn packets_that_are_not_received_are_sent_again_and_keep_their_order() {
    let (deliveries, stats) = play(wifi(32, 0.1), 20_000);
    assert!(deliveries.windows(2).all(|pair| pair[0].id < pair[1].id && pair[0].time <= pair[1].time));
    // A ten-millionth of the packets is given up.
    assert_eq!((deliveries.len(), stats.drops_loss), (20_000, 0));
    // A tenth of each aggregate has been sent before.
    let (found, expected) = (goodput(&deliveries), 0.9 * expected(32.0));
    assert!((found / expected - 1.0).abs() < 0.02, "{found} {expected}");
    let (deliveries, stats) = play(Wifi { retries: 1, ..wifi(32, 0.5) }, 20_000);
    assert_eq!(deliveries.len() as u64 + stats.drops_loss, 20_000);
    // Lost twice: a quarter.
    assert!((4_700..5_300).contains(&stats.drops_loss), "{stats:?}");
}

#[test]
fn a_packet_alone_pays_for_the_channel_and_those_of_an_aggregate_arrive_together() {
    let (deliveries, _) = play(wifi(64, 0.0), 30);
    // The first packet finds the sender idle and goes alone; the others wait for it.
    assert!(deliveries[0].time < deliveries[1].time);
    assert!(deliveries[1..].iter().all(|delivery| delivery.time == deliveries[1].time));
    // AIFS, at least no backoff, preamble, data and the link's delay.
    let least = 43_000 + 40_000 + (1544 * 8 + 22) * 1000 * 10 / 1444 + 1_000_000;
    let first = deliveries[0].time.as_nanos();
    assert!((least..least + 15 * 9_000 + 1000).contains(&first), "{first} {least}");
}
