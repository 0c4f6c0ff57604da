//! Gives a command's sockets a congestion control without privileges: the kernel asks us before the command's programs connect or listen.
//!
//! A system call filter (seccomp_unotify(2), Linux 5.6) stops `connect` and `listen` of the command and all that it starts. For each we take a
//! copy of the socket (pidfd_getfd(2)), set TCP_CONGESTION on it, and let the call continue unchanged; accepted sockets inherit it. If programs
//! ask for another congestion control, the call reports success and does nothing. This works for every congestion control that the kernel allows to any program: TCP Nice after `warpline nice load`.
//!
//! It cannot limit what is received, or reach programs that no longer run as this user. Without privileges programs
//! cannot gain any either (no_new_privs(2)): sudo does not work below. If we are killed nobody answers, so the calls fail
//! (ENOSYS): a killed `warpline nice` leaves nothing that goes on in the foreground.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use nix::libc;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::ipproto;
use rustix::net::sockopt::{set_tcp_congestion, socket_protocol};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::bpf::Counts;

/// The kernel's number of this architecture (audit.h); `None` if we do not know it.
const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// How often to check whether the command has ended, in nanoseconds.
const PERIOD: i64 = 100_000_000;

mod request {
    use nix::libc;
    nix::ioctl_readwrite!(receive, b'!', 0, libc::seccomp_notif);
    nix::ioctl_readwrite!(answer, b'!', 1, libc::seccomp_notif_resp);
    nix::ioctl_write_ptr!(is_valid, b'!', 2, u64);
    // Before Linux 5.9 it had this number, as if it wrote.
    nix::ioctl_read!(is_valid_early, b'!', 2, u64);
}

/// A command whose sockets are given a congestion control.
#[derive(Debug)]
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    /// The thread that started the command; it lives until this value is dropped.
    launcher: Option<(Sender<()>, JoinHandle<()>)>,
    server: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// No process is left whose calls are intercepted.
    over: AtomicBool,
    switched: AtomicU64,
    refused: AtomicU64,
}

impl Supervisor {
    /// Starts a command with `spawn`, so that its sockets use the congestion control `name`.
    ///
    /// # Errors
    /// If the kernel has no such filters or does not allow them; in the inner result, if the command could not be started.
    pub(super) fn start<E: Send + 'static>(
        name: &'static str,
        spawn: impl FnOnce() -> Result<Child, E> + Send + 'static,
    ) -> io::Result<(Self, Result<Child, E>)> {
        let (sender, receiver) = channel();
        let (keep, released) = channel::<()>();
        // The filter applies to a thread and what it starts: this thread makes it, starts the command, and does nothing else.
        let launcher = thread::Builder::new().name("launcher".to_owned()).spawn(move || {
            let _ = sender.send(filter().map(|listener| (listener, spawn())));
            // The command gets a signal to end when the thread that started it ends.
            let _ = released.recv();
        })?;
        let (listener, child) = receiver.recv().map_err(|_| io::Error::other("a thread ended"))??;
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let server = thread::Builder::new()
            .name("supervisor".to_owned())
            .spawn(move || serve(&listener, name, &serving))?;
        Ok((Supervisor { shared, launcher: Some((keep, launcher)), server: Some(server) }, child))
    }

    /// The counters so far.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            switched: self.shared.switched.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            ..Counts::default()
        }
    }

    /// The command has ended. Returns whether processes that it started go on, which cannot connect once this value is dropped.
    pub(super) fn is_needed(&mut self) -> bool {
        if let Some((keep, launcher)) = self.launcher.take() {
            drop(keep);
            let _ = launcher.join();
        }
        !self.shared.over.load(Ordering::Relaxed)
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.is_needed();
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// Whether this kernel and this user can have such a filter. Tested in a thread of its own, which keeps the filter until it ends.
pub(crate) fn is_possible() -> io::Result<()> {
    let try_it = || {
        let listener = filter()?;
        // Containers may forbid copies of descriptors, our own too.
        let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
        pidfd_getfd(own, listener.as_raw_fd(), PidfdGetfdFlags::empty())?;
        Ok(())
    };
    let tried = thread::spawn(try_it).join();
    tried.unwrap_or_else(|_| Err(io::Error::other("a thread ended")))
}

const fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn jump(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// Intercepts `connect` and `listen` of this thread, and of all that it starts from now on. Returns the descriptor for the notifications.
fn filter() -> io::Result<OwnedFd> {
    let architecture = ARCHITECTURE.ok_or(io::ErrorKind::Unsupported)?;
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // `struct seccomp_data`: the call's number at 0, the architecture at 4, arguments of eight bytes from 16 on, of which the lower half
    // comes first. Calls of another architecture (32 bits) pass.
    let mut program = [
        statement(load, 4),
        jump(equal, architecture, 0, 9),
        statement(load, 0),
        jump(equal, libc::SYS_connect as u32, 8, 0),
        jump(equal, libc::SYS_listen as u32, 7, 0),
        jump(equal, libc::SYS_setsockopt as u32, 0, 5),
        // If programs ask for another congestion control, the call reports success.
        statement(load, 24),
        jump(equal, libc::IPPROTO_TCP as u32, 0, 3),
        statement(load, 32),
        jump(equal, libc::TCP_CONGESTION as u32, 0, 1),
        statement(answer, libc::SECCOMP_RET_ERRNO),
        statement(answer, libc::SECCOMP_RET_ALLOW),
        statement(answer, libc::SECCOMP_RET_USER_NOTIF),
    ];
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let install = || {
        // SAFETY: `program` and what it points to outlive the call.
        let listener = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
                &raw const program,
            )
        };
        if listener < 0 { Err(io::Error::last_os_error()) } else { Ok(listener as i32) }
    };
    let listener = match install() {
        // Without CAP_SYS_ADMIN, a process has to give up future privileges first.
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            rustix::thread::set_no_new_privs(true)?;
            install()
        }
        other => other,
    }?;
    // SAFETY: the descriptor was just created and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(listener) })
}

/// Answers until no process is left that asks, or until it has to stop.
fn serve(listener: &OwnedFd, name: &str, shared: &Shared) {
    while !shared.stop.load(Ordering::Relaxed) {
        let mut ready = [PollFd::new(listener, PollFlags::IN)];
        let span = Timespec { tv_sec: 0, tv_nsec: PERIOD };
        // Interruptions are ignored.
        let _ = poll(&mut ready, Some(&span));
        if ready[0].revents().contains(PollFlags::HUP) {
            break;
        }
        if ready[0].revents().contains(PollFlags::IN) {
            one(listener.as_fd(), name, shared);
        }
    }
    shared.over.store(true, Ordering::Relaxed);
}

/// Handles one call.
fn one(listener: BorrowedFd<'_>, name: &str, shared: &Shared) {
    // SAFETY: all zeros is a value of this structure, and what the kernel expects.
    let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and the structure is the call's.
    if unsafe { request::receive(listener.as_raw_fd(), &raw mut call) }.is_err() {
        // The caller was killed meanwhile.
        return;
    }
    match switch(call.pid, call.data.args[0] as i32, name, || still_waits(listener, call.id)) {
        Ok(true) => shared.switched.fetch_add(1, Ordering::Relaxed),
        Ok(false) => 0,
        Err(_) => shared.refused.fetch_add(1, Ordering::Relaxed),
    };
    let mut answer = libc::seccomp_notif_resp {
        id: call.id,
        val: 0,
        error: 0,
        flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
    };
    // SAFETY: the descriptor is open and the structure is the call's. If the caller was killed there is nothing to do.
    let _ = unsafe { request::answer(listener.as_raw_fd(), &raw mut answer) };
}

/// Returns an error unless the call is still stopped: if it is, its caller lives, and what was found by its number belongs to it (seccomp_unotify(2)).
///
/// # Errors
/// If it has been killed, or interrupted by a signal.
fn still_waits(listener: BorrowedFd<'_>, mut call: u64) -> io::Result<()> {
    // SAFETY: the descriptor is open and the number is the call's; the kernel reads it.
    let answer = match unsafe { request::is_valid(listener.as_raw_fd(), &raw const call) } {
        // SAFETY: as above.
        Err(nix::errno::Errno::EINVAL) => unsafe {
            request::is_valid_early(listener.as_raw_fd(), &raw mut call)
        },
        other => other,
    };
    answer.map(drop).map_err(io::Error::from)
}

/// Gives a congestion control to a socket of another process, by its number there, if the thread still waits: otherwise its number may
/// have been reused, and this would be another process's socket. Returns whether it was a socket of TCP or MPTCP, whose subflows follow it.
fn switch(
    thread: u32,
    number: i32,
    name: &str,
    still_waits: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    let process = Pid::from_raw(process_of(thread)?).ok_or(io::ErrorKind::NotFound)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    let socket = match pidfd_getfd(process, number, PidfdGetfdFlags::empty()) {
        // A closed descriptor is the caller's mistake, which the call itself reports.
        Err(rustix::io::Errno::BADF) => return Ok(false),
        other => other?,
    };
    still_waits()?;
    match socket_protocol(&socket) {
        Ok(Some(protocol)) if [ipproto::TCP, ipproto::MPTCP].contains(&protocol) => {}
        _ => return Ok(false),
    }
    set_tcp_congestion(&socket, name)?;
    Ok(true)
}

/// The process that a thread is one of.
fn process_of(thread: u32) -> io::Result<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let number = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Connects to itself from a thread and from a child, and prints the congestion controls.
    const SOCKETS: &str = "
import os, socket, threading
name = lambda s: s.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).split(b'\\0')[0].decode()
listener = socket.create_server(('127.0.0.1', 0))
names = []
def connect():
    client = socket.create_connection(listener.getsockname()[:2])
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b'cubic')
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    accepted, _ = listener.accept()
    names.extend([name(client), name(accepted)])
thread = threading.Thread(target=connect); thread.start(); thread.join()
connect()
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.connect(('127.0.0.1', 9))
print(*names, flush=True)
if os.fork() == 0:
    names.clear(); connect(); print(*names, flush=True); os._exit(0)
os.wait()
";

    #[test]
    fn sockets_of_a_program_its_threads_and_children_are_switched_without_a_privilege() {
        if let Err(error) = is_possible() {
            return warpline_skip::skip("seccomp-notify", error);
        }
        // Every kernel allows it to every user, and it is the default nowhere that this is tested.
        let spawn = || Command::new("python3").args(["-c", SOCKETS]).stdout(Stdio::piped()).spawn();
        let (mut supervisor, child) = Supervisor::start("reno", spawn).unwrap();
        let Ok(child) = child else {
            return warpline_skip::skip("program", "python3 is not installed");
        };
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "reno reno reno reno\nreno reno\n");
        // The listening socket and three that connected.
        assert_eq!(supervisor.counts(), Counts { switched: 4, ..Counts::default() });
        while supervisor.is_needed() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_socket_of_who_does_not_wait_any_more_is_left_alone() {
        if let Err(error) = is_possible() {
            return warpline_skip::skip("seccomp-notify", error);
        }
        // A caller that is killed while its call is stopped: its number may now belong to any process, here to this one.
        let (sender, receiver) = channel();
        let (keep, released) = channel::<()>();
        let launcher = thread::spawn(move || {
            let listener = filter().unwrap();
            let connect = "import socket; socket.socket().connect_ex(('127.0.0.1', 9))";
            let child = Command::new("python3").args(["-c", connect]).spawn();
            sender.send((listener, child)).unwrap();
            let _ = released.recv();
        });
        let (listener, child) = receiver.recv().unwrap();
        let Ok(mut child) = child else {
            return warpline_skip::skip("program", "python3 is not installed");
        };
        // SAFETY: all zeros is a value of this structure, and what the kernel wants to see.
        let mut call: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and the structure is the call's.
        unsafe { request::receive(listener.as_raw_fd(), &raw mut call) }.unwrap();
        let waits = || still_waits(listener.as_fd(), call.id);
        waits().unwrap();
        let own = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let name =
            || String::from_utf8_lossy(&socket2::SockRef::from(&own).tcp_congestion().unwrap()).into_owned();
        let before = name();
        assert!(!before.starts_with("reno"), "the test gives it what it has");
        // The caller, if python3 is a script that starts another program.
        nix::sys::signal::kill(
            nix::unistd::Pid::from_raw(call.pid as i32),
            nix::sys::signal::Signal::SIGKILL,
        )
        .unwrap();
        while waits().is_ok() {
            thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let switched = switch(std::process::id(), own.as_raw_fd(), "reno", waits);
        assert_eq!(switched.unwrap_err().raw_os_error(), Some(libc::ENOENT));
        assert_eq!(name(), before);
        // It would have been switched.
        assert!(switch(std::process::id(), own.as_raw_fd(), "reno", || Ok(())).unwrap());
        assert!(name().starts_with("reno"));
        drop(keep);
        launcher.join().unwrap();
    }

    #[test]
    fn a_socket_of_mptcp_is_switched_as_one_of_tcp() {
        use socket2::{Domain, Protocol, Socket, Type};
        if let Err(error) = is_possible() {
            return warpline_skip::skip("seccomp-notify", error);
        }
        let open = |kind, protocol| Socket::new(Domain::IPV4, kind, Some(protocol));
        let multipath = match open(Type::STREAM, Protocol::MPTCP) {
            Ok(socket) => socket,
            Err(error) => return warpline_skip::skip("mptcp", error),
        };
        let switched = |socket: &Socket| switch(std::process::id(), socket.as_raw_fd(), "reno", || Ok(()));
        assert!(switched(&multipath).unwrap());
        assert!(multipath.tcp_congestion().unwrap().starts_with(b"reno"));
        assert!(!switched(&open(Type::DGRAM, Protocol::UDP).unwrap()).unwrap());
    }

    #[test]
    fn a_command_that_cannot_be_started_says_so() {
        if let Err(error) = is_possible() {
            return warpline_skip::skip("seccomp-notify", error);
        }
        let spawn = || Command::new("/no/such/program").spawn();
        let (_, child) = Supervisor::start("reno", spawn).unwrap();
        assert_eq!(child.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
