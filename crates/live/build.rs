//! Compiles the BPF programs with clang, and libbpf, which loads them into the kernel (feature "bpf", Linux).
//!
//! If the machine lacks the tools, the build goes on, and says in one line what is missing and how to get it. The library then has no
//! object, and returns the same message as an error. The build checks again when a program or a package has been installed.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "build/block.rs"]
#[allow(dead_code, reason = "the library fills what this build lays out")]
mod block;
#[path = "build/needs.rs"]
mod needs;

use block::{ACK_DELAY, BURST, LAYOUT, MOST_REDUCTIONS, SEGMENT, Unit, WORDS};
use needs::{INSTALL, missing, watched};

/// The sources of the programs, `NAME.bpf.c`.
const PROGRAMS: [&str; 3] = ["nice", "background", "sockets"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(bpf_object)");
    for name in ["CLANG", "CC"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    for changed in ["build.rs", "build", "libbpf", "../../native/bpf"] {
        println!("cargo::rerun-if-changed={changed}");
    }
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let absent = if !linux {
        "it is for Linux".to_owned()
    } else if env::var_os("CARGO_FEATURE_BPF").is_none() {
        "the feature \"bpf\" was switched off".to_owned()
    } else {
        match build() {
            Ok(()) => String::new(),
            Err(problem) => {
                println!(
                    "cargo::warning=no TCP Nice for the kernel in this build (warpline nice): {problem}; get it: {INSTALL}"
                );
                for path in watched(&env::var_os("PATH").unwrap_or_default()) {
                    println!("cargo::rerun-if-changed={}", path.display());
                }
                problem
            }
        }
    };
    println!("cargo::rustc-env=WARPLINE_BPF_ABSENT={absent}");
    println!("cargo::rustc-env=WARPLINE_BPF_INSTALL={INSTALL}");
    if absent.is_empty() {
        println!("cargo::rustc-cfg=bpf_object");
    }
}

/// Builds everything, or returns what is missing.
fn build() -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    missing(&clang, &env::var_os("PATH").unwrap_or_default()).map_or(Ok(()), Err)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo does not say where the build's files go")?);
    let headers = build_libbpf(&out)?;
    fs::write(out.join("nice_parameters.h"), parameters())
        .map_err(|error| format!("{} cannot be written ({error})", out.display()))?;
    PROGRAMS.into_iter().for_each(|name| compile(&clang, &headers, &out, name));
    let library = headers.parent().unwrap_or(&headers);
    println!("cargo::rustc-link-search=native={}", library.display());
    // The whole archive, since libbpf-rs, which needs it, comes later on the linker's command line.
    println!("cargo::rustc-link-lib=static:+whole-archive=bpf");
    Ok(())
}

/// The C structure of the parameter block.
fn parameters() -> String {
    let mut text = format!(
        "/* Made by crates/live/build.rs. What the parameters mean: crates/transport/src/cc/nice.rs. */\n#pragma once\n\n\
         /* A segment, in the units of a window. */\n#define NICE_ONE {SEGMENT}u\n\
         /* Segments that a window below as many sends together. */\n#define NICE_BURST {BURST}u\n\
         /* How often the window is reduced at once, at most. */\n#define NICE_MOST_REDUCTIONS {MOST_REDUCTIONS}u\n\
         /* How long a receiver waits for a second segment before it acknowledges the first, in microseconds. */\n#define NICE_ACK_DELAY {ACK_DELAY}u\n\
         /* Whoever reads a connection's state checks it. */\n#define NICE_LAYOUT {LAYOUT}u\n\n\
         struct nice_parameters {{\n\tu32 layout;\n"
    );
    for (name, unit) in WORDS {
        let unit = match unit {
            Unit::Part => "in 1/65536",
            Unit::Segments => "segments in 1/4096",
            Unit::Micros => "microseconds; all ones for no limit",
            Unit::Spans => "1024 microseconds",
            Unit::Flag => "1 for yes",
        };
        text += &format!("\tu32 {name}; /* {unit} */\n");
    }
    text + "};\n"
}

/// Builds libbpf; returns the directory of its headers.
fn build_libbpf(out: &Path) -> Result<PathBuf, String> {
    let place = out.join("libbpf.headers");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--features", "vendored", "--manifest-path", "libbpf/Cargo.toml"]);
    command.arg("--target-dir").arg(out.join("libbpf")).env("WARPLINE_LIBBPF", &place);
    if let Some(target) = env::var_os("TARGET") {
        command.arg("--target").arg(target);
    }
    // Options and wrappers of the surrounding build (coverage, clippy) do not apply.
    for name in [
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "RUSTC_WRAPPER",
        "RUSTC_WORKSPACE_WRAPPER",
        "CARGO_BUILD_TARGET",
        "CARGO_TARGET_DIR",
    ] {
        command.env_remove(name);
    }
    let made = command.output().map_err(|error| format!("libbpf could not be built ({error})"))?;
    if !made.status.success() {
        let said = String::from_utf8_lossy(&made.stderr);
        // It, or a compiler that it ran, was ended from outside: nothing is missing, and a build without the programs must not be kept.
        assert!(
            made.status.code().is_some() && !said.contains("(signal: "),
            "libbpf could not be built: {said}"
        );
        let line = said.lines().rfind(|line| line.contains("error")).unwrap_or("it said nothing");
        return Err(format!("libbpf could not be built ({})", line.trim()));
    }
    let headers = fs::read_to_string(&place).map_err(|error| format!("libbpf cannot be found ({error})"))?;
    Ok(headers.into())
}

/// Builds the object of one of our programs. An error in the C code is our mistake, not a missing tool.
fn compile(clang: &OsStr, headers: &Path, out: &Path, name: &str) {
    let big = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let made = Command::new(clang)
        .args(["-target", if big { "bpfeb" } else { "bpfel" }, "-mcpu=v3", "-O2", "-g"])
        // Programs of a table of operations need not use all their arguments.
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .args([OsStr::new("-I"), headers.as_os_str(), OsStr::new("-I"), out.as_os_str(), OsStr::new("-c")])
        .arg(Path::new("../../native/bpf").join(format!("{name}.bpf.c")))
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")))
        .output();
    match made {
        Ok(made) if made.status.success() => {}
        Ok(made) => {
            panic!("clang could not compile {name}.bpf.c:\n{}", String::from_utf8_lossy(&made.stderr));
        }
        Err(error) => panic!("{} cannot be run: {error}", clang.display()),
    }
}
