//! Priority flow control: no loss where there was some, at the cost of those who have to wait for others.

use warpline_core::{Ecn, LinkId, NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::qdisc::{PriorityParams, QdiscConfig, QueueLimit};
use warpline_net::{CutError, LinkChange, LinkConfig, LinkStats, PfcConfig, RateConfig};

use crate::hosts::{Burst, Scripted};
use crate::world::{Manner, World, conserved, counters};

const PFC: PfcConfig = PfcConfig { xoff: 4_000, xon: 2_000, headroom: 4_000 };

/// At 8 Mbit/s a byte takes a microsecond; the way takes 100 us.
fn link(from: u32, to: u32, limit: QueueLimit, pfc: Option<PfcConfig>) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(8_000_000)),
        delay: TimeDelta::from_micros(100),
        qdisc: QdiscConfig::drop_tail(limit),
        pfc,
        counts_sources: true,
        ..LinkConfig::new(format!("{from}>{to}"), NodeId(from), NodeId(to))
    }
}

fn burst(route: usize, at_us: u64, count: u32) -> Burst {
    Burst { at: at_us * 1000, route, count, size: 1000, class: 0, ecn: Ecn::NotEct, answered: false }
}

fn run(links: Vec<LinkConfig>, routes: &[&[u32]], bursts: Vec<Burst>) -> (Scripted, Vec<LinkStats>) {
    let routes = routes.iter().map(|route| route.iter().map(|&link| LinkId(link)).collect()).collect();
    let (mut network, mut hosts) = World { links: links.clone(), routes, bursts }.build(&Manner::default());
    network.run_until(Timestamp::from_secs(10), &mut hosts, u64::MAX);
    let stats = counters(&mut network);
    conserved(&links, &stats, network.packets());
    (hosts, stats)
}

/// Four hosts send 30 packets each to a fifth, over a node with room for 32.
fn incast(pfc: Option<PfcConfig>) -> (Scripted, Vec<LinkStats>) {
    let mut links = vec![link(8, 9, QueueLimit::Packets(32), None)];
    links.extend((0..4).map(|host| link(host, 8, QueueLimit::Unlimited, pfc)));
    let routes: [&[u32]; 4] = [&[1, 0], &[2, 0], &[3, 0], &[4, 0]];
    run(links, &routes, (0..4).map(|host| burst(host, 0, 30)).collect())
}

#[test]
fn an_incast_loses_nothing() {
    let (hosts, stats) = incast(None);
    assert!(stats[0].drops_overflow > 20 && hosts.deliveries.len() < 100, "{:?}", stats[0]);
    let (hosts, stats) = incast(Some(PFC));
    assert_eq!((stats[0].drops(), hosts.deliveries.len()), (0, 120));
    // The bottleneck never stands still: 120 packets after the first one's way.
    assert_eq!(hosts.deliveries.last().unwrap().time, Timestamp::ZERO + TimeDelta::from_micros(121_200));
    for paused in &stats[1..] {
        assert!(paused.pauses > 1 && paused.paused_time > TimeDelta::from_millis(50), "{paused:?}");
    }
    assert_eq!((stats[0].pauses, stats[0].paused_time), (0, TimeDelta::ZERO));
}

#[test]
fn what_comes_before_the_pause_takes_hold_needs_headroom() {
    let short = PfcConfig { headroom: 500, ..PFC };
    let (hosts, stats) = incast(Some(short));
    assert!(stats[0].drops_overflow > 0 && hosts.deliveries.len() < 120);
}

#[test]
fn a_pause_lasts_from_one_message_to_the_other() {
    // The second link takes 4 ms for a packet, and a message 184 us.
    let mut slow = link(1, 2, QueueLimit::Unlimited, None);
    slow.rate = RateConfig::Constant(Rate::from_bps(2_000_000));
    let (hosts, stats) =
        run(vec![link(0, 1, QueueLimit::Unlimited, Some(PFC)), slow], &[&[0, 1]], vec![burst(0, 0, 10)]);
    assert_eq!(hosts.deliveries.len(), 10);
    // Four have come at 4100 us, and none has left: the link pauses from 4284 us on, when the fifth is in transmission. At 13100 us the third
    // has left, and two are there: the link goes on at 13284 us.
    let pause = TimeDelta::from_micros(13_284 - 4_284);
    assert!(stats[0].pauses >= 1 && stats[0].paused_time >= pause, "{:?}", stats[0]);
    let times: Vec<u64> = hosts.deliveries.iter().map(|delivery| delivery.time.as_nanos() / 1000).collect();
    // The second link is never without a packet.
    assert_eq!(times, (1..=10).map(|packet| 1_200 + 4_000 * packet).collect::<Vec<u64>>());
}

/// A message that is sent while the link's rate is 0 arrives, too: the pause ends although it ends in that time.
#[test]
fn a_pause_that_ends_while_nothing_moves_has_ended() {
    let mut slow = link(1, 2, QueueLimit::Unlimited, None);
    slow.rate = RateConfig::Constant(Rate::from_bps(2_000_000));
    // As above, the link pauses from 4284 us on, and the message to go on is sent at 13100 us.
    let rate = |bps| LinkChange { rate: Some(Rate::from_bps(bps)), ..LinkChange::default() };
    let changes = vec![(Timestamp::from_millis(10), rate(0)), (Timestamp::from_millis(20), rate(8_000_000))];
    let changing = LinkConfig { changes, ..link(0, 1, QueueLimit::Unlimited, Some(PFC)) };
    let (hosts, stats) = run(vec![changing, slow], &[&[0, 1]], vec![burst(0, 0, 10)]);
    assert_eq!((hosts.deliveries.len(), stats[0].drops()), (10, 0));
    // With the delay of 100 us, and without the time of a frame.
    let first_pause = TimeDelta::from_micros(13_200 - 4_284);
    assert!(stats[0].paused_time >= first_pause, "{:?}", stats[0]);
    assert!(stats[0].paused_time < TimeDelta::from_secs(1), "{:?}", stats[0]);
}

/// One packet in the way of another: a flow to an idle host waits because of those to a busy one (head-of-line blocking), and the pause spreads to
/// the link before.
#[test]
fn congestion_spreads_to_those_who_have_no_part_in_it() {
    // 0 and 1 send over 4 and 5 to 6 and 7; 2 and 3 send to 6 from 5 itself.
    let victim = |pfc| {
        let open = QueueLimit::Unlimited;
        let links = vec![
            link(0, 4, open, pfc),
            link(1, 4, open, pfc),
            link(4, 5, open, pfc),
            link(2, 5, open, pfc),
            link(3, 5, open, pfc),
            link(5, 6, open, None),
            link(5, 7, open, None),
        ];
        let routes: [&[u32]; 4] = [&[0, 2, 5], &[1, 2, 6], &[3, 5], &[4, 5]];
        let bursts = vec![burst(0, 0, 50), burst(1, 20_000, 1), burst(2, 0, 50), burst(3, 0, 50)];
        let (hosts, stats) = run(links, &routes, bursts);
        let arrived = hosts.deliveries.iter().find(|delivery| delivery.to == 5).unwrap().time;
        (arrived.as_nanos() / 1000, stats)
    };
    let (alone, _) = victim(None);
    let (behind, stats) = victim(Some(PFC));
    assert!(alone <= 24_300, "{alone}");
    assert!(behind > 26_000, "{behind}");
    assert!(stats[2].pauses > 0 && stats[0].pauses > 0, "{stats:?}");
    assert_eq!(stats.iter().map(LinkStats::drops).sum::<u64>(), 0);
}

/// A priority that pauses does not stop another one, if the queue keeps them apart.
#[test]
fn each_priority_pauses_by_itself() {
    // 0 sends 20 packets of class 1 over 1 to 2, which takes 4 ms for each, and from 20 ms on five of class 0 to 3.
    let first_class = |qdisc: &QdiscConfig| {
        let mut links = vec![
            link(0, 1, QueueLimit::Unlimited, Some(PFC)),
            link(1, 2, QueueLimit::Unlimited, None),
            link(1, 3, QueueLimit::Unlimited, None),
        ];
        links[0].qdisc = qdisc.clone();
        links[1].rate = RateConfig::Constant(Rate::from_bps(2_000_000));
        let bursts = vec![Burst { class: 1, ..burst(0, 0, 20) }, burst(1, 20_000, 5)];
        let (hosts, stats) = run(links, &[&[0, 1], &[0, 2]], bursts);
        assert_eq!((hosts.deliveries.len(), stats[1].drops()), (25, 0));
        let times = |route: u32| {
            let own = hosts.deliveries.iter().filter(move |delivery| delivery.to == 2 + route);
            own.map(|delivery| delivery.time.as_nanos() / 1000).collect::<Vec<u64>>()
        };
        // The slow link is never without a packet.
        assert_eq!(times(0), (1..=20).map(|packet| 1_200 + 4_000 * packet).collect::<Vec<u64>>());
        assert!(stats[0].pauses > 1 && stats[0].paused_time > TimeDelta::from_millis(20), "{:?}", stats[0]);
        times(1)
    };
    let params = PriorityParams { limit: QueueLimit::Unlimited, ..PriorityParams::default() };
    // A millisecond for each link, and 200 us; the transmitter was free.
    assert_eq!(first_class(&QdiscConfig::Priority(params)), [22_200, 23_200, 24_200, 25_200, 26_200]);
    assert!(first_class(&QdiscConfig::drop_tail(QueueLimit::Unlimited))[0] > 60_000);
}

#[test]
fn a_circle_of_pauses_is_found_and_a_cut_through_one_refused() {
    let ring: Vec<LinkConfig> =
        (0..3).map(|node| link(node, (node + 1) % 3, QueueLimit::Unlimited, Some(PFC))).collect();
    let network = |routes: &[&[u32]]| {
        let routes = routes.iter().map(|route| route.iter().map(|&link| LinkId(link)).collect()).collect();
        let world = World { links: ring.clone(), routes, bursts: vec![] };
        let mut network = world.network(&Manner::default());
        for route in &world.routes {
            network.add_route(route).unwrap();
        }
        network
    };
    let circle = network(&[&[0, 1], &[1, 2], &[2, 0]]).pfc_circle().unwrap();
    assert_eq!(circle, [LinkId(0), LinkId(1), LinkId(2)]);
    let mut open = network(&[&[0, 1], &[1, 2]]);
    assert_eq!(open.pfc_circle(), None);
    assert_eq!(open.cut(&[0, 0, 1]), Err(CutError::Paused("1>2".to_owned())));
}
