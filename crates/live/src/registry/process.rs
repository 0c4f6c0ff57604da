//! Processes of a session: how they are identified, and how they are ended.
//!
//! Numbers of processes and of namespaces are reused. So we hold a process by a descriptor (pidfd_open(2)) before we inspect it, and it
//! counts as a session's only if it is in the session's network namespace, has its mark in its environment, and belongs to this user.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::unistd::Uid;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{MARK, Session, pause};

/// Steps of [`pause`] that a process has to end after it was asked, and after it was killed.
const PATIENCE: u32 = 20;

/// When a process started, in clock ticks since the machine did; none if there is no such process.
pub(super) fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything: fields are counted from after it. The start is field 22.
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A process, even if its number is reused.
#[derive(Debug)]
pub(crate) struct Process {
    number: i32,
    descriptor: OwnedFd,
}

impl Process {
    /// Opens the process that has this number now.
    pub(crate) fn open(number: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(number).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Process { number, descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Sends it a signal. If what was read in `/proc` was of a later process with its number, it has ended, and no process gets the signal.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.descriptor, signal)?)
    }

    /// Whether it belongs to this user (for root: to any user) and has the mark of the session `id`.
    pub(crate) fn is_marked(&self, id: &str) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.number)).unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
        let own = Uid::effective();
        let environment = fs::read(format!("/proc/{}/environ", self.number)).unwrap_or_default();
        let mark = format!("{MARK}={id}");
        (own.is_root() || user.and_then(|user| user.parse().ok()) == Some(own.as_raw()))
            && environment.split(|&byte| byte == 0).any(|variable| variable == mark.as_bytes())
    }

    /// Whether it is in one of these network namespaces.
    fn is_in(&self, namespaces: &[u64]) -> bool {
        fs::metadata(format!("/proc/{}/ns/net", self.number))
            .is_ok_and(|namespace| namespaces.contains(&namespace.ino()))
    }
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = fs::read_to_string(format!("/proc/{}/comm", self.number)).unwrap_or_default();
        // A program chooses its name: control characters must not reach the terminal.
        let name: String = name.trim_end().chars().filter(|c| !c.is_control()).collect();
        write!(f, "process {} ({name})", self.number)
    }
}

/// Processes of a session that run now, apart from its main process and this one.
pub(super) fn processes(session: &Session) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let spared = |pid: i32| {
        pid == std::process::id() as i32 || pid == session.pid && started(pid) == Some(session.started)
    };
    let others = numbers.filter(|&pid| !spared(pid)).filter_map(|pid| Process::open(pid).ok());
    // A shell in a shell has changed the mark of its own processes, but those are in another namespace.
    let own = others.filter(|one| one.is_in(&session.namespaces) && one.is_marked(&session.id));
    // A process that has ended and is not reaped has no environment any more.
    own.collect()
}

/// Ends processes of a session: asks, waits a little, kills. Calls `tell` before it asks each.
pub(super) fn end(session: &Session, tell: &mut dyn FnMut(&str)) -> Vec<String> {
    let mut ended = Vec::new();
    for signal in [Signal::TERM, Signal::KILL] {
        for process in processes(session) {
            let name = process.to_string();
            if !ended.contains(&name) {
                tell(&format!("ending {name}, left by {}", session.described()));
            }
            if process.signal(signal).is_ok() && !ended.contains(&name) {
                ended.push(name);
            }
        }
        for _ in 0..PATIENCE {
            if processes(session).is_empty() {
                return ended;
            }
            pause();
        }
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn own_namespace() -> u64 {
        fs::metadata("/proc/self/ns/net").unwrap().ino()
    }

    fn session(id: &str) -> Session {
        Session { id: id.to_owned(), namespaces: vec![own_namespace()], ..Session::default() }
    }

    fn sleeper(mark: &str) -> Child {
        Command::new("sleep").arg("600").env(MARK, mark).spawn().unwrap()
    }

    fn ends(child: &mut Child) -> bool {
        (0..100).any(|_| {
            pause();
            child.try_wait().unwrap().is_some()
        })
    }

    #[test]
    fn processes_are_known_by_number_and_start() {
        let own = std::process::id() as i32;
        assert!(started(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started(own), started(own));
        assert_eq!(started(i32::MAX), None);
    }

    #[test]
    fn only_what_has_the_mark_in_the_namespace_is_ended_and_it_is_told_before() {
        let id = format!("{}-1", std::process::id());
        let (mut own, mut other) = (sleeper(&id), sleeper("1-1"));
        let mut told = Vec::new();
        // The mark alone is not enough.
        assert!(
            end(&Session { namespaces: vec![1], ..session(&id) }, &mut |text| told.push(text.to_owned()))
                .is_empty()
        );
        assert!(end(&session("none-such"), &mut |text| told.push(text.to_owned())).is_empty());
        assert!(told.is_empty() && own.try_wait().unwrap().is_none());
        let ended = end(&session(&id), &mut |text| told.push(text.to_owned()));
        assert_eq!(ended, [format!("process {} (sleep)", own.id())]);
        assert!(
            told.len() == 1 && told[0].starts_with(&format!("ending process {} (sleep)", own.id())),
            "{told:?}"
        );
        assert!(ends(&mut own) && other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut child = sleeper("1-1");
        let held = Process::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        // Another process that has the number by now does not get the signal, whatever is read of it.
        assert_eq!(held.signal(Signal::TERM).unwrap_err().raw_os_error(), Some(nix::libc::ESRCH));
    }
}
