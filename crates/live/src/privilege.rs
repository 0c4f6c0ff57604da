//! The privileges of this process, and user namespaces for processes without them.

use std::fs;
use std::io;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};

/// The capabilities that an emulator needs in its network namespace.
const NEEDED: CapabilitySet =
    CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW).union(CapabilitySet::SYS_ADMIN);

/// Whether this process can make namespaces and interfaces as it is.
pub fn is_privileged() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(NEEDED))
}

/// Why a user namespace could not be made.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot make a user namespace ({what}: {source}); an ordinary user needs one. It may be that the system forbids it \
     (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns) or that \
     this is a container that does; run as root, or see warpline doctor"
)]
pub struct UserNsError {
    what: &'static str,
    source: io::Error,
}

/// Moves this process, which must have only one thread, into a user and a network namespace of its own, as the same user
/// with all capabilities there. Programs that it starts have the network capabilities, although they are not root, so that ping works, and a
/// shell in the shell.
///
/// # Errors
/// If the system forbids it.
pub fn enter_user_namespace() -> Result<(), UserNsError> {
    let fail = |what| move |source: io::Error| UserNsError { what, source };
    let (uid, gid) = (geteuid(), getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET)
        .map_err(|errno| fail("unshare")(errno.into()))?;
    // A map of groups may be written by an ordinary user only after giving up setgroups (user_namespaces(7)).
    fs::write("/proc/self/setgroups", "deny").map_err(fail("setgroups"))?;
    fs::write("/proc/self/gid_map", format!("{gid} {gid} 1")).map_err(fail("gid_map"))?;
    fs::write("/proc/self/uid_map", format!("{uid} {uid} 1")).map_err(fail("uid_map"))?;
    keep_capabilities().map_err(fail("capabilities"))
}

/// Whether this process belongs to an ordinary user and has its capabilities from [`enter_user_namespace`]: programs must be given them.
pub fn in_user_namespace() -> bool {
    is_privileged() && !geteuid().is_root()
}

/// Lets programs that this thread starts keep the network capabilities, although they are not root (ambient capabilities,
/// capabilities(7)).
///
/// # Errors
/// If this process does not have them.
pub fn keep_capabilities() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    sets.inheritable |= NEEDED;
    set_capabilities(None, sets)?;
    for capability in [CapabilitySet::NET_ADMIN, CapabilitySet::NET_RAW, CapabilitySet::SYS_ADMIN] {
        configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}
