//! Processes that may be a session's.
//!
//! Numbers of processes are reused. So we hold a process by a descriptor (pidfd_open(2)) before we inspect it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;

use nix::unistd::Uid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::start::MARK;

/// When a process started, in clock ticks since the machine did; none if there is no such process.
pub(crate) fn started(pid: i32) -> Option<u64> {
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

    /// Waits until it has ended.
    pub(crate) fn wait_for_end(&self) {
        let mut end = [PollFd::new(&self.descriptor, PollFlags::IN)];
        while poll(&mut end, None) == Err(rustix::io::Errno::INTR) {}
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
    pub(crate) fn is_in(&self, namespaces: &[u64]) -> bool {
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

/// Waits for a twentieth of a second.
#[expect(clippy::disallowed_methods, reason = "processes are waited for, not the run's clock")]
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_are_known_by_number_and_start() {
        let own = std::process::id() as i32;
        assert!(started(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(started(own), started(own));
        assert_eq!(started(i32::MAX), None);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let held = Process::open(child.id() as i32).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        held.wait_for_end();
        // Another process that has the number by now does not get the signal, whatever is read of it.
        assert_eq!(held.signal(Signal::TERM).unwrap_err().raw_os_error(), Some(nix::libc::ESRCH));
    }
}
