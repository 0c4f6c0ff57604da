//! What becomes of a frame that has come in: the datagrams in it, in the pool; or a count.

use nix::libc;

use super::link::Mac;
use super::link::{ETHERNET, Front, IPV4, IPV6};
use super::neighbours::Neighbours;
use super::ring::RxFrame;
use super::segmentation::cut;
use super::unfinished::Unfinished;
use super::{PortCounters, take};
use crate::datagram::{self, Header};
use crate::pool::Pool;

/// Bits of a tag's content that are the number of the VLAN.
const VLAN_NUMBER: u16 = 0xfff;

/// Where the datagrams of a port go.
#[derive(Debug)]
pub(super) struct Intake<'a> {
    pub(super) pool: &'a mut Pool,
    pub(super) counters: &'a mut PortCounters,
    /// Room for a packet that is cut out of a frame.
    pub(super) buffer: &'a mut Vec<u8>,
}

/// The addresses and the EtherType of a frame, and what follows.
struct Parts<'a> {
    to: Mac,
    from: Mac,
    ether_type: u16,
    payload: &'a [u8],
}

fn parts<'a>(frame: &RxFrame<'a>) -> Option<Parts<'a>> {
    let (header, payload) = frame.bytes.split_first_chunk::<ETHERNET>()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, high, low] = *header;
    Some(Parts {
        to: [a, b, c, d, e, f],
        from: [g, h, i, j, k, l],
        ether_type: u16::from_be_bytes([high, low]),
        payload,
    })
}

/// The VLAN that a frame's tag names. The number 0 means a priority and no VLAN (IEEE 802.1Q).
fn vlan(frame: &RxFrame<'_>) -> Option<u16> {
    frame.tag.map(|(_, content)| content & VLAN_NUMBER).filter(|number| *number > 0)
}

impl Intake<'_> {
    /// Takes a frame of the one host behind an interface. If there is no datagram in it, it is cut short, or there is no room, counts that.
    #[inline]
    pub(super) fn take_of_host(&mut self, frame: &RxFrame<'_>) -> Option<u32> {
        let protocol = frame.bytes.get(12..ETHERNET)?;
        let protocol = libc::c_int::from(u16::from_be_bytes([protocol[0], protocol[1]]));
        // The kernel has taken a tag out: a VLAN is a network of its own.
        if protocol != libc::ETH_P_IP && protocol != libc::ETH_P_IPV6 || vlan(frame).is_some() {
            self.counters.ignored += 1;
            return None;
        }
        if frame.original_len > frame.bytes.len() {
            self.counters.pool_overruns += 1;
            return None;
        }
        self.datagram(&frame.bytes[ETHERNET..], frame.unfinished)
    }

    #[inline]
    fn datagram(&mut self, bytes: &[u8], unfinished: Option<Unfinished>) -> Option<u32> {
        let (handle, header) = take(bytes, self.pool, self.counters)?;
        if let Some(unfinished) = unfinished {
            unfinished.complete(self.pool.datagram_mut(handle), &header);
        }
        Some(handle)
    }

    /// Takes a frame of a segment of which the port is a station, and hands on each datagram that is for the station.
    pub(super) fn take_of_segment(
        &mut self,
        frame: &RxFrame<'_>,
        neighbours: &mut Neighbours,
        now: u64,
        mut each: impl FnMut(u32),
    ) {
        let Some(Parts { to, from, ether_type, payload }) = parts(frame) else {
            self.counters.malformed += 1;
            return;
        };
        let own = vlan(frame) == neighbours.vlan();
        let is_datagram = own
            && !neighbours.hear(now, ether_type, payload, from)
            && to == neighbours.mac()
            && [IPV4, IPV6].contains(&ether_type);
        if !is_datagram {
            self.counters.ignored += 1;
        } else if frame.original_len > frame.bytes.len() {
            self.counters.pool_overruns += 1;
        } else if let Some(merged) = frame.merged {
            let Intake { pool, counters, buffer } = self;
            let whole = cut(payload, merged, buffer, |packet| {
                if let Some((handle, _)) = take(packet, pool, counters) {
                    each(handle);
                }
            });
            self.counters.malformed += u64::from(!whole);
        } else if let Some(handle) = self.datagram(payload, frame.unfinished) {
            each(handle);
        }
    }

    /// Takes a frame that goes to another segment as it is, unless it is to or from one of the stations `spared`. Whatever is not IP goes,
    /// too, as a packet with the length of its payload.
    pub(super) fn take_of_bridge(&mut self, frame: &RxFrame<'_>, spared: &[Mac], mut each: impl FnMut(u32)) {
        let Some(Parts { to, from, ether_type, payload }) = parts(frame) else {
            self.counters.malformed += 1;
            return;
        };
        if spared.contains(&to) || spared.contains(&from) {
            self.counters.ignored += 1;
            return;
        }
        if frame.original_len > frame.bytes.len() {
            self.counters.pool_overruns += 1;
            return;
        }
        if payload.is_empty() {
            self.counters.malformed += 1;
            return;
        }
        let front = Front::new(&to, &from, frame.tag, ether_type);
        let Intake { pool, counters, buffer } = self;
        let mut keep = |bytes: &[u8], header: Header| {
            let Some(handle) = pool.insert(bytes, header) else {
                counters.pool_overruns += 1;
                return;
            };
            pool.put_front(handle, front.bytes());
            counters.received_packets += 1;
            counters.received_bytes += u64::from(header.len);
            // What was cut has its checksums.
            if let Some(unfinished) = frame.unfinished.filter(|_| frame.merged.is_none()) {
                unfinished.complete(pool.datagram_mut(handle), &header);
            }
            each(handle);
        };
        let whole = |bytes: &[u8]| Header { len: bytes.len() as u32, ..Header::default() };
        let read = |bytes: &[u8]| match ether_type {
            IPV4 | IPV6 => datagram::read(bytes).unwrap_or_else(|_| whole(bytes)),
            _ => whole(bytes),
        };
        if let Some(merged) = frame.merged {
            let whole = cut(payload, merged, buffer, |packet| keep(packet, read(packet)));
            counters.malformed += u64::from(!whole);
        } else {
            let header = read(payload);
            keep(&payload[..header.len as usize], header);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_content_is_no_loss_of_a_bridge() {
        let (mut pool, mut counters, mut buffer) =
            (Pool::new(1500, 1 << 20), PortCounters::default(), Vec::new());
        let bytes = [2; ETHERNET + 1];
        let mut take = |frame: &RxFrame<'_>| {
            let mut intake = Intake { pool: &mut pool, counters: &mut counters, buffer: &mut buffer };
            let mut handles = Vec::new();
            intake.take_of_bridge(frame, &[], |handle| handles.push(handle));
            (handles.len(), counters.malformed, counters.lost())
        };
        let whole = RxFrame {
            bytes: &bytes,
            original_len: bytes.len(),
            realtime: 0,
            unfinished: None,
            tag: None,
            merged: None,
            queued: false,
        };
        assert_eq!(take(&whole), (1, 0, 0));
        assert_eq!(take(&RxFrame { bytes: &bytes[..ETHERNET], original_len: ETHERNET, ..whole }), (0, 1, 0));
    }

    #[test]
    fn a_checksum_is_completed_where_the_kernel_says_that_it_stands() {
        // SCTP from 10.0.0.1 to 10.0.0.2, a chunk COOKIE ACK; and an Ethernet frame's padding.
        let frame: &[u8] = &[
            2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, //
            0x45, 0, 0, 36, 0, 1, 0x40, 0, 64, 132, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
            0x0b, 0x59, 0x0b, 0x5a, 1, 2, 3, 4, 0, 0, 0, 0, 0x0b, 0, 0, 4, //
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let frame = RxFrame {
            bytes: frame,
            original_len: frame.len(),
            realtime: 0,
            unfinished: Some(Unfinished::At { start: 20, field: 8 }),
            tag: None,
            merged: None,
            queued: false,
        };
        let (mut pool, mut counters, mut buffer) =
            (Pool::new(1500, 1 << 16), PortCounters::default(), Vec::new());
        let mut handles = Vec::new();
        let mut intake = Intake { pool: &mut pool, counters: &mut counters, buffer: &mut buffer };
        intake.take_of_bridge(&frame, &[], |handle| handles.push(handle));
        handles.extend(intake.take_of_host(&frame));
        assert_eq!(handles.len(), 2);
        for handle in handles {
            assert_eq!(pool.datagram(handle)[28..], [0xd1, 0x4e, 0xf3, 0x0b, 0x0b, 0, 0, 4]);
        }
    }
}
