//! What the machine needs to build TCP Nice for the kernel, and how the build notices that it was installed.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The command that installs everything on Debian and Ubuntu.
pub(crate) const INSTALL: &str = "apt install clang make pkg-config libelf-dev zlib1g-dev";

/// What is missing, if anything, among the programs in `path` (as `$PATH`) and the machine's headers: `clang` and the needs of libbpf.
pub(crate) fn missing(clang: &OsStr, path: &OsStr) -> Option<String> {
    let runs = |program: &OsStr, options: &[&str]| {
        let mut command = Command::new(program);
        command.args(options).env("PATH", path);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let lacks = |name: &OsStr| Some(format!("{} was not there when this was built", name.display()));
    if !runs(clang, &["--version"]) {
        return lacks(clang);
    }
    let programs = ["make", "pkg-config"];
    if let Some(program) = programs.into_iter().find(|name| !runs(name.as_ref(), &["--version"])) {
        return lacks(program.as_ref());
    }
    if !runs(clang, &["-target", "bpfel", "-fsyntax-only", "-x", "c", "/dev/null"]) {
        return Some("the clang that was there when this was built makes no BPF".to_owned());
    }
    let headers = ["libelf.h", "zlib.h"];
    let header = headers
        .into_iter()
        .find(|header| !runs(clang, &["-fsyntax-only", "-include", header, "-x", "c", "/dev/null"]));
    header.and_then(|header| lacks(header.as_ref()))
}

/// Paths that change when something is installed: the directories of programs in `path` (as `$PATH`), and package managers' lists.
pub(crate) fn watched(path: &OsStr) -> Vec<PathBuf> {
    let lists = ["/var/lib/dpkg/status", "/var/lib/rpm", "/var/lib/pacman/local", "/lib/apk/db/installed"];
    let places = env::split_paths(path).chain(lists.map(PathBuf::from));
    places.filter(|place| place.is_absolute() && place.exists()).collect()
}
