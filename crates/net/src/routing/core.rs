//! The part of a graph that carries transit traffic, and the distances within it to one destination.

use std::collections::BTreeMap;

use warpline_core::{LinkId, NodeId};

use super::graph::Graph;
use super::{Cost, Metric};

/// No node of the core.
const NONE: u32 = u32::MAX;

/// The distance of a node that no path joins to the destination.
pub(super) const UNREACHED: Cost = Cost { weight: u64::MAX, hops: u32::MAX };

/// A link as the node sees it where it begins.
#[derive(Clone, Copy, Debug, Default)]
struct Out {
    /// The other end: a number within the core.
    other: u32,
    kind: u32,
    link: LinkId,
}

/// A link as the node sees it where it ends.
#[derive(Clone, Copy, Debug, Default)]
struct Into {
    other: u32,
    kind: u32,
}

/// What belongs to each node, node by node, in the order of its arrival.
#[derive(Debug, Default)]
pub(super) struct Rows<T> {
    /// Where those of each node begin; one more than there are nodes.
    first: Vec<u32>,
    items: Vec<T>,
}

impl<T: Copy + Default> Rows<T> {
    /// The rows of `nodes` nodes, from items each with its node. Goes through `all` twice, and takes no more memory than the rows.
    pub(super) fn new(nodes: usize, all: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut first = vec![0u32; nodes + 1];
        for (node, _) in all.clone() {
            first[node as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let mut items = vec![T::default(); first[nodes] as usize];
        // `first` counts on to the end of each row, which is where the next one begins.
        for (node, item) in all {
            let place = &mut first[node as usize];
            items[*place as usize] = item;
            *place += 1;
        }
        first.rotate_right(1);
        first[0] = 0;
        Rows { first, items }
    }

    pub(super) fn of(&self, node: u32) -> &[T] {
        &self.items[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}

/// The nodes that are no leaves, numbered on their own, and the links among them.
#[derive(Debug)]
pub(super) struct Core {
    /// The number of each node of the graph; [`NONE`] for leaves.
    number: Vec<u32>,
    nodes: Vec<NodeId>,
    /// What a link of each kind costs.
    costs: Vec<Cost>,
    out: Rows<Out>,
    into: Rows<Into>,
}

impl Core {
    pub(super) fn new(leaf: &[bool], graph: &Graph, metric: Metric) -> Self {
        let mut number = vec![NONE; leaf.len()];
        let mut nodes = Vec::new();
        for node in (0..leaf.len()).filter(|&node| !leaf[node]) {
            number[node] = nodes.len() as u32;
            nodes.push(NodeId(node as u32));
        }
        let inner = (0u32..).zip(graph.edges()).filter_map(|(id, edge)| {
            let (from, to) = (number[edge.from.index()], number[edge.to.index()]);
            (from != NONE && to != NONE && from != to).then_some((LinkId(id), from, to, edge.kind))
        });
        let out = inner.clone().map(|(link, from, other, kind)| (from, Out { other, kind, link }));
        let into = inner.map(|(_, other, to, kind)| (to, Into { other, kind }));
        let (out, into) = (Rows::new(nodes.len(), out), Rows::new(nodes.len(), into));
        let costs = graph.delays().iter().map(|&delay| metric.cost(delay)).collect();
        Core { number, nodes, costs, out, into }
    }

    /// The number of a node that is no leaf.
    pub(super) fn number(&self, node: NodeId) -> Option<u32> {
        self.number.get(node.index()).copied().filter(|&number| number != NONE)
    }

    pub(super) fn node(&self, number: u32) -> NodeId {
        self.nodes[number as usize]
    }

    /// How many nodes there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The links by which `node` is as near to the root of `distances` as it can be, in the order of their ids, and where they lead.
    pub(super) fn ways_on<'a>(
        &'a self,
        distances: &'a [Cost],
        node: u32,
    ) -> impl Iterator<Item = (LinkId, u32)> + 'a {
        let own = distances[node as usize];
        let arms = self.out.of(node).iter();
        arms.filter(move |arm| {
            let beyond = distances[arm.other as usize];
            beyond != UNREACHED && self.costs[arm.kind as usize] + beyond == own
        })
        .map(|arm| (arm.link, arm.other))
    }

    /// The distance of every node to `root` (Dijkstra's algorithm, backwards from there).
    pub(super) fn distances(&self, root: u32) -> Vec<Cost> {
        let mut distances = vec![UNREACHED; self.len()];
        distances[root as usize] = Cost::default();
        // By distance: in the networks where this takes time many nodes are equally far.
        let mut next = BTreeMap::from([(Cost::default(), vec![root])]);
        while let Some((cost, nodes)) = next.pop_first() {
            for node in nodes {
                if cost > distances[node as usize] {
                    continue;
                }
                for arm in self.into.of(node) {
                    let (found, known) =
                        (self.costs[arm.kind as usize] + cost, &mut distances[arm.other as usize]);
                    if found < *known {
                        *known = found;
                        next.entry(found).or_default().push(arm.other);
                    }
                }
            }
        }
        distances
    }
}
