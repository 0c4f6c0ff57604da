//! The machines on an Ethernet segment behind a port: who answers for which address, and where a datagram is sent.
//!
//! The port is a station of its own, with a MAC address of its own. It answers for every address of the emulated network that is elsewhere, and for
//! the gateways of the segment's machines, but never for a machine of the segment: so machines that believe a host of the emulated network on their own
//! segment reach it (proxy ARP, RFC 1027), and those that use a gateway do, too. It asks for the MAC address of a machine before it sends to it, and
//! keeps a few datagrams meanwhile.
//!
//! Only addresses that the scenario places on the segment are learnt. Times are the machine's, in nanoseconds, as arguments.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::discovery::{self, Message};
use super::link::Mac;
use super::link::{Front, VLAN, ether_type};
use crate::ip;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// How often a question without an answer is asked (RFC 4861 section 10: RETRANS_TIMER, MAX_MULTICAST_SOLICIT).
const RETRY: u64 = SECOND;
const TRIES: u8 = 3;
/// An answer that is older is asked for again when it is used (RFC 4861 section 10: REACHABLE_TIME).
const REACHABLE: u64 = 30 * SECOND;
/// Most datagrams that wait for one machine's answer.
const MOST_WAITING: usize = 128;
/// Most machines that are known or asked for.
const MOST_MACHINES: usize = 4096;

/// A segment, and who is where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentConfig {
    /// The port's own MAC address.
    pub mac: Mac,
    /// The VLAN (IEEE 802.1Q) in which the machines are: frames have a tag. Without one, frames have none.
    pub vlan: Option<u16>,
    /// The machines on the segment: their addresses and networks.
    pub machines: Vec<IpNet>,
    /// Networks behind routers on the segment, each with its router's address.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// Addresses and networks elsewhere, for which the port answers.
    pub elsewhere: Vec<IpNet>,
    /// Addresses that are the port's own.
    pub gateways: Vec<IpAddr>,
}

impl SegmentConfig {
    /// A segment for the fuzzer.
    pub(super) fn example() -> Self {
        let network = |address: [u8; 4]| IpNet::from(IpAddr::from(address));
        SegmentConfig {
            mac: [2, 0, 0, 0, 0, 1],
            vlan: None,
            machines: vec![network([192, 0, 2, 7]), IpNet::from(IpAddr::from([0x20; 16]))],
            routes: Vec::new(),
            elsewhere: vec![network([10, 0, 0, 3]), IpNet::from(IpAddr::from([0x30; 16]))],
            gateways: vec![[192, 0, 2, 1].into()],
        }
    }
}

/// Addresses and networks.
#[derive(Debug, Default)]
struct Places {
    hosts: BTreeSet<IpAddr>,
    /// The longest prefixes first.
    networks: Vec<IpNet>,
}

impl Places {
    fn new(all: &[IpNet]) -> Self {
        let (hosts, mut networks): (Vec<IpNet>, Vec<IpNet>) =
            all.iter().partition(|network| network.prefix_len() == network.max_prefix_len());
        networks.sort_by_key(|network| std::cmp::Reverse(network.prefix_len()));
        Places { hosts: hosts.iter().map(IpNet::addr).collect(), networks }
    }

    /// The length of the longest prefix that contains an address.
    fn longest(&self, address: IpAddr) -> Option<u8> {
        if self.hosts.contains(&address) {
            return Some(if address.is_ipv4() { 32 } else { 128 });
        }
        self.networks.iter().find(|network| network.contains(&address)).map(IpNet::prefix_len)
    }
}

/// What is known of a machine.
#[derive(Debug, Default)]
struct Machine {
    mac: Option<Mac>,
    /// When it last said so.
    heard: u64,
    /// When it was last asked, and how often since it last answered.
    asked: u64,
    tries: u8,
    /// Datagrams for it.
    waiting: VecDeque<Vec<u8>>,
}

/// A frame to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub bytes: Vec<u8>,
    /// The length of the datagram in it, which has waited for its machine; none of what the port says itself.
    pub datagram: Option<u64>,
}

/// The machines of a segment.
#[derive(Debug)]
pub(super) struct Neighbours {
    mac: Mac,
    tag: Option<(u16, u16)>,
    here: Places,
    elsewhere: Places,
    routes: Vec<(IpNet, IpAddr)>,
    gateways: Vec<IpAddr>,
    known: BTreeMap<IpAddr, Machine>,
    /// When a question is to be asked again, at the earliest.
    due: u64,
    /// Frames to be sent.
    out: Vec<Frame>,
    /// Datagrams that were given up: nobody answered for their address.
    unanswered: u64,
}

impl Neighbours {
    /// Nobody is known yet: asks for all machines whose addresses are given.
    pub(super) fn new(config: &SegmentConfig, now: u64) -> Self {
        let mut routes = config.routes.clone();
        routes.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        let mut own = Neighbours {
            mac: config.mac,
            tag: config.vlan.map(|number| (VLAN, number)),
            here: Places::new(&config.machines),
            elsewhere: Places::new(&config.elsewhere),
            routes,
            gateways: config.gateways.clone(),
            known: BTreeMap::new(),
            due: u64::MAX,
            out: Vec::new(),
            unanswered: 0,
        };
        let routers: BTreeSet<IpAddr> = own.routes.iter().map(|(_, router)| *router).collect();
        for machine in own.here.hosts.union(&routers).copied().take(MOST_MACHINES).collect::<Vec<_>>() {
            own.known.insert(machine, Machine::default());
            own.ask(now, machine, None);
        }
        own
    }

    /// The port's own MAC address.
    pub(super) fn mac(&self) -> Mac {
        self.mac
    }

    /// The VLAN in which the machines are.
    pub(super) fn vlan(&self) -> Option<u16> {
        self.tag.map(|(_, number)| number)
    }

    /// Datagrams for which no machine has answered: those that were given up, and those that still wait.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered + self.known.values().map(|machine| machine.waiting.len() as u64).sum::<u64>()
    }

    /// When [`tick`](Self::tick) has something to do, at the earliest; none if nothing is asked.
    pub(super) fn due(&self) -> Option<u64> {
        (self.due < u64::MAX).then_some(self.due)
    }

    /// Takes the frames that are to be sent now.
    pub(super) fn take_frames(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.out)
    }

    /// Handles the payload of a frame of this EtherType from `source`, if it is a message of address resolution. Returns whether it is.
    pub(super) fn hear(&mut self, now: u64, ether_type: u16, bytes: &[u8], source: Mac) -> bool {
        let Some(heard) = discovery::read(ether_type, bytes, source) else { return false };
        if let Some((address, mac)) = heard.learnt {
            self.learn(now, address, mac);
        }
        if let Some(question) = heard.question.filter(|question| self.answers_for(question.target)) {
            self.send(&discovery::answer(self.mac, &question));
        }
        true
    }

    /// Whether the port has this address, for the machines of the segment.
    fn answers_for(&self, target: IpAddr) -> bool {
        self.gateways.contains(&target)
            || target == IpAddr::from(discovery::link_local(self.mac))
            || self.elsewhere.longest(target) > self.here.longest(target)
    }

    /// The machine of the segment that a datagram to this address is sent to.
    fn next_hop(&self, to: IpAddr) -> IpAddr {
        let direct = self.here.longest(to);
        let routed = self.routes.iter().find(|(network, _)| network.contains(&to));
        match routed {
            Some((network, router)) if Some(network.prefix_len()) > direct => *router,
            _ => to,
        }
    }

    /// The Ethernet header of a datagram, if its machine is known. If not, keeps the datagram and asks.
    pub(super) fn front(&mut self, now: u64, datagram: &[u8]) -> Option<Front> {
        let (from, to) = ip::addresses(datagram)?;
        let hop = self.next_hop(to);
        if !self.known.contains_key(&hop) {
            if self.known.len() >= MOST_MACHINES {
                self.known.retain(|_, machine| machine.mac.is_some() || !machine.waiting.is_empty());
            }
            if self.known.len() >= MOST_MACHINES {
                self.unanswered += 1;
                return None;
            }
        }
        let machine = self.known.entry(hop).or_default();
        let due = now.saturating_sub(machine.asked) >= RETRY;
        let known = machine.mac;
        let stale = known.is_none() || now.saturating_sub(machine.heard) >= REACHABLE;
        if known.is_none() {
            if machine.waiting.len() == MOST_WAITING {
                machine.waiting.pop_front();
                self.unanswered += 1;
            }
            machine.waiting.push_back(datagram.to_owned());
        }
        if stale && (machine.tries == 0 || machine.tries < TRIES && due) {
            self.ask(now, hop, Some(from));
        }
        known.map(|mac| self.header(mac, datagram))
    }

    fn header(&self, to: Mac, datagram: &[u8]) -> Front {
        let version = datagram.first().map_or(0, |first| first >> 4);
        Front::new(&to, &self.mac, self.tag, ether_type(version))
    }

    /// Asks again for machines that have not answered, and gives up those that never do.
    pub(super) fn tick(&mut self, now: u64) {
        if now < self.due {
            return;
        }
        let due = |machine: &Machine| machine.tries > 0 && now.saturating_sub(machine.asked) >= RETRY;
        let late: Vec<IpAddr> =
            self.known.iter().filter(|(_, machine)| due(machine)).map(|(address, _)| *address).collect();
        for address in late {
            let Some(machine) = self.known.get_mut(&address) else { continue };
            if machine.tries < TRIES {
                let from = machine.waiting.front().and_then(|datagram| ip::addresses(datagram));
                self.ask(now, address, from.map(|(from, _)| from));
            } else if let Some(machine) = self.known.remove(&address) {
                self.unanswered += machine.waiting.len() as u64;
            }
        }
        let asked = self.known.values().filter(|machine| machine.tries > 0);
        self.due = asked.map(|machine| machine.asked + RETRY).min().unwrap_or(u64::MAX);
    }

    /// Asks for a machine, in the name of the gateway, or else of `sender`, whose datagram is for it. Without either the question is that of
    /// one who does not have an address yet, which every machine answers, too.
    fn ask(&mut self, now: u64, address: IpAddr, sender: Option<IpAddr>) {
        let gateway = self.gateways.iter().find(|own| own.is_ipv4() == address.is_ipv4()).copied();
        let own = gateway.or(sender).unwrap_or(Ipv4Addr::UNSPECIFIED.into());
        if let Some(machine) = self.known.get_mut(&address) {
            (machine.asked, machine.tries) = (now, machine.tries + 1);
            self.due = self.due.min(now + RETRY);
        }
        self.send(&discovery::ask(self.mac, own, address));
    }

    /// A machine has said that it has an address. Its datagrams may leave.
    fn learn(&mut self, now: u64, address: IpAddr, mac: Mac) {
        let ours = self.here.longest(address).is_some() || self.known.contains_key(&address);
        if !ours
            || mac == self.mac
            || (self.known.len() >= MOST_MACHINES && !self.known.contains_key(&address))
        {
            return;
        }
        let machine = self.known.entry(address).or_default();
        (machine.mac, machine.heard, machine.tries) = (Some(mac), now, 0);
        for datagram in std::mem::take(&mut machine.waiting) {
            let bytes = [self.header(mac, &datagram).bytes(), &datagram].concat();
            self.out.push(Frame { bytes, datagram: Some(datagram.len() as u64) });
        }
    }

    fn send(&mut self, message: &Message) {
        let front = Front::new(&message.to, &self.mac, self.tag, message.ether_type);
        self.out.push(Frame { bytes: [front.bytes(), &message.bytes].concat(), datagram: None });
    }

    /// What the fuzzer looks for: more is kept than may be.
    pub(super) fn assert_bounded(&self) {
        assert!(self.known.len() <= MOST_MACHINES);
        assert!(self.known.values().all(|machine| machine.waiting.len() <= MOST_WAITING));
    }
}

#[cfg(test)]
mod tests {
    use super::super::discovery::Question;
    use super::*;
    use crate::ip::{IpHeader, UDP};

    const OURS: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [0x52, 0x54, 0, 1, 2, 3];

    fn question(target: &str, asker: &str) -> Question {
        Question { target: target.parse().unwrap(), asker: asker.parse().unwrap(), mac: OURS }
    }

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        let parse = |text: &&str| {
            text.parse::<IpNet>().unwrap_or_else(|_| IpNet::from(text.parse::<IpAddr>().unwrap()))
        };
        texts.iter().map(parse).collect()
    }

    fn segment(vlan: Option<u16>) -> SegmentConfig {
        SegmentConfig {
            mac: OURS,
            vlan,
            machines: nets(&["192.0.2.7", "192.0.2.64/26", "2001:db8::7"]),
            routes: vec![
                (nets(&["198.51.100.0/24"])[0], "192.0.2.7".parse().unwrap()),
                (nets(&["198.51.100.128/25"])[0], "192.0.2.70".parse().unwrap()),
            ],
            elsewhere: nets(&["10.0.0.3", "192.0.2.65", "192.0.2.0/24", "2001:db8::3"]),
            gateways: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        }
    }

    fn datagram(from: &str, to: &str) -> Vec<u8> {
        let mut out = Vec::new();
        IpHeader::new(from.parse().unwrap(), to.parse().unwrap(), UDP).write(&mut out, 8).unwrap();
        out.extend([0; 8]);
        out
    }

    /// The questions among the frames, by target.
    fn asked(own: &mut Neighbours) -> Vec<String> {
        let frames = own.take_frames();
        let read = |Frame { bytes, datagram }: &Frame| {
            assert_eq!(*datagram, None);
            let ether_type = u16::from_be_bytes([bytes[12], bytes[13]]);
            discovery::read(ether_type, &bytes[14..], OURS).unwrap().question.unwrap().target.to_string()
        };
        frames.iter().map(read).collect()
    }

    fn say(own: &mut Neighbours, now: u64, address: &str, mac: Mac) {
        let message = discovery::answer(mac, &question(address, "192.0.2.1"));
        let message = match address.contains(':') {
            true => discovery::answer(mac, &question(address, "2001:db8::1")),
            false => message,
        };
        assert!(own.hear(now, message.ether_type, &message.bytes, mac));
    }

    #[test]
    fn it_answers_for_what_is_elsewhere_and_for_the_gateway_and_not_for_machines_of_the_segment() {
        let own = Neighbours::new(&segment(None), 0);
        for (address, answers) in [
            ("10.0.0.3", true),
            ("192.0.2.1", true),
            ("2001:db8::1", true),
            ("2001:db8::3", true),
            ("192.0.2.9", true),
            ("192.0.2.7", false),
            ("192.0.2.66", false),
            ("192.0.2.65", true),
            ("198.51.100.3", false),
            ("203.0.113.1", false),
            ("2001:db8::7", false),
            ("fe80::ff:fe00:1", true),
            ("fe80::1", false),
        ] {
            assert_eq!(own.answers_for(address.parse().unwrap()), answers, "{address}");
        }
    }

    #[test]
    fn a_question_is_answered_in_the_vlan_that_it_came_from() {
        let mut own = Neighbours::new(&segment(Some(100)), 0);
        own.take_frames();
        for (target, asker) in [("10.0.0.3", "192.0.2.7"), ("2001:db8::3", "2001:db8::7")] {
            let asks = discovery::ask(THEIRS, asker.parse().unwrap(), target.parse().unwrap());
            assert!(own.hear(5, asks.ether_type, &asks.bytes, THEIRS));
            let frames = own.take_frames();
            assert_eq!(frames.len(), 1, "{target}");
            assert_eq!(frames[0].bytes[..6], THEIRS);
            assert_eq!(frames[0].bytes[12..16], [0x81, 0, 0, 100]);
        }
        let asks = discovery::ask(THEIRS, "192.0.2.7".parse().unwrap(), "192.0.2.66".parse().unwrap());
        assert!(own.hear(5, asks.ether_type, &asks.bytes, THEIRS) && own.take_frames().is_empty());
    }

    #[test]
    fn datagrams_wait_for_the_answer_and_leave_in_order() {
        let mut own = Neighbours::new(&segment(None), 0);
        assert_eq!(asked(&mut own), ["192.0.2.7", "192.0.2.70", "2001:db8::7"]);
        let (first, second) = (datagram("10.0.0.3", "192.0.2.66"), datagram("10.0.0.4", "192.0.2.66"));
        assert!(own.front(1, &first).is_none() && own.front(2, &second).is_none());
        assert_eq!(asked(&mut own), ["192.0.2.66"], "it is asked once");
        assert_eq!(own.unanswered(), 2, "so far");
        own.tick(RETRY);
        // The machines that were asked at the beginning are asked again, and the last one a nanosecond later.
        assert_eq!(asked(&mut own).len(), 3);
        say(&mut own, RETRY + 1, "192.0.2.66", THEIRS);
        let frames = own.take_frames();
        let front = Front::new(&THEIRS, &OURS, None, 0x0800);
        let sent = [&first, &second].map(|datagram| Frame {
            bytes: [front.bytes(), datagram].concat(),
            datagram: Some(datagram.len() as u64),
        });
        assert_eq!(frames, sent);
        assert_eq!(own.front(RETRY + 2, &first).unwrap().bytes(), front.bytes());
        assert_eq!(own.unanswered(), 0);
    }

    #[test]
    fn a_machine_that_never_answers_is_given_up_and_its_datagrams_are_counted() {
        let mut own = Neighbours::new(&segment(None), 0);
        own.take_frames();
        for _ in 0..MOST_WAITING + 2 {
            assert!(own.front(0, &datagram("10.0.0.3", "192.0.2.66")).is_none());
        }
        own.assert_bounded();
        for second in 1..5 {
            own.tick(second * RETRY);
        }
        assert_eq!(own.unanswered(), MOST_WAITING as u64 + 2);
        own.take_frames();
        // Later it is asked anew.
        assert!(own.front(100 * SECOND, &datagram("10.0.0.3", "192.0.2.66")).is_none());
        assert_eq!(asked(&mut own), ["192.0.2.66"]);
    }

    #[test]
    fn it_says_when_it_asks_again() {
        let machines = nets(&["192.0.2.64/26"]);
        let config = SegmentConfig { machines, routes: Vec::new(), ..segment(None) };
        let mut own = Neighbours::new(&config, 0);
        assert_eq!(own.due(), None, "no machine has an address that is known");
        assert!(own.front(5, &datagram("10.0.0.3", "192.0.2.66")).is_none());
        for tries in 1..=u64::from(TRIES) {
            assert_eq!(asked(&mut own), ["192.0.2.66"]);
            let due = 5 + tries * RETRY;
            assert_eq!(own.due(), Some(due));
            own.tick(due);
        }
        assert_eq!((own.due(), own.unanswered()), (None, 1), "it is given up");
    }

    #[test]
    fn an_old_answer_is_used_while_it_is_asked_for_again() {
        let mut own = Neighbours::new(&segment(None), 0);
        say(&mut own, 0, "192.0.2.7", THEIRS);
        own.take_frames();
        let datagram = datagram("10.0.0.3", "192.0.2.7");
        assert!(own.front(REACHABLE - 1, &datagram).is_some() && own.take_frames().is_empty());
        assert!(own.front(REACHABLE, &datagram).is_some());
        assert_eq!(asked(&mut own), ["192.0.2.7"]);
        // Another card answers.
        say(&mut own, REACHABLE + 1, "192.0.2.7", [0x52, 0, 0, 0, 0, 9]);
        assert_eq!(own.front(REACHABLE + 2, &datagram).unwrap().bytes()[..6], [0x52, 0, 0, 0, 0, 9]);
    }

    #[test]
    fn networks_behind_a_router_of_the_segment_are_sent_to_it() {
        let own = Neighbours::new(&segment(None), 0);
        for (to, hop) in [
            ("198.51.100.3", "192.0.2.7"),
            ("198.51.100.200", "192.0.2.70"),
            ("192.0.2.70", "192.0.2.70"),
            ("2001:db8::7", "2001:db8::7"),
        ] {
            assert_eq!(own.next_hop(to.parse().unwrap()).to_string(), hop, "{to}");
        }
    }

    #[test]
    fn what_the_scenario_does_not_place_there_is_not_learnt() {
        let mut own = Neighbours::new(&segment(None), 0);
        let before = own.known.len();
        for address in ["10.0.0.3", "203.0.113.9", "192.0.2.1"] {
            say(&mut own, 0, address, THEIRS);
        }
        assert_eq!(own.known.len(), before);
        say(&mut own, 0, "192.0.2.100", THEIRS);
        assert_eq!(own.known.len(), before + 1);
    }
}
