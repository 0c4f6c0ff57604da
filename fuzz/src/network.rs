//! Scenarios that become running networks: a scenario that passes the checks can be built, and its first events can run.

use std::path::Path;

use warpline_lab::run::{RunError, RunOptions, load, run as simulate};
use warpline_net::Control;
use warpline_scenario::{ClockMode, Source};

/// Most links, flows and samples of a scenario that is run; larger ones are valid, but take long.
const MOST: usize = 64;
/// Events after which a run is stopped.
const EVENTS: u64 = 20_000;

/// Runs the target on any bytes.
///
/// # Panics
/// If a check fails, which is what the fuzzer looks for.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // With what the results know of `expect`, as everything that runs a scenario reads it.
    let Ok(scenario) = load(&Source::from_text("fuzz.toml", text, Path::new("")), &[]) else { return };
    // Live runs take real time, and guests and programs need more than the text.
    if scenario.clock.mode != ClockMode::Virtual || !scenario.host.is_empty() {
        return;
    }
    let expanded = scenario.expand();
    let samples = scenario.duration.0.as_nanos() / scenario.sample_interval.0.as_nanos().max(1);
    if expanded.links.len() > MOST || expanded.flows.len() > MOST || samples > 1000 {
        return;
    }
    let stop = &mut |progress: &warpline_lab::run::Progress| {
        if progress.events > EVENTS { Control::Stop } else { Control::Continue }
    };
    match simulate(&scenario, &RunOptions::default(), stop) {
        Ok(outcome) => drop(outcome.summary.to_json()),
        // Errors in files, and unknown congestion controls of the caller.
        Err(RunError::Build(reason)) => {
            let known = ["trace", "log", "congestion control"];
            assert!(known.iter().any(|part| reason.contains(part)), "{reason}: check let it through");
        }
        Err(error) => panic!("{error}"),
    }
}
