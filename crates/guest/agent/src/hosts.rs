//! Hosts: network namespaces. Most have one interface, which is a VLAN of the guest's first network device, or a network card of its own; those
//! that forward have a network device for each of their links.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;

use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns, unshare};
use warpline_agent::{HostOrder, Order};

use crate::failure::{Doing, Failure};
use crate::modules;
use crate::netlink::Netlink;

/// The network device.
pub(crate) const DEVICE: &str = "vec0";
/// A host's interface.
const INTERFACE: &str = "eth0";
/// Sizes of TCP buffers in bytes (least, first, most) as on an ordinary machine; a guest's kernel would derive them from its
/// small memory. A host's own sysctl settings are applied after these.
const BUFFERS: [(&str, &str); 2] =
    [("net/ipv4/tcp_rmem", "4096 131072 6291456"), ("net/ipv4/tcp_wmem", "4096 16384 4194304")];
/// Settings of the whole kernel that allow a thousand hosts: TCP's memory in pages, and neighbours.
const GLOBAL: [(&str, &str); 4] = [
    ("net/ipv4/tcp_mem", "4194304 4194304 4194304"),
    ("net/ipv4/neigh/default/gc_thresh1", "65536"),
    ("net/ipv4/neigh/default/gc_thresh2", "131072"),
    ("net/ipv4/neigh/default/gc_thresh3", "262144"),
];

/// Smallest MTU in bytes of an interface with IPv6 (RFC 8200, section 5). The kernel has no IPv6 on others, nor settings of it.
const LEAST_MTU_V6: u32 = 1280;

/// The hosts of a guest, as namespaces to enter.
#[derive(Debug)]
pub(crate) struct Hosts {
    namespaces: Vec<File>,
}

fn set(path: &str, value: &str) -> Result<(), Failure> {
    let file = format!("/proc/sys/{path}");
    fs::write(&file, value).doing(|| format!("set sysctl {} to \"{value}\"", path.replace('/', ".")))
}

fn namespace() -> Result<File, Failure> {
    File::open("/proc/thread-self/ns/net").doing(|| "open a network namespace".to_owned())
}

/// Moves this thread into a namespace.
pub(crate) fn enter(namespace: &File) -> Result<(), Failure> {
    setns(namespace, CloneFlags::CLONE_NEWNET).doing(|| "enter a network namespace".to_owned())
}

impl Hosts {
    /// Creates all hosts of an order. The calling thread stays in its namespace.
    pub(crate) fn create(order: &Order) -> Result<Self, Failure> {
        let home = namespace()?;
        let mut hosts = Hosts { namespaces: Vec::new() };
        for (path, value) in GLOBAL {
            set(path, value)?;
        }
        let device = if_nametoindex(DEVICE).doing(|| format!("find the network device {DEVICE}"))?;
        let mut outer = Netlink::open()?;
        outer.set_up(device, false)?;
        load_congestion(order)?;
        for (number, host) in order.hosts.iter().enumerate() {
            unshare(CloneFlags::CLONE_NEWNET).doing(|| "make a network namespace".to_owned())?;
            let inner = namespace()?;
            let card = order.card(number);
            if host.interfaces.is_empty() && card.is_none() {
                outer.add_vlan(INTERFACE, device, host.vlan, host.mac, host.mtu, inner.as_raw_fd())?;
            }
            enter(&home)?;
            if let Some(card) = card {
                let (_, index) = find(card, INTERFACE)?;
                outer.move_interface(index, INTERFACE, host.mtu, inner.as_raw_fd())?;
            }
            for own in &host.interfaces {
                let (device, index) = find(own.device, &own.name)?;
                limit_driver(&device)?;
                outer.move_interface(index, &own.name, own.mtu, inner.as_raw_fd())?;
            }
            enter(&inner)?;
            configure(host).map_err(|failure| Failure::new(format!("host {}: {failure}", host.name)))?;
            hosts.namespaces.push(inner);
        }
        enter(&home)?;
        Ok(hosts)
    }

    /// The namespace of a host.
    pub(crate) fn namespace(&self, host: u32) -> Result<&File, Failure> {
        self.namespaces
            .get(host as usize)
            .ok_or_else(|| Failure::new(format!("there is no host number {host}")))
    }
}

/// The name and the index of the network device with this number, which becomes `interface`. It is still in this thread's namespace.
fn find(number: u32, interface: &str) -> Result<(String, u32), Failure> {
    let device = format!("vec{number}");
    let index = if_nametoindex(device.as_str())
        .doing(|| format!("find the network device {device} for the interface {interface}"))?;
    Ok((device, index))
}

/// Lets at most one packet wait in the driver of a network device of this namespace, so that the others wait in the queueing discipline above it.
/// By themselves, the driver's byte queue limits settle at three full packets.
fn limit_driver(device: &str) -> Result<(), Failure> {
    let file = format!("/sys/class/net/{device}/queues/tx-0/byte_queue_limits/limit_max");
    // The driver stops the queue when more bytes than this wait: with the first packet.
    fs::write(&file, "1").doing(|| format!("write {file}"))
}

/// Sets up the host whose namespace this thread is in.
fn configure(host: &HostOrder) -> Result<(), Failure> {
    let mut netlink = Netlink::open()?;
    for (path, value) in BUFFERS {
        set(path, value)?;
    }
    netlink.set_up(1, true)?; // the loopback device is number 1 of every namespace
    if host.interfaces.is_empty() {
        let index = set_up(&mut netlink, INTERFACE, host, host.mtu)?;
        for address in addresses(host, host.mtu) {
            netlink.add_default_route(index, address)?;
        }
    } else {
        forward(&mut netlink, host)?;
    }
    if let Some(cc) = &host.cc {
        set("net/ipv4/tcp_congestion_control", cc)?;
    }
    for (name, value) in &host.sysctl {
        // A dot separates, except within an interface's name, for which sysctl(8) uses slashes.
        let path = if name.contains('/') { name.clone() } else { name.replace('.', "/") };
        set(&path, value)?;
    }
    Ok(())
}

/// The IPv6 address of a host's interface with this MTU, if it can have one.
fn v6(host: &HostOrder, mtu: u32) -> Option<Ipv6Addr> {
    host.v6.filter(|_| mtu >= LEAST_MTU_V6)
}

/// The addresses of a host's interface with this MTU.
fn addresses(host: &HostOrder, mtu: u32) -> impl Iterator<Item = IpAddr> {
    [Some(IpAddr::V4(host.v4)), v6(host, mtu).map(IpAddr::V6)].into_iter().flatten()
}

/// Brings an interface with this MTU up, with the host's addresses. Returns its number.
fn set_up(netlink: &mut Netlink, interface: &str, host: &HostOrder, mtu: u32) -> Result<u32, Failure> {
    let index = if_nametoindex(interface).doing(|| format!("find {interface}"))?;
    if v6(host, mtu).is_some() {
        // Only programs cause traffic.
        set(&format!("net/ipv6/conf/{interface}/addr_gen_mode"), "1")?;
        set(&format!("net/ipv6/conf/{interface}/router_solicitations"), "0")?;
    }
    netlink.set_up(index, false)?;
    for address in addresses(host, mtu) {
        netlink.add_address(index, address)?;
    }
    Ok(index)
}

/// Sets up a host that forwards: its interfaces have the same addresses (as unnumbered ones have on a router), and each is the route to some of
/// the other hosts.
fn forward(netlink: &mut Netlink, host: &HostOrder) -> Result<(), Failure> {
    set("net/ipv4/ip_forward", "1")?;
    if host.v6.is_some() {
        set("net/ipv6/conf/all/forwarding", "1")?;
    }
    for own in &host.interfaces {
        let index = set_up(netlink, &own.name, host, own.mtu)?;
        for to in own.routes.iter().filter(|to| to.is_ipv4() || v6(host, own.mtu).is_some()) {
            netlink.add_route(index, *to)?;
        }
    }
    Ok(())
}

/// Loads the congestion controls that hosts and flows name, and allows every host to use any of them.
fn load_congestion(order: &Order) -> Result<(), Failure> {
    let by_host = order.hosts.iter().filter_map(|host| host.cc.as_deref());
    let by_flow = order.flows.iter().filter_map(|flow| flow.cc.as_deref());
    let names: BTreeSet<&str> = by_host.chain(by_flow).collect();
    for module in order.congestion.iter().filter(|module| names.contains(module.name.as_str())) {
        for path in &module.paths {
            modules::load(path)?;
        }
    }
    // Only from the first namespace; a congestion control that is not on the list cannot be the default of another namespace.
    let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let available = fs::read_to_string(available).doing(|| format!("read {available}"))?;
    set("net/ipv4/tcp_allowed_congestion_control", available.trim())
}
