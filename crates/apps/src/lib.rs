//! Programs built on background transfer: [`replicate`] pushes a directory to many receivers, [`prefetch`] replays a trace of web
//! requests with prefetching.

#[cfg(all(target_os = "linux", feature = "prefetch"))]
pub mod prefetch;
#[cfg(unix)]
pub mod replicate;
