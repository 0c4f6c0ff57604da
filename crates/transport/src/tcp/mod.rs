//! Sans-IO TCP: one end of a connection, driven by segments, time-outs and an application, with explicit time.
//!
//! A [`Connection`] handles both directions. After every call that may have changed something, its owner asks it for
//! segments to send ([`Connection::poll_transmit`]) and for its next deadline ([`Connection::poll_timeout`]). Payload
//! is counted, not carried.

mod accecn;
mod config;
mod connection;
mod ecn;
#[cfg(test)]
mod fast_path_tests;
mod handshake;
mod log;
mod preset;
mod reassembly;
mod receiver;
mod rledbat;
mod rtt;
mod sender;
mod state;
mod stats;
mod window;

pub use config::{Recovery, RtoVariance, TcpConfig};
pub use connection::{Connection, Transmit};
pub use ecn::EcnFeedback;
pub use preset::TcpPreset;
pub use receiver::Misbehaviour;
pub use rledbat::Rledbat;
pub use rtt::Rtt;
pub use state::{Outcome, State};
pub use stats::Stats;
pub use window::{ParseWindowError, Window};
