//! Replications: one scenario with several seeds, on all cores, with 95 % confidence intervals.
//!
//! If a directory is given, each seed's run is written to `seed-N` in it, completely or not at all. Then follow
//! `replications.json` with the estimates, and one report of all runs.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use warpline_disk::{OsDirectory, remove_all, write_whole};
use warpline_lab::report::write_report;
use warpline_lab::run::{Progress, RunError, RunOptions, RunOutcome, run};
use warpline_net::Control;
use warpline_results::set::{SEED_PREFIX, seed_of};
use warpline_results::tables::FILE_MODE;
use warpline_results::{Replications, ResultError, Run, Summary};
use warpline_scenario::Scenario;

pub use warpline_results::set::seed_directory;

/// File with the estimates, in the directory of a set of runs.
pub const REPLICATIONS_FILE: &str = "replications.json";
/// The report of all runs.
const REPORT_FILE: &str = "report.html";

/// The results of replications.
#[derive(Debug)]
pub struct Replicated {
    /// The runs, in the order of the seeds; a run that was stopped before it began is missing.
    pub runs: Vec<RunOutcome>,
    /// Means, standard deviations and confidence intervals over the complete runs.
    pub replications: Replications,
    /// Seeds whose run failed, and why, in the order of the seeds.
    pub errors: Vec<(u64, RunError)>,
    /// Whether every run reached its end.
    pub complete: bool,
}

/// Runs a scenario once per seed, `jobs` at a time (0: one per core).
///
/// `observe` is called with the index of the run, from several threads. What it returns applies to that run.
///
/// # Errors
/// The first error, in the order of the seeds, if every run failed. After an error that every run would have (in the scenario, or of
/// the disk) no further run is started. The results of other runs are kept and counted.
pub fn replicate(
    scenario: &Scenario,
    seeds: &[u64],
    jobs: usize,
    options: &RunOptions,
    observe: &(dyn Fn(usize, &Progress) -> Control + Sync),
) -> Result<Replicated, RunError> {
    if let Some(directory) = &options.out {
        prepare(directory, options.force)?;
    }
    let failed = AtomicBool::new(false);
    let one = |(index, &seed): (usize, &u64)| -> Result<Option<RunOutcome>, RunError> {
        if failed.load(Ordering::Relaxed) || observe(index, &Progress::default()) == Control::Stop {
            return Ok(None);
        }
        let scenario = Scenario { seed, replications: None, ..scenario.clone() };
        let options = RunOptions {
            out: options.out.as_ref().map(|directory| seed_directory(directory, seed)),
            report: false,
            ..options.clone()
        };
        let outcome = run(&scenario, &options, &mut |progress| observe(index, progress));
        // A live run may fail for a temporary reason, and the next may succeed.
        failed.fetch_or(
            matches!(outcome, Err(ref error) if !matches!(error, RunError::Live(_))),
            Ordering::Relaxed,
        );
        outcome.map(Some)
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| RunError::Build(format!("no threads for the replications: {error}")))?;
    let results: Vec<Result<Option<RunOutcome>, RunError>> =
        pool.install(|| seeds.par_iter().enumerate().with_max_len(1).map(one).collect());
    let (mut runs, mut errors) = (Vec::new(), Vec::new());
    for (&seed, result) in seeds.iter().zip(results) {
        match result {
            Ok(run) => runs.extend(run),
            Err(error) => errors.push((seed, error)),
        }
    }
    if let Some(directory) = options.out.as_deref().filter(|_| runs.is_empty()) {
        // Report the first error, not one of removing the directory.
        let _ = discard(directory);
    }
    if runs.is_empty() && !errors.is_empty() {
        return Err(errors.swap_remove(0).1);
    }
    let summaries: Vec<Summary> = runs.iter().map(|run| run.summary.clone()).collect();
    let replications = Replications::of(&summaries);
    let complete = runs.len() == seeds.len() && runs.iter().all(|run| run.complete);
    if let Some(directory) = options.out.as_ref().filter(|_| !runs.is_empty()) {
        finish(directory, seeds, &replications)?;
        if options.report && !runs.is_empty() {
            write_report(&[directory.as_path()], &directory.join(REPORT_FILE))?;
        }
    }
    Ok(Replicated { runs, replications, errors, complete })
}

/// The seed whose run this entry of a set's directory is; none where it is no run of a seed.
fn seed_of_run(entry: &DirEntry) -> Option<u64> {
    let seed = seed_of(entry.file_name().to_str()?)?;
    Run::open(&entry.path()).is_ok().then_some(seed)
}

/// Makes room for a set of runs: creates the directory, or removes the earlier set in it. What may not be replaced stays as it is.
///
/// # Errors
/// If the directory holds a whole set and `force` is not given, or anything that is no part of a set; and if the system refuses.
pub fn prepare(directory: &Path, force: bool) -> Result<(), ResultError> {
    let failed = |error| ResultError::io("create", directory, error);
    if directory.exists() && !directory.is_dir() {
        return Err(ResultError::Occupied(directory.to_owned()));
    }
    fs::create_dir_all(directory).map_err(failed)?;
    // A set without estimates was left by a killed process; it may be replaced without `force`.
    let mut whole = false;
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let ours = name == REPLICATIONS_FILE
            || name == REPORT_FILE
            || name.starts_with(&format!(".{SEED_PREFIX}"))
            || seed_of_run(&entry).is_some();
        if !ours {
            let wrong =
                if Run::open(directory).is_ok() { ResultError::HoldsRun } else { ResultError::Occupied };
            return Err(wrong(directory.to_owned()));
        }
        whole |= name == REPLICATIONS_FILE;
    }
    if whole && !force {
        return Err(ResultError::Exists(directory.to_owned()));
    }
    // Remove the old set now: an incomplete new one must not look like a whole set.
    discard(directory)?;
    fs::create_dir_all(directory).map_err(failed)
}

/// Removes the files of a set of runs from a directory, and the directory if it is then empty.
///
/// # Errors
/// If the system refuses.
pub fn discard(directory: &Path) -> Result<(), ResultError> {
    let failed = |error| ResultError::io("remove", directory, error);
    for file in [REPLICATIONS_FILE, REPORT_FILE] {
        remove_all(&OsDirectory::here(), &directory.join(file)).map_err(failed)?;
    }
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if seed_of_run(&entry).is_some() {
            fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    match fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => Err(failed(error)),
        _ => Ok(()),
    }
}

/// Writes the estimates, which show that the set is whole, and removes runs of other seeds.
///
/// # Errors
/// If the system refuses.
pub fn finish(directory: &Path, seeds: &[u64], replications: &Replications) -> Result<(), ResultError> {
    let failed = |error| ResultError::io("write in", directory, error);
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_other = |name: &str| seed_of(name).is_some_and(|seed| !seeds.contains(&seed));
        if entry.file_name().to_str().is_some_and(is_other) && seed_of_run(&entry).is_some() {
            fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    write_whole(
        &OsDirectory::here(),
        &directory.join(REPLICATIONS_FILE),
        FILE_MODE,
        replications.to_json().as_bytes(),
    )
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSSY: &str = r#"
        duration = "5s"
        link = [{ between = ["a", "b"], rate = "2Mbit/s", delay = "10ms", loss = { kind = "bernoulli", probability = 0.02 } }]
        flow = [{ from = "a", to = "b" }]
    "#;

    fn lossy() -> Scenario {
        Scenario::from_toml("lossy", LOSSY, &[]).unwrap_or_else(|error| panic!("{error}"))
    }

    fn goes_on(_: usize, _: &Progress) -> Control {
        Control::Continue
    }

    #[test]
    fn seeds_differ_and_a_seed_gives_the_same_on_any_number_of_threads() {
        let all = |jobs| replicate(&lossy(), &[3, 1, 2], jobs, &RunOptions::default(), &goes_on).unwrap();
        let (one, two) = (all(1), all(2));
        let goodputs = |replicated: &Replicated| -> Vec<f64> {
            replicated.runs.iter().map(|run| run.summary.totals.goodput_bps).collect()
        };
        assert_eq!(goodputs(&one), goodputs(&two));
        assert!(goodputs(&one)[0] != goodputs(&one)[1]);
        assert!(one.complete);
        assert_eq!(one.replications, two.replications);
        assert_eq!(
            (&one.replications.seeds[..], one.replications.measures[0].estimate.n),
            (&[3, 1, 2][..], 3)
        );
    }

    #[test]
    fn a_stopped_run_does_not_affect_the_others() {
        let stop_second = |index: usize, progress: &Progress| {
            if index == 1 && !progress.simulated.is_zero() { Control::Stop } else { Control::Continue }
        };
        let some = replicate(&lossy(), &[1, 2, 3], 2, &RunOptions::default(), &stop_second).unwrap();
        assert!(!some.complete);
        assert_eq!(some.runs.len(), 3);
        assert_eq!(some.replications.incomplete, [2]);
        assert_eq!(some.replications.measures[0].estimate.n, 2);
        let none = replicate(&lossy(), &[1, 2], 1, &RunOptions::default(), &|_, _| Control::Stop).unwrap();
        assert!(none.runs.is_empty() && !none.complete);
    }

    #[test]
    fn a_set_that_never_began_leaves_nothing_and_a_failed_one_keeps_its_good_runs() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("set");
        let options = RunOptions { out: Some(out.clone()), ..RunOptions::default() };
        replicate(&lossy(), &[1, 2], 1, &options, &|_, _| Control::Stop).unwrap();
        assert!(!out.exists());
        // The second run cannot be written, as on a full disk: its name is taken when it ends.
        let spoil = |index: usize, progress: &Progress| {
            if index == 1 && !progress.simulated.is_zero() {
                fs::create_dir_all(seed_directory(&out, 2).join("taken")).unwrap();
            }
            Control::Continue
        };
        let some = replicate(&lossy(), &[1, 2, 3], 1, &options, &spoil).unwrap();
        let occupied = |error: &RunError| matches!(error, RunError::Results(ResultError::Occupied(_)));
        assert!(matches!(&some.errors[..], [(2, error)] if occupied(error)), "{:?}", some.errors);
        // The good runs are kept and counted, and files of others stay.
        assert!(!some.complete && seed_directory(&out, 1).join("summary.json").exists());
        assert!(seed_directory(&out, 2).join("taken").exists());
        fs::remove_dir_all(&out).unwrap();
        // What a killed process left does not count as an earlier set.
        replicate(&lossy(), &[1, 2], 1, &options, &goes_on).unwrap();
        fs::remove_file(out.join(REPLICATIONS_FILE)).unwrap();
        replicate(&lossy(), &[7], 1, &options, &goes_on).unwrap();
        assert!(!seed_directory(&out, 1).exists() && seed_directory(&out, 7).exists());
    }

    #[cfg(unix)]
    #[test]
    fn estimates_have_the_permissions_of_the_runs() {
        use std::os::unix::fs::PermissionsExt as _;
        use std::path::PathBuf;
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("set");
        let options = RunOptions { out: Some(out.clone()), report: true, ..RunOptions::default() };
        replicate(&lossy(), &[1, 2], 1, &options, &goes_on).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let usual = mode(seed_directory(&out, 1).join("summary.json"));
        assert_eq!(mode(out.join(REPLICATIONS_FILE)), usual);
        assert_eq!(mode(out.join(REPORT_FILE)), usual);
    }

    #[test]
    fn a_directory_holds_a_run_for_each_seed_and_is_replaced_only_when_forced() {
        let parent = tempfile::tempdir().unwrap();
        let out = parent.path().join("set");
        let run = |seeds: &[u64], force| {
            let options = RunOptions { out: Some(out.clone()), force, ..RunOptions::default() };
            replicate(&lossy(), seeds, 2, &options, &goes_on)
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
        assert_eq!(names(), ["notes.txt", "replications.json", "seed-2", "seed-4"]);
        fs::remove_file(out.join("notes.txt")).unwrap();
        // A run under a name that only looks like ours was put there by somebody.
        fs::rename(seed_directory(&out, 4), out.join("seed-004")).unwrap();
        assert!(matches!(run(&[1], true), Err(RunError::Results(ResultError::Occupied(_)))));
        fs::remove_file(out.join(REPLICATIONS_FILE)).unwrap();
        assert!(matches!(run(&[1], false), Err(RunError::Results(ResultError::Occupied(_)))));
        assert_eq!(names(), ["seed-004", "seed-2"]);
        // The directory of a single run is no set.
        assert!(matches!(
            prepare(&seed_directory(&out, 2), true),
            Err(ResultError::HoldsRun(path)) if path == seed_directory(&out, 2)
        ));
        assert!(seed_directory(&out, 2).join("summary.json").exists());
    }
}
