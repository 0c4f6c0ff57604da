//! Into which parts a run is cut, so that it uses more than one core.

use std::fmt;
use std::num::NonZero;

use warpline_core::{NodeId, Timestamp};
use warpline_net::cut::{Load, LoadedLink};
use warpline_net::{Cut, Network};
use warpline_scenario::expand::{Expanded, FlowSpec, RouteSet};
use warpline_scenario::{Application, Cc, Scenario, Transport};

use super::measure::LinkInfo;
use super::used::Used;
use crate::hosts::ModelHosts;

/// How many cores a simulated run may use. Its results do not depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cores {
    /// One.
    #[default]
    One,
    /// At most so many, and only as many as make it faster.
    UpTo(usize),
    /// So many, if the network can be cut like that.
    Exactly(usize),
}

impl Cores {
    /// The number that a user asked for; without one, as many of this machine's cores as make the run faster.
    pub fn asked(number: Option<NonZero<usize>>) -> Cores {
        match number {
            Some(number) => Cores::Exactly(number.get()),
            None => Cores::UpTo(std::thread::available_parallelism().map_or(1, NonZero::get)),
        }
    }
}

/// Into which parts a run is cut, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    pub(super) cut: Option<Cut>,
    reason: &'static str,
}

impl Parts {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.cut.as_ref().map_or(1, |cut| cut.parts)
    }

    /// One part, and why.
    pub(super) fn one(reason: &'static str) -> Parts {
        Parts { cut: None, reason }
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cut {
            Some(cut) => write!(f, "{cut}"),
            None => write!(f, "one part: {}", self.reason),
        }
    }
}

/// What the sender and the receiver do for a segment with data and its share of an acknowledgement, and for a datagram, in nanoseconds (see
/// `warpline_net::cut`).
const SEGMENT: (f64, f64) = (130.0, 200.0);
const DATAGRAM: (f64, f64) = (40.0, 70.0);
/// What they and links do more, as a share of the above, if there are so many flows that what they need is seldom in the processor's cache.
const MISSES: Misses = Misses { flows: 1_000.0, sender: 3.5, receiver: 0.5, link: 0.5 };
/// See [`MISSES`].
struct Misses {
    flows: f64,
    sender: f64,
    receiver: f64,
    link: f64,
}

/// Packets that one acknowledgement stands for.
const PER_ACK: f64 = 2.0;
/// Bytes of data in a full packet.
const PAYLOAD: f64 = 1448.0;

/// Chooses the parts of a simulated run.
pub(super) fn choose(
    cores: Cores,
    scenario: &Scenario,
    (expanded, used): (&Expanded, &Used),
    (network, world, infos): (&mut Network, &ModelHosts, &[LinkInfo]),
) -> Parts {
    if !scenario.is_simulated() {
        return Parts::one("programs are at its ports");
    }
    if expanded.flows.iter().any(|flow| matches!(flow.cc, Some(Cc::Custom { .. }))) {
        return Parts::one("a congestion control of the caller is called by one thread");
    }
    let cores = match cores {
        Cores::One | Cores::UpTo(0 | 1) | Cores::Exactly(0 | 1) => {
            return Parts::one("one core was asked for");
        }
        more => more,
    };
    let load = load(scenario, (expanded, used), network, world, infos);
    let cut = match cores {
        Cores::UpTo(cores) => load.cut(cores),
        Cores::Exactly(cores) => load.cut_into(cores),
        Cores::One => return Parts::one("one core was asked for"),
    };
    match (cut.parts, cores) {
        (1, Cores::Exactly(_)) => Parts::one("no link with a delay divides it"),
        (1, _) => Parts::one("no cut would make it faster"),
        _ => Parts { cut: Some(cut), reason: "" },
    }
}

/// What is expected to happen: how many packets cross each link, if flows share the slowest of their links evenly.
fn load(
    scenario: &Scenario,
    (expanded, used): (&Expanded, &Used),
    network: &mut Network,
    world: &ModelHosts,
    infos: &[LinkInfo],
) -> Load {
    let (begin, end) = (Timestamp::ZERO, Timestamp::ZERO + scenario.duration.0);
    // Of the links in use, in the order of their numbers.
    let bps: Vec<f64> =
        infos.iter().map(|info| info.capacity.rate_between(begin, end).as_bps() as f64).collect();
    let mut flows_on = vec![0.0f64; infos.len()];
    let lasting = || expanded.flows.iter().filter(|flow| flow.arrivals.is_empty());
    for flow in lasting() {
        spread((expanded, used), flow.forward, 1.0, &mut flows_on);
    }
    let many = (world.flows.len() as f64 / MISSES.flows).min(1.0);
    let mut packets = vec![0.0; infos.len()];
    let mut hosts = vec![0.0; expanded.nodes.len()];
    let mut carry =
        |(from, to): (usize, usize), (there, back): (RouteSet, RouteSet), rate: f64, tcp: bool| {
            let acks = if tcp { rate / PER_ACK } else { 0.0 };
            spread((expanded, used), there, rate, &mut packets);
            spread((expanded, used), back, acks, &mut packets);
            let (sender, receiver) = if tcp { SEGMENT } else { DATAGRAM };
            hosts[from] += rate * sender * (1.0 + MISSES.sender * many);
            hosts[to] += rate * receiver * (1.0 + MISSES.receiver * many);
        };
    for flow in lasting() {
        let first = expanded.routes.links(flow.forward.first);
        let share = first
            .iter()
            .map(|&link| used.place(link))
            .map(|link| bps[link] / flows_on[link])
            .fold(f64::MAX, f64::min);
        let tcp = flow.transport == Transport::Tcp;
        carry((flow.from, flow.to), (flow.forward, flow.reverse), packets_per_second(flow, share), tcp);
    }
    let seconds = scenario.duration.0.as_secs_f64().max(1e-9);
    for flow in &expanded.flows {
        for arrival in &flow.arrivals {
            let rate = (arrival.size.0 as f64 / PAYLOAD).ceil() / seconds;
            carry((flow.from, arrival.to as usize), (arrival.forward, arrival.reverse), rate, true);
        }
    }
    let express = network.express_links();
    let links = packets.into_iter().zip(express).zip(infos).map(|((packets, express), info)| {
        let link = network.link(info.link);
        LoadedLink {
            from: link.from().0,
            to: link.to().0,
            delay: link.delay(),
            packets,
            departures: link.has_departures(),
            express,
        }
    });
    let misses = 1.0 + MISSES.link * many;
    let links = links.collect();
    let hosts_joined = world.joined().map(|(a, b): (NodeId, NodeId)| (a.0, b.0));
    // A node tells the one before at once to pause.
    let paused = infos.iter().map(|info| network.link(info.link)).filter(|link| link.has_pfc());
    let joined = hosts_joined.chain(paused.map(|link| (link.from().0, link.to().0))).collect();
    Load { hosts, links, misses, joined }
}

/// Adds `rate` to the links of a set of routes, which share it; `links` are those in use.
fn spread((expanded, used): (&Expanded, &Used), routes: RouteSet, rate: f64, links: &mut [f64]) {
    for route in routes.first..routes.first + routes.count {
        for link in expanded.routes.links(route) {
            links[used.place(*link)] += rate / f64::from(routes.count);
        }
    }
}

/// Packets per second of a flow that may have `share` bits per second.
fn packets_per_second(flow: &FlowSpec, share: f64) -> f64 {
    let full = share / (8.0 * 1500.0);
    let rate = match &*flow.application {
        Application::Cbr(own) => own.rate.as_bps() as f64 / (8.0 * own.packet_size.0.max(1) as f64),
        Application::Onoff(own) => {
            let (on, off) = (own.mean_on.as_secs_f64(), own.mean_off.as_secs_f64());
            own.rate.as_bps() as f64 / (8.0 * own.packet_size.0.max(1) as f64) * on / (on + off).max(1e-9)
        }
        Application::Poisson(own) => own.message_rate,
        Application::Media(own) => {
            own.max_bitrate.as_bps().min(share as u64) as f64 / (8.0 * own.packet_size.0.max(1) as f64)
        }
        _ => full,
    };
    // Small packets: 40 of them take as long as a full one.
    rate.min(full * 40.0)
}
