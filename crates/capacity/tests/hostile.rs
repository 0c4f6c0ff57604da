//! Cap's two ends against attackers who know the protocol: strangers who request too much, forged refusals, false segments.

#![allow(clippy::unwrap_used, reason = "a test bench")]

use std::net::SocketAddr;

use warpline_capacity::{
    Bound, CapClient, CapOptions, CapServer, Direction, Identity, Outcome, Refusal, ServerLimits,
    StrangerLimits, Unreachable,
};
use warpline_core::{Rate, TimeDelta, Timestamp};

const KEY: &[u8] = b"a key";

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], port))
}

fn server(key: Option<&[u8]>) -> CapServer {
    let limits = ServerLimits { key: key.map(<[u8]>::to_vec), ..ServerLimits::default() };
    CapServer::new(limits, &[9; 32], 0)
}

fn reverse() -> CapOptions {
    CapOptions { direction: Direction::Reverse, ..CapOptions::default() }
}

fn client(options: CapOptions, key: Option<&[u8]>, nonce: u8) -> CapClient {
    let identity = Identity {
        nonce: [nonce; 16],
        key: key.map(<[u8]>::to_vec),
        wall_us: 0,
        phase: TimeDelta::ZERO,
        ipv6: false,
        patience: TimeDelta::from_secs(30),
        trace: false,
    };
    CapClient::new(options, identity)
}

fn from_client(client: &mut CapClient, now: Timestamp) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while client.poll_transmit(now, &mut out).is_some() {
        all.push(std::mem::take(&mut out));
    }
    all
}

fn from_server(server: &mut CapServer, now: Timestamp) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut all = Vec::new();
    let mut out = Vec::new();
    while let Some((to, _)) = server.poll_transmit(now, &mut out) {
        all.push((to.address, std::mem::take(&mut out)));
    }
    all
}

/// Lets both exchange datagrams for a number of round trips that take no time.
fn talk(client: &mut CapClient, server: &mut CapServer, from: SocketAddr, now: Timestamp, rounds: usize) {
    for _ in 0..rounds {
        for bytes in from_client(client, now) {
            server.handle_datagram(now, now, from, &bytes, false);
        }
        for (to, bytes) in from_server(server, now) {
            if to == from {
                client.handle_datagram(now, now, &bytes, false);
            }
        }
    }
}

const START: Timestamp = Timestamp::from_secs(1);

/// A client that the server has admitted.
fn running(options: CapOptions, server: &mut CapServer, key: Option<&[u8]>, from: SocketAddr) -> CapClient {
    let nonce = (from.port() % 251) as u8;
    let mut client = client(options, key, nonce);
    talk(&mut client, server, from, START, 2);
    assert!(client.is_running(), "{:?}", client.outcome());
    client
}

fn refusal(to: &[u8], reason: u8) -> Vec<u8> {
    let mut bytes = vec![0xb1, 5];
    bytes.extend(to);
    bytes.resize(18, 0);
    bytes.extend([reason, 0, 0, 0, 0]);
    bytes
}

#[test]
fn a_stranger_who_requests_a_sender_without_congestion_control_is_refused_with_the_reason() {
    let ms = TimeDelta::from_millis;
    let asked = [
        (CapOptions { cc: "fixed:segments=3000".parse().unwrap(), ..reverse() }, Bound::FixedWindow),
        (CapOptions { cc: "reno:beta=0.999".parse().unwrap(), ..reverse() }, Bound::Parameters),
        (CapOptions { initial_rto: ms(1), ..reverse() }, Bound::InitialRto),
        (CapOptions { min_rto: ms(1), ..reverse() }, Bound::MinRto),
        (CapOptions { segment: 65_507, initial_window: 300, ..reverse() }, Bound::InitialWindow),
        (CapOptions { window: 1 << 29, ..reverse() }, Bound::Window),
    ];
    for (options, bound) in asked {
        let mut server = server(None);
        let mut stranger = client(options.clone(), None, 1);
        talk(&mut stranger, &mut server, address(1, 1), START, 3);
        assert_eq!(stranger.outcome(), Some(Outcome::Refused(Refusal::Options, bound.code())));
        assert_eq!(server.sessions(), 0);
        let mut server = self::server(Some(KEY));
        running(options, &mut server, Some(KEY), address(1, 1));
    }
}

#[test]
fn the_rate_for_strangers_is_bounded() {
    let mut server = server(None);
    let client = running(reverse(), &mut server, None, address(1, 1));
    assert_eq!(client.granted().unwrap().1, StrangerLimits::default().rate);
    let mut server = self::server(Some(KEY));
    assert_eq!(running(reverse(), &mut server, Some(KEY), address(1, 1)).granted().unwrap().1, None);
}

#[test]
fn unknown_options_are_refused_and_not_ignored() {
    let mut server = server(None);
    let mut client = client(reverse(), None, 1);
    talk(&mut client, &mut server, address(1, 1), START, 1);
    let mut open = from_client(&mut client, START).remove(0);
    let cc = open.len() - 5;
    open[cc..].copy_from_slice(b"nonse");
    server.handle_datagram(START, START, address(1, 1), &open, false);
    let answer = from_server(&mut server, START).remove(0).1;
    assert!(answer.len() <= open.len());
    client.handle_datagram(START, START, &answer, false);
    assert_eq!(client.outcome(), Some(Outcome::Refused(Refusal::Options, 0)));
}

#[test]
fn a_syn_with_another_mss_than_agreed_opens_no_connection() {
    let mut server = server(None);
    let from = address(1, 1);
    let mut client = running(reverse(), &mut server, None, from);
    let syn = from_client(&mut client, START).pop();
    // The SYN was lost with the last round: it is sent again.
    let later = client.poll_timeout();
    client.handle_timeout(later);
    let mut syn = syn.unwrap_or_else(|| from_client(&mut client, later).remove(0));
    let mss = 24 + 8;
    assert_eq!(u16::from_be_bytes([syn[mss], syn[mss + 1]]), 1460);
    for lie in [0_u16, 1, 48, 1459, 9000] {
        syn[mss..mss + 2].copy_from_slice(&lie.to_be_bytes());
        let mut fresh = self::server(None);
        let mut other = self::client(reverse(), None, 1);
        for _ in 0..2 {
            for bytes in from_client(&mut other, START) {
                fresh.handle_datagram(START, START, from, &bytes, false);
            }
            for (_, bytes) in from_server(&mut fresh, START) {
                other.handle_datagram(START, START, &bytes, false);
            }
        }
        // The same secret and nonce: the same token.
        fresh.handle_datagram(START, START, from, &syn, false);
        assert_eq!(from_server(&mut fresh, START).len(), 0, "{lie} was believed");
    }
}

#[test]
fn payload_that_was_never_sent_is_not_counted() {
    let mut server = server(None);
    let from = address(1, 1);
    let mut client = running(CapOptions::default(), &mut server, None, from);
    talk(&mut client, &mut server, from, START, 1);
    let data = from_client(&mut client, START);
    let now = START + TimeDelta::from_millis(10);
    let (mut whole, mut cut) = (0, 0);
    for bytes in if data.is_empty() { from_client(&mut client, now) } else { data } {
        server.handle_datagram(now, now, from, &bytes[..60.min(bytes.len() - 1)], false);
        cut += server.receiver_results().unwrap().segments;
        server.handle_datagram(now, now, from, &bytes, false);
        whole = server.receiver_results().unwrap().segments;
        cut -= cut.min(whole);
    }
    assert!(whole >= 1 && cut == 0, "{whole} {cut}");
}

#[test]
fn a_forged_refusal_does_not_end_a_session_with_a_key() {
    let from = address(1, 1);
    for reason in 0..10 {
        let mut server = server(Some(KEY));
        let rate = Some(Rate::from_bps(5_000_000));
        let mut client = client(CapOptions { max_rate: rate, ..reverse() }, Some(KEY), 1);
        // Before the key is agreed, an attacker who saw the nonce can forge messages.
        client.poll_transmit(START, &mut Vec::new());
        client.handle_datagram(START, START, &refusal(&[1; 16], reason), false);
        let now = client.poll_timeout();
        client.handle_timeout(now);
        talk(&mut client, &mut server, from, now, 1);
        client.handle_datagram(now, now, &refusal(&[1; 16], reason), false);
        talk(&mut client, &mut server, from, now, 1);
        assert!(client.is_running(), "{reason}: {:?}", client.outcome());
        // In the session, every datagram carries the token.
        talk(&mut client, &mut server, from, now, 2);
        let segment = from_server(&mut server, now).pop();
        let token = segment.map_or_else(
            || from_client(&mut client, now + TimeDelta::from_secs(2)).pop().unwrap()[4..12].to_vec(),
            |(_, bytes)| bytes[4..12].to_vec(),
        );
        client.handle_datagram(now, now, &refusal(&token, reason), false);
        let mut later = now;
        for step in 1..100 {
            later = now + TimeDelta::from_millis(50) * step;
            client.handle_timeout(later);
            server.handle_timeout(later);
            talk(&mut client, &mut server, from, later, 1);
        }
        assert!(client.is_running(), "{reason}: {:?}", client.outcome());
        assert!(client.delivered() > 0);
        // The server's own message is signed, and counts at once.
        server.stop();
        talk(&mut client, &mut server, from, later, 1);
        assert_eq!(client.outcome(), Some(Outcome::Refused(Refusal::Stopping, 0)));
    }
}

#[test]
fn an_unsigned_refusal_is_reported_if_nothing_better_arrives() {
    let from = address(1, 1);
    let told = |server: &mut CapServer, key: &[u8]| {
        let mut client = client(reverse(), Some(key), 1);
        let mut now = START;
        while client.outcome().is_none() {
            talk(&mut client, server, from, now, 2);
            now = client.poll_timeout().min(server.poll_timeout()).max(now);
            assert!(now < Timestamp::from_secs(20), "{client:?}");
            client.handle_timeout(now);
            server.handle_timeout(now);
        }
        (client.outcome().unwrap(), now.saturating_since(START))
    };
    let (outcome, after) = told(&mut server(Some(KEY)), b"another key");
    assert_eq!((outcome, after), (Outcome::Refused(Refusal::Key, 0), TimeDelta::from_secs(2)));
    // A server without a key admits every client and signs nothing.
    let (outcome, after) = told(&mut server(None), KEY);
    assert_eq!((outcome, after), (Outcome::Unsigned, TimeDelta::from_secs(2)));
}

#[test]
fn a_hint_becomes_the_outcome_of_a_session_with_a_key_only_after_its_patience() {
    let mut server = server(Some(KEY));
    let options = CapOptions { duration: TimeDelta::from_secs(60), ..CapOptions::default() };
    let mut client = running(options, &mut server, Some(KEY), address(1, 1));
    talk(&mut client, &mut server, address(1, 1), START, 1);
    let syn = from_client(&mut client, START).pop().unwrap();
    // The network, and an attacker who impersonates the server, report that there is no server.
    client.unreachable(START, Unreachable::Port);
    client.handle_datagram(START, START, &refusal(&syn[4..12], Refusal::Unknown as u8), false);
    let mut now = START;
    while client.outcome().is_none() {
        assert!(now < Timestamp::from_secs(60));
        now = client.poll_timeout();
        client.handle_timeout(now);
        from_client(&mut client, now);
    }
    assert_eq!(client.outcome(), Some(Outcome::Refused(Refusal::Unknown, 0)));
    assert_eq!(now, START + TimeDelta::from_secs(30));
}

#[test]
fn the_number_of_tests_per_address_is_limited() {
    let most = StrangerLimits::default().clients_per_address;
    let mut server = server(None);
    for port in 0..most as u16 {
        running(reverse(), &mut server, None, address(1, 100 + port));
    }
    let mut one_more = client(reverse(), None, 77);
    talk(&mut one_more, &mut server, address(1, 200), START, 3);
    assert_eq!(one_more.outcome(), Some(Outcome::Refused(Refusal::Crowded, most as u32)));
    running(reverse(), &mut server, None, address(2, 100));
    // Clients with a key are trusted, and many may share an address.
    let mut server = self::server(Some(KEY));
    for port in 0..=most as u16 {
        running(reverse(), &mut server, Some(KEY), address(1, 100 + port));
    }
}

#[test]
fn a_stranger_who_opens_a_test_and_stays_silent_is_dropped_after_ten_seconds() {
    let mut server = server(None);
    let mut mute = client(reverse(), None, 1);
    talk(&mut mute, &mut server, address(1, 1), START, 1);
    for bytes in from_client(&mut mute, START) {
        server.handle_datagram(START, START, address(1, 1), &bytes, false);
    }
    assert_eq!(server.sessions(), 1);
    server.handle_timeout(START + TimeDelta::from_millis(9_900));
    assert_eq!(server.sessions(), 1);
    server.handle_timeout(START + TimeDelta::from_secs(10));
    assert_eq!((server.sessions(), server.take_finished()[0].why), (0, "client went silent"));
}

#[test]
fn sessions_take_turns() {
    let mut server = server(Some(KEY));
    let options = || CapOptions { initial_window: 300, ..reverse() };
    let (one, two) = (address(1, 1), address(2, 2));
    let mut clients = [one, two].map(|from| (from, running(options(), &mut server, Some(KEY), from)));
    // Both handshakes have ended, and no data has been sent to either client yet.
    for (from, client) in &mut clients {
        for bytes in from_client(client, START) {
            server.handle_datagram(START, START, *from, &bytes, false);
        }
    }
    for (to, bytes) in from_server(&mut server, START) {
        let (_, client) = clients.iter_mut().find(|(from, _)| *from == to).unwrap();
        client.handle_datagram(START, START, &bytes, false);
    }
    for (from, client) in &mut clients {
        for bytes in from_client(client, START) {
            server.handle_datagram(START, START, *from, &bytes, false);
        }
    }
    let sent: Vec<_> = from_server(&mut server, START).into_iter().map(|(to, _)| to).collect();
    assert!(sent.len() >= 400, "{}", sent.len());
    for part in sent[..400].chunks(100) {
        let share = part.iter().filter(|&&to| to == one).count();
        assert!((30..=70).contains(&share), "{share} of a hundred consecutive datagrams go to one of them");
    }
}

#[test]
fn a_flood_of_hellos_needs_no_memory_and_gets_few_answers() {
    let mut server = server(None);
    let hello = from_client(&mut client(reverse(), None, 1), START).remove(0);
    for port in 1..=50_000 {
        server.handle_datagram(START, START, address(3, port), &hello, false);
    }
    let answered = from_server(&mut server, START).len();
    assert!((1..=256).contains(&answered), "{answered} answers waited");
    // Nothing is sent to port 0: that would be an error of the shared socket.
    server.handle_datagram(START + TimeDelta::from_secs(2), START, address(4, 0), &hello, false);
    assert_eq!(from_server(&mut server, START).len(), 0);
}
