//! Two runs, or sets of seeds, beside each other: their measures as `warpline-results` compares them, and the keys of their scenarios.

use warpline_results::{Comparison, KeyChange, RunSet};
use warpline_scenario::changed_keys;

/// Compares two opened sets. Single flows are among the measures where `flows` asks for them.
pub fn compare(a: &RunSet, b: &RunSet, flows: bool) -> Comparison {
    Comparison::of_sets(a, b, flows, |before, after| {
        changed_keys(before, after, |key, before, after| KeyChange { key, before, after })
    })
}
