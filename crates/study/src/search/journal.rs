//! The record of a search: each point with its value and what made its runs, `evaluations.csv`. A search that was stopped or killed goes on from it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use warpline_disk::{OsDirectory, write_whole};
use warpline_results::ResultError;
use warpline_results::tables::FILE_MODE;

/// The file, in the directory of a search.
pub const EVALUATIONS_FILE: &str = "evaluations.csv";

/// The values of the keys that are varied, as TOML; none where the scenario's own stays.
pub(super) type Values = Vec<Option<String>>;

/// The columns before those of the keys that are varied.
const COLUMNS: [&str; 4] = ["evaluation", "phase", "value", "builds"];
/// In place of the builds of a point of which one was not there.
const UNKNOWN: &str = "unknown";

/// A point of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// What the search was doing, in a word.
    pub(super) phase: String,
    /// The values of the keys that are varied.
    pub(super) values: Values,
    /// What was measured there; none where there was nothing to measure, or the scenario cannot be run.
    pub(super) value: Option<f64>,
    /// The builds that made its runs; none if one was not there.
    pub(super) builds: Option<String>,
}

/// The rows so far.
pub(super) struct Journal {
    path: Option<PathBuf>,
    rows: csv::Writer<Vec<u8>>,
    count: u64,
    /// Whether its rows are kept back.
    held: bool,
}

fn failed(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> ResultError {
    ResultError::io("write", path, std::io::Error::other(error))
}

/// Puts a row with its number after the others.
fn put(rows: &mut csv::Writer<Vec<u8>>, number: u64, row: &Row) -> Result<(), ResultError> {
    let number = number.to_string();
    let value = row.value.map(|value| value.to_string()).unwrap_or_default();
    let builds = row.builds.as_deref().unwrap_or(UNKNOWN);
    let values = row.values.iter().map(|value| value.as_deref().unwrap_or_default());
    rows.write_record([number.as_str(), row.phase.as_str(), value.as_str(), builds].into_iter().chain(values))
        .map_err(|error| failed(Path::new(EVALUATIONS_FILE), error))
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
        Ok(Journal { path, rows, count: 0, held: false })
    }

    /// Keeps its rows back from now on, so that nothing is written; or no longer.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Its file; none if it is not written.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Never, as it is written later.
    pub(super) fn add(&mut self, row: &Row) -> Result<(), ResultError> {
        self.count += 1;
        put(&mut self.rows, self.count, row)
    }

    /// Writes all rows, and after them `rest`, the rows of an earlier record that were not used yet; or leaves the file as it was. Does nothing while rows are
    /// kept back.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(&mut self, rest: &VecDeque<Row>) -> Result<(), ResultError> {
        let Some(path) = self.path.as_deref().filter(|_| !self.held) else { return Ok(()) };
        let refused = |error: std::io::Error| ResultError::io("write", path, error);
        self.rows.flush().map_err(refused)?;
        let mut whole = csv::Writer::from_writer(self.rows.get_ref().clone());
        for (number, row) in (self.count + 1..).zip(rest) {
            put(&mut whole, number, row)?;
        }
        whole.flush().map_err(refused)?;
        write_whole(&OsDirectory::here(), path, FILE_MODE, whole.get_ref()).map_err(refused)
    }
}

/// Whether there is no record in a directory, or one without a point, of whatever keys.
pub(super) fn is_without_points(directory: &Path) -> bool {
    match std::fs::read_to_string(directory.join(EVALUATIONS_FILE)) {
        Ok(text) => text.lines().count() <= 1,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
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
            phase: row.get(1).unwrap_or_default().to_owned(),
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
                phase: "base".to_owned(),
                values: vec![Some("[{ at = \"1s\", for = \"2s\" }]".to_owned()), None],
                value: Some(1.0 / 3.0),
                builds: Some("mine-0123".to_owned()),
            },
            Row {
                phase: "search".to_owned(),
                values: vec![None, Some("7".to_owned())],
                value: None,
                builds: Some(String::new()),
            },
            Row { phase: "small".to_owned(), values: vec![None, None], value: None, builds: None },
        ];
        // At first the last two are those of an earlier record.
        let mut rest = VecDeque::from(rows.clone());
        while let Some(row) = rest.pop_front() {
            journal.add(&row).unwrap();
            journal.write(&rest).unwrap();
            assert_eq!(read(directory.path(), keys()), rows);
        }
        assert!(read(directory.path(), ["x"].into_iter()).is_empty());
        assert!(read(Path::new("none"), keys()).is_empty());
    }
}
