//! Event tables: `packets.parquet` from link records and `tcp.parquet` from TCP records.

use std::borrow::Cow;

use warpline_core::packet::{Body, Flags, Segment};
use warpline_core::record::{LinkEvent, LinkRecord, TcpEvent, TcpRecord};
use warpline_core::time::TimeDelta;

use crate::address::AddressBook;
use crate::column::{Word, table};

table! {
    /// An event of a packet on a recorded link (`packets.parquet`).
    pub struct PacketRow: "packets" {
        /// When.
        time_ns: u64 ["ns" key],
        /// Link direction.
        link: u32 ["" key],
        /// What happened: enqueue, drop, mark, transmit (the first bit leaves), duplicate, corrupt (the last bit has left) or deliver (the last bit has arrived).
        event: Word [""],
        /// Why it was dropped: overflow, aqm, loss or down.
        reason: Option<Word> [""],
        /// Number of the packet, unique within the run.
        packet: u64 ["" key],
        /// Flow it belongs to.
        flow: u32 ["" key],
        /// The end of the flow that it is for: twice the number of the connection in its flow, plus 1 for the receiver of the data.
        to: u32 ["" key],
        /// Bytes on the wire from the IP header on.
        size: u32 ["B"],
        /// ECN field: 0 not capable, 1 ECT(1), 2 ECT(0), 3 congestion experienced (RFC 3168).
        ecn: u8 [""],
        /// Transport: tcp or udp. Of real packets also icmp, or frame for others.
        protocol: Word [""],
        /// Stream position of the first byte, the SYN being byte 0; for UDP the datagram's number, of real packets 0.
        seq: u64 [""],
        /// Next byte expected from the other side; absent without the ACK flag.
        ack: Option<u64> ["B"],
        /// Payload bytes.
        len: u32 ["B"],
        /// TCP flags in tcpdump's letters: S SYN, F FIN, R RST, P PSH, e AE, W CWR, E ECE, "." ACK.
        flags: Option<String> [""],
        /// Flow of what comes back on the same connection, of real packets; simulated ones have one flow for both directions.
        reply: Option<u32> [""],
        /// Time spent in the queue, of a transmitted packet.
        queued_ns: Option<u64> ["ns"],
        /// Packets waiting after the event, without the one in transmission.
        backlog_packets: u32 ["packets"],
        /// Bytes waiting after the event, without the packet in transmission.
        backlog_bytes: u64 ["B"],
    }
}

table! {
    /// An event at a recorded TCP endpoint (`tcp.parquet`). Positions are stream bytes counted from the SYN, which is byte 0.
    pub struct TcpRow: "tcp" {
        /// When.
        time_ns: u64 ["ns" key],
        /// Flow.
        flow: u32 ["" key],
        /// Which end: 0 the opener, 1 the other.
        side: u8 ["" key],
        /// What: sent, retransmit, probe, acked, sacked, metrics, lost, state, undo, established or closed.
        event: Word [""],
        /// First byte sent, selectively acknowledged or lost.
        seq: Option<u64> ["B"],
        /// One past the last byte sent, selectively acknowledged or lost.
        end: Option<u64> ["B"],
        /// Cumulative acknowledgement received.
        ack: Option<u64> ["B"],
        /// Right edge of the receiver's window.
        window_end: Option<u64> ["B"],
        /// Bytes newly acknowledged, cumulatively or selectively.
        newly_acked: Option<u32> ["B"],
        /// Bytes of `newly_acked` that the receiver reported as marked congestion-experienced; absent if none. With the echo of RFC 3168, all bytes
        /// that are acknowledged while it lasts.
        ce: Option<u32> ["B"],
        /// Round-trip time sample that the acknowledgement gave.
        rtt_ns: Option<u64> ["ns"],
        /// Congestion window.
        cwnd: Option<u64> ["B"],
        /// Slow-start threshold; absent while it is unset.
        ssthresh: Option<u64> ["B"],
        /// Bytes in flight.
        in_flight: Option<u64> ["B"],
        /// Smoothed round-trip time; absent before the first sample.
        srtt_ns: Option<u64> ["ns"],
        /// Smallest round-trip time seen; absent before the first sample.
        min_rtt_ns: Option<u64> ["ns"],
        /// Retransmission time-out in force.
        rto_ns: Option<u64> ["ns"],
        /// What showed a loss: dup_acks, rack, rto or ecn.
        trigger: Option<Word> [""],
        /// Congestion state entered (open, disorder, cwr, recovery, loss); of a closed event, complete or incomplete.
        state: Option<Word> [""],
    }
}

/// Tcpdump's letters for the flags.
pub(crate) fn letters(flags: Flags) -> String {
    format!("{flags:?}")
}

impl From<&LinkRecord> for PacketRow {
    fn from(record: &LinkRecord) -> Self {
        let (event, reason, queued_ns) = match record.event {
            LinkEvent::Enqueue => ("enqueue", None, None),
            LinkEvent::Drop(reason) => ("drop", Some(reason.name().into()), None),
            LinkEvent::Mark => ("mark", None, None),
            LinkEvent::Transmit { queued } => ("transmit", None, Some(queued.as_nanos())),
            LinkEvent::Duplicate => ("duplicate", None, None),
            LinkEvent::Corrupt => ("corrupt", None, None),
            LinkEvent::Deliver => ("deliver", None, None),
        };
        let packet = &record.packet;
        let (protocol, seq, ack, len, flags) = match &packet.body {
            Body::Tcp(segment) => {
                ("tcp", segment.seq, ack_of(segment), segment.len, Some(letters(segment.flags)))
            }
            Body::Udp(datagram) => ("udp", datagram.seq, None, datagram.len, None),
            // What its headers say is added where its bytes are at hand.
            Body::Frame(_) => ("frame", 0, None, packet.size, None),
        };
        PacketRow {
            time_ns: record.time.as_nanos(),
            link: record.link.0,
            event: Cow::Borrowed(event),
            reason,
            packet: packet.id,
            flow: packet.flow.0,
            to: packet.to.0,
            size: packet.size,
            ecn: packet.ecn as u8,
            protocol: Cow::Borrowed(protocol),
            seq,
            ack,
            len,
            flags,
            reply: None,
            queued_ns,
            backlog_packets: record.backlog_packets,
            backlog_bytes: record.backlog_bytes,
        }
    }
}

fn ack_of(segment: &Segment) -> Option<u64> {
    segment.flags.contains(Flags::ACK).then_some(segment.ack)
}

/// A span's nanoseconds; none for zero, which stands for "not known yet" in metrics.
fn known(span: TimeDelta) -> Option<u64> {
    (!span.is_zero()).then(|| span.as_nanos())
}

impl TcpRow {
    /// The row of a record. The address book tells which end of the flow the endpoint is.
    pub fn new(record: &TcpRecord, book: &AddressBook) -> Self {
        let mut row = TcpRow {
            time_ns: record.time.as_nanos(),
            flow: record.flow.0,
            side: book.side(record.flow, record.endpoint),
            ..TcpRow::default()
        };
        let event = match record.event {
            TcpEvent::Sent { seq, len, retransmit, probe } => {
                (row.seq, row.end) = (Some(seq), Some(seq + u64::from(len)));
                match (probe, retransmit) {
                    (true, _) => "probe",
                    (false, true) => "retransmit",
                    (false, false) => "sent",
                }
            }
            TcpEvent::Acked { ack, window_end, newly_acked, ce, rtt } => {
                (row.ack, row.window_end, row.newly_acked) = (Some(ack), Some(window_end), Some(newly_acked));
                row.ce = (ce > 0).then_some(ce);
                row.rtt_ns = rtt.map(TimeDelta::as_nanos);
                "acked"
            }
            TcpEvent::Sacked { start, end } => {
                (row.seq, row.end) = (Some(start), Some(end));
                "sacked"
            }
            TcpEvent::Metrics { cwnd, ssthresh, in_flight, srtt, min_rtt, rto } => {
                (row.cwnd, row.in_flight) = (Some(cwnd), Some(in_flight));
                row.ssthresh = (ssthresh != u64::MAX).then_some(ssthresh);
                (row.srtt_ns, row.min_rtt_ns) = (known(srtt), known(min_rtt));
                row.rto_ns = Some(rto.as_nanos());
                "metrics"
            }
            TcpEvent::Lost { seq, len, trigger } => {
                (row.seq, row.end) = (Some(seq), Some(seq + u64::from(len)));
                row.trigger = Some(trigger.name().into());
                "lost"
            }
            TcpEvent::State { state } => {
                row.state = Some(state.name().into());
                "state"
            }
            TcpEvent::Undo => "undo",
            TcpEvent::Established => "established",
            TcpEvent::Closed { complete } => {
                row.state = Some(if complete { "complete" } else { "incomplete" }.into());
                "closed"
            }
        };
        row.event = event.into();
        row
    }
}
