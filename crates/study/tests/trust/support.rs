//! Runs a scenario from its text, and finds rows by name.

use std::path::{Path, PathBuf};

use warpline_lab::run::{RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::{FlowRow, FlowSample, LinkRow, LinkSample, TransferRow};
use warpline_scenario::Scenario;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn parse(text: &str) -> Scenario {
    Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Runs a scenario to its end and keeps its tables in memory.
pub(crate) fn simulate(text: &str) -> RunOutcome {
    simulate_scenario(&parse(text))
}

pub(crate) fn simulate_scenario(scenario: &Scenario) -> RunOutcome {
    let options = RunOptions { tables: true, ..RunOptions::default() };
    let outcome = run(scenario, &options, &mut |_| Control::Continue).unwrap();
    assert!(outcome.complete);
    outcome
}

/// Two hosts with a duplex link of 8 Mbit/s (one byte per microsecond) and 10 ms.
pub(crate) fn two_hosts(duration: &str, link: &str, rest: &str) -> RunOutcome {
    simulate(&format!(
        "duration = \"{duration}\"\nlink = [{{ between = [\"a\", \"b\"], rate = \"8Mbit/s\", delay = \"10ms\" {link} }}]\n{rest}"
    ))
}

/// Look-ups in an outcome.
pub(crate) trait Rows {
    fn flow(&self, name: &str) -> &FlowRow;
    fn link(&self, name: &str) -> &LinkRow;
    fn transfers(&self) -> Vec<TransferRow>;
    fn flow_samples(&self) -> Vec<FlowSample>;
    fn link_samples(&self) -> Vec<LinkSample>;
}

impl Rows for RunOutcome {
    fn flow(&self, name: &str) -> &FlowRow {
        self.summary.flows.iter().find(|row| row.name == name).unwrap()
    }
    fn link(&self, name: &str) -> &LinkRow {
        self.summary.links.iter().find(|row| row.name == name).unwrap()
    }
    fn transfers(&self) -> Vec<TransferRow> {
        self.tables.as_ref().unwrap().transfers.rows().unwrap()
    }
    fn flow_samples(&self) -> Vec<FlowSample> {
        self.tables.as_ref().unwrap().series_flows.rows().unwrap()
    }
    fn link_samples(&self) -> Vec<LinkSample> {
        self.tables.as_ref().unwrap().series_links.rows().unwrap()
    }
}

/// Asserts that `found` is within `tolerance`, a relative error, of `expected`.
#[track_caller]
pub(crate) fn close(found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= expected.abs() * tolerance, "{found} instead of {expected}");
}
