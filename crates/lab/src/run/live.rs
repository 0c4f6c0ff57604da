//! Live hosts: network namespaces of this machine with real programs in them.

use std::os::fd::BorrowedFd;

use warpline_core::{TimeDelta, Timestamp};
use warpline_live::emulator::Emulator;
use warpline_live::enter::Door;
use warpline_live::host::{HostConfig, Hosts};
use warpline_results::{LiveHost, ProgramRow};
use warpline_scenario::{Endpoint, Expanded, Scenario};

use super::control::Entrance;
use super::course::Account;
use super::endpoints::{Accounting, Attached, Ending, Ground, Named, Paced, Planned};
use super::programs::{self, Programs, Readiness};
use super::session::Session;
use super::{RunError, live_error};

/// The live hosts of a scenario.
#[derive(Debug)]
pub(super) struct LivePlan {
    hosts: Vec<Named>,
}

impl LivePlan {
    pub(super) fn new(scenario: &Scenario, expanded: &Expanded) -> Self {
        let node = |name: &str| expanded.nodes.find(name);
        let live = scenario.host.iter().filter(|host| matches!(host.endpoint, Endpoint::Live(_)));
        let hosts = live.filter_map(|host| Some((host.name.clone(), node(&host.name)?)));
        LivePlan { hosts: hosts.collect() }
    }
}

impl Planned for LivePlan {
    fn hosts(&self) -> &[Named] {
        &self.hosts
    }

    fn attach(
        self: Box<Self>,
        ground: Ground<'_>,
        session: &mut Session<'_>,
    ) -> Result<Box<dyn Attached>, RunError> {
        let scenario = session.scenario;
        let Ground { addresses, mtu, readiness } = ground;
        let config = |(name, node): &Named| {
            let (v4, v6) = addresses.of(*node as usize);
            HostConfig { name: name.clone(), v4, v6, mtu: mtu[*node as usize] }
        };
        let configs: Vec<HostConfig> = self.hosts.iter().map(config).collect();
        let hosts =
            Hosts::create(&format!("warpline run ({})", scenario.name), &configs).map_err(live_error)?;
        if let Some(control) = &mut session.control {
            let entrances = self.hosts.iter().enumerate().map(|(at, (name, node))| {
                let environment = programs::environment(addresses, *node as usize).into_iter().collect();
                (name.clone(), Entrance::Live(Door::to(&hosts, at, environment)))
            });
            warpline_live::enter::let_others_look().map_err(live_error)?;
            control.let_in(entrances.collect());
        }
        let programs = Programs::prepare(
            scenario,
            &self.hosts,
            &hosts,
            addresses,
            session.sinks.directory(),
            readiness,
        )?;
        Ok(Box::new(LiveHosts { programs, hosts }))
    }
}

/// The live hosts of a run. The order of the fields is the order of dropping: programs end before their hosts.
#[derive(Debug)]
struct LiveHosts {
    programs: Programs,
    hosts: Hosts,
}

// They run in real time.
impl Paced for LiveHosts {}

impl Attached for LiveHosts {
    fn add_ports(&mut self, emulator: &mut Emulator) -> Result<(), RunError> {
        for port in self.hosts.ports().map_err(live_error)? {
            emulator.add_port(Box::new(port));
        }
        emulator.note_offloads(&self.hosts.offloads);
        Ok(())
    }

    fn start(&mut self, now: Timestamp, readiness: &mut Readiness) {
        self.programs.start(now, readiness);
    }

    fn next_start(&self, now: Timestamp, step: TimeDelta) -> Option<Timestamp> {
        self.programs.next_start(now, step)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.programs.fd())
    }

    fn look(&mut self, now: Timestamp, readiness: &mut Readiness) -> Option<String> {
        self.programs.look(now, readiness);
        None
    }

    fn end(&mut self, _: Ending) -> Result<(), RunError> {
        self.programs.stop();
        self.hosts.end_processes();
        Ok(())
    }

    fn account(
        &mut self,
        accounting: &Accounting<'_>,
        _: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        let (rows, wrong) = self.programs.judge(accounting.judged, accounting.evidence);
        account.failures.extend(wrong);
        Ok(rows)
    }

    fn summarise(&mut self, hosts: Vec<LiveHost>, programs: Vec<ProgramRow>, account: &mut Account) {
        if let Some(live) = &mut account.live {
            live.hosts.extend(hosts);
            live.programs.extend(programs);
        }
    }
}
