//! A run by the real clock or a dilated one: namespaces, guests and programs made ready, the emulator driven, everything measured as in
//! a simulation.

use warpline_core::{TimeDelta, Timestamp};
use warpline_live::audit::Audit;
use warpline_live::clock::LagPolicy;
use warpline_live::emulator::{Emulator, EmulatorConfig, EmulatorError, Ended};
use warpline_live::host::{HostConfig, Hosts};
use warpline_net::Control;
use warpline_results::live::{AuditSummary, LatenessSummary};
use warpline_results::{GuestSummary, LiveHost, LiveSummary, NoFrames, ResultError, Summary};

use super::fleet::Fleet;
use super::models::Models;
use super::pacer::Pacer;
use super::programs::{Evidence, Programs};
use super::readiness::{self, Readiness};
use super::routers::{LiveWorld, Routers, TurnFrames};
use super::ways::Ways;
use super::{ETHERNET_MTU, INTERRUPTED, NOT_READY, interface_mtu};
use crate::run::addresses::AddressPlan;
use crate::run::build::{Built, build};
use crate::run::course::{Course, run_info};
use crate::run::sinks::Sinks;
use crate::run::{Broken, Progress, RunError, RunOptions, RunOutcome};
use crate::scenario::{Expanded, Scenario};

/// The longest that the emulator goes without a look around, in nanoseconds of the machine: Ctrl-C feels immediate.
const LOOK: u64 = 100_000_000;
/// How often it is looked whether programs are ready, while somebody waits for them, in the same. Not more often: for each look the kernel
/// goes through its whole table of connections, which may take milliseconds.
const READY: u64 = 50_000_000;
/// How often progress is told, and records of simulated hosts are taken, at the least, in the same.
const TELL: u64 = 20_000_000;

fn live_error(error: impl std::fmt::Display) -> RunError {
    RunError::Live(error.to_string())
}

/// The live hosts of a scenario: names and nodes.
fn live_hosts(scenario: &Scenario, expanded: &Expanded) -> Vec<(String, u32)> {
    let node = |name: &str| expanded.nodes.iter().position(|node| node == name);
    let live = scenario.host.iter().filter(|host| host.is_live());
    live.filter_map(|host| Some((host.name.clone(), node(&host.name)? as u32))).collect()
}

/// Runs a scenario by the real clock or a dilated one.
pub(in crate::run) fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: &mut dyn FnMut(&Progress) -> Control,
) -> Result<RunOutcome, RunError> {
    let Built { mut network, world: mut simulated, links, flow_records, link_records } =
        build(scenario, &options.custom_cc)?;
    let expanded = scenario.expand();
    let live = live_hosts(scenario, &expanded);
    let plan = AddressPlan::new(scenario, &expanded);
    let mut readiness = Readiness::plan(scenario, &expanded, &plan, &mut simulated);
    let mut models =
        Models::build(&mut simulated, &plan, scenario.seed, |node| interface_mtu(&expanded, node))?;
    let mut fleet =
        Fleet::plan(scenario, &expanded, &plan, &readiness, |node| interface_mtu(&expanded, node))?;
    let guests: Vec<(String, u32)> = fleet.as_ref().map(|fleet| fleet.hosts().to_vec()).unwrap_or_default();
    models.claim_services(&plan);
    // The hosts behind ports, in the order of these.
    let real: Vec<(String, u32)> = live.iter().chain(&guests).cloned().collect();
    let ends: Vec<u32> = real.iter().map(|(_, node)| *node).chain(models.nodes()).collect();
    let ways = Ways::find(&expanded, &ends, &mut network);
    let mtu = (0..expanded.nodes.len() as u32).map(|node| interface_mtu(&expanded, node)).collect();
    let mut routers = Routers::new(plan, ways, ends, real.len(), mtu);
    let mut stopped: Option<&str> = None;
    if let Some(fleet) = &mut fleet {
        fleet.introduce(&mut routers.traffic);
        let none = Progress { duration: scenario.duration.0, ..Progress::default() };
        if !fleet.boot(&mut || observe(&none) == Control::Continue)? {
            stopped = Some(INTERRUPTED);
        }
    }
    let mut world = LiveWorld { hosts: simulated, models, routers };
    let mut sinks = Sinks::open(scenario, options, &flow_records, &link_records)?;

    let configs: Vec<HostConfig> = live
        .iter()
        .map(|(name, node)| {
            let (v4, v6) = world.routers.plan().of(*node as usize);
            HostConfig { name: name.clone(), v4, v6, mtu: interface_mtu(&expanded, *node) }
        })
        .collect();
    let hosts = match configs.is_empty() {
        true => None,
        false => {
            Some(Hosts::create(&format!("warpline run ({})", scenario.name), &configs).map_err(live_error)?)
        }
    };
    let largest = real.iter().map(|(_, node)| interface_mtu(&expanded, *node));
    let largest = largest.chain([ETHERNET_MTU, world.models.mtu()]).max();
    let mut emulator = Emulator::new(EmulatorConfig {
        lag: scenario.clock.max_lag.map_or(LagPolicy::BestEffort, |limit| LagPolicy::Hard(limit.0)),
        mtu: largest.unwrap_or(ETHERNET_MTU),
        ..EmulatorConfig::default()
    });
    if let Some(hosts) = &hosts {
        for port in hosts.ports().map_err(live_error)? {
            emulator.add_port(Box::new(port));
        }
        emulator.note_offloads(hosts.offloads.clone());
    }
    if let Some(fleet) = &mut fleet {
        for port in fleet.ports()? {
            emulator.add_port(port);
        }
    }
    let mut programs = Programs::prepare(
        scenario,
        &live,
        hosts.as_ref(),
        world.routers.plan(),
        sinks.directory(),
        &readiness,
    )?;

    let mut course = Course::new(scenario);
    let mut told = Timestamp::ZERO;
    let mut failure: Option<ResultError> = None;
    let mut broken = None;
    course.begin(&mut network, &mut world);
    // After the programs were made: they keep the priority that they have.
    let mut pacer = Pacer::new(&scenario.clock);
    if let Some(fleet) = &fleet {
        fleet.limit(true)?;
    }
    let began = stopped.is_none();
    if began {
        pacer.begin(&mut emulator, fleet.as_ref(), TimeDelta::ZERO);
    }
    while stopped.is_none() {
        pacer.look(&mut emulator, fleet.as_ref());
        let span = |nanos: u64| TimeDelta::from_nanos(pacer.tdf().to_run(nanos).max(1));
        let (look, tell_each) = (span(LOOK), span(TELL));
        let now = network.now();
        if let Some(fleet) = &fleet {
            fleet.exchange_notices(&mut readiness);
        }
        programs.start(now, &mut readiness);
        readiness.release(now, &mut world.hosts, &mut network);
        if let Some(fleet) = &fleet {
            fleet.exchange_notices(&mut readiness);
        }
        if readiness.failure().is_some() {
            stopped = Some(NOT_READY);
            break;
        }
        if readiness.is_done() {
            break;
        }
        let stop = course.next_stop(now, &sinks);
        let until = stop.min(now + look).min(programs.next_start(now, span(READY)).unwrap_or(stop));
        let mut changed = false;
        let wake = [programs.fd()];
        let ran = emulator.run(&mut network, &mut world, until, &wake, |turn| {
            changed |= turn.woken || fleet.as_ref().is_some_and(Fleet::has_notices);
            let now = turn.network.now();
            let tell = now.saturating_since(told) >= tell_each || now >= until;
            let LiveWorld { hosts, models, routers } = turn.world;
            if tell {
                models.drain(hosts);
            }
            let frames = TurnFrames { routers, pool: turn.pool };
            let drained = match tell {
                true => sinks.drain(turn.network, hosts, &frames),
                false => sinks.drain_links(turn.network, hosts, &frames),
            };
            if let Err(error) = drained {
                failure = Some(error);
                return Control::Stop;
            }
            if !tell {
                return if changed { Control::Stop } else { Control::Continue };
            }
            told = now;
            let (packet_hops, events) = (turn.network.packet_hops(), turn.network.events());
            let simulated = now - Timestamp::ZERO;
            match observe(&Progress { simulated, duration: course.duration, packet_hops, events }) {
                Control::Stop => {
                    stopped = Some(INTERRUPTED);
                    Control::Stop
                }
                Control::Continue if changed => Control::Stop,
                Control::Continue => Control::Continue,
            }
        });
        if let Some(error) = failure {
            return Err(error.into());
        }
        // Where the emulator lags it does not come to tell of changes.
        programs.look(network.now(), &mut readiness);
        let paused = matches!(ran, Ok(Ended::Stopped));
        // A guest whose kernel has ended can say why.
        let dead = fleet.as_mut().and_then(Fleet::look);
        match ran {
            _ if dead.is_some() => (stopped, broken) = (Some("a guest"), dead.map(Broken::Guest)),
            Err(error @ EmulatorError::Lag { .. }) => {
                (stopped, broken) = (Some("lag"), Some(Broken::Lag(error.to_string())));
            }
            Err(error) => (stopped, broken) = (Some("a failed port"), Some(Broken::Port(error.to_string()))),
            Ok(_) => {}
        }
        if stopped.is_some() {
            break;
        }
        if paused {
            continue; // a program has ended, or a guest has told something
        }
        if until == stop && course.arrive(until, &mut network, &mut world, &links, &mut sinks)? {
            break;
        }
    }
    let audit = emulator.audit();
    emulator.relax();
    // What ended in the last moment counts as ended.
    programs.look(network.now(), &mut readiness);
    if stopped.is_none() && !readiness.is_done() {
        readiness.expire(course.duration);
    }
    let reports = match &mut fleet {
        Some(fleet) if broken.is_none() && began => {
            fleet.limit(false)?;
            pacer.wind_down(&mut emulator, fleet);
            if stopped.is_some() || readiness.is_done() {
                fleet.tell_end();
            }
            match stopped {
                None => fleet.finish()?,
                Some(_) => fleet.hurry(),
            }
        }
        _ => Vec::new(),
    };
    programs.stop();
    let evidence = Evidence::of(sinks.directory(), options.out.as_deref());
    let (mut rows, mut failures) = programs.judge(stopped.is_none(), &evidence);
    if let Some(hosts) = &hosts {
        hosts.end_processes();
    }
    world.models.drain(&mut world.hosts);
    sinks.drain(&mut network, &mut world.hosts, &NoFrames)?;
    sinks.reports(&network, &mut world.hosts)?;

    let mut told = Vec::new();
    if let Some(fleet) = &fleet {
        let scratch = tempfile::tempdir().map_err(live_error)?;
        let out = sinks.directory().unwrap_or(scratch.path()).to_owned();
        let judged = fleet.judge(&reports, stopped.is_none(), &out, &evidence);
        let (guest_rows, wrong) = judged
            .map_err(|error| RunError::Live(format!("cannot keep what the programs wrote: {error}")))?;
        told = guest_rows;
        failures.extend(wrong);
        let samples = fleet.samples(&world.routers.traffic, scenario.sample_interval.0);
        sinks.each(|sink| sink.flow_samples(&samples))?;
    }
    let (mut flows, mut transfers, link_rows) = course.finish(&mut network, &mut world, &links);
    flows.extend(world.routers.traffic.finish(&expanded.nodes));
    if let Some(fleet) = &fleet {
        let traffic = &world.routers.traffic;
        failures.extend(fleet.complete(&mut flows, traffic, &reports, scenario.warmup.0));
        transfers.extend(fleet.transfers(traffic, &reports, transfers.len() as u64));
    }
    if let Some(failure) = readiness.failure() {
        let out = sinks.directory().unwrap_or(std::path::Path::new("."));
        let live = rows.iter().any(|row| failure.is_about(row));
        let rows = if live { &mut rows } else { &mut told };
        failures.insert(0, readiness::tell(failure, rows, &evidence, out));
    }
    let info = run_info(scenario, &mut network, scenario.clock.mode.name(), stopped);
    let (packet_hops, events) = (info.packet_hops, info.events);
    let mut summary = Summary::new(info, flows, link_rows);
    let mut hosts = host_rows(&audit, &world.routers, &real);
    let guest_hosts = hosts.split_off(live.len());
    summary.live = Some(LiveSummary {
        kept_pace: audit.kept_pace(),
        dilation: pacer.summary(summary.info.simulated_s, audit.duration_s),
        hosts,
        audit: audit_summary(&audit),
        programs: rows,
    });
    summary.guests = fleet.as_ref().map(|fleet| {
        let (kernel, machines) = fleet.rows(&reports);
        GuestSummary { kernel, reproducible: false, pushes: 0, machines, hosts: guest_hosts, programs: told }
    });
    let (directory, tables) = sinks.publish(scenario, options, &mut summary, &transfers)?;
    let complete = stopped.is_none();
    Ok(RunOutcome { summary, directory, tables, complete, packet_hops, events, failures, broken })
}

pub(in crate::run) fn audit_summary(audit: &Audit) -> AuditSummary {
    let l = &audit.lateness;
    AuditSummary {
        duration_s: audit.duration_s,
        cpu_share: audit.cpu_share,
        lateness: LatenessSummary {
            packets: l.packets,
            median_us: l.median_us,
            p99_us: l.p99_us,
            p999_us: l.p999_us,
            max_us: l.max_us,
            threshold_us: l.threshold_us,
            late_packets: l.late_packets,
        },
        corrected_packets: audit.corrected_packets,
        lost_outside: audit.lost_outside,
        offloads: audit.offloads.clone(),
    }
}

fn host_rows(audit: &Audit, routers: &Routers, real: &[(String, u32)]) -> Vec<LiveHost> {
    let ports = audit.ports.iter().zip(real).enumerate();
    ports
        .map(|(number, (port, (name, _)))| {
            let (v4, v6) = routers.plan().of(routers.host(number) as usize);
            let c = &port.counters;
            LiveHost {
                host: name.clone(),
                address: v4.to_string(),
                address6: v6.to_string(),
                // What comes in at the port is what the host has sent.
                sent_packets: c.received_packets,
                sent_bytes: c.received_bytes,
                received_packets: c.sent_packets,
                received_bytes: c.sent_bytes,
                lost_outside: c.lost(),
                malformed: c.malformed,
                ignored: c.ignored,
            }
        })
        .collect()
}
