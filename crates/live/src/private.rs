//! A directory that only this user can write to, in a place where others may write too (`/tmp`, a BPF file system).
//!
//! Any user can create a directory with a predictable name first. So its owner and its mode are checked on the open directory, and
//! everything in it is accessed through that descriptor, without following links.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::unistd::Uid;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, fchmod, flock, fstat, mkdirat, openat,
    renameat, unlinkat,
};

use crate::process::pause;

/// The largest file that is read, in bytes; ours have a few hundred.
const LARGEST: u64 = 1 << 20;

/// A directory that only this user can write to.
#[derive(Debug)]
pub struct PrivateDirectory {
    path: PathBuf,
    descriptor: OwnedFd,
}

/// The lock of a directory.
#[derive(Debug)]
pub struct Lock<'a>(&'a PrivateDirectory);

/// Steps of [`pause`] for which somebody waits for a lock.
const LOCK_PATIENCE: u32 = 20;

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // Explicitly: a program that was started meanwhile may still have the descriptor.
        let _ = flock(&self.0.descriptor, FlockOperation::Unlock);
    }
}

/// Why a directory is not used.
#[derive(Debug, thiserror::Error)]
#[error("{} is not used: {problem}", path.display())]
pub struct UnsoundError {
    path: PathBuf,
    problem: Problem,
}

/// The problem with a directory.
#[derive(Debug)]
pub enum Problem {
    /// Another user may have put its content there.
    Foreign(String),
    /// A system call failed.
    System(io::Error),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Foreign(what) => {
                write!(
                    f,
                    "{what}, so others could have written what is in it; remove it, and it is created again"
                )
            }
            Problem::System(error) => write!(f, "{error}"),
        }
    }
}

impl UnsoundError {
    /// Whether another user may have written the content, as opposed to a failed system call.
    pub fn is_foreign(&self) -> bool {
        matches!(self.problem, Problem::Foreign(_))
    }

    /// The same for a file in the directory.
    pub(crate) fn foreign(path: PathBuf, what: impl Into<String>) -> Self {
        UnsoundError { path, problem: Problem::Foreign(what.into()) }
    }
}

impl PrivateDirectory {
    /// Opens the directory `name` in `parent`; creates it, with mode 0700, if it does not exist. A directory of this user's that others can
    /// read, but not write to, is closed to them.
    ///
    /// # Errors
    /// If it belongs to another user, is a link, or is writable by others; or if a system call fails.
    pub fn open(parent: &Path, name: &str) -> Result<Self, UnsoundError> {
        let path = parent.join(name);
        let system = |errno: rustix::io::Errno| UnsoundError {
            path: path.clone(),
            problem: Problem::System(errno.into()),
        };
        let foreign = |what: String| UnsoundError::foreign(path.clone(), what);
        let above = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = openat(CWD, parent, above, Mode::empty()).map_err(system)?;
        match mkdirat(&above, name, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(system(errno)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = match openat(&above, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
                return Err(foreign("it is a link or a file, not a directory".to_owned()));
            }
            other => other.map_err(system)?,
        };
        let found = fstat(&descriptor).map_err(system)?;
        let own = Uid::effective().as_raw();
        let mode = Mode::from_raw_mode(found.st_mode);
        if found.st_uid != own {
            return Err(foreign(format!("it belongs to user {}, not to user {own}", found.st_uid)));
        }
        if mode.intersects(Mode::WGRP | Mode::WOTH) {
            return Err(foreign(format!("its mode is {:04o}, not 0700", mode.as_raw_mode() & 0o7777)));
        }
        if mode.intersects(Mode::RWXG | Mode::RWXO) {
            fchmod(&descriptor, Mode::RWXU).map_err(system)?;
        }
        Ok(PrivateDirectory { path, descriptor })
    }

    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps others who ask for this lock waiting until the value is dropped: other processes, and threads that have opened the directory themselves.
    /// Who waits goes on without the lock after a second, so that a process that was stopped with it holds up nobody for good.
    pub fn lock(&self) -> Lock<'_> {
        for _ in 0..LOCK_PATIENCE {
            match flock(&self.descriptor, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => pause(),
                // A file system without locks: nobody waits.
                Ok(()) | Err(_) => break,
            }
        }
        Lock(self)
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.descriptor)? {
            // A name that is not text is not one of ours.
            if let Ok(name) = entry?.file_name().to_str() {
                names.extend((!matches!(name, "." | "..")).then(|| name.to_owned()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// The content of a file, which must be a regular file of this user's that no other user can write to.
    ///
    /// # Errors
    /// If it is not, is larger than a mebibyte, or cannot be read.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        // If a pipe is in its place, this does not wait for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, name, flags, Mode::empty())?;
        let found = fstat(&file)?;
        let writable = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        let regular = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !regular || writable || found.st_uid != Uid::effective().as_raw() {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is no file of this user's alone",
            ));
        }
        let mut bytes = Vec::new();
        File::from(file).take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than a mebibyte"));
        }
        Ok(bytes)
    }

    /// Writes a file in one step: a reader finds either the previous content or all of this.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = format!("{name}{DRAFT}");
        // A draft left by an interrupted write.
        let _ = self.remove(&draft);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.descriptor, &draft, flags, Mode::RUSR | Mode::WUSR)?;
        let written = File::from(file).write_all(bytes);
        let moved = written.and_then(|()| Ok(renameat(&self.descriptor, &draft, &self.descriptor, name)?));
        if moved.is_err() {
            let _ = self.remove(&draft);
        }
        moved
    }

    /// Removes a file, or a link itself.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.descriptor, name, AtFlags::empty())?)
    }
}

impl AsFd for PrivateDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The suffix of a file that is being written.
pub(crate) const DRAFT: &str = ".new";

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn problem(result: Result<PrivateDirectory, UnsoundError>) -> String {
        let error = result.unwrap_err();
        assert!(error.is_foreign(), "{error}");
        error.to_string()
    }

    #[test]
    fn a_directory_is_made_for_its_user_alone_and_found_again() {
        let parent = tempfile::tempdir().unwrap();
        let made = PrivateDirectory::open(parent.path(), "own").unwrap();
        assert_eq!(mode(made.path()), 0o700);
        made.write("a.json", b"first").unwrap();
        made.write("a.json", b"second").unwrap();
        let again = PrivateDirectory::open(parent.path(), "own").unwrap();
        assert_eq!(again.names().unwrap(), ["a.json"]);
        assert_eq!(again.read("a.json").unwrap(), b"second");
        again.remove("a.json").unwrap();
        assert!(again.names().unwrap().is_empty());
        // An earlier version of ours left it readable.
        fs::set_permissions(made.path(), fs::Permissions::from_mode(0o755)).unwrap();
        PrivateDirectory::open(parent.path(), "own").unwrap();
        assert_eq!(mode(made.path()), 0o700);
    }

    #[test]
    fn one_has_the_lock_at_a_time() {
        let parent = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| PrivateDirectory::open(parent.path(), "own").unwrap());
        let free = |directory: &PrivateDirectory| {
            let locked = flock(&directory.descriptor, FlockOperation::NonBlockingLockExclusive);
            locked.and_then(|()| flock(&directory.descriptor, FlockOperation::Unlock)).is_ok()
        };
        let lock = first.lock();
        assert!(!free(&second));
        drop(lock);
        assert!(free(&second));
        // Who has waited in vain goes on.
        let _lock = first.lock();
        let _other = second.lock();
    }

    #[test]
    fn what_others_may_have_made_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        fs::create_dir(at("open")).unwrap();
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(
            problem(PrivateDirectory::open(parent.path(), "open")).contains("its mode is 0777, not 0700")
        );
        symlink(at("open"), at("link")).unwrap();
        assert!(problem(PrivateDirectory::open(parent.path(), "link")).contains("a link"));
        fs::write(at("file"), "").unwrap();
        assert!(problem(PrivateDirectory::open(parent.path(), "file")).contains("not a directory"));
        // Only root can give a directory away.
        if Uid::effective().is_root() {
            fs::create_dir(at("foreign")).unwrap();
            nix::unistd::chown(&at("foreign"), Some(Uid::from_raw(1234)), None).unwrap();
            let text = problem(PrivateDirectory::open(parent.path(), "foreign"));
            assert!(text.contains("belongs to user 1234, not to user 0"), "{text}");
        }
    }

    #[test]
    fn files_that_are_not_this_user_s_alone_are_not_read() {
        let parent = tempfile::tempdir().unwrap();
        let directory = PrivateDirectory::open(parent.path(), "own").unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("written"), "by anybody").unwrap();
        fs::set_permissions(at("written"), fs::Permissions::from_mode(0o666)).unwrap();
        symlink("/etc/hostname", at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(at("directory")).unwrap();
        fs::write(at("large"), vec![0; (LARGEST + 1) as usize]).unwrap();
        for name in ["written", "link", "pipe", "directory", "large"] {
            assert!(directory.read(name).is_err(), "{name}");
        }
        // A link where a draft would be is replaced, not followed.
        symlink(at("written"), at("new.new")).unwrap();
        directory.write("new", b"text").unwrap();
        assert_eq!(
            (fs::read(at("new")).unwrap(), fs::read(at("written")).unwrap()),
            (b"text".to_vec(), b"by anybody".to_vec())
        );
    }
}
