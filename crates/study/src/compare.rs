//! Compares two runs, or two sets of seeds: their measures, and the keys of their scenarios.

use warpline_results::{Comparison, KeyChange, RunSet};
use warpline_scenario::changed_keys;

/// Compares two opened sets. The measures include those of single flows if `flows` is true.
pub fn compare(a: &RunSet, b: &RunSet, flows: bool) -> Comparison {
    Comparison::of_sets(a, b, flows, |before, after| {
        changed_keys(before, after, |key, before, after| KeyChange { key, before, after })
    })
}
