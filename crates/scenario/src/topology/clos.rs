//! The folded Clos network of a data centre, in general form.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::Scenario;
use super::super::checker::Check;
use super::super::link::DuplexOptions;
use super::super::routing::RoutingKind;
use super::fabric::{self, Oversubscription};
use super::{Edge, Extent, Layout, Part, at};

/// A folded Clos network with three stages of switches: pods of edge and aggregation switches, every edge switch joined to every
/// aggregation switch of its pod, and core switches above all pods.
///
/// Hosts are "host.0", "host.1", ..., pod by pod and edge switch by edge switch; switches "edge.P.I" and "agg.P.I" in pod P, and
/// "core.J". The cores are shared out among the aggregation switches of a pod: with 8 cores and 4 of these, "agg.P.0" is joined to
/// "core.0" and "core.1", "agg.P.1" to "core.2" and "core.3". Flows are spread by hash unless `routing` says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clos {
    /// Pods.
    #[schemars(range(min = 1, max = 10000), example = 4)]
    pub pods: u32,
    /// Edge switches in each pod.
    #[schemars(range(min = 1, max = 10000), example = 4)]
    pub edges: u32,
    /// Aggregation switches in each pod.
    #[schemars(range(min = 1, max = 10000), example = 4)]
    pub aggregations: u32,
    /// Core switches in all, a multiple of `aggregations`.
    #[schemars(range(min = 1, max = 100000), example = 8)]
    pub cores: u32,
    /// Hosts on each edge switch.
    #[schemars(range(min = 1, max = 10000), example = 16)]
    pub hosts: u32,
    /// The links between hosts and edge switches; forward is from the host.
    pub host: DuplexOptions,
    /// The links between edge and aggregation switches; forward is upwards. What it does not say of rate, delay, queue, framing and MTU is
    /// as from an edge switch to a host.
    #[serde(default)]
    pub fabric: DuplexOptions,
    /// The links between aggregation and core switches; forward is upwards. What it does not say of rate, delay, queue, framing and MTU is
    /// as in `fabric`, in each direction.
    #[serde(default)]
    pub upper: DuplexOptions,
    /// How many times more the hosts of an edge switch can send than it can pass on: sets the rate of `fabric`, in place of `fabric.rate`.
    #[schemars(example = 4.0)]
    pub oversubscription: Option<f64>,
}

impl Clos {
    fn ratio(&self) -> Oversubscription {
        Oversubscription { ratio: self.oversubscription, hosts: self.hosts, up: self.aggregations }
    }

    /// Core switches above each aggregation switch of a pod.
    fn cores_each(&self) -> u32 {
        self.cores / self.aggregations.max(1)
    }

    /// Adds its links. Those from edge to aggregation switches are like `lower`, those from there to core switches like `upper`.
    pub(super) fn add_links(
        &self,
        lower: &Arc<DuplexOptions>,
        upper: &Arc<DuplexOptions>,
        add: &mut dyn FnMut(Edge),
    ) {
        let edge = |pod: u32, number: u32| format!("edge.{pod}.{number}");
        let aggregation = |pod: u32, number: u32| format!("agg.{pod}.{number}");
        let edges = (0..self.pods).flat_map(|pod| (0..self.edges).map(move |number| edge(pod, number)));
        fabric::hosts(edges, self.hosts, &Arc::new(self.host.clone()), add);
        let cores = self.cores_each();
        for pod in 0..self.pods {
            for number in 0..self.edges {
                for other in 0..self.aggregations {
                    add(Edge::new(edge(pod, number), aggregation(pod, other), fabric::FABRIC, lower));
                }
            }
            for number in 0..self.aggregations {
                for core in number * cores..(number + 1) * cores {
                    add(Edge::new(aggregation(pod, number), format!("core.{core}"), "upper", upper));
                }
            }
        }
    }
}

impl Layout for Clos {
    fn groups(&self) -> &'static [&'static str] {
        fabric::GROUPS
    }

    fn parts(&mut self) -> Vec<Part<'_>> {
        let (fabric, upper) = (Part::rated(fabric::FABRIC, &mut self.fabric), &mut self.upper);
        vec![Part::of(fabric::HOST, &mut self.host), fabric, Part::rated("upper", upper)]
    }

    fn routing(&self) -> RoutingKind {
        RoutingKind::ecmp()
    }

    fn extent(&self, _scenario: &Scenario) -> Extent {
        let Clos { pods, edges, aggregations, hosts, .. } = *self;
        let cores = self.cores_each();
        Extent::new(
            &[&[pods, edges, hosts], &[pods, edges], &[pods, aggregations], &[aggregations, cores]],
            &[&[pods, edges, hosts], &[pods, edges, aggregations], &[pods, aggregations, cores]],
        )
    }

    fn links(&self, _scenario: &Scenario, add: &mut dyn FnMut(Edge)) {
        let lower = Arc::new(self.ratio().fabric(&self.fabric, &self.host));
        let upper = Arc::new(fabric::above_fabric(&self.upper, &lower));
        self.add_links(&lower, &upper, add);
    }

    fn check(&self, check: &mut Check<'_>) {
        if self.aggregations > 0 && !self.cores.is_multiple_of(self.aggregations) {
            let message = format!(
                "{} cores cannot be shared out among {} aggregation switches",
                self.cores, self.aggregations
            );
            check.error(&at("cores"), message, "`cores` must be a multiple of `aggregations`");
        }
        self.ratio().check(check, &self.fabric, &self.host);
    }
}
