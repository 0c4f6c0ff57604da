//! The fat-tree of a data centre.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::checker::Check;
use super::super::link::DuplexOptions;
use super::super::routing::RoutingKind;
use super::{Clos, Edge, Extent, Layout, Part, at, fabric};

/// A three-level fat-tree of switches with k ports each (Al-Fares, Loukissas and Vahdat, SIGCOMM 2008): k pods, each with k/2 edge and
/// k/2 aggregation switches, (k/2)² core switches, and k³/4 hosts.
///
/// Hosts are "host.0", "host.1", ..., pod by pod and edge switch by edge switch; switches "edge.P.I" and "agg.P.I" in pod P, and
/// "core.J". Aggregation switch I of every pod is joined to the cores I·k/2 to (I+1)·k/2-1. Flows are spread by hash unless `routing`
/// says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FatTree {
    /// Ports of each switch, an even number: 4 makes 16 hosts, 8 128, 16 1024.
    #[schemars(range(min = 2, max = 128), example = 4)]
    pub k: u32,
    /// The links between hosts and edge switches; forward is from the host.
    pub host: DuplexOptions,
    /// The links among switches; forward is upwards. What it does not say of rate, delay, queue, framing and MTU is as from an edge switch
    /// to a host.
    #[serde(default)]
    pub fabric: DuplexOptions,
}

impl FatTree {
    /// The Clos network that it is, but for what its links among switches are like.
    fn clos(&self) -> Clos {
        let half = self.k / 2;
        Clos {
            pods: self.k,
            edges: half,
            aggregations: half,
            cores: half.saturating_mul(half),
            hosts: half,
            host: self.host.clone(),
            fabric: DuplexOptions::default(),
            upper: DuplexOptions::default(),
            oversubscription: None,
        }
    }
}

impl Layout for FatTree {
    fn groups(&self) -> &'static [&'static str] {
        fabric::GROUPS
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of(fabric::HOST, &mut self.host), Part::rated(fabric::FABRIC, &mut self.fabric)]
    }

    fn routing(&self) -> RoutingKind {
        RoutingKind::ecmp()
    }

    fn extent(&self, scenario: &Scenario) -> Extent {
        self.clos().extent(scenario)
    }

    fn links(&self, _scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        // All links among switches are alike, and come from one key.
        let switches = Arc::new(fabric::above(&self.fabric, &self.host));
        self.clos().add_links(&switches, &switches, &mut |edge| {
            add(Edge { key: if edge.key == fabric::HOST { fabric::HOST } else { fabric::FABRIC }, ..edge });
        });
    }

    fn check(&self, check: &mut Check<'_>) {
        if !self.k.is_multiple_of(2) {
            let message = format!("`k` is odd: {}", self.k);
            let help =
                format!("half of a switch's ports lead up, half down: {} or {}", self.k - 1, self.k + 1);
            check.error(&at("k"), message, help);
        }
    }
}
