//! Runs: consecutive segments of one TCP connection, passed to the kernel as the one large segment that it
//! would make of them itself (generic receive offload, Linux net/ipv4/tcp_offload.c `tcp_gro_receive`).
//!
//! Only segments that leave at the same time are combined, on a link without a rate or when there is something to catch up with. The receiver
//! gets the same bytes and headers, and goes through its stack once; as behind any card with this offload it acknowledges less often.
//! In the emulated network the packets remain packets: this is only how they leave it.

use super::vnet::{NEEDS_CSUM, TCP_V4, TCP_V6, VNET};
use crate::checksum::{fold, sum};
use crate::datagram::Header;
use crate::ip::{IPV4_HEADER, IPV6_HEADER, TCP};
use crate::pool::{HEADROOM, Pool};

/// Most segments of a run.
pub(super) const MOST: usize = 64;
/// Most bytes of a run from the IP header on: the range of the length field.
const LARGEST: usize = 65_535;
/// Bytes of a TCP header without options.
const TCP_HEADER: usize = 20;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;

/// A segment that may be part of a run, with the positions of its parts.
#[derive(Clone, Copy)]
struct Segment<'a> {
    bytes: &'a [u8],
    ip: usize,
    /// Bytes of both headers.
    headers: usize,
}

impl<'a> Segment<'a> {
    /// `None` for a datagram that must travel alone: not TCP, no payload, flags other than ACK and PSH, IP options or fragments.
    #[inline]
    fn read(bytes: &'a [u8], header: Header) -> Option<Self> {
        if header.protocol != TCP {
            return None;
        }
        let ip = match header.version {
            4 if bytes[0] == 0x45 && (bytes[6] & 0x3f, bytes[7]) == (0, 0) => IPV4_HEADER,
            6 if bytes[6] == TCP => IPV6_HEADER,
            _ => return None,
        };
        let tcp = bytes.get(ip..ip + TCP_HEADER)?;
        let headers = ip + usize::from(tcp[12] >> 4) * 4;
        let plain = tcp[12] & 0x0f == 0 && tcp[13] & !PSH == ACK;
        (plain && headers >= ip + TCP_HEADER && bytes.len() > headers).then_some(Segment {
            bytes,
            ip,
            headers,
        })
    }

    fn payload(&self) -> usize {
        self.bytes.len() - self.headers
    }

    fn sequence(&self) -> u32 {
        let at = self.ip + 4;
        self.bytes[at..at + 4].iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
    }

    fn pushes(&self) -> bool {
        self.bytes[self.ip + 13] & PSH != 0
    }

    /// Whether its lengths and checksums are correct. A run gets new ones, and a segment damaged on its way must stay damaged.
    fn is_sound(&self) -> bool {
        let word = |at: usize| usize::from(u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]]));
        let segment = &self.bytes[self.ip..];
        let (header, addresses) = match self.ip {
            IPV4_HEADER => {
                (word(2) == self.bytes.len() && fold(sum(&self.bytes[..IPV4_HEADER])) == 0, 12..20)
            }
            _ => (word(4) == segment.len(), 8..40),
        };
        header
            && fold(sum(&self.bytes[addresses]) + u64::from(TCP) + segment.len() as u64 + sum(segment)) == 0
    }

    /// Whether the headers are equal except for fields that change from one segment of a stream to the next.
    fn resembles(&self, other: &Segment<'_>) -> bool {
        if (self.ip, self.headers) != (other.ip, other.headers) {
            return false;
        }
        let same = |from: usize, to: usize| self.bytes[from..to] == other.bytes[from..to];
        let ip = match self.ip {
            // All but length, identification and checksum.
            IPV4_HEADER => same(0, 2) && same(6, 10) && same(12, 20),
            // All but length.
            _ => same(0, 4) && same(6, IPV6_HEADER),
        };
        // Ports; acknowledgement and offset; window; urgent pointer and options.
        let tcp = self.ip;
        ip && same(tcp, tcp + 4)
            && same(tcp + 8, tcp + 13)
            && same(tcp + 14, tcp + 16)
            && same(tcp + 18, self.headers)
    }
}

/// How many of the first of `handles` form a run; 1 if the first travels alone.
#[inline]
pub(super) fn length(pool: &Pool, handles: &[u32]) -> usize {
    let read = |handle: u32| Segment::read(pool.datagram(handle), pool.header(handle));
    let Some(first) = handles.first().and_then(|&handle| read(handle)) else { return 1 };
    let size = first.payload();
    let (mut last, mut bytes, mut count) = (first, first.bytes.len(), 1);
    for &handle in handles.iter().skip(1).take(MOST - 1) {
        let Some(next) = read(handle) else { break };
        let follows = next.sequence() == last.sequence().wrapping_add(last.payload() as u32);
        // All but the last have one size, and only the last may push.
        if !follows || last.payload() != size || next.payload() > size || last.pushes() {
            break;
        }
        if bytes + next.payload() > LARGEST || !next.resembles(&first) {
            break;
        }
        if (count == 1 && !first.is_sound()) || !next.is_sound() {
            break;
        }
        (last, bytes, count) = (next, bytes + next.payload(), count + 1);
    }
    count
}

/// The head of a run, before its payloads: how to split it, and its headers.
#[derive(Debug)]
pub(super) struct Head {
    bytes: [u8; VNET + HEADROOM + IPV6_HEADER + 60],
    len: usize,
    /// Bytes of IP and TCP headers, to be skipped in each datagram.
    pub(super) headers: usize,
}

impl Head {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The head of the run `handles`, behind the Ethernet header of the first.
    pub(super) fn new(pool: &Pool, handles: &[u32]) -> Option<Head> {
        let ethernet = pool.front(*handles.first()?);
        let front = ethernet.len();
        let read = |handle: &u32| Segment::read(pool.datagram(*handle), pool.header(*handle));
        let (first, last) = (read(handles.first()?)?, read(handles.last()?)?);
        let payload: usize = handles.iter().map(|&handle| pool.datagram(handle).len() - first.headers).sum();
        let (ip, headers) = (first.ip, first.headers);
        let tcp_len = headers - ip + payload;
        let mut head = Head { bytes: [0; _], len: VNET + front + headers, headers };
        let (vnet, frame) = head.bytes.split_at_mut(VNET);
        let kind = if ip == IPV4_HEADER { TCP_V4 } else { TCP_V6 };
        (vnet[0], vnet[1]) = (NEEDS_CSUM, kind);
        let numbers = [front + headers, first.payload(), front + ip, 16];
        for (to, number) in vnet[2..].chunks_exact_mut(2).zip(numbers) {
            // In the machine's byte order.
            to.copy_from_slice(&(number as u16).to_ne_bytes());
        }
        frame[..front].copy_from_slice(ethernet);
        let datagram = &mut frame[front..front + headers];
        datagram.copy_from_slice(&first.bytes[..headers]);
        datagram[ip + 13] |= last.bytes[ip + 13] & PSH;
        let addresses = if ip == IPV4_HEADER {
            datagram[2..4].copy_from_slice(&((headers + payload) as u16).to_be_bytes());
            datagram[10..12].fill(0);
            let checksum = fold(sum(&datagram[..ip]));
            datagram[10..12].copy_from_slice(&checksum.to_be_bytes());
            12..20
        } else {
            datagram[4..6].copy_from_slice(&(tcp_len as u16).to_be_bytes());
            8..40
        };
        // The sum of the pseudo header, to which the kernel adds when it completes the checksum.
        let pseudo = !fold(sum(&datagram[addresses]) + u64::from(TCP) + tcp_len as u64);
        datagram[ip + 16..ip + 18].copy_from_slice(&pseudo.to_be_bytes());
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram;
    use crate::port::link::ETHERNET;

    /// A segment over `version` whose payload is `len` bytes from `sequence` on.
    fn segment(version: u8, sequence: u32, len: usize, flags: u8) -> Vec<u8> {
        let tcp_len = TCP_HEADER + 12 + len;
        let mut bytes = match version {
            4 => {
                let total = ((IPV4_HEADER + tcp_len) as u16).to_be_bytes();
                let mut bytes = vec![0x45, 0, total[0], total[1], 9, sequence as u8, 0x40, 0, 64, TCP, 0, 0];
                bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                let checksum = fold(sum(&bytes));
                bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
                bytes
            }
            _ => {
                let [high, low] = (tcp_len as u16).to_be_bytes();
                let mut bytes = vec![0x60, 0, 0, 0, high, low, TCP, 64];
                bytes.extend([1; 16]);
                bytes.extend([2; 16]);
                bytes
            }
        };
        bytes.extend([0x12, 0x34, 0, 80]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([0, 0, 0, 7, 0x80, flags, 1, 0, 0, 0, 0, 0]);
        bytes.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        bytes.extend((0..len).map(|at| (sequence as usize + at) as u8));
        let header = datagram::read(&bytes).unwrap();
        datagram::complete(&mut bytes, &header);
        bytes
    }

    fn pool(datagrams: &[Vec<u8>]) -> (Pool, Vec<u32>) {
        let mut pool = Pool::new(1500, 1 << 20);
        let insert = |bytes: &Vec<u8>| pool.insert(bytes, datagram::read(bytes).unwrap()).unwrap();
        let handles = datagrams.iter().map(insert).collect();
        (pool, handles)
    }

    fn length_of(datagrams: &[Vec<u8>]) -> usize {
        let (pool, handles) = pool(datagrams);
        length(&pool, &handles)
    }

    #[test]
    fn what_follows_in_the_same_words_is_a_run() {
        for version in [4, 6] {
            let all = [
                segment(version, 1000, 100, ACK),
                segment(version, 1100, 100, ACK),
                segment(version, 1200, 40, ACK | PSH),
                segment(version, 1240, 40, ACK),
            ];
            assert_eq!(length_of(&all), 3);
            assert_eq!(length_of(&all[2..]), 1);
            // Across the wrap of sequence numbers.
            let all = [segment(version, u32::MAX - 9, 100, ACK), segment(version, 90, 100, ACK)];
            assert_eq!(length_of(&all), 2);
        }
        assert_eq!(length(&Pool::new(1500, 1 << 20), &[]), 1);
    }

    #[test]
    fn whatever_differs_ends_it() {
        let first = segment(4, 1000, 100, ACK);
        let next = segment(4, 1100, 100, ACK);
        let changed = |at: usize, to: u8| {
            let mut bytes = next.clone();
            bytes[at] = to;
            bytes[10..12].fill(0);
            let checksum = fold(sum(&bytes[..IPV4_HEADER]));
            bytes[10..12].copy_from_slice(&checksum.to_be_bytes());
            if let Ok(header) = datagram::read(&bytes) {
                datagram::complete(&mut bytes, &header);
            }
            length_of(&[first.clone(), bytes])
        };
        assert_eq!(changed(5, 99), 2, "identification");
        for (what, at, to) in [
            ("congestion experienced", 1, 3),
            ("fragments allowed", 6, 0),
            ("hop limit", 8, 63),
            ("address", 19, 9),
            ("port", 21, 9),
            ("sequence", 27, 0),
            ("acknowledgement", 31, 8),
            ("FIN", 33, ACK | 1),
            ("window", 34, 2),
            ("timestamp", 47, 5),
        ] {
            assert_eq!(changed(at, to), 1, "{what}");
        }
        assert_eq!(length_of(&[first.clone(), segment(4, 1100, 101, ACK)]), 1, "a larger one");
        assert_eq!(length_of(&[first.clone(), segment(6, 1100, 100, ACK)]), 1, "another version");
        assert_eq!(length_of(&[segment(4, 1000, 0, ACK), segment(4, 1000, 0, ACK)]), 1, "nothing to carry");
        assert_eq!(length_of(&[segment(4, 1000, 100, ACK | PSH), next]), 1, "after a push");
        // No longer than the length field allows, and no more than the limit of segments.
        let large: Vec<_> = (0..60).map(|i| segment(4, i * 1400, 1400, ACK)).collect();
        assert_eq!(length_of(&large), (65_535 - 52) / 1400);
        let small: Vec<_> = (0..100).map(|i| segment(4, i * 10, 10, ACK)).collect();
        assert_eq!(length_of(&small), MOST);
    }

    #[test]
    fn what_was_damaged_travels_alone() {
        for version in [4, 6] {
            let sound = [segment(version, 1000, 99, ACK), segment(version, 1099, 99, ACK)];
            assert_eq!(length_of(&sound), 2);
            for which in [0, 1] {
                let mut damaged = sound.clone();
                *damaged[which].last_mut().unwrap() ^= 1;
                assert_eq!(length_of(&damaged), 1);
            }
        }
        // In fields that a run gets anew: identification, and checksum of the header.
        for at in [5, 11] {
            let mut damaged = [segment(4, 1000, 99, ACK), segment(4, 1099, 99, ACK)];
            damaged[1][at] ^= 1;
            assert_eq!(length_of(&damaged), 1);
        }
    }

    #[test]
    fn its_head_is_that_of_one_large_segment() {
        for (version, ip) in [(4, IPV4_HEADER), (6, IPV6_HEADER)] {
            let all = [segment(version, 1000, 100, ACK), segment(version, 1100, 60, ACK | PSH)];
            let (mut pool, handles) = pool(&all);
            pool.put_front(handles[0], &[7; ETHERNET]);
            let head = Head::new(&pool, &handles).unwrap();
            let (vnet, frame) = head.bytes().split_at(VNET);
            let number = |two: &[u8]| usize::from(u16::from_ne_bytes([two[0], two[1]]));
            let numbers: Vec<usize> = vnet[2..].chunks_exact(2).map(number).collect();
            assert_eq!(vnet[..2], [1, if version == 4 { 1 } else { 4 }]);
            assert_eq!(numbers, [14 + ip + 32, 100, 14 + ip, 16]);
            // With its payloads and a completed checksum it equals the segment that a sender would have sent at once.
            let mut whole = frame[ETHERNET..].to_vec();
            whole.extend(&all[0][head.headers..]);
            whole.extend(&all[1][head.headers..]);
            let checksum = fold(sum(&whole[ip..]));
            whole[ip + 16..ip + 18].copy_from_slice(&checksum.to_be_bytes());
            assert_eq!(whole, segment(version, 1000, 160, ACK | PSH));
        }
    }
}
