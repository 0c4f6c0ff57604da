//! Finds the guest kernel, and checks whether its clock can be controlled.
//!
//! The shim replaces functions of the C library. That works only for a kernel that is linked to the C library dynamically, that uses
//! the functions that the shim replaces, and whose series is known to use them as expected. The file is checked before it is booted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

use crate::error::{Doing, GuestError};

/// The environment variable for a kernel that is not in `PATH`.
pub const KERNEL_VARIABLE: &str = "WARPLINE_GUEST_KERNEL";

/// Functions that the shim needs to control a kernel's time.
const NEEDED: [&str; 15] = [
    "clock_gettime",
    "timer_create",
    "timer_settime",
    "timer_gettime",
    "sigaction",
    "sigprocmask",
    "sigsuspend",
    "sendmmsg",
    "recvmmsg",
    "epoll_ctl",
    "epoll_wait",
    "getrandom",
    "ptrace",
    "waitpid",
    "clone",
];
/// Functions with which a kernel could read the machine's time behind the shim's back.
const REFUSED: [&str; 6] = ["clock_nanosleep", "nanosleep", "time", "ppoll", "timerfd_create", "setitimer"];
/// Kernel series that are known to use those functions as expected.
const STUDIED: [&str; 1] = ["6.1."];
/// Directory of the modules in Debian's package.
const MODULES: &str = "/usr/lib/uml/modules";

/// A guest kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The program.
    pub path: PathBuf,
    /// Its version, such as "6.1.176".
    pub version: String,
    /// Its modules by name, with the modules that they need first (paths).
    modules: BTreeMap<String, Vec<PathBuf>>,
}

impl Kernel {
    /// The kernel of this machine: the one that `WARPLINE_GUEST_KERNEL` names, or `linux.uml` in `PATH`.
    ///
    /// # Errors
    /// If there is none, or it cannot be a guest.
    pub fn find() -> Result<Self, GuestError> {
        if let Some(path) = std::env::var_os(KERNEL_VARIABLE) {
            return Kernel::at(Path::new(&path));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).map(|directory| directory.join("linux.uml"));
        let found = places.into_iter().find(|file| file.is_file()).ok_or(GuestError::NoKernel)?;
        Kernel::at(&found)
    }

    /// The kernel in a file.
    ///
    /// # Errors
    /// If it cannot be read, or its clock cannot be controlled.
    pub fn at(path: &Path) -> Result<Self, GuestError> {
        let bytes = fs::read(path).doing(|| format!("read the guest kernel {}", path.display()))?;
        let version =
            inspect(&bytes).map_err(|reason| GuestError::Unfit { path: path.to_owned(), reason })?;
        let modules = Path::new(MODULES).join(&version);
        let modules = fs::read_to_string(modules.join("modules.dep"))
            .map(|text| dependencies(&text, &modules))
            .unwrap_or_default();
        Ok(Kernel { path: path.to_owned(), version, modules })
    }

    /// Files of a module and of those it needs, in the order of loading; empty if it is built in or does not exist.
    pub fn module(&self, name: &str) -> Vec<String> {
        let files = self.modules.get(name).into_iter().flatten();
        files.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Congestion controls that a host can have: those built in, and those in modules with their [files](Self::module).
    pub fn congestion_controls(&self) -> Vec<(String, Vec<String>)> {
        let built_in = ["cubic", "reno"].map(|name| (name.to_owned(), Vec::new()));
        let modules = self.modules.keys().filter_map(|module| {
            let name = module.strip_prefix("tcp_")?;
            // tcp_diag lists sockets.
            (name != "diag").then(|| (name.to_owned(), self.module(module)))
        });
        built_in.into_iter().chain(modules).collect()
    }
}

/// Reads modules.dep(5): a module and the modules that it needs, direct ones first.
fn dependencies(text: &str, directory: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let line = |line: &str| {
        let (module, needs) = line.split_once(':')?;
        let name = Path::new(module).file_name()?.to_str()?.split('.').next()?.replace('-', "_");
        let mut files: Vec<PathBuf> =
            needs.split_whitespace().rev().map(|file| directory.join(file)).collect();
        files.push(directory.join(module));
        Some((name, files))
    };
    text.lines().filter_map(line).collect()
}

/// Checks whether the clock of the kernel in an ELF file can be controlled: returns its version, or why not.
fn inspect(bytes: &[u8]) -> Result<String, String> {
    let remedy = "Debian's package user-mode-linux has one that can";
    let file =
        object::File::parse(bytes).map_err(|error| format!("it is not a program ({error}); {remedy}"))?;
    if file.architecture() != object::Architecture::X86_64 {
        return Err(format!("it is for another processor than x86-64; {remedy}"));
    }
    let version = version(bytes).ok_or_else(|| format!("it is no Linux kernel; {remedy}"))?;
    let imports: BTreeSet<&str> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_undefined())
        .filter_map(|symbol| symbol.name().ok())
        .filter(|name| !name.is_empty())
        .collect();
    if imports.is_empty() {
        return Err(format!(
            "it is linked statically, so its view of the machine's clock cannot be replaced; {remedy}"
        ));
    }
    let missing: Vec<&str> = NEEDED.into_iter().filter(|name| !imports.contains(name)).collect();
    if !missing.is_empty() {
        return Err(format!(
            "it does not use {}, which Warpline needs to control its time; {remedy}",
            missing.join(", ")
        ));
    }
    let strange: Vec<&str> = REFUSED.into_iter().filter(|name| imports.contains(name)).collect();
    if !strange.is_empty() {
        return Err(format!(
            "it uses {}, with which it would read the machine's time; {remedy}",
            strange.join(", ")
        ));
    }
    if !STUDIED.iter().any(|series| version.starts_with(series)) {
        return Err(format!(
            "its version is {version}; Warpline only knows how Linux {}x uses the machine's clock; {remedy}",
            STUDIED.join("x, ")
        ));
    }
    Ok(version)
}

/// The version in the banner that every kernel contains.
fn version(bytes: &[u8]) -> Option<String> {
    const BANNER: &[u8] = b"Linux version ";
    let mut rest = bytes;
    while let Some(at) = rest.windows(BANNER.len()).position(|window| window == BANNER) {
        rest = &rest[at + BANNER.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_graphic())?;
        let version = std::str::from_utf8(&rest[..end]).ok()?;
        if version.starts_with(|first: char| first.is_ascii_digit()) {
            return Some(version.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_after_those_that_they_need() {
        let text = "kernel/net/8021q/8021q.ko: kernel/net/802/mrp.ko kernel/net/802/garp.ko kernel/net/llc/llc.ko\n\
                    kernel/net/llc/llc.ko:\nkernel/net/ipv4/tcp_bic.ko:\n";
        let modules = dependencies(text, Path::new("/m"));
        let names: Vec<_> =
            modules["8021q"].iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["llc.ko", "garp.ko", "mrp.ko", "8021q.ko"]);
        assert_eq!(modules["llc"], [Path::new("/m/kernel/net/llc/llc.ko")]);
        assert!(modules.contains_key("tcp_bic"));
    }

    #[test]
    fn a_file_that_is_not_a_kernel_is_refused_with_the_reason() {
        for (bytes, part) in
            [(&b"#!/bin/sh"[..], "not a program"), (&std::fs::read("/bin/sh").unwrap(), "Linux")]
        {
            let reason = inspect(bytes).unwrap_err();
            assert!(reason.contains(part) && reason.contains("user-mode-linux"), "{reason}");
        }
    }

    #[test]
    fn an_unsuitable_kernel_is_refused_with_the_reason() {
        let Ok(kernel) = Kernel::find() else {
            return warpline_skip::skip("program", "no guest kernel on this machine");
        };
        let good = std::fs::read(&kernel.path).unwrap();
        assert_eq!(inspect(&good), Ok(kernel.version.clone()));
        // The same file with a different name for a function, or a different version.
        let with = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let mut bytes = good.clone();
            let mut at = 0;
            while let Some(found) =
                bytes[at..].windows(from.len()).position(|window| window == from.as_bytes())
            {
                at += found;
                bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            }
            inspect(&bytes).unwrap_err()
        };
        assert!(with("\0sigsuspend\0", "\0sigsuspemd\0").contains("does not use sigsuspend"));
        assert!(with("\0getppid\0", "\0ppoll\0d\0").contains("it uses ppoll"));
        assert!(with("Linux version 6.1.", "Linux version 6.9.").contains("6.9."));
        assert!(with("Linux version 6", "Linux version x").contains("no Linux kernel"));
    }
}
