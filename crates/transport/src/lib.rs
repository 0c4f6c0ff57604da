//! Sans-IO transport: TCP and its congestion controls, driven by explicit time.
//!
//! The simulator, the capacity tests, live hosts and the tests of this crate all drive the same [`tcp::Connection`]. Nothing here reads a clock, draws
//! from a global random source or does I/O.

pub mod cc;
pub mod tcp;
