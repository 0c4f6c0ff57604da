//! A directory that comes into being whole or not at all.
//!
//! Everything is written into a hidden sibling, `.NAME.partial-PID`, which is renamed when it is complete. A lock file beside
//! it, made before it and removed after it, tells a run that is under way from what a killed one left behind: the lock dies with its process.

use std::fs::{self, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use warpline_disk::{Directory, DiskFile as _, Kind, Open, create_directories, remove_all};

use crate::error::ResultError;
use crate::run::is_run;
use crate::set::seed_of;
use crate::tables::FILE_MODE;

/// A directory under construction; removed when dropped before [`PartialDirectory::publish`].
#[derive(Debug)]
pub(crate) struct PartialDirectory<D: Directory> {
    at: D,
    target: PathBuf,
    path: PathBuf,
    force: bool,
    lock: Option<D::File>,
}

/// How often the lock file is tried, and how long to wait if it is held: another process may be clearing away what a killed run has left.
const TRIES: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);
/// Mode of directories; the umask narrows it.
const DIRECTORY_MODE: u32 = 0o777;

/// The parent of the target, and the target's name.
fn split(target: &Path) -> Result<(PathBuf, String), ResultError> {
    let name = target.file_name().ok_or_else(|| ResultError::NoName(target.to_owned()))?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((parent, name.to_string_lossy().into_owned()))
}

/// An error with what was tried on what.
fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> ResultError + use<'a> {
    move |error| ResultError::io(action, path, error)
}

/// Whether the target may be put in place now.
fn check_target(at: &impl Directory, target: &Path, force: bool) -> Result<(), ResultError> {
    let there = match at.look(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("look at", target))?,
    };
    if there.kind != Kind::Directory {
        return Err(ResultError::Occupied(target.to_owned()));
    }
    let names = at.names(target).map_err(failed("read", target))?;
    match (names.is_empty(), is_run(at, target), force) {
        (true, _, _) | (_, true, true) => Ok(()),
        (_, true, false) => Err(ResultError::Exists(target.to_owned())),
        _ if names
            .iter()
            .any(|name| name.to_str().and_then(seed_of).is_some() && is_run(at, &target.join(name))) =>
        {
            Err(ResultError::HoldsSet(target.to_owned()))
        }
        (_, false, _) => Err(ResultError::Occupied(target.to_owned())),
    }
}

impl<D: Directory> PartialDirectory<D> {
    /// Makes the hidden sibling of `target`, after clearing away what killed runs left there.
    pub(crate) fn create(at: D, target: &Path, force: bool) -> Result<Self, ResultError> {
        let (parent, name) = split(target)?;
        create_directories(&at, &parent, DIRECTORY_MODE).map_err(failed("create", &parent))?;
        clear_leftovers(&at, &parent, &name, target)?;
        check_target(&at, target, force)?;
        let path = parent.join(partial_name(&name, std::process::id()));
        let lock_path = lock_path(&path);
        // Another process may clear away the lock file in the moment before it is locked; then it is made again.
        for _ in 0..TRIES {
            let lock = at.open(&lock_path, Open::Empty(FILE_MODE)).map_err(failed("create", &lock_path))?;
            match lock.lock() {
                Ok(()) if at.leads_to(&lock_path, &lock).map_err(failed("look at", &lock_path))? => {
                    let directory =
                        PartialDirectory { at, target: target.to_owned(), path, force, lock: Some(lock) };
                    let made = directory.at.create_directory(&directory.path, DIRECTORY_MODE);
                    made.map_err(failed("create", &directory.path))?;
                    return Ok(directory);
                }
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => std::thread::park_timeout(PAUSE),
                Err(TryLockError::Error(error)) => return Err(ResultError::io("lock", &lock_path, error)),
            }
        }
        Err(ResultError::Busy(target.to_owned()))
    }

    /// Where paths lead from.
    pub(crate) fn at(&self) -> &D {
        &self.at
    }

    /// Where files are written until then.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new file.
    pub(crate) fn new_file(&self, name: &str) -> Result<(PathBuf, BufWriter<D::File>), ResultError> {
        let path = self.path.join(name);
        let inner = path.parent().filter(|parent| **parent != self.path);
        if let Some(inner) = inner {
            create_directories(&self.at, inner, DIRECTORY_MODE).map_err(failed("create", inner))?;
        }
        match self.at.open(&path, Open::New(FILE_MODE)) {
            Ok(file) => {
                if let Some(inner) = inner {
                    self.at.sync_of(inner).map_err(failed("write", inner))?;
                }
                Ok((path, BufWriter::new(file)))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ResultError::SameName { name: name.to_owned() })
            }
            Err(error) => Err(ResultError::io("create", &path, error)),
        }
    }

    /// Puts the directory in place and returns where that is. An earlier run there is moved aside first and removed last, so
    /// that a crash in between leaves one of the two, which the next run finds.
    pub(crate) fn publish(mut self) -> Result<PathBuf, ResultError> {
        let at = &self.at;
        check_target(at, &self.target, self.force)?;
        at.sync_of(&self.path).map_err(failed("write", &self.path))?;
        let (parent, name) = split(&self.target)?;
        let aside = parent.join(format!(".{name}.replaced-{}", std::process::id()));
        let replaced = is_run(at, &self.target);
        if replaced {
            // What is left there of an earlier one, whose removal failed half-way.
            remove_all(at, &aside).map_err(failed("remove", &aside))?;
            at.rename(&self.target, &aside).map_err(failed("replace", &self.target))?;
        } else if at.has(&self.target).map_err(failed("look at", &self.target))? {
            // Empty, or this fails. Not every system renames onto an empty directory.
            at.remove_directory(&self.target).map_err(failed("replace", &self.target))?;
        }
        if let Err(error) = at.rename(&self.path, &self.target) {
            let error = ResultError::io("create", &self.target, error);
            if replaced {
                at.rename(&aside, &self.target).map_err(failed("restore", &aside))?;
            }
            return Err(error);
        }
        if let Err(error) = at.sync_of(&parent.join(".")) {
            // It is not known to be on the disk, and so it is not there: all or nothing.
            let back = at.rename(&self.target, &self.path).is_ok();
            if back && replaced {
                let _ = at.rename(&aside, &self.target);
            }
            // Half of a run must never bear its name: nothing of it is removed before the name is known to be gone. The next run clears it
            // away otherwise.
            if !back || at.sync_of(&parent.join(".")).is_err() {
                self.unlock();
            }
            return Err(ResultError::io("write", &parent, error));
        }
        self.unlock();
        if replaced {
            // The new run is in place; if the old one cannot be removed, the next run tries again.
            let _ = remove_all(&self.at, &aside);
        }
        Ok(self.target.clone())
    }

    /// Gives the lock up and removes its file; one that stays behind is cleared away by the next run.
    fn unlock(&mut self) {
        if self.lock.take().is_some() {
            let _ = self.at.remove_file(&lock_path(&self.path));
        }
    }
}

impl<D: Directory> Drop for PartialDirectory<D> {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // Nothing can be reported from here; the next run clears away what is left.
            let _ = remove_all(&self.at, &self.path);
            self.unlock();
        }
    }
}

/// Removes what this process has written so far for the run directory `target`, and leaves `target` as it is: for a process that ends
/// at once, such as on a second Ctrl-C.
pub fn discard_unfinished(target: &Path) {
    let Ok(path) = unfinished(target, std::process::id()) else { return };
    // A run that is still being written may add a file between the listing and the removal.
    for _ in 0..100 {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    let _ = fs::remove_file(lock_path(&path));
}

/// Where a process writes the run directory `target` until it is complete.
///
/// # Errors
/// If `target` has no name.
pub fn unfinished(target: &Path, process: u32) -> Result<PathBuf, ResultError> {
    let (parent, name) = split(target)?;
    Ok(parent.join(partial_name(&name, process)))
}

fn partial_name(name: &str, process: u32) -> String {
    format!("{}{process}", partial_prefix(name))
}

fn partial_prefix(name: &str) -> String {
    format!(".{name}.partial-")
}

/// The lock file of a partial directory.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Removes partial directories of `name` whose process is gone, and brings back a run that was moved aside by a process that
/// died before it put the new one in place.
fn clear_leftovers(at: &impl Directory, parent: &Path, name: &str, target: &Path) -> Result<(), ResultError> {
    // It may be a link to a directory.
    let names = at.names(&parent.join(".")).map_err(failed("read", parent))?;
    for path in names.into_iter().map(|name| parent.join(name)) {
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let number = |prefix: &str| file_name.strip_prefix(prefix).is_some_and(is_number);
        let lock_name = file_name.strip_suffix(".lock").unwrap_or_default();
        if number(&partial_prefix(name)) {
            remove_abandoned(at, &path, &lock_path(&path))?;
        } else if lock_name.strip_prefix(&partial_prefix(name)).is_some_and(is_number) {
            // After its directory, which sorts before it.
            remove_abandoned(at, &path, &path)?;
        } else if number(&format!(".{name}.replaced-")) {
            let is_whole = is_run(at, &path);
            // Only a run takes its place, and not an empty directory.
            if is_run(at, target) {
                match remove_all(at, &path) {
                    // The process that moved it aside removes it at the same time, and was faster.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    // Of one that is not whole the removal ended half-way, or is under way in another process.
                    removed if is_whole => removed.map_err(failed("remove", &path))?,
                    _ => {}
                }
            } else if is_whole && !at.has(target).map_err(failed("look at", target))? {
                at.rename(&path, target).map_err(failed("restore", &path))?;
            }
        }
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes a directory, or its lock file itself, if nobody holds the lock. This process holds it meanwhile, so that a run that begins now does not
/// take what is being removed for its own.
fn remove_abandoned(at: &impl Directory, path: &Path, lock: &Path) -> Result<(), ResultError> {
    let _held = match at.open(lock, Open::Read) {
        // If the name leads to another file by now, that is the lock of a new run.
        Ok(file) if file.lock().is_ok() && at.leads_to(lock, &file).unwrap_or(false) => Some(file),
        // A directory without a lock is abandoned; another process has already removed a lock file that is gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path != lock => None,
        _ => return Ok(()),
    };
    remove_all(at, path).map_err(failed("remove", path))
}
