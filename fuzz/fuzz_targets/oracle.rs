//! Tables of ns-2's answers: no text makes the reader panic, and every case that is read is a valid scenario.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use warpline_lab::oracle::{Family, parse_cases, scenario};
use warpline_lab::scenario::Scenario;

fuzz_target!(|text: &str| {
    for family in Family::ALL {
        match parse_cases(Path::new("fuzz.csv"), text, family) {
            Ok(cases) => {
                for case in cases.iter().take(3) {
                    let Some(toml) = scenario(case) else { continue };
                    // Durations and delays may be more than a scenario allows, which it says.
                    let _ = Scenario::from_toml(&case.name(), &toml, &[]);
                }
            }
            Err(mistake) => {
                let _ = mistake.to_string();
            }
        }
    }
});
