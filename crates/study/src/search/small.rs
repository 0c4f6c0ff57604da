//! Making a counterexample small: what of it can be left out while the harm stays.
//!
//! The algorithm is ddmin (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input, IEEE Transactions on Software Engineering 28(2),
//! 2002, figure 2). It differs in one thing: all candidates of a step are tried together, on all cores, and the first in their order is taken.

/// Which of some candidates still does it, if one does: the place of the first.
type First<'a, T, E> = dyn FnMut(&[Vec<T>]) -> Result<Option<usize>, E> + 'a;

/// The smallest part of `all` that it finds for which `first` says yes: without any one thing of it, `first` says no.
///
/// `first` gets candidates and returns the place of the first that still does it. It would say yes to `all`.
///
/// # Errors
/// The first error of `first`.
pub(super) fn smallest<T: Copy + PartialEq, E>(all: &[T], first: &mut First<'_, T, E>) -> Result<Vec<T>, E> {
    let mut current = all.to_vec();
    let mut pieces = 2;
    while current.len() >= 2 {
        pieces = pieces.min(current.len());
        let chunks = chunks(&current, pieces);
        let without = |chunk: &Vec<T>| -> Vec<T> {
            current.iter().copied().filter(|thing| !chunk.contains(thing)).collect()
        };
        // Of two halves each is what remains without the other.
        let complements = chunks.iter().filter(|_| pieces > 2).map(without);
        let candidates: Vec<Vec<T>> = chunks.iter().cloned().chain(complements).collect();
        match first(&candidates)? {
            Some(place) => {
                pieces = if place < chunks.len() { 2 } else { (pieces - 1).max(2) };
                current.clone_from(&candidates[place]);
            }
            None if pieces >= current.len() => break,
            None => pieces *= 2,
        }
    }
    Ok(current)
}

/// Cuts a list into pieces of about the same length.
fn chunks<T: Copy>(list: &[T], pieces: usize) -> Vec<Vec<T>> {
    let end = |piece: usize| piece * list.len() / pieces;
    (0..pieces).map(|piece| list[end(piece)..end(piece + 1)].to_vec()).collect()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn reduced(count: u32, needed: &[u32]) -> Vec<u32> {
        let all: Vec<u32> = (0..count).collect();
        let mut first = |candidates: &[Vec<u32>]| {
            let has_all = |candidate: &Vec<u32>| needed.iter().all(|thing| candidate.contains(thing));
            Ok::<_, Infallible>(candidates.iter().position(has_all))
        };
        smallest(&all, &mut first).unwrap()
    }

    proptest! {
        #[test]
        fn only_what_is_needed_stays(count in 1u32..40, seed in prop::collection::btree_set(0u32..40, 1..6)) {
            let needed: Vec<u32> = seed.into_iter().filter(|thing| *thing < count).collect();
            prop_assume!(!needed.is_empty());
            prop_assert_eq!(reduced(count, &needed), needed);
        }
    }

    #[test]
    fn what_cannot_be_missed_stays_whole() {
        assert_eq!(reduced(4, &[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(reduced(1, &[0]), [0]);
    }
}
