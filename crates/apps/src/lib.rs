//! Programs for people, built on background transfer: [`replicate`] pushes a directory to many receivers.

#[cfg(unix)]
pub mod replicate;
