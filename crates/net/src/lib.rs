//! The network: event engine, links, queues, loss, traces, topologies, routing, and the driver that owns the only loop.
//!
//! No I/O, no clock, no global randomness. Hosts are behind the [`Hosts`] trait: the network does not know what runs on them.

pub mod jitter;
pub mod loss;
pub mod mahimahi;
pub mod parameter;
pub mod qdisc;
pub mod routing;
pub mod schedule;
pub mod serialise;
pub mod topology;
