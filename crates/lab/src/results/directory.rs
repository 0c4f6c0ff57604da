//! A directory that comes into being whole or not at all.
//!
//! Everything is written into a hidden sibling, `.NAME.partial-PID`, which is renamed when it is complete. A lock file beside
//! it, made before it and removed after it, tells a run that is under way from what a killed one left behind: the lock dies with its process.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::results::error::ResultError;
use crate::results::run::is_run;

/// A directory under construction; removed when dropped before [`PartialDirectory::publish`].
#[derive(Debug)]
pub(crate) struct PartialDirectory {
    target: PathBuf,
    path: PathBuf,
    force: bool,
    lock: Option<File>,
}

/// The parent of the target, and the target's name.
fn split(target: &Path) -> Result<(PathBuf, String), ResultError> {
    let name = target.file_name().ok_or_else(|| ResultError::NoName(target.to_owned()))?;
    let parent = match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    Ok((parent, name.to_string_lossy().into_owned()))
}

/// Whether the target may be put in place now.
fn check_target(target: &Path, force: bool) -> Result<(), ResultError> {
    let metadata = match fs::symlink_metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ResultError::io("look at", target, error)),
    };
    if !metadata.is_dir() {
        return Err(ResultError::Occupied(target.to_owned()));
    }
    let mut entries = fs::read_dir(target).map_err(|error| ResultError::io("read", target, error))?;
    match (entries.next().is_none(), is_run(target), force) {
        (true, _, _) | (_, true, true) => Ok(()),
        (_, true, false) => Err(ResultError::Exists(target.to_owned())),
        (_, false, _) => Err(ResultError::Occupied(target.to_owned())),
    }
}

impl PartialDirectory {
    /// Makes the hidden sibling of `target`, after clearing away what killed runs left there.
    pub(crate) fn create(target: &Path, force: bool) -> Result<Self, ResultError> {
        let (parent, name) = split(target)?;
        fs::create_dir_all(&parent).map_err(|error| ResultError::io("create", &parent, error))?;
        clear_leftovers(&parent, &name, target)?;
        check_target(target, force)?;
        let path = parent.join(format!(".{name}.partial-{}", std::process::id()));
        let lock_path = lock_path(&path);
        // Another process may clear away the lock file in the moment before it is locked; then it is made again.
        for _ in 0..16 {
            let lock =
                File::create(&lock_path).map_err(|error| ResultError::io("create", &lock_path, error))?;
            match lock.try_lock() {
                Ok(()) if lock_path.exists() => {
                    let directory =
                        PartialDirectory { target: target.to_owned(), path, force, lock: Some(lock) };
                    let made = fs::create_dir(&directory.path);
                    made.map_err(|error| ResultError::io("create", &directory.path, error))?;
                    return Ok(directory);
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(ResultError::io("lock", &lock_path, error)),
            }
        }
        Err(ResultError::Busy(target.to_owned()))
    }

    /// Where files are written until then.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts the directory in place and returns where that is. An earlier run there is moved aside first and removed last, so
    /// that a crash in between leaves one of the two, which the next run finds.
    pub(crate) fn publish(mut self) -> Result<PathBuf, ResultError> {
        check_target(&self.target, self.force)?;
        sync_directory(&self.path)?;
        let (parent, name) = split(&self.target)?;
        let aside = parent.join(format!(".{name}.replaced-{}", std::process::id()));
        let replaced = is_run(&self.target);
        if replaced {
            fs::rename(&self.target, &aside)
                .map_err(|error| ResultError::io("replace", &self.target, error))?;
        } else if self.target.is_dir() {
            // Empty, or this fails. Not every system renames onto an empty directory.
            fs::remove_dir(&self.target).map_err(|error| ResultError::io("replace", &self.target, error))?;
        }
        if let Err(error) = fs::rename(&self.path, &self.target) {
            let error = ResultError::io("create", &self.target, error);
            if replaced {
                fs::rename(&aside, &self.target)
                    .map_err(|error| ResultError::io("restore", &aside, error))?;
            }
            return Err(error);
        }
        self.unlock();
        sync_directory(&parent)?;
        if replaced {
            // The new run is in place; if the old one cannot be removed, the next run tries again.
            let _ = fs::remove_dir_all(&aside);
        }
        Ok(self.target.clone())
    }
}

impl PartialDirectory {
    /// Gives the lock up and removes its file; one that stays behind is cleared away by the next run.
    fn unlock(&mut self) {
        if self.lock.take().is_some() {
            let _ = fs::remove_file(lock_path(&self.path));
        }
    }
}

impl Drop for PartialDirectory {
    fn drop(&mut self) {
        if self.lock.is_some() {
            // Nothing can be reported from here; the next run clears away what is left.
            let _ = fs::remove_dir_all(&self.path);
            self.unlock();
        }
    }
}

/// Removes what this process has written so far for the run directory `target`, and leaves `target` as it is: for a process that ends
/// at once, such as on a second Ctrl-C.
pub fn discard_unfinished(target: &Path) {
    let Ok((parent, name)) = split(target) else { return };
    let path = parent.join(format!(".{name}.partial-{}", std::process::id()));
    // A run that is still being written may add a file between the listing and the removal.
    for _ in 0..100 {
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    let _ = fs::remove_file(lock_path(&path));
}

/// The lock file of a partial directory.
fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

/// Brings a directory's entries to disk, where the system has a way to.
fn sync_directory(path: &Path) -> Result<(), ResultError> {
    if cfg!(unix) {
        File::open(path)
            .and_then(|directory| directory.sync_all())
            .map_err(|error| ResultError::io("write", path, error))?;
    }
    Ok(())
}

/// Removes partial directories of `name` whose process is gone, and brings back a run that was moved aside by a process that
/// died before it put the new one in place.
fn clear_leftovers(parent: &Path, name: &str, target: &Path) -> Result<(), ResultError> {
    let entries = fs::read_dir(parent).map_err(|error| ResultError::io("read", parent, error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    for path in paths {
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let number = |prefix: &str| file_name.strip_prefix(prefix).is_some_and(is_number);
        let lock_name = file_name.strip_suffix(".lock").unwrap_or_default();
        if number(&format!(".{name}.partial-")) && is_abandoned(&lock_path(&path)) {
            fs::remove_dir_all(&path).map_err(|error| ResultError::io("remove", &path, error))?;
        } else if lock_name.strip_prefix(&format!(".{name}.partial-")).is_some_and(is_number) {
            // After its directory, which sorts before it.
            if is_abandoned(&path) {
                fs::remove_file(&path).map_err(|error| ResultError::io("remove", &path, error))?;
            }
        } else if number(&format!(".{name}.replaced-")) && is_run(&path) {
            if target.exists() {
                fs::remove_dir_all(&path).map_err(|error| ResultError::io("remove", &path, error))?;
            } else {
                fs::rename(&path, target).map_err(|error| ResultError::io("restore", &path, error))?;
            }
        }
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether nobody holds the lock.
fn is_abandoned(lock: &Path) -> bool {
    match File::open(lock) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
