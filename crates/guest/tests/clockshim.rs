//! The shim's own tests, in C, under sanitizers; the test of its network device, which needs our end, is in `src/nic.rs`.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::path::Path;
use std::process::Command;

/// Compiles a test with parts of the shim, runs it, and returns what it prints.
#[expect(clippy::unwrap_used, reason = "a helper of tests")]
fn check(test: &str, parts: &[&str], sanitizers: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../native/clockshim");
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("check");
    let compiled = Command::new("cc")
        .args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args([&format!("-fsanitize={sanitizers}"), "-fno-sanitize-recover=all", "-o"])
        .arg(&program)
        .args([test].iter().chain(parts).map(|name| sources.join(name)))
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    // The sanitizer's search for leaks needs to trace the process, which not every sandbox allows; that of threads needs its usual
    // addresses.
    let ran = Command::new("timeout")
        .args(["60", "setarch", "-R"])
        .arg(&program)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn the_parts_that_touch_nothing_else_are_right() {
    let parts = ["ratio.c", "ring.c", "random.c", "xstate.c"];
    let told = check("tests/pure.c", &parts, "address,undefined");
    assert_eq!(told.lines().count(), 8);
}

#[test]
fn a_ring_has_a_writer_and_a_reader_at_once() {
    let told = check("tests/ring_threads.c", &["ring.c", "random.c"], "thread");
    assert!(told.starts_with("ok "), "{told}");
}

#[test]
fn an_alarm_that_the_kernel_loses_comes_again() {
    let parts = ["clock.c", "nic.c", "process.c", "ratio.c", "ring.c", "shim.c", "signal.c", "turn.c"];
    let told = check("tests/alarm.c", &parts, "address,undefined");
    assert!(told.starts_with("ok "), "{told}");
}

#[test]
fn registers_are_written_when_a_process_goes_on() {
    let parts = [
        "clock.c",
        "nic.c",
        "process.c",
        "ratio.c",
        "registers.c",
        "ring.c",
        "shim.c",
        "signal.c",
        "turn.c",
        "user.c",
        "xstate.c",
    ];
    let told = check("tests/registers.c", &parts, "address,undefined");
    assert_eq!(told.lines().count(), 5);
}
