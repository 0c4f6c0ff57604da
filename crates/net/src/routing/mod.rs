//! Routing: shortest paths over an arbitrary graph of directed links, computed on request.
//!
//! Of two paths the one with the smaller sum of weights wins, then the one with fewer hops. Where several are as good, a route takes
//!
//! - the first: at the first node where they differ, the link with the lower id ([`Router::route`]);
//! - the one that each node's hash of the flow says, as switches do (equal-cost multipath, RFC 2992: [`Router::hashed_route`]);
//! - or all of them, for a sender that sprays its packets ([`Router::equal_routes`]).
//!
//! All three are the same again for the same graph and the same key. Most nodes of an experiment are hosts on one router. Such leaves
//! carry no transit traffic, so they are left out of the search, and all leaves of a router share its tree of distances. A dumbbell of
//! any size needs two small searches, a fat-tree one for each of its edge switches: nothing grows with pairs of hosts.

mod core;
mod graph;
mod names;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Add;

use thiserror::Error;
use warpline_core::random::{hash, mix};
use warpline_core::{LinkId, NodeId, TimeDelta};

use self::core::{Core, Rows, UNREACHED};
pub use self::graph::{Edge, Graph};
pub use self::names::Names;

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

/// Bytes of distances that are kept: those to every edge switch of a fat-tree of 8,192 hosts. Beyond that the oldest are computed anew
/// when they are needed again, so whoever asks for many routes should ask in the order of their destinations'
/// [gateways](Router::gateway).
const KEPT: usize = 16 << 20;

/// Computes routes over a graph, and caches results for the next ones.
#[derive(Debug)]
pub struct Router {
    graph: Graph,
    metric: Metric,
    /// Whether all links of a node lead to and from one neighbour.
    leaf: Vec<bool>,
    /// The links of leaves to their neighbours, and back from there.
    stubs: [Rows<LinkId>; 2],
    core: Core,
    /// Distances to some nodes of the core.
    trees: BTreeMap<u32, Vec<Cost>>,
    /// Their roots, oldest first.
    ages: VecDeque<u32>,
}

/// The ways from one node to another that cost least.
struct Span {
    /// Links from a leaf to its router; empty if the route begins in the core.
    first: Vec<LinkId>,
    /// Where the route enters the core, and where it leaves it: the root of a tree; none if it lies outside.
    inner: Option<(u32, u32)>,
    /// Links from the router to a leaf; empty if the route ends in the core.
    last: Vec<LinkId>,
}

impl Router {
    /// A router for `graph`.
    pub fn new(graph: Graph, metric: Metric) -> Self {
        let nodes = graph.nodes();
        let mut neighbour: Vec<Option<NodeId>> = vec![None; nodes];
        let mut leaf = vec![true; nodes];
        for edge in graph.edges().iter().filter(|edge| edge.from != edge.to) {
            for (node, other) in [(edge.from, edge.to), (edge.to, edge.from)] {
                leaf[node.index()] &= *neighbour[node.index()].get_or_insert(other) == other;
            }
        }
        let of_leaves = |forward: bool| {
            let links = (0u32..).zip(graph.edges()).filter_map(|(id, edge)| {
                let node = if forward { edge.from } else { edge.to };
                let is_stub = leaf[node.index()] && edge.from != edge.to;
                is_stub.then_some((node.0, LinkId(id)))
            });
            Rows::new(nodes, links)
        };
        let stubs = [of_leaves(true), of_leaves(false)];
        let core = Core::new(&leaf, &graph, metric);
        Router { graph, metric, leaf, stubs, core, trees: BTreeMap::new(), ages: VecDeque::new() }
    }

    /// The graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The graph, for what comes after routing.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// The node through which everything that `node` sends and receives passes: its neighbour, if it has only one and that has more; otherwise
    /// itself.
    pub fn gateway(&self, node: NodeId) -> NodeId {
        if !self.leaf.get(node.index()).is_some_and(|&leaf| leaf) {
            return node;
        }
        let [out, into] = self.stubs.each_ref().map(|links| links.of(node.0).first());
        let ends = out.or(into).and_then(|&link| self.graph.ends(link));
        let neighbour = ends.map(|(from, to)| if from == node { to } else { from });
        neighbour.filter(|other| !self.leaf[other.index()]).unwrap_or(node)
    }

    /// The links from `from` to `to`, in order; none if they are the same node. Of several routes that are as good, the first.
    ///
    /// # Errors
    /// If no path exists, or an id does not belong to the graph.
    pub fn route(&mut self, from: NodeId, to: NodeId) -> Result<Vec<LinkId>, RoutingError> {
        self.walk(from, to, |_, _| 0)
    }

    /// As [`route`](Self::route); of several routes that are as good, one by `key`: each node hashes it together with its own name, and
    /// takes the link that the hash says. Flows with random keys spread evenly.
    ///
    /// # Errors
    /// As there.
    pub fn hashed_route(&mut self, from: NodeId, to: NodeId, key: u64) -> Result<Vec<LinkId>, RoutingError> {
        self.walk(from, to, |name, links| {
            let number = mix(mix(key) ^ hash(name));
            ((u128::from(number) * links as u128) >> 64) as usize
        })
    }

    /// All routes from `from` to `to` that are as good as [`route`](Self::route)'s; of more than `most`, that many different ones as
    /// [`hashed_route`](Self::hashed_route) draws them. Their order is drawn by `key`, too.
    ///
    /// # Errors
    /// As there.
    pub fn equal_routes(
        &mut self,
        from: NodeId,
        to: NodeId,
        most: usize,
        key: u64,
    ) -> Result<Vec<Vec<LinkId>>, RoutingError> {
        let most = most.max(1);
        let Some(span) = self.span(from, to)? else { return Ok(vec![Vec::new()]) };
        let mut routes = Vec::new();
        self.all(&span, most + 1, &mut routes);
        if routes.len() <= most {
            // Each at its place by its own hash.
            let place =
                |route: &Vec<LinkId>| route.iter().fold(key, |state, link| mix(state ^ u64::from(link.0)));
            routes.sort_by_cached_key(place);
            return Ok(routes);
        }
        routes.clear();
        // As many draws as find nearly all of the routes where there is only one more than `most`.
        for draw in 0..16 * most as u64 {
            let route = self.hashed_route(from, to, mix(key.wrapping_add(draw)))?;
            if !routes.contains(&route) {
                routes.push(route);
            }
            if routes.len() == most {
                break;
            }
        }
        Ok(routes)
    }

    /// The route on which `choose` picks one of several equal links, by the name of the node that they begin at and their number.
    fn walk(
        &mut self,
        from: NodeId,
        to: NodeId,
        choose: impl Fn(&str, usize) -> usize,
    ) -> Result<Vec<LinkId>, RoutingError> {
        let mut route = Vec::new();
        let Some(span) = self.span(from, to)? else { return Ok(route) };
        let pick = |links: &[LinkId]| {
            let begin = links.first().and_then(|&link| self.graph.ends(link)).map(|(begin, _)| begin);
            let name = begin.and_then(|begin| self.graph.name(begin)).unwrap_or_default();
            links.get(choose(name, links.len())).copied()
        };
        route.extend(pick(&span.first));
        if let Some((mut node, root)) = span.inner {
            let distances = &self.trees[&root];
            while node != root {
                let ways = self.core.ways_on(distances, node);
                let count = ways.count();
                let name = self.graph.name(self.core.node(node)).unwrap_or_default();
                let Some((link, next)) = self.core.ways_on(distances, node).nth(choose(name, count)) else {
                    break;
                };
                route.push(link);
                node = next;
            }
        }
        route.extend(pick(&span.last));
        Ok(route)
    }

    /// Adds all routes of `span`, until there are `most`.
    fn all(&self, span: &Span, most: usize, routes: &mut Vec<Vec<LinkId>>) {
        /// One place outside the core, or none.
        fn ends(links: &[LinkId]) -> Vec<Option<LinkId>> {
            if links.is_empty() { vec![None] } else { links.iter().copied().map(Some).collect() }
        }
        let mut inner: Vec<Vec<LinkId>> = Vec::new();
        match span.inner {
            None => inner.push(Vec::new()),
            Some((start, root)) => {
                let distances = &self.trees[&root];
                // Routes that have been followed so far, the last one first.
                let mut begun = vec![(Vec::new(), start)];
                while let Some((route, node)) = begun.pop() {
                    if inner.len() == most {
                        break;
                    }
                    if node == root {
                        inner.push(route);
                        continue;
                    }
                    begun.extend(self.core.ways_on(distances, node).map(|(link, next)| {
                        let mut longer = route.clone();
                        longer.push(link);
                        (longer, next)
                    }));
                }
            }
        }
        for first in ends(&span.first) {
            for middle in &inner {
                for last in ends(&span.last) {
                    if routes.len() < most {
                        routes.push(first.into_iter().chain(middle.iter().copied()).chain(last).collect());
                    }
                }
            }
        }
    }

    /// The ways from `from` to `to`; none if they are the same node. The tree of their root is there afterwards.
    fn span(&mut self, from: NodeId, to: NodeId) -> Result<Option<Span>, RoutingError> {
        let nodes = self.graph.nodes();
        if let Some(id) = [from, to].into_iter().find(|node| node.index() >= nodes) {
            return Err(RoutingError::UnknownNode { id: id.0, nodes });
        }
        if from == to {
            return Ok(None);
        }
        let found = self.find(from, to).ok_or_else(|| RoutingError::Unreachable {
            from: self.graph.name(from).unwrap_or_default().to_owned(),
            to: self.graph.name(to).unwrap_or_default().to_owned(),
        })?;
        Ok(Some(found))
    }

    fn find(&mut self, from: NodeId, to: NodeId) -> Option<Span> {
        let [out, into] = &self.stubs;
        let mut span = Span { first: Vec::new(), inner: None, last: Vec::new() };
        let (mut start, mut root) = (from, to);
        // To a leaf: to its neighbour, then over the best link between the two.
        if self.leaf[to.index()] {
            span.last = self.best(into.of(to.0));
            root = self.graph.ends(*span.last.first()?)?.0;
        }
        if start != root && self.leaf[from.index()] {
            span.first = self.best(out.of(from.0));
            start = self.graph.ends(*span.first.first()?)?.1;
        }
        match (self.core.number(start), self.core.number(root)) {
            (Some(start), Some(root)) => {
                self.ensure_tree(root);
                span.inner = (self.trees[&root][start as usize] != UNREACHED).then_some((start, root));
                span.inner.is_some().then_some(span)
            }
            // Two leaves on each other.
            _ => (start == root).then_some(span),
        }
    }

    /// Those of a leaf's links that cost least.
    fn best(&self, links: &[LinkId]) -> Vec<LinkId> {
        let delay = |link: &LinkId| self.graph.delays()[self.graph.edges()[link.index()].kind as usize];
        let cost = |link: &&LinkId| self.metric.cost(delay(link));
        let least = links.iter().map(|link| cost(&link)).min();
        links.iter().filter(|link| Some(cost(link)) == least).copied().collect()
    }

    fn ensure_tree(&mut self, root: u32) {
        if self.trees.contains_key(&root) {
            return;
        }
        let most = (KEPT / (self.core.len() * size_of::<Cost>()).max(1)).max(1);
        if self.ages.len() >= most
            && let Some(oldest) = self.ages.pop_front()
        {
            self.trees.remove(&oldest);
        }
        self.trees.insert(root, self.core.distances(root));
        self.ages.push_back(root);
    }
}
