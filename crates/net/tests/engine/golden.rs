//! The complete event trace of a small network: a fast access link, a slow lossy bottleneck with an outage, and answers.

use std::fmt::Write as _;

use warpline_core::record::LinkEvent;
use warpline_core::{Ecn, LinkId, NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::jitter::{JitterKind, Order, Uniform};
use warpline_net::loss::{ListedParams, LossKind};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::{LinkConfig, RateConfig};

use crate::hosts::Burst;
use crate::world::{Manner, World};

#[test]
fn the_trace_of_a_small_network() {
    let link = |name: &str, from, to, mbit: u64, delay_us| LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(mbit * 1_000_000)),
        delay: TimeDelta::from_micros(delay_us),
        ..LinkConfig::new(name, NodeId(from), NodeId(to))
    };
    let links = vec![
        link("host>router", 0, 1, 100, 10),
        LinkConfig {
            qdisc: QdiscConfig::drop_tail(QueueLimit::Packets(4)),
            loss: LossKind::Listed(ListedParams { packets: vec![2] }).into(),
            outages: vec![(Timestamp::from_millis(4), Timestamp::from_millis(6))],
            ..link("router>server", 1, 2, 10, 500)
        },
        LinkConfig {
            jitter: JitterKind::Uniform(Uniform {
                min: TimeDelta::ZERO,
                max: TimeDelta::from_micros(400),
                order: Order { reorder: true },
            }),
            framing: 18,
            ..link("server>host", 2, 0, 10, 200)
        },
    ];
    let burst = |at_us: u64, count, size, answered| Burst {
        at: at_us * 1_000,
        route: 0,
        count,
        size,
        class: 0,
        ecn: Ecn::NotEct,
        answered,
    };
    let world = World {
        links,
        routes: vec![vec![LinkId(0), LinkId(1)], vec![LinkId(2)]],
        bursts: vec![burst(0, 7, 1500, true), burst(5_000, 1, 600, false), burst(7_000, 2, 60, true)],
    };
    let outcome = world.run(&Manner { record: vec![true; 3], ..Manner::default() });
    let mut trace = String::new();
    for record in &outcome.records {
        let event = match record.event {
            LinkEvent::Enqueue => "enqueue".to_owned(),
            LinkEvent::Drop(reason) => format!("drop ({})", reason.name()),
            LinkEvent::Mark => "mark".to_owned(),
            LinkEvent::Transmit { queued } => format!("transmit after {queued}"),
            LinkEvent::Duplicate => "duplicate".to_owned(),
            LinkEvent::Corrupt => "corrupt".to_owned(),
            LinkEvent::Deliver => "deliver".to_owned(),
        };
        let (time, link, id) = (record.time, &world.links[record.link.index()].name, record.packet.id);
        let (packets, bytes) = (record.backlog_packets, record.backlog_bytes);
        writeln!(trace, "{time} {link:13} packet {id:2} {event:24} {packets} packets {bytes} B wait")
            .unwrap();
    }
    insta::assert_snapshot!(trace);
}
