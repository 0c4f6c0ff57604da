//! Hosts that are namespaces: one each, joined to the emulator's own namespace by a veth pair with a port at its near end.
//!
//! ```text
//!   a host's namespace            the emulator's
//!   eth0  ADDRESS/32  ------ veth ------ HOST  <- port
//! ```
//!
//! A host resolves no MAC addresses (`NOARP`) and sends everything to its interface: the emulated network does the
//! rest. The namespaces have no names; they end with the descriptors held here and the last process in them.

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

/// Fewest frames that a host's ring holds.
const LEAST_RING: usize = 2048;

/// Settings of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its name.
    pub name: String,
    /// Its IPv4 address.
    pub v4: Ipv4Addr,
    /// Its IPv6 address.
    pub v6: Ipv6Addr,
    /// Largest datagram of its interface, in bytes.
    pub mtu: u32,
}

/// Why hosts could not be made.
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
    /// The system did not identify a namespace.
    #[error("cannot identify network namespaces: {0}")]
    System(std::io::Error),
}

/// Lets this process make namespaces and interfaces: puts an ordinary user's process into a user namespace, for good. To be called before the
/// process has a second thread. Returns whether it did so.
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

/// Ends every process on this process's hosts, for a process that is about to end without dropping them.
pub fn abandon() {
    let session = SESSION.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        registry::end_processes(&session);
    }
}

/// The hosts of a run. Dropping this value removes everything that they are made of.
#[derive(Debug)]
pub struct Hosts {
    /// The namespace of the emulator's ends; no process runs there.
    middle: NetNs,
    hosts: Vec<(HostConfig, NetNs)>,
    /// The state of offloads, for the audit.
    pub offloads: String,
    /// Last, so that nothing runs any more when it is removed.
    entry: Entry,
}

/// A locally administered MAC address: which host, and which end.
fn mac(host: usize, end: u8) -> Mac {
    let [.., a, b, c] = (host as u32).to_be_bytes();
    [0x02, b'w', end, a, b, c]
}

/// The name of the near end: the host's name, if an interface can have it.
fn near_name(host: usize, name: &str) -> String {
    let fits = name.len() <= 15 && name.is_ascii() && !["lo", "all", "default"].contains(&name);
    if fits { name.to_owned() } else { format!("host-{host}") }
}

impl Hosts {
    /// Makes the hosts; `what` describes their owner for users. First removes what killed runs left.
    ///
    /// # Errors
    /// If the system refuses. Nothing is left behind then.
    pub fn create(what: &str, configs: &[HostConfig]) -> Result<Self, HostError> {
        // Leftovers that cannot be removed are not in the way: namespaces have no names.
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
                Ok(some) => left.push(format!("{} off except {}", config.name, some.join(", "))),
                Err(error) => left.push(format!("{} unchanged ({error})", config.name)),
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
                // Rings of many hosts share the memory: two hosts have full ones.
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

    /// The session's name, which marks its processes.
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
    // Works without IPv6, too.
    let v6: IpAddr = config.v6.into();
    if netlink.add_address(INTERFACE, v6, 128).is_ok() {
        let _ = netlink.add_route(Ipv6Addr::UNSPECIFIED.into(), 0, INTERFACE, None);
    }
    allow_pings();
    Ok(offload::switch_off(INTERFACE))
}

/// Keeps the kernel from sending packets of its own on an interface that is not up yet. Without a link-local address there
/// are no router solicitations and no multicast reports, which would count in a link's counters and be among the packets of a
/// loss of every n-th. A kernel without IPv6 has neither.
pub(crate) fn keep_quiet(interface: &str) {
    for (setting, value) in [("addr_gen_mode", "1"), ("router_solicitations", "0"), ("accept_dad", "0")] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{interface}/{setting}"), value);
    }
}

/// Lets programs in this network namespace send pings without capabilities (icmp(7)): all groups, or if not all are mapped, as in an
/// ordinary user's namespace, this process's group. If the kernel refuses both, only programs with capabilities can.
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
