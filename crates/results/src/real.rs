//! What the headers of real packets say, for the packet table: positions in the stream, as of simulated packets, and not the numbers of the wire.
//!
//! A real packet has the flow number of its direction, and the number of its destination's node as the end that it is for.

use std::borrow::Cow;
use std::collections::BTreeMap;

use etherparse::{LaxSlicedPacket, TcpSlice, TransportSlice};
use warpline_core::packet::Flags;

use crate::events::{PacketRow, letters};
use crate::wire::Opposite;

/// A direction of a connection: its flow, and the end that it goes to.
type Direction = (u32, u32);

/// Where the streams of connections are.
#[derive(Debug, Default)]
pub(crate) struct Streams(BTreeMap<Direction, Stream>);

/// Sequence numbers of one direction.
#[derive(Clone, Copy, Debug)]
struct Stream {
    /// The number of the byte at position 0, which is the SYN if that was recorded.
    first: u32,
    /// The last position that was asked for.
    last: u64,
}

impl Stream {
    /// The position of a number: the one nearest to the last.
    fn position(&mut self, number: u32) -> u64 {
        let ahead = number.wrapping_sub(self.first).wrapping_sub(self.last as u32).cast_signed();
        self.last = self.last.saturating_add_signed(ahead.into());
        self.last
    }
}

impl Streams {
    /// Adds to a row what the datagram's headers say. `opposite` is the other direction of its connection, if that is known.
    pub(crate) fn fill(&mut self, row: &mut PacketRow, datagram: &[u8], opposite: Option<Opposite>) {
        let Ok(packet) = LaxSlicedPacket::from_ip(datagram) else { return };
        let mut set = |protocol: &'static str, len: usize| {
            row.protocol = Cow::Borrowed(protocol);
            row.len = u32::try_from(len).unwrap_or(u32::MAX);
        };
        match packet.transport {
            Some(TransportSlice::Tcp(tcp)) => {
                set("tcp", tcp.payload().len());
                self.fill_tcp(row, &tcp, opposite);
            }
            Some(TransportSlice::Udp(udp)) => set("udp", udp.payload().len()),
            Some(TransportSlice::Icmpv4(icmp)) => set("icmp", icmp.payload().len()),
            Some(TransportSlice::Icmpv6(icmp)) => set("icmp", icmp.payload().len()),
            Some(TransportSlice::Igmp(_)) | None => {}
        }
        row.reply = opposite.map(|opposite| opposite.flow.0);
    }

    fn fill_tcp(&mut self, row: &mut PacketRow, tcp: &TcpSlice<'_>, opposite: Option<Opposite>) {
        let number = tcp.sequence_number();
        let direction = (row.flow, row.to);
        let own = self.0.entry(direction).or_insert(Stream { first: number, last: 0 });
        if tcp.syn() && number != own.first {
            // The same ports again, for another connection.
            *own = Stream { first: number, last: 0 };
        }
        row.seq = own.position(number);
        let [high, low] = [tcp.slice()[12], tcp.slice()[13]];
        let flags = Flags::from_bits_truncate(u16::from_be_bytes([high & 1, low]));
        row.flags = Some(letters(flags));
        if let (true, Some(opposite)) = (tcp.ack(), opposite) {
            let number = tcp.acknowledgment_number();
            let direction = (opposite.flow.0, opposite.to.0);
            // Where the other direction was not recorded, its SYN is what is acknowledged first.
            let other = self.0.entry(direction);
            let other = other.or_insert(Stream { first: number.wrapping_sub(1), last: 0 });
            // Asked for without moving it: an old acknowledgement is no news of the stream.
            row.ack = Some(Stream { ..*other }.position(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;
    use warpline_core::packet::{EndpointId, FlowId};

    use super::*;

    const DATA: Direction = (7, 2);
    const REPLIES: Direction = (8, 1);

    fn fill(
        streams: &mut Streams,
        back: bool,
        tcp: impl Fn(etherparse::TcpHeader) -> etherparse::TcpHeader,
        len: usize,
    ) -> PacketRow {
        let ((flow, to), (other, from)) = if back { (REPLIES, DATA) } else { (DATA, REPLIES) };
        let header = tcp(etherparse::TcpHeader::new(1, 2, 0, 1000));
        let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp_header(header);
        let mut bytes = Vec::new();
        builder.write(&mut bytes, &vec![0; len]).unwrap();
        let mut row = PacketRow { flow, to, ..PacketRow::default() };
        streams.fill(&mut row, &bytes, Some(Opposite { flow: FlowId(other), to: EndpointId(from) }));
        row
    }

    #[test]
    fn positions_count_from_the_syn_and_go_on_when_numbers_wrap() {
        let mut streams = Streams::default();
        let isn = u32::MAX - 2000;
        let syn = fill(
            &mut streams,
            false,
            |tcp| etherparse::TcpHeader { syn: true, sequence_number: isn, ..tcp },
            0,
        );
        assert_eq!((syn.seq, syn.ack, syn.len, syn.flags.as_deref()), (0, None, 0, Some("S")));
        let answer = |tcp| etherparse::TcpHeader {
            syn: true,
            ack: true,
            sequence_number: 5,
            acknowledgment_number: isn.wrapping_add(1),
            ..tcp
        };
        let answer = fill(&mut streams, true, answer, 0);
        assert_eq!((answer.seq, answer.ack, answer.reply), (0, Some(1), Some(7)));
        for number in 0..4u32 {
            let at = isn.wrapping_add(1 + number * 1000);
            let data = |tcp| etherparse::TcpHeader {
                ack: true,
                psh: true,
                sequence_number: at,
                acknowledgment_number: 6,
                ..tcp
            };
            let data = fill(&mut streams, false, data, 1000);
            assert_eq!((data.seq, data.ack, data.len), (1 + u64::from(number) * 1000, Some(1), 1000));
            let ack = |tcp| etherparse::TcpHeader {
                ack: true,
                sequence_number: 6,
                acknowledgment_number: at.wrapping_add(1000),
                ..tcp
            };
            assert_eq!(fill(&mut streams, true, ack, 0).ack, Some(1001 + u64::from(number) * 1000));
        }
        // Sent again, and acknowledged late.
        let again = |tcp| etherparse::TcpHeader { ack: true, sequence_number: isn.wrapping_add(1), ..tcp };
        assert_eq!(fill(&mut streams, false, again, 1000).seq, 1);
        // Another connection with the same ports begins anew.
        let syn = |tcp| etherparse::TcpHeader { syn: true, sequence_number: 77, ..tcp };
        assert_eq!(fill(&mut streams, false, syn, 0).seq, 0);
    }

    #[test]
    fn a_connection_that_was_there_before_begins_where_it_is_first_seen() {
        let mut streams = Streams::default();
        let ack = |tcp| etherparse::TcpHeader {
            ack: true,
            sequence_number: 9000,
            acknowledgment_number: 500,
            ..tcp
        };
        let first = fill(&mut streams, true, ack, 0);
        assert_eq!((first.seq, first.ack), (0, Some(1)));
        let data = |tcp| etherparse::TcpHeader {
            ack: true,
            sequence_number: 500,
            acknowledgment_number: 9000,
            ..tcp
        };
        assert_eq!((fill(&mut streams, false, data, 10).seq), 1);
    }

    #[test]
    fn any_bytes_leave_a_row() {
        for bytes in [&[][..], &[0x45; 30], &[0x60; 45], &[0xff; 9]] {
            let mut row = PacketRow::default();
            Streams::default().fill(&mut row, bytes, None);
            assert_eq!(row.reply, None);
        }
    }
}
