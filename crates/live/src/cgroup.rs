//! A control group (cgroups(7), version 2) for one command, which marks its sockets.
//!
//! The hierarchy may be mounted at `/sys/fs/cgroup`, at `unified/` beside those of version 1, read-only as in many containers, or not at all. If
//! it cannot be written there, it is mounted for this process only, by a descriptor and without a path.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::Signal;

use crate::process::{Process, pause};

/// A directory with a mount of the hierarchy, and what keeps it mounted.
#[derive(Debug)]
struct Hierarchy {
    root: PathBuf,
    _mounted: Option<OwnedFd>,
}

/// A control group of ours. It is removed with this value.
#[derive(Debug)]
pub struct Cgroup {
    hierarchy: Hierarchy,
    /// Path from the root of the hierarchy, as this process sees it; begins with a slash.
    path: String,
    directory: File,
}

/// The name of the control group of the session `id`.
pub(crate) fn group_name(id: &str) -> String {
    format!("warpline-nice-{id}")
}

/// Whether the session `id` makes a control group at this path of the hierarchy.
pub(crate) fn is_group(path: &str, id: &str) -> bool {
    let plain = path
        .strip_prefix('/')
        .is_some_and(|path| path.split('/').all(|part| part != ".." && !part.is_empty()));
    plain && path.rsplit('/').next() == Some(group_name(id).as_str())
}

/// The control group of this process, by its path in the kernel.
fn own() -> io::Result<String> {
    let text = fs::read_to_string("/proc/self/cgroup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("0::"));
    line.map(str::to_owned)
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "this kernel has no cgroups of version 2"))
}

/// Where a mount of the hierarchy shows its root, if one does: lines of `/proc/self/mountinfo` (proc(5)).
fn mounted(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (after.split(' ').next() == Some("cgroup2") && root == "/").then(|| unescape(point))
    })
}

/// A path in mountinfo's notation: blanks and the like as octal numbers.
fn unescape(text: &str) -> PathBuf {
    text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\").into()
}

/// The hierarchy at each place where it may be, one after the other.
fn hierarchies() -> impl Iterator<Item = io::Result<Hierarchy>> {
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let there = mounted(&mountinfo).map(|root| Ok(Hierarchy { root, _mounted: None }));
    there.into_iter().chain(std::iter::once_with(mount_privately))
}

/// Mounts the hierarchy for this process only.
fn mount_privately() -> io::Result<Hierarchy> {
    let context = fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let mounted = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(Hierarchy { root: format!("/proc/self/fd/{}", mounted.as_raw_fd()).into(), _mounted: Some(mounted) })
}

impl Hierarchy {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
}

impl Cgroup {
    /// A new group inside that of this process, so that its limits apply to the command too.
    ///
    /// # Errors
    /// If there is no such hierarchy, or without permission.
    pub fn create(name: &str) -> io::Result<Self> {
        let path = format!("{}/{name}", own()?.trim_end_matches('/'));
        let mut problem = io::Error::from(io::ErrorKind::NotFound);
        for hierarchy in hierarchies() {
            let made = hierarchy.and_then(|hierarchy| {
                fs::create_dir(hierarchy.at(&path))?;
                let directory = File::open(hierarchy.at(&path))?;
                Ok(Cgroup { hierarchy, path: path.clone(), directory })
            });
            match made {
                Ok(cgroup) => return Ok(cgroup),
                Err(error) => problem = error,
            }
        }
        Err(problem)
    }

    /// Its path from the root of the hierarchy.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its directory.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// The kernel's number of it.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn id(&self) -> io::Result<u64> {
        Ok(self.directory.metadata()?.ino())
    }

    /// The file to which a process writes `0` to enter.
    ///
    /// # Errors
    /// Without permission.
    pub fn door(&self) -> io::Result<File> {
        fs::OpenOptions::new().write(true).open(self.hierarchy.at(&self.path).join("cgroup.procs"))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that the command left running move to the group above.
        let _ = remove_at(&self.hierarchy.at(&self.path), &mut |_, _| false);
    }
}

/// Removes a control group that the killed process of a session left, by its path from the root of the hierarchy. Ends processes in it that have
/// the mark of the session `id`, and calls `report` before each; others move to the group above. Returns whether the group existed.
///
/// # Errors
/// If it cannot be removed.
pub fn remove(path: &str, id: &str, report: &mut dyn FnMut(&str)) -> io::Result<bool> {
    let mut reported = Vec::new();
    let mut end = |pid: i32, signal: Signal| {
        let Some(process) = Process::open(pid).ok().filter(|process| process.is_marked(id)) else {
            return false;
        };
        if !reported.contains(&pid) {
            reported.push(pid);
            report(&format!("ending {process}, left in the control group {path}"));
        }
        // If it has ended by itself, that is fine too.
        let _ = process.signal(signal);
        true
    };
    let mut outcome = Ok(false);
    for hierarchy in hierarchies() {
        let at = match &hierarchy {
            Ok(hierarchy) => hierarchy.at(path),
            Err(_) => continue,
        };
        if !at.is_dir() {
            continue;
        }
        outcome = remove_at(&at, &mut end).map(|()| true);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

fn members(directory: &Path) -> Vec<i32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Removes a group. Calls `end` with the number of each process in it and the signal to end it; processes that it does not end move to the group
/// above.
fn remove_at(directory: &Path, end: &mut dyn FnMut(i32, Signal) -> bool) -> io::Result<()> {
    // Programs may have made groups of their own in it.
    for entry in fs::read_dir(directory)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_at(&entry.path(), end)?;
        }
    }
    let above = directory.parent().unwrap_or(directory).join("cgroup.procs");
    let mut outcome = Ok(());
    for turn in 0..40 {
        for pid in members(directory) {
            if !end(pid, if turn < 20 { Signal::TERM } else { Signal::KILL }) {
                let _ = fs::write(&above, pid.to_string());
            }
        }
        outcome = fs::remove_dir(directory);
        match &outcome {
            // A process that has just ended still counts for a moment.
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => pause(),
            _ => break,
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hierarchy_is_found_wherever_it_is_mounted() {
        let hybrid = "\
24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
25 24 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
34 24 0:32 / /sys/fs/cgroup/uni\\040fied rw shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(mounted(hybrid), Some("/sys/fs/cgroup/uni fied".into()));
        // A mount that shows only a part does not help with a path from the root.
        assert_eq!(mounted("34 24 0:32 /docker/7 /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n"), None);
        assert_eq!(mounted(""), None);
    }

    #[test]
    fn of_a_killed_one_s_processes_only_those_with_its_mark_are_ended() {
        let id = format!("{}-7", std::process::id());
        let group = match Cgroup::create(&group_name(&id)) {
            Ok(group) => group,
            Err(error) => return warpline_skip::skip("tcp-nice", error),
        };
        let sleeper = |mark: &str| {
            let mut command = std::process::Command::new("sleep");
            let child = command.arg("600").env(crate::start::MARK, mark).spawn().unwrap();
            let procs = group.hierarchy.at(group.path()).join("cgroup.procs");
            fs::write(procs, child.id().to_string()).unwrap();
            child
        };
        let (mut own, mut other) = (sleeper(&id), sleeper("another"));
        let mut reported = Vec::new();
        assert!(remove(group.path(), &id, &mut |text| reported.push(text.to_owned())).unwrap());
        assert!(
            reported.len() == 1 && reported[0].contains(&format!("process {} (sleep)", own.id())),
            "{reported:?}"
        );
        assert!(own.wait().unwrap().code().is_none());
        assert!(other.try_wait().unwrap().is_none(), "a process without the mark was ended");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
