//! What can go wrong with a guest.

use std::path::PathBuf;

/// Why a guest could not be used, or could not go on.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// There is no guest kernel.
    #[error(
        "there is no guest kernel: linux.uml is not in PATH; install it (Debian, Ubuntu: apt install user-mode-linux), or name \
         one in the environment variable WARPLINE_GUEST_KERNEL"
    )]
    NoKernel,
    /// The kernel's clock cannot be owned.
    #[error("{} cannot be a guest: {reason}", path.display())]
    Unfit {
        /// The kernel.
        path: PathBuf,
        /// Why not, and what would do.
        reason: String,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// What the guest was told to do makes no sense.
    #[error("guest {name}: {problem}")]
    Config {
        /// The guest.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The guest said why it could not be set up.
    #[error("guest {name}: {reason}")]
    SetUp {
        /// The guest.
        name: String,
        /// Its reason.
        reason: String,
    },
    /// It cannot have a share of a core.
    #[error(
        "guest {name}: its share of a core cannot be limited ({source}); that takes a control group with the cpu controller that this \
         user may change: as root, or where it was delegated (systemd: Delegate=cpu). Leave the share out to let it have all of one"
    )]
    Share {
        /// The guest.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The guest's kernel has ended though it should not have.
    #[error("guest {name}: its kernel {how}{}", tail(console))]
    Died {
        /// The guest.
        name: String,
        /// How it ended.
        how: String,
        /// The last that it said.
        console: String,
    },
    /// The guest has not handed over for a long time.
    #[error(
        "guest {name}: its kernel, which was to {task}, has done nothing that can be seen for {seconds} s{}",
        tail(console)
    )]
    Hung {
        /// The guest.
        name: String,
        /// What it was to do.
        task: &'static str,
        /// For how long.
        seconds: u64,
        /// The last that it said.
        console: String,
    },
    /// A program computes and never makes a system call, or never ends its turn by any.
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
        /// The last that it said.
        console: String,
    },
    /// No guest waits for a time, and no packet is under way.
    #[error(
        "all guests wait, but for nothing that will come: no timer, no packet (at {at} s of the run){}",
        tail(console)
    )]
    Deadlock {
        /// When, in seconds of the run.
        at: f64,
        /// The last that the guests said.
        console: String,
    },
}

fn tail(console: &str) -> String {
    if console.is_empty() {
        "; it has said nothing on its console".to_owned()
    } else {
        format!("; the last on its console:\n{console}")
    }
}

/// Adds to an error of the system what was being done.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError>;
}

impl<T, E: Into<std::io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl FnOnce() -> String) -> Result<T, GuestError> {
        self.map_err(|error| GuestError::System { what: what(), source: error.into() })
    }
}
