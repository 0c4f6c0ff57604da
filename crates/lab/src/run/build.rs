//! Turns an expanded scenario into a network with hosts: names become numbers, and defaults become values.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_core::{FlowId, LinkId, NodeId, Streams, Timestamp};
use warpline_net::{Network, RouteId};
use warpline_results::{capture_file, qlog_file};
use warpline_scenario::expand::FlowSpec;
use warpline_scenario::plan::{endpoints, link_config, tool};
use warpline_scenario::{
    self as scenario, Application, Cc, FlowRecordKind, LinkRecordKind, Scenario, Traffic, Transport, files,
};
use warpline_transport::cc::Controller;

use super::measure::LinkInfo;
use super::{CustomCc, RunError};
use crate::hosts::app::{App, Bursts, Carrier};
use crate::hosts::web::Sessions;
use crate::hosts::wire::Wire;
use crate::hosts::{FlowPlan, MakeController, ModelHosts};

/// Bytes of a web request: a GET with its usual headers.
const REQUEST: u64 = 350;

/// A network ready to run.
pub(super) struct Built {
    pub(super) network: Network,
    pub(super) world: ModelHosts,
    pub(super) links: Vec<LinkInfo>,
    pub(super) records: Records,
}

/// What is recorded: the number and name of each flow and link, and in which form.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) flows: Vec<(FlowId, String, Vec<FlowRecordKind>)>,
    pub(super) links: Vec<(LinkId, String, Vec<LinkRecordKind>)>,
}

/// Builds the network and hosts of a scenario.
pub(super) fn build(scenario: &Scenario, custom: &CustomCc) -> Result<Built, RunError> {
    let expanded = scenario.expand();
    let streams = Streams::new(scenario.seed);
    let mut network = Network::new();
    let mut links = Vec::with_capacity(expanded.links.len());
    let mut records = Records::default();
    for spec in &expanded.links {
        let (config, capacity) =
            link_config(spec, scenario).map_err(|fault| fault_of("link", &spec.name, &fault.message))?;
        let id = network.add_link(config, &streams);
        if !spec.record.is_empty() {
            records.links.push((id, spec.name.clone(), spec.record.clone()));
        }
        links.push(LinkInfo {
            from: expanded.nodes[spec.from].clone(),
            to: expanded.nodes[spec.to].clone(),
            capacity,
        });
    }

    let mut world = ModelHosts::default();
    for (number, flow) in expanded.flows.iter().enumerate() {
        let kernel = |node: usize| scenario.traffic(&expanded.nodes[node]) == Traffic::Kernel;
        // Carried by two kernels, not here.
        if kernel(flow.from) && kernel(flow.to) {
            continue;
        }
        let spec = flow_spec((number, flow), &expanded.nodes, scenario, custom, &streams, &mut network)?;
        let app = if kernel(flow.from) {
            // A kernel generates the traffic; it is received here.
            App::Service { listening: false }
        } else {
            application(&flow.application, flow, scenario)?
        };
        let stream = streams.stream(&format!("flow.{}.app", flow.name));
        let id = world.add_flow(spec, app, stream);
        if !flow.record.is_empty() {
            records.flows.push((id, flow.name.clone(), flow.record.clone()));
        }
    }
    file_names(&records)?;
    Ok(Built { network, world, links, records })
}

/// The error for a link or a flow that cannot be built.
pub(super) fn fault_of(kind: &str, name: &str, reason: &dyn std::fmt::Display) -> RunError {
    RunError::Build(format!("{kind} {name}: {reason}"))
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
    nodes: &[String],
    scenario: &Scenario,
    custom: &CustomCc,
    streams: &Streams,
    network: &mut Network,
) -> Result<FlowPlan, RunError> {
    let mut route = |links: &[usize]| -> Result<RouteId, RunError> {
        let links: Vec<_> = links.iter().map(|&link| LinkId(link as u32)).collect();
        network.add_route(&links).map_err(|error| fault_of("flow", &flow.name, &error))
    };
    let routes = (route(&flow.forward)?, route(&flow.reverse)?);
    let cc = flow.cc.clone().unwrap_or_default();
    let cc_name = cc.name().to_owned();
    // A sending kernel has its own congestion control.
    let cc = if scenario.traffic(&nodes[flow.from]) == Traffic::Kernel { Cc::default() } else { cc };
    let start = flow.start.pick(streams.stream(&format!("flow.{}.start", flow.name)).uniform());
    let end = Timestamp::ZERO + scenario.duration.0;
    let controller = controller(&cc, custom, &flow.name)?;
    let tcp = flow.transport == Transport::Tcp;
    let configs = endpoints(flow, streams).map_err(|fault| fault_of("flow", &flow.name, &fault.message))?;
    Ok(FlowPlan {
        name: flow.name.clone(),
        group: flow.group.clone(),
        app: scenario.flow[flow.entry].app.name(),
        tcp,
        cc: cc_name,
        from: (NodeId(flow.from as u32), nodes[flow.from].clone()),
        to: (NodeId(flow.to as u32), nodes[flow.to].clone()),
        routes,
        config: (configs.0.into(), configs.1.into()),
        controller,
        class: flow.class,
        start,
        stop: flow.stop.map_or(Timestamp::NEVER, |stop| (Timestamp::ZERO + stop).min(end)),
        record_tcp: flow.record.iter().any(|kind| matches!(kind, FlowRecordKind::Tcp | FlowRecordKind::Qlog)),
        record_latency: flow.record.contains(&FlowRecordKind::Latency),
        wire: wire(number, flow, nodes, scenario),
    })
}

/// The port of a flow for programs, if it has one.
fn wire(number: usize, flow: &FlowSpec, nodes: &[String], scenario: &Scenario) -> Option<Wire> {
    let meets = |node: usize| scenario.traffic(&nodes[node]).has_programs();
    let entry = &scenario.flow[flow.entry];
    let service = match &flow.application {
        Application::Source(source) => Some((entry.app, source.size.map(|size| size.0))),
        Application::Http(http) => Some((entry.app, http.size.map(|size| size.0))),
        _ if entry.app.is_service() => Some((entry.app, None)),
        // Data that a kernel generates is received here.
        _ if scenario.traffic(&nodes[flow.from]) == Traffic::Kernel => Some((scenario::App::Discard, None)),
        _ => None,
    };
    (meets(flow.from) || meets(flow.to)).then(|| Wire {
        port: entry.port.unwrap_or_else(|| guest_port(number)),
        ipv6: entry.ipv6,
        service,
    })
}

/// The port of a flow that guests carry by themselves; `number` is the flow's number in the expanded scenario.
pub(super) fn guest_port(number: usize) -> u16 {
    /// iperf's port; other flows get the following ports.
    const FIRST: usize = 5001;
    (FIRST + number % (usize::from(u16::MAX) - FIRST)) as u16
}

/// Makes the congestion controls of a flow's connections.
fn controller(cc: &Cc, custom: &CustomCc, flow: &str) -> Result<MakeController, RunError> {
    let name = match cc {
        Cc::BuiltIn(algorithm) => {
            let algorithm = *algorithm;
            return Ok(Arc::new(move |config| algorithm.build(&config.cc_config())));
        }
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
    Ok(Arc::new(move |config| Controller::Boxed(factory(&config.cc_config()))))
}

/// The application of a flow.
fn application(app: &Application, flow: &FlowSpec, scenario: &Scenario) -> Result<App, RunError> {
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
        Application::Web(own) => match &own.table.access_log {
            Some(path) => {
                let fail = |reason| RunError::Build(format!("flow {}: {path}: {reason}", flow.name));
                let entries = files::log(&scenario.directory.join(path)).map_err(fail)?;
                App::Log { entries: entries.into(), start: None, next: 0, request: REQUEST }
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
