//! Properties of every network.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use warpline_core::record::{DropReason, LinkEvent};
use warpline_core::{Ecn, LinkId, Rate, Timestamp};
use warpline_net::RateConfig;
use warpline_net::schedule::RateSchedule;

use crate::world::{Manner, Outcome, World, conserved, world};

/// Compares all results of two runs.
fn same(one: &Outcome, other: &Outcome) -> Result<(), TestCaseError> {
    for (index, (a, b)) in one.deliveries.iter().zip(&other.deliveries).enumerate() {
        prop_assert_eq!(a, b, "delivery {}", index);
    }
    prop_assert_eq!(one.deliveries.len(), other.deliveries.len());
    for ((a, b), instant) in one.samples.iter().zip(&other.samples).zip(crate::world::sampled()) {
        for (link, (a, b)) in a.0.iter().zip(&b.0).enumerate() {
            prop_assert_eq!(a, b, "link {} at {}", link, Timestamp::from_nanos(instant));
        }
        prop_assert_eq!(a.1, b.1, "at {}", Timestamp::from_nanos(instant));
    }
    Ok(())
}

fn record_all(world: &World) -> Manner {
    Manner { record: vec![true; world.links.len()], ..Manner::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_general_and_the_fast_link_agree(world in world(), record in prop::collection::vec(any::<bool>(), 9)) {
        let fast = world.run(&Manner::default());
        same(&fast, &world.run(&Manner { record, ..Manner::default() }))?;
        same(&fast, &world.run(&record_all(&world)))?;
    }

    #[test]
    fn links_that_may_be_changed_are_like_others(mut world in world()) {
        // A queue that may have to hold packets later has its limits at once; where none ever waits, there are none.
        for link in &mut world.links {
            if matches!(link.rate, RateConfig::Unlimited) {
                link.rate = RateConfig::Constant(Rate::from_bps(1_000_000_000_000_000));
            }
        }
        same(&world.run(&Manner::default()), &world.run(&Manner { changeable: true, ..Manner::default() }))?;
    }

    #[test]
    fn express_hops_change_nothing(world in world()) {
        same(&world.run(&Manner::default()), &world.run(&Manner { no_express: true, ..Manner::default() }))?;
    }

    #[test]
    fn links_that_no_route_crosses_may_be_idle(world in world(), record in prop::collection::vec(prop::bool::weighted(0.2), 9)) {
        let whole = world.run(&Manner { record: record.clone(), ..Manner::default() });
        let idle = world.run(&Manner { record, idle: true, ..Manner::default() });
        same(&whole, &idle)?;
        prop_assert_eq!(format!("{:?}", whole.records), format!("{:?}", idle.records));
    }

    #[test]
    fn pauses_budgets_and_reading_counters_change_nothing(
        world in world(),
        pauses in prop::collection::vec((0u64..70_000_000, 1u64..50, any::<bool>()), 0..30),
        record in prop::collection::vec(prop::bool::weighted(0.2), 9),
    ) {
        let mut pauses = pauses;
        pauses.sort();
        let whole = world.run(&Manner { record: record.clone(), ..Manner::default() });
        let broken = world.run(&Manner { record, pauses, ..Manner::default() });
        same(&whole, &broken)?;
        prop_assert_eq!(format!("{:?}", whole.records), format!("{:?}", broken.records));
    }

    #[test]
    fn packets_are_conserved_and_delivered_once(world in world(), record in prop::collection::vec(prop::bool::weighted(0.2), 9)) {
        let outcome = world.run(&Manner { record, ..Manner::default() });
        for (links, packets) in &outcome.samples {
            conserved(&world.links, links, *packets);
        }
        for pair in outcome.samples.windows(2) {
            for (before, after) in pair[0].0.iter().zip(&pair[1].0) {
                prop_assert!(before.arrivals <= after.arrivals && before.sent_bytes <= after.sent_bytes);
                prop_assert!(before.drops() <= after.drops() && before.queued_time <= after.queued_time);
            }
        }
        let copied = outcome.samples.last().unwrap().0.iter().any(|link| link.duplicated > 0);
        let mut seen = BTreeSet::new();
        for delivery in &outcome.deliveries {
            prop_assert!(seen.insert(delivery.id) || copied, "packet {} was delivered twice", delivery.id);
        }
        prop_assert!(outcome.deliveries.windows(2).all(|pair| pair[0].time <= pair[1].time));
    }

    #[test]
    fn records_are_consistent(world in world()) {
        let outcome = world.run(&record_all(&world));
        prop_assert!(outcome.records.windows(2).all(|pair| pair[0].time <= pair[1].time));
        for (index, config) in world.links.iter().enumerate() {
            let records: Vec<_> = outcome.records.iter().filter(|r| r.link == LinkId(index as u32)).collect();
            // For each packet, by number: how often it was accepted, sent, and has left (a route may cross a link twice).
            let mut stays: BTreeMap<u64, [u32; 3]> = BTreeMap::new();
            // Numbers and ECN fields.
            let mut on_wire: Vec<(u64, Ecn)> = Vec::new();
            let mut drops = BTreeMap::new();
            let (mut marks, mut sent, mut copied, mut changed) = (0, 0, 0, 0);
            for record in &records {
                let stay = stays.entry(record.packet.id).or_default();
                match record.event {
                    LinkEvent::Enqueue => stay[0] += 1,
                    LinkEvent::Transmit { queued } => {
                        stay[1] += 1;
                        sent += 1;
                        on_wire.push((record.packet.id, record.packet.ecn));
                        prop_assert!(queued.as_nanos() <= record.time.as_nanos());
                    }
                    // Behind its packet: the others of an aggregate of Wi-Fi follow.
                    LinkEvent::Duplicate => {
                        stay[0] += 1;
                        stay[1] += 1;
                        copied += 1;
                        let packet = (record.packet.id, record.packet.ecn);
                        let place = on_wire.iter().rposition(|&sent| sent == packet);
                        prop_assert!(place.is_some(), "copied but never sent");
                        on_wire.insert(place.unwrap() + 1, packet);
                    }
                    LinkEvent::Corrupt => {
                        changed += 1;
                        prop_assert!(record.packet.damaged);
                    }
                    LinkEvent::Deliver => {
                        stay[2] += 1;
                        // Two of one number may have different marks.
                        let packet = (record.packet.id, record.packet.ecn);
                        let place = on_wire.iter().position(|&sent| sent == packet);
                        prop_assert!(place.is_some(), "delivered but never sent");
                        // Of two of one number in an aggregate, it is not known here which one was copied.
                        let wifi = matches!(config.rate, RateConfig::Wifi(_));
                        let any = config.jitter.reorders() || wifi;
                        prop_assert!(any || place == Some(0), "overtaken on a wire in order");
                        on_wire.remove(place.unwrap());
                    }
                    LinkEvent::Mark => {
                        marks += 1;
                        prop_assert_eq!(record.packet.ecn, Ecn::Ce);
                    }
                    LinkEvent::Drop(reason) => {
                        *drops.entry(reason).or_insert(0) += 1;
                        if reason == DropReason::Loss {
                            stay[2] += 1;
                            let packet = (record.packet.id, record.packet.ecn);
                            let place = on_wire.iter().rposition(|&sent| sent == packet);
                            prop_assert!(place.is_some(), "lost on the wire but never sent");
                            on_wire.remove(place.unwrap());
                        }
                    }
                }
                prop_assert!(stay[0] >= stay[1] && stay[1] >= stay[2], "{:?} {:?}", stay, record);
            }
            let stats = &outcome.samples.last().unwrap().0[index];
            let dropped = |reason| drops.get(&reason).copied().unwrap_or(0u64);
            prop_assert_eq!(stats.drops_overflow, dropped(DropReason::Overflow));
            prop_assert_eq!(stats.drops_aqm, dropped(DropReason::Aqm));
            prop_assert_eq!(stats.drops_loss, dropped(DropReason::Loss));
            prop_assert_eq!(stats.drops_down, dropped(DropReason::Down));
            prop_assert_eq!((stats.marks, stats.queued_packets), (marks, sent));
            prop_assert_eq!((stats.duplicated, stats.corrupted), (copied, changed));
            if let Some(last) = records.last() {
                prop_assert_eq!(
                    (last.backlog_packets, last.backlog_bytes),
                    (stats.backlog_packets, stats.backlog_bytes)
                );
            }
        }
    }

    #[test]
    fn no_link_exceeds_its_rate(world in world()) {
        let outcome = world.run(&record_all(&world));
        for (index, config) in world.links.iter().enumerate() {
            let sent: Vec<(Timestamp, u64)> = outcome
                .records
                .iter()
                .filter(|r| r.link == LinkId(index as u32) && matches!(r.event, LinkEvent::Transmit { .. }))
                .map(|r| (r.time, u64::from(r.packet.size + config.framing) * 8))
                .collect();
            // Bits that fit between two instants, with a nanosecond for rounding.
            let room = |from: Timestamp, to: Timestamp| -> u128 {
                // And one for each change of the rate, with which the rounding begins anew.
                let span = u128::from((to - from).as_nanos()) + 1 + config.changes.len() as u128;
                match &config.rate {
                    // By the fastest rate that it ever has.
                    RateConfig::Constant(rate) => {
                        let changed = config.changes.iter().filter_map(|(_, change)| change.rate);
                        let fastest = changed.fold(*rate, Ord::max);
                        u128::from(fastest.as_bps()) * span / 1_000_000_000
                    }
                    RateConfig::Scheduled(schedule) => scheduled_bits(schedule, from, to),
                    _ => u128::MAX,
                }
            };
            for (first, &(from, _)) in sent.iter().enumerate() {
                let mut bits = 0u128;
                for pair in sent[first..].windows(2) {
                    bits += u128::from(pair[0].1);
                    let to = pair[1].0;
                    prop_assert!(bits <= room(from, to), "{bits} bits from {from} to {to} on link {index}");
                }
            }
        }
    }
}

/// Bits that a schedule carries from one instant to another, step by step, with a nanosecond for rounding.
fn scheduled_bits(schedule: &RateSchedule, from: Timestamp, to: Timestamp) -> u128 {
    let (mut at, mut work, mut fastest) = (from, 0u128, 0u128);
    loop {
        let end = schedule.next_change(at).min(to);
        let rate = u128::from(schedule.rate_at(at).as_bps());
        work += rate * u128::from((end - at).as_nanos());
        // That nanosecond may be the one after `to`, at another rate.
        fastest = fastest.max(rate);
        if at == to {
            break;
        }
        at = end;
    }
    (work + fastest) / 1_000_000_000
}
