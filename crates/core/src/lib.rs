//! The few types that all parts of Warpline share: time, rates, packets, random streams, records.
//!
//! Nothing here does I/O, reads a clock or draws from a global random source: `now` and the stream are arguments.

// The derives name this crate by its name, here too.
#[cfg(test)]
extern crate self as warpline_core;

mod address;
pub mod dilation;
pub mod float;
pub mod packet;
pub mod parameter;
pub mod quantity;
pub mod random;
pub mod record;
pub mod time;

pub use dilation::{Pace, Tdf};
pub use packet::{
    Body, Datagram, Ecn, EndpointId, Flags, FlowId, Frame, LinkId, NodeId, Packet, SackBlocks, Segment,
    SynOptions,
};
pub use quantity::{Bytes, ParseQuantityError, Rate};
pub use random::{Stream, Streams};
pub use time::{Clock, TimeDelta, Timestamp, Wake};
