//! The dumbbell: many hosts on either side of one bottleneck.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::checker::Check;
use super::super::link::DuplexOptions;
use super::super::quantity::Time;
use super::{Edge, Extent, Layout, Part, access_with_defaults, at, pairs_or_flows};

/// Hosts "left.0", "left.1", ... on router "r1", hosts "right.0", ... on router "r2", and one bottleneck between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Dumbbell {
    /// Hosts on each side. Default: as many as there are flows between "left" and "right" in the busier direction.
    #[schemars(range(min = 1, max = 100000), example = 4)]
    pub pairs: Option<u32>,
    /// The link from r1 to r2 and back.
    pub bottleneck: DuplexOptions,
    /// The links from the hosts to their router and back. Default rate: ten times the bottleneck's (1Gbit/s where that
    /// varies); default delay: 1ms.
    #[serde(default)]
    pub access: DuplexOptions,
    /// One-way delays of the access links of pair 0, 1, ... on both sides, in turn, in place of `access.delay`: pairs
    /// with different RTTs.
    #[schemars(example = &serde_json::json!(["1ms", "10ms", "50ms"]))]
    pub access_delays: Option<Vec<Time>>,
    /// Base RTT of pair 0; sets the bottleneck's delay to what the access links leave of half of it. In place of
    /// `bottleneck.delay`, in both directions.
    #[schemars(example = &"50ms")]
    pub rtt: Option<Time>,
}

impl Dumbbell {
    /// The access links of a pair.
    fn access(&self, pair: usize) -> DuplexOptions {
        let mut access = access_with_defaults(&self.access, &self.bottleneck);
        let delays = self.access_delays.as_deref().unwrap_or_default();
        if !delays.is_empty() {
            access.options.delay = Some(delays[pair % delays.len()]);
        }
        access
    }

    /// The round-trip time of pair 0 without the bottleneck.
    fn edges(&self) -> warpline_core::TimeDelta {
        let access = self.access(0);
        let (there, back) = (access.options.delay, access.back().delay);
        (there.unwrap_or_default().0 + back.unwrap_or_default().0) * 2
    }
}

impl Layout for Dumbbell {
    fn groups(&self) -> &'static [&'static str] {
        &["left", "right"]
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of("bottleneck", &mut self.bottleneck), Part::access(&mut self.access)]
    }

    fn extent(&self, scenario: &Scenario) -> Extent {
        let pairs = pairs_or_flows(self.pairs, scenario);
        Extent::new(&[&[2], &[2, pairs]], &[&[1], &[2, pairs]])
    }

    fn links(&self, scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let mut bottleneck = self.bottleneck.clone();
        if let Some(rtt) = self.rtt {
            bottleneck.options.delay = Some(Time((rtt.0 / 2).saturating_sub(self.edges() / 2)));
        }
        add(Edge::new("r1", "r2", "bottleneck", &Arc::new(bottleneck)));
        let kinds = self.access_delays.as_ref().map_or(1, |delays| delays.len().max(1));
        let kinds: Vec<_> = (0..kinds).map(|pair| Arc::new(self.access(pair))).collect();
        for pair in 0..pairs_or_flows(self.pairs, scenario) as usize {
            for (side, router) in [("left", "r1"), ("right", "r2")] {
                add(Edge::new(format!("{side}.{pair}"), router, "access", &kinds[pair % kinds.len()]));
            }
        }
    }

    fn check(&self, check: &mut Check<'_>) {
        if self.access_delays.as_ref().is_some_and(Vec::is_empty) {
            check.error(&at("access_delays"), "`access_delays` is empty", "leave it out or give a delay");
        }
        let Some(rtt) = self.rtt else { return };
        if self.bottleneck.options.delay.is_some() {
            check.error(&at("rtt"), "`rtt` and `bottleneck.delay` exclude each other", "leave one out");
        }
        if self.bottleneck.reverse.as_ref().is_some_and(|reverse| reverse.delay.is_some()) {
            let message = "`rtt` and `bottleneck.reverse.delay` exclude each other";
            let help = "leave one out; delays that differ by direction are `bottleneck.delay` and `bottleneck.reverse.delay`, without `rtt`";
            check.error(&at("rtt"), message, help);
        }
        let edges = self.edges();
        if rtt.0 < edges {
            let message = format!("the access links alone have a round-trip time of {edges}");
            check.error(&at("rtt"), message, "raise `rtt`, or lower `access.delay`");
        }
    }
}
