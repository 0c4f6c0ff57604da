//! One run, or the runs of one scenario under several seeds: what is compared, reported and exported.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::error::ResultError;
use crate::run::Run;
use crate::summary::{SUMMARY_FILE, Summary};

/// What the name of a seed's run directory begins with, in the directory of a set.
pub const SEED_PREFIX: &str = "seed-";

/// The run directory of a seed, in the directory of a set.
pub fn seed_directory(directory: &Path, seed: u64) -> PathBuf {
    directory.join(format!("{SEED_PREFIX}{seed}"))
}

/// The seed whose run directory has this name, in the directory of a set; none where it is no such name.
pub fn seed_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(SEED_PREFIX)?;
    let seed: u64 = digits.parse().ok()?;
    // "007" and "+7" are numbers, too, but the run of seed 7 has another name.
    (seed.to_string() == digits).then_some(seed)
}

/// The seeds of which a directory holds runs, in rising order; empty where it is no set. A directory of another name that only begins
/// like one of ours is passed over.
pub fn seeds_in(directory: &Path) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut seeds: Vec<u64> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let seed = seed_of(entry.file_name().to_str()?)?;
            entry.path().join(SUMMARY_FILE).is_file().then_some(seed)
        })
        .collect();
    seeds.sort_unstable();
    seeds
}

/// A run directory, or a directory of several seeds, opened.
#[derive(Clone, Debug)]
pub struct RunSet {
    path: PathBuf,
    runs: Vec<Run>,
    several: bool,
}

impl RunSet {
    /// Opens a run directory, or a directory that `--seeds` wrote.
    ///
    /// # Errors
    /// If it is neither, or a run in it cannot be read.
    pub fn open(directory: &Path) -> Result<RunSet, ResultError> {
        Self::open_watched(directory, &|_, _| ())
    }

    /// The same; `watch` is called, from several threads, with the number of runs read and of all runs.
    ///
    /// # Errors
    /// As [`RunSet::open`].
    pub fn open_watched(
        directory: &Path,
        watch: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<RunSet, ResultError> {
        let path = directory.to_owned();
        if !directory.is_dir() || directory.join(SUMMARY_FILE).exists() {
            let run = Run::open(directory)?;
            watch(1, 1);
            return Ok(RunSet { path, runs: vec![run], several: false });
        }
        let seeds = seeds_in(directory);
        if seeds.is_empty() {
            let why = "it has neither summary.json nor runs of seeds (seed-1 and so on), as `warpline run` writes them";
            return Err(ResultError::NotARun { path, why: why.to_owned() });
        }
        let read = AtomicUsize::new(0);
        let runs = seeds
            .par_iter()
            .map(|&seed| {
                let run = Run::open(&seed_directory(directory, seed));
                watch(read.fetch_add(1, Ordering::Relaxed) + 1, seeds.len());
                run
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(RunSet { path, runs, several: true })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// The runs, in the order of their seeds.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }
    /// Whether it is a directory of seeds, be it of one seed only.
    pub fn is_several(&self) -> bool {
        self.several
    }
    /// The summaries, in the order of the seeds.
    pub fn summaries(&self) -> Vec<&Summary> {
        self.runs.iter().map(Run::summary).collect()
    }
    /// The text of the scenario that was run, but for the seed; none where the directory does not have it.
    pub fn scenario(&self) -> Option<String> {
        let run = self.runs.first()?;
        fs::read_to_string(run.path().join(SCENARIO_FILE)).ok()
    }
}

/// The scenario as it was run, in a run directory.
pub const SCENARIO_FILE: &str = "scenario.toml";

/// Seeds as people list them: "1 to 8", "3, 5, 9".
pub fn spoken_seeds(seeds: &[u64]) -> String {
    let mut sorted = seeds.to_vec();
    sorted.sort_unstable();
    let parts: Vec<String> = sorted
        .chunk_by(|a, b| *b == *a + 1)
        .flat_map(|run| match run {
            [first, _, .., last] => vec![format!("{first} to {last}")],
            few => few.iter().map(u64::to_string).collect(),
        })
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;

    fn write(directory: &Path, seed: u64) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join(SUMMARY_FILE), example::summary(1, seed).to_json()).unwrap();
    }

    #[test]
    fn a_directory_is_a_run_or_a_set_of_seeds_or_neither() {
        let parent = tempfile::tempdir().unwrap();
        let set = parent.path().join("set");
        for seed in [10, 2, 1] {
            write(&seed_directory(&set, seed), seed);
        }
        fs::create_dir(set.join("seed-x")).unwrap();
        // Runs that somebody has put beside ours, under names that only look like ours.
        write(&set.join("seed-007"), 7);
        write(&set.join("seed-+3"), 3);
        fs::create_dir(set.join("seed-7")).unwrap();
        let seen = AtomicUsize::new(0);
        let opened = RunSet::open_watched(&set, &|_, all| {
            assert_eq!(all, 3);
            seen.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
        let seeds: Vec<u64> = opened.summaries().iter().map(|summary| summary.info.seed).collect();
        assert_eq!((seeds, opened.is_several(), seen.into_inner()), (vec![1, 2, 10], true, 3));
        let one = RunSet::open(&seed_directory(&set, 2)).unwrap();
        assert_eq!((one.runs().len(), one.is_several()), (1, false));
        let error = RunSet::open(parent.path()).unwrap_err().to_string();
        assert!(error.contains("neither summary.json nor runs of seeds"), "{error}");
        assert!(
            RunSet::open(&parent.path().join("none")).unwrap_err().to_string().contains("does not exist")
        );
    }

    #[test]
    fn seeds_in_a_row_are_said_as_a_range() {
        assert_eq!(spoken_seeds(&[3, 1, 2, 9, 11, 12]), "1 to 3, 9, 11, 12");
        assert_eq!((spoken_seeds(&[5]), spoken_seeds(&[])), ("5".to_owned(), String::new()));
    }
}
