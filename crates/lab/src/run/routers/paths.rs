//! The paths of live packets: from every end (a live host, or a simulated one that talks to programs) to every node and
//! back, with the network's routes for each part of a path that a packet may travel.
//!
//! A packet that will not arrive (its time to live ends, or a link on the path is too narrow) travels over the real links to the
//! router that stops it. So each path has a route to every router on it.

use std::collections::BTreeMap;

use warpline_core::{LinkId, NodeId};
use warpline_net::routing::{Graph, Metric, Router};
use warpline_net::{Network, RouteId};
use warpline_scenario::Expanded;

/// No path.
const NONE: u32 = u32::MAX;

/// A path through the network.
#[derive(Debug)]
pub(in crate::run) struct Path {
    /// Its links.
    pub(in crate::run) links: Vec<LinkId>,
    /// The nodes on it: where link 0 begins, where it ends, and so on.
    pub(in crate::run) nodes: Vec<u32>,
    /// The MTU of each link; the largest number if it has none.
    mtu: Vec<u32>,
    /// Routes from the start of one link to the end of another: from the first link, and from each that is narrower than all before it.
    parts: BTreeMap<(u16, u16), RouteId>,
    /// Whether it leads to the destination, or only to the first router, which has no route.
    pub(in crate::run) leads: bool,
}

impl Path {
    /// The number of its links.
    pub(in crate::run) fn len(&self) -> usize {
        self.links.len()
    }

    /// The route over links `from` to `stop`, excluding `stop`.
    pub(in crate::run) fn part(&self, from: usize, stop: usize) -> Option<RouteId> {
        self.parts.get(&(from as u16, stop as u16)).copied()
    }

    /// The MTU of a link of the path, in bytes.
    pub(in crate::run) fn mtu(&self, link: usize) -> u32 {
        self.mtu[link]
    }

    /// The first link from `from` on whose MTU is less than `len` bytes.
    #[inline]
    pub(in crate::run) fn narrow(&self, from: usize, len: u32) -> Option<usize> {
        self.mtu[from..].iter().position(|&mtu| len > mtu).map(|at| from + at)
    }
}

/// All paths.
#[derive(Debug)]
pub(in crate::run) struct Paths {
    all: Vec<Path>,
    /// By end and destination.
    there: Vec<Vec<u32>>,
    /// By end and the node where the packet starts.
    back: Vec<Vec<u32>>,
    /// By end: to the first router, for packets to unknown addresses.
    nowhere: Vec<u32>,
}

impl Paths {
    /// Finds the paths and adds their routes to the network, whose links are those of `expanded`. `ends` are the nodes of the
    /// ends.
    pub(in crate::run) fn find(expanded: &Expanded, ends: &[u32], network: &mut Network) -> Self {
        let mut graph = Graph::new();
        for name in expanded.nodes.iter() {
            graph.node(name);
        }
        for link in expanded.links.iter() {
            graph.link(&expanded.nodes[link.from], &expanded.nodes[link.to], link.kind.delay);
        }
        let mut router = Router::new(graph, Metric::Delay);
        let nodes = expanded.nodes.len();
        let mut paths = Paths { all: Vec::new(), there: Vec::new(), back: Vec::new(), nowhere: Vec::new() };
        let mut number =
            |from: u32, to: u32, paths: &mut Vec<Path>| match router.route(NodeId(from), NodeId(to)) {
                Ok(links) if !links.is_empty() => {
                    paths.push(path(expanded, links, network, true));
                    paths.len() as u32 - 1
                }
                _ => NONE,
            };
        // Go destination by destination, since routing knowledge about one serves all paths to it.
        paths.there = vec![vec![NONE; nodes]; ends.len()];
        for to in 0..nodes as u32 {
            for (end, &host) in ends.iter().enumerate() {
                paths.there[end][to as usize] = number(host, to, &mut paths.all);
            }
        }
        let mut end_at = vec![None; nodes];
        for (end, &host) in ends.iter().enumerate().rev() {
            end_at[host as usize] = Some(end);
        }
        for &host in ends {
            let back = (0..nodes as u32).map(|from| match end_at[from as usize] {
                Some(other) => paths.there[other][host as usize],
                None => number(from, host, &mut paths.all),
            });
            let back = back.collect();
            paths.back.push(back);
        }
        for &host in ends {
            let first = expanded.links.iter().position(|link| link.from == host as usize);
            paths.nowhere.push(match first {
                Some(link) => {
                    paths.all.push(path(expanded, vec![LinkId(link as u32)], network, false));
                    paths.all.len() as u32 - 1
                }
                None => NONE,
            });
        }
        paths
    }

    pub(in crate::run) fn get(&self, path: u32) -> &Path {
        &self.all[path as usize]
    }
    /// From end number `host` to a node.
    #[inline]
    pub(in crate::run) fn there(&self, host: usize, node: u32) -> Option<u32> {
        Some(self.there[host][node as usize]).filter(|&path| path != NONE)
    }
    /// From a node to end number `host`.
    pub(in crate::run) fn back(&self, node: u32, host: usize) -> Option<u32> {
        Some(self.back[host][node as usize]).filter(|&path| path != NONE)
    }
    /// From end number `host` to its first router.
    pub(in crate::run) fn nowhere(&self, host: usize) -> Option<u32> {
        Some(self.nowhere[host]).filter(|&path| path != NONE)
    }
}

fn path(expanded: &Expanded, links: Vec<LinkId>, network: &mut Network, leads: bool) -> Path {
    let mtu: Vec<u32> =
        links.iter().map(|link| expanded.links.at(*link).kind.mtu.unwrap_or(u32::MAX)).collect();
    let mut nodes = vec![expanded.links.at(links[0]).from as u32];
    nodes.extend(links.iter().map(|link| expanded.links.at(*link).to as u32));
    let mut parts = BTreeMap::new();
    let mut narrowest = u32::MAX;
    for from in 0..links.len() {
        let narrower = mtu[from] < narrowest;
        narrowest = narrowest.min(mtu[from]);
        if from > 0 && !narrower {
            continue;
        }
        for stop in from + 1..=links.len() {
            let route = network.add_route(&links[from..stop]);
            parts
                .insert((from as u16, stop as u16), route.expect("links that meet, before the first packet"));
        }
    }
    Path { links, nodes, mtu, parts, leads }
}
