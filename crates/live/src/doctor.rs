//! What this machine can do: each feature is tested, not guessed from versions.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::Uid;
use rustix::event::{Timespec, poll};
use serde::Serialize;
use warpline_core::TimeDelta;

use crate::bpf;
use crate::cgroup::Cgroup;
use crate::clock::{RealClock, be_punctual};
use crate::netlink::{Netlink, VethEnd};
use crate::netns::NetNs;
use crate::nice::supervise;
use crate::privilege;
use crate::shell::outward;
use crate::start::in_path;

/// A feature.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Its name.
    pub name: &'static str,
    /// Whether it is available.
    pub ok: bool,
    /// What was found.
    pub found: String,
    /// What it is used for.
    pub used_for: &'static str,
    /// How to get it if it is missing.
    pub remedy: &'static str,
}

fn finding(
    name: &'static str,
    used_for: &'static str,
    remedy: &'static str,
    result: Result<String, String>,
) -> Finding {
    let ok = result.is_ok();
    let found = result.unwrap_or_else(|problem| problem);
    Finding { name, ok, found, used_for, remedy: if ok { "" } else { remedy } }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Tests everything. Takes about a fifth of a second.
pub fn examine() -> Vec<Finding> {
    let privileged = privilege::is_privileged();
    vec![
        finding(
            "privileges",
            "live interfaces, shells that reach the machine's own network",
            "run as root; otherwise shells have a user namespace of their own",
            if privileged {
                Ok("root's, for networks".to_owned())
            } else {
                Err("those of an ordinary user".to_owned())
            },
        ),
        finding(
            "network namespaces",
            "hosts that are namespaces; shells",
            "a kernel with CONFIG_NET_NS; as an ordinary user, see user namespaces",
            if privileged {
                NetNs::create().map(|_| "can be made".to_owned()).map_err(text)
            } else if Path::new("/proc/self/ns/net").exists() {
                Ok("the kernel has them; an ordinary user makes them in a user namespace".to_owned())
            } else {
                Err("the kernel has none".to_owned())
            },
        ),
        finding(
            "user namespaces",
            "shells of ordinary users",
            "sysctl user.max_user_namespaces above 0; Debian: kernel.unprivileged_userns_clone=1; Ubuntu: \
             kernel.apparmor_restrict_unprivileged_userns=0; containers often forbid them",
            user_namespace().map(|()| "can be made".to_owned()).map_err(text),
        ),
        finding(
            "veth",
            "wires between namespaces",
            "modprobe veth",
            if privileged { veth() } else { Ok("not tried: an ordinary user".to_owned()) },
        ),
        finding(
            "packet sockets",
            "ports on interfaces",
            "CAP_NET_RAW, and a kernel with CONFIG_PACKET",
            if privileged {
                socket(libc::AF_PACKET).map(|()| "AF_PACKET opens".to_owned()).map_err(text)
            } else {
                Ok("not tried: an ordinary user".to_owned())
            },
        ),
        finding(
            "TUN",
            "ports where there is no veth",
            "modprobe tun; /dev/net/tun must be readable and writable",
            outward::tun().map(|()| format!("{} opens", outward::TUN)).map_err(text),
        ),
        finding(
            "AF_XDP",
            "nothing yet: packet sockets carry as much on veth",
            "a kernel with CONFIG_XDP_SOCKETS, and CAP_NET_RAW",
            socket(libc::AF_XDP).map(|()| "opens".to_owned()).map_err(text),
        ),
        finding(
            "BTF",
            "warpline nice: TCP Nice in the kernel",
            "a kernel with CONFIG_DEBUG_INFO_BTF (distributions' kernels have it)",
            present(&["/sys/kernel/btf/vmlinux"]).ok_or_else(|| "no /sys/kernel/btf/vmlinux".to_owned()),
        ),
        finding(
            "BPF objects",
            "warpline nice: TCP Nice in the kernel",
            bpf::REMEDY,
            if bpf::is_built() {
                Ok("in this build".to_owned())
            } else {
                Err(format!("not in this build: {}", bpf::ABSENT))
            },
        ),
        finding(
            "struct_ops",
            "warpline nice: TCP Nice in the kernel",
            "Linux 6.4 or later, with BTF, CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
            struct_ops(privileged),
        ),
        finding(
            "cgroup v2",
            "warpline nice: every socket of a command",
            "a kernel with CONFIG_CGROUPS and CONFIG_CGROUP_BPF, not booted with cgroup_no_v2; in a container, CAP_SYS_ADMIN",
            cgroup(privileged),
        ),
        finding(
            "seccomp notifications",
            "warpline nice by ordinary users, once root has loaded TCP Nice",
            "Linux 5.6 or later with CONFIG_SECCOMP_FILTER; not inside another `warpline nice` or a container that does the same",
            supervise::is_possible()
                .map(|()| "connections can be stopped and resumed".to_owned())
                .map_err(text),
        ),
        finding(
            "nft",
            "shells that reach beyond this machine (address translation)",
            "apt install nftables",
            in_path(&["nft"]).ok_or_else(|| "not installed".to_owned()),
        ),
        finding(
            "pasta",
            "ordinary users' shells that reach beyond their own namespaces",
            "apt install passt; and /dev/net/tun for every user: modprobe tun; chmod 0666 /dev/net/tun",
            pasta(privileged),
        ),
        finding(
            "clock",
            "punctual packets",
            "on a virtual machine, a better clock source: /sys/devices/system/clocksource/clocksource0",
            clock(),
        ),
        finding(
            "priorities",
            "real and dilated clocks, guests among them, beside other work",
            "",
            Ok(priorities(fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").ok().as_deref())),
        ),
    ]
}

/// Whether ordinary users' shells reach the outside: through pasta, which needs a device that not every user may open.
fn pasta(privileged: bool) -> Result<String, String> {
    let program = in_path(&["pasta"]).ok_or_else(|| "not installed".to_owned())?;
    if !privileged {
        return outward::tun().map(|()| program).map_err(text);
    }
    // Root can open it in any case; what counts is what other users may do.
    let metadata =
        fs::metadata(outward::TUN).map_err(|error| format!("{program}, but no {}: {error}", outward::TUN))?;
    match metadata.permissions().mode() & 0o006 {
        0o006 => Ok(program),
        _ => Err(format!("{program}, but ordinary users may not open {}", outward::TUN)),
    }
}

/// What nice(1) does here, from the sysctl of automatic task groups (sched(7), "The autogroup feature"); `None` if the kernel has no
/// such setting. Only a remark: either is fine.
fn priorities(autogroup: Option<&str>) -> String {
    match autogroup.map(str::trim) {
        Some("0") | None => "nice works between all processes".to_owned(),
        Some("1") => "each session (setsid, a terminal) is a group of its own (sched_autogroup_enabled is 1): nice has no effect between \
                      them; a nice value written to /proc/PID/autogroup has"
            .to_owned(),
        Some(other) => format!("unknown: sched_autogroup_enabled is \"{other}\""),
    }
}

fn present(paths: &[&str]) -> Option<String> {
    paths.iter().find(|path| Path::new(path).exists()).map(|path| (*path).to_owned())
}

/// The user and the group "nobody", by the kernel's own default (`overflowuid` in proc(5)).
const NOBODY: u32 = 65_534;

/// Whether ordinary users can make a user and a network namespace.
fn user_namespace() -> io::Result<()> {
    match user_namespace_as(Uid::effective().is_root().then_some(NOBODY)) {
        // In a user namespace without that user, this one is the only one there is.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => user_namespace_as(None),
        other => other,
    }
}

/// A program that runs as this user, if one is named: without root's privileges then.
fn program(name: &str, user: Option<u32>) -> Command {
    let mut command = Command::new(name);
    if let Some(user) = user {
        // This gives up further groups, too.
        command.uid(user).gid(user);
    }
    command
}

/// Starts a child that makes a user and a network namespace, and ends.
fn user_namespace_as(user: Option<u32>) -> io::Result<()> {
    let mut command = program("true", user);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    let child = unsafe {
        command.pre_exec(|| {
            unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(io::Error::from)
        })
    };
    child.status().map(drop)
}

fn socket(family: i32) -> io::Result<()> {
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    let socket = Errno::result(socket)?;
    // SAFETY: the descriptor was just created and has no other owner.
    drop(unsafe { OwnedFd::from_raw_fd(socket) });
    Ok(())
}

fn veth() -> Result<String, String> {
    let namespace = NetNs::create().map_err(text)?;
    let made = namespace.within(|| {
        let end = |name, number| VethEnd { name, mac: [2, 0, 0, 0, 0, number], namespace: None };
        Netlink::open()?.add_veth(&end("a", 1), &end("b", 2), 1500)
    });
    made.map_err(text)?.map_err(text)?;
    Ok("pairs can be made".to_owned())
}

/// Loads TCP Nice and unloads it again, or finds it loaded.
fn struct_ops(privileged: bool) -> Result<String, String> {
    if !bpf::is_built() {
        return Err("not tried: no BPF objects".to_owned());
    }
    if !privileged {
        return Ok("not tried: an ordinary user".to_owned());
    }
    if let Some(loaded) = bpf::control::status() {
        if loaded.is_foreign() {
            return Ok(bpf::BpfError::Foreign.to_string());
        }
        let how = if loaded.stays { "until it is unloaded" } else { "while commands use it" };
        return Ok(format!("TCP Nice is in the kernel, {how}"));
    }
    bpf::control::hold(None).map(|_| "TCP Nice can be loaded".to_owned()).map_err(text)
}

fn cgroup(privileged: bool) -> Result<String, String> {
    if !privileged {
        return Ok("not tried: an ordinary user".to_owned());
    }
    let made = Cgroup::create(&format!("warpline-doctor-{}", std::process::id())).map_err(text)?;
    Ok(format!("groups can be made (as {})", made.path()))
}

/// The clock's resolution, and how late this thread wakes from short sleeps.
fn clock() -> Result<String, String> {
    const SLEEP: TimeDelta = TimeDelta::from_micros(1500);
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::Monotonic);
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.map_or_else(|_| "unknown".to_owned(), |source| source.trim().to_owned());
    be_punctual();
    let clock = RealClock::start();
    let mut late: Vec<u64> = Vec::new();
    for _ in 0..100 {
        let due = clock.now() + SLEEP;
        let sleep = Timespec { tv_sec: 0, tv_nsec: SLEEP.as_nanos() as i64 };
        poll(&mut [], Some(&sleep)).map_err(text)?;
        late.push(clock.now().saturating_since(due).as_nanos());
    }
    late.sort_unstable();
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let found = format!(
        "source {source}, resolution {} ns; sleeps end late by {:.0} us (median), {:.0} us (9 of 10), {:.0} us (worst of 100)",
        resolution.tv_nsec,
        micros(late[50]),
        micros(late[90]),
        micros(late[99])
    );
    if resolution.tv_sec == 0 && resolution.tv_nsec <= 1000 && late[50] < 1_000_000 {
        Ok(found)
    } else {
        Err(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_sessions_are_groups_it_is_said_what_replaces_nice() {
        let text = priorities(Some("1\n"));
        assert!(text.contains("no effect between") && text.contains("/proc/PID/autogroup"), "{text}");
        for without in [Some("0\n"), None] {
            assert_eq!(priorities(without), "nice works between all processes");
        }
        assert!(priorities(Some("2")).contains("\"2\""));
        let _turn = bpf::turn();
        let findings = examine();
        let remark = findings.iter().find(|finding| finding.name == "priorities").unwrap();
        assert!(remark.ok, "{remark:?}");
    }

    #[test]
    fn what_users_can_do_is_tried_as_one_of_them() {
        if !Uid::effective().is_root() {
            return warpline_skip::skip("root", "only root can become another user");
        }
        let script = "id -u; id -G; grep CapEff /proc/self/status";
        let output = program("sh", Some(NOBODY)).args(["-c", script]).output().unwrap();
        let capabilities = "CapEff:\t0000000000000000";
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            format!("{NOBODY}\n{NOBODY}\n{capabilities}\n")
        );
    }

    #[test]
    fn what_is_missing_comes_with_a_remedy() {
        let _turn = bpf::turn();
        for finding in examine() {
            assert_eq!(finding.ok, finding.remedy.is_empty(), "{finding:?}");
            assert!(!finding.found.is_empty() && !finding.used_for.is_empty());
        }
    }
}
