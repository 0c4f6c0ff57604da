//! The implementation for systems other than Unix, with the standard library. A directory is a path and cannot be flushed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Directory, Kind, Metadata, Open, Time};

/// A directory of this machine.
#[derive(Clone, Debug)]
pub struct OsDirectory(PathBuf);

impl OsDirectory {
    /// The working directory of the process, at the time of each call.
    pub fn here() -> Self {
        OsDirectory(PathBuf::new())
    }

    fn at(&self, path: &Path) -> PathBuf {
        let path = self.0.join(path);
        if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
    }
}

fn moment(time: Time) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let base = if time.seconds < 0 { UNIX_EPOCH - seconds } else { UNIX_EPOCH + seconds };
    base + Duration::from_nanos(time.nanos.into())
}

pub(crate) fn metadata(data: &fs::Metadata) -> Metadata {
    let kind = if data.is_dir() {
        Kind::Directory
    } else if data.is_symlink() {
        Kind::Link
    } else if data.is_file() {
        Kind::File
    } else {
        Kind::Other
    };
    let modified = data.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    let modified = Time { seconds: modified.as_secs() as i64, nanos: modified.subsec_nanos() };
    Metadata { kind, mode: 0, size: data.len(), room: data.len(), modified }
}

impl Directory for OsDirectory {
    type File = File;

    fn open_directory(&self, path: &Path) -> io::Result<Self> {
        let path = self.at(path);
        match fs::symlink_metadata(&path)?.is_dir() {
            true => Ok(OsDirectory(path)),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn create_directory(&self, path: &Path, _mode: u32) -> io::Result<()> {
        fs::create_dir(self.at(path))
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<File> {
        let mut options = OpenOptions::new();
        match how {
            Open::Read => options.read(true),
            Open::ReadWrite(_) => options.read(true).write(true).create(true).truncate(false),
            Open::New(_) => options.write(true).create_new(true),
            Open::Empty(_) => options.write(true).create(true).truncate(true),
        };
        options.open(self.at(path))
    }

    fn look(&self, path: &Path) -> io::Result<Metadata> {
        Ok(metadata(&fs::symlink_metadata(self.at(path))?))
    }

    fn kind_behind(&self, path: &Path) -> io::Result<Kind> {
        Ok(metadata(&fs::metadata(self.at(path))?).kind)
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let names: io::Result<Vec<OsString>> =
            fs::read_dir(self.at(path))?.map(|item| Ok(item?.file_name())).collect();
        let mut names = names?;
        names.sort();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }

    fn link(&self, _target: &OsStr, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_link(&self, path: &Path) -> io::Result<OsString> {
        Ok(fs::read_link(self.at(path))?.into_os_string())
    }

    fn set_mode_of(&self, _path: &Path, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    fn set_time_of(&self, path: &Path, time: Time) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.at(path))?.set_modified(moment(time))
    }

    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    fn set_time(&self, _time: Time) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(unix))]
impl crate::DiskFile for File {
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn look(&self) -> io::Result<Metadata> {
        Ok(metadata(&self.metadata()?))
    }

    fn set_mode(&self, _mode: u32) -> io::Result<()> {
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "this is the edge: the time of a file is the clock's")]
    fn set_time(&self, time: Option<Time>) -> io::Result<()> {
        self.set_modified(time.map_or_else(SystemTime::now, moment))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }

    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)> {
        Ok((position, size))
    }

    fn lock(&self) -> Result<(), fs::TryLockError> {
        self.try_lock()
    }
}
