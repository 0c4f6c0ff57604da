//! What every queueing discipline must keep to, whatever arrives and leaves when.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpline_core::record::DropReason;
use warpline_core::{Ecn, Rate, Streams, TimeDelta, Timestamp};

use super::*;

/// A packet that arrived at the start.
pub(super) fn packet(slot: u32, size: u32) -> Queued {
    Queued { slot, size, flow: 0, ecn: Ecn::NotEct, class: 0, arrived: Timestamp::ZERO }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { size: u32, flow: u32, class: u8, ecn: Ecn },
    Leave,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let size = prop_oneof![Just(1500u32), 40u32..=1500];
    let step = prop_oneof![
        5 => (size, 0u32..6, 0u8..4, ecn)
            .prop_map(|(size, flow, class, ecn)| Step::Arrive { size, flow, class, ecn }),
        3 => Just(Step::Leave),
        2 => (0u64..30_000_000).prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..400)
}

fn limit() -> impl Strategy<Value = Limit> {
    (1u32..40, 1500u64..40_000, 0..3).prop_map(|(packets, bytes, kind)| match kind {
        0 => Limit::packets(packets),
        1 => Limit::bytes(bytes),
        _ => Limit { packets, bytes },
    })
}

fn any_config() -> impl Strategy<Value = QdiscConfig> {
    let priority_limit = prop_oneof![
        limit().prop_map(PriorityLimit::Shared),
        prop::collection::vec(limit(), 1..4).prop_map(PriorityLimit::PerBand),
    ];
    let red = (limit(), 0.0f64..8.0, 1.0f64..8.0, 0.0f64..=1.0, 0.01f64..=1.0, any::<[bool; 4]>()).prop_map(
        |(limit, min_th, span, max_p, weight, [bytes, gentle, ecn, hard_drop])| {
            let unit = if bytes { 1000.0 } else { 1.0 };
            QdiscConfig::Red(RedConfig {
                min_th: min_th * unit,
                max_th: (min_th + span) * unit,
                max_p,
                weight,
                limit,
                bytes,
                mean_packet: 1000,
                gentle,
                ecn,
                hard_drop,
            })
        },
    );
    let codel = (limit(), 1u64..20, 0u64..50, any::<bool>())
        .prop_map(|(limit, target, more, ecn)| CodelConfig {
            target: TimeDelta::from_millis(target),
            interval: TimeDelta::from_millis(target + more),
            limit,
            ecn,
            mtu: 1500,
        })
        .boxed();
    prop_oneof![
        limit().prop_map(|limit| QdiscConfig::DropTail { limit }),
        (1u16..5, priority_limit)
            .prop_map(|(bands, limit)| QdiscConfig::Priority(PriorityConfig { bands, limit })),
        red,
        codel.clone().prop_map(QdiscConfig::Codel),
        (codel, 1u32..2000, 1u32..8).prop_map(|(codel, quantum, flows)| {
            QdiscConfig::FqCodel(FqCodelConfig { codel, quantum, flows })
        }),
    ]
}

/// Within which lane packets keep their order.
fn lane(config: &QdiscConfig, packet: &Queued) -> u32 {
    match config {
        QdiscConfig::Priority(config) => u32::from(packet.class).min(u32::from(config.bands) - 1),
        QdiscConfig::FqCodel(_) => packet.flow,
        _ => 0,
    }
}

fn limits_hold(config: &QdiscConfig, lanes: &BTreeMap<u32, (u32, u64)>, total: (u32, u64)) -> bool {
    let within = |limit: &Limit, (packets, bytes)| packets <= limit.packets && bytes <= limit.bytes;
    match config {
        QdiscConfig::DropTail { limit } => within(limit, total),
        QdiscConfig::Red(config) => within(&config.limit, total),
        QdiscConfig::Codel(config) => within(&config.limit, total),
        QdiscConfig::FqCodel(config) => within(&config.codel.limit, total),
        QdiscConfig::Priority(PriorityConfig { limit: PriorityLimit::Shared(limit), .. }) => {
            within(limit, total)
        }
        QdiscConfig::Priority(PriorityConfig { limit: PriorityLimit::PerBand(limits), .. }) => {
            lanes.iter().all(|(&band, &backlog)| {
                within(limits.get(band as usize).unwrap_or(&limits[limits.len() - 1]), backlog)
            })
        }
    }
}

/// Whether the discipline may drop on its own account (and not for want of room).
fn has_aqm(config: &QdiscConfig) -> bool {
    matches!(config, QdiscConfig::Red(_) | QdiscConfig::Codel(_) | QdiscConfig::FqCodel(_))
}

fn may_mark(config: &QdiscConfig) -> bool {
    match config {
        QdiscConfig::Red(config) => config.ecn,
        QdiscConfig::Codel(config) => config.ecn,
        QdiscConfig::FqCodel(config) => config.codel.ecn,
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_conserved_ordered_and_limited(config in any_config(), steps in steps(), boxed: bool) {
        prop_assert_eq!(config.validate(), Ok(()));
        let mut queue = config.build(Streams::new(3).stream("queue"));
        if boxed {
            queue = AnyQdisc::Boxed(Box::new(queue));
        }
        queue.set_rate(Rate::from_bps(10_000_000));
        let mut now = Timestamp::ZERO;
        let mut dropped = Dropped::default();
        // What should be waiting, by slot number, which is the order of arrival.
        let mut waiting: BTreeMap<u32, Queued> = BTreeMap::new();
        let mut last_out: BTreeMap<u32, u32> = BTreeMap::new();
        for (slot, &step) in steps.iter().enumerate() {
            let slot = slot as u32;
            let mut left = None;
            match step {
                Step::Wait(nanos) => now += TimeDelta::from_nanos(nanos),
                Step::Arrive { size, flow, class, ecn } => {
                    let arriving = Queued { slot, size, flow, ecn, class, arrived: now };
                    match queue.enqueue(now, arriving, &mut dropped) {
                        Verdict::Queued => {
                            waiting.insert(slot, arriving);
                        }
                        Verdict::Marked => {
                            prop_assert!(may_mark(&config) && ecn != Ecn::NotEct);
                            waiting.insert(slot, Queued { ecn: Ecn::Ce, ..arriving });
                        }
                        Verdict::Dropped(reason) => prop_assert!(reason == DropReason::Overflow || has_aqm(&config)),
                    }
                }
                Step::Leave => {
                    left = queue.dequeue(now, &mut dropped);
                    if left.is_none() {
                        prop_assert_eq!(queue.backlog(), (0, 0));
                    }
                }
            }
            for (victim, reason) in dropped.0.drain(..) {
                let known = waiting.remove(&victim.slot);
                prop_assert!(known.is_some_and(|known| known.size == victim.size));
                prop_assert!(reason == DropReason::Overflow || has_aqm(&config));
                if let QdiscConfig::Codel(CodelConfig { target, .. }) = config {
                    prop_assert!(now - victim.arrived >= target, "dropped below target");
                }
            }
            if let Some(packet) = left {
                let known = waiting.remove(&packet.slot);
                prop_assert!(known.is_some());
                let known = known.unwrap();
                prop_assert!((packet.size, packet.arrived) == (known.size, known.arrived));
                prop_assert!(packet.ecn == known.ecn || (packet.ecn == Ecn::Ce && may_mark(&config)));
                let own = lane(&config, &packet);
                if let Some(&before) = last_out.get(&own) {
                    prop_assert!(before < packet.slot, "overtaken within its class");
                }
                last_out.insert(own, packet.slot);
                if matches!(config, QdiscConfig::Priority(_)) {
                    prop_assert!(waiting.values().all(|other| lane(&config, other) >= own), "a lower class went first");
                }
            }
            let mut lanes = BTreeMap::new();
            for waiting in waiting.values() {
                let lane: &mut (u32, u64) = lanes.entry(lane(&config, waiting)).or_default();
                lane.0 += 1;
                lane.1 += u64::from(waiting.size);
            }
            let total = lanes.values().fold((0, 0), |sum, lane| (sum.0 + lane.0, sum.1 + lane.1));
            prop_assert_eq!(queue.backlog(), total);
            prop_assert!(limits_hold(&config, &lanes, total));
        }
        // Everything still waiting comes out.
        while let Some(packet) = queue.dequeue(now, &mut dropped) {
            prop_assert!(waiting.remove(&packet.slot).is_some());
        }
        for (packet, _) in dropped.0 {
            prop_assert!(waiting.remove(&packet.slot).is_some());
        }
        prop_assert!(waiting.is_empty());
    }

    #[test]
    fn red_never_drops_below_min_th(steps in steps(), ecn: bool, weight in 0.001f64..=1.0) {
        let config = RedConfig { max_p: 1.0, weight, ecn, min_th: 3.0, max_th: 6.0, ..Default::default() };
        let mut queue = Red::new(config, Streams::new(3).stream("queue"));
        let (mut now, mut dropped) = (Timestamp::ZERO, Dropped::default());
        for &step in &steps {
            match step {
                Step::Wait(nanos) => now += TimeDelta::from_nanos(nanos),
                Step::Leave => {
                    queue.dequeue(now, &mut dropped);
                }
                Step::Arrive { size, ecn, .. } => {
                    let verdict = queue.enqueue(now, Queued { ecn, ..packet(0, size) }, &mut dropped);
                    if queue.average() < 3.0 {
                        prop_assert!(matches!(verdict, Verdict::Queued | Verdict::Dropped(DropReason::Overflow)));
                    }
                    if queue.average() >= 12.0 {
                        prop_assert!(verdict == Verdict::Dropped(DropReason::Aqm));
                    }
                }
            }
        }
    }

    #[test]
    fn codel_never_drops_while_the_delay_is_below_target(sizes in prop::collection::vec(40u32..=1500, 1..300)) {
        // Bursts that are served within less than the target: however many bytes wait, all of them leave.
        let mut queue = Codel::new(&CodelConfig { limit: Limit::NONE, ..Default::default() });
        let mut dropped = Dropped::default();
        let (mut now, mut sent) = (Timestamp::ZERO, 0);
        for burst in sizes.chunks(40) {
            for &size in burst {
                queue.enqueue(now, Queued { arrived: now, ..packet(0, size) }, &mut dropped);
            }
            for _ in burst {
                now += TimeDelta::from_micros(124);
                sent += usize::from(queue.dequeue(now, &mut dropped).is_some());
            }
        }
        prop_assert_eq!((sent, dropped.0.len()), (sizes.len(), 0));
    }
}
