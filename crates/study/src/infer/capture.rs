//! The packets of a capture, in pcap or pcapng, of which only what an estimate needs is kept.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use etherparse::{LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TransportSlice};
use pcap_file::DataLink;
use pcap_file::pcap::{PcapReadError, PcapReader};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::{Block, PcapNgReadError, PcapNgReader};

use super::InferError;

/// The first four bytes of a pcapng file: the type of a section header.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes of the headers of Linux's cooked captures, and where they tell what follows.
const COOKED: usize = 16;
const COOKED_2: usize = 20;

/// A packet of IP.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Packet {
    /// When it was seen, since the epoch.
    pub at: Duration,
    /// Where it comes from. The port is 0 without ports.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// Bytes from the IP header on, as its header tells.
    pub bytes: u32,
    /// What it carries.
    pub body: Body,
}

/// What a packet carries.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Body {
    /// A segment of TCP.
    Tcp(Segment),
    /// A datagram of UDP, with the bytes of its payload.
    Udp(u32),
    /// Anything else.
    Other,
}

/// A segment of TCP.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Segment {
    pub seq: u32,
    /// What it acknowledges, if it does.
    pub ack: Option<u32>,
    pub syn: bool,
    pub fin: bool,
    pub rst: bool,
    /// Bytes of payload.
    pub payload: u32,
    /// The largest payload that its sender wants to receive; in a SYN.
    pub mss: Option<u16>,
    /// The ranges that it acknowledges beyond `ack` (RFC 2018).
    pub sacked: Vec<(u32, u32)>,
    /// Its timestamp, and the one that it echoes (RFC 7323).
    pub stamp: Option<(u32, u32)>,
}

/// How a capture ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// After a packet.
    Whole,
    /// In the middle of a packet: who made it was killed, or its disk was full.
    Cut,
}

/// Calls `each` for every packet of IP in a file, in order, and says how the file ends.
///
/// # Errors
/// If the file cannot be read, is no capture, or is damaged.
pub(super) fn read(path: &Path, each: impl FnMut(Packet)) -> Result<Ending, InferError> {
    let cannot = |source| InferError::Read { path: path.to_owned(), source };
    let file = BufReader::with_capacity(1 << 20, File::open(path).map_err(cannot)?);
    read_from(file, each).map_err(|why| match why {
        Damage::Io(source) => cannot(source),
        Damage::Format(why) => InferError::Format { path: path.to_owned(), why },
    })
}

/// What is wrong with a capture.
#[derive(Debug)]
pub(super) enum Damage {
    Io(io::Error),
    Format(String),
}

/// Calls `each` for every packet of IP, in order, and says how the capture ends.
pub(super) fn read_from(mut input: impl Read, mut each: impl FnMut(Packet)) -> Result<Ending, Damage> {
    let mut magic = [0; 4];
    input.read_exact(&mut magic).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Damage::Format("it has no header".into()),
        _ => Damage::Io(error),
    })?;
    let input = io::Cursor::new(magic).chain(input);
    let mut take = |at: Duration, link: DataLink, frame: &[u8]| {
        if let Some(packet) = parse(link, frame) {
            each(Packet { at, ..packet });
        }
    };
    if magic == PCAPNG {
        let mut reader = PcapNgReader::new(input).map_err(|error| Damage::Format(error.to_string()))?;
        let error = loop {
            let (block, state) = match reader.next_block() {
                None => return Ok(Ending::Whole),
                Some(Ok(found)) => found,
                Some(Err(error)) => break error,
            };
            if let Block::EnhancedPacket(EnhancedPacketBlock { interface_id, timestamp, data, .. }) = block {
                let link = state.interfaces().get(interface_id as usize).map(|interface| interface.linktype);
                if let Some(link) = link {
                    take(timestamp, link, &data);
                }
            }
        };
        return match error {
            PcapNgReadError::Io(error) => ended(error, reader.into_inner()),
            error => Err(Damage::Format(error.to_string())),
        };
    }
    let mut reader = PcapReader::new(input)
        .map_err(|error| Damage::Format(format!("it is neither pcap nor pcapng: {error}")))?;
    let link = reader.header().datalink;
    let error = loop {
        match reader.next_packet() {
            None => return Ok(Ending::Whole),
            Some(Ok(packet)) => take(packet.timestamp(), link, packet.data()),
            Some(Err(error)) => break error,
        }
    };
    match error {
        PcapReadError::Io(error) => ended(error, reader.into_inner()),
        error => Err(Damage::Format(error.to_string())),
    }
}

/// What an error of reading says of a capture, of which `rest` has not been read. An end of the file in the middle of a packet only ends the capture.
/// The reader returns the same error for a packet for which it has no room, but then something follows.
fn ended(error: io::Error, mut rest: impl Read) -> Result<Ending, Damage> {
    let is_end = |error: &io::Error| error.kind() == io::ErrorKind::UnexpectedEof;
    if !is_end(&error) {
        return Err(Damage::Io(error));
    }
    match rest.read_exact(&mut [0]) {
        Ok(()) => Err(Damage::Format("it has a packet that is too large".into())),
        Err(error) if is_end(&error) => Ok(Ending::Cut),
        Err(error) => Err(Damage::Io(error)),
    }
}

/// The packet of IP in a frame; none if it has none.
fn parse(link: DataLink, frame: &[u8]) -> Option<Packet> {
    let sliced = match link {
        DataLink::ETHERNET => LaxSlicedPacket::from_ethernet(frame).ok()?,
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => LaxSlicedPacket::from_ip(frame).ok()?,
        DataLink::LINUX_SLL => LaxSlicedPacket::from_ip(frame.get(COOKED..)?).ok()?,
        DataLink::LINUX_SLL2 => LaxSlicedPacket::from_ip(frame.get(COOKED_2..)?).ok()?,
        DataLink::NULL | DataLink::LOOP => LaxSlicedPacket::from_ip(frame.get(4..)?).ok()?,
        _ => return None,
    };
    let (from, to, bytes, headers): (IpAddr, IpAddr, usize, usize) = match sliced.net.as_ref()? {
        LaxNetSlice::Ipv4(net) => {
            let header = net.header();
            let extension = net.extensions().auth.as_ref().map_or(0, |auth| auth.slice().len());
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                header.total_len().into(),
                header.slice().len() + extension,
            )
        }
        LaxNetSlice::Ipv6(net) => {
            let header = net.header();
            let own = header.slice().len();
            (
                header.source_addr().into(),
                header.destination_addr().into(),
                own + usize::from(header.payload_length()),
                own + net.extensions().slice().len(),
            )
        }
        LaxNetSlice::Arp(_) => return None,
    };
    let mut ports = (0, 0);
    let body = match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            ports = (tcp.source_port(), tcp.destination_port());
            let mut segment = Segment {
                seq: tcp.sequence_number(),
                ack: tcp.ack().then(|| tcp.acknowledgment_number()),
                syn: tcp.syn(),
                fin: tcp.fin(),
                rst: tcp.rst(),
                payload: u32::try_from(bytes.saturating_sub(headers + tcp.header_slice().len())).ok()?,
                ..Segment::default()
            };
            for option in tcp.options_iterator().flatten() {
                match option {
                    TcpOptionElement::MaximumSegmentSize(mss) => segment.mss = Some(mss),
                    TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                        segment.sacked.push(first);
                        segment.sacked.extend(rest.into_iter().flatten());
                    }
                    TcpOptionElement::Timestamp(own, echoed) => segment.stamp = Some((own, echoed)),
                    _ => {}
                }
            }
            Body::Tcp(segment)
        }
        Some(TransportSlice::Udp(udp)) => {
            ports = (udp.source_port(), udp.destination_port());
            Body::Udp(u32::from(udp.length()).saturating_sub(8))
        }
        _ => Body::Other,
    };
    let bytes = u32::try_from(bytes).ok()?;
    Some(Packet {
        at: Duration::ZERO,
        from: SocketAddr::new(from, ports.0),
        to: SocketAddr::new(to, ports.1),
        bytes,
        body,
    })
}
