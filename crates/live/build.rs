//! Compiles the BPF programs with clang, where the feature "bpf" asks for them and clang is there.
//!
//! Without clang the build goes on: the library then has no object, and says so when it is asked for one.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(bpf_object)");
    println!("cargo::rerun-if-env-changed=CLANG");
    let linux = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    if env::var_os("CARGO_FEATURE_BPF").is_none() || !linux {
        return;
    }
    let sources = Path::new("../../native/bpf");
    println!("cargo::rerun-if-changed={}", sources.display());
    match compile(sources) {
        Ok(()) => println!("cargo::rustc-cfg=bpf_object"),
        Err(problem) => println!("cargo::warning=no TCP Nice for the kernel in this build: {problem}"),
    }
}

/// Makes the objects in the output directory.
fn compile(sources: &Path) -> Result<(), String> {
    ["nice", "background", "sockets"].into_iter().try_for_each(|name| compile_one(sources, name))
}

fn compile_one(sources: &Path, name: &str) -> Result<(), String> {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let output = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join(format!("{name}.bpf.o"));
    // The headers of the libbpf that is built along.
    let headers = env::var_os("DEP_BPF_INCLUDE").ok_or("libbpf-sys does not say where its headers are")?;
    let big = env::var("CARGO_CFG_TARGET_ENDIAN").is_ok_and(|endian| endian == "big");
    let made = Command::new(&clang)
        .args(["-target", if big { "bpfeb" } else { "bpfel" }, "-mcpu=v3", "-O2", "-g"])
        // Programs of a table of operations need not use all that they are given.
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .arg("-I")
        .arg(headers)
        .arg("-c")
        .arg(sources.join(format!("{name}.bpf.c")))
        .arg("-o")
        .arg(&output)
        .output();
    match made {
        Err(error) => {
            Err(format!("{} cannot be run ({error}); on Debian: apt install clang", clang.display()))
        }
        Ok(made) if !made.status.success() => {
            // Wrong C is a mistake of ours, not a machine that lacks something.
            panic!(
                "clang could not compile native/bpf/{name}.bpf.c:\n{}",
                String::from_utf8_lossy(&made.stderr)
            );
        }
        Ok(_) => Ok(()),
    }
}
