//! The traffic between real programs: a row of the flow table for each direction of each pair of sockets that carried payload.
//!
//! A program's connection is only known by its packets. Payload of TCP and SCTP is counted once by its sequence numbers; payload that was sent before is a
//! retransmission. A flow's number is that of its packets in `packets.parquet`.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use warpline_core::{Ecn, TimeDelta, Timestamp};
use warpline_live::datagram::Header;
use warpline_net::routing::Names;
use warpline_results::summary::PROGRAM;
use warpline_results::{FlowRow, FlowSample};

use super::LIVE_FLOW;
use super::outline::{Outline, Pieces, protocol_name};

/// The group of these rows; no flow of a scenario can have this name.
const GROUP: &str = "(programs)";
/// At most this many flows are counted one by one; later ones are counted together.
const MOST: usize = 4096;
/// The number of the flows that are counted together.
const OTHERS: u32 = u32::MAX;
/// At most this many runs of bytes are remembered beyond the first missing one.
const MOST_RUNS: usize = 1024;

/// The bytes of a stream that have been seen.
#[derive(Debug, Default)]
struct Seen {
    /// Sequence number of the first missing byte, unwrapped; none before the first segment.
    next: Option<i64>,
    /// Runs of bytes beyond it: where each begins and ends.
    runs: BTreeMap<i64, i64>,
}

impl Seen {
    /// Adds the pieces of a datagram. Returns how many of their bytes had not been seen before.
    fn add_all(&mut self, pieces: Pieces<'_>) -> u64 {
        pieces.map(|piece| self.add(piece.first, piece.count) * u64::from(piece.bytes)).sum()
    }

    /// Adds a segment. Returns how many of its bytes had not been seen before.
    fn add(&mut self, seq: u32, len: u32) -> u64 {
        let next = *self.next.get_or_insert(i64::from(seq));
        let start = next + i64::from(seq.wrapping_sub(next as u32) as i32);
        let (from, end) = (start.max(next), start + i64::from(len));
        if from >= end {
            return 0;
        }
        // Every run that it touches is merged with it.
        let (mut run, mut known) = ((from, end), 0);
        while let Some((&begin, &stop)) =
            self.runs.range(..=run.1).next_back().filter(|known| *known.1 >= run.0)
        {
            known += (stop.min(end) - begin.max(from)).max(0);
            run = (run.0.min(begin), run.1.max(stop));
            self.runs.remove(&begin);
        }
        let fresh = end - from - known;
        if run.0 <= next {
            self.next = Some(run.1);
        } else if self.runs.len() < MOST_RUNS {
            self.runs.insert(run.0, run.1);
        }
        fresh as u64
    }
}

/// The counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    sent_packets: u64,
    sent_bytes: u64,
    retransmitted_packets: u64,
    delivered_bytes: u64,
    lost_packets: u64,
    ce_marks: u64,
}

/// What has been sent on a flow of the scenario, by its packets.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::run) struct Sent {
    pub(in crate::run) packets: u64,
    pub(in crate::run) bytes: u64,
    /// Packets with payload that was sent before.
    pub(in crate::run) again: u64,
    /// Packets that a link lost.
    pub(in crate::run) lost: u64,
}

/// One direction between two sockets.
#[derive(Debug)]
struct Stream {
    name: String,
    protocol: u8,
    from: u32,
    to: Option<u32>,
    /// Source and destination port; 0 if it has none.
    ports: (u16, u16),
    first: Timestamp,
    last: Timestamp,
    /// Bytes of payload that were sent, including repeated ones.
    payload: u64,
    /// By source and destination port, what was seen sent and delivered: a flow of the scenario may have many connections.
    seen: BTreeMap<(u16, u16), [Seen; 2]>,
    counts: Counts,
    /// The counters at the end of the warm-up, and at the last sample.
    before: Counts,
    sampled: Counts,
    /// Whether the last sample had anything but zeros.
    active: bool,
}

/// Facts about a stream that a guest carries by itself.
#[derive(Clone, Debug)]
pub(in crate::run) struct Known {
    pub(in crate::run) name: String,
    pub(in crate::run) group: String,
    pub(in crate::run) app: &'static str,
    /// Whether the guest samples it, so that this need not be done here.
    pub(in crate::run) sampled: bool,
}

/// A stream between two nodes, by the port of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) struct StreamKey {
    pub(in crate::run) from: u32,
    pub(in crate::run) to: u32,
    pub(in crate::run) port: u16,
    /// Whether the port is that of the sending end.
    pub(in crate::run) sends: bool,
}

impl Stream {
    /// What was seen of the connection that a datagram is of. One that opens a connection begins another one.
    fn seen(&mut self, outline: &Outline<'_>) -> &mut [Seen; 2] {
        let seen = self.seen.entry((outline.source.port(), outline.destination.port())).or_default();
        if outline.opens {
            *seen = Default::default();
        }
        seen
    }

    /// The key by which it is found.
    fn keys(&self) -> impl Iterator<Item = StreamKey> + use<> {
        let (from, to, (source, destination)) = (self.from, self.to, self.ports);
        let both = [(destination, false), (source, true)];
        both.into_iter().filter_map(move |(port, sends)| Some(StreamKey { from, to: to?, port, sends }))
    }
}

/// All traffic.
#[derive(Debug, Default)]
pub(in crate::run) struct Traffic {
    streams: BTreeMap<u32, Stream>,
    /// Streams that are flows of the scenario; none for streams that are a part of one.
    known: BTreeMap<StreamKey, Option<Known>>,
    warmup: Timestamp,
}

impl Traffic {
    /// Registers a stream that is a flow of the scenario, or a part of one without a row of its own.
    pub(in crate::run) fn name(&mut self, key: StreamKey, known: Option<Known>) {
        self.known.insert(key, known);
    }

    /// The numbers of the streams that have sent something. Of those with one key, the first counts.
    pub(in crate::run) fn numbers(&self) -> BTreeMap<StreamKey, u32> {
        let mut numbers = BTreeMap::new();
        for (&number, stream) in &self.streams {
            stream.keys().for_each(|key| _ = numbers.entry(key).or_insert(number));
        }
        numbers
    }

    /// A live host, node `from`, has sent a datagram to node `to`.
    pub(in crate::run) fn on_sent(
        &mut self,
        now: Timestamp,
        number: u32,
        (from, to): (u32, Option<u32>),
        bytes: &[u8],
        header: &Header,
    ) {
        let Some(outline) = Outline::of(bytes, header.protocol) else { return };
        let full = self.streams.len() >= MOST && !self.streams.contains_key(&number);
        let number = if full { OTHERS } else { number };
        let stream = self.streams.entry(number).or_insert_with(|| {
            let protocol = protocol_name(header.protocol);
            let shown = |socket: SocketAddr| match socket.port() {
                0 => socket.ip().to_string(),
                _ => socket.to_string(),
            };
            let name = match full {
                true => "others".to_owned(),
                false => format!("{protocol} {}>{}", shown(outline.source), shown(outline.destination)),
            };
            Stream {
                name,
                protocol: header.protocol,
                from,
                to,
                ports: (outline.source.port(), outline.destination.port()),
                first: now,
                last: now,
                payload: 0,
                seen: BTreeMap::new(),
                counts: Counts::default(),
                before: Counts::default(),
                sampled: Counts::default(),
                active: false,
            }
        });
        stream.last = now;
        stream.payload += u64::from(outline.payload);
        stream.counts.sent_packets += 1;
        stream.counts.sent_bytes += u64::from(header.len);
        if let Some(pieces) = outline.pieces.filter(|_| !full) {
            let [sent, _] = stream.seen(&outline);
            let fresh = sent.add_all(pieces);
            stream.counts.retransmitted_packets += u64::from(fresh < u64::from(outline.payload));
        }
    }

    /// A datagram has arrived at its destination.
    pub(in crate::run) fn on_delivered(
        &mut self,
        now: Timestamp,
        number: u32,
        bytes: &[u8],
        header: &Header,
        ecn: Ecn,
    ) {
        let number = if self.streams.contains_key(&number) { number } else { OTHERS };
        let Some(stream) = self.streams.get_mut(&number) else { return };
        let Some(outline) = Outline::of(bytes, header.protocol) else { return };
        stream.last = now;
        stream.counts.ce_marks += u64::from(ecn == Ecn::Ce);
        stream.counts.delivered_bytes += match outline.pieces {
            Some(pieces) if number != OTHERS => {
                let [_, delivered] = stream.seen(&outline);
                delivered.add_all(pieces)
            }
            _ => u64::from(outline.payload),
        };
    }

    /// A link has lost a datagram.
    pub(in crate::run) fn on_lost(&mut self, number: u32) {
        let number = if self.streams.contains_key(&number) { number } else { OTHERS };
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.counts.lost_packets += 1;
        }
    }

    /// What has been sent on a flow of the scenario.
    pub(in crate::run) fn sent(&self, number: u32) -> Sent {
        self.streams.get(&number).map_or(Sent::default(), |stream| {
            let Counts { sent_packets, sent_bytes, retransmitted_packets, lost_packets, .. } = stream.counts;
            Sent {
                packets: sent_packets,
                bytes: sent_bytes,
                again: retransmitted_packets,
                lost: lost_packets,
            }
        })
    }

    /// Begins the measured part.
    pub(in crate::run) fn end_warmup(&mut self, now: Timestamp) {
        self.warmup = now;
        for stream in self.streams.values_mut() {
            stream.before = stream.counts;
        }
    }

    /// The flows that carried payload between programs.
    fn rows(&mut self) -> impl Iterator<Item = (u32, &mut Stream)> {
        let own = self.streams.iter_mut().map(|(&number, stream)| (number, stream));
        own.filter(|(number, stream)| *number >= LIVE_FLOW && stream.payload > 0)
    }

    /// Samples since the last ones, `span` ago. Flows without traffic in this sample and the last are left out.
    pub(in crate::run) fn sample(&mut self, now: Timestamp, span: TimeDelta) -> Vec<FlowSample> {
        let mut samples = Vec::new();
        let bps = |bytes: u64| if span.is_zero() { 0.0 } else { bytes as f64 * 8.0 / span.as_secs_f64() };
        let known = std::mem::take(&mut self.known);
        for (flow, stream) in self.rows() {
            let own = stream.keys().find_map(|key| known.get(&key));
            if own.is_some_and(|own| own.as_ref().is_none_or(|own| own.sampled)) {
                continue;
            }
            let Counts { delivered_bytes, sent_bytes, retransmitted_packets, .. } = stream.counts;
            let before = std::mem::replace(&mut stream.sampled, stream.counts);
            let active = delivered_bytes > before.delivered_bytes || sent_bytes > before.sent_bytes;
            if active || std::mem::replace(&mut stream.active, active) {
                samples.push(FlowSample {
                    time_s: now.as_secs_f64(),
                    flow,
                    goodput_bps: bps(delivered_bytes - before.delivered_bytes),
                    throughput_bps: bps(sent_bytes - before.sent_bytes),
                    retransmits: retransmitted_packets - before.retransmitted_packets,
                    ..FlowSample::default()
                });
            }
            stream.active = active;
        }
        self.known = known;
        samples
    }

    /// The rows at the end, in the order in which the flows began. `names` are the names of the nodes.
    pub(in crate::run) fn finish(&mut self, names: &Names) -> Vec<FlowRow> {
        let warmup = self.warmup;
        let known = std::mem::take(&mut self.known);
        let mut rows: Vec<FlowRow> = Vec::new();
        for (flow, stream) in self.rows() {
            let (counts, before) = (&stream.counts, &stream.before);
            let span = stream.last.saturating_since(stream.first.max(warmup)).as_secs_f64();
            let bps = |bytes: u64| if span > 0.0 { bytes as f64 * 8.0 / span } else { 0.0 };
            let delivered = counts.delivered_bytes - before.delivered_bytes;
            let sent = counts.sent_bytes - before.sent_bytes;
            let name = |node: Option<u32>| {
                node.and_then(|node| names.get(node as usize)).unwrap_or("nowhere").to_owned()
            };
            let known = match stream.keys().find_map(|key| known.get(&key)) {
                Some(None) => continue,
                Some(own) => own.as_ref(),
                None => None,
            };
            rows.push(FlowRow {
                flow,
                name: known.map_or_else(|| stream.name.clone(), |known| known.name.clone()),
                group: known.map_or_else(|| GROUP.to_owned(), |known| known.group.clone()),
                from: name(Some(stream.from)),
                to: name(stream.to),
                app: known.map_or(PROGRAM, |known| known.app).to_owned(),
                transport: protocol_name(stream.protocol),
                start_s: stream.first.as_secs_f64(),
                end_s: Some(stream.last.as_secs_f64()),
                sent_packets: counts.sent_packets - before.sent_packets,
                sent_bytes: sent,
                retransmitted_packets: counts.retransmitted_packets - before.retransmitted_packets,
                delivered_bytes: delivered,
                goodput_bps: bps(delivered),
                throughput_bps: bps(sent),
                lost_packets: counts.lost_packets - before.lost_packets,
                ce_marks: counts.ce_marks - before.ce_marks,
                ..FlowRow::default()
            });
        }
        rows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.flow.cmp(&b.flow)));
        rows
    }
}

#[cfg(test)]
mod tests {
    use warpline_live::datagram;
    use warpline_live::ip::{IpHeader, UDP};
    use warpline_live::wire::udp::{self, UdpHeader};

    use super::*;

    #[test]
    fn a_stream_is_known_by_the_port_of_either_end_and_of_several_the_first_counts() {
        let mut traffic = Traffic::default();
        for (number, source_port) in [(9, 4001), (7, 4000)] {
            let ip = IpHeader::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP);
            let (mut bytes, ports) = (Vec::new(), UdpHeader { source_port, destination_port: 80 });
            assert!(udp::write(&mut bytes, &ip, &ports, &[0; 8]).is_ok());
            let header = datagram::read(&bytes).unwrap();
            traffic.on_sent(Timestamp::ZERO, number, (0, Some(1)), &bytes, &header);
        }
        let key = |port, sends| StreamKey { from: 0, to: 1, port, sends };
        let numbers = [(key(80, false), 7), (key(4000, true), 7), (key(4001, true), 9)];
        assert_eq!(traffic.numbers(), BTreeMap::from(numbers));
    }

    #[test]
    fn bytes_count_once_in_any_order() {
        let mut seen = Seen::default();
        let base = u32::MAX - 1500;
        let mut add = |from: u32, len: u32| seen.add(base.wrapping_add(from), len);
        assert_eq!([add(0, 1000), add(0, 1000), add(2000, 1000), add(4000, 1000)], [1000, 0, 1000, 1000]);
        // Across two holes and the run between them; the sequence number wraps.
        assert_eq!([add(1500, 3000), add(500, 1500), add(5000, 10), add(0, 5010)], [1500, 500, 10, 0]);
        assert_eq!(seen.runs.len(), 0);
        assert_eq!(seen.next, Some(i64::from(base) + 5010));
    }

    #[test]
    fn a_segment_at_the_end_of_a_run_joins_it() {
        let mut seen = Seen::default();
        assert_eq!([seen.add(0, 10), seen.add(20, 10), seen.add(30, 10), seen.add(25, 20)], [10, 10, 10, 5]);
        assert_eq!(seen.runs, BTreeMap::from([(20, 45)]));
        assert_eq!([seen.add(5, 100), seen.add(0, 105)], [70, 0]);
    }
}
