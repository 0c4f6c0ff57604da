//! The file system as a trait, for programs that promise that data is on the disk.
//!
//! Such programs write through [`Directory`] and [`DiskFile`]. In production, [`OsDirectory`] implements them with system calls. In
//! tests, `sim::SimDisk` does: a disk in memory that can fail at any operation, become full, and lose power; then flushed data survives,
//! and a random part of the rest. Dispatch is static.
//!
//! The methods mirror system calls. A file's content is on the disk after [`DiskFile::sync`], and a name in a directory after
//! [`Directory::sync`]. After a failed flush, nothing is certain.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::TryLockError;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "on Unix it is compiled for tests only"))]
mod portable;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
mod walk;
mod write;

#[cfg(not(unix))]
pub use portable::OsDirectory;
#[cfg(unix)]
pub use unix::OsDirectory;
pub use walk::{remove_all, remove_all_with, room_of_all};
pub use write::{check_whole, create_directories, write_whole, write_whole_with};

/// The kind of a file system object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, pipe or socket.
    Other,
}

/// A time: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanos: u32,
}

/// Metadata of a file, directory or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Its kind.
    pub kind: Kind,
    /// Permissions, with the set-uid, set-gid and sticky bits: at most `0o7777`. 0 if the system has none.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of disk space that it uses, without holes.
    pub room: u64,
    /// When its content was last changed.
    pub modified: Time,
}

/// How to open a file. A symbolic link in the last name is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// For reading.
    Read,
    /// For reading and writing, or a new file with this mode (which the process's umask narrows).
    ReadWrite(u32),
    /// A new file for writing, with this mode. It is an error if the name is taken.
    New(u32),
    /// For writing, with this mode; an existing file is emptied.
    Empty(u32),
}

/// An open directory. Paths are relative to it, unless they are absolute.
pub trait Directory: Clone + Debug + Send + Sync + 'static {
    /// The type of files opened here.
    type File: DiskFile;

    /// Opens a directory. A symbolic link in the last name is not followed.
    ///
    /// # Errors
    /// If it does not exist.
    fn open_directory(&self, path: &Path) -> io::Result<Self>;
    /// Creates a directory with this mode, which the process's umask narrows.
    ///
    /// # Errors
    /// If the name is taken, or the system call fails.
    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Opens a regular file.
    ///
    /// # Errors
    /// As described for [`Open`], and if the system call fails.
    fn open(&self, path: &Path, how: Open) -> io::Result<Self::File>;
    /// The metadata of a path. A symbolic link in the last name is not followed.
    ///
    /// # Errors
    /// If it does not exist.
    fn look(&self, path: &Path) -> io::Result<Metadata>;
    /// The kind of what a path leads to: a symbolic link in the last name is followed.
    ///
    /// # Errors
    /// If it leads to nothing.
    fn kind_behind(&self, path: &Path) -> io::Result<Kind>;
    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// If the directory does not exist.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Renames something in one step; replaces a file or an empty directory that has the new name.
    ///
    /// # Errors
    /// If the system call fails.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or link.
    ///
    /// # Errors
    /// If it does not exist.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// If it does not exist, or is not empty.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes a symbolic link.
    ///
    /// # Errors
    /// If the name is taken.
    fn link(&self, target: &OsStr, path: &Path) -> io::Result<()>;
    /// The target of a symbolic link.
    ///
    /// # Errors
    /// If it does not exist.
    fn read_link(&self, path: &Path) -> io::Result<OsString>;
    /// Changes the mode of a file or directory.
    ///
    /// # Errors
    /// If it does not exist.
    fn set_mode_of(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Changes the modification time, also of a link itself.
    ///
    /// # Errors
    /// If it does not exist.
    fn set_time_of(&self, path: &Path, time: Time) -> io::Result<()>;
    /// Changes this directory's own mode.
    ///
    /// # Errors
    /// If the system call fails.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Changes this directory's own modification time.
    ///
    /// # Errors
    /// If the system call fails.
    fn set_time(&self, time: Time) -> io::Result<()>;
    /// Flushes this directory: the names in it, its mode and time. Does nothing on a system without such a call.
    ///
    /// # Errors
    /// If the flush fails. Then it is unknown what is on the disk, and a second attempt that succeeds proves nothing.
    fn sync(&self) -> io::Result<()>;
    /// Free space for ordinary users, in bytes.
    ///
    /// # Errors
    /// If the system does not report it.
    fn free(&self) -> io::Result<u64>;

    /// Flushes a directory below, like [`sync`](Self::sync).
    ///
    /// # Errors
    /// As for `sync`.
    fn sync_of(&self, path: &Path) -> io::Result<()> {
        self.open_directory(path)?.sync()
    }
    /// Whether a path exists. A link counts even if it leads nowhere.
    ///
    /// # Errors
    /// If the system does not report it.
    fn has(&self, path: &Path) -> io::Result<bool> {
        match self.look(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    /// Whether a path leads to this open file, and not to another that has its name by now. On a system that does not tell files apart: whether the
    /// path exists.
    ///
    /// # Errors
    /// If the system does not report it.
    fn leads_to(&self, path: &Path, file: &Self::File) -> io::Result<bool> {
        let _ = file;
        self.has(path)
    }
    /// Reads a whole file.
    ///
    /// # Errors
    /// If it does not exist.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path, Open::Read)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// An open file.
pub trait DiskFile: Read + Write + Seek + Debug + Send + Sync + 'static {
    /// Changes its size; added space is a hole.
    ///
    /// # Errors
    /// If the system call fails.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Its metadata.
    ///
    /// # Errors
    /// If the system does not report it.
    fn look(&self) -> io::Result<Metadata>;
    /// Changes its mode.
    ///
    /// # Errors
    /// If the system call fails.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Changes its modification time; `None` for now.
    ///
    /// # Errors
    /// If the system call fails.
    fn set_time(&self, time: Option<Time>) -> io::Result<()>;
    /// Flushes its content, size, mode and time. To flush its name, flush the directory.
    ///
    /// # Errors
    /// If the flush fails. Then it is unknown what is on the disk: Linux treats the data as written from then on, so a second attempt succeeds,
    /// and a read returns data from memory that is not on the disk.
    fn sync(&self) -> io::Result<()>;
    /// Makes the next read of flushed data come from the disk, and not from memory. Has no effect on a system without such a call.
    ///
    /// # Errors
    /// If the system call fails.
    fn forget(&self) -> io::Result<()>;
    /// Start and end of the next data, not holes, at or after `position`; `size` twice if only a hole follows.
    ///
    /// # Errors
    /// If the system call fails.
    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)>;
    /// Locks it for this process, until the last handle is closed.
    ///
    /// # Errors
    /// If another process holds the lock, or the system has none.
    fn lock(&self) -> Result<(), TryLockError>;
}
