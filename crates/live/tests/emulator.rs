//! The emulator over real interfaces, with frames that no program would send. Needs root; otherwise says so and passes.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use nix::libc;
use warpline_core::{EndpointId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp};
use warpline_live::clock::{LagPolicy, RealClock, Waiting};
use warpline_live::emulator::{Emulator, EmulatorConfig, EmulatorError, Ended, Gate, World};
use warpline_live::netlink::{Netlink, VethEnd};
use warpline_live::netns::NetNs;
use warpline_live::pool::Pool;
use warpline_live::port::af_packet::{AfPacketConfig, AfPacketPort};
use warpline_live::port::tun::TunPort;
use warpline_live::port::{self, Arrival, LivePort, PortCounters, PortError, PortId};
use warpline_live::privilege::is_privileged;
use warpline_net::{Control, LinkConfig, Network, Port, RateConfig, RouteId};

fn able() -> bool {
    let able = is_privileged();
    if !able {
        warpline_skip::skip("root", "this test makes interfaces");
    }
    able
}

/// Two hosts, each a namespace, whose wires end in a third.
struct Bed {
    hosts: [NetNs; 2],
    middle: NetNs,
}

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

impl Bed {
    fn new() -> Self {
        let bed = Bed {
            hosts: [NetNs::create().unwrap(), NetNs::create().unwrap()],
            middle: NetNs::create().unwrap(),
        };
        bed.middle
            .within(|| {
                let mut netlink = Netlink::open().unwrap();
                for (host, name) in ["a", "b"].into_iter().enumerate() {
                    let near = VethEnd { name, mac: [2, 0, 0, 0, 1, host as u8], namespace: None };
                    let far = VethEnd { name: "eth", mac: MACS[host], namespace: Some(bed.hosts[host].fd()) };
                    netlink.add_veth(&near, &far, 9000).unwrap();
                    netlink.set_up(name, false).unwrap();
                    bed.hosts[host]
                        .within(|| Netlink::open().unwrap().set_up("eth", false).unwrap())
                        .unwrap();
                }
            })
            .unwrap();
        bed
    }

    /// An emulator between the two, for datagrams of up to 1500 bytes.
    fn emulator(&self, config: EmulatorConfig) -> Emulator {
        let mut emulator = Emulator::new(config);
        self.middle
            .within(|| {
                for (host, name) in ["a", "b"].into_iter().enumerate() {
                    let config = AfPacketConfig::new(name, [2, 0, 0, 0, 1, host as u8], MACS[host]);
                    emulator.add_port(Box::new(AfPacketPort::open(&config).unwrap()));
                }
            })
            .unwrap();
        emulator
    }

    /// A socket that sends and receives whole frames on a host's interface.
    fn raw(&self, host: usize) -> OwnedFd {
        self.hosts[host]
            .within(|| {
                let protocol = (libc::ETH_P_ALL as u16).to_be();
                // SAFETY: no pointers are passed.
                let socket = unsafe {
                    libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, i32::from(protocol))
                };
                // SAFETY: the descriptor was just made.
                let socket = unsafe { OwnedFd::from_raw_fd(socket) };
                // SAFETY: plain numbers, for which zero is a value.
                let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
                address.sll_family = libc::AF_PACKET as u16;
                address.sll_protocol = protocol;
                address.sll_ifindex = nix::net::if_::if_nametoindex("eth").unwrap() as i32;
                let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
                // SAFETY: the address lives through the call and has that length.
                let bound = unsafe {
                    libc::bind(std::os::fd::AsRawFd::as_raw_fd(&socket), (&raw const address).cast(), len)
                };
                assert_eq!(bound, 0);
                socket
            })
            .unwrap()
    }
}

/// Passes everything to the other side.
struct Crossing([RouteId; 2]);

impl World for Crossing {
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let from = arrival.port.0;
        port.send_at(arrival.at, self.0[from as usize], gate.packet(arrival.handle, EndpointId(1 - from)));
    }
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, _: &mut Port<'_>) {
        gate.transmit(now, packet, PortId(packet.to.0));
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Gate, _: &mut Port<'_>) {}
}

fn network(delay: TimeDelta, rate: Option<u64>) -> (Network, Crossing) {
    let mut network = Network::new();
    let mut route = |from: u32| {
        let link = LinkConfig {
            delay,
            rate: rate.map_or(RateConfig::Unlimited, |rate| RateConfig::Constant(Rate::from_bps(rate))),
            ..LinkConfig::new(format!("{from}"), NodeId(from), NodeId(1 - from))
        };
        let id = network.add_link(link, &Streams::new(1));
        network.add_route(&[id]).unwrap()
    };
    let routes = [route(0), route(1)];
    (network, Crossing(routes))
}

/// An Ethernet frame around an IPv4/UDP datagram whose payload is `payload` bytes.
fn frame(payload: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
    let total = (28 + payload) as u16;
    frame.extend([0x45, 0]);
    frame.extend(total.to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 9]);
    frame.extend((total - 20).to_be_bytes());
    frame.extend([0, 0]);
    frame.resize(14 + total as usize, 7);
    frame
}

fn receive_all(socket: &OwnedFd) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut buffer = [0; 16_384];
    while let Ok(len) = nix::unistd::read(socket, &mut buffer) {
        frames.push(buffer[..len].to_vec());
    }
    frames
}

#[test]
fn frames_of_any_kind_do_not_stop_the_emulator() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    let mut emulator = bed.emulator(EmulatorConfig::default());
    let (mut network, mut world) = network(TimeDelta::from_millis(1), None);
    let (from, to) = (bed.raw(0), bed.raw(1));
    let good = frame(100);
    let mut sent = 0u64;
    let mut send = |bytes: &[u8]| sent += u64::from(nix::unistd::write(&from, bytes).is_ok());
    for cut in 14..good.len() {
        send(&good[..cut]); // truncated
    }
    for at in 12..40 {
        for value in [0, 0x0f, 0xff] {
            let mut damaged = good.clone();
            damaged[at] = value;
            send(&damaged);
        }
    }
    send(&frame(8900)); // jumbo: fits the wire, not the emulator
    let mut arp = good.clone();
    arp[12..14].copy_from_slice(&[8, 6]);
    send(&arp);
    send(&good);
    // Until the good one has arrived, with the addresses of the other wire, behind all others.
    let is_good = |last: &Vec<u8>| (&last[..6], &last[12..]) == (&MACS[1][..], &good[12..]);
    let mut last = None;
    while !last.as_ref().is_some_and(is_good) {
        let end = emulator.clock().now() + TimeDelta::from_millis(50);
        let ended = emulator.run(&mut network, &mut world, end, &[], |_| Control::Continue).unwrap();
        assert_eq!(ended, Ended::Reached);
        last = receive_all(&to).pop().or(last);
    }
    let audit = emulator.audit();
    let counters = audit.ports[0].counters;
    let refused = counters.malformed + counters.ignored + counters.pool_overruns;
    assert_eq!(counters.received_packets + refused, sent);
    assert!(counters.malformed > 100 && counters.ignored >= 1 && counters.pool_overruns == 1, "{counters:?}");
    assert_eq!(network.packets().2, 0);
}

#[test]
fn packets_leave_when_the_link_says_so() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    let mut emulator = bed.emulator(EmulatorConfig::default());
    // 1000 bytes take 1 ms: ten sent at once leave over 10 ms, after another 20.
    let (mut network, mut world) = network(TimeDelta::from_millis(20), Some(8_000_000));
    let (from, to) = (bed.raw(0), bed.raw(1));
    let start = emulator.clock().now();
    for _ in 0..10 {
        nix::unistd::write(&from, &frame(972)).unwrap();
    }
    let mut arrived = Vec::new();
    // However long it takes here: none is early.
    while arrived.len() < 10 {
        let end = emulator.clock().now() + TimeDelta::from_millis(50);
        emulator
            .run(&mut network, &mut world, end, &[], |turn| {
                let now = turn.network.now();
                arrived.extend(receive_all(&to).iter().map(|_| now));
                Control::Continue
            })
            .unwrap();
    }
    assert_eq!(arrived.len(), 10);
    for (number, at) in arrived.iter().enumerate() {
        assert!(*at >= start + TimeDelta::from_millis(21 + number as u64), "{number}: {at}, sent at {start}");
    }
}

/// A port without an interface, which never says that something has arrived.
#[derive(Debug, Default)]
struct Scripted {
    /// What arrives: from which look on, and how many datagrams. They arrive evenly between the last two times that it was read.
    plan: VecDeque<(u32, u64)>,
    looks: AtomicU32,
    read: Timestamp,
    counters: PortCounters,
    /// How many datagrams were sent at a time.
    batches: Arc<Mutex<Vec<usize>>>,
}

impl LivePort for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn pending(&self) -> Option<bool> {
        Some(self.plan.front().is_some_and(|&(look, _)| self.looks.fetch_add(1, Ordering::Relaxed) >= look))
    }
    fn tells_late(&self) -> bool {
        true
    }
    fn receive(
        &mut self,
        id: PortId,
        _: &RealClock,
        now: Timestamp,
        pool: &mut Pool,
        into: &mut Vec<Arrival>,
    ) -> Result<(), PortError> {
        let since = std::mem::replace(&mut self.read, now).as_nanos();
        if self.pending() == Some(true) {
            let (_, count) = self.plan.pop_front().unwrap();
            for number in 1..=count {
                let (handle, _) = port::take(&frame(10)[14..], pool, &mut self.counters).unwrap();
                let at = Timestamp::from_nanos(since + (now.as_nanos() - since) * number / (count + 1));
                into.push(Arrival { at, port: id, handle });
            }
        }
        Ok(())
    }
    fn transmit(&mut self, _: &mut Pool, handles: &[u32]) -> Result<(), PortError> {
        self.batches.lock().unwrap().push(handles.len());
        Ok(())
    }
    fn check(&mut self) -> Result<(), PortError> {
        Ok(())
    }
    fn counters(&mut self) -> PortCounters {
        self.counters
    }
}

/// Counts arrivals, and takes at least 100 us for each.
struct Slow(Crossing, u64);

impl World for Slow {
    fn handle_arrival(&mut self, arrival: &Arrival, gate: &mut Gate, port: &mut Port<'_>) {
        let long = rustix::event::Timespec { tv_sec: 0, tv_nsec: 100_000 };
        rustix::event::poll(&mut [], Some(&long)).unwrap();
        self.1 += 1;
        self.0.handle_arrival(arrival, gate, port);
    }
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, gate: &mut Gate, port: &mut Port<'_>) {
        self.0.handle_packet(now, packet, gate, port);
    }
    fn handle_timeout(&mut self, _: Timestamp, _: TimerId, _: &mut Gate, _: &mut Port<'_>) {}
}

/// Lets a port have what is planned, and returns how many datagrams were sent to the other one at a time. Fails if not all have come in within 20 s.
fn scripted(plan: &[(u32, u64)]) -> Vec<usize> {
    // It looks only between sleeps.
    let waiting = Waiting { spin: TimeDelta::ZERO, linger: TimeDelta::ZERO };
    let mut emulator = Emulator::new(EmulatorConfig { waiting, ..EmulatorConfig::default() });
    let batches = Arc::new(Mutex::new(Vec::new()));
    emulator.add_port(Box::new(Scripted { plan: plan.iter().copied().collect(), ..Scripted::default() }));
    emulator.add_port(Box::new(Scripted { batches: Arc::clone(&batches), ..Scripted::default() }));
    let (mut network, world) = network(TimeDelta::ZERO, None);
    let mut world = Slow(world, 0);
    let all: u64 = plan.iter().map(|(_, count)| count).sum();
    let end = emulator.clock().now() + TimeDelta::from_secs(20);
    let ended = emulator.run(&mut network, &mut world, end, &[], |turn| {
        if turn.world.1 == all { Control::Stop } else { Control::Continue }
    });
    assert_eq!(ended.unwrap(), Ended::Stopped);
    let batches = batches.lock().unwrap();
    assert_eq!(batches.iter().sum::<usize>() as u64, all, "{batches:?}");
    batches.clone()
}

#[test]
fn what_is_due_does_not_wait_until_all_arrivals_are_taken_in() {
    // Taking in the hundred lasts 10 ms or more.
    let batches = scripted(&[(0, 1), (0, 100)]);
    assert!(batches.len() >= 5, "{batches:?}");
}

#[test]
fn what_a_port_has_without_saying_so_is_found() {
    scripted(&[(0, 1), (20, 1)]);
}

#[test]
fn a_missing_and_a_vanishing_interface_are_told() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    let missing = bed.middle.within(|| AfPacketPort::open(&AfPacketConfig::new("nosuch0", MACS[0], MACS[1])));
    let told = missing.unwrap().unwrap_err().to_string();
    assert!(told.starts_with("interface nosuch0: cannot find it"), "{told}");
    let mut emulator = bed.emulator(EmulatorConfig::default());
    let (mut network, mut world) = network(TimeDelta::ZERO, None);
    bed.hosts[0].within(|| Netlink::open().unwrap().delete("eth").unwrap()).unwrap();
    let end = emulator.clock().now() + TimeDelta::from_secs(5);
    let error = emulator.run(&mut network, &mut world, end, &[], |_| Control::Continue).unwrap_err();
    assert!(matches!(&error, EmulatorError::Port(PortError::Vanished(name)) if name == "a"), "{error}");
}

#[test]
fn a_hard_limit_stops_an_emulator_that_lags() {
    if !able() {
        return;
    }
    let bed = Bed::new();
    let config =
        EmulatorConfig { lag: LagPolicy::Hard(TimeDelta::from_millis(50)), ..EmulatorConfig::default() };
    let mut emulator = bed.emulator(config);
    let (mut network, mut world) = network(TimeDelta::from_millis(10), None);
    let from = bed.raw(0);
    let mut first = true;
    let end = emulator.clock().now() + TimeDelta::from_secs(5);
    let ran = emulator.run(&mut network, &mut world, end, &[], |_| {
        if std::mem::take(&mut first) {
            // The observer takes far too long: the packet was due in the meantime.
            nix::unistd::write(&from, &frame(10)).unwrap();
            let long = rustix::event::Timespec { tv_sec: 0, tv_nsec: 150_000_000 };
            rustix::event::poll(&mut [], Some(&long)).unwrap();
        }
        Control::Continue
    });
    assert!(
        matches!(ran, Err(EmulatorError::Lag { by, .. }) if by > TimeDelta::from_millis(50)),
        "{ran:?} {:?}",
        emulator.audit()
    );
}

#[test]
fn a_tun_device_is_a_port_too() {
    if !able() {
        return;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        return warpline_skip::skip("tun", "there is no /dev/net/tun");
    }
    let host = NetNs::create().unwrap();
    let mut emulator = Emulator::new(EmulatorConfig::default());
    for name in ["tuna", "tunb"] {
        emulator.add_port(Box::new(host.within(|| TunPort::open(name, 1500).unwrap()).unwrap()));
    }
    let (mut network, mut world) = network(TimeDelta::from_millis(1), None);
    let socket = host
        .within(|| {
            let mut netlink = Netlink::open().unwrap();
            for (name, address) in [("lo", "127.0.0.2"), ("tuna", "192.0.2.1"), ("tunb", "198.51.100.1")] {
                netlink.set_up(name, false).unwrap();
                netlink.add_address(name, address.parse().unwrap(), 24).unwrap();
            }
            let socket = std::net::UdpSocket::bind("192.0.2.1:0").unwrap();
            for _ in 0..7 {
                socket.send_to(b"hello", "192.0.2.9:9").unwrap();
            }
            socket
        })
        .unwrap();
    // Until all have arrived: from the other device they enter the namespace again, where they match nothing.
    loop {
        let end = emulator.clock().now() + TimeDelta::from_millis(50);
        emulator.run(&mut network, &mut world, end, &[], |_| Control::Continue).unwrap();
        let audit = emulator.audit();
        let [a, b] = [0, 1].map(|port: usize| audit.ports[port].counters);
        assert!(b.sent_packets <= a.received_packets, "{a:?} {b:?}");
        if a.received_packets >= 7 && b.sent_packets == a.received_packets {
            break;
        }
    }
    drop(socket);
}
