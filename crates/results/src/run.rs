//! Reading a run back: its summary and its tables.

use std::fs;
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use warpline_disk::Directory;

use crate::column::Row;
use crate::error::ResultError;
use crate::summary::{FORMAT, SUMMARY_FILE, Summary};
use crate::tables::Table;

/// A run directory, opened.
#[derive(Clone, Debug)]
pub struct Run {
    path: PathBuf,
    summary: Summary,
}

/// Whether the directory holds a run: a summary that says it is ours. Its version does not matter.
pub(crate) fn is_run(at: &impl Directory, directory: &Path) -> bool {
    at.read(&directory.join(SUMMARY_FILE))
        .ok()
        .and_then(|text| serde_json::from_slice::<Head>(&text).ok())
        .is_some_and(|head| head.warpline.is_some() && head.format.is_some())
}

/// What a summary says of itself; anything else in it is passed over.
#[derive(serde::Deserialize)]
struct Head {
    #[serde(default, deserialize_with = "lenient")]
    warpline: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    format: Option<u64>,
}

/// A value of the type that is expected; none where it is of another.
fn lenient<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = <serde_json::Value as serde::Deserialize>::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

impl Run {
    /// Opens a run directory.
    ///
    /// # Errors
    /// If it is not a run directory, or in a newer format than this version reads, or cannot be read.
    pub fn open(directory: &Path) -> Result<Run, ResultError> {
        let not_a_run = |why: &str| ResultError::NotARun { path: directory.to_owned(), why: why.to_owned() };
        if !directory.exists() {
            return Err(not_a_run("it does not exist"));
        }
        if !directory.is_dir() {
            return Err(not_a_run("it is a file; name the directory that holds it"));
        }
        let path = directory.join(SUMMARY_FILE);
        if !path.exists() {
            return Err(not_a_run("it has no summary.json"));
        }
        let text = fs::read_to_string(&path).map_err(|error| ResultError::io("read", &path, error))?;
        let damaged =
            |error: serde_json::Error| ResultError::Damaged { path: path.clone(), why: error.to_string() };
        // The head first: what a newer version writes must be told from what is damaged. Of a large file it takes no time worth naming.
        let head: Head = serde_json::from_str(&text).map_err(damaged)?;
        let (Some(writer), Some(format)) = (head.warpline, head.format) else {
            return Err(not_a_run("its summary.json was not written by Warpline"));
        };
        if format > FORMAT {
            return Err(ResultError::NewerFormat {
                path: directory.to_owned(),
                found: format,
                known: FORMAT,
                writer,
            });
        }
        let summary = serde_json::from_str(&text).map_err(damaged)?;
        Ok(Run { path: directory.to_owned(), summary })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Its summary.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The table of a row type; empty where nothing of it was recorded.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn table<R: Row>(&self) -> Result<Table, ResultError> {
        self.named_table(R::TABLE, R::schema())
    }

    /// The table of this name; empty, with these columns, where nothing of it was recorded.
    pub(crate) fn named_table(&self, name: &str, schema: SchemaRef) -> Result<Table, ResultError> {
        let path = self.path.join(format!("{name}.parquet"));
        if path.exists() { Table::read(&path) } else { Ok(Table { schema, batches: Vec::new() }) }
    }

    /// The rows of a table.
    ///
    /// # Errors
    /// If the file cannot be read, or lacks a column.
    pub fn rows<R: Row>(&self) -> Result<Vec<R>, ResultError> {
        self.table::<R>()?.rows().map_err(|why| ResultError::Damaged {
            path: self.path.join(format!("{}.parquet", R::TABLE)),
            why,
        })
    }

    /// Captures (`.pcapng`) and qlog files (`.sqlog`) of the run, by name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn recordings(&self) -> Result<Vec<PathBuf>, ResultError> {
        let entries = fs::read_dir(&self.path).map_err(|error| ResultError::io("read", &self.path, error))?;
        let mut paths: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "pcapng" || end == "sqlog"))
            .collect();
        paths.sort();
        Ok(paths)
    }
}
