//! Applications: state machines that decide when to open connections, write, or send datagrams.
//!
//! They know nothing of the network. [`App::poll`] is called when the application's timer fires, and again until it returns
//! [`Action::Wait`]. Other events come through `on_delivered` and `on_transfer_done`.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpline_core::{Rate, Stream, TimeDelta, Timestamp};
use warpline_scenario::plan::Tool;

use super::counters::Messages;
use super::web::{Sessions, WebRequest};

/// What the two ends of a connection exchange.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Exchange {
    /// Size of the request with which the data's receiver opens the connection; 0 if the data's sender opens it.
    pub(crate) request: u64,
    /// Bytes of data, or no limit.
    pub(crate) response: Option<u64>,
    /// Whether the sender closes after the data.
    pub(crate) close: bool,
    /// Whether it is a transfer, whose completion is measured.
    pub(crate) transfer: bool,
    /// A tag for the application's own use.
    pub(crate) tag: u32,
}

impl Exchange {
    /// A connection that stays open, for an application that writes to it.
    pub(super) const STREAM: Exchange =
        Exchange { request: 0, response: Some(0), close: false, transfer: false, tag: 0 };

    /// `bytes` on a new connection.
    fn transfer(bytes: u64, request: u64, tag: u32) -> Exchange {
        Exchange { request, response: Some(bytes), close: true, transfer: true, tag }
    }
}

/// What an application does next.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Wait until this instant.
    Wait(Timestamp),
    /// Send a datagram of this many bytes on the wire.
    Datagram { bytes: u32 },
    /// Open a connection.
    Open { exchange: Exchange },
    /// Start a measurement.
    Measure { tool: Tool },
    /// Start a media stream.
    Media,
    /// Write to the open connection.
    Write { bytes: u64 },
    /// Accept connections from programs.
    Listen,
}

/// Times at a constant rate, without drift.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    next: Timestamp,
    nanos: u64,
    rest: u64,
    carry: u64,
    rate: u64,
}

impl Beat {
    fn new(start: Timestamp, bytes: u64, rate: Rate) -> Beat {
        let rate = rate.as_bps().max(1);
        let scaled = u128::from(bytes) * 8_000_000_000;
        let (nanos, rest) = ((scaled / u128::from(rate)) as u64, (scaled % u128::from(rate)) as u64);
        Beat { next: start, nanos: nanos.max(u64::from(rest == 0)), rest, carry: 0, rate }
    }
    fn advance(&mut self) {
        self.carry += self.rest;
        let over = self.carry >= self.rate;
        self.carry -= if over { self.rate } else { 0 };
        self.next += TimeDelta::from_nanos(self.nanos + u64::from(over));
    }
}

/// How an application's data is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    Udp,
    Tcp {
        /// Whether its connection has been opened.
        open: bool,
    },
}

impl Carrier {
    /// Opens the connection if it needs one and has none.
    fn open(&mut self) -> Option<Action> {
        match self {
            Carrier::Tcp { open } if !*open => {
                *open = true;
                Some(Action::Open { exchange: Exchange::STREAM })
            }
            _ => None,
        }
    }
    fn send(self, bytes: u64) -> Action {
        match self {
            Carrier::Udp => Action::Datagram { bytes: bytes as u32 },
            Carrier::Tcp { .. } => Action::Write { bytes },
        }
    }
}

/// An application, with its state.
#[derive(Debug)]
pub(crate) enum App {
    /// Sends as much as it can on one connection.
    Bulk { started: bool },
    /// Transfers of one size, one after the other.
    Transfer {
        size: u64,
        /// How many are still to be started; `u32::MAX` for no limit.
        left: u32,
        pause: TimeDelta,
        next: Timestamp,
    },
    /// A constant rate, continuous or in bursts.
    Rate { carrier: Carrier, bytes: u64, rate: Rate, beat: Option<Beat>, bursts: Option<Bursts> },
    /// Messages at the times of a Poisson process.
    Messages {
        carrier: Carrier,
        bytes: u64,
        /// Mean time between two messages, in seconds.
        mean: f64,
        next: Option<Timestamp>,
        written: u64,
        /// The end of each message in flight, as a position in the stream, and the time when it was written.
        under_way: VecDeque<(u64, Timestamp)>,
    },
    /// Transfers of given sizes at given times after the start.
    Log { entries: Arc<[(TimeDelta, u64)]>, start: Option<Timestamp>, next: usize, request: u64 },
    /// Web sessions drawn from distributions.
    Web(Box<Sessions>),
    /// A measuring tool.
    Measure { tool: Tool, started: bool },
    /// A media stream, whose ends do all the rest.
    Media { started: bool },
    /// A service for programs.
    Service { listening: bool },
    /// Stopped.
    Stopped,
}

/// On and off times, both with a Pareto distribution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bursts {
    /// Mean on and off time in seconds.
    pub(crate) mean_on: f64,
    pub(crate) mean_off: f64,
    pub(crate) shape: f64,
    /// End of the current on-time.
    pub(crate) until: Timestamp,
}

impl App {
    /// What to do next at `now`.
    pub(crate) fn poll(&mut self, now: Timestamp, stream: &mut Stream) -> Action {
        match self {
            App::Stopped => Action::Wait(Timestamp::NEVER),
            App::Bulk { started: true } | App::Service { listening: true } => Action::Wait(Timestamp::NEVER),
            App::Service { listening } => {
                *listening = true;
                Action::Listen
            }
            App::Bulk { started } => {
                *started = true;
                Action::Open { exchange: Exchange { response: None, ..Exchange::STREAM } }
            }
            App::Measure { started: true, .. } | App::Media { started: true } => {
                Action::Wait(Timestamp::NEVER)
            }
            App::Media { started } => {
                *started = true;
                Action::Media
            }
            App::Measure { tool, started } => {
                *started = true;
                Action::Measure { tool: tool.clone() }
            }
            App::Transfer { size, left, next, .. } => {
                if *left == 0 || now < *next {
                    return Action::Wait(if *left == 0 { Timestamp::NEVER } else { *next });
                }
                *left -= u32::from(*left != u32::MAX);
                *next = Timestamp::NEVER;
                Action::Open { exchange: Exchange::transfer(*size, 0, 0) }
            }
            App::Rate { carrier, bytes, rate, beat, bursts } => {
                if let Some(open) = carrier.open() {
                    return open;
                }
                let beat = beat.get_or_insert_with(|| {
                    if let Some(bursts) = bursts {
                        bursts.until = now + bursts.draw(bursts.mean_on, stream);
                    }
                    Beat::new(now, *bytes, *rate)
                });
                // The remaining wait at the end of a burst is carried over to the next one, so that the rate within
                // bursts is correct even if bursts are short.
                if let Some(bursts) = bursts {
                    while beat.next >= bursts.until && bursts.until.is_set() {
                        let off = bursts.draw(bursts.mean_off, stream);
                        beat.next += off;
                        bursts.until = bursts.until + off + bursts.draw(bursts.mean_on, stream);
                    }
                }
                if now < beat.next {
                    return Action::Wait(beat.next);
                }
                beat.advance();
                carrier.send(*bytes)
            }
            App::Messages { carrier, bytes, mean, next, written, under_way } => {
                if let Some(open) = carrier.open() {
                    return open;
                }
                // The first interval is drawn like all others, since a Poisson process has no memory.
                let next =
                    next.get_or_insert_with(|| now + TimeDelta::from_secs_f64(stream.exponential(*mean)));
                if now < *next {
                    return Action::Wait(*next);
                }
                *next += TimeDelta::from_secs_f64(stream.exponential(*mean));
                if matches!(carrier, Carrier::Tcp { .. }) {
                    *written += *bytes;
                    under_way.push_back((*written, now));
                }
                carrier.send(*bytes)
            }
            App::Log { entries, start, next, request } => {
                let start = *start.get_or_insert(now);
                let Some(&(at, bytes)) = entries.get(*next) else { return Action::Wait(Timestamp::NEVER) };
                if now < start + at {
                    return Action::Wait(start + at);
                }
                let tag = *next as u32;
                *next += 1;
                Action::Open { exchange: Exchange::transfer(bytes, *request, tag) }
            }
            App::Web(sessions) => match sessions.poll(now, stream) {
                WebRequest::Wait(until) => Action::Wait(until),
                WebRequest::Fetch { bytes, session } => {
                    Action::Open { exchange: Exchange::transfer(bytes, sessions.request, session) }
                }
            },
        }
    }

    /// The position in the stream whose delivery the application waits for next.
    pub(crate) fn next_watch(&self) -> u64 {
        match self {
            App::Messages { under_way, .. } => under_way.front().map_or(u64::MAX, |&(end, _)| end),
            _ => u64::MAX,
        }
    }

    /// `delivered` bytes of the stream have arrived in order. Returns the next position that it waits for.
    pub(crate) fn on_delivered(&mut self, now: Timestamp, delivered: u64, messages: &mut Messages) -> u64 {
        if let App::Messages { under_way, .. } = self {
            while let Some(&(end, created)) = under_way.front()
                && end <= delivered
            {
                messages.add(now - created);
                under_way.pop_front();
            }
        }
        self.next_watch()
    }

    /// The transfer with the tag `tag` has ended. Returns when the application wants to be polled.
    pub(crate) fn on_transfer_done(&mut self, now: Timestamp, tag: u32, stream: &mut Stream) -> Timestamp {
        match self {
            App::Transfer { left, pause, next, .. } => {
                *next = if *left == 0 { Timestamp::NEVER } else { now + *pause };
                *next
            }
            App::Web(sessions) => sessions.on_done(now, tag, stream),
            _ => Timestamp::NEVER,
        }
    }

    /// Whether it runs on the host that receives the data: that one asks for it.
    pub(crate) fn is_at_receiver(&self) -> bool {
        match self {
            App::Web(_) => true,
            App::Log { request, .. } => *request > 0,
            _ => false,
        }
    }

    /// Whether it goes on when a transfer has ended.
    pub(crate) fn waits_for_transfers(&self) -> bool {
        match self {
            App::Web(_) => true,
            App::Transfer { left, .. } => *left > 0,
            _ => false,
        }
    }

    /// Whether it needs to know at once what happens on the other host. Then both hosts must be in the same part of a network that is cut.
    pub(crate) fn needs_both_ends(&self) -> bool {
        match self {
            // The next one begins when this one has been delivered.
            App::Transfer { left, .. } => *left > 1,
            // When a message was written is noted where it is delivered.
            App::Messages { carrier, .. } => *carrier != Carrier::Udp,
            // The datagrams' bytes are kept in one place.
            App::Measure { .. } | App::Service { .. } => true,
            App::Bulk { .. }
            | App::Rate { .. }
            | App::Log { .. }
            | App::Web(_)
            | App::Media { .. }
            | App::Stopped => false,
        }
    }

    /// Whether it sends messages, whose latency is measured.
    pub(crate) fn sends_messages(&self) -> bool {
        matches!(self, App::Messages { .. })
    }

    /// Whether it has finished.
    pub(crate) fn is_through(&self) -> bool {
        match self {
            App::Stopped => true,
            App::Transfer { left, .. } => *left == 0,
            App::Log { entries, next, .. } => *next == entries.len(),
            _ => false,
        }
    }

    /// Stops sending.
    pub(crate) fn stop(&mut self) {
        // Messages in flight are still measured; everything else is done.
        match self {
            App::Messages { next, .. } => *next = Some(Timestamp::NEVER),
            app => *app = App::Stopped,
        }
    }
}

impl Bursts {
    fn draw(&self, mean: f64, stream: &mut Stream) -> TimeDelta {
        TimeDelta::from_secs_f64(stream.pareto(mean, self.shape))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_core::Streams;

    fn actions(app: &mut App, until: Timestamp) -> Vec<(Timestamp, Action)> {
        let mut stream = Streams::new(1).stream("test");
        let (mut now, mut actions) = (Timestamp::ZERO, Vec::new());
        while now < until {
            match app.poll(now, &mut stream) {
                Action::Wait(next) => now = next,
                action => actions.push((now, action)),
            }
        }
        actions
    }

    fn rate(bps: u64, bursts: Option<Bursts>) -> App {
        App::Rate { carrier: Carrier::Udp, bytes: 1500, rate: Rate::from_bps(bps), beat: None, bursts }
    }

    #[test]
    fn a_constant_rate_does_not_drift() {
        // 7 Mbit/s does not divide evenly: 12000 bits take 1714285.714... ns.
        let sent = actions(&mut rate(7_000_000, None), Timestamp::from_secs(12));
        assert_eq!(sent.len(), 7_000);
        assert_eq!(sent[6_999].0.as_nanos(), 6_999 * 12_000 * 1_000 / 7);
    }

    #[test]
    fn bursts_are_on_half_of_the_time_when_both_means_are_equal() {
        let bursts = Bursts { mean_on: 0.25, mean_off: 0.25, shape: 2.5, until: Timestamp::ZERO };
        let sent = actions(&mut rate(1_200_000, Some(bursts)), Timestamp::from_secs(1000)).len() as f64;
        assert!((sent / 100_000.0 - 0.5).abs() < 0.05, "{sent}");
    }

    #[test]
    fn messages_have_their_mean_rate_and_are_measured_one_by_one() {
        let mut app = App::Messages {
            carrier: Carrier::Tcp { open: false },
            bytes: 512,
            mean: 0.01,
            next: None,
            written: 0,
            under_way: VecDeque::new(),
        };
        let sent = actions(&mut app, Timestamp::from_secs(100));
        assert!(matches!(sent[0].1, Action::Open { .. }));
        assert!((sent.len() as f64 / 10_000.0 - 1.0).abs() < 0.05, "{}", sent.len());
        let mut messages = Messages::default();
        assert_eq!(app.next_watch(), 512);
        assert_eq!(app.on_delivered(Timestamp::from_secs(200), 1500, &mut messages), 1536);
        assert_eq!(messages.delays.count, 2);
    }

    #[test]
    fn transfers_follow_each_other_after_their_pause() {
        let mut stream = Streams::new(1).stream("test");
        let mut app =
            App::Transfer { size: 9, left: 2, pause: TimeDelta::from_secs(1), next: Timestamp::ZERO };
        assert!(matches!(app.poll(Timestamp::ZERO, &mut stream), Action::Open { .. }));
        assert!(matches!(app.poll(Timestamp::ZERO, &mut stream), Action::Wait(t) if !t.is_set()));
        let next = app.on_transfer_done(Timestamp::from_secs(5), 0, &mut stream);
        assert_eq!(next, Timestamp::from_secs(6));
        assert!(matches!(app.poll(next, &mut stream), Action::Open { .. }));
        assert!(!app.on_transfer_done(Timestamp::from_secs(7), 0, &mut stream).is_set());
        assert!(app.is_through());
        assert!(matches!(app.poll(Timestamp::from_secs(9), &mut stream), Action::Wait(t) if !t.is_set()));
    }
}
