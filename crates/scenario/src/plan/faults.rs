//! Finds what cannot be built although the text is correct. It uses the functions that build the run, so that `check` and `run` agree.

use std::collections::BTreeMap;

use warpline_core::{Bytes, Streams};
use warpline_net::qdisc::{QdiscConfig, SharedParams};

use super::link::TRACE;
use super::{Fault, endpoints, link_config, tool};
use crate::Scenario;
use crate::document::{Step, entry, key};
use crate::expand::Expanded;
use crate::files::Files;

/// Everything in an expanded scenario that cannot be built, each with its key. Contents of files, and congestion controls registered
/// by the caller, are only checked by the run itself.
pub(crate) fn faults(
    scenario: &Scenario,
    expanded: &Expanded,
    files: &mut Files,
) -> Vec<(Vec<Step>, String)> {
    let streams = Streams::new(scenario.seed);
    let mut found: Vec<(Vec<Step>, String)> = Vec::new();
    let mut note = |mut path: Vec<Step>, fault: Fault| {
        path.extend(fault.key.into_iter().map(key));
        // Report both directions of a link once.
        if !found.iter().any(|(other, _)| *other == path) {
            found.push((path, fault.message));
        }
    };
    for link in expanded.links.iter() {
        if let Err(fault) = link_config(&link, String::new(), scenario, files)
            && fault.key != [TRACE]
        {
            let origin = || link.kind.origin.clone();
            note(fault.change.map_or_else(origin, |number| entry("change", number, &[])), fault);
        }
    }
    // The links of a node with a shared buffer have to say the same of it.
    let mut buffers: BTreeMap<usize, Bytes> = BTreeMap::new();
    for link in expanded.links.iter() {
        let QdiscConfig::Shared(SharedParams { buffer, .. }) = link.kind.queue.0 else { continue };
        let first = *buffers.entry(link.from).or_insert(buffer);
        if first != buffer {
            let node = &expanded.nodes[link.from];
            let message = format!(
                "queue: the links of {node} share one buffer, which is {buffer} here and {first} at another; say the same at all of them"
            );
            note(link.kind.origin.clone(), Fault::new(&["queue", "buffer"], message));
        }
    }
    for (number, flow) in expanded.flows.iter().enumerate() {
        // Flows of one entry differ only in their nodes.
        if number > 0 && expanded.flows[number - 1].entry == flow.entry {
            continue;
        }
        if let Err(fault) = endpoints(flow, &streams).and_then(|_| tool(flow)) {
            note(entry("flow", flow.entry, &[]), fault);
        }
    }
    found
}
