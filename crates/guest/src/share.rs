//! A guest's share of a core, whatever its dilation: a control group (cgroups(7)) for its kernel and its programs.
//!
//! It uses version 2 if that has the cpu controller and this user may use it (`cpu.max`; ordinary users may if it was delegated to them),
//! and otherwise version 1 (`cpu.cfs_quota_us`).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// The shortest quota that the kernel accepts, and the usual period, in microseconds. The period is short, so that a guest never stands
/// still for long.
const LEAST_QUOTA: u64 = 1000;
const PERIOD: u64 = 10_000;

/// A control group of ours. It is removed with this value, after the processes in it have ended.
#[derive(Debug)]
pub(crate) struct CpuShare {
    directory: PathBuf,
    version: Version,
    share: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Period and quota in microseconds for a share of a core.
fn quota(share: f64) -> (u64, u64) {
    let period = PERIOD.max((LEAST_QUOTA as f64 / share).ceil() as u64).min(1_000_000);
    ((period as f64 * share).round().max(LEAST_QUOTA as f64) as u64, period)
}

/// Possible places for a group with a limit that this process can move to: lines of `/proc/self/mountinfo` and `/proc/self/cgroup` (proc(5)).
/// In version 2 a group with processes has no children with limits, so the groups above are possible, too.
fn places(mountinfo: &str, cgroup: &str) -> Vec<(PathBuf, Version)> {
    let own = |wanted: fn(&str) -> bool| {
        cgroup.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            wanted(controllers).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        let mut fields = after.split(' ');
        let (kind, options) = (fields.next()?, fields.nth(1)?);
        let (version, path) = match kind {
            "cgroup2" => (Version::Two, own(str::is_empty)?),
            "cgroup" if options.split(',').any(|option| option == "cpu") => {
                (Version::One, own(|controllers| controllers.split(',').any(|name| name == "cpu"))?)
            }
            _ => return None,
        };
        // The mount may begin below the root.
        let path = path.strip_prefix(root.trim_start_matches('/')).unwrap_or(&path).trim_start_matches('/');
        let levels = if version == Version::Two { usize::MAX } else { 1 };
        let levels = Path::new(path).ancestors().take(levels);
        Some(levels.map(|path| (Path::new(point).join(path), version)).collect::<Vec<_>>())
    };
    let mut places: Vec<_> = mountinfo.lines().filter_map(mount).flatten().collect();
    places.sort_by_key(|(_, version)| *version == Version::One);
    places
}

fn own_places() -> Vec<(PathBuf, Version)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    places(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
}

impl Version {
    fn file(self) -> &'static str {
        match self {
            Version::One => "cpu.cfs_quota_us",
            Version::Two => "cpu.max",
        }
    }
}

impl CpuShare {
    /// Makes a group for `share` of a core, named `name`, whose limit is not active yet.
    ///
    /// # Errors
    /// If no hierarchy has the controller, or this user may not use it.
    pub(crate) fn create(name: &str, share: f64) -> io::Result<Self> {
        let mut problems: Vec<(Version, io::ErrorKind, String)> = Vec::new();
        for (above, version) in own_places() {
            let directory = above.join(name);
            match prepare(&above, &directory, version) {
                Ok(()) => return Ok(CpuShare { directory, version, share }),
                // In a hierarchy, the error at the place nearest to this process says most.
                Err(_) if problems.iter().any(|problem| problem.0 == version) => {}
                Err(error) => problems.push((version, error.kind(), format!("{}: {error}", above.display()))),
            }
        }
        let none = "no control group with the cpu controller is mounted";
        let kind = problems.last().map_or(io::ErrorKind::Unsupported, |problem| problem.1);
        let reasons: Vec<&str> = problems.iter().map(|problem| problem.2.as_str()).collect();
        Err(io::Error::new(kind, if reasons.is_empty() { none.to_owned() } else { reasons.join("; ") }))
    }

    /// The file to which a process writes `0` to enter, with all that it starts.
    pub(crate) fn door(&self) -> io::Result<File> {
        OpenOptions::new().write(true).open(self.directory.join("cgroup.procs"))
    }

    /// Switches the limit on or off.
    pub(crate) fn limit(&self, holds: bool) -> io::Result<()> {
        let (quota, period) = quota(self.share);
        let write = |file: &str, text: String| fs::write(self.directory.join(file), text);
        match (self.version, holds) {
            (Version::Two, true) => write("cpu.max", format!("{quota} {period}")),
            (Version::Two, false) => write("cpu.max", "max".to_owned()),
            (Version::One, true) => {
                write("cpu.cfs_period_us", period.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())
            }
            (Version::One, false) => write("cpu.cfs_quota_us", "-1".to_owned()),
        }
    }
}

/// Makes a group that can have a limit.
fn prepare(above: &Path, directory: &Path, version: Version) -> io::Result<()> {
    fs::create_dir(directory)?;
    let limit = directory.join(version.file());
    if version == Version::Two && !limit.exists() {
        // Refused if the group above has processes of its own, or no such controller.
        let _ = fs::write(above.join("cgroup.subtree_control"), "+cpu");
    }
    let ready = OpenOptions::new().write(true).open(&limit).map(drop);
    if let Err(error) = ready {
        let _ = fs::remove_dir(directory);
        return Err(match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(io::ErrorKind::Unsupported, "the cpu controller is not enabled there")
            }
            _ => error,
        });
    }
    Ok(())
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        // A process that has just been killed still counts for a moment.
        for _ in 0..200 {
            match fs::remove_dir(&self.directory) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => crate::time::pause(),
                _ => return,
            }
        }
    }
}

/// Removes groups whose names begin with `prefix` and for which `dead` returns true.
pub(crate) fn sweep(dead: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let groups =
        own_places().into_iter().flat_map(|(place, _)| fs::read_dir(place).into_iter().flatten().flatten());
    let gone = groups.filter(|group| {
        group.file_name().to_str().is_some_and(&dead) && fs::remove_dir(group.path()).is_ok()
    });
    gone.map(|group| group.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_exact_and_never_too_short() {
        assert_eq!(quota(0.5), (5000, 10_000));
        assert_eq!(quota(1.0), (10_000, 10_000));
        assert_eq!(quota(0.05), (1000, 20_000));
        assert_eq!(quota(0.001), (1000, 1_000_000));
    }

    #[test]
    fn hierarchies_are_found_and_the_newer_one_is_tried_first() {
        let mounts = "\
25 24 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
26 24 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
34 24 0:32 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let cgroup = "3:memory:/m\n2:cpu,cpuacct:/a/b\n0::/user.slice\n";
        let found = places(mounts, cgroup);
        assert_eq!(
            found,
            [
                (PathBuf::from("/sys/fs/cgroup/unified/user.slice"), Version::Two),
                (PathBuf::from("/sys/fs/cgroup/unified"), Version::Two),
                (PathBuf::from("/sys/fs/cgroup/cpu/a/b"), Version::One)
            ]
        );
        assert!(places("", cgroup).is_empty());
    }

    /// Runs on machines that have the controller, in either version, and let this user use it.
    #[test]
    fn a_process_in_a_group_is_throttled_until_the_limit_is_lifted() {
        let share = match CpuShare::create(&format!("warpline-share-test-{}", std::process::id()), 0.1) {
            Ok(share) => share,
            Err(error) => return warpline_skip::skip("cpu-controller", error),
        };
        eprintln!("{:?} at {}", share.version, share.directory.display());
        let throttled = || {
            let stat = fs::read_to_string(share.directory.join("cpu.stat")).unwrap();
            let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
            count.unwrap().trim().parse::<u64>().unwrap()
        };
        let door = share.door().unwrap();
        let mut busy = std::process::Command::new("sh");
        busy.args(["-c", "echo 0 >&0; while :; do :; done"]).stdin(door);
        let mut busy = busy.spawn().unwrap();
        let wait = |what: &str, done: &dyn Fn() -> bool| {
            let begun = crate::time::host_now();
            while !done() {
                assert!(crate::time::host_now() - begun < 30_000_000_000, "{what}");
                crate::time::pause();
            }
        };
        let inside = || {
            let processes = fs::read_to_string(share.directory.join("cgroup.procs")).unwrap();
            processes.lines().any(|line| line == busy.id().to_string())
        };
        wait("the process is not in the group", &inside);
        assert_eq!(throttled(), 0);
        share.limit(true).unwrap();
        wait("the process is not throttled", &|| throttled() > 0);
        share.limit(false).unwrap();
        let limit = fs::read_to_string(share.directory.join(share.version.file())).unwrap();
        assert!(["max", "-1"].iter().any(|free| limit.starts_with(free)), "{limit}");
        busy.kill().unwrap();
        busy.wait().unwrap();
        let directory = share.directory.clone();
        drop(share);
        assert!(!directory.exists());
    }
}
