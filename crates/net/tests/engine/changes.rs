//! Links that are changed while they are in use, with times computed by hand.
//!
//! At 8 Mbit/s a byte takes a microsecond, so a packet of 1000 bytes takes a millisecond.

use std::sync::mpsc::{Sender, channel};

use warpline_core::record::DropReason;
use warpline_core::{Bytes, Ecn, LinkId, NodeId, Rate, Streams, TimeDelta, Timestamp};
use warpline_net::jitter::{JitterKind, Order, Uniform};
use warpline_net::loss::{EveryParams, LossKind};
use warpline_net::qdisc::{Dropped, OwnQueue, Qdisc, QdiscConfig, Queued, Sizing, TbfParams, Verdict};
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{ChangeError, LinkChange, LinkConfig, LinkStats, RateConfig};

use crate::hosts::Burst;
use crate::world::{Manner, World, counters};

const MS: u64 = 1_000_000;

const fn ms(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}
const fn mbit(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000_000)
}

/// A link at 8 Mbit/s and with 1 ms of delay.
fn link() -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(mbit(8)),
        delay: TimeDelta::from_millis(1),
        changeable: true,
        ..LinkConfig::new("0", NodeId(0), NodeId(1))
    }
}

fn burst(at: u64, count: u32) -> Burst {
    Burst { at, route: 0, count, size: 1000, class: 0, ecn: Ecn::NotEct, answered: false }
}

/// Sends over a link that is changed, once as planned and once from outside, and runs for an hour. Returns the times of arrival in microseconds and
/// the link's counters, which must be the same both times.
fn run(link: &LinkConfig, bursts: &[Burst], changes: &[(u64, LinkChange)]) -> (Vec<u64>, LinkStats) {
    let end = Timestamp::from_secs(3600);
    let world = |link| World { links: vec![link], routes: vec![vec![LinkId(0)]], bursts: bursts.to_vec() };
    let planned = changes.iter().map(|(at, change)| (Timestamp::from_nanos(*at), change.clone()));
    let planned = LinkConfig { changes: planned.collect(), changeable: false, ..link.clone() };
    let [planned, outside] = [(planned, &[][..]), (link.clone(), changes)].map(|(link, changes)| {
        let (mut network, mut hosts) = world(link).build(&Manner::default());
        for (at, change) in changes {
            // Just before, so that what happens at that instant finds it changed.
            network.run_until(Timestamp::from_nanos(at - 1), &mut hosts, u64::MAX);
            network.port(Timestamp::from_nanos(*at));
            network.change(LinkId(0), change, &Streams::new(7)).expect("a change that the link allows");
        }
        network.run_until(end, &mut hosts, u64::MAX);
        let times = hosts.deliveries.iter().map(|delivery| delivery.time.as_nanos() / 1000);
        (times.collect::<Vec<_>>(), counters(&mut network)[0])
    });
    assert_eq!(planned, outside);
    planned
}

fn rate(rate: Rate) -> LinkChange {
    LinkChange { rate: Some(rate), ..LinkChange::default() }
}
fn delay(millis: u64) -> LinkChange {
    LinkChange { delay: Some(TimeDelta::from_millis(millis)), ..LinkChange::default() }
}
fn down(down: bool) -> LinkChange {
    LinkChange { down: Some(down), ..LinkChange::default() }
}
fn loses(kind: LossKind) -> LinkChange {
    LinkChange { loss: Some(kind.into()), ..LinkChange::default() }
}

#[test]
fn a_packet_in_transmission_finishes_at_the_rate_it_began_with() {
    // The second leaves at 2 ms as it would have; those after it take 4 ms, and then half a millisecond.
    let changes = [(1_500_000, rate(mbit(2))), (8 * MS, rate(mbit(16)))];
    let (times, _) = run(&link(), &[burst(0, 5)], &changes);
    assert_eq!(times, [2_000, 3_000, 7_000, 11_000, 11_500]);
}

#[test]
fn at_rate_zero_packets_wait_and_the_one_in_transmission_begins_again() {
    let changes = [(1_500_000, rate(mbit(0))), (5 * MS, rate(mbit(0))), (9 * MS, rate(mbit(4)))];
    let (times, stats) = run(&link(), &[burst(0, 4)], &changes);
    // The third began at 2 ms, when nothing moved; at 9 ms it takes 2 ms.
    assert_eq!(times, [2_000, 3_000, 12_000, 14_000]);
    assert_eq!(stats.drops(), 0);
}

#[test]
fn a_link_without_a_rate_gets_one() {
    let free = LinkConfig { rate: RateConfig::Unlimited, ..link() };
    let (times, _) = run(&free, &[burst(MS, 2), burst(3 * MS, 2)], &[(2 * MS, rate(mbit(8)))]);
    assert_eq!(times, [2_000, 2_000, 5_000, 6_000]);
}

#[test]
fn no_packet_overtakes_another_when_the_delay_becomes_shorter() {
    let changes = [(2 * MS, delay(21)), (4 * MS, delay(0))];
    let (times, _) = run(&link(), &[burst(0, 5), burst(40 * MS, 1)], &changes);
    // They leave at 1, 2, ... 5 ms. Those of 2 and 3 ms take 21 ms, behind which the others arrive.
    assert_eq!(times, [2_000, 23_000, 24_000, 24_000, 24_000, 41_000]);
}

#[test]
fn losses_begin_and_end() {
    let second = LossKind::Every(EveryParams { n: 2 });
    let changes = [(2 * MS + 1, loses(second)), (6 * MS + 1, loses(LossKind::default()))];
    let (times, stats) = run(&link(), &[burst(0, 8)], &changes);
    // Of those that leave at 3, 4, 5 and 6 ms, the second and the fourth.
    assert_eq!(times, [2_000, 3_000, 4_000, 6_000, 8_000, 9_000]);
    assert_eq!((stats.drops_loss, stats.sent_packets), (2, 8));
}

#[test]
fn copies_and_changed_bits_begin_and_end() {
    let all = LossKind::Every(EveryParams { n: 1 });
    let both = |kind: LossKind| LinkChange {
        duplicate: Some(kind.clone()),
        corrupt: Some(kind),
        ..LinkChange::default()
    };
    let changes = [(MS + 1, both(all)), (3 * MS + 1, both(LossKind::default()))];
    let (_, stats) = run(&link(), &[burst(0, 5)], &changes);
    assert_eq!((stats.duplicated, stats.corrupted, stats.drops()), (2, 2, 0));
}

#[test]
fn a_link_that_goes_down_loses_what_waits_and_comes_up_again() {
    let bursts = [burst(0, 5), burst(3_500_000, 1), burst(5 * MS, 1)];
    let changes = [(2_500_000, down(true)), (4 * MS, down(true)), (5 * MS, down(false))];
    let (times, stats) = run(&link(), &bursts, &changes);
    // As in an outage: the third was in transmission, two waited, and one came later.
    assert_eq!(times, [2_000, 3_000, 4_000, 7_000]);
    assert_eq!((stats.drops_down, stats.sent_packets), (3, 4));
}

#[test]
fn a_link_is_down_while_an_outage_or_a_change_says_so() {
    let broken = LinkConfig { outages: vec![(ms(10), ms(20))], ..link() };
    let bursts = [5, 9, 12, 15, 18, 22].map(|at| burst(at * MS, 1));
    let changes =
        [(8 * MS, down(true)), (14 * MS, down(false)), (16 * MS, down(true)), (21 * MS, down(false))];
    let (times, stats) = run(&broken, &bursts, &changes);
    assert_eq!((times, stats.drops_down), (vec![7_000, 24_000], 4));
}

#[test]
fn packets_may_overtake_after_a_change_and_no_longer_after_another() {
    let jitter = |kind| LinkChange { jitter: Some(kind), ..LinkChange::default() };
    let wild = JitterKind::Uniform(Uniform {
        min: TimeDelta::ZERO,
        max: TimeDelta::from_millis(200),
        order: Order { reorder: true },
    });
    let bursts = [burst(0, 20), burst(100 * MS, 20), burst(1000 * MS, 20)];
    let changes = [(50 * MS, jitter(wild)), (500 * MS, jitter(JitterKind::default()))];
    let planned = changes.map(|(at, change)| (Timestamp::from_nanos(at), change)).to_vec();
    let world = World {
        links: vec![LinkConfig { changes: planned, ..link() }],
        routes: vec![vec![LinkId(0)]],
        bursts: bursts.to_vec(),
    };
    let ids: Vec<u64> = world.run(&Manner::default()).deliveries.iter().map(|d| d.id).collect();
    let rises = |ids: &[u64]| ids.windows(2).all(|pair| pair[0] < pair[1]);
    assert_eq!(ids.len(), 60);
    assert!(rises(&ids[..20]) && !rises(&ids[20..40]) && rises(&ids[40..]), "{ids:?}");
}

#[test]
fn what_is_changed_at_the_start_holds_for_the_first_packet() {
    let (times, _) = run(&LinkConfig { ..link() }, &[burst(MS, 1)], &[(MS, rate(mbit(4)))]);
    assert_eq!(times, [4_000]);
    let changes = vec![(Timestamp::ZERO, rate(mbit(4))), (Timestamp::ZERO, delay(3))];
    let world = World {
        links: vec![LinkConfig { changes, ..link() }],
        routes: vec![vec![LinkId(0)]],
        bursts: vec![burst(0, 1)],
    };
    let (mut network, mut hosts) = world.build(&Manner::default());
    assert_eq!(network.next_change(), Timestamp::NEVER);
    network.run_until(ms(10), &mut hosts, u64::MAX);
    assert_eq!(hosts.deliveries[0].time, ms(5));
}

/// An empty queue that notes the rates passed to it.
#[derive(Debug)]
struct Listener(Sender<u64>);

impl Qdisc for Listener {
    fn enqueue(&mut self, _: Timestamp, _: Queued, _: &mut Dropped) -> Verdict {
        Verdict::Dropped(DropReason::Overflow)
    }
    fn dequeue(&mut self, _: Timestamp, _: &mut Dropped) -> Option<Queued> {
        None
    }
    fn backlog(&self) -> (u32, u64) {
        (0, 0)
    }
    fn set_rate(&mut self, rate: Rate) {
        self.0.send(rate.as_bps()).expect("the test listens");
    }
}

#[test]
fn the_queue_is_told_of_the_new_rate_at_once() {
    let (told, heard) = channel();
    let own_queue = Some(OwnQueue::new(move |_, _| Box::new(Listener(told.clone())) as Box<dyn Qdisc>));
    let world = World {
        links: vec![LinkConfig { own_queue, ..link() }],
        routes: vec![vec![LinkId(0)]],
        bursts: vec![burst(0, 1)],
    };
    let (mut network, mut hosts) = world.build(&Manner::default());
    network.run_until(ms(3), &mut hosts, u64::MAX);
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [8_000_000]);
    network.change(LinkId(0), &rate(mbit(2)), &Streams::new(7)).unwrap();
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [2_000_000]);
}

/// A link whose queue is a shaper at the link's own rate, which lets a packet pass at a time.
fn shaped() -> LinkConfig {
    LinkConfig {
        qdisc: QdiscConfig::Tbf(TbfParams { burst: Some(Bytes(1000)), ..TbfParams::default() }),
        sizing: Sizing { rate: mbit(8), ..Sizing::default() },
        ..link()
    }
}

#[test]
fn what_a_shaper_holds_back_by_the_old_rate_leaves_by_the_new_one() {
    // The first leaves at 1 ms. By then the rate is a thousandth: there is a token for the second at 1000 ms. From 10 ms on there are enough.
    let changes = [(500_000, rate(Rate::from_bps(8_000))), (10 * MS, rate(mbit(8)))];
    let (times, stats) = run(&shaped(), &[burst(0, 3)], &changes);
    assert_eq!((times, stats.drops()), (vec![2_000, 12_000, 13_000], 0));
}

#[test]
fn what_a_shaper_holds_back_leaves_by_the_next_rate_of_a_schedule() {
    // The last byte of the first takes a millisecond, as it leaves at a thousandth of the rate.
    let slow = (TimeDelta::from_micros(999), Rate::from_bps(8_000));
    let steps = Steps::new(mbit(8), &[slow, (TimeDelta::from_millis(10), mbit(8))], None).unwrap();
    let scheduled = LinkConfig { rate: RateConfig::Scheduled(RateSchedule::new(steps)), ..shaped() };
    let (times, stats) = run(&scheduled, &[burst(0, 3)], &[]);
    assert_eq!((times, stats.drops()), (vec![2_999, 12_000, 13_000], 0));
}

#[test]
fn time_that_is_skipped_brings_a_planned_change_nearer() {
    let changes = vec![(ms(1000), rate(mbit(4)))];
    let world = World {
        links: vec![LinkConfig { changes, ..link() }],
        routes: vec![vec![LinkId(0)]],
        bursts: vec![burst(0, 1), burst(120 * MS, 1)],
    };
    let (mut network, mut hosts) = world.build(&Manner::default());
    network.run_until(ms(10), &mut hosts, u64::MAX);
    assert_eq!(network.next_change(), ms(1000));
    network.skip(TimeDelta::from_millis(900));
    assert_eq!(network.next_change(), ms(100));
    network.run_until(ms(200), &mut hosts, u64::MAX);
    let times: Vec<_> = hosts.deliveries.iter().map(|delivery| delivery.time).collect();
    assert_eq!(times, [ms(2), ms(123)]);
}

#[test]
fn time_that_is_skipped_brings_the_next_rate_nearer_to_what_a_shaper_holds_back() {
    // By the slow rate there is a token for the second packet at 1000 ms: after a change at 500 ms, and before one at 2000 ms.
    for planned in [500, 2000] {
        let slow = (TimeDelta::from_micros(999), Rate::from_bps(8_000));
        let fast = (TimeDelta::from_millis(planned), mbit(8));
        let steps = Steps::new(mbit(8), &[slow, fast], None).unwrap();
        let rates = RateConfig::Scheduled(RateSchedule::new(steps));
        let world = World {
            links: vec![LinkConfig { rate: rates, ..shaped() }],
            routes: vec![vec![LinkId(0)]],
            bursts: vec![burst(0, 3)],
        };
        let (mut network, mut hosts) = world.build(&Manner::default());
        network.run_until(ms(5), &mut hosts, u64::MAX);
        network.skip(TimeDelta::from_millis(planned - 10));
        assert_eq!(network.next_change(), ms(10));
        network.run_until(ms(3000), &mut hosts, u64::MAX);
        // As with a schedule that changes at 10 ms.
        let times: Vec<_> = hosts.deliveries.iter().map(|delivery| delivery.time.as_nanos() / 1000).collect();
        assert_eq!(times, [2_999, 12_000, 13_000], "{planned} ms");
    }
}

#[test]
fn what_cannot_be_changed_is_refused() {
    let refused = |link: LinkConfig, change: LinkChange| {
        let world = World { links: vec![link], routes: vec![vec![LinkId(0)]], bursts: vec![] };
        let mut network =
            world.network(&Manner { changeable: world.links[0].changeable, ..Manner::default() });
        network.change(LinkId(0), &change, &Streams::new(7)).unwrap_err()
    };
    let fixed = LinkConfig { changeable: false, ..link() };
    assert_eq!(refused(fixed, delay(2)), ChangeError::Fixed);
    let steps = Steps::new(TimeDelta::ZERO, &[(TimeDelta::from_millis(2), TimeDelta::from_millis(3))], None);
    let moving = LinkConfig { detour: Some(steps.unwrap()), ..link() };
    assert_eq!(refused(moving, delay(2)), ChangeError::Delay);
    let steps = Steps::new(mbit(8), &[(TimeDelta::from_millis(2), mbit(4))], None).unwrap();
    let rates = RateConfig::Scheduled(RateSchedule::new(steps));
    assert_eq!(refused(LinkConfig { rate: rates, ..link() }, rate(mbit(2))), ChangeError::Rate);
}
