//! What a capture holds: connections of TCP, and datagrams of UDP by their ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use super::capture::{Body, Packet, Segment};
use super::half::{Half, Sample};

/// Timestamps that wait for their echo, at the most. Those of a connection whose other end sends none are of no use.
const STAMPS: usize = 4096;

/// A connection of TCP.
#[derive(Clone, Debug)]
pub(super) struct Connection {
    /// The end that opened it, or else that sent first; and the other one.
    pub ends: [SocketAddr; 2],
    /// When its first packet passed.
    pub opened: f64,
    /// What each end sends.
    pub halves: [Half; 2],
    /// Timestamps of acknowledgements that each end has sent: when they passed, and their bytes.
    stamps: [BTreeMap<u32, (f64, u32)>; 2],
}

impl Connection {
    fn on_segment(&mut self, at: f64, own: usize, segment: &Segment, bytes: u32) {
        let other = 1 - own;
        if let Some((stamp, echoed)) = segment.stamp {
            // Data that an acknowledgement has let go answers it at once. So the way of bulk data to a capture near its receiver is seen.
            if segment.payload > 0 {
                if let Some(&(sent, acked)) = self.stamps[other].get(&echoed) {
                    self.halves[other].sample(Sample { sent, rtt: at - sent, bytes: bytes + acked });
                }
                self.stamps[other] = self.stamps[other].split_off(&echoed.wrapping_add(1));
            } else if segment.ack.is_some() && self.stamps[own].len() < STAMPS {
                self.stamps[own].entry(stamp).or_insert((at, bytes));
            }
        }
        if let Some(mss) = segment.mss {
            self.halves[other].limit(mss);
        }
        self.halves[own].on_segment(at, segment, bytes);
        // After a reset neither end sends (RFC 9293 section 3.5.2).
        self.halves[other].is_over |= segment.rst;
        self.halves[other].on_ack(at, segment, bytes);
    }

    /// The shortest round trip from the capture to each end: of what the other end sends.
    pub(super) fn shortest(&self, end: usize) -> Option<f64> {
        self.halves[1 - end].samples.iter().map(|sample| sample.rtt).min_by(f64::total_cmp)
    }
}

/// Datagrams from one end to another.
#[derive(Clone, Debug, Default)]
pub(super) struct Datagrams {
    pub packets: u64,
    /// Bytes of payload.
    pub payload: u64,
    pub first: f64,
    pub last: f64,
    /// When they passed, and their bytes.
    pub passed: Vec<(f64, u32)>,
}

/// All that a capture holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    pub packets: u64,
    /// The names of captures that end in the middle of a packet.
    pub cut: Vec<String>,
    /// When the first packet passed, since the epoch. All other times are seconds since then.
    begin: Option<Duration>,
    /// When the last packet passed.
    pub end: f64,
    /// Connections in the order of their first packets.
    pub connections: Vec<Connection>,
    /// Datagrams by their ends.
    pub datagrams: BTreeMap<(SocketAddr, SocketAddr), Datagrams>,
    /// The connection between two ends, the smaller address first.
    open: BTreeMap<(SocketAddr, SocketAddr), usize>,
}

impl Traffic {
    /// A packet passes.
    pub(super) fn on_packet(&mut self, packet: &Packet) {
        self.packets += 1;
        let begin = *self.begin.get_or_insert(packet.at);
        // A capture on several interfaces may begin with a packet that is not the earliest.
        let at = packet.at.saturating_sub(begin).as_secs_f64();
        self.end = self.end.max(at);
        match &packet.body {
            Body::Tcp(segment) => self.on_segment(at, packet, segment),
            Body::Udp(payload) => {
                let found = self
                    .datagrams
                    .entry((packet.from, packet.to))
                    .or_insert_with(|| Datagrams { first: at, ..Datagrams::default() });
                found.packets += 1;
                found.payload += u64::from(*payload);
                found.last = at;
                found.passed.push((at, packet.bytes));
            }
            Body::Other => {}
        }
    }

    fn on_segment(&mut self, at: f64, packet: &Packet, segment: &Segment) {
        let ends = (packet.from.min(packet.to), packet.from.max(packet.to));
        let is_new = segment.syn && segment.ack.is_none();
        let known = self.open.get(&ends).copied().filter(|&number| {
            // The same ports may be used again.
            !is_new || !self.connections[number].halves.iter().any(|half| half.is_over)
        });
        let number = known.unwrap_or_else(|| {
            // One that was open before the capture began may show itself by an answer.
            let ends = if segment.syn && segment.ack.is_some() {
                [packet.to, packet.from]
            } else {
                [packet.from, packet.to]
            };
            self.connections.push(Connection {
                ends,
                opened: at,
                halves: Default::default(),
                stamps: Default::default(),
            });
            self.connections.len() - 1
        });
        self.open.insert(ends, number);
        let connection = &mut self.connections[number];
        let own = usize::from(packet.from != connection.ends[0]);
        connection.on_segment(at, own, segment, packet.bytes);
    }

    /// From where to where packets went, if those of the other direction are missing: most packets of TCP are of connections of which one end is never seen, though the other
    /// one acknowledges what it sends. Of the largest such connection.
    pub(super) fn one_way(&self) -> Option<(IpAddr, IpAddr)> {
        let (mut halved, mut whole) = (0, 0);
        let mut largest: Option<(usize, [IpAddr; 2])> = None;
        for connection in &self.connections {
            let [first, second] = &connection.halves;
            let (sender, from) = if second.seen() == 0 { (first, 0) } else { (second, 1) };
            let seen = first.seen() + second.seen();
            if sender.seen() < seen {
                whole += seen;
            } else if sender.has_acknowledged {
                halved += seen;
                if largest.is_none_or(|(most, _)| seen > most) {
                    largest = Some((seen, [from, 1 - from].map(|end| connection.ends[end].ip())));
                }
            }
        }
        largest.filter(|_| halved > whole).map(|(_, [from, to])| (from, to))
    }

    /// Which addresses are on the capture's side of the path, in order: those whose answers come sooner than the other end's.
    pub(super) fn near(&self) -> Vec<IpAddr> {
        let mut votes: BTreeMap<IpAddr, i64> = BTreeMap::new();
        for connection in &self.connections {
            let [first, second] = [0, 1].map(|end| connection.shortest(end));
            let weight = connection.halves.iter().map(|half| half.packets as i64).sum::<i64>().max(1);
            // What is not known is at the far end: an end that never answers.
            let near = match (first, second) {
                (Some(first), Some(second)) => usize::from(second < first),
                (Some(_), None) => 1,
                _ => 0,
            };
            *votes.entry(connection.ends[near].ip()).or_default() += weight;
            *votes.entry(connection.ends[1 - near].ip()).or_default() -= weight;
        }
        for (from, to) in self.datagrams.keys() {
            // Of datagrams nothing tells, unless TCP does.
            if !votes.contains_key(&from.ip()) && !votes.contains_key(&to.ip()) {
                votes.insert(from.ip(), 1);
                votes.insert(to.ip(), -1);
            } else {
                let other = |vote: Option<&i64>| if vote.is_some_and(|&vote| vote > 0) { -1 } else { 1 };
                let (one, two) = (other(votes.get(&to.ip())), other(votes.get(&from.ip())));
                votes.entry(from.ip()).or_insert(one);
                votes.entry(to.ip()).or_insert(two);
            }
        }
        votes.into_iter().filter(|&(_, vote)| vote > 0).map(|(address, _)| address).collect()
    }
}
