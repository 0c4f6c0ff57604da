//! A file, directory or link of the simulated disk: its state in the cache and on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use warpline_core::random::Stream;

use crate::{Kind, Metadata, Time};

/// Bytes of a page, which is written to the disk as a whole or not at all.
pub(super) const PAGE: u64 = 4096;

/// A change of names, which reaches the disk in one step.
#[derive(Clone, Debug)]
pub(super) struct Change {
    /// A removed name, and its object.
    pub(super) remove: Option<(u64, OsString, u64)>,
    /// An added name, and its object.
    pub(super) add: Option<(u64, OsString, u64)>,
}

impl Change {
    /// The directories whose names it changes.
    pub(super) fn directories(&self) -> impl Iterator<Item = u64> + use<> {
        let of = |part: &Option<(u64, OsString, u64)>| part.as_ref().map(|(directory, _, _)| *directory);
        [of(&self.remove), of(&self.add)].into_iter().flatten()
    }
}

/// A file, directory or link.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) what: What,
    pub(super) mode: u32,
    pub(super) modified: Time,
    disk_mode: u32,
    disk_modified: Time,
    /// Whether the mode or time differs from the disk's.
    pub(super) changed: bool,
    /// Whether background writing failed and has not been reported yet.
    pub(super) failed: bool,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    File(Content),
    Directory { names: BTreeMap<OsString, u64>, disk: BTreeMap<OsString, u64> },
    Link { target: OsString },
}

/// A file's bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) size: u64,
    disk_size: u64,
    /// Pages in the cache.
    cache: BTreeMap<u64, Vec<u8>>,
    /// Pages that differ from the disk's; those that are not in the cache became holes.
    dirty: BTreeSet<u64>,
    disk: BTreeMap<u64, Vec<u8>>,
}

impl What {
    pub(super) fn directory() -> Self {
        What::Directory { names: BTreeMap::new(), disk: BTreeMap::new() }
    }
}

impl Node {
    pub(super) fn new(what: What, mode: u32, now: Time, settled: bool) -> Self {
        let (disk_mode, disk_modified) = if settled { (mode, now) } else { (0, Time::default()) };
        Node { what, mode, modified: now, disk_mode, disk_modified, changed: !settled, failed: false }
    }

    pub(super) fn kind(&self) -> Kind {
        match self.what {
            What::File(_) => Kind::File,
            What::Directory { .. } => Kind::Directory,
            What::Link { .. } => Kind::Link,
        }
    }

    pub(super) fn metadata(&self) -> Metadata {
        let (size, room) = match &self.what {
            What::File(content) => (content.size, content.room()),
            _ => (0, 0),
        };
        Metadata { kind: self.kind(), mode: self.mode, size, room, modified: self.modified }
    }

    pub(super) fn disk_names(&mut self) -> Option<&mut BTreeMap<OsString, u64>> {
        match &mut self.what {
            What::Directory { disk, .. } => Some(disk),
            _ => None,
        }
    }

    pub(super) fn content(&mut self) -> Option<&mut Content> {
        match &mut self.what {
            What::File(content) => Some(content),
            _ => None,
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        matches!(&self.what, What::File(content) if !content.dirty.is_empty())
    }

    /// Writes mode and time to the disk.
    pub(super) fn settle_attributes(&mut self) {
        (self.disk_mode, self.disk_modified, self.changed) = (self.mode, self.modified, false);
    }

    /// Writes dirty pages; if that `fails`, only a random part of them, and all count as written.
    pub(super) fn write_back(&mut self, random: &mut Stream, fails: bool) {
        if let Some(content) = self.content() {
            content.write_back(random, fails);
        }
    }

    /// Reverts to the state of the disk; a random part of the unwritten changes survives.
    pub(super) fn lose_power(&mut self, random: &mut Stream) {
        if self.changed && random.chance(0.5) {
            (self.disk_mode, self.disk_modified) = (self.mode, self.modified);
        }
        (self.mode, self.modified, self.changed) = (self.disk_mode, self.disk_modified, false);
        self.failed = false;
        match &mut self.what {
            What::File(content) => content.lose_power(random),
            What::Directory { names, disk } => names.clone_from(disk),
            What::Link { .. } => {}
        }
    }
}

impl Content {
    fn page(&self, number: u64) -> Option<&Vec<u8>> {
        match self.cache.get(&number) {
            None if !self.dirty.contains(&number) => self.disk.get(&number),
            found => found,
        }
    }

    fn room(&self) -> u64 {
        let clean =
            self.disk.keys().filter(|page| !self.dirty.contains(page) && !self.cache.contains_key(page));
        (self.cache.len() + clean.count()) as u64 * PAGE
    }

    /// How many of `length` bytes can be written at this position if the content may take `room` more bytes of disk space.
    pub(super) fn fits(&self, position: u64, length: usize, room: u64) -> usize {
        let end = position + length as u64;
        let (mut at, mut pages) = (position, room / PAGE);
        while at < end {
            let page = at / PAGE;
            if self.page(page).is_none() {
                if pages == 0 {
                    break;
                }
                pages -= 1;
            }
            at = ((page + 1) * PAGE).min(end);
        }
        (at - position) as usize
    }

    pub(super) fn read(&mut self, position: u64, into: &mut [u8]) -> usize {
        let left = self.size.saturating_sub(position).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < left {
            let at = position + done as u64;
            let (number, offset) = (at / PAGE, (at % PAGE) as usize);
            let take = (PAGE as usize - offset).min(left - done);
            match self.page(number).cloned() {
                Some(page) => {
                    into[done..done + take].copy_from_slice(&page[offset..offset + take]);
                    self.cache.entry(number).or_insert(page);
                }
                None => into[done..done + take].fill(0),
            }
            done += take;
        }
        left
    }

    pub(super) fn write(&mut self, position: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = position + done as u64;
            let (number, offset) = (at / PAGE, (at % PAGE) as usize);
            let take = (PAGE as usize - offset).min(bytes.len() - done);
            let mut page = self.page(number).cloned().unwrap_or_else(|| vec![0; PAGE as usize]);
            page[offset..offset + take].copy_from_slice(&bytes[done..done + take]);
            self.cache.insert(number, page);
            self.dirty.insert(number);
            done += take;
        }
        self.size = self.size.max(position + bytes.len() as u64);
    }

    pub(super) fn set_size(&mut self, size: u64) {
        if size < self.size {
            let first = size.div_ceil(PAGE);
            let gone: BTreeSet<u64> =
                self.cache.range(first..).chain(self.disk.range(first..)).map(|(page, _)| *page).collect();
            for page in gone {
                self.cache.remove(&page);
                self.dirty.insert(page);
            }
            if !size.is_multiple_of(PAGE)
                && let Some(mut page) = self.page(size / PAGE).cloned()
            {
                page[(size % PAGE) as usize..].fill(0);
                self.cache.insert(size / PAGE, page);
                self.dirty.insert(size / PAGE);
            }
        }
        self.size = size;
    }

    /// The next page at or after `position` that is not a hole, and where the next hole is.
    pub(super) fn next_data(&self, position: u64, size: u64) -> (u64, u64) {
        let size = size.min(self.size);
        let is_data = |page: u64| self.page(page).is_some();
        let end = size.div_ceil(PAGE);
        let Some(first) = (position / PAGE..end).find(|page| is_data(*page)) else { return (size, size) };
        let stop = (first..end).find(|page| !is_data(*page)).unwrap_or(end);
        ((first * PAGE).max(position), (stop * PAGE).min(size))
    }

    fn settle(&mut self, page: u64) {
        match self.cache.get(&page) {
            Some(data) => drop(self.disk.insert(page, data.clone())),
            None => drop(self.disk.remove(&page)),
        }
    }

    fn write_back(&mut self, random: &mut Stream, fails: bool) {
        for page in std::mem::take(&mut self.dirty) {
            if !fails || random.chance(0.5) {
                self.settle(page);
            } else {
                // The hole is only in memory so far.
                self.cache.entry(page).or_insert_with(|| vec![0; PAGE as usize]);
            }
        }
        self.disk_size = self.size;
    }

    /// Drops clean pages from the cache.
    pub(super) fn forget(&mut self) {
        let dirty = &self.dirty;
        self.cache.retain(|page, _| dirty.contains(page));
    }

    fn lose_power(&mut self, random: &mut Stream) {
        for page in std::mem::take(&mut self.dirty) {
            if random.chance(0.5) {
                self.settle(page);
            }
        }
        if random.chance(0.5) {
            self.disk_size = self.size;
        }
        self.size = self.disk_size;
        self.cache.clear();
        let end = self.size.div_ceil(PAGE);
        self.disk.retain(|page, _| *page < end);
    }
}
