//! Requests to the guest's kernel about interfaces, addresses and routes (rtnetlink(7)).

use std::net::IpAddr;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use nix::libc;

use crate::failure::{Doing, Failure};

/// A netlink socket in the network namespace of the thread that opened it.
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens one.
    pub(crate) fn open() -> Result<Self, Failure> {
        let doing = || "open a netlink socket".to_owned();
        let socket = Socket::new(NETLINK_ROUTE).doing(doing)?;
        socket.connect(&SocketAddr::new(0, 0)).doing(doing)?;
        Ok(Netlink { socket, sequence: 0 })
    }

    fn request(&mut self, message: RouteNetlinkMessage, flags: u16) -> std::io::Result<()> {
        self.sequence += 1;
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let answer =
            NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer).map_err(std::io::Error::other)?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
            _ => Ok(()),
        }
    }

    /// Creates a VLAN on interface `below`, in the namespace behind `namespace`.
    pub(crate) fn add_vlan(
        &mut self,
        name: &str,
        below: u32,
        vlan: u16,
        mac: [u8; 6],
        mtu: u32,
        namespace: i32,
    ) -> Result<(), Failure> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Link(below),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::NetNsFd(namespace),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Vlan),
                LinkInfo::Data(InfoData::Vlan(vec![InfoVlan::Id(vlan)])),
            ]),
        ];
        self.request(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .doing(|| format!("make VLAN {vlan}"))
    }

    /// Moves an interface into the namespace behind `namespace`, under this name and with this MTU.
    pub(crate) fn move_interface(
        &mut self,
        index: u32,
        name: &str,
        mtu: u32,
        namespace: i32,
    ) -> Result<(), Failure> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NetNsFd(namespace),
        ];
        self.request(RouteNetlinkMessage::SetLink(message), 0).doing(|| format!("make the interface {name}"))
    }

    /// Brings an interface up; `arp` says whether it resolves its neighbours' MAC addresses.
    pub(crate) fn set_up(&mut self, index: u32, arp: bool) -> Result<(), Failure> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = if arp { LinkFlags::Up } else { LinkFlags::Up | LinkFlags::Noarp };
        message.header.change_mask = message.header.flags;
        self.request(RouteNetlinkMessage::SetLink(message), 0)
            .doing(|| format!("bring interface number {index} up"))
    }

    /// Gives an interface an address without a network on its link.
    pub(crate) fn add_address(&mut self, index: u32, address: IpAddr) -> Result<(), Failure> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.family = family(address);
        message.header.prefix_len = if address.is_ipv4() { 32 } else { 128 };
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL)
            .doing(|| format!("set the address {address}"))
    }

    /// Makes an interface the default route.
    pub(crate) fn add_default_route(&mut self, index: u32, like: IpAddr) -> Result<(), Failure> {
        self.add(index, family(like), None).doing(|| format!("set the default route for {like}"))
    }

    /// Makes an interface the route to an address.
    pub(crate) fn add_route(&mut self, index: u32, to: IpAddr) -> Result<(), Failure> {
        self.add(index, family(to), Some(to)).doing(|| format!("set the route to {to}"))
    }

    fn add(&mut self, index: u32, family: AddressFamily, to: Option<IpAddr>) -> std::io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = family;
        message.header.table = libc::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope =
            if family == AddressFamily::Inet { RouteScope::Link } else { RouteScope::Universe };
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![RouteAttribute::Oif(index)];
        if let Some(to) = to {
            message.header.destination_prefix_length = if to.is_ipv4() { 32 } else { 128 };
            message.attributes.push(RouteAttribute::Destination(match to {
                IpAddr::V4(to) => RouteAddress::Inet(to),
                IpAddr::V6(to) => RouteAddress::Inet6(to),
            }));
        }
        self.request(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL)
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
