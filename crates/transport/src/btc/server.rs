//! The server's end of capacity tests: any number of clients, none of which costs anything before its address is proven.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use warpline_core::{Ecn, Rate, TimeDelta, Timestamp};

use super::auth::{COOKIE_LIFE, Key, Secret};
use super::link::{Datagram, Link, LinkParts};
use super::options::{CapOptions, Direction};
use super::results::{HostResults, ReceiverResults, Report};
use super::wire::{Message, Refusal, SEGMENT, VERSION, addressed, read_segment, signed};
use crate::cc::Algorithm;

/// How often, and how long, a report is sent again that nobody confirmed.
const REPORT_PAUSE: TimeDelta = TimeDelta::from_millis(250);
const REPORT_WAIT: TimeDelta = TimeDelta::from_secs(10);
/// A session may outlast its data by so much: handshakes, repairs, queues.
const OVERTIME: TimeDelta = TimeDelta::from_secs(30);
/// Refusals outside of sessions in a second, and at once.
const REFUSALS: u64 = 100;
/// Cookies that have been used are remembered while they are good; at most so many.
const SPENT: usize = 1 << 14;
/// What a client may send at once beyond its rate, in bytes.
const BURST: u64 = 1 << 20;

/// What a server grants.
#[derive(Clone, Debug)]
pub struct ServerLimits {
    /// Clients at the same time.
    pub clients: usize,
    /// Longest test.
    pub duration: TimeDelta,
    /// Highest rate of a test, on the wire; none for any.
    pub rate: Option<Rate>,
    /// How long nothing may be heard of a client before it is forgotten.
    pub patience: TimeDelta,
    /// The key that clients must have, if any.
    pub key: Option<Vec<u8>>,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            clients: 16,
            duration: TimeDelta::from_secs(600),
            rate: None,
            patience: TimeDelta::from_secs(30),
            key: None,
        }
    }
}

/// A test that is over, for the server's log.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The client.
    pub client: SocketAddr,
    /// Who sent.
    pub direction: Direction,
    /// Congestion control asked for.
    pub cc: Algorithm,
    /// What this end saw.
    pub report: Report,
    /// Why it ended: "complete", "client went silent" and so on.
    pub why: &'static str,
}

#[derive(Debug)]
struct Session {
    link: Link,
    client: SocketAddr,
    cc: Algorithm,
    opened: Timestamp,
    heard: Timestamp,
    duration: TimeDelta,
    rate: Option<Rate>,
    accept: Vec<u8>,
    /// The data is over and this is what was seen; when to tell it again, and until when.
    reporting: Option<(Report, Timestamp, Timestamp)>,
}

/// The server's end of all its tests.
#[derive(Debug)]
pub struct CapServer {
    limits: ServerLimits,
    key: Option<Key>,
    secret: Option<Secret>,
    wall_us: u64,
    /// For the heartbeat's phase of sessions in which this end sends.
    phase: u64,
    host: HostResults,
    sessions: BTreeMap<u64, Session>,
    /// Sessions that may have something to send.
    ready: VecDeque<u64>,
    /// Messages outside of data.
    queue: VecDeque<(SocketAddr, Vec<u8>)>,
    spent: BTreeMap<u64, Timestamp>,
    refusals: (Timestamp, u64),
    finished: Vec<Finished>,
    stopping: bool,
}

impl CapServer {
    /// A server. `secret` are 32 random bytes; `wall_us` the clock on the wall at the run's start, in microseconds since 1970.
    pub fn new(limits: ServerLimits, secret: &[u8; 32], wall_us: u64) -> Self {
        let phase = secret.iter().take(8).fold(0, |phase, &byte| (phase << 8) | u64::from(byte));
        CapServer {
            key: limits.key.as_deref().and_then(Key::new),
            limits,
            secret: Secret::new(secret),
            wall_us,
            phase,
            host: HostResults::default(),
            sessions: BTreeMap::new(),
            ready: VecDeque::new(),
            queue: VecDeque::new(),
            spent: BTreeMap::new(),
            refusals: (Timestamp::ZERO, 0),
            finished: Vec::new(),
            stopping: false,
        }
    }

    /// Tests under way.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
    /// What the test under way has received, or the last one if none is.
    pub fn receiver_results(&self) -> Option<ReceiverResults> {
        let under_way = self.sessions.values().next().and_then(|session| session.link.receiver_results());
        under_way.or_else(|| self.finished.last().and_then(|finished| finished.report.receiver))
    }
    /// Says what happened within this host so far: reports tell it.
    pub fn set_host(&mut self, host: HostResults) {
        self.host = host;
    }
    /// Tests that have ended since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Ends all tests: each client is told. What is to be sent is to be polled for once more.
    pub fn stop(&mut self) {
        self.stopping = true;
        let tokens: Vec<u64> = self.sessions.keys().copied().collect();
        for token in tokens {
            self.refuse_session(token, Refusal::Stopping, "stopped here");
        }
    }

    /// Refuses outside of a session: never more bytes than came, and not too often.
    fn refuse(
        &mut self,
        now: Timestamp,
        to: (SocketAddr, [u8; 16]),
        came: usize,
        reason: Refusal,
        value: u32,
    ) {
        let (since, count) = self.refusals;
        if now.saturating_since(since) >= TimeDelta::from_secs(1) {
            self.refusals = (now, 0);
        } else if count >= REFUSALS {
            return;
        }
        self.refusals.1 += 1;
        let mut bytes = Vec::new();
        Message::Refuse { to: to.1, reason, value }.write(true, None, &mut bytes);
        if bytes.len() <= came {
            self.queue.push_back((to.0, bytes));
        }
    }

    fn refuse_session(&mut self, token: u64, reason: Refusal, why: &'static str) {
        if let Some(session) = self.sessions.get(&token) {
            let mut bytes = Vec::new();
            Message::Refuse { to: addressed(token), reason, value: 0 }.write(true, None, &mut bytes);
            self.queue.push_back((session.client, bytes));
        }
        self.forget(token, why);
    }

    fn forget(&mut self, token: u64, why: &'static str) {
        let Some(mut session) = self.sessions.remove(&token) else { return };
        let report = match session.reporting {
            Some((report, ..)) => report,
            None => {
                session.link.finish(session.heard);
                Self::report(&session.link, self.host)
            }
        };
        let direction = if session.link.sends() { Direction::Reverse } else { Direction::Forward };
        self.finished.push(Finished { client: session.client, direction, cc: session.cc, report, why });
        self.spent.insert(token, session.opened + COOKIE_LIFE + COOKIE_LIFE);
    }

    fn report(link: &Link, host: HostResults) -> Report {
        Report { sender: link.sender_results(), receiver: link.receiver_results(), host }
    }

    /// A datagram came from `from` at `at`, marked congestion-experienced if `ce`; it is `now` by this time.
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        from: SocketAddr,
        bytes: &[u8],
        ce: bool,
    ) {
        if bytes.get(1) == Some(&SEGMENT) {
            self.handle_segment(now, at, from, bytes, ce);
            return;
        }
        if let Some(&first) = bytes.first()
            && first != VERSION
        {
            // Another version of this protocol; anything else is not worth a word.
            if first & 0xf0 == VERSION & 0xf0
                && let Some(nonce) = bytes.get(2..18).and_then(|nonce| nonce.first_chunk::<16>())
            {
                self.refuse(now, (from, *nonce), bytes.len(), Refusal::Version, u32::from(VERSION & 0xf));
            }
            return;
        }
        match Message::read(bytes) {
            Some(Message::Hello { nonce }) => {
                if let Some(secret) = &self.secret {
                    let (time, cookie) = secret.cookie(now, &from, &nonce);
                    let mut answer = Vec::new();
                    Message::Cookie { nonce, time, cookie }.write(true, None, &mut answer);
                    debug_assert!(answer.len() <= bytes.len());
                    self.queue.push_back((from, answer));
                }
            }
            Some(Message::Open { nonce, time, cookie, options }) => {
                let good = self
                    .secret
                    .as_ref()
                    .is_some_and(|secret| secret.accepts(now, &from, &nonce, (time, &cookie)));
                if good {
                    self.open(now, (from, nonce, cookie), options, bytes);
                }
            }
            Some(Message::Finish { token }) => self.on_finish(now, from, token, bytes),
            Some(Message::Close { token }) => {
                if let Some(session) = self.sessions.get(&token)
                    && session.client == from
                    && session.link.key().is_none_or(|key| signed(bytes, false, key))
                {
                    let why = if session.reporting.is_some() { "complete" } else { "stopped by the client" };
                    self.forget(token, why);
                }
            }
            _ => {}
        }
    }

    fn open(
        &mut self,
        now: Timestamp,
        (from, nonce, cookie): (SocketAddr, [u8; 16], [u8; 16]),
        mut options: CapOptions,
        bytes: &[u8],
    ) {
        if let Some(key) = &self.key
            && !signed(bytes, false, key)
        {
            return self.refuse(now, (from, nonce), bytes.len(), Refusal::Key, 0);
        }
        let Some(token) = self.secret.as_ref().map(|secret| secret.token(&cookie)) else { return };
        if let Some(session) = self.sessions.get(&token) {
            // The answer was lost, or a copy of the question came late.
            self.queue.push_back((session.client, session.accept.clone()));
            return;
        }
        self.spent.retain(|_, until| *until > now);
        if self.spent.contains_key(&token) {
            return;
        }
        if self.stopping {
            return self.refuse(now, (from, nonce), bytes.len(), Refusal::Stopping, 0);
        }
        if self.sessions.len() >= self.limits.clients || self.spent.len() >= SPENT {
            let most = self.limits.clients as u32;
            return self.refuse(now, (from, nonce), bytes.len(), Refusal::Busy, most);
        }
        options.duration = options.duration.min(self.limits.duration);
        let rate = match (options.max_rate, self.limits.rate) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        options.max_rate = rate;
        let session_key = self.key.as_ref().and_then(|key| key.session(&nonce, &cookie));
        let mut accept = Vec::new();
        Message::Accept {
            nonce,
            token,
            duration_ms: options.duration.as_millis() as u32,
            rate_bps: self.limits.rate.map_or(0, Rate::as_bps),
        }
        .write(true, session_key.as_ref(), &mut accept);
        let granularity = options.granularity.as_nanos().max(1);
        let parts = LinkParts {
            token,
            from_server: true,
            sends: options.direction == Direction::Reverse,
            key: session_key,
            phase: TimeDelta::from_nanos((self.phase ^ token) % granularity),
            wall_us: self.wall_us,
            headers: if from.is_ipv4() || is_mapped(&from) { 28 } else { 48 },
            trace: false,
        };
        self.queue.push_back((from, accept.clone()));
        let session = Session {
            link: Link::new(&options, parts),
            client: from,
            cc: options.cc,
            opened: now,
            heard: now,
            duration: options.duration,
            rate: self.limits.rate,
            accept,
            reporting: None,
        };
        self.sessions.insert(token, session);
    }

    #[inline]
    fn handle_segment(&mut self, now: Timestamp, at: Timestamp, from: SocketAddr, bytes: &[u8], ce: bool) {
        let Some((wire, header)) = read_segment(bytes) else { return };
        let Some(session) = self.sessions.get_mut(&wire.token) else {
            // After a test's end its last segments still come.
            if !self.spent.contains_key(&wire.token) {
                let to = (from, addressed(wire.token));
                self.refuse(now, to, bytes.len(), Refusal::Unknown, 0);
            }
            return;
        };
        if session.client != from {
            if session.link.key().is_none_or(|key| wire.signed(bytes, header, key)) {
                self.refuse(now, (from, addressed(wire.token)), bytes.len(), Refusal::Moved, 0);
            }
            return;
        }
        if session.reporting.is_some() || !session.link.handle(at, &wire, (bytes, header), ce) {
            return;
        }
        session.heard = now;
        if let Some(rate) = session.rate
            && !session.link.sends()
            && let Some(started) = session.link.started()
        {
            let allowed = rate.bytes_in(now.saturating_since(started)).0;
            if session.link.arrivals.wire_bytes() > allowed + allowed / 4 + BURST {
                return self.refuse_session(wire.token, Refusal::TooFast, "faster than granted");
            }
        }
        if self.ready.back() != Some(&wire.token) {
            self.ready.push_back(wire.token);
        }
    }

    fn on_finish(&mut self, now: Timestamp, from: SocketAddr, token: u64, bytes: &[u8]) {
        let Some(session) = self.sessions.get_mut(&token) else {
            if !self.spent.contains_key(&token) {
                self.refuse(now, (from, addressed(token)), bytes.len(), Refusal::Unknown, 0);
            }
            return;
        };
        if session.client != from
            || session.link.sends()
            || !session.link.key().is_none_or(|key| signed(bytes, false, key))
        {
            return;
        }
        session.heard = now;
        if session.reporting.is_none() {
            let report = Self::report(&session.link, self.host);
            session.reporting = Some((report, Timestamp::NEVER, now + REPORT_WAIT));
        }
        self.send_report(token);
    }

    fn send_report(&mut self, token: u64) {
        let Some(session) = self.sessions.get(&token) else { return };
        let Some((report, ..)) = &session.reporting else { return };
        let mut bytes = Vec::new();
        Message::Report { token, report: Box::new(*report) }.write(true, session.link.key(), &mut bytes);
        self.queue.push_back((session.client, bytes));
    }

    /// Appends the next datagram to `out`; call until `None`.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<(SocketAddr, Datagram)> {
        if let Some((to, bytes)) = self.queue.pop_front() {
            out.extend_from_slice(&bytes);
            return Some((to, Datagram { len: bytes.len(), ecn: Ecn::NotEct }));
        }
        while let Some(token) = self.ready.front() {
            if let Some(session) = self.sessions.get_mut(token)
                && session.reporting.is_none()
                && let Some(datagram) = session.link.poll(now, out)
            {
                return Some((session.client, datagram));
            }
            self.ready.pop_front();
        }
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called.
    pub fn poll_timeout(&self) -> Timestamp {
        self.sessions.values().map(|session| self.due(session)).min().unwrap_or(Timestamp::NEVER)
    }

    fn due(&self, session: &Session) -> Timestamp {
        let patience = session.heard + self.limits.patience;
        let age = session.opened + session.duration + OVERTIME + self.limits.patience;
        match &session.reporting {
            Some((_, again, until)) => (*again).min(*until),
            None => {
                session.link.connection.poll_timeout().min(patience).min(age).min(Self::data_end(session))
            }
        }
    }

    /// When this end has sent data for as long as was asked for.
    fn data_end(session: &Session) -> Timestamp {
        match session.link.started() {
            Some(started) if session.link.sends() => started + session.duration,
            _ => Timestamp::NEVER,
        }
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let due: Vec<u64> = self
            .sessions
            .iter()
            .filter(|(_, session)| self.due(session) <= now)
            .map(|(&token, _)| token)
            .collect();
        for token in due {
            self.handle_session_timeout(now, token);
        }
    }

    fn handle_session_timeout(&mut self, now: Timestamp, token: u64) {
        let patience = self.limits.patience;
        let host = self.host;
        let Some(session) = self.sessions.get_mut(&token) else { return };
        if let Some((_, again, until)) = &mut session.reporting {
            if now >= *until {
                return self.forget(token, "report not confirmed");
            }
            *again = now + REPORT_PAUSE;
            return self.send_report(token);
        }
        session.link.handle_timeout(now);
        if session.link.failed() || now >= session.heard + patience {
            return self.forget(token, "client went silent");
        }
        if now >= session.opened + session.duration + OVERTIME + patience {
            return self.refuse_session(token, Refusal::TooLong, "longer than granted");
        }
        if now >= Self::data_end(session) {
            session.link.finish(now);
            let report = Self::report(&session.link, host);
            session.reporting = Some((report, now + REPORT_PAUSE, now + REPORT_WAIT));
            return self.send_report(token);
        }
        self.ready.push_back(token);
    }
}

/// Whether an IPv6 address is one of IPv4 in disguise, as sockets for both give it.
fn is_mapped(address: &SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().to_ipv4_mapped().is_some())
}
