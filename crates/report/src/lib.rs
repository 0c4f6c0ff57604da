//! Results as people look at them: `report.html`, one self-contained page per run, or for several runs together, that opens from
//! disk; and figures for papers ([`figure`]).
//!
//! A page is made in two steps. [`ReportData`] is read from run directories (`summary.json` and the Parquet tables),
//! with long series thinned to their extremes; [`render`] turns it into HTML with the plot library, the styles, the
//! scripts and the data inside. Nothing in a page depends on the time or the machine: same runs, same bytes.
//!
//! A page is made of what `warpline-results` reads. What it cannot read, the report of a capacity test, is handed in ([`ReadCapacity`]).

mod bands;
mod column;
mod data;
mod decimate;
pub mod figure;
mod folds;
mod gather;
mod heads;
mod links;
mod names;
mod page;
mod quantity;
mod run;
mod series;
mod sets;
mod tables;
mod tcp;

use std::path::{Path, PathBuf};

use thiserror::Error;
use warpline_disk::OsDirectory;
use warpline_results::summary::SUMMARY_FILE;
use warpline_results::tables::FILE_MODE;
use warpline_results::{ResultError, seed_directory, seeds_in};

pub use bands::{Band, Samples, band, busiest_link};
pub use column::{Column, Precision};
pub use data::{
    Columns, Curves, Distribution, FlowSeries, LinkEvents, LinkSeries, Member, Note, NoteLevel, ReportData,
    RunData, SetData, Shares, Table, TcpTrace,
};
pub use names::distinct_names;
pub use page::{asset, escape, render, static_page};
pub use quantity::Quantity;
pub use run::{CapacityTest, ReadCapacity};

/// Why a report could not be made.
#[derive(Debug, Error)]
pub enum ReportError {
    /// No run was named.
    #[error("no run to report: name at least one run directory")]
    NoRuns,
    /// The path is not a run directory.
    #[error(
        "{path} is not a run directory: it holds neither summary.json, nor a table, nor runs of seeds; name a directory that \
         `warpline run` wrote"
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
    /// Reads directories of runs, or of several seeds. Single runs are compared with the first; sets are shown by mean and interval.
    ///
    /// # Errors
    /// If one of them is neither, or cannot be read.
    pub fn read(directories: &[&Path], read_capacity: ReadCapacity) -> Result<Self, ReportError> {
        if directories.is_empty() {
            return Err(ReportError::NoRuns);
        }
        let parts: Vec<(&Path, Vec<PathBuf>)> =
            directories.iter().map(|&directory| (directory, runs_in(directory))).collect();
        let all: Vec<&Path> = parts.iter().flat_map(|(_, runs)| runs.iter().map(PathBuf::as_path)).collect();
        let mut data = ReportData::default();
        for dir in &all {
            data.runs.push(run::read(dir, all.len(), read_capacity)?);
        }
        run::label(&mut data.runs, &all);
        if parts.iter().any(|(_, runs)| runs.len() > 1) {
            data.sets = sets::read(&parts)?;
        }
        Ok(data)
    }
}

/// The runs of a directory: itself, or those of its seeds.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let seeds = if directory.join(SUMMARY_FILE).exists() { Vec::new() } else { seeds_in(directory) };
    match seeds.as_slice() {
        [] => vec![directory.to_owned()],
        seeds => seeds.iter().map(|&seed| seed_directory(directory, seed)).collect(),
    }
}

/// Writes the report of runs, or of sets of seeds, to the file `out`: whole or not at all.
///
/// # Errors
/// If a directory is no run, or cannot be read, or the file cannot be written.
pub fn write_report(
    directories: &[&Path],
    out: &Path,
    read_capacity: ReadCapacity,
) -> Result<(), ReportError> {
    write_page(&ReportData::read(directories, read_capacity)?, out)
}

/// Writes the page that shows `data` to the file `out`: whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write_page(data: &ReportData, out: &Path) -> Result<(), ReportError> {
    write_whole(render(data).as_bytes(), out)
}

/// Writes a file whole or not at all.
///
/// # Errors
/// If it cannot be written.
pub fn write_whole(bytes: &[u8], out: &Path) -> Result<(), ReportError> {
    warpline_disk::write_whole(&OsDirectory::here(), out, FILE_MODE, bytes).map_err(unwritten(out))
}

/// Checks that [`write_whole`] can write to the file `out`, before the work that makes what it writes. Leaves nothing behind.
///
/// # Errors
/// If it cannot be written.
pub fn check_writable(out: &Path) -> Result<(), ReportError> {
    warpline_disk::check_whole(&OsDirectory::here(), out, FILE_MODE).map_err(unwritten(out))
}

/// The error of a write to `out`.
fn unwritten(out: &Path) -> impl FnOnce(std::io::Error) -> ReportError {
    move |source| ReportError::Write { path: out.to_owned(), source }
}
