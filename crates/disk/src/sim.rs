//! A disk in memory that fails on request, for tests.
//!
//! It has a cache above the disk. Writes go to the cache; a flush moves a file's content, or the names in a directory, to the disk.
//! A loss of power clears the cache, but a random part of the unflushed changes (pages, sizes, modes, names) is on the disk all the same, in
//! any order. A rename is one step. A failed flush does what Linux does: it writes a part, and the rest counts as written from then on, is
//! read from the cache, and never reaches the disk. If the process is killed, no data is lost.
//!
//! Every operation has a number, from 0; [`SimDisk::inject`] sets a fault at a number. Random choices come from the seed.
//!
//! [`SimDisk::set_free`] makes the disk small. [`SimDirectory::hold_removals`] makes removals wait, so that a test can look at what others do
//! meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use warpline_core::random::{Stream, Streams};

use crate::{Kind, Time};

mod handles;
mod node;

pub use handles::{Hold, SimDirectory, SimFile};
use node::{Change, Node, What};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails, once, with an input/output error. A flush loses what it should have written.
    Fail,
    /// The disk is full for this many operations: those that need space fail, and so do flushes of data without space.
    Full(u64),
    /// The system fails to write a part of the cache in the background. A flush of that file reports it once.
    Background,
    /// The process is killed: every operation fails until [`SimDisk::restart`].
    Kill,
    /// The power fails: every operation fails until [`SimDisk::restart`], and unflushed changes may or may not be lost.
    PowerLoss,
}

/// The kind of an operation, to choose where a fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// Opens or reads something, or gets its metadata.
    Read,
    /// Writes to a file or changes its size.
    Write,
    /// Creates a name: of a file, directory or link.
    Create,
    /// Removes a name.
    Remove,
    /// Renames.
    Rename,
    /// Changes a mode or a time.
    Attribute,
    /// Flushes a file.
    Flush,
    /// Flushes a directory.
    FlushNames,
}

const ROOT: u64 = 0;

/// Bytes that are free on a disk without a capacity.
const PLENTY: u64 = 1 << 40;

#[derive(Clone, Debug)]
struct State {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    /// Unflushed changes of names, the oldest first.
    pending: Vec<Change>,
    random: Stream,
    done: Vec<Operation>,
    faults: BTreeMap<u64, Fault>,
    full_until: u64,
    down: Option<Fault>,
    clock: i64,
    /// Bytes that all files together may take.
    capacity: Option<u64>,
    /// The directory in which removals have to wait, and whether one does.
    held: Option<u64>,
    waits: bool,
}

/// What clones of a disk share.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes removals that may go on.
    released: Condvar,
}

/// The simulated disk. Clones share it; [`survivor`](Self::survivor) makes another disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Shared>);

fn down() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "this process has ended")
}

impl SimDisk {
    /// An empty disk with the random numbers of `seed`.
    pub fn new(seed: u64) -> Self {
        let root = Node::new(What::directory(), 0o755, Time::default(), true);
        Self::of(State {
            nodes: BTreeMap::from([(ROOT, root)]),
            next: ROOT + 1,
            pending: Vec::new(),
            random: Streams::new(seed).stream("disk"),
            done: Vec::new(),
            faults: BTreeMap::new(),
            full_until: 0,
            down: None,
            clock: 1_000,
            capacity: None,
            held: None,
            waits: false,
        })
    }

    fn of(state: State) -> Self {
        SimDisk(Arc::new(Shared { state: Mutex::new(state), released: Condvar::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while removals in this directory are held.
    fn pass<'a>(&'a self, state: MutexGuard<'a, State>, directory: u64) -> MutexGuard<'a, State> {
        let is_held = |state: &mut State| {
            let is_held = state.held == Some(directory);
            state.waits |= is_held;
            is_held
        };
        self.0.released.wait_while(state, is_held).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets removals go on.
    fn release(&self) {
        let mut state = self.state();
        state.held = None;
        state.waits = false;
        drop(state);
        self.0.released.notify_all();
    }

    /// The root directory, for the current process.
    pub fn root(&self) -> SimDirectory {
        SimDirectory::new(self.clone(), ROOT)
    }

    /// Makes `fault` happen at the operation with this number.
    pub fn inject(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// Gives the disk a capacity, so that `bytes` are free now. Until then it is never full by itself. Only the content of files that have a name
    /// takes room, in whole pages. A write takes as much as fits.
    pub fn set_free(&self, bytes: u64) {
        let mut state = self.state();
        let used = state.used();
        state.capacity = Some(used + bytes);
    }

    /// The operations so far.
    pub fn operations(&self) -> Vec<Operation> {
        self.state().done.clone()
    }

    /// Number of operations so far.
    pub fn count(&self) -> u64 {
        self.state().done.len() as u64
    }

    /// Whether the process was killed or the power failed.
    pub fn is_down(&self) -> bool {
        self.state().down.is_some()
    }

    /// Ends all faults and begins a new process. After a loss of power, only what survived is there.
    pub fn restart(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.full_until = 0;
        if state.down.take() == Some(Fault::PowerLoss) {
            state.lose_power();
        }
    }

    /// A disk with what would survive if the power failed now. This disk continues.
    pub fn survivor(&self) -> SimDisk {
        let mut state = self.state();
        // Each copy has its own random outcome.
        let seed = state.random.next_u64();
        let mut copy = state.clone();
        copy.random = Streams::new(seed).stream("survivor");
        copy.faults.clear();
        copy.full_until = 0;
        copy.down = None;
        copy.held = None;
        copy.waits = false;
        copy.lose_power();
        Self::of(copy)
    }
}

impl State {
    /// Takes the next number; returns an error if the operation has to fail.
    fn begin(&mut self, operation: Operation) -> io::Result<()> {
        if self.down.is_some() {
            return Err(down());
        }
        let number = self.done.len() as u64;
        self.done.push(operation);
        self.clock += 1;
        match self.faults.get(&number).copied() {
            None => {}
            Some(Fault::Fail) => {
                return Err(io::Error::from_raw_os_error(5));
            }
            Some(Fault::Full(count)) => self.full_until = number + count,
            Some(Fault::Background) => self.fail_in_background(),
            Some(fault @ (Fault::Kill | Fault::PowerLoss)) => {
                self.down = Some(fault);
                return Err(down());
            }
        }
        let needs_room = !matches!(operation, Operation::Read | Operation::Remove | Operation::Attribute);
        if needs_room && number < self.full_until && operation != Operation::Rename {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn now(&self) -> Time {
        Time { seconds: self.clock, nanos: 0 }
    }

    fn add(&mut self, node: Node) -> u64 {
        let number = self.next;
        self.next += 1;
        self.nodes.insert(number, node);
        number
    }

    fn node(&mut self, number: u64) -> io::Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn names(&mut self, number: u64) -> io::Result<&mut BTreeMap<OsString, u64>> {
        match &mut self.node(number)?.what {
            What::Directory { names, .. } => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Changes names in the cache, and records the change for the disk.
    fn change(&mut self, change: Change) -> io::Result<()> {
        if let Some((directory, name, _)) = &change.remove {
            self.names(*directory)?.remove(name);
        }
        if let Some((directory, name, number)) = &change.add {
            self.names(*directory)?.insert(name.clone(), *number);
        }
        let now = self.now();
        for directory in change.directories() {
            let node = self.node(directory)?;
            node.modified = now;
            node.changed = true;
        }
        self.pending.push(change);
        Ok(())
    }

    /// Changes names on the disk.
    fn settle(&mut self, change: &Change) {
        if let Some((directory, name, number)) = &change.remove
            && let Some(names) = self.nodes.get_mut(directory).and_then(Node::disk_names)
            && names.get(name) == Some(number)
        {
            names.remove(name);
        }
        if let Some((directory, name, number)) = &change.add {
            // A link's content goes with its name.
            if let Some(node) = self.nodes.get_mut(number)
                && matches!(node.what, What::Link { .. })
            {
                node.settle_attributes();
            }
            if let Some(names) = self.nodes.get_mut(directory).and_then(Node::disk_names) {
                names.insert(name.clone(), *number);
            }
        }
    }

    /// Flushes a directory's names.
    fn flush_names(&mut self, number: u64, fails: bool) {
        let (of_it, others): (Vec<Change>, Vec<Change>) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|change| change.directories().any(|it| it == number));
        self.pending = others;
        for change in of_it {
            // A failed flush leaves each change written, forgotten, or still to be written.
            match if fails { self.random.below(3) } else { 0 } {
                0 => self.settle(&change),
                1 => {}
                _ => self.pending.push(change),
            }
        }
        if !fails && let Some(node) = self.nodes.get_mut(&number) {
            node.settle_attributes();
            let links: Vec<u64> = match &node.what {
                What::Directory { names, .. } => names.values().copied().collect(),
                _ => Vec::new(),
            };
            for link in links {
                if let Some(node) = self.nodes.get_mut(&link).filter(|node| node.kind() == Kind::Link) {
                    node.settle_attributes();
                }
            }
        }
    }

    /// Writes some of the dirty pages of a random file. The rest is lost, which the next flush reports.
    fn fail_in_background(&mut self) {
        let dirty: Vec<u64> =
            self.nodes.iter().filter(|(_, node)| node.is_dirty()).map(|(number, _)| *number).collect();
        let chosen = self.random.below(dirty.len() as u64) as usize;
        if let Some(node) = dirty.get(chosen).and_then(|number| self.nodes.get_mut(number)) {
            node.write_back(&mut self.random, true);
            node.failed = true;
        }
    }

    fn lose_power(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            if self.random.chance(0.5) {
                self.settle(&change);
            }
        }
        for node in self.nodes.values_mut() {
            node.lose_power(&mut self.random);
        }
        // Objects without a name are gone.
        let named = self.named();
        self.nodes.retain(|number, _| named.contains(number));
    }

    /// The objects that have a name, and the root.
    fn named(&self) -> BTreeSet<u64> {
        let mut found = BTreeSet::from([ROOT]);
        let mut ahead = vec![ROOT];
        while let Some(number) = ahead.pop() {
            let Some(What::Directory { names, .. }) = self.nodes.get(&number).map(|node| &node.what) else {
                continue;
            };
            ahead.extend(names.values().filter(|number| found.insert(**number)));
        }
        found
    }

    /// Bytes that the content of files takes.
    fn used(&self) -> u64 {
        let named = self.named();
        named.iter().filter_map(|number| self.nodes.get(number)).map(|node| node.metadata().room).sum()
    }

    /// Bytes that files may still take.
    fn free(&self) -> u64 {
        self.capacity.map_or(PLENTY, |capacity| capacity.saturating_sub(self.used()))
    }

    /// How many of `length` bytes a file takes at this position before the disk is full.
    fn fits(&self, file: u64, position: u64, length: usize) -> usize {
        match self.nodes.get(&file).map(|node| &node.what) {
            Some(What::File(content)) if self.capacity.is_some() => {
                content.fits(position, length, self.free())
            }
            _ => length,
        }
    }
}
