//! A receiver's directory: the versions of a tree, and which one is in use.
//!
//! ```text
//! DEST/current            a symbolic link to versions/ID: what people read
//! DEST/versions/ID/       whole trees, and nothing but whole ones
//! DEST/manifests/ID       what each of them has to be
//! DEST/incoming/ID/       being built: tree and manifest
//! DEST/trash/             being removed
//! DEST/lock               held by the receiver that works here
//! ```
//!
//! A version appears under its name in one rename, when everything in it is on the disk; `current` changes in one rename, when the version is. At
//! whatever moment the receiver is killed, or the machine: `current` leads to a whole tree.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};

use super::manifest::{Id, Manifest};
use super::tree::{flush_directory, remove};

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system says no.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another receiver works there.
    #[error("another receiver works in {}", path.display())]
    Taken {
        /// The store.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} is not empty and no store of replicated versions; name another directory", path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
    },
}

/// An error with what was tried on what.
pub(super) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StoreError + use<'a> {
    move |source| StoreError::File { action, path: path.to_owned(), source }
}

/// A receiver's directory, locked.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// Held, not read.
    _lock: File,
}

const PARTS: [&str; 4] = ["versions", "manifests", "incoming", "trash"];

impl Store {
    /// Opens the store at `root`, or makes one there if nothing is, and clears away what an interruption left.
    ///
    /// # Errors
    /// If the directory cannot be used, or another receiver uses it.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let root = std::path::absolute(root).map_err(failed("find", root))?;
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o755).create(&root).map_err(failed("create", &root))?;
        let path = root.join("lock");
        if !path.exists() && fs::read_dir(&root).map_err(failed("read", &root))?.next().is_some() {
            return Err(StoreError::Foreign { path: root });
        }
        let mut options = OpenOptions::new();
        let lock = options.write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(failed("open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::Taken { path: root }),
            Err(TryLockError::Error(error)) => return Err(failed("lock", &path)(error)),
        }
        let store = Store { root, _lock: lock };
        for part in PARTS {
            let path = store.root.join(part);
            builder.create(&path).map_err(failed("create", &path))?;
        }
        store.clear("trash")?;
        let link = store.root.join("current.new");
        remove(&link).map_err(failed("remove", &link))?;
        flush_directory(&store.root).map_err(failed("flush", &store.root))?;
        Ok(store)
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The version in use.
    pub fn current(&self) -> Option<String> {
        current(&self.root)
    }

    /// The tree of a version.
    pub fn version(&self, name: &str) -> PathBuf {
        self.root.join("versions").join(name)
    }

    /// Names of the whole versions, in no order that means anything.
    pub fn versions(&self) -> Result<Vec<String>, StoreError> {
        self.names("versions")
    }

    fn names(&self, part: &str) -> Result<Vec<String>, StoreError> {
        let path = self.root.join(part);
        let mut names = Vec::new();
        for item in fs::read_dir(&path).map_err(failed("read", &path))? {
            let name = item.map_err(failed("read", &path))?.file_name();
            names.extend(name.to_str().map(ToOwned::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// What a version has to be; none if that is not known.
    pub fn manifest(&self, name: &str) -> Option<Manifest> {
        manifest(&self.root, name)
    }

    /// The directory in which a tree is being built, with its manifest in it from now on.
    pub fn begin(&self, id: Id, encoded: &[u8]) -> Result<Incoming, StoreError> {
        let path = self.root.join("incoming").join(id.to_string());
        let tree = path.join("tree");
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&tree).map_err(failed("create", &tree))?;
        write_whole(&path.join("manifest"), encoded)?;
        Ok(Incoming { path, tree })
    }

    /// Trees that were begun and are not `id`, with what they are to become.
    pub fn others_begun(&self, id: Id) -> Result<Vec<(PathBuf, Manifest)>, StoreError> {
        let own = id.to_string();
        let names = self.names("incoming")?.into_iter().filter(|name| *name != own);
        let begun = names.filter_map(|name| {
            let path = self.root.join("incoming").join(name);
            let manifest = Manifest::decode(&fs::read(path.join("manifest")).ok()?).ok()?;
            Some((path.join("tree"), manifest))
        });
        Ok(begun.collect())
    }

    /// Makes a finished tree a version. Its content is on the disk already.
    pub fn add_version(&self, id: Id, incoming: &Incoming, encoded: &[u8]) -> Result<String, StoreError> {
        let base = id.to_string();
        // One of this name that is there was looked at and is not as it should be.
        let name = (1u64..)
            .map(|number| if number == 1 { base.clone() } else { format!("{base}-{number}") })
            .find(|name| !self.version(name).exists())
            .unwrap_or(base);
        let manifests = self.root.join("manifests");
        write_whole(&manifests.join(&name), encoded)?;
        let to = self.version(&name);
        fs::rename(&incoming.tree, &to).map_err(failed("rename", &incoming.tree))?;
        let versions = self.root.join("versions");
        flush_directory(&versions).map_err(failed("flush", &versions))?;
        Ok(name)
    }

    /// Switches over to a version.
    pub fn switch(&self, name: &str) -> Result<(), StoreError> {
        let new = self.root.join("current.new");
        remove(&new).map_err(failed("remove", &new))?;
        symlink(Path::new("versions").join(name), &new).map_err(failed("create", &new))?;
        // Whoever looks sees the old version or the new one.
        fs::rename(&new, self.root.join("current")).map_err(failed("rename", &new))?;
        flush_directory(&self.root).map_err(failed("flush", &self.root))?;
        // Its age counts from now on.
        let manifest = self.root.join("manifests").join(name);
        if let Ok(file) = File::open(&manifest) {
            let now = rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = rustix::fs::Timestamps { last_access: now, last_modification: now };
            rustix::fs::futimens(&file, &times).map_err(|error| failed("write", &manifest)(error.into()))?;
        }
        Ok(())
    }

    /// Removes what is not needed any more: unfinished trees, and versions but the one in use and the `keep` last ones before it.
    pub fn prune(&self, keep: usize) -> Result<(), StoreError> {
        for name in self.names("incoming")? {
            self.discard("incoming", &name)?;
        }
        let current = self.current();
        let mut old: Vec<_> =
            self.versions()?.into_iter().filter(|name| Some(name) != current.as_ref()).collect();
        let age = |name: &String| {
            fs::metadata(self.root.join("manifests").join(name)).and_then(|data| data.modified()).ok()
        };
        old.sort_by_key(|name| std::cmp::Reverse(age(name)));
        for name in old.iter().skip(keep) {
            self.discard("versions", name)?;
        }
        let versions = self.versions()?;
        for name in self.names("manifests")?.iter().filter(|name| !versions.contains(name)) {
            self.discard("manifests", name)?;
        }
        self.clear("trash")
    }

    /// Takes something away in one move, so that what has a name here is whole.
    fn discard(&self, part: &str, name: &str) -> Result<(), StoreError> {
        let from = self.root.join(part).join(name);
        let to = self.root.join("trash").join(format!("{part}-{name}"));
        remove(&to).map_err(failed("remove", &to))?;
        // A directory that its owner may not write cannot change its parent.
        if from.is_dir() {
            use std::os::unix::fs::PermissionsExt as _;
            let _ = fs::set_permissions(&from, fs::Permissions::from_mode(0o700));
        }
        fs::rename(&from, &to).map_err(failed("rename", &from))
    }

    fn clear(&self, part: &str) -> Result<(), StoreError> {
        for name in self.names(part)? {
            let path = self.root.join(part).join(name);
            remove(&path).map_err(failed("remove", &path))?;
        }
        Ok(())
    }
}

/// A tree that is being built.
#[derive(Debug)]
pub struct Incoming {
    path: PathBuf,
    /// The tree's directory.
    pub tree: PathBuf,
}

impl Incoming {
    /// Removes it.
    pub fn discard(&self) -> Result<(), StoreError> {
        remove(&self.path).map_err(failed("remove", &self.path))
    }
}

/// The version in use in the store at `root`.
pub fn current(root: &Path) -> Option<String> {
    let target = fs::read_link(root.join("current")).ok()?;
    target.file_name().and_then(OsStr::to_str).map(ToOwned::to_owned)
}

/// What a version of the store at `root` has to be; none if that is not known.
pub fn manifest(root: &Path, name: &str) -> Option<Manifest> {
    Manifest::decode(&fs::read(root.join("manifests").join(name)).ok()?).ok()
}

/// Writes a file that is there whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let mut file = File::create(&part).map_err(failed("create", &part))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("write", &part))?;
    fs::rename(&part, path).map_err(failed("rename", &part))?;
    let directory = path.parent().unwrap_or(path);
    flush_directory(directory).map_err(failed("flush", directory))
}
