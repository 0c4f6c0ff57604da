//! What every queueing discipline must keep to, whatever arrives and leaves when.

use std::collections::BTreeMap;

use proptest::prelude::*;
use warpline_core::parameter::{Given, Words};
use warpline_core::record::DropReason;
use warpline_core::{
    Bytes, Datagram, Dscp, Ecn, EndpointId, Flags, FlowId, Rate, Segment, Streams, TimeDelta, Timestamp,
};

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

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![(1u32..40).prop_map(QueueLimit::Packets), (1500u64..40_000).prop_map(QueueLimit::Bytes)]
}

fn any_config() -> impl Strategy<Value = QdiscConfig> {
    let red = (limit(), 0u32..8, 1u32..8, 0.01f64..=1.0, 0.01f64..=1.0, any::<[bool; 4]>()).prop_map(
        |(limit, min, span, max_probability, weight, [gentle, ecn, hard_drop, adaptive])| {
            let threshold = |packets: u32| Some(QueueLimit::Packets(packets));
            QdiscConfig::Red(RedParams {
                limit,
                min_threshold: threshold(min),
                max_threshold: threshold(min + span),
                max_probability,
                weight,
                gentle,
                ecn,
                hard_drop,
                adaptive,
                ..RedParams::default()
            })
        },
    );
    let codel = (limit(), 1u64..20, 0u64..50, any::<bool>())
        .prop_map(|(limit, target, more, ecn)| CodelParams {
            target: TimeDelta::from_millis(target),
            interval: TimeDelta::from_millis(target + more),
            limit,
            ecn,
        })
        .boxed();
    let fq_pie = (limit(), 1u64..2000, 1u32..8, any::<bool>()).prop_map(|(limit, quantum, flows, ecn)| {
        let span = TimeDelta::from_millis(1);
        let pie =
            PieParams { limit, ecn, target: span, update: span, max_burst: span, ..PieParams::default() };
        QdiscConfig::FqPie(FqPieParams { pie, quantum: Some(Bytes(quantum)), flows })
    });
    let drr = (limit(), 1u64..2000, 1u32..8).prop_map(|(limit, quantum, flows)| {
        QdiscConfig::Drr(DrrParams { limit, quantum: Some(Bytes(quantum)), flows })
    });
    let rate = || (100_000u64..20_000_000).prop_map(|bps| Some(Rate::from_bps(bps)));
    let burst = || (1000u64..20_000).prop_map(|bytes| Some(Bytes(bytes)));
    let tbf = (limit(), rate(), burst(), prop::option::of((rate(), burst()))).prop_map(
        |(limit, rate, burst, second)| {
            let (peak, peak_burst) = second.unwrap_or_default();
            QdiscConfig::Tbf(TbfParams { limit, rate, burst, peak, peak_burst })
        },
    );
    let policer = (limit(), rate(), burst(), any::<bool>()).prop_map(|(limit, rate, burst, ecn)| {
        QdiscConfig::Policer(PolicerParams { limit, rate, burst, ecn })
    });
    let sfq = (limit(), 1u64..2000, [1u32..8, 1u32..8, 1u32..20], 0u64..40, any::<bool>()).prop_map(
        |(limit, quantum, [divisor, flows, depth], perturb, head_drop)| {
            let (quantum, perturb) = (Some(Bytes(quantum)), TimeDelta::from_millis(perturb));
            QdiscConfig::Sfq(SfqParams { limit, depth, quantum, divisor, flows, perturb, head_drop })
        },
    );
    let dualpi2 = (limit(), 1u64..20, 1.0f64..4.0, 0.0f64..=1.0, any::<[bool; 2]>()).prop_map(
        |(limit, millis, coupling, classic_share, [drop_overload, slope])| {
            let span = TimeDelta::from_millis(millis);
            QdiscConfig::DualPi2(DualPi2Params {
                limit,
                target: span,
                update: span,
                coupling,
                classic_share,
                drop_overload,
                ramp: if slope { span } else { TimeDelta::ZERO },
                ..DualPi2Params::default()
            })
        },
    );
    let cake = (
        prop::option::of(rate()),
        3_000u64..40_000,
        1u64..20,
        (0usize..5, 0usize..8, 0usize..3),
        any::<bool>(),
    )
        .prop_map(|(bandwidth, memlimit, rtt, (diffserv, flowmode, ack_filter), ingress)| {
            QdiscConfig::Cake(CakeParams {
                bandwidth: bandwidth.flatten(),
                memlimit: Some(Bytes(memlimit)),
                rtt: TimeDelta::from_millis(rtt),
                diffserv: CakeDiffserv::ALL[diffserv],
                flowmode: CakeFlowMode::ALL[flowmode],
                ack_filter: CakeAckFilter::ALL[ack_filter],
                ingress,
                ..CakeParams::default()
            })
        });
    let htb = (1u64..20, 1u64..20, 0u8..3).prop_map(|(rate, more, prio)| {
        let classes = vec![
            format!("all rate {}Mbit/s", rate + more),
            format!("a parent all rate {rate}Mbit/s ceil {}Mbit/s prio {prio} class 0", rate + more),
            "b parent all rate 100kbit/s class 1 prio 1 leaf droptail:limit=5p".to_owned(),
            "c parent all rate 100kbit/s ceil 1Mbit/s dscp LE leaf codel:target=1ms,interval=2ms".to_owned(),
        ];
        QdiscConfig::Htb(HtbParams { classes })
    });
    let shared =
        (3_000u64..40_000, 0.1f64..4.0, prop::option::of(limit())).prop_map(|(buffer, alpha, threshold)| {
            QdiscConfig::Shared(SharedParams { buffer: Bytes(buffer), alpha, threshold })
        });
    // Each with its defaults, so that none can be forgotten here.
    let plain = (0..QdiscConfig::KINDS.len(), limit()).prop_map(|(number, limit)| {
        let limit = ("limit", Given::Text(limit.to_string()));
        let plain = QdiscConfig::all()[number].clone();
        // Some have no limit of this kind.
        plain.with(&[limit]).unwrap_or(plain)
    });
    prop_oneof![
        2 => plain,
        1 => limit().prop_map(QdiscConfig::drop_tail),
        1 => (2u8..5, limit(), any::<bool>()).prop_map(|(classes, limit, per_class)| {
            QdiscConfig::Priority(PriorityParams { limit, classes, per_class })
        }),
        1 => red,
        1 => drr,
        1 => tbf,
        1 => policer,
        1 => (limit(), limit()).prop_map(|(limit, threshold)| QdiscConfig::Step(StepParams { limit, threshold })),
        1 => sfq,
        1 => fq_pie,
        1 => dualpi2,
        2 => cake,
        1 => htb,
        1 => shared,
        1 => codel.clone().prop_map(QdiscConfig::Codel),
        1 => (codel, 1u64..2000, 1u32..8, 1u32..70).prop_map(|(codel, quantum, flows, drop_batch)| {
            QdiscConfig::FqCodel(FqCodelParams { codel, quantum: Some(Bytes(quantum)), flows, drop_batch })
        }),
    ]
}

/// Within which lane packets keep their order.
fn lane(config: &QdiscConfig, packet: &Queued) -> u32 {
    match config {
        QdiscConfig::Priority(config) => u32::from(packet.class).min(u32::from(config.classes) - 1),
        QdiscConfig::FqCodel(_) | QdiscConfig::FqPie(_) | QdiscConfig::Drr(_) | QdiscConfig::Sfq(_) => {
            packet.flow
        }
        QdiscConfig::Htb(_) => u32::from(packet.class),
        // By the packet's tin, too.
        QdiscConfig::Cake(_) => packet.flow * 64 + u32::from(packet.class),
        QdiscConfig::DualPi2(_) => u32::from(matches!(packet.ecn, Ecn::Ect1 | Ecn::Ce)),
        _ => 0,
    }
}

fn limits_hold(config: &QdiscConfig, lanes: &BTreeMap<u32, (u32, u64)>, total: (u32, u64)) -> bool {
    let limit = config.limit().resolve(&Sizing::default());
    let within = |(packets, bytes)| packets <= limit.packets && bytes <= limit.bytes;
    match config {
        QdiscConfig::Priority(params) if params.per_class => lanes.values().all(|backlog| within(*backlog)),
        QdiscConfig::Shared(SharedParams { buffer, .. }) => total.1 <= buffer.0,
        QdiscConfig::Cake(CakeParams { memlimit: Some(Bytes(bytes)), .. }) => total.1 <= *bytes,
        _ => within(total),
    }
}

/// Whether the discipline may drop on its own account (and not for want of room).
fn has_aqm(config: &QdiscConfig) -> bool {
    use QdiscConfig::{DropTail, Drr, Priority, Sfq, Tbf};
    !matches!(config, DropTail(_) | Priority(_) | Drr(_) | Sfq(_) | Tbf(_))
}

fn may_mark(config: &QdiscConfig) -> bool {
    use QdiscConfig::{Cake, DualPi2, Shared, Step};
    if matches!(config, DualPi2(_) | Step(_) | Cake(_) | Shared(SharedParams { threshold: Some(_), .. })) {
        return true;
    }
    let mut config = config.clone();
    let ecn = config.parameters().fields().into_iter().find(|field| field.name == "ecn");
    ecn.is_some_and(|field| field.value.given() == Some(Given::Flag(true)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn packets_are_conserved_ordered_and_limited(config in any_config(), steps in steps(), [boxed, goes_down]: [bool; 2]) {
        // A step that is never reached is of no use, but does no harm either.
        prop_assert!(matches!(config, QdiscConfig::Step(_)) || config.faults_on(&Sizing::default()).is_empty());
        let mut queue = config.build(&Sizing::default(), Streams::new(3).stream("queue"));
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
                    // Some are acknowledgements. The class says the code point and the hosts, too.
                    let ack = Segment { ack: u64::from(slot), flags: Flags::ACK, ..Segment::default() };
                    let (flow, to) = (FlowId(flow), EndpointId(0));
                    let sent = match size < 100 {
                        true => Packet::tcp(flow, to, ack, ecn),
                        false => Packet::udp(flow, to, Datagram::default()),
                    };
                    let dscp = [Dscp::default(), Dscp::EF, Dscp::LE, Dscp::CS1][usize::from(class)];
                    let hosts = (NodeId(flow.0 / 2), NodeId(u32::from(class)));
                    let headers = Headers { packet: &Packet { dscp, ..sent }, hosts };
                    let verdict = match queue.reads_headers() {
                        true => queue.enqueue_with(now, arriving, &headers, &mut dropped),
                        false => queue.enqueue(now, arriving, &mut dropped),
                    };
                    match verdict {
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
                        let later = queue.next_ready(now).is_some_and(|at| at > now);
                        prop_assert!(later || queue.backlog() == (0, 0));
                    }
                }
            }
            for (victim, reason) in dropped.0.drain(..) {
                let known = waiting.remove(&victim.slot);
                prop_assert!(known.is_some_and(|known| known.size == victim.size));
                prop_assert!(reason == DropReason::Overflow || has_aqm(&config));
                if let QdiscConfig::Codel(CodelParams { target, .. }) = config {
                    prop_assert!(now - victim.arrived >= target, "dropped below target");
                }
            }
            if let Some(packet) = left {
                let known = waiting.remove(&packet.slot);
                prop_assert!(known.is_some());
                let known = known.unwrap();
                prop_assert!((packet.size, packet.arrived) == (known.size, known.arrived));
                prop_assert!(packet.ecn == known.ecn || (packet.ecn == Ecn::Ce && may_mark(&config)));
                // As it came, and not as it was marked here.
                let own = lane(&config, &known);
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
        // Everything still waiting comes out, when it may, or at once for a link that goes down.
        loop {
            let next = if goes_down { queue.discard(now, &mut dropped) } else { queue.dequeue(now, &mut dropped) };
            match (next, queue.next_ready(now)) {
                (Some(packet), _) => prop_assert!(waiting.remove(&packet.slot).is_some()),
                (None, Some(at)) if at > now && !goes_down => now = at,
                (None, _) => break,
            }
        }
        for (packet, _) in dropped.0 {
            prop_assert!(waiting.remove(&packet.slot).is_some());
        }
        prop_assert!(waiting.is_empty());
    }

    #[test]
    fn red_never_drops_below_min_th(steps in steps(), ecn: bool, weight in 0.001f64..=1.0) {
        let threshold = |packets: u32| Some(QueueLimit::Packets(packets));
        let params = RedParams {
            max_probability: 1.0,
            weight,
            ecn,
            limit: QueueLimit::Packets(50),
            min_threshold: threshold(3),
            max_threshold: threshold(6),
            ..Default::default()
        };
        let mut queue = Red::new(&params, &Sizing::default(), Streams::new(3).stream("queue"));
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
        let params = CodelParams { limit: QueueLimit::Unlimited, ..Default::default() };
        let mut queue = Codel::new(&params, &Sizing::default(), Streams::new(3).stream("queue"));
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
