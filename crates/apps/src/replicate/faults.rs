//! Tests of a receiver whose disk fails: it never reports success wrongly, and `current` always leads to a complete tree.
//!
//! The disk is simulated. Each push meets faults at chosen operations: failed writes, flushes and renames, a full disk, failed background
//! writing, kills, losses of power. After each push, code independent of the tested code checks what would survive a loss of power.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use warpline_core::random::Streams;
use warpline_disk::sim::{Fault, Operation, SimDirectory, SimDisk};
use warpline_disk::{Directory as _, Kind as What};

use super::build::{BuildError, Built, Options, Source, build};
use super::manifest::{Chunk, Entry, Id, Kind, Manifest};
use super::store::Store;

/// A tree as a reader finds it: the mode and time of every entry, with a file's bytes or a link's target.
type Found = BTreeMap<PathBuf, (What, u32, i64, Vec<u8>)>;

/// A tree and the source of its chunks.
#[derive(Clone)]
struct Sent {
    manifest: Manifest,
    encoded: Vec<u8>,
    found: Found,
    asked: std::collections::VecDeque<(u32, u32)>,
}

/// Bytes without a pattern, the same for the same seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut random = Streams::new(seed).stream("noise");
    (0..count).map(|_| random.next_u64() as u8).collect()
}

impl Sent {
    /// A tree with small and large files, an empty file, a hole, a link, and read-only directories. Each number gives a different tree; the
    /// trees have chunks in common.
    fn new(number: u64) -> Self {
        const CHUNK: usize = 5000;
        let directory = |path: &str, mode| (path.to_owned(), Kind::Directory { mode }, Vec::new());
        let file = |path: &str, mode, bytes: Vec<u8>| {
            let mut chunks: Vec<Chunk> = Vec::new();
            for piece in bytes.chunks(CHUNK) {
                let hash = piece.iter().any(|byte| *byte != 0).then(|| *blake3::hash(piece).as_bytes());
                match chunks.last_mut().filter(|last| last.hash.is_none() && hash.is_none()) {
                    Some(hole) => hole.length += piece.len() as u64,
                    None => chunks.push(Chunk { length: piece.len() as u64, hash }),
                }
            }
            (path.to_owned(), Kind::File { mode, chunks }, bytes)
        };
        let holey = [noise(number, CHUNK), vec![0; 4 * CHUNK], noise(number + 1, CHUNK)].concat();
        let entries = [
            directory("", 0o755),
            directory("a", 0o755),
            file("a/big", 0o644, [noise(number, 3 * CHUNK), noise(99, CHUNK)].concat()),
            directory("a/closed", 0o555),
            file("a/closed/small", 0o400, noise(number + 7, 10)),
            file("empty", 0o644, Vec::new()),
            file("holey", 0o600, holey),
            ("link".to_owned(), Kind::Link { target: b"a/big".to_vec() }, b"a/big".to_vec()),
        ];
        let mut found = Found::new();
        let mut all = Vec::new();
        for (path, kind, bytes) in entries {
            let (what, mode) = match &kind {
                Kind::Directory { mode } => (What::Directory, *mode),
                Kind::File { mode, .. } => (What::File, *mode),
                Kind::Link { .. } => (What::Link, 0o777),
            };
            let mtime = 1_000_000 + number as i64;
            found.insert(PathBuf::from(&path), (what, mode.into(), mtime, bytes));
            all.push(Entry { path: path.into_bytes(), mtime, mtime_ns: 0, kind });
        }
        let manifest = Manifest { entries: all };
        manifest.check().unwrap();
        Sent { encoded: manifest.encode(), manifest, found, asked: std::collections::VecDeque::new() }
    }

    fn push(&mut self, disk: &SimDisk) -> Result<Built, BuildError> {
        let store = Store::open_at(disk.root(), PathBuf::from("/"))?;
        let (encoded, manifest) = (self.encoded.clone(), self.manifest.clone());
        self.asked.clear();
        let options = Options { keep: 1, verify: false };
        let built = build(&store, &encoded, &manifest, options, self, &mut |_| Ok(()))?;
        // Whether old versions can be removed is not what a push reports.
        let _ = store.clear_trash(&mut || true);
        Ok(built)
    }
}

impl Source for Sent {
    fn want(&mut self, entry: u32, chunk: u32) -> io::Result<()> {
        self.asked.push_back((entry, chunk));
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let (entry, chunk) = self.asked.pop_front().unwrap();
        let entry = &self.manifest.entries[entry as usize];
        let start: u64 = entry.chunks()[..chunk as usize].iter().map(|chunk| chunk.length).sum();
        let path = PathBuf::from(std::str::from_utf8(&entry.path).unwrap());
        let length = entry.chunks()[chunk as usize].length;
        Ok(Some(self.found[&path].3[start as usize..(start + length) as usize].to_vec()))
    }
}

/// The tree that `current` leads to on this disk; `None` without `current`.
fn current(disk: &SimDisk) -> Option<Found> {
    fn add(found: &mut Found, at: &SimDirectory, path: &Path) {
        let data = at.look(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let bytes = match data.kind {
            What::File => at.read(path).unwrap(),
            What::Link => at.read_link(path).unwrap().into_encoded_bytes(),
            _ => {
                for name in at.names(path).unwrap() {
                    add(found, at, &path.join(name));
                }
                Vec::new()
            }
        };
        found.insert(path.to_owned(), (data.kind, data.mode, data.modified.seconds, bytes));
    }
    let target = disk.root().read_link(Path::new("current")).ok()?;
    let mut found = Found::new();
    let root = disk.root().open_directory(Path::new(&target));
    add(
        &mut found,
        &root.unwrap_or_else(|error| panic!("current leads to {target:?}: {error}")),
        Path::new(""),
    );
    Some(found)
}

/// The history of a receiver: what was pushed, and what it reported.
struct Life {
    disk: SimDisk,
    trees: Vec<Sent>,
    /// Number of the tree that it last reported to be in use.
    promised: Option<usize>,
    /// Trees pushed since then, which may or may not be in use.
    possible: Vec<usize>,
    /// What happened, for debugging.
    log: Vec<String>,
}

impl Life {
    fn new(seed: u64, trees: &[Sent]) -> Self {
        let (disk, trees) = (SimDisk::new(seed), trees.to_vec());
        Life { disk, trees, promised: None, possible: Vec::new(), log: vec![format!("seed {seed}")] }
    }

    /// Pushes a tree, checks the report, and restarts the receiver if it was killed. Returns whether the push succeeded.
    fn push(&mut self, number: usize, faults: &[(u64, Fault)]) -> bool {
        let begin = self.disk.count();
        for &(at, fault) in faults {
            self.disk.inject(begin + at, fault);
        }
        let result = self.trees[number].push(&self.disk);
        let said = result.as_ref().map_or_else(ToString::to_string, |built| format!("{built:?}"));
        self.log.push(format!("push {number} with {faults:?}: {said}"));
        if result.is_ok() {
            (self.promised, self.possible) = (Some(number), Vec::new());
        } else {
            self.possible.push(number);
        }
        for _ in 0..3 {
            self.judge(&self.disk.survivor());
        }
        self.disk.restart();
        self.judge(&self.disk.clone());
        result.is_ok()
    }

    fn judge(&self, disk: &SimDisk) {
        let found = current(disk);
        let allowed = self.possible.iter().copied().chain(self.promised);
        let is = match &found {
            None => self.promised.is_none(),
            Some(found) => allowed.into_iter().any(|number| self.trees[number].found == *found),
        };
        let names = |found: &Found| {
            let odd = |number: &usize| {
                let tree = &self.trees[*number].found;
                let differ = tree.iter().filter(|(path, what)| found.get(*path) != Some(what));
                differ.map(|(path, _)| path.clone().into_os_string()).collect::<Vec<OsString>>()
            };
            (0..self.trees.len()).map(|number| (number, odd(&number))).collect::<Vec<_>>()
        };
        assert!(
            is,
            "promised {:?}, possible {:?}; current {}: differs {:?}\n{}",
            self.promised,
            self.possible,
            if found.is_some() { "is none of them" } else { "is not there" },
            found.as_ref().map(names),
            self.log.join("\n")
        );
    }
}

/// Runs in one thread, so that the operations have the same numbers each time.
fn alone<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap().install(act)
}

#[test]
fn a_fault_at_any_operation_never_causes_a_false_success() {
    alone(|| {
        let trees = [Sent::new(1), Sent::new(2)];
        for (first, second) in [(0, 0), (0, 1)] {
            let kinds = [
                Fault::Fail,
                Fault::Full(1),
                Fault::Full(40),
                Fault::Background,
                Fault::Kill,
                Fault::PowerLoss,
            ];
            for fault in kinds {
                for number in 0.. {
                    let mut life = Life::new(number, &trees);
                    // The second push finds another version in use, or the same one.
                    if first != second {
                        assert!(life.push(first, &[]));
                    }
                    let before = life.disk.count();
                    life.push(second, &[(number, fault)]);
                    if life.disk.count() - before <= number {
                        assert!(number > 100, "{number} operations are too few");
                        break;
                    }
                    // A second push, on a healthy disk, succeeds.
                    assert!(life.push(second, &[]), "{}", life.log.join("\n"));
                }
            }
        }
    });
}

/// Numbers of the flushes among the operations of a first push.
fn flushes_of(tree: &mut Sent) -> Vec<u64> {
    let healthy = SimDisk::new(1);
    tree.push(&healthy).unwrap();
    let is_flush = |operation| matches!(operation, Operation::Flush | Operation::FlushNames);
    (0u64..)
        .zip(healthy.operations())
        .filter(|(_, operation)| is_flush(*operation))
        .map(|(number, _)| number)
        .collect()
}

#[test]
fn a_version_whose_name_may_be_in_memory_only_is_not_used_after_another_push() {
    alone(|| {
        let trees = [Sent::new(1), Sent::new(2), Sent::new(3)];
        for number in flushes_of(&mut trees[1].clone()) {
            // What a failed flush loses is random.
            for seed in 0..8 {
                // Between the failed push and the last one, another tree is pushed, or an attempt with the same tree ends after it has begun.
                let kills = (0..6).map(|kill| (1, vec![(30 * kill, Fault::Kill)]));
                for (between, faults) in kills.chain([(2, Vec::new())]) {
                    let mut life = Life::new(seed, &trees);
                    life.push(1, &[(number, Fault::Fail)]);
                    life.push(between, &faults);
                    assert!(life.push(1, &[]), "{}", life.log.join("\n"));
                    assert!(life.push(2, &[]), "{}", life.log.join("\n"));
                    assert!(life.push(1, &[]), "{}", life.log.join("\n"));
                }
            }
        }
    });
}

#[test]
fn an_operation_that_fails_once_after_the_switch_does_not_cost_the_version_in_use() {
    alone(|| {
        let trees = [Sent::new(1), Sent::new(2)];
        let flush = flushes_of(&mut trees[0].clone())[20];
        for at in 0.. {
            let mut life = Life::new(at, &trees);
            // The flush of a file fails, so that the tree is in doubt.
            assert!(!life.push(0, &[(flush, Fault::Fail)]));
            let before = life.disk.count();
            life.push(0, &[(at, Fault::Fail)]);
            if life.disk.count() - before <= at {
                assert!(at > 100, "{at} operations are too few");
                break;
            }
        }
    });
}

/// Number of random faults in the tests; set the variable for more.
const FAULTS: u64 = 3000;

#[test]
fn random_faults_never_cause_a_false_success() {
    let faults = std::env::var("WARPLINE_FAULTS").map_or(FAULTS, |text| text.parse().unwrap());
    let (happened, done) = alone(|| {
        let trees: Vec<Sent> = (1..=4).map(Sent::new).collect();
        let (mut happened, mut done, mut seed) = (0, 0, 0);
        while happened < faults {
            seed += 1;
            let mut life = Life::new(seed, &trees);
            let mut random = Streams::new(seed).stream("faults");
            for _ in 0..6 {
                let number = random.below(trees.len() as u64) as usize;
                let chosen: Vec<(u64, Fault)> = (0..1 + random.below(3))
                    .map(|_| {
                        let fault = match random.below(6) {
                            0 | 1 => Fault::Fail,
                            2 => Fault::Full(1 + random.below(60)),
                            3 => Fault::Background,
                            4 => Fault::Kill,
                            _ => Fault::PowerLoss,
                        };
                        (random.below(420), fault)
                    })
                    .collect();
                let before = life.disk.count();
                done += u64::from(life.push(number, &chosen));
                let spent = life.disk.count() - before;
                happened += chosen.iter().filter(|(at, _)| *at < spent).count() as u64;
            }
            let last = random.below(trees.len() as u64) as usize;
            // A healthy disk may still have to tell, at the next flush of a file, that it could not write it before: for each fault once at most.
            assert!((0..=6 * 3).any(|_| life.push(last, &[])), "{}", life.log.join("\n"));
        }
        (happened, done)
    });
    eprintln!("{happened} faults; {done} pushes succeeded all the same, none falsely");
    assert!(done > happened / 40, "{done}: too few pushes finish for a meaningful test");
}

#[test]
fn after_a_failed_flush_data_is_written_again_but_not_fetched_again() {
    alone(|| {
        let mut tree = Sent::new(1);
        let mut again = 0;
        for number in flushes_of(&mut tree.clone()) {
            let disk = SimDisk::new(1);
            disk.inject(number, Fault::Fail);
            assert!(tree.push(&disk).is_err());
            disk.restart();
            let store = Store::open_at(disk.root(), PathBuf::from("/")).unwrap();
            let doubtful = store.is_doubtful(Id::of(&tree.encoded)).unwrap();
            drop(store);
            let built = tree.push(&disk).unwrap();
            if doubtful {
                again += 1;
                assert_eq!(built.fetched, 0, "flush {number}");
            }
            assert!(current(&disk.survivor()) == Some(tree.found.clone()));
        }
        assert!(again >= 5, "{again}");
    });
}
