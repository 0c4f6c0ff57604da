//! Keeps TCP Nice in the kernel after `warpline nice load`: a pin of its link in the BPF file system.
//!
//! The kernel mounts that file system so that every user may write to it. We mount it for root alone, and use an existing directory
//! only if no other user can have made what is in it. An existing pin must be of the very link that is in the kernel.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Link, libbpf_sys};
use rustix::mount::{MountFlags, mount};

use super::{BpfError, NAME};
use crate::private::PrivateDirectory;

/// Where the BPF file system is mounted.
const BPFFS: &str = "/sys/fs/bpf";
/// Our directory in it.
const DIRECTORY: &str = "warpline";

/// Our directory in the BPF file system.
#[derive(Debug)]
pub(super) struct Place {
    directory: PrivateDirectory,
}

/// Whether the BPF file system is mounted at [`BPFFS`].
pub(super) fn is_mounted() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(BPFFS) && words.next() == Some("bpf")
    })
}

/// Opens a pinned link. libbpf prints nothing about it if there is none.
fn open(path: &Path) -> libbpf_rs::Result<Link> {
    super::object::listen();
    Link::open(path)
}

/// Whether the pin is of this link.
pub(super) fn holds(link: BorrowedFd<'_>) -> bool {
    let pinned = open(&Path::new(BPFFS).join(DIRECTORY).join(NAME));
    pinned.is_ok_and(|pinned| same(pinned.as_fd(), link))
}

/// The kernel's number of a link.
fn number(link: BorrowedFd<'_>) -> Option<u32> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: the structure has the stated length and outlives the call.
    let result =
        unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut length) };
    (result == 0).then_some(info.id)
}

fn same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    number(one).is_some_and(|own| number(other) == Some(own))
}

impl Place {
    /// Opens our directory. Mounts the file system, for root alone, if it is not mounted.
    ///
    /// # Errors
    /// If that fails, or if other users could have written there.
    pub(super) fn open() -> Result<Self, BpfError> {
        if !crate::privilege::is_privileged() {
            return Err(BpfError::Privilege);
        }
        if !is_mounted() {
            let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
            mount("bpf", BPFFS, "bpf", flags, Some(c"mode=0700"))
                .map_err(|errno| system(&format!("mount the BPF file system at {BPFFS}"), errno.into()))?;
        }
        let directory = PrivateDirectory::open(Path::new(BPFFS), DIRECTORY)
            .map_err(|error| system("keep TCP Nice in the kernel", io::Error::other(error)))?;
        Ok(Place { directory })
    }

    /// The pin's path, by the open directory: where the directory's name leads by now does not matter.
    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_fd().as_raw_fd())).join(NAME)
    }

    /// The pinned link; `None` if there is no pin.
    fn pinned(&self) -> Result<Option<Link>, BpfError> {
        let shown = self.directory.path().join(NAME);
        match fs::symlink_metadata(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(system(&format!("look at {}", shown.display()), error)),
            Ok(_) => open(&self.path()).map(Some).map_err(|error| foreign(&shown, &error.to_string())),
        }
    }

    /// Pins this link.
    ///
    /// # Errors
    /// If it cannot be pinned, or something else is in its place.
    pub(super) fn keep(&self, link: BorrowedFd<'_>) -> Result<(), BpfError> {
        let shown = self.directory.path().join(NAME);
        match self.pinned()? {
            Some(pinned) if same(pinned.as_fd(), link) => return Ok(()),
            Some(_) => return Err(foreign(&shown, "it keeps another link")),
            None => {}
        }
        let path = std::ffi::CString::new(self.path().into_os_string().into_encoded_bytes())
            .map_err(|error| system("name the pin", error.into()))?;
        // SAFETY: the path ends with a zero and outlives the call.
        let result = unsafe { libbpf_sys::bpf_obj_pin(link.as_raw_fd(), path.as_ptr()) };
        if result < 0 {
            let error = io::Error::last_os_error();
            return Err(system(&format!("pin TCP Nice at {}", shown.display()), error));
        }
        Ok(())
    }

    /// Removes the pin, and our directory if it is then empty. Returns whether there was a pin.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(super) fn give_up(&self) -> Result<bool, BpfError> {
        let removed = match self.directory.remove(NAME) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                return Err(system(&format!("remove {}", self.directory.path().join(NAME).display()), error));
            }
        };
        let _ = fs::remove_dir(self.directory.path());
        Ok(removed)
    }
}

fn foreign(path: &Path, what: &str) -> BpfError {
    let text = format!("{} is not TCP Nice's ({what}); remove it", path.display());
    system("keep TCP Nice in the kernel", io::Error::other(text))
}

/// An error of the system, with the operation that failed.
pub(super) fn system(what: &str, source: io::Error) -> BpfError {
    match source.kind() {
        // Root is refused by something else, such as a container's rules.
        io::ErrorKind::PermissionDenied if !crate::privilege::is_privileged() => BpfError::Privilege,
        _ => BpfError::System { what: what.to_owned(), source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_the_privileges_is_not_told_to_get_them() {
        let refused = |kind: io::ErrorKind| system("mount it", kind.into()).to_string();
        let text = refused(io::ErrorKind::PermissionDenied);
        assert_eq!(text.starts_with("cannot mount it: "), crate::privilege::is_privileged(), "{text}");
        assert_eq!(text.contains("use sudo"), !crate::privilege::is_privileged(), "{text}");
        assert!(refused(io::ErrorKind::NotFound).starts_with("cannot mount it: "));
    }
}
