//! Replications: one scenario with several seeds, several at a time.
//!
//! With a directory, each seed's run is written to `seed-N` in it, whole or not at all; `replications.json` with the estimates and one
//! report of all runs follow at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use warpline_net::Control;

use crate::report::write_report;
use crate::results::{Replications, ResultError, Run, Summary};
use crate::run::{Progress, RunError, RunOptions, RunOutcome, run};
use crate::scenario::Scenario;

/// File with the estimates, in the directory of a set of runs.
pub const REPLICATIONS_FILE: &str = "replications.json";
/// What the name of a seed's run directory begins with.
const SEED_PREFIX: &str = "seed-";
/// The report of all runs.
const REPORT_FILE: &str = "report.html";

/// What the runs gave.
#[derive(Debug)]
pub struct Replication {
    /// Mean, spread and 95 % confidence interval of every measure, over the runs that came to their end.
    pub replications: Replications,
    /// The runs, in the order of their seeds. Those that had not begun when somebody stopped are not among them.
    pub outcomes: Vec<RunOutcome>,
    /// The directory that holds the runs, if one was written.
    pub directory: Option<PathBuf>,
    /// Whether every seed's run came to its end.
    pub complete: bool,
}

/// The run directory of a seed.
pub fn seed_directory(directory: &Path, seed: u64) -> PathBuf {
    directory.join(format!("{SEED_PREFIX}{seed}"))
}

/// Runs a scenario once for each seed, `jobs` at a time. `observe` is told which seed (its place in `seeds`) has come how far, from several
/// threads; when it stops one run, the others stop as well and no further one begins.
///
/// # Errors
/// If the scenario cannot be built, or results cannot be written. The runs that were complete by then stay.
pub fn replicate(
    scenario: &Scenario,
    seeds: &[u64],
    jobs: usize,
    options: &RunOptions,
    observe: &(dyn Fn(usize, &Progress) -> Control + Sync),
) -> Result<Replication, RunError> {
    if let Some(directory) = &options.out {
        prepare(directory, options.force)?;
    }
    let stop = AtomicBool::new(false);
    let one = |(index, &seed): (usize, &u64)| -> Result<Option<RunOutcome>, RunError> {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let scenario = Scenario { seed, ..scenario.clone() };
        let options = RunOptions {
            out: options.out.as_ref().map(|directory| seed_directory(directory, seed)),
            report: false,
            ..options.clone()
        };
        let outcome = run(&scenario, &options, &mut |progress| {
            if observe(index, progress) == Control::Stop {
                stop.store(true, Ordering::Relaxed);
            }
            if stop.load(Ordering::Relaxed) { Control::Stop } else { Control::Continue }
        });
        if outcome.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        outcome.map(Some)
    };
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(jobs.clamp(1, seeds.len().max(1))).build().map_err(
            |error| RunError::Build(format!("cannot start {jobs} threads: {error}; allow fewer jobs")),
        )?;
    // One seed at a time from the front, so that those with the same distance to the end finish together.
    let outcomes: Vec<Result<Option<RunOutcome>, RunError>> =
        pool.install(|| seeds.par_iter().enumerate().with_max_len(1).map(one).collect());
    let outcomes: Vec<RunOutcome> =
        outcomes.into_iter().filter_map(Result::transpose).collect::<Result<_, _>>()?;
    let summaries: Vec<Summary> = outcomes.iter().map(|outcome| outcome.summary.clone()).collect();
    let replications = Replications::of(&summaries);
    let complete = outcomes.len() == seeds.len() && outcomes.iter().all(|outcome| outcome.complete);
    if let Some(directory) = &options.out {
        finish(directory, seeds, &replications)?;
        if options.report {
            let runs: Vec<&Path> =
                outcomes.iter().filter_map(|outcome| outcome.directory.as_deref()).collect();
            if !runs.is_empty() {
                write_report(&runs, &directory.join(REPORT_FILE))?;
            }
        }
    }
    Ok(Replication { replications, outcomes, directory: options.out.clone(), complete })
}

/// Makes the directory, or makes sure that what it holds may be replaced.
fn prepare(directory: &Path, force: bool) -> Result<(), ResultError> {
    let failed = |error| ResultError::io("create", directory, error);
    if directory.exists() && !directory.is_dir() {
        return Err(ResultError::Occupied(directory.to_owned()));
    }
    fs::create_dir_all(directory).map_err(failed)?;
    let mut empty = true;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = name == REPLICATIONS_FILE
            || name == REPORT_FILE
            || name.starts_with(&format!(".{SEED_PREFIX}"))
            || (name.starts_with(SEED_PREFIX) && Run::open(&entry.path()).is_ok());
        if !ours {
            return Err(ResultError::Occupied(directory.to_owned()));
        }
        empty &= name.starts_with('.');
    }
    if empty || force { Ok(()) } else { Err(ResultError::Exists(directory.to_owned())) }
}

/// Writes the estimates, and removes runs of other seeds that an earlier set left here.
fn finish(directory: &Path, seeds: &[u64], replications: &Replications) -> Result<(), ResultError> {
    let failed = |error| ResultError::io("write in", directory, error);
    let kept: Vec<PathBuf> = seeds.iter().map(|&seed| seed_directory(directory, seed)).collect();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let stale =
            entry.file_name().to_string_lossy().starts_with(SEED_PREFIX) && !kept.contains(&entry.path());
        if stale {
            fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    let mut file = tempfile::NamedTempFile::with_prefix_in(".seed-", directory).map_err(failed)?;
    std::io::Write::write_all(&mut file, replications.to_json().as_bytes()).map_err(failed)?;
    file.persist(directory.join(REPLICATIONS_FILE)).map_err(|error| failed(error.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario() -> Scenario {
        let text = r#"
            name = "pair"
            duration = "1s"
            [[link]]
            between = ["a", "b"]
            rate = "1Mbit/s"
            loss = { kind = "bernoulli", probability = 0.01 }
            [[flow]]
            from = "a"
            to = "b"
        "#;
        Scenario::from_toml("pair", text, &[]).unwrap()
    }

    fn goes_on(_: usize, _: &Progress) -> Control {
        Control::Continue
    }

    #[test]
    fn the_number_of_jobs_does_not_change_the_results() {
        let seeds = [3, 1, 2];
        let with = |jobs| replicate(&scenario(), &seeds, jobs, &RunOptions::default(), &goes_on).unwrap();
        let (one, three) = (with(1), with(3));
        assert!(one.complete && one.directory.is_none());
        assert_eq!(one.replications, three.replications);
        assert_eq!(one.replications.seeds, seeds);
        assert_eq!(one.replications.measures[0].estimate.n, 3);
    }

    #[test]
    fn a_directory_holds_a_run_for_each_seed_and_is_replaced_only_when_forced() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("set");
        let run = |seeds: &[u64], force| {
            let options = RunOptions { out: Some(out.clone()), force, ..RunOptions::default() };
            replicate(&scenario(), seeds, 2, &options, &goes_on)
        };
        let names = || {
            let mut names: Vec<_> = fs::read_dir(&out)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        run(&[1, 2, 3], false).unwrap();
        assert_eq!(names(), ["replications.json", "seed-1", "seed-2", "seed-3"]);
        assert!(matches!(run(&[1], false), Err(RunError::Results(ResultError::Exists(_)))));
        run(&[2, 4], true).unwrap();
        assert_eq!(names(), ["replications.json", "seed-2", "seed-4"]);
        fs::write(out.join("notes.txt"), "mine").unwrap();
        assert!(matches!(run(&[1], true), Err(RunError::Results(ResultError::Occupied(_)))));
    }

    #[test]
    fn stopping_one_stops_all_and_says_so() {
        let stopped =
            replicate(&scenario(), &[1, 2, 3, 4], 1, &RunOptions::default(), &|_, _| Control::Stop).unwrap();
        assert!(!stopped.complete);
        assert_eq!(stopped.outcomes.len(), 1, "the others have not begun");
        assert_eq!(stopped.replications.incomplete, [1]);
        assert!(stopped.replications.measures.is_empty());
    }
}
