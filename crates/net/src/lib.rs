//! The network: event engine, links, queues, loss, jitter, traces, routing, and the driver that owns the only loop.
//!
//! No I/O, no clock, no global randomness. Hosts are behind the [`Hosts`] trait: the network does not know what runs on them.

#[macro_use]
pub mod model;

mod arena;
pub mod driver;
mod events;
mod general;
mod hops;
pub mod jitter;
mod ledger;
pub mod link;
pub mod loss;
pub mod mahimahi;
mod near;
pub mod network;
pub mod parameter;
pub mod qdisc;
mod ring;
pub mod routing;
pub mod schedule;
pub mod serialise;

pub use driver::{Control, Driver};
pub use link::{Link, LinkStats};
pub use network::{Hosts, LinkConfig, Network, Pause, Port, RateConfig, RouteError, RouteId, Settled};
