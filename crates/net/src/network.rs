//! The network: packets hop from link to link along their routes, and hosts are called when something arrives for them.
//!
//! The network knows endpoints only by number. The hosts are behind [`Hosts`], which gets the network's [`Port`] to send
//! packets and set timers with.

use thiserror::Error;
use warpline_core::record::LinkRecord;
use warpline_core::{EndpointId, LinkId, Packet, Stream, Streams, TimeDelta, Timestamp};

use crate::arena::{Arena, OnWire, SlotId};
use crate::events::{Class, EventQueue, Key, MAX_INDEX};
use crate::fifo::Fifo;
use crate::general::{self, Announce, General, Step};
use crate::hops::{HopId, Hops};
use crate::link::{Kind, Link, LinkConfig, LinkStats, RateConfig};
use crate::near::First;
use crate::qdisc::{AnyQdisc, DropTail, Limit, OwnQueue, QdiscConfig};

/// The hosts: called when a packet arrives or a timer fires.
pub trait Hosts {
    /// A packet has arrived at the endpoint it is addressed to.
    fn handle_packet(&mut self, now: Timestamp, packet: &Packet, port: &mut Port<'_>);
    /// The endpoint's timer has fired. It may be early: a deadline that moved later is not removed from the queue, so the
    /// endpoint must check its own deadline and set the timer again.
    fn handle_timeout(&mut self, now: Timestamp, endpoint: EndpointId, port: &mut Port<'_>);
}

/// A sequence of links from one node to another. Made by [`Network::add_route`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteId(HopId);

/// The last possible instant.
const LAST: Timestamp = Timestamp::from_nanos(u64::MAX - 1);

/// Everything but the hosts: links, packets, events, timers.
#[derive(Debug)]
struct Core {
    arena: Arena,
    events: EventQueue,
    links: Vec<Link>,
    hops: Hops,
    /// Earliest pending timer event of each endpoint.
    timers: Vec<Timestamp>,
    records: Vec<LinkRecord>,
    /// Packets put onto the wires of watched links since they were last taken.
    settled: Vec<OnWire>,
    next_packet: u64,
    delivered: u64,
}

/// A packet whose arrival at its endpoint is certain.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// When it will be passed to [`Hosts::handle_packet`].
    pub arrival: Timestamp,
    /// The packet as it will be then.
    pub packet: Packet,
}

/// The network.
#[derive(Debug)]
pub struct Network {
    core: Core,
    now: Timestamp,
    handled: u64,
}

/// Why [`Network::run_until`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Everything up to the limit has been handled.
    Reached,
    /// The event budget is used up; there is more to do before the limit.
    Budget,
}

/// A host's access to the network during a call.
#[derive(Debug)]
pub struct Port<'a> {
    core: &'a mut Core,
    now: Timestamp,
}

impl Port<'_> {
    /// Sends a packet now. The network numbers it.
    #[inline]
    pub fn send(&mut self, route: RouteId, packet: Packet) {
        self.core.send(self.now, route, packet);
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
            self.core.send(self.now, route, packet);
            TimeDelta::ZERO
        } else {
            self.core.send_late(self.now, due, route, packet)
        }
    }

    /// Requests a call of [`Hosts::handle_timeout`] at `deadline`, or earlier if an earlier one was requested before. Endpoints should be
    /// numbered from 0 on: each number below the largest takes memory.
    ///
    /// # Panics
    /// If the endpoint's number is 2^30 or more.
    #[inline]
    pub fn set_timer(&mut self, endpoint: EndpointId, deadline: Timestamp) {
        self.core.set_timer(self.now, endpoint, deadline);
    }
}

impl Core {
    #[inline]
    fn send(&mut self, now: Timestamp, route: RouteId, mut packet: Packet) {
        packet.id = self.next_packet;
        self.next_packet += 1;
        let size = packet.size;
        let slot = self.arena.insert(&packet);
        self.forward(now, slot, route.0, size);
    }

    /// Sends a packet that was due before `now`. Only the first link can make up for it.
    #[cold]
    #[inline(never)]
    fn send_late(&mut self, now: Timestamp, due: Timestamp, route: RouteId, mut packet: Packet) -> TimeDelta {
        packet.id = self.next_packet;
        self.next_packet += 1;
        let slot = self.arena.insert(&packet);
        let (id, hop, size) = (self.hops.at(route.0).link(), route.0.next(), packet.size);
        let fifo = match &mut self.links[id.index()].kind {
            Kind::Fifo(fifo) => fifo,
            Kind::General(_) => {
                self.arena.set_hop(slot, hop);
                self.offer_general(now, due, slot, id);
                return TimeDelta::ZERO;
            }
        };
        let at = fifo.in_order(due);
        let accepted = match fifo.offer(now, at, (slot, size), &self.arena) {
            Some(accepted) if !accepted.lost => accepted,
            _ => {
                self.arena.drop_packet(slot);
                return TimeDelta::ZERO;
            }
        };
        let on_wire = fifo.wire().last_arrival().unwrap_or(now);
        let arrival = accepted.arrival.max(now).max(on_wire);
        let left = now.saturating_since(accepted.arrival);
        if self.hops.at(hop).is_express() {
            self.forward_from(now, arrival, slot, hop, size);
            return left;
        }
        if fifo.wire().append(OnWire { arrival, slot, hop, size }) {
            self.events.push_arrival(arrival, id.0);
        }
        left
    }

    #[inline]
    fn set_timer(&mut self, now: Timestamp, endpoint: EndpointId, deadline: Timestamp) {
        let index = endpoint.index();
        if index >= self.timers.len() {
            assert!(index <= MAX_INDEX, "endpoint {index}: the largest number is {MAX_INDEX}");
            self.timers.resize(index + 1, Timestamp::NEVER);
        }
        if deadline < self.timers[index] {
            let deadline = deadline.max(now);
            self.timers[index] = deadline;
            self.events.push(Key::new(deadline, Class::Timer, endpoint.0));
        }
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
                Kind::General(_) => {
                    self.arena.set_hop(slot, hop);
                    return self.offer_general(now, now, slot, id);
                }
            };
            let accepted = match fifo.offer(now, at, (slot, size), &self.arena) {
                Some(accepted) if !accepted.lost => accepted,
                _ => return self.arena.drop_packet(slot),
            };
            this = self.hops.at(hop);
            if !this.is_express() {
                let packet = OnWire { arrival: accepted.arrival, slot, hop, size };
                if fifo.is_watched() {
                    self.settled.push(packet);
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
        id: LinkId,
        take: impl FnOnce(&mut General, Step<'_>) -> T,
    ) -> Option<T> {
        let Kind::General(general) = &mut self.links[id.index()].kind else { return None };
        let (arena, records, settled) = (&mut self.arena, &mut self.records, &mut self.settled);
        Some(take(general, Step { id, now, arena, records, settled }))
    }

    #[inline(never)]
    fn offer_general(&mut self, now: Timestamp, due: Timestamp, slot: SlotId, id: LinkId) {
        let announce = self.step_general(now, id, |general, step| general.offer(step, due, slot));
        self.announce(announce.unwrap_or_default(), id.0);
    }

    fn announce(&mut self, announce: Announce, index: u32) {
        let events = [
            (announce.control, Class::Control),
            (announce.departure, Class::Departure),
            (announce.arrival, Class::Arrival),
        ];
        for (time, class) in events {
            if let Some(time) = time {
                self.events.push(Key::new(time, class, index));
            }
        }
    }

    /// The packet at the head of a wire has arrived, on the fast path: takes it out, and announces the one behind it.
    #[inline(always)]
    fn take_near(&mut self, first: First) -> Option<OnWire> {
        let (packet, next) = match &mut self.links[first.index as usize].kind {
            Kind::Fifo(fifo) => fifo.wire().take(),
            // Its arrivals are not in the wheel of near events.
            Kind::General(_) => (None, None),
        };
        self.events.take_near(first);
        if let Some(time) = next {
            self.events.push_arrival(time, first.index);
        }
        packet
    }

    /// The same for every kind of link.
    fn take_arrival(&mut self, now: Timestamp, top: Key) -> Option<OnWire> {
        let index = top.index();
        let Kind::Fifo(fifo) = &mut self.links[index as usize].kind else {
            return self.take_arrival_general(now, top);
        };
        let (packet, next) = fifo.wire().take();
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
        hosts.handle_packet(now, &packet, &mut Port { core: self, now });
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
    fn take_arrival_general(&mut self, now: Timestamp, top: Key) -> Option<OnWire> {
        let index = top.index();
        self.events.take_top(top);
        let (packet, next) = self.step_general(now, LinkId(index), General::take)?;
        if let Some(time) = next {
            self.events.push(Key::new(time, Class::Arrival, index));
        }
        packet
    }

    /// Delivers a packet of any kind.
    #[inline(never)]
    fn deliver<H: Hosts>(&mut self, now: Timestamp, slot: SlotId, hosts: &mut H) {
        let packet = self.arena.packet(slot);
        self.arena.free(slot);
        self.delivered += 1;
        hosts.handle_packet(now, &packet, &mut Port { core: self, now });
    }

    #[inline(never)]
    fn general_event(&mut self, now: Timestamp, top: Key) {
        let (class, index) = (top.class(), top.index());
        self.events.take_top(top);
        let announce = self.step_general(now, LinkId(index), |general, step| {
            if class == Class::Departure { general.depart(step) } else { general.switch(step) }
        });
        self.announce(announce.unwrap_or_default(), index);
    }
}

/// Why a route cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It has no link.
    #[error("a route needs at least one link")]
    Empty,
    /// A link is not of this network.
    #[error("there is no link {0} in this network")]
    Unknown(u32),
    /// A link does not start where the one before ends.
    #[error("the link {after} does not start where {before} ends")]
    Gap {
        /// The link before, by name.
        before: String,
        /// The link after it.
        after: String,
    },
    /// A packet has been sent already, perhaps on a path that the route would change.
    #[error("a packet has been sent already; add all routes before the first one")]
    Late,
}

impl Default for Network {
    fn default() -> Self {
        Network::new()
    }
}

impl Network {
    /// An empty network at the run's start.
    pub fn new() -> Self {
        Network {
            core: Core {
                arena: Arena::default(),
                events: EventQueue::default(),
                links: Vec::new(),
                hops: Hops::default(),
                timers: Vec::new(),
                records: Vec::new(),
                settled: Vec::new(),
                next_packet: 0,
                delivered: 0,
            },
            now: Timestamp::ZERO,
            handled: 0,
        }
    }

    /// Adds a link; its random models draw from streams of `streams` named after it.
    pub fn add_link(&mut self, config: LinkConfig, streams: &Streams) -> LinkId {
        let id = self.core.links.len() as u32;
        // So many take more memory than there is.
        debug_assert!((id as usize) < MAX_INDEX);
        self.core.events.add_link(id);
        let stream = |what: &str| -> Stream { streams.stream(&format!("link.{}.{what}", config.name)) };
        let (simple_rate, rate) = match &config.rate {
            RateConfig::Unlimited => (true, None),
            // At rate 0 nothing ever leaves: no departure can be known in advance.
            RateConfig::Constant(rate) => (rate.as_bps() > 0, Some(*rate)),
            RateConfig::Scheduled(_) | RateConfig::Trace(_) => (false, None),
        };
        let limit = match &config.qdisc {
            _ if config.own_queue.is_some() => None,
            // Without serialisation nothing ever waits.
            QdiscConfig::DropTail(_) if matches!(config.rate, RateConfig::Unlimited) => Some(Limit::NONE),
            QdiscConfig::DropTail(params) => Some(params.limit.resolve(&config.sizing)),
            _ => None,
        };
        let jitter = config.jitter.at_work(|| stream("jitter"));
        let simple =
            jitter.is_none() && config.detour.is_none() && config.outages.is_empty() && !config.record;
        let loss = config.loss.build(|| stream("loss"));
        let kind = match limit {
            Some(limit) if simple && simple_rate => {
                Kind::Fifo(Fifo::new(rate, config.delay, config.framing, limit, loss))
            }
            _ => {
                let qdisc = match (&config.own_queue, limit) {
                    (Some(OwnQueue(make)), _) => AnyQdisc::Boxed(make(&config.sizing, stream("qdisc"))),
                    (None, Some(limit)) => AnyQdisc::DropTail(DropTail::up_to(limit)),
                    (None, None) => config.qdisc.build(&config.sizing, stream("qdisc")),
                };
                let general = General::new(general::Parts {
                    qdisc,
                    serialiser: config.rate.serialiser(),
                    delay: config.delay,
                    jitter,
                    detour: config.detour,
                    framing: config.framing,
                    loss,
                    outages: config.outages,
                    record: config.record,
                });
                if let Some(at) = general.next_switch() {
                    self.core.events.push(Key::new(at, Class::Control, id));
                }
                Kind::General(Box::new(general))
            }
        };
        self.core.links.push(Link::new(config.name, (config.from, config.to), kind));
        LinkId(id)
    }

    /// Adds a route over `links`, at least one, each of which starts where the one before ends. All routes must exist
    /// before the first packet is sent: they determine where flows can meet.
    ///
    /// # Errors
    /// If there is no link, a link is not of this network, the links do not meet, or a packet has been sent already.
    pub fn add_route(&mut self, links: &[LinkId]) -> Result<RouteId, RouteError> {
        if links.is_empty() {
            return Err(RouteError::Empty);
        }
        if let Some(unknown) = links.iter().find(|link| link.index() >= self.core.links.len()) {
            return Err(RouteError::Unknown(unknown.0));
        }
        if let Some(pair) = links.windows(2).find(|pair| self.link(pair[0]).to() != self.link(pair[1]).from())
        {
            let name = |id: LinkId| self.link(id).name().to_owned();
            return Err(RouteError::Gap { before: name(pair[0]), after: name(pair[1]) });
        }
        if self.core.next_packet > 0 {
            return Err(RouteError::Late);
        }
        Ok(RouteId(self.core.hops.add(links)))
    }

    #[inline]
    fn prepare(&mut self) {
        if self.core.hops.are_new() {
            self.mark_express_hops();
        }
    }

    /// Marks the hops that need no event (see `Core::forward`). Called before the first event is handled.
    fn mark_express_hops(&mut self) {
        let Core { hops, links, .. } = &mut self.core;
        hops.mark_express(links.len(), |before, link| {
            let (before, link) = (&links[before.index()], &links[link.index()]);
            // A hop that takes no time would change the order of events of one instant.
            !link.delay().is_zero() && !link.is_general() && !before.is_general()
        });
    }

    /// From now on, notes packets put onto a link's wire for [`take_settled`](Self::take_settled).
    pub fn watch(&mut self, id: LinkId) {
        self.core.links[id.index()].watch();
    }

    /// Packets on the wires of watched links that are for the endpoint there and have not arrived yet, each returned once, in the order in
    /// which they were put onto the wires. Nothing can happen to them any more: any other packet on such a link has yet to be put
    /// onto its wire, and arrives no earlier than the link's delay after the next event.
    pub fn take_settled(&mut self) -> impl Iterator<Item = Settled> + '_ {
        let Core { settled, hops, arena, .. } = &mut self.core;
        let (now, hops, arena) = (self.now, &*hops, &*arena);
        let ours = move |packet: &OnWire| packet.arrival > now && hops.at(packet.hop).is_end();
        settled
            .drain(..)
            .filter(ours)
            .map(move |packet| Settled { arrival: packet.arrival, packet: arena.packet(packet.slot) })
    }

    /// Handles events in order until the next one is later than `limit`, or `budget` of them have been handled.
    pub fn run_until<H: Hosts>(&mut self, limit: Timestamp, hosts: &mut H, budget: u64) -> Pause {
        self.prepare();
        // Events at `NEVER` are not handled at the end of time either.
        let limit = limit.min(LAST);
        let mut left = budget;
        let pause = loop {
            // Nearly all events are arrivals over links on the fast path, in the near future.
            if let Some(first) = self.core.events.first_near() {
                if first.time > limit {
                    break Pause::Reached;
                }
                if left == 0 {
                    break Pause::Budget;
                }
                left -= 1;
                self.now = first.time;
                let arrived = self.core.take_near(first);
                self.core.arrive(first.time, arrived, hosts);
                continue;
            }
            let Some(key) = self.core.events.peek() else { break Pause::Reached };
            let now = key.time();
            if now > limit {
                break Pause::Reached;
            }
            if left == 0 {
                break Pause::Budget;
            }
            left -= 1;
            debug_assert!(now >= self.now, "an event in the past");
            self.now = now;
            match key.class() {
                Class::Arrival => {
                    let arrived = self.core.take_arrival(now, key);
                    self.core.arrive_from_afar(now, arrived, hosts);
                }
                Class::Timer => {
                    self.core.events.take_top(key);
                    let endpoint = EndpointId(key.index());
                    // A superseded event: an earlier timer has replaced it.
                    if self.core.timers[endpoint.index()] != now {
                        continue;
                    }
                    self.core.timers[endpoint.index()] = Timestamp::NEVER;
                    hosts.handle_timeout(now, endpoint, &mut Port { core: &mut self.core, now });
                }
                Class::Control | Class::Departure => self.core.general_event(now, key),
            }
        };
        self.handled += budget - left;
        if pause == Pause::Reached {
            self.now = self.now.max(limit);
        }
        pause
    }

    /// Time of the next event, if any.
    pub fn next_event(&mut self) -> Option<Timestamp> {
        self.core.events.peek().map(Key::time)
    }

    /// The time up to which events have been handled.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A port to send and set timers with from outside of a call, at time `now`. Events before that must have been handled
    /// ([`run_until`](Self::run_until) `now`); it must not lie before the current time. A debug build panics otherwise.
    pub fn port(&mut self, now: Timestamp) -> Port<'_> {
        debug_assert!(now >= self.now, "{now} is past, the present is {}", self.now);
        debug_assert!(self.next_event().is_none_or(|next| next >= now), "events before {now} are pending");
        self.prepare();
        // Packets sent now count as sent for the next reader of a counter.
        self.now = self.now.max(now);
        Port { core: &mut self.core, now }
    }

    /// The links, by number.
    pub fn links(&self) -> &[Link] {
        &self.core.links
    }

    /// One link.
    ///
    /// # Panics
    /// If the link is not of this network, here and wherever else one is named but in a route.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.core.links[id.index()]
    }

    /// A link's counters at the current time.
    pub fn link_stats(&mut self, id: LinkId) -> LinkStats {
        let now = self.now;
        self.core.links[id.index()].stats(now)
    }

    /// Starts a new interval for the longest queueing time of a link.
    pub fn reset_queued_max(&mut self, id: LinkId) {
        let now = self.now;
        self.core.links[id.index()].reset_queued_max(now);
    }

    /// Handles of the frames ([`warpline_core::Frame`]) that the network has lost since the last call, for whatever reason:
    /// their bytes are no longer needed. The receiver is responsible for delivered frames.
    pub fn take_released(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.core.arena.released()
    }

    /// The records made since the last call, in order of time.
    pub fn take_records(&mut self) -> Vec<LinkRecord> {
        std::mem::take(&mut self.core.records)
    }

    /// Number of records not taken yet.
    pub fn pending_records(&self) -> usize {
        self.core.records.len()
    }

    /// Links crossed by packets so far: transmissions completed.
    pub fn packet_hops(&mut self) -> u64 {
        let now = self.now;
        self.core.links.iter_mut().map(|link| link.stats(now).sent_packets).sum()
    }

    /// Events handled so far.
    pub fn events(&self) -> u64 {
        self.handled
    }

    /// Packets sent, delivered to an endpoint, and in the network now. Those sent are delivered, in the network, or dropped by links.
    pub fn packets(&self) -> (u64, u64, u64) {
        // A link on the fast path gives up a packet as soon as its loss is certain, which may be ahead of time.
        let doomed: usize = self.core.links.iter().map(|link| link.doomed(self.now)).sum();
        let live = self.core.arena.live() as u64;
        (self.core.next_packet, self.core.delivered, live + doomed as u64)
    }
}
