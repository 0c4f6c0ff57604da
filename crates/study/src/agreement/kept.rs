//! Results that are kept: a file for each run, so that no run is made twice.
//!
//! A run's file is in a directory named after what ran (the kernel's or the program's version), and named after the scenario and its hash. It is
//! written whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpline_disk::{OsDirectory, create_directories, write_whole};
use warpline_results::tables::FILE_MODE;
use warpline_results::{ResultError, Summary};
use warpline_scenario::Scenario;

use super::case::{Case, Figure, Size, Stack};

/// How many digits of a scenario's hash are in the name of its file.
const DIGITS: usize = 16;
/// Mode of the directories.
const DIRECTORY_MODE: u32 = 0o777;

/// What was measured on one path.
pub type Measured = BTreeMap<Figure, f64>;

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Hash of its scenario.
    pub(super) scenario_hash: String,
    /// Its paths in the order of the scenario.
    pub(super) paths: Vec<Measured>,
}

impl Kept {
    /// Takes the figures of each path out of a run's summary; none if a path has none.
    pub(super) fn of(summary: &Summary, case: &dyn Case, stack: Stack, size: Size) -> Option<Kept> {
        let measured = |path: u32| case.measure(summary, stack, path);
        let paths = (1..=case.paths(size)).map(measured).collect::<Option<Vec<_>>>()?;
        Some(Kept { scenario_hash: summary.info.scenario_hash.clone(), paths })
    }
}

/// The directory of the results.
#[derive(Clone, Debug)]
pub(super) struct Store(pub(super) PathBuf);

impl Store {
    fn file(&self, ran: &str, name: &str, hash: &str) -> PathBuf {
        let digits: String = hash.trim_start_matches("sha256:").chars().take(DIGITS).collect();
        self.0.join(ran).join(format!("{name}-{digits}.json"))
    }

    /// What is kept of a scenario that `ran`, a kernel or program with its version, has run under this name. A file that cannot be read, or is
    /// of another scenario, does not count.
    pub(super) fn find(&self, ran: &str, name: &str, scenario: &Scenario) -> Option<Kept> {
        let hash = scenario.scenario_hash();
        let text = fs::read(self.file(ran, name, &hash)).ok()?;
        serde_json::from_slice::<Kept>(&text).ok().filter(|kept| kept.scenario_hash == hash)
    }

    /// Keeps the results of a run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(super) fn keep(&self, ran: &str, name: &str, kept: &Kept) -> Result<(), ResultError> {
        let file = self.file(ran, name, &kept.scenario_hash);
        let directory = file.parent().unwrap_or(Path::new(""));
        let here = OsDirectory::here();
        create_directories(&here, directory, DIRECTORY_MODE)
            .map_err(|error| ResultError::io("create", directory, error))?;
        // Numbers and strings only: this cannot fail.
        let text = serde_json::to_string(kept).unwrap_or_default() + "\n";
        write_whole(&here, &file, FILE_MODE, text.as_bytes())
            .map_err(|error| ResultError::io("write", &file, error))
    }
}
