//! What is asked of `warpline nice`, and why it cannot be done.

use std::ffi::OsString;
use std::io;

use warpline_transport::cc::NiceParams;

use crate::bpf::BpfError;
use crate::start::StartError;

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct NiceConfig {
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// Parameters of TCP Nice; `None` for the defaults, or for those of the loaded one.
    pub parameters: Option<NiceParams>,
    /// Whether to limit what the command receives as well.
    pub receive: bool,
    /// Whether to refuse lesser means than TCP Nice in the kernel.
    pub strict: bool,
}

/// Why a command could not be run in the background.
#[derive(Debug, thiserror::Error)]
pub enum NiceError {
    /// TCP Nice is not available as requested, and lesser means are refused.
    #[error("{reason}; without --strict {instead}")]
    Strict {
        /// Why there is no TCP Nice.
        reason: Box<NiceError>,
        /// What would be used instead.
        instead: &'static str,
    },
    /// TCP Nice is not available, and neither are lesser means.
    #[error("{reason}; {remedy}")]
    Nothing {
        /// Why there is no TCP Nice.
        reason: Box<NiceError>,
        /// What could help.
        remedy: String,
    },
    /// An error that lesser means cannot make up for.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] StartError),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

pub(super) fn system(what: &'static str) -> impl Fn(io::Error) -> NiceError {
    move |source| NiceError::System { what, source }
}
