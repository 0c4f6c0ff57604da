//! What holds for SCTP only: its packets, the end of each direction, which SCTP does not have, and a peer that begins again.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::collections::BTreeMap;

use warpline_core::{Streams, TimeDelta, Timestamp};
use warpline_scenario::Endpoint;
use warpline_stacks::stack::{Builder, Event, Outcome, Place, SocketId, SocketOptions, Stack};

const PORT: u16 = 80;
const DELAY: TimeDelta = TimeDelta::from_millis(10);
/// Types of chunks (RFC 9260 section 3.2).
const DATA: u8 = 0;
const INIT: u8 = 1;
const ABORT: u8 = 6;
const SHUTDOWN_COMPLETE: u8 = 14;

fn host(builder: &mut Builder, last: u8, seed: u64) -> Result<Box<dyn Stack>, String> {
    let stream = Streams::new(seed).stream(&format!("host.{last}"));
    let place = Place { addresses: vec![[10, 0, 0, last].into()], mtu: 1500, stream };
    Ok(builder.build(&Endpoint::Sctp(Default::default()), place)?.unwrap())
}

/// CRC32c, bit by bit (RFC 9260 appendix A).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The first chunk's type of a packet.
fn kind(packet: &[u8]) -> u8 {
    packet[32]
}

/// Two hosts with a link that loses nothing. The second listens.
struct Two {
    hosts: [Box<dyn Stack>; 2],
    now: Timestamp,
    /// Packets on their way: when they arrive, where, and their bytes.
    wire: Vec<(Timestamp, usize, Vec<u8>)>,
    /// All packets that were sent, by whom.
    sent: Vec<(usize, Vec<u8>)>,
    /// What has happened at each host, and the bytes that were read of each socket.
    events: [Vec<Event>; 2],
    read: BTreeMap<(usize, SocketId), usize>,
}

impl Two {
    /// None where the stack is not built.
    fn new() -> Option<Two> {
        let mut builder = Builder::default();
        let first = host(&mut builder, 1, 1).map_err(|reason| warpline_skip::skip("sctp", reason)).ok()?;
        let mut hosts = [first, host(&mut builder, 2, 1).unwrap()];
        hosts[1].listen(Timestamp::ZERO, PORT, &SocketOptions::default()).unwrap();
        let (wire, sent) = (Vec::new(), Vec::new());
        Some(Two {
            hosts,
            now: Timestamp::ZERO,
            wire,
            sent,
            events: Default::default(),
            read: BTreeMap::new(),
        })
    }

    fn connect(&mut self) -> SocketId {
        let remote = ([10, 0, 0, 2], PORT).into();
        let socket = self.hosts[0].connect(self.now, remote, &SocketOptions::default()).unwrap();
        self.serve(0);
        socket
    }

    /// Handles the events of a host, and takes its packets.
    fn serve(&mut self, side: usize) {
        let mut packet = Vec::new();
        loop {
            if let Some(event) = self.hosts[side].poll_event() {
                self.events[side].push(event);
                if let Event::Readable(socket) = event {
                    let mut buffer = [0; 4096];
                    loop {
                        match self.hosts[side].read(self.now, socket, &mut buffer) {
                            0 => break,
                            len => *self.read.entry((side, socket)).or_default() += len,
                        }
                    }
                }
            } else if self.hosts[side].poll_transmit(self.now, &mut packet) {
                self.sent.push((side, packet.clone()));
                self.wire.push((self.now + DELAY, 1 - side, packet.clone()));
            } else {
                return;
            }
        }
    }

    fn run(&mut self, span: TimeDelta) {
        let until = self.now + span;
        loop {
            let due = self.hosts[0].poll_timeout().min(self.hosts[1].poll_timeout());
            let next = self.wire.first().map_or(due, |first| due.min(first.0));
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if self.wire.first().is_some_and(|first| first.0 <= next) {
                let (_, side, packet) = self.wire.remove(0);
                self.hosts[side].handle_packet(self.now, &packet);
                self.serve(side);
            }
            for side in [0, 1] {
                self.hosts[side].handle_timeout(self.now);
                self.serve(side);
            }
        }
    }

    /// The server's socket.
    fn accepted(&self) -> SocketId {
        let accepted = |event: &Event| match event {
            Event::Accepted { socket, .. } => Some(*socket),
            _ => None,
        };
        self.events[1].iter().rev().find_map(accepted).unwrap()
    }
}

#[test]
fn packets_are_whole_and_the_association_is_shut_down_at_the_end() {
    let Some(mut two) = Two::new() else { return };
    let client = two.connect();
    two.run(TimeDelta::from_secs(1));
    let server = two.accepted();
    assert_eq!(two.hosts[0].write(two.now, client, &[7; 100_000]), 100_000);
    two.hosts[0].close(two.now, client);
    two.serve(0);
    two.run(TimeDelta::from_secs(10));
    assert!(two.events[1].contains(&Event::Finished(server)));
    // The other direction is open.
    assert_eq!(two.hosts[0].write(two.now, client, &[7]), 0);
    assert_eq!(two.hosts[1].write(two.now, server, &[8; 50_000]), 50_000);
    two.hosts[1].close(two.now, server);
    two.serve(1);
    two.run(TimeDelta::from_secs(10));
    assert_eq!((two.read[&(1, server)], two.read[&(0, client)]), (100_000, 50_000));
    assert_eq!(two.events[0].last(), Some(&Event::Closed(client, Outcome::Complete)));
    assert_eq!(two.events[1].last(), Some(&Event::Closed(server, Outcome::Complete)));
    for (side, packet) in &two.sent {
        assert_eq!((packet[0], packet[9]), (0x45, 132));
        assert!(packet.len() <= 1500 && u16::from_be_bytes([packet[2], packet[3]]) as usize == packet.len());
        let mut inner = packet[20..].to_vec();
        inner[8..12].fill(0);
        assert_eq!(crc32c(&inner).to_le_bytes(), packet[28..32], "of host {side}");
    }
    let full = two.sent.iter().filter(|(_, packet)| packet.len() == 1500 && kind(packet) == DATA).count();
    assert!(full > 100, "{full}");
    assert!(two.sent.iter().any(|(_, packet)| kind(packet) == SHUTDOWN_COMPLETE));
    assert!(two.sent.iter().all(|(_, packet)| kind(packet) != ABORT));
}

#[test]
fn what_it_says_of_a_socket_is_right_and_an_idle_one_sleeps() {
    let Some(mut two) = Two::new() else { return };
    let client = two.connect();
    two.run(TimeDelta::from_secs(1));
    let info = |two: &Two| two.hosts[0].info(client).unwrap();
    assert_eq!((info(&two).acked, info(&two).in_flight), (0, Some(0)));
    assert_eq!(two.hosts[0].write(two.now, client, &[7; 100_000]), 100_000);
    two.serve(0);
    let first = info(&two);
    // Three packets or so are in the initial window (RFC 9260 section 7.2.1).
    assert!((4000..6000).contains(&first.in_flight.unwrap()) && first.acked == 0, "{first:?}");
    two.run(TimeDelta::from_secs(5));
    let last = info(&two);
    assert_eq!((last.acked, last.in_flight), (100_000, Some(0)));
    assert!(last.cwnd > first.cwnd, "{first:?} {last:?}");
    let srtt = last.srtt.unwrap();
    assert!((TimeDelta::from_millis(20)..TimeDelta::from_millis(240)).contains(&srtt), "{srtt}");
    // It waits for a heartbeat (RFC 9260 section 8.3): nothing is called every 10 ms.
    let due = two.hosts[0].poll_timeout();
    assert!(due > two.now + TimeDelta::from_secs(10) && due < two.now + TimeDelta::from_secs(60), "{due}");
}

#[test]
fn a_packet_with_a_wrong_checksum_is_lost() {
    let Some(mut two) = Two::new() else { return };
    let client = two.connect();
    two.run(TimeDelta::from_secs(1));
    let server = two.accepted();
    two.hosts[0].write(two.now, client, &[7; 1000]);
    two.serve(0);
    let damaged = two.wire.iter_mut().find(|(_, side, packet)| *side == 1 && kind(packet) == DATA).unwrap();
    damaged.2[100] ^= 1;
    two.run(TimeDelta::from_millis(500));
    assert_eq!(two.read.get(&(1, server)), None);
    // It is sent again.
    two.run(TimeDelta::from_secs(10));
    assert_eq!(two.read[&(1, server)], 1000);
}

/// A host that was restarted takes the same port: the old association is over, and the new one's bytes are not the old one's.
#[test]
fn a_peer_that_begins_again_has_a_new_association() {
    let Some(mut two) = Two::new() else { return };
    let client = two.connect();
    two.run(TimeDelta::from_secs(1));
    let old = two.accepted();
    two.hosts[0].write(two.now, client, &[7; 1000]);
    two.serve(0);
    two.run(TimeDelta::from_secs(1));
    // The server has sent something, so that it knows the old tag from its own packets.
    assert_eq!(two.read[&(1, old)], 1000);
    let port = two.hosts[0].local_address(client).unwrap().port();
    let mut builder = Builder::default();
    let remote = ([10, 0, 0, 2], PORT).into();
    let again = (2..u64::MAX).find_map(|seed| {
        let mut new = host(&mut builder, 1, seed).unwrap();
        let socket = new.connect(two.now, remote, &SocketOptions::default()).unwrap();
        (new.local_address(socket).unwrap().port() == port).then_some((new, socket))
    });
    let (new, socket) = again.unwrap();
    two.hosts[0] = new;
    two.events = Default::default();
    two.serve(0);
    assert_eq!(kind(&two.sent.last().unwrap().1), INIT);
    two.run(TimeDelta::from_secs(5));
    assert!(two.events[1].contains(&Event::Closed(old, Outcome::Reset)), "{:?}", two.events[1]);
    let server = two.accepted();
    assert_ne!(server, old);
    assert_eq!(two.events[0], [Event::Connected(socket)]);
    two.hosts[0].write(two.now, socket, &[7; 500]);
    two.serve(0);
    two.run(TimeDelta::from_secs(1));
    assert_eq!(two.read[&(1, server)], 500);
}

#[test]
fn a_port_that_is_listened_on_again_takes_associations_again() {
    let Some(mut two) = Two::new() else { return };
    let options = SocketOptions::default();
    assert!(two.hosts[1].listen(two.now, PORT, &options).is_err());
    let first = two.connect();
    two.run(TimeDelta::from_secs(1));
    two.hosts[1].stop_listening(two.now, PORT);
    let second = two.connect();
    two.run(TimeDelta::from_secs(5));
    assert_eq!(two.events[0].last(), Some(&Event::Closed(second, Outcome::Reset)));
    two.hosts[1].listen(two.now, PORT, &options).unwrap();
    let third = two.connect();
    two.run(TimeDelta::from_secs(5));
    assert!(two.events[0].contains(&Event::Connected(third)));
    // The first one has gone on meanwhile.
    assert!(two.hosts[0].info(first).is_some());
}

#[test]
fn an_mtu_that_is_too_small_is_said() {
    if Two::new().is_none() {
        return;
    }
    let stream = Streams::new(1).stream("host");
    let place = Place { addresses: vec![[10, 0, 0, 1].into()], mtu: 500, stream };
    let made = Builder::default().build(&Endpoint::Sctp(Default::default()), place);
    assert_eq!(made.unwrap_err(), "SCTP needs a link that takes 544 bytes at once");
}
