//! Writing and checking below a directory without ever leaving it.
//!
//! Every path is walked name by name from the directory's descriptor, without following symbolic links. So nothing outside is touched,
//! whatever exists there. Paths come from a checked [manifest](super::manifest).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::Path;

use rayon::prelude::*;
use warpline_disk::{Directory, DiskFile, Kind as What, Metadata, Open, OsDirectory, Time};

use super::manifest::{Chunk, Entry, Kind, Manifest, shown};

/// A directory to work below.
#[derive(Debug)]
pub struct Tree<D = OsDirectory> {
    root: D,
}

/// The permissions that the owner needs while a tree is being built.
const OPEN_MODE: u32 = 0o700;

/// One name, as a path of one part.
fn name(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

impl Tree {
    /// The directory at `path`.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Tree { root: OsDirectory::here().open_directory(path)? })
    }
}

impl<D: Directory> Tree<D> {
    /// Works below an open directory.
    pub fn at(root: D) -> Self {
        Tree { root }
    }

    /// A directory below.
    fn directory(&self, path: &[u8]) -> io::Result<D> {
        let mut at = self.root.clone();
        for part in path.split(|&byte| byte == b'/').filter(|part| !part.is_empty()) {
            at = at.open_directory(name(part))?;
        }
        Ok(at)
    }

    /// The directory that contains a path, and the last name.
    fn parent<'a>(&self, path: &'a [u8]) -> io::Result<(D, &'a Path)> {
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (directory, last) = cut.map_or((&path[..0], path), |at| (&path[..at], &path[at + 1..]));
        Ok((self.directory(directory)?, name(last)))
    }

    /// The metadata of a path, without following a link; `None` if it does not exist.
    pub(super) fn stat(&self, path: &[u8]) -> io::Result<Option<Metadata>> {
        let there = if path.is_empty() {
            self.root.look(Path::new(""))
        } else {
            let (parent, name) = self.parent(path)?;
            parent.look(name)
        };
        match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
        }
    }

    /// Creates a directory, or makes an existing one accessible; removes anything else of that name.
    pub fn make_directory(&self, path: &[u8]) -> io::Result<()> {
        if path.is_empty() {
            return self.root.set_mode(OPEN_MODE);
        }
        let (parent, name) = self.parent(path)?;
        loop {
            match parent.create_directory(name, OPEN_MODE) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => return other,
            }
            if parent.look(name)?.kind == What::Directory {
                return parent.set_mode_of(name, OPEN_MODE);
            }
            parent.remove_file(name)?;
        }
    }

    /// Opens a regular file for reading and writing, and creates it if necessary.
    pub fn open_write(&self, path: &[u8]) -> io::Result<D::File> {
        let (parent, name) = self.parent(path)?;
        if let Ok(there) = parent.look(name) {
            if there.kind != What::File {
                parent.remove_file(name)?;
            } else if there.mode & 0o600 != 0o600 {
                parent.set_mode_of(name, 0o600)?;
            }
        }
        parent.open(name, Open::ReadWrite(0o600))
    }

    /// Opens a regular file for reading.
    pub fn open_read(&self, path: &[u8]) -> io::Result<D::File> {
        let (parent, name) = self.parent(path)?;
        parent.open(name, Open::Read)
    }

    /// The target of a symbolic link.
    pub(super) fn link_target(&self, path: &[u8]) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent(path)?;
        Ok(parent.read_link(name)?.into_vec())
    }

    /// Makes a symbolic link with its time.
    pub fn make_link(&self, entry: &Entry, target: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent(&entry.path)?;
        match parent.remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        parent.link(OsStr::from_bytes(target), name)?;
        parent.set_time_of(name, time(entry))
    }

    /// Sets a directory's mode and time and flushes it.
    pub fn finish_directory(&self, entry: &Entry, bits: u16) -> io::Result<()> {
        let directory = self.directory(&entry.path)?;
        directory.set_mode(bits.into())?;
        directory.set_time(time(entry))?;
        directory.sync()
    }

    /// The names in a directory.
    pub fn names(&self, path: &[u8]) -> io::Result<Vec<Vec<u8>>> {
        let names = self.directory(path)?.names(Path::new(""))?;
        Ok(names.into_iter().map(OsStringExt::into_vec).collect())
    }

    /// The first difference between the tree and a manifest in names, kinds, links, sizes, modes or times; with `content`, in any byte.
    pub fn difference(&self, manifest: &Manifest, content: bool) -> Option<String> {
        self.difference_among(&manifest.entries, &children(manifest), content)
    }

    /// The same for some entries of a manifest, with the [`children`] of the whole manifest.
    pub(super) fn difference_among(
        &self,
        entries: &[Entry],
        names: &BTreeMap<&[u8], Vec<&[u8]>>,
        content: bool,
    ) -> Option<String> {
        entries.par_iter().find_map_first(|entry| {
            let problem = self.differs(entry, names, content);
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
        let other = |what: &str| Ok(Some(what.to_owned()));
        let bits = match &entry.kind {
            Kind::Directory { mode } => {
                if there.kind != What::Directory {
                    return other("not a directory");
                }
                let expected = names.get(&entry.path[..]).map_or(&[][..], Vec::as_slice);
                if let Some(text) = self.names_differ(&entry.path, expected)? {
                    return Ok(Some(text));
                }
                Some(*mode)
            }
            Kind::File { mode, chunks } => {
                if there.kind != What::File {
                    return other("not a regular file");
                }
                if there.size != entry.size() {
                    return other("of another size");
                }
                if content {
                    let mut file = self.open_read(&entry.path)?;
                    // Compare what is on the disk, not in the cache.
                    file.forget()?;
                    if !missing(&mut file, chunks)?.is_empty() {
                        return other("of other content");
                    }
                }
                Some(*mode)
            }
            Kind::Link { target } => {
                if there.kind != What::Link {
                    return other("not a symbolic link");
                }
                if self.link_target(&entry.path)? != *target {
                    return other("a link to somewhere else");
                }
                None
            }
        };
        if bits.is_some_and(|bits| there.mode != u32::from(bits)) {
            return other("of another mode");
        }
        if same_time(there.modified, time(entry)) { Ok(None) } else { other("of another time") }
    }

    /// How the names in a directory differ from the expected ones: there is an extra name, or one is missing.
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
                "lacks `{}`; perhaps this file system does not distinguish it from another name, by case or spelling",
                shown(name)
            )
        }))
    }
}

/// The entries of every directory of a manifest.
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

/// An entry's time of modification.
pub(super) fn time(entry: &Entry) -> Time {
    Time { seconds: entry.mtime, nanos: entry.mtime_ns }
}

/// Whether a time equals the one that was set, at the precision of the file system: 1 ns, 100 ns (NTFS), 1 us, 1 s, or 2 s (FAT).
fn same_time(there: Time, set: Time) -> bool {
    const NANOS: [u32; 4] = [1, 100, 1000, 1_000_000_000];
    NANOS.iter().any(|unit| there == Time { nanos: set.nanos / unit * unit, ..set })
        || there == Time { seconds: set.seconds & !1, nanos: 0 }
}

/// Sets the mode and time of an open file and flushes it.
pub fn finish(file: &impl DiskFile, entry: &Entry, bits: u16) -> io::Result<()> {
    file.set_mode(bits.into())?;
    file.set_time(Some(time(entry)))?;
    file.sync()
}

/// The numbers of a file's chunks that are wrong. The file has its full size.
pub fn missing(file: &mut impl DiskFile, chunks: &[Chunk]) -> io::Result<Vec<u32>> {
    let size: u64 = chunks.iter().map(|chunk| chunk.length).sum();
    let mut wrong = Vec::new();
    let mut offset = 0;
    let mut buffer = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let right = match chunk.hash {
            Some(hash) => {
                // A hole has not been written yet: it is known to be wrong without reading it.
                let (data, _) = file.next_data(offset, size)?;
                data < offset + chunk.length && {
                    file.seek(SeekFrom::Start(offset))?;
                    buffer.clear();
                    io::Read::read_to_end(&mut io::Read::take(&mut *file, chunk.length), &mut buffer)?;
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

fn is_zero(file: &mut impl DiskFile, offset: u64, length: u64) -> io::Result<bool> {
    let end = offset + length;
    let mut position = offset;
    let mut buffer = vec![0; 64 << 10];
    while position < end {
        let (start, stop) = file.next_data(position, end)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_at_the_precision_of_the_file_system() {
        let set = Time { seconds: 7, nanos: 123_456_789 };
        for (seconds, nanos, same) in [
            (7, 123_456_789, true),
            (7, 123_456_700, true),
            (7, 123_456_000, true),
            (7, 0, true),
            (6, 0, true),
            (8, 0, false),
            (7, 123_000_001, false),
            (7, 123_456_788, false),
        ] {
            assert_eq!(same_time(Time { seconds, nanos }, set), same, "{seconds} {nanos}");
        }
    }
}
