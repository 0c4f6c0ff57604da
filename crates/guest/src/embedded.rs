//! What is put into each guest's directory when it boots; made by `build.rs`.

/// The library that owns the guest's clock.
pub(crate) const CLOCKSHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/clockshim.so"));
/// The guest's first process.
pub(crate) const AGENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/warpline-agent"));
