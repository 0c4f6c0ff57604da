//! What a run does with its endpoints, whatever their kind: those of one kind are planned together (`super::stage`), attached to the emulator, started, watched,
//! ended and accounted for. The keys of each kind are in `warpline_scenario::endpoint`; simulated hosts are `crate::hosts`'.

use std::os::fd::BorrowedFd;
use std::path::Path;

use warpline_core::{Pace, TimeDelta, Timestamp};
use warpline_live::emulator::Emulator;
use warpline_results::{LiveHost, ProgramRow};
use warpline_scenario::addresses::AddressPlan;

use super::RunError;
use super::course::Account;
#[cfg(target_arch = "x86_64")]
use super::guests::Guests;
use super::programs::{Evidence, Readiness};
use super::routers::Traffic;
use super::session::Session;

/// The name and the node of a host.
pub(super) type Named = (String, u32);

/// The hosts of one kind, before anything is asked of the system.
pub(super) trait Planned {
    /// Their names and nodes, in the order of their ports.
    fn hosts(&self) -> &[Named];

    /// Names the streams of bytes that they will exchange.
    fn introduce(&self, _traffic: &mut Traffic) {}

    /// Makes them ready for the real clock or a dilated one.
    ///
    /// # Errors
    /// If the system does not give what they need.
    fn attach(
        self: Box<Self>,
        ground: Ground<'_>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn Attached>, RunError>;

    /// The guests, which follow the virtual clock in lock-step; none for another kind.
    #[cfg(target_arch = "x86_64")]
    fn into_guests(self: Box<Self>) -> Option<Guests> {
        None
    }
}

/// What hosts are attached with.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The addresses of all nodes.
    pub(super) addresses: &'a AddressPlan,
    /// What each node's interface takes, in bytes.
    pub(super) mtu: &'a [u32],
    /// What programs wait for.
    pub(super) readiness: &'a Readiness,
}

/// What follows the run's time by a clock of its own.
pub(super) trait Paced {
    /// Lets its time go as the run's.
    fn follow(&self, _pace: &Pace) {}

    /// A change of the pace takes place now.
    fn nudge(&self) {}

    /// The processes that have to keep up with the run's time.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

impl<P: Paced + ?Sized> Paced for Box<P> {
    fn follow(&self, pace: &Pace) {
        (**self).follow(pace);
    }
    fn nudge(&self) {
        (**self).nudge();
    }
    fn processes(&self) -> Vec<u32> {
        (**self).processes()
    }
}

/// The hosts of one kind in a run by the real clock or a dilated one.
pub(super) trait Attached: Paced {
    /// Whether they came up; if not, the run was interrupted before it began.
    fn is_up(&self) -> bool {
        true
    }

    /// Gives the emulator their ports, in the order of the plan.
    ///
    /// # Errors
    /// If an interface cannot be opened.
    fn add_ports(&mut self, emulator: &mut Emulator) -> Result<(), RunError>;

    /// The clock is about to start.
    ///
    /// # Errors
    /// If a limit cannot be set.
    fn begin(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Exchanges what is ready with those that wait for it.
    fn exchange_notices(&mut self, _readiness: &mut Readiness) {}

    /// Starts what is due and waits for nothing.
    fn start(&mut self, _now: Timestamp, _readiness: &mut Readiness) {}

    /// When something is to be started or looked at next, after `now`. `step` is how often readiness is looked at.
    fn next_start(&self, _now: Timestamp, _step: TimeDelta) -> Option<Timestamp> {
        None
    }

    /// Becomes readable when something has happened to one of them.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether one of them has something to say.
    fn has_notices(&self) -> bool {
        false
    }

    /// Notes what has ended. Returns why the run cannot go on, if one of them has failed.
    fn look(&mut self, now: Timestamp, readiness: &mut Readiness) -> Option<String>;

    /// The clock has stopped: they may have all that they want of the machine.
    ///
    /// # Errors
    /// If a limit cannot be lifted.
    fn release(&mut self) -> Result<(), RunError> {
        Ok(())
    }

    /// Ends what still runs.
    ///
    /// # Errors
    /// If one of them does not end.
    fn end(&mut self, ending: Ending) -> Result<(), RunError>;

    /// Adds to the run's account what became of their programs and flows. Returns the rows of the programs.
    ///
    /// # Errors
    /// If something cannot be written.
    fn account(
        &mut self,
        accounting: &Accounting<'_>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError>;

    /// Puts the rows of their hosts and programs where the summary has them.
    fn summarise(&mut self, hosts: Vec<LiveHost>, programs: Vec<ProgramRow>, account: &mut Account);
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// It came to its end.
    pub(super) complete: bool,
    /// It is over before its time, whoever wanted it.
    pub(super) early: bool,
    /// The clock was started, and nothing is broken.
    pub(super) orderly: bool,
}

/// What an account is made with.
pub(super) struct Accounting<'a> {
    /// Whether programs and flows had the time to do what was expected of them.
    pub(super) judged: bool,
    /// The run directory, or one in its place.
    pub(super) out: &'a Path,
    pub(super) evidence: &'a Evidence,
    /// What programs have sent each other.
    pub(super) traffic: &'a Traffic,
}
