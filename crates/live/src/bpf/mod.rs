//! BPF programs in the running kernel: TCP Nice as a congestion control, and programs that put a cgroup's sockets in the background.
//!
//! The programs are in `native/bpf`. The build compiles them, and this module embeds the objects (feature "bpf", and the tools that `build.rs`
//! needs). A build without them has the same functions, which return an error that says what was missing.
//!
//! - [`control`]: TCP Nice itself: loads it, finds it, unloads it.
//! - [`background`]: the programs of a cgroup.
//! - [`sockets`]: the sockets that Nice controls.

use std::io;
use std::net::SocketAddr;

use serde::Serialize;
use warpline_transport::cc::NiceParams;

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
#[cfg(test)]
mod rules;
#[cfg(bpf_object)]
pub mod sockets;

#[cfg(bpf_object)]
use parameters::{Block, SEGMENT};

#[cfg(not(bpf_object))]
pub use absent::{background, control, sockets};

/// The name of the congestion control in the kernel.
pub const NAME: &str = "nice";

/// Whether this build has the BPF objects.
pub const fn is_built() -> bool {
    cfg!(bpf_object)
}

/// Why this build does not have them; empty if it does.
pub const ABSENT: &str = env!("WARPLINE_BPF_ABSENT");

/// How to make a build that has them.
pub const REMEDY: &str = concat!(
    env!("WARPLINE_BPF_INSTALL"),
    "; then build it again, as it was built (make run, or cargo build, or cargo install)"
);

/// The turn of a test that loads TCP Nice, or looks whether it is loaded: there is one kernel.
#[cfg(test)]
pub(crate) fn turn() -> std::sync::MutexGuard<'static, ()> {
    static KERNEL: std::sync::Mutex<()> = std::sync::Mutex::new(());
    KERNEL.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Why an operation with BPF failed.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The objects are not in this build.
    #[error("this build of warpline holds no BPF programs: {ABSENT}; get them: {REMEDY}")]
    NotBuilt,
    /// This process lacks the privileges.
    #[error(
        "loading programs into the kernel needs root's privileges (CAP_BPF, CAP_NET_ADMIN, CAP_SYS_ADMIN); use sudo"
    )]
    Privilege,
    /// The kernel lacks something.
    #[error("this kernel cannot run TCP Nice: {0}")]
    Kernel(String),
    /// Loaded already, with other parameters.
    #[error(
        "TCP Nice is already in the kernel, with other parameters ({0}); leave the options out, or change them for all with \
         warpline nice load"
    )]
    Otherwise(String),
    /// Loaded already, by another version or another program.
    #[error(
        "the congestion control \"nice\" that is in the kernel is another version's or another program's; unload it first with \
         warpline nice unload, and end the commands that use it"
    )]
    Foreign,
    /// A parameter is out of its range: which, and what is allowed.
    #[error("{0}")]
    Parameter(String),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

/// TCP Nice as it is in the kernel now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loaded {
    /// Its parameters; `None` if the loaded Nice is another program's or another version's.
    #[serde(serialize_with = "parameters::serialize")]
    pub parameters: Option<NiceParams>,
    /// Whether it stays until it is unloaded (`warpline nice load`), rather than only while a command runs.
    pub stays: bool,
}

impl Loaded {
    /// Whether it is another program's or another version's: then what its connections hold cannot be read either.
    pub fn is_foreign(&self) -> bool {
        self.parameters.is_none()
    }
}

/// Counters of the programs of a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Sockets that got the congestion control (a socket may count when it listens, connects and is accepted).
    pub switched: u64,
    /// Sockets that could not get it.
    pub refused: u64,
    /// Sockets whose advertised window is controlled.
    pub received: u64,
    /// Those of them without timestamps, which are therefore left alone.
    pub unstamped: u64,
}

/// Which direction of a connection yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// What it sends.
    Sends,
    /// What it receives.
    Receives,
    /// Both.
    Both,
}

/// A TCP connection that Nice controls.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Socket {
    /// Number of its control group.
    pub cgroup: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Which direction yields.
    pub direction: Direction,
    /// Bytes that the other end has acknowledged.
    pub bytes_acked: u64,
    /// Bytes that the other end has sent.
    pub bytes_received: u64,
    /// Congestion window in segments; may be below one.
    pub window: f64,
    /// Advertised window in segments; zero if receiving is not controlled.
    pub receive_window: f64,
    /// Smoothed round-trip time in milliseconds.
    pub srtt_ms: f64,
    /// Smallest round-trip time seen, in milliseconds, assumed to be that of empty queues.
    pub base_rtt_ms: f64,
    /// Largest round-trip time, assumed to be that of full queues; at first twice the smallest.
    pub max_rtt_ms: f64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Rounds in which it has yielded.
    pub halvings: u32,
    /// How long it has been controlled, in seconds.
    pub age_s: f64,
    /// How much of that it backed off, in seconds: from a congested round to the next that was not.
    pub yielded_s: f64,
}
