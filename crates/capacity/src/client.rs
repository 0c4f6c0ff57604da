//! The client's end of a capacity test: introduction, the test itself, and the exchange of reports.

use warpline_core::{Ecn, Rate, TimeDelta, Timestamp};

use super::auth::{COOKIE_LIFE, Key};
use super::link::{Datagram, Link, LinkParts, Progress, Traced};
use super::options::{CapOptions, Direction};
use super::results::{HostResults, Report};
use super::wire::{Message, Refusal, SEGMENT, addressed, read_segment, signed};
use warpline_transport::tcp::Stats;

/// First pause before an unanswered message is sent again; it doubles up to [`LONGEST_PAUSE`].
const PAUSE: TimeDelta = TimeDelta::from_millis(250);
const LONGEST_PAUSE: TimeDelta = TimeDelta::from_secs(2);
/// How long to ask the server for its report.
const REPORT_WAIT: TimeDelta = TimeDelta::from_secs(10);
/// In mid-test, an ICMP error that nothing listens is believed after this long without an answer.
const UNREACHABLE: TimeDelta = TimeDelta::from_millis(1500);
/// How long a client with a key waits for something better after an unsigned message that there will be no test. Meanwhile it asks the server
/// a few times more.
const HINT: TimeDelta = TimeDelta::from_secs(2);

/// Settings of a client besides the options.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Sixteen random bytes, different for every test.
    pub nonce: [u8; 16],
    /// The key shared with the server.
    pub key: Option<Vec<u8>>,
    /// Wall-clock time at the run's start, in microseconds since 1970.
    pub wall_us: u64,
    /// Phase of the heartbeat, if the options request one: random, below the granularity.
    pub phase: TimeDelta,
    /// Whether the path is IPv6.
    pub ipv6: bool,
    /// How long the server may be silent before the client gives up the test.
    pub patience: TimeDelta,
    /// Whether to record everything for traces.
    pub trace: bool,
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It ran its full time, and both ends have reported.
    Complete,
    /// It ran its full time, but the other end's report is missing.
    NoReport,
    /// The server never answered.
    NoAnswer,
    /// The server does not sign its messages, although the client has a key.
    Unsigned,
    /// The server refused, at the beginning or in mid-test; with the refusal's value.
    Refused(Refusal, u32),
    /// The server stopped answering in mid-test.
    Silent,
    /// The network reports that the server is unreachable, at the beginning or in mid-test.
    Unreachable(Unreachable),
    /// The user stopped it here.
    Stopped,
}

/// The network's report about an unreachable server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unreachable {
    /// The host exists, and nothing listens on the port.
    Port,
    /// There is no route to the host.
    Host,
}

#[derive(Debug)]
enum State {
    /// Waiting for a cookie.
    Hello,
    /// Waiting to be accepted.
    Opening {
        time: u64,
        cookie: [u8; 16],
        since: Timestamp,
    },
    /// Sending or receiving data.
    Running,
    /// The data has ended; waiting for the server's report.
    Finishing {
        until: Timestamp,
    },
    /// One message is still to be sent.
    Closing,
    Done,
}

/// The client's end.
///
/// After every call that takes a time, ask [`poll_transmit`](Self::poll_transmit) until it has nothing more, then
/// [`poll_timeout`](Self::poll_timeout).
#[derive(Debug)]
pub struct CapClient {
    options: CapOptions,
    identity: Identity,
    key: Option<Key>,
    state: State,
    link: Option<Box<Link>>,
    resend_at: Timestamp,
    pause: TimeDelta,
    begun: Option<Timestamp>,
    heard: Timestamp,
    /// An unconfirmed message about the test's end, and when it arrived. Any sign of life from the server refutes it.
    hint: Option<(Timestamp, Outcome)>,
    granted: Option<(TimeDelta, Option<Rate>)>,
    host: HostResults,
    peer: Option<Report>,
    outcome: Option<Outcome>,
    /// The outcome to report when the last message has been sent.
    last_word: Outcome,
}

impl CapClient {
    /// A client that begins when it is first polled. `options` should have passed [`CapOptions::validate`].
    pub fn new(options: CapOptions, identity: Identity) -> Self {
        let key = identity.key.as_deref().and_then(Key::new);
        CapClient {
            options,
            identity,
            key,
            state: State::Hello,
            link: None,
            resend_at: Timestamp::ZERO,
            pause: PAUSE,
            begun: None,
            heard: Timestamp::ZERO,
            hint: None,
            granted: None,
            host: HostResults::default(),
            peer: None,
            outcome: None,
            last_word: Outcome::Complete,
        }
    }

    /// How it ended, when it has.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome
    }
    /// The options in force: the server may have granted a shorter time or a lower rate than requested.
    pub fn options(&self) -> &CapOptions {
        &self.options
    }
    /// What the server granted: time, and rate if it limits it.
    pub fn granted(&self) -> Option<(TimeDelta, Option<Rate>)> {
        self.granted
    }
    /// Sets what happened within this host so far.
    pub fn set_host(&mut self, host: HostResults) {
        self.host = host;
    }
    /// This end's report.
    pub fn report(&self) -> Report {
        Report {
            sender: self.link.as_ref().and_then(|link| link.sender_results()),
            receiver: self.link.as_ref().and_then(|link| link.receiver_results()),
            host: self.host,
        }
    }
    /// The other end's report, when it has arrived.
    pub fn peer_report(&self) -> Option<&Report> {
        self.peer.as_ref()
    }
    /// Counters of the connection; `None` before there is one.
    pub fn stats(&self) -> Option<&Stats> {
        self.link.as_ref().map(|link| link.connection.stats())
    }
    /// Unique bytes acknowledged, or received, so far.
    pub fn delivered(&self) -> u64 {
        self.link.as_ref().map_or(0, |link| link.delivered())
    }
    /// The trace since the last call.
    pub fn drain_trace(&mut self) -> impl Iterator<Item = Traced> + '_ {
        self.link.iter_mut().flat_map(|link| link.drain_trace())
    }
    /// Whether data is being transferred.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running)
    }

    /// The progress so far.
    pub fn progress(&self, now: Timestamp) -> Progress {
        self.link.as_ref().map_or_else(Progress::default, |link| link.progress(now))
    }

    fn finish(&mut self, now: Timestamp, outcome: Outcome) {
        if self.outcome.is_none() {
            if let Some(link) = &mut self.link
                && link.sends()
            {
                // Waiting for a peer that is gone is not part of the measurement.
                let gone =
                    matches!(outcome, Outcome::Silent | Outcome::Unreachable(_)) || self.hint.is_some();
                link.finish(if gone { self.heard } else { now });
            }
            self.outcome = Some(outcome);
            self.state = State::Done;
        }
    }

    /// Ends the test now, with the results so far.
    pub fn stop(&mut self, now: Timestamp) {
        match self.state {
            State::Running | State::Finishing { .. } => {
                if let Some(link) = &mut self.link
                    && link.sends()
                {
                    link.finish(now);
                }
                self.last_word = Outcome::Stopped;
                self.state = State::Closing;
            }
            State::Hello | State::Opening { .. } => self.finish(now, Outcome::Stopped),
            State::Closing | State::Done => {}
        }
    }

    /// The network reports that the server is unreachable.
    pub fn unreachable(&mut self, now: Timestamp, what: Unreachable) {
        match self.state {
            State::Hello | State::Opening { .. } => self.told(now, Outcome::Unreachable(what), false),
            State::Running => self.take_hint(now, Outcome::Unreachable(what)),
            State::Finishing { .. } => self.told(now, Outcome::NoReport, false),
            State::Closing | State::Done => {}
        }
    }

    /// Handles a message about the test's end. Without a key it is believed, since forging it takes knowledge of the traffic. With a key it needs a
    /// signature.
    fn told(&mut self, now: Timestamp, outcome: Outcome, signed: bool) {
        if signed || self.key.is_none() {
            self.finish(now, outcome);
        } else {
            self.take_hint(now, outcome);
        }
    }

    fn take_hint(&mut self, now: Timestamp, outcome: Outcome) {
        let since = self.hint.map_or(now, |(since, _)| since);
        self.hint = Some((since, outcome));
    }

    /// When a hint is believed if nothing refutes it, and its outcome.
    fn believed(&self) -> (Timestamp, Option<Outcome>) {
        let Some((since, outcome)) = self.hint else { return (Timestamp::NEVER, None) };
        let at = match self.state {
            State::Hello | State::Opening { .. } => since + HINT,
            State::Running if self.key.is_none() => since + UNREACHABLE,
            // A session with a key ends by a signature or by silence; a hint only explains the silence.
            State::Running => self.heard + self.identity.patience,
            _ => Timestamp::NEVER,
        };
        (at, Some(outcome))
    }

    /// A datagram from the server arrived at `at`, marked congestion-experienced if `ce`; the time is now `now`.
    pub fn handle_datagram(&mut self, now: Timestamp, at: Timestamp, bytes: &[u8], ce: bool) {
        if bytes.get(1) == Some(&SEGMENT) {
            let Some(link) = &mut self.link else { return };
            let Some((wire, header)) = read_segment(bytes) else { return };
            if wire.token != link.token() {
                return;
            }
            if let State::Finishing { .. } = self.state {
                link.handle_late(at, &wire, (bytes, header), ce);
            } else if matches!(self.state, State::Running) && link.handle(at, &wire, (bytes, header), ce) {
                self.heard = now;
                self.hint = None;
            }
            return;
        }
        if let Some(message) = Message::read(bytes) {
            self.handle_message(now, message, bytes);
        }
    }

    fn handle_message(&mut self, now: Timestamp, message: Message, bytes: &[u8]) {
        match (&self.state, message) {
            (State::Hello, Message::Cookie { nonce, time, cookie }) if nonce == self.identity.nonce => {
                self.state = State::Opening { time, cookie, since: now };
                self.again_at_once(now);
            }
            (State::Opening { cookie, .. }, Message::Accept { nonce, token, duration_ms, rate_bps })
                if nonce == self.identity.nonce =>
            {
                let session = self.key.as_ref().and_then(|key| key.session(&nonce, cookie));
                if let Some(session) = &session
                    && !signed(bytes, true, session)
                {
                    return self.take_hint(now, Outcome::Unsigned);
                }
                self.accepted(now, token, session, duration_ms, rate_bps);
            }
            (State::Hello, Message::Refuse { to, reason, value }) if to == self.identity.nonce => {
                self.told(now, Outcome::Refused(reason, value), false);
            }
            (State::Opening { cookie, .. }, Message::Refuse { to, reason, value })
                if to == self.identity.nonce =>
            {
                let session = self.key.as_ref().and_then(|key| key.session(&to, cookie));
                let sealed = session.is_some_and(|session| signed(bytes, true, &session));
                self.told(now, Outcome::Refused(reason, value), sealed);
            }
            (State::Running | State::Finishing { .. }, Message::Refuse { to, reason, value })
                if self.link.as_ref().is_some_and(|link| to == addressed(link.token())) =>
            {
                let key = self.link.as_ref().and_then(|link| link.key());
                let sealed = key.is_some_and(|key| signed(bytes, true, key));
                // The server has forgotten the session after it had everything: the report is lost.
                let late = matches!(self.state, State::Finishing { .. }) && reason == Refusal::Unknown;
                self.told(
                    now,
                    if late { Outcome::NoReport } else { Outcome::Refused(reason, value) },
                    sealed,
                );
            }
            (State::Running | State::Finishing { .. }, Message::Report { token, report }) => {
                let Some(link) = &mut self.link else { return };
                let believed = link.key().is_none_or(|key| signed(bytes, true, key));
                if token != link.token() || !believed {
                    return;
                }
                if link.sends() && self.is_running() {
                    // It has not been requested yet.
                    return;
                }
                self.peer = Some(*report);
                self.last_word = Outcome::Complete;
                self.state = State::Closing;
            }
            _ => {}
        }
    }

    fn accepted(&mut self, now: Timestamp, token: u64, key: Option<Key>, duration_ms: u32, rate_bps: u64) {
        let duration = TimeDelta::from_millis(u64::from(duration_ms)).min(self.options.duration);
        let rate = Some(Rate::from_bps(rate_bps)).filter(|rate| rate.as_bps() > 0);
        self.granted = Some((duration, rate));
        self.options.duration = duration;
        self.options.max_rate = match (self.options.max_rate, rate) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let parts = LinkParts {
            token,
            from_server: false,
            sends: self.options.direction == Direction::Forward,
            key,
            phase: self.identity.phase,
            wall_us: self.identity.wall_us,
            headers: if self.identity.ipv6 { 48 } else { 28 },
            trace: self.identity.trace,
        };
        let mut link = Link::new(&self.options, parts);
        link.connection.open(now);
        self.link = Some(Box::new(link));
        self.heard = now;
        self.hint = None;
        self.state = State::Running;
    }

    fn again_at_once(&mut self, now: Timestamp) {
        self.resend_at = now;
        self.pause = PAUSE;
    }

    /// Appends the next datagram to `out`; call until `None`.
    pub fn poll_transmit(&mut self, now: Timestamp, out: &mut Vec<u8>) -> Option<Datagram> {
        self.begin(now);
        if let State::Running = self.state {
            let data = self.link.as_mut().and_then(|link| link.poll(now, out));
            if data.is_some() {
                return data;
            }
            self.turn(now);
        }
        let token = self.link.as_ref().map_or(0, |link| link.token());
        let (message, key) = match &self.state {
            State::Hello if now >= self.resend_at => (Message::Hello { nonce: self.identity.nonce }, None),
            State::Opening { time, cookie, .. } if now >= self.resend_at => {
                let (nonce, options) = (self.identity.nonce, self.options.clone());
                (Message::Open { nonce, time: *time, cookie: *cookie, options }, self.key.as_ref())
            }
            State::Finishing { .. } if now >= self.resend_at => {
                (Message::Finish { token }, self.link.as_ref().and_then(|link| link.key()))
            }
            State::Closing => (Message::Close { token }, self.link.as_ref().and_then(|link| link.key())),
            _ => return None,
        };
        let start = out.len();
        let mut bytes = Vec::new();
        message.write(false, key, &mut bytes);
        out.extend_from_slice(&bytes);
        self.resend_at = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        if let State::Closing = self.state {
            self.finish(now, self.last_word);
        }
        Some(Datagram { len: out.len() - start, ecn: Ecn::NotEct })
    }

    fn begin(&mut self, now: Timestamp) {
        if self.begun.is_none() {
            self.begun = Some(now);
            self.heard = now;
            self.resend_at = now;
        }
    }

    /// The end of a running test's time.
    fn deadline(&self) -> Timestamp {
        let Some(link) = &self.link else { return Timestamp::NEVER };
        let Some(started) = link.started() else { return Timestamp::NEVER };
        // The receiver of a reverse test waits for the report, and a while longer than the sender's time.
        let grace = if link.sends() { TimeDelta::ZERO } else { REPORT_WAIT };
        started + self.options.duration + grace
    }

    fn turn(&mut self, now: Timestamp) {
        if now < self.deadline() {
            return;
        }
        let Some(link) = &mut self.link else { return };
        if link.sends() {
            link.finish(now);
            self.state = State::Finishing { until: now + REPORT_WAIT };
            self.again_at_once(now);
        } else {
            self.finish(now, Outcome::NoReport);
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&self) -> Timestamp {
        let patience = self.heard + self.identity.patience;
        match &self.state {
            State::Hello | State::Opening { .. } => self.resend_at.min(patience).min(self.believed().0),
            State::Running => {
                let link = self.link.as_ref().map_or(Timestamp::NEVER, |link| link.connection.poll_timeout());
                link.min(self.deadline()).min(patience).min(self.believed().0)
            }
            State::Finishing { until } => self.resend_at.min(*until),
            State::Closing => Timestamp::ZERO,
            State::Done => Timestamp::NEVER,
        }
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let silent = now >= self.heard + self.identity.patience;
        let believed = match self.believed() {
            (at, outcome) if now >= at => outcome,
            _ => None,
        };
        match &self.state {
            State::Hello | State::Opening { .. } if silent || believed.is_some() => {
                self.finish(now, believed.unwrap_or(Outcome::NoAnswer));
            }
            State::Opening { since, .. } if now >= *since + COOKIE_LIFE / 2 => {
                // The cookie is getting old: ask for another.
                self.state = State::Hello;
                self.again_at_once(now);
            }
            State::Running => {
                let Some(link) = &mut self.link else { return };
                link.handle_timeout(now);
                let failed = link.failed();
                if let Some(outcome) = believed {
                    self.finish(now, outcome);
                } else if silent || failed {
                    self.finish(now, Outcome::Silent);
                } else {
                    self.turn(now);
                }
            }
            State::Finishing { until } if now >= *until => self.finish(now, Outcome::NoReport),
            _ => {}
        }
    }
}
