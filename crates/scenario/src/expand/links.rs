//! The links of an expanded scenario. A network may have millions of them, and use few: what they have in common stands once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use warpline_core::{LinkId, TimeDelta};
use warpline_net::routing::Edge;

use super::LinkKind;

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct LinkSpec<'a> {
    /// Index of the node it starts at.
    pub from: usize,
    /// Index of the node it ends at.
    pub to: usize,
    /// Largest round-trip time without queueing and transmission times of the flows whose data or ACKs cross this link, for
    /// limits in BDP; where none does, the largest of all flows.
    pub base_rtt: TimeDelta,
    /// What it is like; the links of a topology share it.
    pub kind: &'a LinkKind,
    /// The indices of the scenario's changes that are of it, in order of time.
    pub changes: &'a [usize],
}

/// One-way links, in the order of their numbers.
#[derive(Clone, Debug, Default)]
pub struct Links {
    edges: Vec<Edge>,
    /// By the kinds of the edges.
    kinds: Vec<LinkKind>,
    /// The largest round-trip times of the links that flows cross, in the order of the links.
    rtts: Vec<(LinkId, TimeDelta)>,
    /// That of all flows.
    largest_rtt: TimeDelta,
    /// All links in the order of their ends, and with the same ends in that of their numbers; made when one is first looked for.
    by_ends: OnceLock<Vec<LinkId>>,
    /// The indices of the changes of those links that are changed.
    pub(super) changes: BTreeMap<LinkId, Vec<usize>>,
}

impl Links {
    /// Links with their kinds.
    pub(super) fn new(edges: Vec<Edge>, kinds: Vec<LinkKind>) -> Self {
        Links { edges, kinds, ..Links::default() }
    }

    /// Sets the largest round-trip time of each link that flows cross, zero for the others, and that of all flows.
    pub(super) fn set_rtts(&mut self, of_links: &[TimeDelta], largest: TimeDelta) {
        let crossed = (0u32..).zip(of_links).filter(|(_, rtt)| !rtt.is_zero());
        self.rtts = crossed.map(|(link, &rtt)| (LinkId(link), rtt)).collect();
        self.largest_rtt = largest;
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// A link.
    ///
    /// # Panics
    /// If there is none with this number.
    pub fn at(&self, link: LinkId) -> LinkSpec<'_> {
        let edge = self.edges[link.index()];
        let rtt = self.rtts.binary_search_by_key(&link, |(link, _)| *link).map(|place| self.rtts[place].1);
        LinkSpec {
            from: edge.from.index(),
            to: edge.to.index(),
            base_rtt: rtt.unwrap_or(self.largest_rtt),
            kind: &self.kinds[edge.kind as usize],
            changes: self.changes.get(&link).map(Vec::as_slice).unwrap_or_default(),
        }
    }

    /// The links from one node to another, in the order of their numbers.
    pub(super) fn between(&self, from: usize, to: usize) -> &[LinkId] {
        let ends = |link: &LinkId| {
            let edge = &self.edges[link.index()];
            (edge.from.index(), edge.to.index())
        };
        let all = self.by_ends.get_or_init(|| {
            let mut all: Vec<LinkId> = (0..self.len() as u32).map(LinkId).collect();
            all.sort_by_key(ends);
            all
        });
        let rest = &all[all.partition_point(|link| ends(link) < (from, to))..];
        &rest[..rest.partition_point(|link| ends(link) == (from, to))]
    }

    /// The propagation delay of a link.
    ///
    /// # Panics
    /// As [`at`](Self::at).
    pub fn delay(&self, link: LinkId) -> TimeDelta {
        self.kinds[self.edges[link.index()].kind as usize].delay
    }

    /// All links.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LinkSpec<'_>> + Clone {
        (0..self.len()).map(|link| self.at(LinkId(link as u32)))
    }
}
