//! A scenario spelt out: single nodes, one-way links and flow instances, with every default filled in.
//!
//! The runner builds from this; the checks look for unknown nodes and missing routes in it.

mod changes;
mod flows;
mod links;
mod network;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warpline_core::parameter::Choice;
use warpline_core::{Bytes, Dscp, LinkId, Rate, Streams, TimeDelta, Timestamp};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::radio::Radio as _;
use warpline_net::routing::Names;
use warpline_transport::multipath::Scheduler;
use warpline_transport::tcp::TcpConfig;

use super::application::Application;
use super::document::{Step, entry, path_text};
use super::flow::{Flow, FlowRecordKind, Transport};
use super::link::{DelayStep, Down, Jitter, LinkRecordKind, Loss, Pfc, Queue, Radio};
use super::problem::Problem;
use super::quantity::StartTime;
use super::{Cc, Scenario};
pub use links::{LinkSpec, Links};
use network::Network;

/// A scenario spelt out.
#[derive(Clone, Debug, Default)]
pub struct Expanded {
    /// Names of the nodes, in the order in which links first mention them.
    pub nodes: Names,
    /// One-way links.
    pub links: Links,
    /// Flow instances, group by group.
    pub flows: Vec<FlowSpec>,
    /// The routes of all flows.
    pub routes: Routes,
}

impl Expanded {
    /// The name of a link: "a>b".
    pub fn link_name(&self, link: &LinkSpec<'_>) -> String {
        format!("{}>{}", &self.nodes[link.from], &self.nodes[link.to])
    }
}

/// What a direction of a link is like.
#[derive(Clone, Debug)]
pub struct LinkKind {
    /// How fast it sends.
    pub speed: Speed,
    /// Propagation delay.
    pub delay: TimeDelta,
    /// Other delays, from given times on.
    pub delays: Vec<DelayStep>,
    /// What waits in front of it.
    pub queue: Queue,
    /// Priority flow control at its far end.
    pub pfc: Option<Pfc>,
    /// Its loss model.
    pub loss: Loss,
    /// Which packets arrive twice.
    pub duplicate: Loss,
    /// Which packets arrive with a bit changed.
    pub corrupt: Loss,
    /// Its random extra delay.
    pub jitter: Jitter,
    /// When it is down.
    pub down: Vec<Down>,
    /// Bytes added to every packet.
    pub framing: u64,
    /// Largest IP packet that it takes, in bytes, if there is such a limit.
    pub mtu: Option<u32>,
    /// What to record.
    pub record: Vec<LinkRecordKind>,
    /// Keys of the scenario that it comes from.
    pub(crate) origin: Vec<Step>,
}

/// How fast a link sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Speed {
    /// Always the same rate.
    Constant(Rate),
    /// Rates in turn.
    Schedule {
        /// The rate before the first step.
        initial: Rate,
        /// Times and rates.
        steps: Vec<(TimeDelta, Rate)>,
        /// Period after which it starts again.
        repeat: Option<TimeDelta>,
    },
    /// A mahimahi trace file; the path is ready to open.
    Trace(PathBuf),
    /// A radio.
    Radio(Radio),
}

impl LinkKind {
    /// The key of the scenario that the link comes from: "link.2", "topology.bottleneck".
    pub fn origin(&self) -> String {
        path_text(&self.origin)
    }

    /// What the link is like, in words for people: "10 Mbit/s, 20 ms, queue 100 packets, loss 1 %". Paths are relative to `directory`;
    /// the rate is left out where `limited` is false.
    pub fn describe(&self, directory: &Path, limited: bool) -> String {
        let speed = match &self.speed {
            _ if !limited => "no rate limit".to_owned(),
            Speed::Constant(rate) => spaced(rate),
            Speed::Schedule { initial, steps, .. } => {
                let mut rates: Vec<Rate> = steps.iter().map(|(_, rate)| *rate).chain([*initial]).collect();
                rates.sort_unstable();
                let (least, most) = (rates[0], rates[rates.len() - 1]);
                format!("{} to {} by a schedule", spaced(&least), spaced(&most))
            }
            Speed::Radio(radio) => radio.0.words(),
            Speed::Trace(path) => format!("trace {}", path.strip_prefix(directory).unwrap_or(path).display()),
        };
        let mut text = format!("{speed}, {}", spaced(&self.delay));
        if !self.delays.is_empty() {
            text += " at first";
        }
        let limit = match self.queue.0.limit() {
            QueueLimit::Packets(1) => "1 packet".to_owned(),
            QueueLimit::Packets(packets) => format!("{packets} packets"),
            other => spaced(&other),
        };
        let _ = match &self.queue.0 {
            QdiscConfig::DropTail(_) => write!(text, ", queue {limit}"),
            other if other.limit() == QueueLimit::Unlimited => write!(text, ", queue {}", other.kind()),
            other => write!(text, ", queue {} of {limit}", other.kind()),
        };
        if self.loss.is_some() {
            let _ = write!(text, ", {}", self.loss.0.words());
        }
        for (what, chosen) in [("duplicates", &self.duplicate), ("corruption", &self.corrupt)] {
            if chosen.is_some() {
                // "duplicates 1 %", by the words of a loss model.
                let words = chosen.0.words();
                let _ = write!(text, ", {what} {}", words.strip_prefix("loss ").unwrap_or(&words));
            }
        }
        if self.jitter.is_some() {
            let _ = write!(text, ", {} jitter", self.jitter.0.words());
        }
        if self.pfc.is_some() {
            text += ", paused by priority flow control";
        }
        if !self.down.is_empty() {
            text += ", down at times";
        }
        text
    }
}

/// A quantity with a space before its unit, as texts have it: "20 ms".
fn spaced(quantity: &impl std::fmt::Display) -> String {
    let text = quantity.to_string();
    match text.find(|c: char| !c.is_ascii_digit() && c != '.') {
        Some(unit) if unit > 0 => format!("{} {}", &text[..unit], &text[unit..]),
        _ => text,
    }
}

/// One flow.
#[derive(Clone, Debug)]
pub struct FlowSpec {
    /// "bulk.0".
    pub name: String,
    /// "bulk".
    pub group: Arc<str>,
    /// Index of its `[[flow]]` in the scenario.
    pub entry: usize,
    /// Index of the node that sends.
    pub from: usize,
    /// Index of the node that receives; of several the first.
    pub to: usize,
    /// Whether its transfers go to several nodes: each to one of the group that `to` names in the scenario.
    pub several: bool,
    /// What it sends.
    pub application: Arc<Application>,
    /// What carries it.
    pub transport: Transport,
    /// Its congestion control; `None` for UDP.
    pub cc: Option<Cc>,
    /// When it starts; [`begin`](Self::begin) draws from the range.
    pub start: StartTime,
    /// When it stops sending; `None` at the end of the run.
    pub stop: Option<TimeDelta>,
    /// TCP options of the sending end (see [`TcpOptions::resolve`](crate::TcpOptions::resolve)).
    pub tcp_from: Arc<TcpConfig>,
    /// TCP options of the receiving end.
    pub tcp_to: Arc<TcpConfig>,
    /// Class in priority queues.
    pub class: u8,
    /// Code point of its packets.
    pub dscp: Dscp,
    /// What to record.
    pub record: Vec<FlowRecordKind>,
    /// Indices of the nodes that it passes; none if that is left to `routing`.
    pub via: Vec<usize>,
    /// Which subflow of a multipath connection it is, if it is one. Those of a connection follow each other.
    pub subflow: Option<SubflowOf>,
    /// Routes from the sender to the receiver.
    pub forward: RouteSet,
    /// Routes back.
    pub reverse: RouteSet,
    /// The transfers of app = "arrivals", in the order of their times. All are drawn before the run, so that only routes that are
    /// taken exist.
    pub arrivals: Vec<Arrival>,
}

impl FlowSpec {
    /// When it starts, drawn from its range.
    pub fn begin(&self, streams: &Streams) -> Timestamp {
        self.start.pick(streams.stream(&format!("flow.{}.start", self.name)).uniform())
    }
}

/// A subflow's place in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubflowOf {
    /// Its number, from 0 on.
    pub number: u32,
    /// How many the connection has.
    pub count: u32,
    /// Which of them carries the next piece of data.
    pub scheduler: Scheduler,
}

/// A transfer that is asked for at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, from the flow's start on.
    pub at: TimeDelta,
    /// How many bytes.
    pub size: Bytes,
    /// Index of the node that receives.
    pub to: u32,
    /// Routes there.
    pub forward: RouteSet,
    /// Routes back.
    pub reverse: RouteSet,
}

/// Routes one after the other in [`Routes`]: those among which the packets of a connection take turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouteSet {
    /// The number of the first.
    pub first: u32,
    /// How many; 1 unless packets are sprayed.
    pub count: u32,
}

/// Routes: sequences of links.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    links: Vec<LinkId>,
    /// Where each route ends in `links`.
    ends: Vec<u32>,
}

impl Routes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// The links of route `number`.
    pub fn links(&self, number: u32) -> &[LinkId] {
        let number = number as usize;
        let begin = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.links[begin as usize..self.ends[number] as usize]
    }
    fn add(&mut self, routes: &[Vec<LinkId>]) -> RouteSet {
        let first = self.ends.len() as u32;
        for route in routes {
            self.links.extend(route);
            self.ends.push(self.links.len() as u32);
        }
        RouteSet { first, count: routes.len() as u32 }
    }
}

impl Scenario {
    /// Spells the scenario out. What cannot be (an unknown node, a missing route, all of it if its topology is too large) is left out; a
    /// scenario that [`Scenario::check`] accepts has no such thing.
    pub fn expand(&self) -> Expanded {
        self.expand_noting(&mut Vec::new()).unwrap_or_default()
    }

    /// As [`expand`](Self::expand), noting what is left out; none if the topology is too large.
    pub(crate) fn expand_noting(&self, problems: &mut Vec<Problem>) -> Option<Expanded> {
        let mut network = Network::new(self);
        if let Some(topology) = &self.topology {
            // Before there is a list of its links, for which there may be no memory.
            if let Some(problem) = topology.too_large(self) {
                problems.push(problem);
                return None;
            }
            topology.layout().links(self, &mut |edge| network.edge(&edge));
        }
        for (i, link) in self.link.iter().enumerate() {
            let Some((from, to)) = link.ends() else { continue };
            let origin = entry("link", i, &[]);
            let kind = network.kind(&link.options, &origin);
            network.graph.link_of(from, to, kind);
            if link.between.is_some() {
                let kind = network.kind(&link.back(), &origin);
                network.graph.link_of(to, from, kind);
            }
        }
        let mut expanded = flows::expand(network, problems);
        changes::assign(self, &mut expanded, problems);
        Some(expanded)
    }

    /// The group names of the flows, in order: the name given, else the app's, with the flow's number where that is taken.
    pub fn group_names(&self) -> Vec<String> {
        let mut taken: BTreeSet<String> = self.flow.iter().filter_map(|flow| flow.name.clone()).collect();
        let name = |(i, flow): (usize, &Flow)| {
            flow.name.clone().unwrap_or_else(|| {
                let plain = flow.app.name();
                let name = if taken.contains(plain) { format!("{plain}-{i}") } else { plain.to_owned() };
                taken.insert(name.clone());
                name
            })
        };
        self.flow.iter().enumerate().map(name).collect()
    }
}
