//! Listening TCP sockets of a network namespace, by sock_diag(7).
//!
//! `/proc/net/tcp` lists them too, but for it the kernel goes through its whole table of connections, which takes ten milliseconds if the
//! table is large. This request goes through the listening sockets only.

use std::io;
use std::net::IpAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, SocketId, StateFlags};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_SOCK_DIAG};

/// The address of a listening socket, and whether it accepts IPv6 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listener {
    pub(crate) address: IpAddr,
    pub(crate) only_ipv6: bool,
}

/// Lists the listening sockets of one network namespace, from whichever namespace it is used.
pub(crate) struct Listeners(Socket);

impl std::fmt::Debug for Listeners {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Listeners")
    }
}

impl Listeners {
    /// Lists the sockets of the calling thread's namespace.
    ///
    /// # Errors
    /// If the kernel does not support these requests.
    pub(crate) fn open() -> io::Result<Self> {
        let socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        let own = Listeners(socket);
        // A kernel can have the socket and still not answer (CONFIG_INET_TCP_DIAG).
        own.at(1)?;
        Ok(own)
    }

    /// The sockets that listen on `port`.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub(crate) fn at(&self, port: u16) -> io::Result<Vec<Listener>> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            self.ask(family, port, &mut found)?;
        }
        Ok(found)
    }

    fn ask(&self, family: u8, port: u16, found: &mut Vec<Listener>) -> io::Result<()> {
        let any = if family == AF_INET { SocketId::new_v4() } else { SocketId::new_v6() };
        let mut message = NetlinkMessage::from(SockDiagMessage::InetRequest(InetRequest {
            family,
            protocol: IPPROTO_TCP,
            extensions: ExtensionFlags::empty(),
            states: StateFlags::LISTEN,
            socket_id: SocketId { source_port: port, ..any },
        }));
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.0.send(&bytes, 0)?;
        loop {
            let (answer, _) = self.0.recv_from_full()?;
            let mut rest = &answer[..];
            while !rest.is_empty() {
                let message =
                    NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(socket)) => {
                        let id = &socket.header.socket_id;
                        if id.source_port == port {
                            let only_ipv6 = socket.nlas.contains(&Nla::SkV6Only(true));
                            found.push(Listener { address: id.source_address, only_ipv6 });
                        }
                    }
                    _ => {}
                }
                // Messages begin at multiples of four bytes (netlink(7)).
                let length = (message.header.length as usize).next_multiple_of(4).max(4);
                rest = rest.get(length..).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn listening_sockets_are_found_by_port_and_address() {
        let listeners = match Listeners::open() {
            Ok(listeners) => listeners,
            Err(error) => return warpline_skip::skip("sock-diag", error),
        };
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = own.local_addr().unwrap().port();
        let address = IpAddr::from([127, 0, 0, 1]);
        assert_eq!(listeners.at(port).unwrap(), [Listener { address, only_ipv6: false }]);
        // A connection does not listen.
        let client = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        assert_eq!(listeners.at(client.local_addr().unwrap().port()).unwrap(), []);
        drop(own);
        assert_eq!(listeners.at(port).unwrap(), []);
    }
}
