//! Routing: shortest paths over an arbitrary graph of directed links, computed on request.
//!
//! Deterministic: of two paths the one with the smaller sum of weights wins, then the one with fewer hops, then, at the
//! first node where they differ, the link with the lower id. The search is petgraph's Dijkstra, backwards from the
//! destination. Most nodes of an experiment are hosts on one router. Such leaves carry no transit traffic, so they
//! are left out of the search, and all leaves of a router share its tree. A dumbbell of any size needs two small searches.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Add;

use petgraph::Direction;
use petgraph::algo::dijkstra;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{EdgeRef, NodeFiltered, Reversed};
use thiserror::Error;
use warpline_core::{LinkId, NodeId, TimeDelta};

/// The quantity that a route minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Metric {
    /// The number of links.
    #[default]
    Hops,
    /// The sum of propagation delays.
    Delay,
}

/// Why there is no route.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RoutingError {
    /// No sequence of links leads there.
    #[error("no route from `{from}` to `{to}`: add links that join them (a link carries one direction only)")]
    Unreachable {
        /// Where the route should begin.
        from: String,
        /// Where it should end.
        to: String,
    },
    /// The id does not belong to the graph.
    #[error("node {id} is not in the graph, which has {nodes} nodes")]
    UnknownNode {
        /// The id.
        id: u32,
        /// Number of nodes in the graph.
        nodes: usize,
    },
}

/// Named nodes and directed links between them.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Node weight: name. Link weight: propagation delay.
    graph: DiGraph<String, TimeDelta>,
    ids: BTreeMap<String, NodeId>,
}

impl Graph {
    /// No nodes, no links.
    pub fn new() -> Self {
        Self::default()
    }
    /// The node called `name`, added if necessary. Ids count from 0 in order of addition.
    pub fn node(&mut self, name: &str) -> NodeId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = NodeId(self.graph.add_node(name.to_owned()).index() as u32);
        self.ids.insert(name.to_owned(), id);
        id
    }
    /// Adds one direction of a link; nodes are added if necessary. Ids count from 0 in order of addition.
    pub fn link(&mut self, from: &str, to: &str, delay: TimeDelta) -> LinkId {
        let (from, to) = (self.node(from), self.node(to));
        LinkId(self.graph.add_edge(index(from), index(to), delay).index() as u32)
    }
    /// The node called `name`.
    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.ids.get(name).copied()
    }
    /// A node's name.
    pub fn name(&self, node: NodeId) -> Option<&str> {
        self.graph.node_weight(index(node)).map(String::as_str)
    }
    /// Where a link begins and ends.
    pub fn ends(&self, link: LinkId) -> Option<(NodeId, NodeId)> {
        let (from, to) = self.graph.edge_endpoints(petgraph::graph::EdgeIndex::new(link.index()))?;
        Some((NodeId(from.index() as u32), NodeId(to.index() as u32)))
    }
    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.graph.node_count()
    }
    /// Number of links (directions).
    pub fn links(&self) -> usize {
        self.graph.edge_count()
    }
    /// All names, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ids.keys().map(String::as_str)
    }
}

fn index(node: NodeId) -> NodeIndex {
    NodeIndex::new(node.index())
}

/// Length of a path: weight, then hops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    weight: u64,
    hops: u32,
}

impl Add for Cost {
    type Output = Cost;
    fn add(self, other: Cost) -> Cost {
        Cost { weight: self.weight.saturating_add(other.weight), hops: self.hops.saturating_add(other.hops) }
    }
}

impl Metric {
    fn cost(self, delay: TimeDelta) -> Cost {
        let weight = match self {
            Metric::Hops => 1,
            Metric::Delay => delay.as_nanos(),
        };
        Cost { weight, hops: 1 }
    }
}

/// The paths to one destination from every node that carries traffic.
#[derive(Debug)]
struct Tree {
    /// Cost by node; `None` if the destination cannot be reached from there.
    cost: Vec<Option<Cost>>,
    /// The link to take, by node.
    next: Vec<u32>,
}

/// Number of trees kept: enough for the routers of any sensible topology, and bounded if every node is one.
const TREES: usize = 64;

/// Computes routes over a graph, and caches results for the next ones.
#[derive(Debug)]
pub struct Router {
    graph: Graph,
    metric: Metric,
    /// Whether all links of a node lead to and from one neighbour.
    leaf: Vec<bool>,
    trees: BTreeMap<u32, Tree>,
    /// Destinations of the trees, oldest first.
    ages: VecDeque<u32>,
}

impl Router {
    /// A router for `graph`.
    pub fn new(graph: Graph, metric: Metric) -> Self {
        let leaf = graph
            .graph
            .node_indices()
            .map(|node| {
                let mut others = graph.graph.neighbors_undirected(node).filter(|&other| other != node);
                let first = others.next();
                others.all(|other| Some(other) == first)
            })
            .collect();
        Router { graph, metric, leaf, trees: BTreeMap::new(), ages: VecDeque::new() }
    }
    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The node through which everything that `node` sends and receives passes: its neighbour, if it has only one and that has more; otherwise
    /// itself.
    pub fn gateway(&self, node: NodeId) -> NodeId {
        if !self.leaf.get(node.index()).is_some_and(|&leaf| leaf) {
            return node;
        }
        let mut neighbours = self.graph.graph.neighbors_undirected(index(node));
        let neighbour = neighbours.find(|&other| other != index(node) && !self.leaf[other.index()]);
        neighbour.map_or(node, |other| NodeId(other.index() as u32))
    }

    /// The links from `from` to `to`, in order; none if they are the same node.
    ///
    /// # Errors
    /// If no path exists, or an id does not belong to the graph.
    pub fn route(&mut self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, RoutingError> {
        let nodes = self.graph.nodes();
        if let Some(id) = [from, to].into_iter().find(|node| node.index() >= nodes) {
            return Err(RoutingError::UnknownNode { id: id.0, nodes });
        }
        let mut links = Vec::new();
        if from == to {
            return Ok(links);
        }
        self.find(from, to, &mut links).ok_or_else(|| RoutingError::Unreachable {
            from: self.graph.name(from).unwrap_or_default().to_owned(),
            to: self.graph.name(to).unwrap_or_default().to_owned(),
        })?;
        Ok(links)
    }

    fn find(&mut self, from: NodeId, to: NodeId, links: &mut Vec<LinkId>) -> Option<()> {
        // To a leaf: to its neighbour, then over the best link between the two.
        let (root, last) = if self.leaf[to.index()] {
            let edge = self
                .graph
                .graph
                .edges_directed(index(to), Direction::Incoming)
                .filter(|edge| edge.source() != index(to))
                .min_by_key(|edge| (self.metric.cost(*edge.weight()), edge.id()))?;
            (NodeId(edge.source().index() as u32), Some(LinkId(edge.id().index() as u32)))
        } else {
            (to, None)
        };
        self.ensure_tree(root);
        let tree = self.trees.get(&root.0)?;
        let mut node = from;
        while node != root {
            let link = if tree.cost[node.index()].is_some() {
                tree.next[node.index()]
            } else {
                // A leaf, which is not in the tree, or a node that cannot reach the root.
                self.best_link(node, &tree.cost)?.1
            };
            links.push(LinkId(link));
            node = self.graph.ends(LinkId(link))?.1;
        }
        links.extend(last);
        Some(())
    }

    /// The link by which `node` is closest to the root of a tree, and how close that is.
    fn best_link(&self, node: NodeId, cost: &[Option<Cost>]) -> Option<(Cost, u32)> {
        self.graph
            .graph
            .edges(index(node))
            .filter_map(|edge| {
                let beyond = cost[edge.target().index()]?;
                Some((self.metric.cost(*edge.weight()) + beyond, edge.id().index() as u32))
            })
            .min()
    }

    fn ensure_tree(&mut self, root: NodeId) {
        if self.trees.contains_key(&root.0) {
            return;
        }
        if self.ages.len() == TREES
            && let Some(oldest) = self.ages.pop_front()
        {
            self.trees.remove(&oldest);
        }
        let graph = &self.graph.graph;
        let core = NodeFiltered::from_fn(graph, |node: NodeIndex| {
            !self.leaf[node.index()] || node.index() == root.index()
        });
        let found = dijkstra(Reversed(&core), index(root), None, |edge| self.metric.cost(*edge.weight()));
        let mut cost = vec![None; self.graph.nodes()];
        for (node, found) in found {
            cost[node.index()] = Some(found);
        }
        let next = (0..self.graph.nodes())
            .map(|node| {
                let reached = cost[node].is_some();
                let best = reached.then(|| self.best_link(NodeId(node as u32), &cost)).flatten();
                best.map_or(u32::MAX, |(_, link)| link)
            })
            .collect();
        self.trees.insert(root.0, Tree { cost, next });
        self.ages.push_back(root.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> TimeDelta {
        TimeDelta::from_millis(millis)
    }
    fn graph(links: &[(&str, &str, u64)]) -> Graph {
        let mut graph = Graph::new();
        for &(from, to, delay) in links {
            graph.link(from, to, ms(delay));
        }
        graph
    }
    fn route(graph: &Graph, metric: Metric, from: &str, to: &str) -> Result<Vec<u32>, RoutingError> {
        let (from, to) = (graph.find(from).unwrap(), graph.find(to).unwrap());
        let links = Router::new(graph.clone(), metric).route(from, to)?;
        Ok(links.into_iter().map(|link| link.0).collect())
    }

    #[test]
    fn hops_or_delay_then_hops_then_the_lowest_link() {
        let links = [
            ("a", "b", 10), // 0
            ("a", "c", 1),  // 1
            ("c", "b", 1),  // 2
            ("a", "b", 10), // 3
            ("a", "d", 1),  // 4
            ("d", "b", 1),  // 5
            ("d", "e", 0),  // 6
            ("e", "b", 1),  // 7
        ];
        let graph = graph(&links);
        assert_eq!(route(&graph, Metric::Hops, "a", "b"), Ok(vec![0]));
        assert_eq!(route(&graph, Metric::Delay, "a", "b"), Ok(vec![1, 2]));
        assert_eq!(route(&graph, Metric::Delay, "d", "b"), Ok(vec![5]));
        assert_eq!(route(&graph, Metric::Delay, "a", "a"), Ok(vec![]));
        assert_eq!(
            route(&graph, Metric::Hops, "b", "a").unwrap_err().to_string(),
            "no route from `b` to `a`: add links that join them (a link carries one direction only)"
        );
        let unknown = Router::new(graph, Metric::Hops).route(NodeId(0), NodeId(9));
        assert_eq!(unknown, Err(RoutingError::UnknownNode { id: 9, nodes: 5 }));
    }

    #[test]
    fn two_leaves_and_parallel_links() {
        let graph = graph(&[("a", "b", 5), ("a", "b", 3), ("b", "a", 1), ("a", "a", 0), ("b", "c", 1)]);
        assert_eq!(route(&graph, Metric::Delay, "a", "b"), Ok(vec![1]));
        assert_eq!(route(&graph, Metric::Hops, "a", "c"), Ok(vec![0, 4]));
        assert_eq!(route(&graph, Metric::Hops, "b", "a"), Ok(vec![2]));
        assert!(route(&graph, Metric::Hops, "c", "a").is_err());
    }

    #[test]
    fn a_large_dumbbell_needs_two_trees() {
        let pairs = 2000;
        let mut graph = Graph::new();
        let mut duplex = |a: &str, b: &str, delay: u64| {
            graph.link(a, b, ms(delay));
            graph.link(b, a, ms(delay));
        };
        duplex("r1", "r2", 10);
        for pair in 0..pairs {
            duplex(&format!("left.{pair}"), "r1", 1);
            duplex(&format!("right.{pair}"), "r2", 1);
        }
        let mut router = Router::new(graph, Metric::Hops);
        for pair in 0..pairs {
            let ends =
                [format!("left.{pair}"), format!("right.{pair}")].map(|name| router.graph().find(&name));
            let [Some(left), Some(right)] = ends else { panic!("pair {pair} is missing") };
            for (from, to) in [(left, right), (right, left)] {
                let links = router.route(from, to).unwrap();
                assert_eq!(links.len(), 3);
                assert_eq!(router.graph().ends(links[0]).unwrap().0, from);
                assert_eq!(router.graph().ends(links[2]).unwrap().1, to);
            }
        }
        assert_eq!(router.trees.len(), 2);
        // The trees hold the two routers only.
        assert!(router.trees.values().all(|tree| tree.cost.iter().flatten().count() == 2));
    }

    proptest! {
        #[test]
        fn routes_are_connected_shortest_and_the_same_again(
            links in prop::collection::vec((0u8..9, 0u8..9, 0u64..4), 1..40),
            by_delay: bool,
        ) {
            let metric = if by_delay { Metric::Delay } else { Metric::Hops };
            let mut graph = Graph::new();
            for &(from, to, delay) in &links {
                graph.link(&from.to_string(), &to.to_string(), ms(delay));
            }
            let n = graph.nodes();
            // Floyd and Warshall as the reference.
            let mut best = vec![vec![None; n]; n];
            for (node, row) in best.iter_mut().enumerate() {
                row[node] = Some(Cost::default());
            }
            let cost_of = |link: usize| metric.cost(ms(links[link].2));
            for link in 0..links.len() {
                let (from, to) = graph.ends(LinkId(link as u32)).unwrap();
                let slot: &mut Option<Cost> = &mut best[from.index()][to.index()];
                *slot = Some(slot.map_or(cost_of(link), |cost| cost.min(cost_of(link))));
            }
            for via in 0..n {
                for from in 0..n {
                    for to in 0..n {
                        if let (Some(first), Some(second)) = (best[from][via], best[via][to]) {
                            let sum = first + second;
                            best[from][to] = Some(best[from][to].map_or(sum, |cost: Cost| cost.min(sum)));
                        }
                    }
                }
            }
            let mut warm = Router::new(graph.clone(), metric);
            for (from, row) in best.iter().enumerate() {
                for (to, &expected) in row.iter().enumerate() {
                    let (from, to) = (NodeId(from as u32), NodeId(to as u32));
                    let found = warm.route(from, to);
                    // A new router, without the other's trees, returns the same.
                    prop_assert_eq!(&found, &Router::new(graph.clone(), metric).route(from, to));
                    let Some(expected) = expected else {
                        prop_assert!(found.is_err());
                        continue;
                    };
                    let (mut at, mut cost) = (from, Cost::default());
                    for link in found.unwrap() {
                        let (begin, end) = graph.ends(link).unwrap();
                        prop_assert_eq!(begin, at);
                        (at, cost) = (end, cost + cost_of(link.index()));
                    }
                    prop_assert_eq!((at, cost), (to, expected));
                }
            }
        }
    }
}
