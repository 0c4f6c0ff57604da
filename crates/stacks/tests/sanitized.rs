//! The stacks in C under sanitizers: whole transfers, and packets that are damaged (`native/try_stack.c`).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::process::Command;

#[test]
fn stacks_in_c_stand_damaged_packets() {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    // Those that were built before: a library of the system may be missing.
    let stacks =
        ["lwip", "bsd", "sctp"].into_iter().filter(|name| target.join(format!("stacks/{name}.so")).exists());
    let stacks: Vec<&str> = stacks.collect();
    if stacks.is_empty() {
        return warpline_skip::skip("lwip", "make stacks has not been run");
    }
    let out = target.join("stacks-sanitized");
    let built =
        Command::new("python3").arg(scripts.join("build_stacks.py")).arg("--sanitize").arg(&out).output();
    let built = built.unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    for name in stacks {
        // The leak sanitizer must trace the process, which not every sandbox allows.
        let tried = Command::new("timeout")
            .args(["300", "setarch", "-R"])
            .arg(out.join("try_stack"))
            .arg(out.join(format!("{name}.so")))
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .output()
            .unwrap();
        assert!(tried.status.success(), "{name}: {}", String::from_utf8_lossy(&tried.stderr));
        assert_eq!(String::from_utf8_lossy(&tried.stdout).lines().count(), 2, "{name}");
    }
}
