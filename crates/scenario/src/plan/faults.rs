//! What of a scenario cannot be built though its text is right: found by the same functions that build it, so that `check` and `run` agree.

use warpline_core::Streams;

use super::link::TRACE;
use super::{Fault, endpoints, link_config, tool};
use crate::Scenario;
use crate::document::Step;
use crate::expand::{Expanded, entry, key};

/// Everything of a scenario spelt out that cannot be built, each with its key. What files hold, and which congestion controls the caller
/// brings, only the run itself knows.
pub(crate) fn faults(scenario: &Scenario, expanded: &Expanded) -> Vec<(Vec<Step>, String)> {
    let streams = Streams::new(scenario.seed);
    let mut found: Vec<(Vec<Step>, String)> = Vec::new();
    let mut note = |mut path: Vec<Step>, fault: Fault| {
        path.extend(fault.key.into_iter().map(key));
        // The two directions of a link are told of once.
        if !found.iter().any(|(other, _)| *other == path) {
            found.push((path, fault.message));
        }
    };
    for link in &expanded.links {
        if let Err(fault) = link_config(link, scenario)
            && fault.key != [TRACE]
        {
            note(link.origin.clone(), fault);
        }
    }
    for (number, flow) in expanded.flows.iter().enumerate() {
        // The flows of one entry differ in their nodes only.
        if number > 0 && expanded.flows[number - 1].entry == flow.entry {
            continue;
        }
        if let Err(fault) = endpoints(flow, &streams).and_then(|_| tool(flow)) {
            note(entry("flow", flow.entry, &[]), fault);
        }
    }
    found
}
