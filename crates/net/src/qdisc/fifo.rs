//! The list of waiting packets that every queueing discipline is made of, and its limit.

use std::collections::VecDeque;

use super::Queued;

/// How much may wait: packets, bytes, or both. The packet in transmission does not count.
///
/// A packet is taken in only if it fits whole, as in Linux's `pfifo` and `bfifo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Most packets; `u32::MAX` for no such limit.
    pub packets: u32,
    /// Most bytes on the wire; `u64::MAX` for no such limit.
    pub bytes: u64,
}

impl Limit {
    /// No limit.
    pub const NONE: Limit = Limit { packets: u32::MAX, bytes: u64::MAX };

    /// At most `packets` packets of any size.
    pub const fn packets(packets: u32) -> Self {
        Limit { packets, bytes: u64::MAX }
    }
    /// At most `bytes` bytes in any number of packets.
    pub const fn bytes(bytes: u64) -> Self {
        Limit { packets: u32::MAX, bytes }
    }
    /// Whether a packet of `size` bytes fits beside a backlog.
    #[inline]
    pub const fn admits(&self, (packets, bytes): (u32, u64), size: u32) -> bool {
        packets < self.packets && bytes.saturating_add(size as u64) <= self.bytes
    }
}

/// How a queue decides on a packet by what waits, and by nothing else. A link of constant rate that knows it needs no queue of packets, and no event for a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// How much may wait.
    pub limit: Limit,
    /// A packet that finds at least this many packets waiting is marked, or dropped if it is not ECN-capable. Below the limit of packets.
    pub mark_from: Option<u32>,
}

impl Admission {
    /// Takes everything.
    pub const ALL: Admission = Admission::up_to(Limit::NONE);

    /// Takes everything up to `limit`.
    pub const fn up_to(limit: Limit) -> Admission {
        Admission { limit, mark_from: None }
    }
}

/// Packets in order of arrival, with their bytes counted.
#[derive(Debug, Default)]
pub(crate) struct Fifo {
    packets: VecDeque<Queued>,
    bytes: u64,
}

impl Fifo {
    #[inline]
    pub(crate) fn push(&mut self, packet: Queued) {
        self.bytes += u64::from(packet.size);
        self.packets.push_back(packet);
    }
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_front()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }
    /// The oldest packet.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Queued> {
        self.packets.front()
    }
    /// Takes the youngest packet.
    pub(crate) fn pop_tail(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_back()?;
        self.bytes -= u64::from(packet.size);
        Some(packet)
    }
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
    /// Packets and bytes.
    #[inline]
    pub(crate) fn backlog(&self) -> (u32, u64) {
        (self.packets.len() as u32, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fits_whole_or_not_at_all() {
        assert!(Limit::bytes(3000).admits((1, 1500), 1500));
        assert!(!Limit::bytes(3000).admits((1, 1500), 1501));
        assert!(Limit::packets(2).admits((1, u64::MAX), 1500));
        assert!(!Limit::packets(2).admits((2, 0), 1));
        let both = Limit { packets: 2, bytes: 100 };
        assert!(both.admits((1, 50), 50) && !both.admits((1, 51), 50) && !both.admits((2, 2), 1));
    }
}
