//! Topology builders: a kind and a few numbers stand for a long list of links, the same that a user would write by hand.
//!
//! A link here joins two nodes in both directions, like `between` in a scenario. The caller chooses the type of a link's
//! parameters; the functions ending in `_with` request them for each access link, by its number from 0.

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
        links.push(link(format!("right.{pair}"), "r2", right(pair)));
    }
    links
}

/// A parking lot: routers `r0` to `rN` in a row with N equal hops; hosts `left.0` ... on the first router and `right.0` ...
/// on the last, whose traffic crosses every hop; and for each hop i the hosts `in.i` on `r(i)` and `out.i` on `r(i+1)`, whose
/// traffic crosses only that one.
///
/// Order: the hops, then the pairs, then the hosts of each hop.
pub fn parking_lot<L: Clone>(hops: usize, pairs: usize, access: L, hop: L) -> Vec<LinkSpec<L>> {
    let router = |i: usize| format!("r{i}");
    let mut links: Vec<_> = (0..hops).map(|i| link(router(i), router(i + 1), hop.clone())).collect();
    for pair in 0..pairs {
        links.push(link(format!("left.{pair}"), router(0), access.clone()));
        links.push(link(format!("right.{pair}"), router(hops), access.clone()));
    }
    for i in 0..hops {
        links.push(link(format!("in.{i}"), router(i), access.clone()));
        links.push(link(format!("out.{i}"), router(i + 1), access.clone()));
    }
    links
}

/// A chain of `hops` links: `n0`, `n1`, ... No links if `hops` is 0.
pub fn chain<L: Clone>(hops: usize, params: L) -> Vec<LinkSpec<L>> {
    (0..hops).map(|i| link(format!("n{i}"), format!("n{}", i + 1), params.clone())).collect()
}

/// A star: `leaf.0` ... around `hub`.
pub fn star<L: Clone>(leaves: usize, params: L) -> Vec<LinkSpec<L>> {
    star_with(leaves, |_| params.clone())
}

/// A star whose links differ by leaf.
pub fn star_with<L>(leaves: usize, mut params: impl FnMut(usize) -> L) -> Vec<LinkSpec<L>> {
    (0..leaves).map(|leaf| link(format!("leaf.{leaf}"), "hub", params(leaf))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(links: &[LinkSpec<char>]) -> String {
        links.iter().map(|l| format!("{}-{}:{}", l.from, l.to, l.params)).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_lists_are_those_written_by_hand() {
        assert_eq!(text(&dumbbell(2, 'a', 'b')), "r1-r2:b left.0-r1:a right.0-r2:a left.1-r1:a right.1-r2:a");
        assert_eq!(
            text(&parking_lot(2, 1, 'a', 'b')),
            "r0-r1:b r1-r2:b left.0-r0:a right.0-r2:a in.0-r0:a out.0-r1:a in.1-r1:a out.1-r2:a"
        );
        assert_eq!(text(&chain(3, 'c')), "n0-n1:c n1-n2:c n2-n3:c");
        assert_eq!(text(&chain(0, 'c')), "");
        assert_eq!(text(&star(2, 's')), "leaf.0-hub:s leaf.1-hub:s");
    }

    #[test]
    fn access_links_may_differ() {
        let links = dumbbell_with(3, |pair| pair, 9, |pair| pair + 5);
        assert_eq!(links.iter().map(|l| l.params).collect::<Vec<_>>(), [9, 0, 5, 1, 6, 2, 7]);
    }
}
