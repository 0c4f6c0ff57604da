//! What a scenario expects of the results.

use warpline_results::{Condition, Summary};
use warpline_scenario::Scenario;

use super::RunError;

/// The conditions that the scenario lists.
///
/// # Errors
/// If one names no measure, or its bound is not of the measure's unit.
pub(super) fn conditions(scenario: &Scenario) -> Result<Vec<Condition>, RunError> {
    let read = |(index, text): (usize, &String)| {
        Condition::parse(text).map_err(|wrong| {
            let help = if wrong.help.is_empty() { String::new() } else { format!("; {}", wrong.help) };
            RunError::Build(format!("expect.{index}: {}{help}", wrong.message))
        })
    };
    scenario.expect.iter().enumerate().map(read).collect()
}

/// A message about each condition that the results do not meet.
pub(super) fn unmet(conditions: &[Condition], summary: &Summary) -> Vec<String> {
    conditions.iter().filter_map(|condition| condition.judge(summary).err()).collect()
}
