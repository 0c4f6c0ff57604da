//! Bulk transfer capacity: what a TCP would get on a path, measured without the hosts' own TCPs (RFC 3148).
//!
//! [`CapClient`] and [`CapServer`] are the two ends of `cap`. They carry the segments of a [`Connection`] in UDP datagrams as large as TCP's
//! would be, so a test can use every loss recovery and congestion control of the simulator. Two tests need no software at the far end. They
//! send probes, and the answers of routers and hosts stand for acknowledgements: [`Treno`] has a TCP of its own, and [`SenderOnly`] has that
//! of `cap`.
//!
//! Nothing here does I/O: datagrams and the time come in, datagrams go out. Payload is counted, not carried. This is a test of a path that
//! consists of a rate and a delay:
//!
//! ```
//! use std::collections::VecDeque;
//! use warpline_capacity::{ProbeReply, Prober, Treno, TrenoOptions, TrenoOutcome};
//! use warpline_core::{Rate, TimeDelta, Timestamp};
//!
//! let options = TrenoOptions { duration: TimeDelta::from_secs(2), ..TrenoOptions::default() };
//! options.validate()?;
//! let mut test = Treno::new(options);
//! let (rate, round_trip) = (Rate::from_bps(12_000_000), TimeDelta::from_millis(20));
//! let (mut now, mut free_at) = (Timestamp::ZERO, Timestamp::ZERO);
//! let mut answers = VecDeque::new();
//! while test.outcome().is_none() {
//!     while let Some(probe) = test.poll_transmit(now) {
//!         free_at = free_at.max(now) + rate.time_for(probe.size.into());
//!         answers.push_back((free_at + round_trip, probe.number));
//!     }
//!     now = answers.front().map_or(Timestamp::NEVER, |&(at, _)| at).min(test.poll_timeout());
//!     test.handle_timeout(now);
//!     if let Some((_, number)) = answers.pop_front_if(|&mut (at, _)| at <= now) {
//!         test.on_reply(now, number, ProbeReply::Echo);
//!     }
//! }
//! assert_eq!(test.outcome(), Some(TrenoOutcome::Complete));
//! // Of the 12 Mbit/s, headers take 40 bytes in 1500, and slow start some time.
//! let megabits = test.results().data_bytes as f64 * 8e-6 / 2.0;
//! assert!((11.0..11.7).contains(&megabits), "{megabits} Mbit/s");
//! # Ok::<(), warpline_capacity::TrenoError>(())
//! ```
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
mod prober;
mod results;
mod sender_only;
mod server;
mod treno;
mod treno_options;
mod treno_results;
mod wire;

pub use auth::COOKIE_LIFE;
pub use client::{CapClient, Identity, Outcome, Unreachable};
pub use limits::{Bound, ServerLimits, StrangerLimits};
pub use link::{Datagram, Progress, Traced};
pub use meter::Meter;
pub use options::{
    CapOptions, Direction, HEADERS, MAX_DURATION, MAX_SEGMENT, MIN_DURATION, MIN_SEGMENT, OptionError,
};
pub use prober::{Probe, Prober};
pub use results::{HostResults, ReceiverResults, Report, SenderResults};
pub use sender_only::SenderOnly;
pub use server::{CapServer, Finished, Peer};
pub use treno::Treno;
pub use treno_options::{TrenoError, TrenoOptions};
pub use treno_results::{ProbeReply, TrenoOutcome, TrenoResults, TrenoSample};
pub use wire::{HELLO, Refusal, VERSION, fuzz_read};
