//! A run under the virtual clock with guests: Linux kernels in lock-step with the simulation. Between the guests' interfaces,
//! everything is as under the real clock: paths, routers, simulated hosts that talk to programs, captures with real bytes.

use std::collections::BTreeSet;

use warpline_core::{LinkId, TimeDelta, Timestamp};
use warpline_guest::lockstep::{Ended, Occasion};
use warpline_guest::order::{Notice, Report};
use warpline_guest::time::host_now;
use warpline_guest::{GuestError, HostId, LockStep, Simulator};
use warpline_live::port::PortId;
use warpline_live::stepper::{Stepper, StepperCounters};
use warpline_net::{Control, Network};

use super::course::Account;
use super::guests::{GuestResults, Guests, HASTE};
use super::live_host::live_host;
use super::routers::{LiveWorld, TurnFrames};
use super::session::{Advance, Party, Session, Stop};
use super::stage::Stage;
use super::{Broken, RunError};
use warpline_results::{GuestSummary, LiveHost};

/// Largest memory for packets in the network, in bytes.
const POOL: usize = 4 << 30;

/// The network and all that is in it, as used by the guests' driver.
struct Simulated {
    stage: Stage,
    stepper: Stepper,
}

impl Simulator for Simulated {
    fn next_event(&mut self) -> Option<Timestamp> {
        self.stage.network.next_event()
    }
    fn run_until(&mut self, until: Timestamp) {
        let Stage { network, world, .. } = &mut self.stage;
        self.stepper.run_until(until, network, world, u64::MAX);
    }
    fn handle_datagram(&mut self, from: HostId, datagram: &[u8]) {
        let Stage { network, world, .. } = &mut self.stage;
        self.stepper.handle_datagram(PortId(from.0), datagram, network, world);
    }
    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &mut Vec<u8>)) {
        let Stage { network, world, .. } = &mut self.stage;
        self.stepper.poll_ahead(network, world, &mut |port, at, bytes| deliver(HostId(port.0), at, bytes));
    }
    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8])) {
        self.stepper.poll_transmit(&mut |port, bytes| deliver(HostId(port.0), bytes));
    }
    fn handle_notice(&mut self, _: usize, notice: Notice) {
        let Stage { network, world, readiness, .. } = &mut self.stage;
        readiness.handle(notice);
        readiness.release(network.now(), &mut world.hosts, network);
    }
    fn poll_notice(&mut self, deliver: &mut dyn FnMut(usize, Notice)) {
        for (machine, notice) in self.stage.readiness.take_notices() {
            deliver(machine, notice);
        }
    }
    fn is_over(&self) -> bool {
        self.stage.readiness.is_done() || self.stage.readiness.failure().is_some()
    }
}

impl Simulated {
    /// Passes on records.
    fn drain(&mut self, session: &mut Session<'_>) -> Control {
        let Stage { network, world, .. } = &mut self.stage;
        let LiveWorld { hosts, models, routers } = world;
        models.drain(hosts);
        let drained = session.drain(network, hosts, &TurnFrames { routers, pool: self.stepper.pool() });
        self.stepper.recycle();
        drained
    }
}

/// The party of a run in lock-step.
pub(super) struct LockStepRun {
    /// None if the run was interrupted while the guests booted.
    lockstep: Option<LockStep>,
    simulated: Simulated,
    guests: Guests,
    /// The reports of the guests at the end.
    reports: Vec<Report>,
}

fn guest_error(error: GuestError) -> RunError {
    RunError::Live(error.to_string())
}

impl LockStepRun {
    /// Boots the guests.
    ///
    /// # Errors
    /// If there is no kernel for guests, or one does not boot.
    pub(super) fn new(mut stage: Stage, guests: Guests, session: &mut Session<'_>) -> Result<Self, RunError> {
        let kernels = guests.kernels(&session.scenario.base())?;
        // Anything that happens in the network must cross a link to a guest before the guest can notice.
        let nodes: BTreeSet<u32> = guests.hosts().iter().map(|(_, node)| *node).collect();
        let network = &mut stage.network;
        let last: Vec<LinkId> =
            network.links().filter(|&id| nodes.contains(&network.link(id).to().0)).collect();
        let mut lookahead = last.iter().map(|&id| network.link(id).delay()).min().unwrap_or(TimeDelta::ZERO);
        if stage.world.routers.has_nats() {
            // What is on such a link may still be lost behind it, or go elsewhere: guests cannot run ahead.
            lookahead = TimeDelta::ZERO;
        } else {
            last.into_iter().for_each(|link| network.watch(link));
        }
        let go_on = &mut || session.report_waiting();
        let machines = kernels.iter().zip(&guests.machines);
        let lockstep = LockStep::boot_each(machines, lookahead, go_on).map_err(guest_error)?;
        let stepper = Stepper::new(guests.hosts().len(), stage.largest, POOL);
        let simulated = Simulated { stage, stepper };
        Ok(LockStepRun { lockstep, simulated, guests, reports: Vec::new() })
    }
}

impl Party for LockStepRun {
    type World = LiveWorld;

    fn parts(&mut self) -> (&mut Network, &mut LiveWorld) {
        (&mut self.simulated.stage.network, &mut self.simulated.stage.world)
    }

    fn begin(&mut self) -> Result<Option<Stop>, RunError> {
        Ok(self.lockstep.is_none().then_some(Stop::Interrupted))
    }

    fn advance(&mut self, until: Timestamp, session: &mut Session<'_>) -> Result<Advance, RunError> {
        let Some(lockstep) = &mut self.lockstep else { return Ok(Advance::Stopped(Stop::Interrupted)) };
        let ran = lockstep.run(&mut self.simulated, until, |simulated, now, occasion| {
            let drained = match occasion {
                Occasion::Batch => simulated.drain(session),
                Occasion::Glance => Control::Continue,
            };
            drained == Control::Continue
                && session.report_progress(now, &mut simulated.stage.network) == Control::Continue
        });
        Ok(match ran {
            Ok(Ended::Reached) => Advance::Reached,
            Ok(Ended::Stopped) => Advance::Stopped(Stop::Interrupted),
            Ok(Ended::Over) if self.simulated.stage.readiness.failure().is_some() => {
                Advance::Stopped(Stop::NotReady)
            }
            Ok(Ended::Over) => Advance::Over,
            Err(error) => Advance::Stopped(Stop::Broken(Broken::Guest(error.to_string()))),
        })
    }

    fn end(&mut self, stop: Option<&Stop>, session: &mut Session<'_>) -> Result<(), RunError> {
        self.simulated.drain(session);
        self.simulated.stage.expire(stop, session);
        let now = self.simulated.stage.network.now();
        let Some(lockstep) = &mut self.lockstep else { return Ok(()) };
        self.reports = match stop {
            None => finish(lockstep, now, self.simulated.stage.readiness.is_done())?,
            Some(Stop::Broken(_)) => Vec::new(),
            Some(_) => hurry(lockstep, now),
        };
        Ok(())
    }

    fn account(
        &mut self,
        stop: Option<&Stop>,
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<(), RunError> {
        let machines = self.lockstep.iter_mut().flat_map(LockStep::machines).map(|machine| &*machine);
        let results = GuestResults::new(&self.guests, std::mem::take(&mut self.reports), machines);
        let Simulated { stage, stepper } = &mut self.simulated;
        let programs = stage.account(stop, session, account, |accounting, session, account| {
            results.account(accounting, session, account).map(|rows| vec![rows])
        })?;
        let row = |((name, node), c): (&(String, u32), &StepperCounters)| LiveHost {
            sent_packets: c.received_packets,
            sent_bytes: c.received_bytes,
            received_packets: c.sent_packets,
            received_bytes: c.sent_bytes,
            malformed: c.malformed,
            ..live_host(name, *node, stage.world.routers.plan())
        };
        let hosts = self.guests.hosts().iter().zip(stepper.counters()).map(row).collect();
        let (kernel, machines) = (results.kernels(), results.machines);
        account.guests = Some(GuestSummary {
            kernel,
            // A run that was interrupted ended because someone stopped it.
            reproducible: stop != Some(&Stop::Interrupted)
                && self.lockstep.as_ref().is_none_or(LockStep::is_reproducible),
            pushes: self.lockstep.as_ref().map_or(0, |lockstep| u64::from(lockstep.pushes())),
            machines,
            hosts,
            programs: programs.into_iter().flatten().collect(),
        });
        Ok(())
    }
}

/// Ends the guests and takes their reports. `early` says that the run ended early.
fn finish(lockstep: &mut LockStep, end: Timestamp, early: bool) -> Result<Vec<Report>, RunError> {
    lockstep.finish(end, early, &mut || true).map_err(guest_error)?;
    lockstep.machines().map(|machine| machine.report().map_err(guest_error)).collect()
}

/// Ends the guests of a run that was stopped, and takes the reports that arrive soon. A missing report is empty.
fn hurry(lockstep: &mut LockStep, now: Timestamp) -> Vec<Report> {
    let begun = host_now();
    // Their errors do not matter any more.
    let _ = lockstep.finish(now, true, &mut || host_now() - begun < HASTE);
    let reports = lockstep.machines().map(|machine| match machine.has_reported() {
        true => machine.report().unwrap_or_default(),
        false => Report::default(),
    });
    reports.collect()
}
