//! The record of a search: each point with its value, `evaluations.csv`. A search that was stopped or killed goes on from it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use warpline_disk::{OsDirectory, write_whole};
use warpline_results::ResultError;
use warpline_results::tables::FILE_MODE;

/// The file, in the directory of a search.
pub const EVALUATIONS_FILE: &str = "evaluations.csv";

/// The values of the keys that are varied, as TOML; none where the scenario's own stays.
pub(super) type Values = Vec<Option<String>>;

/// What was measured at points; none where there was nothing to measure, or the scenario cannot be run.
pub(super) type Known = BTreeMap<Values, Option<f64>>;

/// The rows so far.
pub(super) struct Journal {
    path: Option<PathBuf>,
    rows: csv::Writer<Vec<u8>>,
    count: u64,
}

fn failed(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> ResultError {
    ResultError::io("write", path, std::io::Error::other(error))
}

impl Journal {
    /// A record of these keys, in a directory, or nowhere.
    ///
    /// # Errors
    /// Never, as it is written later.
    pub(super) fn new<'a>(
        directory: Option<&Path>,
        keys: impl Iterator<Item = &'a str>,
    ) -> Result<Journal, ResultError> {
        let path = directory.map(|directory| directory.join(EVALUATIONS_FILE));
        let mut rows = csv::Writer::from_writer(Vec::new());
        rows.write_record(["evaluation", "phase", "value"].into_iter().chain(keys))
            .map_err(|error| failed(Path::new(EVALUATIONS_FILE), error))?;
        Ok(Journal { path, rows, count: 0 })
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Never, as it is written later.
    pub(super) fn add(
        &mut self,
        phase: &str,
        values: &Values,
        value: Option<f64>,
    ) -> Result<(), ResultError> {
        self.count += 1;
        let number = self.count.to_string();
        let value = value.map(|value| value.to_string()).unwrap_or_default();
        let values = values.iter().map(|value| value.as_deref().unwrap_or_default());
        self.rows
            .write_record([number.as_str(), phase, value.as_str()].into_iter().chain(values))
            .map_err(|error| failed(Path::new(EVALUATIONS_FILE), error))
    }

    /// Writes all rows, or leaves the file as it was.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&mut self) -> Result<(), ResultError> {
        let Some(path) = &self.path else { return Ok(()) };
        self.rows.flush().map_err(|error| ResultError::io("write", path, error))?;
        write_whole(&OsDirectory::here(), path, FILE_MODE, self.rows.get_ref())
            .map_err(|error| ResultError::io("write", path, error))
    }
}

/// What an earlier search has measured; nothing if there is no record, or one of other keys.
pub(super) fn read<'a>(directory: &Path, keys: impl Iterator<Item = &'a str>) -> Known {
    let mut known = Known::new();
    let Ok(mut rows) = csv::Reader::from_path(directory.join(EVALUATIONS_FILE)) else { return known };
    let heads_alike = rows.headers().is_ok_and(|heads| heads.iter().skip(3).eq(keys));
    if heads_alike {
        for row in rows.records().map_while(Result::ok) {
            let values = row.iter().skip(3).map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
            known.insert(values.collect(), row.get(2).and_then(|value| value.parse().ok()));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let keys = || ["link[a-b].rate", "x"].into_iter();
        let mut journal = Journal::new(Some(directory.path()), keys()).unwrap();
        let odd: Values = vec![Some("[{ at = \"1s\", for = \"2s\" }]".to_owned()), None];
        let third = 1.0 / 3.0;
        journal.add("search", &odd, Some(third)).unwrap();
        journal.add("small", &vec![None, Some("7".to_owned())], None).unwrap();
        journal.write().unwrap();
        let known = read(directory.path(), keys());
        assert_eq!((known.len(), known[&odd]), (2, Some(third)));
        assert!(read(directory.path(), ["x"].into_iter()).is_empty());
        assert!(read(Path::new("none"), keys()).is_empty());
    }
}
