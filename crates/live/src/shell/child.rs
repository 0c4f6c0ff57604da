//! The command of a shell: its start in the namespace inside, and its end.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::ExitStatus;

use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::ShellError;
use crate::netns::NetNs;
use crate::start::{self, StartError};

/// The environment variable with the shell's block of addresses, for shells in it.
pub(super) const NETWORK: &str = "WARPLINE_NETWORK";

/// A process of the shell's.
#[derive(Debug)]
pub(super) struct Child {
    child: std::process::Child,
    /// Refers to it even if its number has been reused.
    pidfd: OwnedFd,
    /// Whether it leads a process group of its own.
    group: bool,
}

/// Where a program runs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    /// In this namespace, in front of the terminal.
    Within(&'a NetNs),
    /// In this process's namespace, in front of the terminal.
    Here,
    /// In this process's namespace, in a process group of its own: Ctrl-C is not meant for a server, and processes that it forks end with it,
    /// whatever their environment.
    Beside,
}

impl Child {
    /// Starts a program with these environment variables, from this process's first thread: it dies with that thread.
    pub(super) fn start(
        words: &[OsString],
        place: Place<'_>,
        environment: &[(&str, String)],
        session: &str,
    ) -> Result<Self, ShellError> {
        let fail = |source| StartError { command: words.first().cloned().unwrap_or_default(), source };
        let mut command = start::command(words, session).map_err(fail)?;
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let group = matches!(place, Place::Beside);
        if group {
            command.process_group(0);
        }
        let namespace = if let Place::Within(namespace) = place { Some(namespace) } else { None };
        // Copied, as the closure may not borrow.
        let namespace = namespace.map(|ns| ns.fd().try_clone_to_owned()).transpose().map_err(fail)?;
        let prepare = move || match &namespace {
            Some(namespace) => Ok(setns(namespace, CloneFlags::CLONE_NEWNET)?),
            None => Ok(()),
        };
        // It dies with the emulator, even if that is killed: nothing may go on behind a link that is gone.
        let child = start::start(&mut command, rustix::process::Signal::KILL, prepare).map_err(fail)?;
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd =
            rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).map_err(|errno| {
                ShellError::System { what: "watch the command (Linux 5.3)", source: errno.into() }
            })?;
        Ok(Child { child, pidfd, group })
    }

    /// Becomes readable when the process ends.
    pub(super) fn ended(&self) -> io::Result<OwnedFd> {
        self.pidfd.try_clone()
    }

    /// Its exit status, if it has ended.
    pub(super) fn poll(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends it a signal.
    pub(super) fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
    }

    /// Asks the group to end, and waits for that. Returns whether it still has a process.
    fn ask(&mut self) -> bool {
        let group = Pid::from_raw(self.child.id() as i32);
        let _ = killpg(group, Signal::SIGTERM);
        for _ in 0..20 {
            self.poll();
            if !has_living(group) {
                return false;
            }
            crate::process::pause();
        }
        true
    }

    /// Ends it, if it has not ended yet. A group is asked first, and has a second to clean up.
    pub(super) fn end(&mut self) {
        if self.group && self.ask() {
            let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        }
        if self.poll().is_none() {
            // Processes that it has started are found by their mark.
            self.signal(Signal::SIGKILL);
            let _ = self.child.wait();
        }
        // The number of a group that has ended may be reused.
        self.group = false;
    }
}

/// Whether a process group has a living process. One that has ended but is not reaped yet does not count, although a signal would reach it: some
/// containers' first processes reap slowly.
fn has_living(group: Pid) -> bool {
    if killpg(group, None).is_err() {
        return false;
    }
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut texts = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    texts.any(|text| {
        state_and_group(&text).is_some_and(|(state, number)| state != "Z" && number == group.as_raw())
    })
}

/// The state and the process group in a line of `/proc/PID/stat`, proc(5): after the name, which may contain anything.
fn state_and_group(text: &str) -> Option<(&str, i32)> {
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?, fields.nth(1)?.parse().ok()?))
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_and_the_group_stand_behind_the_name() {
        assert_eq!(state_and_group("77 (a (b) c) S 1 42 42 0 -1"), Some(("S", 42)));
        assert_eq!(state_and_group("77 (a"), None);
        assert!(has_living(nix::unistd::getpgrp()));
    }
}
