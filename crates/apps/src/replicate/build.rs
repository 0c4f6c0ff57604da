//! Builds a version from a manifest. Existing content stays, chunks in older trees are copied, and the rest is fetched. Then everything is
//! read back, flushed, and put into use.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use warpline_disk::{Directory, DiskFile as _};

use super::manifest::{Chunk, Entry, Id, Kind, Manifest, shown};
use super::store::{Store, StoreError, failed};
use super::tree::{Tree, children, finish, missing};

/// Most bytes requested and not received yet.
const AHEAD: u64 = 16 << 20;

/// Most chunks requested and not received yet. Requests for all chunks of `AHEAD`, if they are tiny, would be more than a connection holds. Then
/// this end would wait to send requests, and the other to send chunks, for ever.
const CHUNKS_AHEAD: usize = 16 << 10;

/// Bytes of data after which progress of comparing and checking is reported, in whole files.
pub(super) const BATCH: u64 = 16 << 20;

/// Most files, directories, links or copied chunks after which it is reported: each can take the disk's time for a flush, however small it is.
pub(super) const BATCH_ENTRIES: usize = 256;

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
    /// Bytes of data present; while comparing and checking, bytes examined. What is compared in several passes (an existing version, what is
    /// there already, what is copied) counts each time.
    pub done: u64,
    /// Bytes of data in the tree, holes left out; `done`, if that is more.
    pub total: u64,
}

/// Reports progress.
struct Reporter<'a> {
    report: &'a mut dyn FnMut(Progress) -> io::Result<()>,
    /// Bytes of data in the tree.
    total: u64,
    /// Bytes compared so far, in all passes.
    compared: u64,
    /// Bytes checked so far.
    checked: u64,
}

impl Reporter<'_> {
    fn tell(&mut self, step: Step, done: u64) -> Result<(), BuildError> {
        let total = self.total.max(done);
        (self.report)(Progress { step, done, total }).map_err(BuildError::Source)
    }

    /// So many more bytes are compared.
    fn compared(&mut self, bytes: u64) -> Result<(), BuildError> {
        self.compared += bytes;
        self.tell(Step::Comparing, self.compared)
    }

    /// Runs `act`, which asks after each file, link and directory whether to go on. The answer is no once a report cannot be sent.
    fn watch<T>(&mut self, act: impl FnOnce(&mut dyn FnMut() -> bool) -> T) -> Result<T, BuildError> {
        let (mut count, mut broken) = (0usize, None);
        let result = act(&mut || {
            count += 1;
            if broken.is_none() && count.is_multiple_of(BATCH_ENTRIES) {
                broken = self.compared(0).err();
            }
            broken.is_none()
        });
        broken.map_or(Ok(result), Err)
    }

    /// So many more bytes are checked.
    fn checked(&mut self, bytes: u64) -> Result<(), BuildError> {
        self.checked += bytes;
        self.tell(Step::Checking, self.checked)
    }
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
/// If that fails. The version in use stays, unless only a step after the switch failed. Fetched chunks stay for the next attempt, unless a push of
/// another tree needs their room before.
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
    let mut reporter = Reporter { report, total, compared: 0, checked: 0 };
    reporter.compared(0)?;
    if let Some(unchanged) = find_version(store, id, manifest, options.verify, &mut reporter)? {
        store.prune(options.keep)?;
        return Ok(Built { unchanged, total, fetched: 0 });
    }
    let incoming = store.begin(id, encoded)?;
    let tree = Tree::at(store.directory(&incoming.tree).map_err(failed("open", &incoming.tree))?);
    let wanted = compare(store, id, manifest, &tree, &mut reporter)?;
    let fetched = fetch(manifest, &tree, &wanted, source, &mut reporter)?;
    reporter.checked(0)?;
    store.doubt(id)?;
    complete(manifest, &tree, &mut reporter)?;
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
    reporter: &mut Reporter<'_>,
) -> Result<Option<bool>, BuildError> {
    // An existing version may have been named, or switched to, in memory only.
    if store.is_doubtful(id)? {
        return Ok(None);
    }
    let base = id.to_string();
    let current = store.current()?;
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
        if is_whole(&Tree::at(root), manifest, verify || !used, reporter)? {
            if !used {
                store.switch(&name)?;
                store.settle(id)?;
            }
            return Ok(Some(used));
        }
    }
    Ok(None)
}

/// Whether a tree is as `manifest` describes it; with `content`, in every byte.
fn is_whole<D: Directory>(
    tree: &Tree<D>,
    manifest: &Manifest,
    content: bool,
    reporter: &mut Reporter<'_>,
) -> Result<bool, BuildError> {
    let names = children(manifest);
    // Without the content, only the number of entries takes time, and the sender waits for so many reports only.
    let bytes = |entry: &Entry| if content { entry.data() } else { 0 };
    for (batch, bytes) in batches(&manifest.entries, bytes) {
        if tree.difference_among(&manifest.entries[batch], &names, content).is_some() {
            return Ok(false);
        }
        reporter.compared(bytes)?;
    }
    Ok(true)
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
    reporter: &mut Reporter<'_>,
) -> Result<Vec<(Chunk, Vec<Place>)>, BuildError> {
    let is_directory = |entry: &&Entry| matches!(entry.kind, Kind::Directory { .. });
    for (number, entry) in manifest.entries.iter().filter(is_directory).enumerate() {
        if number > 0 && number.is_multiple_of(BATCH_ENTRIES) {
            reporter.compared(0)?;
        }
        tree.make_directory(&entry.path).map_err(entry_error("create", entry))?;
    }
    let lacking = in_batches(manifest, &mut |bytes| reporter.compared(bytes), |number, entry| {
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
    make_room(store, id, manifest, tree, &mut wanted, reporter)?;
    let mut sources = store.others_begun(id)?;
    for name in store.versions()? {
        sources.extend(store.manifest(&name).map(|manifest| (store.version(&name), manifest)));
    }
    reuse(store, &sources, manifest, tree, &mut wanted, u64::MAX, reporter)?;
    Ok(wanted)
}

/// Entries or chunks in pieces after which progress is reported, with the bytes of data in each.
fn batches<T>(all: &[T], bytes_of: impl Fn(&T) -> u64) -> impl Iterator<Item = (Range<usize>, u64)> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let (mut last, mut bytes) = (first, 0);
        while last < all.len() && bytes < BATCH && last - first < BATCH_ENTRIES {
            bytes += bytes_of(&all[last]);
            last += 1;
        }
        let batch = first..last;
        first = last;
        (!batch.is_empty()).then_some((batch, bytes))
    })
}

/// Runs `act` on every entry, many at once, and `report` now and then, with the bytes of data since the last time.
fn in_batches<T: Send>(
    manifest: &Manifest,
    report: &mut dyn FnMut(u64) -> Result<(), BuildError>,
    act: impl Fn(usize, &Entry) -> Result<T, BuildError> + Sync,
) -> Result<Vec<T>, BuildError> {
    let mut results = Vec::with_capacity(manifest.entries.len());
    for (batch, bytes) in batches(&manifest.entries, Entry::data) {
        let first = batch.start;
        let entries = manifest.entries[batch].par_iter().enumerate();
        results.extend(entries.map(|(at, entry)| act(first + at, entry)).collect::<Result<Vec<T>, _>>()?);
        report(bytes)?;
    }
    Ok(results)
}

/// The bytes of a chunk in all its places.
fn bytes_in_places((chunk, places): &(Chunk, Vec<Place>)) -> u64 {
    chunk.length * places.len() as u64
}

fn lacking_bytes(wanted: &[(Chunk, Vec<Place>)]) -> u64 {
    wanted.iter().map(bytes_in_places).sum()
}

/// Room that the wanted chunks take on a disk with blocks of the usual size.
fn room_for(wanted: &[(Chunk, Vec<Place>)]) -> u64 {
    const BLOCK: u64 = 4096;
    wanted.iter().map(|(chunk, places)| chunk.length.next_multiple_of(BLOCK) * places.len() as u64).sum()
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

/// Makes room for what is wanted, if that is needed, and no more than that. What was put aside is removed first, then other trees that are unfinished
/// or in doubt: only a push that succeeds puts these aside, so the room that they take must not be what makes a push fail. They stay if all of them
/// together have too little room. Before they go, chunks that the new tree has, too, are copied, as far as there is room for both.
///
/// If a lot has to go, the sender may give up before it is gone. The next push goes on with the removal; how much there is, is found out anew.
fn make_room<D: Directory>(
    store: &Store<D>,
    id: Id,
    manifest: &Manifest,
    tree: &Tree<D>,
    wanted: &mut Vec<(Chunk, Vec<Place>)>,
    reporter: &mut Reporter<'_>,
) -> Result<(), BuildError> {
    let needed = lacking_bytes(wanted);
    let goal = needed.saturating_add(SPARE);
    let is_short = |free: u64| free < goal;
    if needed == 0 || !is_short(store.free()?) {
        return Ok(());
    }
    let mut removed =
        reporter.watch(|go_on| store.clear_trash(&mut || go_on() && store.free().is_ok_and(is_short)))?;
    let before = store.free()?;
    // Room that copies have taken: it is no longer needed. What other programs have written meanwhile is not that.
    let mut taken = 0;
    if is_short(before) {
        let short = goal - before;
        let others = reporter.watch(|go_on| store.room_of_others(id, short, go_on))??;
        if others >= short {
            let sources = store.others_begun(id)?;
            let missing_room = room_for(wanted);
            reuse(store, &sources, manifest, tree, wanted, before.saturating_sub(SPARE), reporter)?;
            taken = before.saturating_sub(store.free()?).min(missing_room - room_for(wanted));
            let is_short = |free: u64| is_short(free.saturating_add(taken));
            let dropped = reporter
                .watch(|go_on| store.drop_others(id, &mut || go_on() && store.free().is_ok_and(is_short)))?;
            removed = removed.and(dropped);
        }
    }
    let free = store.free()?;
    let needed = lacking_bytes(wanted);
    if !is_short(free.saturating_add(taken)) || free >= needed.saturating_add(SPARE) {
        return Ok(());
    }
    if needed == reporter.total {
        // Nothing of the tree has arrived, so the next attempt can do without it. If this fails, the sender must still hear the reason below.
        let _ = store.give_up(id);
    }
    removed?;
    Err(BuildError::Space { needed, free, path: store.root().to_owned() })
}

/// Copies chunks from other trees, of at most `room` bytes in all, and removes them from the wanted ones.
fn reuse<D: Directory>(
    store: &Store<D>,
    sources: &[(PathBuf, Manifest)],
    manifest: &Manifest,
    tree: &Tree<D>,
    wanted: &mut Vec<(Chunk, Vec<Place>)>,
    mut room: u64,
    reporter: &mut Reporter<'_>,
) -> Result<(), BuildError> {
    for (path, old) in sources {
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
        let copy =
            |(chunk, to): &(Chunk, Vec<Place>), (number, offset): (usize, u64)| -> Result<bool, BuildError> {
                // If an old version has changed or is locked, the chunk is fetched.
                let Some(data) = read_at(&old_tree, &old.entries[number].path, offset, chunk) else {
                    return Ok(false);
                };
                write_places(manifest, tree, to, &data, &mut None)?;
                Ok(true)
            };
        let mut copied = Vec::with_capacity(wanted.len());
        for (batch, _) in batches(wanted, bytes_in_places) {
            let some = &wanted[batch];
            let mut left = room;
            // Where each chunk is in the old tree, if it is there and there is room for it.
            let found: Vec<Option<(usize, u64)>> = some
                .iter()
                .map(|piece| {
                    let place = *places.get(&piece.0.hash?)?;
                    left = left.checked_sub(bytes_in_places(piece))?;
                    Some(place)
                })
                .collect();
            let done = some
                .par_iter()
                .zip(found)
                .map(|(piece, place)| place.map_or(Ok(false), |place| copy(piece, place)))
                .collect::<Result<Vec<bool>, BuildError>>()?;
            let pieces = some.iter().zip(&done).filter(|(_, done)| **done);
            let bytes: u64 = pieces.map(|(piece, _)| bytes_in_places(piece)).sum();
            if bytes > 0 {
                room -= bytes;
                reporter.compared(bytes)?;
            }
            copied.extend(done);
        }
        let mut copied = copied.into_iter();
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
    source: &mut dyn Source,
    reporter: &mut Reporter<'_>,
) -> Result<u64, BuildError> {
    let (mut asked, mut ahead, mut fetched) = (0, 0, 0);
    let mut done = reporter.total.saturating_sub(lacking_bytes(wanted));
    let mut open = None;
    for (got, (chunk, places)) in wanted.iter().enumerate() {
        let has_room = |asked: usize, ahead: u64| {
            ahead == 0 || (ahead + wanted[asked].0.length <= AHEAD && asked - got < CHUNKS_AHEAD)
        };
        while asked < wanted.len() && has_room(asked, ahead) {
            let place = wanted[asked].1[0];
            source.want(place.entry, place.chunk).map_err(BuildError::Source)?;
            ahead += wanted[asked].0.length;
            asked += 1;
        }
        reporter.tell(Step::Fetching, done)?;
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
    reporter: &mut Reporter<'_>,
) -> Result<(), BuildError> {
    in_batches(manifest, &mut |bytes| reporter.checked(bytes), |_, entry| match &entry.kind {
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
    let is_directory = |entry: &&Entry| matches!(entry.kind, Kind::Directory { .. });
    for (number, entry) in manifest.entries.iter().rev().filter(is_directory).enumerate() {
        let Kind::Directory { mode } = entry.kind else { continue };
        if number > 0 && number.is_multiple_of(BATCH_ENTRIES) {
            reporter.checked(0)?;
        }
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

#[cfg(test)]
#[path = "build_tests.rs"]
mod tests;
