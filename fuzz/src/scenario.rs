//! Scenarios: no text makes reading or checking panic, and every error can be shown.
use warpline_scenario::Scenario;

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::from_toml("fuzz.toml", text, &[]) {
        Ok(scenario) => {
            let _ = scenario.to_json();
        }
        Err(mistakes) => {
            let _ = mistakes.to_string();
        }
    }
}
