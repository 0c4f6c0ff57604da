//! Settings of a simulated host, and its errors.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use warpline_core::parameter::OutOfRange;
use warpline_core::{Bytes, Dscp, TimeDelta};
use warpline_transport::cc::{Algorithm, Controller, CubicParams};
use warpline_transport::tcp::TcpConfig;

use super::codec;
use crate::ip;

/// Creates the congestion control of a connection.
pub type MakeController = Arc<dyn Fn(&TcpConfig) -> Controller + Send + Sync>;

/// TCP settings for some of a host's connections.
#[derive(Clone)]
pub struct Stack {
    /// TCP options; the MSS is an upper limit, which the host's and the path's MTU may lower.
    pub tcp: TcpConfig,
    /// Creates its congestion control.
    pub controller: MakeController,
    /// Whether every event is recorded, from the first segment on.
    pub recording: bool,
    /// Whether to keep every segment's latency.
    pub latency_log: bool,
    /// Code point of its packets.
    pub dscp: Dscp,
    /// Whether what it receives is the [pattern](super::payload::Pattern), and is compared with it.
    pub verify: bool,
}

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stack").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl Stack {
    /// A TCP with one of the algorithms, without recording.
    pub fn new(tcp: TcpConfig, algorithm: Algorithm) -> Self {
        let controller: MakeController = Arc::new(move |tcp| algorithm.build(&tcp.cc_config()));
        Stack { tcp, controller, recording: false, latency_log: false, dscp: Dscp::default(), verify: false }
    }
}

/// Settings of a simulated host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Largest datagram in bytes; it determines the MSS.
    pub mtu: u32,
    /// TCP options of connections without settings of their own.
    pub tcp: TcpConfig,
    /// Congestion control of those connections.
    pub algorithm: Algorithm,
    /// Receive buffer, and room to send back, of connections whose service reads its payload ([`super::Service::looks`]), in bytes.
    pub buffer: u64,
    /// Most connections at the same time.
    pub max_connections: usize,
    /// Most connections that peers have begun and not completed. A SYN beyond that is dropped.
    pub max_half_open: usize,
    /// Most bytes of payload stored for all connections. A SYN beyond that is dropped.
    pub memory: u64,
    /// An idle connection that receives nothing for this long is reset: the other side may have gone without
    /// notice.
    pub idle: TimeDelta,
    /// Most ICMP errors per second (RFC 4443 section 2.4 (f)).
    pub icmp_rate: u32,
}

impl HostConfig {
    /// A host with these addresses, 1500-byte packets and a TCP that is close to Linux's defaults.
    pub fn new(addresses: Vec<IpAddr>) -> Self {
        HostConfig {
            addresses,
            mtu: 1500,
            tcp: TcpConfig {
                receive_buffer: Bytes(4 << 20),
                syn_retries: 5,
                mss: Bytes(65_495),
                ..TcpConfig::default()
            },
            algorithm: Algorithm::Cubic(CubicParams::default()),
            buffer: 256 << 10,
            max_connections: 4096,
            max_half_open: 256,
            memory: 256 << 20,
            idle: TimeDelta::from_secs(7200),
            icmp_rate: 1000,
        }
    }

    /// The TCP of connections without settings of their own.
    pub(super) fn stack(&self) -> Stack {
        Stack::new(self.tcp.clone(), self.algorithm)
    }

    /// The options of a connection over one IP version, on a path with this `mtu` in bytes.
    pub(super) fn tcp_for(&self, tcp: &TcpConfig, v6: bool, mtu: u32, looks: bool) -> TcpConfig {
        let receive_buffer = if looks { Bytes(self.buffer) } else { tcp.receive_buffer };
        TcpConfig { mss: tcp.mss.min(Bytes(mss_of(mtu, v6).into())), receive_buffer, ..tcp.clone() }
    }
}

/// The MSS of a path with this `mtu` in bytes.
pub(super) fn mss_of(mtu: u32, v6: bool) -> u32 {
    let headers = if v6 { ip::IPV6_HEADER } else { ip::IPV4_HEADER } + codec::HEADER;
    mtu.saturating_sub(headers as u32)
}

/// Why a host cannot do something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HostError {
    /// Its options are invalid.
    #[error("the options of the host's TCP: {0}")]
    Tcp(#[from] OutOfRange),
    /// It has no address of the requested family.
    #[error("the host has no {0} address")]
    NoAddress(&'static str),
    /// It has reached its limit of connections or memory.
    #[error("the host has as many connections as it may have")]
    Full,
    /// All ports towards that address are in use.
    #[error("all ports towards {0} are taken")]
    Ports(SocketAddr),
    /// Something listens on the port.
    #[error("port {0} is taken")]
    Taken(u16),
}
