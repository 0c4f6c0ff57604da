//! Bulk transfer capacity: what a TCP would get on a path, measured without the hosts' own TCPs (RFC 3148).
//!
//! [`CapClient`] and [`CapServer`] are the two ends of `cap`: they carry the segments of a [`Connection`] in UDP
//! datagrams as large as TCP's would be, so that a test can use any loss recovery and congestion control that the simulator has. [`Treno`]
//! needs no software at the far end: it sends probes, and treats the answers of routers and hosts as acknowledgements.
//!
//! Nothing here does I/O: datagrams and the time come in, datagrams go out. Payload is counted, not carried.
//!
//! [`Connection`]: warpline_transport::tcp::Connection

mod admission;
mod arrivals;
mod auth;
mod bytes;
mod client;
mod limits;
mod link;
mod meter;
mod options;
mod results;
mod server;
mod treno;
mod treno_options;
mod treno_results;
mod wire;

pub use auth::COOKIE_LIFE;
pub use client::{CapClient, Identity, Outcome, Progress, Unreachable};
pub use limits::{Bound, ServerLimits, StrangerLimits};
pub use link::{Datagram, Traced};
pub use meter::Meter;
pub use options::{CapOptions, Direction, HEADERS, MAX_DURATION, MAX_SEGMENT, MIN_SEGMENT, OptionError};
pub use results::{HostResults, ReceiverResults, Report, SenderResults};
pub use server::{CapServer, Finished, Peer};
pub use treno::{Probe, Treno};
pub use treno_options::{TrenoError, TrenoOptions};
pub use treno_results::{ProbeReply, TrenoOutcome, TrenoResults, TrenoSample};
pub use wire::{HELLO, Refusal, VERSION, fuzz_read};
