//! A run by the virtual clock with guests: Linux kernels in lock-step with the simulation. Everything between the guests' interfaces
//! is as by the real clock: ways, routers, simulated hosts that meet programs, captures with real bytes.

use std::collections::BTreeSet;

use warpline_core::{LinkId, TimeDelta, Timestamp};
use warpline_guest::dilation::host_now;
use warpline_guest::lockstep::{Ended, Occasion};
use warpline_guest::order::{Notice, Report};
use warpline_guest::{GuestError, HostId, Kernel, LockStep, Simulator};
use warpline_live::port::PortId;
use warpline_live::stepper::Stepper;
use warpline_net::{Control, Network};
use warpline_results::{GuestSummary, LiveHost, NoFrames, ResultError, Summary};

use super::fleet::HASTE;
use super::guests::Guests;
use super::models::Models;
use super::programs::Evidence;
use super::readiness::{self, Readiness};
use super::routers::{LiveWorld, Routers, TurnFrames};
use super::ways::Ways;
use super::{ETHERNET_MTU, INTERRUPTED, NOT_READY, interface_mtu};
use crate::run::addresses::AddressPlan;
use crate::run::build::{Built, build};
use crate::run::course::{Course, run_info};
use crate::run::sinks::Sinks;
use crate::run::{Broken, Progress, RunError, RunOptions, RunOutcome};
use crate::scenario::Scenario;

/// Most bytes of memory for packets in the network.
const POOL: usize = 4 << 30;

/// The network and all that is in it, as the guests' driver sees it.
struct Stage {
    network: Network,
    world: LiveWorld,
    stepper: Stepper,
    readiness: Readiness,
}

impl Simulator for Stage {
    fn next_event(&mut self) -> Option<Timestamp> {
        self.network.next_event()
    }
    fn run_until(&mut self, until: Timestamp) {
        self.stepper.run_until(until, &mut self.network, &mut self.world);
    }
    fn handle_datagram(&mut self, from: HostId, datagram: &[u8]) {
        self.stepper.handle_datagram(PortId(from.0), datagram, &mut self.network, &mut self.world);
    }
    fn poll_ahead(&mut self, deliver: &mut dyn FnMut(HostId, Timestamp, &[u8])) {
        self.stepper.poll_ahead(&mut self.network, &self.world, &mut |port, at, bytes| {
            deliver(HostId(port.0), at, bytes);
        });
    }
    fn poll_transmit(&mut self, deliver: &mut dyn FnMut(HostId, &[u8])) {
        self.stepper.poll_transmit(&mut |port, bytes| deliver(HostId(port.0), bytes));
    }
    fn handle_notice(&mut self, _: usize, notice: Notice) {
        self.readiness.handle(notice);
        let now = self.network.now();
        self.readiness.release(now, &mut self.world.hosts, &mut self.network);
    }
    fn poll_notice(&mut self, deliver: &mut dyn FnMut(usize, Notice)) {
        for (machine, notice) in self.readiness.take_notices() {
            deliver(machine, notice);
        }
    }
    fn is_over(&self) -> bool {
        self.readiness.is_done() || self.readiness.failure().is_some()
    }
}

impl Stage {
    /// Passes on what was recorded.
    fn drain(&mut self, sinks: &mut Sinks) -> Result<(), ResultError> {
        let LiveWorld { hosts, models, routers } = &mut self.world;
        models.drain(hosts);
        let frames = TurnFrames { routers, pool: self.stepper.pool() };
        sinks.drain(&mut self.network, hosts, &frames)?;
        self.stepper.recycle();
        Ok(())
    }
}

fn guest_error(error: GuestError) -> RunError {
    RunError::Live(error.to_string())
}

/// Runs a scenario with guests by the virtual clock.
pub(in crate::run) fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, RunError> {
    let Built { mut network, world: mut simulated, links, flow_records, link_records } =
        build(scenario, &options.custom_cc)?;
    let expanded = scenario.expand();
    let plan = AddressPlan::new(scenario, &expanded);
    let readiness = Readiness::plan(scenario, &expanded, &plan, &mut simulated);
    let guests = Guests::plan(scenario, &expanded, &plan, &readiness, |node| interface_mtu(&expanded, node));
    let mut models =
        Models::build(&mut simulated, &plan, scenario.seed, |node| interface_mtu(&expanded, node))?;
    models.claim_services(&plan);
    guests.check()?;
    // What is wrong with the scenario is told first, whatever this machine has.
    let kernel = Kernel::find().map_err(guest_error)?;
    let ends: Vec<u32> = guests.hosts.iter().map(|(_, node)| *node).chain(models.nodes()).collect();
    let ways = Ways::find(&expanded, &ends, &mut network);
    let mtus = (0..expanded.nodes.len() as u32).map(|node| interface_mtu(&expanded, node)).collect();
    let mut routers = Routers::new(plan, ways, ends, guests.hosts.len(), mtus);
    guests.introduce(&mut routers.traffic);
    let mtu = guests.hosts.iter().map(|(_, node)| interface_mtu(&expanded, *node));
    let mtu = mtu.chain([ETHERNET_MTU, models.mtu()]).max().unwrap_or(ETHERNET_MTU);
    let mut stage = Stage {
        network,
        world: LiveWorld { hosts: simulated, models, routers },
        stepper: Stepper::new(guests.hosts.len(), mtu, POOL),
        readiness,
    };
    let mut sinks = Sinks::open(scenario, options, &flow_records, &link_records)?;

    // Whatever happens in the network crosses a link to a guest before that learns of it.
    let nodes: BTreeSet<u32> = guests.hosts.iter().map(|(_, node)| *node).collect();
    let last: Vec<LinkId> = (0..stage.network.links().len() as u32)
        .map(LinkId)
        .filter(|&id| nodes.contains(&stage.network.link(id).to().0))
        .collect();
    let lookahead = last.iter().map(|&id| stage.network.link(id).delay()).min().unwrap_or(TimeDelta::ZERO);
    for link in last {
        stage.network.watch(link);
    }
    let mut course = Course::new(scenario);
    let none = Progress { duration: course.duration, ..Progress::default() };
    let go_on = &mut || observe(&none) == Control::Continue;
    let mut lockstep = LockStep::boot(&kernel, &guests.machines, lookahead, go_on).map_err(guest_error)?;
    let mut failure: Option<ResultError> = None;
    let mut stopped: Option<&str> = None;
    let mut broken = None;
    course.begin(&mut stage.network, &mut stage.world);
    loop {
        let Some(lockstep) = &mut lockstep else {
            stopped = Some(INTERRUPTED);
            break;
        };
        let until = course.next_stop(stage.network.now(), &sinks);
        let ran = lockstep.run(&mut stage, until, |stage, now, occasion| {
            if occasion == Occasion::Batch
                && let Err(error) = stage.drain(&mut sinks)
            {
                failure = Some(error);
                return false;
            }
            let simulated = now - Timestamp::ZERO;
            let (packet_hops, events) = (stage.network.packet_hops(), stage.network.events());
            let progress = Progress { simulated, duration: course.duration, packet_hops, events };
            observe(&progress) == Control::Continue
        });
        if let Some(error) = failure {
            return Err(error.into());
        }
        match ran {
            Ok(Ended::Reached) => {}
            Ok(Ended::Stopped) => stopped = Some(INTERRUPTED),
            Ok(Ended::Over) => {
                stopped = stage.readiness.failure().map(|_| NOT_READY);
                break;
            }
            Err(error) => (stopped, broken) = (Some("a guest"), Some(Broken::Guest(error.to_string()))),
        }
        if stopped.is_some()
            || course.arrive(until, &mut stage.network, &mut stage.world, &links, &mut sinks)?
        {
            break;
        }
    }
    stage.drain(&mut sinks)?;
    let now = stage.network.now();
    if stopped.is_none() && !stage.readiness.is_done() {
        stage.readiness.expire(course.duration);
    }
    let reports = match (&mut lockstep, stopped, &broken) {
        (Some(lockstep), None, _) => finish(lockstep, now, stage.readiness.is_done())?,
        (Some(lockstep), Some(_), None) => hurry(lockstep, now),
        _ => Vec::new(),
    };
    let scratch =
        tempfile::tempdir().map_err(|error| RunError::Live(format!("cannot make a directory: {error}")))?;
    let out = sinks.directory().unwrap_or(scratch.path()).to_owned();
    let machines: Vec<_> = match &mut lockstep {
        Some(lockstep) => lockstep.machines().map(|machine| machine.shared("")).collect(),
        None => guests.machines.iter().map(|_| scratch.path().to_owned()).collect(),
    };
    let share = |machine: usize, name: &str| machines[machine].join(name);
    let evidence = Evidence::of(sinks.directory(), options.out.as_deref());
    let judged = guests.judge(&reports, stopped.is_none(), (&out, &evidence), share);
    let (mut programs, mut failures) =
        judged.map_err(|error| RunError::Live(format!("cannot keep what the programs wrote: {error}")))?;

    let Stage { mut network, mut world, stepper, readiness } = stage;
    if let Some(failure) = readiness.failure() {
        failures.insert(0, readiness::tell(failure, &mut programs, &evidence, &out));
    }
    sinks.drain(&mut network, &mut world.hosts, &NoFrames)?;
    sinks.reports(&network, &mut world.hosts)?;
    let samples = guests.samples(&world.routers.traffic, scenario.sample_interval.0, share);
    sinks.each(|sink| sink.flow_samples(&samples))?;
    let (mut flows, mut transfers, link_rows) = course.finish(&mut network, &mut world, &links);
    let traffic = &mut world.routers.traffic;
    flows.extend(traffic.finish(&expanded.nodes));
    failures.extend(guests.complete(&mut flows, traffic, &reports, scenario.warmup.0, share));
    transfers.extend(guests.transfers(traffic, &reports, transfers.len() as u64));
    let info = run_info(scenario, &mut network, "virtual", stopped);
    let (packet_hops, events) = (info.packet_hops, info.events);
    let mut summary = Summary::new(info, flows, link_rows);
    summary.guests = Some(GuestSummary {
        kernel: kernel.version,
        // What was interrupted ended when somebody wanted it to.
        reproducible: stopped != Some(INTERRUPTED) && lockstep.as_ref().is_none_or(LockStep::is_reproducible),
        pushes: lockstep.as_ref().map_or(0, |lockstep| u64::from(lockstep.pushes())),
        machines: guests.machine_rows(
            lockstep.iter_mut().flat_map(LockStep::machines).map(|machine| &*machine),
            &reports,
        ),
        hosts: host_rows(&stepper, &world.routers, &guests),
        programs,
    });
    let (directory, tables) = sinks.publish(scenario, options, &mut summary, &transfers)?;
    let complete = stopped.is_none();
    Ok(RunOutcome { summary, directory, tables, complete, packet_hops, events, failures, broken })
}

/// Lets the guests end, and takes their reports. `early` says that this is before their time.
fn finish(lockstep: &mut LockStep, end: Timestamp, early: bool) -> Result<Vec<Report>, RunError> {
    lockstep.finish(end, early, &mut || true).map_err(guest_error)?;
    lockstep.machines().map(|machine| machine.report().map_err(guest_error)).collect()
}

/// Lets the guests of a run that was stopped end, and takes their reports as far as they come soon. One that does not come is empty.
fn hurry(lockstep: &mut LockStep, now: Timestamp) -> Vec<Report> {
    let begun = host_now();
    // What they have to say is not worth an error any more.
    let _ = lockstep.finish(now, true, &mut || host_now() - begun < HASTE);
    let reports = lockstep.machines().map(|machine| match machine.has_reported() {
        true => machine.report().unwrap_or_default(),
        false => Report::default(),
    });
    reports.collect()
}

fn host_rows(stepper: &Stepper, routers: &Routers, guests: &Guests) -> Vec<LiveHost> {
    let hosts = guests.hosts.iter().zip(stepper.counters());
    hosts
        .map(|((name, node), counters)| {
            let (v4, v6) = routers.plan().of(*node as usize);
            LiveHost {
                host: name.clone(),
                address: v4.to_string(),
                address6: v6.to_string(),
                sent_packets: counters.received_packets,
                sent_bytes: counters.received_bytes,
                received_packets: counters.sent_packets,
                received_bytes: counters.sent_bytes,
                malformed: counters.malformed,
                ..LiveHost::default()
            }
        })
        .collect()
}
