//! Packets of simulated flows on their way through guests that forward.
//!
//! The kernel of such a guest needs real bytes. So a packet leaves the simulation at the first of these guests: its image, an IPv4 datagram with the
//! same addresses, ports, length, flags and marks, crosses it and whatever comes after it, and the packet itself waits here. Where the
//! image arrives, the packet takes its place again, with the marks of the image. What a kernel drops does not come back.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use warpline_core::{Body, Ecn, Flags, FlowId, Packet, Segment};
use warpline_live::ip::{self, IpHeader, TCP, UDP};
use warpline_live::port::PortId;
use warpline_live::wire::codec::{self, WireSegment};
use warpline_live::wire::udp::{self, UdpHeader};
use warpline_scenario::Expanded;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::expand::RouteSet;

use super::paths::{End, Paths};
use crate::hosts::{End as FlowEnd, ModelHosts};
use crate::run::ways::upto_router;

/// The first port of the receivers of flows: iperf's. Every flow has its own.
const RECEIVER: u32 = 5001;
/// The first port of senders, the first of Linux's range for connections. Every connection has its own.
const SENDER: u32 = 32_768;
/// Window shift of all images. A router does not care.
const SHIFT: u8 = 7;
/// How many packets are kept: as many as there are identifications of datagrams.
const KEPT: usize = 1 << 16;

/// A flow that meets a guest.
#[derive(Clone, Copy, Debug)]
struct Meeting {
    /// The addresses of the sender and the receiver of the data.
    addresses: [Ipv4Addr; 2],
    /// The port of the guest that packets to the sender and to the receiver meet first.
    entries: [Option<PortId>; 2],
}

/// All packets that have left the simulation for guests.
#[derive(Debug, Default)]
pub(in crate::run) struct Crossings {
    meetings: BTreeMap<FlowId, Meeting>,
    /// The packets whose images are under way, by the identifications of these. An image that is under way for longer than 65,536 others are made
    /// is lost.
    packets: Vec<Option<Packet>>,
    /// The identification of the last image.
    last: u16,
    /// By a packet's number, the identifications of its images that have been handed out ahead of their time, in the order in which the packet will
    /// come. There are several if a link has copied the packet.
    early: BTreeMap<u64, VecDeque<u16>>,
}

impl Crossings {
    /// The flows of `hosts` that meet guests which forward.
    pub(in crate::run) fn find(
        expanded: &Expanded,
        forwarding: &[bool],
        (plan, ends): (&AddressPlan, &[End]),
        hosts: &ModelHosts,
    ) -> Self {
        if !forwarding.contains(&true) {
            return Crossings::default();
        }
        let entered = Paths::entrances(ends);
        let entry = |set: RouteSet| {
            let links = upto_router(expanded, forwarding, expanded.routes.links(set.first));
            links.last().and_then(|last| entered.get(last)).map(|port| PortId(*port))
        };
        let by_name: BTreeMap<&str, _> = expanded.flows.iter().map(|own| (own.name.as_str(), own)).collect();
        let mut meetings = BTreeMap::new();
        for (number, flow) in hosts.flows.iter().enumerate().filter(|(_, flow)| flow.spec.wire.is_none()) {
            let Some(own) = by_name.get(flow.spec.name.as_str()) else { continue };
            let entries = [entry(own.reverse), entry(own.forward)];
            if entries != [None; 2] {
                let addresses = [own.from, own.to].map(|node| plan.of(node).0);
                meetings.insert(FlowId(number as u32), Meeting { addresses, entries });
            }
        }
        let kept = if meetings.is_empty() { 0 } else { KEPT };
        Crossings { meetings, packets: vec![None; kept], ..Crossings::default() }
    }

    /// The port of the guest at which a packet leaves the simulation, if it does.
    #[inline]
    pub(in crate::run) fn entry(&self, packet: &Packet) -> Option<PortId> {
        if self.meetings.is_empty() {
            return None;
        }
        self.meetings.get(&packet.flow)?.entries[FlowEnd::of(packet.to).side()]
    }

    /// Writes the image of a packet that will leave the simulation, ahead of its time. Nothing is written if it has none.
    pub(in crate::run) fn foresee(&mut self, packet: &Packet, out: &mut Vec<u8>) {
        let identification = self.last.wrapping_add(1);
        self.image(packet, identification, out);
        if !out.is_empty() {
            self.last = identification;
            self.early.entry(packet.id).or_default().push_back(identification);
        }
    }

    /// Keeps a packet that leaves the simulation, and writes its image. Returns whether that has been handed out ahead of its time.
    pub(in crate::run) fn keep(&mut self, packet: &Packet, out: &mut Vec<u8>) -> bool {
        let (identification, early) = match self.early.entry(packet.id) {
            Entry::Occupied(mut images) => {
                let first = images.get_mut().pop_front();
                if images.get().is_empty() {
                    images.remove();
                }
                (first, true)
            }
            Entry::Vacant(_) => (None, false),
        };
        let identification = identification.unwrap_or_else(|| {
            self.last = self.last.wrapping_add(1);
            self.last
        });
        if let Some(place) = self.packets.get_mut(usize::from(identification)) {
            *place = Some(*packet);
        }
        self.image(packet, identification, out);
        early
    }

    /// The identification of the image that these bytes are, and its packet, if they are one.
    pub(in crate::run) fn recognise(&self, bytes: &[u8]) -> Option<(u16, &Packet)> {
        if self.meetings.is_empty() {
            return None;
        }
        let (head, _) = bytes.split_first_chunk::<20>()?;
        let identification = u16::from_be_bytes([head[4], head[5]]);
        let packet = self.packets[usize::from(identification)].as_ref()?;
        let (source, destination, ports) = self.addresses(packet)?;
        let own = ip::addresses(bytes)? == (source, destination);
        let [a, b, c, d] = *bytes.get(usize::from(head[0] & 15) * 4..)?.first_chunk::<4>()?;
        (own && (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])) == ports)
            .then_some((identification, packet))
    }

    /// The packet of an image that has arrived with these marks, and the packet's number.
    pub(in crate::run) fn arrive(&self, identification: u16, ecn: Ecn) -> Option<Packet> {
        let packet = self.packets.get(usize::from(identification)).copied().flatten()?;
        Some(Packet { ecn, ..packet })
    }

    /// Source and destination of a packet: addresses and ports.
    fn addresses(&self, packet: &Packet) -> Option<(IpAddr, IpAddr, (u16, u16))> {
        let meeting = self.meetings.get(&packet.flow)?;
        let end = FlowEnd::of(packet.to);
        let receiver = RECEIVER + packet.flow.0 % (SENDER - RECEIVER);
        let sender = SENDER + end.connection() % (u32::from(u16::MAX) + 1 - SENDER);
        let (to, from) = (end.side(), 1 - end.side());
        let port = |side: usize| if side == 0 { sender as u16 } else { receiver as u16 };
        Some((meeting.addresses[from].into(), meeting.addresses[to].into(), (port(from), port(to))))
    }

    /// Writes the image of a packet into `out`; nothing if it is none of a flow that meets guests, or does not fit into a datagram.
    fn image(&self, packet: &Packet, identification: u16, out: &mut Vec<u8>) {
        out.clear();
        let Some((source, destination, (source_port, destination_port))) = self.addresses(packet) else {
            return;
        };
        let header = |protocol| IpHeader {
            ecn: packet.ecn,
            identification,
            ..IpHeader::new(source, destination, protocol)
        };
        // All of its bytes count, whatever it is that they stand for.
        let payload = |headers: u32| packet.size.saturating_sub(headers) as usize;
        let written = match &packet.body {
            Body::Tcp(segment) => {
                let wire = WireSegment { source_port, destination_port, ..wire_segment(segment) };
                codec::write(out, &header(TCP), &wire, payload(segment.wire_size() - segment.len), |_| ())
            }
            Body::Udp(_) => {
                let headers = warpline_core::packet::IPV4_HEADER + warpline_core::packet::UDP_HEADER;
                let ports = UdpHeader { source_port, destination_port };
                udp::write(out, &header(UDP), &ports, &vec![0; payload(headers)])
            }
            Body::Frame(_) => Ok(()),
        };
        if written.is_err() {
            out.clear();
        }
    }
}

/// A segment on the wire, without its ports: its initial sequence numbers are zero.
fn wire_segment(segment: &Segment) -> WireSegment {
    let syn = segment.flags.contains(Flags::SYN);
    let shift = if syn { 0 } else { SHIFT };
    let mut wire = WireSegment {
        seq: segment.seq as u32,
        ack: segment.ack as u32,
        flags: segment.flags,
        window: u16::try_from(segment.window >> shift).unwrap_or(u16::MAX),
        timestamps: segment.timestamps,
        mss: syn.then_some(segment.syn.mss),
        window_scale: segment.syn.window_scale,
        sack_permitted: segment.syn.sack_permitted,
        ..WireSegment::default()
    };
    for (start, end) in segment.sack.iter(segment.ack) {
        wire.sack.push(start as u32, end as u32);
    }
    wire
}

#[cfg(test)]
mod tests {
    use warpline_core::{Datagram, EndpointId};
    use warpline_live::datagram;

    use super::*;

    fn crossings() -> Crossings {
        let addresses = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 3)];
        let meeting = Meeting { addresses, entries: [None, Some(PortId(4))] };
        let meetings = BTreeMap::from([(FlowId(2), meeting)]);
        Crossings { meetings, packets: vec![None; KEPT], ..Crossings::default() }
    }

    fn packets() -> [Packet; 3] {
        let mut segment = Segment { seq: 5_000_000_001, ack: 7, len: 1448, ..Segment::default() };
        (segment.flags, segment.timestamps) = (Flags::ACK, Some((1, 2)));
        let data = Packet { id: 70_000, ..Packet::tcp(FlowId(2), EndpointId(1), segment, Ecn::Ect0) };
        let mut ack = Segment { len: 0, ..segment };
        assert!(ack.sack.push(7, 100, 200));
        let ack = Packet { id: 70_001, ..Packet::tcp(FlowId(2), EndpointId(6), ack, Ecn::NotEct) };
        let datagram = Datagram { len: 100, ..Datagram::default() };
        [data, ack, Packet { id: 9, ..Packet::udp(FlowId(2), EndpointId(1), datagram) }]
    }

    #[test]
    fn an_image_has_the_size_the_ends_and_the_mark_of_its_packet() {
        let (mut crossings, mut out) = (crossings(), Vec::new());
        for packet in packets() {
            assert!(!crossings.keep(&packet, &mut out));
            let header = datagram::read(&out).unwrap();
            assert_eq!((header.len, header.ecn), (packet.size, packet.ecn), "{packet:?}");
            let (from, to) = ip::addresses(&out).unwrap();
            let (sender, receiver): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 3].into());
            assert_eq!(
                (from, to),
                if packet.to.0 % 2 == 1 { (sender, receiver) } else { (receiver, sender) }
            );
        }
    }

    #[test]
    fn what_comes_back_is_the_packet_with_the_marks_of_its_image() {
        let (mut crossings, mut out) = (crossings(), Vec::new());
        let [data, ack, _] = packets();
        assert_eq!((crossings.entry(&data), crossings.entry(&ack)), (Some(PortId(4)), None));
        crossings.foresee(&data, &mut out);
        assert_eq!(crossings.recognise(&out), None, "the packet is not there yet");
        let ahead = out.clone();
        assert!(crossings.keep(&data, &mut out) && out == ahead);
        let (identification, packet) = crossings.recognise(&ahead).unwrap();
        assert_eq!(packet, &data);
        assert_eq!(crossings.arrive(identification, Ecn::Ce), Some(Packet { ecn: Ecn::Ce, ..data }));
        assert!(!crossings.keep(&data, &mut out), "a copy that was not handed out ahead of its time");
        out.truncate(10);
        assert_eq!(crossings.recognise(&out), None);
    }

    #[test]
    fn packets_of_different_links_whose_numbers_end_alike_are_not_mistaken_for_each_other() {
        let (mut crossings, mut images) = (crossings(), [Vec::new(), Vec::new()]);
        let [data, ack, _] = packets();
        let sent = [data, Packet { id: data.id + (1 << 40), ..ack }];
        for (packet, image) in sent.iter().zip(&mut images) {
            crossings.keep(packet, image);
        }
        for (packet, image) in sent.iter().zip(&images) {
            assert_eq!(crossings.recognise(image).unwrap().1, packet);
        }
    }
}
