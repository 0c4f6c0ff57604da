//! What a datagram says of itself that the counters of flows need: its ends, and which parts of a stream it carries.

use std::net::SocketAddr;

use warpline_live::ip::{self, ICMP, ICMPV6, SCTP, TCP, UDP};

/// Types of SCTP's chunks (RFC 9260 section 3.2).
const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// Bytes of SCTP's header, of the head of any chunk, and of a DATA chunk's.
const SCTP_HEADER: usize = 12;
const CHUNK_HEADER: usize = 4;
const DATA_HEADER: usize = 16;

/// A part of a stream whose parts are numbered: bytes of TCP, or a chunk of SCTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// The first of its numbers, and how many it has.
    pub(super) first: u32,
    pub(super) count: u32,
    /// Bytes of payload that each number stands for.
    pub(super) bytes: u32,
}

/// The pieces in a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pieces<'a> {
    /// One at most.
    One(Option<Piece>),
    /// Chunks of SCTP.
    Chunks(&'a [u8]),
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let chunks = match self {
            Pieces::One(piece) => return piece.take(),
            Pieces::Chunks(chunks) => chunks,
        };
        while let Some((kind, chunk)) = take_chunk(chunks) {
            let number = |at: usize| chunk.get(at..)?.first_chunk().map(|number| u32::from_be_bytes(*number));
            // The numbers begin with the one that INIT or INIT ACK names (RFC 9260 section 3.3.2).
            let (at, count) = match kind {
                DATA => (CHUNK_HEADER, 1),
                INIT | INIT_ACK => (DATA_HEADER, 0),
                _ => continue,
            };
            if let Some(first) = number(at) {
                return Some(Piece { first, count, bytes: chunk.len().saturating_sub(DATA_HEADER) as u32 });
            }
        }
        None
    }
}

/// Takes the first of the chunks, with its type. None if there is no whole one.
fn take_chunk<'a>(chunks: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let &[kind, _, a, b] = chunks.first_chunk()?;
    let len = usize::from(u16::from_be_bytes([a, b]));
    let chunk = chunks.get(..len).filter(|chunk| chunk.len() >= CHUNK_HEADER)?;
    *chunks = chunks.get(len.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, chunk))
}

/// The ends of a datagram and what it carries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline<'a> {
    /// Its ends; without ports if there are none.
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// Bytes of payload.
    pub(super) payload: u32,
    /// The parts of its stream; none if they are not numbered.
    pub(super) pieces: Option<Pieces<'a>>,
    /// Whether it opens a connection.
    pub(super) opens: bool,
}

impl<'a> Outline<'a> {
    /// Reads a datagram. None if it has no addresses.
    pub(super) fn of(bytes: &'a [u8], protocol: u8) -> Option<Self> {
        let (source, destination) = ip::addresses(bytes)?;
        let bare = Outline {
            source: (source, 0).into(),
            destination: (destination, 0).into(),
            payload: 0,
            pieces: None,
            opens: false,
        };
        // Fragments other than the first have no ports; all of it is payload.
        let Some(inner) = ip::quoted(bytes) else {
            let header = if source.is_ipv4() { ip::IPV4_HEADER } else { ip::IPV6_HEADER };
            return Some(Outline { payload: bytes.len().saturating_sub(header) as u32, ..bare });
        };
        let inner = inner.payload;
        let beyond = |header: usize| inner.len().saturating_sub(header) as u32;
        let carries = match (protocol, inner) {
            (TCP, [_, _, _, _, a, b, c, d, _, _, _, _, offset, flags, ..]) => {
                let syn = flags >> 1 & 1;
                let payload = beyond(usize::from(offset >> 4) * 4);
                // A SYN takes one sequence number.
                let first = u32::from_be_bytes([*a, *b, *c, *d]).wrapping_add(syn.into());
                let pieces = Pieces::One(Some(Piece { first, count: payload, bytes: 1 }));
                Outline { payload, pieces: Some(pieces), opens: syn == 1, ..bare }
            }
            (SCTP, _) => {
                let chunks = inner.get(SCTP_HEADER..).unwrap_or_default();
                let pieces = Pieces::Chunks(chunks);
                let opens = chunks.first().is_some_and(|kind| [INIT, INIT_ACK].contains(kind));
                let payload = pieces.map(|piece| piece.count * piece.bytes).sum();
                Outline { payload, pieces: Some(pieces), opens, ..bare }
            }
            (UDP | ICMP | ICMPV6, _) => Outline { payload: beyond(8), ..bare },
            _ => Outline { payload: beyond(0), ..bare },
        };
        Some(match (protocol, inner) {
            (TCP | UDP | SCTP, &[a, b, c, d, ..]) => Outline {
                source: (source, u16::from_be_bytes([a, b])).into(),
                destination: (destination, u16::from_be_bytes([c, d])).into(),
                ..carries
            },
            _ => carries,
        })
    }
}

/// The name of a protocol.
pub(super) fn protocol_name(protocol: u8) -> String {
    match protocol {
        TCP => "tcp".to_owned(),
        UDP => "udp".to_owned(),
        SCTP => "sctp".to_owned(),
        ICMP | ICMPV6 => "icmp".to_owned(),
        other => format!("protocol {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram between 192.0.2.1 and 192.0.2.2 with this inside.
    fn datagram(protocol: u8, inner: &[u8]) -> Vec<u8> {
        let [high, low] = (20 + inner.len() as u16).to_be_bytes();
        let mut bytes = vec![0x45, 0, high, low, 0, 0, 0, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
        bytes.extend(inner);
        bytes
    }

    /// A chunk of a type with these bytes behind its head, padded.
    fn chunk(kind: u8, rest: &[u8]) -> Vec<u8> {
        let len = CHUNK_HEADER + rest.len();
        let [high, low] = (len as u16).to_be_bytes();
        let mut bytes = vec![kind, 3, high, low];
        bytes.extend(rest);
        bytes.resize(len.next_multiple_of(4), 0);
        bytes
    }

    const HEADER: [u8; 12] = [0x10, 0, 0, 80, 1, 2, 3, 4, 5, 6, 7, 8];

    #[test]
    fn chunks_of_sctp_are_pieces() {
        let data = |tsn: u8, len: usize| {
            chunk(DATA, &[&[0, 0, 1, tsn, 0, 0, 0, 0, 0, 0, 0, 0][..], &vec![7; len]].concat())
        };
        let sack = chunk(3, &[0; 12]);
        let bytes = datagram(SCTP, &[&HEADER[..], &sack, &data(5, 3), &data(6, 100)].concat());
        let outline = Outline::of(&bytes, SCTP).unwrap();
        assert_eq!((outline.source.port(), outline.destination.port()), (4096, 80));
        assert_eq!((outline.payload, outline.opens), (103, false));
        let pieces: Vec<Piece> = outline.pieces.unwrap().collect();
        let piece = |first, bytes| Piece { first, count: 1, bytes };
        assert_eq!(pieces, [piece(0x105, 3), piece(0x106, 100)]);
    }

    #[test]
    fn an_init_says_where_the_numbers_begin() {
        let init = chunk(INIT, &[0, 0, 0, 9, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 2, 0]);
        let bytes = datagram(SCTP, &[&HEADER[..], &init].concat());
        let outline = Outline::of(&bytes, SCTP).unwrap();
        assert_eq!((outline.payload, outline.opens), (0, true));
        let pieces: Vec<Piece> = outline.pieces.unwrap().collect();
        assert_eq!((pieces.len(), pieces[0].first, pieces[0].count), (1, 0x200, 0));
    }

    #[test]
    fn what_is_cut_short_has_no_pieces() {
        for end in 0..40 {
            let whole = [&HEADER[..], &chunk(DATA, &[0; 12])].concat();
            let bytes = datagram(SCTP, &whole[..whole.len().min(end)]);
            let outline = Outline::of(&bytes, SCTP).unwrap();
            assert_eq!(outline.pieces.unwrap().count(), usize::from(end >= 28), "{end}");
        }
        // A length of 0 would never end.
        let bytes = datagram(SCTP, &[&HEADER[..], &[0; 8]].concat());
        assert_eq!(Outline::of(&bytes, SCTP).unwrap().pieces.unwrap().count(), 0);
    }
}
