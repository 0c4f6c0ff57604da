//! Sans-IO TCP: one end of a connection, driven by segments, time-outs and an application, with explicit time.
//!
//! [`Connection`] holds both directions. It is asked for its next deadline ([`Connection::poll_timeout`]) and for segments to
//! send ([`Connection::poll_transmit`]) after every call that may have changed something. Payload is counted, not carried.

mod config;
mod connection;
mod ecn;
mod handshake;
mod log;
mod reassembly;
mod receiver;
mod rtt;
mod sender;
mod state;
mod stats;

pub use config::{ConfigError, InitialWindow, LossRecovery, RtoVariance, TcpConfig};
pub use connection::Connection;
pub use rtt::Rtt;
pub use state::{Outcome, State};
pub use stats::Stats;
