//! The chain: nodes in a row.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::link::DuplexOptions;
use super::{Edge, Extent, Layout, Part};

/// Nodes "n0" to "nN" in a row with N equal links.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    /// Number of links.
    #[schemars(range(min = 1, max = 10000), example = 10)]
    pub hops: u32,
    /// Each link.
    pub hop: DuplexOptions,
}

impl Layout for Chain {
    fn groups(&self) -> &'static [&'static str] {
        &[]
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of("hop", &mut self.hop)]
    }

    fn extent(&self, _scenario: &Scenario) -> Extent {
        Extent::new(&[&[1], &[self.hops]], &[&[self.hops]])
    }

    fn links(&self, _scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let hop = Arc::new(self.hop.clone());
        (0..self.hops).for_each(|i| add(Edge::new(format!("n{i}"), format!("n{}", i + 1), "hop", &hop)));
    }
}
