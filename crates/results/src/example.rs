//! A small made-up run for the tests of this module: a connection with loss, SACK, a D-SACK and ECN, and a UDP flow.

use warpline_core::packet::{
    Datagram, Ecn, EndpointId, Flags, FlowId, LinkId, NodeId, Packet, SackBlocks, Segment, SynOptions,
};
use warpline_core::record::{DropReason, LinkEvent, LinkRecord, LossTrigger, Phase, TcpEvent, TcpRecord};
use warpline_core::time::{TimeDelta, Timestamp};

use crate::{AddressBook, FlowRow, FlowSample, LinkRow, LinkSample, RunInfo, Summary, TransferRow};

/// The TCP flow is 0 with endpoints 0 and 1, the UDP flow is 1 with endpoints 2 and 3.
pub(crate) fn book() -> AddressBook {
    let mut book = AddressBook::new();
    book.add_connection(FlowId(0), (EndpointId(0), NodeId(0)), (EndpointId(1), NodeId(300)));
    book.add_connection(FlowId(1), (EndpointId(2), NodeId(0)), (EndpointId(3), NodeId(300)));
    book
}

/// What passes between two hosts, in order: `(endpoint that it is for, ecn, segment)`.
fn segments() -> Vec<(u32, Ecn, Segment)> {
    const SYN_ECN: Flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    const MSS: u32 = 1448;
    let syn = SynOptions { mss: 1460, window_scale: Some(7), sack_permitted: true };
    let data = |index: u64, at: u32| Segment {
        seq: 1 + index * u64::from(MSS),
        ack: 1,
        len: MSS,
        window: 65_536,
        timestamps: Some((at, at.saturating_sub(40))),
        flags: Flags::ACK,
        ..Segment::default()
    };
    let ack = |ack: u64, blocks: &[(u64, u64)], flags: Flags, at: u32| {
        let mut sack = SackBlocks::NONE;
        let bytes = |index: u64| 1 + index * u64::from(MSS);
        for &(start, end) in blocks {
            assert!(sack.push(bytes(ack), bytes(start), bytes(end)));
        }
        let (ack, timestamps) = (bytes(ack), Some((at, at.saturating_sub(20))));
        Segment { seq: 1, ack, window: 1_048_576, timestamps, flags, sack, ..Segment::default() }
    };
    let (plain, echo) = (Flags::ACK, Flags::ACK.with(Flags::ECE));
    let first =
        Segment { window: 64_240, timestamps: Some((1, 0)), flags: SYN_ECN, syn, ..Segment::default() };
    let flags = Flags::SYN.with(Flags::ACK).with(Flags::ECE);
    let second =
        Segment { ack: 1, window: 65_160, timestamps: Some((21, 1)), flags, syn, ..Segment::default() };
    let third = Segment { seq: 1, len: 0, ..data(0, 41) };
    let end = 1 + 7 * u64::from(MSS);
    let fin = Flags::FIN.with(Flags::ACK);
    vec![
        (1, Ecn::NotEct, first),
        (0, Ecn::NotEct, second),
        (1, Ecn::NotEct, third),
        (1, Ecn::Ect0, data(0, 41)),
        // Segment 1 is lost; segment 2 arrives marked.
        (1, Ecn::Ce, data(2, 42)),
        (0, Ecn::NotEct, ack(1, &[], plain, 61)),
        (0, Ecn::NotEct, ack(1, &[(2, 3)], echo, 62)),
        (1, Ecn::Ect0, data(3, 81)),
        (1, Ecn::Ect0, data(5, 81)),
        (0, Ecn::NotEct, ack(1, &[(2, 4)], echo, 101)),
        (0, Ecn::NotEct, ack(1, &[(5, 6), (2, 4)], echo, 101)),
        (1, Ecn::Ect0, Segment { flags: Flags::ACK.with(Flags::CWR).with(Flags::PSH), ..data(1, 121) }),
        (1, Ecn::Ect0, data(4, 121)),
        (1, Ecn::Ect0, data(4, 160)),
        (0, Ecn::NotEct, ack(4, &[(5, 6)], plain, 141)),
        (0, Ecn::NotEct, ack(6, &[], plain, 142)),
        // The second copy of segment 4: a D-SACK below the cumulative acknowledgement.
        (0, Ecn::NotEct, ack(6, &[(4, 5)], plain, 180)),
        (1, Ecn::Ect0, Segment { flags: Flags::ACK.with(Flags::PSH), ..data(6, 200) }),
        (1, Ecn::NotEct, Segment { seq: end, len: 0, flags: fin, ..data(0, 200) }),
        (0, Ecn::NotEct, Segment { ack: end + 1, flags: fin, ..ack(7, &[], plain, 220) }),
        (1, Ecn::NotEct, Segment { seq: end + 1, ack: 2, len: 0, ..data(0, 240) }),
    ]
}

/// Link events: the TCP flow forward on link 0 and back on link 1, the UDP flow on link 0, and drops.
pub(crate) fn link_records() -> Vec<LinkRecord> {
    let mut records = Vec::new();
    let mut id = 65_530;
    let mut push = |millis: u32, event, packet: Packet| {
        records.push(LinkRecord {
            time: Timestamp::from_nanos(u64::from(millis) * 1_000_000 + packet.id % 1000),
            link: LinkId(u32::from(packet.to.0.is_multiple_of(2))),
            event,
            backlog_packets: 3,
            backlog_bytes: 4_500,
            packet,
        });
    };
    for (to, ecn, segment) in segments() {
        let (flow, size) = (FlowId(to / 2), segment.wire_size());
        let packet = Packet { size, id, ..Packet::tcp(flow, EndpointId(to), segment, ecn) };
        let now = segment.timestamps.map_or(0, |(value, _)| value);
        push(now, LinkEvent::Enqueue, packet);
        if ecn == Ecn::Ce {
            push(now, LinkEvent::Mark, packet);
        }
        push(now, LinkEvent::Transmit { queued: TimeDelta::from_micros(1_200) }, packet);
        push(now, LinkEvent::Deliver, packet);
        id += 1;
    }
    for seq in 0..3 {
        let datagram =
            Datagram { seq, created: Timestamp::from_millis(250), len: 171, ..Datagram::default() };
        let packet = Packet { id, ..Packet::udp(FlowId(1), EndpointId(3), datagram) };
        let event = match seq {
            1 => LinkEvent::Drop(DropReason::Overflow),
            _ => LinkEvent::Transmit { queued: TimeDelta::ZERO },
        };
        push(250 + seq as u32, event, packet);
        id += 1;
    }
    records.sort_by_key(|record| record.time);
    records
}

/// One of each TCP event, at both ends.
pub(crate) fn tcp_records() -> Vec<TcpRecord> {
    let ms = TimeDelta::from_millis;
    let events = [
        TcpEvent::Sent { seq: 0, len: 0, retransmit: false, probe: false },
        TcpEvent::Established,
        TcpEvent::Sent { seq: 1, len: 1448, retransmit: false, probe: false },
        TcpEvent::Metrics {
            cwnd: 14_480,
            ssthresh: u64::MAX,
            in_flight: 1448,
            srtt: TimeDelta::ZERO,
            min_rtt: TimeDelta::ZERO,
            rto: ms(1000),
        },
        TcpEvent::Acked { ack: 1, window_end: 65_537, newly_acked: 0, ce: 0, rtt: None },
        TcpEvent::Sacked { start: 2897, end: 4345 },
        TcpEvent::State { state: Phase::Recovery },
        TcpEvent::Lost { seq: 1, len: 1448, trigger: LossTrigger::Rack },
        TcpEvent::Sent { seq: 1, len: 1448, retransmit: true, probe: false },
        TcpEvent::Sent { seq: 4345, len: 1448, retransmit: false, probe: true },
        TcpEvent::Acked { ack: 4345, window_end: 69_881, newly_acked: 2896, ce: 1448, rtt: Some(ms(40)) },
        TcpEvent::Metrics {
            cwnd: 7_240,
            ssthresh: 7_240,
            in_flight: 1448,
            srtt: ms(40),
            min_rtt: ms(40),
            rto: ms(240),
        },
        TcpEvent::Undo,
        TcpEvent::State { state: Phase::Open },
        TcpEvent::Closed { complete: true },
    ];
    let mut records = Vec::new();
    for (index, event) in events.into_iter().enumerate() {
        let time = Timestamp::from_nanos(index as u64 * 10_000_001);
        records.push(TcpRecord { time, flow: FlowId(0), endpoint: EndpointId(0), event });
    }
    let (time, event) = (Timestamp::from_millis(500), TcpEvent::Established);
    records.push(TcpRecord { time, flow: FlowId(0), endpoint: EndpointId(1), event });
    records
}

/// Flow `index` of the group, with a goodput.
pub(crate) fn flow(index: u32, group: &str, cc: Option<&str>, goodput_bps: f64) -> FlowRow {
    FlowRow {
        flow: index,
        name: format!("{group}.{index}"),
        group: group.to_owned(),
        from: "client".to_owned(),
        to: "server".to_owned(),
        app: if cc.is_some() { "bulk" } else { "cbr" }.to_owned(),
        transport: if cc.is_some() { "tcp" } else { "udp" }.to_owned(),
        cc: cc.map(str::to_owned),
        start_s: 0.25 * f64::from(index),
        sent_packets: 10_000 + u64::from(index),
        sent_bytes: 15_000_000,
        retransmitted_packets: 120,
        delivered_bytes: (goodput_bps * 55.0 / 8.0) as u64,
        goodput_bps,
        throughput_bps: goodput_bps * 1.05,
        lost_packets: 110,
        rtos: 1,
        recoveries: 9,
        rtt_min_ms: cc.map(|_| 44.0),
        rtt_mean_ms: cc.map(|_| 61.5),
        rtt_max_ms: cc.map(|_| 92.25),
        latency_mean_ms: Some(63.125),
        latency_p50_ms: Some(60.0),
        latency_p95_ms: Some(88.0),
        latency_p99_ms: Some(140.5),
        latency_max_ms: Some(412.75),
        transfers: 1,
        ..FlowRow::default()
    }
}

/// A transfer that is complete and one that is not.
pub(crate) fn transfers() -> Vec<TransferRow> {
    let done = TransferRow {
        transfer: 0,
        flow: 0,
        name: "bulk.0".to_owned(),
        to: "right.0".to_owned(),
        bytes: 1_000_000,
        start_s: 1.0,
        end_s: Some(3.5),
        completion_s: Some(2.5),
        complete: true,
        ideal_s: Some(1.25),
        slowdown: Some(2.0),
    };
    let open = TransferRow {
        transfer: 1,
        end_s: None,
        completion_s: None,
        complete: false,
        slowdown: None,
        ..done.clone()
    };
    vec![done, open]
}

/// A sample per second and flow.
pub(crate) fn flow_samples() -> Vec<FlowSample> {
    (1..=60)
        .map(|second| FlowSample {
            cwnd_bytes: Some(14_480 * second as u64),
            ssthresh_bytes: (second > 9).then_some(7_240),
            in_flight_bytes: Some(1_448),
            srtt_ms: (second > 1).then_some(61.5),
            retransmits: 2,
            ..FlowSample::new(f64::from(second), 0, 4.8e6, 5e6)
        })
        .collect()
}

/// A sample per second.
pub(crate) fn link_samples() -> Vec<LinkSample> {
    let sample = |second| LinkSample {
        time_s: f64::from(second),
        throughput_bps: 9.9e6,
        backlog_packets: 17,
        backlog_bytes: 25_500,
        queue_delay_ms: Some(20.4),
        ..LinkSample::default()
    };
    (1..=60).map(sample).collect()
}

/// A bottleneck direction and its way back.
pub(crate) fn links() -> Vec<LinkRow> {
    let forward = LinkRow {
        link: 0,
        name: "r1>r2".to_owned(),
        from: "r1".to_owned(),
        to: "r2".to_owned(),
        rate_bps: Some(10e6),
        delay_s: 0.02,
        sent_packets: 45_833,
        sent_bytes: 68_406_250,
        throughput_bps: 9.95e6,
        utilisation: Some(0.995),
        drops_overflow: 230,
        drops_loss: 3,
        marks: 12,
        arrivals: 46_078,
        queue_delay_mean_ms: 17.25,
        queue_delay_max_ms: 41.2,
        ..LinkRow::default()
    };
    let back = LinkRow {
        link: 1,
        name: "r2>r1".to_owned(),
        from: "r2".to_owned(),
        to: "r1".to_owned(),
        throughput_bps: 215_000.0,
        utilisation: Some(0.0215),
        drops_overflow: 0,
        drops_loss: 0,
        marks: 0,
        queue_delay_mean_ms: 0.0,
        queue_delay_max_ms: 0.0,
        ..forward.clone()
    };
    vec![forward, back]
}

/// A summary of `count` flows of the group "bulk" and one of "voice".
pub(crate) fn summary(count: u32, seed: u64) -> Summary {
    let info = RunInfo {
        scenario: "two-flows".to_owned(),
        scenario_hash: format!("sha256:{}", "0".repeat(64)),
        seed,
        clock: "virtual".to_owned(),
        duration_s: 60.0,
        warmup_s: 5.0,
        simulated_s: 60.0,
        complete: true,
        stopped: None,
        packet_hops: 274_112,
        events: 301_009,
    };
    let bulk =
        (0..count).map(|i| flow(i, "bulk", Some("cubic"), 4.8e6 + 1e5 * f64::from(i) + seed as f64 * 1e4));
    let flows = bulk.chain([flow(count, "voice", None, 64_000.0)]).collect();
    Summary::new(info, flows, links())
}
