//! Sans-IO transport: TCP and its congestion controls, driven by explicit time.
//!
//! The simulator, the capacity tool and the tests all drive the same [`tcp::Connection`]. Nothing here reads a clock, draws
//! from a global random source or does I/O.

pub mod btc;
pub mod cc;
pub mod tcp;
