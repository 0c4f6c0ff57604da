//! Dividing a graph into parts of equal weight with little between them.
//!
//! Multilevel recursive bisection, as in METIS (Karypis and Kumar, "A fast and high quality multilevel scheme for partitioning irregular
//! graphs", SIAM Journal on Scientific Computing 20(1), 1998): the graph is made coarser by joining nodes in pairs, the coarsest is divided by
//! growing one side from a few nodes, and the division is improved at each step back (Fiduccia and Mattheyses, DAC 1982). METIS itself draws
//! from the C library's random numbers and takes over signals of the process while it works, and Miri cannot run it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A graph of so few nodes is not made coarser.
const COARSE: usize = 80;
/// A coarser graph must have at most this share of the nodes of the finer one.
const COARSER: f64 = 0.9;
/// Nodes from which one side is grown.
const STARTS: usize = 6;
/// Passes over all nodes that improve a division, at most.
const PASSES: usize = 8;
/// A side may have so much more of the whole weight than its share while nodes are moved.
const SLACK: f64 = 0.02;
/// Moves in a row after which a pass gives up if nothing became better.
const PATIENCE: usize = 150;
/// Weight between the sides makes each side heavier. It also counts by itself, by this factor, so that of equal loads the cut with less between
/// them wins.
const BETWEEN: f64 = 0.5;

/// Nodes with weights, joined by edges with weights.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    weights: Vec<f64>,
    /// Where the edges of each node begin, and the end of all.
    starts: Vec<usize>,
    /// Each twice: from both ends.
    edges: Vec<(u32, f64)>,
}

/// How many parts the two sides of a division are for.
type Shares = (usize, usize);

impl Graph {
    /// A graph of nodes with these weights. Edges with the same ends are added up, and those from a node to itself left out.
    pub(crate) fn new(weights: Vec<f64>, edges: impl Iterator<Item = (u32, u32, f64)>) -> Graph {
        let both =
            edges.filter(|(a, b, _)| a != b).flat_map(|(a, b, weight)| [(a, b, weight), (b, a, weight)]);
        let mut both: Vec<(u32, u32, f64)> = both.collect();
        both.sort_by_key(|&(a, b, _)| (a, b));
        both.dedup_by(|next, kept| {
            let same = (next.0, next.1) == (kept.0, kept.1);
            if same {
                kept.2 += next.2;
            }
            same
        });
        let mut starts = vec![0; weights.len() + 1];
        both.iter().for_each(|&(a, ..)| starts[a as usize + 1] += 1);
        for node in 0..weights.len() {
            starts[node + 1] += starts[node];
        }
        Graph { weights, starts, edges: both.into_iter().map(|(_, b, weight)| (b, weight)).collect() }
    }

    fn len(&self) -> usize {
        self.weights.len()
    }

    fn edges(&self, node: usize) -> &[(u32, f64)] {
        &self.edges[self.starts[node]..self.starts[node + 1]]
    }

    fn weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// The part of each node, out of `parts`. Some may stay empty if there are few nodes.
    pub(crate) fn divide(&self, parts: usize) -> Vec<u32> {
        let mut part_of = vec![0; self.len()];
        let all: Vec<u32> = (0..self.len() as u32).collect();
        self.divide_among(0, parts, &all, &mut part_of);
        part_of
    }

    /// Divides this graph, whose nodes have these `names` in the whole one, among `parts` parts from `first` on.
    fn divide_among(&self, first: u32, parts: usize, names: &[u32], part_of: &mut [u32]) {
        if parts < 2 || self.len() < 2 {
            names.iter().for_each(|&name| part_of[name as usize] = first);
            return;
        }
        let shares = (parts / 2, parts - parts / 2);
        let right = self.bisect(shares);
        for (side, first, parts) in [(false, first, shares.0), (true, first + shares.0 as u32, shares.1)] {
            let (graph, own) = self.side(&right, side);
            let names: Vec<u32> = own.iter().map(|&node| names[node as usize]).collect();
            graph.divide_among(first, parts, &names, part_of);
        }
    }

    /// The nodes on one side, and their numbers here.
    fn side(&self, right: &[bool], side: bool) -> (Graph, Vec<u32>) {
        let own: Vec<u32> = (0..self.len() as u32).filter(|&node| right[node as usize] == side).collect();
        let mut number = vec![0; self.len()];
        own.iter().zip(0..).for_each(|(&node, new)| number[node as usize] = new);
        let weights = own.iter().map(|&node| self.weights[node as usize]).collect();
        let edges = own.iter().flat_map(|&node| {
            let later = self.edges(node as usize).iter().filter(move |(other, _)| *other > node);
            let here = later.filter(|(other, _)| right[*other as usize] == side);
            here.map(move |&(other, weight)| (node, other, weight))
        });
        let edges = edges.map(|(a, b, weight)| (number[a as usize], number[b as usize], weight));
        (Graph::new(weights, edges), own)
    }

    /// Which nodes are on the right side.
    fn bisect(&self, shares: Shares) -> Vec<bool> {
        if self.len() > COARSE {
            let (coarse, node_of) = self.coarser();
            if (coarse.len() as f64) < self.len() as f64 * COARSER {
                let right = coarse.bisect(shares);
                return self.refined(node_of.iter().map(|&node| right[node as usize]).collect(), shares).1;
            }
        }
        let starts = (0..STARTS.min(self.len())).map(|start| start * self.len() / STARTS.min(self.len()));
        let tries = starts.map(|start| self.refined(self.grown(start, shares), shares));
        tries.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, right)| right).unwrap_or_default()
    }

    /// The graph with nodes joined in pairs: each with the one to which it has the heaviest edge, or with another that has its heaviest edge
    /// to the same node. Also, for each node here, its node there.
    fn coarser(&self) -> (Graph, Vec<u32>) {
        const ALONE: u32 = u32::MAX;
        let most = 1.5 * self.weight() / COARSE as f64;
        let mut mate = vec![ALONE; self.len()];
        let heaviest = |node: usize, mate: &[u32]| {
            let fits = self.edges(node).iter().filter(|(other, _)| {
                mate[*other as usize] == ALONE && self.weights[node] + self.weights[*other as usize] <= most
            });
            fits.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|&(other, _)| other)
        };
        let pair = |mate: &mut Vec<u32>, a: usize, b: u32| {
            mate[a] = b;
            mate[b as usize] = a as u32;
        };
        // Light nodes first: a host joins its switch before the switch joins another.
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by(|&a, &b| self.weights[a].total_cmp(&self.weights[b]).then(a.cmp(&b)));
        for &node in &order {
            if mate[node] == ALONE
                && let Some(other) = heaviest(node, &mate)
            {
                pair(&mut mate, node, other);
            }
        }
        let mut waiting = vec![ALONE; self.len()];
        for &node in order.iter().filter(|&&node| !self.edges(node).is_empty()) {
            let hub = self.edges(node).iter().max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some(&(hub, _)) = hub.filter(|_| mate[node] == ALONE) else { continue };
            let other = std::mem::replace(&mut waiting[hub as usize], node as u32);
            if other != ALONE && self.weights[node] + self.weights[other as usize] <= most {
                pair(&mut mate, node, other);
                waiting[hub as usize] = ALONE;
            }
        }
        let mut node_of = vec![ALONE; self.len()];
        let mut weights = Vec::new();
        for node in 0..self.len() {
            if node_of[node] == ALONE {
                node_of[node] = weights.len() as u32;
                weights.push(self.weights[node]);
                if let Some(other) = Some(mate[node] as usize).filter(|_| mate[node] != ALONE) {
                    node_of[other] = node_of[node];
                    *weights.last_mut().expect("just added") += self.weights[other];
                }
            }
        }
        let name = |node: u32| node_of[node as usize];
        let edges = (0..self.len() as u32).flat_map(|node| {
            let later = self.edges(node as usize).iter().filter(move |(other, _)| *other > node);
            later.map(move |&(other, weight)| (name(node), name(other), weight))
        });
        (Graph::new(weights, edges), node_of.clone())
    }

    /// A left side grown from a node, by those that have most in common with it, to about its share. Nodes that cannot be reached come last.
    fn grown(&self, start: usize, shares: Shares) -> Vec<bool> {
        let wanted = self.weight() * shares.0 as f64 / (shares.0 + shares.1) as f64;
        let mut right = vec![true; self.len()];
        let mut gain: Vec<f64> =
            (0..self.len()).map(|node| -self.edges(node).iter().map(|edge| edge.1).sum::<f64>()).collect();
        let mut next = BinaryHeap::from([Candidate { gain: 0.0, node: start as u32 }]);
        let mut others = (0..self.len() as u32).cycle().skip(start).take(self.len());
        let mut weight = 0.0;
        while weight < wanted {
            let node = match next.pop() {
                Some(Candidate { node, .. }) if !right[node as usize] => continue,
                Some(Candidate { gain: known, node })
                    if known != gain[node as usize] && node as usize != start =>
                {
                    continue;
                }
                Some(Candidate { node, .. }) => node as usize,
                None => match others.find(|&node| right[node as usize]) {
                    Some(node) => node as usize,
                    None => break,
                },
            };
            // Half of a heavy node too much is as bad as half of it too little.
            if weight + self.weights[node] / 2.0 > wanted && weight > 0.0 {
                break;
            }
            right[node] = false;
            weight += self.weights[node];
            for &(other, between) in self.edges(node) {
                gain[other as usize] += 2.0 * between;
                next.push(Candidate { gain: gain[other as usize], node: other });
            }
        }
        right
    }

    /// A division after moves that make it better, and what it costs.
    fn refined(&self, mut right: Vec<bool>, shares: Shares) -> (f64, Vec<bool>) {
        let mut sides = Sides::new(self, &right, shares);
        for _ in 0..PASSES {
            let before = sides.cost();
            self.pass(&mut right, &mut sides);
            if sides.cost() >= before {
                break;
            }
        }
        (sides.cost(), right)
    }

    /// Moves nodes one by one, each at most once, the one that gains most first, even where that is a loss for the moment, and keeps the
    /// best of the divisions on the way.
    fn pass(&self, right: &mut [bool], sides: &mut Sides) {
        let gain_of = |node: usize, right: &[bool]| -> f64 {
            let part = |&(other, weight): &(u32, f64)| {
                if right[other as usize] == right[node] { -weight } else { weight }
            };
            self.edges(node).iter().map(part).sum()
        };
        let mut gain: Vec<f64> = (0..self.len()).map(|node| gain_of(node, right)).collect();
        let mut moved = vec![false; self.len()];
        let mut heaps = [BinaryHeap::new(), BinaryHeap::new()];
        for node in 0..self.len() {
            heaps[usize::from(right[node])].push(Candidate { gain: gain[node], node: node as u32 });
        }
        let (mut best, mut moves, mut kept) = (sides.clone(), Vec::new(), 0);
        while moves.len() < kept + PATIENCE {
            for heap in &mut heaps {
                while heap.peek().is_some_and(|top: &Candidate| {
                    moved[top.node as usize] || gain[top.node as usize] != top.gain
                }) {
                    heap.pop();
                }
            }
            let top = |side: usize| heaps[side].peek().copied();
            let fits = |candidate: &Candidate| {
                sides.has_room(right[candidate.node as usize], self.weights[candidate.node as usize])
            };
            let from = match sides.too_heavy() {
                Some(side) => top(usize::from(side)),
                None => top(0).filter(fits).max(top(1).filter(fits)),
            };
            let Some(Candidate { gain: gained, node }) = from else { break };
            let node = node as usize;
            moved[node] = true;
            sides.take(right[node], self.weights[node], gained);
            right[node] = !right[node];
            moves.push(node);
            for &(other, weight) in self.edges(node) {
                let other = other as usize;
                gain[other] += if right[other] == right[node] { -2.0 * weight } else { 2.0 * weight };
                if !moved[other] {
                    heaps[usize::from(right[other])]
                        .push(Candidate { gain: gain[other], node: other as u32 });
                }
            }
            if sides.cost() < best.cost() {
                (best, kept) = (sides.clone(), moves.len());
            }
        }
        moves[kept..].iter().for_each(|&node| right[node] = !right[node]);
        *sides = best;
    }
}

/// The weights of the two sides of a division.
#[derive(Clone, Debug)]
struct Sides {
    weights: [f64; 2],
    between: f64,
    shares: [f64; 2],
}

impl Sides {
    fn new(graph: &Graph, right: &[bool], shares: Shares) -> Sides {
        let mut sides = Sides { weights: [0.0; 2], between: 0.0, shares: [shares.0 as f64, shares.1 as f64] };
        for node in 0..graph.len() {
            sides.weights[usize::from(right[node])] += graph.weights[node];
            let cut = graph.edges(node).iter().filter(|(other, _)| right[*other as usize] != right[node]);
            sides.between += cut.map(|(_, weight)| weight).sum::<f64>() / 2.0;
        }
        sides
    }

    fn load(&self, side: usize) -> f64 {
        (self.weights[side] + self.between) / self.shares[side]
    }

    /// The load of the part with the most, and something for what is between the sides.
    fn cost(&self) -> f64 {
        self.load(0).max(self.load(1)) + BETWEEN * self.between / (self.shares[0] + self.shares[1])
    }

    /// The side with more than its share, if that matters.
    fn too_heavy(&self) -> Option<bool> {
        [false, true].into_iter().find(|&side| self.weights[usize::from(side)] > self.most(usize::from(side)))
    }

    fn most(&self, side: usize) -> f64 {
        let whole = self.weights[0] + self.weights[1];
        whole * (self.shares[side] / (self.shares[0] + self.shares[1]) + SLACK)
    }

    /// Whether a node of this weight can leave its side for the other.
    fn has_room(&self, side: bool, weight: f64) -> bool {
        let other = usize::from(!side);
        self.weights[other] + weight <= self.most(other)
    }

    /// A node leaves its side for the other.
    fn take(&mut self, side: bool, weight: f64, gain: f64) {
        self.weights[usize::from(side)] -= weight;
        self.weights[usize::from(!side)] += weight;
        self.between -= gain;
    }
}

/// A node, and what is gained by moving it. The one with the lower number comes first among equals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    gain: f64,
    node: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The weight of each part, and what is between parts.
    fn measure(graph: &Graph, part_of: &[u32], parts: usize) -> (Vec<f64>, f64) {
        let (mut weights, mut between) = (vec![0.0; parts], 0.0);
        for node in 0..graph.len() {
            weights[part_of[node] as usize] += graph.weights[node];
            let cut = graph.edges(node).iter().filter(|(other, _)| part_of[*other as usize] != part_of[node]);
            between += cut.map(|(_, weight)| weight).sum::<f64>() / 2.0;
        }
        (weights, between)
    }

    #[test]
    fn a_chain_of_clusters_is_divided_between_them() {
        // Eight stars of 20 leaves, whose hubs are a chain.
        let edges = (0..8u32).flat_map(|hub| {
            let leaves = (0..20).map(move |leaf| (hub, 8 + hub * 20 + leaf, 5.0));
            leaves.chain((hub > 0).then_some((hub, hub.saturating_sub(1), 1.0)))
        });
        let graph = Graph::new(vec![1.0; 168], edges);
        for (parts, expected) in [(2, 1.0), (4, 3.0), (8, 7.0)] {
            let (weights, between) = measure(&graph, &graph.divide(parts), parts);
            assert_eq!(between, expected, "{parts}: {weights:?}");
            assert!(weights.iter().all(|&weight| weight == 168.0 / parts as f64), "{weights:?}");
        }
        let (weights, between) = measure(&graph, &graph.divide(3), 3);
        assert!(
            between <= 60.0 && weights.iter().all(|weight| (50.0..64.0).contains(weight)),
            "{weights:?} {between}"
        );
    }

    #[test]
    fn a_grid_is_divided_into_squares() {
        let at = |row: u32, column: u32| row * 32 + column;
        let edges = (0..32).flat_map(|row| {
            (0..32).flat_map(move |column| {
                let right = (column < 31).then_some((at(row, column), at(row, (column + 1).min(31)), 1.0));
                let below = (row < 31).then_some((at(row, column), at((row + 1).min(31), column), 1.0));
                right.into_iter().chain(below)
            })
        });
        let graph = Graph::new(vec![10.0; 1024], edges);
        let (weights, between) = measure(&graph, &graph.divide(4), 4);
        // Four squares of 16 by 16 have 64 edges between them.
        assert!(
            between <= 80.0 && weights.iter().all(|weight| *weight <= 2_560.0 * 1.05),
            "{weights:?} {between}"
        );
    }

    #[test]
    fn few_nodes_and_none_are_divided_as_far_as_they_go() {
        assert_eq!(Graph::new(vec![], std::iter::empty()).divide(4), [0u32; 0]);
        assert_eq!(Graph::new(vec![1.0], std::iter::empty()).divide(3), [0]);
        let mut apart = Graph::new(vec![1.0, 1.0], [(0, 1, 0.1)].into_iter()).divide(2);
        apart.sort_unstable();
        assert_eq!(apart, [0, 1]);
    }

    proptest! {
        #[test]
        fn every_node_is_in_a_part_and_the_sums_of_moves_are_right(
            weights in prop::collection::vec(0.0f64..10.0, 1..150),
            edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0.0f64..5.0), 0..400),
            parts in 1usize..9,
        ) {
            let count = weights.len();
            let node = |index: prop::sample::Index| index.index(count) as u32;
            let edges = edges.into_iter().map(|(a, b, weight)| (node(a), node(b), weight));
            let graph = Graph::new(weights, edges);
            let part_of = graph.divide(parts);
            prop_assert_eq!(part_of.len(), count);
            prop_assert!(part_of.iter().all(|&part| (part as usize) < parts));
            let (cost, right) = graph.refined(graph.grown(0, (1, 2)), (1, 2));
            let fresh = Sides::new(&graph, &right, (1, 2)).cost();
            prop_assert!((cost - fresh).abs() <= 1e-9 * fresh.abs().max(1.0), "{} {}", cost, fresh);
        }
    }
}
