//! Tables of ns-2's results: no text makes the reader panic, and every case that is read is a valid scenario.
use std::path::Path;

use warpline_scenario::Scenario;
use warpline_study::oracle::{Family, parse_cases, scenario};

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    for family in Family::ALL {
        match parse_cases(Path::new("fuzz.csv"), text, family) {
            Ok(cases) => {
                for case in cases.iter().take(3) {
                    let Some(toml) = scenario(case) else { continue };
                    // Durations and delays may exceed what a scenario allows, which is reported.
                    let _ = Scenario::from_toml(&case.name(), &toml, &[]);
                }
            }
            Err(mistake) => {
                let _ = mistake.to_string();
            }
        }
    }
}
