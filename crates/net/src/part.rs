//! A part of a network: links, the packets on them, and the events that move them. A network that is not cut has one part.
//!
//! A packet that crosses a cut leaves its part when it is put onto the wire: from then on its arrival is certain. It enters the other
//! part as a [`Crossing`], and waits there on an [`Incoming`](crate::incoming::Incoming) wire.

use warpline_core::record::LinkRecord;
use warpline_core::{Body, LinkId, Packet, Streams, TimeDelta, TimerId, Timestamp};

use crate::arena::{Arena, OnWire, Rare, SlotId};
use crate::change::{ChangeError, LinkChange};
use crate::crossing::Crossing;
use crate::events::{Class, EventQueue, Key, MAX_INDEX};
use crate::far::{Far, Noted};
use crate::fate::Fate;
use crate::fifo::Accepted;
use crate::general::{Announce, General, Left, Step};
use crate::hops::{HopId, Hops};
use crate::hosts::{Hosts, Pause, RouteId, Settled};
use crate::link::{Kind, Link};
use crate::near::First;

/// The last possible instant.
const LAST: Timestamp = Timestamp::from_nanos(u64::MAX - 1);

/// A timer of a host.
#[derive(Clone, Copy, Debug)]
struct Timer {
    /// When the host wants to be called.
    deadline: Timestamp,
    /// The earliest pending event: not after the deadline.
    pending: Timestamp,
}

impl Timer {
    const STOPPED: Timer = Timer { deadline: Timestamp::NEVER, pending: Timestamp::NEVER };
}

/// Links, packets, events and timers. On cache lines of its own, since another thread may run the part that is next to it in memory.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Part {
    arena: Arena,
    pub(crate) events: EventQueue,
    /// In the order of their numbers in the network, which decides between events of one instant.
    pub(crate) links: Vec<Link>,
    pub(crate) hops: Hops,
    timers: Vec<Timer>,
    records: Vec<LinkRecord>,
    /// Packets put onto the wires of links that are watched or lead to other parts, since they were last taken.
    noted: Vec<Noted>,
    /// Packets that have left a node with priority flow control.
    left: Vec<Left>,
    /// For each link that leads to another part: that part, and the link's number there.
    pub(crate) exits: Vec<(u32, u32)>,
    /// The difference of the numbers of two packets in a row that enter over the same link: at least the links of the whole network.
    pub(crate) numbers: u64,
    sent: u64,
    delivered: u64,
    pub(crate) now: Timestamp,
    handled: u64,
    /// Events that are there only because the network is cut.
    extra: u64,
}

/// A host's access to the network during a call.
#[derive(Debug)]
pub struct Port<'a> {
    pub(crate) part: &'a mut Part,
    pub(crate) now: Timestamp,
}

impl Port<'_> {
    /// Sends a packet now. The network numbers it.
    #[inline]
    pub fn send(&mut self, route: RouteId, packet: Packet) {
        self.part.send(self.now, route, packet);
    }

    /// Sends a packet that was due at `due`: now, if that is the current time. If `due` has passed (a packet from outside that was
    /// seen late), the packet travels as if it had come in time, as far as later events allow: it is behind all packets
    /// sent before, and is admitted to the queue of its first link as that is now, but its transmission there begins
    /// when it could have begun then. The time since then is subtracted from its time on the wire.
    ///
    /// Returns by how much it will still leave that link later, as far as that is known at once: a link with random
    /// delays, a varying rate or the like is assumed to make up for everything.
    #[inline]
    pub fn send_at(&mut self, due: Timestamp, route: RouteId, packet: Packet) -> TimeDelta {
        if due >= self.now {
            self.part.send(self.now, route, packet);
            TimeDelta::ZERO
        } else {
            self.part.send_late(self.now, due, route, packet)
        }
    }

    /// Requests a call of [`Hosts::handle_timeout`] at `deadline`, or earlier if an earlier one was requested before. Timers should be
    /// numbered from 0 on: each number below the largest takes memory.
    ///
    /// # Panics
    /// If the timer's number is 2^30 - 1 or more.
    #[inline]
    pub fn set_timer(&mut self, timer: TimerId, deadline: Timestamp) {
        let deadline = deadline.min(self.part.timer(timer).deadline);
        self.part.set_timer(self.now, timer, deadline);
    }

    /// Requests a call of [`Hosts::handle_timeout`] at `deadline` instead of the one requested before; none at [`Timestamp::NEVER`]. Timers
    /// should be numbered from 0 on, as for [`set_timer`](Self::set_timer).
    ///
    /// # Panics
    /// If the timer's number is 2^30 - 1 or more.
    #[inline]
    pub fn reset_timer(&mut self, timer: TimerId, deadline: Timestamp) {
        self.part.set_timer(self.now, timer, deadline);
    }
}

impl Part {
    #[inline]
    fn send(&mut self, now: Timestamp, route: RouteId, mut packet: Packet) {
        packet.id = self.number(route);
        let size = packet.size;
        let slot = self.arena.insert(&packet);
        self.forward(now, slot, route.0, size);
    }

    /// A number for a packet that is sent on a route. It tells the first link and how many packets that has had, so that it does not
    /// depend on what happens elsewhere.
    #[inline]
    fn number(&mut self, route: RouteId) -> u64 {
        self.sent += 1;
        self.links[self.hops.at(route.0).link().index()].number(self.numbers)
    }

    /// Sends a packet that was due before `now`. Only the first link can make up for it.
    #[cold]
    #[inline(never)]
    fn send_late(&mut self, now: Timestamp, due: Timestamp, route: RouteId, mut packet: Packet) -> TimeDelta {
        packet.id = self.number(route);
        let slot = self.arena.insert(&packet);
        let (id, hop, size) = (self.hops.at(route.0).link(), route.0.next(), packet.size);
        let fifo = match &mut self.links[id.index()].kind {
            Kind::Fifo(fifo) => fifo,
            Kind::General(_) | Kind::Incoming(_) => {
                self.arena.set_hop(slot, hop);
                self.offer_general(now, due, slot, id);
                return TimeDelta::ZERO;
            }
        };
        let at = fifo.in_order(due);
        let accepted = match fifo.offer(now, at, (slot, size), &mut self.arena) {
            Some(accepted) if !accepted.fate.is_lost() => accepted,
            _ => {
                self.arena.drop_packet(slot);
                return TimeDelta::ZERO;
            }
        };
        let on_wire = fifo.wire().last_arrival().unwrap_or(now);
        let arrival = accepted.arrival.max(now).max(on_wire);
        let copy = self.befall(slot, accepted.fate);
        for slot in [slot].into_iter().chain(copy) {
            self.carry(now, id, OnWire { arrival, slot, hop, size });
        }
        now.saturating_since(accepted.arrival)
    }

    /// A copy is made of a packet, or a bit of it is changed, or nothing happens to it. Returns the copy.
    fn befall(&mut self, slot: SlotId, fate: Fate) -> Option<SlotId> {
        let copy = fate.is_copied().then(|| self.arena.copy(slot));
        if fate.is_damaged() {
            self.arena.damage(slot);
        }
        copy
    }

    /// A packet leaves a link on the fast path: it goes over the next one at once, or onto the wire.
    fn carry(&mut self, now: Timestamp, id: LinkId, packet: OnWire) {
        let OnWire { arrival, slot, hop, size } = packet;
        if self.hops.at(hop).is_express() {
            return self.forward_from(now, arrival, slot, hop, size);
        }
        let Kind::Fifo(fifo) = &mut self.links[id.index()].kind else { return };
        if fifo.far() != Far::Near {
            self.noted.push(Noted { index: id.0, packet });
            if fifo.far() == Far::Elsewhere {
                return;
            }
        }
        if fifo.wire().append(packet) {
            self.events.push_arrival(arrival, id.0);
        }
    }

    /// Something becomes of a packet on the wire of a link on the fast path. Returns whether the packet is to go on from there, over an express hop.
    #[cold]
    #[inline(never)]
    fn suffer(&mut self, now: Timestamp, id: LinkId, packet: OnWire, fate: Fate) -> bool {
        if fate.is_lost() {
            self.arena.drop_packet(packet.slot);
            return false;
        }
        let copy = self.befall(packet.slot, fate);
        // Only a packet that is copied goes on from here: so calls within calls are no more than its copies.
        if copy.is_none() && self.hops.at(packet.hop).is_express() {
            return true;
        }
        for slot in [packet.slot].into_iter().chain(copy) {
            self.carry(now, id, OnWire { slot, ..packet });
        }
        false
    }

    /// The timer of this number, which is made if need be.
    #[inline]
    fn timer(&mut self, timer: TimerId) -> &mut Timer {
        if timer.index() >= self.timers.len() {
            self.add_timers(timer);
        }
        &mut self.timers[timer.index()]
    }

    #[cold]
    #[inline(never)]
    fn add_timers(&mut self, last: TimerId) {
        assert!(last.index() <= MAX_INDEX, "timer {}: the largest number is {MAX_INDEX}", last.0);
        self.timers.resize(last.index() + 1, Timer::STOPPED);
        self.events.add(Class::Timer, last.0);
    }

    #[inline]
    fn set_timer(&mut self, now: Timestamp, id: TimerId, deadline: Timestamp) {
        let timer = self.timer(id);
        timer.deadline = deadline;
        // An event at the old deadline may stay: when it comes, the timer waits on.
        if deadline < timer.pending {
            let at = deadline.max(now);
            timer.pending = at;
            self.events.push_near(at, Class::Timer, id.0);
        }
    }

    /// An event of a timer. Returns whether its host is to be called.
    #[inline]
    fn expire(&mut self, now: Timestamp, id: TimerId) -> bool {
        let timer = &mut self.timers[id.index()];
        // An earlier event has taken the place of this one.
        if timer.pending != now {
            return false;
        }
        if timer.deadline <= now {
            *timer = Timer::STOPPED;
            return true;
        }
        timer.pending = timer.deadline;
        if timer.pending.is_set() {
            self.events.push_near(timer.pending, Class::Timer, id.0);
        }
        false
    }

    /// Moves the packet of `slot` along its route, from the link at `hop` on, until it is on a wire whose arrival is an event.
    ///
    /// A link that is fed by only one link takes its packets in the order in which that one sends them, so the path over
    /// both can be computed at once: an *express* hop, without an event. Only where flows can meet is an event needed.
    #[inline]
    fn forward(&mut self, now: Timestamp, slot: SlotId, hop: HopId, size: u32) {
        self.forward_from(now, now, slot, hop, size);
    }

    /// The same for a packet that is at the start of that link at `at`, which may be ahead of the current time.
    // One copy for all callers, with `offer` inside it: a call for each packet sent or arrived, not for each hop.
    #[inline(never)]
    fn forward_from(&mut self, now: Timestamp, mut at: Timestamp, slot: SlotId, mut hop: HopId, size: u32) {
        let mut this = self.hops.at(hop);
        loop {
            let id = this.link();
            hop = hop.next();
            let fifo = match &mut self.links[id.index()].kind {
                Kind::Fifo(fifo) => fifo,
                Kind::General(_) | Kind::Incoming(_) => {
                    self.arena.set_hop(slot, hop);
                    return self.offer_general(now, now, slot, id);
                }
            };
            let accepted = match fifo.offer(now, at, (slot, size), &mut self.arena) {
                Some(accepted) if accepted.fate.is_whole() => accepted,
                Some(Accepted { arrival, fate }) => {
                    if !self.suffer(now, id, OnWire { arrival, slot, hop, size }, fate) {
                        return;
                    }
                    this = self.hops.at(hop);
                    at = arrival;
                    continue;
                }
                None => return self.arena.drop_packet(slot),
            };
            this = self.hops.at(hop);
            if !this.is_express() {
                let packet = OnWire { arrival: accepted.arrival, slot, hop, size };
                if fifo.far() != Far::Near {
                    self.noted.push(Noted { index: id.0, packet });
                    if fifo.far() == Far::Elsewhere {
                        return;
                    }
                }
                if fifo.wire().append(packet) {
                    self.events.push_arrival(accepted.arrival, id.0);
                }
                return;
            }
            at = accepted.arrival;
        }
    }

    /// Lets the link `id` take a step, if it is a general one.
    #[inline]
    fn step_general<T>(
        &mut self,
        now: Timestamp,
        index: u32,
        take: impl FnOnce(&mut General, Step<'_>) -> T,
    ) -> Option<T> {
        let link = &mut self.links[index as usize];
        let (id, Kind::General(general)) = (link.id, &mut link.kind) else { return None };
        let (arena, hops) = (&mut self.arena, &self.hops);
        let (records, noted, left) = (&mut self.records, &mut self.noted, &mut self.left);
        Some(take(general, Step { id, index, now, arena, hops, records, noted, left }))
    }

    #[inline(never)]
    fn offer_general(&mut self, now: Timestamp, due: Timestamp, slot: SlotId, id: LinkId) {
        let has_room = self.take_in(now, slot, id);
        let announce = self.step_general(now, id.0, |general, step| match has_room {
            true => general.offer(step, due, slot),
            false => general.refuse(step, slot),
        });
        self.announce(announce.unwrap_or_default(), id.0);
        self.count_left(now);
    }

    /// Counts a packet that is about to wait for a link, if the node uses priority flow control. Returns whether there is room for it.
    fn take_in(&mut self, now: Timestamp, slot: SlotId, id: LinkId) -> bool {
        let counts =
            matches!(&self.links[id.index()].kind, Kind::General(general) if general.counts_sources());
        let Some(source) = counts.then(|| self.hops.source(self.arena.hop(slot))).flatten() else {
            return true;
        };
        let Some(pfc) = self.links[source.index()].pfc() else { return true };
        let (has_room, message) = pfc.arrive(now, self.arena.class(slot), self.arena.size(slot));
        if let Some(at) = message {
            self.events.push(Key::new(at, Class::Control, source.0));
        }
        has_room
    }

    /// Counts packets that have left a node with priority flow control.
    #[inline]
    fn count_left(&mut self, now: Timestamp) {
        while let Some(Left { after, class, size }) = self.left.pop() {
            let Some(source) = self.hops.source(after) else { continue };
            let message = self.links[source.index()].pfc().and_then(|pfc| pfc.leave(now, class, size));
            if let Some(at) = message {
                self.events.push(Key::new(at, Class::Control, source.0));
            }
        }
    }

    fn announce(&mut self, announce: Announce, index: u32) {
        if let Some(time) = announce.control {
            self.events.push(Key::new(time, Class::Control, index));
        }
        if let Some(time) = announce.departure {
            self.events.push_near(time, Class::Departure, index);
        }
        if let Some(time) = announce.arrival {
            self.events.push_near(time, Class::Arrival, index);
        }
    }

    /// A packet has arrived at the far end of a link: takes it off its wire, and announces the one behind it.
    #[inline(always)]
    fn take_near(&mut self, first: First) -> Option<OnWire> {
        let index = first.item.index();
        let (packet, next) = match &mut self.links[index as usize].kind {
            Kind::Fifo(fifo) => fifo.wire().take(),
            Kind::Incoming(incoming) if incoming.is_ordered() => self.take_incoming(first.time, index),
            Kind::Incoming(_) | Kind::General(_) => {
                self.events.take_near(first);
                return self.take_arrival_general(first.time, index);
            }
        };
        self.events.take_near(first);
        if let Some(time) = next {
            self.events.push_arrival(time, index);
        }
        packet
    }

    /// The same for an event that is not in the wheel.
    fn take_arrival(&mut self, now: Timestamp, top: Key) -> Option<OnWire> {
        let index = top.index();
        let (packet, next) = match &mut self.links[index as usize].kind {
            Kind::Fifo(fifo) => fifo.wire().take(),
            Kind::Incoming(incoming) if incoming.is_ordered() => self.take_incoming(now, index),
            Kind::Incoming(_) | Kind::General(_) => {
                self.events.take_top(top);
                return self.take_arrival_general(now, index);
            }
        };
        self.events.take_top(top);
        if let Some(time) = next {
            self.events.push_arrival(time, index);
        }
        packet
    }

    /// Moves a packet that has come over a link to the next one, or to the endpoint.
    #[inline(always)]
    fn arrive<H: Hosts>(&mut self, now: Timestamp, arrived: Option<OnWire>, hosts: &mut H) {
        let Some(arrived) = arrived else { return };
        if !self.hops.at(arrived.hop).is_end() {
            return self.forward(now, arrived.slot, arrived.hop, arrived.size);
        }
        // Copied out, as the answer is likely to reuse its slot first.
        let Some(packet) = self.arena.plain(arrived.slot) else {
            return self.deliver(now, arrived.slot, hosts);
        };
        self.arena.free(arrived.slot);
        self.delivered += 1;
        hosts.handle_packet(now, &packet, &mut Port { part: self, now });
    }

    /// The same, kept out of the common path.
    #[inline(never)]
    fn arrive_from_afar<H: Hosts>(&mut self, now: Timestamp, arrived: Option<OnWire>, hosts: &mut H) {
        let Some(arrived) = arrived else { return };
        if !self.hops.at(arrived.hop).is_end() {
            return self.forward(now, arrived.slot, arrived.hop, arrived.size);
        }
        self.deliver(now, arrived.slot, hosts);
    }

    #[inline(never)]
    fn take_arrival_general(&mut self, now: Timestamp, index: u32) -> Option<OnWire> {
        let (packet, next) = match self.step_general(now, index, General::take) {
            Some(taken) => taken,
            None => {
                let (packet, next) = self.take_incoming(now, index);
                if let Some(time) = next {
                    self.events.push_near(time, Class::Arrival, index);
                }
                return packet;
            }
        };
        if let Some(time) = next {
            self.events.push_near(time, Class::Arrival, index);
        }
        if let Some(packet) = packet
            && self.links[index as usize].far() != Far::Elsewhere
        {
            return Some(packet);
        }
        // Nothing came, or it was here only to be recorded.
        self.extra += 1;
        if let Some(packet) = packet {
            self.arena.free(packet.slot);
        }
        None
    }

    /// The packet that arrives from another part, and when the next one does.
    #[inline(never)]
    fn take_incoming(&mut self, now: Timestamp, index: u32) -> (Option<OnWire>, Option<Timestamp>) {
        let Kind::Incoming(incoming) = &mut self.links[index as usize].kind else { return (None, None) };
        let (packet, next) = incoming.take(now);
        if packet.is_none_or(|packet| self.hops.at(packet.hop).is_entry()) {
            self.extra += 1;
        }
        (packet, next)
    }

    /// Delivers a packet of any kind.
    #[inline(never)]
    fn deliver<H: Hosts>(&mut self, now: Timestamp, slot: SlotId, hosts: &mut H) {
        let mut packet = self.arena.packet(slot);
        self.arena.free(slot);
        self.delivered += 1;
        if let Body::Frame(frame) = &mut packet.body
            && self.arena.unshare(frame.handle)
        {
            let Some(handle) = hosts.copy_frame(frame.handle) else { return };
            frame.handle = handle;
        }
        let port = &mut Port { part: self, now };
        match packet.damaged {
            false => hosts.handle_packet(now, &packet, port),
            true => hosts.handle_damaged(now, &packet, port),
        }
    }

    /// Handles an event of a timer.
    #[inline(never)]
    fn time_out<H: Hosts>(&mut self, now: Timestamp, timer: TimerId, hosts: &mut H) {
        if self.expire(now, timer) {
            hosts.handle_timeout(now, timer, &mut Port { part: self, now });
        }
    }

    #[inline(never)]
    fn general_event(&mut self, now: Timestamp, class: Class, index: u32) {
        let announce = self.step_general(now, index, |general, step| {
            if class == Class::Departure { general.depart(step) } else { general.switch(step) }
        });
        self.announce(announce.unwrap_or_default(), index);
        self.count_left(now);
    }

    /// Changes a link now.
    pub(crate) fn change(
        &mut self,
        index: u32,
        change: &LinkChange,
        streams: &Streams,
    ) -> Result<(), ChangeError> {
        let (link, now) = (&self.links[index as usize], self.now);
        let Kind::General(general) = &link.kind else { return Err(ChangeError::Fixed) };
        general.check(change)?;
        let prepared = change.prepare(link.name(), now, streams);
        let announce = self.step_general(now, index, |general, step| general.change(step, prepared));
        self.announce(announce.unwrap_or_default(), index);
        self.count_left(now);
        Ok(())
    }

    /// Handles events in order until the next one is later than `limit`, or `budget` of them have been handled; never stops between two
    /// events of one instant.
    pub(crate) fn run_until<H: Hosts>(&mut self, limit: Timestamp, hosts: &mut H, budget: u64) -> Pause {
        // Events at `NEVER` are not handled at the end of time either.
        let limit = limit.min(LAST);
        let mut handled = 0;
        let pause = loop {
            // Nearly all events are in the near future.
            if let Some(first) = self.events.first_near() {
                if first.time > limit {
                    break Pause::Reached;
                }
                if handled >= budget && first.time > self.now {
                    break Pause::Budget;
                }
                handled += 1;
                self.now = first.time;
                match first.item.class() {
                    Class::Arrival => {
                        let arrived = self.take_near(first);
                        self.arrive(first.time, arrived, hosts);
                    }
                    Class::Timer => {
                        self.events.take_near(first);
                        self.time_out(first.time, TimerId(first.item.index()), hosts);
                    }
                    class => {
                        self.events.take_near(first);
                        self.general_event(first.time, class, first.item.index());
                    }
                }
                continue;
            }
            let Some(key) = self.events.peek() else { break Pause::Reached };
            let now = key.time();
            if now > limit {
                break Pause::Reached;
            }
            if handled >= budget && now > self.now {
                break Pause::Budget;
            }
            handled += 1;
            debug_assert!(now >= self.now, "an event in the past");
            self.now = now;
            match key.class() {
                Class::Arrival => {
                    let arrived = self.take_arrival(now, key);
                    self.arrive_from_afar(now, arrived, hosts);
                }
                Class::Timer => {
                    self.events.take_top(key);
                    self.time_out(now, TimerId(key.index()), hosts);
                }
                class @ (Class::Control | Class::Departure) => {
                    self.events.take_top(key);
                    self.general_event(now, class, key.index());
                }
            }
        };
        self.handled += handled;
        if pause == Pause::Reached {
            self.now = self.now.max(limit);
        }
        pause
    }

    /// As [`run_until`](Self::run_until), with the first instant whose events are not handled.
    pub(crate) fn run_before<H: Hosts>(&mut self, end: Timestamp, hosts: &mut H, budget: u64) -> Pause {
        self.run_until(Timestamp::from_nanos(end.as_nanos().saturating_sub(1)), hosts, budget)
    }

    /// Everything up to `now` has been handled.
    pub(crate) fn advance_to(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// When the next planned change of a link is.
    pub(crate) fn next_change(&self) -> Timestamp {
        let changes = self.links.iter().map(|link| link.next_change(self.now));
        changes.min().unwrap_or(Timestamp::NEVER)
    }

    /// Lets every planned change of a link happen `span` earlier.
    pub(crate) fn skip(&mut self, span: TimeDelta) {
        for index in 0..self.links.len() {
            let announce = self.links[index].skip(self.now, span);
            self.announce(announce, index as u32);
        }
    }

    /// Time of the next event, if any.
    pub(crate) fn next_event(&mut self) -> Option<Timestamp> {
        self.events.peek().map(Key::time)
    }

    /// Packets put onto the wires of watched links since the last call, with the time and contents of their arrivals.
    pub(crate) fn take_settled(&mut self) -> impl Iterator<Item = Settled> + '_ {
        let Part { noted, hops, arena, now, .. } = self;
        let (now, hops, arena) = (*now, &*hops, &*arena);
        let ours = move |noted: &Noted| noted.packet.arrival > now && hops.at(noted.packet.hop).is_end();
        noted.drain(..).filter(ours).map(move |Noted { packet, .. }| Settled {
            arrival: packet.arrival,
            packet: arena.packet(packet.slot),
        })
    }

    /// Hands the packets that have left for other parts since the last call to `enter`, with the number of the part.
    pub(crate) fn leave(&mut self, mut enter: impl FnMut(usize, Crossing, Option<&Rare>)) {
        for Noted { index, packet: OnWire { arrival, slot, hop, .. } } in self.noted.drain(..) {
            let (part, number) = self.exits[index as usize];
            let (&fields, rare) = self.arena.fields(slot);
            enter(part as usize, Crossing { arrival, index: number, hop, fields }, rare);
            // What is recorded at the far end is recorded here.
            if !self.links[index as usize].is_recorded() {
                self.arena.free(slot);
            }
        }
    }

    /// A packet comes from another part.
    pub(crate) fn enter(&mut self, crossing: &Crossing, rare: Option<Rare>) {
        let &Crossing { arrival, index, hop, ref fields } = crossing;
        debug_assert!(arrival > self.now, "a packet from another part is late");
        let slot = self.arena.put(fields, rare);
        let Kind::Incoming(incoming) = &mut self.links[index as usize].kind else { return };
        let ordered = incoming.is_ordered();
        if incoming.append(OnWire { arrival, slot, hop, size: fields.size() }) {
            match ordered {
                true => self.events.push_arrival(arrival, index),
                false => self.events.push_near(arrival, Class::Arrival, index),
            }
        }
    }

    /// Adds a link, whose random models and queue are ready.
    pub(crate) fn add_link(&mut self, link: Link) {
        let index = self.links.len() as u32;
        self.events.add(Class::Arrival, index);
        if link.has_departures() {
            self.events.add(Class::Departure, index);
        }
        if let Kind::General(general) = &link.kind
            && let Some(at) = general.next_switch()
        {
            self.events.push(Key::new(at, Class::Control, index));
        }
        self.links.push(link);
    }

    /// Whether nothing has happened yet: no packet, no timer, no link watched.
    pub(crate) fn is_new(&self) -> bool {
        self.sent == 0 && self.timers.is_empty() && self.links.iter().all(|link| link.far() == Far::Near)
    }
    /// Packets sent by its hosts so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
    /// Packets delivered to its hosts so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }
    /// Packets in this part that are neither delivered nor lost. Negative if copies have left for another part whose packets have yet to be copied here.
    pub(crate) fn under_way(&self) -> i64 {
        // A link on the fast path gives up a packet as soon as its loss is certain, which may be ahead of time. A packet that has left
        // may still be here for the records.
        let doomed: usize = self.links.iter().map(|link| link.doomed(self.now)).sum();
        let copies: usize = self.links.iter().map(|link| link.copies() + link.unborn(self.now)).sum();
        (self.arena.live() + doomed) as i64 - copies as i64
    }
    /// Events handled so far, without those that are there only because the network is cut.
    pub(crate) fn events(&self) -> u64 {
        self.handled - self.extra
    }
    /// Links crossed by packets so far.
    pub(crate) fn packet_hops(&mut self) -> u64 {
        let now = self.now;
        self.links.iter_mut().map(|link| link.sent_packets(now)).sum()
    }
    /// The records since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<LinkRecord> {
        std::mem::take(&mut self.records)
    }
    /// Number of records not taken yet.
    pub(crate) fn pending_records(&self) -> usize {
        self.records.len()
    }
    /// Handles of the frames dropped since the last call.
    pub(crate) fn take_released(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.arena.released()
    }
}
