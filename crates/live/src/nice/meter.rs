//! Reads a command's connections: rate, window, share of the time that they backed off.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::Serialize;
use warpline_core::Timestamp;

use super::means::Means;
use crate::bpf::sockets::Sockets;
use crate::bpf::{Direction, Socket};
use crate::clock::RealClock;

/// A reading of all connections of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Connections {
    /// Number of connections.
    pub connections: usize,
    /// Bits per second that were acknowledged since the previous reading.
    pub sent_rate: f64,
    /// Bits per second that were received since the previous reading.
    pub received_rate: f64,
    /// Bytes acknowledged since the start, as far as seen: the last part of a connection, after its last reading, is missing.
    pub sent_bytes: u64,
    /// Bytes received since the start, as far as seen.
    pub received_bytes: u64,
    /// Sum of the congestion windows in segments, or of the advertised windows for connections that yield in receiving.
    pub window: f64,
    /// Share of the connections' lifetime in which they backed off.
    pub yielded: f64,
}

/// Reads a command's connections.
#[derive(Debug)]
pub(super) struct Meter {
    sockets: Option<(Sockets, u64)>,
    clock: RealClock,
    last: Timestamp,
    known: BTreeMap<(SocketAddr, SocketAddr), Socket>,
    /// Age and backed-off time of connections that have ended.
    gone: (f64, f64),
    reading: Connections,
}

impl Meter {
    pub(super) fn new(means: &Means) -> Self {
        let sockets =
            means.readable().and_then(|(receivers, cgroup)| Some((Sockets::open(receivers).ok()?, cgroup)));
        let clock = RealClock::start();
        Meter {
            sockets,
            last: clock.now(),
            clock,
            known: BTreeMap::new(),
            gone: (0.0, 0.0),
            reading: Connections::default(),
        }
    }

    /// Takes a reading; `None` if the kernel does not report.
    pub(super) fn read(&mut self) -> Option<&Connections> {
        let (sockets, cgroup) = self.sockets.as_ref()?;
        let now = self.clock.now();
        let mut there = sockets.read().ok()?;
        there.retain(|socket| socket.cgroup == *cgroup);
        let span = now.saturating_since(self.last).as_secs_f64();
        self.last = now;
        self.take(there, span);
        Some(&self.reading)
    }

    /// Adds the current connections, `span` seconds after the last time.
    fn take(&mut self, there: Vec<Socket>, span: f64) {
        let mut known = BTreeMap::new();
        let (mut sent, mut received) = (0, 0);
        let (mut age, mut yielded) = self.gone;
        let mut window = 0.0;
        for socket in there {
            let before = self.known.remove(&(socket.local, socket.remote));
            let before = before.map_or((0, 0), |socket| (socket.bytes_acked, socket.bytes_received));
            sent += socket.bytes_acked.saturating_sub(before.0);
            received += socket.bytes_received.saturating_sub(before.1);
            age += socket.age_s;
            yielded += socket.yielded_s;
            // A download's acknowledgements have a window too, which has no meaning.
            let receives = socket.direction != Direction::Sends && socket.bytes_received > socket.bytes_acked;
            window += if receives { socket.receive_window } else { socket.window };
            known.insert((socket.local, socket.remote), socket);
        }
        for socket in self.known.values() {
            self.gone.0 += socket.age_s;
            self.gone.1 += socket.yielded_s;
            age += socket.age_s;
            yielded += socket.yielded_s;
        }
        self.known = known;
        let rate = |bytes: u64| if span > 0.0 { bytes as f64 * 8.0 / span } else { 0.0 };
        self.reading = Connections {
            connections: self.known.len(),
            sent_rate: rate(sent),
            received_rate: rate(received),
            sent_bytes: self.reading.sent_bytes + sent,
            received_bytes: self.reading.received_bytes + received,
            window,
            yielded: if age > 0.0 { yielded / age } else { 0.0 },
        };
    }

    /// The last reading; `None` if there was none.
    pub(super) fn last(&self) -> Option<Connections> {
        self.sockets.as_ref().map(|_| self.reading)
    }
}
