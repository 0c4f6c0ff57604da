//! Errors of guests.

use std::path::PathBuf;

/// Why a guest could not be used, or could not continue.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is no guest kernel.
    #[error(
        "there is no guest kernel: linux.uml is not in PATH; install it (Debian, Ubuntu: apt install user-mode-linux), or name \
         one in the environment variable WARPLINE_GUEST_KERNEL"
    )]
    NoKernel,
    /// The kernel's clock cannot be controlled.
    #[error("{} cannot be a guest: {reason}", path.display())]
    Unfit {
        /// The kernel.
        path: PathBuf,
        /// The reason, and what would help.
        reason: String,
    },
    /// No kernel is meant by what a scenario says.
    #[error(
        "there is no guest kernel `{choice}`; there are: {there}. Build it (warpline kernel build {choice}), or add its file (warpline \
         kernel add FILE)"
    )]
    UnknownKernel {
        /// What the scenario says.
        choice: String,
        /// The kernels that are there.
        there: String,
    },
    /// Several kernels are meant by what a scenario says.
    #[error("several guest kernels are `{choice}`: {names}; say which, by its name")]
    SeveralKernels {
        /// What the scenario says.
        choice: String,
        /// Their names.
        names: String,
    },
    /// A kernel cannot have, or does not have, this name.
    #[error("kernel `{name}`: {problem}")]
    KernelName {
        /// The name.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest's order is invalid.
    #[error("guest {name}: {problem}")]
    Config {
        /// The guest.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The guest reported why it could not be set up.
    #[error("guest {name}: {reason}")]
    SetUp {
        /// The guest.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// It cannot have a share of a core.
    #[error(
        "guest {name}: its share of a core cannot be limited ({source}); this needs a control group with the cpu controller that this \
         user may change: as root, or where it was delegated (systemd: Delegate=cpu). Leave the share out to give it a whole core"
    )]
    Share {
        /// The guest.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest's kernel has ended unexpectedly.
    #[error("guest {name}: its kernel {how}{}", tail(console))]
    Died {
        /// The guest.
        name: String,
        /// How it ended.
        how: String,
        /// Its last console output.
        console: String,
    },
    /// The guest has kept its turn for too long.
    #[error(
        "guest {name}: its kernel, which had to {task}, has shown no activity for {seconds} s{}",
        tail(console)
    )]
    Hung {
        /// The guest.
        name: String,
        /// Its task.
        task: &'static str,
        /// For how long.
        seconds: u64,
        /// Its last console output.
        console: String,
    },
    /// A program computes without a system call that would end its turn.
    #[error(
        "guest {name}: a program computes without end ({seconds} s of the machine's time at {at} s of the run); in lock-step a \
         program has to wait for something now and then{}",
        tail(console)
    )]
    Spins {
        /// The guest.
        name: String,
        /// For how long.
        seconds: u64,
        /// When, in seconds of the run.
        at: f64,
        /// Its last console output.
        console: String,
    },
    /// Nothing can happen any more: no guest has a timer, and no packet is in flight.
    #[error(
        "all guests wait, but there is no timer and no packet to wait for (at {at} s of the run){}",
        tail(console)
    )]
    Deadlock {
        /// When, in seconds of the run.
        at: f64,
        /// The guests' last console output.
        console: String,
    },
}

fn tail(console: &str) -> String {
    if console.is_empty() {
        "; its console is empty".to_owned()
    } else {
        format!("; the last lines on its console:\n{console}")
    }
}

/// Adds the operation that failed to an error of the system.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError> {
        self.map_err(|error| GuestError::System { what: what(), source: error.into() })
    }
}
