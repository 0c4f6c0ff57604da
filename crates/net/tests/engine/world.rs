//! Random networks: graphs whose routes merge and split, every kind of link, and traffic over them.

use std::sync::Arc;

use proptest::prelude::*;
use warpline_core::parameter::{Choice, Given};
use warpline_core::record::LinkRecord;
use warpline_core::{Bytes, Ecn, LinkId, NodeId, Rate, Streams, TimeDelta, Timestamp};
use warpline_net::chance::Correlation;
use warpline_net::jitter::{JitterKind, Order, OvertakingParams, Uniform};
use warpline_net::loss::{
    BernoulliParams, CorrelatedParams, EveryParams, FourStateParams, GilbertElliottParams, LossConfig,
    LossKind,
};
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::{
    CakeParams, CodelParams, PriorityParams, QdiscConfig, QueueLimit, RedParams, SharedParams, StepParams,
    TbfParams,
};
use warpline_net::radio::Wifi;
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{LinkChange, LinkConfig, LinkStats, Network, Pause, RateConfig};

use crate::hosts::{Burst, Delivery, Scripted};

/// A network and what is sent over it.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) links: Vec<LinkConfig>,
    pub(crate) routes: Vec<Vec<LinkId>>,
    pub(crate) bursts: Vec<Burst>,
}

/// How a world is run; none of this changes what happens in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// Links that are recorded, which selects the general implementation.
    pub(crate) record: Vec<bool>,
    /// Every link is made to be changed, which also selects the general implementation.
    pub(crate) changeable: bool,
    /// Every link gets a second feeder that is never used, so that no hop is express.
    pub(crate) no_express: bool,
    /// Links that no route crosses are added as idle ones.
    pub(crate) idle: bool,
    /// Pauses at these instants (rising), with this budget of events at a time, and whether counters are read there.
    pub(crate) pauses: Vec<(u64, u64, bool)>,
}

/// All visible results of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) deliveries: Vec<Delivery>,
    /// For each sampled instant: the links' counters, and packets sent, delivered and in flight.
    pub(crate) samples: Vec<(Vec<LinkStats>, (u64, u64, i64))>,
    pub(crate) records: Vec<LinkRecord>,
}

/// The instants at which every run is sampled.
pub(crate) fn sampled() -> impl Iterator<Item = u64> {
    (0..40).map(|step| step * 1_700_000).chain([200_000_000, 2_000_000_000, 3_600_000_000_000])
}

pub(crate) fn counters(network: &mut Network) -> Vec<LinkStats> {
    let mut counters = vec![LinkStats::default(); network.link_count()];
    network.all_link_stats().for_each(|(link, stats)| counters[link.index()] = stats);
    counters
}

/// Begins a new interval for the longest waits of every second link.
pub(crate) fn reset_some(network: &mut Network) {
    let links: Vec<LinkId> = network.links().filter(|link| link.0 % 2 == 0).collect();
    links.into_iter().for_each(|link| network.reset_queued_max(link));
}

impl World {
    /// For each route, the next one that begins where it ends.
    pub(crate) fn answers(&self) -> Vec<Option<usize>> {
        let end = |route: &[LinkId]| route.last().map(|link| self.links[link.index()].to);
        let start = |route: &[LinkId]| route.first().map(|link| self.links[link.index()].from);
        let count = self.routes.len();
        let next = |route: usize| {
            let end = end(&self.routes[route]);
            (1..=count).map(|step| (route + step) % count).find(|&other| start(&self.routes[other]) == end)
        };
        (0..count).map(next).collect()
    }

    /// The network without routes.
    pub(crate) fn network(&self, manner: &Manner) -> Network {
        let mut network = Network::new();
        for (index, link) in self.links.iter().enumerate() {
            let record = manner.record.get(index).copied().unwrap_or(false);
            let changeable = manner.changeable || link.changeable;
            let id = match manner.idle && !self.routes.iter().flatten().any(|used| used.index() == index) {
                true => network.add_idle_link(),
                false => {
                    network.add_link(LinkConfig { record, changeable, ..link.clone() }, &Streams::new(7))
                }
            };
            assert_eq!(id.index(), index);
        }
        network
    }

    pub(crate) fn build(&self, manner: &Manner) -> (Network, Scripted) {
        let mut network = self.network(manner);
        let routes = self
            .routes
            .iter()
            .map(|route| network.add_route(route).expect("a route over links that meet"))
            .collect();
        if manner.no_express {
            for link in 0..self.links.len() {
                network.add_route(&[LinkId(link as u32)]).expect("a route of one link");
            }
        }
        let hosts = Scripted::new(routes, self.answers(), &self.bursts);
        hosts.start(&mut network.port(Timestamp::ZERO));
        (network, hosts)
    }

    pub(crate) fn run(&self, manner: &Manner) -> Outcome {
        let (mut network, mut hosts) = self.build(manner);
        let mut samples = Vec::new();
        let mut pauses = manner.pauses.iter().copied().peekable();
        for instant in sampled() {
            while let Some((at, budget, read)) = pauses.next_if(|&(at, ..)| at < instant) {
                while network.run_until(Timestamp::from_nanos(at), &mut hosts, budget) == Pause::Budget {
                    if read {
                        conserved(&self.links, &counters(&mut network), network.packets());
                    }
                }
                if read {
                    counters(&mut network);
                }
            }
            let at = Timestamp::from_nanos(instant);
            assert_eq!(network.run_until(at, &mut hosts, u64::MAX), Pause::Reached);
            assert_eq!(network.now(), at);
            samples.push((counters(&mut network), network.packets()));
            // A new interval, so that the longest waits of intervals are compared as well.
            reset_some(&mut network);
        }
        Outcome { deliveries: hosts.deliveries, samples, records: network.take_records() }
    }
}

/// Checks that, at any instant, every packet is accounted for.
pub(crate) fn conserved(
    configs: &[LinkConfig],
    links: &[LinkStats],
    (sent, delivered, under_way): (u64, u64, i64),
) {
    for (link, config) in links.iter().zip(configs) {
        // Wi-Fi sends several packets at once, and some of them again.
        let most = if matches!(config.rate, RateConfig::Wifi(_)) { 64 } else { 1 };
        let known = link.sent_packets
            + link.drops_overflow
            + link.drops_aqm
            + link.drops_down
            + u64::from(link.backlog_packets);
        assert!(link.arrivals >= known && link.arrivals <= known + most, "{link:?}");
        assert!(link.drops_loss <= link.sent_packets && link.queued_packets >= link.sent_packets, "{link:?}");
        assert!(link.queued_packets == link.sent_packets + (link.arrivals - known), "{link:?}");
        // Nothing is lost and copied, or lost and changed.
        let intact = link.sent_packets - link.drops_loss;
        assert!(link.duplicated <= intact && link.corrupted <= intact, "{link:?}");
    }
    let dropped: u64 = links.iter().map(LinkStats::drops).sum();
    let copied: u64 = links.iter().map(|link| link.duplicated).sum();
    assert_eq!(
        (sent + copied) as i64,
        (delivered + dropped) as i64 + under_way,
        "{delivered} delivered, {under_way} under way, {dropped} dropped, {copied} copies"
    );
}

fn limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        3 => (1u32..30).prop_map(QueueLimit::Packets),
        2 => (500u64..30_000).prop_map(QueueLimit::Bytes),
        1 => Just(QueueLimit::Unlimited),
    ]
}

fn qdisc() -> impl Strategy<Value = QdiscConfig> {
    let red = (limit(), any::<bool>()).prop_map(|(limit, ecn)| {
        let (min_threshold, max_threshold) = (Some(QueueLimit::Packets(2)), Some(QueueLimit::Packets(8)));
        QdiscConfig::Red(RedParams {
            limit,
            ecn,
            min_threshold,
            max_threshold,
            weight: 0.1,
            ..Default::default()
        })
    });
    let threshold = prop_oneof![3 => (0u32..8).prop_map(QueueLimit::Packets), 1 => limit()];
    let plain_step = (limit(), threshold)
        .prop_map(|(limit, threshold)| QdiscConfig::Step(StepParams { limit, threshold }));
    // Marks by what waits alone, from one to six packets on.
    let step = ((1u32..30).prop_map(QueueLimit::Packets), 0u32..6, any::<bool>()).prop_map(
        |(limit, min, gentle)| {
            QdiscConfig::Red(RedParams {
                limit,
                ecn: true,
                min_threshold: Some(QueueLimit::Packets(min)),
                max_threshold: Some(QueueLimit::Packets(min + 1)),
                max_probability: if gentle { 1.0 } else { 0.1 },
                weight: 1.0,
                gentle,
                hard_drop: false,
                ..Default::default()
            })
        },
    );
    let codel = (limit(), any::<bool>()).prop_map(|(limit, ecn)| {
        let (target, interval) = (TimeDelta::from_millis(1), TimeDelta::from_millis(5));
        QdiscConfig::Codel(CodelParams { limit, ecn, target, interval })
    });
    let priority = (limit(), 1u8..4, any::<bool>()).prop_map(|(limit, classes, per_class)| {
        QdiscConfig::Priority(PriorityParams { limit, classes, per_class })
    });
    // Each with its defaults, so that none can be forgotten here.
    let plain = (0..QdiscConfig::KINDS.len(), limit()).prop_map(|(number, limit)| {
        let limit = ("limit", Given::Text(limit.to_string()));
        let plain = QdiscConfig::all()[number].clone();
        plain.with(&[limit]).unwrap_or(plain)
    });
    let cake = (500_000u64..20_000_000, any::<bool>()).prop_map(|(rate, ingress)| {
        let (bandwidth, memlimit) = (Some(Rate::from_bps(rate)), Some(Bytes(30_000)));
        QdiscConfig::Cake(CakeParams { bandwidth, memlimit, ingress, ..Default::default() })
    });
    // Of a node's buffer of 4 MB, some kilobytes.
    let shared =
        (0.001f64..0.01).prop_map(|alpha| QdiscConfig::Shared(SharedParams { alpha, ..Default::default() }));
    let shaped = (limit(), 500_000u64..20_000_000, 1500u64..20_000).prop_map(|(limit, rate, burst)| {
        let (rate, burst) = (Some(Rate::from_bps(rate)), Some(Bytes(burst)));
        QdiscConfig::Tbf(TbfParams { limit, rate, burst, ..Default::default() })
    });
    prop_oneof![
        12 => limit().prop_map(QdiscConfig::drop_tail), 1 => red, 3 => step, 1 => codel, 1 => priority, 1 => plain,
        1 => shaped, 3 => plain_step, 1 => cake, 1 => shared,
    ]
}

fn constant() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => prop::sample::select(vec![1_000_000, 3_333_333, 8_000_000, 12_000_000, 100_000_000, 1_000_000_000]),
        1 => 1_000_000u64..400_000_000_000,
        1 => Just(1_000_000_000_000_000),
    ]
}

fn rate() -> impl Strategy<Value = RateConfig> {
    let scheduled = (
        constant(),
        prop::collection::btree_map(1u64..60_000_000, prop_oneof![1 => Just(0), 3 => constant()], 0..4),
        prop::option::of(60_000_000u64..100_000_000),
    )
        .prop_map(|(initial, steps, period)| {
            let steps: Vec<_> = steps
                .into_iter()
                .map(|(at, rate)| (TimeDelta::from_nanos(at), Rate::from_bps(rate)))
                .collect();
            let period = period.map(TimeDelta::from_nanos);
            RateConfig::Scheduled(RateSchedule::new(
                Steps::new(Rate::from_bps(initial), &steps, period).expect("steps rise"),
            ))
        });
    let trace = prop::collection::vec(0u32..30, 1..20).prop_map(|mut stamps| {
        stamps.sort();
        stamps.push(30);
        let text: String = stamps.iter().map(|stamp| format!("{stamp}\n")).collect();
        RateConfig::Trace(Arc::new(Trace::parse(text.as_bytes()).expect("stamps rise")))
    });
    let wifi =
        (1u32..64, 100u64..6_000, 0.0f64..0.6, 0u32..3).prop_map(|(frames, airtime, error, retries)| {
            let (rate, airtime) = (Rate::from_bps(65_000_000), TimeDelta::from_micros(airtime));
            RateConfig::Wifi(Wifi { rate, frames, airtime, streams: 1, error, retries })
        });
    prop_oneof![
        24 => constant().prop_map(|rate| RateConfig::Constant(Rate::from_bps(rate))),
        6 => Just(RateConfig::Unlimited),
        1 => Just(RateConfig::Constant(Rate::from_bps(0))),
        2 => scheduled,
        1 => trace,
        1 => wifi,
    ]
}

fn loss() -> impl Strategy<Value = LossConfig> {
    let kind = prop_oneof![
        6 => Just(LossKind::default()),
        1 => (0.0f64..0.5).prop_map(|probability| LossKind::Bernoulli(BernoulliParams { probability, longest: None })),
        1 => (1u64..6).prop_map(|n| LossKind::Every(EveryParams { n })),
        1 => Just(LossKind::Correlated(CorrelatedParams { probability: 0.2, correlation: 0.5, form: Correlation::Netem })),
        1 => Just(LossKind::FourState(FourStateParams { begin: 0.1, end: 0.3, pass: 0.3, lose: 0.5, alone: 0.1 })),
        1 => Just(LossKind::GilbertElliott(GilbertElliottParams { good_to_bad: 0.1, bad_to_good: 0.4, loss_bad: 0.9, loss_good: 0.01 })),
    ];
    (kind, any::<bool>()).prop_map(|(kind, data_only)| LossConfig { kind, data_only })
}

/// Packets that are copied, or changed.
fn some() -> impl Strategy<Value = LossKind> {
    prop_oneof![
        10 => Just(LossKind::default()),
        1 => (0.0f64..0.3).prop_map(|probability| LossKind::Bernoulli(BernoulliParams { probability, longest: None })),
        1 => (1u64..6).prop_map(|n| LossKind::Every(EveryParams { n })),
    ]
}

fn jitter() -> impl Strategy<Value = JitterKind> {
    let some = (0u64..3_000_000, 0u64..3_000_000, any::<bool>()).prop_map(|(low, width, reorder)| {
        let (min, max) = (TimeDelta::from_nanos(low), TimeDelta::from_nanos(low + width));
        JitterKind::Uniform(Uniform { min, max, order: Order { reorder } })
    });
    let overtaking = (0u64..3_000_000, 1u64..4).prop_map(|(delay, gap)| {
        let delay = TimeDelta::from_nanos(delay);
        JitterKind::Overtaking(OvertakingParams {
            delay,
            probability: 0.5,
            gap,
            ..OvertakingParams::default()
        })
    });
    prop_oneof![28 => Just(JitterKind::default()), 2 => some, 1 => overtaking]
}

/// Outages in any order, which may overlap, be empty or last for ever.
fn outages() -> impl Strategy<Value = Vec<(Timestamp, Timestamp)>> {
    let start = prop_oneof![1 => Just(0), 4 => 0u64..60];
    let length = prop_oneof![8 => 0u64..20, 1 => Just(1 << 40)];
    let outage = (start, length)
        .prop_map(|(from, length)| (Timestamp::from_millis(from), Timestamp::from_millis(from + length)));
    prop_oneof![14 => Just(vec![]), 1 => prop::collection::vec(outage, 1..4)]
}

/// Changes in any order, several at one instant among them.
fn changes() -> impl Strategy<Value = Vec<(Timestamp, LinkChange)>> {
    let at = prop_oneof![1 => Just(0), 4 => (0u64..60).prop_map(|ms| ms * 1_000_000), 1 => 0u64..60_000_000];
    let rate = prop_oneof![1 => Just(0), 6 => constant()].prop_map(Rate::from_bps);
    let delay = prop_oneof![1 => Just(0), 6 => 1u64..5_000_000].prop_map(TimeDelta::from_nanos);
    let max = (0u64..3_000_000).prop_map(TimeDelta::from_nanos);
    let jitter = max.prop_map(|max| JitterKind::Uniform(Uniform { max, ..Uniform::default() }));
    let models = (prop::option::of(loss()), prop::option::of(some()), prop::option::of(some()));
    let change = (at, prop::option::of(rate), prop::option::of(delay), models, prop::option::of(jitter));
    let change = (change, prop::option::of(any::<bool>())).prop_map(
        |((at, rate, delay, (loss, duplicate, corrupt), jitter), down)| {
            let change = LinkChange { rate, delay, loss, duplicate, corrupt, jitter, down };
            (Timestamp::from_nanos(at), change)
        },
    );
    prop_oneof![10 => Just(vec![]), 1 => prop::collection::vec(change, 1..5)]
}

fn link(nodes: u32) -> impl Strategy<Value = LinkConfig> {
    let delay = prop_oneof![1 => Just(0u64), 2 => Just(1_000_000), 2 => 1u64..5_000_000];
    let framing = prop_oneof![3 => Just(0u32), 1 => Just(38)];
    let ends = (0..nodes, 1..nodes);
    let planned = (outages(), changes());
    (ends, rate(), delay, qdisc(), (loss(), some(), some()), jitter(), planned, framing).prop_map(
        move |(
            (from, step),
            rate,
            delay,
            qdisc,
            (loss, duplicate, corrupt),
            jitter,
            (outages, changes),
            framing,
        )| {
            let mut config = LinkConfig {
                rate,
                delay: TimeDelta::from_nanos(delay),
                qdisc,
                loss,
                duplicate,
                corrupt,
                jitter,
                outages,
                framing,
                ..LinkConfig::new("", NodeId(from), NodeId((from + step) % nodes))
            };
            config.changes = changes;
            let refused = |change: &LinkChange| config.check(change).is_err();
            if config.changes.iter().any(|(_, change)| refused(change)) {
                config.changes.clear();
            }
            config
        },
    )
}

/// The shortest delay that a link has at any time.
pub(crate) fn least_delay(link: &LinkConfig) -> TimeDelta {
    link.changes.iter().filter_map(|(_, change)| change.delay).fold(link.delay, TimeDelta::min)
}

fn burst() -> impl Strategy<Value = Burst> {
    // Many at the same instant, also at the start, and some at other times.
    let at = prop_oneof![3 => (0u64..50).prop_map(|ms| ms * 1_000_000), 2 => 0u64..50_000_000];
    let size = prop_oneof![4 => Just(1500u32), 2 => 40u32..1500, 1 => Just(9000)];
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0)];
    (at, any::<prop::sample::Index>(), 1u32..25, size, 0u8..4, ecn, any::<bool>()).prop_map(
        |(at, route, count, size, class, ecn, answered)| Burst {
            at,
            route: route.index(1 << 20),
            count,
            size,
            class,
            ecn,
            answered,
        },
    )
}

/// A random network with its traffic.
pub(crate) fn world() -> impl Strategy<Value = World> {
    (2u32..6)
        .prop_flat_map(|nodes| {
            let walk = prop::collection::vec(any::<prop::sample::Index>(), 1..6);
            (
                prop::collection::vec(link(nodes), 2..9),
                prop::collection::vec(walk, 1..5),
                prop::collection::vec(burst(), 1..12),
            )
        })
        .prop_map(|(mut links, walks, mut bursts)| {
            for (index, link) in links.iter_mut().enumerate() {
                link.name = format!("{index}");
            }
            let routes: Vec<Vec<LinkId>> = walks.iter().map(|walk| resolve(&links, walk)).collect();
            for burst in &mut bursts {
                burst.route %= routes.len();
            }
            World { links, routes, bursts }
        })
}

/// A walk over links, each of which begins where the previous one ends.
fn resolve(links: &[LinkConfig], walk: &[prop::sample::Index]) -> Vec<LinkId> {
    let mut at = None;
    let mut route = Vec::new();
    for step in walk {
        let ways: Vec<usize> =
            (0..links.len()).filter(|&l| at.is_none_or(|at| links[l].from == at)).collect();
        if ways.is_empty() {
            break;
        }
        let next = *step.get(&ways);
        at = Some(links[next].to);
        route.push(LinkId(next as u32));
    }
    route
}
