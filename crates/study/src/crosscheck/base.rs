//! The scenario that is checked, and what can be said of it without a run.

use std::collections::BTreeMap;

use warpline_core::TimeDelta;
use warpline_core::parameter::Choice as _;
use warpline_scenario::{
    Cc, Clock, ClockMode, Diagnostics, Expanded, Flow, FlowRecordKind, LinkKind, Scenario, Source, Speed,
    TcpOptions,
};

use crate::linux::MODEL_TCP;

/// A link as the scenario has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LinkFact {
    /// Propagation delay in seconds.
    pub(super) delay_s: f64,
    /// Its rate in bit/s, if it is always the same.
    pub(super) rate_bps: Option<f64>,
}

/// The scenario that is checked.
#[derive(Clone, Debug)]
pub(super) struct Base {
    /// The scenario, without what is of no use here: conditions on its results, a plan of replications, and recordings.
    pub(super) scenario: Scenario,
    /// The same, spelt out.
    pub(super) expanded: Expanded,
    /// Hash of the scenario as it was written.
    pub(super) hash: String,
}

impl Base {
    /// The scenario in `source` with these changes.
    ///
    /// # Errors
    /// If it is not valid.
    pub(super) fn new(source: &Source, sets: &[String]) -> Result<Base, Diagnostics> {
        let mut scenario = source.load(sets)?;
        let hash = scenario.scenario_hash();
        scenario.expect.clear();
        scenario.replications = None;
        scenario.fast_forward = false;
        for flow in &mut scenario.flow {
            // Percentiles are results, and the rest is recordings.
            flow.record.retain(|kind| *kind == FlowRecordKind::Latency);
        }
        let expanded = scenario.expand();
        Ok(Base { scenario, expanded, hash })
    }

    /// Options of the model that make it like the kernel of guests, as changes; without those that the scenario gives itself.
    pub(super) fn model_settings(&self) -> Vec<String> {
        let tcp = &self.scenario.tcp;
        // Who asks for an old TCP wants no new one.
        if tcp.gives("preset") {
            return Vec::new();
        }
        let missing = MODEL_TCP.iter().filter(|(key, _)| !tcp.gives(key));
        missing.map(|(key, value)| format!("tcp.{key}={value}")).collect()
    }

    /// The nodes at both ends of the instances of a flow's entry; some may come more than once.
    pub(super) fn ends_of(&self, entry: usize) -> impl Iterator<Item = &str> {
        let own = self.expanded.flows.iter().filter(move |flow| flow.entry == entry);
        own.flat_map(|flow| [flow.from, flow.to]).map(|node| &self.expanded.nodes[node])
    }

    /// Each link by its name.
    pub(super) fn links(&self) -> BTreeMap<String, LinkFact> {
        let fact = |kind: &LinkKind| LinkFact {
            delay_s: kind.delay.as_secs_f64(),
            rate_bps: match &kind.speed {
                Speed::Constant(rate) => Some(rate.as_bps() as f64),
                _ => None,
            },
        };
        let links = self.expanded.links.iter();
        links.map(|link| (self.expanded.link_name(&link), fact(link.kind))).collect()
    }

    /// Twice the longest delay of a link, in milliseconds.
    pub(super) fn longest_link_ms(&self) -> f64 {
        2e3 * self.links().values().map(|link| link.delay_s).fold(0.0, f64::max)
    }

    /// The shortest round-trip time of each group of flows: its links' delays there and back, in milliseconds.
    pub(super) fn round_trips(&self) -> BTreeMap<String, f64> {
        let Expanded { flows, routes, links, .. } = &self.expanded;
        let mut all: BTreeMap<String, f64> = BTreeMap::new();
        for flow in flows {
            let ways = [flow.forward, flow.reverse].into_iter().filter(|set| set.count > 0);
            let crossed = ways.flat_map(|set| routes.links(set.first));
            let delay = crossed.fold(TimeDelta::ZERO, |sum, &link| sum + links.at(link).kind.delay);
            let rtt = delay.as_secs_f64() * 1e3;
            all.entry(flow.group.to_string()).and_modify(|least| *least = least.min(rtt)).or_insert(rtt);
        }
        all
    }
}

/// A scenario with changes, checked anew.
///
/// # Errors
/// If it is not valid.
pub(super) fn changed(scenario: &Scenario, sets: &[String]) -> Result<Scenario, Diagnostics> {
    Source::from_text(&scenario.name, &scenario.to_toml(), &scenario.directory).load(sets)
}

/// Why a scenario is not valid, in one line.
pub(super) fn in_a_line(wrong: &Diagnostics) -> String {
    wrong.errors.first().map(|error| error.message.clone()).unwrap_or_default()
}

/// The virtual clock.
pub(super) const VIRTUAL: Clock = Clock { mode: ClockMode::Virtual, tdf: None, max_lag: None };

/// The names of the options that are given here.
pub(super) fn given(options: &TcpOptions) -> Vec<String> {
    match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(table)) => table.into_iter().map(|(key, _)| key).collect(),
        _ => Vec::new(),
    }
}

/// Whether an option is on, if it is a switch that is given here.
pub(super) fn switch(options: &TcpOptions, name: &str) -> Option<bool> {
    serde_json::to_value(options).ok()?.get(name)?.as_bool()
}

/// The congestion control of a flow by its name alone; none if it has parameters.
pub(super) fn plain_cc(flow: &Flow) -> Option<String> {
    let cc = flow.cc.clone().unwrap_or_default();
    let is_plain = match &cc {
        Cc::BuiltIn(algorithm) => algorithm.given().is_empty(),
        Cc::Media(_) => false,
        Cc::Custom { .. } => true,
    };
    is_plain.then(|| cc.name().to_owned())
}
