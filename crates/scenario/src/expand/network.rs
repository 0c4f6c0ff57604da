//! Nodes and links of a scenario, as they are found.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_core::{NodeId, TimeDelta};
use warpline_net::routing::Graph;

use super::super::document::Step;
use super::super::link::{DuplexOptions, LinkOptions};
use super::super::topology::{self, Edge};
use super::super::{Scenario, base_rtt};
use super::{Expanded, FlowSpec, LinkKind, Speed};

/// The kinds of both directions of a link, with what they were made of.
type Both = (Arc<DuplexOptions>, [u32; 2]);

/// Nodes and links, by name and by number.
pub(super) struct Network<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) graph: Graph,
    /// What links are like, by kind.
    pub(super) kinds: Vec<LinkKind>,
    pub(super) flows: Vec<FlowSpec>,
    /// The kinds of a topology's links, by where their options are.
    of_topology: BTreeMap<*const DuplexOptions, Both>,
}

impl<'a> Network<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Self {
        let (graph, kinds, flows) = (Graph::new(), Vec::new(), Vec::new());
        Network { scenario, graph, kinds, flows, of_topology: BTreeMap::new() }
    }

    /// Adds the kind of a link with these options.
    pub(super) fn kind(&mut self, options: &LinkOptions, origin: &[Step]) -> u32 {
        let rate = options.rate.map(|r| r.0);
        let speed = match (&options.radio, &options.trace, &options.schedule) {
            (Some(radio), ..) => Speed::Radio(radio.clone()),
            (None, Some(path), _) => Speed::Trace(self.scenario.directory.join(path)),
            (None, None, Some(steps)) => Speed::Schedule {
                initial: rate.or(steps.first().map(|s| s.rate.0)).unwrap_or_default(),
                steps: steps.iter().map(|s| (s.at.0, s.rate.0)).collect(),
                repeat: options.repeat.map(|t| t.0),
            },
            (None, None, None) => Speed::Constant(rate.unwrap_or_default()),
        };
        let kind = LinkKind {
            speed,
            delay: options.delay.unwrap_or_default().0,
            delays: options.delays.clone().unwrap_or_default(),
            queue: options.queue.clone().unwrap_or_default(),
            pfc: options.pfc,
            loss: options.loss.clone().unwrap_or_default(),
            duplicate: options.duplicate.clone().unwrap_or_default(),
            corrupt: options.corrupt.clone().unwrap_or_default(),
            jitter: options.jitter.clone().unwrap_or_default(),
            down: options.down.clone().unwrap_or_default(),
            framing: options.framing.unwrap_or(self.scenario.framing).0.0,
            mtu: options.mtu.map(|mtu| u32::try_from(mtu.0.0).unwrap_or(u32::MAX)),
            record: options.record.clone().unwrap_or_default(),
            origin: origin.to_vec(),
        };
        let number = self.graph.kind(kind.delay);
        self.kinds.push(kind);
        number
    }

    /// Adds both directions of a topology's link.
    pub(super) fn edge(&mut self, edge: &Edge) {
        let place = Arc::as_ptr(&edge.options);
        let [there, back] = match self.of_topology.get(&place) {
            Some((_, kinds)) => *kinds,
            None => {
                let (origin, options) = (topology::at(edge.key), &edge.options);
                let kinds = [self.kind(&options.options, &origin), self.kind(&options.back(), &origin)];
                // With the options themselves, so that no others come to lie in their place.
                self.of_topology.insert(place, (Arc::clone(&edge.options), kinds));
                kinds
            }
        };
        self.graph.link_of(&edge.from, &edge.to, there);
        self.graph.link_of(&edge.to, &edge.from, back);
    }

    /// The node called `name`.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.graph.find(name).map(NodeId::index)
    }

    /// The names that flows may use for groups of hosts.
    pub(super) fn host_groups(&self) -> &'static [&'static str] {
        self.scenario.topology.as_ref().map(|topology| topology.layout().groups()).unwrap_or_default()
    }

    /// The hosts of the group `name` of the topology; a node of that name comes first.
    pub(super) fn group(&self, name: &str) -> Option<Vec<usize>> {
        let is_group = self.host_groups().contains(&name) && self.find(name).is_none();
        let mut numbers = 0..;
        is_group.then(|| std::iter::from_fn(|| self.find(&format!("{name}.{}", numbers.next()?))).collect())
    }
}

/// Sets the links' round-trip times from those of the flows and of `ways`.
pub(super) fn base_rtts(expanded: &mut Expanded, ways: &[base_rtt::Way]) {
    let Expanded { links, flows, routes, .. } = expanded;
    let mut rtts = vec![TimeDelta::ZERO; links.len()];
    let mut largest = TimeDelta::ZERO;
    for flow in flows.iter() {
        let own = (flow.arrivals.is_empty()).then_some((flow.forward, flow.reverse));
        let arrivals = flow.arrivals.iter().map(|arrival| (arrival.forward, arrival.reverse));
        for (forward, reverse) in own.into_iter().chain(arrivals) {
            let all = || [forward, reverse].into_iter().flat_map(|set| set.first..set.first + set.count);
            // All routes of a set have the same delay.
            let first = [forward, reverse].into_iter().filter(|set| set.count > 0);
            let links_of = first.flat_map(|set| routes.links(set.first));
            let rtt = links_of.fold(TimeDelta::ZERO, |sum, link| sum + links.delay(*link));
            largest = largest.max(rtt);
            for link in all().flat_map(|route| routes.links(route)) {
                let known = &mut rtts[link.index()];
                *known = rtt.max(*known);
            }
        }
    }
    for (route, rtt) in ways {
        largest = largest.max(*rtt);
        for link in route {
            let known = &mut rtts[link.index()];
            *known = (*rtt).max(*known);
        }
    }
    links.set_rtts(&rtts, largest);
}
