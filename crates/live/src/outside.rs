//! Machines of others, on interfaces of this machine: what an interface must be like, and what is changed of it while it is used.
//!
//! The interface stays where it is, and keeps its addresses. The emulator is one more station on its segment, with a MAC address of its own
//! ([`crate::port`]): so this machine's kernel takes no notice of what is for the emulator, and the emulator takes none of what is for the kernel. Only
//! one thing is changed: the interface, and those on which it is, no longer merge packets that they have received, because a merged one has one arrival
//! time for all. The registry knows what it was before, and sets it back, also after a kill.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use warpline_core::spelling::nearest;

use crate::netlink::{Interface, Netlink, NetlinkError};
use crate::netns::{NetNs, NetNsError};
use crate::offload::Merging;
use crate::port::af_packet::{AfPacketConfig, AfPacketPort, Far, Mac};
use crate::port::{PortError, SegmentConfig};
use crate::registry::{self, Entry, Session, Setting};

/// A host of the emulated network that is outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutsideConfig {
    /// The host's name.
    pub host: String,
    /// The interface behind which it is.
    pub device: String,
    /// Largest datagram that the emulated network sends it, in bytes.
    pub mtu: u32,
    /// Whether an interface is used although that may disturb this machine.
    pub force: bool,
    /// The segment. Its MAC address is filled in.
    pub segment: SegmentConfig,
}

impl OutsideConfig {
    /// The interface with its VLAN, as the registry names what is used.
    fn used(&self) -> String {
        match self.segment.vlan {
            Some(number) => format!("{}.{number}", self.device),
            None => self.device.clone(),
        }
    }
}

/// The interface that may be meant, as the end of a sentence.
fn meant(device: &str, known: &[String]) -> String {
    let near = nearest(device, known.iter().map(String::as_str));
    near.map_or_else(String::new, |name| format!("; did you mean {name}?"))
}

/// Why an interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutsideError {
    /// There is none of this name.
    #[error("there is no interface {device} in this network namespace; there are: {}{}", known.join(", "), meant(device, known))]
    NoDevice {
        /// The name.
        device: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It is down.
    #[error("interface {0} is down; bring it up: ip link set {0} up")]
    Down(String),
    /// Its frames have no Ethernet header.
    #[error(
        "interface {0} is no Ethernet interface, and machines outside are found by their MAC addresses; use an Ethernet interface, a \
         VLAN or a veth"
    )]
    NoEthernet(String),
    /// Its MTU is too small.
    #[error(
        "interface {device} carries datagrams of up to {mtu} bytes, and the links of this host ones of {needed}; give them mtu = \
         \"{mtu}B\", or raise the interface's (ip link set {device} mtu {needed})"
    )]
    Narrow {
        /// The interface.
        device: String,
        /// Its MTU in bytes.
        mtu: u32,
        /// The MTU of the host's links.
        needed: u32,
    },
    /// It could be used, but that may disturb this machine.
    #[error(
        "interface {device} {why}; use another interface, or {forced} if you know that this does no harm"
    )]
    Precarious {
        /// The interface.
        device: String,
        /// What is the matter.
        why: String,
        /// How to use it nevertheless.
        forced: &'static str,
    },
    /// Another session uses it.
    #[error("interface {device} is in use by {by}; wait until that has ended, or end it")]
    InUse {
        /// The interface, with its VLAN.
        device: String,
        /// The session.
        by: String,
    },
    /// The interfaces of a bridge differ.
    #[error(
        "interface {} carries datagrams of up to {} bytes and {} ones of {}; a bridge needs the same at both (ip link set {0} mtu {3})",
        first.0, first.1, second.0, second.1
    )]
    Unequal {
        /// One with its MTU in bytes.
        first: (String, u32),
        /// The other.
        second: (String, u32),
    },
    /// The system does not say what there is.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The system did not identify this network namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
}

/// What this machine has in its network namespace.
#[derive(Debug, Default)]
struct Ground {
    interfaces: Vec<Interface>,
    addresses: Vec<IpAddr>,
    default_routes: Vec<u32>,
    proxies: BTreeSet<String>,
}

impl Ground {
    fn look() -> Result<Self, NetlinkError> {
        let mut netlink = Netlink::open()?;
        let interfaces = netlink.interfaces()?;
        let proxies = interfaces.iter().map(|interface| interface.name.clone()).chain(["all".to_owned()]);
        let proxy = |name: &String| {
            let path = format!("/proc/sys/net/ipv4/conf/{name}/proxy_arp");
            std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
        };
        Ok(Ground {
            proxies: proxies.filter(proxy).collect(),
            addresses: netlink.addresses()?,
            default_routes: netlink.default_routes()?,
            interfaces,
        })
    }

    /// The interface of this name, which must be an Ethernet interface that is up.
    fn find(&self, device: &str) -> Result<(&Interface, Mac), OutsideError> {
        let found = self.interfaces.iter().find(|interface| interface.name == device);
        let interface = found.ok_or_else(|| OutsideError::NoDevice {
            device: device.to_owned(),
            known: self.interfaces.iter().map(|interface| interface.name.clone()).collect(),
        })?;
        let mac = interface.mac.filter(|_| !interface.is_loopback);
        let mac = mac.ok_or_else(|| OutsideError::NoEthernet(device.to_owned()))?;
        if interface.is_up { Ok((interface, mac)) } else { Err(OutsideError::Down(device.to_owned())) }
    }

    /// Whether an interface carries a default route of this machine: itself, or the bridge, bond or VLAN that is on it.
    fn carries_default_route(&self, index: u32) -> bool {
        let mut seen = BTreeSet::from([index]);
        let mut next = vec![index];
        while let Some(index) = next.pop() {
            if self.default_routes.contains(&index) {
                return true;
            }
            let above = self.interfaces.iter().filter(|other| {
                let part_of = self
                    .interfaces
                    .iter()
                    .any(|own| own.index == index && own.controller == Some(other.index));
                part_of || other.below == Some(index)
            });
            next.extend(
                above.map(|other| other.index).filter(|other| seen.insert(*other)).collect::<Vec<_>>(),
            );
        }
        false
    }

    /// Why this machine may be disturbed if the interface is used.
    fn risk(&self, interface: &Interface) -> Option<String> {
        if self.carries_default_route(interface.index) {
            return Some(
                "carries the default route of this machine, whose own packets would share it with the machines outside".to_owned(),
            );
        }
        let controller = interface.controller?;
        let name = self.interfaces.iter().find(|other| other.index == controller).map(|other| &other.name);
        Some(format!(
            "is a part of {}, which forwards the same packets",
            name.map_or("a bridge", |name| name)
        ))
    }

    /// Why this machine's kernel would answer, too, for what the emulator answers for.
    fn rivalry(&self, config: &OutsideConfig) -> Option<String> {
        if let Some(name) =
            [config.device.as_str(), "all"].into_iter().find(|name| self.proxies.contains(*name))
        {
            return Some(format!(
                "has a kernel that answers for other machines' addresses, as the emulator does (sysctl net.ipv4.conf.{name}.proxy_arp)"
            ));
        }
        let segment = &config.segment;
        let singles = |networks: &[IpNet]| -> BTreeSet<IpAddr> {
            networks.iter().filter(|network| is_single(network)).map(IpNet::addr).collect()
        };
        let own = |of: &dyn Fn(&IpAddr) -> bool| self.addresses.iter().find(|own| of(own));
        let (outside, elsewhere) = (singles(&segment.machines), singles(&segment.elsewhere));
        if let Some(own) = own(&|own| outside.contains(own)) {
            return Some(format!(
                "is on the machine that has the address {own} itself, and the `address` of a host is that of the machine behind the interface"
            ));
        }
        let own = own(&|own| elsewhere.contains(own) || segment.gateways.contains(own))?;
        Some(format!("is on a machine that has the address {own} itself, and would answer for it"))
    }

    /// The interface of this name, and those of this network namespace on which it is: a VLAN's card merges what the VLAN receives.
    fn down_from<'a>(&'a self, device: &'a str) -> Vec<&'a str> {
        let mut chain = vec![device];
        let mut at = self.interfaces.iter().find(|interface| interface.name == device);
        while let Some(below) = at.and_then(|interface| interface.below) {
            at = self.interfaces.iter().find(|interface| interface.index == below);
            match at {
                Some(interface) if !chain.contains(&interface.name.as_str()) => chain.push(&interface.name),
                _ => break,
            }
        }
        chain
    }
}

fn is_single(network: &IpNet) -> bool {
    network.prefix_len() == network.max_prefix_len()
}

/// The MAC address of the emulator behind an interface: locally administered (IEEE 802), and another one on every interface.
fn station(interface: Mac) -> Mac {
    let [a, b, c, d, e, f] = interface;
    [a & !1 | 2, b ^ b'w', c, d, e, f]
}

/// The sessions of this process that use interfaces now.
static SESSIONS: Mutex<Vec<Session>> = Mutex::new(Vec::new());

fn sessions() -> MutexGuard<'static, Vec<Session>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets back what was changed of interfaces, for a process that is about to end without dropping them.
pub fn abandon() {
    for session in sessions().drain(..) {
        registry::leave(&session, registry::directory().ok().as_ref());
    }
}

/// Interfaces in use. Dropping this value sets back what was changed of them.
#[derive(Debug)]
pub struct Outside {
    ports: Vec<AfPacketConfig>,
    /// What the interfaces still merge, for the audit.
    pub offloads: String,
    /// Last, so that nothing is set back before.
    entry: Entry,
}

impl Outside {
    /// Prepares the interfaces of hosts; `what` describes their owner for users. First sets back what killed runs have changed.
    ///
    /// # Errors
    /// If an interface cannot be used. Nothing is changed then.
    pub fn open(what: &str, configs: &[OutsideConfig]) -> Result<Self, OutsideError> {
        let _ = registry::clean(&mut |_| {});
        let ground = Ground::look()?;
        let mut ports = Vec::with_capacity(configs.len());
        for config in configs {
            let (interface, mac) = ground.find(&config.device)?;
            let narrow = interface.mtu < config.mtu;
            let risk = ground.risk(interface).or_else(|| ground.rivalry(config)).filter(|_| !config.force);
            if let Some(why) = risk {
                let device = config.device.clone();
                return Err(OutsideError::Precarious { device, why, forced: "say force = true" });
            }
            if narrow {
                let (device, mtu, needed) = (config.device.clone(), interface.mtu, config.mtu);
                return Err(OutsideError::Narrow { device, mtu, needed });
            }
            let segment = SegmentConfig { mac: station(mac), ..config.segment.clone() };
            let port = AfPacketConfig::with(config.device.clone(), Far::Segment(segment));
            ports.push(AfPacketConfig { mtu: interface.mtu, ..port });
        }
        Outside::prepare(what, &ground, configs.iter().map(OutsideConfig::used).collect(), ports)
    }

    /// Prepares two interfaces whose segments become one. `force`: although that may disturb this machine.
    ///
    /// # Errors
    /// If one cannot be used. Nothing is changed then.
    pub fn bridge(what: &str, devices: &[String; 2], force: bool) -> Result<Self, OutsideError> {
        let _ = registry::clean(&mut |_| {});
        let ground = Ground::look()?;
        let [first, second] = devices.each_ref().map(|device| ground.find(device));
        let pair = [first?, second?];
        for (interface, _) in pair {
            if let Some(why) = ground.risk(interface).filter(|_| !force) {
                let device = interface.name.clone();
                return Err(OutsideError::Precarious { device, why, forced: "say --force" });
            }
        }
        let [first, second] = pair.map(|(interface, _)| (interface.name.clone(), interface.mtu));
        if first.1 != second.1 {
            return Err(OutsideError::Unequal { first, second });
        }
        let own = pair.map(|(_, mac)| mac);
        let ports = pair.map(|(interface, _)| AfPacketConfig {
            mtu: interface.mtu,
            ..AfPacketConfig::with(interface.name.clone(), Far::Bridge(own.to_vec()))
        });
        Outside::prepare(what, &ground, devices.to_vec(), ports.to_vec())
    }

    fn prepare(
        what: &str,
        ground: &Ground,
        used: Vec<String>,
        ports: Vec<AfPacketConfig>,
    ) -> Result<Self, OutsideError> {
        let mut entry = Entry::create(what);
        entry.session.base = NetNs::current()?.inode().map_err(NetNsError::Enter)?;
        entry.take(used).map_err(|(device, by)| OutsideError::InUse { device, by })?;
        let devices: BTreeSet<&str> =
            ports.iter().flat_map(|port| ground.down_from(&port.interface)).collect();
        let mut left = Vec::new();
        for &device in &devices {
            for merging in Merging::ALL {
                let setting = Setting::Merging(merging, device.to_owned());
                // An interface without the setting does not merge.
                if entry.session.before(&setting).is_ok_and(|before| before == "1")
                    && let Err(error) = entry.change(setting, "0")
                {
                    left.push(format!("{} of {device} stays on ({error})", merging.name()));
                }
            }
        }
        sessions().push(entry.session.clone());
        let offloads = match left.is_empty() {
            true => format!("nothing is merged on {}", devices.into_iter().collect::<Vec<_>>().join(", ")),
            false => left.join("; "),
        };
        Ok(Outside { ports, offloads, entry })
    }

    /// The session's name, which marks its processes.
    pub fn session(&self) -> &str {
        &self.entry.session.id
    }

    /// Largest datagram that the interfaces carry, in bytes.
    pub fn mtu(&self) -> u32 {
        self.ports.iter().map(|port| port.mtu).max().unwrap_or(0)
    }

    /// The emulator's ports, one for each host or interface in order.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn ports(&self) -> Result<Vec<AfPacketPort>, PortError> {
        self.ports.iter().map(AfPacketPort::open).collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        sessions().retain(|session| session.id != self.entry.session.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ground() -> Ground {
        let interface = |index: u32, name: &str, controller: Option<u32>, below: Option<u32>| Interface {
            index,
            name: name.to_owned(),
            mtu: 1500,
            mac: Some([0x52, 0x54, 0, 0, 0, index as u8]),
            is_up: true,
            is_loopback: name == "lo",
            controller,
            below,
        };
        Ground {
            interfaces: vec![
                interface(1, "lo", None, None),
                interface(2, "eth0", Some(5), None),
                interface(3, "eth1", None, None),
                interface(4, "eth1.7", None, Some(3)),
                interface(5, "br0", None, None),
                interface(6, "eth2", Some(7), None),
                interface(7, "br1", None, None),
            ],
            addresses: vec!["192.0.2.1".parse().unwrap()],
            default_routes: vec![5],
            proxies: BTreeSet::new(),
        }
    }

    #[test]
    fn a_default_route_is_carried_by_what_is_below_it() {
        let mut ground = ground();
        let carries =
            |ground: &Ground| (1..=7).filter(|i| ground.carries_default_route(*i)).collect::<Vec<_>>();
        assert_eq!(carries(&ground), [2, 5]);
        ground.default_routes = vec![4];
        assert_eq!(carries(&ground), [3, 4]);
        ground.default_routes = Vec::new();
        assert!(carries(&ground).is_empty());
    }

    #[test]
    fn the_card_of_a_vlan_merges_for_it() {
        let mut ground = ground();
        assert_eq!(ground.down_from("eth1.7"), ["eth1.7", "eth1"]);
        assert_eq!(ground.down_from("eth1"), ["eth1"]);
        // Two that name each other, as the ends of a veth in one namespace would.
        ground.interfaces[2].below = Some(4);
        assert_eq!(ground.down_from("eth1.7"), ["eth1.7", "eth1"]);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let mut ground = ground();
        ground.interfaces[3].is_up = false;
        let refused = |device: &str| ground.find(device).unwrap_err().to_string();
        assert!(
            refused("eth9").contains("there are: lo, eth0, eth1, eth1.7, br0, eth2, br1; did you mean eth")
        );
        assert!(refused("wlan7").ends_with("there are: lo, eth0, eth1, eth1.7, br0, eth2, br1"));
        assert!(refused("lo").contains("no Ethernet interface"));
        assert!(refused("eth1.7").contains("ip link set eth1.7 up"));
        let risk = |name: &str| ground.risk(ground.find(name).unwrap().0).unwrap_or_default();
        assert!(risk("eth0").contains("default route"));
        assert!(risk("eth2").contains("a part of br1"), "{}", risk("eth2"));
        assert_eq!(risk("eth1"), "");
    }

    #[test]
    fn a_machine_that_would_answer_for_the_same_address_is_noticed() {
        let mut ground = ground();
        let net = |text: &str| text.parse::<IpNet>().unwrap();
        let config = |elsewhere: &str, gateway: &str| OutsideConfig {
            host: "left".to_owned(),
            device: "eth1".to_owned(),
            mtu: 1500,
            force: false,
            segment: SegmentConfig {
                mac: [0; 6],
                vlan: Some(7),
                machines: Vec::new(),
                routes: Vec::new(),
                elsewhere: vec![net(elsewhere)],
                gateways: vec![gateway.parse().unwrap()],
            },
        };
        assert_eq!(config("10.0.0.3/32", "10.0.0.1").used(), "eth1.7");
        assert_eq!(ground.rivalry(&config("192.0.2.0/24", "10.0.0.1")), None);
        assert!(ground.rivalry(&config("192.0.2.1/32", "10.0.0.1")).unwrap().contains("192.0.2.1"));
        assert!(ground.rivalry(&config("10.0.0.3/32", "192.0.2.1")).is_some());
        let mut misread = config("10.0.0.3/32", "10.0.0.1");
        misread.segment.machines = vec![net("192.0.2.1/32")];
        assert!(ground.rivalry(&misread).unwrap().contains("behind the interface"));
        ground.proxies = BTreeSet::from(["eth1".to_owned()]);
        let why = ground.rivalry(&config("10.0.0.3/32", "10.0.0.1")).unwrap();
        assert!(why.contains("net.ipv4.conf.eth1.proxy_arp"), "{why}");
    }

    #[test]
    fn a_station_is_none_of_a_card_s() {
        let card = [0x52, 0x54, 0, 1, 2, 3];
        let own = station(card);
        assert_eq!((own[0] & 1, own[0] & 2), (0, 2));
        assert!(own != card && station([0, 1, 2, 3, 4, 5])[0] == 2);
    }
}
