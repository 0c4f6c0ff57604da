//! The routes of a scenario in its network, and what they are like with nobody else there.

use std::sync::Arc;

use warpline_core::{LinkId, NodeId, Rate, TimeDelta, Timestamp};
use warpline_net::{Network, RouteId};
use warpline_scenario::{Arrival, Expanded, RouteSet, Scenario};

use super::measure::LinkInfo;
use super::names::Names;
use super::used::Used;
use super::{RunError, fault_of};
use crate::hosts::routes::{IdlePath, Routes, Way};

/// The links of a route up to the first guest on it that forwards, which may be its end.
pub(super) fn upto_router<'a>(expanded: &Expanded, forwarding: &[bool], links: &'a [LinkId]) -> &'a [LinkId] {
    let first = links.iter().position(|link| forwarding[expanded.links.at(*link).to]);
    first.map_or(links, |last| &links[..=last])
}

/// All routes of an expanded scenario.
pub(super) struct Ways<'a> {
    expanded: &'a Expanded,
    /// The number of each route in the network.
    ids: Vec<RouteId>,
    /// The rate of each link in use: the mean over the run where it changes.
    rates: Vec<Rate>,
    used: &'a Used,
    /// The names of nodes, which ways share.
    names: &'a Names,
}

impl<'a> Ways<'a> {
    /// Adds the routes to `network`, whose links `used` are `links`; `names` has those of their ends.
    ///
    /// # Errors
    /// If it refuses one.
    pub(super) fn new(
        expanded: &'a Expanded,
        (names, used): (&'a Names, &'a Used),
        links: &[LinkInfo],
        scenario: &Scenario,
        network: &mut Network,
    ) -> Result<Self, RunError> {
        let forwarding = expanded.forwarding(scenario);
        let mut add = |route: u32| {
            // A guest that forwards takes the packets out of the network.
            let links = upto_router(expanded, &forwarding, expanded.routes.links(route));
            let added = network.add_route(links);
            added.map_err(|error| fault_of("route", &route.to_string(), &error))
        };
        let ids = (0..expanded.routes.len() as u32).map(&mut add).collect::<Result<_, _>>()?;
        let (begin, end) = (Timestamp::ZERO, Timestamp::ZERO + scenario.duration.0);
        let rates = links.iter().map(|link| link.capacity.rate_between(begin, end)).collect();
        Ok(Ways { expanded, ids, rates, used, names })
    }

    fn set(&self, set: RouteSet) -> Routes {
        let first = set.first as usize;
        match set.count {
            0 | 1 => Routes::One(self.ids[first]),
            count => Routes::Several { all: self.ids[first..first + count as usize].into(), next: 0 },
        }
    }

    /// The name of a node that is on a route.
    pub(super) fn name(&self, node: usize) -> Arc<str> {
        self.names.known(node)
    }

    /// The routes of the data and of the opposite direction.
    pub(super) fn routes(&self, forward: RouteSet, reverse: RouteSet) -> (Routes, Routes) {
        (self.set(forward), self.set(reverse))
    }

    /// What they are like with nobody else there; of several, the first.
    pub(super) fn idle(&self, forward: RouteSet, reverse: RouteSet) -> IdlePath {
        let [there, back] = [forward, reverse].map(|set| self.expanded.routes.links(set.first));
        let delay = |link: &LinkId| self.expanded.links.delay(*link);
        let rate = |link: &LinkId| self.rates[self.used.place(*link)];
        IdlePath {
            rtt: there.iter().chain(back).map(delay).fold(TimeDelta::ZERO, |sum, delay| sum + delay),
            slowest: there.iter().map(rate).min().unwrap_or_default(),
        }
    }

    /// The way of a transfer.
    pub(super) fn of(&self, arrival: &Arrival) -> Way {
        Way {
            to: (NodeId(arrival.to), self.name(arrival.to as usize)),
            routes: self.routes(arrival.forward, arrival.reverse),
            idle: self.idle(arrival.forward, arrival.reverse),
        }
    }
}
