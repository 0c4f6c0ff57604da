//! Where to cut a network, so that its parts can run at the same time.
//!
//! Two things make a cut good: the parts have equal work with little traffic between them, and the links between them have long delays,
//! because the parts meet once in the shortest of these. So all cuts are considered that spare the links below some delay: nodes joined by
//! those stay together, and what is left is divided as a graph. The estimate of the running time decides between the delays, and whether a cut
//! pays at all.
//!
//! What happens in a network does not depend on how it is cut, so the estimates need not be the same on all machines.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::successors;

use warpline_core::TimeDelta;

use crate::partition::Graph;

/// Costs in nanoseconds of an ordinary machine; only their ratios matter. A packet arrives at a node and is put onto the next link.
const HOP: f64 = 70.0;
/// The same if that needs no event.
const EXPRESS: f64 = 15.0;
/// What a departure costs more that is an event.
const DEPARTURE: f64 = 210.0;
/// Handing a packet from one part to another: for the one that it leaves, and for the one that it enters, where its arrival is an event.
const CROSSING: (f64, f64) = (60.0, 120.0);
/// What it takes two parts to keep in step for as long as the shortest delay between them, with the time for which one waits for the other,
/// and what each further part adds. With less for each, eight parts look better than four for a thousand flows over one link, where four are
/// as fast; with 1,500, four look as good as eight for the fat-tree of 128 hosts, where eight are faster (docs/src/performance.md).
const WINDOW: (f64, f64) = (7_000.0, 1_000.0);
/// A cut must save so much of the time to be worth it.
const WORTH: f64 = 0.85;
/// Delays that are tried at most.
const TRIES: usize = 24;

/// A link with the packets per second that are expected on it.
#[derive(Clone, Copy, Debug)]
pub struct LoadedLink {
    /// Node where it starts.
    pub from: u32,
    /// Node where it ends.
    pub to: u32,
    /// Propagation delay.
    pub delay: TimeDelta,
    /// Packets per second.
    pub packets: f64,
    /// Whether its departures are events, too ([`Link::has_departures`](crate::link::Link::has_departures)).
    pub departures: bool,
    /// Whether its packets need no event of their own ([`Network::express_links`](crate::Network::express_links)).
    pub express: bool,
}

/// What is expected to happen in a network.
#[derive(Clone, Debug)]
pub struct Load {
    /// By node, what its host has to do in nanoseconds per second of the run.
    pub hosts: Vec<f64>,
    /// The links.
    pub links: Vec<LoadedLink>,
    /// How many times longer links take than if all that they need were in the processor's cache.
    pub misses: f64,
    /// Pairs of nodes that have to be in the same part.
    pub joined: Vec<(u32, u32)>,
}

impl Default for Load {
    /// An empty network, which fits into the cache.
    fn default() -> Self {
        Load { hosts: Vec::new(), links: Vec::new(), misses: 1.0, joined: Vec::new() }
    }
}

/// A way to cut a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The part of each node, from 0 on.
    pub part_of: Vec<u32>,
    /// How many parts there are.
    pub parts: usize,
    /// The shortest delay between two parts; `None` for one part.
    pub lookahead: Option<TimeDelta>,
    /// Share of all work that the part with the most has.
    pub largest: f64,
    /// How many times faster than in one part it is expected to run.
    pub speedup: f64,
}

impl Cut {
    fn none(nodes: usize) -> Cut {
        Cut { part_of: vec![0; nodes], parts: 1, lookahead: None, largest: 1.0, speedup: 1.0 }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lookahead {
            None => write!(f, "one part"),
            Some(lookahead) => write!(
                f,
                "{} parts, at links of {lookahead} and more; the largest has {:.0} % of the work, about {:.1} times as fast as one",
                self.parts,
                self.largest * 100.0,
                self.speedup
            ),
        }
    }
}

/// Sets of nodes that stay together.
struct Groups(Vec<u32>);

impl Groups {
    fn new(nodes: usize) -> Self {
        Groups((0..nodes as u32).collect())
    }
    fn find(&mut self, node: u32) -> u32 {
        let mut root = node;
        while self.0[root as usize] != root {
            // Halves the path for the next search.
            self.0[root as usize] = self.0[self.0[root as usize] as usize];
            root = self.0[root as usize];
        }
        root
    }
    /// Joins two groups under the lower number.
    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

impl Load {
    /// Number of nodes.
    fn nodes(&self) -> usize {
        let of_links = self.links.iter().map(|link| link.from.max(link.to) as usize + 1).max();
        of_links.unwrap_or(0).max(self.hosts.len())
    }

    /// By node, all that is to be done in its part.
    fn work(&self) -> Vec<f64> {
        let mut work = self.hosts.clone();
        work.resize(self.nodes(), 0.0);
        for link in &self.links {
            let departure = if link.departures { DEPARTURE } else { 0.0 };
            let hop = if link.express { EXPRESS } else { HOP };
            work[link.from as usize] += link.packets * (hop + departure) * self.misses;
        }
        work
    }

    /// The best cut into `cores` parts, or half of them, a quarter and so on; none where that does not pay.
    pub fn cut(&self, cores: usize) -> Cut {
        let (nodes, work) = (self.nodes(), self.work());
        let none = Cut::none(nodes);
        let mut best = (WORTH, none);
        let most = Some(cores.min(nodes));
        for parts in successors(most, |parts| Some(parts / 2)).take_while(|&parts| parts > 1) {
            for least in self.delays() {
                if let Some((time, cut)) = self.attempt(&work, least, parts)
                    && time < best.0
                {
                    best = (time, cut);
                }
            }
        }
        best.1
    }

    /// The best cut into as many parts as asked for, or nearly so, whether it pays or not.
    pub fn cut_into(&self, parts: usize) -> Cut {
        let (nodes, work) = (self.nodes(), self.work());
        let attempts = self.delays().into_iter().filter_map(|least| self.attempt(&work, least, parts));
        let better = |(time, cut): &(f64, Cut)| (std::cmp::Reverse(cut.parts), (time * 1e6) as u64);
        attempts.min_by_key(better).map_or(Cut::none(nodes), |(_, cut)| cut)
    }

    /// The delays from which on links may be cut, longest first.
    fn delays(&self) -> Vec<TimeDelta> {
        let mut delays: Vec<TimeDelta> =
            self.links.iter().map(|link| link.delay).filter(|delay| !delay.is_zero()).collect();
        delays.sort_unstable();
        delays.dedup();
        delays.reverse();
        let step = delays.len().div_ceil(TRIES).max(1);
        let last = delays.last().copied();
        let mut tried: Vec<TimeDelta> = delays.into_iter().step_by(step).collect();
        // With the shortest, every link with a delay may be cut.
        tried.extend(last.filter(|last| tried.last() != Some(last)));
        tried
    }

    /// A cut into `parts` at links with a delay of at least `least`, with the share of the time that it takes of that of one part.
    fn attempt(&self, work: &[f64], least: TimeDelta, parts: usize) -> Option<(f64, Cut)> {
        let mut groups = Groups::new(work.len());
        for link in self.links.iter().filter(|link| link.delay < least) {
            groups.join(link.from, link.to);
        }
        for &(a, b) in &self.joined {
            groups.join(a, b);
        }
        let part_of = self.divide(&mut groups, work, parts);
        let found = part_of.iter().max().map_or(0, |&last| last as usize + 1);
        if found < 2 {
            return None;
        }
        let total: f64 = work.iter().sum();
        let mut shares = vec![0.0; found];
        work.iter().zip(&part_of).for_each(|(work, &part)| shares[part as usize] += work);
        let cut = |link: &&LoadedLink| part_of[link.from as usize] != part_of[link.to as usize];
        let lookahead = self.links.iter().filter(cut).map(|link| link.delay).min();
        for link in self.links.iter().filter(cut) {
            for (end, cost) in [(link.from, CROSSING.0), (link.to, CROSSING.1)] {
                shares[part_of[end as usize] as usize] += link.packets * cost;
            }
        }
        let largest = shares.iter().copied().fold(0.0, f64::max);
        // Parts that are not joined by links need not keep in step.
        let windows = lookahead.map_or(1.0, |lookahead| 1.0 / lookahead.as_secs_f64());
        let time = largest + windows * (WINDOW.0 + WINDOW.1 * (found - 2) as f64);
        let share = if total > 0.0 { time / total } else { 1.0 };
        let largest = if total > 0.0 { largest / total } else { 1.0 };
        let (speedup, lookahead) = (1.0 / share, Some(lookahead.unwrap_or(TimeDelta::MAX)));
        Some((share, Cut { part_of, parts: found, lookahead, largest, speedup }))
    }

    /// The part of each node, out of at most `parts`, with each group in one. Parts are numbered without gaps.
    fn divide(&self, groups: &mut Groups, work: &[f64], parts: usize) -> Vec<u32> {
        let roots: Vec<u32> = (0..work.len() as u32).map(|node| groups.find(node)).collect();
        // Most hosts of a large network may have nothing to do: these stay in the first part.
        let mut busy = vec![0.0; work.len()];
        roots.iter().zip(work).for_each(|(&root, work)| busy[root as usize] += work);
        let named: Vec<u32> = (0..work.len() as u32).filter(|&node| busy[node as usize] > 0.0).collect();
        let mut number = vec![None; work.len()];
        named.iter().zip(0u32..).for_each(|(&root, new)| number[root as usize] = Some(new));
        let of = |node: u32| number[roots[node as usize] as usize];
        let crossing = |link: &LoadedLink| link.packets * (CROSSING.0 + CROSSING.1) / 2.0;
        let edges = self.links.iter().filter_map(|link| Some((of(link.from)?, of(link.to)?, crossing(link))));
        let weights = named.iter().map(|&root| busy[root as usize]).collect();
        let divided = Graph::new(weights, edges).divide(parts);
        let mut names: BTreeMap<u32, u32> = BTreeMap::new();
        let part = |node: u32| of(node).map_or(0, |number| divided[number as usize]);
        (0..work.len() as u32)
            .map(|node| {
                let next = names.len() as u32;
                *names.entry(part(node)).or_insert(next)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(from: u32, to: u32, delay_us: u64, packets: f64) -> LoadedLink {
        LoadedLink {
            from,
            to,
            delay: TimeDelta::from_micros(delay_us),
            packets,
            departures: false,
            express: false,
        }
    }

    /// Hosts on both sides of a slow link: senders 2, 4, ... at router 0, receivers 3, 5, ... at router 1.
    fn dumbbell(pairs: u32, packets: f64) -> Load {
        let mut links = vec![link(0, 1, 15_000, packets), link(1, 0, 15_000, packets / 2.0)];
        let mut hosts = vec![0.0; 2];
        for pair in 0..pairs {
            let each = packets / f64::from(pairs);
            for (a, b, share) in [
                (2 + 2 * pair, 0, 1.0),
                (1, 3 + 2 * pair, 1.0),
                (0, 2 + 2 * pair, 0.5),
                (3 + 2 * pair, 1, 0.5),
            ] {
                links.push(link(a, b, 5_000, each * share));
            }
            hosts.extend([each * 300.0, each * 250.0]);
        }
        Load { hosts, links, ..Load::default() }
    }

    #[test]
    fn a_busy_dumbbell_is_cut_in_its_middle_and_a_quiet_one_is_not() {
        let cut = dumbbell(100, 80_000.0).cut(2);
        assert_eq!(cut.parts, 2, "{cut}");
        assert_eq!(cut.lookahead, Some(TimeDelta::from_millis(15)), "{cut}");
        assert!(cut.speedup > 1.3 && cut.largest < 0.7, "{cut}");
        let quiet = dumbbell(1, 100.0).cut(8);
        assert_eq!((quiet.parts, quiet.lookahead, quiet.to_string().as_str()), (1, None, "one part"));
    }

    #[test]
    fn what_is_joined_stays_together() {
        let load = Load { joined: vec![(2, 3)], ..dumbbell(1, 80_000.0) };
        assert_eq!(load.cut_into(2).part_of[2], load.cut_into(2).part_of[3]);
        let all = Load { joined: (0..3).map(|node| (node, node + 1)).collect(), ..dumbbell(1, 80_000.0) };
        assert_eq!(all.cut_into(4).parts, 1);
    }

    #[test]
    fn nothing_can_be_cut_into_nothing() {
        assert_eq!(Load::default().cut(4), Cut::none(0));
        assert_eq!(Load::default().cut_into(3).parts, 1);
    }

    proptest! {
        #[test]
        fn cuts_spare_links_without_delay_and_leave_no_part_empty(
            links in prop::collection::vec((0u32..12, 0u32..12, 0u64..4, 0.0f64..1e6), 1..40),
            hosts in prop::collection::vec(0.0f64..1e8, 0..12),
            joined in prop::collection::vec((0u32..12, 0u32..12), 0..3),
            parts in 1usize..8,
        ) {
            let mut links: Vec<LoadedLink> =
                links.into_iter().map(|(from, to, delay, packets)| link(from, to, delay, packets)).collect();
            // All nodes exist.
            links.push(link(11, 11, 1, 0.0));
            let load = Load { hosts, links, joined, ..Load::default() };
            for cut in [load.cut(parts), load.cut_into(parts)] {
                prop_assert!(cut.parts >= 1 && cut.parts <= parts);
                for part in 0..cut.parts as u32 {
                    prop_assert!(cut.part_of.contains(&part));
                }
                for link in &load.links {
                    let apart = cut.part_of[link.from as usize] != cut.part_of[link.to as usize];
                    prop_assert!(!apart || (!link.delay.is_zero() && Some(link.delay) >= cut.lookahead));
                }
                for &(a, b) in &load.joined {
                    prop_assert_eq!(cut.part_of[a as usize], cut.part_of[b as usize]);
                }
            }
        }
    }
}
