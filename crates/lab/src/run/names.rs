//! The names of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_scenario::Expanded;

/// Names of nodes, which rows share.
#[derive(Default)]
pub(super) struct Names(BTreeMap<usize, Arc<str>>);

impl Names {
    /// The name of a node.
    pub(super) fn of(&mut self, expanded: &Expanded, node: usize) -> Arc<str> {
        Arc::clone(self.0.entry(node).or_insert_with(|| expanded.nodes[node].into()))
    }

    /// The name of a node that a link in use leads to.
    pub(super) fn known(&self, node: usize) -> Arc<str> {
        self.0.get(&node).cloned().unwrap_or_default()
    }
}
