//! A link between two interfaces of this machine: their segments become one, with the link between its halves.
//!
//! ```text
//!   machines  ----- eth1 ----- up, down ----- eth2 -----  machines
//! ```
//!
//! Every frame that comes in at one interface goes out at the other as it is, after it has crossed the link: machines keep their addresses, and
//! find each other by ARP and neighbour discovery, which cross the link, too. This machine takes no part; frames for its own cards stay.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::Arc;

use warpline_core::TimeDelta;

use super::ShellError;
use super::child::{Child, Place};
use crate::crossing::{Account, Carrier, Command, Crossing, CrossingConfig};
use crate::emulator::{Emulator, EmulatorError, Turn};
use crate::outside::Outside;
use crate::port::LivePort;
use crate::signals::{Signal, Signals};

/// Settings of a link between interfaces.
#[derive(Clone, Debug)]
pub struct BridgeConfig {
    /// The link. Its MTU is that of the interfaces.
    pub link: CrossingConfig,
    /// The interfaces: up is from the first to the second.
    pub devices: [String; 2],
    /// Whether they are used although that may disturb this machine.
    pub force: bool,
    /// A program and its arguments, which runs on this machine as long as the link is there; without one, the link is there until a signal comes.
    pub command: Vec<OsString>,
    /// The longest time between two turns of the observer; `None` if it needs no turn without packets.
    pub pulse: Option<TimeDelta>,
    /// What calls for a turn of the observer when it becomes readable, if anything does.
    pub bell: Option<Arc<OwnedFd>>,
}

/// The result of a link between interfaces.
#[derive(Debug)]
pub struct BridgeOutcome {
    /// How the command ended, if there was one; or why the emulator stopped before.
    pub status: Result<Option<ExitStatus>, EmulatorError>,
    /// How the emulator kept pace, and what the links did.
    pub account: Account,
}

/// What ends the link.
struct Span {
    child: Option<(Child, OwnedFd)>,
    signals: Signals,
    pulse: Option<TimeDelta>,
    bell: Option<Arc<OwnedFd>>,
}

impl Command for Span {
    type Ending = Option<ExitStatus>;
    fn wake(&self) -> Vec<BorrowedFd<'_>> {
        let ended = self.child.iter().map(|(_, ended)| ended.as_fd());
        let bell = self.bell.iter().map(AsFd::as_fd);
        ended.chain([self.signals.bell()]).chain(bell).collect()
    }
    fn pace(&mut self, _: &mut Emulator) -> Option<TimeDelta> {
        self.pulse
    }
    fn look(&mut self) -> Option<Self::Ending> {
        match &mut self.child {
            Some((child, _)) => {
                self.signals.forward(|signal| child.signal(signal));
                child.poll().map(Some)
            }
            None => {
                let ends = |signal: &Signal| *signal != Signal::SIGWINCH;
                self.signals.take().iter().any(ends).then_some(None)
            }
        }
    }
}

/// Carries frames between two interfaces, until the command has ended or a signal comes. Calls `began` when the link is there, and `observe` after
/// every turn of the emulator.
///
/// # Errors
/// If an interface cannot be used, or the command cannot be started. Nothing is changed then.
pub fn run_bridge(
    config: &BridgeConfig,
    began: impl FnOnce(),
    observe: impl FnMut(Turn<'_, Crossing>),
) -> Result<BridgeOutcome, ShellError> {
    let outside = Outside::bridge("warpline shell --devices", &config.devices, config.force)?;
    let mut link = config.link.clone();
    link.emulator.mtu = outside.mtu();
    let ports = outside.ports()?.into_iter().map(|port| Box::new(port) as Box<dyn LivePort>);
    let mut carrier = Carrier::new(&link, ports);
    carrier.emulator.note_offloads(&outside.offloads);
    let system = |what| move |source| ShellError::System { what, source };
    let signals = Signals::listen().map_err(system("listen for signals"))?;
    began();
    let child = match config.command.is_empty() {
        true => None,
        false => {
            let child = Child::start(&config.command, Place::Here, &[], outside.session())?;
            let ended = child.ended().map_err(system("watch the command"))?;
            Some((child, ended))
        }
    };
    let mut span = Span { child, signals, pulse: config.pulse, bell: config.bell.clone() };
    carrier.emulator.restart_clock();
    let status = carrier.carry(&mut span, observe);
    let account = carrier.account();
    if let Some((child, _)) = &mut span.child {
        child.end();
    }
    Ok(BridgeOutcome { status, account })
}
