//! Describes a directory in a manifest.
//!
//! Files are cut into chunks by their content (FastCDC), so an insertion moves one boundary and not all, and unchanged parts are not sent
//! again. A file that changes while it is read is read again; if it keeps changing, that is an error. Changes show in a file's times, so a
//! file that was changed within the last tick of its file system's clock is read after that tick.
//!
//! The directory is opened once, and everything is looked up from there, name by name. So another directory that gets its name meanwhile is
//! not mixed in, and a link that takes a directory's place leads nowhere. If the directory loses its name while it is read, that is an error:
//! it may be on its way out, and half empty.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fastcdc::v2020::StreamCDC;
use rayon::prelude::*;
use warpline_disk::{DiskFile as _, Kind as What, Time};

use super::manifest::{Chunk, Entry, Kind, MAX_CHUNK, Manifest, ManifestError, check_target, order, shown};
use super::tree::Tree;

/// Smallest and mean chunk in bytes.
const MIN_CHUNK: usize = 64 << 10;
const MEAN_CHUNK: usize = 256 << 10;

/// How often to read a changing file again.
const ATTEMPTS: u32 = 4;

/// Why a directory cannot be described.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// Something cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The root is not a directory.
    #[error("{} is not a directory", path.display())]
    NoDirectory {
        /// The root.
        path: PathBuf,
    },
    /// Another directory has the root's name by now.
    #[error("{} was replaced by another directory while it was read; try again", path.display())]
    Replaced {
        /// The root.
        path: PathBuf,
    },
    /// Something other than a file, directory or link.
    #[error("{} is {what}, which is not replicated; move it away, or leave such things out with --skip-special", path.display())]
    Special {
        /// Its path.
        path: PathBuf,
        /// Its kind.
        what: &'static str,
    },
    /// A link that leads out of the tree.
    #[error("{0}; change it, or leave such links out with --skip-special")]
    Link(ManifestError),
    /// A file that changes all the time, or a file or directory in whose place there is something else by now.
    #[error("{} changes while it is read; try again", path.display())]
    Restless {
        /// Its path.
        path: PathBuf,
    },
    /// A name that is too long.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
}

/// The result of a scan.
#[derive(Debug)]
pub struct Scan {
    /// The tree.
    pub manifest: Manifest,
    /// Special files and outward links that were left out, as requested.
    pub skipped: Vec<PathBuf>,
    /// The directory, from which [`read_chunk`] reads.
    pub tree: Tree,
}

fn read_error(path: &Path) -> impl FnOnce(io::Error) -> ScanError + '_ {
    move |source| ScanError::Read { path: path.to_owned(), source }
}

/// Describes the directory `root`.
///
/// # Errors
/// If something in it cannot be read, keeps changing, or is of a kind that is not replicated (unless `skip_special`).
pub fn scan(root: &Path, skip_special: bool) -> Result<Scan, ScanError> {
    in_place(root, || {
        // `root` may be a link.
        let tree = Tree::open(&root.join(".")).map_err(read_error(root))?;
        scan_tree(tree, root, skip_special)
    })
}

/// Runs `act` on a directory, which must have its name all the time.
fn in_place<T>(root: &Path, act: impl FnOnce() -> Result<T, ScanError>) -> Result<T, ScanError> {
    let look = || fs::metadata(root).map_err(read_error(root));
    let before = look()?;
    if !before.is_dir() {
        return Err(ScanError::NoDirectory { path: root.to_owned() });
    }
    let result = act()?;
    let after = look()?;
    if (before.dev(), before.ino()) == (after.dev(), after.ino()) {
        Ok(result)
    } else {
        Err(ScanError::Replaced { path: root.to_owned() })
    }
}

/// Describes an open directory, which messages call `root`.
fn scan_tree(tree: Tree, root: &Path, skip_special: bool) -> Result<Scan, ScanError> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let top = tree.stat(b"").and_then(|top| top.ok_or_else(gone)).map_err(read_error(root))?;
    let mut found = vec![entry(Vec::new(), top.modified, Kind::Directory { mode: mode(top.mode) })];
    let mut skipped = Vec::new();
    let mut ahead = vec![Vec::new()];
    while let Some(directory) = ahead.pop() {
        let names = match tree.names(&directory) {
            Err(error) if is_gone(&error) => {
                still_gone(&tree, root, &directory)?;
                continue;
            }
            other => other.map_err(read_error(&at(root, &directory)))?,
        };
        for name in names {
            let path = if directory.is_empty() { name } else { [&directory[..], b"/", &name].concat() };
            let real = at(root, &path);
            let metadata = match tree.stat(&path) {
                Err(error) if is_gone(&error) => continue,
                other => other.map_err(read_error(&real))?,
            };
            // It was removed meanwhile.
            let Some(metadata) = metadata else { continue };
            let kind = match metadata.kind {
                What::Other if skip_special => {
                    skipped.push(real);
                    continue;
                }
                What::Other => return Err(ScanError::Special { what: special(&real), path: real }),
                What::Directory => {
                    ahead.push(path.clone());
                    Kind::Directory { mode: mode(metadata.mode) }
                }
                What::Link => {
                    let Some(target) = link_target(&tree, root, &path)? else { continue };
                    match check_target(&path, &target) {
                        Err(_) if skip_special => {
                            skipped.push(real);
                            continue;
                        }
                        other => other.map_err(ScanError::Link)?,
                    }
                    Kind::Link { target }
                }
                What::File => Kind::File { mode: mode(metadata.mode), chunks: Vec::new() },
            };
            found.push(entry(path, metadata.modified, kind));
        }
    }
    let described: Result<Vec<Option<Entry>>, ScanError> =
        found.into_par_iter().map(|entry| with_content(&tree, root, entry)).collect();
    let mut entries: Vec<Entry> = described?.into_iter().flatten().collect();
    entries.sort_by_cached_key(|entry| order(&entry.path));
    let manifest = Manifest { entries };
    manifest.check()?;
    Ok(Scan { manifest, skipped, tree })
}

/// Whether an error means that something was removed, or a directory above it, or that something else has that directory's name, or a link the name
/// of what was to be opened (`ELOOP`, for which the standard library has no stable kind).
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

/// Checks that what could not be read has no name any more. If something else has it by now, it must not be missing in silence.
fn still_gone(tree: &Tree, root: &Path, path: &[u8]) -> Result<(), ScanError> {
    if path.is_empty() {
        // Whether the root still has its name is looked at in the end.
        return Ok(());
    }
    match tree.stat(path) {
        Ok(Some(_)) => Err(ScanError::Restless { path: at(root, path) }),
        Ok(None) => Ok(()),
        Err(error) if is_gone(&error) => Ok(()),
        Err(error) => Err(read_error(&at(root, path))(error)),
    }
}

/// The target of a link that was found a moment ago; `None` if it is gone.
fn link_target(tree: &Tree, root: &Path, path: &[u8]) -> Result<Option<Vec<u8>>, ScanError> {
    match tree.link_target(path) {
        // To read something else as a link is an invalid argument.
        Err(error) if is_gone(&error) || error.kind() == io::ErrorKind::InvalidInput => {
            still_gone(tree, root, path).map(|()| None)
        }
        other => other.map(Some).map_err(read_error(&at(root, path))),
    }
}

/// The file system path of a manifest's path.
pub fn at(root: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(path)) }
}

/// The permissions of a mode.
fn mode(bits: u32) -> u16 {
    (bits & 0o777) as u16
}

/// What a special file is, for a message.
fn special(path: &Path) -> &'static str {
    match fs::symlink_metadata(path).map(|metadata| metadata.file_type()) {
        Ok(kind) if kind.is_block_device() || kind.is_char_device() => "a device",
        Ok(kind) if kind.is_fifo() => "a named pipe",
        Ok(kind) if kind.is_socket() => "a socket",
        _ => "a special file",
    }
}

fn entry(path: Vec<u8>, modified: Time, kind: Kind) -> Entry {
    Entry { path, mtime: modified.seconds, mtime_ns: modified.nanos, kind }
}

/// Fills in the chunks of a file; `None` if the file is gone.
fn with_content(tree: &Tree, root: &Path, entry: Entry) -> Result<Option<Entry>, ScanError> {
    if !matches!(entry.kind, Kind::File { .. }) {
        return Ok(Some(entry));
    }
    let path = at(root, &entry.path);
    let mut read = || -> io::Result<(Stamp, Vec<Chunk>, Stamp, u16)> {
        let mut file = tree.open_read(&entry.path)?;
        let before = Stamp::of(&file.metadata()?);
        let chunks = chunks(&mut file, before.length)?;
        let after = file.metadata()?;
        Ok((before, chunks, Stamp::of(&after), mode(after.mode())))
    };
    match unchanging(&mut read, &mut now, &mut pause) {
        Err(error) if is_gone(&error) => still_gone(tree, root, &entry.path).map(|()| None),
        Err(error) => Err(read_error(&path)(error)),
        Ok(None) => Err(ScanError::Restless { path }),
        Ok(Some((stamp, chunks, mode))) => {
            let kind = Kind::File { mode, chunks };
            Ok(Some(Entry {
                path: entry.path,
                mtime: stamp.modified.seconds,
                mtime_ns: stamp.modified.nanos,
                kind,
            }))
        }
    }
}

/// What shows that a file was changed: its length, and the last change of its content and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Time,
    changed: Time,
}

impl Stamp {
    fn of(data: &Metadata) -> Self {
        let time = |seconds: i64, nanos: i64| Time { seconds, nanos: u32::try_from(nanos).unwrap_or(0) };
        Stamp {
            length: data.len(),
            modified: time(data.mtime(), data.mtime_nsec()),
            changed: time(data.ctime(), data.ctime_nsec()),
        }
    }

    /// How long after `now` a further change might leave the same stamp, because it falls into the same tick of the file system's clock.
    fn racy(&self, now: Time) -> Duration {
        // Programs can set the one to any time, and some file systems lack the other.
        let last = if self.modified <= now { self.modified.max(self.changed) } else { self.changed };
        // Whole seconds mean a file system that counts in seconds, or in steps of two (FAT). Others use the kernel's tick, at most 10 ms.
        let tick = if last.nanos == 0 { 2_000_000_000 } else { 20_000_000 };
        let nanos = |time: Time| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
        // A time in the future, set on purpose or by a server's clock, causes one wait of the longest kind.
        let left = (nanos(last) + tick - nanos(now)).clamp(0, tick);
        Duration::from_nanos(left as u64)
    }
}

/// Reads a file until it does not change meanwhile; `None` if it always does. A file that was changed a moment ago is read once the stamp can
/// show the next change (git does the same with "racily clean" files).
fn unchanging<T, M>(
    read: &mut dyn FnMut() -> io::Result<(Stamp, T, Stamp, M)>,
    now: &mut dyn FnMut() -> Time,
    pause: &mut dyn FnMut(Duration),
) -> io::Result<Option<(Stamp, T, M)>>
where
    T: Whole,
{
    for _ in 0..ATTEMPTS {
        let began = now();
        let (before, content, after, more) = read()?;
        let racy = before.racy(began);
        if !racy.is_zero() {
            // The content may include a part of a change that the stamp does not show.
            pause(racy);
            let (before, content, after, more) = read()?;
            if before == after && content.length() == after.length {
                return Ok(Some((after, content, more)));
            }
        } else if before == after && content.length() == after.length {
            return Ok(Some((after, content, more)));
        }
    }
    Ok(None)
}

/// Content whose length is known.
trait Whole {
    fn length(&self) -> u64;
}

impl Whole for Vec<Chunk> {
    fn length(&self) -> u64 {
        self.iter().map(|chunk| chunk.length).sum()
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: files have times of the system's clock")]
fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() }
}

#[expect(clippy::disallowed_methods, reason = "this is the edge: a file system's clock has to tick")]
fn pause(span: Duration) {
    std::thread::sleep(span);
}

/// Cuts a file: data by its content, holes as they are.
fn chunks(file: &mut File, size: u64) -> io::Result<Vec<Chunk>> {
    let mut chunks = Vec::new();
    let mut position = 0;
    while position < size {
        let (start, end) = file.next_data(position, size)?;
        push_zeros(&mut chunks, start - position);
        if start == size {
            break;
        }
        file.seek(SeekFrom::Start(start))?;
        let segment = (&mut *file).take(end - start);
        for chunk in StreamCDC::new(segment, MIN_CHUNK, MEAN_CHUNK, MAX_CHUNK as usize) {
            let data = chunk.map_err(io::Error::other)?.data;
            if data.iter().all(|&byte| byte == 0) {
                push_zeros(&mut chunks, data.len() as u64);
            } else {
                let hash = Some(*blake3::hash(&data).as_bytes());
                chunks.push(Chunk { length: data.len() as u64, hash });
            }
        }
        position = end;
    }
    Ok(chunks)
}

fn push_zeros(chunks: &mut Vec<Chunk>, length: u64) {
    match chunks.last_mut() {
        _ if length == 0 => {}
        Some(Chunk { length: before, hash: None }) => *before += length,
        _ => chunks.push(Chunk { length, hash: None }),
    }
}

/// Reads a chunk that a manifest names; `None` if the file has changed.
///
/// # Errors
/// If it cannot be read, though it exists and is long enough.
pub fn read_chunk(tree: &Tree, entry: &Entry, offset: u64, chunk: &Chunk) -> io::Result<Option<Vec<u8>>> {
    let mut file = match tree.open_read(&entry.path) {
        Err(error) if is_gone(&error) => return Ok(None),
        other => other?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut data = Vec::with_capacity(chunk.length as usize);
    file.take(chunk.length).read_to_end(&mut data)?;
    let same = data.len() as u64 == chunk.length && chunk.hash == Some(*blake3::hash(&data).as_bytes());
    Ok(same.then_some(data))
}

/// A path for messages.
pub fn name(entry: &Entry) -> String {
    shown(&entry.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicate::tree::missing;

    /// A file of 256 KiB of data, a hole of 4 MiB, and some data, all described.
    fn holey(directory: &Path) -> (PathBuf, Entry) {
        let path = directory.join("holey");
        let noise: Vec<u8> = (0..262_144u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        fs::write(&path, &noise).unwrap();
        let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.seek(SeekFrom::Start(262_144 + (4 << 20))).unwrap();
        io::Write::write_all(&mut file, b"after the hole").unwrap();
        let scan = scan(directory, false).unwrap();
        let entry = scan.manifest.entries.iter().find(|entry| entry.path == b"holey").unwrap().clone();
        (path, entry)
    }

    #[test]
    fn an_unchanged_file_matches_its_description_and_holes_are_not_data() {
        let directory = tempfile::tempdir().unwrap();
        let (path, entry) = holey(directory.path());
        assert_eq!(entry.size(), 262_144 + (4 << 20) + 14);
        let hole = entry.chunks().iter().find(|chunk| chunk.hash.is_none()).unwrap();
        assert!(hole.length >= (4 << 20) - 65_536, "{hole:?}");
        let mut file = File::open(&path).unwrap();
        assert_eq!(missing(&mut file, entry.chunks()).unwrap(), [0u32; 0]);
        let tree = Tree::open(directory.path()).unwrap();
        let mut offset = 0;
        for chunk in entry.chunks() {
            if chunk.hash.is_some() {
                let data = read_chunk(&tree, &entry, offset, chunk).unwrap().unwrap();
                assert_eq!(data.len() as u64, chunk.length);
            }
            offset += chunk.length;
        }
    }

    #[test]
    fn an_unfinished_file_lacks_the_chunks_that_were_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let (path, entry) = holey(directory.path());
        let data = fs::read(&path).unwrap();
        let begun = directory.path().join("begun");
        let file = File::create_new(&begun).unwrap();
        file.set_len(entry.size()).unwrap();
        let lacking = |path: &Path| missing(&mut File::open(path).unwrap(), entry.chunks()).unwrap();
        let with_data: Vec<u32> = (0u32..)
            .zip(entry.chunks())
            .filter(|(_, chunk)| chunk.hash.is_some())
            .map(|(at, _)| at)
            .collect();
        assert_eq!(lacking(&begun), with_data);
        // Only the end: the first chunks are still holes, before data that lies beyond them.
        use std::os::unix::fs::FileExt as _;
        let file = fs::OpenOptions::new().write(true).open(&begun).unwrap();
        file.write_all_at(&data[data.len() - 14..], entry.size() - 14).unwrap();
        assert!(lacking(&begun).contains(&0));
        file.write_all_at(&data, 0).unwrap();
        assert_eq!(lacking(&begun), [0u32; 0]);
        // Data in the hole.
        file.write_all_at(b"x", 1 << 20).unwrap();
        assert_eq!(lacking(&begun).len(), 1);
    }

    impl Whole for u64 {
        fn length(&self) -> u64 {
            1
        }
    }

    /// Simulates a file system with ticks of this many nanoseconds: a file is written at some times, with the number of the write as content; a
    /// read takes 0.1 s.
    fn read_on(tick: i64, writes: &[i64]) -> Option<(Stamp, u64)> {
        const READ: i64 = 100_000_000;
        let clock = std::cell::Cell::new(10_200_000_000i64);
        let time =
            |nanos: i64| Time { seconds: nanos / 1_000_000_000, nanos: (nanos % 1_000_000_000) as u32 };
        let written = || writes.iter().filter(|at| **at <= clock.get()).count();
        let stamp = || {
            let last = writes[written() - 1] / tick * tick;
            Stamp { length: 1, modified: time(last), changed: time(last) }
        };
        let mut read = || {
            let (before, content) = (stamp(), written() as u64);
            clock.set(clock.get() + READ);
            Ok((before, content, stamp(), ()))
        };
        let found = unchanging(&mut read, &mut || time(clock.get()), &mut |span| {
            clock.set(clock.get() + span.as_nanos() as i64);
        });
        found.unwrap().map(|(stamp, content, ())| (stamp, content))
    }

    #[test]
    fn a_change_within_one_tick_of_the_clock_is_noticed() {
        // Written, read and written again, all within a second of a file system that counts in seconds: the stamp does not change.
        let (stamp, content) = read_on(1_000_000_000, &[10_000_000_000, 10_250_000_000]).unwrap();
        assert_eq!((stamp.modified.seconds, content), (10, 2));
        // The same within a tick of the kernel.
        let (_, content) = read_on(4_000_000, &[10_200_000_000, 10_203_000_000]).unwrap();
        assert_eq!(content, 2);
        // A file written long ago is read at once, and a change of the stamp is noticed.
        assert_eq!(read_on(1_000_000_000, &[3_000_000_000]).unwrap().1, 1);
        assert_eq!(read_on(1_000_000_000, &[3_000_000_000, 10_250_000_000]).unwrap().1, 2);
        // A file that always changes.
        let always: Vec<i64> = (0..1000).map(|number| number * 50_000_000 + 1).collect();
        assert_eq!(read_on(1_000_000, &always), None);
    }

    #[test]
    fn special_files_are_named_in_the_error_or_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::symlink("/", directory.path().join("root")).unwrap();
        assert!(scan(directory.path(), false).is_err());
        let scan = scan(directory.path(), true).unwrap();
        assert_eq!((scan.manifest.entries.len(), scan.skipped.len()), (1, 2));
    }

    #[test]
    fn a_link_that_took_the_place_of_a_directory_or_a_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (root, outside) = (directory.path().join("root"), directory.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(&root).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(&outside, root.join("letters")).unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), root.join("note")).unwrap();
        let tree = Tree::open(&root).unwrap();
        // They were listed while `letters` was still a directory, and `note` a file.
        for path in ["letters/secret", "note"] {
            let kind = Kind::File { mode: 0o644, chunks: Vec::new() };
            let listed = entry(path.as_bytes().to_vec(), Time::default(), kind);
            let hash = Some(*blake3::hash(b"secret").as_bytes());
            let read = read_chunk(&tree, &listed, 0, &Chunk { length: 6, hash }).unwrap();
            assert_eq!(read, None, "{path}");
            let described = with_content(&tree, &root, listed);
            // What has no name any more is left out. What has become something else is not missing in silence.
            match path {
                "note" => assert!(matches!(described, Err(ScanError::Restless { .. })), "{described:?}"),
                _ => assert_eq!(described.unwrap(), None),
            }
        }
    }

    #[test]
    fn a_link_that_is_gone_is_left_out_and_what_took_its_place_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::write(root.join("note"), "text").unwrap();
        let tree = Tree::open(root).unwrap();
        // Both were listed while they were links.
        assert_eq!(link_target(&tree, root, b"gone").unwrap(), None);
        assert_eq!(link_target(&tree, root, b"gone/below").unwrap(), None);
        let replaced = link_target(&tree, root, b"note");
        assert!(matches!(replaced, Err(ScanError::Restless { .. })), "{replaced:?}");
    }

    #[test]
    fn a_directory_that_loses_its_name_is_not_taken_for_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let (root, aside) = (directory.path().join("root"), directory.path().join("aside"));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), "content").unwrap();
        assert!(in_place(&root, || Ok(())).is_ok());
        // Another gets its name, as in a deployment. What was opened is read, and nothing of the other.
        let tree = Tree::open(&root).unwrap();
        let replaced = in_place(&root, || {
            fs::rename(&root, &aside).unwrap();
            fs::create_dir(&root).unwrap();
            let scan = scan_tree(tree, &root, false)?;
            assert!(scan.manifest.entries.iter().any(|entry| entry.path == b"file"));
            Ok(())
        });
        assert!(matches!(replaced, Err(ScanError::Replaced { .. })), "{replaced:?}");
        let removed = in_place(&root, || {
            fs::remove_dir(&root).unwrap();
            Ok(())
        });
        assert!(matches!(removed, Err(ScanError::Read { .. })), "{removed:?}");
    }
}
