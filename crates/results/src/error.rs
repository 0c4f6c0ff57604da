//! What can go wrong with a run directory, said so that the reader knows which file and what to do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why results could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultError {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}; {advice}", path.display())]
    Io {
        /// What was attempted ("write").
        action: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What to do about it.
        advice: &'static str,
        /// The system's own words.
        source: io::Error,
    },
    /// A run is already there.
    #[error("{} holds an earlier run; name another directory, or allow it to be replaced (--force)", .0.display())]
    Exists(PathBuf),
    /// Something that is not a run is there. It is never overwritten.
    #[error("{} exists and is not a run directory; it is left alone: name another directory", .0.display())]
    Occupied(PathBuf),
    /// Runs of several seeds are there, which one run does not replace.
    #[error(
        "{} holds the runs of several seeds, which one run does not replace; name another directory, or repeat those seeds (--seeds, with --force)",
        .0.display()
    )]
    HoldsSet(PathBuf),
    /// One run is there, which those of several seeds do not replace.
    #[error("{} holds one run, which those of several seeds do not replace; name another directory, or remove that one", .0.display())]
    HoldsRun(PathBuf),
    /// The path cannot name a run directory.
    #[error("{} does not end in a name; name the run's own directory, such as runs/first", .0.display())]
    NoName(PathBuf),
    /// Another run is in the place of one that was opened.
    #[error("{} now holds another run, and not the one that was opened; open it again, or write each run to a directory of its own", .0.display())]
    Replaced(PathBuf),
    /// Another run that is still going on writes there.
    #[error("{} is being written by another run; wait for it, or name another directory", .0.display())]
    Busy(PathBuf),
    /// The directory is not a run.
    #[error("{} is not a run directory: {why}", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// What shows it.
        why: String,
    },
    /// Written by a later version.
    #[error(
        "{} is in result format {found}, written by Warpline {writer}; this version reads up to format {known}: \
         update Warpline to read it",
        path.display()
    )]
    NewerFormat {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that this version reads.
        known: u64,
        /// The version that wrote it.
        writer: String,
    },
    /// A file of a run is damaged, or is not what its name says.
    #[error("{} cannot be read: {why}; run the scenario again to replace it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Two result files of one run would have the same name.
    #[error("two results would both be called {name}; rename one of the links or flows")]
    SameName {
        /// The file name.
        name: String,
    },
    /// A value does not fit its format (a table, a capture).
    #[error("{} cannot be written: {why}", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
}

impl ResultError {
    /// Wraps a system error with the file and the advice that fits its kind.
    pub fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        let advice = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free some space, name a directory on another disk, or record less (`record`, `sample_interval`)"
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "name a directory that you may write to, or have its owner allow it"
            }
            io::ErrorKind::NotFound => "check that the path is spelt right and still exists",
            io::ErrorKind::NotADirectory => "a part of the path is a file; name another directory",
            _ => "check the disk and the path, or name another directory",
        };
        ResultError::Io { action, path: path.to_owned(), advice, source }
    }
}
