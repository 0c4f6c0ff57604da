//! NATs in front of hosts that change their bindings at times (`rebind` of a host).
//!
//! Mapping and filtering do not depend on the other end (RFC 4787 sections 4.1 and 5), as in the scenario `rebind` of the QUIC interop runner's simulator. UDP
//! only: other datagrams, and fragments after the first, pass as they are.
//!
//! A change that is due takes effect with the next datagram from the host: so the other end hears of it while data flow, as it does in that simulator, where
//! datagrams under way get the new place, too. For guests in lock-step, what is certain to arrive is told ahead of its time; it then comes by the binding of that time.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use warpline_core::{Streams, TimeDelta, Timestamp};
use warpline_live::ip;
use warpline_live::pool::Pool;
use warpline_live::port::PortId;
use warpline_live::translation::{self, Side};
use warpline_scenario::Scenario;
use warpline_scenario::addresses::AddressPlan;

/// The first port that a changed binding can have: below are those of services.
const FIRST_PORT: u16 = 1024;
/// How many ports there are from that one on.
const PORTS: u64 = u16::MAX as u64 + 1 - FIRST_PORT as u64;

/// An address and a port.
type Place = (IpAddr, u16);

/// The NATs, by the ports of the hosts that are behind them.
#[derive(Debug, Default)]
pub(in crate::run) struct Nats {
    all: BTreeMap<PortId, Nat>,
    /// Frames whose fate was told ahead of their time: whether they get in.
    foreseen: BTreeMap<u32, bool>,
}

/// A NAT.
#[derive(Debug)]
struct Nat {
    first: Timestamp,
    every: Option<TimeDelta>,
    /// The addresses that it takes, except those of nodes.
    addresses: Vec<IpAddr>,
    streams: Streams,
    /// Names its random numbers.
    name: String,
    /// How many changes there have been.
    changes: u64,
    /// Which of its addresses it has since the last of them.
    taken: Option<usize>,
    /// The NAT's place of each of the host's.
    outward: BTreeMap<Place, Place>,
    /// The host's place of each of the NAT's.
    inward: BTreeMap<Place, Place>,
    /// The NAT's places before the last change.
    before: BTreeMap<Place, Place>,
}

/// What becomes of a datagram for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It gets in, and its bytes have been handed out ahead of its time.
    Told,
    /// It gets in, as this frame. The other one keeps the bytes that it had on the link, for records.
    Bound(u32),
    /// It is lost.
    Lost,
}

impl Nats {
    /// The NATs of a scenario. `nodes` are the nodes at the ports.
    pub(in crate::run) fn new(
        scenario: &Scenario,
        plan: &AddressPlan,
        nodes: impl Iterator<Item = u32>,
    ) -> Self {
        let nat = |(port, node): (u32, u32)| {
            let own = |name: &str| plan.find(name) == Some(node as usize);
            let host = scenario.host.iter().find(|host| own(&host.name))?;
            let rebind = host.endpoint.rebind()?;
            let addresses = rebind.addresses.iter().flat_map(|network| addresses(network.0));
            let nat = Nat {
                first: Timestamp::ZERO + rebind.first.0,
                every: rebind.every.map(|every| every.0),
                addresses: addresses.filter(|own| plan.owner(*own) == Some(node)).collect(),
                streams: Streams::new(scenario.seed),
                name: format!("host.{}.rebind", host.name),
                changes: 0,
                taken: None,
                outward: BTreeMap::new(),
                inward: BTreeMap::new(),
                before: BTreeMap::new(),
            };
            Some((PortId(port), nat))
        };
        Nats { all: (0..).zip(nodes).filter_map(nat).collect(), foreseen: BTreeMap::new() }
    }

    /// Whether there is one in front of the host at a port.
    #[inline]
    pub(super) fn has(&self, port: PortId) -> bool {
        !self.all.is_empty() && self.all.contains_key(&port)
    }

    /// Gives a datagram from the host at `port` the source that it has behind the NAT.
    pub(super) fn leave(&mut self, now: Timestamp, port: PortId, datagram: &mut [u8]) {
        if let Some(nat) = self.all.get_mut(&port)
            && let Some((private, _)) = places(datagram)
        {
            translation::set_place(datagram, Side::Source, nat.bind(now, private));
        }
    }

    /// Gives a datagram for the host at `port` the destination that it has in front of the NAT, unless that has been done ahead of its time.
    pub(super) fn enter(&mut self, port: PortId, frame: u32, pool: &mut Pool) -> Entry {
        match self.foreseen.remove(&frame) {
            Some(true) => return Entry::Told,
            Some(false) => return Entry::Lost,
            None => {}
        }
        let Some(translated) = pool.copy(frame) else { return Entry::Lost };
        if self.translate(port, pool.datagram_mut(translated)) {
            return Entry::Bound(translated);
        }
        pool.release(translated);
        Entry::Lost
    }

    /// The same ahead of its time. False if it will be lost.
    pub(super) fn foresee(&mut self, port: PortId, frame: u32, datagram: &mut [u8]) -> bool {
        let bound = self.translate(port, datagram);
        self.foreseen.insert(frame, bound);
        bound
    }

    fn translate(&self, port: PortId, datagram: &mut [u8]) -> bool {
        let Some(nat) = self.all.get(&port) else { return true };
        let Some((_, public)) = places(datagram) else { return true };
        let private = nat.inward.get(&public);
        if let Some(private) = private {
            translation::set_place(datagram, Side::Destination, *private);
        }
        private.is_some()
    }
}

/// Source and destination of a UDP datagram.
fn places(datagram: &[u8]) -> Option<(Place, Place)> {
    let (from, to) = ip::addresses(datagram)?;
    let (source, destination) = translation::udp_ports(datagram)?;
    Some(((from, source), (to, destination)))
}

/// The addresses of a network, the first 65,536 of a larger one.
fn addresses(network: IpNet) -> Vec<IpAddr> {
    let bits = u32::from(network.max_prefix_len() - network.prefix_len()).min(16);
    let address = |number: u32| match network.network() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + number).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + u128::from(number)).into()),
    };
    (0..1 << bits).map(address).collect()
}

impl Nat {
    /// How many changes are due until `at`, one at that instant included.
    fn due(&self, at: Timestamp) -> u64 {
        if at < self.first {
            return 0;
        }
        1 + self.every.map_or(0, |every| (at - self.first).as_nanos() / every.as_nanos())
    }

    /// Makes a change after those that came before.
    fn change(&mut self, changes: u64) {
        let mut stream = self.streams.stream(&format!("{}.{changes}", self.name));
        let count = self.addresses.len();
        self.taken = match self.taken {
            _ if count == 0 => None,
            Some(last) if count > 1 => Some((last + 1 + stream.below(count as u64 - 1) as usize) % count),
            _ => Some(stream.below(count as u64) as usize),
        };
        self.changes = changes;
        self.before.append(&mut self.outward);
        self.inward.clear();
    }

    /// The address that stands for a host's.
    fn address(&self, private: IpAddr) -> IpAddr {
        let own = self.taken.and_then(|taken| self.addresses.get(taken)).copied();
        own.filter(|own| own.is_ipv4() == private.is_ipv4()).unwrap_or(private)
    }

    /// The NAT's place of a host's, which is bound if it is not yet.
    fn bind(&mut self, now: Timestamp, private: Place) -> Place {
        let due = self.due(now);
        if due != self.changes {
            self.change(due);
        }
        if let Some(public) = self.outward.get(&private) {
            return *public;
        }
        let address = self.address(private.0);
        let before = self.before.get(&private).map(|own| own.1);
        let wanted = match before {
            None => private.1,
            Some(_) => {
                let name = format!("{}.{due}.{}.{}", self.name, private.0, private.1);
                FIRST_PORT + self.streams.stream(&name).below(PORTS) as u16
            }
        };
        // That port, or the next one that is free, and is not the one before the change.
        let ports = (wanted..=u16::MAX).chain(FIRST_PORT..wanted.max(FIRST_PORT));
        let mut free = ports.filter(|port| !self.inward.contains_key(&(address, *port)));
        let public = (address, free.find(|port| Some(*port) != before).unwrap_or(wanted));
        self.outward.insert(private, public);
        self.inward.insert(public, private);
        public
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: TimeDelta = TimeDelta::from_secs(1);

    fn nat(every: Option<TimeDelta>, network: Option<&str>) -> Nat {
        Nat {
            first: Timestamp::ZERO + SECOND,
            every,
            addresses: network.map_or(Vec::new(), |network| addresses(network.parse().unwrap())),
            streams: Streams::new(1),
            name: "nat".to_owned(),
            changes: 0,
            taken: None,
            outward: BTreeMap::new(),
            inward: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    fn place(text: &str) -> Place {
        let (address, port) = text.rsplit_once(':').unwrap();
        (address.parse().unwrap(), port.parse().unwrap())
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + TimeDelta::from_millis(millis)
    }

    #[test]
    fn a_binding_is_the_same_until_it_changes_and_then_the_earlier_one_is_void() {
        let (mut nat, own) = (nat(Some(SECOND), None), place("10.0.0.1:5000"));
        assert_eq!(nat.bind(at(999), own), own);
        let mut last = own;
        for second in 1..20 {
            let public = nat.bind(at(second * 1000), own);
            assert_eq!(public, nat.bind(at(second * 1000 + 999), own));
            assert!(public.0 == own.0 && public.1 >= FIRST_PORT && public != last);
            assert_eq!(nat.inward, BTreeMap::from([(public, own)]));
            last = public;
        }
    }

    #[test]
    fn addresses_change_with_ports_and_stay_in_the_network() {
        let mut nat = nat(Some(SECOND), Some("192.0.2.128/30"));
        let (a, b) = (place("10.0.0.1:5000"), place("10.0.0.2:5000"));
        let mut last = None;
        // Also if nothing was sent between some changes.
        for second in (1..50).step_by(3).chain(50..60) {
            let [first, other] = [a, b].map(|own| nat.bind(at(second * 1000), own));
            assert_eq!(first.0, other.0);
            assert!(first != other && nat.addresses.contains(&first.0));
            assert_ne!(last, Some(first.0));
            last = Some(first.0);
        }
        // IPv6 has no addresses here: only its ports change.
        let six = ("2001:db8::1".parse().unwrap(), 5000);
        assert_eq!(nat.bind(at(60_000), six).0, six.0);
    }

    #[test]
    fn two_hosts_with_one_port_do_not_share_a_binding_and_one_change_is_one() {
        let mut nat = nat(None, Some("192.0.2.0/24"));
        assert_eq!(nat.bind(at(0), place("10.0.0.1:99")), place("10.0.0.1:99"));
        let first = nat.bind(at(9000), place("10.0.0.1:99"));
        let other = nat.bind(at(9000), place("10.0.0.2:99"));
        assert_eq!(other, (first.0, 99));
        let third = nat.bind(at(9000), place("10.0.0.3:99"));
        assert!(third.0 == first.0 && third.1 != 99 && third.1 != first.1);
        assert_eq!(nat.bind(at(90_000), place("10.0.0.1:99")), first);
    }
}
