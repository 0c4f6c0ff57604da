//! Results that are kept: a file for each run, so that no run is made twice and a study that was killed goes on.
//!
//! A run's file is in a directory named after what ran (the builds of kernels, stacks and this program), and named after the scenario and its hash. It is
//! written whole or not at all. What of a run is kept, the study decides.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warpline_disk::{OsDirectory, create_directories, write_whole};
use warpline_results::ResultError;
use warpline_results::tables::FILE_MODE;
use warpline_scenario::Scenario;

/// How many digits of a scenario's hash are in the name of its file.
const DIGITS: usize = 16;
/// Mode of the directories.
const DIRECTORY_MODE: u32 = 0o777;

/// What is kept of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept<T> {
    /// Hash of its scenario.
    pub(crate) scenario_hash: String,
    /// The results.
    #[serde(flatten)]
    pub(crate) results: T,
}

/// The directory of the results.
#[derive(Clone, Debug)]
pub(crate) struct Store(pub(crate) PathBuf);

impl Store {
    fn file(&self, ran: &str, name: &str, hash: &str) -> PathBuf {
        let digits: String = hash.trim_start_matches("sha256:").chars().take(DIGITS).collect();
        self.0.join(ran).join(format!("{name}-{digits}.json"))
    }

    /// What is kept of a scenario that `ran`, a kernel or program with its version, has run under this name. A file that cannot be read, or is
    /// of another scenario, does not count.
    pub(crate) fn find<T: DeserializeOwned>(&self, ran: &str, name: &str, scenario: &Scenario) -> Option<T> {
        let hash = scenario.scenario_hash();
        let text = fs::read(self.file(ran, name, &hash)).ok()?;
        let kept = serde_json::from_slice::<Kept<T>>(&text).ok().filter(|kept| kept.scenario_hash == hash)?;
        Some(kept.results)
    }

    /// Keeps the results of a run.
    ///
    /// # Errors
    /// If they cannot be written.
    pub(crate) fn keep<T: Serialize>(
        &self,
        ran: &str,
        name: &str,
        kept: &Kept<T>,
    ) -> Result<(), ResultError> {
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Results {
        paths: Vec<BTreeMap<String, f64>>,
    }

    #[test]
    fn what_is_kept_is_found_by_the_same_scenario_only() {
        let text = "duration = \"1s\"\nlink = [{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }]\nflow = [{ from = \"a\", to = \"b\" }]\n";
        let load = |sets: &[String]| Scenario::from_toml("x", text, sets).unwrap();
        let (one, other) = (load(&[]), load(&["seed=2".to_owned()]));
        let desk = tempfile::tempdir().unwrap();
        let store = Store(desk.path().join("kept"));
        let results = Results { paths: vec![BTreeMap::from([("goodput".to_owned(), 0.1 + 0.2)])] };
        let kept = Kept { scenario_hash: one.scenario_hash(), results: results.clone() };
        store.keep("linux-6.1", "x", &kept).unwrap();
        assert_eq!(store.find("linux-6.1", "x", &one), Some(results));
        assert_eq!(store.find::<Results>("linux-6.1", "x", &other), None);
        assert_eq!(store.find::<Results>("linux-6.12", "x", &one), None);
        fs::write(store.file("linux-6.1", "x", &kept.scenario_hash), "{").unwrap();
        assert_eq!(store.find::<Results>("linux-6.1", "x", &one), None);
    }
}
