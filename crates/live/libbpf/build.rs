//! Passes the directory of libbpf's headers and library to the build of `warpline-live`.

use std::env;
use std::fs;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WARPLINE_LIBBPF");
    if let (Some(headers), Some(file)) = (env::var_os("DEP_BPF_INCLUDE"), env::var_os("WARPLINE_LIBBPF"))
        && let Err(error) = fs::write(&file, headers.into_encoded_bytes())
    {
        println!("cargo::error=cannot write {}: {error}", file.display());
    }
}
