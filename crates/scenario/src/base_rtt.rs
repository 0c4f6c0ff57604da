//! The largest round-trip time on each link between hosts whose programs may all talk to each other.
//!
//! The programs decide which hosts talk, so every pair counts. To look at every pair would be slow. Most hosts are behind one router,
//! and a round trip of two hosts is the trip between their routers plus each host's own part. So pairs of routers are enough.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use warpline_core::{NodeId, TimeDelta};
use warpline_net::routing::Router;

/// The links of a round trip, and the largest round-trip time over them, without queues and transmission times.
pub(super) type Way = (Vec<usize>, TimeDelta);

/// A host's links to its router and back, and the time that they take; empty for a host that is its own router.
struct Leaf {
    links: Vec<usize>,
    rtt: TimeDelta,
}

/// The links from one node to another and back, and the time that they take; `None` if there is no route in one direction.
fn there_and_back(router: &mut Router, delays: &[TimeDelta], a: NodeId, b: NodeId) -> Option<Way> {
    let mut links = router.route(a, b).ok()?;
    links.extend(router.route(b, a).ok()?);
    let links: Vec<usize> = links.into_iter().map(|link| link.index()).collect();
    let rtt = links.iter().fold(TimeDelta::ZERO, |sum, &link| sum + delays[link]);
    Some((links, rtt))
}

/// Round trips over all links between `hosts`. For each link, the largest time listed is that of the slowest pair of hosts that uses
/// it.
pub(super) fn of_all_pairs(router: &mut Router, delays: &[TimeDelta], hosts: &[NodeId]) -> Vec<Way> {
    let mut groups: BTreeMap<NodeId, Vec<Leaf>> = BTreeMap::new();
    for &host in hosts {
        let root = router.gateway(host);
        if let Some((links, rtt)) = there_and_back(router, delays, host, root) {
            groups.entry(root).or_default().push(Leaf { links, rtt });
        }
    }
    for leaves in groups.values_mut() {
        leaves.sort_by_key(|leaf| Reverse(leaf.rtt));
    }
    // No group is empty. The slowest host of each group:
    let roots: Vec<(NodeId, TimeDelta)> =
        groups.iter().map(|(&root, leaves)| (root, leaves[0].rtt)).collect();
    let mut ways = Vec::new();
    // The longest round trip from each root to a host of another group:
    let mut beyond: Vec<Option<TimeDelta>> = vec![None; roots.len()];
    for (i, &(p, here)) in roots.iter().enumerate() {
        for (j, &(q, there)) in roots.iter().enumerate().skip(i + 1) {
            let Some((links, middle)) = there_and_back(router, delays, p, q) else { continue };
            ways.push((links, here + middle + there));
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
                    found[link] = found[link].max(rtt);
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
                    found[link] = found[link].max(rtt);
                }
            }
            prop_assert_eq!(found, pair_by_pair(&mut router, &delays, &hosts));
        }
    }
}
