//! What holds for the TCP of 4.4BSD only: that libslirp, made to reach the machine's network, does not; and how its faults are kept from others.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::net::Ipv4Addr;

use warpline_core::{Streams, TimeDelta, Timestamp};
use warpline_scenario::Endpoint;
use warpline_stacks::stack::{Builder, Event, Outcome, Place, SocketId, SocketOptions, Stack};

const PORT: u16 = 80;
const DELAY: TimeDelta = TimeDelta::from_millis(10);

/// Two hosts with a link that loses nothing, and a flow from the first to the second.
struct Two {
    hosts: [Box<dyn Stack>; 2],
    now: Timestamp,
    socket: SocketId,
    /// Bytes to write in all.
    bytes: usize,
    /// Whether the second leaves unread what arrives.
    is_idle: bool,
    written: usize,
    read: usize,
    /// Packets on their way: when they arrive, where, and their bytes.
    wire: Vec<(Timestamp, usize, Vec<u8>)>,
    /// The first packet of the second host.
    first_answer: Option<Vec<u8>>,
    outcome: Option<Outcome>,
}

fn host(last: u8) -> Result<Box<dyn Stack>, String> {
    let stream = Streams::new(1).stream(&format!("host.{last}"));
    let place = Place { addresses: vec![[10, 0, 0, last].into()], mtu: 1500, stream };
    Ok(Builder::default().build(&Endpoint::Bsd(Default::default()), place)?.unwrap())
}

/// A host; none where the stack is not built.
fn single() -> Option<Box<dyn Stack>> {
    host(1).map_err(|reason| warpline_skip::skip("bsd", reason)).ok()
}

fn pattern(place: usize) -> u8 {
    (place * 31 % 251) as u8
}

impl Two {
    const BYTES: usize = 300_000;

    /// Begins the flow. None where the stack is not built.
    fn new() -> Option<Two> {
        let mut hosts = [single()?, host(2).unwrap()];
        let (now, options) = (Timestamp::ZERO, SocketOptions::default());
        hosts[1].listen(now, PORT, &options).unwrap();
        let socket = hosts[0].connect(now, ([10, 0, 0, 2], PORT).into(), &options).unwrap();
        let (wire, first_answer) = (Vec::new(), None);
        let (written, read, outcome) = (0, 0, None);
        let (bytes, is_idle) = (Self::BYTES, false);
        let mut two = Two { hosts, now, socket, bytes, is_idle, written, read, wire, first_answer, outcome };
        two.serve();
        Some(two)
    }

    /// Lets the applications act, and takes the packets of both hosts.
    fn serve(&mut self) {
        let mut buffer = [0; 4096];
        for (side, host) in self.hosts.iter_mut().enumerate() {
            while let Some(event) = host.poll_event() {
                match event {
                    Event::Readable(_) if self.is_idle => {}
                    Event::Readable(socket) => loop {
                        let count = host.read(self.now, socket, &mut buffer);
                        if count == 0 {
                            break;
                        }
                        for byte in &buffer[..count] {
                            assert_eq!(*byte, pattern(self.read), "byte {}", self.read);
                            self.read += 1;
                        }
                    },
                    Event::Connected(socket) | Event::Writable(socket) if side == 0 => {
                        while self.written < self.bytes {
                            let bytes: Vec<u8> = (self.written..self.bytes).take(1000).map(pattern).collect();
                            let taken = host.write(self.now, socket, &bytes);
                            self.written += taken;
                            if taken < bytes.len() {
                                break;
                            }
                        }
                        if self.written == self.bytes {
                            host.close(self.now, socket);
                        }
                    }
                    Event::Finished(socket) if side == 1 => host.close(self.now, socket),
                    Event::Closed(_, outcome) if side == 0 => self.outcome = Some(outcome),
                    _ => {}
                }
            }
            let mut packet = Vec::new();
            while host.poll_transmit(self.now, &mut packet) {
                if side == 1 && self.first_answer.is_none() {
                    self.first_answer = Some(packet.clone());
                }
                self.wire.push((self.now + DELAY, 1 - side, packet.clone()));
            }
        }
    }

    /// Goes on while `more` holds, for ten minutes at most.
    fn run(&mut self, more: impl Fn(&Two) -> bool) {
        while more(self) {
            let due = self.hosts[0].poll_timeout().min(self.hosts[1].poll_timeout());
            let next = self.wire.iter().map(|(at, ..)| *at).chain([due]).min().unwrap();
            if next > Timestamp::from_secs(600) {
                return;
            }
            self.now = self.now.max(next);
            match self.wire.iter().position(|(at, ..)| *at <= self.now) {
                Some(place) => {
                    let (_, side, packet) = self.wire.remove(place);
                    self.hosts[side].handle_packet(self.now, &packet);
                }
                None => self.hosts.iter_mut().for_each(|host| host.handle_timeout(self.now)),
            }
            self.serve();
        }
    }
}

/// Of a SYN that comes again, libslirp 4.7 empties its buffers (`tcp_mss` of its `tcp_input.c`): bytes would be left out without a word.
#[test]
fn a_syn_that_comes_again_loses_nothing() {
    let Some(mut two) = Two::new() else { return };
    two.run(|two| two.read < Two::BYTES / 4);
    let syn = two.first_answer.clone().unwrap();
    assert_eq!(syn[33], 0x12, "a SYN with an ACK");
    two.hosts[0].handle_packet(two.now, &syn);
    two.serve();
    two.run(|two| two.outcome.is_none());
    assert_eq!((two.read, two.outcome), (Two::BYTES, Some(Outcome::Complete)));
}

/// An open descriptor would be a way out of the process.
#[test]
fn its_connections_are_no_sockets_of_the_machine() {
    let Some(mut two) = Two::new() else { return };
    two.run(|two| two.read < Two::BYTES / 2);
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        assert!(!target.to_string_lossy().starts_with("socket:"), "{}", target.display());
    }
}

#[test]
fn it_says_its_window_and_its_time() {
    let Some(mut two) = Two::new() else { return };
    let info = two.hosts[0].info(two.socket).unwrap();
    // One segment to begin with, and no threshold: the largest window, by the largest scale.
    assert_eq!((info.acked, info.cwnd, info.ssthresh, info.srtt), (0, Some(1460), Some(65_535 << 14), None));
    two.run(|two| two.read < Two::BYTES / 2);
    let info = two.hosts[0].info(two.socket).unwrap();
    assert!(info.cwnd.unwrap() > 20_000 && info.acked > 50_000 && info.in_flight.unwrap() > 1460, "{info:?}");
    // A tick of 499 ms is the shortest time that it knows.
    assert!(info.srtt.unwrap() <= TimeDelta::from_millis(499), "{info:?}");
}

/// A packet of IPv4 to 10.0.0.1 with this protocol, which says that it has this payload.
fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    put_sum(&mut packet, 0, 10, 0);
    packet.extend(payload);
    packet
}

/// Puts the checksum over all from `from` on, and over what else is given, at `at`.
fn put_sum(bytes: &mut [u8], from: usize, at: usize, more: u32) {
    let mut sum = more
        + bytes[from..]
            .chunks(2)
            .map(|two| u32::from_be_bytes([0, 0, two[0], *two.get(1).unwrap_or(&0)]))
            .sum::<u32>();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    bytes[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// What a host says to a packet.
fn answers(host: &mut dyn Stack, packet: &[u8]) -> Vec<Vec<u8>> {
    let now = Timestamp::from_secs(1);
    host.handle_packet(now, packet);
    let (mut all, mut one) = (Vec::new(), Vec::new());
    while host.poll_transmit(now, &mut one) {
        all.push(one.clone());
    }
    all
}

/// A segment to a port where nothing listens.
fn segment(flags: u8) -> Vec<u8> {
    let mut packet = packet(6, &[0x10, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    // The pseudo-header: the addresses, the protocol and the length.
    let (protocol, len) = (6, 20);
    put_sum(&mut packet, 12, 36, protocol + len);
    packet
}

#[test]
fn a_reset_is_not_answered_by_one() {
    let Some(mut host) = single() else { return };
    // A segment with an ACK is.
    let answer = answers(&mut *host, &segment(0x10));
    assert_eq!((answer.len(), answer[0][33] & 4), (1, 4));
    for flags in [4, 4 + 16] {
        assert_eq!(answers(&mut *host, &segment(flags)), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn it_answers_pings_and_no_datagrams() {
    let Some(mut host) = single() else { return };
    let mut ping = packet(1, &[8, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3]);
    put_sum(&mut ping, 20, 22, 0);
    let answer = answers(&mut *host, &ping);
    assert_eq!(answer.len(), 1);
    assert_eq!(
        answer[0][12..20],
        [Ipv4Addr::new(10, 0, 0, 1).octets(), Ipv4Addr::new(10, 0, 0, 2).octets()].concat()
    );
    assert_eq!((answer[0][20], &answer[0][24..]), (0, &ping[24..]));
    for wrong in [
        packet(17, &[0, 53, 0, 53, 0, 8, 0, 0]),
        packet(17, &[0, 68, 0, 67, 0, 8, 0, 0]),
        packet(1, &[8, 0, 1, 1, 0, 7, 0, 1]),
    ] {
        assert_eq!(answers(&mut *host, &wrong), Vec::<Vec<u8>>::new());
    }
}

/// Those whose handshakes were begun before are let go, and new ones are refused.
#[test]
fn a_port_that_is_not_listened_on_any_more_refuses() {
    let Some(mut two) = Two::new() else { return };
    let options = SocketOptions::default();
    // The SYN of the first is under way.
    two.hosts[1].stop_listening(two.now, PORT);
    two.run(|two| two.outcome.is_none());
    assert_eq!((two.outcome, two.read), (Some(Outcome::Reset), 0));
    two.hosts[1].listen(two.now, PORT, &options).unwrap();
    two.outcome = None;
    two.socket = two.hosts[0].connect(two.now, ([10, 0, 0, 2], PORT).into(), &options).unwrap();
    two.serve();
    two.run(|two| two.outcome.is_none());
    assert_eq!((two.outcome, two.read), (Some(Outcome::Complete), Two::BYTES));
}

/// The last acknowledgement ends the connection for libslirp, but not for the application.
#[test]
fn what_was_not_read_when_both_have_closed_can_be_read() {
    let Some(mut two) = Two::new() else { return };
    (two.bytes, two.is_idle) = (20_000, true);
    two.run(|two| two.outcome.is_none());
    let end = two.now + TimeDelta::from_secs(30);
    two.run(|two| two.now < end);
    assert_eq!((two.outcome, two.read), (Some(Outcome::Complete), 0));
    let (mut buffer, now) = ([0; 4096], two.now);
    let server = &mut two.hosts[1];
    let accepted = SocketId(1);
    let mut read = 0;
    loop {
        let count = server.read(now, accepted, &mut buffer);
        assert!(buffer[..count].iter().enumerate().all(|(at, byte)| *byte == pattern(read + at)));
        read += count;
        if count == 0 {
            break;
        }
    }
    assert_eq!((read, server.poll_event()), (two.bytes, Some(Event::Closed(accepted, Outcome::Complete))));
}

/// libslirp mixes up two ports whose bytes are each other's (`check_guestfwd` of its `slirp.c`).
#[test]
fn a_port_and_its_mirror_image_can_both_be_listened_on() {
    let Some(mut two) = Two::new() else { return };
    let options = SocketOptions::default();
    let mirrored = PORT.swap_bytes();
    two.hosts[1].listen(two.now, mirrored, &options).unwrap();
    assert!(two.hosts[1].listen(two.now, mirrored, &options).is_err());
    two.run(|two| two.outcome.is_none());
    for port in [mirrored, PORT] {
        (two.written, two.read, two.outcome) = (0, 0, None);
        two.socket = two.hosts[0].connect(two.now, ([10, 0, 0, 2], port).into(), &options).unwrap();
        two.serve();
        two.run(|two| two.outcome.is_none());
        assert_eq!((two.outcome, two.read), (Some(Outcome::Complete), Two::BYTES));
    }
}

/// A run tells flows apart by their local sockets.
#[test]
fn each_connection_has_a_local_port_of_its_own() {
    let Some(mut host) = single() else { return };
    let mut ports = std::collections::BTreeSet::new();
    for port in 1..=1000 {
        let remote = ([10, 0, 0, 2], port).into();
        let socket = host.connect(Timestamp::ZERO, remote, &SocketOptions::default()).unwrap();
        let local = host.local_address(socket).unwrap();
        assert!(ports.insert(local.port()) && local.port() >= 49_152, "{local}");
    }
}
