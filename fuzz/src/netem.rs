//! netem's words: no text makes the reader panic, and its keys are read by the scenario's parser, which may refuse a value.
use std::path::Path;

use serde_json::{Value, json};
use warpline_scenario::Scenario;
use warpline_scenario::tc::netem;

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let words: Vec<&str> = text.split_whitespace().collect();
    for rated in [false, true] {
        let Ok(read) = netem::read(&words, rated) else { continue };
        let mut link = json!({ "between": ["a", "b"], "rate": "1Mbit/s" });
        if let Value::Object(link) = &mut link {
            link.extend(read.keys);
        }
        let text = json!({ "duration": "1s", "link": [link], "flow": [{ "from": "a", "to": "b" }] });
        if let Err(errors) = Scenario::from_json(text, &[], Path::new("")) {
            // A value can be too large for a scenario. No key is unknown to it.
            assert!(errors.errors.iter().all(|error| !error.message.contains("unknown")), "{errors}");
        }
    }
}
