//! A command of the user's on a live host of a run that another process makes.
//!
//! Namespaces of hosts have no names. The run holds them by descriptors, which another process of the same user opens below `/proc`. What it starts
//! there has the mark of the run's session, and ends with the run.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::{Deserialize, Serialize};

use crate::host::Hosts;
use crate::privilege;
use crate::start::{self, StartError};

/// How another process gets to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Door {
    /// The descriptor of its network namespace, below `/proc`.
    pub network: PathBuf,
    /// The user namespace of the run, if that is an ordinary user's.
    pub user: Option<PathBuf>,
    /// The name of the run's session, which marks its processes.
    pub session: String,
    /// Environment variables of programs on the host.
    pub environment: BTreeMap<String, String>,
}

/// Why a command cannot be run on a host.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The namespaces cannot be entered.
    #[error("cannot get to the host: {what}: {source}; the run may be over, or another user's")]
    Enter {
        /// What failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The command cannot be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Door {
    /// The door to host `at` of this process's `hosts`.
    pub fn to(hosts: &Hosts, at: usize, environment: BTreeMap<String, String>) -> Self {
        let own = PathBuf::from(format!("/proc/{}", std::process::id()));
        Door {
            network: own.join(format!("fd/{}", hosts.namespace(at).fd().as_raw_fd())),
            user: privilege::in_user_namespace().then(|| own.join("ns/user")),
            session: hosts.session().to_owned(),
            environment,
        }
    }

    /// Becomes the command with these words on the host. This process must have only one thread. Returns only if that fails.
    pub fn become_command(&self, words: &[OsString]) -> EnterError {
        if let Err(error) = self.enter() {
            return error;
        }
        let fail = |source| StartError { command: words.first().cloned().unwrap_or_default(), source };
        match start::command(words, &self.session) {
            Ok(mut command) => fail(command.envs(&self.environment).exec()).into(),
            Err(source) => fail(source).into(),
        }
    }

    fn enter(&self) -> Result<(), EnterError> {
        let failed = |what| move |source: io::Error| EnterError::Enter { what, source };
        // Opened before this process moves: the files are those of the machine's own `/proc`.
        let network = File::open(&self.network).map_err(failed("open its network namespace"))?;
        if let Some(path) = &self.user {
            let user = File::open(path).map_err(failed("open the run's user namespace"))?;
            if !is_own(&user, Path::new("/proc/self/ns/user")) {
                setns(&user, CloneFlags::CLONE_NEWUSER)
                    .map_err(|errno| failed("enter the run's user namespace")(errno.into()))?;
            }
            // So that ping works, although this is not root.
            privilege::keep_capabilities().map_err(failed("keep the network capabilities"))?;
        }
        setns(&network, CloneFlags::CLONE_NEWNET)
            .map_err(|errno| failed("enter its network namespace")(errno.into()))
    }
}

/// Whether a namespace is that of this process.
fn is_own(namespace: &File, own: &Path) -> bool {
    let inode = namespace.metadata().map(|data| data.ino());
    matches!((inode, std::fs::metadata(own)), (Ok(inode), Ok(own)) if inode == own.ino())
}

/// Lets other processes of this user look at this one below `/proc`: the kernel forbids it of a process that has entered a user namespace.
///
/// # Errors
/// If the system refuses.
pub fn let_others_look() -> io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}
