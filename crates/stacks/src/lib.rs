//! Real transport stacks in this process: QUIC (by quinn) with any congestion control of the library.

pub mod quic;
