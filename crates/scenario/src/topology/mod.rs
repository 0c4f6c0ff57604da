//! Topologies: a kind and a few keys stand for a long list of links, the same that one would write by hand.

/// What the list of topologies makes: their modules and names, and [`Topology`] for any of them.
macro_rules! topologies {
    ($($file:ident::$name:ident),+ $(,)?) => {
        $(
            mod $file;
            pub use $file::$name;
        )+

        /// A network built from a few parameters, written `[topology]`. Further `[[link]]`s may be attached to its nodes.
        ///
        /// Its host groups ("left" and "right", "host") may be the `from` and `to` of a flow: the flow's instances then take the group's hosts in
        /// turn. Turns are counted over all flows between the same two groups in the order of the file, and start again after the
        /// last host.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the schema takes a variant's text from its struct")]
        #[allow(clippy::large_enum_variant, reason = "a scenario has one of them")]
        pub enum Topology {
            $( $name($name), )+
        }

        impl Topology {
            /// How many kinds there are.
            #[cfg(test)]
            const KINDS: usize = [$( stringify!($name) ),+].len();

            /// Its `kind`, as scenarios write it: the file's name with dashes.
            fn kind(&self) -> String {
                match self { $( Topology::$name(_) => stringify!($file).replace('_', "-"), )+ }
            }
            pub(super) fn layout(&self) -> &dyn Layout {
                match self { $( Topology::$name(own) => own, )+ }
            }
            pub(super) fn layout_mut(&mut self) -> &mut dyn Layout {
                match self { $( Topology::$name(own) => own, )+ }
            }
        }
    };
}

// A new topology is one file beside this one and one line here. `cargo fmt` does not look behind the macro: `make format` does.
topologies! {
    dumbbell::Dumbbell,
    parking_lot::ParkingLot,
    chain::Chain,
    star::Star,
    fat_tree::FatTree,
    leaf_spine::LeafSpine,
    clos::Clos,
}

mod fabric;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::{Rate, TimeDelta};

use super::Scenario;
use super::checker::Check;
use super::document::{Step, key};
use super::link::DuplexOptions;
use super::problem::Problem;
use super::quantity::{BitRate, Time};
use super::routing::RoutingKind;

/// Links of a topology, at most, each direction by itself: three times as many as the largest fat-tree has. One that no route crosses takes
/// some 60 bytes. The nodes, at most one more than half as many, all have addresses of their own (`NodeId::ipv4`).
const MOST_LINKS: u64 = 10_000_000;

impl Topology {
    /// The error of a topology that has too many links; none if it may be built. Builds nothing of it.
    pub(super) fn too_large(&self, scenario: &Scenario) -> Option<Problem> {
        let Extent { nodes, duplex_links } = self.layout().extent(scenario);
        let links = duplex_links.saturating_mul(2);
        (links > MOST_LINKS).then(|| Problem {
            path: vec![key("topology")],
            message: format!("this {} would have {nodes} nodes and {links} links", self.kind()),
            help: vec![format!(
                "allowed: at most {MOST_LINKS} links, each direction by itself; lower the numbers in `topology`"
            )],
        })
    }
}

/// What there is to know of a topology.
pub(super) trait Layout {
    /// The names that flows may use for groups of hosts: "left" for "left.0", "left.1" and so on.
    fn groups(&self) -> &'static [&'static str];
    /// What its links are like.
    fn parts(&mut self) -> Vec<Part<'_>>;
    /// How many nodes and links it has, without building them.
    fn extent(&self, scenario: &Scenario) -> Extent;
    /// Adds its links in the order in which they are built.
    fn links(&self, scenario: &Scenario, add: &mut dyn FnMut(Edge));
    /// How flows choose among routes that are as good, where the scenario does not say.
    fn routing(&self) -> RoutingKind {
        RoutingKind::default()
    }
    /// Notes what is wrong with its own keys.
    fn check(&self, check: &mut Check<'_>) {
        let _ = check;
    }
}

/// How many nodes and links a topology has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    nodes: u64,
    /// Links with both their directions.
    duplex_links: u64,
}

impl Extent {
    /// Both are sums of products: `&[&[2], &[2, pairs]]` is 2 + 2 · pairs. What is too large for a number counts as the largest one.
    fn new(nodes: &[&[u32]], duplex_links: &[&[u32]]) -> Self {
        Extent { nodes: sum_of_products(nodes), duplex_links: sum_of_products(duplex_links) }
    }
}

fn sum_of_products(terms: &[&[u32]]) -> u64 {
    terms.iter().fold(0, |sum: u64, factors| {
        let product = factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor.into()));
        sum.saturating_add(product)
    })
}

/// What some links of a topology are like, under a key of its own.
pub(super) struct Part<'a> {
    pub(super) key: &'static str,
    pub(super) options: &'a mut DuplexOptions,
    /// Whether its author must say how fast they are.
    pub(super) rate_needed: bool,
}

impl<'a> Part<'a> {
    /// Links that need a rate.
    fn of(key: &'static str, options: &'a mut DuplexOptions) -> Self {
        Part { key, options, rate_needed: true }
    }
    /// Links that have a rate where none is given.
    fn rated(key: &'static str, options: &'a mut DuplexOptions) -> Self {
        Part { key, options, rate_needed: false }
    }
    /// Access links.
    fn access(options: &'a mut DuplexOptions) -> Self {
        Part::rated("access", options)
    }
}

/// A duplex link of a topology.
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    /// The key that its options come from.
    pub(super) key: &'static str,
    /// What it is like; links of one kind share it.
    pub(super) options: Arc<DuplexOptions>,
}

impl Edge {
    fn new(
        from: impl Into<String>,
        to: impl Into<String>,
        key: &'static str,
        options: &Arc<DuplexOptions>,
    ) -> Self {
        Edge { from: from.into(), to: to.into(), key, options: Arc::clone(options) }
    }
}

/// The way to a key of the topology.
pub(super) fn at(name: &str) -> Vec<Step> {
    vec![key("topology"), key(name)]
}

/// The hosts on each side: as many as there are flows, unless `pairs` says otherwise.
fn pairs_or_flows(pairs: Option<u32>, scenario: &Scenario) -> u32 {
    let count = |from: &str, to: &str| {
        let flows = scenario.flow.iter().filter(|flow| flow.from == from && flow.to == to);
        flows.fold(0u32, |sum, flow| sum.saturating_add(flow.count))
    };
    pairs.unwrap_or_else(|| count("left", "right").max(count("right", "left")).clamp(1, 100_000))
}

/// Access links as given, with the rate and delay that they have where nothing is said.
fn access_with_defaults(access: &DuplexOptions, bottleneck: &DuplexOptions) -> DuplexOptions {
    let mut access = access.clone();
    let options = &mut access.options;
    if !options.has_rate() {
        let middle = &bottleneck.options;
        let varies = middle.schedule.is_some() || middle.trace.is_some() || middle.radio.is_some();
        let rate = match middle.rate {
            Some(rate) if !varies => rate.0.as_bps().saturating_mul(10),
            _ => 1_000_000_000,
        };
        options.rate = Some(BitRate(Rate::from_bps(rate)));
    }
    options.delay.get_or_insert(Time(TimeDelta::from_millis(1)));
    access
}
