//! Network namespaces (network_namespaces(7)), held by a descriptor only.
//!
//! No namespace has a name in the file system: it ends, with its interfaces, when the last process in it and the last
//! descriptor are gone. So an emulator that is killed leaves no namespace behind except those in which one of its programs
//! still runs.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use nix::sched::{CloneFlags, setns, unshare};

/// Why a namespace could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum NetNsError {
    /// It could not be made.
    #[error(
        "cannot make a network namespace: {0}; run as root, or as a user who may make user namespaces (see warpline doctor)"
    )]
    Create(io::Error),
    /// It could not be entered.
    #[error("cannot enter a network namespace: {0}")]
    Enter(io::Error),
    /// The thread that worked in it panicked.
    #[error("the work in a network namespace ended with a panic")]
    Panicked,
}

/// A network namespace.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

/// The namespace of the calling thread, which may differ from its process's.
const OWN: &str = "/proc/thread-self/ns/net";

impl NetNs {
    /// The namespace of the calling thread.
    ///
    /// # Errors
    /// Without `/proc`.
    pub fn current() -> Result<Self, NetNsError> {
        File::open(OWN).map(|file| NetNs { file }).map_err(NetNsError::Enter)
    }

    /// The namespace with this inode number, if a process is in it, or a name of `ip netns` leads to it.
    pub(crate) fn find(inode: u64) -> Option<Self> {
        let list =
            |path: &str| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
        let processes = list("/proc").map(|process| process.join("ns/net"));
        let mut files = list("/run/netns").chain(processes);
        files.find_map(|path| {
            let file = File::open(path).ok()?;
            (file.metadata().ok()?.ino() == inode).then_some(NetNs { file })
        })
    }

    /// The namespace of a process.
    ///
    /// # Errors
    /// If there is no such process, or without permission.
    pub fn of_process(pid: u32) -> Result<Self, NetNsError> {
        let file = File::open(format!("/proc/{pid}/ns/net"));
        file.map(|file| NetNs { file }).map_err(NetNsError::Enter)
    }

    /// A new namespace with only a loopback interface, which is down.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN` in the user namespace.
    pub fn create() -> Result<Self, NetNsError> {
        on_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| NetNsError::Create(errno.into()))?;
            NetNs::current()
        })?
    }

    /// Runs `work` on a thread in this namespace. Sockets opened there stay in it.
    ///
    /// # Errors
    /// Without `CAP_SYS_ADMIN` in the namespace's user namespace.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetNsError> {
        on_thread(|| {
            self.enter()?;
            Ok(work())
        })?
    }

    /// Moves the calling thread into this namespace.
    ///
    /// # Errors
    /// As [`within`](Self::within).
    pub fn enter(&self) -> Result<(), NetNsError> {
        setns(&self.file, CloneFlags::CLONE_NEWNET).map_err(|errno| NetNsError::Enter(errno.into()))
    }

    /// Its inode number, unique among the namespaces that exist at the same time.
    ///
    /// # Errors
    /// If the system does not report it.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, NetNsError> {
    std::thread::scope(|scope| scope.spawn(work).join()).map_err(|_| NetNsError::Panicked)
}
