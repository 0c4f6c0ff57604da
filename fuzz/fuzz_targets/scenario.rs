//! Scenarios: no text makes reading and checking panic, and the message of every mistake can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpline_lab::scenario::Scenario;

fuzz_target!(|text: &str| {
    match Scenario::from_toml("fuzz.toml", text, &[]) {
        Ok(scenario) => {
            let _ = scenario.to_json();
        }
        Err(mistakes) => {
            let _ = mistakes.to_string();
        }
    }
});
