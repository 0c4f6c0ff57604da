//! Building a tree: what is fetched and copied, how room is made, and what a full disk does.

use super::*;
use std::collections::VecDeque;
use std::path::Path;
use warpline_disk::sim::{Fault, SimDirectory, SimDisk};
use warpline_disk::{create_directories, write_whole};

/// Delivers chunks with the numbers of their entry and chunk, and counts the most that were requested and not received yet.
#[derive(Default)]
struct Counted {
    asked: VecDeque<(u32, u32)>,
    most: usize,
}

fn content(entry: u32, chunk: u32) -> Vec<u8> {
    [entry.to_le_bytes(), chunk.to_le_bytes()].concat()
}

impl Source for Counted {
    fn want(&mut self, entry: u32, chunk: u32) -> io::Result<()> {
        self.asked.push_back((entry, chunk));
        self.most = self.most.max(self.asked.len());
        Ok(())
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.asked.pop_front().map(|(entry, chunk)| content(entry, chunk)))
    }
}

/// Delivers chunks that are longer than a page of the disk: each is what [`Counted`] delivers, many times over.
#[derive(Default)]
struct Long(Counted);

fn long(entry: u32, chunk: u32) -> Vec<u8> {
    content(entry, chunk).repeat(1250)
}

impl Source for Long {
    fn want(&mut self, entry: u32, chunk: u32) -> io::Result<()> {
        self.0.want(entry, chunk)
    }

    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.asked.pop_front().map(|(entry, chunk)| long(entry, chunk)))
    }
}

fn entry(path: &str, kind: Kind) -> Entry {
    Entry { path: path.into(), mtime: 1, mtime_ns: 0, kind }
}

/// A file of this number in its tree, of so many chunks with this content.
fn file_of(path: &str, number: usize, chunks: u32, content: fn(u32, u32) -> Vec<u8>) -> Entry {
    let chunk = |chunk| {
        let bytes = content(number as u32, chunk);
        Chunk { length: bytes.len() as u64, hash: Some(*blake3::hash(&bytes).as_bytes()) }
    };
    entry(path, Kind::File { mode: 0o644, chunks: (0..chunks).map(chunk).collect() })
}

/// A file of this number in its tree, of so many chunks as [`Counted`] delivers them.
fn file(path: &str, number: usize, chunks: u32) -> Entry {
    file_of(path, number, chunks, content)
}

/// So many directories with one small file in each, and after them so many files.
fn tree(directories: usize, more: usize) -> Manifest {
    let mut entries = vec![entry("", Kind::Directory { mode: 0o755 })];
    for number in 0..directories {
        entries.push(entry(&format!("{number:06}"), Kind::Directory { mode: 0o755 }));
        entries.push(file(&format!("{number:06}/file"), entries.len(), 1));
    }
    for number in 0..more {
        entries.push(file(&format!("file{number:06}"), entries.len(), 1));
    }
    let manifest = Manifest { entries };
    manifest.check().unwrap();
    manifest
}

/// Builds a tree. Returns what was built, the most chunks requested at once, and the most operations of the disk without a report.
fn push(disk: &SimDisk, manifest: &Manifest, verify: bool) -> (Built, usize, u64) {
    let store = Store::open_at(disk.root(), PathBuf::from("/")).unwrap();
    let mut source = Counted::default();
    let (mut last, mut longest) = (disk.count(), 0);
    let options = Options { keep: 1, verify };
    let built = build(&store, &manifest.encode(), manifest, options, &mut source, &mut |_| {
        let now = disk.count();
        longest = longest.max(now - last);
        last = now;
        Ok(())
    });
    (built.unwrap(), source.most, longest.max(disk.count() - last))
}

#[test]
fn a_receiver_is_never_silent_for_long_however_small_the_files_are() {
    let disk = SimDisk::new(1);
    let (first, second) = (tree(600, 0), tree(600, 1));
    // Everything is new; then everything but a file is copied from the version before; then every byte of a version is read.
    for (manifest, verify, fetched) in [(&first, false, 4800), (&second, false, 8), (&second, true, 0)] {
        let (built, _, longest) = push(&disk, manifest, verify);
        assert_eq!((built.fetched, built.unchanged), (fetched, verify));
        assert!(longest < 4000, "{longest} operations without a report");
    }
}

#[test]
fn a_large_old_version_is_put_aside_and_not_removed_while_the_sender_waits() {
    let disk = SimDisk::new(1);
    push(&disk, &tree(1200, 0), false);
    push(&disk, &tree(0, 1), false);
    let (_, _, longest) = push(&disk, &tree(0, 2), false);
    assert!(longest < 200, "{longest} operations without a report");
    let names = |path: &str| disk.root().names(Path::new(path)).unwrap();
    let aside = names("trash").iter().filter(|name| name.to_string_lossy().starts_with("versions-")).count();
    assert_eq!((names("versions").len(), aside), (2, 1));
    // The next receiver begins without it.
    drop(Store::open_at(disk.root(), PathBuf::from("/")).unwrap());
    assert!(names("trash").is_empty());
}

#[test]
fn the_making_of_directories_is_reported_too() {
    let mut entries = vec![entry("", Kind::Directory { mode: 0o755 })];
    entries.extend((0..600).map(|number| entry(&format!("{number:06}"), Kind::Directory { mode: 0o755 })));
    let manifest = Manifest { entries };
    let store = Store::open_at(SimDisk::new(1).root(), PathBuf::from("/")).unwrap();
    let options = Options { keep: 1, verify: false };
    let mut comparing = 0;
    build(&store, &manifest.encode(), &manifest, options, &mut Counted::default(), &mut |progress| {
        comparing += usize::from(progress.step == Step::Comparing);
        Ok(())
    })
    .unwrap();
    // The beginning, after 256 and 512 directories were made, and three pieces of entries.
    assert_eq!(comparing, 6);
}

#[test]
fn a_piece_ends_after_many_entries_or_many_bytes() {
    let pieces = |sizes: &[u64]| batches(sizes, |&size| size).collect::<Vec<_>>();
    let half = BATCH / 2;
    assert_eq!(pieces(&[BATCH, 1, half, half, 1]), [(0..1, BATCH), (1..4, BATCH + 1), (4..5, 1)]);
    assert_eq!(pieces(&[0; 600]), [(0..256, 0), (256..512, 0), (512..600, 0)]);
    assert!(pieces(&[]).is_empty());
    // A chunk counts in each of its places.
    let place = Place { entry: 0, chunk: 0, offset: 0 };
    let wanted = (Chunk { length: 1 << 20, hash: None }, vec![place; 16]);
    assert_eq!(batches(&[wanted.clone(), wanted], bytes_in_places).count(), 2);
}

#[test]
fn requests_do_not_fill_the_connection_however_small_the_chunks_are() {
    let entries = vec![entry("", Kind::Directory { mode: 0o755 }), file("file", 1, 20_000)];
    let (built, most, _) = push(&SimDisk::new(1), &Manifest { entries }, false);
    assert_eq!((built.fetched, most), (160_000, CHUNKS_AHEAD));
}

fn open(disk: &SimDisk) -> Store<SimDirectory> {
    Store::open_at(disk.root(), PathBuf::from("/")).unwrap()
}

/// Builds a tree in an open store, whose trash stays. The connection breaks when so many bytes are there. Returns the bytes fetched.
fn fetch_until(store: &Store<SimDirectory>, manifest: &Manifest, breaks_at: u64) -> Result<u64, BuildError> {
    let options = Options { keep: 1, verify: false };
    let mut report = |progress: Progress| -> io::Result<()> {
        let breaks = progress.step == Step::Fetching && progress.done >= breaks_at;
        if breaks { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    };
    let encoded = manifest.encode();
    let built = build(store, &encoded, manifest, options, &mut Counted::default(), &mut report)?;
    Ok(built.fetched)
}

fn fetch_all(store: &Store<SimDirectory>, manifest: &Manifest) -> Result<u64, BuildError> {
    fetch_until(store, manifest, u64::MAX)
}

/// Puts so many small files into a directory. Each takes a page of the disk.
fn fill(disk: &SimDisk, directory: &str, files: usize) {
    let directory = Path::new(directory);
    create_directories(&disk.root(), directory, 0o755).unwrap();
    for number in 0..files {
        write_whole(&disk.root(), &directory.join(number.to_string()), 0o644, b"x").unwrap();
    }
}

/// Number of names in a directory; 0 if it does not exist.
fn count(disk: &SimDisk, directory: &str) -> usize {
    disk.root().names(Path::new(directory)).map_or(0, |names| names.len())
}

#[test]
fn a_push_without_room_says_what_is_needed_and_free_and_leaves_nothing_behind() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    fetch_all(&store, &tree(0, 1)).unwrap();
    store.clear_trash(&mut || true).unwrap();
    disk.set_free(SPARE);
    let names = |part: &str| disk.root().names(Path::new(part)).unwrap();
    let before = ["versions", "manifests", "incoming", "trash"].map(names);
    // Ten files of 8 bytes.
    let second = tree(5, 5);
    let refused = fetch_all(&store, &second).unwrap_err();
    let BuildError::Space { needed: 80, free, .. } = refused else { panic!("{refused}") };
    // The description takes room, too.
    assert!((SPARE - 10_000..SPARE).contains(&free), "{free}");
    let said = format!("80 bytes are needed and {free} are free on the disk of / ({SPARE} are left free)");
    assert_eq!(refused.to_string(), said);
    // The receiver does this after each push.
    store.clear_trash(&mut || true).unwrap();
    assert_eq!(["versions", "manifests", "incoming", "trash"].map(names), before);
    assert_eq!(store.free().unwrap(), SPARE);
    disk.set_free(SPARE + 10_000);
    assert_eq!(fetch_all(&store, &second).unwrap(), 80);
}

#[test]
fn what_had_arrived_before_there_was_no_room_is_not_fetched_again() {
    let (disk, manifest) = (SimDisk::new(1), tree(0, 10));
    let store = open(&disk);
    assert!(matches!(fetch_until(&store, &manifest, 40), Err(BuildError::Source(_))));
    disk.set_free(SPARE);
    let refused = fetch_all(&store, &manifest);
    assert!(matches!(refused, Err(BuildError::Space { needed: 40, .. })), "{refused:?}");
    store.clear_trash(&mut || true).unwrap();
    disk.set_free(SPARE + 10_000);
    assert_eq!(fetch_all(&store, &manifest).unwrap(), 40);
}

#[test]
fn room_is_made_step_by_step_and_no_more_than_is_needed() {
    let manifest = tree(0, 3);
    // By their names, the other tree would come last.
    let (own, other) = (Id::of(&manifest.encode()), "f".repeat(32));
    // The files in the trash and in the other tree; then how many remain of these, and of the five of an earlier attempt.
    for (aside, unfinished, left) in [(5, 5, [3, 5, 5]), (1, 5, [0, 4, 5]), (0, 1, [0, 0, 4])] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        fill(&disk, "trash/old", aside);
        fill(&disk, &format!("incoming/{other}/tree"), unfinished);
        fill(&disk, &format!("incoming/{own}-doubted/tree"), 5);
        disk.set_free(SPARE);
        // The description takes a page and the data a part of one, so two files have to go.
        assert_eq!(fetch_all(&store, &manifest).unwrap(), 24);
        // The end of the push has put aside what is unfinished.
        let places = [
            "trash/old".to_owned(),
            format!("trash/incoming-{other}/tree"),
            format!("trash/incoming-{own}-doubted/tree"),
        ];
        assert_eq!(places.map(|place| count(&disk, &place)), left);
    }
}

#[test]
fn foreign_files_and_versions_stay_when_there_is_no_room() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    for files in 1..=2 {
        fetch_all(&store, &tree(0, files)).unwrap();
    }
    let foreign = ["photos", "incoming/letters/tree"];
    for directory in foreign {
        fill(&disk, directory, 3);
    }
    let file = Path::new("incoming/.DS_Store");
    write_whole(&disk.root(), file, 0o644, b"x").unwrap();
    disk.set_free(SPARE - 100_000);
    let refused = fetch_all(&store, &tree(0, 3));
    assert!(matches!(refused, Err(BuildError::Space { .. })), "{refused:?}");
    assert_eq!(foreign.map(|directory| count(&disk, directory)), [3, 3]);
    assert_eq!(disk.root().read(file).unwrap(), b"x");
    assert_eq!([count(&disk, "versions"), count(&disk, "manifests")], [2, 2]);
}

#[test]
fn other_trees_stay_if_all_of_them_have_too_little_room() {
    let other = "f".repeat(32);
    // Six pages can go, and the description takes one. 24 bytes are missing too many, or just few enough.
    for (short, left) in [(5 * 4096, 5), (5 * 4096 - 24, 0)] {
        let disk = SimDisk::new(1);
        let store = open(&disk);
        fill(&disk, "trash/old", 1);
        fill(&disk, &format!("incoming/{other}/tree"), 5);
        disk.set_free(SPARE - short);
        let pushed = fetch_all(&store, &tree(0, 3));
        match left {
            0 => assert_eq!(pushed.unwrap(), 24),
            _ => assert!(matches!(pushed, Err(BuildError::Space { needed: 24, .. })), "{pushed:?}"),
        }
        assert_eq!(count(&disk, "trash/old"), 0);
        // The end of a push that succeeds has put the other tree aside.
        let places = ["incoming/", "trash/incoming-"].map(|place| format!("{place}{other}/tree"));
        assert_eq!(places.map(|place| count(&disk, &place)).iter().sum::<usize>(), left);
    }
}

#[test]
fn what_two_trees_have_in_common_is_copied_before_the_unfinished_one_has_to_go() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    // Five files arrive. Then two more are added to the tree at the sender.
    assert!(matches!(fetch_until(&store, &tree(0, 10), 40), Err(BuildError::Source(_))));
    // There is room for the description and for 50 of 96 bytes.
    disk.set_free(SPARE + 4096 + 50);
    assert_eq!(fetch_all(&store, &tree(0, 12)).unwrap(), 96 - 40);
}

#[test]
fn a_broken_connection_is_noticed_while_room_is_made_even_if_nothing_can_be_removed() {
    for (failures, left) in [(0, 600 - BATCH_ENTRIES), (600, 600)] {
        let (disk, manifest) = (SimDisk::new(1), tree(0, 1));
        let store = open(&disk);
        fill(&disk, "trash/old", 600);
        disk.set_free(SPARE - (8 << 20));
        let mut reports = 0;
        let mut report = |_: Progress| -> io::Result<()> {
            reports += 1;
            if reports == 2 {
                // Everything is compared. Three operations find the files in the trash; then it is their turn.
                let first = disk.count() + 3;
                (first..first + failures).for_each(|number| disk.inject(number, Fault::Fail));
            }
            if reports > 2 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
        };
        let options = Options { keep: 1, verify: false };
        let encoded = manifest.encode();
        let pushed = build(&store, &encoded, &manifest, options, &mut Counted::default(), &mut report);
        assert!(matches!(pushed, Err(BuildError::Source(_))), "{pushed:?}");
        disk.restart();
        assert_eq!(count(&disk, "trash/old"), left);
    }
}

#[test]
fn when_the_disk_becomes_full_in_the_middle_the_next_push_goes_on_from_there() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    fetch_all(&store, &tree(0, 1)).unwrap();
    let current = store.current().unwrap();
    let entries = vec![entry("", Kind::Directory { mode: 0o755 }), file_of("file", 1, 10, long)];
    let manifest = Manifest { entries };
    let encoded = manifest.encode();
    // So many bytes are free when three chunks have arrived.
    let push = |free: u64| {
        let mut report = |progress: Progress| -> io::Result<()> {
            if progress.step == Step::Fetching && progress.done == 30_000 {
                disk.set_free(free);
            }
            Ok(())
        };
        let options = Options { keep: 1, verify: false };
        build(&store, &encoded, &manifest, options, &mut Long::default(), &mut report)
    };
    let full = push(5000).unwrap_err();
    let BuildError::Entry { action: "write", source, .. } = &full else { panic!("{full}") };
    assert_eq!(source.kind(), io::ErrorKind::StorageFull);
    // Of the fourth chunk there is what fits into a page that was begun and another one.
    let path = format!("incoming/{}/tree/file", Id::of(&encoded));
    assert_eq!(disk.root().look(Path::new(&path)).unwrap().room, 9 * 4096);
    assert_eq!(store.current().unwrap(), current);
    disk.set_free(SPARE + 200_000);
    assert_eq!(push(SPARE).unwrap().fetched, 70_000);
}
