//! Routes over a scenario's links: least total delay, then fewest links, then the link listed first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use warpline_core::TimeDelta;

/// Finds routes; remembers the tree of each start that was asked for.
pub(crate) struct Routes {
    /// Per node: (link, far end, delay), in the order of the links.
    outgoing: Vec<Vec<(usize, usize, TimeDelta)>>,
    /// Per start: by which link and from which node each node is reached.
    trees: BTreeMap<usize, Vec<Option<(usize, usize)>>>,
}

impl Routes {
    /// Over `nodes` nodes and `links` as (from, to, delay).
    pub(crate) fn new(nodes: usize, links: &[(usize, usize, TimeDelta)]) -> Self {
        let mut outgoing = vec![Vec::new(); nodes];
        for (index, &(from, to, delay)) in links.iter().enumerate() {
            outgoing[from].push((index, to, delay));
        }
        Routes { outgoing, trees: BTreeMap::new() }
    }

    /// The links from `from` to `to`, `None` if there is no way.
    pub(crate) fn between(&mut self, from: usize, to: usize) -> Option<Vec<usize>> {
        // A host with one link shares the tree of its router: a thousand hosts need one search.
        let mut start = from;
        let mut head = Vec::new();
        if let [(link, next, _)] = self.outgoing[from].as_slice()
            && from != to
        {
            head.push(*link);
            start = *next;
        }
        let outgoing = &self.outgoing;
        let tree = self.trees.entry(start).or_insert_with(|| tree(outgoing, start));
        let mut route = Vec::new();
        let mut at = to;
        while at != start {
            let (link, before) = tree[at]?;
            route.push(link);
            at = before;
        }
        route.reverse();
        head.append(&mut route);
        Some(head)
    }
}

/// Dijkstra's algorithm.
fn tree(outgoing: &[Vec<(usize, usize, TimeDelta)>], start: usize) -> Vec<Option<(usize, usize)>> {
    let mut reached = vec![None; outgoing.len()];
    let mut done = vec![false; outgoing.len()];
    let mut heap = BinaryHeap::from([Reverse((TimeDelta::ZERO, 0u32, None::<usize>, start, start))]);
    while let Some(Reverse((delay, hops, link, node, before))) = heap.pop() {
        if done[node] {
            continue;
        }
        done[node] = true;
        reached[node] = link.map(|link| (link, before));
        for &(link, far, own) in &outgoing[node] {
            if !done[far] {
                heap.push(Reverse((delay + own, hops + 1, Some(link), far, node)));
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_delay_then_fewest_links_then_the_first_listed() {
        let ms = TimeDelta::from_millis;
        // 0 to 3: direct in 10 ms, over 1 in 5 + 5, over 2 in 2 + 2.
        let links = [
            (0, 3, ms(10)),
            (0, 1, ms(5)),
            (1, 3, ms(5)),
            (0, 2, ms(2)),
            (2, 3, ms(2)),
            (3, 0, ms(1)),
            (3, 0, ms(1)),
        ];
        let mut routes = Routes::new(5, &links);
        assert_eq!(routes.between(0, 3), Some(vec![3, 4]));
        assert_eq!(routes.between(3, 0), Some(vec![5]));
        assert_eq!(Routes::new(5, &links[..3]).between(0, 3), Some(vec![0]));
        assert_eq!(routes.between(0, 4), None);
        assert_eq!(routes.between(1, 0), Some(vec![2, 5]));
    }
}
