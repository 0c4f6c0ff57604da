//! The behaviour that all disks have in common, and what the simulated one loses.

use std::ffi::OsStr;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::thread;

use crate::sim::{Fault, SimDisk, SimFile};
use crate::{
    Directory, DiskFile as _, Kind, Open, OsDirectory, Time, check_whole, create_directories, portable,
    remove_all, remove_all_with, room_of_all, write_whole,
};

fn p(path: &str) -> &Path {
    Path::new(path)
}

/// Checks the contract in an empty directory.
fn contract<D: Directory>(root: &D) {
    create_directories(root, p("a/b"), 0o755).unwrap();
    create_directories(root, p("a/b"), 0o755).unwrap();
    assert_eq!(root.create_directory(p("a"), 0o755).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    write_whole(root, p("a/b/file"), 0o666, b"some bytes").unwrap();
    write_whole(root, p("a/b/file"), 0o666, b"others").unwrap();
    assert_eq!(root.read(p("a/b/file")).unwrap(), b"others");
    for name in ["a/b/file", "a/b/other"] {
        check_whole(root, p(name), 0o666).unwrap();
    }
    for (name, kind) in [("a/b", io::ErrorKind::IsADirectory), ("none/file", io::ErrorKind::NotFound)] {
        let refused = check_whole(root, p(name), 0o666).unwrap_err();
        assert_eq!(refused.kind(), kind, "{name}");
        assert!(write_whole(root, p(name), 0o666, b"").is_err(), "{name}");
    }
    assert_eq!(root.names(p("a")).unwrap(), ["b"]);
    assert_eq!(root.names(p("a/b")).unwrap(), ["file"]);
    assert_eq!(root.open(p("a/b/file"), Open::New(0o600)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(root.open(p("none"), Open::Read).unwrap_err().kind(), io::ErrorKind::NotFound);
    let below = root.open_directory(p("a/b")).unwrap();
    let mut file = below.open(p("file"), Open::ReadWrite(0o600)).unwrap();
    file.set_size(100_000).unwrap();
    file.seek(SeekFrom::Start(99_999)).unwrap();
    file.write_all(b"!").unwrap();
    file.sync().unwrap();
    file.forget().unwrap();
    assert_eq!(file.look().unwrap().size, 100_000);
    let (start, end) = file.next_data(50_000, 100_000).unwrap();
    assert!((50_000..=99_999).contains(&start) && end == 100_000, "{start} {end}");
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!((&bytes[..6], bytes[50_000], bytes[99_999]), (&b"others"[..], 0, b'!'));
    file.set_time(Some(Time { seconds: 5, nanos: 0 })).unwrap();
    assert_eq!(below.look(p("file")).unwrap().modified, Time { seconds: 5, nanos: 0 });
    root.rename(p("a/b/file"), p("a/moved")).unwrap();
    assert!(!root.has(p("a/b/file")).unwrap());
    assert_eq!(root.look(p("a/moved")).unwrap().kind, Kind::File);
    assert_eq!(root.remove_directory(p("a")).unwrap_err().kind(), io::ErrorKind::DirectoryNotEmpty);
    root.sync_of(p("a")).unwrap();
    let mut removed = 0;
    let mut count = || {
        removed += 1;
        removed != 2
    };
    // The directory `b` and the file, after which it is stopped; then `a`.
    remove_all_with(root, p("a"), &mut count).unwrap();
    assert!(root.names(p("a")).unwrap().is_empty());
    remove_all_with(root, p("a"), &mut count).unwrap();
    assert_eq!(removed, 3);
    remove_all(root, p("a")).unwrap();
    assert!(root.names(p("")).unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_path_leads_to_the_file_that_has_its_name_now() {
    let directory = tempfile::tempdir().unwrap();
    let root = OsDirectory::here().open_directory(directory.path()).unwrap();
    let first = root.open(p("file"), Open::New(0o600)).unwrap();
    assert!(root.leads_to(p("file"), &first).unwrap());
    root.remove_file(p("file")).unwrap();
    assert!(!root.leads_to(p("file"), &first).unwrap());
    let second = root.open(p("file"), Open::New(0o600)).unwrap();
    assert!(!root.leads_to(p("file"), &first).unwrap());
    assert!(root.leads_to(p("file"), &second).unwrap());
}

#[test]
fn all_disks_fulfil_the_contract() {
    contract(&SimDisk::new(1).root());
    let directory = tempfile::tempdir().unwrap();
    contract(&OsDirectory::here().open_directory(directory.path()).unwrap());
    contract(&portable::OsDirectory::here().open_directory(directory.path()).unwrap());
}

#[cfg(unix)]
#[test]
fn a_tree_that_is_deeper_than_a_path_is_long_can_be_removed() {
    let directory = tempfile::tempdir().unwrap();
    let root = OsDirectory::here().open_directory(directory.path()).unwrap();
    let name = "n".repeat(200);
    let mut at = root.clone();
    // 6000 bytes in all. Linux takes 4095 in one path, macOS 1023.
    for _ in 0..30 {
        at.create_directory(p(&name), 0o755).unwrap();
        at = at.open_directory(p(&name)).unwrap();
    }
    write_whole(&at, p("file"), 0o600, b"deep").unwrap();
    // A directory that its owner may not open is removed, too.
    at.set_mode(0o000).unwrap();
    remove_all(&root, p(&name)).unwrap();
    assert!(root.names(p("")).unwrap().is_empty());
}

#[cfg(unix)]
#[test]
fn a_device_a_pipe_or_a_socket_is_not_replaced_by_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let root = OsDirectory::here().open_directory(directory.path()).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("socket")).unwrap();
    // As `/dev/stdout` is, in two steps.
    root.link(OsStr::new("socket"), p("link")).unwrap();
    root.link(OsStr::new("link"), p("link2")).unwrap();
    // And as it is where a file is standard output.
    root.link(OsStr::new("/proc/self/status"), p("link3")).unwrap();
    for name in ["socket", "link", "link2", "link3"] {
        for refused in [check_whole(&root, p(name), 0o666), write_whole(&root, p(name), 0o666, b"x")] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
            assert!(error.to_string().contains("a new file would replace"), "{error}");
        }
    }
    assert_eq!(root.names(p("")).unwrap(), ["link", "link2", "link3", "socket"]);
    let kinds = ["link", "link2", "socket"].map(|name| root.look(p(name)).unwrap().kind);
    assert_eq!(kinds, [Kind::Link, Kind::Link, Kind::Other]);
}

#[cfg(unix)]
fn links_and_modes<D: Directory>(root: &D) {
    root.link(OsStr::new("somewhere"), p("link")).unwrap();
    assert_eq!(root.read_link(p("link")).unwrap(), "somewhere");
    assert_eq!(root.look(p("link")).unwrap().kind, Kind::Link);
    root.set_time_of(p("link"), Time { seconds: -7, nanos: 3 }).unwrap();
    assert_eq!(root.look(p("link")).unwrap().modified, Time { seconds: -7, nanos: 3 });
    assert!(root.open(p("link"), Open::Read).is_err());
    assert_eq!(root.kind_behind(p("link")).unwrap_err().kind(), io::ErrorKind::NotFound);
    write_whole(root, p("file"), 0o600, b"").unwrap();
    root.link(OsStr::new("file"), p("other")).unwrap();
    assert_eq!(root.kind_behind(p("other")).unwrap(), Kind::File);
    // A link to a file, or to nothing, is replaced, and what it leads to stays.
    for name in ["link", "other"] {
        write_whole(root, p(name), 0o600, b"new").unwrap();
        assert_eq!(
            (root.read(p(name)).unwrap(), root.read(p("file")).unwrap()),
            (b"new".to_vec(), Vec::new())
        );
    }
    root.set_mode_of(p("file"), 0o440).unwrap();
    assert_eq!(root.look(p("file")).unwrap().mode, 0o440);
}

#[cfg(unix)]
#[test]
fn links_and_modes_are_the_same_on_all_disks_that_have_them() {
    links_and_modes(&SimDisk::new(1).root());
    let directory = tempfile::tempdir().unwrap();
    links_and_modes(&OsDirectory::here().open_directory(directory.path()).unwrap());
}

#[test]
fn flushed_data_survives_and_other_data_may() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..64 {
        let disk = SimDisk::new(seed);
        let root = disk.root();
        write_whole(&root, p("kept"), 0o644, b"kept").unwrap();
        let mut file = root.open(p("lost"), Open::New(0o644)).unwrap();
        file.write_all(&[1; 8192]).unwrap();
        root.rename(p("kept"), p("renamed")).unwrap();
        let after = disk.survivor().root();
        // There is always exactly one of the two names.
        let name = if after.has(p("kept")).unwrap() { "kept" } else { "renamed" };
        assert_eq!(after.read(p(name)).unwrap(), b"kept");
        let names = after.names(p("")).unwrap();
        assert_eq!(names.iter().filter(|name| *name != "lost").count(), 1);
        let content =
            after.read(p("lost")).map(|bytes| (bytes.len(), bytes.iter().filter(|byte| **byte == 1).count()));
        outcomes.insert((name, content.ok()));
        // The disk itself is unchanged.
        assert_eq!(root.read(p("lost")).unwrap(), [1; 8192]);
    }
    assert!(outcomes.contains(&("kept", None)) && outcomes.contains(&("renamed", Some((8192, 8192)))));
    assert!(outcomes.contains(&("kept", Some((8192, 4096)))), "{outcomes:?}");
}

#[test]
fn after_a_failed_flush_memory_has_data_that_the_disk_lacks() {
    let lying = (0..64).filter(|&seed| {
        let disk = SimDisk::new(seed);
        let root = disk.root();
        let mut file = root.open(p("file"), Open::ReadWrite(0o644)).unwrap();
        file.write_all(&[1; 20_000]).unwrap();
        disk.inject(disk.count(), Fault::Fail);
        assert!(file.sync().is_err());
        // As on Linux, the second attempt and the read succeed.
        file.sync().unwrap();
        assert_eq!(root.read(p("file")).unwrap(), [1; 20_000]);
        file.forget().unwrap();
        root.read(p("file")).unwrap() != [1; 20_000]
    });
    assert!(lying.count() > 32);
}

#[test]
fn a_background_error_is_reported_once() {
    let disk = SimDisk::new(3);
    let mut file = disk.root().open(p("file"), Open::New(0o644)).unwrap();
    file.write_all(&[1; 8192]).unwrap();
    disk.inject(disk.count(), Fault::Background);
    file.look().unwrap();
    assert!(file.sync().is_err());
    assert!(file.sync().is_ok());
}

#[test]
fn a_kill_loses_no_data_and_a_full_disk_accepts_none() {
    let disk = SimDisk::new(4);
    let root = disk.root();
    let mut file = root.open(p("file"), Open::New(0o644)).unwrap();
    file.write_all(b"abc").unwrap();
    disk.inject(disk.count(), Fault::Kill);
    assert!(file.write_all(b"def").is_err() && disk.is_down());
    assert!(root.look(p("file")).is_err());
    disk.restart();
    assert_eq!(disk.root().read(p("file")).unwrap(), b"abc");
    disk.inject(disk.count(), Fault::Full(3));
    let error = root.open(p("more"), Open::New(0o644)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(!root.has(p("more")).unwrap() && !root.has(p("more")).unwrap());
    root.open(p("more"), Open::New(0o644)).unwrap();
}

#[test]
fn what_cannot_be_removed_does_not_keep_the_rest() {
    let disk = SimDisk::new(5);
    let root = disk.root();
    create_directories(&root, p("a/b"), 0o755).unwrap();
    for name in ["a/1", "a/2", "a/b/3"] {
        write_whole(&root, p(name), 0o644, b"").unwrap();
    }
    // After a look at `a`, its names, and a look at `1`, that file is removed.
    disk.inject(disk.count() + 3, Fault::Fail);
    assert_eq!(remove_all(&root, p("a")).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(root.names(p("a")).unwrap(), ["1"]);
    remove_all(&root, p("a")).unwrap();
    assert!(root.names(p("")).unwrap().is_empty());
}

#[test]
fn a_removal_of_which_everything_fails_can_be_stopped_too() {
    let disk = SimDisk::new(8);
    let root = disk.root();
    create_directories(&root, p("a"), 0o755).unwrap();
    for name in ["a/1", "a/2", "a/3"] {
        write_whole(&root, p(name), 0o644, b"").unwrap();
    }
    // First come a look at `a` and its names, then a look at `1` and one at `2`.
    let begin = disk.count();
    (begin + 2..begin + 9).for_each(|number| disk.inject(number, Fault::Fail));
    let mut asked = 0;
    let mut twice = || {
        asked += 1;
        asked < 2
    };
    let stopped = remove_all_with(&root, p("a"), &mut twice);
    assert_eq!(stopped.unwrap_err().raw_os_error(), Some(5));
    assert_eq!((asked, disk.count() - begin), (2, 4));
}

#[test]
fn the_room_of_a_directory_is_that_of_the_content_in_it() {
    let disk = SimDisk::new(10);
    let root = disk.root();
    create_directories(&root, p("a/b"), 0o755).unwrap();
    for (name, length) in [("a/1", 5000), ("a/b/2", 1), ("a/empty", 0)] {
        write_whole(&root, p(name), 0o644, &vec![1; length]).unwrap();
    }
    let sum = |path: &str, enough: u64, most: u32| {
        let mut asked = 0;
        let room = room_of_all(&root, p(path), enough, &mut || {
            asked += 1;
            asked < most
        });
        (room, asked)
    };
    // Three files and two directories.
    assert_eq!(sum("a", u64::MAX, u32::MAX), (3 * 4096, 5));
    assert_eq!(sum("a", u64::MAX, 1), (2 * 4096, 1));
    // When there is enough, it is not asked.
    assert_eq!(sum("a", 3 * 4096, u32::MAX), (3 * 4096, 1));
    assert_eq!(sum("none", u64::MAX, u32::MAX), (0, 1));
}

#[test]
fn a_disk_takes_as_much_as_is_free_and_a_removal_makes_room() {
    let disk = SimDisk::new(6);
    let root = disk.root();
    write_whole(&root, p("kept"), 0o644, &[1; 5000]).unwrap();
    disk.set_free(8192);
    let mut file = root.open(p("file"), Open::ReadWrite(0o644)).unwrap();
    // A hole takes no room.
    file.set_size(1 << 30).unwrap();
    file.write_all(&[1; 8192]).unwrap();
    assert_eq!(root.free().unwrap(), 0);
    assert_eq!(file.write_all(b"more").unwrap_err().kind(), io::ErrorKind::StorageFull);
    // To write again what is there takes none, either.
    file.rewind().unwrap();
    file.write_all(&[2; 8192]).unwrap();
    root.remove_file(p("kept")).unwrap();
    assert_eq!(root.free().unwrap(), 8192);
    // Of what does not fit it takes a part: here a page that was begun and two more.
    write_whole(&root, p("more"), 0o644, b"").unwrap();
    let mut more = root.open(p("more"), Open::ReadWrite(0o644)).unwrap();
    file.set_size(8192).unwrap();
    file.seek(SeekFrom::Start(5000)).unwrap();
    assert_eq!(file.write(&[3; 20_000]).unwrap(), 4 * 4096 - 5000);
    assert_eq!(root.read(p("file")).unwrap()[5000..], [3; 4 * 4096 - 5000]);
    for full in [&mut file, &mut more] {
        assert_eq!(full.write(b"x").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(full.write(b"").unwrap(), 0);
    }
}

#[test]
fn threads_together_cannot_write_more_than_is_free() {
    let disk = SimDisk::new(9);
    let files: Vec<_> = (0..8)
        .map(|number| disk.root().open(p(&number.to_string()), Open::ReadWrite(0o644)).unwrap())
        .collect();
    disk.set_free(100 * 4096);
    let written: usize = thread::scope(|scope| {
        let write = |mut file: SimFile| {
            scope.spawn(move || (0..).take_while(|_| file.write_all(&[1; 4096]).is_ok()).count())
        };
        let threads: Vec<_> = files.into_iter().map(write).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((written, disk.root().free().unwrap()), (100, 0));
}

#[test]
fn a_removal_waits_while_it_is_held_and_all_else_goes_on() {
    let disk = SimDisk::new(7);
    let root = disk.root();
    create_directories(&root, p("a/b"), 0o755).unwrap();
    for name in ["a/b/file", "a/file", "other"] {
        write_whole(&root, p(name), 0o644, b"").unwrap();
    }
    let held = root.open_directory(p("a")).unwrap().hold_removals();
    thread::scope(|scope| {
        let removal = scope.spawn(|| remove_all(&root, p("a")));
        while !held.is_reached() {
            assert!(!removal.is_finished());
            thread::yield_now();
        }
        // What is below in another directory could be removed.
        assert_eq!(root.names(p("a")).unwrap(), ["b", "file"]);
        assert!(root.names(p("a/b")).unwrap().is_empty());
        root.remove_file(p("other")).unwrap();
        drop(held);
        removal.join().unwrap().unwrap();
    });
    assert!(root.names(p("")).unwrap().is_empty());
}
