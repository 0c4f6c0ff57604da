//! How well a proposed scenario reproduces its capture: it is run with a capture at the same place, from which the same is inferred.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use warpline_lab::run::{RunOptions, run};
use warpline_net::Control;

use super::{Direction, InferError, Inferred, Path, infer};

/// A measure of both captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What is measured, with its unit.
    pub measure: &'static str,
    /// In the capture; none if it does not show.
    pub captured: Option<f64>,
    /// In the run of the proposed scenario.
    pub reproduced: Option<f64>,
}

impl Row {
    /// How far the run is from the capture, as a share of it; none where that makes no sense.
    pub fn difference(&self) -> Option<f64> {
        let (captured, reproduced) = (self.captured?, self.reproduced?);
        (captured != 0.0).then(|| reproduced / captured - 1.0)
    }
}

/// A capture and the run that is to reproduce it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The measures.
    pub rows: Vec<Row>,
}

/// A measure: its name, and its value in what was inferred.
type Measure = (&'static str, fn(&Inferred) -> Option<f64>);

fn out(inferred: &Inferred) -> &Direction {
    &inferred.path.ways[0]
}

fn back(inferred: &Inferred) -> &Direction {
    &inferred.path.ways[1]
}

fn goodput(way: &Direction, seconds: f64) -> Option<f64> {
    (way.payload > 0 && seconds > 0.0).then(|| way.payload as f64 * 8.0 / seconds / 1e6)
}

fn resent(way: &Direction) -> Option<f64> {
    (way.payload > 0).then_some(way.resent * 100.0)
}

/// What is compared.
const MEASURES: &[Measure] = &[
    ("goodput from the capture's side, Mbit/s", |of| goodput(out(of), of.seconds)),
    ("goodput to the capture's side, Mbit/s", |of| goodput(back(of), of.seconds)),
    ("rate from the capture's side, Mbit/s", |of| out(of).rate.map(|rate| rate / 1e6)),
    ("rate to the capture's side, Mbit/s", |of| back(of).rate.map(|rate| rate / 1e6)),
    ("shortest round trip, ms", |of| of.path.rtt.map(|rtt| rtt * 1e3)),
    ("median round trip, ms", |of| out(of).rtt.map(|(median, _)| median * 1e3)),
    ("95 % of round trips below, ms", |of| out(of).rtt.map(|(_, high)| high * 1e3)),
    ("sent again from the capture's side, %", |of| resent(out(of))),
    ("sent again to the capture's side, %", |of| resent(back(of))),
];

impl Inferred {
    /// Runs the proposed scenario, and compares what its capture shows. `observe` gets the share that is done, and can stop it.
    ///
    /// # Errors
    /// If it cannot be run, or was stopped.
    pub fn reproduce(
        &self,
        cc: &str,
        observe: &mut dyn FnMut(f64) -> Control,
    ) -> Result<Comparison, InferError> {
        let fails = |error: &dyn std::fmt::Display| InferError::Run(error.to_string());
        let scenario = self.load().map_err(|error| fails(&error))?;
        let scratch = tempfile::tempdir().map_err(|error| fails(&error))?;
        let directory = scratch.path().join("run");
        let options = RunOptions { out: Some(directory.clone()), ..RunOptions::default() };
        let outcome = run(&scenario, &options, &mut |progress| {
            observe(progress.simulated.as_secs_f64() / progress.duration.as_secs_f64().max(1e-9))
        })
        .map_err(|error| fails(&error))?;
        if !outcome.complete {
            return Err(InferError::Stopped);
        }
        let entries = fs::read_dir(&directory).map_err(|error| fails(&error))?;
        let mut captures: Vec<PathBuf> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|ending| ending == "pcapng"))
            .collect();
        // Packets of one time stay in the order of their files.
        captures.sort();
        // Where nothing was sent, the run has nothing to show.
        let again = match infer(&captures, cc) {
            Ok(again) => again,
            Err(InferError::NoPath { packets, .. } | InferError::TooLittle { packets, .. }) => Inferred {
                packets,
                seconds: 0.0,
                connections: 0,
                path: Path::default(),
                scenario: String::new(),
            },
            Err(error) => return Err(error),
        };
        let rows = MEASURES.iter().map(|&(measure, value)| Row {
            measure,
            captured: value(self),
            reproduced: value(&again),
        });
        Ok(Comparison {
            rows: rows.filter(|row| row.captured.is_some() || row.reproduced.is_some()).collect(),
        })
    }
}
