//! The shim's own tests, in C, under the sanitizers of addresses and undefined behaviour.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::process::Command;

#[test]
fn the_parts_that_touch_nothing_else_are_right() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/clockshim");
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("pure");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize-recover", "-o"])
        .arg(&program)
        .args(["tests/pure.c", "ratio.c", "ring.c", "random.c", "xstate.c"].map(|name| sources.join(name)))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    // The sanitizer's search for leaks wants to trace the process, which not every sandbox allows.
    let ran = Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=0").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout).lines().count(), 8);
}
