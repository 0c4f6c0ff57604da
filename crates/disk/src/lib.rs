//! The file system, as the programs that promise something about it see it.
//!
//! Whoever says "this is on the disk" writes through [`Directory`] and [`DiskFile`]. In a program that is [`OsDirectory`], the system's calls. In
//! tests it is `sim::SimDisk`, a disk in memory of which the n-th operation fails, which becomes full, and which loses power: what was flushed
//! survives, and of the rest a random part. Dispatch is static.
//!
//! The vocabulary is that of the system calls, so that what is promised can be followed: a file's content is on the disk after
//! [`DiskFile::sync`], a name in a directory after [`Directory::sync`], and a flush that fails leaves nothing that can be relied on.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::fs::TryLockError;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

#[cfg(any(test, not(unix)))]
#[cfg_attr(unix, expect(unreachable_pub, reason = "here it is compiled for its test only"))]
mod portable;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
mod write;

#[cfg(not(unix))]
pub use portable::OsDirectory;
#[cfg(unix)]
pub use unix::OsDirectory;
pub use write::{create_directories, remove_all, write_whole, write_whole_with};

/// What a name leads to.
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

/// A moment: seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds, below 1,000,000,000.
    pub nanos: u32,
}

/// What the system says of a file, directory or link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Permissions, with the set-uid, set-gid and sticky bits: at most `0o7777`. 0 where the system has none.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes of room that it takes, holes left out.
    pub room: u64,
    /// When its content was last changed.
    pub modified: Time,
}

/// How a file is opened. A symbolic link in the last name is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To read what is there.
    Read,
    /// To read and write what is there, or a new file with this mode (which the process's umask narrows).
    ReadWrite(u32),
    /// To write a new file with this mode. It is an error if the name is taken.
    New(u32),
    /// To write a file with this mode, emptied if it is there.
    Empty(u32),
}

/// A directory, below which all paths lead. An absolute path leads where it says.
pub trait Directory: Clone + Debug + Send + Sync + 'static {
    /// A file that was opened here.
    type File: DiskFile;

    /// Opens a directory. A symbolic link in the last name is not followed.
    ///
    /// # Errors
    /// If there is none.
    fn open_directory(&self, path: &Path) -> io::Result<Self>;
    /// Makes a directory with this mode, which the process's umask narrows.
    ///
    /// # Errors
    /// If the name is taken, or the system says no.
    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Opens a regular file.
    ///
    /// # Errors
    /// As [`Open`] says, and if the system says no.
    fn open(&self, path: &Path, how: Open) -> io::Result<Self::File>;
    /// What is there. A symbolic link in the last name is not followed.
    ///
    /// # Errors
    /// If nothing is.
    fn look(&self, path: &Path) -> io::Result<Metadata>;
    /// The names in a directory, in order.
    ///
    /// # Errors
    /// If there is none.
    fn names(&self, path: &Path) -> io::Result<Vec<OsString>>;
    /// Gives something another name, in one step; a file or an empty directory that has the name goes.
    ///
    /// # Errors
    /// If the system says no.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file or link.
    ///
    /// # Errors
    /// If there is none.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty directory.
    ///
    /// # Errors
    /// If there is none, or it is not empty.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;
    /// Makes a symbolic link.
    ///
    /// # Errors
    /// If the name is taken.
    fn link(&self, target: &OsStr, path: &Path) -> io::Result<()>;
    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// If there is none.
    fn read_link(&self, path: &Path) -> io::Result<OsString>;
    /// Changes the mode of a file or directory.
    ///
    /// # Errors
    /// If there is none.
    fn set_mode_of(&self, path: &Path, mode: u32) -> io::Result<()>;
    /// Changes the time of modification, of a link itself too.
    ///
    /// # Errors
    /// If nothing is there.
    fn set_time_of(&self, path: &Path, time: Time) -> io::Result<()>;
    /// Changes this directory's own mode.
    ///
    /// # Errors
    /// If the system says no.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Changes this directory's own time of modification.
    ///
    /// # Errors
    /// If the system says no.
    fn set_time(&self, time: Time) -> io::Result<()>;
    /// Flushes this directory: the names in it, its mode and time. Does nothing where the system has no way to.
    ///
    /// # Errors
    /// If that fails. Then nothing is known of what was to be flushed, and a second attempt that succeeds proves nothing.
    fn sync(&self) -> io::Result<()>;
    /// Bytes that an ordinary user can still write.
    ///
    /// # Errors
    /// If the system does not tell.
    fn free(&self) -> io::Result<u64>;

    /// Flushes a directory below, as [`sync`](Self::sync).
    ///
    /// # Errors
    /// As there.
    fn sync_of(&self, path: &Path) -> io::Result<()> {
        self.open_directory(path)?.sync()
    }
    /// Whether something is there; a link counts, wherever it leads.
    ///
    /// # Errors
    /// If the system does not tell.
    fn has(&self, path: &Path) -> io::Result<bool> {
        match self.look(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
    /// Reads a whole file.
    ///
    /// # Errors
    /// If there is none.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path, Open::Read)?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// An open file.
pub trait DiskFile: Read + Write + Seek + Debug + Send + Sync + 'static {
    /// Changes its size; what is new is a hole.
    ///
    /// # Errors
    /// If the system says no.
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// What the system says of it.
    ///
    /// # Errors
    /// If the system does not tell.
    fn look(&self) -> io::Result<Metadata>;
    /// Changes its mode.
    ///
    /// # Errors
    /// If the system says no.
    fn set_mode(&self, mode: u32) -> io::Result<()>;
    /// Changes its time of modification; none for now.
    ///
    /// # Errors
    /// If the system says no.
    fn set_time(&self, time: Option<Time>) -> io::Result<()>;
    /// Flushes it: content, size, mode and time. Its name is the directory's.
    ///
    /// # Errors
    /// If that fails. Then nothing is known of what was to be flushed: Linux takes it for written from then on, so that a second attempt
    /// succeeds and reading finds in memory what is not on the disk.
    fn sync(&self) -> io::Result<()>;
    /// Has what was flushed read from the disk the next time, and not from memory. Without effect where the system has no way to.
    ///
    /// # Errors
    /// If the system says no.
    fn forget(&self) -> io::Result<()>;
    /// The next stretch of data at or after `position`: where it begins and ends; `size` twice if only a hole follows.
    ///
    /// # Errors
    /// If the system says no.
    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)>;
    /// Locks it for this process; the lock goes with the last handle.
    ///
    /// # Errors
    /// If another process holds the lock, or the system has none.
    fn lock(&self) -> Result<(), TryLockError>;
}
