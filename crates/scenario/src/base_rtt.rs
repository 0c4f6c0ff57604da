//! The largest round-trip time on each link between hosts whose programs may all talk to each other.
//!
//! The programs decide which hosts talk, so every pair counts. To look at every pair would be slow. Most hosts are behind one router,
//! and a round trip of two hosts is the trip between their routers plus each host's own part. So pairs of routers are enough.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use warpline_core::{LinkId, NodeId, TimeDelta};
use warpline_net::routing::Router;

/// Links of round trips, and the largest round-trip time over them, without queues and transmission times.
pub(super) type Way = (Vec<LinkId>, TimeDelta);

/// A host's links to its router and back, and the time that they take; empty for a host that is its own router.
struct Leaf {
    links: Vec<LinkId>,
    rtt: TimeDelta,
}

/// The links from one node to another, and the time that they take; `None` if there is no route.
fn one_way(router: &mut Router, delays: &[TimeDelta], from: NodeId, to: NodeId) -> Option<Way> {
    let links = router.route(from, to).ok()?;
    let time = links.iter().fold(TimeDelta::ZERO, |sum, link| sum + delays[link.index()]);
    Some((links, time))
}

/// The links from one node to another and back, and the time that they take; `None` if there is no route in one direction.
fn there_and_back(router: &mut Router, delays: &[TimeDelta], a: NodeId, b: NodeId) -> Option<Way> {
    let (mut links, there) = one_way(router, delays, a, b)?;
    let (more, back) = one_way(router, delays, b, a)?;
    links.extend(more);
    Some((links, there + back))
}

/// The links between `hosts`, each with times of round trips over it: the largest is that of the slowest pair of hosts that uses the link.
pub(super) fn of_all_pairs(router: &mut Router, delays: &[TimeDelta], hosts: &[NodeId]) -> Vec<Way> {
    // Router by router, here and below: so the tree of shortest paths to each is made once, even where few trees can be kept.
    let mut behind: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for &host in hosts {
        behind.entry(router.gateway(host)).or_default().push(host);
    }
    let mut groups: BTreeMap<NodeId, Vec<Leaf>> = BTreeMap::new();
    for (root, hosts) in behind {
        for host in hosts {
            if let Some((links, rtt)) = there_and_back(router, delays, host, root) {
                groups.entry(root).or_default().push(Leaf { links, rtt });
            }
        }
    }
    for leaves in groups.values_mut() {
        leaves.sort_by_key(|leaf| Reverse(leaf.rtt));
    }
    // No group is empty. The slowest host of each group:
    let roots: Vec<(NodeId, TimeDelta)> =
        groups.iter().map(|(&root, leaves)| (root, leaves[0].rtt)).collect();
    // By the root that they lead to, and by the root that they begin at.
    let mut trips: Vec<Vec<Option<Way>>> = Vec::new();
    for &(to, _) in &roots {
        trips.push(roots.iter().map(|&(from, _)| one_way(router, delays, from, to)).collect());
    }
    let mut ways = Vec::new();
    // The longest round trip from each root to a host of another group:
    let mut beyond: Vec<Option<TimeDelta>> = vec![None; roots.len()];
    for (i, &(_, here)) in roots.iter().enumerate() {
        for (j, &(_, there)) in roots.iter().enumerate().skip(i + 1) {
            let (Some(out), Some(back)) = (trips[j][i].take(), trips[i][j].take()) else { continue };
            let middle = out.1 + back.1;
            ways.extend([out.0, back.0].map(|links| (links, here + middle + there)));
            beyond[i] = beyond[i].max(Some(middle + there));
            beyond[j] = beyond[j].max(Some(middle + here));
        }
    }
    for (leaves, beyond) in groups.into_values().zip(beyond) {
        let (first, second) = (leaves[0].rtt, leaves.get(1).map(|leaf| leaf.rtt));
        for (number, leaf) in leaves.into_iter().enumerate() {
            // A host sends nothing to itself.
            let neighbour = if number == 0 { second } else { Some(first) };
            if let Some(other) = neighbour.max(beyond) {
                ways.push((leaf.links, leaf.rtt + other));
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use warpline_net::routing::{Graph, Metric};

    use super::*;

    /// The same result from all pairs.
    fn pair_by_pair(router: &mut Router, delays: &[TimeDelta], hosts: &[NodeId]) -> Vec<TimeDelta> {
        let mut found = vec![TimeDelta::ZERO; delays.len()];
        for (at, &a) in hosts.iter().enumerate() {
            for &b in &hosts[at + 1..] {
                let Some((links, rtt)) = there_and_back(router, delays, a, b) else { continue };
                for link in links {
                    found[link.index()] = found[link.index()].max(rtt);
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn it_is_what_a_look_at_every_pair_finds(
            links in prop::collection::vec((0u32..9, 0u32..9, 0u64..5, any::<bool>()), 1..20),
            chosen in prop::collection::btree_set(0usize..9, 0..9),
        ) {
            let mut graph = Graph::new();
            let mut delays = Vec::new();
            for (a, b, delay, duplex) in links.into_iter().filter(|(a, b, ..)| a != b) {
                let (a, b) = (format!("n{a}"), format!("n{b}"));
                for (from, to) in [(&a, &b), (&b, &a)].into_iter().take(if duplex { 2 } else { 1 }) {
                    graph.link(from, to, TimeDelta::from_millis(delay));
                    delays.push(TimeDelta::from_millis(delay));
                }
            }
            let nodes = graph.nodes();
            let hosts: Vec<NodeId> = chosen.into_iter().filter(|&node| node < nodes).map(|node| NodeId(node as u32)).collect();
            let mut router = Router::new(graph, Metric::Delay);
            let mut found = vec![TimeDelta::ZERO; delays.len()];
            for (links, rtt) in of_all_pairs(&mut router, &delays, &hosts) {
                for link in links {
                    found[link.index()] = found[link.index()].max(rtt);
                }
            }
            prop_assert_eq!(found, pair_by_pair(&mut router, &delays, &hosts));
        }
    }
}
