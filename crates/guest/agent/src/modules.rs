//! Kernel modules, from files.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

use crate::failure::{Doing, Failure};

/// Loads a module. Does nothing if it is loaded already.
pub(crate) fn load(path: &str) -> Result<(), Failure> {
    let doing = || format!("load the kernel module {path}");
    let file = File::open(path).doing(doing)?;
    let parameters = CString::default();
    // SAFETY: the descriptor is open and the string ends with a zero byte; both outlive the call.
    let result = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), parameters.as_ptr(), 0) };
    match Errno::result(result) {
        Ok(_) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno).doing(doing),
    }
}
