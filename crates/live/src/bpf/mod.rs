//! BPF programs in the running kernel: TCP Nice as a congestion control, and what puts a cgroup's sockets in the background.
//!
//! The programs are in `native/bpf`; the build compiles them and this module holds the objects (feature "bpf", and what `build.rs` needs for
//! them). A build without them has the same functions, which say what was missing.
//!
//! - [`control`]: TCP Nice itself: loaded, found, unloaded.
//! - [`background`]: the programs of a cgroup.
//! - [`sockets`]: the sockets that Nice governs.

use std::io;

use serde::Serialize;

#[cfg(not(bpf_object))]
mod absent;
#[cfg(bpf_object)]
pub mod background;
#[cfg(bpf_object)]
pub mod control;
#[cfg(bpf_object)]
mod object;
mod parameters;
#[cfg(bpf_object)]
mod pin;
#[cfg(bpf_object)]
pub mod sockets;

pub use parameters::Parameters;
#[cfg(bpf_object)]
use parameters::{LAYOUT, RawParameters, SEGMENT};

#[cfg(not(bpf_object))]
pub use absent::{background, control, sockets};

/// The name under which the congestion control is known to the kernel.
pub const NAME: &str = "nice";

/// Whether this build holds the BPF objects.
pub const fn is_built() -> bool {
    cfg!(bpf_object)
}

/// Why this build does not hold them, in words; empty if it does.
pub const ABSENT: &str = env!("WARPLINE_BPF_ABSENT");

/// How a build is made that holds them.
pub const REMEDY: &str = concat!(
    env!("WARPLINE_BPF_INSTALL"),
    "; then build it again, as it was built (make run, or cargo build, or cargo install)"
);

/// Why something with BPF could not be done.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The objects are not in this build.
    #[error("this build of warpline holds no BPF programs: {ABSENT}; get them: {REMEDY}")]
    NotBuilt,
    /// This process may not.
    #[error(
        "loading programs into the kernel takes root's privileges (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN); use sudo"
    )]
    Privilege,
    /// The kernel lacks something.
    #[error("this kernel cannot run TCP Nice: {0}")]
    Kernel(String),
    /// Loaded already, and not as asked.
    #[error(
        "TCP Nice is in the kernel already, with other parameters ({0}); leave the options out, or change them for all with \
         warpline nice load"
    )]
    Otherwise(String),
    /// A value is out of its range.
    #[error("{what} {value} is not allowed: {allowed}")]
    Parameter {
        /// Which.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What may be.
        allowed: &'static str,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

/// TCP Nice as the kernel has it now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Its parameters; none if another program's, or another version's, Nice is loaded.
    pub parameters: Option<Parameters>,
    /// Whether it stays until it is unloaded (`warpline nice load`), and not only while a command runs.
    pub stays: bool,
}

/// What the programs of a cgroup have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sockets that were given the congestion control (a socket may be counted when it listens, connects and is accepted).
    pub switched: u64,
    /// Sockets that could not be.
    pub refused: u64,
    /// Sockets whose advertised window is governed.
    pub received: u64,
    /// Sockets among them that have no timestamps, and are therefore left alone.
    pub unstamped: u64,
}
