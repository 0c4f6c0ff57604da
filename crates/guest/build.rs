//! Builds what runs inside a guest: the shim that controls its clock (C, `native/clockshim`) and the agent that is its first process
//! (`agent`, linked statically). Both are embedded, so a machine with Warpline needs only a guest kernel.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("CARGO_CFG_TARGET_ARCH") != "x86_64" {
        return;
    }
    let own = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(variable("OUT_DIR"));
    build_card(&own.join("../../native/clockshim"));
    build_shim(&own.join("../../native/clockshim"), &out.join("clockshim.so"));
    build_agent(&own.join("agent"), &out, &variable("TARGET"));
}

fn run(command: &mut Command, what: &str) {
    let status = command.status();
    assert!(matches!(status, Ok(status) if status.success()), "{what} failed: {command:?}: {status:?}");
}

/// The crate `cc` makes archives; here it only finds the compiler and its options.
fn build_shim(sources: &Path, library: &Path) {
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut build = cc::Build::new();
    build.pic(true).opt_level(2).std("gnu11").warnings(true).extra_warnings(true).warnings_into_errors(true);
    build.flag("-fvisibility=hidden").cargo_metadata(false);
    let names = [
        "checksum",
        "clock",
        "cut",
        "entropy",
        "judge",
        "nic",
        "process",
        "random",
        "ratio",
        "registers",
        "ring",
        "shim",
        "signal",
        "sockets",
        "tsc",
        "turn",
        "user",
        "wire",
        "xstate",
    ];
    let mut command = build.get_compiler().to_command();
    command.args(["-shared", "-o"]).arg(library);
    command.args(names.map(|name| sources.join(format!("{name}.c"))));
    run(&mut command, "compiling native/clockshim");
}

/// The functions of a guest's network card, for tests of this process.
fn build_card(sources: &Path) {
    let mut build = cc::Build::new();
    build.std("gnu11").warnings(true).extra_warnings(true).warnings_into_errors(true).opt_level(2);
    build.files(["checksum.c", "cut.c", "judge.c", "tests/whole.c"].map(|name| sources.join(name)));
    build.compile("warpline_card");
}

/// A separate build: it has other options, and is for the guest even if this is a test.
fn build_agent(package: &Path, out: &Path, target: &str) {
    for part in ["src", "Cargo.toml", "../../core/src/pattern.rs"] {
        println!("cargo::rerun-if-changed={}", package.join(part).display());
    }
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let directory = out.join("agent");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--bin", "warpline-agent", "--target", target, "--manifest-path"]);
    command.arg(package.join("Cargo.toml")).arg("--target-dir").arg(&directory);
    // The same options in any build, or results of debug and release builds would differ.
    command.args(["--profile", "agent"]);
    // Options and wrappers of the surrounding build (coverage, clippy) do not apply.
    for name in [
        "RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
        "CARGO_INCREMENTAL",
    ] {
        command.env_remove(name);
    }
    let options = ["-C", "target-feature=+crt-static", "-C", "relocation-model=static"];
    command.env("CARGO_ENCODED_RUSTFLAGS", options.join("\x1f"));
    run(&mut command, "building the guest's agent");
    let built = directory.join(target).join("agent/warpline-agent");
    let copied = std::fs::copy(&built, out.join("warpline-agent"));
    assert!(copied.is_ok(), "the guest's agent is not where cargo should have put it: {}", built.display());
}
