//! The means that make a command yield: the best that the kernel and the user's privileges allow.
//!
//! `choose` alone decides, from what was found. There are two questions: which congestion control, and how the command's
//! sockets get it. TCP Nice in the kernel with programs on a control group is the best, and needs root's privileges. A user without them can
//! still use congestion controls that the kernel allows to all, such as TCP Nice if it is loaded; the sockets of a supervised command (`supervise`) then get it.

use std::fmt;
use std::fs::File;
use std::process::Child;

use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketType, socket};
use serde::Serialize;

use super::config::{NiceConfig, NiceError, system};
use super::supervise::{self, Supervisor};
use crate::bpf::background::{Background, Governing};
use crate::bpf::control::{self, Hold};
use crate::bpf::{BpfError, Counts, NAME};
use crate::cgroup::{self, Cgroup};
use crate::registry::Entry;

/// What makes a command yield.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Way {
    /// TCP Nice in the kernel.
    Nice {
        /// Whether receiving is limited as well.
        receive: bool,
    },
    /// TCP Nice in the kernel, given to each socket as it connects: without programs on a control group.
    Supervised {
        /// Whether limiting of receiving was requested, which this does not do.
        receive: bool,
        /// Why programs are not used.
        reason: String,
    },
    /// Another congestion control for background traffic in the kernel.
    BuiltIn {
        /// Its name.
        name: &'static str,
        /// Why it is not TCP Nice.
        reason: String,
        /// Whether limiting of receiving was requested, which this does not do.
        receive: bool,
    },
}

impl Way {
    /// Whether it is less than what was requested.
    pub fn is_lesser(&self) -> bool {
        !matches!(self, Way::Nice { .. } | Way::Supervised { receive: false, .. })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unheld = |receive| if receive { "; what the command receives does not yield" } else { "" };
        match self {
            Way::Nice { receive: false } => write!(f, "TCP Nice in the kernel"),
            Way::Nice { receive: true } => write!(f, "TCP Nice in the kernel, for what is received too"),
            Way::Supervised { receive, reason } => {
                write!(
                    f,
                    "TCP Nice in the kernel, given to each socket as it connects{}: {reason}",
                    unheld(*receive)
                )
            }
            Way::BuiltIn { name, reason, receive } => {
                write!(
                    f,
                    "the kernel's own {name} in place of TCP Nice, which hardly yields{}: {reason}",
                    unheld(*receive)
                )
            }
        }
    }
}

/// Whether sockets of this user may choose a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// They may. Asking with root's privileges loads a module.
    Free,
    /// The kernel has it, but not for this user (`net.ipv4.tcp_allowed_congestion_control`).
    Forbidden,
    /// The kernel does not have it.
    Absent,
}

/// Asks the kernel, through a socket.
pub fn choice(name: &str) -> Choice {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None);
    match socket.and_then(|socket| set_tcp_congestion(socket, name)) {
        Ok(()) => Choice::Free,
        Err(rustix::io::Errno::PERM) => Choice::Forbidden,
        Err(_) => Choice::Absent,
    }
}

/// The kernel's own congestion control for background traffic. It takes the offset between the timestamps of the two hosts for
/// part of the delay, next to which no queue counts as a rise, so that most of its connections behave like Reno's
/// (net/ipv4/tcp_lp.c; seen between guests, see the book's page on agreement with Linux).
const BUILT_IN: &str = "lp";

/// What was found if TCP Nice with programs on a control group is not available.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// Whether TCP Nice may be chosen by name, because it is loaded.
    nice: Choice,
    /// Whether tcp-lp may be.
    built_in: Choice,
    /// Whether programs can be attached to control groups all the same (by root, on a kernel without struct_ops, for example).
    programs: bool,
    /// Whether system calls of the command can be intercepted.
    supervision: bool,
}

/// What was requested.
#[derive(Clone, Copy, Debug)]
struct Wish {
    /// Parameters other than the defaults.
    parameters: bool,
    receive: bool,
    strict: bool,
}

/// The substitute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Instead {
    /// TCP Nice by name, assigned by supervision.
    Supervised,
    /// tcp-lp, assigned by programs or by supervision.
    BuiltIn { by_programs: bool },
}

/// Why there is no substitute, or it is not wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Refusal {
    /// It would be less than what was requested.
    Strict(&'static str),
    /// There is none; the text says what to do.
    Nothing(String),
}

/// Chooses a substitute if the best is not available.
fn choose(found: Found, wish: Wish) -> Result<Instead, Refusal> {
    if found.supervision && found.nice == Choice::Free && !wish.parameters {
        return match wish.receive && wish.strict {
            true => Err(Refusal::Strict("what is sent would yield by TCP Nice, what is received would not")),
            false => Ok(Instead::Supervised),
        };
    }
    if (found.supervision || found.programs) && found.built_in == Choice::Free {
        return match wish.strict {
            true => Err(Refusal::Strict("the kernel's own tcp-lp would be used")),
            false => Ok(Instead::BuiltIn { by_programs: found.programs }),
        };
    }
    let mut ways = Vec::new();
    if !found.supervision && !found.programs {
        ways.push(
            "without privileges it needs Linux 5.6, and no other process that intercepts the command's calls (seccomp's user notifications), such as a \
             container, or another warpline nice around this one, where the command needs none of its own",
        );
    } else {
        match found.nice {
            Choice::Free if found.supervision => ways.push(
                "TCP Nice is loaded, with parameters that only root can see and change: leave the options out to use it as it is",
            ),
            Choice::Forbidden => ways.push(
                "TCP Nice is loaded, but users may not choose it (sysctl net.ipv4.tcp_allowed_congestion_control)",
            ),
            _ => ways.push("or load it once for all users: sudo warpline nice load"),
        }
        match found.built_in {
            Choice::Forbidden => ways.push(
                "tcp-lp could replace it, but users may not choose it (sysctl net.ipv4.tcp_allowed_congestion_control)",
            ),
            _ => ways.push("tcp-lp could replace it, but is not in the kernel (sudo modprobe tcp_lp)"),
        }
    }
    Err(Refusal::Nothing(ways.join("; ")))
}

/// How the command's sockets get their congestion control.
#[derive(Debug)]
enum Hands {
    // Dropped in this order.
    Programs { background: Background, cgroup: Cgroup },
    Supervision { name: &'static str, supervisor: Option<Supervisor> },
}

/// The means, held as long as the command runs.
#[derive(Debug)]
pub(super) struct Means {
    way: Way,
    hands: Hands,
    _hold: Option<Hold>,
}

impl Means {
    /// Sets up the best means available.
    pub(super) fn prepare(config: &NiceConfig, entry: &mut Entry) -> Result<Self, NiceError> {
        let (hold, reason) = match control::hold(config.parameters.as_ref()) {
            Ok(hold) => {
                let receiving = config.receive.then(|| hold.parameters());
                let governing = Governing { sending: Some(NAME), receiving };
                match Means::attach(Way::Nice { receive: config.receive }, &governing, entry) {
                    Ok(means) => return Ok(Means { _hold: Some(hold), ..means }),
                    Err(reason) => (Some(hold), reason),
                }
            }
            Err(error @ (BpfError::Otherwise(_) | BpfError::Parameter(_))) => return Err(error.into()),
            Err(reason) => (None, reason.into()),
        };
        let found = Found {
            nice: choice(NAME),
            built_in: choice(BUILT_IN),
            programs: crate::bpf::is_built() && crate::privilege::is_privileged(),
            supervision: supervise::is_possible().is_ok(),
        };
        let wish = Wish {
            // If we hold it, its parameters match.
            parameters: config.parameters.is_some() && hold.is_none(),
            receive: config.receive,
            strict: config.strict,
        };
        let receive = config.receive;
        match choose(found, wish) {
            Ok(Instead::Supervised) => {
                let way = Way::Supervised { receive, reason: reason.to_string() };
                Ok(Means::supervised(way, NAME, hold))
            }
            Ok(Instead::BuiltIn { by_programs }) => {
                let way = Way::BuiltIn { name: BUILT_IN, reason: reason.to_string(), receive };
                let governing = Governing { sending: Some(BUILT_IN), receiving: None };
                match by_programs.then(|| Means::attach(way.clone(), &governing, entry)) {
                    Some(Ok(means)) => Ok(means),
                    Some(Err(error)) if !found.supervision => Err(error),
                    _ => Ok(Means::supervised(way, BUILT_IN, None)),
                }
            }
            Err(Refusal::Strict(instead)) => Err(NiceError::Strict { reason: Box::new(reason), instead }),
            Err(Refusal::Nothing(remedy)) => Err(NiceError::Nothing { reason: Box::new(reason), remedy }),
        }
    }

    fn supervised(way: Way, name: &'static str, hold: Option<Hold>) -> Self {
        Means { way, hands: Hands::Supervision { name, supervisor: None }, _hold: hold }
    }

    /// Attaches programs to a control group.
    fn attach(way: Way, governing: &Governing<'_>, entry: &mut Entry) -> Result<Self, NiceError> {
        let cgroup = Cgroup::create(&cgroup::group_name(&entry.session.id))
            .map_err(system("make a control group (cgroups of version 2; see warpline doctor)"))?;
        entry.session.cgroups.push(cgroup.path().to_owned());
        entry.save();
        let background = Background::attach(cgroup.fd(), governing)?;
        Ok(Means { way, hands: Hands::Programs { background, cgroup }, _hold: None })
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    /// Starts the command with `spawn`, which gets the file to which the command writes `0`.
    pub(super) fn start(
        &mut self,
        spawn: impl FnOnce(Option<File>) -> Result<Child, NiceError> + Send + 'static,
    ) -> Result<Child, NiceError> {
        match &mut self.hands {
            Hands::Programs { cgroup, .. } => {
                spawn(Some(cgroup.door().map_err(system("open the control group"))?))
            }
            Hands::Supervision { name, supervisor } => {
                let (started, child) = Supervisor::start(name, || spawn(None))
                    .map_err(system("intercept system calls (seccomp)"))?;
                *supervisor = Some(started);
                child
            }
        }
    }

    pub(super) fn counts(&self) -> Option<Counts> {
        match &self.hands {
            Hands::Programs { background, .. } => Some(background.counts()),
            Hands::Supervision { supervisor, .. } => supervisor.as_ref().map(Supervisor::counts),
        }
    }

    /// The command has ended. Returns whether processes that it left running need us to connect.
    pub(super) fn is_needed(&mut self) -> bool {
        match &mut self.hands {
            Hands::Programs { .. } => false,
            Hands::Supervision { supervisor, .. } => supervisor.as_mut().is_some_and(Supervisor::is_needed),
        }
    }

    /// Where the command's connections can be read: the map of receivers' states and the control group.
    pub(super) fn readable(&self) -> Option<(Option<u32>, u64)> {
        let Hands::Programs { background, cgroup } = &self.hands else { return None };
        matches!(self.way, Way::Nice { .. }).then(|| Some((background.receivers(), cgroup.id().ok()?)))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish { parameters: false, receive: false, strict: false };
    const USER: Found =
        Found { nice: Choice::Absent, built_in: Choice::Absent, programs: false, supervision: true };

    fn nothing(found: Found, wish: Wish) -> String {
        match choose(found, wish) {
            Err(Refusal::Nothing(remedy)) => remedy,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_user_has_nice_once_it_is_loaded() {
        let found = Found { nice: Choice::Free, ..USER };
        assert_eq!(choose(found, WISH), Ok(Instead::Supervised));
        // It is TCP Nice, and so not refused; but it does not limit receiving.
        assert_eq!(choose(found, Wish { strict: true, ..WISH }), Ok(Instead::Supervised));
        assert_eq!(choose(found, Wish { receive: true, ..WISH }), Ok(Instead::Supervised));
        let strict = choose(found, Wish { strict: true, receive: true, ..WISH });
        assert!(matches!(strict, Err(Refusal::Strict(instead)) if instead.contains("received would not")));
        // Users cannot see which parameters it was loaded with.
        assert!(nothing(found, Wish { parameters: true, ..WISH }).contains("leave the options out"));
    }

    #[test]
    fn tcp_lp_comes_next() {
        let lp = Found { built_in: Choice::Free, ..USER };
        assert_eq!(choose(lp, WISH), Ok(Instead::BuiltIn { by_programs: false }));
        assert_eq!(choose(Found { nice: Choice::Free, ..lp }, WISH), Ok(Instead::Supervised));
        // Root on a kernel that has no struct_ops.
        let old = Found { programs: true, ..lp };
        assert_eq!(choose(old, WISH), Ok(Instead::BuiltIn { by_programs: true }));
        assert_eq!(
            choose(Found { supervision: false, ..old }, WISH),
            Ok(Instead::BuiltIn { by_programs: true })
        );
        for found in [lp, old] {
            let strict = choose(found, Wish { strict: true, ..WISH });
            assert!(matches!(strict, Err(Refusal::Strict(instead)) if instead.contains("tcp-lp")));
        }
    }

    #[test]
    fn where_there_is_nothing_it_is_said_what_to_do() {
        let text = nothing(USER, WISH);
        assert!(text.contains("sudo warpline nice load") && text.contains("sudo modprobe tcp_lp"), "{text}");
        let forbidden = Found { nice: Choice::Forbidden, built_in: Choice::Forbidden, ..USER };
        let text = nothing(forbidden, WISH);
        assert_eq!(text.matches("tcp_allowed_congestion_control").count(), 2, "{text}");
        assert!(!text.contains("modprobe"), "{text}");
        let text = nothing(Found { supervision: false, nice: Choice::Free, ..USER }, WISH);
        assert!(text.contains("Linux 5.6"), "{text}");
    }

    #[test]
    fn the_kernel_is_asked_by_a_socket() {
        assert_eq!((choice("reno"), choice("no-such")), (Choice::Free, Choice::Absent));
    }

    #[test]
    fn what_was_asked_for_and_is_not_had_is_said() {
        let reason = "no privilege".to_owned();
        let way = Way::Supervised { receive: true, reason: reason.clone() };
        assert!(way.is_lesser() && way.to_string().contains("receives does not yield"));
        let way = Way::Supervised { receive: false, reason: reason.clone() };
        assert!(!way.is_lesser() && way.to_string().ends_with("connects: no privilege"), "{way}");
        let way = Way::BuiltIn { name: "lp", reason, receive: true };
        assert!(
            way.is_lesser()
                && way.to_string().contains("own lp in place of TCP Nice, which hardly yields; what"),
            "{way}"
        );
    }
}
