//! The paths of live packets: from every end (a live host, or a simulated one that talks to programs) to every node and
//! back, with the network's routes for each part of a path that a packet may travel.
//!
//! A packet that will not arrive (its time to live ends, or a link on the path is too narrow) travels over the real links to the
//! router that stops it. So each path has a route to every router on it.

use std::collections::{BTreeMap, BTreeSet};

use warpline_core::{LinkId, NodeId};
use warpline_net::routing::{Graph, Metric, Router};
use warpline_net::{Network, RouteId};
use warpline_scenario::Expanded;

use crate::run::ways::upto_router;

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
    /// Whether it leads to the destination or to a guest that forwards, or only to the first router, which has no route.
    pub(in crate::run) leads: bool,
    /// The port at its end, if a live host is there.
    pub(in crate::run) port: Option<u32>,
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

/// The links of a port that is an interface of a host that forwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::run) struct Door {
    /// The link over which it sends, if there is one.
    pub(in crate::run) sends: Option<LinkId>,
    /// The link over which it receives, if there is one.
    pub(in crate::run) receives: Option<LinkId>,
}

/// Where datagrams come from and go to.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct End {
    pub(in crate::run) node: u32,
    /// Whether it has a port: it is live.
    pub(in crate::run) live: bool,
    /// The links of the port, if it is an interface of a host that forwards.
    pub(in crate::run) door: Option<Door>,
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

/// The nodes and links of a scenario, for routing.
pub(in crate::run) fn graph(expanded: &Expanded) -> Graph {
    let mut graph = Graph::new();
    for name in expanded.nodes.iter() {
        graph.node(name);
    }
    for link in expanded.links.iter() {
        graph.link(&expanded.nodes[link.from], &expanded.nodes[link.to], link.kind.delay);
    }
    graph
}

impl Paths {
    /// Finds the paths and adds their routes to the network, whose links are those of `expanded`. The ends with ports come first, in the order of
    /// the ports. `forwarding` says which nodes are guests that forward: a path ends at the first of them, wherever it leads. Two ends without
    /// ports have a path between them only if they talk to each other (`pairs`, in either order): a thousand hosts have a million pairs.
    pub(in crate::run) fn find(
        expanded: &Expanded,
        ends: &[End],
        pairs: &BTreeSet<(u32, u32)>,
        forwarding: &[bool],
        network: &mut Network,
    ) -> Self {
        let mut router = Router::new(graph(expanded), Metric::Delay);
        let nodes = expanded.nodes.len();
        let mut paths = Paths { all: Vec::new(), there: Vec::new(), back: Vec::new(), nowhere: Vec::new() };
        let ground = Ground { expanded, forwarding, ports: ports(ends) };
        let mut number = |from: u32, to: u32, door: Option<Door>, paths: &mut Vec<Path>| {
            let links = match door {
                None => router.route(NodeId(from), NodeId(to)).ok(),
                Some(door) => door.sends.and_then(|first| {
                    // The kernel has chosen the first link, whatever the scenario's routing would say.
                    let next = expanded.links.at(first).to as u32;
                    let rest =
                        if next == to { Vec::new() } else { router.route(NodeId(next), NodeId(to)).ok()? };
                    Some(std::iter::once(first).chain(rest).collect())
                }),
            };
            match links {
                Some(links) if !links.is_empty() => ground.add(links, true, network, paths),
                _ => NONE,
            }
        };
        let silent: BTreeSet<u32> = ends.iter().filter(|end| !end.live).map(|end| end.node).collect();
        let live: BTreeSet<u32> = ends.iter().filter(|end| end.live).map(|end| end.node).collect();
        let talk = |own: &End, to: u32| {
            own.live
                || live.contains(&to)
                || !silent.contains(&to)
                || pairs.contains(&(own.node, to))
                || pairs.contains(&(to, own.node))
        };
        // Go destination by destination, since routing knowledge about one serves all paths to it.
        paths.there = vec![vec![NONE; nodes]; ends.len()];
        for to in 0..nodes as u32 {
            for (end, own) in ends.iter().enumerate().filter(|(_, own)| talk(own, to)) {
                paths.there[end][to as usize] = number(own.node, to, own.door, &mut paths.all);
            }
        }
        let mut end_at = vec![None; nodes];
        for (end, own) in ends.iter().enumerate().rev() {
            end_at[own.node as usize] = Some(end);
        }
        for &End { node: host, .. } in ends {
            let back = (0..nodes as u32).map(|from| match end_at[from as usize] {
                Some(other) => paths.there[other][host as usize],
                None => number(from, host, None, &mut paths.all),
            });
            let back = back.collect();
            paths.back.push(back);
        }
        let mut first_of: Vec<Option<LinkId>> = vec![None; nodes];
        for (id, link) in (0u32..).map(LinkId).zip(expanded.links.iter()) {
            first_of[link.from].get_or_insert(id);
        }
        for own in ends {
            let first = match own.door {
                Some(door) => door.sends,
                None => first_of[own.node as usize],
            };
            let path = first.map(|link| ground.add(vec![link], false, network, &mut paths.all));
            paths.nowhere.push(path.unwrap_or(NONE));
        }
        paths
    }

    /// The ports of guests that forward, by the links over which they are entered.
    pub(in crate::run) fn entrances(ends: &[End]) -> BTreeMap<LinkId, u32> {
        ports(ends).by_link
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

/// The ports by the nodes and links at which they are entered.
struct Ports {
    by_node: BTreeMap<u32, u32>,
    by_link: BTreeMap<LinkId, u32>,
}

fn ports(ends: &[End]) -> Ports {
    let mut ports = Ports { by_node: BTreeMap::new(), by_link: BTreeMap::new() };
    for (number, end) in ends.iter().enumerate().filter(|(_, end)| end.live) {
        match end.door {
            None => _ = ports.by_node.insert(end.node, number as u32),
            Some(door) => ports.by_link.extend(door.receives.map(|link| (link, number as u32))),
        }
    }
    ports
}

/// What paths are made of.
struct Ground<'a> {
    expanded: &'a Expanded,
    forwarding: &'a [bool],
    ports: Ports,
}

impl Ground<'_> {
    /// Adds the path over these links, up to the first guest that forwards. Returns its number.
    fn add(&self, mut links: Vec<LinkId>, leads: bool, network: &mut Network, paths: &mut Vec<Path>) -> u32 {
        links.truncate(upto_router(self.expanded, self.forwarding, &links).len());
        let last = links[links.len() - 1];
        let node = self.expanded.links.at(last).to as u32;
        let port = self.ports.by_link.get(&last).or_else(|| self.ports.by_node.get(&node)).copied();
        paths.push(path(self.expanded, links, network, leads || self.forwarding[node as usize], port));
        paths.len() as u32 - 1
    }
}

fn path(
    expanded: &Expanded,
    links: Vec<LinkId>,
    network: &mut Network,
    leads: bool,
    port: Option<u32>,
) -> Path {
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
    Path { links, nodes, mtu, parts, leads, port }
}

#[cfg(test)]
mod tests {
    use warpline_scenario::Scenario;

    use super::*;
    use crate::run::RunOptions;
    use crate::run::build::build;

    #[test]
    fn what_goes_nowhere_takes_the_first_link_of_its_node() {
        let text = "duration = \"1s\"\n\
                    link = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }, { between = [\"b\", \"c\"], rate = \"1Mbit/s\" }]\n\
                    flow = [{ from = \"a\", to = \"c\" }]\n";
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap();
        let expanded = scenario.expand();
        let mut network = build(&scenario, &RunOptions::default()).unwrap().network;
        let ends = [0, 1, 2].map(|node| End { node, live: false, door: None });
        let paths = Paths::find(&expanded, &ends, &BTreeSet::new(), &[false; 3], &mut network);
        let names = [0, 1, 2].map(|end| {
            let path = paths.get(paths.nowhere(end).unwrap());
            let links = path.links.iter().map(|&link| expanded.link_name(&expanded.links.at(link)));
            (links.collect::<Vec<_>>(), path.leads)
        });
        let one = |name: &str| (vec![name.to_owned()], false);
        assert_eq!(names, [one("a>b"), one("b>a"), one("c>b")]);
    }
}
