//! The test bench: a plain Reno control, and a wire that joins two connections through a channel as hostile as asked for.
#![allow(dead_code, reason = "each test file uses its own part of the bench")]
#![allow(unreachable_pub, reason = "a module of integration tests has no outside")]

use std::collections::BTreeMap;

use warpline_core::record::TcpEvent;
use warpline_core::{Ecn, Flags, Rate, Segment, Stream, Streams, TimeDelta, Timestamp};
use warpline_transport::cc::{AckSample, CcConfig, CongestionControl, CongestionEvent, LostSegment, Phase};
use warpline_transport::tcp::{Connection, TcpConfig};

/// RFC 5681 in bytes, enough to drive the tests.
#[derive(Debug, Clone)]
pub struct TestReno {
    pub cwnd: u64,
    pub ssthresh: u64,
    pub before: (u64, u64),
    pub mss: u64,
    pub events: u32,
    pub rtos: u32,
    pub undos: u32,
    pub idles: u32,
    pub last: Option<AckSample>,
    pub acked: u64,
    pub fixed: bool,
    /// Segments that it asks to be sent together.
    pub burst: u32,
    /// It sets the window in recovery itself.
    pub governs: bool,
    /// It sends too little on purpose.
    pub holds: bool,
    /// It paces at this rate, which counts payload or not.
    pub rate: Option<Rate>,
    pub payload: bool,
    /// What it was told: the handshake's RTT, starts after pauses of the application and others, bytes lost.
    pub established: Option<TimeDelta>,
    pub restarts: [u32; 2],
    pub lost: u64,
}

impl TestReno {
    pub fn new(config: CcConfig) -> Self {
        TestReno {
            cwnd: config.initial_window,
            ssthresh: config.initial_ssthresh,
            before: (0, 0),
            mss: config.mss,
            events: 0,
            rtos: 0,
            undos: 0,
            idles: 0,
            last: None,
            acked: 0,
            fixed: false,
            burst: 1,
            governs: false,
            holds: false,
            rate: None,
            payload: false,
            established: None,
            restarts: [0; 2],
            lost: 0,
        }
    }
    /// A window that never moves.
    pub fn fixed(cwnd: u64) -> Self {
        TestReno {
            fixed: true,
            ..TestReno::new(CcConfig {
                mss: 1448,
                initial_window: cwnd,
                initial_ssthresh: u64::MAX,
                seed: 0,
                saved: None,
            })
        }
    }
}

impl CongestionControl for TestReno {
    fn on_ack(&mut self, ack: &AckSample) {
        assert!(ack.acked > 0);
        self.acked += ack.acked;
        self.last = Some(*ack);
        if self.fixed || !ack.cwnd_limited || matches!(ack.phase, Phase::Recovery | Phase::Cwr) {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.cwnd += ack.acked.min(2 * ack.mss);
        } else {
            self.cwnd += (ack.mss * ack.acked / self.cwnd).max(1);
        }
    }
    fn on_congestion_event(&mut self, event: &CongestionEvent) {
        self.events += 1;
        if !self.fixed {
            self.before = (self.cwnd, self.ssthresh);
            self.ssthresh = (event.in_flight / 2).max(2 * event.mss);
            self.cwnd = self.ssthresh;
        }
    }
    fn on_rto(&mut self, event: &CongestionEvent) {
        self.rtos += 1;
        if !self.fixed {
            self.before = (self.cwnd, self.ssthresh);
            self.ssthresh = (event.in_flight / 2).max(2 * event.mss);
            self.cwnd = event.mss;
        }
    }
    fn undo(&mut self, _: Timestamp) {
        self.undos += 1;
        if !self.fixed {
            (self.cwnd, self.ssthresh) = (self.cwnd.max(self.before.0), self.before.1);
        }
    }
    fn on_idle(&mut self, _: Timestamp, _: TimeDelta, _: TimeDelta) {
        self.idles += 1;
    }
    fn cwnd(&self) -> u64 {
        self.cwnd
    }
    fn ssthresh(&self) -> u64 {
        self.ssthresh
    }
    fn min_burst(&self) -> u32 {
        self.burst
    }
    fn on_established(&mut self, _: Timestamp, srtt: TimeDelta, min_rtt: TimeDelta) {
        assert_eq!(srtt, min_rtt);
        self.established = Some(srtt);
    }
    fn on_restart(&mut self, _: Timestamp, app_limited: bool) {
        self.restarts[usize::from(!app_limited)] += 1;
    }
    fn on_lost(&mut self, lost: &LostSegment) {
        assert!(lost.sent_at <= lost.now);
        self.lost += lost.bytes;
    }
    fn holds_back(&self) -> bool {
        self.holds
    }
    fn governs_recovery(&self) -> bool {
        self.governs
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }
    fn paces_payload(&self) -> bool {
        self.payload
    }
    fn name(&self) -> &'static str {
        "test"
    }
}

pub type Tcp = Connection<TestReno>;

pub fn client(config: &TcpConfig) -> Tcp {
    Connection::client(config.clone(), TestReno::new(config.cc_config()))
}
pub fn server(config: &TcpConfig) -> Tcp {
    Connection::server(config.clone(), TestReno::new(config.cc_config()))
}

/// One direction of the path.
#[derive(Clone, Debug)]
pub struct Channel {
    pub delay: TimeDelta,
    /// Uniform extra delay, which reorders.
    pub jitter: TimeDelta,
    pub loss: f64,
    pub duplicate: f64,
    pub rate: Option<Rate>,
    /// Packets that may wait where there is a rate.
    pub limit: usize,
    /// Mark ECN-capable packets that find more than this many waiting.
    pub mark_above: Option<usize>,
    /// Drop the n-th segments with payload, counted from 0 as they are sent.
    pub drop_data: Vec<u64>,
    /// Drop the n-th segments of any kind.
    pub drop_any: Vec<u64>,
    /// Delay the n-th segments with payload by so much more.
    pub delay_data: Vec<(u64, TimeDelta)>,
    pub data: u64,
    pub any: u64,
    pub busy_until: Timestamp,
    pub departures: std::collections::VecDeque<Timestamp>,
}

impl Channel {
    pub fn clean(delay_ms: u64) -> Self {
        Channel {
            delay: TimeDelta::from_millis(delay_ms),
            jitter: TimeDelta::ZERO,
            loss: 0.0,
            duplicate: 0.0,
            rate: None,
            limit: usize::MAX,
            mark_above: None,
            drop_data: Vec::new(),
            drop_any: Vec::new(),
            delay_data: Vec::new(),
            data: 0,
            any: 0,
            busy_until: Timestamp::ZERO,
            departures: std::collections::VecDeque::new(),
        }
    }
}

/// A segment that was put on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Sighting {
    pub at: Timestamp,
    pub from_client: bool,
    pub segment: Segment,
    pub ecn: Ecn,
}

/// Two connections and what is between them.
pub struct Wire {
    pub now: Timestamp,
    pub client: Tcp,
    pub server: Tcp,
    /// Client to server, server to client.
    pub channels: [Channel; 2],
    pub seen: Vec<Sighting>,
    pub keep_sightings: bool,
    pub check_windows: bool,
    flying: BTreeMap<(Timestamp, u64), (bool, Segment, Ecn)>,
    number: u64,
    rng: Stream,
    /// Highest byte sent by each side.
    high: [u64; 2],
}

impl Wire {
    pub fn new(client: Tcp, server: Tcp, there: Channel, back: Channel, seed: u64) -> Self {
        Wire {
            now: Timestamp::ZERO,
            client,
            server,
            channels: [there, back],
            seen: Vec::new(),
            keep_sightings: true,
            check_windows: true,
            flying: BTreeMap::new(),
            number: 0,
            rng: Streams::new(seed).stream("wire"),
            high: [0; 2],
        }
    }

    /// Like options on both sides, one-way delay in milliseconds, nothing wrong on the path.
    pub fn plain(config: &TcpConfig, delay_ms: u64) -> Self {
        Wire::new(client(config), server(config), Channel::clean(delay_ms), Channel::clean(delay_ms), 1)
    }

    pub fn open(&mut self) {
        self.client.open(self.now);
    }

    /// Everything both sides have to send goes onto the path.
    pub fn pump(&mut self) {
        for side in 0..2 {
            loop {
                let conn = if side == 0 { &mut self.client } else { &mut self.server };
                let forced = conn.phase() == Phase::Recovery || conn.phase() == Phase::Loss;
                let probes = conn.stats().tail_probes;
                let Some((segment, ecn)) = conn.poll_transmit(self.now) else { break };
                let end = segment.seq + segment.seq_len();
                let fresh = end > self.high[side] && segment.len > 0;
                if self.check_windows && fresh && conn.stats().tail_probes == probes {
                    assert!(
                        conn.in_flight() <= conn.window() + 1, // a FIN takes sequence space
                        "{} bytes in flight under a window of {} (phase {:?}, forced {forced})",
                        conn.in_flight(),
                        conn.window(),
                        conn.phase()
                    );
                }
                self.high[side] = self.high[side].max(end);
                self.send(side == 0, segment, ecn);
            }
            let conn = if side == 0 { &self.client } else { &self.server };
            assert!(conn.poll_timeout() > self.now || conn.poll_timeout() == self.now, "timer in the past");
        }
    }

    fn send(&mut self, from_client: bool, segment: Segment, ecn: Ecn) {
        if self.keep_sightings {
            self.seen.push(Sighting { at: self.now, from_client, segment, ecn });
        }
        let now = self.now;
        let channel = &mut self.channels[usize::from(!from_client)];
        let any = channel.any;
        channel.any += 1;
        let mut extra = TimeDelta::ZERO;
        if segment.len > 0 {
            let n = channel.data;
            channel.data += 1;
            if channel.drop_data.contains(&n) {
                return;
            }
            for &(m, more) in &channel.delay_data {
                if m == n {
                    extra = more;
                }
            }
        }
        if channel.drop_any.contains(&any) || (channel.loss > 0.0 && self.rng.chance(channel.loss)) {
            return;
        }
        let copies = if channel.duplicate > 0.0 && self.rng.chance(channel.duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let mut at = now;
            let mut ce = false;
            if let Some(rate) = channel.rate {
                while channel.departures.front().is_some_and(|&d| d <= now) {
                    channel.departures.pop_front();
                }
                if channel.departures.len() >= channel.limit {
                    continue;
                }
                ce = ecn == Ecn::Ect0 && channel.mark_above.is_some_and(|n| channel.departures.len() > n);
                channel.busy_until =
                    channel.busy_until.max(now) + rate.time_for(u64::from(segment.wire_size()));
                channel.departures.push_back(channel.busy_until);
                at = channel.busy_until;
            }
            if !channel.jitter.is_zero() {
                at += TimeDelta::from_nanos(self.rng.below(channel.jitter.as_nanos()));
            }
            self.number += 1;
            self.flying.insert(
                (at + channel.delay + extra, self.number),
                (from_client, segment, if ce { Ecn::Ce } else { ecn }),
            );
        }
    }

    /// The next instant at which something happens.
    pub fn next(&self) -> Timestamp {
        let arrival = self.flying.keys().next().map_or(Timestamp::NEVER, |&(at, _)| at);
        arrival.min(self.client.poll_timeout()).min(self.server.poll_timeout())
    }

    /// One instant. False when nothing is left before `until`.
    pub fn step(&mut self, until: Timestamp) -> bool {
        self.pump();
        let next = self.next();
        if next > until || !next.is_set() {
            self.now = until.max(self.now);
            return false;
        }
        self.now = self.now.max(next);
        while let Some((&(at, number), _)) = self.flying.iter().next() {
            if at > self.now {
                break;
            }
            let Some((from_client, segment, ecn)) = self.flying.remove(&(at, number)) else { break };
            let to = if from_client { &mut self.server } else { &mut self.client };
            to.handle_segment(self.now, &segment, ecn);
            self.pump();
        }
        for conn in [&mut self.client, &mut self.server] {
            if conn.poll_timeout() <= self.now {
                conn.handle_timeout(self.now);
            }
            assert!(
                conn.poll_timeout() > self.now,
                "a timer in the past after handle_timeout at {}",
                self.now
            );
        }
        true
    }

    pub fn run(&mut self, until: Timestamp) {
        while self.step(until) {}
    }

    pub fn run_for(&mut self, span: TimeDelta) {
        self.run(self.now + span);
    }

    /// Runs until `done`, or gives up after `limit`.
    pub fn run_until(&mut self, limit: Timestamp, mut done: impl FnMut(&Wire) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return done(self);
            }
        }
    }

    /// The same, where what is asked also acts for an application.
    pub fn run_until_mut(&mut self, limit: Timestamp, mut done: impl FnMut(&mut Wire) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return done(self);
            }
        }
    }

    /// Establishes the connection.
    pub fn establish(&mut self) {
        self.open();
        let limit = self.now + TimeDelta::from_secs(10);
        assert!(
            self.run_until(limit, |w| w.client.is_established() && w.server.is_established()),
            "no handshake: {:?} {:?}",
            self.client.state(),
            self.server.state()
        );
    }

    pub fn data_sent(&self) -> Vec<(Timestamp, u64, u32)> {
        self.seen
            .iter()
            .filter(|s| s.from_client && s.segment.len > 0)
            .map(|s| (s.at, s.segment.seq, s.segment.len))
            .collect()
    }

    /// Sequence numbers of the client's data segments, in units of `mss`, in the order of sending.
    pub fn order(&self, mss: u64) -> Vec<u64> {
        self.data_sent().iter().map(|&(_, seq, _)| (seq - 1) / mss).collect()
    }

    pub fn acks(&self) -> Vec<Sighting> {
        self.seen
            .iter()
            .filter(|s| !s.from_client && !s.segment.flags.contains(Flags::SYN))
            .copied()
            .collect()
    }
}

/// The names of recorded events, for tests that look for one.
pub fn has_event(events: &[(Timestamp, TcpEvent)], matches: impl Fn(&TcpEvent) -> bool) -> bool {
    events.iter().any(|(_, event)| matches(event))
}
