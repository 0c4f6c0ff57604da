//! Turns an expanded scenario into a network with hosts: names become numbers, and defaults become values.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use warpline_core::{FlowId, LinkId, NodeId, Streams, Timestamp};
use warpline_net::Network;
use warpline_net::routing;
use warpline_results::{capture_file, qlog_file};
use warpline_scenario::expand::{FlowSpec, SubflowOf};
use warpline_scenario::files::Files;
use warpline_scenario::plan::{endpoints, link_config, tool};
use warpline_scenario::{
    Application, Cc, Flow, FlowRecordKind, Host, HostsByName, LinkRecordKind, Protocol, Scenario, Traffic,
    Transport,
};
use warpline_transport::cc::{CcConfig, Controller};

use super::measure::LinkInfo;
use super::names::Names;
use super::parts::{self, Parts};
use super::used::Used;
use super::ways::Ways;
use super::{CustomCc, RunError, RunOptions, expected, fault_of};
use crate::hosts::app::{App, Bursts, Carrier};
use crate::hosts::media::MediaPlan;
use crate::hosts::routes::IdlePath;
use crate::hosts::web::Sessions;
use crate::hosts::wire::{Meets, Wire};
use crate::hosts::{FlowPlan, MakeController, Marking, ModelHosts, SubflowPlan};

/// Bytes of a web request: a GET with its usual headers.
const REQUEST: u64 = 350;

/// A network ready to run.
pub(super) struct Built {
    pub(super) network: Network,
    pub(super) world: ModelHosts,
    pub(super) links: Vec<LinkInfo>,
    pub(super) records: Records,
    pub(super) parts: Parts,
    /// Number of nodes.
    pub(super) nodes: usize,
}

/// What is recorded: the number and name of each flow and link, and in which form.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) flows: Vec<(FlowId, String, Vec<FlowRecordKind>)>,
    pub(super) links: Vec<(LinkId, String, Vec<LinkRecordKind>)>,
    /// The addresses that the scenario gives to hosts, which captures then show.
    pub(super) addresses: BTreeMap<NodeId, Ipv4Addr>,
}

/// Builds the network and hosts of a scenario.
pub(super) fn build(scenario: &Scenario, options: &RunOptions) -> Result<Built, RunError> {
    let (custom, cores) = (&options.custom_cc, options.cores);
    let expanded = scenario.expand();
    expected::check(scenario, &expanded)?;
    let hosts = scenario.hosts_by_name();
    let streams = Streams::new(scenario.seed);
    let mut files = Files::default();
    let mut network = Network::new();
    let mut links = Vec::new();
    let own = |host: &Host| {
        let node = expanded.nodes.find(&host.name)?;
        Some((NodeId(node), host.endpoint.addresses()?.address?.0))
    };
    let addresses = scenario.host.iter().filter_map(own).collect();
    let mut records = Records { addresses, ..Records::default() };
    let mut names = Names::default();
    let used = Used::new(&expanded, scenario);
    // Nodes with priority flow control.
    let counting: BTreeSet<usize> =
        expanded.links.iter().filter(|link| link.kind.pfc.is_some()).map(|link| link.to).collect();
    for link in (0..expanded.links.len() as u32).map(LinkId) {
        if !used.contains(link) {
            network.add_idle_link();
            continue;
        }
        let spec = expanded.links.at(link);
        let name = expanded.link_name(&spec);
        let (mut config, capacity) = link_config(&spec, name.clone(), scenario, &mut files)
            .map_err(|fault| fault_of("link", &name, &fault.message))?;
        config.counts_sources = counting.contains(&spec.from);
        config.changeable = options.control.is_some();
        let [from, to] = [spec.from, spec.to].map(|node| names.of(&expanded, node));
        links.push(LinkInfo { link, from, to, name: name.clone(), delay: config.delay, capacity });
        let id = network.add_link(config, &streams);
        if !spec.kind.record.is_empty() {
            records.links.push((id, name, spec.kind.record.clone()));
        }
    }

    let ways = Ways::new(&expanded, (&names, &used), &links, scenario, &mut network)?;
    if let Some(circle) = network.pfc_circle() {
        let names: Vec<&str> = circle.iter().map(|&link| network.link(link).name()).collect();
        return Err(RunError::Build(format!(
            "priority flow control could stop links for ever, as each can wait for the next: {}; leave `pfc` out at one of them, or change the routes",
            names.join(", ")
        )));
    }
    let mut world = ModelHosts::default();
    for (number, flow) in expanded.flows.iter().enumerate() {
        let kernel = |node: usize| hosts.traffic(&expanded.nodes[node]) == Traffic::Kernel;
        // Carried by two kernels, not here.
        if kernel(flow.from) && kernel(flow.to) {
            continue;
        }
        let mut spec =
            flow_spec((number, flow), &expanded.nodes, (scenario, &hosts), custom, &streams, &ways)?;
        if let Some(subflow) = flow.subflow {
            let lead = world.flows.len() - subflow.number as usize;
            spec = as_subflow(spec, subflow, world.flows.get(lead).map(|flow| flow.start), lead);
        }
        let app = if kernel(flow.from) {
            // A kernel generates the traffic; it is received here.
            App::Service { listening: false }
        } else if flow.subflow.is_some_and(|subflow| subflow.number > 0) {
            // The first subflow has the application.
            App::Stopped
        } else {
            application(&flow.application, flow, scenario, &mut files)?
        };
        let stream = streams.stream(&format!("flow.{}.app", flow.name));
        let id = world.add_flow(spec, app, stream);
        if !flow.record.is_empty() {
            records.flows.push((id, flow.name.clone(), flow.record.clone()));
        }
    }
    file_names(&records)?;
    let parts = parts::choose(cores, scenario, (&expanded, &used), (&mut network, &world, &links));
    Ok(Built { network, world, links, records, parts, nodes: expanded.nodes.len() })
}

/// Rejects records whose files would have the same name, on any file system.
fn file_names(records: &Records) -> Result<(), RunError> {
    let qlogs = records.flows.iter().filter(|(_, _, kinds)| kinds.contains(&FlowRecordKind::Qlog));
    let captures = records.links.iter().filter(|(_, _, kinds)| kinds.contains(&LinkRecordKind::Pcap));
    let files = qlogs.map(|(_, name, _)| (name, qlog_file(name, 0)));
    let files = files.chain(captures.map(|(_, name, _)| (name, capture_file(name))));
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    for (name, file) in files {
        if let Some(other) = taken.insert(file.to_lowercase(), name) {
            return Err(RunError::Build(format!(
                "the records of {other} and {name} would have the same name, {file}; rename one of them"
            )));
        }
    }
    Ok(())
}

/// The specification of a flow.
fn flow_spec(
    (number, flow): (usize, &FlowSpec),
    nodes: &routing::Names,
    (scenario, hosts): (&Scenario, &HostsByName<'_>),
    custom: &CustomCc,
    streams: &Streams,
    ways: &Ways<'_>,
) -> Result<FlowPlan, RunError> {
    let entry = &scenario.flow[flow.entry];
    let cc = flow.cc.clone().unwrap_or_default();
    // A sending kernel and a sending stack have their own congestion controls.
    let ends = [flow.from, flow.to].map(|node| hosts.traffic(&nodes[node]));
    let sender = ends[0];
    let socket_cc = entry.cc.as_ref().filter(|_| sender == Traffic::Stack).map(|cc| cc.name().to_owned());
    let of_stack = hosts.find(&nodes[flow.from]);
    // Both ends speak the same.
    let protocol = of_stack.map_or(Protocol::Tcp, |host| host.endpoint.about().protocol);
    let of_stack = of_stack.and_then(|host| host.endpoint.congestion_controls()?.first().copied());
    let cc_name = match of_stack {
        Some(usual) => socket_cc.clone().unwrap_or_else(|| usual.to_owned()),
        None => cc.name().to_owned(),
    };
    let cc = if matches!(sender, Traffic::Kernel | Traffic::Stack) { Cc::default() } else { cc };
    let start = flow.begin(streams);
    let end = Timestamp::ZERO + scenario.duration.0;
    let controller = controller(&cc, custom, &flow.name, streams)?;
    let tcp = flow.transport == Transport::Tcp;
    let configs = endpoints(flow, streams).map_err(|fault| fault_of("flow", &flow.name, &fault.message))?;
    Ok(FlowPlan {
        name: flow.name.clone(),
        group: Arc::clone(&flow.group),
        app: entry.app.name(),
        tcp,
        transport: if tcp { protocol.transport() } else { "udp" },
        cc: cc_name,
        from: (NodeId(flow.from as u32), ways.name(flow.from)),
        to: (
            NodeId(flow.to as u32),
            if flow.several { entry.to.as_str().into() } else { ways.name(flow.to) },
        ),
        routes: ways.routes(flow.forward, flow.reverse),
        idle: ways.idle(flow.forward, flow.reverse),
        ways: flow.arrivals.iter().map(|arrival| ways.of(arrival)).collect(),
        config: configs,
        controller,
        media: media(flow),
        subflow: None,
        via: via(flow, nodes),
        marking: Marking { class: flow.class, dscp: flow.dscp },
        start,
        stop: flow.stop.map_or(Timestamp::NEVER, |stop| (Timestamp::ZERO + stop).min(end)),
        skipping: entry.app.skipping(),
        record_tcp: flow.record.iter().any(|kind| matches!(kind, FlowRecordKind::Tcp | FlowRecordKind::Qlog)),
        record_latency: flow.record.contains(&FlowRecordKind::Latency),
        wire: wire(number, flow, entry, ends),
        socket_cc,
    })
}

/// The plan of a subflow, whose connection begins with number `lead`, at `start` if that is another.
fn as_subflow(spec: FlowPlan, subflow: SubflowOf, start: Option<Timestamp>, lead: usize) -> FlowPlan {
    let SubflowOf { number, count, scheduler } = subflow;
    let connection = spec.name.rsplit_once('.').map_or(&*spec.name, |(connection, _)| connection).into();
    let lead = FlowId(lead as u32);
    let plan = SubflowPlan { connection, lead, number: number as usize, count: count as usize, scheduler };
    // A single path has nothing to be compared with.
    let (start, idle) = (start.unwrap_or(spec.start), IdlePath::default());
    FlowPlan { subflow: Some(plan), start, idle, ..spec }
}

/// The nodes that the scenario lets a flow pass.
fn via(flow: &FlowSpec, nodes: &routing::Names) -> Option<String> {
    let names: Vec<&str> = flow.via.iter().map(|&node| &nodes[node]).collect();
    (!names.is_empty()).then(|| names.join(" > "))
}

/// The media stream of a flow, if it is one.
fn media(flow: &FlowSpec) -> Option<MediaPlan> {
    match (&*flow.application, &flow.cc) {
        (Application::Media(params), Some(Cc::Media(algorithm))) => {
            Some(MediaPlan { params: params.clone(), algorithm: *algorithm })
        }
        _ => None,
    }
}

/// How a flow of this entry goes over the wire, if it meets programs or stacks: `ends` says what makes the traffic at both ends.
fn wire(number: usize, flow: &FlowSpec, entry: &Flow, ends: [Traffic; 2]) -> Option<Wire> {
    let meets = match &*flow.application {
        _ if ends == [Traffic::Model; 2] => return None,
        _ if !ends.iter().any(|end| end.has_programs()) => Meets::Host,
        Application::Source(source) => Meets::Users(entry.app, source.size.map(|size| size.0)),
        Application::Http(http) => Meets::Users(entry.app, http.size.map(|size| size.0)),
        _ if entry.app.is_service() => Meets::Users(entry.app, None),
        // Data that a kernel generates is received here.
        _ if ends[0] == Traffic::Kernel => Meets::Sender,
        _ => Meets::Program,
    };
    Some(Wire {
        port: entry.port.unwrap_or_else(|| guest_port(number)),
        ipv6: entry.ipv6,
        verify: entry.verify,
        meets,
    })
}

/// The port of a flow that guests carry by themselves; `number` is the flow's number in the expanded scenario.
pub(super) fn guest_port(number: usize) -> u16 {
    /// iperf's port; other flows get the following ports.
    const FIRST: usize = 5001;
    (FIRST + number % (usize::from(u16::MAX) - FIRST)) as u16
}

/// Makes the congestion controls of a flow's connections.
fn controller(cc: &Cc, custom: &CustomCc, flow: &str, streams: &Streams) -> Result<MakeController, RunError> {
    // Of a stream that only this flow draws from.
    let seed = streams.stream(&format!("flow.{flow}.cc")).next_u64();
    let name = match cc {
        Cc::BuiltIn(algorithm) => {
            let algorithm = *algorithm;
            return Ok(Arc::new(move |config| algorithm.build(&CcConfig { seed, ..config.cc_config() })));
        }
        // The stream has it, not a connection.
        Cc::Media(_) => return controller(&Cc::default(), custom, flow, streams),
        Cc::Custom { name } => name,
    };
    let Some(factory) = custom.0.get(name).cloned() else {
        let known: Vec<&str> = custom.0.keys().map(String::as_str).collect();
        return Err(RunError::Build(format!(
            "flow {flow}: unknown congestion control `{name}`; a custom one is a Python class that is passed \
             to run() ({})",
            if known.is_empty() { "none was".to_owned() } else { format!("given: {}", known.join(", ")) }
        )));
    };
    Ok(Arc::new(move |config| Controller::Boxed(factory(&CcConfig { seed, ..config.cc_config() }))))
}

/// The application of a flow.
fn application(
    app: &Application,
    flow: &FlowSpec,
    scenario: &Scenario,
    files: &mut Files,
) -> Result<App, RunError> {
    let carrier = match flow.transport {
        Transport::Udp => Carrier::Udp,
        Transport::Tcp => Carrier::Tcp { open: false },
    };
    Ok(match app {
        Application::Bulk(_) => App::Bulk { started: false },
        Application::Cap(_) | Application::Treno(_) => {
            match tool(flow).map_err(|fault| fault_of("flow", &flow.name, &fault.message))? {
                Some(tool) => App::Measure { tool, started: false },
                None => App::Bulk { started: false },
            }
        }
        Application::Transfer(own) => App::Transfer {
            size: own.size.0,
            left: if own.transfers == 0 { u32::MAX } else { own.transfers },
            pause: own.pause,
            next: Timestamp::ZERO,
        },
        Application::Cbr(own) => {
            App::Rate { carrier, bytes: own.packet_size.0, rate: own.rate, beat: None, bursts: None }
        }
        Application::Onoff(own) => {
            let bursts = Bursts {
                mean_on: own.mean_on.as_secs_f64(),
                mean_off: own.mean_off.as_secs_f64(),
                shape: own.shape,
                until: Timestamp::ZERO,
            };
            App::Rate { carrier, bytes: own.packet_size.0, rate: own.rate, beat: None, bursts: Some(bursts) }
        }
        Application::Poisson(own) => {
            // The packet size includes the headers.
            let headers = u64::from(warpline_core::packet::IPV4_HEADER + warpline_core::packet::UDP_HEADER);
            App::Messages {
                carrier,
                bytes: own.message_size.0 + if carrier == Carrier::Udp { headers } else { 0 },
                mean: 1.0 / own.message_rate,
                next: None,
                written: 0,
                under_way: Default::default(),
            }
        }
        Application::Media(_) => App::Media { started: false },
        Application::Arrivals(_) => {
            let entries = flow.arrivals.iter().map(|arrival| (arrival.at, arrival.size.0)).collect();
            App::Log { entries, start: None, next: 0, request: 0 }
        }
        Application::Web(own) => match &own.table.access_log {
            Some(path) => {
                let fail = |reason| RunError::Build(format!("flow {}: {path}: {reason}", flow.name));
                let entries = files.log(&scenario.directory.join(path)).map_err(fail)?;
                App::Log { entries, start: None, next: 0, request: REQUEST }
            }
            None => App::Web(Box::new(Sessions::new(own.table.model(), REQUEST))),
        },
        // Requests run inside the guests.
        Application::Request(_)
        | Application::Discard(_)
        | Application::Echo(_)
        | Application::Source(_)
        | Application::Http(_) => App::Service { listening: false },
    })
}
