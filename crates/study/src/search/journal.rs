//! The record of a search: each point with its value and what made its runs, `evaluations.csv`. A search that was stopped or killed goes on from it.

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

/// The columns before those of the keys that are varied.
const COLUMNS: [&str; 4] = ["evaluation", "phase", "value", "builds"];
/// In place of the builds of a point of which one was not there.
const UNKNOWN: &str = "unknown";

/// A point of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The values of the keys that are varied.
    pub(super) values: Values,
    /// What was measured there.
    pub(super) value: Option<f64>,
    /// The builds that made its runs; none if one was not there.
    pub(super) builds: Option<String>,
}

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
        rows.write_record(COLUMNS.into_iter().chain(keys))
            .map_err(|error| failed(Path::new(EVALUATIONS_FILE), error))?;
        Ok(Journal { path, rows, count: 0 })
    }

    /// Whether it is written somewhere.
    pub(super) fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Never, as it is written later.
    pub(super) fn add(&mut self, phase: &str, row: &Row) -> Result<(), ResultError> {
        self.count += 1;
        let number = self.count.to_string();
        let value = row.value.map(|value| value.to_string()).unwrap_or_default();
        let builds = row.builds.as_deref().unwrap_or(UNKNOWN);
        let values = row.values.iter().map(|value| value.as_deref().unwrap_or_default());
        self.rows
            .write_record([number.as_str(), phase, value.as_str(), builds].into_iter().chain(values))
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
pub(super) fn read<'a>(directory: &Path, keys: impl Iterator<Item = &'a str>) -> Vec<Row> {
    let Ok(mut rows) = csv::Reader::from_path(directory.join(EVALUATIONS_FILE)) else { return Vec::new() };
    let heads_alike = rows.headers().is_ok_and(|heads| heads.iter().eq(COLUMNS.into_iter().chain(keys)));
    if !heads_alike {
        return Vec::new();
    }
    let row = |row: csv::StringRecord| {
        let values =
            row.iter().skip(COLUMNS.len()).map(|text| Some(text.to_owned()).filter(|text| !text.is_empty()));
        Row {
            values: values.collect(),
            value: row.get(2).and_then(|value| value.parse().ok()),
            builds: row.get(3).filter(|builds| *builds != UNKNOWN).map(str::to_owned),
        }
    };
    rows.records().map_while(Result::ok).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let keys = || ["link[a-b].rate", "x"].into_iter();
        let mut journal = Journal::new(Some(directory.path()), keys()).unwrap();
        let rows = [
            Row {
                values: vec![Some("[{ at = \"1s\", for = \"2s\" }]".to_owned()), None],
                value: Some(1.0 / 3.0),
                builds: Some("mine-0123".to_owned()),
            },
            Row { values: vec![None, Some("7".to_owned())], value: None, builds: Some(String::new()) },
            Row { values: vec![None, None], value: None, builds: None },
        ];
        for row in &rows {
            journal.add("search", row).unwrap();
        }
        journal.write().unwrap();
        assert_eq!(read(directory.path(), keys()), rows);
        assert!(read(directory.path(), ["x"].into_iter()).is_empty());
        assert!(read(Path::new("none"), keys()).is_empty());
    }
}
