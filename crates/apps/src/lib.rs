//! Programs for people, built on background transfer: [`replicate`] pushes a directory to many receivers, [`prefetch`] replays a trace of web
//! requests and fetches ahead.

#[cfg(all(target_os = "linux", feature = "prefetch"))]
pub mod prefetch;
#[cfg(unix)]
pub mod replicate;
