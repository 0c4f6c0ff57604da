//! The network: packets hop from link to link along their routes, and hosts are called when something arrives for them.
//!
//! The network knows endpoints only by number. The hosts are behind [`Hosts`], which gets the network's [`Port`] to send
//! packets and set timers with. It consists of one part, or of several after [`Network::cut`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use warpline_core::record::LinkRecord;
use warpline_core::{LinkId, NodeId, Stream, Streams, TimeDelta, Timestamp};

use crate::aggregate::Aggregator;
use crate::change::{ChangeError, Changing, LinkChange};
use crate::events::MAX_INDEX;
use crate::far::Far;
use crate::fate::Fates;
use crate::fifo::Fifo;
use crate::general::{self, General};
use crate::hosts::{Hosts, Pause, RouteId, Settled};
use crate::jitter::JitterKind;
use crate::link::{Kind, Link, LinkConfig, LinkStats, RateConfig};
use crate::part::Part;
pub use crate::part::Port;
use crate::pfc::{self, Pfc};
use crate::qdisc::{Admission, AnyQdisc, Buffer, DropTail, OwnQueue, Qdisc};

/// The network.
#[derive(Debug)]
pub struct Network {
    /// At least one.
    pub(crate) parts: Vec<Part>,
    /// How many links there are, idle ones included.
    link_count: u32,
    /// Where the links are that are not idle, in the order of their numbers.
    places: Vec<Place>,
    /// The buffers of nodes whose links share one.
    buffers: BTreeMap<NodeId, Option<Arc<Buffer>>>,
    /// How it is cut. Empty while there is only one part.
    pub(crate) cut: Placed,
    /// See [`Network::critical_events`].
    pub(crate) critical: u64,
}

/// Where a link is.
#[derive(Clone, Copy, Debug)]
struct Place {
    link: LinkId,
    /// The part of its queue.
    part: u32,
    /// Its number there.
    index: u32,
}

/// How a network is cut.
#[derive(Debug, Default)]
pub(crate) struct Placed {
    /// The part of each node.
    pub(crate) nodes: Vec<u32>,
    /// The number of the first of the parts that are here; the others are in other processes.
    first: u32,
    /// The shortest delay of a link from one part to another: a part may be ahead of the others by so much.
    pub(crate) lookahead: TimeDelta,
    /// For each part, the parts from which links lead into it, with the shortest delay of those links.
    pub(crate) before: Vec<Vec<(usize, TimeDelta)>>,
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
    /// A link was added without state ([`Network::add_idle_link`]).
    #[error("link {0} is idle: no route can cross it; add it with `add_link`")]
    Idle(u32),
    /// A link does not start where the one before ends.
    #[error("the link {after} does not start where {before} ends")]
    Gap {
        /// The link before, by name.
        before: String,
        /// The link after it.
        after: String,
    },
    /// A packet has been sent already, perhaps on a path that the route would change, or the network has been cut.
    #[error("a packet has been sent or the network cut already; add all routes before")]
    Late,
}

/// Why a network cannot be cut.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CutError {
    /// A part without nodes.
    #[error("part {0} has no node")]
    Empty(u32),
    /// A link whose ends are not both in a part.
    #[error("link {0}: both ends need a part")]
    Homeless(String),
    /// A link without delay between two parts: they could not be apart in time.
    #[error("link {0} has no delay, so its ends must be in the same part")]
    NoDelay(String),
    /// A link with priority flow control between two parts.
    #[error("link {0} has priority flow control, so its ends must be in the same part")]
    Paused(String),
    /// A packet has been sent, a timer set, a link watched, or the network cut.
    #[error("the network is in use already; cut it before the first packet is sent and the first timer set")]
    Late,
}

/// Whoever names a link has its number from this network.
const NO_LINK: &str = "a link of this network that is not idle";

impl Default for Network {
    fn default() -> Self {
        Network::new()
    }
}

impl Network {
    /// An empty network at the run's start.
    pub fn new() -> Self {
        Network {
            parts: vec![Part::default()],
            link_count: 0,
            places: Vec::new(),
            buffers: BTreeMap::new(),
            cut: Placed::default(),
            critical: 0,
        }
    }

    /// Adds a link that nothing will ever cross: it takes a number, but no memory. So the other links of a large network keep the numbers that
    /// its description gives them. No route can cross it, it has no counters, and it is not among [`links`](Self::links).
    pub fn add_idle_link(&mut self) -> LinkId {
        let id = LinkId(self.link_count);
        // So many take more memory than there is.
        debug_assert!(id.index() < MAX_INDEX);
        self.link_count += 1;
        id
    }

    /// Adds a link; its random models draw from streams of `streams` named after it.
    pub fn add_link(&mut self, config: LinkConfig, streams: &Streams) -> LinkId {
        let id = self.add_idle_link();
        let part = &mut self.parts[0];
        self.places.push(Place { link: id, part: 0, index: part.links.len() as u32 });
        let stream = |what: &str| -> Stream { streams.stream(&format!("link.{}.{what}", config.name)) };
        let (simple_rate, rate) = match &config.rate {
            RateConfig::Unlimited => (true, None),
            // At rate 0 nothing ever leaves: no departure can be known in advance.
            RateConfig::Constant(rate) => (rate.as_bps() > 0, Some(*rate)),
            RateConfig::Scheduled(_) | RateConfig::Trace(_) | RateConfig::Wifi(_) => (false, None),
        };
        let admission = match &config.own_queue {
            Some(_) => None,
            None => config.qdisc.admission(&config.sizing),
        };
        let changing = Network::changing(&config, streams);
        // Without serialisation nothing ever waits, unless the next node asks for a pause.
        let unlimited =
            matches!(config.rate, RateConfig::Unlimited) && changing.is_none() && config.pfc.is_none();
        let admission = admission.map(|given| if unlimited { Admission::ALL } else { given });
        let jitter = config.jitter.at_work(|| stream("jitter"));
        let simple =
            jitter.is_none() && config.detour.is_none() && config.outages.is_empty() && !config.record;
        let simple = simple && config.pfc.is_none() && !config.counts_sources && changing.is_none();
        let fates = Fates::new(&config.loss, &config.duplicate, &config.corrupt, stream);
        let kind = match admission {
            Some(admission) if simple && simple_rate => {
                Kind::Fifo(Fifo::new(rate, config.delay, config.framing, admission, fates))
            }
            _ => {
                let mut qdisc = match (&config.own_queue, &config.qdisc, admission) {
                    (Some(OwnQueue(make)), ..) => AnyQdisc::Boxed(make(&config.sizing, stream("qdisc"))),
                    (None, _, Some(Admission { limit, mark_from: None })) => {
                        AnyQdisc::DropTail(DropTail::up_to(limit))
                    }
                    (None, qdisc, _) => qdisc.build(&config.sizing, stream("qdisc")),
                };
                let aggregator = match config.rate {
                    RateConfig::Wifi(wifi) => Some(Box::new(Aggregator::new(wifi, stream("wifi")))),
                    _ => None,
                };
                if let AnyQdisc::Shared(shared) = &mut qdisc {
                    shared.join(self.buffers.entry(config.from).or_default());
                }
                let pfc = config
                    .pfc
                    .map(|pfc| Pfc::new(pfc, pfc::message_time(config.delay, rate), qdisc.priorities()));
                let general = General::new(general::Parts {
                    qdisc,
                    serialiser: config.rate.serialiser(),
                    aggregator,
                    delay: config.delay.saturating_sub(
                        changing.as_ref().map_or(TimeDelta::ZERO, |changing| changing.longer),
                    ),
                    jitter,
                    detour: config.detour,
                    framing: config.framing,
                    fates,
                    outages: config.outages,
                    changing,
                    pfc,
                    counts_sources: config.counts_sources,
                    record: config.record,
                });
                Kind::General(Box::new(general))
            }
        };
        part.add_link(Link::new(id, config.name, (config.from, config.to), kind));
        id
    }

    /// What a link needs to be changed, if it may be.
    fn changing(config: &LinkConfig, streams: &Streams) -> Option<Changing> {
        if config.changes.is_empty() && !config.changeable {
            return None;
        }
        debug_assert!(config.changes.iter().all(|(_, change)| config.check(change).is_ok()));
        let least =
            config.changes.iter().filter_map(|(_, change)| change.delay).fold(config.delay, TimeDelta::min);
        let jitters = config.changes.iter().filter_map(|(_, change)| change.jitter.as_ref());
        let mut jitters = jitters.chain([&config.jitter]);
        let reorders = config.changeable || jitters.any(JitterKind::reorders);
        let planned = config.changes.iter();
        let planned = planned.map(|(at, change)| (*at, change.prepare(&config.name, *at, streams)));
        Some(Changing::new(planned.collect(), config.delay.saturating_sub(least), reorders))
    }

    /// Changes a link now. Its new models draw from streams of `streams`, named after the link and the present. Only for a network that is not cut.
    ///
    /// # Errors
    /// If the link was not made for it ([`LinkConfig::changeable`]), or what is to be changed follows something else.
    pub fn change(&mut self, id: LinkId, change: &LinkChange, streams: &Streams) -> Result<(), ChangeError> {
        if self.parts.len() != 1 {
            return Err(ChangeError::Cut);
        }
        self.prepare();
        let (part, index) = self.place(id).expect(NO_LINK);
        self.parts[part].change(index as u32, change, streams)
    }

    /// Adds a route over `links`, at least one, each of which starts where the one before ends. All routes must exist
    /// before the first packet is sent: they determine where flows can meet.
    ///
    /// # Errors
    /// If there is no link, a link is not of this network or idle, the links do not meet, or a packet has been sent or the network cut already.
    pub fn add_route(&mut self, links: &[LinkId]) -> Result<RouteId, RouteError> {
        if links.is_empty() {
            return Err(RouteError::Empty);
        }
        let place = |link: &LinkId| match self.place(*link) {
            Some((_, index)) => Ok(index as u32),
            None if link.0 < self.link_count => Err(RouteError::Idle(link.0)),
            None => Err(RouteError::Unknown(link.0)),
        };
        let places = links.iter().map(place).collect::<Result<Vec<u32>, _>>()?;
        if let Some(pair) = links.windows(2).find(|pair| self.link(pair[0]).to() != self.link(pair[1]).from())
        {
            let name = |id: LinkId| self.link(id).name().to_owned();
            return Err(RouteError::Gap { before: name(pair[0]), after: name(pair[1]) });
        }
        match &mut self.parts[..] {
            [part] if part.sent() == 0 => Ok(RouteId(part.hops.add(&places))),
            _ => Err(RouteError::Late),
        }
    }

    #[inline]
    pub(crate) fn prepare(&mut self) {
        if self.parts[0].hops.are_new() {
            self.mark_express_hops();
        }
    }

    /// Marks the hops that need no event (see `Part::forward`). Called before the first event is handled.
    fn mark_express_hops(&mut self) {
        let Part { hops, links, numbers, .. } = &mut self.parts[0];
        // Odd, so that the low bits of the numbers do not repeat early: captures have only 16.
        *numbers = u64::from(self.link_count) | 1;
        hops.mark_express(links.len(), |before, link| {
            let (before, link) = (&links[before.index()], &links[link.index()]);
            // A hop that takes no time would change the order of events of one instant.
            !link.delay().is_zero() && !link.has_departures() && !before.has_departures()
        });
        if links.iter().any(Link::reads_headers) {
            hops.note_ends(|link| (links[link.index()].from(), links[link.index()].to()));
        }
    }

    /// Of each link that is not idle, in the order of their numbers, whether it takes all its packets from one other link in a way that needs no
    /// event. To be called before the network is cut.
    pub fn express_links(&mut self) -> Vec<bool> {
        self.prepare();
        self.parts[0].hops.express_links(self.places.len())
    }

    /// Links with priority flow control that can wait for each other in a circle, in order, if the routes make that possible: each may be
    /// stopped by packets that wait for the next. Without one, no pause lasts for ever. To be called before the network is cut.
    pub fn pfc_circle(&self) -> Option<Vec<LinkId>> {
        let Part { hops, links, .. } = &self.parts[0];
        let has_pfc = |link: LinkId| links[link.index()].has_pfc();
        let pairs = hops.pairs().filter(|&(before, after)| has_pfc(before) && has_pfc(after));
        let mut next: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (before, after) in pairs {
            next.entry(before.0).or_default().insert(after.0);
        }
        // What leads nowhere is in no circle: without these, a walk comes back to where it has been.
        loop {
            let ends: Vec<u32> =
                next.iter().filter(|(_, after)| after.is_empty()).map(|(&link, _)| link).collect();
            let unknown = |link: &u32| !next.contains_key(link);
            let gone: BTreeSet<u32> = next.values().flatten().copied().filter(unknown).chain(ends).collect();
            if gone.is_empty() {
                break;
            }
            next.retain(|link, _| !gone.contains(link));
            next.values_mut().for_each(|after| after.retain(|link| !gone.contains(link)));
        }
        let mut walk = vec![*next.keys().next()?];
        loop {
            let link = *next.get(walk.last()?)?.first()?;
            if let Some(begin) = walk.iter().position(|&other| other == link) {
                return Some(walk[begin..].iter().map(|&place| links[place as usize].id).collect());
            }
            walk.push(link);
        }
    }

    /// Cuts the network into parts that [`run_parts`](Self::run_parts) runs at the same time; `part_of` gives the part of each node, counted
    /// from 0. What happens in the network does not depend on it. To be called once, after the routes have been added and before the first
    /// packet is sent or timer set. One part leaves the network as it is.
    ///
    /// # Errors
    /// If a link without delay leads from one part to another, a node has no part, a part has no node, or the network is in use already.
    pub fn cut(&mut self, part_of: &[u32]) -> Result<(), CutError> {
        self.cut_keeping(part_of, None)
    }

    /// As [`cut`](Self::cut), for a network whose parts are in several processes ([`run_apart`](Self::run_apart)): only the part `own` stays
    /// here, and nothing if there is no such part. Links elsewhere have a number here, but nothing can be read of them.
    ///
    /// # Errors
    /// As those of `cut`.
    pub fn cut_apart(&mut self, part_of: &[u32], own: usize) -> Result<(), CutError> {
        self.cut_keeping(part_of, Some(own))
    }

    /// Cuts the network. Keeps one part only, if one is named.
    fn cut_keeping(&mut self, part_of: &[u32], own: Option<usize>) -> Result<(), CutError> {
        let count = part_of.iter().max().map_or(0, |&last| last as usize + 1);
        if let Some(empty) = (0..count as u32).find(|part| !part_of.contains(part)) {
            return Err(CutError::Empty(empty));
        }
        if count < 2 && own.is_none_or(|own| own < count) {
            return Ok(());
        }
        self.prepare();
        let whole = match &mut self.parts[..] {
            [whole] if whole.is_new() => std::mem::take(whole),
            _ => return Err(CutError::Late),
        };
        let ends = |link: &Link| -> Option<(u32, u32)> {
            Some((*part_of.get(link.from().index())?, *part_of.get(link.to().index())?))
        };
        let mut before = vec![BTreeMap::new(); count];
        let mut refused = None;
        for link in &whole.links {
            match ends(link) {
                None => refused = refused.or(Some(CutError::Homeless(link.name().to_owned()))),
                Some((from, to)) if from != to => {
                    if link.has_pfc() {
                        refused = refused.or(Some(CutError::Paused(link.name().to_owned())));
                    }
                    if link.delay().is_zero() {
                        refused = refused.or(Some(CutError::NoDelay(link.name().to_owned())));
                    }
                    let least = before[to as usize].entry(from as usize).or_insert(link.delay());
                    *least = link.delay().min(*least);
                }
                Some(_) => {}
            }
        }
        if let Some(error) = refused {
            self.parts[0] = whole;
            return Err(error);
        }
        // The parts that stay here. A process more than there are parts has an empty one.
        let kept = own.map_or(0..count, |own| own..own + 1);
        let mut parts: Vec<Part> = kept.clone().map(|_| Part::default()).collect();
        let first = kept.start as u32;
        // How many links each part has so far.
        let mut numbers = vec![0u32; count];
        let mut places = Vec::with_capacity(whole.links.len());
        let mut leaves = vec![false; whole.links.len()];
        for (place, mut link) in whole.links.into_iter().enumerate() {
            // It has been found above.
            let (from, to) = ends(&link).unwrap_or_default();
            let (here, there) = (numbers[from as usize], numbers[to as usize]);
            places.push(Place { link: link.id, part: from, index: here });
            let mut exit = (0, 0);
            if from != to {
                leaves[place] = true;
                exit = (to, there);
                link.set_far(Far::Elsewhere);
                numbers[to as usize] += 1;
                if let Some(part) = parts.get_mut(to.wrapping_sub(first) as usize) {
                    part.add_link(link.far_end());
                    part.exits.push((0, 0));
                }
            }
            numbers[from as usize] += 1;
            if let Some(part) = parts.get_mut(from.wrapping_sub(first) as usize) {
                part.exits.push(exit);
                part.add_link(link);
            }
        }
        for (number, part) in (first..).zip(&mut parts) {
            let owned = |place: u32| {
                let place = places.get(place as usize).filter(|place| place.part == number);
                place.map(|place| place.index)
            };
            part.numbers = whole.numbers;
            part.hops = whole.hops.of_part(owned, |place| leaves[place as usize]);
        }
        (self.parts, self.places) = (parts, places);
        let before: Vec<Vec<(usize, TimeDelta)>> =
            before.into_iter().map(|parts| parts.into_iter().collect()).collect();
        let lookahead = before.iter().flatten().map(|&(_, delay)| delay).min().unwrap_or(TimeDelta::MAX);
        self.cut = Placed { nodes: part_of.to_vec(), first, lookahead, before };
        Ok(())
    }

    /// How many parts of it are here.
    pub fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// The part of a node.
    pub fn part_of(&self, node: NodeId) -> usize {
        self.cut.nodes.get(node.index()).map_or(0, |&part| part as usize)
    }

    /// The shortest delay of a link from one part to another: a part may be ahead of the others by so much. `None` if it is not cut.
    pub fn lookahead(&self) -> Option<TimeDelta> {
        (!self.cut.lookahead.is_zero()).then_some(self.cut.lookahead)
    }

    /// Where in this process a link is: its part, counted from the first one here, and its number there; `None` if it is idle, in another process or not
    /// of this network.
    fn place(&self, id: LinkId) -> Option<(usize, usize)> {
        // Without idle links before it, its place is its number.
        let direct = self.places.get(id.index()).filter(|place| place.link == id);
        let search = || self.places.binary_search_by_key(&id, |place| place.link).ok();
        let place = direct.or_else(|| self.places.get(search()?))?;
        let part = place.part.wrapping_sub(self.cut.first) as usize;
        (part < self.parts.len()).then_some((part, place.index as usize))
    }

    /// Whether a link has a queue in this process: it is not idle, nor in another one ([`cut_apart`](Self::cut_apart)).
    pub fn has_link(&self, id: LinkId) -> bool {
        self.place(id).is_some()
    }

    fn link_mut(&mut self, id: LinkId) -> (Timestamp, &mut Link) {
        let (part, index) = self.place(id).expect(NO_LINK);
        let part = &mut self.parts[part];
        (part.now, &mut part.links[index])
    }

    /// From now on, notes packets put onto a link's wire for [`take_settled`](Self::take_settled).
    pub fn watch(&mut self, id: LinkId) {
        debug_assert!(self.parts.len() == 1, "a network that is cut cannot be watched");
        self.link_mut(id).1.set_far(Far::Watched);
    }

    /// Packets on the wires of watched links that are for the endpoint there and have not arrived yet, each returned once, in the order in
    /// which they were put onto the wires. Nothing can happen to them any more: any other packet on such a link has yet to be put
    /// onto its wire, and arrives no earlier than the link's delay after the next event.
    pub fn take_settled(&mut self) -> impl Iterator<Item = Settled> + '_ {
        self.parts[0].take_settled()
    }

    /// Handles events in order until the next one is later than `limit`, or `budget` of them have been handled. It never stops between two
    /// events of one instant. Only for a network that is not cut.
    pub fn run_until<H: Hosts>(&mut self, limit: Timestamp, hosts: &mut H, budget: u64) -> Pause {
        debug_assert!(self.parts.len() == 1, "a network that is cut needs hosts for each part");
        self.prepare();
        self.parts[0].run_until(limit, hosts, budget)
    }

    /// Time of the next event, if any.
    pub fn next_event(&mut self) -> Option<Timestamp> {
        self.parts.iter_mut().filter_map(Part::next_event).min()
    }

    /// When a link changes next as planned: its rate, its delay, or whether it is up; [`Timestamp::NEVER`] if none does. A link that follows a
    /// trace changes all the time: then this is the present.
    pub fn next_change(&self) -> Timestamp {
        self.parts.iter().map(Part::next_change).min().unwrap_or(Timestamp::NEVER)
    }

    /// Cuts `span` out of what is to come, as one cuts a film: every planned change of a link happens that much earlier. Packets, queues and
    /// timers stay as they are, and the present is the same. For a caller that knows what happens in such a span without going through
    /// it. No change may be planned within it ([`next_change`](Self::next_change)).
    pub fn skip(&mut self, span: TimeDelta) {
        debug_assert!(self.next_change() >= self.now() + span, "a link changes in what is skipped");
        self.parts.iter_mut().for_each(|part| part.skip(span));
    }

    /// The time up to which events have been handled.
    pub fn now(&self) -> Timestamp {
        // Between two runs, all parts are at the same time.
        self.parts[0].now
    }

    /// A port to send and set timers with from outside of a call, at time `now`. Events before that must have been handled
    /// ([`run_until`](Self::run_until) `now`); it must not lie before the current time. A debug build panics otherwise. It is that of the
    /// first part; [`port_of`](Self::port_of) is for the others.
    pub fn port(&mut self, now: Timestamp) -> Port<'_> {
        self.port_of(0, now)
    }

    /// As [`port`](Self::port), for the nodes of a part.
    ///
    /// # Panics
    /// If there is no such part.
    pub fn port_of(&mut self, part: usize, now: Timestamp) -> Port<'_> {
        debug_assert!(now >= self.now(), "{now} is past, the present is {}", self.now());
        debug_assert!(self.next_event().is_none_or(|next| next >= now), "events before {now} are pending");
        self.prepare();
        let part = &mut self.parts[part];
        // Packets sent now count as sent for the next reader of a counter.
        part.now = part.now.max(now);
        Port { part, now }
    }

    /// Number of links, idle ones included; their numbers count from 0.
    pub fn link_count(&self) -> usize {
        self.link_count as usize
    }

    /// The numbers of the links that are not idle, in their order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = LinkId> + '_ {
        self.places.iter().map(|place| place.link)
    }

    /// One link.
    ///
    /// # Panics
    /// If the link is idle, in another process or not of this network, here and wherever else one is named but in a route.
    pub fn link(&self, id: LinkId) -> &Link {
        let (part, index) = self.place(id).expect(NO_LINK);
        &self.parts[part].links[index]
    }

    /// The counters of all links that are not idle at the current time, in the order of their numbers. Those of links in other processes are zero.
    pub fn all_link_stats(&mut self) -> impl ExactSizeIterator<Item = (LinkId, LinkStats)> + '_ {
        let Network { parts, places, cut, .. } = self;
        places.iter().map(|place| {
            let part = parts.get_mut(place.part.wrapping_sub(cut.first) as usize);
            let stats = part.map(|part| part.links[place.index as usize].stats(part.now));
            (place.link, stats.unwrap_or_default())
        })
    }

    /// A link's counters at the current time.
    pub fn link_stats(&mut self, id: LinkId) -> LinkStats {
        let (now, link) = self.link_mut(id);
        link.stats(now)
    }

    /// Starts a new interval for the longest queueing time of a link.
    pub fn reset_queued_max(&mut self, id: LinkId) {
        let (now, link) = self.link_mut(id);
        link.reset_queued_max(now);
    }

    /// The same for all links.
    pub fn reset_all_queued_max(&mut self) {
        for part in &mut self.parts {
            part.links.iter_mut().for_each(|link| link.reset_queued_max(part.now));
        }
    }

    /// Handles of the frames ([`warpline_core::Frame`]) that the network has lost since the last call, for whatever reason:
    /// their bytes are no longer needed. The receiver is responsible for delivered frames.
    pub fn take_released(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.parts.iter_mut().flat_map(Part::take_released)
    }

    /// The records made since the last call, in order of time and, within an instant, of links.
    pub fn take_records(&mut self) -> Vec<LinkRecord> {
        let mut records: Vec<LinkRecord> = self.parts.iter_mut().flat_map(Part::take_records).collect();
        records.sort_by_key(LinkRecord::order);
        records
    }

    /// Number of records not taken yet.
    pub fn pending_records(&self) -> usize {
        self.parts.iter().map(Part::pending_records).sum()
    }

    /// Links crossed by packets so far: transmissions completed.
    pub fn packet_hops(&mut self) -> u64 {
        self.parts.iter_mut().map(Part::packet_hops).sum()
    }

    /// Events handled so far. They do not depend on how the network is cut.
    pub fn events(&self) -> u64 {
        self.parts.iter().map(Part::events).sum()
    }

    /// Packets sent, delivered to an endpoint, and in the network now. Those sent, and the copies that links have made of them, are delivered, in the network, or
    /// dropped by links. Of a network in several processes, the last number is one to be summed over all of them: in one it may be negative.
    pub fn packets(&self) -> (u64, u64, i64) {
        let sum = |count: fn(&Part) -> u64| self.parts.iter().map(count).sum();
        (sum(Part::sent), sum(Part::delivered), self.parts.iter().map(Part::under_way).sum())
    }
}
