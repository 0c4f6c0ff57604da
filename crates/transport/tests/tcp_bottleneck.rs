//! Connections that share a bottleneck: what a receiver does with the window it offers (rLEDBAT), and how a connection begins that remembers the
//! path (Careful Resume).

use std::collections::{BTreeMap, VecDeque};

use warpline_core::{Bytes, Ecn, Rate, Segment, TimeDelta, Timestamp};
use warpline_transport::cc::{Algorithm, Controller};
use warpline_transport::tcp::{Connection, Rledbat, TcpConfig, Window};

type Tcp = Connection<Controller>;

/// Senders and receivers of data, with one link on the way there.
struct Bottleneck {
    now: Timestamp,
    /// Sender and receiver of each flow.
    flows: Vec<[Tcp; 2]>,
    rate: Rate,
    /// One way.
    delay: TimeDelta,
    /// Packets that may wait, and when those on the link will have left.
    limit: usize,
    departures: VecDeque<Timestamp>,
    lost: u64,
    flying: BTreeMap<(Timestamp, u64), (usize, usize, Segment, Ecn)>,
    number: u64,
    /// Acknowledgement and right edge of the window of every segment from a receiver.
    offers: Vec<Vec<(u64, u64)>>,
    /// Of packets that found a queue: how many, and the sum of what they waited.
    waited: (u64, TimeDelta),
}

impl Bottleneck {
    fn new(rate: Rate, delay_ms: u64, limit: usize) -> Self {
        Bottleneck {
            now: Timestamp::ZERO,
            flows: Vec::new(),
            rate,
            delay: TimeDelta::from_millis(delay_ms),
            limit,
            departures: VecDeque::new(),
            lost: 0,
            flying: BTreeMap::new(),
            number: 0,
            offers: Vec::new(),
            waited: (0, TimeDelta::ZERO),
        }
    }

    /// A flow that sends so many bytes, or for ever.
    fn flow(mut self, cc: &str, sender: &TcpConfig, receiver: &TcpConfig, bytes: Option<u64>) -> Self {
        let control =
            |config: &TcpConfig| cc.parse::<Algorithm>().expect("a known name").build(&config.cc_config());
        let mut client = Connection::client(sender.clone(), control(sender));
        match bytes {
            Some(bytes) => assert_eq!(client.write(bytes), bytes),
            None => client.set_unlimited(true),
        }
        client.open(self.now);
        self.flows.push([client, Connection::server(receiver.clone(), control(receiver))]);
        self.offers.push(Vec::new());
        self
    }

    fn send(&mut self, flow: usize, from: usize, segment: Segment, ecn: Ecn) {
        let mut at = self.now + self.delay;
        if from == 1 {
            self.offers[flow].push((segment.ack, segment.ack + u64::from(segment.window)));
        } else {
            while self.departures.front().is_some_and(|&left| left <= self.now) {
                self.departures.pop_front();
            }
            if self.departures.len() > self.limit {
                self.lost += 1;
                return;
            }
            let begins = self.departures.back().map_or(self.now, |&last| last.max(self.now));
            self.waited.0 += 1;
            self.waited.1 += begins.saturating_since(self.now);
            let left = begins + self.rate.time_for(u64::from(segment.wire_size()));
            self.departures.push_back(left);
            at = left + self.delay;
        }
        self.number += 1;
        self.flying.insert((at, self.number), (flow, 1 - from, segment, ecn));
    }

    fn pump(&mut self, flow: usize) {
        for from in 0..2 {
            while let Some((segment, ecn)) = self.flows[flow][from].poll_transmit(self.now) {
                self.send(flow, from, segment, ecn);
            }
        }
    }

    /// Runs until `done`, or until so many seconds have passed in all.
    fn run_until(&mut self, secs: u64, done: impl Fn(&Bottleneck) -> bool) {
        (0..self.flows.len()).for_each(|flow| self.pump(flow));
        while !done(self) {
            let arrival = self.flying.keys().next().map_or(Timestamp::NEVER, |&(at, _)| at);
            let timers = self.flows.iter().flatten().map(Connection::poll_timeout);
            let next = timers.fold(arrival, Timestamp::min);
            if next > Timestamp::from_secs(secs) {
                self.now = Timestamp::from_secs(secs);
                return;
            }
            self.now = self.now.max(next);
            if arrival <= self.now
                && let Some((_, (flow, to, segment, ecn))) = self.flying.pop_first()
            {
                self.flows[flow][to].handle_segment(self.now, &segment, ecn);
                self.pump(flow);
                continue;
            }
            for flow in 0..self.flows.len() {
                let now = self.now;
                for end in &mut self.flows[flow] {
                    end.handle_timeout(now);
                }
                self.pump(flow);
            }
        }
    }

    fn run(&mut self, secs: u64) {
        self.run_until(secs, |_| false);
    }

    /// The part of the link that each flow has from second `from` to second `to`, and the mean wait in the queue in milliseconds.
    fn shares(&mut self, from: u64, to: u64) -> (Vec<f64>, f64) {
        self.run(from);
        let delivered = |b: &Bottleneck| b.flows.iter().map(|f| f[1].bytes_delivered()).collect::<Vec<_>>();
        let before = delivered(self);
        self.waited = (0, TimeDelta::ZERO);
        self.run(to);
        let carried = self.rate.as_bps() as f64 / 8.0 * (to - from) as f64 * 1448.0 / 1500.0;
        let after = delivered(self);
        let shares = after.iter().zip(&before).map(|(after, before)| (after - before) as f64 / carried);
        (shares.collect(), self.waited.1.as_secs_f64() * 1e3 / self.waited.0 as f64)
    }

    fn acked(&self, bytes: u64) -> bool {
        self.flows[0][0].bytes_acked() == bytes
    }
}

const MBPS: fn(u64) -> Rate = |mbps| Rate::from_bps(mbps * 1_000_000);

fn driven(rledbat: Rledbat) -> TcpConfig {
    TcpConfig { rledbat, ..TcpConfig::default() }
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_receiver_that_bounds_the_window_fills_an_empty_link_without_filling_the_queue() {
    // 10 Mbit/s and 40 ms: a pipe of 33 packets, and a queue of 300 or 360 ms.
    let plain = TcpConfig::default();
    let alone = |receiver: &TcpConfig| {
        let mut link = Bottleneck::new(MBPS(10), 20, 300).flow("cubic", &plain, receiver, None);
        let (shares, wait) = link.shares(10, 40);
        (shares[0], wait, link)
    };
    let (share, wait, _) = alone(&plain);
    assert!(share > 0.98 && wait > 150.0, "CUBIC alone: {share}, {wait} ms");
    for (rledbat, target) in [(Rledbat::LedbatPlusPlus, 60.0), (Rledbat::Ledbat, 100.0)] {
        let (share, wait, link) = alone(&driven(rledbat));
        assert!(share > 0.85, "{rledbat:?}: {share}");
        assert!(wait < target + 10.0, "{rledbat:?}: {wait} ms");
        assert_eq!(link.lost, 0);
        // What was offered is never taken back.
        let offers = &link.offers[0];
        let back = offers.windows(2).find(|pair| pair[1].1 < pair[0].1);
        assert_eq!(back, None, "{rledbat:?}");
        // But the window does get smaller, in steps of what arrives, less what a scaled window rounds up to.
        let shrinks = |pair: &[(u64, u64)]| pair[1].1 - pair[0].1 < 1024 && pair[1].0 - pair[0].0 > 1024;
        assert!(offers.windows(2).filter(|pair| shrinks(pair)).count() > 20, "{rledbat:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn it_yields_to_a_sender_that_nobody_bounds() {
    let plain = TcpConfig::default();
    let against = |receiver: &TcpConfig| {
        let link = Bottleneck::new(MBPS(10), 20, 150).flow("cubic", &plain, &plain, None);
        link.flow("cubic", &plain, receiver, None).shares(20, 80).0
    };
    let even = against(&plain);
    assert!(even[1] > 0.3, "{even:?}");
    for rledbat in [Rledbat::LedbatPlusPlus, Rledbat::Ledbat] {
        let shares = against(&driven(rledbat));
        assert!(shares[0] > 0.85 && shares[1] < 0.12, "{rledbat:?}: {shares:?}");
    }
}

#[test]
fn without_timestamps_at_the_other_end_the_buffer_alone_bounds_the_window() {
    let sender = TcpConfig { timestamps: false, ..TcpConfig::default() };
    let receiver = TcpConfig { receive_buffer: Bytes(1 << 20), ..driven(Rledbat::LedbatPlusPlus) };
    let mut link = Bottleneck::new(MBPS(10), 20, 100).flow("reno", &sender, &receiver, Some(100_000));
    link.run_until(10, |link| link.acked(100_000));
    assert!(link.offers[0].iter().any(|&(ack, edge)| edge - ack > 1_000_000), "{:?}", link.offers[0]);
}

/// 40 Mbit/s and 200 ms both ways: a pipe of a megabyte.
const PIPE: u64 = 1_000_000;

fn resuming() -> TcpConfig {
    TcpConfig {
        saved_cwnd: Some(Window::Bytes(PIPE)),
        saved_rtt: Some(TimeDelta::from_millis(200)),
        ..TcpConfig::default()
    }
}

/// How long a transfer takes in milliseconds, what was lost, and what was sent again.
fn transfer(rate: Rate, limit: usize, cc: &str, sender: &TcpConfig, bytes: u64) -> (u64, u64, u64) {
    let mut link = Bottleneck::new(rate, 100, limit).flow(cc, sender, &TcpConfig::default(), Some(bytes));
    link.run_until(120, |link| link.acked(bytes));
    assert!(link.acked(bytes), "{:?}", link.flows[0][0].stats());
    (link.now.as_millis(), link.lost, link.flows[0][0].stats().retransmitted_segments)
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn a_connection_that_remembers_the_path_saves_round_trips_of_slow_start() {
    for cc in ["reno", "cubic", "cubic:hystart=search", "vegas", "dctcp"] {
        let time = |sender: &TcpConfig| transfer(MBPS(40), 700, cc, sender, 3_000_000);
        let (plain, resumed) = (time(&TcpConfig::default()), time(&resuming()));
        assert!(resumed.0 + 400 <= plain.0, "{cc}: {resumed:?} instead of {plain:?}");
        assert_eq!(resumed.1, 0, "{cc}");
    }
    // Half of the pipe is paced over a round trip: the queue stays short.
    let mut link = Bottleneck::new(MBPS(40), 100, 700).flow("reno", &resuming(), &TcpConfig::default(), None);
    // A round trip each for the handshake, the initial window and the jump.
    link.run_until(20, |link| link.now > Timestamp::from_millis(600));
    assert!(
        link.waited.0 > 300 && link.waited.1 / link.waited.0 < TimeDelta::from_millis(2),
        "{:?}",
        link.waited
    );
}

#[test]
#[cfg_attr(miri, ignore = "too long for Miri")]
fn on_a_path_that_has_become_slower_it_steps_back_and_is_not_much_later() {
    // An eighth of the rate, and a queue of half of its pipe: half of the saved window is four times what fits.
    for cc in ["reno", "cubic"] {
        let time = |sender: &TcpConfig| transfer(MBPS(5), 42, cc, sender, 3_000_000);
        let (plain, resumed) = (time(&TcpConfig::default()), time(&resuming()));
        assert!(resumed.1 > 100, "{cc}: the jump was too far: {resumed:?}");
        assert!(resumed.0 < plain.0 * 5 / 4, "{cc}: {resumed:?} instead of {plain:?}");
    }
    // A round trip half as long is another path: as without.
    let shorter = TcpConfig { saved_rtt: Some(TimeDelta::from_millis(450)), ..resuming() };
    let time = |sender: &TcpConfig| transfer(MBPS(5), 42, "reno", sender, 1_000_000);
    assert_eq!(time(&shorter), time(&TcpConfig::default()));
}
