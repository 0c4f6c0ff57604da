//! The leaf-spine network of a data centre.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::checker::Check;
use super::super::link::DuplexOptions;
use super::super::routing::RoutingKind;
use super::fabric::{self, Oversubscription};
use super::{Edge, Extent, Layout, Part};

/// Hosts on leaf switches, and every leaf switch joined to every spine switch.
///
/// Hosts are "host.0", "host.1", ..., leaf by leaf; switches "leaf.I" and "spine.J". Flows are spread by hash unless `routing` says
/// otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafSpine {
    /// Leaf switches.
    #[schemars(range(min = 1, max = 10000), example = 9)]
    pub leaves: u32,
    /// Spine switches.
    #[schemars(range(min = 1, max = 10000), example = 4)]
    pub spines: u32,
    /// Hosts on each leaf switch.
    #[schemars(range(min = 1, max = 10000), example = 16)]
    pub hosts: u32,
    /// The links between hosts and leaf switches; forward is from the host.
    pub host: DuplexOptions,
    /// The links between leaf and spine switches; forward is upwards. What it does not say of rate, delay, queue, framing and MTU is as
    /// from a leaf switch to a host.
    #[serde(default)]
    pub fabric: DuplexOptions,
    /// How many times more the hosts of a leaf switch can send than it can pass on: sets the rate of `fabric`, in place of `fabric.rate`.
    #[schemars(example = 4.0)]
    pub oversubscription: Option<f64>,
}

impl LeafSpine {
    fn ratio(&self) -> Oversubscription {
        Oversubscription { ratio: self.oversubscription, hosts: self.hosts, up: self.spines }
    }
}

impl Layout for LeafSpine {
    fn groups(&self) -> &'static [&'static str] {
        fabric::GROUPS
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        vec![Part::of(fabric::HOST, &mut self.host), Part::rated(fabric::FABRIC, &mut self.fabric)]
    }

    fn routing(&self) -> RoutingKind {
        RoutingKind::ecmp()
    }

    fn extent(&self, _scenario: &Scenario) -> Extent {
        let LeafSpine { leaves, spines, hosts, .. } = *self;
        Extent::new(&[&[leaves, hosts], &[leaves], &[spines]], &[&[leaves, hosts], &[leaves, spines]])
    }

    fn links(&self, _scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let leaf = |number: u32| format!("leaf.{number}");
        fabric::hosts((0..self.leaves).map(leaf), self.hosts, &Arc::new(self.host.clone()), add);
        let options = Arc::new(self.ratio().fabric(&self.fabric, &self.host));
        for number in 0..self.leaves {
            for spine in 0..self.spines {
                add(Edge::new(leaf(number), format!("spine.{spine}"), fabric::FABRIC, &options));
            }
        }
    }

    fn check(&self, check: &mut Check<'_>) {
        self.ratio().check(check, &self.fabric, &self.host);
    }
}
