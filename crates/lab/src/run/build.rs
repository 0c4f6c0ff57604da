//! From a scenario spelt out to a network with hosts: every name has become a number, every default a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use warpline_capacity::{CapOptions, HEADERS, MAX_DURATION, TrenoOptions};
use warpline_core::{Bytes, FlowId, LinkId, NodeId, Rate, Streams, TimeDelta, Timestamp};
use warpline_net::jitter::{JitterConfig, JitterKind};
use warpline_net::loss::{LossConfig, LossKind};
use warpline_net::mahimahi::Trace;
use warpline_net::qdisc::Sizing;
use warpline_net::schedule::{RateSchedule, Steps};
use warpline_net::{LinkConfig, Network, RateConfig, RouteId};
use warpline_results::{capture_file, qlog_file};
use warpline_transport::cc::{Algorithm, Controller};
use warpline_transport::tcp::{InitialWindow, LossRecovery, RtoVariance, TcpConfig};

use super::faults::Fault;
use super::measure::LinkInfo;
use super::{CustomCc, RunError};
use crate::hosts::app::{App, Bursts, Carrier};
use crate::hosts::measure::Tool;
use crate::hosts::web::Sessions;
use crate::hosts::wire::Wire;
use crate::hosts::{FlowSpec, MakeController, World};
use crate::scenario::expand::{FlowSpec as ExpandedFlow, LinkSpec, Speed};
use crate::scenario::files;
use crate::scenario::{
    self, Application, Cc, FlowRecordKind, Jitter, LinkRecordKind, Loss, Recovery, Scenario, TcpOptions,
    Transport,
};

/// The key of a link's trace file.
pub(super) const TRACE: &str = "trace";
/// Bytes of a web request: a GET with its usual headers.
const REQUEST: u64 = 350;

/// A network ready to run.
pub(super) struct Built {
    pub(super) network: Network,
    pub(super) world: World,
    pub(super) links: Vec<LinkInfo>,
    pub(super) records: Records,
}

/// What is to be recorded: the number and the name of each flow and link, and how.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub(super) flows: Vec<(FlowId, String, Vec<FlowRecordKind>)>,
    pub(super) links: Vec<(LinkId, String, Vec<LinkRecordKind>)>,
}

/// What a link could carry.
#[derive(Clone, Debug)]
pub(in crate::run) enum Capacity {
    Constant(Rate),
    Scheduled(RateSchedule),
    /// The opportunities of a trace.
    Trace(Arc<Trace>),
}

impl Capacity {
    /// Its mean rate between two instants.
    pub(super) fn rate_between(&self, from: Timestamp, to: Timestamp) -> Rate {
        match self {
            Capacity::Constant(rate) => *rate,
            Capacity::Scheduled(schedule) => schedule.mean_rate(from, to),
            Capacity::Trace(trace) => trace.rate_between(from, to),
        }
    }

    /// Its mean rate in the long run, by which queues are sized; that of a schedule until `end`.
    fn mean(&self, end: Timestamp) -> Rate {
        match self {
            Capacity::Trace(trace) => trace.mean_rate(),
            other => other.rate_between(Timestamp::ZERO, end),
        }
    }
}

/// Builds the network and hosts of a scenario.
pub(super) fn build(scenario: &Scenario, custom: &CustomCc) -> Result<Built, RunError> {
    let expanded = scenario.expand();
    let streams = Streams::new(scenario.seed);
    let mut network = Network::new();
    let mut links = Vec::with_capacity(expanded.links.len());
    let mut records = Records::default();
    for spec in &expanded.links {
        let (config, capacity) = link_config(spec, scenario).map_err(|fault| fault.of_link(&spec.name))?;
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

    let mut world = World::default();
    for (number, flow) in expanded.flows.iter().enumerate() {
        // What guests send each other is their own business.
        if scenario.is_guest(&expanded.nodes[flow.from]) && scenario.is_guest(&expanded.nodes[flow.to]) {
            continue;
        }
        let spec = flow_spec((number, flow), &expanded.nodes, scenario, custom, &streams, &mut network)?;
        let app = if scenario.is_guest(&expanded.nodes[flow.from]) {
            // The guest makes the traffic; here it is taken.
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

/// Refuses records whose files would have the same name, on any system's disk.
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

/// The network's form of a link, and what it could carry.
pub(super) fn link_config(spec: &LinkSpec, scenario: &Scenario) -> Result<(LinkConfig, Capacity), Fault> {
    let (rate, capacity) = speed(spec, scenario)?;
    // The least is the link's: what looks ahead relies on it.
    let delay = spec.delays.iter().fold(spec.delay, |least, step| least.min(step.delay.0));
    let more = |whole: TimeDelta| whole.saturating_sub(delay);
    let steps: Vec<_> = spec.delays.iter().map(|step| (step.at.0, more(step.delay.0))).collect();
    let detour = (!steps.is_empty()).then(|| Steps::new(more(spec.delay), &steps, None)).transpose();
    let config = LinkConfig {
        name: spec.name.clone(),
        from: NodeId(spec.from as u32),
        to: NodeId(spec.to as u32),
        rate,
        delay,
        detour: detour.map_err(|error| Fault::new(&["delays"], format!("delays: {error}")))?,
        qdisc: spec.queue.0.clone(),
        own_queue: None,
        sizing: sizing(spec, &capacity, scenario),
        loss: loss(&spec.loss),
        jitter: jitter(&spec.jitter),
        outages: outages(spec),
        framing: spec.framing as u32,
        record: !spec.record.is_empty(),
    };
    let jitter = config.jitter.as_ref().map_or(Ok(()), JitterConfig::validate);
    if let Some(fault) = config.qdisc.faults_on(&config.sizing).into_iter().next() {
        return Err(Fault::new(&["queue", fault.parameter], format!("queue: {fault}")));
    }
    for (key, checked) in [("loss", config.loss.validate()), ("jitter", jitter)] {
        checked.map_err(|error| Fault::new(&[key, error.parameter], format!("{key}: {error}")))?;
    }
    Ok((config, capacity))
}

/// How fast a link sends, and what that makes in all.
fn speed(spec: &LinkSpec, scenario: &Scenario) -> Result<(RateConfig, Capacity), Fault> {
    match &spec.speed {
        Speed::Constant(rate) => Ok((RateConfig::Constant(*rate), Capacity::Constant(*rate))),
        Speed::Schedule { initial, steps, repeat } => {
            let steps =
                Steps::new(*initial, steps, *repeat).map_err(|error| Fault::new(&["schedule"], error))?;
            let schedule = RateSchedule::new(steps);
            Ok((RateConfig::Scheduled(schedule.clone()), Capacity::Scheduled(schedule)))
        }
        Speed::Trace(path) => {
            // Relative to the scenario as its author sees it, whatever the directory that it is read from.
            let shown = path.strip_prefix(&scenario.directory).unwrap_or(path).display();
            let trace = files::trace(path)
                .map_err(|reason| Fault::new(&[TRACE], format!("trace {shown}: {reason}")))?;
            let trace = Arc::new(trace);
            Ok((RateConfig::Trace(Arc::clone(&trace)), Capacity::Trace(trace)))
        }
    }
}

fn outages(spec: &LinkSpec) -> Vec<(Timestamp, Timestamp)> {
    let mut outages: Vec<_> = spec
        .down
        .iter()
        .map(|down| (Timestamp::ZERO + down.at.0, Timestamp::ZERO + down.at.0 + down.duration.0))
        .filter(|(from, until)| from < until)
        .collect();
    outages.sort();
    // Outages that touch are one.
    outages.dedup_by(|later, earlier| {
        let touch = later.0 <= earlier.1;
        if touch {
            earlier.1 = earlier.1.max(later.1);
        }
        touch
    });
    outages
}

/// What a link's queue is sized by. What counts in full packets does so in packets as this link's queue counts them, with what the link adds to each.
fn sizing(spec: &LinkSpec, capacity: &Capacity, scenario: &Scenario) -> Sizing {
    let plain = Sizing::default();
    Sizing {
        rate: capacity.mean(Timestamp::ZERO + scenario.duration.0),
        base_rtt: spec.base_rtt,
        packet: plain.packet.saturating_add(spec.framing as u32),
    }
}

fn loss(loss: &Loss) -> LossConfig {
    let kind = match loss {
        Loss::None {} => LossKind::None,
        Loss::Bernoulli { probability } => LossKind::Bernoulli { p: *probability },
        Loss::Every { n } => LossKind::Every { n: *n, offset: 0 },
        Loss::List { packets } => {
            let mut packets = packets.clone();
            packets.sort_unstable();
            packets.dedup();
            LossKind::Listed { packets }
        }
        Loss::GilbertElliott { good_to_bad, bad_to_good, loss_good, loss_bad } => LossKind::GilbertElliott {
            p: *good_to_bad,
            r: *bad_to_good,
            loss_good: loss_good.unwrap_or(0.0),
            loss_bad: loss_bad.unwrap_or(1.0),
        },
    };
    LossConfig { kind, data_only: false }
}

fn jitter(jitter: &Jitter) -> Option<JitterConfig> {
    let (kind, reorder) = match jitter {
        Jitter::None {} => return None,
        Jitter::Uniform { min, max, reorder } => {
            (JitterKind::Uniform { low: min.map_or(TimeDelta::ZERO, |time| time.0), high: max.0 }, reorder)
        }
        Jitter::Normal { mean, stddev, reorder } => {
            (JitterKind::Normal { mean: mean.0, stddev: stddev.0 }, reorder)
        }
        Jitter::Exponential { mean, reorder } => (JitterKind::Exponential { mean: mean.0 }, reorder),
        Jitter::Pareto { mean, shape, reorder } => {
            (JitterKind::Pareto { mean: mean.0, shape: shape.unwrap_or(1.5) }, reorder)
        }
    };
    Some(JitterConfig { kind, max: None, reorder: reorder.unwrap_or(false) })
}

/// Everything about a flow.
fn flow_spec(
    (number, flow): (usize, &ExpandedFlow),
    nodes: &[String],
    scenario: &Scenario,
    custom: &CustomCc,
    streams: &Streams,
    network: &mut Network,
) -> Result<FlowSpec, RunError> {
    let mut route = |links: &[usize]| -> Result<RouteId, RunError> {
        let links: Vec<_> = links.iter().map(|&link| LinkId(link as u32)).collect();
        network.add_route(&links).map_err(|error| Fault::new(&[], error).of_flow(&flow.name))
    };
    let routes = (route(&flow.forward)?, route(&flow.reverse)?);
    let cc = flow.cc.clone().unwrap_or_default();
    let cc_name = cc.name().to_owned();
    // A guest's sender has its kernel's, and none here.
    let cc = if scenario.is_guest(&nodes[flow.from]) { Cc::default() } else { cc };
    let start = flow.start.pick(streams.stream(&format!("flow.{}.start", flow.name)).uniform());
    let end = Timestamp::ZERO + scenario.duration.0;
    let controller = controller(&cc, custom, &flow.name)?;
    let tcp = flow.transport == Transport::Tcp;
    let configs = endpoints(flow, streams).map_err(|fault| fault.of_flow(&flow.name))?;
    Ok(FlowSpec {
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

/// Where a flow meets programs, if it does.
fn wire(number: usize, flow: &ExpandedFlow, nodes: &[String], scenario: &Scenario) -> Option<Wire> {
    let meets =
        |node: usize| scenario.host.iter().any(|host| host.runs_programs() && host.name == nodes[node]);
    let entry = &scenario.flow[flow.entry];
    let service = match flow.application {
        Application::Service { app, size } => Some((app, size)),
        // What a guest sends by itself is taken here.
        _ if scenario.is_guest(&nodes[flow.from]) => Some((scenario::App::Discard, None)),
        _ => None,
    };
    (meets(flow.from) || meets(flow.to)).then(|| Wire {
        port: entry.port.unwrap_or_else(|| guest_port(number)),
        ipv6: entry.ipv6,
        service,
    })
}

/// The port of a flow, the one of that number in the scenario spelt out, that guests carry by themselves.
pub(super) fn guest_port(number: usize) -> u16 {
    /// iperf's, and what follows.
    const FIRST: usize = 5001;
    (FIRST + number % (usize::from(u16::MAX) - FIRST)) as u16
}

/// What makes the controllers of a flow's connections.
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

/// The TCP options of a flow's two ends.
pub(super) fn endpoints(flow: &ExpandedFlow, streams: &Streams) -> Result<(TcpConfig, TcpConfig), Fault> {
    let end = |options: &TcpOptions| {
        let config = TcpConfig { heartbeat: heartbeat(options, &flow.name, streams), ..tcp_config(options) };
        if flow.transport == Transport::Tcp {
            config.validate().map_err(|error| Fault::new(&["tcp", error.key], error))?;
        }
        Ok(config)
    };
    Ok((end(&flow.tcp_from)?, end(&flow.tcp_to)?))
}

/// The phase of the heartbeat that drives a flow's time-outs, if one does.
fn heartbeat(options: &TcpOptions, flow: &str, streams: &Streams) -> Option<TimeDelta> {
    let tick = options.tick.filter(|_| options.heartbeat == Some(true))?.0;
    Some(TimeDelta::from_nanos(streams.stream(&format!("flow.{flow}.heartbeat")).below(tick.as_nanos())))
}

/// A TCP endpoint's options from the scenario's, but for the heartbeat, whose phase is drawn ([`heartbeat`]).
fn tcp_config(options: &TcpOptions) -> TcpConfig {
    let default = TcpConfig::default();
    let time = |time: Option<scenario::Time>, default: TimeDelta| time.map_or(default, |time| time.0);
    let bytes = |size: Option<scenario::Size>| {
        size.map(|size| {
            let Bytes(bytes) = size.0;
            bytes
        })
    };
    let mss = bytes(options.mss).unwrap_or(u64::from(default.mss));
    let timestamps = options.timestamps.unwrap_or(default.timestamps);
    let payload = mss.saturating_sub(if timestamps { 12 } else { 0 });
    let delayed_ack = time(options.delayed_ack, default.delayed_ack.unwrap_or_default());
    TcpConfig {
        mss: mss.min(u64::from(u32::MAX)) as u32,
        initial_window: options
            .initial_window
            .map_or(default.initial_window, |window| InitialWindow::Bytes(window.bytes(payload))),
        initial_ssthresh: options.initial_ssthresh.map(|window| window.bytes(payload)),
        recovery: match options.recovery {
            Some(Recovery::Tahoe) => LossRecovery::Tahoe,
            Some(Recovery::Reno) => LossRecovery::Reno,
            Some(Recovery::Newreno) => LossRecovery::NewReno,
            Some(Recovery::Sack) | None => LossRecovery::Sack,
        },
        sack: options.sack.unwrap_or(default.sack),
        dsack: options.dsack.unwrap_or(default.dsack),
        timestamps,
        window_scaling: options.window_scaling.unwrap_or(default.window_scaling),
        ecn: options.ecn.unwrap_or(default.ecn),
        rack: options.rack.unwrap_or(default.rack),
        tlp: options.tlp.unwrap_or(default.tlp),
        prr: options.prr.unwrap_or(default.prr),
        limited_transmit: options.limited_transmit.unwrap_or(default.limited_transmit),
        undo: options.undo.unwrap_or(default.undo),
        nagle: options.nagle.unwrap_or(default.nagle),
        pacing: options.pacing.unwrap_or(default.pacing),
        delayed_ack: (!delayed_ack.is_zero()).then_some(delayed_ack),
        delayed_ack_segments: options.delayed_ack_segments.unwrap_or(default.delayed_ack_segments),
        min_rto: time(options.min_rto, default.min_rto),
        max_rto: time(options.max_rto, default.max_rto),
        initial_rto: time(options.initial_rto, default.initial_rto),
        rto_granularity: time(options.tick, default.rto_granularity),
        rto_variance: match options.rto_variance {
            Some(scenario::RtoVariance::Rfc6298) => RtoVariance::Rfc6298,
            Some(scenario::RtoVariance::Linux) => RtoVariance::Linux,
            None => default.rto_variance,
        },
        cwnd_validation: options.cwnd_validation.unwrap_or(default.cwnd_validation),
        quick_acks: options.quick_acks.unwrap_or(default.quick_acks),
        syn_retries: options.syn_retries.unwrap_or(default.syn_retries),
        data_retries: options.data_retries.unwrap_or(default.data_retries),
        pacing_gain: options.pacing_gain.unwrap_or(default.pacing_gain),
        pacing_gain_slow_start: options.pacing_gain_slow_start.unwrap_or(default.pacing_gain_slow_start),
        receive_buffer: bytes(options.receive_buffer).unwrap_or(default.receive_buffer),
        send_buffer: bytes(options.send_buffer),
        idle_restart: options.idle_restart.unwrap_or(default.idle_restart),
        dupack_threshold: options.dupack_threshold.unwrap_or(default.dupack_threshold),
        max_window_clamp: options.max_window.map(|window| window.bytes(payload)),
        max_rate: options.max_rate.map(|rate| rate.0),
        small_window_burst: options.small_window_burst.unwrap_or(default.small_window_burst),
        heartbeat: default.heartbeat,
        // No scenario can ask for these yet; named, so that a new option is not forgotten here.
        time_wait: default.time_wait,
        fin_timeout: default.fin_timeout,
    }
}

/// What `cap` is asked for, to emulate a flow's TCP until the flow or the run ends.
fn cap_options(config: &TcpConfig, cc: Algorithm) -> CapOptions {
    let default = CapOptions::default();
    CapOptions {
        duration: MAX_DURATION,
        cc,
        recovery: config.recovery,
        segment: config.mss.saturating_add(HEADERS),
        window: config.receive_buffer,
        initial_window: (config.cc_config().initial_window / config.payload()).min(1000) as u32,
        timestamps: config.timestamps,
        ecn: config.ecn,
        modern: config.rack,
        pacing: config.pacing,
        initial_rto: config.initial_rto,
        min_rto: config.min_rto,
        max_rto: config.max_rto,
        granularity: config.rto_granularity,
        delayed_ack: config.delayed_ack,
        quick_acks: config.quick_acks,
        max_rate: config.max_rate,
        ..default
    }
}

/// What `treno` is asked for: its own defaults, but where the flow says otherwise.
fn treno_options(tcp: &TcpOptions) -> TrenoOptions {
    let default = TrenoOptions::default();
    let time = |time: Option<scenario::Time>, default: TimeDelta| time.map_or(default, |time| time.0);
    let mss = tcp.mss.map_or(u64::from(default.mtu - HEADERS), |size| size.0.0);
    let segments = |window: scenario::Window| window.bytes(mss) / mss.max(1);
    TrenoOptions {
        duration: MAX_DURATION,
        patience: MAX_DURATION,
        mtu: mss.saturating_add(u64::from(HEADERS)).min(u64::from(u32::MAX)) as u32,
        max_window: tcp.receive_buffer.map_or(default.max_window, |size| size.0.0),
        initial_window: tcp.initial_window.map_or(default.initial_window, |w| segments(w).min(1000) as u32),
        dupacks: tcp.dupack_threshold.unwrap_or(default.dupacks),
        delayed_ack: tcp.delayed_ack.map(|time| time.0).filter(|time| !time.is_zero()),
        initial_rto: time(tcp.initial_rto, default.initial_rto),
        min_rto: time(tcp.min_rto, default.min_rto),
        max_rto: time(tcp.max_rto, default.max_rto),
        ..default
    }
}

/// What a flow measures with, if it is a measurement.
pub(super) fn tool(flow: &ExpandedFlow) -> Result<Option<Tool>, Fault> {
    let fail = |app: scenario::App, error: String| {
        Fault::new(&["app"], format!("app = \"{}\": {error}", app.name()))
    };
    Ok(match &flow.application {
        Application::Cap => {
            let cc = flow.cc.clone().unwrap_or_default();
            let algorithm = match &cc {
                Cc::BuiltIn(algorithm) => *algorithm,
                Cc::Custom { name } => {
                    let error = format!(
                        "it measures with the algorithms of this program, and `{name}` is not one of them"
                    );
                    return Err(fail(scenario::App::Cap, error));
                }
            };
            let mut options = cap_options(&tcp_config(&flow.tcp_from), algorithm);
            // Cap draws the phase itself.
            options.heartbeat = flow.tcp_from.heartbeat == Some(true);
            options.validate().map_err(|error| fail(scenario::App::Cap, error.to_string()))?;
            Some(Tool::Cap(Box::new(options)))
        }
        Application::Treno(tcp) => {
            let options = treno_options(tcp);
            options.validate().map_err(|error| fail(scenario::App::Treno, error.to_string()))?;
            Some(Tool::Treno(Box::new(options)))
        }
        _ => None,
    })
}

/// What a flow sends, ready to run.
fn application(app: &Application, flow: &ExpandedFlow, scenario: &Scenario) -> Result<App, RunError> {
    let carrier = match flow.transport {
        Transport::Udp => Carrier::Udp,
        Transport::Tcp => Carrier::Tcp { open: false },
    };
    Ok(match app {
        Application::Bulk => App::Bulk { started: false },
        Application::Cap | Application::Treno(_) => {
            match tool(flow).map_err(|fault| fault.of_flow(&flow.name))? {
                Some(tool) => App::Measure { tool, started: false },
                None => App::Bulk { started: false },
            }
        }
        Application::Transfer { size, transfers, pause } => App::Transfer {
            size: *size,
            left: transfers.unwrap_or(u32::MAX),
            pause: *pause,
            next: Timestamp::ZERO,
        },
        Application::Cbr { rate, packet_size } => {
            App::Rate { carrier, bytes: *packet_size, rate: *rate, beat: None, bursts: None }
        }
        Application::OnOff { rate, packet_size, mean_on, mean_off, shape } => {
            let bursts = Bursts {
                mean_on: mean_on.as_secs_f64(),
                mean_off: mean_off.as_secs_f64(),
                shape: *shape,
                until: Timestamp::ZERO,
            };
            App::Rate { carrier, bytes: *packet_size, rate: *rate, beat: None, bursts: Some(bursts) }
        }
        Application::Poisson { message_rate, message_size } => {
            // A datagram carries its headers too.
            let headers = u64::from(warpline_core::packet::IPV4_HEADER + warpline_core::packet::UDP_HEADER);
            App::Messages {
                carrier,
                bytes: message_size + if carrier == Carrier::Udp { headers } else { 0 },
                mean: 1.0 / message_rate,
                next: None,
                written: 0,
                under_way: Default::default(),
            }
        }
        Application::AccessLog(path) => {
            let fail = |reason| RunError::Build(format!("flow {}: {path}: {reason}", flow.name));
            let entries = files::log(&scenario.directory.join(path)).map_err(fail)?;
            App::Log { entries: entries.into(), start: None, next: 0, request: REQUEST }
        }
        Application::Web(model) => App::Web(Box::new(Sessions::new(model.clone(), REQUEST))),
        // Requests are the guests' own.
        Application::Service { .. } | Application::Request { .. } => App::Service { listening: false },
    })
}
