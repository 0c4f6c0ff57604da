//! A port that is a station of a segment with machines of others, and one that joins two segments: frame by frame, with tags, which not every kernel
//! has interfaces for. Needs root; otherwise says so and passes.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use warpline_core::Timestamp;
use warpline_live::clock::RealClock;
use warpline_live::datagram;
use warpline_live::ip::{IpHeader, UDP};
use warpline_live::netlink::{Netlink, VethEnd};
use warpline_live::netns::NetNs;
use warpline_live::pool::Pool;
use warpline_live::port::af_packet::{AfPacketConfig, AfPacketPort, Far, Mac};
use warpline_live::port::{LivePort, PortId, SegmentConfig};
use warpline_live::privilege::is_privileged;

/// The emulator's station, the card under it, and the machine outside.
const STATION: Mac = [2, 0x77, 0, 0, 0, 1];
const CARD: Mac = [2, 0, 0, 0, 0, 1];
const MACHINE: Mac = [2, 0, 0, 0, 0, 2];

/// A wire between this machine (`near`) and one outside (`far`).
struct Wire {
    near: NetNs,
    far: NetNs,
}

impl Wire {
    /// `None` without the privileges for it.
    fn lay() -> Option<Wire> {
        if !is_privileged() {
            warpline_skip::skip("root", "this test makes interfaces");
            return None;
        }
        let wire = Wire { near: NetNs::create().unwrap(), far: NetNs::create().unwrap() };
        wire.near
            .within(|| {
                let mut netlink = Netlink::open().unwrap();
                let near = VethEnd { name: "eth", mac: CARD, namespace: None };
                let far = VethEnd { name: "eth", mac: MACHINE, namespace: Some(wire.far.fd()) };
                netlink.add_veth(&near, &far, 1500).unwrap();
                netlink.set_up("eth", false).unwrap();
            })
            .unwrap();
        wire.far.within(|| Netlink::open().unwrap().set_up("eth", false).unwrap()).unwrap();
        Some(wire)
    }
}

/// A port with bytes and a clock of its own.
struct End {
    port: AfPacketPort,
    pool: Pool,
    clock: RealClock,
}

impl End {
    fn open(namespace: &NetNs, far: Far) -> End {
        let open = || AfPacketPort::open(&AfPacketConfig::with("eth", far)).unwrap();
        End {
            port: namespace.within(open).unwrap(),
            pool: Pool::new(1500, 1 << 22),
            clock: RealClock::start(),
        }
    }

    /// The Ethernet headers and the rest of the frames that have come.
    fn take(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut arrivals = Vec::new();
        let End { port, pool, clock } = self;
        port.receive(PortId(0), clock, Timestamp::ZERO, pool, &mut arrivals).unwrap();
        let frame = |handle: u32| (pool.front(handle).to_vec(), pool.datagram(handle).to_vec());
        arrivals.iter().map(|arrival| frame(arrival.handle)).collect()
    }

    /// Sends bytes behind this Ethernet header; behind one that the port makes, if it is empty.
    fn send(&mut self, front: &[u8], bytes: &[u8]) {
        let header = datagram::read(bytes)
            .unwrap_or(datagram::Header { len: bytes.len() as u32, ..Default::default() });
        let handle = self.pool.insert(bytes, header).unwrap();
        self.pool.put_front(handle, front);
        self.port.transmit(&mut self.pool, &[handle]).unwrap();
    }
}

fn segment(vlan: Option<u16>) -> Far {
    Far::Segment(SegmentConfig {
        mac: STATION,
        vlan,
        machines: vec!["192.0.2.7/32".parse().unwrap()],
        routes: Vec::new(),
        elsewhere: vec!["10.0.0.3/32".parse().unwrap()],
        gateways: vec!["192.0.2.1".parse().unwrap()],
    })
}

/// An Ethernet header.
fn front(to: Mac, from: Mac, tag: Option<u16>, ether_type: u16) -> Vec<u8> {
    let tag = tag.map(|content| [&[0x81, 0][..], &content.to_be_bytes()].concat()).unwrap_or_default();
    [&to[..], &from, &tag, &ether_type.to_be_bytes()].concat()
}

fn arp(operation: u8, (mac, address): (Mac, [u8; 4]), (other, target): (Mac, [u8; 4])) -> Vec<u8> {
    [&[0, 1, 8, 0, 6, 4, 0, operation][..], &mac, &address, &other, &target].concat()
}

fn udp(from: [u8; 4], to: [u8; 4], payload: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    IpHeader::new(from.into(), to.into(), UDP).write(&mut bytes, 8 + payload).unwrap();
    bytes.extend([0, 7, 0, 7]);
    bytes.extend((8 + payload as u16).to_be_bytes());
    bytes.extend(vec![0; 2 + payload]);
    bytes
}

const OWN: [u8; 4] = [192, 0, 2, 7];
const GATEWAY: [u8; 4] = [192, 0, 2, 1];
const ELSEWHERE: [u8; 4] = [10, 0, 0, 3];

#[test]
fn a_station_asks_answers_and_sends_in_its_own_vlan_only() {
    for vlan in [None, Some(100)] {
        let Some(wire) = Wire::lay() else { return };
        // First the machine's, which takes whole frames: it hears what the station says at its start.
        let mut machine = End::open(&wire.far, Far::Bridge(Vec::new()));
        let mut station = End::open(&wire.near, segment(vlan));
        assert!(station.take().is_empty());
        let asks = (front([0xff; 6], STATION, vlan, 0x0806), arp(1, (STATION, GATEWAY), ([0; 6], OWN)));
        assert_eq!(machine.take(), std::slice::from_ref(&asks), "it asks in the name of the gateway");
        // A datagram waits for the answer. One in another VLAN is none.
        let datagram = udp(ELSEWHERE, OWN, 5);
        let bytes = datagram.len() as u64;
        station.send(&[], &datagram);
        let answer = arp(2, (MACHINE, OWN), (STATION, GATEWAY));
        machine.send(&front(STATION, MACHINE, Some(200), 0x0806), &answer);
        assert!(station.take().is_empty() && machine.take().is_empty());
        machine.send(&front(STATION, MACHINE, vlan, 0x0806), &answer);
        assert!(station.take().is_empty(), "it is for the station alone");
        let there = front(MACHINE, STATION, vlan, 0x0800);
        assert_eq!(machine.take(), [(there.clone(), datagram.clone())]);
        station.send(&[], &datagram);
        assert_eq!(machine.take(), [(there, datagram)]);
        // The machine asks for an address elsewhere, for the gateway, for another machine, and for itself.
        for (address, answered) in [(ELSEWHERE, true), (GATEWAY, true), ([192, 0, 2, 9], false), (OWN, false)]
        {
            machine
                .send(&front([0xff; 6], MACHINE, vlan, 0x0806), &arp(1, (MACHINE, OWN), ([0; 6], address)));
            assert!(station.take().is_empty());
            let answers = (front(MACHINE, STATION, vlan, 0x0806), arp(2, (STATION, address), (MACHINE, OWN)));
            assert_eq!(machine.take(), if answered { vec![answers] } else { vec![] }, "{address:?}");
        }
        // What is for the station arrives; what is for the card, for all or in another VLAN does not.
        let back = udp(OWN, ELSEWHERE, 700);
        for (to, tag) in [(CARD, vlan), ([0xff; 6], vlan), (STATION, Some(200)), (STATION, vlan)] {
            machine.send(&front(to, MACHINE, tag, 0x0800), &back);
        }
        assert_eq!(station.take(), [(Vec::new(), back)]);
        let counters = station.port.counters();
        assert_eq!((counters.received_packets, counters.lost(), counters.unanswered), (1, 0, 0));
        // The one that has waited counts, too.
        assert_eq!((counters.sent_packets, counters.sent_bytes), (2, 2 * bytes));
    }
}

#[test]
fn a_priority_without_a_vlan_is_no_vlan() {
    let Some(wire) = Wire::lay() else { return };
    let mut machine = End::open(&wire.far, Far::Bridge(Vec::new()));
    let mut station = End::open(&wire.near, segment(None));
    let datagram = udp(OWN, ELSEWHERE, 5);
    machine.send(&front(STATION, MACHINE, Some(5 << 13), 0x0800), &datagram);
    assert_eq!(station.take(), [(Vec::new(), datagram)]);
}

#[test]
fn a_bridge_passes_frames_as_they_are_except_those_of_its_own_cards() {
    let Some(wire) = Wire::lay() else { return };
    let mut machine = End::open(&wire.far, Far::Bridge(Vec::new()));
    let mut bridge = End::open(&wire.near, Far::Bridge(vec![CARD]));
    let datagram = udp(OWN, ELSEWHERE, 5);
    let others = [
        (front([2, 0, 0, 0, 0, 9], MACHINE, None, 0x0800), datagram.clone()),
        (front([2, 0, 0, 0, 0, 9], MACHINE, Some(100), 0x0800), datagram.clone()),
        (front([0xff; 6], MACHINE, Some(100), 0x0806), arp(1, (MACHINE, OWN), ([0; 6], ELSEWHERE))),
        // A protocol that nobody knows.
        (front([0xff; 6], MACHINE, None, 0x88b5), vec![0x45; 60]),
    ];
    for (front, bytes) in &others {
        machine.send(front, bytes);
    }
    machine.send(&front(CARD, MACHINE, None, 0x0800), &datagram);
    let taken = bridge.take();
    assert_eq!(taken, others);
    // And back out as it came in.
    for (front, bytes) in &taken {
        bridge.send(front, bytes);
    }
    assert_eq!(machine.take(), others);
}
