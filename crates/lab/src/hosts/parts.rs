//! The hosts of a network that is cut: who is where.

use std::ops::Range;
use std::sync::Arc;

use warpline_core::NodeId;
use warpline_net::PartHosts;

use super::ModelHosts;
use super::flow::Flow;
use super::note::{Note, Opening};

/// The place of some hosts among the parts of a network.
#[derive(Debug, Default)]
pub(super) struct Parts {
    /// The part of each node; empty if there is only one part.
    of_node: Arc<[u32]>,
    /// The own part.
    own: u32,
    /// Notes for other parts.
    posted: Vec<(usize, Note)>,
}

impl Parts {
    /// The part of a node, if it is not the own one.
    pub(super) fn elsewhere(&self, node: NodeId) -> Option<usize> {
        let part = *self.of_node.get(node.index())?;
        (part != self.own).then_some(part as usize)
    }

    /// Tells another part something.
    pub(super) fn post(&mut self, part: usize, note: Note) {
        self.posted.push((part, note));
    }
}

impl ModelHosts {
    /// The pairs of hosts that have to be in the same part.
    pub(crate) fn joined(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let ends = |flow: &Flow| (flow.spec.from.0, flow.spec.to.0);
        let joined = |flow: &&Flow| {
            flow.spec.subflow.is_some()
                || flow.running.as_ref().is_some_and(|running| running.app.needs_both_ends())
        };
        self.flows.iter().filter(joined).map(ends)
    }

    /// The same hosts in parts, before the start, but only the parts `kept`. Flows whose applications need both hosts have them in one part.
    pub(crate) fn split(self, of_node: &[u32], kept: Range<u32>) -> Vec<ModelHosts> {
        let of_node: Arc<[u32]> = of_node.into();
        let parts = kept.map(|own| Parts { of_node: of_node.clone(), own, posted: Vec::new() });
        let mut all: Vec<ModelHosts> =
            parts.map(|parts| ModelHosts { parts, ..ModelHosts::default() }).collect();
        for mut flow in self.flows {
            let Some(running) = flow.running.take() else { continue };
            let (from, to) = (flow.spec.from.0, flow.spec.to.0);
            let home = if running.app.is_at_receiver() { to } else { from };
            let mut running = Some((running.app, running.stream));
            for hosts in &mut all {
                let id = hosts.add(Flow::new(flow.spec.clone(), flow.sends_messages));
                if hosts.parts.elsewhere(home).is_none()
                    && let Some((app, stream)) = running.take()
                {
                    hosts.add_running(id, app, stream);
                }
                if hosts.parts.elsewhere(to).is_none() {
                    hosts.add_sink(id);
                }
            }
        }
        all
    }
}

impl PartHosts for ModelHosts {
    type Note = Note;

    fn take_notes(&mut self) -> Vec<(usize, Note)> {
        std::mem::take(&mut self.parts.posted)
    }

    fn handle_note(&mut self, note: Note) {
        match note {
            Note::Opening(Opening { flow, connection, exchange }) => {
                self.flows[flow.index()].expected.insert(connection, exchange);
            }
            Note::Report { flow, number, report } => self.expect_report(flow, number, report),
        }
    }
}
