//! Tests of simulated hosts: against each other, over a pipe of bytes that loses, reorders and repeats; and against arbitrary bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};

use proptest::prelude::*;
use warpline_core::{Flags, Stream, Streams, TimeDelta, Timestamp};
use warpline_transport::cc::Algorithm;
use warpline_transport::tcp::{Outcome, TcpConfig};

use super::codec::{self, WireSegment};
use super::udp::{self, UdpHeader};
use super::{HostConfig, HostCounters, HostEvent, ModelHost, Service, Stack, UdpService};
use crate::checksum::{fold, sum};
use crate::icmp;
use crate::ip::{self, IpHeader};
use crate::reassembly::Reassembly;
use crate::router;

fn stream(seed: u64, name: &str) -> Stream {
    Streams::new(seed).stream(name)
}

fn address(v6: bool, last: u8) -> IpAddr {
    match v6 {
        true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
        false => IpAddr::from([192, 0, 2, last]),
    }
}

fn host(seed: u64, last: u8, change: impl FnOnce(&mut HostConfig)) -> ModelHost {
    let mut config = HostConfig::new(vec![address(false, last), address(true, last)]);
    change(&mut config);
    ModelHost::new(config, stream(seed, &format!("host.{last}"))).unwrap()
}

/// What the pipe does to datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Pipe {
    loss: f64,
    repeat: f64,
    /// Delays are between 5 ms and 5 ms plus this.
    jitter_ms: f64,
    /// Probability of a wrong bit.
    damage: f64,
    /// A router refuses larger datagrams and reports this MTU.
    mtu: Option<u32>,
}

/// A datagram in flight: its arrival time, an order, its destination, and its bytes.
type UnderWay = Reverse<(Timestamp, u64, usize, Vec<u8>)>;

/// Two hosts and the pipe between them.
struct World {
    hosts: [ModelHost; 2],
    pipe: Pipe,
    stream: Stream,
    now: Timestamp,
    queue: BinaryHeap<UnderWay>,
    sent: u64,
    events: [Vec<HostEvent>; 2],
    /// All datagrams sent, with their senders.
    log: Vec<(usize, Vec<u8>)>,
}

impl World {
    fn new(hosts: [ModelHost; 2], pipe: Pipe, seed: u64) -> Self {
        World {
            hosts,
            pipe,
            stream: stream(seed, "pipe"),
            now: Timestamp::ZERO,
            queue: BinaryHeap::new(),
            sent: 0,
            events: [Vec::new(), Vec::new()],
            log: Vec::new(),
        }
    }

    fn send(&mut self, to: usize, mut bytes: Vec<u8>) {
        let pipe = self.pipe;
        if let Some(mtu) = pipe.mtu.filter(|&mtu| bytes.len() > mtu as usize) {
            let router = address(bytes[0] >> 4 == 6, 9);
            let told = icmp::error(router, &bytes, icmp::Problem::TooBig { mtu }, 1);
            return told.into_iter().for_each(|told| self.send(1 - to, told));
        }
        for _ in 0..=u32::from(self.stream.chance(pipe.repeat)) {
            if self.stream.chance(pipe.loss) {
                continue;
            }
            if self.stream.chance(pipe.damage) {
                let bit = self.stream.below(bytes.len() as u64 * 8) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            let delay = self.stream.range(5.0, 5.0 + pipe.jitter_ms);
            let at = self.now + TimeDelta::from_secs_f64(delay / 1e3);
            self.sent += 1;
            self.queue.push(Reverse((at, self.sent, to, bytes.clone())));
        }
    }

    fn pump(&mut self) {
        for from in 0..2 {
            let mut out = Vec::new();
            while self.hosts[from].poll_transmit(self.now, &mut out) {
                self.log.push((from, out.clone()));
                self.send(1 - from, out.clone());
            }
            while let Some(event) = self.hosts[from].poll_event() {
                self.events[from].push(event);
            }
        }
    }

    /// Runs until nothing is left to do, or `seconds` have passed.
    fn run(&mut self, seconds: u64) {
        self.pump();
        loop {
            let arrival = self.queue.peek().map_or(Timestamp::NEVER, |Reverse(next)| next.0);
            let timers = self.hosts.each_ref().map(ModelHost::poll_timeout);
            let next = arrival.min(timers[0]).min(timers[1]);
            if next > Timestamp::from_secs(seconds) {
                return;
            }
            self.now = self.now.max(next);
            if arrival <= self.now {
                let Some(Reverse((_, _, to, bytes))) = self.queue.pop() else { return };
                self.hosts[to].handle_datagram(self.now, &bytes);
            }
            for host in &mut self.hosts {
                host.handle_timeout(self.now);
            }
            self.pump();
        }
    }

    /// Outcome, acknowledged bytes, received bytes and differences of the connections that have ended at a host.
    fn closed(&self, host: usize) -> Vec<(Option<Outcome>, u64, u64, u64)> {
        let closed = |event: &HostEvent| match event {
            HostEvent::Closed { report, .. } => {
                Some((report.outcome, report.bytes_acked, report.bytes_received, report.differences))
            }
            HostEvent::Opened { .. } => None,
        };
        self.events[host].iter().filter_map(closed).collect()
    }
}

const COMPLETE: Option<Outcome> = Some(Outcome::Complete);

fn transfer(seed: u64, v6: bool, pipe: Pipe, bytes: u64, change: impl Fn(&mut HostConfig)) -> World {
    let (a, mut b) = (host(seed, 1, &change), host(seed, 2, &change));
    b.listen(9, Service::Verify).unwrap();
    b.listen(19, Service::Source { bytes: Some(bytes) }).unwrap();
    let mut world = World::new([a, b], pipe, seed);
    let remote = |port| SocketAddr::new(address(v6, 2), port);
    world.hosts[0].connect(world.now, remote(9), Service::Source { bytes: Some(bytes) }).unwrap();
    world.hosts[0].connect(world.now, remote(19), Service::Verify).unwrap();
    world.run(600);
    world
}

#[test]
fn a_transfer_over_a_bad_pipe_is_complete_and_right() {
    let pipe = Pipe { loss: 0.02, repeat: 0.02, jitter_ms: 4.0, damage: 0.01, mtu: None };
    for (seed, v6) in [(1, false), (2, true), (3, false)] {
        let bytes = 700_001;
        let world = transfer(seed, v6, pipe, bytes, |_| ());
        let mut uploads = world.closed(1);
        uploads.sort_by_key(|report| report.1);
        assert_eq!(uploads, [(COMPLETE, 0, bytes, 0), (COMPLETE, bytes, 0, 0)], "{seed}");
        let mut downloads = world.closed(0);
        downloads.sort_by_key(|report| report.1);
        assert_eq!(downloads, [(COMPLETE, 0, bytes, 0), (COMPLETE, bytes, 0, 0)], "{seed}");
        assert!(world.hosts[0].counters().malformed > 0 && world.hosts[0].connections() == 0);
    }
}

/// The first connection's initial sequence number makes its upload wrap past 2^32 in the middle.
#[test]
fn sequence_numbers_wrap_in_the_middle_of_a_transfer() {
    let close_to_the_wrap = |seed: &u64| {
        let mut stream = stream(*seed, "host.1");
        stream.next_u64(); // the port
        u32::MAX - (stream.next_u64() as u32) < 400_000
    };
    let seed = (0..1_000_000).find(close_to_the_wrap).unwrap();
    let pipe = Pipe { loss: 0.02, repeat: 0.01, jitter_ms: 4.0, damage: 0.0, mtu: None };
    let world = transfer(seed, false, pipe, 700_000, |_| ());
    let numbers: Vec<u32> = world
        .log
        .iter()
        .filter(|(from, _)| *from == 0)
        .filter_map(|(_, bytes)| codec::parse(&ip::parse(bytes).ok()?).ok().map(|(wire, _)| wire))
        .filter(|wire| wire.destination_port == 9)
        .map(|wire| wire.seq)
        .collect();
    assert!(numbers.iter().any(|&seq| seq > u32::MAX - 400_000) && numbers.iter().any(|&seq| seq < 300_000));
    let mut uploads = world.closed(1);
    uploads.sort_by_key(|report| report.1);
    assert_eq!(uploads, [(COMPLETE, 0, 700_000, 0), (COMPLETE, 700_000, 0, 0)]);
}

#[test]
fn nothing_is_refused_where_nothing_goes_wrong() {
    let world = transfer(4, false, Pipe::default(), 1_000_000, |_| ());
    for host in &world.hosts {
        let counters = host.counters();
        let expected =
            HostCounters { received: counters.received, sent: counters.sent, ..HostCounters::default() };
        assert_eq!(counters, expected);
    }
    assert_eq!(world.closed(0).len(), 2);
}

#[test]
fn old_options_work_too() {
    let plain = |config: &mut HostConfig| {
        config.tcp = TcpConfig {
            sack: false,
            timestamps: false,
            window_scaling: false,
            ecn: true,
            ..config.tcp.clone()
        };
    };
    let world = transfer(5, false, Pipe { loss: 0.01, ..Pipe::default() }, 300_000, plain);
    assert_eq!(world.closed(0).iter().map(|report| report.0).collect::<Vec<_>>(), [COMPLETE; 2]);
    assert_eq!(world.closed(1).iter().map(|report| report.3).sum::<u64>(), 0);
}

#[test]
fn an_echo_comes_back_and_a_page_is_served() {
    let (a, mut b) = (host(6, 1, |_| ()), host(6, 2, |_| ()));
    b.listen(7, Service::Echo).unwrap();
    b.listen(80, Service::Http { size: None }).unwrap();
    let mut world = World::new([a, b], Pipe { loss: 0.02, jitter_ms: 3.0, ..Pipe::default() }, 6);
    let remote = |port| SocketAddr::new(address(true, 2), port);
    let echoed =
        world.hosts[0].connect(world.now, remote(7), Service::Source { bytes: Some(200_000) }).unwrap();
    let collected = Collector::default();
    assert!(world.hosts[0].set_sink(echoed, Box::new(collected.clone())));
    let fetch = world.hosts[0].connect(world.now, remote(80), Service::Source { bytes: Some(44) }).unwrap();
    world.hosts[0].set_source(fetch, Box::new(Text(b"GET /bytes/100000 HTTP/1.1\r\nHost: here\r\n\r\n....")));
    let page = Collector::default();
    world.hosts[0].set_sink(fetch, Box::new(page.clone()));
    world.run(60);
    assert_eq!(world.closed(0).iter().map(|report| report.0).collect::<Vec<_>>(), [COMPLETE; 2]);
    let echoed = collected.bytes();
    assert_eq!((echoed.len(), super::payload::Pattern::differences(0, &echoed)), (200_000, 0));
    let page = page.bytes();
    let head = page.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    assert!(page.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!((page.len() - head, super::payload::Pattern::differences(0, &page[head..])), (100_000, 0));
}

/// What a service discards is compared with the pattern if that is asked for: a text is not it.
#[test]
fn what_is_discarded_can_be_verified() {
    for verify in [true, false] {
        let (a, mut b) = (host(8, 1, |_| ()), host(8, 2, |_| ()));
        let stack = Stack { verify, ..Stack::new(TcpConfig::default(), Algorithm::default()) };
        b.listen_with(9, Service::Discard, stack).unwrap();
        let mut world = World::new([a, b], Pipe { loss: 0.02, jitter_ms: 3.0, ..Pipe::default() }, 8);
        let remote = SocketAddr::new(address(false, 2), 9);
        world.hosts[0].connect(world.now, remote, Service::Source { bytes: Some(200_000) }).unwrap();
        // The FIN asks for what follows, which is not sent.
        let text = b"not the pattern....";
        let bytes = text.len() as u64 - 4;
        let other =
            world.hosts[0].connect(world.now, remote, Service::Source { bytes: Some(bytes) }).unwrap();
        world.hosts[0].set_source(other, Box::new(Text(text)));
        world.run(60);
        let mut found: Vec<(u64, u64)> = world.closed(1).iter().map(|report| (report.2, report.3)).collect();
        found.sort_unstable();
        assert_eq!(found, [(bytes, if verify { bytes } else { 0 }), (200_000, 0)]);
    }
}

/// A sink with several owners.
#[derive(Clone, Debug, Default)]
struct Collector(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl Collector {
    fn bytes(&self) -> Vec<u8> {
        self.0.borrow().clone()
    }
}

impl super::PayloadSink for Collector {
    fn take(&mut self, offset: u64, bytes: &[u8]) {
        let (mut all, start) = (self.0.borrow_mut(), offset as usize);
        let len = all.len().max(start + bytes.len());
        all.resize(len, 0);
        all[start..start + bytes.len()].copy_from_slice(bytes);
    }
}

#[derive(Debug)]
struct Text(&'static [u8]);

impl super::PayloadSource for Text {
    fn fill(&mut self, offset: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.0[offset as usize..offset as usize + bytes.len()]);
    }
}

#[test]
fn closed_ports_answer() {
    let (a, mut b) = (host(7, 1, |_| ()), host(7, 2, |config| config.icmp_rate = 10));
    b.listen_udp(7, UdpService::Echo).unwrap();
    let mut world = World::new([a, b], Pipe::default(), 7);
    world.hosts[0].connect(world.now, SocketAddr::new(address(false, 2), 81), Service::Discard).unwrap();
    world.run(10);
    assert_eq!(world.closed(0), [(Some(Outcome::Reset), 0, 0, 0)]);
    assert_eq!(world.hosts[1].counters().resets, 1);

    let mut ask = |port: u16| {
        let mut bytes = Vec::new();
        let header = IpHeader::new(address(true, 1), address(true, 2), ip::UDP);
        udp::write(&mut bytes, &header, &UdpHeader { source_port: 5000, destination_port: port }, b"who")
            .unwrap();
        world.hosts[1].handle_datagram(world.now, &bytes);
        let mut out = Vec::new();
        world.hosts[1].poll_transmit(world.now, &mut out).then_some(out)
    };
    let echo = ask(7).unwrap();
    let datagram = ip::parse(&echo).unwrap();
    assert_eq!(
        udp::parse(&datagram).unwrap(),
        (UdpHeader { source_port: 7, destination_port: 5000 }, &b"who"[..])
    );
    let error = ask(8).unwrap();
    let icmp::Message::Error { problem: icmp::Problem::PortUnreachable, quoted } =
        icmp::parse(&ip::parse(&error).unwrap()).unwrap()
    else {
        panic!("{error:?}")
    };
    assert!(quoted.ends_with(b"who"));
    // At a limited rate.
    assert!((0..100).filter(|_| ask(8).is_some()).count() < 60);
}

#[test]
fn segments_get_as_small_as_the_path_asks_for() {
    for (v6, mtu) in [(false, 1000), (true, 1300)] {
        let pipe = Pipe { mtu: Some(mtu), jitter_ms: 1.0, ..Pipe::default() };
        let mut world = transfer(11, v6, pipe, 300_000, |_| ());
        let reports = [world.closed(0), world.closed(1)].concat();
        assert_eq!(reports.len(), 4);
        assert!(reports.iter().all(|report| report.0 == COMPLETE && report.3 == 0), "{reports:?}");
        // The next connection knows the path.
        world.log.clear();
        let remote = SocketAddr::new(address(v6, 2), 9);
        world.hosts[0].connect(world.now, remote, Service::Source { bytes: Some(100_000) }).unwrap();
        world.run(2000);
        assert!(world.log.iter().all(|(_, bytes)| bytes.len() <= mtu as usize));
        assert_eq!(world.closed(0).len(), 3);
    }
}

#[test]
fn what_others_say_about_a_segment_is_believed_only_if_it_was_sent() {
    let mut host = host(3, 1, |_| ());
    let now = Timestamp::from_secs(1);
    let id = host.connect(now, SocketAddr::new(address(false, 2), 80), Service::Discard).unwrap();
    let mut syn = Vec::new();
    assert!(host.poll_transmit(now, &mut syn));
    let router = address(false, 9);
    let mut wrong = syn.clone();
    wrong[24] ^= 1; // its sequence number
    for (about, ends) in [(&wrong, false), (&syn, true)] {
        let told = icmp::error(router, about, icmp::Problem::NoRoute, 1).unwrap();
        host.handle_datagram(now, &told);
        assert!(!host.poll_transmit(now, &mut Vec::new()));
        assert_eq!(host.connection(id).is_none(), ends);
    }
    let event = host.poll_event();
    let Some(HostEvent::Closed { report, .. }) = event else { panic!("{event:?}") };
    assert_eq!(report.outcome, Some(Outcome::Unreachable));
}

#[test]
fn a_ping_in_fragments_is_answered_in_fragments() {
    for v6 in [false, true] {
        let (mut a, mut b) = (host(5, 1, |_| ()), host(5, 2, |_| ()));
        // An echo request is what a's answer to one looks like, except for its type.
        let ip = IpHeader::new(address(v6, 1), address(v6, 2), if v6 { ip::ICMPV6 } else { ip::ICMP });
        let mut request = Vec::new();
        ip.write(&mut request, 4000).unwrap();
        let start = request.len();
        request.extend([if v6 { 128 } else { 8 }, 0, 0, 0, 1, 2, 3, 4]);
        request.resize(start + 4000, 7);
        let pseudo = if v6 { ip.pseudo_sum(4000) } else { 0 };
        let checksum = fold(pseudo + sum(&request[start..]));
        request[start + 2..start + 4].copy_from_slice(&checksum.to_be_bytes());
        for part in router::fragments(&request, 1500, 5).unwrap() {
            b.handle_datagram(Timestamp::ZERO, &part);
        }
        let (mut out, mut parts, mut whole) = (Vec::new(), 0, None);
        let mut reassembly = Reassembly::default();
        while b.poll_transmit(Timestamp::ZERO, &mut out) {
            assert!(out.len() <= 1500);
            parts += 1;
            whole = reassembly.add(Timestamp::ZERO, &out);
        }
        assert_eq!(parts, 3);
        let whole = whole.unwrap();
        let read = ip::parse(&whole).unwrap();
        let Ok(icmp::Message::EchoReply { data, .. }) = icmp::parse(&read) else { panic!("{read:?}") };
        assert_eq!(data.len(), 3992);
        a.handle_datagram(Timestamp::ZERO, &whole);
        assert_eq!(a.counters().malformed, 0);
    }
}

fn syn(port: u16, isn: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let wire = WireSegment {
        source_port: port,
        destination_port: 7,
        seq: isn,
        flags: Flags::SYN,
        window: 65_535,
        mss: Some(1460),
        ..WireSegment::default()
    };
    codec::write(&mut bytes, &IpHeader::new(address(false, 1), address(false, 2), ip::TCP), &wire, 0, |_| ())
        .unwrap();
    bytes
}

#[test]
fn a_flood_of_syns_is_bounded_and_forgotten() {
    let mut host = host(8, 2, |config| (config.max_half_open, config.memory) = (10, 10 << 20));
    host.listen(7, Service::Echo).unwrap();
    for port in 1000..1100 {
        host.handle_datagram(Timestamp::ZERO, &syn(port, 5));
    }
    assert_eq!((host.connections(), host.counters().syns_dropped), (10, 90));
    let (mut out, mut now) = (Vec::new(), Timestamp::ZERO);
    let mut answers = 0;
    loop {
        while host.poll_transmit(now, &mut out) {
            answers += 1;
        }
        now = host.poll_timeout();
        if !now.is_set() {
            break;
        }
        host.handle_timeout(now);
    }
    // Each SYN/ACK and its five retransmissions.
    assert_eq!((host.connections(), answers), (0, 60));
    // Memory is freed, and it is limited too: an echo may use twice 256 KiB.
    let mut host = self::host(8, 2, |config| config.memory = 3 << 20);
    host.listen(7, Service::Echo).unwrap();
    for port in 1000..1100 {
        host.handle_datagram(Timestamp::ZERO, &syn(port, 5));
    }
    assert_eq!(host.connections(), 5);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let pipe = Pipe { loss: 0.03, jitter_ms: 2.0, ..Pipe::default() };
    let log = |seed| transfer(seed, false, pipe, 50_000, |_| ()).log;
    assert_eq!(log(9), log(9));
    assert_ne!(log(9), log(10));
}

/// A hostile peer: it knows the connection's ports and nearly its numbers, and sends anything.
fn attack(stream: &mut Stream, datagram: &[u8]) -> Vec<u8> {
    let read = ip::parse(datagram).unwrap();
    let Ok((wire, _)) = codec::parse(&read) else { return datagram.to_vec() };
    let mut near = |number: u32| match stream.below(6) {
        0 => number,
        1 => number.wrapping_add(1),
        2 => number.wrapping_sub(1),
        3 => number.wrapping_add(stream.below(100_000) as u32),
        4 => number.wrapping_sub(stream.below(100_000) as u32),
        _ => stream.next_u64() as u32,
    };
    let (seq, ack) = (near(wire.ack), near(wire.seq));
    let timestamps = wire.timestamps.map(|(value, echo)| (near(echo), near(value)));
    let mut sack = super::codec::WireSack::NONE;
    for _ in 0..ack % 4 {
        sack.push(near(wire.seq), near(wire.seq));
    }
    let forged = WireSegment {
        source_port: wire.destination_port,
        destination_port: wire.source_port,
        seq,
        ack,
        flags: match stream.below(3) {
            0 => Flags(stream.next_u64() as u16 & 0x1ff),
            _ => Flags::ACK,
        },
        window: stream.next_u64() as u16,
        mss: Some(stream.next_u64() as u16),
        window_scale: Some(stream.next_u64() as u8),
        sack_permitted: true,
        timestamps,
        sack,
        accecn: Some(warpline_core::AccEcn::new([seq, ack, 1], ack % 2 == 0, ack as usize % 5)),
    };
    let header = IpHeader::new(read.header.destination, read.header.source, ip::TCP);
    let mut bytes = Vec::new();
    codec::write(&mut bytes, &header, &forged, stream.below(1400) as usize, |_| ()).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_segment_of_a_hostile_peer_panics(seed: u64) {
        let (mut a, mut b) = (host(seed, 1, |_| ()), host(seed, 2, |_| ()));
        b.listen(7, Service::Echo).unwrap();
        b.listen(80, Service::Http { size: None }).unwrap();
        a.listen(9, Service::Verify).unwrap();
        let mut world = World::new([a, b], Pipe { loss: 0.02, jitter_ms: 10.0, ..Pipe::default() }, seed);
        let remote = |port| SocketAddr::new(address(false, 2), port);
        for port in [7, 7, 80] {
            world.hosts[0].connect(world.now, remote(port), Service::Source { bytes: Some(100_000) }).unwrap();
        }
        let mut stream = stream(seed, "attack");
        for _ in 0..150 {
            let until = world.now.as_nanos() / 1_000_000_000 + 1;
            if world.queue.len() > 2 && stream.chance(0.3) {
                world.run(until);
            }
            world.pump();
            let log = world.log.len();
            let Some((from, datagram)) = world.log.get(log.saturating_sub(1 + stream.below(20) as usize)).cloned() else { continue };
            let forged = attack(&mut stream, &datagram);
            world.hosts[from].handle_datagram(world.now, &forged);
        }
        world.run(100_000);
        // Every connection ends, whatever was sent.
        prop_assert_eq!((world.hosts[0].connections(), world.hosts[1].connections()), (0, 0));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), first in prop::sample::select(vec![0x45u8, 0x60])) {
        let mut host = host(1, 2, |_| ());
        host.listen(7, Service::Echo).unwrap();
        let mut bytes = bytes;
        if let Some(place) = bytes.first_mut() {
            *place = first;
        }
        host.handle_datagram(Timestamp::ZERO, &bytes);
        prop_assert_eq!(host.counters().malformed + host.counters().not_ours, 1);
    }
}
