//! The routes of a network, in one table: each is a sequence of hops with an end marker.

use warpline_core::LinkId;

/// The next hop of a route: an index into the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
    /// The end of a route; not an express hop.
    const END: Hop = Hop(Hop::EXPRESS - 1);

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
    /// Its link, unless the route ends here.
    #[inline]
    pub(crate) fn link(self) -> LinkId {
        LinkId(self.0 & !Hop::EXPRESS)
    }
}

/// All routes.
#[derive(Debug, Default)]
pub(crate) struct Hops {
    table: Vec<Hop>,
    /// How many hops have been checked for express hops.
    marked: usize,
}

impl Hops {
    /// Adds a route, and returns where it begins.
    pub(crate) fn add(&mut self, links: &[LinkId]) -> HopId {
        let first = HopId(self.table.len() as u32);
        self.table.extend(links.iter().map(|link| Hop(link.0)));
        self.table.push(Hop::END);
        first
    }

    /// The hop at `id`.
    #[inline]
    pub(crate) fn at(&self, id: HopId) -> Hop {
        self.table[id.0 as usize]
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
