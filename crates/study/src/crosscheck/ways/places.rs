//! The places of flows: those that stay must not move to other hosts when others are taken out of the scenario. The flows of a group of hosts
//! take its hosts in turn, and some topologies have as many hosts as there are flows.

use std::collections::BTreeMap;

use warpline_scenario::{Expanded, Scenario, Topology};

use super::super::base::Base;

/// The scenario with as many hosts as it has, and with the names of hosts where a flow is alone in its entry.
pub(super) fn pinned(base: &Base) -> Scenario {
    let mut scenario = base.scenario.clone();
    let Expanded { nodes, flows, .. } = &base.expanded;
    let pairs = nodes.iter().filter(|name| name.starts_with("left.")).count() as u32;
    match &mut scenario.topology {
        Some(Topology::Dumbbell(own)) => own.pairs = Some(own.pairs.unwrap_or(pairs)),
        Some(Topology::ParkingLot(own)) => own.pairs = Some(own.pairs.unwrap_or(pairs)),
        _ => {}
    }
    for (entry, flow) in scenario.flow.iter_mut().enumerate() {
        let mut own = flows.iter().filter(|own| own.entry == entry);
        if let (Some(one), None) = (own.next(), own.next())
            && !one.several
        {
            (flow.from, flow.to) = (nodes[one.from].to_owned(), nodes[one.to].to_owned());
        }
    }
    scenario
}

/// A group of flows that is not where it was in the scenario that is checked.
pub(super) fn moved(base: &Base, scenario: &Scenario) -> Option<String> {
    fn places(expanded: &Expanded) -> BTreeMap<&str, [&str; 2]> {
        let nodes = &expanded.nodes;
        expanded.flows.iter().map(|flow| (flow.name.as_str(), [&nodes[flow.from], &nodes[flow.to]])).collect()
    }
    let (before, expanded) = (places(&base.expanded), scenario.expand());
    let moved = places(&expanded).into_iter().find(|(name, place)| before.get(name) != Some(place));
    moved.map(|(name, _)| name.to_owned())
}
