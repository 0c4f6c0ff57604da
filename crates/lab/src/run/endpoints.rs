//! What a run does with endpoints of any kind. All hosts of one kind are planned together (`super::stage`), attached to the emulator, started,
//! watched, ended and accounted for. The keys of each kind are in `warpline_scenario::endpoint`; simulated hosts are in `crate::hosts`.

use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;

use warpline_core::{Pace, Tdf, TimeDelta, Timestamp};
use warpline_live::emulator::Emulator;
use warpline_results::{LiveHost, ProgramRow};
use warpline_scenario::addresses::AddressPlan;

use super::RunError;
use super::course::Account;
#[cfg(guests)]
use super::guests::Guests;
use super::programs::{Evidence, Readiness};
use super::routers::{Door, Traffic};
use super::session::Session;

/// A host's name and node.
pub(super) type Named = (String, u32);

/// The hosts of one kind, before the system is asked for anything.
pub(super) trait Planned {
    /// Their names and nodes, in the order of their ports. A host that forwards has a port for each of its interfaces.
    fn hosts(&self) -> &[Named];

    /// The links of each port that is an interface of a host that forwards, in the order of the ports.
    fn doors(&self) -> Vec<Option<Door>> {
        vec![None; self.hosts().len()]
    }

    /// For each port behind which are machines outside, the addresses that the emulator has there, in the order of the ports.
    fn gateways(&self) -> Vec<Option<Vec<IpAddr>>> {
        vec![None; self.hosts().len()]
    }

    /// Registers the names of the flows that they will exchange.
    fn introduce(&self, _traffic: &mut Traffic) {}

    /// Prepares them for the real clock or a dilated one.
    ///
    /// # Errors
    /// If the system refuses something that they need.
    fn attach(
        self: Box<Self>,
        ground: Ground<'_>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn Attached>, RunError>;

    /// The guests, for running in lock-step under the virtual clock; none for other kinds.
    #[cfg(guests)]
    fn into_guests(self: Box<Self>) -> Option<Guests> {
        None
    }
}

/// What hosts need to be attached.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The addresses of all nodes.
    pub(super) addresses: &'a AddressPlan,
    /// The MTU of each node's interface, in bytes.
    pub(super) mtu: &'a [u32],
    /// The conditions that programs wait for.
    pub(super) readiness: &'a Readiness,
}

/// A host with a clock that follows the run's time.
pub(super) trait Paced {
    /// Starts its clock together with the run's.
    fn follow(&self, _pace: &Pace) {}

    /// The run's dilation factor is `tdf` from now on.
    fn nudge(&self, _tdf: Tdf) {}

    /// The processes that must keep up with the run's time.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

impl<P: Paced + ?Sized> Paced for Box<P> {
    fn follow(&self, pace: &Pace) {
        (**self).follow(pace);
    }
    fn nudge(&self, tdf: Tdf) {
        (**self).nudge(tdf);
    }
    fn processes(&self) -> Vec<u32> {
        (**self).processes()
    }
}

/// The hosts of one kind in a run under the real clock or a dilated one.
pub(super) trait Attached: Paced {
    /// Whether they are up; if not, the run was interrupted before it began.
    fn is_up(&self) -> bool {
        true
    }

    /// The largest datagram that may come from one of them, if that is not what the scenario says, in bytes.
    fn largest(&self) -> u32 {
        0
    }

    /// How many threads they keep busy, as far as is known: each wants a core of its own.
    fn threads(&self) -> usize {
        0
    }

    /// Adds their ports to the emulator, in the order of the plan.
    ///
    /// # Errors
    /// If an interface cannot be opened.
    fn add_ports(&mut self, emulator: &mut Emulator) -> Result<(), RunError>;

    /// Called before the clock starts, with the factor of the run.
    ///
    /// # Errors
    /// If a limit cannot be set.
    fn begin(&mut self, _tdf: Tdf) -> Result<(), RunError> {
        Ok(())
    }

    /// Passes on notices about what is ready, in both directions.
    fn exchange_notices(&mut self, _readiness: &mut Readiness) {}

    /// Starts programs that are due and do not wait for others.
    fn start(&mut self, _now: Timestamp, _readiness: &mut Readiness) {}

    /// When a program is to be started or a condition checked next, after `now`. `step` is the interval of the checks.
    fn next_start(&self, _now: Timestamp, _step: TimeDelta) -> Option<Timestamp> {
        None
    }

    /// A descriptor that becomes readable when something happens to one of them.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether one of them has sent a notice.
    fn has_notices(&self) -> bool {
        false
    }

    /// Notes which have ended. If one has failed, returns why the run cannot continue.
    fn look(&mut self, now: Timestamp, readiness: &mut Readiness) -> Option<String>;

    /// Lets their ports know which of them had too little CPU, after the clock has stopped and before the audit.
    fn settle(&mut self) {}

    /// Lifts limits on CPU use, after the clock has stopped.
    ///
    /// # Errors
    /// If a limit cannot be lifted.
    fn release(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Ends all that still run.
    ///
    /// # Errors
    /// If one of them does not end.
    fn end(&mut self, ending: Ending) -> Result<(), RunError>;

    /// Adds the results of their programs and flows to the run's account. Returns the rows of the programs.
    ///
    /// # Errors
    /// If something cannot be written.
    fn account(
        &mut self,
        accounting: &Accounting<'_>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError>;

    /// Adds the rows of their hosts and programs to the summary.
    fn summarise(&mut self, hosts: Vec<LiveHost>, programs: Vec<ProgramRow>, account: &mut Account);
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// Whether it reached its end.
    pub(super) complete: bool,
    /// Whether it ended early, for whatever reason.
    pub(super) early: bool,
    /// Whether the clock was started and no host has failed.
    pub(super) orderly: bool,
}

/// What is needed to account for a run.
pub(super) struct Accounting<'a> {
    /// Whether programs and flows had the time to do what is expected of them.
    pub(super) judged: bool,
    /// When the run ended.
    pub(super) end: Timestamp,
    /// The run directory, or a temporary one.
    pub(super) out: &'a Path,
    pub(super) evidence: &'a Evidence,
    /// What programs have sent each other.
    pub(super) traffic: &'a Traffic,
}
