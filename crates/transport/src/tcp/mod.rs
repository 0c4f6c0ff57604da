//! Sans-IO TCP: one end of a connection, driven by segments, time-outs and an application, with explicit time.
//!
//! [`Connection`] holds both directions. It is asked for its next deadline ([`Connection::poll_timeout`]) and for segments to
//! send ([`Connection::poll_transmit`]) after every call that may have changed something. Payload is counted, not carried.

mod ack;
mod config;
mod connection;
mod ecn;
mod episode;
mod handshake;
mod pacing;
mod path;
mod prr;
mod rack;
mod rate;
mod receiver;
mod recovery;
pub(crate) mod rtt;
mod scoreboard;
mod sender;
mod state;
mod stats;
mod timers;
mod undo;

pub use config::{ConfigError, InitialWindow, LossRecovery, RtoVariance, TcpConfig};
pub use connection::Connection;
pub use state::{Outcome, State};
pub use stats::Stats;
