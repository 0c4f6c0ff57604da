//! The general link: a queueing discipline, a transmitter with any schedule, a wire that may reorder.
//!
//! Every departure is an event, so the discipline sees each packet leave, and records are created in order of time.

use warpline_core::record::{DropReason, LinkEvent, LinkRecord};
use warpline_core::{Ecn, LinkId, Rate, TimeDelta, Timestamp};

use crate::aggregate::Aggregator;
use crate::arena::{Arena, OnWire, SlotId};
use crate::change::{ChangeError, Changing, LinkChange, Prepared};
use crate::far::{Far, Noted};
use crate::fate::{Fate, Fates};
use crate::hops::{HopId, Hops};
use crate::jitter::JitterModel;
use crate::pfc::{self, Obeyed, Pfc};
use crate::qdisc::{AnyQdisc, Dropped, Headers, Qdisc, Queued, Verdict};
use crate::schedule::Steps;
use crate::serialise::{ConstantRate, Serialiser};
use crate::stats::LinkStats;
use crate::wire::{Unordered, Wire};

/// The parts of a link.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) qdisc: AnyQdisc,
    /// `None` for no limit.
    pub(crate) serialiser: Option<Serialiser>,
    /// In place of the serialiser, what sends several packets at once.
    pub(crate) aggregator: Option<Box<Aggregator>>,
    pub(crate) delay: TimeDelta,
    pub(crate) jitter: Option<JitterModel>,
    pub(crate) detour: Option<Steps<TimeDelta>>,
    pub(crate) framing: u32,
    pub(crate) fates: Option<Fates>,
    pub(crate) outages: Vec<(Timestamp, Timestamp)>,
    /// If it may be changed, what that needs.
    pub(crate) changing: Option<Changing>,
    pub(crate) pfc: Option<Pfc>,
    pub(crate) counts_sources: bool,
    pub(crate) record: bool,
}

/// A packet in transmission.
#[derive(Clone, Copy, Debug)]
struct InService {
    slot: SlotId,
    /// Bytes, framing included.
    size: u32,
    /// When its last bit leaves.
    end: Timestamp,
    /// How much later than due it will go onto the wire.
    late: TimeDelta,
}

/// A link of any kind.
#[derive(Debug)]
pub(crate) struct General {
    qdisc: AnyQdisc,
    /// Whether the qdisc goes by headers.
    reads_headers: bool,
    /// `None` for no limit.
    serialiser: Option<Serialiser>,
    aggregator: Option<Box<Aggregator>>,
    jitter: Option<JitterModel>,
    /// Additional delay that changes over time.
    detour: Option<Steps<TimeDelta>>,
    in_service: Option<InService>,
    /// The earliest time at which it will ask the qdisc again, if that has asked for it; in the past, or [`Timestamp::NEVER`], if not.
    retry: Timestamp,
    /// When the last transmission ended: the transmitter could have begun another one then.
    idle_since: Timestamp,
    /// Propagation delay; of a link that may be changed the least that is planned.
    delay: TimeDelta,
    framing: u32,
    fates: Option<Fates>,
    far: Far,
    /// Packets on a wire that keeps their order.
    wire: Wire,
    /// Latest arrival on that wire.
    last_arrival: Timestamp,
    /// Packets on a wire that reorders.
    reordered: Unordered,
    /// Whether it is down, because of an outage or a change.
    down: bool,
    /// Whether the earliest outage has begun.
    in_outage: bool,
    /// Future and current outages, as (from, until), earliest last.
    outages: Vec<(Timestamp, Timestamp)>,
    /// If it may be changed, what that needs.
    changing: Option<Box<Changing>>,
    /// When the rate that was passed to the qdisc ends.
    rate_until: Timestamp,
    /// With priority flow control at the far end: whether the link pauses.
    pfc: Option<Box<Pfc>>,
    /// Whether packets that leave are noted for priority flow control at the near end.
    counts_sources: bool,
    record: bool,
    dropped: Dropped,
    stats: LinkStats,
}

/// Events that the network must schedule after a step of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Announce {
    /// A packet will arrive at the far end.
    pub(crate) arrival: Option<Timestamp>,
    /// The transmitter will be done.
    pub(crate) departure: Option<Timestamp>,
    /// The link will go down or come up.
    pub(crate) control: Option<Timestamp>,
}

/// The parts of the network that a link needs for one step.
pub(crate) struct Step<'a> {
    pub(crate) id: LinkId,
    /// The link's number in its part.
    pub(crate) index: u32,
    pub(crate) now: Timestamp,
    pub(crate) arena: &'a mut Arena,
    pub(crate) hops: &'a Hops,
    pub(crate) records: &'a mut Vec<LinkRecord>,
    /// Notes the packets put onto the wire of a link whose far end is not like others.
    pub(crate) noted: &'a mut Vec<Noted>,
    /// Notes the packets that have left a node with priority flow control.
    pub(crate) left: &'a mut Vec<Left>,
}

/// A packet that has left a node with priority flow control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Left {
    /// The hop after the link that it has crossed.
    pub(crate) after: HopId,
    pub(crate) class: u8,
    pub(crate) size: u32,
}

/// Sorted and separate outages: empty ones are left out, and those that meet or overlap become one.
fn normalised(mut outages: Vec<(Timestamp, Timestamp)>) -> Vec<(Timestamp, Timestamp)> {
    outages.retain(|&(from, until)| from < until);
    outages.sort();
    let mut apart: Vec<(Timestamp, Timestamp)> = Vec::with_capacity(outages.len());
    for (from, until) in outages {
        match apart.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => apart.push((from, until)),
        }
    }
    apart
}

impl General {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { qdisc, serialiser, aggregator, delay, jitter, detour, framing, fates, outages, .. } =
            parts;
        let Parts { changing, pfc, counts_sources, record, .. } = parts;
        let mut outages = normalised(outages);
        outages.reverse();
        let in_outage = outages.last().is_some_and(|&(from, _)| from == Timestamp::ZERO);
        let mut general = General {
            reads_headers: qdisc.reads_headers(),
            qdisc,
            serialiser,
            aggregator,
            jitter,
            detour,
            in_service: None,
            retry: Timestamp::NEVER,
            idle_since: Timestamp::ZERO,
            delay,
            framing,
            fates,
            far: Far::Near,
            wire: Wire::default(),
            last_arrival: Timestamp::ZERO,
            reordered: Unordered::default(),
            down: in_outage,
            in_outage,
            outages,
            changing: changing.map(Box::new),
            rate_until: Timestamp::ZERO,
            pfc: pfc.map(Box::new),
            counts_sources,
            record,
            dropped: Dropped::default(),
            stats: LinkStats::default(),
        };
        // A packet sent at the run's start, before the first event, must find the link as it is from then on: changed, or down.
        while let Some(change) = general.take_change(Timestamp::ZERO) {
            general.adopt(change);
        }
        general.down = general.is_to_be_down();
        general
    }

    /// Its rate, if constant.
    pub(crate) fn rate(&self) -> Option<Rate> {
        match &self.serialiser {
            Some(Serialiser::Constant(constant)) => Some(constant.rate()),
            _ => None,
        }
    }
    /// Propagation delay, without jitter: the least that is planned.
    pub(crate) fn delay(&self) -> TimeDelta {
        self.delay
    }
    /// What its far end is.
    pub(crate) fn far(&self) -> Far {
        self.far
    }
    /// Sets what its far end is.
    pub(crate) fn set_far(&mut self, far: Far) {
        self.far = far;
    }
    /// With priority flow control at the far end, its state.
    pub(crate) fn pfc(&mut self) -> Option<&mut Pfc> {
        self.pfc.as_deref_mut()
    }
    /// Whether there is priority flow control at the far end.
    pub(crate) fn has_pfc(&self) -> bool {
        self.pfc.is_some()
    }
    /// Whether packets are counted for priority flow control at the near end.
    pub(crate) fn counts_sources(&self) -> bool {
        self.counts_sources
    }
    /// Whether it may not begin a transmission.
    fn is_stopped(&self) -> bool {
        self.down || self.pfc.as_ref().is_some_and(|pfc| pfc.stops_all())
    }
    /// Whether its queue goes by headers.
    pub(crate) fn reads_headers(&self) -> bool {
        self.reads_headers
    }
    /// Packets offered so far.
    pub(crate) fn offered(&self) -> u64 {
        self.stats.arrivals
    }
    /// Packets on its wire that are also in another part.
    pub(crate) fn copies(&self) -> usize {
        if self.far == Far::Elsewhere { self.wire.len() + self.reordered.len() } else { 0 }
    }
    /// Whether every packet event is recorded.
    pub(crate) fn is_recorded(&self) -> bool {
        self.record
    }

    /// When the next outage begins or the present one ends, if ever.
    fn next_outage(&self) -> Option<Timestamp> {
        let &(from, until) = self.outages.last()?;
        Some(if self.in_outage { until } else { from }).filter(|at| at.is_set())
    }

    /// When the link goes down, comes up or is changed next as planned, if ever.
    pub(crate) fn next_switch(&self) -> Option<Timestamp> {
        let change = self.changing.as_ref().and_then(|changing| changing.next());
        self.next_outage().into_iter().chain(change).min()
    }

    /// When it changes next as planned: its rate, its delay, or whether it is up.
    pub(crate) fn next_change(&self, now: Timestamp) -> Timestamp {
        let rate = self.serialiser.as_ref().map_or(Timestamp::NEVER, |rate| rate.next_change(now));
        let delay = self.detour.as_ref().map_or(Timestamp::NEVER, |steps| steps.next_change(now));
        rate.min(delay).min(self.next_switch().unwrap_or(Timestamp::NEVER))
    }

    /// Lets everything that is planned happen `span` earlier. What is in the queue and on the wire stays as it is. Nothing may be planned for
    /// that span. Returns when the link goes down or comes up next, and when to ask the qdisc again if that is earlier now.
    pub(crate) fn skip(&mut self, now: Timestamp, span: TimeDelta) -> Announce {
        let earlier = |at: Timestamp| if at.is_set() { at.saturating_sub(span) } else { at };
        for (from, until) in &mut self.outages {
            (*from, *until) = (earlier(*from), earlier(*until));
        }
        if let Some(changing) = &mut self.changing {
            changing.skip(span);
        }
        self.rate_until = earlier(self.rate_until);
        if let Some(serialiser) = &mut self.serialiser {
            serialiser.skip(span);
        }
        if let Some(steps) = &mut self.detour {
            steps.skip(span);
        }
        // What may not leave yet waits for the next rate as well, which comes earlier. The qdisc is asked at the old time, too, which changes nothing.
        let is_waiting = self.retry > now && self.retry.is_set();
        let departure = (is_waiting && self.rate_until < self.retry).then_some(self.rate_until);
        self.retry = departure.unwrap_or(self.retry);
        Announce { control: self.next_switch(), departure, arrival: None }
    }

    /// Passes the rate to the qdisc if it has changed.
    fn follow_rate(&mut self, now: Timestamp) {
        if now < self.rate_until {
            return;
        }
        self.rate_until = Timestamp::NEVER;
        if let Some(serialiser) = &self.serialiser {
            self.qdisc.set_rate(serialiser.rate_at(now));
            if let Serialiser::Scheduled(schedule) = serialiser {
                self.rate_until = schedule.next_change(now);
            }
        } else if let Some(aggregator) = &self.aggregator {
            self.qdisc.set_rate(aggregator.rate());
        }
    }

    pub(crate) fn stats(&self, now: Timestamp) -> LinkStats {
        let (backlog_packets, backlog_bytes) = self.qdisc.backlog();
        let pause = self.pfc.as_ref().map_or(TimeDelta::ZERO, |pfc| pfc.paused_for(now));
        let paused_time = self.stats.paused_time + pause;
        LinkStats { backlog_packets, backlog_bytes, paused_time, ..self.stats }
    }

    pub(crate) fn sent_packets(&self) -> u64 {
        self.stats.sent_packets
    }

    pub(crate) fn reset_queued_max(&mut self) {
        self.stats.queued_max = TimeDelta::ZERO;
    }

    fn count_drop(&mut self, reason: DropReason) {
        match reason {
            DropReason::Overflow => self.stats.drops_overflow += 1,
            DropReason::Aqm => self.stats.drops_aqm += 1,
            DropReason::Loss => self.stats.drops_loss += 1,
            DropReason::Down => self.stats.drops_down += 1,
        }
    }

    /// Whether its wire is of the kind on which packets may overtake each other.
    pub(crate) fn reorders(&self) -> bool {
        match &self.changing {
            Some(changing) => changing.reorders,
            None => self.may_overtake(),
        }
    }

    /// Whether the next packet may overtake the one before.
    fn may_overtake(&self) -> bool {
        self.jitter.as_ref().is_some_and(JitterModel::reorders)
    }

    /// Records an event if the link is recorded.
    #[inline]
    fn note(
        &self,
        id: LinkId,
        now: Timestamp,
        slot: SlotId,
        event: LinkEvent,
        arena: &Arena,
        records: &mut Vec<LinkRecord>,
    ) {
        if self.record {
            let (backlog_packets, backlog_bytes) = self.qdisc.backlog();
            let packet = arena.packet(slot);
            records.push(LinkRecord { time: now, link: id, event, backlog_packets, backlog_bytes, packet });
        }
    }

    fn lose(&mut self, step: &mut Step<'_>, slot: SlotId, reason: DropReason) {
        self.count_drop(reason);
        if reason != DropReason::Loss {
            self.note_left(step, slot);
        }
        self.note(step.id, step.now, slot, LinkEvent::Drop(reason), step.arena, step.records);
        step.arena.drop_packet(slot);
    }

    /// A packet is no longer at the near end.
    fn note_left(&self, step: &mut Step<'_>, slot: SlotId) {
        if self.counts_sources {
            step.left.push(Left {
                after: step.arena.hop(slot),
                class: step.arena.class(slot),
                size: step.arena.size(slot),
            });
        }
    }

    /// Loses a packet for which the node has no room.
    pub(crate) fn refuse(&mut self, mut step: Step<'_>, slot: SlotId) -> Announce {
        self.stats.arrivals += 1;
        self.lose(&mut step, slot, DropReason::Overflow);
        Announce::default()
    }

    /// Counts packets that the qdisc dropped after accepting them.
    fn lose_dropped(&mut self, step: &mut Step<'_>) {
        if self.dropped.0.is_empty() {
            return;
        }
        let mut dropped = std::mem::take(&mut self.dropped.0);
        for (packet, reason) in dropped.drain(..) {
            self.lose(step, SlotId(packet.slot), reason);
        }
        self.dropped.0 = dropped; // keeps its memory
    }

    /// A packet leaves the qdisc marked; if it did not arrive marked, this link has marked it.
    fn mark(&mut self, step: &mut Step<'_>, slot: SlotId) {
        if step.arena.mark(slot) {
            self.stats.marks += 1;
            self.note(step.id, step.now, slot, LinkEvent::Mark, step.arena, step.records);
        }
    }

    /// Starts the next transmission if the transmitter is free and a packet waits. A packet that was due at `due`, in the past, begins when
    /// it could have begun then. Returns when the transmission will end.
    fn start(&mut self, step: &mut Step<'_>, due: Timestamp) -> Option<Timestamp> {
        if self.in_service.is_some() || self.is_stopped() {
            return None;
        }
        self.follow_rate(step.now);
        if self.aggregator.is_some() {
            return self.aggregate(step);
        }
        let packet = self.dequeue(step)?;
        let slot = SlotId(packet.slot);
        let begin = due.max(self.idle_since).min(step.now);
        let waited = packet.arrived.min(due) < begin;
        let departure = match &mut self.serialiser {
            Some(serialiser) => serialiser.finish_of(begin, packet.size, waited),
            None => begin,
        };
        let late = step.now.saturating_since(departure);
        let end = departure.max(step.now);
        self.in_service = Some(InService { slot, size: packet.size, end, late });
        self.count_service(step, packet);
        // Under a rate that stays zero it never ends.
        departure.is_set().then_some(end)
    }

    /// Takes the next packet from the queue.
    fn dequeue(&mut self, step: &mut Step<'_>) -> Option<Queued> {
        let next = self.qdisc.dequeue(step.now, &mut self.dropped);
        self.lose_dropped(step);
        next
    }

    /// Counts a packet whose transmission begins.
    fn count_service(&mut self, step: &mut Step<'_>, packet: Queued) {
        let slot = SlotId(packet.slot);
        let queued = step.now - packet.arrived;
        self.stats.queued_packets += 1;
        self.stats.queued_time += queued;
        self.stats.queued_max = self.stats.queued_max.max(queued);
        if packet.ecn == Ecn::Ce {
            self.mark(step, slot);
        }
        self.note(step.id, step.now, slot, LinkEvent::Transmit { queued }, step.arena, step.records);
    }

    /// Puts an aggregate together of what is to be sent again and of what waits, and sends it. Returns when its data will have left.
    #[cold]
    fn aggregate(&mut self, step: &mut Step<'_>) -> Option<Timestamp> {
        let mut aggregator = self.aggregator.take()?;
        aggregator.begin();
        while aggregator.has_room()
            && let Some(packet) = self.dequeue(step)
        {
            self.count_service(step, packet);
            aggregator.add(packet);
        }
        let end = aggregator.send(step.now);
        self.aggregator = Some(aggregator);
        // It stands for all packets of the aggregate.
        let (slot, size, late) = (SlotId::default(), 0, TimeDelta::ZERO);
        self.in_service = end.map(|end| InService { slot, size, end, late });
        end
    }

    /// The data of an aggregate have left: passes on what is settled. Returns the first arrival that must be announced.
    #[cold]
    fn settle(&mut self, step: &mut Step<'_>) -> Option<Timestamp> {
        let mut aggregator = self.aggregator.take()?;
        aggregator.sent();
        let mut first = None;
        while let Some((packet, received)) = aggregator.settle() {
            let (slot, size) = (SlotId(packet.slot), packet.size);
            if received {
                first = self.leave(step, (slot, size), TimeDelta::ZERO).into_iter().chain(first).min();
            } else {
                self.note_left(step, slot);
                self.stats.sent_packets += 1;
                self.stats.sent_bytes += u64::from(size);
                self.lose(step, slot, DropReason::Loss);
            }
        }
        self.aggregator = Some(aggregator);
        if self.down {
            self.give_up(step);
        }
        first
    }

    /// Offers a packet that was due at `due`: now, or in the past. In the latter case an idle transmitter begins as it would have, as far as it
    /// was idle, and the time since the departure is subtracted from the delay.
    pub(crate) fn offer(&mut self, mut step: Step<'_>, due: Timestamp, slot: SlotId) -> Announce {
        self.stats.arrivals += 1;
        if self.down {
            self.lose(&mut step, slot, DropReason::Down);
            return Announce::default();
        }
        let packet = step.arena.packet(slot);
        let queued = Queued {
            slot: slot.0,
            size: packet.size.saturating_add(self.framing),
            flow: packet.flow.0,
            ecn: packet.ecn,
            class: packet.class,
            arrived: step.now,
        };
        self.follow_rate(step.now);
        // Even with an idle transmitter the packet passes through the qdisc: CoDel and RED keep state there.
        let verdict = if self.reads_headers {
            let hosts = step.hops.ends(step.arena.hop(slot));
            let headers = Headers { packet: &packet, hosts };
            self.qdisc.enqueue_with(step.now, queued, &headers, &mut self.dropped)
        } else {
            self.qdisc.enqueue(step.now, queued, &mut self.dropped)
        };
        match verdict {
            Verdict::Dropped(reason) => self.lose(&mut step, slot, reason),
            taken => {
                self.note(step.id, step.now, slot, LinkEvent::Enqueue, step.arena, step.records);
                if taken == Verdict::Marked {
                    self.mark(&mut step, slot);
                }
            }
        }
        self.lose_dropped(&mut step);
        self.transmit(step, due, None)
    }

    /// Starts transmissions until one takes time. Those that take none end at once and not by an event, so that
    /// the next packet offered at the same instant finds the transmitter free, as on the fast path.
    fn transmit(&mut self, mut step: Step<'_>, due: Timestamp, mut arrival: Option<Timestamp>) -> Announce {
        while let Some(departure) = self.start(&mut step, due) {
            if departure > step.now {
                return Announce { arrival, departure: Some(departure), control: None };
            }
            let earlier = self.finish(&mut step);
            arrival = earlier.or(arrival);
        }
        Announce { arrival, departure: self.retry(step.now), control: None }
    }

    /// When to ask the qdisc again, if it has packets that may not leave yet, and no earlier event will.
    fn retry(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.in_service.is_some() || self.is_stopped() {
            return None;
        }
        // By another rate it may be ready earlier.
        let at = self.qdisc.next_ready(now)?.min(self.rate_until);
        let is_first = self.retry <= now || at < self.retry;
        // One that is ready now was asked for just now: it would be asked for without end.
        (is_first && at > now && at.is_set()).then(|| {
            self.retry = at;
            at
        })
    }

    /// Whether the transmitter is free, and what waits may not leave yet as far as the qdisc knows.
    fn is_held_back(&self) -> bool {
        self.in_service.is_none() && !self.is_stopped() && self.qdisc.backlog().0 > 0
    }

    /// The packet in transmission has left: it goes onto the wire, and the next one starts. Or it is time to ask the qdisc again: then there is
    /// nothing to do while another packet is in transmission.
    pub(crate) fn depart(&mut self, mut step: Step<'_>) -> Announce {
        if self.in_service.is_some_and(|packet| packet.end > step.now) {
            return Announce::default();
        }
        let (now, arrival) = (step.now, self.finish(&mut step));
        self.transmit(step, now, arrival)
    }

    /// Ends a transmission. Returns the first arrival that must be announced because it is earlier than any announced before.
    fn finish(&mut self, step: &mut Step<'_>) -> Option<Timestamp> {
        let InService { slot, size, late, .. } = self.in_service.take()?;
        self.idle_since = step.now.saturating_sub(late);
        if self.aggregator.is_some() {
            return self.settle(step);
        }
        self.leave(step, (slot, size), late)
    }

    /// A packet has left: counts it, and loses it or puts it onto the wire. Returns its arrival if that must be announced.
    fn leave(
        &mut self,
        step: &mut Step<'_>,
        (slot, size): (SlotId, u32),
        late: TimeDelta,
    ) -> Option<Timestamp> {
        self.note_left(step, slot);
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(size);
        // Drawn for a lost packet, too: losses do not change the delays of other packets.
        let left = self.idle_since;
        let jitter = self.jitter.as_mut().map_or(TimeDelta::ZERO, |jitter| jitter.extra(left));
        let extra = jitter + self.detour.as_ref().map_or(TimeDelta::ZERO, |steps| steps.at(left));
        let fate =
            self.fates.as_mut().map_or(Fate::WHOLE, |fates| fates.decide(left, &step.arena.packet(slot)));
        if fate.is_lost() {
            self.lose(step, slot, DropReason::Loss);
            return None;
        }
        let (hop, size) = (step.arena.hop(slot), size - self.framing);
        let longer = self.changing.as_ref().map_or(TimeDelta::ZERO, |changing| changing.longer);
        let mut arrival = step.now + (self.delay + longer + extra).saturating_sub(late);
        if !self.may_overtake() {
            arrival = arrival.max(self.last_arrival);
        }
        self.last_arrival = arrival.max(self.last_arrival);
        let packet = OnWire { arrival, slot, hop, size };
        let copy = if fate.is_whole() { None } else { self.befall(step, slot, fate) };
        let announce = self.put_on_wire(step, packet);
        if let Some(slot) = copy {
            // Behind its packet: if that was announced, so is this one, and otherwise neither need be.
            self.put_on_wire(step, OnWire { slot, ..packet });
        }
        announce
    }

    /// A copy is made of the packet, or a bit of it is changed. Returns the copy, which has its next hop from its packet.
    #[cold]
    #[inline(never)]
    fn befall(&mut self, step: &mut Step<'_>, slot: SlotId, fate: Fate) -> Option<SlotId> {
        let copy = fate.is_copied().then(|| step.arena.copy(slot));
        if copy.is_some() {
            self.stats.duplicated += 1;
            self.note(step.id, step.now, slot, LinkEvent::Duplicate, step.arena, step.records);
        }
        if fate.is_damaged() {
            self.stats.corrupted += 1;
            step.arena.damage(slot);
            self.note(step.id, step.now, slot, LinkEvent::Corrupt, step.arena, step.records);
        }
        copy
    }

    /// Puts a packet onto the wire. Returns its arrival if that must be announced because it is earlier than any announced before.
    fn put_on_wire(&mut self, step: &mut Step<'_>, packet: OnWire) -> Option<Timestamp> {
        if self.far != Far::Near {
            step.noted.push(Noted { index: step.index, packet });
            // The arrival is the other part's event, but what is recorded of this link is recorded here.
            if self.far == Far::Elsewhere && !self.record {
                return None;
            }
        }
        let announce = match self.reorders() {
            true => self.reordered.insert(packet),
            false => self.wire.append(packet),
        };
        announce.then_some(packet.arrival)
    }

    /// Takes the packet that arrives now, if there is one, and returns when the next one does.
    pub(crate) fn take(&mut self, step: Step<'_>) -> (Option<OnWire>, Option<Timestamp>) {
        let (packet, next) = if self.reorders() { self.reordered.take(step.now) } else { self.wire.take() };
        if let Some(packet) = packet {
            self.note(step.id, step.now, packet.slot, LinkEvent::Deliver, step.arena, step.records);
        }
        (packet, next)
    }

    /// The link is down, and nothing is in transmission: what would have to be sent again is lost.
    fn give_up(&mut self, step: &mut Step<'_>) {
        while let Some(packet) = self.aggregator.as_mut().and_then(|aggregator| aggregator.discard()) {
            // As it has begun its transmission it is lost after it.
            self.note_left(step, SlotId(packet.slot));
            self.stats.sent_packets += 1;
            self.stats.sent_bytes += u64::from(packet.size);
            self.lose(step, SlotId(packet.slot), DropReason::Loss);
        }
    }

    /// The link goes down or comes up again, is changed as planned, or begins or ends a pause. A packet in transmission is finished.
    pub(crate) fn switch(&mut self, mut step: Step<'_>) -> Announce {
        let (control, departure) = self.follow_plan(&mut step);
        let now = step.now;
        let mut obeyed = Obeyed::default();
        if let Some(pfc) = &mut self.pfc {
            obeyed = pfc.obey(now);
            self.qdisc.hold(pfc.paused());
        }
        self.stats.pauses += obeyed.begun;
        self.stats.paused_time += obeyed.ended;
        if !obeyed.resumed && !self.is_held_back() {
            return Announce { control, departure, ..Announce::default() };
        }
        let announce = self.transmit(step, now, None);
        Announce { control, departure: departure.or(announce.departure), ..announce }
    }

    /// Does what is planned for now, if anything is. Returns when the next thing is planned, and when the packet in transmission will have left, if
    /// that is known only now.
    fn follow_plan(&mut self, step: &mut Step<'_>) -> (Option<Timestamp>, Option<Timestamp>) {
        // An announcement that a skip has superseded, or one of another kind.
        if self.next_switch() != Some(step.now) {
            return (None, None);
        }
        let mut departure = None;
        while let Some(change) = self.take_change(step.now) {
            self.adopt(change);
            departure = self.resume(step.now).or(departure);
        }
        if self.next_outage() == Some(step.now) {
            if self.in_outage {
                self.outages.pop();
            }
            self.in_outage = !self.in_outage;
        }
        self.go_down_or_up(step);
        (self.next_switch(), departure)
    }

    /// The next planned change, if it is that of `now`.
    fn take_change(&mut self, now: Timestamp) -> Option<Prepared> {
        self.changing.as_mut().and_then(|changing| changing.take(now))
    }

    /// Whether it can be changed like that.
    pub(crate) fn check(&self, change: &LinkChange) -> Result<(), ChangeError> {
        if self.changing.is_none() {
            return Err(ChangeError::Fixed);
        }
        let constant = matches!(self.serialiser, None | Some(Serialiser::Constant(_)));
        change.check(!constant || self.aggregator.is_some(), self.detour.is_some())
    }

    /// Changes the link now.
    pub(crate) fn change(&mut self, mut step: Step<'_>, change: Prepared) -> Announce {
        self.adopt(change);
        let departure = self.resume(step.now);
        self.go_down_or_up(&mut step);
        if !self.is_held_back() {
            return Announce { departure, ..Announce::default() };
        }
        let now = step.now;
        self.transmit(step, now, None)
    }

    /// Takes over what a change says. What that means for the packets here is for the caller.
    fn adopt(&mut self, change: Prepared) {
        let Prepared { rate, delay, models, jitter, down } = change;
        if let Some(rate) = rate {
            self.serialiser = Some(Serialiser::Constant(ConstantRate::new(rate)));
            // The qdisc has to hear of it.
            self.rate_until = Timestamp::ZERO;
        }
        if let Some(jitter) = jitter {
            self.jitter = jitter;
        }
        self.fates = Fates::changed(self.fates.take(), models);
        let Some(changing) = &mut self.changing else { return };
        if let Some(delay) = delay {
            // Only one that was not planned is shorter than the least.
            self.delay = self.delay.min(delay);
            changing.longer = delay - self.delay;
        }
        changing.down = down.unwrap_or(changing.down);
        let message_time = pfc::message_time(self.delay + changing.longer, self.rate());
        if let Some(pfc) = &mut self.pfc {
            pfc.set_message_time(message_time);
        }
    }

    /// Begins again with a packet in transmission that would never have left. Returns when it will.
    fn resume(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.follow_rate(now);
        let packet = self.in_service.as_mut().filter(|packet| !packet.end.is_set())?;
        packet.end = self.serialiser.as_mut()?.finish_of(now, packet.size, true);
        packet.late = TimeDelta::ZERO;
        packet.end.is_set().then_some(packet.end)
    }

    /// Whether there is a reason to be down.
    fn is_to_be_down(&self) -> bool {
        self.in_outage || self.changing.as_ref().is_some_and(|changing| changing.down)
    }

    /// The link goes down, which empties its queue, or comes up again, if there is a reason for that; what is on the wire arrives.
    fn go_down_or_up(&mut self, step: &mut Step<'_>) {
        let down = self.is_to_be_down();
        if down == self.down {
            return;
        }
        self.down = down;
        if !down {
            // Nothing can wait, as nothing was accepted: there is no transmission to start.
            self.idle_since = step.now;
            return;
        }
        while let Some(packet) = self.qdisc.discard(step.now, &mut self.dropped) {
            self.lose(step, SlotId(packet.slot), DropReason::Down);
        }
        if self.in_service.is_none() {
            self.give_up(step);
        }
        // Packets that the qdisc would have dropped on the way out count as lost to the outage.
        for (_, reason) in &mut self.dropped.0 {
            *reason = DropReason::Down;
        }
        self.lose_dropped(step);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::schedule::{RateSchedule, Steps};

    /// An empty queue that records the rates passed to it.
    #[derive(Debug)]
    struct Listener(Sender<u64>);

    impl Qdisc for Listener {
        fn enqueue(&mut self, _: Timestamp, _: Queued, _: &mut Dropped) -> Verdict {
            Verdict::Dropped(DropReason::Overflow)
        }
        fn dequeue(&mut self, _: Timestamp, _: &mut Dropped) -> Option<Queued> {
            None
        }
        fn backlog(&self) -> (u32, u64) {
            (0, 0)
        }
        fn set_rate(&mut self, rate: Rate) {
            self.0.send(rate.as_bps()).unwrap();
        }
    }

    #[test]
    fn the_qdisc_is_told_of_each_rate_before_its_next_packet() {
        let (told, heard) = channel();
        let steps =
            [(TimeDelta::from_millis(2), Rate::from_bps(0)), (TimeDelta::from_millis(5), Rate::from_bps(7))];
        let schedule = RateSchedule::new(Steps::new(Rate::from_bps(3), &steps, None).unwrap());
        let qdisc = AnyQdisc::Boxed(Box::new(Listener(told)));
        let mut general = General::new(Parts {
            qdisc,
            serialiser: Some(Serialiser::Scheduled(schedule)),
            aggregator: None,
            delay: TimeDelta::ZERO,
            jitter: None,
            detour: None,
            framing: 0,
            fates: None,
            outages: vec![],
            changing: None,
            pfc: None,
            counts_sources: false,
            record: false,
        });
        let mut rates_at = |millis| {
            general.follow_rate(Timestamp::from_millis(millis));
            heard.try_iter().collect::<Vec<_>>()
        };
        assert_eq!(
            [0, 1, 2, 3, 5, 9].map(&mut rates_at),
            [vec![3], vec![], vec![0], vec![], vec![7], vec![]]
        );
    }

    #[test]
    fn outages_are_put_in_order_and_apart() {
        let at = Timestamp::from_secs;
        let given = vec![
            (at(5), at(6)),
            (at(1), at(3)),
            (at(2), at(4)),
            (at(4), at(4)),
            (at(6), at(8)),
            (at(7), at(7)),
        ];
        assert_eq!(normalised(given), [(at(1), at(4)), (at(5), at(8))]);
        assert_eq!(normalised(vec![(at(9), at(2)), (at(3), Timestamp::NEVER)]), [(at(3), Timestamp::NEVER)]);
    }
}
