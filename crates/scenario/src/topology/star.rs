//! The star: hosts around one node.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::link::DuplexOptions;
use super::{Edge, Extent, Layout, Part};

/// Hosts "leaf.0", "leaf.1", ... around the node "hub".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Star {
    /// Number of leaves.
    #[schemars(range(min = 1, max = 100000), example = 8)]
    pub leaves: u32,
    /// Each link, from the leaf to the hub and back.
    pub leaf: DuplexOptions,
}

impl Layout for Star {
    fn groups(&self) -> &'static [&'static str] {
        &["leaf"]
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of("leaf", &mut self.leaf)]
    }

    fn extent(&self, _scenario: &Scenario) -> Extent {
        Extent::new(&[&[1], &[self.leaves]], &[&[self.leaves]])
    }

    fn links(&self, _scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let leaf = Arc::new(self.leaf.clone());
        (0..self.leaves).for_each(|i| add(Edge::new(format!("leaf.{i}"), "hub", "leaf", &leaf)));
    }
}
