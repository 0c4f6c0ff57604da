//! Links, addresses and routes: the parts of rtnetlink(7) that the emulator needs, to make them and to see what is there.
//!
//! Everything is about the network namespace of the thread that opened the socket.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    AfSpecInet6, AfSpecUnspec, In6AddrGenMode, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags,
    LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::port::link::Mac;

/// Why a change of the network configuration failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}{}", hint(source))]
pub struct NetlinkError {
    what: String,
    source: io::Error,
}

impl NetlinkError {
    /// Whether it failed because the name is taken.
    pub fn is_taken(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (needs CAP_NET_ADMIN in the network namespace)",
        io::ErrorKind::AlreadyExists => {
            " (a run that was killed may have left it: warpline clean removes such leftovers)"
        }
        _ => "",
    }
}

/// One end of a veth pair.
#[derive(Clone, Debug)]
pub struct VethEnd<'a> {
    /// The interface's name, at most 15 characters.
    pub name: &'a str,
    /// Its MAC address.
    pub mac: Mac,
    /// The namespace to make it in; `None` for the socket's own.
    pub namespace: Option<BorrowedFd<'a>>,
}

/// An interface, as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Largest datagram in bytes.
    pub mtu: u32,
    /// Its MAC address, if it is an Ethernet interface.
    pub mac: Option<Mac>,
    /// Whether it is up, as `ip link set up` makes it.
    pub is_up: bool,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
    /// The bridge or bond that it is a part of.
    pub controller: Option<u32>,
    /// The interface that its packets leave by, if it is a VLAN or the like.
    pub below: Option<u32>,
}

impl Interface {
    fn read(message: &LinkMessage) -> Self {
        let flags = message.header.flags;
        let mut own = Interface {
            index: message.header.index,
            is_up: flags.contains(LinkFlags::Up),
            is_loopback: flags.contains(LinkFlags::Loopback),
            ..Interface::default()
        };
        let mut veth = false;
        for attribute in &message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => own.name.clone_from(name),
                LinkAttribute::Mtu(mtu) => own.mtu = *mtu,
                LinkAttribute::Address(mac) if message.header.link_layer_type == LinkLayerType::Ether => {
                    own.mac = mac.as_slice().try_into().ok();
                }
                LinkAttribute::Controller(index) => own.controller = Some(*index),
                LinkAttribute::Link(index) if *index != own.index => own.below = Some(*index),
                LinkAttribute::LinkInfo(info) => veth = info.contains(&LinkInfo::Kind(InfoKind::Veth)),
                _ => {}
            }
        }
        // For a veth this names its other end.
        own.below = own.below.filter(|_| !veth);
        own
    }
}

/// A connection to the kernel's network configuration.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens one for the network namespace of the calling thread.
    ///
    /// # Errors
    /// If the system has no netlink.
    pub fn open() -> Result<Self, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        match open() {
            Ok(socket) => Ok(Netlink { socket, sequence: 0 }),
            Err(source) => Err(NetlinkError { what: "open a netlink socket".to_owned(), source }),
        }
    }

    /// Sends a request and waits for the kernel's answer.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        what: impl FnOnce() -> String,
    ) -> Result<(), NetlinkError> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.exchange(&bytes).map_err(|source| NetlinkError { what: what(), source })
    }

    fn exchange(&mut self, request: &[u8]) -> io::Result<()> {
        self.socket.send(request, 0)?;
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let answer =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes).map_err(io::Error::other)?;
            if answer.header.sequence_number != self.sequence {
                continue;
            }
            return match answer.payload {
                NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
                _ => Ok(()),
            };
        }
    }

    /// Requests all objects of a kind.
    fn list(
        &mut self,
        message: RouteNetlinkMessage,
        what: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.collect(&bytes).map_err(|source| NetlinkError { what: format!("list {what}"), source })
    }

    fn collect(&mut self, request: &[u8]) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.socket.send(request, 0)?;
        let mut all = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let answer =
                    NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(io::Error::other)?;
                // Each begins at a multiple of four bytes.
                let len = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(len.max(4)..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => all.push(message),
                    _ => {}
                }
            }
        }
    }

    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// If the system does not list them.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, NetlinkError> {
        let all = self.list(RouteNetlinkMessage::GetLink(LinkMessage::default()), "interfaces")?;
        let read = |message: &RouteNetlinkMessage| match message {
            RouteNetlinkMessage::NewLink(link) => Some(Interface::read(link)),
            _ => None,
        };
        Ok(all.iter().filter_map(read).collect())
    }

    /// All addresses of the namespace's interfaces.
    ///
    /// # Errors
    /// If the system does not list them.
    pub fn addresses(&mut self) -> Result<Vec<IpAddr>, NetlinkError> {
        let all = self.list(RouteNetlinkMessage::GetAddress(AddressMessage::default()), "addresses")?;
        let mut addresses = Vec::new();
        for message in &all {
            let RouteNetlinkMessage::NewAddress(message) = message else { continue };
            let find = |local: bool| {
                message.attributes.iter().find_map(|attribute| match attribute {
                    AddressAttribute::Local(address) if local => Some(*address),
                    AddressAttribute::Address(address) if !local => Some(*address),
                    _ => None,
                })
            };
            // At a point-to-point interface the other one is the peer's.
            addresses.extend(find(true).or_else(|| find(false)));
        }
        Ok(addresses)
    }

    /// The numbers of the interfaces that default routes lead to.
    ///
    /// # Errors
    /// If the system does not list routes.
    pub fn default_routes(&mut self) -> Result<Vec<u32>, NetlinkError> {
        let mut interfaces = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            // A kernel without IPv6 has no such routes.
            let all = match self.list(RouteNetlinkMessage::GetRoute(message), "routes") {
                Err(_) if family == AddressFamily::Inet6 => Vec::new(),
                listed => listed?,
            };
            for message in &all {
                let RouteNetlinkMessage::NewRoute(route) = message else { continue };
                if route.header.destination_prefix_length > 0 || route.header.kind != RouteType::Unicast {
                    continue;
                }
                for attribute in &route.attributes {
                    match attribute {
                        RouteAttribute::Oif(index) => interfaces.push(*index),
                        RouteAttribute::MultiPath(hops) => {
                            interfaces.extend(hops.iter().map(|hop| hop.interface_index));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(interfaces)
    }

    /// Makes a pair of interfaces wired to each other, with this MTU in bytes, down. They get no
    /// link-local IPv6 addresses and do not resolve neighbours' MAC addresses (no ARP): they carry only
    /// packets that a program sent.
    ///
    /// # Errors
    /// If a name is taken, a namespace has gone, or without permission.
    pub fn add_veth(&mut self, near: &VethEnd<'_>, far: &VethEnd<'_>, mtu: u32) -> Result<(), NetlinkError> {
        let end = |end: &VethEnd<'_>| {
            let mut message = LinkMessage::default();
            message.header.flags = LinkFlags::Noarp;
            message.header.change_mask = LinkFlags::Noarp;
            message.attributes = vec![
                LinkAttribute::IfName(end.name.to_owned()),
                LinkAttribute::Mtu(mtu),
                LinkAttribute::Address(end.mac.to_vec()),
                LinkAttribute::TxQueueLen(1000),
            ];
            message.attributes.extend(end.namespace.map(|fd| LinkAttribute::NetNsFd(fd.as_raw_fd())));
            message
        };
        let mut message = end(near);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(end(far)))),
        ]));
        self.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("make the veth pair {}, {}", near.name, far.name)
        })
    }

    /// Brings an interface of this namespace up, without link-local IPv6 addresses; `arp` says whether it resolves neighbours'
    /// MAC addresses.
    ///
    /// # Errors
    /// If there is no such interface, or without permission.
    pub fn set_up(&mut self, name: &str, arp: bool) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index(name)?;
        let inet6 = vec![AfSpecInet6::AddrGenMode(In6AddrGenMode::None)];
        message.attributes = vec![LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(inet6)])];
        // A kernel without IPv6 has no such setting.
        let _ = self.request(RouteNetlinkMessage::SetLink(message), 0, String::new);
        let mut message = LinkMessage::default();
        message.header.index = index(name)?;
        message.header.flags = if arp { LinkFlags::Up } else { LinkFlags::Up | LinkFlags::Noarp };
        message.header.change_mask = LinkFlags::Up | LinkFlags::Noarp;
        self.request(RouteNetlinkMessage::SetLink(message), 0, || format!("bring interface {name} up"))
    }

    /// Removes an interface, and the peer of a veth.
    ///
    /// # Errors
    /// If there is no such interface, or without permission.
    pub fn delete(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = index(name)?;
        self.request(RouteNetlinkMessage::DelLink(message), 0, || format!("remove interface {name}"))
    }

    /// Gives an interface an address, with the network that is on its link.
    ///
    /// # Errors
    /// If there is no such interface, the address exists already, or without permission.
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix_len: u8) -> Result<(), NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.index = index(name)?;
        message.header.prefix_len = prefix_len;
        message.header.family = family(address);
        if address.is_ipv6() {
            // No other host is on the link: the address need not be tested first.
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, || {
            format!("give {name} the address {address}/{prefix_len}")
        })
    }

    /// Routes a network (a prefix length of 0 for the default route) to an interface, through `gateway` if there is
    /// one.
    ///
    /// # Errors
    /// If there is no such interface, the gateway is not on its link, or without permission.
    pub fn add_route(
        &mut self,
        destination: IpAddr,
        prefix_len: u8,
        name: &str,
        gateway: Option<IpAddr>,
    ) -> Result<(), NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = prefix_len;
        message.header.table = nix::libc::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = if gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Oif(index(name)?)];
        if prefix_len > 0 {
            message.attributes.push(RouteAttribute::Destination(RouteAddress::from(destination)));
        }
        message
            .attributes
            .extend(gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::from(gateway))));
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_REPLACE, || {
            format!("route {destination}/{prefix_len} to {name}")
        })
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn index(name: &str) -> Result<u32, NetlinkError> {
    nix::net::if_::if_nametoindex(name)
        .map_err(|errno| NetlinkError { what: format!("find interface {name}"), source: errno.into() })
}
