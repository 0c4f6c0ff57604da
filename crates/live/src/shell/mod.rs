//! A command behind an emulated link, as `warpline shell` runs it.
//!
//! ```text
//!   the command's namespace        the emulator's           the namespace outside
//!   warp0 ------------------- up, down ------------------- wl0  $WARPLINE_BASE
//! ```
//!
//! The namespace in the middle has no name and no process: descriptors of the emulator hold it, and it ends, with both
//! veth pairs, when the emulator does, however it does. The kernel kills the command when the emulator dies, and [`crate::keeper`] what that has started.
//!
//! For root, the outside is the caller's namespace. An ordinary user gets a user namespace and in it a network namespace that replaces
//! the outside: it contains what [`ShellConfig::base_command`] starts there, and, if pasta is installed, a route to
//! the machine's network. Either way a shell inside a shell is an ordinary case: its outside is the inside of the other.

mod bridge;
mod child;
pub(crate) mod outward;
mod wires;

use std::ffi::OsString;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;

use warpline_core::TimeDelta;

use crate::address::Block;
use crate::crossing::{Account, Carrier, Command, Crossing, CrossingConfig};
use crate::emulator::{Emulator, EmulatorError, Turn};
use crate::nat::Reach;
use crate::netlink::NetlinkError;
use crate::netns::NetNsError;
use crate::outside::OutsideError;
use crate::port::{LivePort, PortError};
use crate::privilege::{self, UserNsError};
use crate::registry::{self, Entry};
use crate::signals::Signals;
use crate::start::StartError;
pub use bridge::{BridgeConfig, BridgeOutcome, run_bridge};
use child::{Child, Place};
use outward::Outward;

/// Settings of a shell.
#[derive(Clone, Debug)]
pub struct ShellConfig {
    /// The link between the command and the world outside.
    pub link: CrossingConfig,
    /// The program and its arguments; at least the program.
    pub command: Vec<OsString>,
    /// A command for `sh -c` that runs in the namespace outside while the shell does: a server of the user's.
    pub base_command: Option<OsString>,
    /// Whether packets may leave for the world beyond this machine.
    pub nat: bool,
    /// Called, before the command starts, with what keeps packets from travelling as far as they could, or may; and if that takes long to find out.
    pub warn: fn(&str),
    /// The longest time between two turns of the observer; `None` if it needs no turn without packets.
    pub pulse: Option<TimeDelta>,
    /// What calls for a turn of the observer when it becomes readable, if anything does.
    pub bell: Option<Arc<OwnedFd>>,
    /// More variables for the command's environment.
    pub environment: Vec<(&'static str, String)>,
}

/// The state of a shell when its command is about to start.
#[derive(Clone, Debug)]
pub struct Begun {
    /// The congestion control that the kernel gives to connections of the command, if known.
    pub congestion_control: Option<String>,
    /// The IPv4 address of the world outside.
    pub base: IpAddr,
    /// How far packets can travel.
    pub reach: Reach,
}

/// The result of a shell.
#[derive(Debug)]
pub struct ShellOutcome {
    /// How the command ended, or why the emulator stopped before.
    pub status: Result<ExitStatus, EmulatorError>,
    /// How the emulator kept pace, and what the links did.
    pub account: Account,
    /// How far packets could travel.
    pub reach: Reach,
    /// Why they could not travel further, or what may have stopped them; empty if nothing did.
    pub reach_note: String,
}

/// Why a shell could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// No user namespace.
    #[error(transparent)]
    User(#[from] UserNsError),
    /// No network namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// An interface could not be made.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A port could not be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// An interface cannot be used.
    #[error(transparent)]
    Outside(#[from] OutsideError),
    /// No addresses are left.
    #[error("there are no addresses for another shell here: {0}; end one, or see warpline clean")]
    Full(&'static str),
    /// The command could not be started.
    #[error(transparent)]
    Command(#[from] StartError),
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// The shell's command, in this machine's time.
struct Behind {
    child: Child,
    /// Readable when the command has ended.
    ended: OwnedFd,
    signals: Signals,
    pulse: Option<TimeDelta>,
    bell: Option<Arc<OwnedFd>>,
}

impl Command for Behind {
    type Ending = ExitStatus;
    fn wake(&self) -> Vec<BorrowedFd<'_>> {
        let bell = self.bell.iter().map(AsFd::as_fd);
        [self.ended.as_fd(), self.signals.bell()].into_iter().chain(bell).collect()
    }
    fn pace(&mut self, _: &mut Emulator) -> Option<TimeDelta> {
        self.pulse
    }
    fn look(&mut self) -> Option<ExitStatus> {
        self.signals.forward(|signal| self.child.signal(signal));
        self.child.poll()
    }
}

/// Runs a command behind an emulated link, until it ends. Calls `began` when the command is about to start, and `observe` after every turn of the
/// emulator.
///
/// To be called from a process with one thread: moves an ordinary user's process into namespaces of its own, for good.
///
/// # Errors
/// If the namespaces or the command cannot be started. Nothing is left behind then.
pub fn run(
    config: &ShellConfig,
    began: impl FnOnce(&Begun),
    observe: impl FnMut(Turn<'_, Crossing>),
) -> Result<ShellOutcome, ShellError> {
    // Leftovers of an earlier shell must not be in the way; if they cannot be removed, the error of this one says what is.
    let _ = registry::clean(&mut |_| {});
    let ordinary = !privilege::is_privileged();
    // Before the namespaces are entered: it stays outside.
    let mut outward = (ordinary && config.nat).then(Outward::prepare);
    if ordinary {
        privilege::enter_user_namespace()?;
    }
    let system = |what| move |source| ShellError::System { what, source };
    // From here on no signal may end this process before it has undone what it does.
    let signals = Signals::listen().map_err(system("listen for signals"))?;
    let mut entry = Entry::create("warpline shell");
    let parent: Option<Block> =
        std::env::var(child::NETWORK).ok().filter(|_| !ordinary).and_then(|text| text.parse().ok());
    let wires = wires::Wires::lay(parent, ordinary, config.link.emulator.mtu, &mut entry)?;
    let (reach, reach_note) = match &mut outward {
        Some(outward) => wires.open_outward(outward.as_mut(), config, &signals, &mut entry),
        None => wires.open_up(config.nat, parent.is_some(), &mut entry),
    };
    if !reach_note.is_empty() && signals.early_end().is_none() {
        match reach {
            Reach::World => (config.warn)(&reach_note),
            Reach::Base if outward.is_some() => {
                let text = format!("this shell reaches no further than its own namespaces: {reach_note}");
                (config.warn)(&text);
            }
            // This machine is outside, and the greeting says that only it can be reached.
            Reach::Base => {}
        }
    }

    let ports = wires.ports()?.map(|port| Box::new(port) as Box<dyn LivePort>);
    let mut carrier = Carrier::new(&config.link, ports);
    carrier.emulator.note_offloads(&wires.offloads);
    let base = wires.block.outside();
    let mut environment = vec![
        ("WARPLINE_BASE", base[0].to_string()),
        ("WARPLINE_BASE6", base[1].to_string()),
        (child::NETWORK, wires.block.to_string()),
    ];
    environment.extend(config.environment.iter().cloned());
    let mut server = match &config.base_command {
        Some(line) => {
            let words = ["sh".into(), "-c".into(), line.clone()];
            Some(Child::start(&words, Place::Beside, &environment, &entry.session.id)?)
        }
        None => None,
    };
    let congestion = || std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").ok();
    let congestion = wires.inside.within(congestion)?.map(|name| name.trim().to_owned());
    if let Some(status) = signals.early_end() {
        drop(server);
        registry::end_processes(&entry.session);
        return Ok(ShellOutcome { status: Ok(status), account: carrier.account(), reach, reach_note });
    }
    began(&Begun { congestion_control: congestion, base: base[0], reach });
    let inside = Place::Within(&wires.inside);
    let child = Child::start(&config.command, inside, &environment, &entry.session.id)?;
    let ended = child.ended().map_err(system("watch the command"))?;
    let mut command = Behind { child, ended, signals, pulse: config.pulse, bell: config.bell.clone() };
    carrier.emulator.restart_clock();
    let status = carrier.carry(&mut command, observe);
    let account = carrier.account();
    // Processes that the command left running are behind a link that ends now.
    if let Some(server) = &mut server {
        server.end();
    }
    command.child.end();
    registry::end_processes(&entry.session);
    Ok(ShellOutcome { status, account, reach, reach_note })
}
