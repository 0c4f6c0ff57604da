//! The general way through a link: a queueing discipline, a transmitter with any schedule, a wire that may reorder.
//!
//! Every departure is an event, so the discipline sees each packet leave, and records are made in order of time.

use std::collections::BTreeMap;

use warpline_core::record::{DropReason, LinkEvent, LinkRecord};
use warpline_core::{Ecn, LinkId, TimeDelta, Timestamp};

use crate::arena::Arena;
use crate::jitter::JitterModel;
use crate::link::{Link, LinkStats};
use crate::qdisc::{AnyQdisc, Dropped, Qdisc, Queued, Verdict};
use crate::serialise::Serialiser;

/// The parts of a link that most links do without.
#[derive(Debug)]
pub(crate) struct General {
    qdisc: AnyQdisc,
    /// None stands for no limit.
    serialiser: Option<Serialiser>,
    jitter: Option<JitterModel>,
    /// In transmission: its slot and bytes.
    in_service: Option<(u32, u32)>,
    /// Packets on a wire that reorders, by (arrival, order of departure).
    reordered: BTreeMap<(Timestamp, u64), u32>,
    departures: u64,
    /// Earliest arrival announced for a wire that reorders.
    announced: Timestamp,
    down: bool,
    /// Outages still to come or under way, as (from, until), earliest last.
    outages: Vec<(Timestamp, Timestamp)>,
    record: bool,
    dropped: Dropped,
    stats: LinkStats,
}

/// What the network is to announce after a link took a step: events that have become certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announce {
    /// A packet will arrive at the far end.
    pub(crate) arrival: Option<Timestamp>,
    /// The transmitter will be done.
    pub(crate) departure: Option<Timestamp>,
    /// The link will go down or come up.
    pub(crate) control: Option<Timestamp>,
}

/// What a link needs of the network for one step.
pub(crate) struct Step<'a> {
    pub(crate) id: LinkId,
    pub(crate) now: Timestamp,
    pub(crate) arena: &'a mut Arena,
    pub(crate) records: &'a mut Vec<LinkRecord>,
}

impl General {
    pub(crate) fn new(
        qdisc: AnyQdisc,
        serialiser: Option<Serialiser>,
        jitter: Option<JitterModel>,
        outages: Vec<(Timestamp, Timestamp)>,
        record: bool,
    ) -> Self {
        General {
            qdisc,
            serialiser,
            jitter,
            in_service: None,
            reordered: BTreeMap::new(),
            departures: 0,
            announced: Timestamp::NEVER,
            down: false,
            outages: outages.into_iter().rev().collect(),
            record,
            dropped: Dropped::default(),
            stats: LinkStats::default(),
        }
    }

    pub(crate) fn stats(&self) -> LinkStats {
        let (backlog_packets, backlog_bytes) = self.qdisc.backlog();
        LinkStats { backlog_packets, backlog_bytes, ..self.stats }
    }

    pub(crate) fn reset_queued_max(&mut self) {
        self.stats.queued_max = TimeDelta::ZERO;
    }

    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::Overflow => self.stats.drops_overflow += 1,
            DropReason::Aqm => self.stats.drops_aqm += 1,
            DropReason::Loss => self.stats.drops_loss += 1,
            DropReason::Down => self.stats.drops_down += 1,
        }
    }

    /// Whether its wire reorders.
    fn reorders(&self) -> bool {
        self.jitter.as_ref().is_some_and(JitterModel::reorders)
    }

    /// Records an event if somebody asked for it.
    #[inline]
    pub(crate) fn note(
        &self,
        id: LinkId,
        now: Timestamp,
        slot: u32,
        event: LinkEvent,
        arena: &Arena,
        records: &mut Vec<LinkRecord>,
    ) {
        if self.record {
            let (backlog_packets, backlog_bytes) = self.qdisc.backlog();
            let packet = arena[slot].packet;
            records.push(LinkRecord { time: now, link: id, event, backlog_packets, backlog_bytes, packet });
        }
    }

    fn lose(&mut self, step: &mut Step<'_>, slot: u32, reason: DropReason) {
        self.count_drop(reason);
        self.note(step.id, step.now, slot, LinkEvent::Drop(reason), step.arena, step.records);
        step.arena.free(slot);
    }

    /// Packets that the qdisc dropped after having taken them in.
    fn lose_dropped(&mut self, step: &mut Step<'_>) {
        if self.dropped.0.is_empty() {
            return;
        }
        let mut dropped = std::mem::take(&mut self.dropped.0);
        for (packet, reason) in dropped.drain(..) {
            self.lose(step, packet.slot, reason);
        }
        self.dropped.0 = dropped; // keeps its memory
    }

    fn mark(&mut self, step: &mut Step<'_>, slot: u32) {
        step.arena[slot].packet.ecn = Ecn::Ce;
        self.stats.marks += 1;
        self.note(step.id, step.now, slot, LinkEvent::Mark, step.arena, step.records);
    }

    /// Starts the next transmission if the transmitter is free and something waits. Returns when it will be done.
    fn start(&mut self, step: &mut Step<'_>) -> Option<Timestamp> {
        if self.in_service.is_some() || self.down {
            return None;
        }
        let next = self.qdisc.dequeue(step.now, &mut self.dropped);
        self.lose_dropped(step);
        let packet = next?;
        let departure = match &mut self.serialiser {
            Some(serialiser) => serialiser.finish_of(step.now, packet.size),
            None => step.now,
        };
        self.in_service = Some((packet.slot, packet.size));
        let queued = step.now - packet.arrived;
        self.stats.queued_packets += 1;
        self.stats.queued_time += queued;
        self.stats.queued_max = self.stats.queued_max.max(queued);
        if packet.ecn == Ecn::Ce && step.arena[packet.slot].packet.ecn != Ecn::Ce {
            self.mark(step, packet.slot);
        }
        self.note(step.id, step.now, packet.slot, LinkEvent::Transmit { queued }, step.arena, step.records);
        // A trace that has ended, or a rate that stays zero, never finishes.
        departure.is_set().then_some(departure)
    }
}

impl Link {
    /// Offers a packet to a link on the general way.
    pub(crate) fn offer_general(&mut self, mut step: Step<'_>, slot: u32) -> Announce {
        let framing = self.framing();
        let Some(general) = &mut self.general else { return Announce::default() };
        general.stats.arrivals += 1;
        if general.down {
            general.lose(&mut step, slot, DropReason::Down);
            return Announce::default();
        }
        let packet = &step.arena[slot].packet;
        let queued = Queued {
            slot,
            size: packet.size + framing,
            flow: packet.flow.0,
            ecn: packet.ecn,
            class: packet.class,
            arrived: step.now,
        };
        // An idle transmitter takes the packet through the qdisc all the same: CoDel and RED keep state there.
        let verdict = general.qdisc.enqueue(step.now, queued, &mut general.dropped);
        match verdict {
            Verdict::Dropped(reason) => general.lose(&mut step, slot, reason),
            taken => {
                general.note(step.id, step.now, slot, LinkEvent::Enqueue, step.arena, step.records);
                if taken == Verdict::Marked {
                    general.mark(&mut step, slot);
                }
            }
        }
        general.lose_dropped(&mut step);
        Announce { departure: general.start(&mut step), ..Announce::default() }
    }

    /// The packet in transmission has left: it goes onto the wire, and the next one starts.
    pub(crate) fn depart(&mut self, mut step: Step<'_>) -> Announce {
        let delay = self.delay();
        let Some(general) = &mut self.general else { return Announce::default() };
        let Some((slot, size)) = general.in_service.take() else { return Announce::default() };
        general.stats.sent_packets += 1;
        general.stats.sent_bytes += u64::from(size);
        if let Some(loss) = &mut self.loss {
            let place = &mut step.arena[slot];
            place.lost = loss.lose(&place.packet);
        }
        let extra = general.jitter.as_mut().map_or(TimeDelta::ZERO, JitterModel::extra);
        let reorders = general.reorders();
        let mut arrival = step.now + delay + extra;
        let announce = if reorders {
            general.reordered.insert((arrival, general.departures), slot);
            general.departures += 1;
            let first = arrival < general.announced;
            general.announced = general.announced.min(arrival);
            first
        } else {
            arrival = arrival.max(self.last_arrival(step.arena).unwrap_or(Timestamp::ZERO));
            self.append(slot, arrival, step.arena)
        };
        Announce {
            arrival: announce.then_some(arrival),
            departure: self.general.as_mut().and_then(|general| general.start(&mut step)),
            control: None,
        }
    }

    /// Takes the packet that arrives now, if there is one, and says when the next one does.
    pub(crate) fn take_general(&mut self, step: Step<'_>) -> (Option<u32>, Option<Timestamp>) {
        let reorders = self.general.as_ref().is_some_and(|general| general.reorders());
        let (slot, next) = if reorders {
            self.general.as_mut().map_or((None, None), |general| general.take_reordered(step.now))
        } else {
            let (slot, next) = self.pop(step.arena);
            (Some(slot), next)
        };
        let Some(slot) = slot else { return (None, next) };
        if step.arena[slot].lost {
            self.drop_general(step.id, step.now, slot, DropReason::Loss, step.arena, step.records);
            return (None, next);
        }
        if let Some(general) = &self.general {
            general.note(step.id, step.now, slot, LinkEvent::Deliver, step.arena, step.records);
        }
        (Some(slot), next)
    }

    /// The link goes down, which empties its queue, or comes up again.
    pub(crate) fn switch(&mut self, mut step: Step<'_>) -> Announce {
        let Some(general) = &mut self.general else { return Announce::default() };
        if !general.down {
            general.down = true;
            while let Some(packet) = general.qdisc.dequeue(step.now, &mut general.dropped) {
                general.lose(&mut step, packet.slot, DropReason::Down);
            }
            general.lose_dropped(&mut step);
            return Announce {
                control: general.outages.last().map(|outage| outage.1),
                ..Announce::default()
            };
        }
        general.down = false;
        general.outages.pop();
        let control = general.outages.last().map(|outage| outage.0);
        Announce { control, departure: general.start(&mut step), arrival: None }
    }
}

impl General {
    /// Takes the packet that arrives now from a wire that reorders. An arrival that was overtaken by an earlier
    /// announcement finds nothing to take.
    fn take_reordered(&mut self, now: Timestamp) -> (Option<u32>, Option<Timestamp>) {
        let due =
            self.reordered.first_entry().filter(|entry| entry.key().0 <= now).map(|entry| entry.remove());
        if now < self.announced {
            return (due, None);
        }
        let next = self.reordered.first_key_value().map(|(&(arrival, _), _)| arrival);
        self.announced = next.unwrap_or(Timestamp::NEVER);
        (due, next)
    }
}
