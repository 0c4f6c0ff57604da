//! Windows below two datagrams: a burst, then a shut gate (TCP Nice section 4: pairs).
//!
//! A burst is counted in bytes. Once a burst has left, the gate shuts for as long as the burst takes at `cwnd / srtt`. If its
//! acknowledgements make the window grow, the wait gets shorter. Packets that leave while the gate is shut (loss probes, ACKs) count
//! towards the next burst.
//!
//! quinn reads the window without passing the time, and if the window allows nothing, it sleeps until the next packet or one of its own
//! timers. So something must open the gate and wake quinn: a [`Keeper`] does both.

use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinHandle;
use warpline_core::{TimeDelta, Timestamp};

use super::congestion::{self, Shared, View};

/// The gate of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    shut_until: Option<Timestamp>,
    /// When it shut, and the bytes for which it shut.
    shut_for: (Timestamp, u64),
    /// Bytes that count towards the current burst.
    left: u64,
}

impl Gate {
    pub(super) fn is_shut(&self) -> bool {
        self.shut_until.is_some()
    }

    pub(super) fn opens_at(&self) -> Option<Timestamp> {
        self.shut_until
    }

    /// The window has become too large for a gate.
    pub(super) fn reset(&mut self) {
        *self = Gate::default();
    }

    /// `bytes` left. Returns whether that shut the gate.
    pub(super) fn on_sent(
        &mut self,
        now: Timestamp,
        bytes: u64,
        burst: u64,
        mss: u64,
        cwnd: u64,
        srtt: TimeDelta,
    ) -> bool {
        self.left = self.left.saturating_add(bytes);
        // A remainder below half a segment counts as a full burst: headers and coalesced frames leave such remainders.
        if self.is_shut() || self.left + mss / 2 <= burst {
            return false;
        }
        let left = std::mem::take(&mut self.left);
        self.shut_for = (now, left);
        self.shut_until = Some(now + wait(left, cwnd, srtt));
        true
    }

    /// Adapts to a window or RTT that has changed since it shut. Returns whether the opening time moved.
    pub(super) fn rewait(&mut self, cwnd: u64, srtt: TimeDelta) -> bool {
        let (since, left) = self.shut_for;
        let before = self.shut_until;
        self.shut_until = before.map(|_| since + wait(left, cwnd, srtt));
        self.shut_until != before
    }

    /// Opens it if its time has come; returns whether it opened.
    pub(super) fn open(&mut self, now: Timestamp) -> bool {
        let due = self.shut_until.is_some_and(|until| now >= until);
        if due {
            self.shut_until = None;
        }
        due
    }
}

/// How long `bytes` take at one window per RTT.
fn wait(bytes: u64, cwnd: u64, srtt: TimeDelta) -> TimeDelta {
    let nanos = u128::from(srtt.as_nanos()) * u128::from(bytes) / u128::from(cwnd.max(1));
    TimeDelta::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Opens a connection's gate in time, and wakes quinn.
///
/// It holds the connection: close the connection, or drop the keeper, to release it.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Keeps the gate of `connection`, which was created with a [`Factory`](super::Factory); `None` if it was created without. Without a keeper a
    /// window below two datagrams stalls until a loss probe or a keep-alive packet of the peer.
    ///
    /// `send_window` is the connection's `TransportConfig::send_window`: setting it again wakes quinn.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn attach(connection: &quinn::Connection, send_window: u64) -> Option<Keeper> {
        let shared = congestion::shared(connection)?;
        let task = tokio::spawn(keep(connection.clone(), shared.clone(), send_window));
        Some(Keeper { shared, task })
    }

    /// The current state of the congestion control.
    pub fn view(&self) -> View {
        self.shared.state().view()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep(connection: quinn::Connection, shared: Arc<Shared>, send_window: u64) {
    loop {
        let opens = shared.state().opens_at();
        let due = async {
            match opens {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = due => {}
            () = shared.changed.notified() => {}
            _ = connection.closed() => return,
        }
        if shared.state().open(now()) {
            connection.set_send_window(send_window);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: the gate's time is that of real sockets")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SRTT: TimeDelta = TimeDelta::from_millis(50);

    #[test]
    fn a_sixteenth_of_a_segment_sends_a_pair_every_32_round_trips() {
        let mut gate = Gate::default();
        let start = Timestamp::from_secs(1);
        assert!(!gate.on_sent(start, 1200, 2400, 1200, 75, SRTT));
        assert!(gate.on_sent(start, 1200, 2400, 1200, 75, SRTT));
        assert_eq!(gate.opens_at(), Some(start + SRTT * 32));
        assert!(!gate.open(start + SRTT * 31));
        assert!(gate.open(start + SRTT * 32));
        assert!(!gate.is_shut());
    }

    #[test]
    fn the_wait_follows_the_window() {
        let mut gate = Gate::default();
        let start = Timestamp::from_secs(1);
        assert!(!gate.rewait(1200, SRTT), "an open gate has no opening time");
        gate.on_sent(start, 2400, 2400, 1200, 25, SRTT);
        assert_eq!(gate.opens_at(), Some(start + SRTT * 96));
        assert!(gate.rewait(1200, SRTT));
        assert_eq!(gate.opens_at(), Some(start + SRTT * 2));
        assert!(!gate.rewait(1200, SRTT));
        assert!(
            gate.rewait(600, SRTT) && gate.opens_at() == Some(start + SRTT * 4),
            "a smaller window waits longer"
        );
    }

    #[test]
    fn packets_through_the_shut_gate_count_towards_the_next_burst() {
        let mut gate = Gate::default();
        let start = Timestamp::from_secs(1);
        gate.on_sent(start, 2400, 2400, 1200, 1200, SRTT);
        assert_eq!(gate.opens_at(), Some(start + SRTT * 2));
        // A probe does not move the opening time, but it counts.
        assert!(!gate.on_sent(start + SRTT, 1200, 2400, 1200, 1200, SRTT));
        let opened = start + SRTT * 2;
        assert!(gate.open(opened));
        assert!(
            gate.on_sent(opened, 1200, 2400, 1200, 1200, SRTT),
            "the probe and one datagram make a burst"
        );
        assert_eq!(gate.opens_at(), Some(opened + SRTT * 2));
    }
}
