//! A connection over several TCP subflows, as Multipath TCP has it (RFC 8684): one stream of data, cut into pieces that take different paths, and
//! put together again at the other end.
//!
//! Each subflow is a [`Connection`](crate::tcp::Connection) of its own, with its own sequence numbers, losses and congestion control. Whoever
//! owns the subflows runs them, and reports here what happens on each. A [`Sender`] says which piece of the data is to be written to which subflow; a [`Receiver`]
//! learns the mapping of each piece (which RFC 8684 section 3.3 puts into the segments, as an option), and delivers the data in order. Neither does
//! I/O or reads a clock.
//!
//! ```
//! use warpline_core::TimeDelta;
//! use warpline_transport::multipath::{Path, Receiver, Scheduler, Sender};
//!
//! let path = |millis| Path { open: true, room: 1000, segment: 1000, srtt: TimeDelta::from_millis(millis) };
//! let mut sender = Sender::new(Scheduler::MinRtt, 2, 1 << 20);
//! let mut receiver = Receiver::new(2);
//! sender.write(1500);
//! // The faster path first; when its window is full, the other one.
//! let (first, piece) = sender.poll_piece(&[path(50), path(20)]).expect("there is room");
//! assert_eq!((first, piece.len), (1, 1000));
//! receiver.expect(first, piece);
//! let (second, rest) = sender.poll_piece(&[path(50), Path { room: 0, ..path(20) }]).expect("there is room");
//! receiver.expect(second, rest);
//! // The rest overtakes it, and waits.
//! receiver.on_delivered(second, 500);
//! assert_eq!(receiver.delivered(), 0);
//! receiver.on_delivered(first, 1000);
//! assert_eq!((receiver.delivered(), receiver.share_of(0), receiver.share_of(1)), (1500, 500, 1000));
//! ```
//!
//! Departures from RFC 8684 and Linux: keys, tokens and checksums have no counterpart, and neither have backup subflows. The options take no bytes
//! of segments. Data acknowledgements are those that arrive with an acknowledgement of new data on a subflow. Linux also sends what blocks the receive
//! window on another subflow before any time-out, and slows the subflow that blocks it ("opportunistic retransmission" and "penalisation",
//! Raiciu et al., NSDI 2012, which could not be read): not here.

mod intervals;
mod receiver;
mod scheduler;
mod sender;

#[cfg(test)]
mod tests;

pub use intervals::LossIntervals;
pub use receiver::Receiver;
pub use scheduler::Scheduler;
pub use sender::{Path, Sender};

/// Subflows that a connection may have, as in Linux (MPTCP_SUBFLOWS_MAX).
pub const MOST_SUBFLOWS: usize = 8;

/// A piece of the connection's data, and where it lies in the stream of a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte in the connection's data (the data sequence number).
    pub data: u64,
    /// The first byte in the subflow's stream.
    pub stream: u64,
    /// How many bytes.
    pub len: u64,
}
