//! A receiver's directory: the versions of a tree, and which one is in use.
//!
//! ```text
//! DEST/current            a symbolic link to versions/ID: what users read
//! DEST/versions/ID/       complete trees, and nothing else
//! DEST/manifests/ID       what each of them must contain
//! DEST/incoming/ID/       being built: tree, manifest, and `flushing` from the first flush to the last
//! DEST/incoming/ID-doubted/ a tree whose flush failed, with its `flushing`: its chunks are copied, and so written again
//! DEST/trash/             being removed
//! DEST/lock               locked by the receiver that works here
//! ```
//!
//! `flushing` is written to the disk before the first flush, and removed after the last. A tree or version that has it is only used as a
//! source of chunks. docs/src/replicate.md ("Guarantees") says why.
//!
//! When everything in a version is on the disk, one rename gives it its name; when that is on the disk, one rename changes `current`.
//! Whenever the receiver is killed or the machine fails, `current` leads to a complete tree.

use std::ffi::{OsStr, OsString};
use std::fs::TryLockError;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use warpline_disk::{
    Directory, DiskFile as _, Kind, Open, OsDirectory, create_directories, remove_all, remove_all_with,
    room_of_all, write_whole,
};

use super::manifest::{Id, Manifest};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A system call failed.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// The operation that failed.
        action: &'static str,
        /// Its path.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// Another receiver works there.
    #[error("another receiver works in {}", path.display())]
    Taken {
        /// The store.
        path: PathBuf,
    },
    /// The directory is used for something else.
    #[error("{} is neither empty nor a store of replicated versions; name another directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
}

/// Adds the operation and the path to an error.
pub(super) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StoreError + use<'a> {
    move |source| StoreError::File { action, path: path.to_owned(), source }
}

/// A receiver's directory, locked.
#[derive(Debug)]
pub struct Store<D: Directory = OsDirectory> {
    /// Its path, for messages.
    root: PathBuf,
    at: D,
    /// The file that holds the lock. It contains [`MADE`] once the names of [`PARTS`] are on the disk.
    lock: D::File,
}

const PARTS: [&str; 4] = ["versions", "manifests", "incoming", "trash"];

/// Name of the link to the version in use.
const CURRENT: &str = "current";

/// Name of the file that a working receiver keeps locked.
const LOCK: &str = "lock";

/// Its content when the parts are on the disk.
const MADE: &[u8] = b"made\n";

/// The suffix of a tree that a flush left in doubt.
const DOUBTED: &str = "-doubted";

/// Mode of the store's files; the umask narrows it.
const FILE_MODE: u32 = 0o666;

impl Store {
    /// Opens the store at `root`, or creates one in an empty place, and removes leftovers of an interruption.
    ///
    /// # Errors
    /// If the directory cannot be used, or another receiver uses it.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let root = std::path::absolute(root).map_err(failed("find", root))?;
        let here = OsDirectory::here();
        create_directories(&here, &root, 0o755).map_err(failed("create", &root))?;
        // `root` may be a link.
        let at = here.open_directory(&root.join(".")).map_err(failed("open", &root))?;
        Self::open_at(at, root)
    }
}

impl<D: Directory> Store<D> {
    /// Opens the store in the directory `at`, which messages call `root`.
    ///
    /// # Errors
    /// As [`open`](Store::open).
    pub fn open_at(at: D, root: PathBuf) -> Result<Self, StoreError> {
        let names = at.names(Path::new("")).map_err(failed("read", &root))?;
        let foreign = || is_foreign(&at, &names).map_err(failed("read", &root));
        let locked = names.iter().any(|name| name == LOCK);
        if !locked && foreign()? {
            return Err(StoreError::Foreign { path: root });
        }
        let path = root.join(LOCK);
        let mut lock = at.open(Path::new(LOCK), Open::ReadWrite(FILE_MODE)).map_err(failed("open", &path))?;
        match lock.lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Taken { path: root }),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
        }
        let mut said = Vec::new();
        lock.read_to_end(&mut said).map_err(failed("read", &path))?;
        let made = said == MADE || leads_to_version(&at).map_err(failed("examine", &root))?;
        // Other programs have files of this name, too. After an interrupted making it has a part of ours, or zeros.
        let ours = MADE.starts_with(&said) || said.iter().all(|byte| *byte == 0);
        if said != MADE && locked && (foreign()? || (!made && !ours)) {
            return Err(StoreError::Foreign { path: root });
        }
        let mut store = Store { root, at, lock };
        for part in PARTS {
            if !made {
                // The store is empty, and its name may be in memory only, because a flush may have failed.
                store.act("remove", part, |path| remove_all(&store.at, path))?;
            }
            store.act("create", part, |path| create_directories(&store.at, path, 0o755))?;
        }
        // What cannot be removed is in nobody's way.
        let _ = store.clear_trash(&mut || true);
        store.act("remove", "current.new", |path| remove_all(&store.at, path))?;
        store.act("flush", "", |_| store.at.sync())?;
        if said != MADE {
            let mut write = || {
                store.lock.set_size(0)?;
                store.lock.rewind()?;
                store.lock.write_all(MADE)?;
                store.lock.sync()
            };
            write().map_err(failed("write", &path))?;
        }
        Ok(store)
    }

    /// Runs an operation on a path in the store, and adds the operation to an error.
    fn act<T>(
        &self,
        action: &'static str,
        path: impl AsRef<Path>,
        act: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T, StoreError> {
        let path = path.as_ref();
        act(path).map_err(|source| failed(action, &self.root.join(path))(source))
    }

    /// Its path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Bytes that can still be written.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn free(&self) -> Result<u64, StoreError> {
        self.act("examine", "", |_| self.at.free())
    }

    /// The version in use.
    ///
    /// # Errors
    /// If it cannot be read which one that is.
    pub fn current(&self) -> Result<Option<String>, StoreError> {
        self.act("read", CURRENT, |_| current_of(&self.at))
    }

    /// The tree of a version.
    pub fn version(&self, name: &str) -> PathBuf {
        self.root.join("versions").join(name)
    }

    /// A directory in the store, such as a version's tree.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn directory(&self, path: &Path) -> io::Result<D> {
        self.at.open_directory(path.strip_prefix(&self.root).unwrap_or(path))
    }

    /// Names of the complete versions, in no particular order.
    pub fn versions(&self) -> Result<Vec<String>, StoreError> {
        self.names("versions")
    }

    fn names(&self, part: &str) -> Result<Vec<String>, StoreError> {
        let names = self.act("read", part, |path| self.at.names(path))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    /// What a version must contain; `None` if that is not known.
    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        manifest_of(&self.at, name)
    }

    /// Whether a flush of this tree, or of its name, was begun and not completed, because it failed or the receiver was killed. Then it is unknown
    /// how much of the tree is on the disk, and a later flush does not show it. So it stays after the tree was moved aside, until [`prune`](Self::prune)
    /// removes what it is about.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn is_doubtful(&self, id: Id) -> Result<bool, StoreError> {
        Ok(self.is_flushing(&begun(id))? || self.is_flushing(&aside(id))?)
    }

    /// Whether a directory in `incoming` has the mark of a flush.
    fn is_flushing(&self, path: &Path) -> Result<bool, StoreError> {
        match self.at.has(&path.join("flushing")) {
            // A file that others have put there.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
            other => other.map_err(failed("examine", &self.root.join(path))),
        }
    }

    /// Records on the disk that flushing begins: until [`settle`](Self::settle), this tree is in doubt.
    ///
    /// # Errors
    /// If that fails; then nothing may be flushed.
    pub fn doubt(&self, id: Id) -> Result<(), StoreError> {
        let path = begun(id);
        self.act("create", &path, |path| create_directories(&self.at, path, 0o700))?;
        self.act("write", path.join("flushing"), |path| write_whole(&self.at, path, FILE_MODE, b""))
    }

    /// Records that everything of this tree, and the switch to it, is on the disk.
    ///
    /// # Errors
    /// If that fails.
    pub fn settle(&self, id: Id) -> Result<(), StoreError> {
        let path = begun(id);
        self.act("remove", path.join("flushing"), |path| remove_all(&self.at, path))?;
        self.act("flush", &path, |path| self.at.sync_of(path))
    }

    /// Makes the directory in which a tree is built, with its manifest. A tree in doubt is moved aside: its chunks are copied from there, and
    /// so written again.
    pub fn begin(&self, id: Id, encoded: &[u8]) -> Result<Incoming, StoreError> {
        let path = begun(id);
        if self.is_flushing(&path)? {
            let aside = aside(id);
            if self.act("examine", &aside, |aside| self.at.has(aside))? {
                self.discard(&aside)?;
            }
            self.act("rename", &path, |path| self.at.rename(path, &aside))?;
        }
        let tree = path.join("tree");
        self.act("create", &tree, |tree| create_directories(&self.at, tree, 0o700))?;
        self.act("write", path.join("manifest"), |path| write_whole(&self.at, path, FILE_MODE, encoded))?;
        Ok(Incoming { tree: self.root.join(tree) })
    }

    /// Paths, below the store, of other trees that are unfinished or in doubt; `id` is the tree being built. The one that is of most use to it comes last.
    fn others(&self, id: Id) -> Result<impl Iterator<Item = PathBuf>, StoreError> {
        let own = id.to_string();
        let mut names = self.names("incoming")?;
        // Others may have put something there, which is not of this kind.
        names.retain(|name| *name != own && is_own(OsStr::new(name)));
        // The most can be copied from an earlier attempt with the same tree.
        names.sort_by_key(|name| name.starts_with(&own));
        Ok(names.into_iter().map(|name| Path::new("incoming").join(name)))
    }

    /// Other trees that are unfinished or in doubt, with their manifests; `id` is the tree being built.
    pub fn others_begun(&self, id: Id) -> Result<Vec<(PathBuf, Manifest)>, StoreError> {
        let begun = self.others(id)?.filter_map(|path| {
            let manifest = Manifest::decode(&self.at.read(&path.join("manifest")).ok()?).ok()?;
            Some((self.root.join(path).join("tree"), manifest))
        });
        Ok(begun.collect())
    }

    /// Bytes that [`drop_others`](Self::drop_others) would free, in its order, as the disk reports them. The sum ends when it is `enough`, or when `go_on`
    /// says no. This may take long, so `go_on` is asked after each file, link and directory.
    ///
    /// # Errors
    /// If it cannot be read which trees there are. What cannot be read in a tree counts as nothing.
    pub fn room_of_others(
        &self,
        id: Id,
        enough: u64,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<u64, StoreError> {
        let mut room = 0;
        for path in self.others(id)? {
            let mut stopped = false;
            room += room_of_all(&self.at, &path.join("tree"), enough - room, &mut || {
                stopped = !go_on();
                !stopped
            });
            if stopped || room >= enough {
                break;
            }
        }
        Ok(room)
    }

    /// Removes other trees that are unfinished or in doubt, to free their space; `id` is the tree being built. The record that a tree was in doubt stays.
    /// This may take long, so `go_on` is asked after each file, link and directory, also after one that could not be removed. If it says no, the rest stays.
    ///
    /// # Errors
    /// The first one, if something cannot be removed. It does not end the removal.
    pub fn drop_others(&self, id: Id, go_on: &mut dyn FnMut() -> bool) -> Result<(), StoreError> {
        self.remove(self.others(id)?.map(|path| path.join("tree")), go_on)
    }

    /// Puts aside a tree that is being built. Call it only if nothing of the tree has arrived. It must not be in doubt.
    ///
    /// # Errors
    /// If it cannot be moved.
    pub fn give_up(&self, id: Id) -> Result<(), StoreError> {
        self.discard(&begun(id))
    }

    /// Makes a finished tree a version. Its content is on the disk already.
    pub fn add_version(&self, id: Id, incoming: &Incoming, encoded: &[u8]) -> Result<String, StoreError> {
        let base = id.to_string();
        let versions = Path::new("versions");
        // An existing version of this name was found to be wrong.
        let (mut name, mut number) = (base.clone(), 1);
        while self.act("examine", versions.join(&name), |path| self.at.has(path))? {
            number += 1;
            name = format!("{base}-{number}");
        }
        let manifest = Path::new("manifests").join(&name);
        self.act("write", &manifest, |path| write_whole(&self.at, path, FILE_MODE, encoded))?;
        let from = incoming.tree.strip_prefix(&self.root).unwrap_or(&incoming.tree);
        self.act("rename", from, |from| self.at.rename(from, &versions.join(&name)))?;
        self.act("flush", versions, |path| self.at.sync_of(path))?;
        Ok(name)
    }

    /// Switches over to a version.
    pub fn switch(&self, name: &str) -> Result<(), StoreError> {
        let target = Path::new("versions").join(name);
        self.act("create", "current.new", |new| {
            remove_all(&self.at, new)?;
            self.at.link(target.as_os_str(), new)
        })?;
        // A reader sees the old version or the new one.
        self.act("rename", "current.new", |new| self.at.rename(new, Path::new(CURRENT)))?;
        self.act("flush", "", |_| self.at.sync())?;
        // Its age counts from now on.
        self.act("write", Path::new("manifests").join(name), |path| match self.at.open(path, Open::Read) {
            Ok(file) => file.set_time(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    /// Puts aside what is no longer needed: unfinished trees, and all versions except the one in use and the `keep` newest before it. The one in use must
    /// not be in doubt. [`clear_trash`](Self::clear_trash) removes it.
    ///
    /// # Errors
    /// If something cannot be moved.
    pub fn prune(&self, keep: usize) -> Result<(), StoreError> {
        let (versions, manifests) = (Path::new("versions"), Path::new("manifests"));
        let current = self.current()?;
        for name in self.names("incoming")? {
            let path = Path::new("incoming").join(&name);
            if self.is_flushing(&path)? {
                // Its versions may have their names in memory only. Without this record, they would be trusted.
                let id = name.strip_suffix(DOUBTED).unwrap_or(&name);
                let doubted = |version: &String| version.starts_with(id) && Some(version) != current.as_ref();
                for version in self.versions()?.iter().filter(|version| doubted(version)) {
                    self.discard(&versions.join(version))?;
                }
            }
            self.discard(&path)?;
        }
        let mut old: Vec<_> =
            self.versions()?.into_iter().filter(|name| Some(name) != current.as_ref()).collect();
        let age = |name: &String| self.at.look(&manifests.join(name)).map(|manifest| manifest.modified).ok();
        old.sort_by_key(|name| std::cmp::Reverse(age(name)));
        for name in old.iter().skip(keep) {
            self.discard(&versions.join(name))?;
        }
        let kept = self.versions()?;
        for name in self.names("manifests")?.iter().filter(|name| !kept.contains(name)) {
            self.discard(&manifests.join(name))?;
        }
        Ok(())
    }

    /// Puts something aside in one move, so that everything with a name here is complete.
    fn discard(&self, from: &Path) -> Result<(), StoreError> {
        let base = from.to_string_lossy().replace('/', "-");
        // What was put aside under this name before may not be removed yet.
        let (mut to, mut number) = (Path::new("trash").join(&base), 1);
        while self.act("examine", &to, |to| self.at.has(to))? {
            number += 1;
            to = Path::new("trash").join(format!("{base}-{number}"));
        }
        // A directory without write permission for its owner cannot change its parent.
        if self.at.look(from).is_ok_and(|there| there.kind == Kind::Directory) {
            let _ = self.at.set_mode_of(from, 0o700);
        }
        self.act("rename", from, |from| self.at.rename(from, &to))
    }

    /// Removes what was put aside. This may take long, so `go_on` is asked after each file, link and directory, also after one that could not be removed.
    /// If it says no, the rest is removed the next time.
    ///
    /// # Errors
    /// The first one, if something cannot be removed. It does not end the removal.
    pub fn clear_trash(&self, go_on: &mut dyn FnMut() -> bool) -> Result<(), StoreError> {
        let names = self.names("trash")?.into_iter();
        self.remove(names.map(|name| Path::new("trash").join(name)), go_on)
    }

    /// Removes paths until `go_on` says no. Returns the first error.
    fn remove(
        &self,
        paths: impl Iterator<Item = PathBuf>,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<(), StoreError> {
        let (mut stopped, mut first) = (false, Ok(()));
        for path in paths {
            let mut asked = || {
                stopped = !go_on();
                !stopped
            };
            let gone = self.act("remove", path, |path| remove_all_with(&self.at, path, &mut asked));
            first = first.and(gone);
            if stopped {
                break;
            }
        }
        first
    }
}

/// Whether a directory with these names has anything that does not come from a store, from the interrupted making of one, or from a loss of power.
/// If no store was made completely, what does come from it will be removed.
fn is_foreign(at: &impl Directory, names: &[OsString]) -> io::Result<bool> {
    let locked = names.iter().any(|name| name == LOCK);
    // The name of the lock may have been in memory only, because a flush of the root failed when the store was made. Then it is lost with the power,
    // though the store was in use.
    let used = leads_to_version(at)?;
    for name in names {
        if name == LOCK || (used && name == CURRENT) || ((locked || used) && name == "current.new") {
            continue;
        }
        if !PARTS.iter().any(|part| name == part) {
            return Ok(true);
        }
        match at.names(Path::new(name)) {
            Ok(inside) if inside.iter().all(|name| is_own(name)) => {}
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(true),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Whether this is a name that the store gives in one of its parts: it begins with a version's name, after the part that it was in before it was
/// removed, and a full stop if it is a file that is being written.
fn is_own(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    let removed = PARTS.iter().find_map(|part| name.strip_prefix(part.as_bytes())?.strip_prefix(b"-"));
    let name = removed.unwrap_or(name);
    let name = name.strip_prefix(b".").unwrap_or(name);
    name.len() >= 32 && name[..32].iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Where `current` leads; `None` if it is no link.
fn target_of(at: &impl Directory) -> io::Result<Option<PathBuf>> {
    match at.read_link(Path::new(CURRENT)) {
        // Something else has this name.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            Ok(None)
        }
        other => other.map(|target| Some(target.into())),
    }
}

/// Whether `current` is a link to a version.
fn leads_to_version(at: &impl Directory) -> io::Result<bool> {
    Ok(target_of(at)?.is_some_and(|target| target.starts_with("versions")))
}

/// Where a tree is being built, below the store.
fn begun(id: Id) -> PathBuf {
    Path::new("incoming").join(id.to_string())
}

/// Where a tree in doubt is moved, below the store.
fn aside(id: Id) -> PathBuf {
    Path::new("incoming").join(format!("{id}{DOUBTED}"))
}

/// A tree that is being built.
#[derive(Debug)]
pub struct Incoming {
    /// The tree's directory.
    pub tree: PathBuf,
}

/// The version in use in the store at `root`; `None` if there is none.
///
/// # Errors
/// If the directory or its link cannot be read.
pub fn current(root: &Path) -> Result<Option<String>, StoreError> {
    let at = OsDirectory::here().open_directory(&root.join(".")).map_err(failed("open", root))?;
    current_of(&at).map_err(failed("read", &root.join(CURRENT)))
}

fn current_of(at: &impl Directory) -> io::Result<Option<String>> {
    let name = |target: PathBuf| target.file_name().and_then(OsStr::to_str).map(ToOwned::to_owned);
    Ok(target_of(at)?.and_then(name))
}

/// What a version of the store at `root` must contain; `None` if that is not known.
pub fn manifest(root: &Path, name: &str) -> Option<Manifest> {
    manifest_of(&OsDirectory::here().open_directory(&root.join(".")).ok()?, name)
}

fn manifest_of(at: &impl Directory, name: &str) -> Option<Manifest> {
    Manifest::decode(&at.read(&Path::new("manifests").join(name)).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpline_disk::sim::{SimDirectory, SimDisk};

    fn open(disk: &SimDisk) -> Result<Store<SimDirectory>, StoreError> {
        Store::open_at(disk.root(), PathBuf::from("/"))
    }

    /// A disk with these files, of which `lock` has this content.
    fn disk(files: &[&str], lock: &[u8]) -> SimDisk {
        let disk = SimDisk::new(1);
        for file in files {
            let path = Path::new(file);
            create_directories(&disk.root(), path.parent().unwrap(), 0o755).unwrap();
            let content = if *file == LOCK { lock } else { b"1234\n" };
            write_whole(&disk.root(), path, FILE_MODE, content).unwrap();
        }
        disk
    }

    #[test]
    fn what_another_program_has_in_a_directory_stays() {
        for files in [
            &["incoming/letter"][..],
            &["trash"],
            &["lock"],
            &["lock", "versions/1.0/program"],
            &["lock", "trash/old"],
            &["lock", "notes"],
            &["current", "lock", "notes"],
        ] {
            let disk = disk(files, b"1234\n");
            let opened = open(&disk);
            assert!(matches!(opened, Err(StoreError::Foreign { .. })), "{files:?}: {opened:?}");
            for file in files {
                assert_eq!(disk.root().read(Path::new(file)).unwrap(), b"1234\n", "{file}");
            }
        }
        // A program can have versions and a link to one of them, too.
        let disk = disk(&["lock", "versions/1.0/program"], b"1234\n");
        disk.root().link(OsStr::new("versions/1.0"), Path::new(CURRENT)).unwrap();
        assert!(matches!(open(&disk), Err(StoreError::Foreign { .. })));
        assert_eq!(disk.root().read(Path::new(LOCK)).unwrap(), b"1234\n");
    }

    #[test]
    fn a_file_that_others_put_into_a_store_is_removed_like_an_unfinished_tree() {
        let disk = disk(&[], b"");
        let store = open(&disk).unwrap();
        write_whole(&disk.root(), Path::new("incoming/.DS_Store"), FILE_MODE, b"x").unwrap();
        store.prune(1).unwrap();
        store.clear_trash(&mut || true).unwrap();
        for part in ["incoming", "trash"] {
            assert!(disk.root().names(Path::new(part)).unwrap().is_empty(), "{part}");
        }
    }

    #[test]
    fn what_was_put_aside_is_removed_until_it_is_told_to_stop_and_the_rest_the_next_time() {
        let disk = disk(&[], b"");
        let store = open(&disk).unwrap();
        let fill = || {
            for number in 0..10 {
                let path = format!("incoming/tree/{number}");
                create_directories(&disk.root(), Path::new("incoming/tree"), 0o755).unwrap();
                write_whole(&disk.root(), Path::new(&path), FILE_MODE, b"x").unwrap();
            }
            store.prune(1).unwrap();
        };
        let trash = |path: &str| disk.root().names(&Path::new("trash").join(path)).map(|names| names.len());
        fill();
        let mut left = 3;
        let mut three = || {
            left -= 1;
            left > 0
        };
        store.clear_trash(&mut three).unwrap();
        assert_eq!(trash("incoming-tree").unwrap(), 7);
        // Another one has the same name.
        fill();
        assert_eq!(trash("").unwrap(), 2);
        store.clear_trash(&mut || true).unwrap();
        assert_eq!(trash("").unwrap(), 0);
    }

    #[test]
    fn a_store_that_lost_its_lock_with_the_power_is_used_as_before() {
        let id = "0123456789abcdef0123456789abcdef";
        let version = format!("versions/{id}/file");
        let disk = disk(&[&version], b"");
        disk.root().link(OsStr::new(&format!("versions/{id}")), Path::new(CURRENT)).unwrap();
        let store = open(&disk).unwrap();
        assert_eq!(store.current().unwrap().as_deref(), Some(id));
        assert_eq!(disk.root().read(Path::new(&version)).unwrap(), b"1234\n");
        drop(store);
        assert_eq!(disk.root().read(Path::new(LOCK)).unwrap(), MADE);
        // Nothing else may be beside it.
        disk.root().remove_file(Path::new(LOCK)).unwrap();
        write_whole(&disk.root(), Path::new("notes"), FILE_MODE, b"").unwrap();
        assert!(matches!(open(&disk), Err(StoreError::Foreign { .. })));
    }

    #[test]
    fn what_an_interrupted_making_of_a_store_left_is_removed() {
        let id = "0123456789abcdef0123456789abcdef";
        let [begun, removed] = [format!("incoming/{id}/manifest"), format!("trash/manifests-.{id}.part-7")];
        let left: [&[&str]; 4] = [&[], &["lock"], &["lock", &begun], &[&begun, &removed]];
        for (files, lock) in left.into_iter().zip([&b""[..], b"ma", b"", b"\0\0"]) {
            let disk = disk(files, lock);
            drop(open(&disk).unwrap());
            assert!(disk.root().names(Path::new("incoming")).unwrap().is_empty(), "{files:?}");
            assert_eq!(disk.root().read(Path::new(LOCK)).unwrap(), MADE);
            // Now it is a store, and what a push leaves in it is kept.
            create_directories(&disk.root(), Path::new("incoming/kept"), 0o755).unwrap();
            drop(open(&disk).unwrap());
            assert!(disk.root().has(Path::new("incoming/kept")).unwrap());
        }
    }
}
