//! The stage of a run with real packets under any clock: the network, its simulated hosts, the routers that datagrams cross, and the
//! conditions that programs wait for.

use warpline_net::Network;
use warpline_net::routing::Names;
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expanded, Scenario};

use super::course::Account;
use super::endpoints::{Accounting, Ground, Named, Planned};
use super::interface::InterfacePlan;
use super::live::LivePlan;
use super::programs::{Evidence, Readiness, explain};
use super::routers::{Crossings, End, LiveWorld, Models, Nats, Paths, Routers};
use super::session::{Session, Stop};
use super::{ETHERNET_MTU, RunError, live_error};
use crate::hosts::ModelHosts;

/// The MTU of each node's interface: that of its narrowest link.
fn interface_mtus(expanded: &Expanded) -> Vec<u32> {
    let mut least: Vec<Option<u32>> = vec![None; expanded.nodes.len()];
    for link in expanded.links.iter() {
        least[link.from] = least[link.from].into_iter().chain(link.kind.mtu).min();
    }
    least.into_iter().map(|mtu| mtu.unwrap_or(ETHERNET_MTU)).collect()
}

/// All hosts of a scenario with real programs, by kind. A new kind is one line here. `mtu` gives the MTU of a node's interface.
///
/// # Errors
/// If the scenario asks for something that a kind cannot do.
fn plan(
    scenario: &Scenario,
    expanded: &Expanded,
    addresses: &AddressPlan,
    readiness: &Readiness,
    mtu: impl Fn(u32) -> u32,
) -> Result<Vec<Box<dyn Planned>>, RunError> {
    let mut all: Vec<Box<dyn Planned>> = vec![
        Box::new(LivePlan::new(scenario, expanded)),
        Box::new(InterfacePlan::new(scenario, expanded, addresses)),
    ];
    #[cfg(guests)]
    if let Some(guests) = super::guests::Guests::plan(scenario, expanded, addresses, readiness, mtu)? {
        all.push(Box::new(guests));
    }
    #[cfg(not(guests))]
    if scenario.guests().next().is_some() {
        let _ = (readiness, mtu);
        return Err(RunError::Live(format!("{}; use endpoint = \"live\" here", super::NO_GUESTS)));
    }
    all.retain(|kind| !kind.hosts().is_empty());
    Ok(all)
}

/// A run with real programs, planned before the system is asked for anything.
pub(super) struct Plan {
    expanded: Expanded,
    addresses: AddressPlan,
    readiness: Readiness,
    models: Models,
    world: ModelHosts,
    hosts: Vec<Box<dyn Planned>>,
    /// The MTU of each node's interface.
    mtu: Vec<u32>,
    /// For each node, whether it is a guest that forwards.
    forwarding: Vec<bool>,
    nats: Nats,
}

impl Plan {
    /// Plans the run of a scenario whose simulated hosts are `world`.
    ///
    /// # Errors
    /// If the scenario has an error.
    pub(super) fn new(scenario: &Scenario, mut world: ModelHosts) -> Result<Self, RunError> {
        let expanded = scenario.expand();
        let mtu = interface_mtus(&expanded);
        let mtu_of = |node: u32| mtu[node as usize];
        let addresses = AddressPlan::new(scenario, &expanded);
        let readiness = Readiness::plan(scenario, &expanded, &addresses, &mut world);
        let models = Models::build(&mut world, (scenario, &expanded), &addresses, mtu_of)?;
        let hosts = plan(scenario, &expanded, &addresses, &readiness, mtu_of)?;
        let forwarding = expanded.forwarding(scenario);
        let nodes = hosts.iter().flat_map(|kind| kind.hosts()).map(|(_, node)| *node);
        let nats = Nats::new(scenario, &addresses, nodes);
        Ok(Plan { expanded, addresses, readiness, models, world, hosts, mtu, forwarding, nats })
    }

    /// Finds the paths of datagrams, and returns the stage and the planned hosts.
    pub(super) fn set(self, mut network: Network) -> (Stage, Vec<Box<dyn Planned>>) {
        let Plan { expanded, addresses, readiness, models, world, hosts: planned, mtu, forwarding, nats } =
            self;
        let hosts: Vec<Vec<Named>> = planned.iter().map(|kind| kind.hosts().to_vec()).collect();
        let doors = planned.iter().flat_map(|kind| kind.doors());
        let ports = hosts.iter().flatten().zip(doors);
        let ports = ports.map(|((_, node), door)| End { node: *node, live: true, door });
        let ends: Vec<End> =
            ports.chain(models.nodes().map(|node| End { node, live: false, door: None })).collect();
        let paths = Paths::find(&expanded, &ends, &models.pairs(), &forwarding, &mut network);
        // Every link of a guest that forwards has an MTU of its own.
        let wide =
            expanded.links.iter().filter(|link| forwarding[link.from]).filter_map(|link| link.kind.mtu);
        let largest = ends.iter().filter(|end| end.live).map(|end| mtu[end.node as usize]);
        let largest = largest.chain(wide).chain([models.mtu()]).fold(ETHERNET_MTU, u32::max);
        let crossings = Crossings::find(&expanded, &forwarding, (&addresses, &ends), &world);
        let gateways = planned.iter().flat_map(|kind| kind.gateways()).collect();
        let mut routers = Routers::new(addresses, paths, (ends, gateways), (crossings, nats), mtu.clone());
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
    /// The hosts behind ports, by kind, in the order of the ports.
    pub(super) hosts: Vec<Vec<Named>>,
    /// The MTU of each node's interface, in bytes.
    pub(super) mtu: Vec<u32>,
    /// The largest of these.
    pub(super) largest: u32,
    nodes: Names,
}

impl Stage {
    /// What hosts need to be attached.
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground { addresses: self.world.routers.plan(), mtu: &self.mtu, readiness: &self.readiness }
    }

    /// Called after the run: if it reached its end, conditions that do not hold by now have failed.
    pub(super) fn expire(&mut self, stop: Option<&Stop>, session: &Session<'_>) {
        if stop.is_none() && !self.readiness.is_done() {
            self.readiness.expire(session.duration());
        }
    }

    /// Adds the traffic between programs, what `kinds` adds for each kind of host, and why the run could not continue. Returns the rows of
    /// programs that `kinds` returned.
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
        let end = self.network.now();
        let accounting = Accounting { judged: stop.is_none(), end, out: &out, evidence: &evidence, traffic };
        let mut programs = kinds(&accounting, session, account)?;
        let name = |node: u32| self.nodes.get(node as usize).unwrap_or_default();
        account.failures.extend(self.world.models.failures(name));
        if let Some(failure) = self.readiness.failure() {
            let rows = programs.iter_mut().flatten();
            account.failures.insert(0, explain(failure, rows, &evidence, &out));
        }
        Ok(programs)
    }
}
