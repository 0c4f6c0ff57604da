//! What routers say about the path: a packet was too big for a link (RFC 1191, RFC 8201), or nobody can be reached (RFC 1122 section
//! 4.2.3.9). Whether what they say is about this connection is for the caller to find out (RFC 5927).

use warpline_core::Timestamp;

use super::connection::Connection;
use super::episode::Episode;
use super::state::{Outcome, State};
use crate::cc::CongestionControl;

/// Smallest MSS that is taken from a router, as in Linux (`tcp_min_snd_mss`): less would be a packet for a few bytes.
const MIN_MSS: u32 = 48;
/// Bytes of the timestamps option with its padding.
const TIMESTAMPS: u64 = 12;

impl<C: CongestionControl> Connection<C> {
    /// The path takes no segments above `mss` bytes, TCP options included. What is in flight and larger is sent again in pieces at once;
    /// the congestion window stays, since nothing was lost to congestion (RFC 1191 section 6.5; Linux `tcp_simple_retransmit`).
    /// Returns whether segments were larger until now.
    pub fn reduce_mss(&mut self, now: Timestamp, mss: u32) -> bool {
        let mss = mss.max(MIN_MSS);
        if self.outcome.is_some() || mss >= self.config.mss {
            return false;
        }
        // Also what the SYN says and is answered with, if that is still to come.
        self.config.mss = mss;
        let payload = u64::from(mss) - if self.timestamps { TIMESTAMPS } else { 0 };
        if payload >= self.mss {
            return false;
        }
        self.mss = payload;
        self.burst_bytes = u64::from(self.config.small_window_burst) * payload;
        if self.board.split(payload as u32) {
            self.undo = None;
            self.recover = self.nxt;
            self.probe = None;
            self.enter(now, Episode::Loss { force: true });
            self.rearm(now);
        }
        self.refresh_window();
        true
    }

    /// A router or host says that the other side cannot be reached. It ends a connection that is being opened; one that is open goes on
    /// trying, for the way may come back. Returns whether it has ended.
    pub fn on_unreachable(&mut self, now: Timestamp) -> bool {
        if self.state != State::SynSent {
            return false;
        }
        self.finish(now, Outcome::Unreachable);
        true
    }
}
