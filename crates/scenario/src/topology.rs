//! Topologies that stand for long lists of links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::link::DuplexOptions;
use super::quantity::Time;

/// A network built from a few parameters, written `[topology]`. Further `[[link]]`s may be attached to its nodes.
///
/// Its host groups ("left", "right") may be the `from` and `to` of a flow: the flow's instances then take the group's hosts in
/// turn. Turns are counted over all flows between the same two groups in the order of the file, and start again after the
/// last host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Topology {
    /// Hosts "left.0", "left.1", ... on router "r1", hosts "right.0", ... on router "r2", and one bottleneck between them.
    Dumbbell {
        /// Hosts on each side. Default: as many as there are flows between "left" and "right" in the busier direction.
        #[schemars(range(min = 1, max = 100000), example = 4)]
        pairs: Option<u32>,
        /// The link from r1 to r2 and back.
        bottleneck: DuplexOptions,
        /// The links from the hosts to their router and back. Default rate: ten times the bottleneck's (1Gbit/s where that
        /// varies); default delay: 1ms.
        #[serde(default)]
        access: DuplexOptions,
        /// One-way delays of the access links of pair 0, 1, ... on both sides, in turn, in place of `access.delay`: pairs
        /// with different RTTs.
        #[schemars(example = &serde_json::json!(["1ms", "10ms", "50ms"]))]
        access_delays: Option<Vec<Time>>,
        /// Base RTT of pair 0; sets the bottleneck's delay to what the access links leave of half of it. In place of
        /// `bottleneck.delay`.
        #[schemars(example = &"50ms")]
        rtt: Option<Time>,
    },
    /// Routers "r0" to "rN" in a row with N equal hops; hosts "left.i" on the first router and "right.i" on the last, whose
    /// flows cross all hops; hosts "in.i" on router i and "out.i" on router i+1, whose flows cross one hop.
    ParkingLot {
        /// Number of hops.
        #[schemars(range(min = 1, max = 1000), example = 3)]
        hops: u32,
        /// Hosts on each of the two ends. Default: as many as there are flows between "left" and "right" in the busier direction.
        #[schemars(range(min = 1, max = 100000))]
        pairs: Option<u32>,
        /// The link of each hop.
        hop: DuplexOptions,
        /// The links from the hosts to their router and back. Default rate: ten times the hop's (1Gbit/s where that varies);
        /// default delay: 1ms.
        #[serde(default)]
        access: DuplexOptions,
    },
    /// Nodes "n0" to "nN" in a row with N equal links.
    Chain {
        /// Number of links.
        #[schemars(range(min = 1, max = 10000), example = 10)]
        hops: u32,
        /// Each link.
        hop: DuplexOptions,
    },
    /// Hosts "leaf.0", "leaf.1", ... around the node "hub".
    Star {
        /// Number of leaves.
        #[schemars(range(min = 1, max = 100000), example = 8)]
        leaves: u32,
        /// Each link, from the leaf to the hub and back.
        leaf: DuplexOptions,
    },
}

impl Topology {
    /// The names that flows may use for groups of hosts.
    pub fn groups(&self) -> &'static [&'static str] {
        match self {
            Topology::Dumbbell { .. } => &["left", "right"],
            Topology::ParkingLot { .. } => &["left", "right", "in", "out"],
            Topology::Chain { .. } => &[],
            Topology::Star { .. } => &["leaf"],
        }
    }
}
