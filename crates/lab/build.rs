//! Says which kinds of real hosts a crate is built with: `cfg(live)` and `cfg(guests)`. They need the feature "live", and the system.
//!
//! The crates above this one have the same feature and the same build script.

use std::env::var;

fn main() {
    // Cargo watches the script itself. With nothing named, it would watch all files of the crate; a file that is not there would always count as changed.
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rustc-check-cfg=cfg(live)");
    println!("cargo::rustc-check-cfg=cfg(guests)");
    let is = |variable: &str, value: &str| var(variable).is_ok_and(|found| found == value);
    if is("CARGO_FEATURE_LIVE", "1") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-cfg=live");
        if is("CARGO_CFG_TARGET_ARCH", "x86_64") {
            println!("cargo::rustc-cfg=guests");
        }
    }
}
