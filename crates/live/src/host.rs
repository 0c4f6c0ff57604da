//! Hosts that are namespaces: one each, joined to the emulator's own namespace by a veth pair with a port at its near end.
//!
//! ```text
//!   a host's namespace            the emulator's
//!   eth0  ADDRESS/32  ------ veth ------ HOST  <- port
//! ```
//!
//! A host asks nobody for MAC addresses (`NOARP`) and sends everything to its interface: what is on the way is the emulated
//! network's business. The namespaces have no names; they end with the descriptors held here and the last process in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use crate::netlink::{Netlink, NetlinkError, VethEnd};
use crate::netns::{NetNs, NetNsError};
use crate::offload;
use crate::port::PortError;
use crate::port::af_packet::{AfPacketConfig, AfPacketPort, Mac, RING};
use crate::privilege::{self, UserNsError};
use crate::registry::{self, Entry, Session};

/// The interface in a host's namespace.
pub const INTERFACE: &str = "eth0";

/// Frames that a host's ring holds at the least.
const LEAST_RING: usize = 2048;

/// What a host is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
    /// Largest datagram that its interface takes, in bytes.
    pub mtu: u32,
}

/// Why hosts could not be had.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No user namespace.
    #[error(transparent)]
    User(#[from] UserNsError),
    /// No network namespace.
    #[error("host {host}: {source}")]
    NetNs {
        /// The host.
        host: String,
        /// Why not.
        source: NetNsError,
    },
    /// An interface could not be made.
    #[error("host {host}: {source}")]
    Netlink {
        /// The host.
        host: String,
        /// Why not.
        source: NetlinkError,
    },
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The system did not tell namespaces apart.
    #[error("cannot tell network namespaces apart: {0}")]
    System(std::io::Error),
}

/// Lets this process make namespaces and interfaces: an ordinary user's is put into a user namespace, for good. Called before the
/// process has a second thread. Returns whether that was done.
///
/// # Errors
/// If the system forbids it.
pub fn prepare_process() -> Result<bool, UserNsError> {
    if privilege::is_privileged() {
        return Ok(false);
    }
    privilege::enter_user_namespace().map(|()| true)
}

/// The session of this process, while it has one.
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// Ends every process on this process's hosts: for one that is about to end without dropping them.
pub fn abandon() {
    let session = SESSION.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        registry::end_processes(&session);
    }
}

/// The hosts of a run. What they are made of goes when this is dropped.
#[derive(Debug)]
pub struct Hosts {
    /// Where the emulator's ends are; nobody runs there.
    middle: NetNs,
    hosts: Vec<(HostConfig, NetNs)>,
    /// What was done about offloads, for the audit.
    pub offloads: String,
    /// Last, so that nothing runs any more when it is taken back.
    entry: Entry,
}

/// A locally administered MAC address: which host, and which end.
fn mac(host: usize, end: u8) -> Mac {
    let [.., a, b, c] = (host as u32).to_be_bytes();
    [0x02, b'w', end, a, b, c]
}

/// The name of the near end: the host's, where an interface can have it.
fn near_name(host: usize, name: &str) -> String {
    let fits = name.len() <= 15 && name.is_ascii() && !["lo", "all", "default"].contains(&name);
    if fits { name.to_owned() } else { format!("host-{host}") }
}

impl Hosts {
    /// Makes the hosts; `what` says for people whose they are. What killed runs left is removed first.
    ///
    /// # Errors
    /// If the system refuses. Nothing is left behind then.
    pub fn create(what: &str, configs: &[HostConfig]) -> Result<Self, HostError> {
        // What cannot be removed is not in the way: namespaces have no names.
        let _ = registry::clean(&mut |_| {});
        let mut entry = Entry::create(what);
        let own = |source| HostError::NetNs { host: "the emulator".to_owned(), source };
        entry.session.base = NetNs::current().map_err(own)?.inode().map_err(HostError::System)?;
        let middle = NetNs::create().map_err(own)?;
        let mut hosts = Vec::with_capacity(configs.len());
        let mut left = Vec::new();
        for (number, config) in configs.iter().enumerate() {
            let fail = |source| HostError::NetNs { host: config.name.clone(), source };
            let namespace = NetNs::create().map_err(fail)?;
            entry.session.namespaces.push(namespace.inode().map_err(HostError::System)?);
            let wired = middle.within(|| wire(number, config, &namespace)).map_err(fail)?;
            wired.map_err(|source| HostError::Netlink { host: config.name.clone(), source })?;
            let offloads = namespace.within(|| set_up(config)).map_err(fail)?;
            match offloads.map_err(|source| HostError::Netlink { host: config.name.clone(), source })? {
                Ok(none) if none.is_empty() => {}
                Ok(some) => left.push(format!("{} off but {}", config.name, some.join(", "))),
                Err(error) => left.push(format!("{} as they were ({error})", config.name)),
            }
            hosts.push((config.clone(), namespace));
        }
        entry.save();
        *SESSION.lock().unwrap_or_else(PoisonError::into_inner) = Some(entry.session.clone());
        let offloads = match (configs.is_empty(), left.is_empty()) {
            (true, _) => String::new(),
            (_, true) => "off on all hosts".to_owned(),
            _ => left.join("; "),
        };
        Ok(Hosts { middle, hosts, offloads, entry })
    }

    /// The emulator's ports, one for each host in order.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn ports(&self) -> Result<Vec<AfPacketPort>, HostError> {
        let open = || {
            let ports = self.hosts.iter().enumerate().map(|(number, (config, _))| {
                let name = near_name(number, &config.name);
                let port = AfPacketConfig::new(name, mac(number, 1), mac(number, 2));
                // Rings of many hosts share what is there: two have full ones.
                let ring = (2 * RING / self.hosts.len()).clamp(LEAST_RING, RING);
                AfPacketPort::open(&AfPacketConfig { mtu: config.mtu, ring, ..port })
            });
            ports.collect::<Result<Vec<_>, _>>()
        };
        let opened = self.middle.within(open);
        Ok(opened.map_err(|source| HostError::NetNs { host: "the emulator".to_owned(), source })??)
    }

    /// The namespace of a host.
    pub fn namespace(&self, host: usize) -> &NetNs {
        &self.hosts[host].1
    }

    /// The session's name: the mark of its processes.
    pub fn session(&self) -> &str {
        &self.entry.session.id
    }

    /// Ends every process that still runs on the hosts.
    pub fn end_processes(&self) {
        registry::end_processes(&self.entry.session);
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        self.end_processes();
        SESSION.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Makes the veth pair of a host; called in the emulator's namespace.
fn wire(number: usize, config: &HostConfig, namespace: &NetNs) -> Result<(), NetlinkError> {
    let mut netlink = Netlink::open()?;
    let name = near_name(number, &config.name);
    let near = VethEnd { name: &name, mac: mac(number, 1), namespace: None };
    let far = VethEnd { name: INTERFACE, mac: mac(number, 2), namespace: Some(namespace.fd()) };
    netlink.add_veth(&near, &far, config.mtu)?;
    keep_quiet(&name);
    netlink.set_up(&name, false)
}

/// Addresses, routes and settings; called in the host's namespace. Returns the offloads that stay on.
fn set_up(config: &HostConfig) -> Result<std::io::Result<Vec<&'static str>>, NetlinkError> {
    let mut netlink = Netlink::open()?;
    netlink.set_up("lo", true)?;
    keep_quiet(INTERFACE);
    netlink.set_up(INTERFACE, false)?;
    netlink.add_address(INTERFACE, config.v4.into(), 32)?;
    netlink.add_route(Ipv4Addr::UNSPECIFIED.into(), 0, INTERFACE, None)?;
    // A kernel without IPv6 does without.
    let v6: IpAddr = config.v6.into();
    if netlink.add_address(INTERFACE, v6, 128).is_ok() {
        let _ = netlink.add_route(Ipv6Addr::UNSPECIFIED.into(), 0, INTERFACE, None);
    }
    allow_pings();
    Ok(offload::switch_off(INTERFACE))
}

/// Keeps the kernel from sending what no program asked for on an interface that is not up yet: without a link-local address there
/// are no router solicitations and no multicast reports, which would be in a link's counters and take the places of packets in a
/// loss of every n-th. A kernel without IPv6 has neither.
pub(crate) fn keep_quiet(interface: &str) {
    for (setting, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_dad", "0")] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{setting}"), value);
    }
}

/// Lets programs in this network namespace send pings without capabilities (icmp(7)): all groups, or where not all are mapped, as in an
/// ordinary user's namespace, this process's. A kernel that refuses both leaves it to programs with capabilities.
pub(crate) fn allow_pings() {
    const RANGE: &str = "/proc/sys/net/ipv4/ping_group_range";
    let own = nix::unistd::getegid();
    let _ = std::fs::write(RANGE, "0 2147483647").or_else(|_| std::fs::write(RANGE, format!("{own} {own}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_called_after_their_hosts_where_they_can_be() {
        assert_eq!(near_name(3, "server"), "server");
        assert_eq!(near_name(3, "a-rather-long-name"), "host-3");
        assert_eq!(near_name(3, "default"), "host-3");
        assert_ne!(mac(1, 1), mac(1, 2));
        assert_ne!(mac(1, 1), mac(0x0100_0000 + 256, 1));
    }
}
