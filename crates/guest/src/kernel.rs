//! A guest kernel: its file, its modules, and whether its clock can be controlled.
//!
//! The shim replaces functions of the C library. That works only for a kernel that is linked to the C library dynamically, that uses
//! the functions that the shim replaces, and whose series is known to use them as expected. The file is checked before it is booted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol};

use crate::error::{Doing, GuestError};
use crate::tools;

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
/// Kernel series that are known to use those functions as expected. docs/src/kernels.md says how each was studied.
pub const STUDIED: [&str; 2] = ["6.1", "6.12"];
/// Directory of the modules in Debian's package.
const MODULES: &str = "/usr/lib/uml/modules";
/// What the names of modules with congestion controls begin with.
const CONTROL: &str = "tcp_";
/// Modules that every machine needs, if they are not built in.
pub(crate) const ALWAYS: [&str; 2] = ["overlay", "8021q"];
/// The module of IPv6, for machines with hosts that have such addresses.
pub(crate) const IPV6: &str = "ipv6";
/// The file beside a kernel or its modules that lists those that are built in (kbuild writes it).
pub(crate) const BUILT_IN: &str = "modules.builtin";

/// A guest kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The program, as an absolute path.
    pub path: PathBuf,
    /// Its version, such as "6.1.176".
    pub version: String,
    /// The name under which it was added; none for the machine's own and for a file.
    pub name: Option<String>,
    /// Its timer interrupts per second (`CONFIG_HZ`), if that is known.
    pub hz: Option<u32>,
    /// The directory of its modules, as an absolute path, if it has any.
    pub modules: Option<PathBuf>,
    /// Its modules by name, with the modules that they need first (paths).
    files: BTreeMap<String, Vec<PathBuf>>,
    /// Names of the modules that are built in.
    built_in: BTreeSet<String>,
}

impl Kernel {
    /// The kernel of this machine: the one that `WARPLINE_GUEST_KERNEL` names, or `linux.uml` in `PATH`.
    ///
    /// # Errors
    /// If there is none, or it cannot be a guest.
    pub fn find() -> Result<Self, GuestError> {
        if let Some(path) = std::env::var_os(KERNEL_VARIABLE) {
            return Kernel::at(Path::new(&path), None);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).map(|directory| directory.join("linux.uml"));
        let found = places.into_iter().find(|file| file.is_file()).ok_or(GuestError::NoKernel)?;
        Kernel::at(&found, None)
    }

    /// The kernel in a file, with the modules in a directory; without one, those that Debian's package has for its version.
    ///
    /// # Errors
    /// If it cannot be read, its clock cannot be controlled, or the directory has no modules.
    pub fn at(path: &Path, modules: Option<&Path>) -> Result<Self, GuestError> {
        let bytes = fs::read(path).doing(|| format!("read the guest kernel {}", path.display()))?;
        let unfit = |reason| GuestError::Unfit { path: path.to_owned(), reason };
        let version = inspect(&bytes).map_err(unfit)?;
        // It is started in another directory, and finds its modules from there.
        let absolute = |path: &Path| {
            std::path::absolute(path).doing(|| format!("find the guest kernel {}", path.display()))
        };
        let file = absolute(path)?;
        let packaged = Path::new(MODULES).join(&version);
        let directory = modules.map_or(Ok(packaged), absolute)?;
        let list = fs::read_to_string(directory.join("modules.dep"));
        if let (Err(error), Some(given)) = (&list, modules) {
            let place = given.join("modules.dep");
            return Err(unfit(format!("its modules cannot be used: {}: {error}", place.display())));
        }
        let beside = file.parent().map(|own| own.join(BUILT_IN));
        let built_in = [Some(directory.join(BUILT_IN)), beside].into_iter().flatten();
        let built_in = built_in.filter_map(|file| fs::read_to_string(file).ok()).next().unwrap_or_default();
        Ok(Kernel {
            path: file,
            version,
            name: None,
            hz: None,
            modules: list.is_ok().then(|| directory.clone()),
            files: list.map(|text| dependencies(&text, &directory)).unwrap_or_default(),
            built_in: built_in.lines().filter_map(module_name).collect(),
        })
    }

    /// Files of a module and of those it needs, in the order of loading; empty if it is built in or does not exist.
    pub fn module(&self, name: &str) -> Vec<String> {
        let files = self.files.get(name).into_iter().flatten();
        files.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// The files that decide what a guest does with this kernel: its own, and those of all modules that a guest may load. Sorted, each once.
    pub fn parts(&self) -> Vec<PathBuf> {
        let begin = |name: &str| {
            name.starts_with(CONTROL) || tools::beginnings().any(|beginning| name.starts_with(beginning))
        };
        let may_load = |name: &str| ALWAYS.contains(&name) || name == IPV6 || begin(name);
        let loaded = self.files.iter().filter(|(name, _)| may_load(name)).flat_map(|(_, files)| files);
        loaded.chain([&self.path]).cloned().collect::<BTreeSet<PathBuf>>().into_iter().collect()
    }

    /// A kernel with the modules of this `modules.dep`.
    #[cfg(test)]
    pub(crate) fn with_modules(text: &str) -> Self {
        Kernel {
            path: "linux".into(),
            version: "6.12.1-x".to_owned(),
            name: None,
            hz: None,
            modules: None,
            files: dependencies(text, Path::new("/m")),
            built_in: BTreeSet::new(),
        }
    }

    /// The [files](Self::module) of each module whose name begins so.
    pub(crate) fn modules_from(&self, begin: &str) -> impl Iterator<Item = Vec<String>> {
        let names = self.files.keys().filter(move |name| name.starts_with(begin));
        names.map(|name| self.module(name))
    }

    /// Congestion controls that a host can have: those built in, and those in modules with their [files](Self::module).
    pub fn congestion_controls(&self) -> Vec<(String, Vec<String>)> {
        // tcp_diag lists sockets. Reno is in every kernel, and no module.
        let name =
            |module: &str| module.strip_prefix(CONTROL).filter(|name| *name != "diag").map(str::to_owned);
        let always = ["cubic", "reno"].map(str::to_owned);
        let built_in: BTreeSet<String> =
            always.into_iter().chain(self.built_in.iter().filter_map(|module| name(module))).collect();
        let modules = self.files.keys().filter_map(|module| Some((name(module)?, self.module(module))));
        let modules = modules.filter(|(name, _)| !built_in.contains(name)).collect::<Vec<_>>();
        built_in.iter().map(|name| (name.clone(), Vec::new())).chain(modules).collect()
    }

    /// Whether it is meant by a version or a series: "6.12.117" or "6.12".
    pub fn is_of(&self, version: &str) -> bool {
        self.version
            .strip_prefix(version)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '+']))
    }
}

/// The name of the module in a file: "tcp_bbr" for "kernel/net/ipv4/tcp_bbr.ko".
fn module_name(file: &str) -> Option<String> {
    Some(Path::new(file).file_name()?.to_str()?.split('.').next()?.replace('-', "_"))
}

/// Reads modules.dep(5): a module and the modules that it needs, direct ones first.
fn dependencies(text: &str, directory: &Path) -> BTreeMap<String, Vec<PathBuf>> {
    let line = |line: &str| {
        let (module, needs) = line.split_once(':')?;
        let name = module_name(module)?;
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
    if !is_studied(&version) {
        return Err(format!(
            "its version is {version}; Warpline only knows how Linux {} use the machine's clock; {remedy}",
            STUDIED.join(" and ")
        ));
    }
    Ok(version)
}

/// Whether Warpline knows how kernels of this version use the machine's clock.
pub fn is_studied(version: &str) -> bool {
    STUDIED.iter().any(|series| version.strip_prefix(series).is_some_and(|rest| rest.starts_with('.')))
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
    fn the_parts_of_a_kernel_are_its_file_and_the_modules_that_a_guest_may_load() {
        let text = "kernel/net/sched/sch_cake.ko: kernel/lib/crc.ko\nkernel/net/ipv4/tcp_bbr.ko: kernel/lib/crc.ko\n\
                    kernel/fs/overlay.ko:\nkernel/fs/jfs.ko: kernel/fs/nls.ko\nkernel/net/nf_tables.ko:\nkernel/lib/crc.ko:\n";
        let parts = Kernel::with_modules(text).parts();
        let parts: Vec<&str> = parts.iter().map(|part| part.to_str().unwrap()).collect();
        assert_eq!(
            parts,
            [
                "/m/kernel/fs/overlay.ko",
                "/m/kernel/lib/crc.ko",
                "/m/kernel/net/ipv4/tcp_bbr.ko",
                "/m/kernel/net/nf_tables.ko",
                "/m/kernel/net/sched/sch_cake.ko",
                "linux"
            ]
        );
    }

    #[test]
    fn congestion_controls_are_built_in_or_modules() {
        let text =
            "kernel/net/ipv4/tcp_bbr.ko:\nkernel/net/ipv4/tcp_diag.ko:\nkernel/net/ipv4/tcp_vegas.ko:\n";
        let mut kernel = Kernel::with_modules(text);
        kernel.built_in = ["tcp_bbr", "tcp_cubic", "inet_diag"].map(str::to_owned).into();
        let controls: Vec<(String, usize)> =
            kernel.congestion_controls().into_iter().map(|(name, files)| (name, files.len())).collect();
        let expected = [("bbr", 0), ("cubic", 0), ("reno", 0), ("vegas", 1)];
        assert_eq!(controls, expected.map(|(name, files)| (name.to_owned(), files)));
        assert!(["6.12", "6.12.1", "6.12.1-x", "6"].iter().all(|version| kernel.is_of(version)));
        assert!(!kernel.is_of("6.1") && !kernel.is_of("6.12.11"));
        assert!(is_studied("6.1.2") && is_studied("6.12.0-x") && !is_studied("6.13.1") && !is_studied("6.1"));
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
    fn a_kernel_with_a_relative_path_is_the_same_in_every_directory() {
        let Ok(own) = Kernel::find() else {
            return warpline_skip::skip("program", "no guest kernel on this machine");
        };
        let here = std::env::current_dir().unwrap();
        let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
        let relative = |path: &Path| up.join(path.strip_prefix("/").unwrap());
        let modules = own.modules.as_deref().map(relative);
        let found = Kernel::at(&relative(&own.path), modules.as_deref()).unwrap();
        assert!(found.path.is_absolute(), "{}", found.path.display());
        assert!(found.modules.iter().chain(found.files.values().flatten()).all(|path| path.is_absolute()));
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
