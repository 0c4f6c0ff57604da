//! The routes of a network, in one table: each is a sequence of hops with an end marker. A hop names a link by its place in its part.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpline_core::{LinkId, NodeId};

/// The next hop of a route: an index into the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct HopId(u32);

impl HopId {
    /// The following hop of its route.
    #[inline]
    pub(crate) fn next(self) -> HopId {
        HopId(self.0 + 1)
    }
}

/// A link to cross, or the end of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop(u32);

impl Hop {
    /// Marks a hop onto a link that only the previous link feeds.
    const EXPRESS: u32 = 1 << 31;
    /// Marks a hop that would be an express hop if the network were not cut before it.
    const ENTRY: u32 = 1 << 30;
    /// The end of a route; not an express hop.
    const END: Hop = Hop(Hop::ENTRY - 1);

    /// Whether the route ends here.
    #[inline]
    pub(crate) fn is_end(self) -> bool {
        self == Hop::END
    }
    /// Whether only the previous link feeds its link, so that it needs no event.
    #[inline]
    pub(crate) fn is_express(self) -> bool {
        self.0 & Hop::EXPRESS != 0
    }
    /// The place of its link in its part, unless the route ends here.
    #[inline]
    pub(crate) fn link(self) -> LinkId {
        LinkId(self.0 & !(Hop::EXPRESS | Hop::ENTRY))
    }
    /// Whether it would be an express hop if the network were not cut before it.
    #[inline]
    pub(crate) fn is_entry(self) -> bool {
        self.0 & Hop::ENTRY != 0
    }
}

/// All routes.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    table: Vec<Hop>,
    /// How many hops have been checked for express hops.
    marked: usize,
    /// Where each route begins in the table, and the nodes at its ends; empty if no link needs them.
    ends: Arc<[(HopId, NodeId, NodeId)]>,
}

impl Hops {
    /// Adds a route over the links at these places, and returns where it begins.
    pub(crate) fn add(&mut self, places: &[u32]) -> HopId {
        let first = HopId(self.table.len() as u32);
        self.table.extend(places.iter().map(|&place| Hop(place)));
        self.table.push(Hop::END);
        first
    }

    /// The hop at `id`.
    #[inline]
    pub(crate) fn at(&self, id: HopId) -> Hop {
        self.table[id.0 as usize]
    }

    /// The same routes for a part of the network. `number` gives the place that the link at a place of the whole network has there, if its
    /// queue is there; `leaves` says whether that link leads from one part to another.
    pub(crate) fn of_part(&self, number: impl Fn(u32) -> Option<u32>, leaves: impl Fn(u32) -> bool) -> Hops {
        let mut cut = false;
        let table = self.table.iter().map(|&hop| {
            let place = hop.link().0;
            let after_cut = std::mem::replace(&mut cut, !hop.is_end() && leaves(place));
            match number(place) {
                Some(number) if !hop.is_end() => match (hop.is_express(), after_cut) {
                    (true, false) => Hop(number | Hop::EXPRESS),
                    (true, true) => Hop(number | Hop::ENTRY),
                    (false, _) => Hop(number),
                },
                // The end; or the business of another part.
                _ => Hop::END,
            }
        });
        Hops { table: table.collect(), marked: self.marked, ends: Arc::clone(&self.ends) }
    }

    /// The link over which a packet came to the node where it waits for a link, given the hop after that; none at the beginning of its route.
    pub(crate) fn source(&self, after: HopId) -> Option<LinkId> {
        let hop = *self.table.get(after.0.checked_sub(2)? as usize)?;
        (!hop.is_end()).then(|| hop.link())
    }

    /// Each pair of links that follow each other on a route.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (LinkId, LinkId)> {
        let both = self.table.windows(2).filter(|pair| !pair[0].is_end() && !pair[1].is_end());
        both.map(|pair| (pair[0].link(), pair[1].link()))
    }

    /// Notes where each route begins and ends, given the ends of each link.
    pub(crate) fn note_ends(&mut self, of: impl Fn(LinkId) -> (NodeId, NodeId)) {
        let mut ends: Vec<(HopId, NodeId, NodeId)> = Vec::new();
        let mut begins = true;
        for (place, hop) in (0..).zip(&self.table) {
            if !hop.is_end() {
                let (from, to) = of(hop.link());
                match ends.last_mut() {
                    Some(route) if !begins => route.2 = to,
                    _ => ends.push((HopId(place), from, to)),
                }
            }
            begins = hop.is_end();
        }
        self.ends = ends.into();
    }

    /// The nodes where the route of a hop begins and ends, if routes have been noted.
    pub(crate) fn ends(&self, hop: HopId) -> (NodeId, NodeId) {
        let after = self.ends.partition_point(|&(begin, ..)| begin <= hop);
        let route = after.checked_sub(1).map(|route| self.ends[route]);
        route.map_or_else(Default::default, |(_, from, to)| (from, to))
    }

    /// Which of so many links are reached by express hops.
    pub(crate) fn express_links(&self, links: usize) -> Vec<bool> {
        let mut express = vec![false; links];
        for hop in self.table.iter().filter(|hop| hop.is_express()) {
            express[hop.link().index()] = true;
        }
        express
    }

    /// Whether routes were added since the express hops were marked.
    #[inline]
    pub(crate) fn are_new(&self) -> bool {
        self.marked != self.table.len()
    }

    /// Marks the hops that need no event. `may_be(before, link)` says whether a link that only `before` feeds could be an express hop.
    pub(crate) fn mark_express(&mut self, links: usize, may_be: impl Fn(LinkId, LinkId) -> bool) {
        /// What feeds a link.
        #[derive(Clone, Copy, PartialEq)]
        enum Feeder {
            Nobody,
            Link(LinkId),
            Many,
        }
        let mut feeders = vec![Feeder::Nobody; links];
        // A host feeds the first link of a route, at any time.
        let mut before = Feeder::Many;
        for hop in &self.table {
            if hop.is_end() {
                before = Feeder::Many;
                continue;
            }
            let known = &mut feeders[hop.link().index()];
            *known = if *known == Feeder::Nobody || *known == before { before } else { Feeder::Many };
            before = Feeder::Link(hop.link());
        }
        for hop in self.table.iter_mut().filter(|hop| !hop.is_end()) {
            let link = hop.link();
            let express = matches!(feeders[link.index()], Feeder::Link(before) if may_be(before, link));
            *hop = Hop(if express { link.0 | Hop::EXPRESS } else { link.0 });
        }
        self.marked = self.table.len();
    }
}
