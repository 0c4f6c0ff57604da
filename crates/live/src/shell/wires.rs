//! The namespaces and interfaces of a shell.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::address::Block;
use crate::host::{allow_pings, keep_quiet};
use crate::nat::{self, Reach, Way};
use crate::netlink::{Netlink, NetlinkError, VethEnd};
use crate::netns::NetNs;
use crate::offload;
use crate::port::af_packet::{AfPacketConfig, AfPacketPort, Mac};
use crate::registry::Entry;
use crate::signals::Signals;

use super::outward::Outward;
use super::{ShellConfig, ShellError};

/// The interface inside.
const INSIDE: &str = "warp0";
/// The emulator's ends, in its own namespace.
const NEAR: [&str; 2] = ["inside", "outside"];

/// A locally administered MAC address: `wl`, the block's number, and which end.
fn mac(block: &Block, end: u8) -> Mac {
    [0x02, b'w', b'l', 0, block.number() as u8, end]
}

/// How far packets from a shell can travel, and why no further, or what may stop them. Empty if nothing does.
pub(super) type Opened = (Reach, String);

/// The namespaces and interfaces that a shell's packets cross.
#[derive(Debug)]
pub(super) struct Wires {
    pub(super) block: Block,
    /// The command's namespace.
    pub(super) inside: NetNs,
    /// The namespace of the emulator's ends; no process runs there.
    middle: NetNs,
    outside_name: String,
    mtu: u32,
    /// The state of offloads, for the audit.
    pub(super) offloads: String,
}

impl Wires {
    /// Makes the namespaces and connects them. `parent` is the block of the surrounding shell; `own_base` says that
    /// this process made the namespace outside itself. Interfaces made outside are recorded in `entry`.
    pub(super) fn lay(
        parent: Option<Block>,
        own_base: bool,
        mtu: u32,
        entry: &mut Entry,
    ) -> Result<Self, ShellError> {
        let system = |what| move |source| ShellError::System { what, source };
        let base = NetNs::current()?;
        let (inside, middle) = (NetNs::create()?, NetNs::create()?);
        entry.session.base = base.inode().map_err(system("identify network namespaces"))?;
        // The base, too: the command of --base runs there.
        entry.session.namespaces =
            vec![inside.inode().map_err(system("identify network namespaces"))?, entry.session.base];
        let mut netlink = Netlink::open()?;
        if own_base {
            netlink.set_up("lo", true)?;
        }
        let (block, outside_name) = claim(&mut netlink, parent, &middle, mtu)?;
        entry.session.interfaces.push(outside_name.clone());
        entry.save();
        keep_quiet(&outside_name);
        netlink.set_up(&outside_name, false)?;
        addresses(&mut netlink, &outside_name, block.outside())?;
        for (network, len) in block.networks() {
            unless_no_ipv6(network.is_ipv6(), netlink.add_route(network, len, &outside_name, None))?;
        }
        let mut offloads = vec![describe(&outside_name, offload::switch_off(&outside_name))];
        middle.within(|| -> Result<(), NetlinkError> {
            let mut netlink = Netlink::open()?;
            let far = VethEnd { name: INSIDE, mac: mac(&block, 2), namespace: Some(inside.fd()) };
            let near = VethEnd { name: NEAR[0], mac: mac(&block, 3), namespace: None };
            netlink.add_veth(&near, &far, mtu)?;
            NEAR.iter().try_for_each(|name| {
                keep_quiet(name);
                netlink.set_up(name, false)
            })
        })??;
        offloads.push(inside.within(|| -> Result<String, NetlinkError> {
            let mut netlink = Netlink::open()?;
            netlink.set_up("lo", true)?;
            keep_quiet(INSIDE);
            netlink.set_up(INSIDE, false)?;
            addresses(&mut netlink, INSIDE, block.inside())?;
            for gateway in block.outside() {
                let all = if gateway.is_ipv6() {
                    Ipv6Addr::UNSPECIFIED.into()
                } else {
                    Ipv4Addr::UNSPECIFIED.into()
                };
                unless_no_ipv6(gateway.is_ipv6(), netlink.add_route(all, 0, INSIDE, Some(gateway)))?;
            }
            nat::forward();
            allow_pings();
            Ok(describe(INSIDE, offload::switch_off(INSIDE)))
        })??);
        Ok(Wires { block, inside, middle, outside_name, mtu, offloads: offloads.join("; ") })
    }

    /// Lets packets out of the namespace outside, the caller's, as far as possible. `nested`: it is the inside of another
    /// shell.
    pub(super) fn open_up(&self, nat: bool, nested: bool, entry: &mut Entry) -> Opened {
        if nested {
            return (Reach::World, String::new()); // as far as the shell that this one runs in gets
        }
        if !nat {
            return (Reach::Base, "address translation was not requested".to_owned());
        }
        // IPv4 only: a machine that forwards IPv6 stops listening to its router's advertisements.
        let networks = &self.block.networks()[..1];
        match translate(&Way { networks, interface: &self.outside_name, machine: None, own: false }, entry) {
            (Reach::World, _) => (Reach::World, nat::obstacle(&self.outside_name).unwrap_or_default()),
            base @ (Reach::Base, _) => base,
        }
    }

    /// The same for an ordinary user's namespace outside, which this process made itself. If `config` has a server for it, its address means that
    /// one, instead of the machine's.
    pub(super) fn open_outward(
        &self,
        outward: Result<&mut Outward, &mut io::Error>,
        config: &ShellConfig,
        signals: &Signals,
        entry: &mut Entry,
    ) -> Opened {
        let machine = match outward {
            Ok(outward) => outward.connect(config.warn, signals).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err("an ordinary user's shell reaches the machine's network through pasta, which is not installed (package \
                     passt); start servers in the namespace outside with --base, or run as root"
                    .to_owned())
            }
            Err(error) => Err(error.to_string()),
        };
        let machine = match machine {
            Ok(machine) => machine,
            Err(note) => return (Reach::Base, note),
        };
        nat::forward();
        let near = self.block.outside().into_iter().find_map(|address| match address {
            IpAddr::V4(address) if config.base_command.is_none() => Some(address),
            _ => None,
        });
        let way = Way {
            networks: &self.block.networks(),
            interface: &self.outside_name,
            machine: near.zip(machine),
            own: true,
        };
        translate(&way, entry)
    }

    /// The emulator's ports: inside, outside.
    pub(super) fn ports(&self) -> Result<[AfPacketPort; 2], ShellError> {
        let (block, mtu) = (self.block, self.mtu);
        let open = |end: usize, far: u8| {
            let config = AfPacketConfig {
                mtu,
                ..AfPacketConfig::new(NEAR[end], mac(&block, 3 + end as u8), mac(&block, far))
            };
            AfPacketPort::open(&config)
        };
        Ok(self.middle.within(|| Ok::<_, crate::port::PortError>([open(0, 2)?, open(1, 1)?]))??)
    }
}

fn translate(way: &Way<'_>, entry: &mut Entry) -> Opened {
    match nat::masquerade(entry, way) {
        Ok(()) => (Reach::World, String::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (
            Reach::Base,
            "address translation needs nft (package nftables), which is not installed".to_owned(),
        ),
        Err(error) => (Reach::Base, format!("nft: {error}")),
    }
}

/// Makes the outside pair under the first free name, which claims the block.
fn claim(
    netlink: &mut Netlink,
    parent: Option<Block>,
    middle: &NetNs,
    mtu: u32,
) -> Result<(Block, String), ShellError> {
    let choices = Block::choices(parent);
    if choices.is_empty() {
        return Err(ShellError::Full("four shells are nested already"));
    }
    for block in choices {
        let name = block.interface();
        let near = VethEnd { name: NEAR[1], mac: mac(&block, 4), namespace: Some(middle.fd()) };
        let far = VethEnd { name: &name, mac: mac(&block, 1), namespace: None };
        match netlink.add_veth(&far, &near, mtu) {
            Ok(()) => return Ok((block, name)),
            Err(error) if error.is_taken() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(ShellError::Full("all are taken"))
}

fn addresses(netlink: &mut Netlink, name: &str, both: [IpAddr; 2]) -> Result<(), NetlinkError> {
    let [v4, v6] = both;
    netlink.add_address(name, v4, 30)?;
    unless_no_ipv6(true, netlink.add_address(name, v6, 126))
}

/// Ignores an IPv6 error on a system without IPv6.
fn unless_no_ipv6(is_ipv6: bool, result: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    if is_ipv6 { Ok(()) } else { result }
}

fn describe(name: &str, result: io::Result<Vec<&'static str>>) -> String {
    match result {
        Ok(left) if left.is_empty() => format!("{name} off"),
        Ok(left) => format!("{name} off except {}", left.join(", ")),
        Err(error) => format!("{name} unchanged ({error})"),
    }
}
