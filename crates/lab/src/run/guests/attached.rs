//! Guests as endpoints of a run: from their plan to machines attached to the emulator, and their results.

use warpline_core::{Pace, Tdf, Timestamp};
use warpline_live::emulator::Emulator;
use warpline_results::{GuestSummary, LiveHost, ProgramRow};

use super::machines::Machines;
use super::plan::Guests;
use crate::run::RunError;
use crate::run::course::Account;
use crate::run::endpoints::{Accounting, Attached, Ending, Ground, Named, Paced, Planned};
use crate::run::programs::Readiness;
use crate::run::routers::{Door, Traffic};
use crate::run::session::Session;

impl Planned for Guests {
    fn hosts(&self) -> &[Named] {
        self.hosts()
    }

    fn doors(&self) -> Vec<Option<Door>> {
        self.doors().to_vec()
    }

    fn introduce(&self, traffic: &mut Traffic) {
        self.introduce(traffic);
    }

    fn attach(
        mut self: Box<Self>,
        ground: Ground<'_>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn Attached>, RunError> {
        if session.control.is_some() {
            self.open();
        }
        let mut machines = Machines::new(*self, &session.scenario.base())?;
        let up = machines.boot(&mut || session.report_waiting())?;
        if let Some(control) = &mut session.control {
            control.let_in(machines.entrances(ground.addresses));
        }
        Ok(Box::new(GuestHosts { machines, up, row: None }))
    }

    fn into_guests(self: Box<Self>) -> Option<Guests> {
        Some(*self)
    }
}

/// The guests of a run under the real clock or a dilated one.
#[derive(Debug)]
struct GuestHosts {
    machines: Machines,
    /// Whether all have booted.
    up: bool,
    /// Their part of the summary; none before their results were taken.
    row: Option<GuestSummary>,
}

impl Paced for GuestHosts {
    fn follow(&self, pace: &Pace) {
        self.machines.follow(pace);
    }
    fn nudge(&self, tdf: Tdf) {
        self.machines.nudge(tdf);
    }
    fn processes(&self) -> Vec<u32> {
        self.machines.processes()
    }
}

impl Attached for GuestHosts {
    fn is_up(&self) -> bool {
        self.up
    }

    fn threads(&self) -> usize {
        // A machine has one CPU.
        self.machines.processes().len()
    }

    fn add_ports(&mut self, emulator: &mut Emulator) -> Result<(), RunError> {
        for port in self.machines.ports()? {
            emulator.add_port(port);
        }
        Ok(())
    }

    fn begin(&mut self, tdf: Tdf) -> Result<(), RunError> {
        self.machines.limit(Some(tdf))
    }

    fn exchange_notices(&mut self, readiness: &mut Readiness) {
        self.machines.exchange_notices(readiness);
    }

    fn has_notices(&self) -> bool {
        self.machines.has_notices()
    }

    fn look(&mut self, _: Timestamp, _: &mut Readiness) -> Option<String> {
        self.machines.look()
    }

    fn settle(&mut self) {
        self.machines.settle();
    }

    fn release(&mut self) -> Result<(), RunError> {
        self.machines.limit(None)
    }

    fn end(&mut self, ending: Ending) -> Result<(), RunError> {
        if ending.orderly {
            self.machines.end(ending)?;
        }
        Ok(())
    }

    fn account(
        &mut self,
        accounting: &Accounting<'_>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        let results = self.machines.results();
        let programs = results.account(accounting, session, account)?;
        self.row = Some(GuestSummary {
            kernel: results.kernels(),
            reproducible: false,
            pushes: 0,
            machines: results.machines,
            hosts: Vec::new(),
            programs: Vec::new(),
        });
        Ok(programs)
    }

    fn summarise(&mut self, hosts: Vec<LiveHost>, programs: Vec<ProgramRow>, account: &mut Account) {
        account.guests = self.row.take().map(|row| GuestSummary { hosts, programs, ..row });
    }
}
