//! NATs in front of hosts that change their bindings at times (`rebind` of a host).
//!
//! Mapping and filtering do not depend on the other end (RFC 4787 sections 4.1 and 5), as in the scenario `rebind` of the QUIC interop runner's simulator. UDP
//! only: other datagrams, and fragments after the first, pass as they are.
//!
//! A change that is due takes effect with the next datagram from the host: so the other end hears of it while data flow, as it does in that simulator, where
//! datagrams under way get the new place, too.

use std::collections::BTreeMap;
use std::net::IpAddr;

use warpline_core::{Streams, TimeDelta, Timestamp};
use warpline_live::emulator::Gate;
use warpline_live::ip;
use warpline_live::port::PortId;
use warpline_live::translation::{self, Side};
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Rebind, Scenario};

/// The first port that a changed binding can have: below are those of services.
const FIRST_PORT: u16 = 1024;
/// How many ports there are from that one on.
const PORTS: u64 = u16::MAX as u64 + 1 - FIRST_PORT as u64;

/// Bindings of a NAT, at most: machines outside can send from any address.
const MOST_BINDINGS: usize = 8192;

/// An address and a port.
type Place = (IpAddr, u16);

/// The NATs, by the ports of the hosts that are behind them.
#[derive(Debug, Default)]
pub(in crate::run) struct Nats(BTreeMap<PortId, Nat>);

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

impl Nats {
    /// The NATs of a scenario. `nodes` are the nodes at the ports.
    pub(in crate::run) fn new(
        scenario: &Scenario,
        plan: &AddressPlan,
        nodes: impl Iterator<Item = u32>,
    ) -> Self {
        let behind = scenario.host.iter().filter_map(|host| {
            let rebind = host.endpoint.rebind()?;
            Some((plan.find(&host.name)?, (host.name.as_str(), rebind)))
        });
        let behind: BTreeMap<usize, (&str, &Rebind)> = behind.collect();
        let nat = |(port, node): (u32, u32)| {
            let (name, rebind) = *behind.get(&(node as usize))?;
            let nat = Nat {
                first: Timestamp::ZERO + rebind.first.0,
                every: rebind.every.map(|every| every.0),
                addresses: rebind.free(plan, node),
                streams: Streams::new(scenario.seed),
                name: format!("host.{name}.rebind"),
                changes: 0,
                taken: None,
                outward: BTreeMap::new(),
                inward: BTreeMap::new(),
                before: BTreeMap::new(),
            };
            Some((PortId(port), nat))
        };
        Nats((0..).zip(nodes).filter_map(nat).collect())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one in front of the host at a port.
    #[inline]
    pub(super) fn has(&self, port: PortId) -> bool {
        !self.0.is_empty() && self.0.contains_key(&port)
    }

    /// Gives a datagram from the host at `port` the source that it has behind the NAT. False if that has no room for another binding.
    pub(super) fn leave(&mut self, now: Timestamp, port: PortId, datagram: &mut [u8]) -> bool {
        let Some(nat) = self.0.get_mut(&port) else { return true };
        let Some((private, _)) = places(datagram) else { return true };
        let public = nat.bind(now, private);
        if let Some(public) = public {
            translation::set_place(datagram, Side::Source, public);
        }
        public.is_some()
    }

    /// A copy of a datagram for the host at `port`, with the destination that it has in front of the NAT. None if it is lost. The frame itself keeps the
    /// bytes that it had on the link, for records.
    pub(super) fn enter(&mut self, port: PortId, frame: u32, gate: &mut Gate) -> Option<u32> {
        let private = match places(gate.pool().datagram(frame)) {
            Some((_, public)) => Some(*self.0.get(&port)?.inward.get(&public)?),
            None => None,
        };
        let copy = gate.stand_in(frame)?;
        if let Some(private) = private {
            translation::set_place(gate.pool_mut().datagram_mut(copy), Side::Destination, private);
        }
        Some(copy)
    }
}

/// Source and destination of a UDP datagram.
fn places(datagram: &[u8]) -> Option<(Place, Place)> {
    let (from, to) = ip::addresses(datagram)?;
    let (source, destination) = translation::udp_ports(datagram)?;
    Some(((from, source), (to, destination)))
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
        self.before = std::mem::take(&mut self.outward);
        self.inward.clear();
    }

    /// The address that stands for a host's.
    fn address(&self, private: IpAddr) -> IpAddr {
        let own = self.taken.and_then(|taken| self.addresses.get(taken)).copied();
        own.filter(|own| own.is_ipv4() == private.is_ipv4()).unwrap_or(private)
    }

    /// The NAT's place of a host's, which is bound if it is not yet. None if there is no room for it.
    fn bind(&mut self, now: Timestamp, private: Place) -> Option<Place> {
        let due = self.due(now);
        if due != self.changes {
            self.change(due);
        }
        if let Some(public) = self.outward.get(&private) {
            return Some(*public);
        }
        if self.outward.len() >= MOST_BINDINGS {
            return None;
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
        let public = (address, free.find(|port| Some(*port) != before)?);
        self.outward.insert(private, public);
        self.inward.insert(public, private);
        Some(public)
    }
}

#[cfg(test)]
mod tests {
    use warpline_scenario::rebind::candidates;

    use super::*;

    const SECOND: TimeDelta = TimeDelta::from_secs(1);

    fn nat(every: Option<TimeDelta>, network: Option<&str>) -> Nat {
        Nat {
            first: Timestamp::ZERO + SECOND,
            every,
            addresses: network.iter().flat_map(|network| candidates(network.parse().unwrap())).collect(),
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
        assert_eq!(nat.bind(at(999), own), Some(own));
        let mut last = own;
        for second in 1..20 {
            let public = nat.bind(at(second * 1000), own).unwrap();
            assert_eq!(Some(public), nat.bind(at(second * 1000 + 999), own));
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
            let [first, other] = [a, b].map(|own| nat.bind(at(second * 1000), own).unwrap());
            assert_eq!(first.0, other.0);
            assert!(first != other && nat.addresses.contains(&first.0));
            assert_ne!(last, Some(first.0));
            last = Some(first.0);
        }
        // IPv6 has no addresses here: only its ports change.
        let six = ("2001:db8::1".parse().unwrap(), 5000);
        assert_eq!(nat.bind(at(60_000), six).unwrap().0, six.0);
    }

    #[test]
    fn two_hosts_with_one_port_do_not_share_a_binding_and_one_change_is_one() {
        let mut nat = nat(None, Some("192.0.2.0/24"));
        let mut bind = |millis, text| nat.bind(at(millis), place(text)).unwrap();
        assert_eq!(bind(0, "10.0.0.1:99"), place("10.0.0.1:99"));
        let first = bind(9000, "10.0.0.1:99");
        assert_eq!(bind(9000, "10.0.0.2:99"), (first.0, 99));
        let third = bind(9000, "10.0.0.3:99");
        assert!(third.0 == first.0 && third.1 != 99 && third.1 != first.1);
        assert_eq!(bind(90_000, "10.0.0.1:99"), first);
    }

    #[test]
    fn whoever_sends_from_everywhere_gets_no_more_than_the_room_there_is() {
        let mut nat = nat(Some(SECOND), None);
        let bound = (0..20_000u32).filter(|&number| {
            let own = (std::net::Ipv4Addr::from(0x0a00_0000 + number).into(), 99);
            nat.bind(at(0), own).is_some()
        });
        assert_eq!(bound.count(), MOST_BINDINGS);
        // After a change there is room again.
        assert!(nat.bind(at(1000), place("192.0.2.1:7")).is_some());
        assert!(nat.before.len() <= MOST_BINDINGS && nat.outward.len() == 1);
    }
}
