//! The flows and links of a run by their numbers, for those that watch it while it goes on.

use warpline_core::LinkId;
use warpline_results::openmetrics::labels;
use warpline_scenario::Scenario;
use warpline_scenario::expand::{Expanded, FlowSpec};

/// What runs, and its flows and links.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) scenario: String,
    pub(crate) seed: u64,
    pub(crate) clock: &'static str,
    expanded: Expanded,
}

impl Watched {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Watched {
            scenario: scenario.name.clone(),
            seed: scenario.seed,
            clock: scenario.clock.mode.name(),
            expanded: scenario.expand(),
        }
    }

    fn flow(&self, flow: u32) -> Option<&FlowSpec> {
        self.expanded.flows.get(flow as usize)
    }

    /// The name of a flow; its number if the scenario does not name it.
    pub(crate) fn flow_name(&self, flow: u32) -> String {
        self.flow(flow).map_or_else(|| flow.to_string(), |flow| flow.name.clone())
    }

    /// The name of a link's direction: "r1>r2".
    pub(crate) fn link_name(&self, link: u32) -> String {
        self.expanded.link_name(&self.expanded.links.at(LinkId(link)))
    }

    /// What is said of every metric: what runs.
    fn common(&self) -> [(&'static str, Option<String>); 2] {
        [("scenario", Some(self.scenario.clone())), ("seed", Some(self.seed.to_string()))]
    }

    /// The labels of the run.
    pub(crate) fn run_labels(&self) -> String {
        labels(self.common().into_iter().chain([("clock", Some(self.clock.to_owned()))]))
    }

    /// The labels of a flow.
    pub(crate) fn flow_labels(&self, flow: u32) -> String {
        let spec = self.flow(flow);
        let node = |end: fn(&FlowSpec) -> usize| spec.map(|spec| self.expanded.nodes[end(spec)].to_string());
        labels(self.common().into_iter().chain([
            ("flow", Some(self.flow_name(flow))),
            ("group", spec.map(|spec| spec.group.to_string())),
            ("from", node(|spec| spec.from)),
            ("to", node(|spec| spec.to)),
            ("cc", spec.and_then(|spec| spec.cc.as_ref()).map(|cc| cc.name().to_owned())),
        ]))
    }

    /// The labels of a link's direction.
    pub(crate) fn link_labels(&self, link: u32) -> String {
        let spec = self.expanded.links.at(LinkId(link));
        let node = |node: usize| Some(self.expanded.nodes[node].to_string());
        let own = [("link", Some(self.link_name(link))), ("from", node(spec.from)), ("to", node(spec.to))];
        labels(self.common().into_iter().chain(own))
    }
}
