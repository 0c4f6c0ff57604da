//! What a run with real programs plays on, by whatever clock: the network, its simulated hosts, the routers that datagrams cross, and what
//! programs wait for.

use warpline_net::Network;
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expanded, Scenario};

use super::course::Account;
use super::endpoints::{Accounting, Ground, Named, Planned};
use super::live::LivePlan;
use super::programs::{Evidence, Readiness, explain};
use super::routers::{LiveWorld, Models, Paths, Routers};
use super::session::{Session, Stop};
use super::{ETHERNET_MTU, RunError, live_error};
use crate::hosts::ModelHosts;

/// What a host's interface takes: what the narrowest of its links does.
fn interface_mtu(expanded: &Expanded, node: u32) -> u32 {
    let own = expanded.links.iter().filter(|link| link.from == node as usize);
    own.filter_map(|link| link.mtu).min().unwrap_or(ETHERNET_MTU)
}

/// All hosts of a scenario that are more than models, by kind: a new kind is one line here. `mtu` is what a node's interface takes.
///
/// # Errors
/// If the scenario asks of a kind what it cannot do.
fn plan(
    scenario: &Scenario,
    expanded: &Expanded,
    addresses: &AddressPlan,
    readiness: &Readiness,
    mtu: impl Fn(u32) -> u32,
) -> Result<Vec<Box<dyn Planned>>, RunError> {
    let mut all: Vec<Box<dyn Planned>> = vec![Box::new(LivePlan::new(scenario, expanded))];
    #[cfg(target_arch = "x86_64")]
    if let Some(guests) = super::guests::Guests::plan(scenario, expanded, addresses, readiness, mtu)? {
        all.push(Box::new(guests));
    }
    #[cfg(not(target_arch = "x86_64"))]
    if scenario.guests().next().is_some() {
        let _ = (addresses, readiness, mtu);
        return Err(RunError::Live("guests need Linux on x86-64; use endpoint = \"live\" here".to_owned()));
    }
    all.retain(|kind| !kind.hosts().is_empty());
    Ok(all)
}

/// What is known of a run with real programs before anything is asked of the system.
pub(super) struct Plan {
    expanded: Expanded,
    addresses: AddressPlan,
    readiness: Readiness,
    models: Models,
    world: ModelHosts,
    hosts: Vec<Box<dyn Planned>>,
}

impl Plan {
    /// Plans the run of a scenario whose simulated hosts are `world`.
    ///
    /// # Errors
    /// For what is wrong with the scenario.
    pub(super) fn new(scenario: &Scenario, mut world: ModelHosts) -> Result<Self, RunError> {
        let expanded = scenario.expand();
        let mtu = |node| interface_mtu(&expanded, node);
        let addresses = AddressPlan::new(scenario, &expanded);
        let readiness = Readiness::plan(scenario, &expanded, &addresses, &mut world);
        let mut models = Models::build(&mut world, &addresses, scenario.seed, mtu)?;
        models.claim_services(&addresses);
        let hosts = plan(scenario, &expanded, &addresses, &readiness, mtu)?;
        Ok(Plan { expanded, addresses, readiness, models, world, hosts })
    }

    /// Lays out the paths of datagrams, and takes the hosts that are more than models out of the plan.
    pub(super) fn set(self, mut network: Network) -> (Stage, Vec<Box<dyn Planned>>) {
        let Plan { expanded, addresses, readiness, models, world, hosts: planned } = self;
        let hosts: Vec<Vec<Named>> = planned.iter().map(|kind| kind.hosts().to_vec()).collect();
        let ports: Vec<u32> = hosts.iter().flatten().map(|(_, node)| *node).collect();
        let ends: Vec<u32> = ports.iter().copied().chain(models.nodes()).collect();
        let paths = Paths::find(&expanded, &ends, &mut network);
        let mtu: Vec<u32> =
            (0..expanded.nodes.len() as u32).map(|node| interface_mtu(&expanded, node)).collect();
        let largest = ports.iter().map(|node| mtu[*node as usize]);
        let largest = largest.chain([models.mtu()]).fold(ETHERNET_MTU, u32::max);
        let mut routers = Routers::new(addresses, paths, ends, ports.len(), mtu.clone());
        planned.iter().for_each(|kind| kind.introduce(&mut routers.traffic));
        let stage = Stage {
            network,
            world: LiveWorld { hosts: world, models, routers },
            readiness,
            hosts,
            mtu,
            largest,
            nodes: expanded.nodes,
        };
        (stage, planned)
    }
}

/// The network, and all that is in it.
pub(super) struct Stage {
    pub(super) network: Network,
    pub(super) world: LiveWorld,
    pub(super) readiness: Readiness,
    /// The hosts behind ports in the order of these, by kind.
    pub(super) hosts: Vec<Vec<Named>>,
    /// What each node's interface takes, in bytes.
    pub(super) mtu: Vec<u32>,
    /// The most that one of them takes.
    pub(super) largest: u32,
    nodes: Vec<String>,
}

impl Stage {
    /// What hosts are attached with.
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground { addresses: self.world.routers.plan(), mtu: &self.mtu, readiness: &self.readiness }
    }

    /// The run has come to its end, or not: what still is not ready then never was.
    pub(super) fn expire(&mut self, stop: Option<&Stop>, session: &Session<'_>) {
        if stop.is_none() && !self.readiness.is_done() {
            self.readiness.expire(session.duration());
        }
    }

    /// Adds what programs have sent each other, what `kinds` adds of each kind of host, and why the run could not go on. Returns the rows of
    /// programs that `kinds` gave.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(super) fn account(
        &mut self,
        stop: Option<&Stop>,
        session: &mut Session<'_>,
        account: &mut Account,
        kinds: impl FnOnce(
            &Accounting<'_>,
            &mut Session<'_>,
            &mut Account,
        ) -> Result<Vec<Vec<ProgramRow>>, RunError>,
    ) -> Result<Vec<Vec<ProgramRow>>, RunError> {
        let scratch = tempfile::tempdir().map_err(live_error)?;
        let out = session.sinks.directory().unwrap_or(scratch.path()).to_owned();
        let evidence = Evidence::of(session.sinks.directory(), session.options.out.as_deref());
        let traffic = &mut self.world.routers.traffic;
        account.flows.extend(traffic.finish(&self.nodes));
        let accounting = Accounting { judged: stop.is_none(), out: &out, evidence: &evidence, traffic };
        let mut programs = kinds(&accounting, session, account)?;
        if let Some(failure) = self.readiness.failure() {
            let rows = programs.iter_mut().flatten();
            account.failures.insert(0, explain(failure, rows, &evidence, &out));
        }
        Ok(programs)
    }
}
