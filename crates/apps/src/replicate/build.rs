//! Builds a version from a manifest. Existing content stays, chunks in older trees are copied, and the rest is fetched. Then everything is
//! read back, flushed, and put into use.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::PathBuf;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use warpline_disk::{Directory, DiskFile as _};

use super::manifest::{Chunk, Entry, Id, Kind, Manifest, shown};
use super::store::{Store, StoreError, failed};
use super::tree::{Tree, children, finish, missing};

/// Most bytes requested and not received yet.
const AHEAD: u64 = 16 << 20;

/// Bytes of data after which progress of comparing and checking is reported, in whole files.
pub(super) const BATCH: u64 = 16 << 20;

/// Bytes that stay free on the disk.
const SPARE: u64 = 32 << 20;

/// Why a tree cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something in the tree cannot be written or read.
    #[error("cannot {action} `{path}`: {source}")]
    Entry {
        /// The operation that failed.
        action: &'static str,
        /// Its path.
        path: String,
        /// The error.
        source: io::Error,
    },
    /// The disk is too small.
    #[error("{needed} bytes are needed and {free} are free on the disk of {} ({SPARE} are left free)", path.display())]
    Space {
        /// Bytes needed.
        needed: u64,
        /// Bytes free.
        free: u64,
        /// The store.
        path: PathBuf,
    },
    /// Data on the disk differs from what was written.
    #[error(
        "`{path}` does not read back as it was written: the disk or the memory is faulty, or another program writes there"
    )]
    Corrupt {
        /// The file.
        path: String,
    },
    /// Names in a directory differ from what they should be.
    #[error("the directory {0}")]
    Names(String),
    /// The connection broke before all chunks arrived.
    #[error("the connection broke: {0}")]
    Source(io::Error),
    /// The sender's file has changed since it was described.
    #[error("`{path}` changed at the sender while it was being sent")]
    Stale {
        /// The file.
        path: String,
    },
}

impl BuildError {
    /// Whether another attempt may help.
    pub fn is_passing(&self) -> bool {
        matches!(self, BuildError::Source(_) | BuildError::Stale { .. })
    }
}

/// A source of chunks, which delivers them in the order in which they are requested.
pub trait Source {
    /// Requests a chunk of an entry, both by number.
    fn want(&mut self, entry: u32, chunk: u32) -> io::Result<()>;
    /// The next requested chunk; `None` if the sender does not have it any more.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>>;
}

/// The steps of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Step {
    /// Comparing what exists.
    Comparing,
    /// Fetching chunks.
    Fetching,
    /// Reading everything back and flushing it.
    Checking,
}

/// The progress of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The current step.
    pub step: Step,
    /// Bytes of data present; while comparing and checking, bytes examined.
    pub done: u64,
    /// Bytes of data in the tree, holes left out.
    pub total: u64,
}

/// The result of a build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Built {
    /// The version was already in use.
    pub unchanged: bool,
    /// Bytes of data in the tree, holes left out.
    pub total: u64,
    /// Bytes fetched.
    pub fetched: u64,
}

/// A place where a chunk belongs.
#[derive(Clone, Copy, Debug)]
struct Place {
    entry: u32,
    chunk: u32,
    offset: u64,
}

/// Settings of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Versions to keep besides the one in use.
    pub keep: usize,
    /// Whether to read every byte of an existing version, rather than only compare sizes and times.
    pub verify: bool,
}

/// Builds the tree of `manifest` and makes it the version in use.
///
/// # Errors
/// If that fails. The version in use stays, and fetched chunks stay for the next attempt.
pub fn build<D: Directory>(
    store: &Store<D>,
    encoded: &[u8],
    manifest: &Manifest,
    options: Options,
    source: &mut dyn Source,
    report: &mut dyn FnMut(Progress) -> io::Result<()>,
) -> Result<Built, BuildError> {
    let id = Id::of(encoded);
    let total = manifest.data_bytes();
    let mut tell = |step, done| report(Progress { step, done, total }).map_err(BuildError::Source);
    tell(Step::Comparing, 0)?;
    if let Some(unchanged) = find_version(store, id, manifest, options.verify)? {
        store.prune(options.keep)?;
        return Ok(Built { unchanged, total, fetched: 0 });
    }
    let incoming = store.begin(id, encoded)?;
    let tree = Tree::at(store.directory(&incoming.tree).map_err(failed("open", &incoming.tree))?);
    let wanted = compare(store, id, manifest, &tree, &mut tell)?;
    let fetched = fetch(manifest, &tree, &wanted, total, source, &mut tell)?;
    tell(Step::Checking, 0)?;
    store.doubt(id)?;
    complete(manifest, &tree, &mut tell)?;
    let name = store.add_version(id, &incoming, encoded)?;
    finish_root(store, &name, manifest)?;
    store.switch(&name)?;
    store.settle(id)?;
    store.prune(options.keep)?;
    Ok(Built { unchanged: false, total, fetched })
}

/// Looks for an existing copy of the version, and switches to it. Returns whether it was already in use; `None` if it does not exist.
fn find_version<D: Directory>(
    store: &Store<D>,
    id: Id,
    manifest: &Manifest,
    verify: bool,
) -> Result<Option<bool>, BuildError> {
    // An existing version may have been named, or switched to, in memory only.
    if store.is_doubtful(id)? {
        return Ok(None);
    }
    let base = id.to_string();
    let current = store.current();
    let mut names: Vec<_> = store.versions()?.into_iter().filter(|name| name.starts_with(&base)).collect();
    names.sort_by_key(|name| Some(name) != current.as_ref());
    for name in names {
        let used = Some(&name) == current.as_ref();
        if !used {
            store.doubt(id)?;
            // Its build was interrupted before its root got its mode, or it is an old version.
            finish_root(store, &name, manifest)?;
        }
        let Ok(root) = store.directory(&store.version(&name)) else { continue };
        if Tree::at(root).difference(manifest, verify || !used).is_none() {
            if !used {
                store.switch(&name)?;
                store.settle(id)?;
            }
            return Ok(Some(used));
        }
    }
    Ok(None)
}

fn entry_error<'a>(action: &'static str, entry: &'a Entry) -> impl FnOnce(io::Error) -> BuildError + use<'a> {
    move |source| BuildError::Entry { action, path: shown(&entry.path), source }
}

/// Creates directories and files, keeps correct content in them, and copies chunks from older trees. Returns what to fetch: each chunk once,
/// with all places where it belongs, ordered by the first of these.
fn compare<D: Directory>(
    store: &Store<D>,
    id: Id,
    manifest: &Manifest,
    tree: &Tree<D>,
    tell: &mut dyn FnMut(Step, u64) -> Result<(), BuildError>,
) -> Result<Vec<(Chunk, Vec<Place>)>, BuildError> {
    for entry in &manifest.entries {
        if let Kind::Directory { .. } = entry.kind {
            tree.make_directory(&entry.path).map_err(entry_error("create", entry))?;
        }
    }
    let lacking = in_batches(manifest, Step::Comparing, tell, |number, entry| {
        let Kind::File { chunks, .. } = &entry.kind else { return Ok(Vec::new()) };
        let lacking = lacking_chunks(tree, entry, chunks)?;
        let mut places = Vec::new();
        let (mut offset, mut next) = (0, lacking.into_iter().peekable());
        for (chunk, piece) in (0u32..).zip(chunks) {
            if next.next_if_eq(&chunk).is_some() {
                places.push(Place { entry: number as u32, chunk, offset });
            }
            offset += piece.length;
        }
        Ok(places)
    })?;
    let mut wanted: Vec<(Chunk, Vec<Place>)> = Vec::new();
    let mut known: BTreeMap<[u8; 32], usize> = BTreeMap::new();
    for place in lacking.into_iter().flatten() {
        let chunk = manifest.entries[place.entry as usize].chunks()[place.chunk as usize];
        let Some(hash) = chunk.hash else { continue };
        let at = *known.entry(hash).or_insert(wanted.len());
        if at == wanted.len() {
            wanted.push((chunk, Vec::new()));
        }
        wanted[at].1.push(place);
    }
    check_space(store, &wanted)?;
    reuse(store, id, manifest, tree, &mut wanted)?;
    Ok(wanted)
}

/// Runs `act` on every entry, many at once, and reports progress now and then.
fn in_batches<T: Send>(
    manifest: &Manifest,
    step: Step,
    tell: &mut dyn FnMut(Step, u64) -> Result<(), BuildError>,
    act: impl Fn(usize, &Entry) -> Result<T, BuildError> + Sync,
) -> Result<Vec<T>, BuildError> {
    let mut results = Vec::with_capacity(manifest.entries.len());
    let mut done = 0;
    while results.len() < manifest.entries.len() {
        let (first, mut last, mut bytes) = (results.len(), results.len(), 0);
        while last < manifest.entries.len() && bytes < BATCH {
            bytes += manifest.entries[last].data();
            last += 1;
        }
        let batch = manifest.entries[first..last].par_iter().enumerate();
        results.extend(batch.map(|(at, entry)| act(first + at, entry)).collect::<Result<Vec<T>, _>>()?);
        done += bytes;
        tell(step, done)?;
    }
    Ok(results)
}

fn lacking_bytes(wanted: &[(Chunk, Vec<Place>)]) -> u64 {
    wanted.iter().map(|(chunk, places)| chunk.length * places.len() as u64).sum()
}

/// Sets a file's size and returns the chunks that it lacks.
fn lacking_chunks<D: Directory>(
    tree: &Tree<D>,
    entry: &Entry,
    chunks: &[Chunk],
) -> Result<Vec<u32>, BuildError> {
    let mut file = tree.open_write(&entry.path).map_err(entry_error("create", entry))?;
    let size = entry.size();
    let mut look = || -> io::Result<Vec<u32>> {
        file.set_size(size)?;
        // If background writing failed, this shows the missing data now, and not after everything is fetched.
        file.forget()?;
        let mut lacking = missing(&mut file, chunks)?;
        if lacking.iter().any(|&number| chunks[number as usize].hash.is_none()) {
            // This program did not write data where there should be a hole. Start the file again.
            file.set_size(0)?;
            file.set_size(size)?;
            lacking = missing(&mut file, chunks)?;
        }
        Ok(lacking)
    };
    look().map_err(entry_error("read", entry))
}

fn check_space<D: Directory>(store: &Store<D>, wanted: &[(Chunk, Vec<Place>)]) -> Result<(), BuildError> {
    let needed = lacking_bytes(wanted);
    let lacks = |free: u64| needed > 0 && needed.saturating_add(SPARE) > free;
    let mut free = store.free()?;
    // On an error, fetch the chunk again.
    if lacks(free) && store.drop_doubted()? {
        free = store.free()?;
    }
    if lacks(free) {
        return Err(BuildError::Space { needed, free, path: store.root().to_owned() });
    }
    Ok(())
}

/// Copies chunks from a version or from another unfinished tree, and removes them from the wanted ones.
fn reuse<D: Directory>(
    store: &Store<D>,
    id: Id,
    manifest: &Manifest,
    tree: &Tree<D>,
    wanted: &mut Vec<(Chunk, Vec<Place>)>,
) -> Result<(), BuildError> {
    let mut sources = store.others_begun(id)?;
    for name in store.versions()? {
        sources.extend(store.manifest(&name).map(|manifest| (store.version(&name), manifest)));
    }
    for (path, old) in &sources {
        if wanted.is_empty() {
            break;
        }
        let Ok(old_tree) = store.directory(path).map(Tree::at) else { continue };
        let mut places: BTreeMap<[u8; 32], (usize, u64)> = BTreeMap::new();
        for (number, entry) in old.entries.iter().enumerate() {
            let mut offset = 0;
            for chunk in entry.chunks() {
                if let Some(hash) = chunk.hash {
                    places.entry(hash).or_insert((number, offset));
                }
                offset += chunk.length;
            }
        }
        let copied: Result<Vec<bool>, BuildError> = wanted
            .par_iter()
            .map(|(chunk, to)| {
                let found = chunk.hash.and_then(|hash| places.get(&hash));
                let Some(&(number, offset)) = found else { return Ok(false) };
                // If an old version has changed or is locked, the chunk is fetched.
                let Some(data) = read_at(&old_tree, &old.entries[number].path, offset, chunk) else {
                    return Ok(false);
                };
                write_places(manifest, tree, to, &data, &mut None)?;
                Ok(true)
            })
            .collect();
        let mut copied = copied?.into_iter();
        wanted.retain(|_| !copied.next().unwrap_or(false));
    }
    Ok(())
}

fn read_at<D: Directory>(tree: &Tree<D>, path: &[u8], offset: u64, chunk: &Chunk) -> Option<Vec<u8>> {
    let mut file = tree.open_read(path).ok()?;
    let mut data = vec![0; chunk.length as usize];
    file.seek(SeekFrom::Start(offset)).ok()?;
    file.read_exact(&mut data).ok()?;
    (chunk.hash == Some(*blake3::hash(&data).as_bytes())).then_some(data)
}

/// Writes a chunk to all its places. `open` remembers the last file.
fn write_places<D: Directory>(
    manifest: &Manifest,
    tree: &Tree<D>,
    places: &[Place],
    data: &[u8],
    open: &mut Option<(u32, D::File)>,
) -> Result<(), BuildError> {
    for place in places {
        let entry = &manifest.entries[place.entry as usize];
        let wrong = |source| entry_error("write", entry)(source);
        if open.as_ref().is_none_or(|(number, _)| *number != place.entry) {
            *open = Some((place.entry, tree.open_write(&entry.path).map_err(wrong)?));
        }
        if let Some((_, file)) = open {
            let mut write = || {
                file.seek(SeekFrom::Start(place.offset))?;
                file.write_all(data)
            };
            write().map_err(wrong)?;
        }
    }
    Ok(())
}

/// Fetches the wanted chunks, with several requests under way. Returns the number of bytes.
fn fetch<D: Directory>(
    manifest: &Manifest,
    tree: &Tree<D>,
    wanted: &[(Chunk, Vec<Place>)],
    total: u64,
    source: &mut dyn Source,
    tell: &mut dyn FnMut(Step, u64) -> Result<(), BuildError>,
) -> Result<u64, BuildError> {
    let (mut asked, mut ahead, mut fetched) = (0, 0, 0);
    let mut done = total.saturating_sub(lacking_bytes(wanted));
    let mut open = None;
    for (chunk, places) in wanted {
        while asked < wanted.len() && (ahead == 0 || ahead + wanted[asked].0.length <= AHEAD) {
            let place = wanted[asked].1[0];
            source.want(place.entry, place.chunk).map_err(BuildError::Source)?;
            ahead += wanted[asked].0.length;
            asked += 1;
        }
        tell(Step::Fetching, done)?;
        let entry = &manifest.entries[places[0].entry as usize];
        let data = source.next().map_err(BuildError::Source)?;
        let data = data.ok_or_else(|| BuildError::Stale { path: shown(&entry.path) })?;
        if chunk.hash != Some(*blake3::hash(&data).as_bytes()) {
            return Err(BuildError::Source(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a chunk of `{}` has the wrong checksum", shown(&entry.path)),
            )));
        }
        write_places(manifest, tree, places, &data, &mut open)?;
        ahead -= chunk.length;
        fetched += chunk.length;
        done += chunk.length * places.len() as u64;
    }
    Ok(fetched)
}

/// Reads everything back, sets modes and times, and flushes it: the content of files first, directories from the leaves up.
fn complete<D: Directory>(
    manifest: &Manifest,
    tree: &Tree<D>,
    tell: &mut dyn FnMut(Step, u64) -> Result<(), BuildError>,
) -> Result<(), BuildError> {
    in_batches(manifest, Step::Checking, tell, |_, entry| match &entry.kind {
        Kind::File { mode, chunks } => {
            let mut file = tree.open_write(&entry.path).map_err(entry_error("open", entry))?;
            // The content before the mode, so that a crash in between leaves a file that can be opened again.
            file.sync().map_err(entry_error("flush", entry))?;
            // The next read comes from the disk.
            file.forget().map_err(entry_error("read", entry))?;
            let size = file.look().map_err(entry_error("read", entry))?.size;
            let wrong = missing(&mut file, chunks).map_err(entry_error("read", entry))?;
            if size != entry.size() || !wrong.is_empty() {
                return Err(BuildError::Corrupt { path: shown(&entry.path) });
            }
            finish(&file, entry, *mode).map_err(entry_error("flush", entry))
        }
        Kind::Link { target } => tree.make_link(entry, target).map_err(entry_error("create", entry)),
        Kind::Directory { .. } => Ok(()),
    })?;
    let names = children(manifest);
    for entry in manifest.entries.iter().rev() {
        let Kind::Directory { mode } = entry.kind else { continue };
        let expected = names.get(&entry.path[..]).map_or(&[][..], Vec::as_slice);
        let differ = tree.names_differ(&entry.path, expected).map_err(entry_error("read", entry))?;
        if let Some(text) = differ {
            return Err(BuildError::Names(format!("`{}` {text}", shown(&entry.path))));
        }
        // The root must still be movable.
        let mode = if entry.path.is_empty() { 0o700 } else { mode };
        tree.finish_directory(entry, mode).map_err(entry_error("flush", entry))?;
    }
    Ok(())
}

/// Sets the mode and time of a version's root, which it could not have while it was moved.
fn finish_root<D: Directory>(store: &Store<D>, name: &str, manifest: &Manifest) -> Result<(), BuildError> {
    let path = store.version(name);
    let Some(Entry { kind: Kind::Directory { mode }, .. }) = manifest.entries.first() else { return Ok(()) };
    let set = || Tree::at(store.directory(&path)?).finish_directory(&manifest.entries[0], *mode);
    Ok(set().map_err(failed("flush", &path))?)
}
