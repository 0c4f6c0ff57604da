//! What a run with real programs plays on, by whatever clock: the network, its simulated hosts, the routers that datagrams cross, and what
//! programs wait for.

use std::path::Path;

use warpline_net::Network;

use super::course::Account;
use super::guests::{GuestResults, Guests};
use super::programs::{Evidence, Readiness, explain};
use super::routers::{LiveWorld, Models, Paths, Routers};
use super::session::{Session, Stop};
use super::{ETHERNET_MTU, RunError, live_error};
use crate::hosts::ModelHosts;
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expanded, Scenario};

/// What a host's interface takes: what the narrowest of its links does.
fn interface_mtu(expanded: &Expanded, node: u32) -> u32 {
    let own = expanded.links.iter().filter(|link| link.from == node as usize);
    own.filter_map(|link| link.mtu).min().unwrap_or(ETHERNET_MTU)
}

/// What is known of a run with real programs before anything is asked of the system.
pub(super) struct Plan {
    expanded: Expanded,
    addresses: AddressPlan,
    readiness: Readiness,
    models: Models,
    world: ModelHosts,
    guests: Option<Guests>,
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
        let guests = Guests::plan(scenario, &expanded, &addresses, &readiness, mtu)?;
        Ok(Plan { expanded, addresses, readiness, models, world, guests })
    }

    /// Lays out the paths of datagrams, and takes the guests out of the plan.
    pub(super) fn set(self, scenario: &Scenario, mut network: Network) -> (Stage, Option<Guests>) {
        let Plan { expanded, addresses, readiness, models, world, guests } = self;
        let node = |name: &str| expanded.nodes.iter().position(|node| node == name);
        let live = scenario.host.iter().filter(|host| host.is_live());
        let live: Vec<(String, u32)> =
            live.filter_map(|host| Some((host.name.clone(), node(&host.name)? as u32))).collect();
        let mut ports = live.clone();
        ports.extend_from_slice(guests.as_ref().map_or(&[], Guests::hosts));
        let ends: Vec<u32> = ports.iter().map(|(_, node)| *node).chain(models.nodes()).collect();
        let paths = Paths::find(&expanded, &ends, &mut network);
        let mtu: Vec<u32> =
            (0..expanded.nodes.len() as u32).map(|node| interface_mtu(&expanded, node)).collect();
        let largest = ports.iter().map(|(_, node)| mtu[*node as usize]);
        let largest = largest.chain([models.mtu()]).fold(ETHERNET_MTU, u32::max);
        let mut routers = Routers::new(addresses, paths, ends, ports.len(), mtu.clone());
        if let Some(guests) = &guests {
            guests.introduce(&mut routers.traffic);
        }
        let stage = Stage {
            network,
            world: LiveWorld { hosts: world, models, routers },
            readiness,
            live,
            ports,
            mtu,
            largest,
            nodes: expanded.nodes,
        };
        (stage, guests)
    }
}

/// The network, and all that is in it.
pub(super) struct Stage {
    pub(super) network: Network,
    pub(super) world: LiveWorld,
    pub(super) readiness: Readiness,
    /// Names and nodes of the live hosts.
    pub(super) live: Vec<(String, u32)>,
    /// Names and nodes of the hosts behind ports, in the order of these: the live ones, then the guests.
    pub(super) ports: Vec<(String, u32)>,
    /// What each node's interface takes, in bytes.
    pub(super) mtu: Vec<u32>,
    /// The most that one of them takes.
    pub(super) largest: u32,
    nodes: Vec<String>,
}

impl Stage {
    /// The run has come to its end, or not: what still is not ready then never was.
    pub(super) fn expire(&mut self, stop: Option<&Stop>, session: &Session<'_>) {
        if stop.is_none() && !self.readiness.is_done() {
            self.readiness.expire(session.duration());
        }
    }

    /// What there is to look at when a program has failed.
    pub(super) fn evidence(session: &Session<'_>) -> Evidence {
        Evidence::of(session.sinks.directory(), session.options.out.as_deref())
    }

    /// Adds what programs have sent each other, what the guests have left, and why the run could not go on. `live` are the rows of programs
    /// on live hosts. Returns those of programs on guests.
    ///
    /// # Errors
    /// If something cannot be written.
    pub(super) fn account(
        &mut self,
        stop: Option<&Stop>,
        guests: Option<&GuestResults<'_>>,
        live: &mut [ProgramRow],
        session: &mut Session<'_>,
        account: &mut Account,
    ) -> Result<Vec<ProgramRow>, RunError> {
        let scratch = tempfile::tempdir().map_err(live_error)?;
        let out = session.sinks.directory().unwrap_or(scratch.path()).to_owned();
        let out: &Path = &out;
        let evidence = Self::evidence(session);
        let traffic = &mut self.world.routers.traffic;
        account.flows.extend(traffic.finish(&self.nodes));
        let mut programs = match guests {
            Some(guests) => guests.account(stop.is_none(), traffic, (out, &evidence), session, account)?,
            None => Vec::new(),
        };
        if let Some(failure) = self.readiness.failure() {
            let rows = live.iter_mut().chain(&mut programs);
            account.failures.insert(0, explain(failure, rows, &evidence, out));
        }
        Ok(programs)
    }
}
