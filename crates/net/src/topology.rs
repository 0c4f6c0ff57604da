//! Builders: a word and a few numbers for a long list of links. Each gives the list that a user would write by hand.
//!
//! A link here joins two nodes in both directions, like `between` in a scenario. What a link's parameters are is the
//! caller's business; those ending in `_with` ask for each access link's own, by its number from 0.

use warpline_core::{Rate, TimeDelta};

/// A link of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec<L> {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The link's parameters.
    pub params: L,
}

fn link<L>(from: impl Into<String>, to: impl Into<String>, params: L) -> LinkSpec<L> {
    LinkSpec { from: from.into(), to: to.into(), params }
}

/// A dumbbell: `left.0` ... on `r1`, `right.0` ... on `r2`, and the bottleneck between `r1` and `r2`.
///
/// Order: the bottleneck, then for each pair its left and its right access link.
pub fn dumbbell<L: Clone>(pairs: usize, access: L, bottleneck: L) -> Vec<LinkSpec<L>> {
    dumbbell_with(pairs, |_| access.clone(), bottleneck, |_| access.clone())
}

/// A dumbbell whose access links differ by pair and side.
pub fn dumbbell_with<L>(
    pairs: usize,
    mut left: impl FnMut(usize) -> L,
    bottleneck: L,
    mut right: impl FnMut(usize) -> L,
) -> Vec<LinkSpec<L>> {
    let mut links = vec![link("r1", "r2", bottleneck)];
    for pair in 0..pairs {
        links.push(link(format!("left.{pair}"), "r1", left(pair)));
        links.push(link("r2", format!("right.{pair}"), right(pair)));
    }
    links
}

/// A parking lot: routers `r1` to `r(k+1)` in a row with k bottlenecks between them; `through` pairs `left.0` ... on `r1`
/// and `right.0` ... on the last router, whose traffic crosses every bottleneck; and for each bottleneck j (from 1) `cross`
/// pairs `cross{j}.from.0` ... on `r(j)` and `cross{j}.to.0` ... on `r(j+1)`, whose traffic crosses that one only.
///
/// Order: the bottlenecks, then the through pairs, then the cross pairs by bottleneck.
pub fn parking_lot<L: Clone>(
    bottlenecks: usize,
    through: usize,
    cross: usize,
    access: L,
    bottleneck: L,
) -> Vec<LinkSpec<L>> {
    let mut links: Vec<_> =
        (1..=bottlenecks).map(|j| link(format!("r{j}"), format!("r{}", j + 1), bottleneck.clone())).collect();
    for pair in 0..through {
        links.push(link(format!("left.{pair}"), "r1", access.clone()));
        links.push(link(format!("r{}", bottlenecks + 1), format!("right.{pair}"), access.clone()));
    }
    for j in 1..=bottlenecks {
        for pair in 0..cross {
            links.push(link(format!("cross{j}.from.{pair}"), format!("r{j}"), access.clone()));
            links.push(link(format!("r{}", j + 1), format!("cross{j}.to.{pair}"), access.clone()));
        }
    }
    links
}

/// A chain of `hops` links: `client`, `r1`, `r2`, ..., `server`. No links if `hops` is 0.
pub fn chain<L: Clone>(hops: usize, params: L) -> Vec<LinkSpec<L>> {
    let name = |position: usize| match position {
        0 => "client".to_owned(),
        _ if position == hops => "server".to_owned(),
        _ => format!("r{position}"),
    };
    (0..hops).map(|hop| link(name(hop), name(hop + 1), params.clone())).collect()
}

/// A star: `leaf.0` ... around `hub`.
pub fn star<L: Clone>(leaves: usize, params: L) -> Vec<LinkSpec<L>> {
    star_with(leaves, |_| params.clone())
}

/// A star whose links differ by leaf.
pub fn star_with<L>(leaves: usize, mut params: impl FnMut(usize) -> L) -> Vec<LinkSpec<L>> {
    (0..leaves).map(|leaf| link(format!("leaf.{leaf}"), "hub", params(leaf))).collect()
}

/// The delay of number `index` of `count`, spread evenly from `low` to `high`, both included; `low` if there is only one.
pub fn spread_delay(low: TimeDelta, high: TimeDelta, index: usize, count: usize) -> TimeDelta {
    TimeDelta::from_nanos(spread(low.as_nanos(), high.as_nanos(), index, count))
}

/// The rate of number `index` of `count`, spread evenly from `low` to `high`, both included; `low` if there is only one.
pub fn spread_rate(low: Rate, high: Rate, index: usize, count: usize) -> Rate {
    Rate::from_bps(spread(low.as_bps(), high.as_bps(), index, count))
}

fn spread(low: u64, high: u64, index: usize, count: usize) -> u64 {
    let steps = count.saturating_sub(1).max(1) as i128;
    let index = (index as i128).min(steps);
    (i128::from(low) + (i128::from(high) - i128::from(low)) * index / steps) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(links: &[LinkSpec<char>]) -> String {
        links.iter().map(|l| format!("{}-{}:{}", l.from, l.to, l.params)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_lists_are_those_written_by_hand() {
        assert_eq!(text(&dumbbell(2, 'a', 'b')), "r1-r2:b left.0-r1:a r2-right.0:a left.1-r1:a r2-right.1:a");
        assert_eq!(
            text(&parking_lot(2, 1, 1, 'a', 'b')),
            "r1-r2:b r2-r3:b left.0-r1:a r3-right.0:a cross1.from.0-r1:a r2-cross1.to.0:a \
             cross2.from.0-r2:a r3-cross2.to.0:a"
        );
        assert_eq!(text(&chain(3, 'c')), "client-r1:c r1-r2:c r2-server:c");
        assert_eq!(text(&chain(1, 'c')), "client-server:c");
        assert_eq!(text(&chain(0, 'c')), "");
        assert_eq!(text(&star(2, 's')), "leaf.0-hub:s leaf.1-hub:s");
    }

    #[test]
    fn access_links_may_differ() {
        let delay = |pair| spread_delay(TimeDelta::from_millis(1), TimeDelta::from_millis(4), pair, 4);
        let links = dumbbell_with(4, delay, TimeDelta::ZERO, |_| TimeDelta::ZERO);
        let left: Vec<u64> = links[1..].iter().step_by(2).map(|l| l.params.as_millis()).collect();
        assert_eq!(left, [1, 2, 3, 4]);
        let rate = |index| spread_rate(Rate::from_bps(10), Rate::from_bps(4), index, 3).as_bps();
        assert_eq!([0, 1, 2, 9].map(rate), [10, 7, 4, 4]);
        assert_eq!(spread(5, 9, 0, 1), 5);
        assert_eq!(spread(0, u64::MAX, 1, 2), u64::MAX);
    }
}
