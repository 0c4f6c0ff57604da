//! A guest's share of a core, whatever its dilation: a control group (cgroups(7)) for its kernel and its programs.
//!
//! It uses version 2 if that has the cpu controller and this user may use it (`cpu.max`; ordinary users may if it was delegated to them),
//! and otherwise version 1 (`cpu.cfs_quota_us`).
//!
//! The kernel gives a group its quota anew in each period (Linux's Documentation/scheduler/sched-bwc.rst). Once the quota is used up, the guest
//! stands still until the period ends. The period is dilated with the guest's clock, so that a guest perceives the same pauses at every factor.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use warpline_core::dilation::Tdf;

/// The shortest quota that the kernel accepts, in microseconds (`min_cfs_quota_period` in kernel/sched/core.c).
const LEAST_QUOTA: u64 = 1000;
/// The shortest and the longest period that it accepts, in microseconds.
const PERIODS: (u64, u64) = (1000, 1_000_000);
/// The smallest share of a core that Linux can give a group: its shortest quota in its longest period.
pub const LEAST_SHARE: f64 = LEAST_QUOTA as f64 / PERIODS.1 as f64;

/// The controller that limits, and that of version 1 that counts.
const CONTROLLER: &str = "cpu";
const COUNTER: &str = "cpuacct";

/// A limit of a guest's CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuLimit {
    /// Share of a core, from [`LEAST_SHARE`] to 1, whatever the dilation.
    pub share: f64,
    /// How often it gets that share anew, in nanoseconds of the guest's time.
    pub period: u64,
}

/// A control group of ours. It is removed with this value, after the processes in it have ended.
#[derive(Debug)]
pub(crate) struct CpuShare {
    directory: PathBuf,
    version: Version,
    /// The group that counts the time on a core where another hierarchy of version 1 does that.
    counter: Option<PathBuf>,
    share: f64,
    /// The period in the guest's time, in nanoseconds.
    period: u64,
}

/// What a group has used, and how it was held back, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Used {
    /// Nanoseconds on a core; none if nothing counts them.
    pub(crate) on_core: Option<u64>,
    /// Periods in which something ran or was held back.
    pub(crate) periods: u64,
    /// Those in which the quota was used up before the period's end.
    pub(crate) throttled: u64,
}

impl Used {
    /// What has been added since `before`.
    pub(crate) fn since(self, before: Used) -> Used {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Used {
            on_core: self.on_core.zip(before.on_core).map(|(now, then)| less(now, then)),
            periods: less(self.periods, before.periods),
            throttled: less(self.throttled, before.throttled),
        }
    }
}

/// A limit that holds, or that has held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// The guest's factor.
    pub(crate) tdf: Tdf,
    /// The machine's time when it began, and what had been used by then.
    pub(crate) begun: (u64, Used),
    /// The same when it was lifted.
    pub(crate) lifted: Option<(u64, Used)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Quota and period of the machine in microseconds, for a share of a core. `period` is in the guest's time, in nanoseconds.
///
/// Where the kernel does not accept the dilated period, it is the nearest one that the kernel accepts; the share is the same.
fn quota(share: f64, period: u64, tdf: Tdf) -> (u64, u64) {
    let (least, most) = PERIODS;
    let dilated = (tdf.to_host(period) / 1000).clamp(least, most);
    let period = dilated.max((LEAST_QUOTA as f64 / share).ceil() as u64).min(most);
    ((period as f64 * share).round().max(LEAST_QUOTA as f64) as u64, period)
}

/// Possible places for a group with this controller that this process can move to: lines of `/proc/self/mountinfo` and `/proc/self/cgroup`
/// (proc(5)). In version 2 a group with processes has no children with limits, so the groups above are possible, too.
fn places(controller: &str, mountinfo: &str, cgroup: &str) -> Vec<(PathBuf, Version)> {
    let own = |wanted: &dyn Fn(&str) -> bool| {
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
            "cgroup2" => (Version::Two, own(&str::is_empty)?),
            "cgroup" if options.split(',').any(|option| option == controller) => {
                (Version::One, own(&|controllers| controllers.split(',').any(|name| name == controller))?)
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

/// [`places`] on this machine.
fn own_places(controller: &str) -> Vec<(PathBuf, Version)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    places(controller, &read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
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
    /// Makes a group for `share` of a core in each `period` of the guest's time, in nanoseconds. It is named `name`. Its limit is not active yet.
    ///
    /// # Errors
    /// If no hierarchy has the controller, or this user may not use it.
    pub(crate) fn create(name: &str, share: f64, period: u64) -> io::Result<Self> {
        let mut problems: Vec<(Version, io::ErrorKind, String)> = Vec::new();
        for (above, version) in own_places(CONTROLLER) {
            let directory = above.join(name);
            match prepare(&above, &directory, version) {
                Ok(()) => {
                    let counter = if version == Version::One { count_beside(&directory, name) } else { None };
                    return Ok(CpuShare { directory, version, counter, share, period });
                }
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

    /// The files to which a process writes `0` to enter, with all that it starts.
    pub(crate) fn doors(&self) -> io::Result<Vec<File>> {
        let groups = std::iter::once(&self.directory).chain(&self.counter);
        groups.map(|group| OpenOptions::new().write(true).open(group.join("cgroup.procs"))).collect()
    }

    /// Switches the limit on, for a clock that is dilated by `tdf`, or off.
    pub(crate) fn limit(&self, tdf: Option<Tdf>) -> io::Result<()> {
        let write = |file: &str, text: String| fs::write(self.directory.join(file), text);
        match (self.version, tdf.map(|tdf| quota(self.share, self.period, tdf))) {
            (Version::Two, Some((quota, period))) => write("cpu.max", format!("{quota} {period}")),
            (Version::Two, None) => write("cpu.max", "max".to_owned()),
            (Version::One, Some((quota, period))) => {
                // The kernel checks the pair after each of both writes, and refuses one whose quota is too short.
                write("cpu.cfs_quota_us", "-1".to_owned())?;
                write("cpu.cfs_period_us", period.to_string())?;
                write("cpu.cfs_quota_us", quota.to_string())
            }
            (Version::One, None) => write("cpu.cfs_quota_us", "-1".to_owned()),
        }
    }

    /// The share, and the period of the machine at this factor in nanoseconds.
    pub(crate) fn terms(&self, tdf: Tdf) -> (f64, u64) {
        (self.share, quota(self.share, self.period, tdf).1 * 1000)
    }

    /// What it has used so far (`cpu.stat`; for version 1 also `cpuacct.usage`).
    pub(crate) fn used(&self) -> io::Result<Used> {
        let text = fs::read_to_string(self.directory.join("cpu.stat"))?;
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|(own, _)| *own == name)?.1.trim().parse::<u64>().ok()
        };
        let counted = |group: &PathBuf| -> Option<u64> {
            fs::read_to_string(group.join("cpuacct.usage")).ok()?.trim().parse().ok()
        };
        Ok(Used {
            on_core: match self.version {
                Version::Two => value("usage_usec").map(|micros| micros * 1000),
                Version::One => counted(self.counter.as_ref().unwrap_or(&self.directory)),
            },
            periods: value("nr_periods").unwrap_or(0),
            throttled: value("nr_throttled").unwrap_or(0),
        })
    }
}

/// The group `name` in the hierarchy of version 1 that counts the time on a core; none if `directory` counts it itself, or nothing does.
fn count_beside(directory: &Path, name: &str) -> Option<PathBuf> {
    if directory.join("cpuacct.usage").exists() {
        return None;
    }
    let above = own_places(COUNTER).into_iter().find(|(_, version)| *version == Version::One)?.0;
    let group = above.join(name);
    fs::create_dir(&group).ok().map(|()| group)
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
        for group in std::iter::once(&self.directory).chain(&self.counter) {
            // A process that has just been killed still counts for a moment.
            for _ in 0..200 {
                match fs::remove_dir(group) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => crate::time::pause(),
                    _ => break,
                }
            }
        }
    }
}

/// Removes groups for whose names `dead` returns true.
pub(crate) fn sweep(dead: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let places = [CONTROLLER, COUNTER].into_iter().flat_map(own_places);
    let groups = places.flat_map(|(place, _)| fs::read_dir(place).into_iter().flatten().flatten());
    let gone = groups.filter(|group| {
        group.file_name().to_str().is_some_and(&dead) && fs::remove_dir(group.path()).is_ok()
    });
    gone.map(|group| group.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use nix::fcntl::{FcntlArg, FdFlag, fcntl};

    use super::*;

    const MILLIS: u64 = 1_000_000;

    fn tdf(factor: f64) -> Tdf {
        Tdf::new(factor).unwrap()
    }

    #[test]
    fn a_guest_perceives_the_same_period_at_every_factor() {
        for factor in [0.5, 1.0, 10.0, 50.0, 100.0] {
            let (quota, period) = quota(0.5, 10 * MILLIS, tdf(factor));
            assert_eq!(tdf(factor).to_run(period * 1000), 10 * MILLIS, "{factor}");
            assert_eq!(quota * 2, period, "{factor}");
        }
        // A tenth of the share at ten times the factor is the same CPU and the same period.
        assert_eq!(quota(0.05, 10 * MILLIS, tdf(1.0)), (1000, 20_000));
        assert_eq!(quota(0.005, 10 * MILLIS, tdf(10.0)), (1000, 200_000));
    }

    #[test]
    fn beyond_what_the_kernel_accepts_the_period_is_the_nearest_and_the_share_stays() {
        assert_eq!(quota(0.5, 10 * MILLIS, tdf(1000.0)), (500_000, 1_000_000));
        assert_eq!(quota(0.5, 10 * MILLIS, tdf(0.001)), (1000, 2000));
        assert_eq!(quota(0.001, 10 * MILLIS, tdf(1.0)), (1000, 1_000_000));
    }

    #[test]
    fn hierarchies_are_found_and_the_newer_one_is_tried_first() {
        let mounts = "\
25 24 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
26 24 0:24 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
34 24 0:32 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let cgroup = "3:memory:/m\n2:cpu,cpuacct:/a/b\n0::/user.slice\n";
        let found = places("cpu", mounts, cgroup);
        assert_eq!(
            found,
            [
                (PathBuf::from("/sys/fs/cgroup/unified/user.slice"), Version::Two),
                (PathBuf::from("/sys/fs/cgroup/unified"), Version::Two),
                (PathBuf::from("/sys/fs/cgroup/cpu/a/b"), Version::One)
            ]
        );
        assert!(places("cpu", "", cgroup).is_empty());
        let counted: Vec<_> = places("cpuacct", mounts, cgroup)
            .into_iter()
            .filter(|(_, version)| *version == Version::One)
            .collect();
        assert_eq!(counted, [(PathBuf::from("/sys/fs/cgroup/cpu/a/b"), Version::One)]);
    }

    /// Runs on machines that have the controller, in either version, and let this user use it.
    #[test]
    fn a_process_in_a_group_is_throttled_until_the_limit_is_lifted() {
        let name = format!("warpline-share-test-{}", std::process::id());
        let share = match CpuShare::create(&name, 0.1, 10 * MILLIS) {
            Ok(share) => share,
            Err(error) => return warpline_skip::skip("cpu-controller", error),
        };
        eprintln!("{:?} at {}", share.version, share.directory.display());
        let mut busy = std::process::Command::new("sh");
        let doors = share.doors().unwrap();
        let enter: Vec<_> = doors.iter().map(|door| format!("echo 0 >&{}", door.as_raw_fd())).collect();
        busy.args(["-c", &format!("{}; while :; do :; done", enter.join("; "))]);
        for door in &doors {
            fcntl(door, FcntlArg::F_SETFD(FdFlag::empty())).unwrap();
        }
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
        let before = share.used().unwrap();
        assert_eq!(before.throttled, 0);
        for (factor, period) in [(1.0, 10 * MILLIS), (3.0, 30 * MILLIS)] {
            share.limit(Some(tdf(factor))).unwrap();
            assert_eq!(share.terms(tdf(factor)), (0.1, period));
            let already = share.used().unwrap().throttled;
            wait("the process is not throttled", &|| share.used().unwrap().throttled > already);
        }
        share.limit(None).unwrap();
        let used = share.used().unwrap().since(before);
        assert!(used.throttled >= 2 && used.periods >= used.throttled, "{used:?}");
        assert!(used.on_core.is_none_or(|nanos| nanos > 0), "{used:?}");
        let limit = fs::read_to_string(share.directory.join(share.version.file())).unwrap();
        assert!(["max", "-1"].iter().any(|free| limit.starts_with(free)), "{limit}");
        busy.kill().unwrap();
        busy.wait().unwrap();
        let groups = [Some(share.directory.clone()), share.counter.clone()];
        drop(share);
        assert!(groups.iter().flatten().all(|group| !group.exists()), "{groups:?}");
    }
}
