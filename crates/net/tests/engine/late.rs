//! Packets from outside that are read late: the network makes up for their lateness where possible.

use std::sync::Arc;

use warpline_core::{
    Body, Dscp, Ecn, EndpointId, FlowId, Frame, LinkId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId,
    Timestamp,
};
use warpline_net::loss::{EveryParams, LossConfig, LossKind};
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::{Hosts, LinkConfig, Network, Port, RateConfig};

const US: u64 = 1000;

/// Records what arrives: the time, the packet, and its mark.
#[derive(Debug, Default)]
struct Sink(Vec<(u64, u32, Ecn)>);

impl Hosts for Sink {
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, _: &mut Port<'_>) {
        let Body::Frame(frame) = packet.body else { panic!("{packet:?}") };
        self.0.push((now.as_nanos() / US, frame.handle, packet.ecn));
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Port<'_>) {}
}

fn frame(handle: u32) -> Packet {
    let body = Body::Frame(Frame { handle });
    let (flow, to, dscp) = (FlowId(0), EndpointId(0), Dscp::default());
    Packet { flow, to, size: 1000, ecn: Ecn::Ect0, class: 0, damaged: false, dscp, id: 0, body }
}

/// A byte takes a microsecond, the way another millisecond.
fn link(from: u32) -> LinkConfig {
    LinkConfig {
        rate: RateConfig::Constant(Rate::from_bps(8_000_000)),
        delay: TimeDelta::from_millis(1),
        ..LinkConfig::new(format!("{from}"), NodeId(from), NodeId(from + 1))
    }
}

/// Sends frames that are due at `due` microseconds and read at `seen`, over consecutive links. Returns what arrived and the handles
/// that were returned.
fn run(links: &[LinkConfig], frames: &[(u64, u64)], record: bool) -> (Vec<(u64, u32, Ecn)>, Vec<u32>) {
    let mut network = Network::new();
    let ids: Vec<LinkId> = links
        .iter()
        .map(|link| network.add_link(LinkConfig { record, ..link.clone() }, &Streams::new(1)))
        .collect();
    let route = network.add_route(&ids).expect("a route over links that meet");
    let mut sink = Sink::default();
    for (handle, &(due, seen)) in frames.iter().enumerate() {
        let seen = Timestamp::from_nanos(seen * US);
        network.run_until(seen, &mut sink, u64::MAX);
        network.port(seen).send_at(Timestamp::from_nanos(due * US), route, frame(handle as u32));
    }
    network.run_until(Timestamp::from_secs(60), &mut sink, u64::MAX);
    let (sent, delivered, under_way) = network.packets();
    assert_eq!((sent, under_way), (frames.len() as u64, 0));
    let released: Vec<u32> = network.take_released().collect();
    assert_eq!(delivered as usize + released.len(), frames.len());
    (sink.0, released)
}

/// Times of arrival in microseconds, which must be the same in both implementations of a link.
fn times(links: &[LinkConfig], frames: &[(u64, u64)]) -> Vec<u64> {
    let [plain, recorded] = [false, true].map(|record| run(links, frames, record));
    assert_eq!(plain, recorded);
    plain.0.into_iter().map(|(time, ..)| time).collect()
}

#[test]
fn a_packet_read_late_arrives_as_if_it_had_been_read_in_time() {
    // Two packets in sequence, one that waits for them, and one that finds the link idle.
    let due = [0, 1000, 1200, 10_000];
    let in_time = due.map(|due| (due, due));
    for links in [vec![link(0)], vec![link(0), link(1)]] {
        let expected = times(&links, &in_time);
        for late in [1, 300, 999, 1500] {
            assert_eq!(times(&links, &due.map(|due| (due, due + late))), expected, "late by {late} us");
        }
        // All read at the same time.
        assert_eq!(times(&links, &[(0, 1300), (1000, 1300), (1200, 1300), (10_000, 10_000)]), expected);
    }
    assert_eq!(times(&[link(0)], &in_time), [2000, 3000, 4000, 12_000]);
}

#[test]
fn nothing_arrives_in_the_past_or_overtakes() {
    assert_eq!(times(&[link(0)], &[(0, 5000)]), [5000]);
    // The second was due first, but stays behind packets that were sent before it.
    assert_eq!(times(&[link(0)], &[(500, 500), (0, 600)]), [2500, 3500]);
    let unlimited = LinkConfig { rate: RateConfig::Unlimited, ..link(0) };
    assert_eq!(times(std::slice::from_ref(&unlimited), &[(500, 500), (0, 600)]), [1500, 1500]);
    assert_eq!(times(&[unlimited], &[(0, 400), (500, 2000)]), [1000, 2000]);
}

#[test]
fn past_opportunities_of_a_trace_are_used() {
    let trace = Arc::new(Trace::parse(b"1\n2\n3\n4\n").unwrap());
    let traced = LinkConfig { rate: RateConfig::Trace(trace), delay: TimeDelta::ZERO, ..link(0) };
    assert_eq!(run(std::slice::from_ref(&traced), &[(500, 500)], false).0[0].0, 1000);
    assert_eq!(run(&[traced], &[(500, 900)], false).0[0].0, 1000);
}

#[test]
fn handles_of_lost_frames_are_returned() {
    // One in transmission, one waiting, no room for the third.
    let full = LinkConfig { qdisc: QdiscConfig::drop_tail(QueueLimit::Packets(1)), ..link(0) };
    let lossy = LossConfig { kind: LossKind::Every(EveryParams { n: 2 }), data_only: true };
    let lossy = LinkConfig { loss: lossy, ..link(0) };
    let down =
        LinkConfig { outages: vec![(Timestamp::from_nanos(100 * US), Timestamp::from_secs(1))], ..link(0) };
    for record in [false, true] {
        let at_once = [(0, 0), (0, 0), (0, 0)];
        assert_eq!(run(std::slice::from_ref(&full), &at_once, record).1, [2]);
        assert_eq!(run(std::slice::from_ref(&lossy), &at_once, record).1, [1]);
        assert_eq!(run(std::slice::from_ref(&down), &[(0, 0), (0, 0), (200, 200)], record).1, [1, 2]);
        // Late frames are lost in the same way.
        assert_eq!(run(std::slice::from_ref(&full), &[(0, 50), (0, 50), (0, 50)], record).1, [2]);
        assert_eq!(run(std::slice::from_ref(&lossy), &[(0, 50), (0, 50), (0, 50)], record).1, [1]);
    }
}
