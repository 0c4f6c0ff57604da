//! Named nodes and directed links between them.

use std::sync::OnceLock;

use warpline_core::{LinkId, NodeId, TimeDelta};

use super::names::Names;

/// A directed link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
    /// The number of its kind.
    pub kind: u32,
}

/// Named nodes and directed links between them. Links of a kind have the same delay: large networks have few kinds.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    names: Names,
    /// The delay of each kind of link.
    delays: Vec<TimeDelta>,
    links: Vec<Edge>,
    /// All links in the order of their ends, and with the same ends in that of their delays; made when one is first looked for.
    by_ends: OnceLock<Vec<LinkId>>,
}

impl Graph {
    /// No nodes, no links.
    pub fn new() -> Self {
        Self::default()
    }
    /// The node called `name`, added if necessary. Ids count from 0 in order of addition.
    pub fn node(&mut self, name: &str) -> NodeId {
        NodeId(self.names.add(name))
    }
    /// Adds a kind of link. Kinds count from 0 in order of addition.
    pub fn kind(&mut self, delay: TimeDelta) -> u32 {
        self.delays.push(delay);
        self.delays.len() as u32 - 1
    }
    /// Adds one direction of a link of a kind of its own; nodes are added if necessary. Ids count from 0 in order of addition.
    pub fn link(&mut self, from: &str, to: &str, delay: TimeDelta) -> LinkId {
        let kind = self.kind(delay);
        self.link_of(from, to, kind)
    }
    /// Adds one direction of a link of a [kind](Self::kind) that was added before.
    pub fn link_of(&mut self, from: &str, to: &str, kind: u32) -> LinkId {
        let (from, to) = (self.node(from), self.node(to));
        self.links.push(Edge { from, to, kind });
        self.by_ends.take();
        LinkId(self.links.len() as u32 - 1)
    }
    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.names.find(name).map(NodeId)
    }
    /// A node's name.
    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.names.get(node.index())
    }
    /// Where a link begins and ends.
    pub fn ends(&self, link: LinkId) -> Option<(NodeId, NodeId)> {
        self.links.get(link.index()).map(|link| (link.from, link.to))
    }
    /// The link from one node to another: of several the one with the least delay, and of these the first.
    pub fn link_between(&self, from: NodeId, to: NodeId) -> Option<LinkId> {
        let edge = |id: LinkId| &self.links[id.index()];
        let ends = |id: LinkId| (edge(id).from, edge(id).to);
        let by_ends = self.by_ends.get_or_init(|| {
            let mut all: Vec<LinkId> = (0..self.links.len() as u32).map(LinkId).collect();
            all.sort_by_key(|&id| (ends(id), self.delays[edge(id).kind as usize]));
            all
        });
        let first = by_ends.partition_point(|&id| ends(id) < (from, to));
        by_ends.get(first).copied().filter(|&id| ends(id) == (from, to))
    }
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.names.len()
    }
    /// Number of links (directions).
    pub fn links(&self) -> usize {
        self.links.len()
    }
    /// All names, in the order of the nodes' ids.
    pub fn names(&self) -> &Names {
        &self.names
    }
    /// All links, in the order of their ids.
    pub fn edges(&self) -> &[Edge] {
        &self.links
    }
    /// The names and the links.
    pub fn into_parts(self) -> (Names, Vec<Edge>) {
        (self.names, self.links)
    }
    /// The delay of each kind of link.
    pub(super) fn delays(&self) -> &[TimeDelta] {
        &self.delays
    }
}
