//! The server's end of capacity tests: any number of clients, none of which uses resources before its address is proven.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use warpline_core::{Ecn, Rate, TimeDelta, Timestamp};

use super::admission::{Answers, Site, Spent};
use super::auth::{COOKIE_LIFE, Key, Secret};
use super::limits::ServerLimits;
use super::link::{Datagram, Link, LinkParts};
use super::options::{CapOptions, Direction};
use super::results::{HostResults, ReceiverResults, Report};
use super::wire::{Message, OPEN, Refusal, SEGMENT, VERSION, addressed, read_opening, read_segment, signed};
use warpline_transport::cc::Algorithm;

/// Pause before an unconfirmed report is sent again.
const REPORT_PAUSE: TimeDelta = TimeDelta::from_millis(250);
const REPORT_WAIT: TimeDelta = TimeDelta::from_secs(10);
/// How much a session may outlast its data: handshakes, recovery, queues.
const OVERTIME: TimeDelta = TimeDelta::from_secs(30);
/// Most answers waiting to be sent; further requests get none and must be repeated.
const WAITING: usize = 1 << 8;
/// Datagrams that a session sends before the next one's turn: a batch.
const TURN: u32 = 32;
/// What a client may send at once beyond its rate, in bytes.
const BURST: u64 = 1 << 20;

/// Source or destination of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The other host's address.
    pub address: SocketAddr,
    /// This host's address on that path, if it has several: answers leave from the address that was asked.
    pub local: Option<IpAddr>,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Peer { address, local: None }
    }
}

/// A finished test, for the server's log.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The client.
    pub client: SocketAddr,
    /// The direction of the data.
    pub direction: Direction,
    /// The requested congestion control.
    pub cc: Algorithm,
    /// This end's report.
    pub report: Report,
    /// Why it ended: "complete", "client went silent" and so on.
    pub why: &'static str,
}

#[derive(Debug)]
struct Session {
    link: Link,
    client: Peer,
    cc: Algorithm,
    opened: Timestamp,
    /// When the last segment arrived; `None` since it was opened.
    heard: Option<Timestamp>,
    /// Whether it waits in `ready`.
    is_ready: bool,
    /// Datagrams to its client that the system refused to send.
    refused: u64,
    duration: TimeDelta,
    rate: Option<Rate>,
    accept: Vec<u8>,
    /// After the end of the data: the results, when to send them again, and until when.
    reporting: Option<(Report, Timestamp, Timestamp)>,
}

/// The server's end of all its tests.
#[derive(Debug)]
pub struct CapServer {
    limits: ServerLimits,
    key: Option<Key>,
    secret: Option<Secret>,
    wall_us: u64,
    /// For the heartbeat's phase in sessions in which this end sends.
    phase: u64,
    host: HostResults,
    sessions: BTreeMap<u64, Session>,
    /// Sessions that may have something to send, in the order of their turns; and the rest of the first one's turn.
    ready: VecDeque<u64>,
    turn: u32,
    /// Messages other than data.
    queue: VecDeque<(Peer, Vec<u8>)>,
    spent: Spent,
    answers: Answers,
    finished: Vec<Finished>,
    stopping: bool,
}

impl CapServer {
    /// A server. `secret` is 32 random bytes; `wall_us` is the wall-clock time at the run's start, in microseconds since 1970.
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
            turn: TURN,
            queue: VecDeque::new(),
            spent: Spent::default(),
            answers: Answers::new(phase),
            finished: Vec::new(),
            stopping: false,
        }
    }

    /// Number of running tests.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }
    /// The receiver's results of the running test, or else of the last one.
    pub fn receiver_results(&self) -> Option<ReceiverResults> {
        let under_way = self.sessions.values().next().and_then(|session| session.link.receiver_results());
        under_way.or_else(|| self.finished.last().and_then(|finished| finished.report.receiver))
    }
    /// Sets what happened within this host so far, for the reports.
    pub fn set_host(&mut self, host: HostResults) {
        self.host = host;
    }
    /// Tests that have ended since the last call.
    pub fn take_finished(&mut self) -> Vec<Finished> {
        std::mem::take(&mut self.finished)
    }

    /// Ends all tests and notifies each client. Poll for datagrams to send once more afterwards.
    pub fn stop(&mut self) {
        self.stopping = true;
        let tokens: Vec<u64> = self.sessions.keys().copied().collect();
        for token in tokens {
            self.refuse_session(token, Refusal::Stopping, "stopped here");
        }
    }

    /// The system refused to send `count` datagrams to `to`: they were never on the path, and do not count as other clients' losses.
    pub fn on_refused(&mut self, to: SocketAddr, count: u64) {
        for session in self.sessions.values_mut().filter(|session| session.client.address == to) {
            session.refused += count;
        }
    }

    /// The system refused to send a datagram to `to` because it is too large for the interface. Segments keep their size, so a test whose
    /// data goes there ends, and the server tells the client why.
    pub fn on_too_large(&mut self, to: SocketAddr) {
        let sends = |session: &Session| session.client.address == to && session.link.sends();
        let tokens: Vec<u64> =
            self.sessions.iter().filter(|(_, session)| sends(session)).map(|(&token, _)| token).collect();
        for token in tokens {
            self.refuse_session(token, Refusal::TooLarge, "segments larger than the MTU");
        }
    }

    /// Sends a message other than data, unless too many wait.
    fn enqueue(&mut self, to: Peer, bytes: Vec<u8>) {
        if self.queue.len() < WAITING {
            self.queue.push_back((to, bytes));
        }
    }

    /// Refuses outside of a session: never with more bytes than were received, and not too often. Signed with the session's key, if the client has shown it.
    fn refuse(
        &mut self,
        now: Timestamp,
        (to, nonce): (Peer, [u8; 16]),
        came: usize,
        (reason, value): (Refusal, u32),
        key: Option<&Key>,
    ) {
        if self.queue.len() >= WAITING || !self.answers.allow(now, Site::of(&to.address)) {
            return;
        }
        let mut bytes = Vec::new();
        Message::Refuse { to: nonce, reason, value }.write(true, key, &mut bytes);
        if bytes.len() <= came {
            self.enqueue(to, bytes);
        }
    }

    fn refuse_session(&mut self, token: u64, reason: Refusal, why: &'static str) {
        if let Some(session) = self.sessions.get(&token) {
            let mut bytes = Vec::new();
            let refusal = Message::Refuse { to: addressed(token), reason, value: 0 };
            refusal.write(true, session.link.key(), &mut bytes);
            // At most one for each session: there is always room for these.
            self.queue.push_back((session.client, bytes));
        }
        self.forget(token, why);
    }

    fn forget(&mut self, token: u64, why: &'static str) {
        let Some(mut session) = self.sessions.remove(&token) else { return };
        let report = match session.reporting {
            Some((report, ..)) => report,
            None => {
                session.link.finish(session.heard.unwrap_or(session.opened));
                Self::report(&session, self.host)
            }
        };
        let direction = if session.link.sends() { Direction::Reverse } else { Direction::Forward };
        let client = session.client.address;
        self.finished.push(Finished { client, direction, cc: session.cc, report, why });
        self.spent.ended(token);
    }

    fn report(session: &Session, mut host: HostResults) -> Report {
        host.send_drops += session.refused;
        Report { sender: session.link.sender_results(), receiver: session.link.receiver_results(), host }
    }

    /// A datagram arrived from `from` at `at`, marked congestion-experienced if `ce`; the time is now `now`.
    #[inline]
    pub fn handle_datagram(
        &mut self,
        now: Timestamp,
        at: Timestamp,
        from: impl Into<Peer>,
        bytes: &[u8],
        ce: bool,
    ) {
        let from = from.into();
        // Nothing can be sent to port 0: the system reports an attempt as a socket error.
        if from.address.port() == 0 {
            return;
        }
        match bytes.get(1) {
            Some(&SEGMENT) => self.handle_segment(now, at, from, bytes, ce),
            Some(&OPEN) => self.handle_opening(now, from, bytes),
            Some(_) => self.handle_message(now, from, bytes),
            None => {}
        }
    }

    fn handle_message(&mut self, now: Timestamp, from: Peer, bytes: &[u8]) {
        if let Some(&first) = bytes.first()
            && first != VERSION
        {
            // Another version of this protocol; anything else gets no answer.
            if first & 0xf0 == VERSION & 0xf0
                && let Some(nonce) = bytes.get(2..18).and_then(|nonce| nonce.first_chunk::<16>())
            {
                let version = u32::from(VERSION & 0xf);
                self.refuse(now, (from, *nonce), bytes.len(), (Refusal::Version, version), None);
            }
            return;
        }
        if !bytes.get(1).is_some_and(|&kind| Message::is_from_client(kind)) {
            return;
        }
        match Message::read(bytes) {
            Some(Message::Hello { nonce }) => {
                // Making and sending a cookie is the most expensive step, so check first whether one is due.
                if let Some(secret) = &self.secret
                    && self.queue.len() < WAITING
                    && self.answers.allow(now, Site::of(&from.address))
                {
                    let (time, cookie) = secret.cookie(now, &from.address, &nonce);
                    let mut answer = Vec::new();
                    Message::Cookie { nonce, time, cookie }.write(true, None, &mut answer);
                    debug_assert!(answer.len() <= bytes.len());
                    self.enqueue(from, answer);
                }
            }
            Some(Message::Finish { token }) => self.on_finish(now, from, token, bytes),
            Some(Message::Close { token }) => {
                if let Some(session) = self.sessions.get(&token)
                    && session.client.address == from.address
                    && session.link.key().is_none_or(|key| signed(bytes, false, key))
                {
                    let why = if session.reporting.is_some() { "complete" } else { "stopped by the client" };
                    self.forget(token, why);
                }
            }
            _ => {}
        }
    }

    /// Handles an opening: reads nothing of it before its cookie has proven the address, and nothing of its options before the key has been shown.
    fn handle_opening(&mut self, now: Timestamp, from: Peer, bytes: &[u8]) {
        let Some((nonce, time, cookie)) = read_opening(bytes) else { return };
        let Some(secret) = &self.secret else { return };
        if !secret.accepts(now, &from.address, &nonce, (time, &cookie)) {
            return;
        }
        if let Some(key) = &self.key
            && !signed(bytes, false, key)
        {
            return self.refuse(now, (from, nonce), bytes.len(), (Refusal::Key, 0), None);
        }
        let token = secret.token(&cookie);
        if let Some(session) = self.sessions.get(&token) {
            // The answer was lost, or a copy of the request came late.
            let (client, accept) = (session.client, session.accept.clone());
            return self.enqueue(client, accept);
        }
        if self.spent.contains(now, token) {
            return;
        }
        let key = self.key.as_ref().and_then(|key| key.session(&nonce, &cookie));
        match self.admit(&from, bytes) {
            Ok(options) => self.open(now, (from, nonce, token), options, key),
            Err(refusal) => self.refuse(now, (from, nonce), bytes.len(), refusal, key.as_ref()),
        }
    }

    /// The options that an opening requests, if they can be granted.
    fn admit(&self, from: &Peer, bytes: &[u8]) -> Result<CapOptions, (Refusal, u32)> {
        if self.stopping {
            return Err((Refusal::Stopping, 0));
        }
        let Some(Message::Open { options, .. }) = Message::read(bytes) else {
            return Err((Refusal::Options, 0));
        };
        let site = Site::of(&from.address);
        if let Some(limits) = self.limits.for_strangers() {
            if let Some(bound) = limits.broken(&options) {
                return Err((Refusal::Options, bound.code()));
            }
            let own = |session: &&Session| Site::of(&session.client.address) == site;
            if self.sessions.values().filter(own).count() >= limits.clients_per_address {
                return Err((Refusal::Crowded, limits.clients_per_address as u32));
            }
        }
        if self.sessions.len() >= self.limits.clients || !self.spent.has_room(site) {
            return Err((Refusal::Busy, self.limits.clients as u32));
        }
        Ok(options)
    }

    fn open(
        &mut self,
        now: Timestamp,
        (from, nonce, token): (Peer, [u8; 16], u64),
        mut options: CapOptions,
        key: Option<Key>,
    ) {
        let granted = self.limits.granted_rate();
        options.duration = options.duration.min(self.limits.duration);
        options.max_rate = match (options.max_rate, granted) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut accept = Vec::new();
        Message::Accept {
            nonce,
            token,
            duration_ms: options.duration.as_millis() as u32,
            rate_bps: granted.map_or(0, Rate::as_bps),
        }
        .write(true, key.as_ref(), &mut accept);
        let granularity = options.granularity.as_nanos().max(1);
        let parts = LinkParts {
            token,
            from_server: true,
            sends: options.direction == Direction::Reverse,
            key,
            phase: TimeDelta::from_nanos((self.phase ^ token) % granularity),
            wall_us: self.wall_us,
            headers: if from.address.ip().to_canonical().is_ipv4() { 28 } else { 48 },
            trace: false,
        };
        self.enqueue(from, accept.clone());
        self.spent.opened(now, token, Site::of(&from.address));
        let session = Session {
            link: Link::new(&options, parts),
            client: from,
            cc: options.cc,
            opened: now,
            heard: None,
            is_ready: false,
            refused: 0,
            duration: options.duration,
            rate: granted,
            accept,
            reporting: None,
        };
        self.sessions.insert(token, session);
    }

    #[inline]
    fn handle_segment(&mut self, now: Timestamp, at: Timestamp, from: Peer, bytes: &[u8], ce: bool) {
        let Some((wire, header)) = read_segment(bytes) else { return };
        let Some(session) = self.sessions.get_mut(&wire.token) else {
            return self.refuse_unknown(now, from, wire.token, bytes.len());
        };
        if session.client.address != from.address {
            let key = session.link.key().cloned();
            if key.as_ref().is_none_or(|key| wire.signed(bytes, header, key)) {
                let to = (from, addressed(wire.token));
                self.refuse(now, to, bytes.len(), (Refusal::Moved, 0), key.as_ref());
            }
            return;
        }
        if let Some((report, ..)) = &mut session.reporting {
            if session.link.handle_late(at, &wire, (bytes, header), ce) {
                report.sender = session.link.sender_results();
            }
            return;
        }
        if !session.link.handle(at, &wire, (bytes, header), ce) {
            return;
        }
        session.heard = Some(now);
        if let Some(rate) = session.rate
            && !session.link.sends()
            && let Some(started) = session.link.started()
        {
            let allowed = rate.bytes_in(now.saturating_since(started)).0;
            if session.link.arrivals.wire_bytes() > allowed + allowed / 4 + BURST {
                return self.refuse_session(wire.token, Refusal::TooFast, "faster than granted");
            }
        }
        self.make_ready(wire.token);
    }

    /// A session may have something to send.
    #[inline]
    fn make_ready(&mut self, token: u64) {
        if let Some(session) = self.sessions.get_mut(&token)
            && !session.is_ready
        {
            session.is_ready = true;
            self.ready.push_back(token);
        }
    }

    /// Handles a datagram of an unknown session. After a test's end its last segments still arrive: they need no answer.
    fn refuse_unknown(&mut self, now: Timestamp, from: Peer, token: u64, came: usize) {
        if !self.spent.is_over(token) {
            self.refuse(now, (from, addressed(token)), came, (Refusal::Unknown, 0), None);
        }
    }

    fn on_finish(&mut self, now: Timestamp, from: Peer, token: u64, bytes: &[u8]) {
        let host = self.host;
        let Some(session) = self.sessions.get_mut(&token) else {
            return self.refuse_unknown(now, from, token, bytes.len());
        };
        if session.client.address != from.address
            || session.link.sends()
            || !session.link.key().is_none_or(|key| signed(bytes, false, key))
        {
            return;
        }
        session.heard = Some(now);
        if session.reporting.is_none() {
            let report = Self::report(session, host);
            session.reporting = Some((report, Timestamp::NEVER, now + REPORT_WAIT));
        }
        self.send_report(token);
    }

    fn send_report(&mut self, token: u64) {
        let Some(session) = self.sessions.get(&token) else { return };
        let Some((report, ..)) = &session.reporting else { return };
        let mut bytes = Vec::new();
        Message::Report { token, report: Box::new(*report) }.write(true, session.link.key(), &mut bytes);
        let client = session.client;
        self.enqueue(client, bytes);
    }

    /// Appends the next datagram to `out`; call until `None`. Sessions take turns.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<(Peer, Datagram)> {
        if let Some((to, bytes)) = self.queue.pop_front() {
            out.extend_from_slice(&bytes);
            return Some((to, Datagram { len: bytes.len(), ecn: Ecn::NotEct }));
        }
        while let Some(&token) = self.ready.front() {
            if let Some(session) = self.sessions.get_mut(&token) {
                if self.turn == 0 {
                    self.turn = TURN;
                    self.ready.rotate_left(1);
                    continue;
                }
                if session.reporting.is_none()
                    && let Some(datagram) = session.link.poll(now, out)
                {
                    self.turn -= 1;
                    return Some((session.client, datagram));
                }
                session.is_ready = false;
            }
            self.turn = TURN;
            self.ready.pop_front();
        }
        None
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Timestamp {
        self.sessions.values().map(|session| self.due(session)).min().unwrap_or(Timestamp::NEVER)
    }

    fn due(&self, session: &Session) -> Timestamp {
        let patience = self.silent_at(session);
        let age = session.opened + session.duration + OVERTIME + self.limits.patience;
        match &session.reporting {
            Some((_, again, until)) => (*again).min(*until),
            None => {
                session.link.connection.poll_timeout().min(patience).min(age).min(Self::data_end(session))
            }
        }
    }

    /// When a silent client is forgotten: soon, if not one segment has arrived since it was admitted.
    fn silent_at(&self, session: &Session) -> Timestamp {
        let patience = self.limits.patience;
        match session.heard {
            Some(heard) => heard + patience,
            None => session.opened + patience.min(COOKIE_LIFE),
        }
    }

    /// When this end has sent data for the requested time.
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
        let Some(silent_at) = self.sessions.get(&token).map(|session| self.silent_at(session)) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(&token) else { return };
        if let Some((_, again, until)) = &mut session.reporting {
            if now >= *until {
                return self.forget(token, "report not confirmed");
            }
            *again = now + REPORT_PAUSE;
            return self.send_report(token);
        }
        session.link.handle_timeout(now);
        if session.link.failed() || now >= silent_at {
            return self.forget(token, "client went silent");
        }
        if now >= session.opened + session.duration + OVERTIME + patience {
            return self.refuse_session(token, Refusal::TooLong, "longer than granted");
        }
        if now >= Self::data_end(session) {
            session.link.finish(now);
            let report = Self::report(session, host);
            // Acknowledgements under way still count, so the report waits for them.
            let first = now + session.link.linger();
            session.reporting = Some((report, first, first + REPORT_WAIT));
            return;
        }
        self.make_ready(token);
    }
}
