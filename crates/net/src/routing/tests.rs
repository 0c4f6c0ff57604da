//! Routes are the shortest, the same again, and spread evenly where several are as good.

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
    let [a, b, c] = ["a", "b", "c"].map(|name| graph.find(name).unwrap());
    assert_eq!((graph.link_between(a, b), graph.link_between(a, c)), (Some(LinkId(1)), None));
    assert_eq!((graph.link_between(a, a), graph.link_between(c, c)), (Some(LinkId(3)), None));
}

#[test]
fn of_links_between_two_nodes_the_first_of_the_fastest_is_taken_also_of_those_added_later() {
    let mut graph = graph(&[("a", "b", 5), ("a", "b", 3), ("a", "b", 3)]);
    let [a, b] = ["a", "b"].map(|name| graph.find(name).unwrap());
    assert_eq!(graph.link_between(a, b), Some(LinkId(1)));
    graph.link("a", "b", ms(2));
    graph.link("b", "a", ms(1));
    assert_eq!((graph.link_between(a, b), graph.link_between(b, a)), (Some(LinkId(3)), Some(LinkId(4))));
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
        let ends = [format!("left.{pair}"), format!("right.{pair}")].map(|name| router.graph().find(&name));
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
    assert!(router.trees.values().all(|distances| distances.len() == 2));
}

/// A fat-tree's core: `width` ways at each of two levels, from "a" to "b", and hosts on both.
fn diamond(width: usize) -> Graph {
    let mut graph = Graph::new();
    for first in 0..width {
        graph.link("a", &format!("up.{first}"), ms(1));
        graph.link(&format!("down.{first}"), "b", ms(1));
        for second in 0..width {
            let (up, middle, down) =
                (format!("up.{first}"), format!("core.{first}.{second}"), format!("down.{first}"));
            graph.link(&up, &middle, ms(1));
            graph.link(&middle, &down, ms(1));
        }
    }
    for (host, router) in [("x", "a"), ("y", "b")] {
        graph.link(host, router, ms(1));
        graph.link(router, host, ms(1));
    }
    graph
}

#[test]
fn the_hash_spreads_flows_evenly() {
    let graph = diamond(4);
    let [from, to] = ["x", "y"].map(|name| graph.find(name).unwrap());
    let mut router = Router::new(graph, Metric::Delay);
    let flows = 16_000u64;
    let mut taken = std::collections::BTreeMap::new();
    for flow in 0..flows {
        // Keys in a row, as from a careless caller.
        *taken.entry(router.hashed_route(from, to, flow).unwrap()).or_insert(0u64) += 1;
    }
    assert_eq!(taken.len(), 16);
    // Pearson's statistic of 15 degrees of freedom: above 37.7 once in a thousand.
    let expected = flows as f64 / 16.0;
    let statistic: f64 =
        taken.values().map(|&n| (n as f64 - expected) * (n as f64 - expected) / expected).sum();
    assert!(statistic < 37.7, "{statistic}: {:?}", taken.values());
}

#[test]
fn equal_routes_are_all_or_as_many_as_asked_for_in_an_order_of_the_key() {
    let graph = diamond(4);
    let [from, to] = ["x", "y"].map(|name| graph.find(name).unwrap());
    let mut router = Router::new(graph, Metric::Delay);
    let mut of = |most, key| router.equal_routes(from, to, most, key).unwrap();
    let (all, again, other) = (of(16, 1), of(64, 1), of(16, 2));
    assert_eq!((all.len(), &all), (16, &again));
    assert_ne!(all, other);
    let sorted = |mut routes: Vec<Vec<LinkId>>| {
        routes.sort();
        routes
    };
    assert_eq!(sorted(all.clone()), sorted(other));
    let some = of(15, 1);
    assert!(some.len() == 15 && some.iter().all(|route| all.contains(route)));
    assert_eq!(of(1, 1).len(), 1);
}

proptest! {
    #[test]
    fn routes_are_connected_shortest_and_the_same_again(
        links in prop::collection::vec((0u8..9, 0u8..9, 0u64..4), 1..40),
        by_delay: bool,
        key: u64,
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
                let mut routes = vec![found.unwrap(), warm.hashed_route(from, to, key).unwrap()];
                prop_assert_eq!(&routes[1], &Router::new(graph.clone(), metric).hashed_route(from, to, key).unwrap());
                let all = warm.equal_routes(from, to, 1000, key).unwrap();
                // The first of them all is the plain one.
                prop_assert_eq!(all.iter().min(), Some(&routes[0]));
                prop_assert!(all.contains(&routes[1]));
                let some = warm.equal_routes(from, to, 2, key).unwrap();
                prop_assert!(some.len() == all.len().min(2) && some.iter().all(|route| all.contains(route)));
                let different: std::collections::BTreeSet<_> = all.iter().collect();
                prop_assert_eq!(different.len(), all.len());
                routes.extend(all);
                for route in routes {
                    let (mut at, mut cost) = (from, Cost::default());
                    for link in route {
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
