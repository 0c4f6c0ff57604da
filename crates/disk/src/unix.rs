//! The implementation for Linux, macOS and other Unixes: everything goes through directory descriptors.

use std::ffi::{OsStr, OsString};
use std::fs::{File, TryLockError};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, chmodat, fchmod, fstatvfs, fsync,
    futimens, mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat, utimensat,
};

use crate::{Directory, DiskFile, Kind, Metadata, Open, Time};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A directory of this machine.
#[derive(Clone, Debug)]
pub struct OsDirectory(Option<Arc<OwnedFd>>);

impl OsDirectory {
    /// The working directory of the process, at the time of each call.
    pub const fn here() -> Self {
        OsDirectory(None)
    }

    fn at(&self) -> BorrowedFd<'_> {
        self.0.as_ref().map_or(CWD, |directory| directory.as_fd())
    }

    /// Its descriptor; for the working directory, a newly opened one.
    fn own(&self) -> io::Result<Arc<OwnedFd>> {
        match &self.0 {
            Some(directory) => Ok(directory.clone()),
            None => Ok(Arc::new(openat(CWD, c".", DIRECTORY, Mode::empty())?)),
        }
    }
}

fn mode(bits: u32) -> Mode {
    // The width differs between systems: 16 bits on macOS.
    Mode::from_raw_mode(bits as _)
}

/// A path that may be empty, which stands for the directory itself.
fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

fn times(time: Option<Time>) -> Timestamps {
    let time = match time {
        Some(time) => Timespec { tv_sec: time.seconds as _, tv_nsec: time.nanos as _ },
        None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
    };
    Timestamps { last_access: time, last_modification: time }
}

#[expect(clippy::unnecessary_cast, reason = "the fields' widths differ between systems")]
fn metadata(stat: &Stat) -> Metadata {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    };
    Metadata {
        kind,
        mode: stat.st_mode as u32 & 0o7777,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        // In units of 512 bytes, whatever the file system's blocks are.
        room: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
        modified: Time { seconds: stat.st_mtime as i64, nanos: stat.st_mtime_nsec as u32 },
    }
}

impl Directory for OsDirectory {
    type File = File;

    fn open_directory(&self, path: &Path) -> io::Result<Self> {
        Ok(OsDirectory(Some(Arc::new(openat(self.at(), named(path), DIRECTORY, Mode::empty())?))))
    }

    fn create_directory(&self, path: &Path, bits: u32) -> io::Result<()> {
        Ok(mkdirat(self.at(), path, mode(bits))?)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        let (flags, bits) = match how {
            // Opening a pipe must not wait for its other end.
            Open::Read => (OFlags::RDONLY | OFlags::NONBLOCK, 0),
            Open::ReadWrite(bits) => (OFlags::RDWR | OFlags::CREATE, bits),
            Open::New(bits) => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, bits),
            Open::Empty(bits) => (OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, bits),
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(self.at(), path, flags, mode(bits))?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    fn look(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata(&statat(self.at(), named(path), AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn kind_behind(&self, path: &Path) -> io::Result<Kind> {
        Ok(metadata(&statat(self.at(), named(path), AtFlags::empty())?).kind)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let directory = self.open_directory(path)?.own()?;
        let mut names = Vec::new();
        for item in Dir::read_from(&directory)? {
            let name = item?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat(self.at(), from, self.at(), to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        Ok(unlinkat(self.at(), path, AtFlags::empty())?)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        Ok(unlinkat(self.at(), path, AtFlags::REMOVEDIR)?)
    }

    fn link(&self, target: &OsStr, path: &Path) -> io::Result<()> {
        Ok(symlinkat(target, self.at(), path)?)
    }

    fn read_link(&self, path: &Path) -> io::Result<OsString> {
        let target = readlinkat(self.at(), path, Vec::new())?;
        Ok(OsStr::from_bytes(target.to_bytes()).to_owned())
    }

    fn set_mode_of(&self, path: &Path, bits: u32) -> io::Result<()> {
        Ok(chmodat(self.at(), path, mode(bits), AtFlags::empty())?)
    }

    fn set_time_of(&self, path: &Path, time: Time) -> io::Result<()> {
        Ok(utimensat(self.at(), path, &times(Some(time)), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn set_mode(&self, bits: u32) -> io::Result<()> {
        Ok(fchmod(&*self.own()?, mode(bits))?)
    }

    fn set_time(&self, time: Time) -> io::Result<()> {
        Ok(futimens(&*self.own()?, &times(Some(time)))?)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(fsync(&*self.own()?)?)
    }

    fn free(&self) -> io::Result<u64> {
        let disk = fstatvfs(&*self.own()?)?;
        Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
    }

    fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let there = match statat(self.at(), named(path), AtFlags::SYMLINK_NOFOLLOW) {
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            there => there?,
        };
        let open = rustix::fs::fstat(file)?;
        Ok((there.st_dev, there.st_ino) == (open.st_dev, open.st_ino))
    }
}

impl DiskFile for File {
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn look(&self) -> io::Result<Metadata> {
        Ok(metadata(&rustix::fs::fstat(self)?))
    }

    fn set_mode(&self, bits: u32) -> io::Result<()> {
        Ok(fchmod(self, mode(bits))?)
    }

    fn set_time(&self, time: Option<Time>) -> io::Result<()> {
        Ok(futimens(self, &times(time))?)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    #[cfg(target_os = "linux")]
    fn forget(&self) -> io::Result<()> {
        // Drops clean pages (mm/fadvise.c, generic_fadvise): the next read comes from the disk.
        Ok(rustix::fs::fadvise(self, 0, None, rustix::fs::Advice::DontNeed)?)
    }

    #[cfg(not(target_os = "linux"))]
    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)> {
        use rustix::fs::{SeekFrom, seek};
        use rustix::io::Errno;
        let start = match seek(self, SeekFrom::Data(position)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok((size, size)),
            // A file system without holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok((position, size)),
            Err(error) => return Err(error.into()),
        };
        let end = seek(self, SeekFrom::Hole(start)).unwrap_or(size);
        // Both may lie beyond `size`, which may be only a part of the file.
        let start = start.min(size);
        Ok((start, end.clamp(start, size.max(start))))
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)> {
        Ok((position, size))
    }

    fn lock(&self) -> Result<(), TryLockError> {
        self.try_lock()
    }
}
