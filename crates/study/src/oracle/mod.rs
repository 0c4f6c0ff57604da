//! Agreement with another simulator: compares Warpline's results with those of ns-2, case by case.
//!
//! [`read_cases`] reads ns-2's tables. [`compare`] runs the same cases in Warpline and makes a [`Table`] of both. Every difference
//! above 10 % is given its reason, or shown to be within chance.

mod cases;
mod csv;
mod reasons;
mod scenarios;
mod table;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use warpline_lab::run::{RunError, RunOptions, run};
use warpline_net::Control;
use warpline_results::Summary;
use warpline_scenario::{Diagnostics, Scenario};

pub use cases::{Agent, Case, Family, Metric, Setting};
pub use scenarios::scenario;
pub use table::{Entry, TOLERANCE, Table, Verdict};

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// A table of ns-2's results cannot be read.
    #[error(
        "cannot read {}: {source}; the directory should hold fig1_reorder.csv, fig6_multihop.csv and fig7_sip.csv (with \
         further seeds: one of them)",
        file.display()
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A table of ns-2's results has a mistake.
    #[error("{}:{line}:{column}: {why}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// A case gave a scenario that is not valid.
    #[error("{case}: {source}")]
    Scenario {
        /// Name of the case.
        case: String,
        /// What is wrong with its scenario.
        source: Diagnostics,
    },
    /// A run failed.
    #[error("{case}: {source}")]
    Run {
        /// Name of the case.
        case: String,
        /// Why.
        source: RunError,
    },
    /// It was stopped.
    #[error("stopped before all cases were run")]
    Stopped,
}

/// The progress of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advance<'a> {
    /// The case of the run that has just ended; empty before the first.
    pub case: &'a str,
    /// Runs that have ended.
    pub done: usize,
    /// All runs.
    pub of: usize,
}

/// Reads ns-2's results from the tables in `directory`, for `families` only. Tables of the same names and columns in `more` add
/// further seeds.
///
/// # Errors
/// If a table cannot be read, or has a mistake, with file, line and column.
pub fn read_cases(
    directory: &Path,
    more: Option<&Path>,
    families: &[Family],
) -> Result<Vec<Case>, OracleError> {
    if let Some(more) = more
        && !Family::ALL.iter().any(|family| more.join(family.file()).exists())
    {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(OracleError::Unreadable { file: more.to_owned(), source });
    }
    let mut all = Vec::new();
    for &family in families {
        all.extend(cases::read(directory, more, family)?);
    }
    Ok(all)
}

/// The cases in a table's text; `file` is its name in errors.
///
/// # Errors
/// If the table has a mistake, with line and column.
pub fn parse_cases(file: &Path, text: &str, family: Family) -> Result<Vec<Case>, OracleError> {
    cases::collect(&[csv::Csv::parse(file, text)?], family)
}

/// Runs every case in Warpline with the seeds 1 to `seeds`, on all cores, and compares the results with ns-2's.
///
/// `observe` is called from several threads, before the first run and after each; it can stop the comparison.
///
/// # Errors
/// The first failure of any case, or [`Stopped`](OracleError::Stopped).
pub fn compare(
    cases: &[Case],
    seeds: u32,
    observe: &(dyn Fn(Advance<'_>) -> Control + Sync),
) -> Result<Table, OracleError> {
    let mut scenarios = Vec::with_capacity(cases.len());
    for case in cases {
        let scenario = scenario(case).map(|text| Scenario::from_toml(&case.name(), &text, &[])).transpose();
        scenarios.push(scenario.map_err(|source| OracleError::Scenario { case: case.name(), source })?);
    }
    let seeds: Vec<u64> = (1..=u64::from(seeds.max(1))).collect();
    let mut jobs: Vec<(usize, u64)> = Vec::new();
    for (index, scenario) in scenarios.iter().enumerate() {
        if scenario.is_some() {
            jobs.extend(seeds.iter().map(|&seed| (index, seed)));
        }
    }
    let of = jobs.len();
    if observe(Advance { case: "", done: 0, of }) == Control::Stop {
        return Err(OracleError::Stopped);
    }
    let done = AtomicUsize::new(0);
    let one = |&(index, seed): &(usize, u64)| -> Result<Vec<f64>, OracleError> {
        let case = &cases[index];
        let Some(scenario) = &scenarios[index] else { return Ok(Vec::new()) };
        let scenario = Scenario { seed, ..scenario.clone() };
        let stop = || observe(Advance { case: "", done: done.load(Ordering::Relaxed), of });
        let outcome = run(&scenario, &RunOptions::default(), &mut |_| stop())
            .map_err(|source| OracleError::Run { case: case.name(), source })?;
        let name = case.name();
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = observe(Advance { case: &name, done: count, of });
        if !outcome.complete || answer == Control::Stop && count < of {
            return Err(OracleError::Stopped);
        }
        Ok(case.answers.iter().map(|(metric, _)| measure(*metric, case, &outcome.summary)).collect())
    };
    // The longest cases are last in the tables. Taken one by one, they spread over the cores.
    let results: Vec<Result<Vec<f64>, OracleError>> = jobs.par_iter().with_max_len(1).map(one).collect();
    let mut measured: Vec<Vec<Vec<f64>>> =
        cases.iter().map(|case| vec![Vec::new(); case.answers.len()]).collect();
    for ((index, _), result) in jobs.iter().zip(results) {
        for (all, value) in measured[*index].iter_mut().zip(result?) {
            all.push(value);
        }
    }
    Ok(Table::new(cases, &measured))
}

/// A quantity from a run's summary, computed as ns-2's scripts do.
fn measure(metric: Metric, case: &Case, summary: &Summary) -> f64 {
    let (duration, start) = match case.setting {
        Setting::Fig1 { duration_s, .. } | Setting::Fig7 { duration_s, .. } => (duration_s, 0.0),
        Setting::Fig6 { duration_s, .. } => (duration_s, 10.0),
    };
    let mbps = |bytes: u64, seconds: f64| bytes as f64 * 8.0 / seconds / 1e6;
    let measured = summary.flows.iter().find(|flow| flow.group == "measured");
    let value = match metric {
        Metric::Goodput => measured.map(|flow| mbps(flow.delivered_bytes, duration - start)),
        Metric::CrossGoodput => warpline_results::metrics::mean(
            summary
                .flows
                .iter()
                .filter(|flow| flow.group.starts_with("cross-"))
                .map(|flow| mbps(flow.delivered_bytes, duration)),
        ),
        Metric::MeanLatency => measured.and_then(|flow| flow.message_latency_mean_ms),
        Metric::P95Latency => measured.and_then(|flow| flow.message_latency_p95_ms),
    };
    value.unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
