//! `report.html`: one self-contained page per run, or for several runs together, that opens from disk.
//!
//! A page is made in two steps. [`ReportData`] is read from run directories (`summary.json` and the Parquet tables),
//! with long series thinned to their extremes; [`render`] turns it into HTML with the plot library, the styles, the
//! scripts and the data inside. Nothing in a page depends on the time or the machine: same runs, same bytes.

mod column;
mod data;
mod decimate;
mod links;
mod page;
mod run;
mod series;
mod tables;
mod tcp;

use std::path::{Path, PathBuf};

use thiserror::Error;
use warpline_disk::{OsDirectory, write_whole};

pub use column::{Column, Precision};
pub use data::{
    Columns, Curves, Distribution, FlowSeries, LinkEvents, LinkSeries, Member, Note, NoteLevel, ReportData,
    RunData, Shares, Table, TcpTrace,
};
pub use page::render;

use crate::results::ResultError;
use crate::results::tables::FILE_MODE;

/// Why a report could not be made.
#[derive(Debug, Error)]
pub enum ReportError {
    /// No run was named.
    #[error("no run to report: name at least one run directory")]
    NoRuns,
    /// The path is not a run directory.
    #[error(
        "{path} is not a run directory: it holds neither summary.json nor a table; name a directory that `warpline run` wrote"
    )]
    NotARun {
        /// The path.
        path: PathBuf,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not what its name says.
    #[error("{path} is damaged: {reason}; run the scenario again to write it anew")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The page could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The page.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl From<ResultError> for ReportError {
    /// What can go wrong in reading a table.
    fn from(error: ResultError) -> Self {
        match error {
            ResultError::Io { path, source, .. } => ReportError::Read { path, source },
            ResultError::Damaged { path, why } => ReportError::Malformed { path, reason: why },
            other => ReportError::Malformed { path: PathBuf::new(), reason: other.to_string() },
        }
    }
}

impl ReportData {
    /// Reads run directories. The first is the one that others are compared with.
    pub fn read(runs: &[&Path]) -> Result<Self, ReportError> {
        if runs.is_empty() {
            return Err(ReportError::NoRuns);
        }
        let mut data = ReportData::default();
        for dir in runs {
            data.runs.push(run::read(dir, runs.len())?);
        }
        run::label(&mut data.runs, runs);
        Ok(data)
    }
}

/// Writes the report of `runs` to the file `out`: whole or not at all.
pub fn write_report(runs: &[&Path], out: &Path) -> Result<(), ReportError> {
    write_page(&ReportData::read(runs)?, out)
}

/// Writes the page that shows `data` to the file `out`: whole or not at all.
pub(crate) fn write_page(data: &ReportData, out: &Path) -> Result<(), ReportError> {
    let page = render(data);
    let failed = |source| ReportError::Write { path: out.to_owned(), source };
    write_whole(&OsDirectory::here(), out, FILE_MODE, page.as_bytes()).map_err(failed)
}
