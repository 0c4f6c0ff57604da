//! Flow instances: who sends to whom, when, and by which routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_core::random::mix;
use warpline_core::{LinkId, NodeId, Rate, Stream, Streams, TimeDelta, Timestamp};
use warpline_net::routing::{Metric, Router, RoutingError};
use warpline_transport::media;
use warpline_transport::tcp::TcpConfig;

use super::super::application::{App, Application, Arrivals};
use super::super::cc::Cc;
use super::super::document::entry;
use super::super::flow::{Flow, Transport};
use super::super::host::HostsByName;
use super::super::multipath;
use super::super::pattern::{self, Pattern, Target};
use super::super::problem::Problem;
use super::super::routing::RoutingKind;
use super::super::tcp::TcpOptions;
use super::super::{Scenario, base_rtt};
use super::network::{Network, base_rtts};
use super::{Arrival, Expanded, FlowSpec, Links, RouteSet, Routes, Speed, SubflowOf};

/// Flows that a scenario may have. Each takes a few kilobytes.
const MOST_FLOWS: usize = 4_000_000;
/// Transfers that app = "arrivals" may make in a run. Each takes a few hundred bytes.
const MOST_ARRIVALS: f64 = 30e6;

/// Adds the flows to the nodes and links of `network`, noting what is left out.
pub(super) fn expand(mut network: Network<'_>, problems: &mut Vec<Problem>) -> Expanded {
    let scenario = network.scenario;
    let groups = scenario.group_names();
    let streams = Streams::new(scenario.seed);
    let hosts = scenario.hosts_by_name();
    let any_arrivals = scenario.flow.iter().any(|flow| flow.app == App::Arrivals);
    let rates = if any_arrivals { rates(&network) } else { Vec::new() };
    let mut turns: BTreeMap<(&str, &str), u32> = BTreeMap::new();
    let mut sides: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for name in scenario.flow.iter().flat_map(|flow| [flow.from.as_str(), flow.to.as_str()]) {
        let nodes = || network.group(name).or_else(|| Some(vec![network.find(name)?])).unwrap_or_default();
        sides.entry(name).or_insert_with(nodes);
    }
    for (i, flow) in scenario.flow.iter().enumerate() {
        let unknown = [("from", &flow.from), ("to", &flow.to)]
            .into_iter()
            .filter(|(_, name)| sides[name.as_str()].is_empty());
        let unknown: Vec<Problem> =
            unknown.map(|(side, name)| unknown_node(&network, i, side, name)).collect();
        if !unknown.is_empty() {
            problems.extend(unknown);
            continue;
        }
        let (from, to) = (&sides[flow.from.as_str()], &sides[flow.to.as_str()]);
        let taken = turns.entry((&flow.from, &flow.to)).or_default();
        let mut stream = streams.stream(&format!("flow.{}.pattern", groups[i]));
        let pattern = flow.pattern();
        // Before there is a list of them, for which there may be no memory.
        let wanted = pattern.most_senders(from.len(), flow.count);
        if wanted > MOST_FLOWS {
            problems.push(too_many(i, flow, wanted));
            continue;
        }
        let senders = match pattern::senders(pattern, (from, to), *taken, flow.count, &mut stream) {
            Ok(senders) => senders,
            Err((key, message, help)) => {
                problems.push(Problem { path: entry("flow", i, &[key]), message, help: vec![help] });
                continue;
            }
        };
        if pattern == Pattern::Turns {
            *taken = taken.saturating_add(flow.count);
        }
        let made = Instances {
            flow,
            number: i,
            group: groups[i].as_str().into(),
            to,
            streams: &streams,
            hosts: &hosts,
            rates: &rates,
        };
        if let Err(problem) = made.add(&mut network, &senders) {
            problems.push(problem);
        }
    }
    let Network { graph, kinds, mut flows, .. } = network;
    let mut router = Router::new(graph, Metric::Delay);
    let (routes, unreachable) = route(scenario, &streams, &mut router, &mut flows);
    problems.extend(unreachable);
    let live: Vec<NodeId> = (scenario.host.iter())
        .filter(|host| host.traffic().has_programs())
        .filter_map(|host| router.graph().find(&host.name))
        .collect();
    let delays: Vec<TimeDelta> = match live.is_empty() {
        true => Vec::new(),
        false => router.graph().edges().iter().map(|edge| kinds[edge.kind as usize].delay).collect(),
    };
    let ways = base_rtt::of_all_pairs(&mut router, &delays, &live);
    // What finding routes took is free from here on.
    let (nodes, edges) = router.into_graph().into_parts();
    let mut expanded = Expanded { nodes, links: Links::new(edges, kinds), flows, routes };
    base_rtts(&mut expanded, &ways);
    expanded
}

fn unknown_node(network: &Network<'_>, flow: usize, side: &str, name: &str) -> Problem {
    let mut known: Vec<&str> = network.host_groups().to_vec();
    known.extend(network.graph.names().iter());
    Problem {
        path: entry("flow", flow, &[side]),
        message: format!("there is no node `{name}`"),
        help: crate::diagnostics::spelling_help(name, &known),
    }
}

/// That entry `number` would make so many flows.
fn too_many(number: usize, flow: &Flow, flows: usize) -> Problem {
    let help = "app = \"arrivals\" carries any number of transfers between hosts of a group as one flow for each sender";
    Problem {
        path: entry("flow", number, &[if flow.pattern.is_some() { "pattern" } else { "count" }]),
        message: format!("{flows} flows are more than a scenario may have: {MOST_FLOWS}"),
        help: vec![help.to_owned()],
    }
}

/// The instances of a `[[flow]]`.
struct Instances<'a> {
    flow: &'a Flow,
    /// Its place among the flows.
    number: usize,
    group: Arc<str>,
    /// The nodes that may receive.
    to: &'a [usize],
    streams: &'a Streams,
    hosts: &'a HostsByName<'a>,
    /// The rate of each node's fastest link, if there are arrivals.
    rates: &'a [Rate],
}

impl Instances<'_> {
    /// Adds them all; their routes are still to be found.
    fn add(&self, network: &mut Network<'_>, senders: &[(usize, Target)]) -> Result<(), Problem> {
        let (flow, scenario) = (self.flow, network.scenario);
        let problem = |key: &str, message: String, help: &str| Problem {
            path: entry("flow", self.number, &[key]),
            message,
            help: vec![help.to_owned()],
        };
        let application = Arc::new(flow.application());
        let arrivals = match &*application {
            Application::Arrivals(own) => Some(*own),
            _ => None,
        };
        let instances = senders.iter().map(|(_, target)| match target {
            Target::Others if arrivals.is_none() => self.to.len(),
            _ => 1,
        });
        let paths = self.paths(network)?;
        let instances = instances.sum::<usize>() * paths.len();
        if network.flows.len() + instances > MOST_FLOWS {
            return Err(too_many(self.number, flow, instances));
        }
        let rates = self.rates;
        if let Some(own) = arrivals {
            if let Some(slow) = senders.iter().find(|(from, _)| rates[*from].as_bps() == 0) {
                let message = format!(
                    "`{}` has no link with a constant rate, of which `load` would be a share",
                    &network.graph.names()[slow.0]
                );
                return Err(problem("load", message, "give the links of senders a `rate`"));
            }
            let seconds =
                flow.stop.map_or(scenario.duration.0, |stop| stop.0.min(scenario.duration.0)).as_secs_f64();
            let number: f64 = senders.iter().map(|(from, _)| seconds / mean_gap(&own, rates[*from])).sum();
            if number > MOST_ARRIVALS {
                let message =
                    format!("some {number:.0} transfers are more than a run may make: {MOST_ARRIVALS:.0}");
                return Err(problem(
                    "load",
                    message,
                    "shorten `duration`, lower `load`, or take larger transfers",
                ));
            }
        }
        let mut options = Options { scenario, flow, hosts: self.hosts, resolved: BTreeMap::new() };
        let transport = flow.transport();
        let cc = match flow.app {
            App::Media => Some(flow.cc.clone().unwrap_or(Cc::Media(media::Algorithm::default()))),
            _ => (transport == Transport::Tcp).then(|| flow.cc.clone().unwrap_or_default()),
        };
        let mut instance = 0;
        for &(from, target) in senders {
            let others: Vec<usize> = match target {
                Target::One(to) => vec![to],
                Target::Others if arrivals.is_some() => {
                    self.to.iter().copied().find(|&to| to != from).into_iter().collect()
                }
                Target::Others => self.to.iter().copied().filter(|&to| to != from).collect(),
            };
            for to in others {
                let nodes = network.graph.names();
                if from == to {
                    let message = format!("the flow goes from `{}` to itself", &nodes[from]);
                    let help = "`from` and `to` must be different nodes; within a group, say a `pattern`: \"permutation\", \"all-to-all\", \"incast\", \"random\"";
                    return Err(problem("to", message, help));
                }
                let between = multipath::ends(self.hosts, flow, [&nodes[from], &nodes[to]]);
                between.map_err(|(key, message, help)| problem(key, message, help))?;
                let mut spec = FlowSpec {
                    name: format!("{}.{instance}", self.group),
                    group: Arc::clone(&self.group),
                    entry: self.number,
                    from,
                    to,
                    several: target == Target::Others && arrivals.is_some(),
                    application: Arc::clone(&application),
                    transport,
                    cc: cc.clone(),
                    start: flow.start,
                    stop: flow.stop.map(|t| t.0),
                    tcp_from: options.of(&nodes[from]),
                    tcp_to: options.of(&nodes[to]),
                    class: flow.class,
                    dscp: flow.dscp.0,
                    record: flow.record.clone(),
                    via: Vec::new(),
                    subflow: None,
                    forward: RouteSet::default(),
                    reverse: RouteSet::default(),
                    arrivals: Vec::new(),
                };
                if let Some(multipath) = &flow.multipath {
                    let (count, scheduler) = (paths.len() as u32, multipath.scheduler.0);
                    network.flows.extend((0..count).zip(&paths).map(|(number, via)| FlowSpec {
                        name: format!("{}.{number}", spec.name),
                        via: via.clone(),
                        subflow: Some(SubflowOf { number, count, scheduler }),
                        ..spec.clone()
                    }));
                    instance += 1;
                    continue;
                }
                spec.via = paths.first().cloned().unwrap_or_default();
                if let Some(own) = &arrivals {
                    let receivers = if spec.several { self.to } else { std::slice::from_ref(&spec.to) };
                    let end = Timestamp::ZERO + spec.stop.unwrap_or(TimeDelta::MAX).min(scenario.duration.0);
                    let span = end.saturating_since(spec.begin(self.streams));
                    let mut stream = self.streams.stream(&format!("flow.{}.arrivals", spec.name));
                    spec.arrivals = draw(own, rates[from], span, (from, receivers), &mut stream);
                }
                network.flows.push(spec);
                instance += 1;
            }
        }
        Ok(())
    }

    /// The nodes that the flow passes: for each of its subflows, and once where it has none.
    fn paths(&self, network: &Network<'_>) -> Result<Vec<Vec<usize>>, Problem> {
        let (key, paths) = match &self.flow.multipath {
            Some(multipath) => (&["multipath", "paths"][..], &multipath.paths[..]),
            None => (&["via"][..], std::slice::from_ref(&self.flow.via)),
        };
        let node = |name: &String| {
            network.find(name).ok_or_else(|| {
                let known: Vec<&str> = network.graph.names().iter().collect();
                Problem {
                    path: entry("flow", self.number, key),
                    message: format!("there is no node `{name}`"),
                    help: crate::diagnostics::spelling_help(name, &known),
                }
            })
        };
        paths.iter().map(|path| path.iter().map(node).collect()).collect()
    }
}

/// The rate of each node's fastest link that has a constant one; zero where there is none.
fn rates(network: &Network<'_>) -> Vec<Rate> {
    let mut rates = vec![Rate::default(); network.graph.nodes()];
    for link in network.graph.edges() {
        if let Speed::Constant(rate) = network.kinds[link.kind as usize].speed {
            let known = &mut rates[link.from.index()];
            *known = rate.max(*known);
        }
    }
    rates
}

/// Mean seconds between two transfers of a sender whose link has this rate.
fn mean_gap(own: &Arrivals, rate: Rate) -> f64 {
    own.mean_size() * 8.0 / (own.load * rate.as_bps() as f64)
}

/// The transfers of a sender within `span`, to any of `receivers` but itself. Each is drawn by itself, so that the next never waits for one.
fn draw(
    own: &Arrivals,
    rate: Rate,
    span: TimeDelta,
    (from, receivers): (usize, &[usize]),
    stream: &mut Stream,
) -> Vec<Arrival> {
    let mean = mean_gap(own, rate);
    let mut arrivals = Vec::new();
    let mut at = TimeDelta::ZERO;
    loop {
        at += TimeDelta::from_secs_f64(stream.exponential(mean));
        if at >= span {
            arrivals.shrink_to_fit();
            return arrivals;
        }
        let size = own.draw_size(stream);
        // There is another: a flow to itself is refused.
        let to = loop {
            let to = receivers[stream.below(receivers.len() as u64) as usize];
            if to != from {
                break to as u32;
            }
        };
        arrivals.push(Arrival { at, size, to, forward: RouteSet::default(), reverse: RouteSet::default() });
    }
}

/// The TCP options of a flow's ends: made once for each host with options of its own, and once for all others.
struct Options<'a> {
    scenario: &'a Scenario,
    flow: &'a Flow,
    hosts: &'a HostsByName<'a>,
    resolved: BTreeMap<Option<&'a str>, Arc<TcpConfig>>,
}

impl Options<'_> {
    fn of(&mut self, node: &str) -> Arc<TcpConfig> {
        let own = self.hosts.find(node).and_then(|host| Some((host.name.as_str(), host.endpoint.tcp()?)));
        let config = self.resolved.entry(own.map(|(name, _)| name)).or_insert_with(|| {
            let none = TcpOptions::default();
            let (host, level) = (own.map_or(&none, |(_, own)| own), self.flow.tcp.as_ref().unwrap_or(&none));
            let config = TcpOptions::resolve(&[&self.scenario.tcp, host, level]);
            let max_window = self.flow.max_window.map(|window| window.0).or(config.max_window);
            let max_rate = self.flow.max_rate.map(|rate| rate.0).or(config.max_rate);
            Arc::new(TcpConfig { max_window, max_rate, ..config })
        });
        Arc::clone(config)
    }
}

/// Stands for the flow itself where a number is otherwise that of one of its arrivals.
const OWN: u32 = u32::MAX;

/// Finds the routes of all flows. A flow without one is left out, and noted if it is the first of its entry.
fn route(
    scenario: &Scenario,
    streams: &Streams,
    router: &mut Router,
    flows: &mut Vec<FlowSpec>,
) -> (Routes, Vec<Problem>) {
    let rule = scenario.routing();
    let mut routes = Routes::default();
    let keys: Vec<u64> = match rule {
        RoutingKind::First(_) => Vec::new(),
        _ => {
            flows.iter().map(|flow| streams.stream(&format!("flow.{}.route", flow.name)).next_u64()).collect()
        }
    };
    let mut failed: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    // In the order of destinations' gateways: each tree is made once, and need not be kept.
    let mut order: Vec<(u32, u32, u32, bool)> = Vec::new();
    for (number, flow) in (0u32..).zip(flows.iter()) {
        let gateway = |node: usize| router.gateway(NodeId(node as u32)).0;
        let arrivals = (0u32..).zip(&flow.arrivals).map(|(i, arrival)| (i, arrival.to as usize));
        for (i, to) in [(OWN, flow.to)].into_iter().chain(arrivals) {
            order.extend([(gateway(to), number, i, false), (gateway(flow.from), number, i, true)]);
        }
    }
    order.sort_unstable();
    for (_, number, arrival, back) in order {
        let flow = &mut flows[number as usize];
        let to = if arrival == OWN { flow.to } else { flow.arrivals[arrival as usize].to as usize };
        let (begin, end) = if back { (to, flow.from) } else { (flow.from, to) };
        let key = keys
            .get(number as usize)
            .map_or(0, |key| mix(key ^ mix(u64::from(arrival) * 2 + u64::from(back))));
        let found = match flow.via.is_empty() {
            true => find(router, rule, (begin, end), key).map_err(|_| (begin, end)),
            false => {
                let mut stops = flow.via.clone();
                if back {
                    stops.reverse();
                }
                stops.push(end);
                along(router, rule, begin, &stops, key).map(|route| vec![route])
            }
        };
        let set = match found {
            Ok(found) => routes.add(&found),
            Err(ends) => {
                failed.entry(number as usize).or_insert(ends);
                continue;
            }
        };
        let (forward, reverse) = match flow.arrivals.get_mut(arrival as usize) {
            Some(arrival) => (&mut arrival.forward, &mut arrival.reverse),
            None => (&mut flow.forward, &mut flow.reverse),
        };
        *if back { reverse } else { forward } = set;
    }
    let mut problems: Vec<(usize, Problem)> = Vec::new();
    for (number, (from, to)) in &failed {
        let number = flows[*number].entry;
        let nodes = router.graph().names();
        if problems.iter().any(|(other, _)| *other == number) {
            continue;
        }
        let flow = &scenario.flow[number];
        let key = match (&flow.multipath, flow.via.is_empty()) {
            (Some(_), _) => &["multipath", "paths"][..],
            (None, false) => &["via"],
            (None, true) => &["to"],
        };
        let problem = Problem {
            path: entry("flow", number, key),
            message: format!("no links lead from `{}` to `{}`", &nodes[*from], &nodes[*to]),
            help: vec![
                "data and acknowledgements need a way in both directions; a link with `between` is duplex"
                    .to_owned(),
            ],
        };
        problems.push((number, problem));
    }
    let mut number = 0..;
    flows.retain(|_| number.next().is_none_or(|number| !failed.contains_key(&number)));
    (routes, problems.into_iter().map(|(_, problem)| problem).collect())
}

/// The routes of a connection by the rule.
fn find(
    router: &mut Router,
    rule: RoutingKind,
    (from, to): (usize, usize),
    key: u64,
) -> Result<Vec<Vec<LinkId>>, RoutingError> {
    let (from, to) = (NodeId(from as u32), NodeId(to as u32));
    Ok(match rule {
        RoutingKind::First(_) => vec![router.route(from, to)?],
        RoutingKind::Ecmp(_) => vec![router.hashed_route(from, to, key)?],
        RoutingKind::Spray(own) => router.equal_routes(from, to, own.routes as usize, key)?,
    })
}

/// The route from `begin` through all of `stops`, the last of which is its end: over the link from one to the next where there is one, and
/// otherwise by the rule; a sender that sprays takes the one of its key. If there is no way from one to the next, these two.
fn along(
    router: &mut Router,
    rule: RoutingKind,
    begin: usize,
    stops: &[usize],
    key: u64,
) -> Result<Vec<LinkId>, (usize, usize)> {
    let rule = if matches!(rule, RoutingKind::Spray(_)) { RoutingKind::ecmp() } else { rule };
    let mut route = Vec::new();
    let mut from = begin;
    for &to in stops {
        match router.graph().link_between(NodeId(from as u32), NodeId(to as u32)) {
            Some(link) => route.push(link),
            None => {
                let leg = find(router, rule, (from, to), key).map_err(|_| (from, to))?;
                route.extend(leg.into_iter().flatten());
            }
        }
        from = to;
    }
    Ok(route)
}
