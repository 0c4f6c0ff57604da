//! libbpf, compiled by the build of `warpline-live` as a separate build (`crates/live/build.rs`): if the machine lacks the tools, only
//! that build fails, and Warpline is built without TCP Nice for the kernel. This library itself is empty.
