//! The guest's file system: that of the machine, read-only, under a layer that receives all writes and is discarded at the end.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};
use warpline_agent::{Order, SHARE};

use crate::failure::{Doing, Failure};
use crate::modules;

/// The guest's directory as the guest's kernel sees it before anything is mounted: the kernel is a process of the machine, and the
/// machine's `/proc` is still in place.
const DIRECTORY: &str = "/proc/self/cwd";
/// Where the share is mounted.
pub(crate) const SHARED: &str = "/run/warpline";
/// Where the layers are assembled.
const STAGE: &str = "/mnt";

/// Whether this runs in a guest.
pub(crate) fn is_guest() -> bool {
    // The boot line of crates/guest sets this.
    nix::sys::utsname::uname().is_ok_and(|name| name.machine() == "x86_64")
        && Path::new(DIRECTORY).join(warpline_agent::ORDER).exists()
}

/// Reads the order.
pub(crate) fn read_order() -> Result<Order, Failure> {
    let path = Path::new(DIRECTORY).join(warpline_agent::ORDER);
    let bytes = fs::read(&path).doing(|| format!("read {}", path.display()))?;
    serde_json::from_slice(&bytes).doing(|| "understand the order".to_owned())
}

fn attach(source: &str, target: &str, kind: &str, flags: MsFlags, data: Option<&str>) -> Result<(), Failure> {
    mount(Some(source), target, Some(kind), flags, data).doing(|| format!("mount {kind} on {target}"))
}

/// Assembles the guest's root and moves into it.
pub(crate) fn set_up(order: &Order, overlay: Option<&str>) -> Result<(), Failure> {
    let none = MsFlags::empty();
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    attach("scratch", STAGE, "tmpfs", none, Some("mode=0755"))?;
    let root = format!("{STAGE}/root");
    for directory in ["root", "upper", "work"] {
        let path = format!("{STAGE}/{directory}");
        fs::create_dir(&path).doing(|| format!("make {path}"))?;
    }
    if let Some(overlay) = overlay {
        modules::load(overlay)?;
    }
    let layers = format!("lowerdir=/,upperdir={STAGE}/upper,workdir={STAGE}/work");
    attach("overlay", &root, "overlay", none, Some(&layers))?;
    let place = |name: &str| format!("{root}/{name}");
    attach("proc", &place("proc"), "proc", safe | MsFlags::MS_NOEXEC, None)?;
    attach("sysfs", &place("sys"), "sysfs", safe | MsFlags::MS_NOEXEC, None)?;
    attach("devtmpfs", &place("dev"), "devtmpfs", MsFlags::MS_NOSUID, Some("mode=0755"))?;
    // /tmp stays as it is, under the layer: a scenario's directory may be there. /run belongs to the machine.
    attach("tmpfs", &place("run"), "tmpfs", safe, Some("mode=0755"))?;
    for (name, mode) in [("dev/shm", "mode=1777"), ("dev/pts", "mode=0620,ptmxmode=0666")] {
        let path = place(name);
        fs::create_dir_all(&path).doing(|| format!("make {path}"))?;
        let kind = if name == "dev/pts" { "devpts" } else { "tmpfs" };
        attach(kind, &path, kind, MsFlags::MS_NOSUID, Some(mode))?;
    }
    for (link, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        let path = place(&format!("dev/{link}"));
        if !Path::new(&path).exists() {
            symlink(target, &path).doing(|| format!("make {path}"))?;
        }
    }
    let shared = format!("{root}{SHARED}");
    fs::create_dir_all(&shared).doing(|| format!("make {shared}"))?;
    let source = format!("{}/{SHARE}", order.directory);
    attach("share", &shared, "hostfs", safe, Some(&source))?;

    chdir(root.as_str()).doing(|| format!("enter {root}"))?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .doing(|| "move the root".to_owned())?;
    chroot(".").doing(|| "change the root".to_owned())?;
    chdir("/").doing(|| "enter the root".to_owned())
}

/// Settings that programs may change: each host has its own.
const OPEN: &str = "/proc/sys/net";

/// Makes the kernel's settings read-only, after the agent has made its own. Some of them name a program that the kernel starts with all
/// capabilities (`kernel.core_pattern`, `kernel.modprobe`, `/sys/kernel/uevent_helper`). The network settings of a host stay writable.
/// Programs cannot undo this: only the agent can mount anything.
pub(crate) fn close_settings() -> Result<(), Failure> {
    let none = None::<&str>;
    let bind = |path: &str| {
        mount(Some(path), path, none, MsFlags::MS_BIND, none).doing(|| format!("mount {path} on itself"))
    };
    let close = |path: &str| {
        let kept = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY | kept;
        mount(none, path, none, flags, none).doing(|| format!("mount {path} read-only"))
    };
    bind("/proc/sys")?;
    // Before its parent is closed: a separate mount keeps its own flags.
    if Path::new(OPEN).exists() {
        bind(OPEN)?;
    }
    close("/proc/sys")?;
    close("/sys")
}
