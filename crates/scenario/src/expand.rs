//! A scenario spelt out: single nodes, one-way links and flow instances, with every default filled in.
//!
//! The runner builds from this; the checks look for unknown nodes and missing routes in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use warpline_core::parameter::Choice;
use warpline_core::{LinkId, NodeId, Rate, TimeDelta};
use warpline_net::qdisc::{QdiscConfig, QueueLimit};
use warpline_net::routing::{Graph, Metric, Router};
use warpline_transport::tcp::TcpConfig;

use super::application::Application;
use super::base_rtt;
use super::document::{Step, entry};
use super::flow::{FlowRecordKind, Transport};
use super::link::{DelayStep, Down, DuplexOptions, Jitter, LinkOptions, LinkRecordKind, Loss, Queue};
use super::quantity::StartTime;
use super::tcp::TcpOptions;
use super::topology;
use super::{Cc, Scenario};

/// A scenario spelt out.
#[derive(Clone, Debug, Default)]
pub struct Expanded {
    /// Names of the nodes, in the order in which links first mention them.
    pub nodes: Vec<String>,
    /// One-way links.
    pub links: Vec<LinkSpec>,
    /// Flow instances, group by group.
    pub flows: Vec<FlowSpec>,
}

/// One direction of a link.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// "a>b".
    pub name: String,
    /// Index of the node it starts at.
    pub from: usize,
    /// Index of the node it ends at.
    pub to: usize,
    /// How fast it sends.
    pub speed: Speed,
    /// Propagation delay.
    pub delay: TimeDelta,
    /// Other delays, from given times on.
    pub delays: Vec<DelayStep>,
    /// What waits in front of it.
    pub queue: Queue,
    /// Its loss model.
    pub loss: Loss,
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
    /// Largest round-trip time without queueing and transmission times of the flows whose data or ACKs cross this link, for
    /// limits in BDP; where none does, the largest of all flows.
    pub base_rtt: TimeDelta,
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
}

impl LinkSpec {
    /// What the link is like, in words for people: "10 Mbit/s, 20 ms, queue 100 packets, loss 1 %". Paths are told from `directory`;
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
            other => write!(text, ", queue {} of {limit}", other.kind()),
        };
        if self.loss.is_some() {
            let _ = write!(text, ", {}", self.loss.0.words());
        }
        if self.jitter.is_some() {
            let _ = write!(text, ", {} jitter", self.jitter.0.words());
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
    pub group: String,
    /// Index of its `[[flow]]` in the scenario.
    pub entry: usize,
    /// Index of the node that sends.
    pub from: usize,
    /// Index of the node that receives.
    pub to: usize,
    /// What it sends.
    pub application: Application,
    /// What carries it.
    pub transport: Transport,
    /// Its congestion control; `None` for UDP.
    pub cc: Option<Cc>,
    /// When it starts; the runner draws from the range.
    pub start: StartTime,
    /// When it stops sending; `None` at the end of the run.
    pub stop: Option<TimeDelta>,
    /// TCP options of the sending end (see [`TcpOptions::resolve`]).
    pub tcp_from: TcpConfig,
    /// TCP options of the receiving end.
    pub tcp_to: TcpConfig,
    /// Class in priority queues.
    pub class: u8,
    /// What to record.
    pub record: Vec<FlowRecordKind>,
    /// Indices of the links from the sender to the receiver: least total delay, then fewest links, then first listed.
    pub forward: Vec<usize>,
    /// Indices of the links back.
    pub reverse: Vec<usize>,
}

/// Something that does not expand: the key it is about, what is wrong, what to do.
pub(crate) struct Problem {
    pub(crate) path: Vec<Step>,
    pub(crate) message: String,
    pub(crate) help: Vec<String>,
}

impl Scenario {
    /// Spells the scenario out. What cannot be (an unknown node, a missing route) is left out; a scenario that
    /// [`Scenario::check`] accepts has no such thing.
    pub fn expand(&self) -> Expanded {
        self.expand_noting(&mut Vec::new())
    }

    /// As [`expand`](Self::expand), noting what is left out.
    pub(crate) fn expand_noting(&self, problems: &mut Vec<Problem>) -> Expanded {
        let mut builder = Builder { scenario: self, index: BTreeMap::new(), expanded: Expanded::default() };
        if let Some(topology) = &self.topology {
            for edge in topology.layout().links(self) {
                builder.duplex(&edge.from, &edge.to, &edge.options, &topology::at(edge.key));
            }
        }
        for (i, link) in self.link.iter().enumerate() {
            let Some((from, to)) = link.ends() else { continue };
            let origin = entry("link", i, &[]);
            if link.between.is_some() {
                let back = link.options.overridden_by(&link.reverse.clone().unwrap_or_default());
                builder.one_way(from, to, &link.options, &origin);
                builder.one_way(to, from, &back, &origin);
            } else {
                builder.one_way(from, to, &link.options, &origin);
            }
        }
        builder.flows(problems);
        builder.expanded
    }

    /// The group names of the flows, in order: the name given, else the app's, with the flow's number where that is taken.
    pub fn group_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (i, flow) in self.flow.iter().enumerate() {
            let name = flow.name.clone().unwrap_or_else(|| {
                let plain = flow.app.name().to_owned();
                let taken = names.contains(&plain)
                    || self.flow.iter().any(|other| other.name.as_deref() == Some(plain.as_str()));
                if taken { format!("{plain}-{i}") } else { plain }
            });
            names.push(name);
        }
        names
    }
}

struct Builder<'a> {
    scenario: &'a Scenario,
    index: BTreeMap<String, usize>,
    expanded: Expanded,
}

impl Builder<'_> {
    fn node(&mut self, name: &str) -> usize {
        let next = self.expanded.nodes.len();
        if let Some(index) = self.index.get(name) {
            return *index;
        }
        self.index.insert(name.to_owned(), next);
        self.expanded.nodes.push(name.to_owned());
        next
    }

    fn one_way(&mut self, from: &str, to: &str, options: &LinkOptions, origin: &[Step]) {
        let (start, end) = (self.node(from), self.node(to));
        let rate = options.rate.map(|r| r.0);
        let speed = match (&options.trace, &options.schedule) {
            (Some(path), _) => Speed::Trace(self.scenario.directory.join(path)),
            (None, Some(steps)) => Speed::Schedule {
                initial: rate.or(steps.first().map(|s| s.rate.0)).unwrap_or_default(),
                steps: steps.iter().map(|s| (s.at.0, s.rate.0)).collect(),
                repeat: options.repeat.map(|t| t.0),
            },
            (None, None) => Speed::Constant(rate.unwrap_or_default()),
        };
        self.expanded.links.push(LinkSpec {
            name: format!("{from}>{to}"),
            from: start,
            to: end,
            speed,
            delay: options.delay.unwrap_or_default().0,
            delays: options.delays.clone().unwrap_or_default(),
            queue: options.queue.clone().unwrap_or_default(),
            loss: options.loss.clone().unwrap_or_default(),
            jitter: options.jitter.clone().unwrap_or_default(),
            down: options.down.clone().unwrap_or_default(),
            framing: options.framing.unwrap_or(self.scenario.framing).0.0,
            mtu: options.mtu.map(|mtu| u32::try_from(mtu.0.0).unwrap_or(u32::MAX)),
            record: options.record.clone().unwrap_or_default(),
            base_rtt: TimeDelta::ZERO,
            origin: origin.to_vec(),
        });
    }

    fn duplex(&mut self, a: &str, b: &str, options: &DuplexOptions, origin: &[Step]) {
        let back = options.options.overridden_by(&options.reverse.clone().unwrap_or_default());
        self.one_way(a, b, &options.options, origin);
        self.one_way(b, a, &back, origin);
    }

    /// The names that flows may use for groups of hosts.
    fn host_groups(&self) -> &'static [&'static str] {
        self.scenario.topology.as_ref().map(|topology| topology.layout().groups()).unwrap_or_default()
    }

    /// Hosts in the group `name` of the topology, unless a node has that name.
    fn group_size(&self, name: &str) -> Option<u32> {
        (!self.index.contains_key(name))
            .then(|| (0..).take_while(|i| self.index.contains_key(&format!("{name}.{i}"))).count() as u32)
    }

    fn flows(&mut self, problems: &mut Vec<Problem>) {
        let mut graph = Graph::new();
        for name in &self.expanded.nodes {
            graph.node(name);
        }
        for link in &self.expanded.links {
            graph.link(&self.expanded.nodes[link.from], &self.expanded.nodes[link.to], link.delay);
        }
        let mut router = Router::new(graph, Metric::Delay);
        let mut between = |from: usize, to: usize| -> Option<Vec<usize>> {
            let route = router.route(NodeId(from as u32), NodeId(to as u32)).ok()?;
            Some(route.into_iter().map(LinkId::index).collect())
        };
        let hosts: BTreeMap<&str, &TcpOptions> = self
            .scenario
            .host
            .iter()
            .filter_map(|host| Some((host.name.as_str(), host.endpoint.tcp()?)))
            .collect();
        let mut turns: BTreeMap<(&str, &str), u32> = BTreeMap::new();
        let groups = self.scenario.group_names();
        let sizes: BTreeMap<&str, u32> = (self.host_groups().iter())
            .filter_map(|name| self.group_size(name).map(|size| (*name, size)))
            .collect();
        for (i, flow) in self.scenario.flow.iter().enumerate() {
            let none = TcpOptions::default();
            let resolve = |host: &TcpOptions| {
                let level = flow.tcp.as_ref().unwrap_or(&none);
                let config = TcpOptions::resolve(&[&self.scenario.tcp, host, level]);
                let max_window = flow.max_window.map(|window| window.0).or(config.max_window);
                let max_rate = flow.max_rate.map(|rate| rate.0).or(config.max_rate);
                TcpConfig { max_window, max_rate, ..config }
            };
            // Once for each host with options of its own, and once for all others.
            let mut resolved: BTreeMap<Option<&str>, TcpConfig> = BTreeMap::new();
            for instance in 0..flow.count {
                let turn = turns.entry((&flow.from, &flow.to)).or_default();
                let mut end = |side: &str, name: &str| {
                    let host = match sizes.get(name) {
                        Some(size) => format!("{name}.{}", *turn % size.max(&1)),
                        None => name.to_owned(),
                    };
                    let found = self.index.get(&host).copied();
                    if found.is_none() && instance == 0 {
                        problems.push(self.unknown_node(entry("flow", i, &[side]), name));
                    }
                    found.map(|index| (host, index))
                };
                let (from, to) = (end("from", &flow.from), end("to", &flow.to));
                *turn += 1;
                let (Some((from_name, from)), Some((to_name, to))) = (from, to) else { break };
                if from == to {
                    problems.push(Problem {
                        path: entry("flow", i, &["to"]),
                        message: format!("the flow goes from `{from_name}` to itself"),
                        help: vec!["`from` and `to` must be different nodes".to_owned()],
                    });
                    break;
                }
                let (forward, reverse) = (between(from, to), between(to, from));
                let (Some(forward), Some(reverse)) = (&forward, &reverse) else {
                    let (a, b) =
                        if forward.is_none() { (&from_name, &to_name) } else { (&to_name, &from_name) };
                    problems.push(Problem {
                        path: entry("flow", i, &["to"]),
                        message: format!("no links lead from `{a}` to `{b}`"),
                        help: vec![
                            "data and acknowledgements need a way in both directions; a link with `between` is duplex"
                                .to_owned(),
                        ],
                    });
                    break;
                };
                let mut options = |host: &str| {
                    let own = hosts.get_key_value(host);
                    let config = resolved.entry(own.map(|(name, _)| *name));
                    config.or_insert_with(|| resolve(own.map_or(&none, |(_, own)| *own))).clone()
                };
                let transport = flow.transport();
                self.expanded.flows.push(FlowSpec {
                    name: format!("{}.{instance}", groups[i]),
                    group: groups[i].clone(),
                    entry: i,
                    from,
                    to,
                    application: flow.application(),
                    transport,
                    cc: (transport == Transport::Tcp).then(|| flow.cc.clone().unwrap_or_default()),
                    start: flow.start,
                    stop: flow.stop.map(|t| t.0),
                    tcp_from: options(&from_name),
                    tcp_to: options(&to_name),
                    class: flow.class,
                    record: flow.record.clone(),
                    forward: forward.clone(),
                    reverse: reverse.clone(),
                });
            }
        }
        let live: Vec<NodeId> = self
            .scenario
            .host
            .iter()
            .filter(|host| host.traffic().has_programs())
            .filter_map(|host| self.index.get(&host.name).map(|&node| NodeId(node as u32)))
            .collect();
        let delays: Vec<TimeDelta> = self.expanded.links.iter().map(|link| link.delay).collect();
        let ways = base_rtt::of_all_pairs(&mut router, &delays, &live);
        self.base_rtts(&delays, &ways);
    }

    fn unknown_node(&self, path: Vec<Step>, name: &str) -> Problem {
        let mut known: Vec<&str> = self.host_groups().to_vec();
        known.extend(self.expanded.nodes.iter().map(String::as_str));
        Problem {
            path,
            message: format!("there is no node `{name}`"),
            help: super::diagnostics::spelling_help(name, &known),
        }
    }

    /// Sets the links' round-trip times from those of the flows and of `ways`.
    fn base_rtts(&mut self, delays: &[TimeDelta], ways: &[base_rtt::Way]) {
        let Expanded { links, flows, .. } = &mut self.expanded;
        let mut largest = TimeDelta::ZERO;
        let mut cross = |route: &mut dyn Iterator<Item = usize>, rtt: TimeDelta| {
            largest = largest.max(rtt);
            for link in route {
                links[link].base_rtt = links[link].base_rtt.max(rtt);
            }
        };
        for flow in flows.iter() {
            let route = || flow.forward.iter().chain(&flow.reverse).copied();
            cross(&mut route(), route().fold(TimeDelta::ZERO, |sum, link| sum + delays[link]));
        }
        for (route, rtt) in ways {
            cross(&mut route.iter().copied(), *rtt);
        }
        for link in links.iter_mut().filter(|l| l.base_rtt.is_zero()) {
            link.base_rtt = largest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str) -> Expanded {
        Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|e| panic!("{e}")).expand()
    }

    const DUMBBELL: &str = r#"
        duration = "10s"
        [topology]
        kind = "dumbbell"
        rtt = "50ms"
        access = { delay = "5ms" }
        bottleneck = { rate = "10Mbit/s", queue = { kind = "droptail", limit = "1BDP" }, reverse = { rate = "1Mbit/s" } }
        [[flow]]
        name = "a"
        from = "left"
        to = "right"
        count = 2
        [[flow]]
        name = "b"
        from = "left"
        to = "right"
    "#;

    #[test]
    fn a_dumbbell_gives_each_flow_hosts_of_its_own() {
        let expanded = expand(DUMBBELL);
        let names: Vec<&str> = expanded.flows.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["a.0", "a.1", "b.0"]);
        let hosts: Vec<&str> = expanded.flows.iter().map(|f| expanded.nodes[f.from].as_str()).collect();
        assert_eq!(hosts, ["left.0", "left.1", "left.2"]);
        let path: Vec<&str> =
            expanded.flows[2].forward.iter().map(|&l| expanded.links[l].name.as_str()).collect();
        assert_eq!(path, ["left.2>r1", "r1>r2", "r2>right.2"]);
        // 2 + 6 one-way links.
        assert_eq!(expanded.links.len(), 2 + 3 * 4);
        let middle = &expanded.links[0];
        assert_eq!((middle.delay, middle.base_rtt), (TimeDelta::from_millis(15), TimeDelta::from_millis(50)));
        assert_eq!(expanded.links[1].speed, Speed::Constant(Rate::from_bps(1_000_000)));
        assert_eq!(expanded.links[2].speed, Speed::Constant(Rate::from_bps(100_000_000)));
    }

    #[test]
    fn a_parking_lot_maps_cross_flows_over_its_hops() {
        let expanded = expand(
            r#"
            duration = "10s"
            topology = { kind = "parking-lot", hops = 3, hop = { rate = "10Mbit/s", delay = "10ms" } }
            flow = [{ name = "long", from = "left.0", to = "right.0" },
                    { name = "cross", from = "in", to = "out", count = 6 }]
            "#,
        );
        let hops: Vec<usize> = expanded.flows.iter().map(|f| f.forward.len()).collect();
        assert_eq!(hops, [5, 3, 3, 3, 3, 3, 3]);
        let starts: Vec<&str> = expanded.flows.iter().map(|f| expanded.nodes[f.from].as_str()).collect();
        assert_eq!(starts, ["left.0", "in.0", "in.1", "in.2", "in.0", "in.1", "in.2"]);
    }
}
