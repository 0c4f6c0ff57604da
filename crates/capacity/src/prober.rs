//! What sends probes and learns from their answers, without a socket.

use warpline_core::Timestamp;

use super::treno_results::ProbeReply;

/// A probe to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Its number, unique to the transmission.
    pub number: u64,
    /// Bytes on the wire from the IP header on.
    pub size: u32,
    /// Whether it stands for data that was sent before.
    pub retransmit: bool,
}

/// A test that needs no software at the far end: it sends probes, and answers to them come back.
///
/// After every call that takes a time, call [`poll_transmit`](Self::poll_transmit) until it has nothing more, then
/// [`poll_timeout`](Self::poll_timeout). Times must not go back.
pub trait Prober {
    /// The next probe to send; call until `None`.
    fn poll_transmit(&mut self, now: Timestamp) -> Option<Probe>;

    /// The kernel refused to send this probe, so that it was never on the path. Sending must pause for a millisecond or a tenth of a round
    /// trip, whichever is longer; the caller does this by not polling.
    fn on_refused(&mut self, number: u64);

    /// This host's interface cannot carry a probe of this size, so that it was never on the path. [`on_too_big`](Self::on_too_big) follows.
    fn on_not_sent(&mut self, number: u64) {
        self.on_refused(number);
    }

    /// A router says that probes must not be larger than `mtu` bytes (RFC 1191).
    fn on_too_big(&mut self, now: Timestamp, mtu: u32);

    /// Whether a probe is outstanding: neither answered nor given up.
    fn is_out(&self, number: u64) -> bool;

    /// An answer to a probe arrived at `now`. Returns whether the probe was [outstanding](Self::is_out).
    fn on_reply(&mut self, now: Timestamp, number: u64, kind: ProbeReply) -> bool;

    /// When to call [`handle_timeout`](Self::handle_timeout).
    fn poll_timeout(&self) -> Timestamp;

    /// Does what is due by `now`.
    fn handle_timeout(&mut self, now: Timestamp);

    /// Ends the test now, with the results so far.
    fn stop(&mut self, now: Timestamp);

    /// Whether the test has ended.
    fn is_over(&self) -> bool;
}
