//! Where a run's results go without `--out`: `runs/NAME-SEED`, with a number if that exists.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The directory for runs, relative to the current one.
const PARENT: &str = "runs";

/// A directory name that no other process takes while this value lives.
///
/// The claim is a locked file beside the directory, so that runs started at the same moment get different names. The system
/// releases it however the process ends.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    claim: PathBuf,
    /// Keeps the lock; never read.
    _lock: File,
}

impl Destination {
    /// Claims `runs/STEM`, or `runs/STEM.2` and so on.
    ///
    /// # Errors
    /// If `runs` cannot be written.
    pub(crate) fn claim(stem: &str) -> Result<Self, Failure> {
        Self::claim_in(Path::new(PARENT), stem)
    }

    fn claim_in(parent: &Path, stem: &str) -> Result<Self, Failure> {
        let failed = |what: &str, path: &Path, error: io::Error| {
            Failure::output(format!(
                "cannot {what} {}: {error}; name another directory with --out",
                path.display()
            ))
        };
        fs::create_dir_all(parent).map_err(|error| failed("create", parent, error))?;
        let stem = file_name(stem);
        for number in 1_u64.. {
            let name = if number == 1 { stem.clone() } else { format!("{stem}.{number}") };
            let path = parent.join(&name);
            if path.exists() {
                continue;
            }
            let claim = parent.join(format!(".{name}.claim"));
            let lock = File::create(&claim).map_err(|error| failed("write in", parent, error))?;
            match lock.try_lock() {
                // Its last holder may have removed the claim, or finished, between our opening and our locking.
                Ok(()) if !path.exists() && claim.exists() => {
                    return Ok(Destination { path, claim, _lock: lock });
                }
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(failed("lock", &claim, error)),
            }
        }
        unreachable!("numbers do not end")
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // If a claim file stays behind, the next run of this name takes it over.
        let _ = fs::remove_file(&self.claim);
    }
}

/// A scenario's name as one part of a path: characters that a file system or a shell treats specially become hyphens.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let cleaned: String = name.chars().map(plain).collect();
    let trimmed = cleaned.trim_matches(['.', '-']);
    if trimmed.is_empty() { "run".to_owned() } else { trimmed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_name_gets_a_number() {
        let parent = tempfile::tempdir().unwrap();
        let name =
            |destination: &Destination| destination.path().file_name().unwrap().to_str().unwrap().to_owned();
        let first = Destination::claim_in(parent.path(), "dumbbell-1").unwrap();
        let second = Destination::claim_in(parent.path(), "dumbbell-1").unwrap();
        assert_eq!((name(&first).as_str(), name(&second).as_str()), ("dumbbell-1", "dumbbell-1.2"));
        fs::create_dir(first.path()).unwrap();
        drop((first, second));
        let third = Destination::claim_in(parent.path(), "dumbbell-1").unwrap();
        assert_eq!(name(&third), "dumbbell-1.2");
        drop(third);
        let left: Vec<_> =
            fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["dumbbell-1"]);
    }

    #[test]
    fn names_stay_inside_the_directory() {
        assert_eq!(file_name("../a b/c"), "a-b-c");
        assert_eq!(file_name("Ω 2.0"), "Ω-2.0");
        assert_eq!(file_name(".."), "run");
    }
}
