//! Compiles the guard, which is in C.

fn main() {
    println!("cargo::rerun-if-changed=native/guard.c");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        let mut build = cc::Build::new();
        build
            .file("native/guard.c")
            .std("gnu11")
            .warnings(true)
            .extra_warnings(true)
            .warnings_into_errors(true);
        build.compile("warpline_guard");
    }
}
