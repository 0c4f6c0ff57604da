//! TCP and its congestion controls without I/O, and media streams with theirs.
//!
//! A [`tcp::Connection`] is one end of a TCP connection. It does not send, wait or read a clock. Its owner hands it the segments that arrive and
//! the time, and asks it what to send and when to call again. So the same code runs in a simulator, in a capacity test over UDP, and in
//! the example below, where a queue of segments is the whole network:
//!
//! ```
//! use std::collections::VecDeque;
//! use std::sync::Arc;
//! use warpline_core::{Ecn, TimeDelta, Timestamp};
//! use warpline_transport::cc::Algorithm;
//! use warpline_transport::tcp::{Connection, TcpConfig};
//!
//! let config = Arc::new(TcpConfig { delayed_ack: TimeDelta::ZERO, ..TcpConfig::default() });
//! config.validate()?;
//! let cubic = || Algorithm::default().build(&config.cc_config());
//! let mut client = Connection::client(config.clone(), cubic());
//! let mut server = Connection::server(config.clone(), cubic());
//!
//! // The wire: each segment, when it arrives, and whether it is for the server. It takes 10 ms.
//! let mut wire = VecDeque::new();
//! let delay = TimeDelta::from_millis(10);
//! let mut now = Timestamp::ZERO;
//! client.open(now);
//! client.write(10_000);
//! while client.bytes_acked() < 10_000 {
//!     while let Some((segment, _ecn)) = client.poll_transmit(now) {
//!         wire.push_back((now + delay, true, segment));
//!     }
//!     while let Some((segment, _ecn)) = server.poll_transmit(now) {
//!         wire.push_back((now + delay, false, segment));
//!     }
//!     // On to the next arrival or deadline.
//!     let arrival = wire.front().map_or(Timestamp::NEVER, |&(at, ..)| at);
//!     now = arrival.min(client.poll_timeout()).min(server.poll_timeout());
//!     client.handle_timeout(now);
//!     server.handle_timeout(now);
//!     if let Some((_, to_server, segment)) = wire.pop_front_if(|&mut (at, ..)| at <= now) {
//!         let end = if to_server { &mut server } else { &mut client };
//!         end.handle_segment(now, &segment, Ecn::NotEct);
//!     }
//! }
//! // A round trip for the handshake, and one for the data.
//! assert_eq!(now, Timestamp::from_millis(40));
//! assert_eq!(server.bytes_delivered(), 10_000);
//! # Ok::<(), warpline_core::parameter::OutOfRange>(())
//! ```
//!
//! A congestion control of one's own implements [`cc::CongestionControl`]; a connection takes it as it is, or in [`cc::Controller::Boxed`].
//! [`cc::Algorithm`] names the built-in ones and reads their parameters: `"nice:threshold=0.1".parse::<Algorithm>()`.
//! `examples/own_wire.rs` has a wire with a rate and losses. [`media`] has the ends of a video stream and congestion controls for it,
//! [`multipath`] the ends of a connection over several TCP subflows.

pub mod cc;
pub mod media;
pub mod multipath;
pub mod tcp;
