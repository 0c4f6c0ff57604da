//! The build's messages if it cannot include TCP Nice for the kernel, tested with fake machines made of a few scripts.
#![cfg(target_os = "linux")]
// Test helpers are not `#[test]` functions, which clippy.toml allows to unwrap.
#![allow(clippy::unwrap_used)]

#[path = "../build/needs.rs"]
mod needs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use needs::{INSTALL, missing, watched};

fn script(directory: &Path, name: &str, line: &str) {
    let path = directory.join(name);
    fs::write(&path, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_is_missing_is_named_and_found_when_it_comes() {
    let programs = tempfile::tempdir().unwrap();
    let programs = programs.path();
    let missing = || missing("clang".as_ref(), programs.as_os_str());
    assert_eq!(missing().as_deref(), Some("clang was not there when this was built"));
    script(programs, "clang", "exit 0");
    assert_eq!(missing().as_deref(), Some("make was not there when this was built"));
    script(programs, "make", "exit 0");
    assert_eq!(missing().as_deref(), Some("pkg-config was not there when this was built"));
    script(programs, "pkg-config", "exit 0");
    assert_eq!(missing(), None);
    script(programs, "clang", "case \"$*\" in *libelf.h*) exit 1;; esac");
    assert_eq!(missing().as_deref(), Some("libelf.h was not there when this was built"));
    script(programs, "clang", "case \"$*\" in *bpfel*) exit 1;; esac");
    assert!(missing().unwrap().ends_with("makes no BPF"));
    // One package each, and cargo checks again when a program is installed.
    for package in ["clang", "make", "pkg-config", "libelf", "zlib"] {
        assert!(INSTALL.contains(package), "{INSTALL}");
    }
    assert!(watched(programs.as_os_str()).contains(&programs.to_owned()));
}
