//! `warpline replicate` as users run it: two processes, real sockets, real files, and kills at any moment.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::support::{Answer, Desk, wait_until};

/// A desk with a key, a source tree, and a receiver that may be running.
struct Bench {
    desk: Desk,
    port: u16,
    receiver: Option<Child>,
}

/// The name, kind, mode, time and content of everything in a tree.
type Tree = BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)>;

fn describe(root: &Path) -> Tree {
    fn add(tree: &mut Tree, root: &Path, path: &Path) {
        let data = fs::symlink_metadata(path).unwrap();
        let content = if data.is_symlink() {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        } else if data.is_dir() {
            fs::read_dir(path).unwrap().for_each(|entry| add(tree, root, &entry.unwrap().path()));
            Vec::new()
        } else {
            fs::read(path).unwrap()
        };
        let mode = if data.is_symlink() { 0 } else { data.mode() };
        let name = path.strip_prefix(root).unwrap().to_owned();
        tree.insert(name, (mode, data.mtime(), data.mtime_nsec(), content));
    }
    let mut tree = Tree::new();
    add(&mut tree, root, root);
    tree
}

/// Bytes without a pattern, the same for the same seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

impl Bench {
    fn new() -> Self {
        let desk = Desk::new();
        desk.warpline(&["replicate", "keygen", "team.key"]).fine();
        fs::create_dir_all(desk.path().join("source/a/b")).unwrap();
        // A port that was free a moment ago.
        let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Bench { desk, port, receiver: None }
    }

    fn source(&self, name: &str) -> PathBuf {
        self.desk.path().join("source").join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.source(name), bytes).unwrap();
    }

    fn receive(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command =
            self.desk.program(&["replicate", "serve", "store", "--key", "team.key", "--listen", &listen]);
        self.receiver = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn stop(&mut self) {
        if let Some(mut receiver) = self.receiver.take() {
            receiver.kill().unwrap();
            receiver.wait().unwrap();
        }
    }

    fn push(&self, more: &[&str]) -> Answer {
        let host = format!("127.0.0.1:{}", self.port);
        self.desk.warpline(&[&["replicate", "push", "source", &host, "--key", "team.key"], more].concat())
    }

    fn current(&self) -> Option<Tree> {
        let link = self.desk.path().join("store/current");
        fs::symlink_metadata(&link).is_ok().then(|| describe(&link.canonicalize().unwrap()))
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn a_tree_and_its_changes_arrive_completely() {
    let mut bench = Bench::new();
    bench.write("a/big", &noise(1, 3_000_000));
    bench.write("a/b/small", b"x");
    bench.write("empty", b"");
    bench.write("a/copy", &noise(1, 3_000_000));
    fs::write(bench.source("").join(OsStr::from_bytes(b"\xff\xfe")), b"a name of bytes").unwrap();
    fs::create_dir(bench.source("hollow")).unwrap();
    symlink("../empty", bench.source("a/link")).unwrap();
    let sparse = fs::File::create(bench.source("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    fs::set_permissions(bench.source("a/b/small"), fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(bench.source("hollow"), fs::Permissions::from_mode(0o555)).unwrap();
    bench.receive();
    let value = bench.push(&["--json"]).fine().json();
    assert_eq!(value["receivers"][0]["state"], "done");
    // Two files of the same content are sent once.
    assert!(value["receivers"][0]["fetched_bytes"].as_u64().unwrap() < 3_100_000, "{value}");
    let store = bench.desk.path().join("store");
    assert!(fs::metadata(store.join("current/sparse")).unwrap().blocks() < 1000);
    fs::remove_file(bench.source("sparse")).unwrap();

    // After a byte in the middle, a deletion and a new mode, little is sent.
    let mut bytes = noise(1, 3_000_000);
    bytes.insert(1_500_000, 7);
    bench.write("a/big", &bytes);
    fs::remove_file(bench.source("empty")).unwrap();
    let value = bench.push(&["--json"]).fine().json();
    assert!(value["receivers"][0]["fetched_bytes"].as_u64().unwrap() < 1_500_000, "{value}");
    assert_eq!(bench.current().unwrap(), describe(&bench.source("")));
    assert_eq!(bench.push(&["--json"]).fine().json()["receivers"][0]["state"], "unchanged");
    assert!(bench.desk.warpline(&["replicate", "verify", "store"]).fine().stdout.contains("is whole"));

    // Change a file of the version in use, but keep its size and time.
    let path = store.join("current/a/copy");
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[99] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let answer = bench.desk.warpline(&["replicate", "verify", "store"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("a/copy: of other content"), "{}", answer.stderr);
    bench.push(&["--verify"]).fine();
    assert_eq!(bench.current().unwrap(), describe(&bench.source("")));
}

#[test]
fn links_out_of_the_tree_and_untrusted_senders_are_refused() {
    let mut bench = Bench::new();
    bench.receive();
    symlink("/etc/passwd", bench.source("out")).unwrap();
    let answer = bench.push(&[]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("`out` leads to `/etc/passwd`"), "{}", answer.stderr);
    bench.push(&["--skip-special"]).fine();
    assert!(fs::symlink_metadata(bench.desk.path().join("store/current/out")).is_err());

    fs::remove_file(bench.source("out")).unwrap();
    bench.desk.warpline(&["replicate", "keygen", "stranger.key"]).fine();
    let host = format!("127.0.0.1:{}", bench.port);
    let answer = bench.desk.warpline(&["replicate", "push", "source", &host, "--key", "stranger.key"]);
    assert_eq!(answer.code, Some(1));
    assert!(answer.stderr.contains("is not trusted here"), "{}", answer.stderr);
    let receivers = bench.desk.write("receivers.txt", "");
    let answer = bench.push(&["--trust", receivers.to_str().unwrap()]);
    assert!(answer.stderr.contains("lists no public key"), "{}", answer.stderr);
}

#[test]
fn a_directory_with_other_files_is_not_used_as_a_store() {
    let bench = Bench::new();
    let answer = bench.desk.warpline(&["replicate", "serve", "source", "--key", "team.key"]);
    assert_eq!(answer.code, Some(3));
    assert!(answer.stderr.contains("nor a store of replicated versions"), "{}", answer.stderr);
}

/// Bytes of all files below a directory.
fn bytes(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let entries = entries.flatten().filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)));
    entries.map(|(path, metadata)| if metadata.is_dir() { bytes(&path) } else { metadata.len() }).sum()
}

#[test]
fn after_random_kills_no_tree_is_lost_or_half_written() {
    // The long form, and a stricter one, is scripts/replicate_kills.py.
    let mut bench = Bench::new();
    let mut trees = Vec::new();
    let mut newest = None;
    for round in 0..20u64 {
        for file in 0..12 {
            bench.write(&format!("a/{file}"), &noise(round * 100 + file, 200_000 * (1 + file as usize % 3)));
        }
        bench.write("round", round.to_string().as_bytes());
        trees.push(describe(&bench.source("")));
        if bench.receiver.is_none() {
            bench.receive();
        }
        let host = format!("127.0.0.1:{}", bench.port);
        let words = ["replicate", "push", "source", &host, "--key", "team.key", "--quiet"];
        let mut push = bench.desk.program(&words).stderr(Stdio::null()).spawn().unwrap();
        let random = noise(round + 7, 2);
        // Somewhere between the first byte and the last, or while the complete tree is put in place.
        let enough = u64::from(random[0]) * 6_000_000 / 255;
        let mut before = 0;
        while push.try_wait().unwrap().is_none() {
            let come = bytes(&bench.desk.path().join("store/incoming"));
            if come >= enough.max(1) || come < before {
                break;
            }
            before = come;
            std::thread::yield_now();
        }
        if random[1].is_multiple_of(2) {
            bench.stop();
        }
        let finished = push.try_wait().unwrap().is_some_and(|status| status.success());
        push.kill().unwrap();
        push.wait().unwrap();
        bench.stop();
        let Some(tree) = bench.current() else { continue };
        let number = trees.iter().position(|known| *known == tree).expect("a complete version of the tree");
        assert!(newest <= Some(number), "from {newest:?} back to {number}");
        assert!(
            !finished || number == round as usize,
            "push {round} reported success, but {number} is in use"
        );
        newest = Some(number);
    }
    bench.receive();
    bench.push(&[]).fine();
    assert_eq!(bench.current().as_ref(), trees.last());
    assert_eq!(bench.desk.names("store/incoming"), [""; 0]);
    // Old versions are removed after the push.
    wait_until("the removal of old versions", || bench.desk.names("store/trash").is_empty());
}
