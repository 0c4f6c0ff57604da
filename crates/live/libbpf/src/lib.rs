//! libbpf, compiled by the build of `warpline-live` in a build of its own (`crates/live/build.rs`): where the machine lacks what that takes, only
//! this build fails, and Warpline is built without TCP Nice for the kernel. There is nothing in the library.
