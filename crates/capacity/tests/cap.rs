//! Cap's two ends over a channel with a rate, a queue, a delay and losses, with time as an argument; also under attack.

#![allow(clippy::unwrap_used, reason = "a test bench")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use proptest::prelude::*;
use warpline_capacity::{
    CapClient, CapOptions, CapServer, Direction, HELLO, Identity, Outcome, Refusal, Report, ServerLimits,
    Traced, Unreachable,
};
use warpline_core::{Ecn, Flags, Rate, Stream, Streams, TimeDelta, Timestamp};

const SECRET: [u8; 32] = [9; 32];

fn address(port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1], port))
}

fn identity() -> Identity {
    Identity {
        nonce: [3; 16],
        key: None,
        wall_us: 1_000_000,
        phase: TimeDelta::ZERO,
        ipv6: false,
        patience: TimeDelta::from_secs(30),
        trace: false,
    }
}

fn short(options: CapOptions) -> CapOptions {
    CapOptions { duration: TimeDelta::from_secs(5), ..options }
}

/// One direction of the path.
struct Way {
    rate: Rate,
    queue: TimeDelta,
    delay: TimeDelta,
    loss: f64,
    /// Extra delay that reorders: share of datagrams, and by how much.
    reorder: (f64, TimeDelta),
    free_at: Timestamp,
}

impl Way {
    fn new(mbits: u64, delay_ms: u64) -> Way {
        Way {
            rate: Rate::from_bps(mbits * 1_000_000),
            queue: TimeDelta::from_millis(40),
            delay: TimeDelta::from_millis(delay_ms),
            loss: 0.0,
            reorder: (0.0, TimeDelta::ZERO),
            free_at: Timestamp::ZERO,
        }
    }
    /// When a datagram that is sent now arrives; `None` if it is lost.
    fn carry(&mut self, now: Timestamp, len: usize, stream: &mut Stream) -> Option<Timestamp> {
        let start = self.free_at.max(now);
        if start.saturating_since(now) > self.queue || stream.chance(self.loss) {
            return None;
        }
        self.free_at = start + self.rate.time_for(len as u64 + 28);
        let late = stream.chance(self.reorder.0);
        let extra = if late { self.reorder.1 } else { TimeDelta::ZERO };
        Some(self.free_at + self.delay + extra)
    }
}

/// A client, a server and the path between them.
struct Bed {
    client: CapClient,
    server: CapServer,
    there: Way,
    back: Way,
    stream: Stream,
    now: Timestamp,
    order: u64,
    /// Datagrams in flight: when they arrive, whether at the server, and from where.
    air: BTreeMap<(Timestamp, u64), (bool, SocketAddr, Vec<u8>)>,
    /// Bytes that the server sent and received.
    server_bytes: (u64, u64),
    client_address: SocketAddr,
    /// From this time on, no datagram gets through.
    dead_from: Timestamp,
    /// When the client's address changes.
    moves_at: Timestamp,
    /// When the server forgets everything.
    restarts_at: Timestamp,
}

impl Bed {
    fn new(options: CapOptions, limits: ServerLimits, identity: Identity) -> Bed {
        options.validate().unwrap();
        Bed {
            client: CapClient::new(options, identity),
            server: CapServer::new(limits, &SECRET, 5_000_000),
            there: Way::new(10, 20),
            back: Way::new(10, 20),
            stream: Streams::new(1).stream("test"),
            now: Timestamp::from_millis(1),
            order: 0,
            air: BTreeMap::new(),
            server_bytes: (0, 0),
            client_address: address(4000),
            dead_from: Timestamp::NEVER,
            moves_at: Timestamp::NEVER,
            restarts_at: Timestamp::NEVER,
        }
    }

    fn launch(&mut self, to_server: bool, from: SocketAddr, bytes: Vec<u8>) {
        let way = if to_server { &mut self.there } else { &mut self.back };
        if let Some(at) = way.carry(self.now, bytes.len(), &mut self.stream) {
            self.order += 1;
            self.air.insert((at, self.order), (to_server, from, bytes));
        }
    }

    fn pump(&mut self) {
        let mut bytes = Vec::new();
        while let Some(datagram) = self.client.poll_transmit(self.now, &mut bytes) {
            assert_eq!(datagram.len, bytes.len());
            let from = self.client_address;
            self.launch(true, from, std::mem::take(&mut bytes));
        }
        while let Some((to, datagram)) = self.server.poll_transmit(self.now, &mut bytes) {
            assert_eq!(datagram.len, bytes.len());
            self.server_bytes.0 += bytes.len() as u64;
            let bytes = std::mem::take(&mut bytes);
            if to.address == self.client_address {
                self.launch(false, to.address, bytes);
            }
        }
    }

    /// Runs until the client has an outcome and nothing is in flight.
    fn run(&mut self) -> Outcome {
        loop {
            self.pump();
            let arrival = self.air.first_key_value().map_or(Timestamp::NEVER, |(&(at, _), _)| at);
            let next = arrival.min(self.client.poll_timeout()).min(self.server.poll_timeout()).max(self.now);
            if let Some(outcome) = self.client.outcome()
                && arrival == Timestamp::NEVER
            {
                return outcome;
            }
            assert!(next < Timestamp::from_secs(500), "it does not end");
            self.now = next;
            if next >= self.moves_at {
                self.client_address = address(5555);
            }
            if next >= self.restarts_at {
                self.restarts_at = Timestamp::NEVER;
                self.server = CapServer::new(ServerLimits::default(), &[1; 32], 0);
            }
            if arrival <= next {
                let (_, (to_server, from, bytes)) = self.air.pop_first().unwrap();
                if next >= self.dead_from {
                    continue;
                }
                if to_server {
                    self.server_bytes.1 += bytes.len() as u64;
                    self.server.handle_datagram(next, next, from, &bytes, false);
                } else {
                    self.client.handle_datagram(next, next, &bytes, false);
                }
            }
            self.client.handle_timeout(next);
            self.server.handle_timeout(next);
        }
    }

    fn reports(&self) -> (Report, Report) {
        (self.client.report(), *self.client.peer_report().unwrap())
    }
}

fn bps(bytes: u64, nanos: u64) -> f64 {
    bytes as f64 * 8e9 / nanos as f64
}

#[test]
fn a_link_is_filled_and_both_ends_agree() {
    for cc in ["reno", "cubic"] {
        let mut bed = Bed::new(
            short(CapOptions { cc: cc.parse().unwrap(), ..CapOptions::default() }),
            ServerLimits::default(),
            identity(),
        );
        assert_eq!(bed.run(), Outcome::Complete);
        let (own, peer) = bed.reports();
        let (sender, receiver) = (own.sender.unwrap(), peer.receiver.unwrap());
        let btc = bps(sender.data_bytes, sender.elapsed_ns);
        // 1448 of 1500 bytes are data.
        assert!((9.0e6..9.654e6).contains(&btc), "{cc}: {btc}");
        assert_eq!(sender.elapsed_ns, 5_000_000_000);
        assert_eq!(
            sender.slow_start_ns + sender.avoidance_ns + sender.recovery_ns + sender.timeout_ns,
            sender.elapsed_ns
        );
        // They can differ only by what was in flight at the end.
        assert!(receiver.data_bytes >= sender.data_bytes);
        assert!(receiver.data_bytes - sender.data_bytes < 120_000, "{sender:?} {receiver:?}");
        assert_eq!(receiver.reordered + receiver.copies, 0);
        // Every second segment is acknowledged, and every segment while one is missing.
        let acks = receiver.acks_sent as f64 / receiver.segments as f64;
        assert!((0.49..0.65).contains(&acks), "{acks}");
        assert_eq!(receiver.wire_bytes, receiver.segments * 1500);
        // The clocks differ by four seconds, so the delay above the smallest is that of the queue.
        assert_eq!(receiver.delay_min_us, (1 << 31) + 4_000_000 + 20_000 + 1_200);
        assert!(receiver.delay_max_us <= 41_300 && receiver.delay_max_us > 20_000, "{receiver:?}");
        assert_eq!(bed.server.sessions(), 0);
        assert_eq!(bed.server.take_finished()[0].why, "complete");
    }
}

#[test]
fn the_server_sends_if_the_client_asks_for_it() {
    let options = short(CapOptions { direction: Direction::Reverse, ..CapOptions::default() });
    let mut bed = Bed::new(options, ServerLimits::default(), identity());
    assert_eq!(bed.run(), Outcome::Complete);
    let (own, peer) = bed.reports();
    let (sender, receiver) = (peer.sender.unwrap(), own.receiver.unwrap());
    assert!(bps(sender.data_bytes, sender.elapsed_ns) > 9.0e6);
    assert!(receiver.data_bytes >= sender.data_bytes);
    assert_eq!((own.sender, peer.receiver), (None, None));
    assert_eq!(bed.server.sessions(), 0);
}

#[test]
fn where_no_acknowledgement_is_lost_both_ends_count_as_many() {
    for direction in [Direction::Forward, Direction::Reverse] {
        for preset in [CapOptions::default(), CapOptions::classic()] {
            let options = short(CapOptions { direction, ..preset });
            let traced = Identity { trace: true, ..identity() };
            let mut bed = Bed::new(options, ServerLimits::default(), traced);
            assert_eq!(bed.run(), Outcome::Complete);
            let (own, peer) = bed.reports();
            let (sender, receiver) =
                (own.sender.or(peer.sender).unwrap(), own.receiver.or(peer.receiver).unwrap());
            assert!(receiver.acks_sent > 100, "{receiver:?}");
            assert_eq!(
                (sender.acks_received, sender.acks_wire_bytes),
                (receiver.acks_sent, receiver.acks_wire_bytes),
                "{direction:?}"
            );
            // Also those that arrived after the end of the data are traced.
            if direction == Direction::Forward {
                let is_ack = |traced: &Traced| match traced {
                    Traced::Received(_, segment, _) => segment.len == 0 && segment.flags.contains(Flags::ACK),
                    _ => false,
                };
                let acks = bed.client.drain_trace().filter(is_ack).count();
                assert_eq!(acks as u64, sender.acks_received);
            }
        }
    }
}

#[test]
fn losses_of_data_and_of_acknowledgements_are_distinguished() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.there.loss = 0.01;
    bed.back.loss = 0.05;
    assert_eq!(bed.run(), Outcome::Complete);
    let (own, peer) = bed.reports();
    let (sender, receiver) = (own.sender.unwrap(), peer.receiver.unwrap());
    let forward = receiver.missing as f64 / sender.sent_segments as f64;
    assert!((0.004..0.03).contains(&forward), "{forward}");
    let back = 1.0 - sender.acks_received as f64 / receiver.acks_sent as f64;
    assert!((0.02..0.1).contains(&back), "{back}");
    assert!(sender.recoveries > 3 && sender.lost_segments >= receiver.missing / 2);
}

#[test]
fn reordering_is_classified_by_its_effect() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.there.reorder = (0.01, TimeDelta::from_micros(2_500));
    assert_eq!(bed.run(), Outcome::Complete);
    let receiver = bed.reports().1.receiver.unwrap();
    assert!(receiver.reordered_slightly > 10 && receiver.reordered_retransmit == 0, "{receiver:?}");
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.there.reorder = (0.01, TimeDelta::from_millis(10));
    assert_eq!(bed.run(), Outcome::Complete);
    let receiver = bed.reports().1.receiver.unwrap();
    assert!(receiver.reordered_retransmit > 5 && receiver.max_extent >= 3, "{receiver:?}");
}

#[test]
fn the_classic_tool_runs_with_its_heartbeat() {
    let mut bed = Bed::new(
        CapOptions { ..CapOptions::classic() },
        ServerLimits::default(),
        Identity { phase: TimeDelta::from_millis(130), ..identity() },
    );
    bed.there.loss = 0.02;
    assert_eq!(bed.run(), Outcome::Complete);
    let sender = bed.reports().0.sender.unwrap();
    assert!(sender.data_bytes > 1_000_000 && sender.rto_max_ns >= 1_000_000_000);
    assert_eq!(sender.rto_max_ns % 500_000_000, 0);
}

#[test]
fn only_clients_with_the_key_are_admitted() {
    let limits = ServerLimits { key: Some(b"secret".to_vec()), ..ServerLimits::default() };
    let with = |key: Option<&[u8]>| {
        let identity = Identity { key: key.map(<[u8]>::to_vec), ..identity() };
        let mut bed = Bed::new(short(CapOptions::default()), limits.clone(), identity);
        bed.run()
    };
    assert_eq!(with(Some(b"secret")), Outcome::Complete);
    assert_eq!(with(Some(b"wrong")), Outcome::Refused(Refusal::Key, 0));
    assert_eq!(with(None), Outcome::Refused(Refusal::Key, 0));
}

#[test]
fn the_server_may_grant_less_than_requested() {
    let limits = ServerLimits {
        duration: TimeDelta::from_secs(2),
        rate: Some(Rate::from_bps(2_000_000)),
        ..ServerLimits::default()
    };
    for direction in [Direction::Forward, Direction::Reverse] {
        let options = short(CapOptions { direction, ..CapOptions::default() });
        let mut bed = Bed::new(options, limits.clone(), identity());
        assert_eq!(bed.run(), Outcome::Complete);
        let (own, peer) = bed.reports();
        let sender = own.sender.or(peer.sender).unwrap();
        assert_eq!(sender.elapsed_ns / 10_000_000, 200);
        let rate = bps(sender.sent_wire_bytes, sender.elapsed_ns);
        assert!((1.5e6..2.2e6).contains(&rate), "{rate}");
        assert_eq!(bed.client.granted(), Some((TimeDelta::from_secs(2), Some(Rate::from_bps(2_000_000)))));
    }
}

#[test]
fn a_full_server_refuses_clients_with_the_reason() {
    let mut bed = Bed::new(
        short(CapOptions::default()),
        ServerLimits { clients: 0, ..ServerLimits::default() },
        identity(),
    );
    assert_eq!(bed.run(), Outcome::Refused(Refusal::Busy, 0));
}

#[test]
fn a_silent_path_ends_the_test_on_both_sides() {
    for direction in [Direction::Forward, Direction::Reverse] {
        let options = CapOptions { direction, duration: TimeDelta::from_secs(120), ..CapOptions::default() };
        let mut bed = Bed::new(options, ServerLimits::default(), identity());
        bed.dead_from = Timestamp::from_secs(2);
        assert_eq!(bed.run(), Outcome::Silent);
        assert!(bed.client.report().sender.is_none_or(|sender| sender.data_bytes > 1_000_000));
        while bed.server.poll_timeout().is_set() {
            bed.now = bed.server.poll_timeout();
            bed.server.handle_timeout(bed.now);
            while bed.server.poll_transmit(bed.now, &mut Vec::new()).is_some() {}
        }
        assert_eq!(bed.server.take_finished()[0].why, "client went silent");
    }
}

#[test]
fn a_missing_server_is_distinguished_from_a_silent_path() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.dead_from = Timestamp::ZERO;
    assert_eq!(bed.run(), Outcome::NoAnswer);
    let mut client = CapClient::new(CapOptions::default(), identity());
    client.poll_transmit(Timestamp::from_millis(1), &mut Vec::new());
    client.unreachable(Timestamp::from_millis(2), Unreachable::Port);
    assert_eq!(client.outcome(), Some(Outcome::Unreachable(Unreachable::Port)));
}

#[test]
fn a_change_of_address_ends_the_test_with_that_reason() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.moves_at = Timestamp::from_secs(2);
    assert_eq!(bed.run(), Outcome::Refused(Refusal::Moved, 0));
    assert!(bed.server_bytes.0 < bed.server_bytes.1);
}

#[test]
fn a_restarted_server_reports_that_it_does_not_know_the_test() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.restarts_at = Timestamp::from_secs(2);
    assert_eq!(bed.run(), Outcome::Refused(Refusal::Unknown, 0));
}

#[test]
fn stopping_ends_both_sides_and_keeps_what_was_measured() {
    let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
    bed.dead_from = Timestamp::NEVER;
    while bed.now < Timestamp::from_secs(3) {
        bed.pump();
        let arrival = bed.air.first_key_value().map_or(Timestamp::NEVER, |(&(at, _), _)| at);
        bed.now = arrival.min(bed.client.poll_timeout()).min(bed.server.poll_timeout()).max(bed.now);
        if arrival <= bed.now {
            let (_, (to_server, from, bytes)) = bed.air.pop_first().unwrap();
            if to_server {
                bed.server.handle_datagram(bed.now, bed.now, from, &bytes, false);
            } else {
                bed.client.handle_datagram(bed.now, bed.now, &bytes, false);
            }
        }
        bed.client.handle_timeout(bed.now);
        bed.server.handle_timeout(bed.now);
    }
    bed.client.stop(bed.now);
    assert_eq!(bed.run(), Outcome::Stopped);
    let sender = bed.client.report().sender.unwrap();
    assert!((2_500_000_000..3_000_000_000).contains(&sender.elapsed_ns) && sender.data_bytes > 2_000_000);
    assert_eq!(bed.server.sessions(), 0);
}

#[test]
fn the_same_seed_gives_the_same_counts() {
    let run = || {
        let mut bed = Bed::new(short(CapOptions::default()), ServerLimits::default(), identity());
        bed.there.loss = 0.01;
        bed.run();
        bed.reports()
    };
    assert_eq!(run(), run());
}

// ---- Attacks ----

/// A server's answers to one datagram.
fn answers(server: &mut CapServer, now: Timestamp, from: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
    server.handle_datagram(now, now, from, bytes, false);
    let mut answers = Vec::new();
    let mut out = Vec::new();
    while server.poll_transmit(now, &mut out).is_some() {
        answers.push(std::mem::take(&mut out));
    }
    answers
}

/// A client and a server after the server has sent its cookie, with the client's next message.
fn introduced(server: &mut CapServer, from: SocketAddr, nonce: u8, direction: Direction) -> Vec<u8> {
    let now = Timestamp::from_secs(1);
    let options = CapOptions { direction, ..CapOptions::default() };
    let mut client = CapClient::new(options, Identity { nonce: [nonce; 16], ..identity() });
    let mut out = Vec::new();
    client.poll_transmit(now, &mut out);
    let cookie = answers(server, now, from, &out).remove(0);
    client.handle_datagram(now, now, &cookie, false);
    out.clear();
    client.poll_transmit(now, &mut out);
    out
}

#[test]
fn until_a_cookie_comes_back_there_is_no_state_and_no_amplification() {
    let mut server = CapServer::new(ServerLimits::default(), &SECRET, 0);
    for port in 1..2000 {
        let now = Timestamp::from_millis(2 * u64::from(port));
        let mut client = CapClient::new(CapOptions::default(), identity());
        let mut hello = Vec::new();
        client.poll_transmit(now, &mut hello);
        assert_eq!(hello.len(), HELLO);
        let told = answers(&mut server, now, address(port), &hello);
        assert_eq!(told.len(), 1);
        assert!(told[0].len() < hello.len());
        assert!(answers(&mut server, now, address(port), &hello[..HELLO - 1]).is_empty(), "not padded");
    }
    assert_eq!(server.sessions(), 0);
}

#[test]
fn a_replayed_cookie_opens_no_second_session() {
    let mut server = CapServer::new(ServerLimits::default(), &SECRET, 0);
    let now = Timestamp::from_secs(1);
    let open = introduced(&mut server, address(4000), 7, Direction::Reverse);
    // From another address, or too late: no answer.
    assert!(answers(&mut server, now, address(4001), &open).is_empty());
    assert!(answers(&mut server, Timestamp::from_secs(12), address(4000), &open).is_empty());
    assert_eq!(server.sessions(), 0);
    // From its own address it opens one session, even if it comes several times, and no answer is longer than it.
    let mut sent = 0;
    for _ in 0..100 {
        for answer in answers(&mut server, now, address(4000), &open) {
            sent += answer.len();
        }
    }
    assert_eq!(server.sessions(), 1);
    assert!(sent <= 100 * open.len());
    // After the first session has ended, it is not valid for a second.
    server.stop();
    server.poll_transmit(now, &mut Vec::new());
    assert!(answers(&mut server, now, address(4000), &open).is_empty());
    assert_eq!(server.sessions(), 0);
}

#[test]
fn a_server_whose_segments_are_too_large_to_be_sent_ends_that_test_and_says_so() {
    let mut server = CapServer::new(ServerLimits::default(), &SECRET, 0);
    let now = Timestamp::from_secs(1);
    for (port, direction) in [(1, Direction::Forward), (2, Direction::Reverse), (3, Direction::Reverse)] {
        let open = introduced(&mut server, address(port), port as u8, direction);
        answers(&mut server, now, address(port), &open);
    }
    for port in [1, 2] {
        server.on_too_large(address(port));
    }
    assert_eq!(server.sessions(), 2, "the first only receives, and the third has another path");
    let ended = server.take_finished();
    assert_eq!((ended[0].client, ended[0].why), (address(2), "segments larger than the MTU"));
    let mut out = Vec::new();
    let (to, _) = server.poll_transmit(now, &mut out).unwrap();
    // A refusal; its reason follows the session.
    assert_eq!((to.address, out[1], out[18]), (address(2), 5, Refusal::TooLarge as u8));
}

#[test]
fn a_client_of_another_version_learns_the_servers_version() {
    let mut server = CapServer::new(ServerLimits::default(), &SECRET, 0);
    let mut hello = vec![0xb2, 1];
    hello.extend([3; 62]);
    let told = answers(&mut server, Timestamp::from_secs(1), address(1), &hello);
    let mut client = CapClient::new(CapOptions::default(), identity());
    client.poll_transmit(Timestamp::from_secs(1), &mut Vec::new());
    client.handle_datagram(Timestamp::from_secs(1), Timestamp::from_secs(1), &told[0], false);
    assert_eq!(client.outcome(), Some(Outcome::Refused(Refusal::Version, 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Arbitrary bytes: no panic, no session, and never more bytes out than in.
    #[test]
    fn answers_to_random_datagrams_are_no_longer_than_these(
        datagrams in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..120), 0u8..12), 1..40),
    ) {
        let mut server = CapServer::new(ServerLimits::default(), &SECRET, 0);
        let mut client = CapClient::new(CapOptions::default(), identity());
        client.poll_transmit(Timestamp::from_millis(1), &mut Vec::new());
        for (mut bytes, kind) in datagrams {
            if kind < 10 && bytes.len() >= 2 {
                bytes[0] = 0xb1;
                bytes[1] = kind;
            }
            let now = Timestamp::from_secs(1);
            let sent: usize = answers(&mut server, now, address(9), &bytes).iter().map(Vec::len).sum();
            prop_assert!(sent <= bytes.len());
            client.handle_datagram(now, now, &bytes, false);
        }
        prop_assert_eq!(server.sessions(), 0);
    }

    /// Damages the datagrams of a running test, and forges others with its token. The test may fail, but it ends, the server never
    /// sends more than it received, and neither end takes data for acknowledged that was not sent.
    #[test]
    fn a_test_survives_damage(seed in any::<u64>(), keyed in any::<bool>(), reverse in any::<bool>()) {
        let key = keyed.then(|| b"k".to_vec());
        let options = CapOptions {
            duration: TimeDelta::from_millis(500),
            direction: if reverse { Direction::Reverse } else { Direction::Forward },
            ..CapOptions::default()
        };
        let limits = ServerLimits { key: key.clone(), ..ServerLimits::default() };
        let patience = TimeDelta::from_secs(5);
        let mut bed = Bed::new(options, limits, Identity { key, patience, ..identity() });
        let mut stream = Streams::new(seed).stream("harm");
        let mut steps = 0;
        loop {
            bed.pump();
            if bed.client.outcome().is_some() {
                break;
            }
            steps += 1;
            prop_assert!(steps < 200_000, "it does not end");
            let arrival = bed.air.first_key_value().map_or(Timestamp::NEVER, |(&(at, _), _)| at);
            bed.now = arrival.min(bed.client.poll_timeout()).min(bed.server.poll_timeout()).max(bed.now);
            if arrival <= bed.now {
                let (_, (to_server, from, mut bytes)) = bed.air.pop_first().unwrap();
                if stream.chance(0.05) {
                    let place = stream.below(bytes.len().min(60) as u64) as usize;
                    bytes[place] ^= 1 << stream.below(8);
                    if stream.chance(0.3) {
                        bytes.truncate(stream.below(bytes.len() as u64) as usize);
                    }
                }
                if to_server {
                    bed.server.handle_datagram(bed.now, bed.now, from, &bytes, false);
                } else {
                    bed.client.handle_datagram(bed.now, bed.now, &bytes, false);
                }
            }
            bed.client.handle_timeout(bed.now);
            bed.server.handle_timeout(bed.now);
        }
        if let Some(sender) = bed.client.report().sender {
            prop_assert!(sender.data_bytes <= sender.sent_segments * 1448);
        }
    }
}

#[test]
fn datagrams_on_the_wire_are_as_documented() {
    let limits = ServerLimits { strangers: None, ..ServerLimits::default() };
    let mut server = CapServer::new(limits, &SECRET, 0);
    let mut client = CapClient::new(short(CapOptions::default()), identity());
    let now = Timestamp::from_millis(1500);
    let mut lines = Vec::new();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for _ in 0..5 {
        let mut out = Vec::new();
        while let Some(datagram) = client.poll_transmit(now, &mut out) {
            assert!(matches!(datagram.ecn, Ecn::NotEct));
            lines.push(format!("> {:4} {}", out.len(), hex(&out[..out.len().min(48)])));
            server.handle_datagram(now, now, address(4000), &out, false);
            out.clear();
        }
        while server.poll_transmit(now, &mut out).is_some() {
            lines.push(format!("< {:4} {}", out.len(), hex(&out[..out.len().min(48)])));
            client.handle_datagram(now, now, &out, false);
            out.clear();
        }
    }
    insta::assert_snapshot!(lines[..12.min(lines.len())].join("\n"));
}
