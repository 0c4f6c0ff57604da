//! Reading a run back: its summary and its tables.

use std::fs::{self, File};
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use arrow_schema::SchemaRef;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use warpline_disk::{Directory, Open};

use crate::column::Row;
use crate::error::ResultError;
use crate::qlog;
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
    at.open(&directory.join(SUMMARY_FILE), Open::Read)
        .ok()
        .and_then(|file| Head::read(BufReader::new(file)).ok())
        .is_some_and(|head| head.is_whole())
}

/// What a summary says of itself.
#[derive(Default)]
struct Head {
    warpline: Option<String>,
    format: Option<u64>,
}

impl Head {
    /// Reads the head of a summary. It comes first in what we write: what follows may be long, and is left unread.
    fn read(from: impl Read) -> serde_json::Result<Head> {
        let mut head = Head::default();
        // Not to have come to the end is an error, too.
        match serde_json::Deserializer::from_reader(from).deserialize_map(&mut head) {
            Err(error) if !head.is_whole() => Err(error),
            _ => Ok(head),
        }
    }

    fn is_whole(&self) -> bool {
        self.warpline.is_some() && self.format.is_some()
    }
}

impl<'de> Visitor<'de> for &mut Head {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while !self.is_whole()
            && let Some(key) = map.next_key::<String>()?
        {
            // None where a value is not of the type that is expected.
            match key.as_str() {
                "warpline" => self.warpline = serde_json::from_value(map.next_value()?).ok(),
                "format" => self.format = serde_json::from_value(map.next_value()?).ok(),
                _ => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(())
    }
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
        let unreadable = |error| ResultError::io("read", &path, error);
        let damaged = |error: serde_json::Error| match error.io_error_kind() {
            Some(kind) => unreadable(kind.into()),
            None => ResultError::Damaged { path: path.clone(), why: error.to_string() },
        };
        let mut file = File::open(&path).map_err(unreadable)?;
        // The head first: what a newer version writes must be told from what is damaged.
        let head = Head::read(BufReader::new(&file)).map_err(damaged)?;
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
        file.rewind().map_err(unreadable)?;
        // Of a large network, the text is longer than all that it says.
        let summary = serde_json::from_reader(BufReader::with_capacity(1 << 16, file)).map_err(damaged)?;
        Ok(Run { path: directory.to_owned(), summary })
    }

    /// Checks that the directory still holds this run.
    ///
    /// # Errors
    /// If the run is gone, or another has taken its place since this one was opened.
    pub fn confirm(&self) -> Result<(), ResultError> {
        match Run::open(&self.path)?.summary == self.summary {
            true => Ok(()),
            false => Err(ResultError::Replaced(self.path.clone())),
        }
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
            .filter(|path| path.extension().is_some_and(|end| end == "pcapng" || end == qlog::ENDING))
            .collect();
        paths.sort();
        Ok(paths)
    }
}
