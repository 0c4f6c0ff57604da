//! Runs the shim's tests, which are in C, under sanitizers. The test of its network device needs our end too and is in `src/nic.rs`.
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
    // The leak sanitizer must trace the process, which not every sandbox allows. The thread sanitizer needs its usual addresses.
    let ran = Command::new("timeout")
        .args(["600", "setarch", "-R"])
        .arg(&program)
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn the_pure_functions_work() {
    let parts = ["ratio.c", "ring.c", "random.c", "xstate.c"];
    let told = check("tests/pure.c", &parts, "address,undefined");
    assert_eq!(told.lines().count(), 8);
}

#[test]
fn a_network_card_cuts_segments_and_checks_checksums() {
    let parts = ["checksum.c", "cut.c", "judge.c", "random.c"];
    let told = check("tests/card.c", &parts, "address,undefined");
    assert_eq!(told.lines().count(), 5);
}

#[test]
fn a_ring_can_be_written_and_read_at_the_same_time() {
    let told = check("tests/ring_threads.c", &["ring.c", "random.c"], "thread");
    assert!(told.starts_with("ok "), "{told}");
}

#[test]
fn an_alarm_that_the_kernel_loses_is_repeated() {
    let parts = [
        "checksum.c",
        "clock.c",
        "cut.c",
        "judge.c",
        "nic.c",
        "process.c",
        "ratio.c",
        "ring.c",
        "shim.c",
        "signal.c",
        "sockets.c",
        "turn.c",
        "wire.c",
    ];
    let told = check("tests/alarm.c", &parts, "address,undefined");
    assert!(told.starts_with("ok "), "{told}");
}

#[test]
fn registers_are_written_when_a_process_resumes() {
    let parts = [
        "checksum.c",
        "clock.c",
        "cut.c",
        "judge.c",
        "nic.c",
        "process.c",
        "ratio.c",
        "registers.c",
        "ring.c",
        "shim.c",
        "signal.c",
        "sockets.c",
        "tsc.c",
        "turn.c",
        "user.c",
        "wire.c",
        "xstate.c",
    ];
    let told = check("tests/registers.c", &parts, "address,undefined");
    assert_eq!(told.lines().count(), 8);
}
