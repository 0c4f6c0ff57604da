//! Patterns of traffic: which hosts of two groups send to each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::Stream;

/// Which hosts of `from` send to which of `to`, where these are groups of the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Instance after instance takes the next host of each group.
    Turns,
    /// Every host sends to one other, and none receives from two: drawn from the seed. `count` permutations.
    Permutation,
    /// Every host sends to every other. `count` flows from each to each.
    AllToAll,
    /// `count` hosts, drawn from the seed, send to one: to `to`, or to a host drawn from it.
    Incast,
    /// `count` pairs, each drawn from the seed by itself.
    Random,
}

impl Pattern {
    /// How many senders there are with `hosts` that may send, at most.
    pub(super) fn most_senders(self, hosts: usize, count: u32) -> usize {
        match self {
            // `count` rounds of all of them.
            Pattern::Permutation | Pattern::AllToAll => hosts.saturating_mul(count as usize),
            Pattern::Turns | Pattern::Incast | Pattern::Random => count as usize,
        }
    }
}

/// Where a sender sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// This node.
    One(usize),
    /// Every node of the other side but the sender.
    Others,
}

/// What a pattern cannot be drawn of: the key at fault, what is wrong, what to do.
pub(super) type Refusal = (&'static str, String, String);

/// Who sends where: `turns` that have been taken between these two sides, and `count`, as the pattern counts.
pub(super) fn senders(
    pattern: Pattern,
    (from, to): (&[usize], &[usize]),
    turns: u32,
    count: u32,
    stream: &mut Stream,
) -> Result<Vec<(usize, Target)>, Refusal> {
    // There is always a host at least.
    let (Some(&one), Some(&other)) = (from.first(), to.first()) else { return Ok(Vec::new()) };
    if pattern != Pattern::Turns && from.len() == 1 && to.len() == 1 && one == other {
        return Err(("to", "the flow goes from a host to itself".to_owned(), nobody_else()));
    }
    let is_alone = |node: usize| to.len() == 1 && other == node;
    Ok(match pattern {
        Pattern::Turns => (turns..turns.saturating_add(count))
            .map(|turn| (from[turn as usize % from.len()], Target::One(to[turn as usize % to.len()])))
            .collect(),
        Pattern::Permutation => {
            let mut pairs = Vec::new();
            for _ in 0..count {
                let mut order = to.to_vec();
                stream.shuffle(&mut order);
                part(from, &mut order);
                let pair = |(i, &node): (usize, &usize)| (node, Target::One(order[i % order.len()]));
                pairs.extend(from.iter().enumerate().map(pair).filter(|pair| pair.1 != Target::One(pair.0)));
            }
            pairs
        }
        Pattern::AllToAll => {
            let all = from.iter().copied().filter(|&node| !is_alone(node));
            let all: Vec<_> = all.map(|node| (node, Target::Others)).collect();
            (0..count).flat_map(|_| all.iter().copied()).collect()
        }
        Pattern::Incast => {
            let mut candidates = from.to_vec();
            let mut receivers = to.to_vec();
            if from.len() == 1 {
                receivers.retain(|&node| node != one);
            }
            let receiver = receivers[stream.below(receivers.len() as u64) as usize];
            candidates.retain(|&node| node != receiver);
            if candidates.len() < count as usize {
                let message =
                    format!("`count` is {count}, and there are {} hosts that can send", candidates.len());
                return Err((
                    "count",
                    message,
                    "each sends once; several flows from each are several [[flow]]s".to_owned(),
                ));
            }
            stream.shuffle(&mut candidates);
            candidates.truncate(count as usize);
            candidates.into_iter().map(|node| (node, Target::One(receiver))).collect()
        }
        Pattern::Random => {
            let mut pairs = Vec::new();
            while pairs.len() < count as usize {
                let pick =
                    |nodes: &[usize], stream: &mut Stream| nodes[stream.below(nodes.len() as u64) as usize];
                let (sender, receiver) = (pick(from, stream), pick(to, stream));
                if sender != receiver {
                    pairs.push((sender, Target::One(receiver)));
                }
            }
            pairs
        }
    })
}

fn nobody_else() -> String {
    "`from` and `to` must be different nodes, or a group".to_owned()
}

/// Rearranges `order` so that no node is at its own place in `from`: each that is changes places with the one behind it.
fn part(from: &[usize], order: &mut [usize]) {
    let own = |order: &[usize], i: usize| from.get(i) == Some(&order[i]);
    for i in 0..order.len() {
        let next = (i + 1) % order.len();
        if own(order, i) {
            order.swap(i, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use warpline_core::Streams;

    use super::*;

    fn draw(pattern: Pattern, from: &[usize], to: &[usize], count: u32, seed: u64) -> Vec<(usize, Target)> {
        senders(pattern, (from, to), 0, count, &mut Streams::new(seed).stream("test")).unwrap()
    }

    proptest! {
        #[test]
        fn a_permutation_gives_every_host_one_other(hosts in 2usize..40, seed: u64) {
            let all: Vec<usize> = (0..hosts).collect();
            let pairs = draw(Pattern::Permutation, &all, &all, 1, seed);
            let receivers: BTreeSet<usize> = pairs.iter().map(|(from, to)| {
                let Target::One(to) = to else { panic!("several") };
                assert_ne!(from, to);
                *to
            }).collect();
            prop_assert_eq!((pairs.len(), receivers.len()), (hosts, hosts));
            prop_assert_eq!(&pairs, &draw(Pattern::Permutation, &all, &all, 1, seed));
        }

        #[test]
        fn an_incast_has_different_senders_and_one_receiver(hosts in 2usize..40, seed: u64) {
            let all: Vec<usize> = (0..hosts).collect();
            let pairs = draw(Pattern::Incast, &all, &all, hosts as u32 - 1, seed);
            let senders: BTreeSet<usize> = pairs.iter().map(|pair| pair.0).collect();
            prop_assert_eq!(senders.len(), hosts - 1);
            let Target::One(receiver) = pairs[0].1 else { panic!("several") };
            prop_assert!(pairs.iter().all(|pair| pair.1 == Target::One(receiver)) && !senders.contains(&receiver));
        }
    }

    #[test]
    fn groups_of_different_sizes_and_single_nodes() {
        let pairs = draw(Pattern::Permutation, &[0, 1, 2], &[7, 8], 1, 1);
        assert_eq!(pairs.len(), 3);
        assert!(
            draw(Pattern::Random, &[0, 1], &[0, 1], 50, 1)
                .iter()
                .all(|(from, to)| *to == Target::One(1 - from))
        );
        assert_eq!(draw(Pattern::AllToAll, &[3], &[3, 4], 1, 1), [(3, Target::Others)]);
        assert_eq!(draw(Pattern::Incast, &[3], &[3, 4], 1, 1), [(3, Target::One(4))]);
        assert_eq!(draw(Pattern::Turns, &[1, 2], &[3], 3, 1).len(), 3);
        for (pattern, from, to, count) in
            [(Pattern::Random, vec![1], vec![1], 1), (Pattern::Incast, vec![1, 2], vec![1, 2], 2)]
        {
            let mut stream = Streams::new(1).stream("test");
            assert!(senders(pattern, (&from, &to), 0, count, &mut stream).is_err());
        }
    }
}
