//! Open directories and files of the simulated disk.

use std::ffi::{OsStr, OsString};
use std::fs::TryLockError;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Component, Path};

use super::node::{Change, Node, What};
use super::{Operation, SimDisk, State};
use crate::{Directory, DiskFile, Kind, Metadata, Open, Time};

/// An open directory of a [`SimDisk`].
#[derive(Clone, Debug)]
pub struct SimDirectory {
    disk: SimDisk,
    number: u64,
}

/// An open file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    number: u64,
    position: u64,
}

/// Makes removals wait, as [`SimDirectory::hold_removals`] says, until it is dropped.
#[derive(Debug)]
#[must_use = "when it is dropped, removals go on"]
pub struct Hold(SimDisk);

impl Hold {
    /// Whether a removal waits.
    pub fn is_reached(&self) -> bool {
        self.0.state().waits
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Most links that are followed one after another.
const MOST_LINKS: u32 = 40;

/// A generic input/output error.
fn failed() -> io::Error {
    io::ErrorKind::Other.into()
}

/// The directory of a path's last name, and that name; `None` for the directory itself. Links are not followed.
fn parent<'a>(state: &mut State, from: u64, path: &'a Path) -> io::Result<(u64, Option<&'a OsStr>)> {
    let mut names = Vec::new();
    let mut at = from;
    for part in path.components() {
        match part {
            Component::RootDir => at = super::ROOT,
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
    }
    let Some((last, before)) = names.split_last() else { return Ok((at, None)) };
    for name in before {
        at = *state.names(at)?.get(*name).ok_or(io::ErrorKind::NotFound)?;
    }
    state.names(at)?;
    Ok((at, Some(last)))
}

fn find(state: &mut State, from: u64, path: &Path) -> io::Result<u64> {
    match parent(state, from, path)? {
        (at, None) => Ok(at),
        (at, Some(name)) => state.names(at)?.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

impl SimDirectory {
    pub(super) fn new(disk: SimDisk, number: u64) -> Self {
        SimDirectory { disk, number }
    }

    /// Makes every removal of a name in this directory wait until the result is dropped; what is removed in other directories does not wait. This works for
    /// one directory of a disk at a time.
    pub fn hold_removals(&self) -> Hold {
        self.disk.state().held = Some(self.number);
        Hold(self.disk.clone())
    }

    /// Creates an object under a free name.
    fn create(&self, path: &Path, what: What, mode: u32) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.begin(Operation::Create)?;
        let (at, name) = parent(&mut state, self.number, path)?;
        let name = name.ok_or(io::ErrorKind::AlreadyExists)?;
        if state.names(at)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let now = state.now();
        let number = state.add(Node::new(what, mode, now, false));
        state.change(Change { remove: None, add: Some((at, name.to_owned(), number)) })?;
        Ok(number)
    }

    fn remove(&self, path: &Path, directory: bool) -> io::Result<()> {
        let mut state = self.disk.state();
        if let Ok((at, _)) = parent(&mut state, self.number, path) {
            state = self.disk.pass(state, at);
        }
        state.begin(Operation::Remove)?;
        let (at, name) = parent(&mut state, self.number, path)?;
        let name = name.ok_or(io::ErrorKind::InvalidInput)?;
        let number = find(&mut state, at, Path::new(name))?;
        match &state.node(number)?.what {
            What::Directory { names, .. } if directory && names.is_empty() => {}
            What::Directory { .. } if directory => return Err(io::ErrorKind::DirectoryNotEmpty.into()),
            What::Directory { .. } => return Err(io::ErrorKind::IsADirectory.into()),
            _ if directory => return Err(io::ErrorKind::NotADirectory.into()),
            _ => {}
        }
        state.change(Change { remove: Some((at, name.to_owned(), number)), add: None })
    }

    fn attribute(&self, number: u64, change: impl FnOnce(&mut Node)) -> io::Result<()> {
        attribute(&self.disk, number, |_, node| change(node))
    }
}

/// Changes a mode or a time.
fn attribute(disk: &SimDisk, number: u64, change: impl FnOnce(Time, &mut Node)) -> io::Result<()> {
    let mut state = disk.state();
    state.begin(Operation::Attribute)?;
    let now = state.now();
    let node = state.node(number)?;
    change(now, node);
    node.changed = true;
    Ok(())
}

impl Directory for SimDirectory {
    type File = SimFile;

    fn open_directory(&self, path: &Path) -> io::Result<Self> {
        let mut state = self.disk.state();
        state.begin(Operation::Read)?;
        let number = find(&mut state, self.number, path)?;
        state.names(number)?;
        Ok(SimDirectory { disk: self.disk.clone(), number })
    }

    fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.create(path, What::directory(), mode).map(|_| ())
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<SimFile> {
        let there = {
            let mut state = self.disk.state();
            if state.down.is_some() {
                return Err(super::down());
            }
            match find(&mut state, self.number, path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                other => Some(other?),
            }
        };
        let number = match (how, there) {
            (Open::New(mode) | Open::ReadWrite(mode) | Open::Empty(mode), None)
            | (Open::New(mode), Some(_)) => {
                self.create(path, What::File(super::node::Content::default()), mode)?
            }
            (Open::Read, None) => return Err(io::ErrorKind::NotFound.into()),
            (_, Some(number)) => {
                let mut state = self.disk.state();
                state.begin(if matches!(how, Open::Empty(_)) {
                    Operation::Write
                } else {
                    Operation::Read
                })?;
                let content = state.node(number)?.content().ok_or(io::ErrorKind::InvalidInput)?;
                if matches!(how, Open::Empty(_)) {
                    content.set_size(0);
                }
                number
            }
        };
        Ok(SimFile { disk: self.disk.clone(), number, position: 0 })
    }

    fn look(&self, path: &Path) -> io::Result<Metadata> {
        let mut state = self.disk.state();
        state.begin(Operation::Read)?;
        let number = find(&mut state, self.number, path)?;
        Ok(state.node(number)?.metadata())
    }

    fn kind_behind(&self, path: &Path) -> io::Result<Kind> {
        let mut state = self.disk.state();
        state.begin(Operation::Read)?;
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let number = find(&mut state, self.number, &path)?;
            let node = state.node(number)?;
            let What::Link { target } = &node.what else { return Ok(node.kind()) };
            // It is relative to the directory of the link.
            path.set_file_name(target);
        }
        Err(failed())
    }

    fn names(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut state = self.disk.state();
        state.begin(Operation::Read)?;
        let number = find(&mut state, self.number, path)?;
        Ok(state.names(number)?.keys().cloned().collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.disk.state();
        state.begin(Operation::Rename)?;
        let (at, name) = parent(&mut state, self.number, from)?;
        let name = name.ok_or(io::ErrorKind::InvalidInput)?;
        let number = find(&mut state, at, Path::new(name))?;
        let (to_at, to_name) = parent(&mut state, self.number, to)?;
        let to_name = to_name.ok_or(io::ErrorKind::InvalidInput)?;
        if let Ok(there) = find(&mut state, to_at, Path::new(to_name))
            && let What::Directory { names, .. } = &state.node(there)?.what
            && !names.is_empty()
        {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(Change {
            remove: Some((at, name.to_owned(), number)),
            add: Some((to_at, to_name.to_owned(), number)),
        })
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.remove(path, false)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        self.remove(path, true)
    }

    fn link(&self, target: &OsStr, path: &Path) -> io::Result<()> {
        self.create(path, What::Link { target: target.to_owned() }, 0o777).map(|_| ())
    }

    fn read_link(&self, path: &Path) -> io::Result<OsString> {
        let mut state = self.disk.state();
        state.begin(Operation::Read)?;
        let number = find(&mut state, self.number, path)?;
        match &state.node(number)?.what {
            What::Link { target } => Ok(target.clone()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn set_mode_of(&self, path: &Path, mode: u32) -> io::Result<()> {
        let number = find(&mut self.disk.state(), self.number, path)?;
        self.attribute(number, |node| node.mode = mode)
    }

    fn set_time_of(&self, path: &Path, time: Time) -> io::Result<()> {
        let number = find(&mut self.disk.state(), self.number, path)?;
        self.attribute(number, |node| node.modified = time)
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        self.attribute(self.number, |node| node.mode = mode)
    }

    fn set_time(&self, time: Time) -> io::Result<()> {
        self.attribute(self.number, |node| node.modified = time)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let begun = state.begin(Operation::FlushNames);
        if state.down.is_none() {
            state.flush_names(self.number, begun.is_err());
        }
        begun
    }

    fn free(&self) -> io::Result<u64> {
        Ok(self.disk.state().free())
    }
}

impl SimFile {
    /// Takes the next number for an operation on the node.
    fn with<T>(&self, operation: Operation, act: impl FnOnce(&mut Node) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.disk.state();
        state.begin(operation)?;
        let now = state.now();
        let node = state.node(self.number)?;
        if operation == Operation::Write {
            node.modified = now;
            node.changed = true;
        }
        act(node)
    }
}

impl DiskFile for SimFile {
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.with(Operation::Write, |node| {
            node.content().ok_or_else(failed)?.set_size(size);
            Ok(())
        })
    }

    fn look(&self) -> io::Result<Metadata> {
        self.with(Operation::Read, |node| Ok(node.metadata()))
    }

    fn set_mode(&self, mode: u32) -> io::Result<()> {
        attribute(&self.disk, self.number, |_, node| node.mode = mode)
    }

    fn set_time(&self, time: Option<Time>) -> io::Result<()> {
        attribute(&self.disk, self.number, |now, node| node.modified = time.unwrap_or(now))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        let begun = state.begin(Operation::Flush);
        if state.down.is_some() {
            return begun;
        }
        let State { nodes, random, .. } = &mut *state;
        let Some(node) = nodes.get_mut(&self.number) else { return Err(failed()) };
        node.write_back(random, begun.is_err());
        // A background error is reported once.
        let earlier = std::mem::take(&mut node.failed);
        begun?;
        if earlier {
            return Err(failed());
        }
        node.settle_attributes();
        Ok(())
    }

    fn forget(&self) -> io::Result<()> {
        self.with(Operation::Read, |node| {
            node.content().ok_or_else(failed)?.forget();
            Ok(())
        })
    }

    fn next_data(&self, position: u64, size: u64) -> io::Result<(u64, u64)> {
        self.with(Operation::Read, |node| {
            let content = node.content().ok_or_else(failed)?;
            let (start, end) = content.next_data(position, size);
            Ok(if start >= end { (size, size) } else { (start, end) })
        })
    }

    fn lock(&self) -> Result<(), TryLockError> {
        self.with(Operation::Read, |_| Ok(())).map_err(TryLockError::Error)
    }
}

impl Read for SimFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let position = self.position;
        let read =
            self.with(Operation::Read, |node| Ok(node.content().ok_or_else(failed)?.read(position, into)))?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for SimFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A long write is taken in parts, as by a system that is interrupted.
        let take = &bytes[..bytes.len().min(64 << 10)];
        let mut state = self.disk.state();
        let begun = state.begin(Operation::Write);
        if state.down.is_some() {
            return begun.map(|()| 0);
        }
        let fits = state.fits(self.number, self.position, take.len());
        let count = match begun {
            Ok(()) => fits,
            // A part of it may have been written.
            Err(_) => fits.min(state.random.below(take.len() as u64 + 1) as usize),
        };
        let now = state.now();
        let node = state.node(self.number)?;
        if count > 0 {
            node.content().ok_or_else(failed)?.write(self.position, &take[..count]);
        }
        begun?;
        if count == 0 && !take.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        (node.modified, node.changed) = (now, true);
        self.position += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for SimFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let size = || -> io::Result<u64> {
            let mut state = self.disk.state();
            let node = state.node(self.number)?;
            debug_assert_eq!(node.kind(), Kind::File);
            Ok(node.metadata().size)
        };
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => size()?.checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
