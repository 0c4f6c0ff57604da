//! The control socket: how another process asks a live run something, or tells it to change.
//!
//! A Unix socket, on which each request is a line of text and gets a line as its answer. What they mean is the caller's. Clients can queue up before the
//! run begins; the lines of one that has hung up by then are dropped. The socket is served by a thread
//! of its own with bounded memory, so that a client that is slow, silent or wrong keeps neither the emulator nor other clients waiting. What is to be
//! done to the network goes to the emulator's thread by an [`Inbox`], whose bell wakes it.

mod client;
mod inbox;
mod place;
mod serve;

use std::io;
use std::path::{Path, PathBuf};

use crate::private::UnsoundError;
pub use client::{PATIENCE, ask};
pub use inbox::{Inbox, Post, post};
pub(crate) use place::{EXTENSION, clear};
pub use place::{Place, VARIABLE, listening};
pub use serve::{Serving, Socket};

/// Why there is no control socket, or none that answers.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no directory for it.
    #[error(transparent)]
    Directory(#[from] UnsoundError),
    /// Something else is at the path.
    #[error("{} exists and is no socket; give the control socket another place", .0.display())]
    Taken(PathBuf),
    /// Another process listens there.
    #[error("another run listens at {}; give the control socket another place", .0.display())]
    InUse(PathBuf),
    /// Nobody listens there.
    #[error("no run listens at {}: {source}", path.display())]
    Nobody {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The run has not answered in time. It drops the request of a client that has gone.
    #[error("the run at {} has not answered, and the request was dropped; the run may not have begun: ask again when it has", .0.display())]
    Silent(PathBuf),
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Makes an error of a system's error.
fn system(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> ControlError {
    let path = path.to_owned();
    move |source| ControlError::System { what, path, source }
}

#[cfg(test)]
mod tests;
