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
        /// Its host groups ("left", "right") may be the `from` and `to` of a flow: the flow's instances then take the group's hosts in
        /// turn. Turns are counted over all flows between the same two groups in the order of the file, and start again after the
        /// last host.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        #[allow(missing_docs, reason = "the schema takes a variant's text from its struct")]
        pub enum Topology {
            $( $name($name), )+
        }

        impl Topology {
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
}

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::{Rate, TimeDelta};

use super::Scenario;
use super::checker::Check;
use super::document::{Step, key};
use super::link::DuplexOptions;
use super::quantity::{BitRate, Time};

/// What there is to know of a topology.
pub(super) trait Layout {
    /// The names that flows may use for groups of hosts: "left" for "left.0", "left.1" and so on.
    fn groups(&self) -> &'static [&'static str];
    /// What its links are like.
    fn parts(&mut self) -> Vec<Part<'_>>;
    /// Its links in the order in which they are built.
    fn links(&self, scenario: &Scenario) -> Vec<Edge>;
    /// Notes what is wrong with its own keys.
    fn check(&self, check: &mut Check<'_>) {
        let _ = check;
    }
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
    /// Access links, which have a rate where none is given.
    fn access(options: &'a mut DuplexOptions) -> Self {
        Part { key: "access", options, rate_needed: false }
    }
}

/// A duplex link of a topology.
pub(super) struct Edge {
    pub(super) from: String,
    pub(super) to: String,
    /// The key that its options come from.
    pub(super) key: &'static str,
    pub(super) options: DuplexOptions,
}

impl Edge {
    fn new(
        from: impl Into<String>,
        to: impl Into<String>,
        key: &'static str,
        options: &DuplexOptions,
    ) -> Self {
        Edge { from: from.into(), to: to.into(), key, options: options.clone() }
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
    if options.rate.is_none() && options.schedule.is_none() && options.trace.is_none() {
        let middle = &bottleneck.options;
        let varies = middle.schedule.is_some() || middle.trace.is_some();
        let rate = match middle.rate {
            Some(rate) if !varies => rate.0.as_bps().saturating_mul(10),
            _ => 1_000_000_000,
        };
        options.rate = Some(BitRate(Rate::from_bps(rate)));
    }
    options.delay.get_or_insert(Time(TimeDelta::from_millis(1)));
    access
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_are_those_written_by_hand() {
        let (dumbbell, hop) = ("bottleneck = { rate = \"1Mbit/s\" }", "hop = { rate = \"1Mbit/s\" }");
        for (topology, links) in [
            (
                format!("kind = \"dumbbell\", pairs = 2, {dumbbell}"),
                "r1>r2 left.0>r1 right.0>r2 left.1>r1 right.1>r2",
            ),
            (
                format!("kind = \"parking-lot\", hops = 2, pairs = 1, {hop}"),
                "r0>r1 r1>r2 left.0>r0 right.0>r2 in.0>r0 out.0>r1 in.1>r1 out.1>r2",
            ),
            (format!("kind = \"chain\", hops = 3, {hop}"), "n0>n1 n1>n2 n2>n3"),
            (
                "kind = \"star\", leaves = 2, leaf = { rate = \"1Mbit/s\" }".to_owned(),
                "leaf.0>hub leaf.1>hub",
            ),
        ] {
            let text = format!("duration = \"1s\"\ntopology = {{ {topology} }}\n");
            let expanded = toml::from_str::<Scenario>(&text).unwrap().expand();
            // The forward directions.
            let names: Vec<&str> = expanded.links.iter().step_by(2).map(|link| link.name.as_str()).collect();
            assert_eq!(names.join(" "), links);
        }
    }

    #[test]
    fn access_delays_are_taken_in_turn() {
        let text = "duration = \"1s\"\n[topology]\nkind = \"dumbbell\"\npairs = 3\naccess_delays = [\"2ms\", \"5ms\"]\nrtt = \"50ms\"\n\
                    bottleneck = { rate = \"1Mbit/s\" }\n";
        let expanded = toml::from_str::<Scenario>(text).unwrap().expand();
        let delays: Vec<u64> = expanded.links.iter().map(|link| link.delay.as_nanos() / 1_000_000).collect();
        assert_eq!(delays, [21, 21, 2, 2, 2, 2, 5, 5, 5, 5, 2, 2, 2, 2]);
    }
}
