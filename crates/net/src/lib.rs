//! A packet-level network: links with rates, delays, queues and losses, routes over them, and the event engine that moves packets.
//!
//! The network does not know what runs on its hosts. It calls them through the [`Hosts`] trait when a packet arrives or a timer is due, and
//! they send through the [`Port`] that they are given. Here a sender hands two packets over, and the receiver notes when they arrive:
//!
//! ```
//! use warpline_core::{Datagram, EndpointId, FlowId, NodeId, Packet, Rate, Streams, TimeDelta, TimerId, Timestamp};
//! use warpline_net::{Hosts, LinkConfig, Network, Port, RateConfig};
//!
//! #[derive(Default)]
//! struct Arrivals(Vec<Timestamp>);
//!
//! impl Hosts for Arrivals {
//!     fn handle_packet(&mut self, now: Timestamp, _packet: &Packet, _port: &mut Port<'_>) {
//!         self.0.push(now);
//!     }
//!     fn handle_timeout(&mut self, _now: Timestamp, _timer: TimerId, _port: &mut Port<'_>) {}
//! }
//!
//! let mut network = Network::new();
//! let config = LinkConfig {
//!     rate: RateConfig::Constant(Rate::from_bps(12_000_000)),
//!     delay: TimeDelta::from_millis(10),
//!     ..LinkConfig::new("a>b", NodeId(0), NodeId(1))
//! };
//! let link = network.add_link(config, &Streams::new(1));
//! let route = network.add_route(&[link])?;
//!
//! let datagram = Datagram { len: 1472, ..Datagram::default() };
//! let packet = Packet::udp(FlowId(0), EndpointId(1), datagram);
//! let mut port = network.port(Timestamp::ZERO);
//! port.send(route, packet);
//! port.send(route, packet);
//!
//! let mut hosts = Arrivals::default();
//! network.run_until(Timestamp::from_secs(1), &mut hosts, u64::MAX);
//! // 1500 bytes take a millisecond at this rate. The second packet waits for the first.
//! assert_eq!(hosts.0, [Timestamp::from_millis(11), Timestamp::from_millis(12)]);
//! assert_eq!(network.link_stats(link).queued_max, TimeDelta::from_millis(1));
//! # Ok::<(), warpline_net::RouteError>(())
//! ```
//!
//! [`routing`] finds routes. A [`Driver`] runs a network by a clock: one that jumps
//! from event to event, or one that really passes. A queue of one's own is an [`OwnQueue`](qdisc::OwnQueue). `examples/own_hosts.rs` runs TCP
//! connections over a dumbbell.
//!
//! Nothing here does I/O, reads a clock or draws from a global random source: the same seed gives the same packets at the same nanoseconds.

#[macro_use]
pub mod model;

mod aggregate;
pub mod apart;
mod arena;
pub mod chance;
pub mod change;
mod crossing;
pub mod cut;
pub mod driver;
mod events;
mod far;
mod fate;
mod fifo;
mod general;
mod hops;
mod hosts;
mod incoming;
mod item;
pub mod jitter;
mod ledger;
pub mod link;
pub mod loss;
pub mod mahimahi;
mod mail;
mod meeting;
mod near;
pub mod network;
pub mod parallel;
pub mod parameter;
mod part;
mod partition;
mod pfc;
pub mod qdisc;
pub mod radio;
mod ring;
pub mod routing;
pub mod schedule;
pub mod serialise;
pub mod series;
mod stats;
mod threads;
mod wire;

pub use apart::{MeetError, Processes};
pub use change::{ChangeError, LinkChange};
pub use cut::Cut;
pub use driver::{Control, Driver};
pub use hosts::{Hosts, Pause, RouteId, Settled};
pub use link::{Link, LinkConfig, LinkStats, RateConfig};
pub use network::{CutError, Network, Port, RouteError};
pub use parallel::PartHosts;
pub use pfc::PfcConfig;
pub use threads::Workers;
