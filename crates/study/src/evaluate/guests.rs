//! Trials with Linux kernels in place of models: the flows that are compared run between guests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use warpline_scenario::{Diagnostics, Scenario};

use super::trial::{STANDARD, TESTED, Trial};

/// The `[[host]]` tables that make guests of the hosts of the flows that are compared. Senders share a kernel, and so do receivers.
/// `standard` is the trial with the standard algorithm: models may not know the one under test.
///
/// # Errors
/// If the trial's scenario is not valid.
pub(super) fn hosts(standard: &Trial) -> Result<String, Diagnostics> {
    let scenario = Scenario::from_toml(STANDARD, &standard.tested, &[])?;
    let expanded = scenario.expand();
    let mut machines: BTreeMap<&str, &str> = BTreeMap::new();
    for flow in expanded.flows.iter().filter(|flow| &*flow.group == TESTED) {
        machines.entry(&expanded.nodes[flow.from]).or_insert("senders");
        machines.entry(&expanded.nodes[flow.to]).or_insert("receivers");
    }
    let mut text = String::new();
    for (name, machine) in machines {
        let _ =
            write!(text, "\n[[host]]\nname = \"{name}\"\nendpoint = \"guest\"\nmachine = \"{machine}\"\n");
    }
    Ok(text)
}
