//! CAKE's ACK filter: where several acknowledgements of a connection wait, older ones that say nothing more than a newer one are dropped.
//!
//! Source: Linux's `sch_cake`, `cake_ack_filter`. Only segments without data and with no other flags than ACK, ECE and CWR can be dropped, and only
//! where the newest segment acknowledges as much, has SACK blocks for all that the older one has, says more, and is not older by its timestamps. ECE and
//! CWR must not change between the dropped one and the next. Two such ones must wait, or one that is directly before the newest where the filter
//! is aggressive; the one nearest to the head is dropped.
//!
//! Departures: the bytes of live packets are not read, so their acknowledgements stay.

use std::collections::VecDeque;

use warpline_core::parameter::Words;
use warpline_core::{EndpointId, Flags, FlowId, Packet, Segment};

use super::flows::Waiting;

/// Which acknowledgements are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Words)]
#[non_exhaustive]
pub enum CakeAckFilter {
    /// None.
    #[default]
    Off,
    /// Those that a newer one makes redundant, but not the one just before the newest.
    On,
    /// All that a newer one makes redundant.
    Aggressive,
}

/// A segment that waits, and whose it is.
#[derive(Clone, Copy, Debug)]
struct Seen {
    flow: FlowId,
    to: EndpointId,
    segment: Segment,
}

/// What the filter remembers of the segments that wait.
#[derive(Debug)]
pub(super) struct AckFilter {
    mode: CakeAckFilter,
    /// By the packets' slots.
    seen: Vec<Option<Seen>>,
}

impl AckFilter {
    pub(super) fn new(mode: CakeAckFilter) -> Self {
        AckFilter { mode, seen: Vec::new() }
    }

    /// Remembers a packet that is about to wait.
    pub(super) fn note(&mut self, slot: u32, packet: &Packet) {
        if self.mode == CakeAckFilter::Off {
            return;
        }
        let slot = slot as usize;
        if slot >= self.seen.len() {
            self.seen.resize(slot + 1, None);
        }
        let seen = |segment: &Segment| Seen { flow: packet.flow, to: packet.to, segment: *segment };
        self.seen[slot] = packet.body.tcp().map(seen);
    }

    fn of(&self, waiting: &Waiting) -> Option<&Seen> {
        self.seen.get(waiting.packet.slot as usize)?.as_ref()
    }

    /// The place in a queue of an acknowledgement that its last packet makes redundant.
    pub(super) fn redundant(&self, queue: &VecDeque<Waiting>) -> Option<usize> {
        if self.mode == CakeAckFilter::Off || queue.len() < 2 {
            return None;
        }
        let last = queue.len() - 1;
        let newest = self.of(&queue[last])?;
        let flags = newest.segment.flags;
        if !flags.contains(Flags::ACK) || flags.contains(Flags::SYN) {
            return None;
        }
        let mut found: Option<(usize, u16)> = None;
        let mut count = 0;
        for (place, older) in queue.iter().take(last).enumerate() {
            let older = match self.of(older) {
                Some(older) if (older.flow, older.to) == (newest.flow, newest.to) => &older.segment,
                _ => continue,
            };
            // What changes between two is news: the one before has to stay.
            if found.is_some_and(|(_, echo)| echo != congestion(older)) {
                found = None;
                count -= 1;
            }
            if !says_less(older, &newest.segment) {
                continue;
            }
            found = found.or(Some((place, congestion(older))));
            count += 1;
            if count > 1 {
                return found.map(|(place, _)| place);
            }
        }
        let (place, echo) = found?;
        let next = self.mode == CakeAckFilter::Aggressive && place + 1 == last;
        (next && echo == congestion(&newest.segment)).then_some(place)
    }
}

/// The flags by which a segment speaks of congestion.
fn congestion(segment: &Segment) -> u16 {
    segment.flags.0 & (Flags::ECE.0 | Flags::CWR.0)
}

/// Whether `newer` says all that `older` says, and more.
fn says_less(older: &Segment, newer: &Segment) -> bool {
    let others = older.flags.0 & !(Flags::ECE.0 | Flags::CWR.0);
    if others != Flags::ACK.0 || older.len > 0 || older.ack > newer.ack || older.accecn().is_some() {
        return false;
    }
    if let Some((value, echo)) = older.timestamps {
        let (new_value, new_echo) = newer.timestamps.unwrap_or_default();
        // They wrap around.
        let after = |a: u32, b: u32| (a.wrapping_sub(b) as i32) > 0;
        if after(value, new_value) || after(echo, new_echo) {
            return false;
        }
    }
    match compare_sack(older, newer) {
        Sack::Lost => false,
        Sack::Same => older.ack < newer.ack,
        Sack::More => true,
    }
}

/// What the SACK blocks of a newer segment are to those of an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sack {
    /// Some of them are missing, or the older one reports a duplicate.
    Lost,
    /// They cover the same.
    Same,
    /// They cover them all, and more.
    More,
}

fn compare_sack(older: &Segment, newer: &Segment) -> Sack {
    let covered = |(start, end): (u64, u64)| {
        newer.sack.iter(newer.ack).any(|(from, until)| from <= start && end <= until)
    };
    let bytes =
        |segment: &Segment| segment.sack.iter(segment.ack).map(|(start, end)| end - start).sum::<u64>();
    let mut blocks = older.sack.iter(older.ack);
    if blocks.any(|block| block.0 < older.ack || !covered(block)) {
        Sack::Lost
    } else if bytes(newer) > bytes(older) {
        Sack::More
    } else {
        Sack::Same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::tests::packet;
    use warpline_core::Ecn;

    fn ack(ack: u64) -> Segment {
        Segment { ack, timestamps: Some((ack as u32, 1)), flags: Flags::ACK, ..Segment::default() }
    }

    fn sack(ack_to: u64, blocks: &[(u64, u64)]) -> Segment {
        let mut segment = ack(ack_to);
        blocks.iter().for_each(|&(start, end)| assert!(segment.sack.push(ack_to, start, end)));
        segment
    }

    /// The place that is found when these segments of one connection wait.
    fn found(mode: CakeAckFilter, segments: &[Segment]) -> Option<usize> {
        let packets: Vec<Packet> = segments
            .iter()
            .map(|segment| Packet::tcp(FlowId(1), EndpointId(2), *segment, Ecn::Ect0))
            .collect();
        found_of(mode, &packets)
    }

    fn found_of(mode: CakeAckFilter, packets: &[Packet]) -> Option<usize> {
        let mut filter = AckFilter::new(mode);
        let mut queue = VecDeque::new();
        for (slot, arriving) in (0..).zip(packets) {
            filter.note(slot, arriving);
            queue.push_back(Waiting { packet: packet(slot, arriving.size), length: 0 });
        }
        filter.redundant(&queue)
    }

    #[test]
    fn of_three_the_first_goes_and_of_two_only_for_the_aggressive() {
        use CakeAckFilter::{Aggressive, Off, On};
        let acks = [ack(100), ack(200), ack(300)];
        assert_eq!([Off, On, Aggressive].map(|mode| found(mode, &acks)), [None, Some(0), Some(0)]);
        assert_eq!([On, Aggressive].map(|mode| found(mode, &acks[1..])), [None, Some(0)]);
        assert_eq!(found(Aggressive, &acks[2..]), None);
    }

    #[test]
    fn what_says_something_of_its_own_stays() {
        let both = |older: Segment, newer: Segment| found(CakeAckFilter::Aggressive, &[older, newer]);
        assert_eq!(both(ack(100), ack(200)), Some(0));
        let flags = |flag: Flags| Segment { flags: Flags::ACK.with(flag), ..ack(100) };
        for flag in [Flags::PSH, Flags::FIN, Flags::RST, Flags::SYN, Flags::AE, Flags::ECE, Flags::CWR] {
            assert_eq!(both(flags(flag), ack(200)), None, "{flag:?}");
        }
        assert_eq!(both(Segment { len: 10, ..ack(100) }, ack(200)), None);
        assert_eq!(both(ack(300), Segment { timestamps: None, ..ack(200) }), None);
        assert_eq!(both(ack(200), Segment { timestamps: Some((200, 1)), ..ack(200) }), None);
        assert_eq!(both(Segment { timestamps: Some((300, 1)), ..ack(100) }, ack(200)), None);
        assert_eq!(both(Segment { timestamps: Some((u32::MAX, 1)), ..ack(100) }, ack(200)), Some(0));
        // A newest segment with data acknowledges as well as another.
        assert_eq!(both(ack(100), Segment { len: 10, ..ack(200) }), Some(0));
        // All of them echo a mark.
        assert_eq!(both(flags(Flags::ECE), Segment { ack: 200, ..flags(Flags::ECE) }), Some(0));
    }

    #[test]
    fn a_change_of_the_echo_stays_visible() {
        let echo = |to: u64| Segment { flags: Flags::ACK.with(Flags::ECE), ..ack(to) };
        let mode = CakeAckFilter::On;
        assert_eq!(found(mode, &[ack(1), echo(2), ack(3)]), None);
        assert_eq!(found(mode, &[ack(1), echo(2), echo(3), ack(4)]), Some(1));
        assert_eq!(found(CakeAckFilter::Aggressive, &[echo(1), ack(2)]), None);
    }

    #[test]
    fn sack_blocks_must_all_be_in_the_newer_one() {
        let both = |older: &Segment, newer: &Segment| found(CakeAckFilter::Aggressive, &[*older, *newer]);
        let older = sack(100, &[(300, 400)]);
        assert_eq!(both(&older, &sack(100, &[(300, 500)])), Some(0));
        assert_eq!(both(&older, &sack(100, &[(600, 700), (300, 400)])), Some(0));
        assert_eq!(both(&older, &sack(100, &[(600, 700)])), None);
        assert_eq!(both(&older, &ack(400)), None);
        // A duplicate acknowledgement with nothing new counts.
        assert_eq!(both(&older, &older), None);
        // A block below the acknowledgement reports a duplicate (RFC 2883).
        assert_eq!(both(&sack(100, &[(50, 80)]), &sack(200, &[(50, 80), (300, 400)])), None);
    }

    #[test]
    fn other_connections_and_other_packets_do_not_count() {
        let of = |flow, to, segment: &Segment| Packet::tcp(FlowId(flow), EndpointId(to), *segment, Ecn::Ect0);
        let datagram = Packet::udp(FlowId(1), EndpointId(2), Default::default());
        let mode = CakeAckFilter::On;
        let mine = [of(1, 2, &ack(100)), of(1, 2, &ack(200)), of(1, 2, &ack(300))];
        assert_eq!(found_of(mode, &[of(1, 4, &ack(1)), datagram, mine[0], mine[1], mine[2]]), Some(2));
        assert_eq!(found_of(mode, &[of(1, 4, &ack(1)), of(2, 2, &ack(1)), mine[1], mine[2]]), None);
        assert_eq!(found_of(mode, &[mine[0], mine[1], datagram]), None);
    }
}
