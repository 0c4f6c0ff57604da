//! Wire bytes: IPv4 packets with real TCP and UDP headers, made from typed packets for captures.
//!
//! TCP options are laid out as Linux does (net/ipv4/tcp_output.c, `tcp_options_write`; RFC 7323 appendix A): a SYN has MSS,
//! SACK-permitted and timestamps in three words, NOP and window scale; other segments have NOP NOP timestamps, NOP NOP SACK. The AccECN option is
//! last, with NOPs behind it.
//! The payload is all zeros.

use std::collections::BTreeMap;

use etherparse::{IpDscp, IpEcn, IpNumber, Ipv4Header, TcpHeader, UdpHeader};
use warpline_core::packet::{Body, Datagram, EndpointId, Flags, FlowId, Packet, Segment};
use warpline_core::record::LinkRecord;

use crate::address::{AddressBook, EndpointAddress};

/// Largest packet that IPv4's length field can tell.
const MAX_PACKET: usize = 65_535;
/// Bytes that TCP options can take (RFC 9293 section 3.1: a data offset of 15 words).
const MAX_OPTIONS: usize = 40;
/// Hop limit that packets are shown with, Linux's default.
const TIME_TO_LIVE: u8 = 64;

/// The payload of every packet.
static ZEROS: [u8; MAX_PACKET] = [0; MAX_PACKET];

/// Where the bytes of live packets are while their records are written.
pub trait Frames {
    /// The datagram of a recorded frame as it was on the link; none if it is not at hand.
    fn frame(&self, record: &LinkRecord) -> Option<Vec<u8>>;
    /// The other direction of the connection of a recorded frame, whose datagram this is; none if it is not known.
    fn opposite(&self, record: &LinkRecord, datagram: &[u8]) -> Option<Opposite> {
        let _ = (record, datagram);
        None
    }
}

/// The direction opposite to a packet's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opposite {
    /// The flow of its packets.
    pub flow: FlowId,
    /// The end that they are for.
    pub to: EndpointId,
}

/// For runs without live packets.
#[derive(Clone, Copy, Debug)]
pub struct NoFrames;

impl Frames for NoFrames {
    fn frame(&self, _: &LinkRecord) -> Option<Vec<u8>> {
        None
    }
}

/// Makes wire bytes, and learns from the SYNs it is shown by how much windows are scaled.
#[derive(Debug, Default)]
pub struct WireFormat {
    /// What the SYN of an endpoint offered.
    offers: BTreeMap<(FlowId, EndpointId), Option<u8>>,
}

/// Bytes of a packet as captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireBytes {
    /// The first bytes, up to the snap length.
    pub bytes: Vec<u8>,
    /// How many bytes the packet has.
    pub original_len: u32,
}

impl WireFormat {
    /// Nothing learnt yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes the window scale that a SYN offers. To be shown every SYN, also those of links that are not captured.
    pub fn learn(&mut self, book: &AddressBook, packet: &Packet) {
        if let Body::Tcp(segment) = &packet.body
            && segment.flags.contains(Flags::SYN)
            && let Some(receiver) = book.endpoint(packet.flow, packet.to)
        {
            self.offers.insert((packet.flow, receiver.peer), segment.syn.window_scale);
        }
    }

    /// The shift that scales the windows sent by `sender` (RFC 7323 section 2.2: in force when both SYNs offered one). Where its
    /// SYN was not seen, the smallest with which the window fits the field.
    fn window_shift(&self, sender: EndpointId, address: &EndpointAddress, window: u32) -> u8 {
        if let Some(shift) = address.window_scale {
            return shift;
        }
        let fitting = (window >> 16).checked_ilog2().map_or(0, |bits| bits as u8 + 1);
        match (self.offers.get(&(address.flow, sender)), self.offers.get(&(address.flow, address.peer))) {
            (_, Some(None)) | (Some(None), _) => 0,
            (Some(Some(shift)), _) => *shift,
            (None, _) => fitting,
        }
    }

    /// The bytes of a packet, cut to `snap_length`. Checksums are over the whole packet.
    ///
    /// A packet above 65535 bytes is shown as a kernel shows one that the card will split: with a length field of zero
    /// and no checksum.
    ///
    /// # Errors
    /// If the packet's endpoint is not in the address book, or it is a frame, whose bytes are kept where it came in.
    pub fn bytes(
        &mut self,
        book: &AddressBook,
        packet: &Packet,
        snap_length: Option<u32>,
    ) -> Result<WireBytes, String> {
        self.learn(book, packet);
        let flow = packet.flow;
        let unknown = |endpoint: EndpointId| {
            format!("endpoint {} of flow {} has no address in the address book", endpoint.0, flow.0)
        };
        let receiver = book.endpoint(flow, packet.to).ok_or_else(|| unknown(packet.to))?;
        let sender = book.endpoint(flow, receiver.peer).ok_or_else(|| unknown(receiver.peer))?;
        let mut ip = Ipv4Header {
            dscp: IpDscp::try_new(packet.dscp.value()).unwrap_or(IpDscp::ZERO),
            // Both tables give the field its two bits of RFC 3168 section 5.
            ecn: IpEcn::try_new(packet.ecn as u8).unwrap_or(IpEcn::ZERO),
            // Ids repeat after 65536 packets, as they do on a real host. The low bits of the packet's number in the run let the
            // reader find it again in packets.parquet.
            identification: packet.id as u16,
            dont_fragment: true,
            time_to_live: TIME_TO_LIVE,
            source: sender.local.ip().octets(),
            destination: receiver.local.ip().octets(),
            ..Ipv4Header::default()
        };
        let (transport, payload) = match &packet.body {
            Body::Tcp(segment) => {
                ip.protocol = IpNumber::TCP;
                let header = self.tcp_header(segment, receiver.peer, sender, receiver, &ip);
                (header.to_bytes().to_vec(), segment.len as usize)
            }
            Body::Udp(datagram) => {
                ip.protocol = IpNumber::UDP;
                (udp_header(datagram, sender, receiver, &ip).to_bytes().to_vec(), datagram.len as usize)
            }
            Body::Frame(frame) => {
                return Err(format!(
                    "packet {}: the bytes of frame {} are not at hand",
                    packet.id, frame.handle
                ));
            }
        };
        let total = Ipv4Header::MIN_LEN + transport.len() + payload;
        ip.total_len = u16::try_from(total).unwrap_or(0);
        ip.header_checksum = ip.calc_header_checksum();
        let captured = snap_length.map_or(total, |snap| total.min(snap as usize));
        let mut bytes = Vec::with_capacity(captured.max(Ipv4Header::MIN_LEN + transport.len()));
        bytes.extend_from_slice(&ip.to_bytes());
        bytes.extend_from_slice(&transport);
        bytes.resize(captured, 0);
        packet.damage(&mut bytes, total);
        Ok(WireBytes { bytes, original_len: u32::try_from(total).unwrap_or(u32::MAX) })
    }

    /// The bytes of a live packet as they were on the link, cut to `snap_length`.
    ///
    /// # Errors
    /// If they are not at hand any more.
    pub fn live_bytes(
        record: &LinkRecord,
        frames: &dyn Frames,
        snap_length: Option<u32>,
    ) -> Result<WireBytes, String> {
        let frame = frames.frame(record);
        let mut bytes =
            frame.ok_or_else(|| format!("the bytes of packet {} are not at hand", record.packet.id))?;
        let original_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let whole = bytes.len();
        record.packet.damage(&mut bytes, whole);
        bytes.truncate(snap_length.unwrap_or(u32::MAX) as usize);
        Ok(WireBytes { bytes, original_len })
    }

    fn tcp_header(
        &self,
        segment: &Segment,
        sender_id: EndpointId,
        sender: &EndpointAddress,
        receiver: &EndpointAddress,
        ip: &Ipv4Header,
    ) -> TcpHeader {
        let flags = segment.flags;
        let shift = match flags.contains(Flags::SYN) {
            true => 0,
            false => self.window_shift(sender_id, sender, segment.window),
        };
        let mut header = TcpHeader::new(
            sender.local.port(),
            receiver.local.port(),
            sequence(sender.isn, segment.seq),
            u16::try_from(segment.window >> shift).unwrap_or(u16::MAX),
        );
        header.fin = flags.contains(Flags::FIN);
        header.syn = flags.contains(Flags::SYN);
        header.rst = flags.contains(Flags::RST);
        header.psh = flags.contains(Flags::PSH);
        header.ack = flags.contains(Flags::ACK);
        header.ece = flags.contains(Flags::ECE);
        header.cwr = flags.contains(Flags::CWR);
        header.ns = flags.contains(Flags::AE);
        if header.ack {
            header.acknowledgment_number = sequence(receiver.isn, segment.ack);
        }
        // The options are whole words of at most 40 bytes by construction.
        let fits = header.set_options_raw(&tcp_options(segment, receiver.isn));
        debug_assert!(fits.is_ok(), "{fits:?}");
        let payload = ZEROS.get(..segment.len as usize).unwrap_or(&ZEROS);
        // Too long for IPv4: no checksum.
        header.checksum =
            header.calc_checksum_ipv4_raw(ip.source, ip.destination, payload).unwrap_or_default();
        header
    }
}

/// The wire's sequence number of a stream position: 32 bits, wrapping (RFC 9293 section 3.4).
fn sequence(isn: u32, position: u64) -> u32 {
    isn.wrapping_add(position as u32)
}

/// The options of a segment, padded to whole words. SACK blocks that do not fit beside the others are left out.
fn tcp_options(segment: &Segment, peer_isn: u32) -> Vec<u8> {
    const NOP: u8 = 1;
    let mut options = Vec::with_capacity(MAX_OPTIONS);
    let syn = segment.flags.contains(Flags::SYN);
    let sack_permitted = syn && segment.syn.sack_permitted;
    if syn {
        options.extend([2, 4]);
        options.extend(segment.syn.mss.to_be_bytes());
    }
    if let Some((value, echo)) = segment.timestamps {
        options.extend(if sack_permitted { [4, 2] } else { [NOP, NOP] });
        options.extend([8, 10]);
        options.extend(value.to_be_bytes());
        options.extend(echo.to_be_bytes());
    } else if sack_permitted {
        options.extend([NOP, NOP, 4, 2]);
    }
    if let Some(shift) = segment.syn.window_scale.filter(|_| syn) {
        options.extend([NOP, 3, 3, shift]);
    }
    let accecn = segment.accecn();
    let left = MAX_OPTIONS - options.len() - accecn.map_or(0, |option| option.len());
    let room = left.saturating_sub(4) / 8;
    let blocks: Vec<_> = segment.sack.iter(segment.ack).take(room).collect();
    if !blocks.is_empty() {
        options.extend([NOP, NOP, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            options.extend(sequence(peer_isn, start).to_be_bytes());
            options.extend(sequence(peer_isn, end).to_be_bytes());
        }
    }
    if let Some(option) = accecn {
        let (bytes, len) = option.bytes();
        options.extend(&bytes[..len]);
    }
    options
}

fn udp_header(
    datagram: &Datagram,
    sender: &EndpointAddress,
    receiver: &EndpointAddress,
    ip: &Ipv4Header,
) -> UdpHeader {
    let (source_port, destination_port) = (sender.local.port(), receiver.local.port());
    let payload = ZEROS.get(..datagram.len as usize).unwrap_or(&ZEROS);
    UdpHeader::with_ipv4_checksum(source_port, destination_port, ip, payload).unwrap_or(UdpHeader {
        source_port,
        destination_port,
        length: 0,
        checksum: 0,
    })
}
