//! Two runs, or sets of seeds, beside each other: their measures as `warpline-results` compares them, and the keys of their scenarios.

use warpline_results::{Comparison, KeyChange, RunSet};

use crate::scenario;

/// Compares two opened sets. Single flows are among the measures where `flows` asks for them.
pub fn compare(a: &RunSet, b: &RunSet, flows: bool) -> Comparison {
    Comparison::of_sets(a, b, flows, changed_keys)
}

fn changed_keys(before: &str, after: &str) -> Option<Vec<KeyChange>> {
    let changes = scenario::changed_keys(before, after)?.into_iter();
    Some(changes.map(|c| KeyChange { key: c.key, before: c.before, after: c.after }).collect())
}
