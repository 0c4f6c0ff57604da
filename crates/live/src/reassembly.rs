//! Reassembly of fragments (RFC 791 section 3.2, RFC 8200 section 4.5), for hosts and routers that need whole datagrams.

use std::collections::BTreeMap;
use std::net::IpAddr;

use warpline_core::{TimeDelta, Timestamp};

use crate::ip::{self, IPV6_HEADER};
use crate::router::finish_header;

/// How long to wait for the fragments of a datagram, as in Linux (`ipfrag_time`).
const PATIENCE: TimeDelta = TimeDelta::from_secs(30);
/// Most incomplete datagrams at the same time; the oldest is dropped first.
const MOST: usize = 64;
/// Most bytes of a datagram.
const LARGEST: usize = 65_535;

/// Common to all fragments of a datagram.
type Key = (IpAddr, IpAddr, u8, u32);

/// A datagram of which some parts have arrived.
#[derive(Debug)]
struct Partial {
    since: Timestamp,
    /// The first fragment's headers, without the fragment header.
    head: Option<Vec<u8>>,
    /// Received parts, by offset.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Total bytes, once the last part has arrived.
    total: Option<usize>,
}

/// Incomplete datagrams.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: BTreeMap<Key, Partial>,
}

impl Reassembly {
    /// Adds a fragment. Returns the whole datagram if it was the last one missing. Overlapping fragments discard their datagram
    /// (RFC 5722); a repeated one is ignored.
    pub fn add(&mut self, now: Timestamp, bytes: &[u8]) -> Option<Vec<u8>> {
        let datagram = ip::parse(bytes).ok()?;
        let fragment = datagram.fragment?;
        let (payload, header) = (datagram.payload, &datagram.header);
        // All but the last have a multiple of eight bytes.
        if payload.is_empty()
            || (fragment.more && payload.len() % 8 != 0)
            || fragment.offset + payload.len() > LARGEST
        {
            return None;
        }
        self.partial.retain(|_, partial| now.saturating_since(partial.since) < PATIENCE);
        let key = (header.source, header.destination, header.protocol, fragment.identification);
        if !self.partial.contains_key(&key) && self.partial.len() >= MOST {
            let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.since).map(|(key, _)| *key);
            oldest.and_then(|key| self.partial.remove(&key));
        }
        let partial = self.partial.entry(key).or_insert_with(|| Partial {
            since: now,
            head: None,
            parts: BTreeMap::new(),
            total: None,
        });
        if fragment.offset == 0 {
            partial.head.get_or_insert_with(|| head(datagram.bytes, payload.len()));
        }
        if !fragment.more {
            partial.total = Some(fragment.offset + payload.len());
        }
        partial.parts.entry(fragment.offset).or_insert_with(|| payload.to_vec());
        let mut next = 0;
        for (&offset, part) in &partial.parts {
            if offset < next || partial.total.is_some_and(|total| offset + part.len() > total) {
                self.partial.remove(&key);
                return None;
            }
            if offset > next {
                return None;
            }
            next += part.len();
        }
        if partial.total != Some(next) {
            return None;
        }
        let Partial { head, parts, .. } = self.partial.remove(&key)?;
        finished(head?, parts)
    }
}

/// The headers before the payload of the first fragment, as those of a whole datagram.
fn head(datagram: &[u8], payload: usize) -> Vec<u8> {
    let mut head = datagram[..datagram.len() - payload].to_vec();
    if head[0] >> 4 == 4 {
        head[6..8].fill(0);
    } else if let Some(inner) = ip::inner_ipv6(datagram) {
        head.truncate(inner.at - 8);
        head[inner.fragment_named_at] = inner.protocol;
    }
    head
}

fn finished(head: Vec<u8>, parts: BTreeMap<usize, Vec<u8>>) -> Option<Vec<u8>> {
    let mut whole = head;
    parts.into_values().for_each(|part| whole.extend(part));
    let v4 = whole[0] >> 4 == 4;
    let len = u16::try_from(if v4 { whole.len() } else { whole.len() - IPV6_HEADER }).ok()?.to_be_bytes();
    if v4 {
        whole[2..4].copy_from_slice(&len);
        finish_header(&mut whole);
    } else {
        whole[4..6].copy_from_slice(&len);
    }
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{IpHeader, UDP};
    use crate::router::fragments;
    use proptest::prelude::*;

    fn whole(v6: bool, len: usize) -> Vec<u8> {
        let address = |last: u8| match v6 {
            true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([192, 0, 2, last]),
        };
        let header = IpHeader {
            dont_fragment: v6,
            identification: if v6 { 0 } else { 9 },
            ..IpHeader::new(address(1), address(2), UDP)
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes, len).unwrap();
        bytes.extend((0..len).map(|i| (i % 251) as u8));
        bytes
    }

    fn cut(v6: bool, len: usize, mtu: u32) -> Vec<Vec<u8>> {
        fragments(&whole(v6, len), mtu, 77).unwrap()
    }

    proptest! {
        /// In any order, and some twice.
        #[test]
        fn parts_in_any_order_make_the_whole(
            v6: bool, len in 2000usize..5000, order in Just((0..40usize).collect::<Vec<_>>()).prop_shuffle(), again in 0usize..40,
        ) {
            let parts = cut(v6, len, 600);
            let mut reassembly = Reassembly::default();
            let mut order: Vec<usize> = order.into_iter().filter(|&i| i < parts.len()).collect();
            order.insert(0, again % parts.len());
            let made: Vec<_> = order.iter().filter_map(|&i| reassembly.add(Timestamp::ZERO, &parts[i])).collect();
            prop_assert_eq!(made, vec![whole(v6, len)]);
        }

        #[test]
        fn no_bytes_panic(v6: bool, at in 0usize..60, byte: u8) {
            let mut reassembly = Reassembly::default();
            for mut part in cut(v6, 2000, 600) {
                part[at] = byte;
                reassembly.add(Timestamp::ZERO, &part);
            }
        }
    }

    #[test]
    fn what_is_not_whole_in_time_is_forgotten_and_memory_has_its_bound() {
        let parts = cut(false, 2000, 1500);
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.add(Timestamp::ZERO, &parts[0]), None);
        assert_eq!(reassembly.add(Timestamp::from_secs(31), &parts[1]), None);
        assert!(reassembly.add(Timestamp::from_secs(32), &parts[0]).is_some());
        for id in 0..200u16 {
            let mut part = parts[0].clone();
            part[4..6].copy_from_slice(&id.to_be_bytes());
            finish_header(&mut part);
            assert_eq!(reassembly.add(Timestamp::from_secs(40), &part), None);
        }
        assert_eq!(reassembly.partial.len(), MOST);
    }
}
