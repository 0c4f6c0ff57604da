//! CAKE as a whole: who gets what of a bottleneck.

use std::collections::BTreeMap;

use warpline_core::{Datagram, EndpointId, Flags, FlowId, Packet, Segment, Streams};

use super::*;
use crate::qdisc::tests::packet;

/// A flow that always has packets waiting: its number, its hosts, its code point.
#[derive(Clone, Copy, Debug)]
struct Source {
    flow: u32,
    hosts: (u32, u32),
    dscp: &'static str,
    size: u32,
}

fn source(flow: u32, hosts: (u32, u32)) -> Source {
    Source { flow, hosts, dscp: "DF", size: 1500 }
}

/// A queue in front of a link that takes whatever it is given.
struct Bench {
    cake: Cake,
    now: Timestamp,
    slot: u32,
    dropped: Dropped,
}

impl Bench {
    fn new(params: CakeParams) -> Self {
        let cake = Cake::new(&params, &Sizing::default(), Streams::new(3).stream("cake"));
        Bench { cake, now: Timestamp::ZERO, slot: 0, dropped: Dropped::default() }
    }

    fn offer(&mut self, source: Source) -> Verdict {
        let Source { flow, hosts: (from, to), dscp, size } = source;
        let body = Packet::udp(FlowId(flow), EndpointId(0), Datagram::default());
        let sent = Packet { size, dscp: dscp.parse().unwrap(), ..body };
        let headers = Headers { packet: &sent, hosts: (NodeId(from), NodeId(to)) };
        self.slot += 1;
        let arriving = Queued { flow, arrived: self.now, ..packet(self.slot, size) };
        self.cake.enqueue_with(self.now, arriving, &headers, &mut self.dropped)
    }

    /// The next packet that leaves, when it may.
    fn next(&mut self) -> Option<Queued> {
        loop {
            match self.cake.dequeue(self.now, &mut self.dropped) {
                Some(packet) => return Some(packet),
                None => self.now = self.cake.next_ready(self.now).filter(|&at| at > self.now)?,
            }
        }
    }

    /// Bytes that each flow sends out of `total` packets, while each of them has some waiting.
    fn shares(&mut self, sources: &[Source], total: u32) -> BTreeMap<u32, u64> {
        let by_flow: BTreeMap<u32, Source> = sources.iter().map(|source| (source.flow, *source)).collect();
        for &source in sources {
            (0..3).for_each(|_| assert_eq!(self.offer(source), Verdict::Queued));
        }
        let mut bytes = BTreeMap::new();
        for _ in 0..total {
            let sent = self.next().unwrap();
            *bytes.entry(sent.flow).or_default() += u64::from(sent.size);
            for (victim, _) in std::mem::take(&mut self.dropped.0) {
                self.offer(by_flow[&victim.flow]);
            }
            self.offer(by_flow[&sent.flow]);
        }
        bytes
    }
}

/// At 100 Mbit/s the AQM has nothing to say: a packet of a few flows waits for no more than the target.
fn shaped(flowmode: CakeFlowMode) -> CakeParams {
    CakeParams { bandwidth: Some(Rate::from_bps(100_000_000)), flowmode, ..CakeParams::default() }
}

/// The shares in percent of flow 0, which has its hosts for itself as far as `hosts` says, and of flows 1 to 8, which share theirs.
fn one_against_eight(flowmode: CakeFlowMode, hosts: fn(u32) -> (u32, u32)) -> (u64, Vec<u64>) {
    let sources: Vec<Source> = (0..9).map(|flow| source(flow, hosts(flow))).collect();
    let bytes = Bench::new(shaped(flowmode)).shares(&sources, 18_000);
    let total: u64 = bytes.values().sum();
    let percent = |flow: u32| (bytes[&flow] * 1000 / total + 5) / 10;
    (percent(0), (1..9).map(percent).collect())
}

#[test]
fn hosts_have_equal_shares_which_their_flows_divide() {
    use CakeFlowMode::{DualDsthost, DualSrchost, Flows, TripleIsolate};
    let by_source = |flow: u32| if flow == 0 { (1, 9) } else { (2, 9) };
    let by_destination = |flow: u32| if flow == 0 { (9, 1) } else { (9, 2) };
    let halves = (50, vec![6; 8]);
    let equal = (11, vec![11; 8]);
    assert_eq!(one_against_eight(DualSrchost, by_source), halves);
    assert_eq!(one_against_eight(DualDsthost, by_destination), halves);
    assert_eq!(one_against_eight(Flows, by_source), equal);
    assert_eq!(one_against_eight(DualDsthost, by_source), equal);
    // Both hosts send to the same one, whose nine flows divide every quantum by nine: triple isolation sees no difference.
    assert_eq!(one_against_eight(TripleIsolate, by_source), equal);
    let apart = |flow: u32| if flow == 0 { (1, 3) } else { (2, 4) };
    assert_eq!(one_against_eight(TripleIsolate, apart), halves);
}

#[test]
fn flows_of_a_host_can_share_one_queue() {
    let sources: Vec<Source> = (0..9).map(|flow| source(flow, (if flow == 0 { 1 } else { 2 }, 9))).collect();
    for (mode, alone) in
        [(CakeFlowMode::Srchost, 50), (CakeFlowMode::Dsthost, 11), (CakeFlowMode::Flowblind, 11)]
    {
        let bytes = Bench::new(shaped(mode)).shares(&sources, 9_000);
        let total: u64 = bytes.values().sum();
        assert_eq!((bytes[&0] * 1000 / total + 5) / 10, alone, "{mode:?}");
    }
}

#[test]
fn the_shaper_keeps_its_rate_with_what_the_bottleneck_adds() {
    // 1500 bytes with 40 of PPPoE are 33 cells on ADSL: 1749 bytes, 6.996 ms at 2 Mbit/s.
    let overhead = CakeOverheadParams { overhead: Some(Bytes(40)), atm: CakeAtm::Atm, ..Default::default() };
    let bandwidth = Some(Rate::from_bps(2_000_000));
    let mut bench = Bench::new(CakeParams { bandwidth, overhead, ..CakeParams::default() });
    let own = source(1, (1, 2));
    (0..40).for_each(|_| assert_eq!(bench.offer(own), Verdict::Queued));
    let mut times = Vec::new();
    while bench.next().is_some() {
        times.push(bench.now);
    }
    let gap = TimeDelta::from_micros(6_996);
    assert!(times.len() > 30 && times.windows(2).all(|pair| pair[1] - pair[0] == gap));
}

/// Shares in percent of flows with these code points, each of which always has packets waiting.
fn by_class(diffserv: CakeDiffserv, bandwidth: Option<u64>, classes: &[&'static str]) -> Vec<u64> {
    let bandwidth = bandwidth.map(Rate::from_bps);
    let mut bench = Bench::new(CakeParams { bandwidth, diffserv, ..CakeParams::default() });
    let own = |(flow, &dscp)| Source { dscp, ..source(flow, (flow, 100 + flow)) };
    let sources: Vec<Source> = (0..).zip(classes).map(own).collect();
    let bytes = bench.shares(&sources, 16_000);
    let total: u64 = bytes.values().sum();
    (0..classes.len() as u32).map(|flow| (bytes[&flow] * 1000 / total + 5) / 10).collect()
}

#[test]
fn a_tin_is_first_up_to_its_threshold_and_has_the_rest_by_it() {
    use CakeDiffserv::{Besteffort, Diffserv3, Diffserv4};
    let shaped = Some(100_000_000);
    // The voice tin has a quarter of the rate, the bulk tin a sixteenth, in spite of the best effort tin, whose threshold is all of it.
    assert_eq!(by_class(Diffserv3, shaped, &["DF", "LE", "EF"]), [69, 6, 25]);
    assert_eq!(by_class(Diffserv4, shaped, &["DF", "LE", "AF41", "EF"]), [19, 6, 50, 25]);
    assert_eq!(by_class(Besteffort, shaped, &["DF", "LE", "EF"]), [33, 33, 33]);
    // Alone, each has everything.
    assert_eq!(by_class(Diffserv3, shaped, &["LE"]), [100]);
    // Without a shaper, by quanta: 1024, 64 and 256 of 1344.
    assert_eq!(by_class(Diffserv3, None, &["DF", "LE", "EF"]), [76, 5, 19]);
}

#[test]
fn a_sparse_flow_does_not_wait_behind_others() {
    let mut bench = Bench::new(shaped(CakeFlowMode::TripleIsolate));
    for flow in 0..8 {
        (0..4).for_each(|_| assert_eq!(bench.offer(source(flow, (flow, 100))), Verdict::Queued));
    }
    // Each has used up its first quantum with its second packet.
    (0..20).for_each(|_| assert!(bench.next().is_some()));
    for _ in 0..5 {
        // One packet of its own and never two, before all that wait: a quantum of 1514 divided by nine queues to one host is enough for it.
        bench.offer(Source { size: 100, ..source(50, (50, 100)) });
        assert_eq!(bench.next().unwrap().flow, 50);
        assert_ne!(bench.next().unwrap().flow, 50);
    }
}

#[test]
fn a_full_memory_drops_from_the_longest_queue_s_head() {
    let memlimit = Some(Bytes(10_000));
    let mut bench = Bench::new(CakeParams { memlimit, ..shaped(CakeFlowMode::Flows) });
    for _ in 0..5 {
        assert_eq!(bench.offer(source(1, (1, 2))), Verdict::Queued);
    }
    for _ in 0..2 {
        assert_eq!(bench.offer(source(2, (1, 2))), Verdict::Queued);
    }
    let victims: Vec<(u32, DropReason)> =
        bench.dropped.0.drain(..).map(|(packet, reason)| (packet.slot, reason)).collect();
    assert_eq!(victims, [(1, DropReason::Overflow)]);
    assert_eq!(bench.cake.backlog(), (6, 9000));
    // A packet that does not fit at all is the one that goes.
    let huge = Source { size: 20_000, ..source(3, (1, 2)) };
    assert_eq!(bench.offer(huge), Verdict::Dropped(DropReason::Overflow));
    assert_eq!(bench.cake.backlog(), (6, 9000));
}

#[test]
fn memory_is_four_times_what_the_rate_carries_in_a_round_trip_within_bounds() {
    let memory = |mbps: Option<u64>| {
        let bandwidth = mbps.map(|mbps| Rate::from_bps(mbps * 1_000_000));
        CakeParams { bandwidth, ..CakeParams::default() }.memory(1514)
    };
    assert_eq!([Some(10), Some(100), Some(1000)].map(memory), [4 << 20, 5_000_000, 10_240 * 1514]);
    assert_eq!(memory(None), 10_240 * 1514);
}

#[test]
fn where_drops_count_an_unresponsive_flow_has_less() {
    // Twice the rate arrives: what leaves and what is dropped crossed the bottleneck before.
    let sent = |ingress| {
        let bandwidth = Some(Rate::from_bps(12_000_000));
        let mut bench = Bench::new(CakeParams { bandwidth, ingress, ..CakeParams::default() });
        let mut sent = 0u32;
        for half_ms in 0..8000u64 {
            bench.now = Timestamp::from_nanos(half_ms * 500_000);
            bench.offer(source(1, (1, 2)));
            while bench.cake.dequeue(bench.now, &mut bench.dropped).is_some() {
                sent += 1;
            }
        }
        sent
    };
    let (egress, ingress) = (sent(false), sent(true));
    assert!((3990..=4001).contains(&egress), "{egress}");
    assert!(ingress < egress * 9 / 10 && ingress > egress / 2, "{ingress} of {egress}");
}

#[test]
fn redundant_acknowledgements_are_dropped_on_arrival() {
    let mut bench = Bench::new(CakeParams { ack_filter: CakeAckFilter::On, ..shaped(CakeFlowMode::Flows) });
    for ack in 1..=10u64 {
        let segment = Segment { ack, flags: Flags::ACK, ..Segment::default() };
        let sent = Packet::tcp(FlowId(1), EndpointId(2), segment, Default::default());
        let headers = Headers { packet: &sent, hosts: Default::default() };
        let arriving = Queued { flow: 1, ..packet(ack as u32, 40) };
        let verdict = bench.cake.enqueue_with(bench.now, arriving, &headers, &mut bench.dropped);
        assert_eq!(verdict, Verdict::Queued);
    }
    let dropped: Vec<u32> = bench.dropped.0.iter().map(|(packet, _)| packet.slot).collect();
    assert_eq!(dropped, (1..=8).collect::<Vec<_>>());
    assert_eq!(bench.cake.backlog(), (2, 80));
    assert_eq!([bench.next().unwrap().slot, bench.next().unwrap().slot], [9, 10]);
}
