//! The files for each guest's directory, embedded by `build.rs`.

/// The library that controls the guest's clock.
pub(crate) const CLOCKSHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clockshim.so"));
/// The guest's first process.
pub(crate) const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warpline-agent"));
