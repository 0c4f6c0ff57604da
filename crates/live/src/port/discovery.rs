//! How machines on one Ethernet segment find each other's MAC addresses: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861).
//!
//! Read and written here, with etherparse; what is answered is decided in [`super::neighbours`]. The bytes may be anything.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use etherparse::icmpv6::{
    Icmpv6PayloadSlice, NdpOptionSlice, NeighborAdvertisementHeader, NeighborAdvertisementPayload,
    NeighborSolicitationPayload,
};
use etherparse::{
    ArpEthIpv4Packet, ArpHardwareId, ArpOperation, ArpPacketSlice, EtherType, Icmpv6Slice, Icmpv6Type,
    IpNumber, Ipv6Header, Ipv6HeaderSlice,
};

use super::link::Mac;
use super::link::{ARP, IPV6};

/// All stations of a segment.
pub(super) const BROADCAST: Mac = [0xff; 6];
/// All IPv6 nodes of a segment (RFC 4291 section 2.7.1).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// The hop limit of messages of neighbour discovery: nobody beyond a router can send them (RFC 4861 section 3.1).
const HOP_LIMIT: u8 = 255;
/// The ICMPv6 types of neighbour discovery, which no router forwards.
const KINDS: std::ops::RangeInclusive<u8> = 133..=137;
/// Options with the sender's, and with the target's MAC address (RFC 4861 section 4.6.1).
const SOURCE_ADDRESS: u8 = 1;
const TARGET_ADDRESS: u8 = 2;

/// What a message says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// An address and its MAC address.
    pub(super) learnt: Option<(IpAddr, Mac)>,
    /// What it asks.
    pub(super) question: Option<Question>,
}

/// Who has an address?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The address.
    pub(super) target: IpAddr,
    /// Who asks; unspecified for one that wants to know whether the address is free (RFC 5227, RFC 4862 section 5.4).
    pub(super) asker: IpAddr,
    /// The MAC address that asks.
    pub(super) mac: Mac,
}

/// Reads the payload of a frame of this EtherType from `source`. `None` if it is no message of address resolution; one that is damaged, or says
/// nothing of use, is an empty [`Heard`].
pub(super) fn read(ether_type: u16, bytes: &[u8], source: Mac) -> Option<Heard> {
    match ether_type {
        ARP => Some(read_arp(bytes).unwrap_or_default()),
        IPV6 => read_icmpv6(bytes, source),
        _ => None,
    }
}

/// Whether a MAC address is that of one station.
fn is_single(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_broadcast() || address.is_multicast())
}

fn read_arp(bytes: &[u8]) -> Option<Heard> {
    let packet = ArpPacketSlice::from_slice(bytes).ok()?;
    if packet.hw_addr_type() != ArpHardwareId::ETHERNET || packet.proto_addr_type() != EtherType::IPV4 {
        return None;
    }
    let mac: Mac = packet.sender_hw_addr().try_into().ok()?;
    let address = |bytes: &[u8]| Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?));
    let (sender, target) = (address(packet.sender_protocol_addr())?, address(packet.target_protocol_addr())?);
    if !is_single(mac) {
        return None;
    }
    // Also in questions: whoever asks will be sent something soon.
    let learnt = is_host(sender).then_some((sender.into(), mac));
    let asks = packet.operation() == ArpOperation::REQUEST && is_host(target) && sender != target;
    let question = asks.then_some(Question { target: target.into(), asker: sender.into(), mac });
    Some(Heard { learnt, question })
}

/// The MAC address in the options of a message, if it is there.
fn option<'a>(
    mut options: impl Iterator<Item = Result<NdpOptionSlice<'a>, etherparse::icmpv6::NdpOptionReadError>>,
    kind: u8,
) -> Option<Mac> {
    let found = options.find_map(|option| match option {
        Ok(NdpOptionSlice::SourceLinkLayerAddress(own)) if kind == SOURCE_ADDRESS => {
            Some(own.link_layer_address().try_into().ok())
        }
        Ok(NdpOptionSlice::TargetLinkLayerAddress(own)) if kind == TARGET_ADDRESS => {
            Some(own.link_layer_address().try_into().ok())
        }
        Ok(_) => None,
        Err(_) => Some(None),
    });
    found.flatten().filter(|&mac| is_single(mac))
}

fn read_icmpv6(bytes: &[u8], source: Mac) -> Option<Heard> {
    let header = Ipv6HeaderSlice::from_slice(bytes).ok()?;
    if header.next_header() != IpNumber::IPV6_ICMP {
        return None;
    }
    let message = bytes.get(Ipv6Header::LEN..)?.get(..usize::from(header.payload_length()))?;
    if !message.first().is_some_and(|kind| KINDS.contains(kind)) {
        return None;
    }
    // From here on it is nothing for the network, whatever is wrong with it.
    let sound = || {
        let message = Icmpv6Slice::from_slice(message).ok()?;
        let whole = message.is_checksum_valid(header.source(), header.destination());
        (whole && header.hop_limit() == HOP_LIMIT && message.code_u8() == 0).then_some(message)
    };
    Some(sound().and_then(|message| heard(&message, header.source_addr(), source)).unwrap_or_default())
}

/// What a sound message of neighbour discovery says.
fn heard(message: &Icmpv6Slice<'_>, from: Ipv6Addr, source: Mac) -> Option<Heard> {
    match message.payload_slice().ok()? {
        Icmpv6PayloadSlice::NeighborSolicitation(asks) => {
            let target = asks.target_address();
            let given = option(asks.options_iterator(), SOURCE_ADDRESS);
            let mac = given.or(Some(source).filter(|&mac| is_single(mac)))?;
            let learnt = given.filter(|_| !from.is_unspecified()).map(|mac| (from.into(), mac));
            let question = Question { target: target.into(), asker: from.into(), mac };
            Some(Heard { learnt, question: (!target.is_multicast()).then_some(question) })
        }
        Icmpv6PayloadSlice::NeighborAdvertisement(says) => {
            let target = says.target_address();
            let mac = option(says.options_iterator(), TARGET_ADDRESS)
                .or(Some(source).filter(|&mac| is_single(mac)))?;
            Some(Heard { learnt: (!target.is_multicast()).then_some((target.into(), mac)), question: None })
        }
        _ => None,
    }
}

/// A message to be sent on a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Where to.
    pub(super) to: Mac,
    /// Its EtherType.
    pub(super) ether_type: u16,
    /// What follows the Ethernet header.
    pub(super) bytes: Vec<u8>,
}

/// The link-local address of a station (RFC 4291 appendix A).
pub(super) fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let end = [a ^ 2, b, c, 0xff, 0xfe, d, e, f];
    let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    octets[8..].copy_from_slice(&end);
    octets.into()
}

/// Asks, as the station `mac` with the address `own`, who has `target`. An IPv6 question comes from the station's link-local address.
pub(super) fn ask(mac: Mac, own: IpAddr, target: IpAddr) -> Message {
    match target {
        IpAddr::V4(target) => {
            let own = if let IpAddr::V4(own) = own { own } else { Ipv4Addr::UNSPECIFIED };
            arp(ArpOperation::REQUEST, (mac, own), ([0; 6], target), BROADCAST)
        }
        IpAddr::V6(target) => {
            let [.., c, d, e] = target.octets();
            // The group of all nodes whose addresses end alike (RFC 4291 section 2.7.1), and its MAC address (RFC 2464 section 7).
            let group =
                Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | u16::from(c), u16::from_be_bytes([d, e]));
            let mut payload = NeighborSolicitationPayload { target_address: target }.to_bytes().to_vec();
            payload.extend([SOURCE_ADDRESS, 1]);
            payload.extend(mac);
            let to = [0x33, 0x33, 0xff, c, d, e];
            icmpv6(Icmpv6Type::NeighborSolicitation, link_local(mac), group, &payload, to)
        }
    }
}

/// Answers a question: `mac` has the address.
pub(super) fn answer(mac: Mac, question: &Question) -> Message {
    let Question { target, asker, mac: to } = *question;
    match (target, asker) {
        (IpAddr::V4(target), asker) => {
            let asker = if let IpAddr::V4(asker) = asker { asker } else { Ipv4Addr::UNSPECIFIED };
            arp(ArpOperation::REPLY, (mac, target), (to, asker), to)
        }
        (IpAddr::V6(target), asker) => {
            let asker = if let IpAddr::V6(asker) = asker { asker } else { Ipv6Addr::UNSPECIFIED };
            let mut payload = NeighborAdvertisementPayload { target_address: target }.to_bytes().to_vec();
            payload.extend([TARGET_ADDRESS, 1]);
            payload.extend(mac);
            let solicited = !asker.is_unspecified();
            let header = NeighborAdvertisementHeader { router: true, solicited, r#override: true };
            let (asker, to) = if solicited { (asker, to) } else { (ALL_NODES, [0x33, 0x33, 0, 0, 0, 1]) };
            icmpv6(Icmpv6Type::NeighborAdvertisement(header), target, asker, &payload, to)
        }
    }
}

fn arp(
    operation: ArpOperation,
    (sender_mac, sender): (Mac, Ipv4Addr),
    (target_mac, target): (Mac, Ipv4Addr),
    to: Mac,
) -> Message {
    let packet = ArpEthIpv4Packet {
        operation,
        sender_mac,
        sender_ipv4: sender.octets(),
        target_mac,
        target_ipv4: target.octets(),
    };
    Message { to, ether_type: ARP, bytes: packet.to_bytes().to_vec() }
}

fn icmpv6(kind: Icmpv6Type, from: Ipv6Addr, to: Ipv6Addr, payload: &[u8], mac: Mac) -> Message {
    let mut bytes = Vec::new();
    // A payload of some bytes is not too long for a checksum.
    if let Ok(message) = kind.to_header(from.octets(), to.octets(), payload) {
        let message = message.to_bytes();
        let header = Ipv6Header {
            payload_length: (message.len() + payload.len()) as u16,
            next_header: IpNumber::IPV6_ICMP,
            hop_limit: HOP_LIMIT,
            source: from.octets(),
            destination: to.octets(),
            ..Ipv6Header::default()
        };
        bytes.extend(header.to_bytes());
        bytes.extend(&message);
        bytes.extend(payload);
    }
    Message { to: mac, ether_type: IPV6, bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [0x52, 0x54, 0, 1, 2, 3];

    fn pairs() -> [(IpAddr, IpAddr); 2] {
        let parse = |text: &str| text.parse().unwrap();
        [(parse("192.0.2.1"), parse("192.0.2.7")), (parse("2001:db8::1"), parse("2001:db8::7"))]
    }

    #[test]
    fn a_question_is_read_as_it_was_asked() {
        for (own, target) in pairs() {
            let Message { to, ether_type, bytes } = ask(THEIRS, own, target);
            assert!(to[0] & 1 == 1, "{to:?}");
            let asker = if own.is_ipv4() { own } else { link_local(THEIRS).into() };
            let question = Question { target, asker, mac: THEIRS };
            let heard = Heard { learnt: Some((asker, THEIRS)), question: Some(question) };
            assert_eq!(read(ether_type, &bytes, THEIRS), Some(heard));
            let answer = answer(OURS, &question);
            assert_eq!(answer.to, THEIRS);
            let heard = Heard { learnt: Some((target, OURS)), question: None };
            assert_eq!(read(answer.ether_type, &answer.bytes, OURS), Some(heard));
        }
    }

    #[test]
    fn one_that_asks_whether_an_address_is_free_is_told_that_it_is_not() {
        for (own, target) in pairs() {
            let none = if own.is_ipv4() {
                Ipv4Addr::UNSPECIFIED.into()
            } else {
                IpAddr::from(Ipv6Addr::UNSPECIFIED)
            };
            let answer = answer(OURS, &Question { target, asker: none, mac: THEIRS });
            let heard = read(answer.ether_type, &answer.bytes, OURS);
            assert_eq!(heard, Some(Heard { learnt: Some((target, OURS)), question: None }));
        }
        // An announcement is no question (RFC 5227 section 2.3).
        let own: Ipv4Addr = "192.0.2.7".parse().unwrap();
        let Message { bytes, .. } = arp(ArpOperation::REQUEST, (THEIRS, own), ([0; 6], own), BROADCAST);
        let heard = Heard { learnt: Some((own.into(), THEIRS)), question: None };
        assert_eq!(read(ARP, &bytes, THEIRS), Some(heard));
    }

    #[test]
    fn what_is_damaged_or_of_no_use_says_nothing_and_other_packets_pass() {
        let (own, target) = pairs()[1];
        let good = ask(THEIRS, own, target).bytes;
        for at in 6..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            match read(IPV6, &bad, THEIRS) {
                // Another protocol, or another kind of message.
                None => assert!(at == 6 || at == 40, "{at}"),
                // A source that is a group is as bad as a wrong checksum, which all others have.
                Some(heard) => assert_eq!(heard, Heard::default(), "{at}"),
            }
        }
        assert_eq!(read(IPV6, &good[..good.len() - 1], THEIRS), None);
        assert_eq!(read(ARP, &[0; 27], THEIRS), Some(Heard::default()));
        assert_eq!(read(0x0800, &good, THEIRS), None);
        // Nobody has a group's address.
        let (own, target) = pairs()[0];
        let mut group = ask(THEIRS, own, target).bytes;
        group[8] |= 1;
        assert_eq!(read(ARP, &group, THEIRS), Some(Heard::default()));
    }
}
