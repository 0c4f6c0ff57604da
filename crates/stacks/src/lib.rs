//! Real transport stacks in this process: QUIC (by quinn) with any congestion control of the library, and stacks that are hosts of a simulated
//! network ([`stack`]).

pub mod quic;
pub mod stack;
