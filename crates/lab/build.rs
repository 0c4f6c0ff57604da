//! Says which kinds of real hosts a crate is built with: `cfg(live)` and `cfg(guests)`. They need the feature "live", and the system.
//!
//! The crates above this one have the same feature and the same build script.

use std::env::var;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
