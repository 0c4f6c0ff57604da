//! The few types that all parts of Warpline share: quantities, time, packets, random streams, parameters and records.
//!
//! Nothing here does I/O, reads a clock or draws from a global random source. Code that needs the time or a random number takes it as an
//! argument, so the same inputs give the same results on every machine.
//!
//! # Quantities and time
//!
//! A [`Rate`], a number of [`Bytes`] and a span of time ([`TimeDelta`]) are read and printed the way people write them. A [`Timestamp`] counts
//! nanoseconds from the start of a run.
//!
//! ```
//! use warpline_core::{Bytes, Rate, TimeDelta, Timestamp};
//!
//! let rate: Rate = "20 Mbit/s".parse()?;
//! let round_trip: TimeDelta = "50ms".parse()?;
//! assert_eq!(rate.bytes_in(round_trip), Bytes(125_000)); // the bandwidth-delay product
//! assert_eq!(rate.time_for(1500).to_string(), "600us");
//!
//! let deadline = Timestamp::from_secs(3) + round_trip;
//! assert_eq!(deadline.to_string(), "3.050000000s");
//! assert!(deadline < Timestamp::NEVER);
//!
//! let error = "20 parsec".parse::<Rate>().unwrap_err();
//! assert!(error.to_string().starts_with("`parsec` in `20 parsec` is not a unit of rate"));
//! # Ok::<(), warpline_core::ParseQuantityError>(())
//! ```
//!
//! # Random streams
//!
//! Each component has a random stream of its own, called by a name. A new component does not change what the others draw.
//!
//! ```
//! use warpline_core::Streams;
//!
//! let seed = Streams::new(7);
//! let (mut loss, mut jitter) = (seed.stream("link.a>b.loss"), seed.stream("link.a>b.jitter"));
//! let first = loss.uniform();
//! assert!((0.0..1.0).contains(&first) && first != jitter.uniform());
//! assert_eq!(Streams::new(7).stream("link.a>b.loss").uniform(), first);
//! ```
//!
//! # Parameters
//!
//! A struct declares the parameters of a component: names, defaults, ranges and documentation. Reading, writing and every error message
//! follow from it. The module [`parameter`] says more.
//!
//! ```
//! use warpline_core::TimeDelta;
//! use warpline_core::parameter::{Choice, Parameters};
//!
//! /// A queue that drops what has waited for too long.
//! #[derive(Clone, Debug, PartialEq, Parameters)]
//! #[component("impatient")]
//! struct Impatient {
//!     /// The longest wait.
//!     #[parameter(default = TimeDelta::from_millis(20), above = TimeDelta::ZERO)]
//!     patience: TimeDelta,
//! }
//!
//! #[derive(Clone, Debug, PartialEq, Choice)]
//! #[choice("queue")]
//! enum Queue {
//!     Impatient(Impatient),
//! }
//!
//! let queue: Queue = "impatient:patience=5ms".parse()?;
//! assert_eq!(queue, Queue::Impatient(Impatient { patience: TimeDelta::from_millis(5) }));
//! assert!("impatient:patience=0s".parse::<Queue>().is_err());
//! # Ok::<(), warpline_core::parameter::ParameterError>(())
//! ```

// The derives name this crate by its name, here too.
#[cfg(test)]
extern crate self as warpline_core;

mod accecn;
mod address;
pub mod counter;
pub mod dilation;
mod dscp;
mod empirical;
pub mod float;
pub mod packet;
pub mod parameter;
pub mod pattern;
pub mod quantity;
pub mod random;
pub mod record;
mod shown;
pub mod spelling;
pub mod time;

pub use accecn::AccEcn;
pub use dilation::{Pace, Tdf};
pub use dscp::{Dscp, ParseDscpError};
pub use empirical::Empirical;
pub use packet::{
    Body, Datagram, Ecn, EndpointId, Flags, FlowId, Frame, LinkId, NodeId, Packet, SackBlocks, Segment,
    SynOptions, TimerId,
};
pub use quantity::{Bytes, ParseQuantityError, Rate};
pub use random::{Stream, Streams};
pub use time::{Clock, TimeDelta, Timestamp, Wake};
