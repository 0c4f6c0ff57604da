//! `warpline replicate` on a real disk that fails: an ext4 on a loop device whose backing file has no space left, so writes succeed and
//! flushes fail. The tests are skipped if mounting is not allowed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::Desk;

/// Mounts that are removed when this is dropped, the last one first.
struct Mounts(Vec<PathBuf>);

fn runs(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {text}")) }
}

impl Mounts {
    fn mount(&mut self, words: &[&str], at: &Path) -> Result<(), String> {
        fs::create_dir_all(at).unwrap();
        runs(Command::new("mount").args(words).arg(at))?;
        self.0.push(at.to_owned());
        Ok(())
    }

    fn unmount(&mut self) {
        let at = self.0.pop().unwrap();
        runs(Command::new("umount").arg(at)).unwrap();
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        while let Some(at) = self.0.pop() {
            let _ = runs(Command::new("umount").arg("--lazy").arg(at));
        }
    }
}

/// An ext4 of 300 MB in a file on a memory disk of 24 MB, mounted on `disk`; `None`, with a message, if that is not possible.
fn mounted(desk: &Desk) -> Option<Mounts> {
    let mut mounts = Mounts(Vec::new());
    let small = desk.path().join("small");
    let file = small.join("disk");
    let made = mounts.mount(&["-t", "tmpfs", "-o", "size=24m", "tmpfs"], &small).and_then(|()| {
        fs::File::create(&file)
            .and_then(|file| file.set_len(300_000_000))
            .map_err(|error| error.to_string())?;
        // Without a journal, so that the disk goes on after an error, as many disks do.
        runs(Command::new("mkfs.ext4").args(["-q", "-F", "-O", "^has_journal"]).arg(&file))?;
        mounts.mount(&["-o", "loop", file.to_str().unwrap()], &desk.path().join("disk"))
    });
    if let Err(reason) = made {
        warpline_skip::skip("loop-devices", reason);
        return None;
    }
    Some(mounts)
}

/// Free bytes on a disk.
fn free(disk: &Path) -> u64 {
    let output = Command::new("df").args(["--output=avail", "--block-size=1"]).arg(disk).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().last().unwrap().trim().parse().unwrap()
}

/// A receiver, and its address.
struct Receiver(Child, String);

impl Receiver {
    fn start(desk: &Desk) -> Self {
        let words =
            ["replicate", "serve", "disk/store", "--key", "team.key", "--listen", "127.0.0.1:0", "--json"];
        let mut child = desk.program(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // Nobody reads its later output, which must not stop it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        Receiver(child, said["address"].as_str().unwrap().to_owned())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes without a pattern.
fn noise(seed: u32, count: u32) -> Vec<u8> {
    let mut state = seed | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..count).map(next).collect()
}

#[test]
fn after_a_failed_flush_success_still_means_that_all_is_on_the_disk() {
    let desk = Desk::new();
    let Some(mut mounts) = mounted(&desk) else { return };
    desk.warpline(&["replicate", "keygen", "team.key"]).fine();
    fs::create_dir(desk.path().join("source")).unwrap();
    for number in 1..=5 {
        fs::write(desk.path().join(format!("source/{number}")), noise(number, 2_000_000)).unwrap();
    }
    let push = |receiver: &Receiver| {
        desk.warpline(&[
            "replicate",
            "push",
            "source",
            &receiver.1,
            "--key",
            "team.key",
            "--patience",
            "60",
            "--json",
        ])
    };
    let receiver = Receiver::start(&desk);
    // So far, only the store itself is on the loop device. Now leave 6 MB for 10 MB of data.
    runs(&mut Command::new("sync")).unwrap();
    let fill = free(&desk.path().join("small")).saturating_sub(6_000_000) as usize;
    let mut filler = fs::File::create(desk.path().join("small/filler")).unwrap();
    filler.write_all(&vec![1; fill]).unwrap();
    let answer = push(&receiver);
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    // The page cache has all the data, but the disk does not. The receiver may be another process by now.
    drop(filler);
    fs::remove_file(desk.path().join("small/filler")).unwrap();
    drop(receiver);
    let receiver = Receiver::start(&desk);
    let value = push(&receiver).fine().json();
    // The data is written again from memory, or fetched.
    assert_eq!(value["receivers"][0]["state"], "done", "{value}");
    drop(receiver);
    mounts.unmount();
    let file = desk.path().join("small/disk");
    mounts.mount(&["-o", "loop", file.to_str().unwrap()], &desk.path().join("disk")).unwrap();
    for number in 1..=5 {
        let there = fs::read(desk.path().join(format!("disk/store/current/{number}"))).unwrap();
        assert!(there == noise(number, 2_000_000), "file {number} is not what was sent");
    }
    assert!(desk.warpline(&["replicate", "verify", "disk/store"]).fine().stdout.contains("is whole"));
    // A full disk that reports it at once: nothing changes, and the push continues when there is room. The file system below has room now.
    runs(Command::new("mount").args(["-o", "remount,size=300m"]).arg(desk.path().join("small"))).unwrap();
    fs::write(desk.path().join("source/1"), noise(77, 2_000_000)).unwrap();
    let receiver = Receiver::start(&desk);
    let fill = free(&desk.path().join("disk")).saturating_sub(8 << 20).to_string();
    runs(Command::new("fallocate").args(["-l", &fill]).arg(desk.path().join("disk/filler"))).unwrap();
    let answer = push(&receiver);
    assert_eq!(answer.code, Some(1), "{}", answer.stderr);
    assert!(answer.stderr.contains("are free on the disk of"), "{}", answer.stderr);
    fs::remove_file(desk.path().join("disk/filler")).unwrap();
    push(&receiver).fine();
    assert!(fs::read(desk.path().join("disk/store/current/1")).unwrap() == noise(77, 2_000_000));
}
