//! Writing and checking below a directory without ever leaving it.
//!
//! Every path is walked name by name from the directory's descriptor, and no symbolic link is followed: whatever stands there, nothing outside is
//! touched. Paths are those of a checked [manifest](super::manifest).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rayon::prelude::*;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, chmodat, fchmod, futimens,
    mkdirat, openat, readlinkat, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::manifest::{Chunk, Entry, Kind, Manifest, shown};
use super::scan::next_data;

/// A directory to work below.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What the owner needs while a tree is being built.
const OPEN_MODE: u16 = 0o700;

fn mode(bits: u16) -> Mode {
    Mode::from_raw_mode(bits.into())
}

impl Tree {
    /// The directory at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Tree { root: openat(CWD, path, DIRECTORY, Mode::empty())? })
    }

    /// A directory below.
    fn directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let mut at = openat(&self.root, c".", DIRECTORY, Mode::empty())?;
        for name in path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()) {
            at = openat(&at, OsStr::from_bytes(name), DIRECTORY, Mode::empty())?;
        }
        Ok(at)
    }

    /// The directory that something is in, and its name there.
    fn parent<'a>(&self, path: &'a [u8]) -> io::Result<(OwnedFd, &'a OsStr)> {
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (directory, name) = cut.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        Ok((self.directory(directory)?, OsStr::from_bytes(name)))
    }

    /// What is there, not following a link; none if nothing is.
    fn stat(&self, path: &[u8]) -> io::Result<Option<Stat>> {
        if path.is_empty() {
            return Ok(Some(rustix::fs::fstat(&self.root)?));
        }
        let (parent, name) = self.parent(path)?;
        match statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            other => Ok(Some(other?)),
        }
    }

    /// Makes a directory, or makes the one that is there accessible; what is there and is none goes.
    pub fn make_directory(&self, path: &[u8]) -> io::Result<()> {
        if path.is_empty() {
            return Ok(fchmod(&self.root, mode(OPEN_MODE))?);
        }
        let (parent, name) = self.parent(path)?;
        loop {
            match mkdirat(&parent, name, mode(OPEN_MODE)) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let there = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(there.st_mode).is_dir() {
                return Ok(chmodat(&parent, name, mode(OPEN_MODE), AtFlags::empty())?);
            }
            unlinkat(&parent, name, AtFlags::empty())?;
        }
    }

    /// Opens a regular file for reading and writing, making it if need be.
    pub fn open_write(&self, path: &[u8]) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        if let Ok(there) = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            let kind = FileType::from_raw_mode(there.st_mode);
            if !kind.is_file() {
                unlinkat(&parent, name, AtFlags::empty())?;
            } else if there.st_mode & 0o600 != 0o600 {
                chmodat(&parent, name, mode(0o600), AtFlags::empty())?;
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&parent, name, flags, mode(0o600))?))
    }

    /// Opens a regular file for reading.
    pub fn open_read(&self, path: &[u8]) -> io::Result<File> {
        let (parent, name) = self.parent(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(&parent, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }

    /// Makes a symbolic link with its time.
    pub fn make_link(&self, entry: &Entry, target: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(&entry.path)?;
        match unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        symlinkat(OsStr::from_bytes(target), &parent, name)?;
        Ok(utimensat(&parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Gives a directory its mode and time and flushes it.
    pub fn finish_directory(&self, entry: &Entry, bits: u16) -> io::Result<()> {
        let directory = self.directory(&entry.path)?;
        finish(&directory, entry, bits)
    }

    /// The names in a directory.
    pub fn names(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for item in Dir::new(self.directory(path)?)? {
            let name = item?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// The first difference between the tree and a manifest: names, kinds, links, sizes, modes and times; with `content` also every byte.
    pub fn difference(&self, manifest: &Manifest, content: bool) -> Option<String> {
        let names = children(manifest);
        manifest.entries.par_iter().find_map_first(|entry| {
            let problem = self.differs(entry, &names, content);
            let text = problem.unwrap_or_else(|error| Some(error.to_string()))?;
            Some(format!("{}: {text}", shown(&entry.path)))
        })
    }

    fn differs(
        &self,
        entry: &Entry,
        names: &BTreeMap<&[u8], Vec<&[u8]>>,
        content: bool,
    ) -> io::Result<Option<String>> {
        let Some(there) = self.stat(&entry.path)? else { return Ok(Some("missing".to_owned())) };
        let kind = FileType::from_raw_mode(there.st_mode);
        let other = |what: &str| Ok(Some(what.to_owned()));
        let bits = match &entry.kind {
            Kind::Directory { mode } => {
                if !kind.is_dir() {
                    return other("not a directory");
                }
                let expected = names.get(&entry.path[..]).map_or(&[][..], Vec::as_slice);
                if let Some(text) = self.names_differ(&entry.path, expected)? {
                    return Ok(Some(text));
                }
                Some(*mode)
            }
            Kind::File { mode, chunks } => {
                if !kind.is_file() {
                    return other("not a regular file");
                }
                if there.st_size as u64 != entry.size() {
                    return other("of another size");
                }
                if content && !missing(&mut self.open_read(&entry.path)?, chunks)?.is_empty() {
                    return other("of other content");
                }
                Some(*mode)
            }
            Kind::Link { target } => {
                if !kind.is_symlink() {
                    return other("not a symbolic link");
                }
                let (parent, name) = self.parent(&entry.path)?;
                if readlinkat(&parent, name, Vec::new())?.to_bytes() != &target[..] {
                    return other("a link to somewhere else");
                }
                None
            }
        };
        if bits.is_some_and(|bits| there.st_mode & 0o7777 != u32::from(bits)) {
            return other("of another mode");
        }
        let same = (there.st_mtime, there.st_mtime_nsec as u32) == (entry.mtime, entry.mtime_ns);
        if same { Ok(None) } else { other("of another time") }
    }

    /// How the names in a directory differ from those that should be there: strays, or two names that the file system takes for one.
    pub fn names_differ(&self, path: &[u8], expected: &[&[u8]]) -> io::Result<Option<String>> {
        let there = self.names(path)?;
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        if let Some(stray) = there.iter().find(|name| expected.binary_search(&&name[..]).is_err()) {
            return Ok(Some(format!("has `{}`, which the tree does not have", shown(stray))));
        }
        let lost = expected.iter().find(|name| there.binary_search_by(|it| it[..].cmp(name)).is_err());
        Ok(lost.map(|name| {
            format!(
                "lacks `{}`; perhaps this file system takes it for another name, by case or spelling",
                shown(name)
            )
        }))
    }
}

/// What every directory of a manifest holds.
pub fn children(manifest: &Manifest) -> BTreeMap<&[u8], Vec<&[u8]>> {
    let mut all: BTreeMap<&[u8], Vec<&[u8]>> = BTreeMap::new();
    for entry in manifest.entries.iter().skip(1) {
        let path = &entry.path[..];
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = cut.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        all.entry(parent).or_default().push(name);
    }
    all
}

fn times(entry: &Entry) -> Timestamps {
    let time = Timespec { tv_sec: entry.mtime as _, tv_nsec: entry.mtime_ns as _ };
    Timestamps { last_access: time, last_modification: time }
}

/// Gives an open file or directory its mode and time and flushes it.
pub fn finish(file: impl AsFd, entry: &Entry, bits: u16) -> io::Result<()> {
    fchmod(&file, mode(bits))?;
    futimens(&file, &times(entry))?;
    Ok(rustix::fs::fsync(&file)?)
}

/// Flushes a directory: the names in it.
pub fn flush_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Which chunks of a file are not as they should be, by number. The file has its full size.
pub fn missing(file: &mut File, chunks: &[Chunk]) -> io::Result<Vec<u32>> {
    let size: u64 = chunks.iter().map(|chunk| chunk.length).sum();
    let mut wrong = Vec::new();
    let mut offset = 0;
    let mut buffer = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let right = match chunk.hash {
            Some(hash) => {
                // A hole has not been written yet: it need not be read to be known for wrong.
                let (data, _) = next_data(file, offset, size)?;
                data < offset + chunk.length && {
                    file.seek(SeekFrom::Start(offset))?;
                    buffer.clear();
                    Read::take(&mut *file, chunk.length).read_to_end(&mut buffer)?;
                    *blake3::hash(&buffer).as_bytes() == hash
                }
            }
            None => is_zero(file, offset, chunk.length)?,
        };
        if !right {
            wrong.push(number as u32);
        }
        offset += chunk.length;
    }
    Ok(wrong)
}

fn is_zero(file: &mut File, offset: u64, length: u64) -> io::Result<bool> {
    let end = offset + length;
    let mut position = offset;
    let mut buffer = vec![0; 64 << 10];
    while position < end {
        let (start, stop) = next_data(file, position, end)?;
        if start >= end {
            break;
        }
        file.seek(SeekFrom::Start(start))?;
        let mut left = stop.min(end) - start;
        while left > 0 {
            let take = left.min(buffer.len() as u64) as usize;
            file.read_exact(&mut buffer[..take])?;
            if buffer[..take].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            left -= take as u64;
        }
        position = stop.max(start + 1);
    }
    Ok(true)
}

/// Removes a file, or a directory with everything in it, whatever its permissions; nothing there is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !metadata.is_dir() {
        return fs::remove_file(path);
    }
    if metadata.permissions().mode() & 0o700 != 0o700 {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
    }
    for item in fs::read_dir(path)? {
        remove(&item?.path())?;
    }
    fs::remove_dir(path)
}
