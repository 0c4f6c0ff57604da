//! The parking lot: some flows cross all bottlenecks of a row, others one each.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::link::DuplexOptions;
use super::{Edge, Extent, Layout, Part, access_with_defaults, pairs_or_flows};

/// Routers "r0" to "rN" in a row with N equal hops; hosts "left.i" on the first router and "right.i" on the last, whose
/// flows cross all hops; hosts "in.i" on router i and "out.i" on router i+1, whose flows cross one hop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParkingLot {
    /// Number of hops.
    #[schemars(range(min = 1, max = 1000), example = 3)]
    pub hops: u32,
    /// Hosts on each of the two ends. Default: as many as there are flows between "left" and "right" in the busier direction.
    #[schemars(range(min = 1, max = 100000))]
    pub pairs: Option<u32>,
    /// The link of each hop.
    pub hop: DuplexOptions,
    /// The links from the hosts to their router and back. Default rate: ten times the hop's (1Gbit/s where that varies);
    /// default delay: 1ms.
    #[serde(default)]
    pub access: DuplexOptions,
}

impl Layout for ParkingLot {
    fn groups(&self) -> &'static [&'static str] {
        &["left", "right", "in", "out"]
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of("hop", &mut self.hop), Part::access(&mut self.access)]
    }

    fn extent(&self, scenario: &Scenario) -> Extent {
        let (hops, pairs) = (self.hops, pairs_or_flows(self.pairs, scenario));
        Extent::new(&[&[1], &[3, hops], &[2, pairs]], &[&[3, hops], &[2, pairs]])
    }

    fn links(&self, scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let options = Arc::new(access_with_defaults(&self.access, &self.hop));
        let access = |host: &str, i: u32, router: u32| {
            Edge::new(format!("{host}.{i}"), format!("r{router}"), "access", &options)
        };
        let hop = Arc::new(self.hop.clone());
        for i in 0..self.hops {
            add(Edge::new(format!("r{i}"), format!("r{}", i + 1), "hop", &hop));
        }
        for pair in 0..pairs_or_flows(self.pairs, scenario) {
            add(access("left", pair, 0));
            add(access("right", pair, self.hops));
        }
        for i in 0..self.hops {
            add(access("in", i, i));
            add(access("out", i, i + 1));
        }
    }
}
