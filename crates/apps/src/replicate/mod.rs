//! Background replication of a directory: one sender, many receivers, over QUIC with a congestion control that yields to other traffic.
//!
//! The sender describes its tree in a [manifest]: names, permissions, times, and each file as a list of chunks with their BLAKE3
//! hashes. A receiver builds the tree beside the one in use, from what it already has and from chunks that it requests from the
//! sender. Then it switches `current` over in one rename. It keeps no journal: after an interruption it looks at what exists, and keeps
//! every chunk with the right hash.
//!
//! * [`manifest`]: the description, its encoding, and what is allowed in one. [`scan`]: makes the manifest of a directory.
//! * [`tree`]: writing and checking below a directory without ever leaving it. [`store`]: versions, and the switch. [`build`]: makes a version
//!   from a manifest.
//! * [`protocol`]: the messages. [`push`], [`serve`]: the two ends; `throttle`: a push with a rate limit; `patience`: whether a
//!   receiver makes progress.

pub mod build;
#[cfg(test)]
mod faults;
pub mod manifest;
mod patience;
pub mod protocol;
pub mod push;
#[cfg(test)]
mod push_tests;
pub mod scan;
pub mod serve;
pub mod store;
mod throttle;
pub mod tree;

/// The default port of receivers.
pub const PORT: u16 = 4433;
