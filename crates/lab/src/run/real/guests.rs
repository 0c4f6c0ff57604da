//! The guests of a scenario: which machines there are, what each is told to do, and what came of it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use warpline_core::{Streams, TimeDelta, Timestamp};
use warpline_guest::machine::Timing;
use warpline_guest::order::{
    ConditionOrder, Ending, FlowOrder, FlowReport, HostOrder, Order, ProgramOrder, ProgramReport, Report,
    Role, SAMPLES, Sample, TcpInfo,
};
use warpline_guest::{Console, Machine, MachineConfig, frame};
use warpline_results::{FlowRow, FlowSample, GuestMachine, ProgramRow, TransferRow};

use super::programs::{self, DIRECTORY, Evidence};
use super::readiness::{Readiness, machine_names};
use super::traffic::{Known, StreamKey, Traffic};
use crate::run::RunError;
use crate::run::addresses::AddressPlan;
use crate::run::build::guest_port;
use crate::scenario::{Application, ClockMode, Expanded, Expect, Host, Scenario};

/// Memory of a machine in bytes, and what each of its hosts and ends of flows adds. What is not used is not taken.
const MEMORY: u64 = 192 << 20;
const HOST_MEMORY: u64 = 1 << 20;
const FLOW_MEMORY: u64 = 4 << 20;
const MOST_MEMORY: u64 = 16 << 30;
/// Times the largest buffer of a connection.
const BUFFERS: u64 = 16;
/// Where programs are looked for: nothing of this process's environment reaches a guest, which would not be repeatable.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program, and where its order is.
#[derive(Debug)]
struct ProgramEntry {
    machine: usize,
    row: ProgramRow,
    expect: Expect,
}

/// One end of a flow: its machine, and the number of its order there.
type End = (usize, usize);

/// A flow that a guest sends by itself.
#[derive(Debug)]
struct FlowEntry {
    name: String,
    /// Its stream, where a guest takes it too.
    key: Option<StreamKey>,
    number: u32,
    sender: End,
    /// Who asks, where it is made of answers.
    asker: Option<End>,
    /// Bytes of each answer.
    answer: u64,
}

/// All guests of a run, before and after it.
#[derive(Debug)]
pub(super) struct Guests {
    /// Names and nodes of the hosts, machine by machine: in the order of the numbers that the lock-step has for them.
    pub(super) hosts: Vec<(String, u32)>,
    pub(super) machines: Vec<MachineConfig>,
    programs: Vec<ProgramEntry>,
    flows: Vec<FlowEntry>,
    known: Vec<(StreamKey, Option<Known>)>,
}

impl Guests {
    /// Machines that are not a scenario's. `hosts` are the names and nodes of their hosts, machine by machine.
    pub(super) fn of(hosts: Vec<(String, u32)>, machines: Vec<MachineConfig>) -> Self {
        Guests { hosts, machines, programs: Vec::new(), flows: Vec::new(), known: Vec::new() }
    }

    /// Refuses machines that make no sense.
    pub(super) fn check(&self) -> Result<(), RunError> {
        let mut machines = self.machines.iter();
        machines.try_for_each(MachineConfig::check).map_err(|error| RunError::Build(error.to_string()))
    }

    /// The guests of a scenario. `mtu` is what a node's interface takes.
    pub(super) fn plan(
        scenario: &Scenario,
        expanded: &Expanded,
        plan: &AddressPlan,
        readiness: &Readiness,
        mtu: impl Fn(u32) -> u32,
    ) -> Self {
        let timing = match scenario.clock.mode {
            ClockMode::Virtual => Timing::LockStep,
            ClockMode::Real | ClockMode::Dilated => Timing::Dilated,
        };
        let names = machine_names(scenario);
        let mut guests = Guests {
            hosts: Vec::new(),
            machines: Vec::new(),
            programs: Vec::new(),
            flows: Vec::new(),
            known: Vec::new(),
        };
        // Machine and number of each guest.
        let mut places: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        for (index, name) in names.iter().enumerate() {
            let mut order = Order {
                end: scenario.duration.0.as_nanos(),
                warmup: scenario.warmup.0.as_nanos(),
                interval: scenario.sample_interval.0.as_nanos(),
                ..Order::default()
            };
            for host in hosts_of(scenario, name) {
                let Some(node) = expanded.nodes.iter().position(|node| *node == host.name) else { continue };
                let number = order.hosts.len() as u32;
                places.insert(node as u32, (index, number));
                guests.hosts.push((host.name.clone(), node as u32));
                order.hosts.push(host_order(host, number, plan.of(node), mtu(node as u32)));
                guests.add_programs(scenario, host, (index, number), node, (plan, readiness), &mut order);
                add_conditions(host, number, readiness, &mut order);
            }
            guests.machines.push(MachineConfig {
                name: (*name).to_owned(),
                memory: 0,
                // Machines of one run must not have the same random numbers.
                seed: scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64),
                timing,
                cpu_share: hosts_of(scenario, name).find_map(|host| host.cpu_share),
                console: Console::File,
                order,
            });
        }
        guests.add_flows(scenario, expanded, (plan, readiness), &places);
        for machine in &mut guests.machines {
            let order = &machine.order;
            // Whoever lets connections have larger buffers gets memory for them: of all there is the kernel gives a sixteenth to TCP.
            let buffers = order.hosts.iter().map(|host| BUFFERS * largest_buffer(&host.sysctl)).max();
            let flow = FLOW_MEMORY.max(buffers.unwrap_or(0));
            let memory = MEMORY + HOST_MEMORY * order.hosts.len() as u64 + flow * order.flows.len() as u64;
            let own = hosts_of(scenario, &machine.name).find_map(|host| host.memory);
            // The kernel counts in whole megabytes of 2^20 bytes.
            machine.memory = own.map_or(memory.min(MOST_MEMORY), |size| size.0.0.next_multiple_of(1 << 20));
        }
        guests
    }

    fn add_programs(
        &mut self,
        scenario: &Scenario,
        host: &Host,
        (machine, number): (usize, u32),
        node: usize,
        (plan, readiness): (&AddressPlan, &Readiness),
        order: &mut Order,
    ) {
        let directory = scenario.base();
        for (index, program) in host.program.iter().enumerate() {
            let (words, shown) = programs::command(program, plan);
            let base = [("PATH", SEARCH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];
            let base = base.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let own = program.environment.iter().map(|(name, value)| (name.clone(), plan.substitute(value)));
            order.programs.push(ProgramOrder {
                host: number,
                words,
                environment: base.into_iter().chain(plan.environment(node)).chain(own).collect(),
                directory: directory.to_string_lossy().into_owned(),
                start: program.start.0.as_nanos(),
                stop: programs::signal(program.stop) as i32,
                collect: program.collect.clone(),
                output: format!("{}.{}", host.name, program.label(index)),
                after: readiness.waits_of(scenario, &host.name, index),
                told: readiness.told(&host.name, index),
            });
            let row = programs::row(&host.name, (index, program.label(index)), shown, program.expect);
            self.programs.push(ProgramEntry { machine, row, expect: program.expect });
        }
    }

    fn add_flows(
        &mut self,
        scenario: &Scenario,
        expanded: &Expanded,
        (plan, readiness): (&AddressPlan, &Readiness),
        places: &BTreeMap<u32, (usize, u32)>,
    ) {
        let streams = Streams::new(scenario.seed);
        let end = Timestamp::ZERO + scenario.duration.0;
        for (number, flow) in expanded.flows.iter().enumerate() {
            let entry = &scenario.flow[flow.entry];
            let (from, to) = (flow.from as u32, flow.to as u32);
            let (sender, sink) = (places.get(&from), places.get(&to));
            let carried = match (sender, sink) {
                (Some(_), _) => !entry.app.is_service(),
                (None, Some(_)) => entry.port.is_none(),
                (None, None) => false,
            };
            if !carried {
                continue;
            }
            let port = entry.port.unwrap_or_else(|| guest_port(number));
            let start = flow.start.pick(streams.stream(&format!("flow.{}.start", flow.name)).uniform());
            let stop = flow.stop.map(|stop| (Timestamp::ZERO + stop).min(end).as_nanos());
            let address = |node: usize| -> IpAddr {
                let (v4, v6) = plan.of(node);
                if entry.ipv6 { v6.into() } else { v4.into() }
            };
            let cc = entry.cc.as_ref().map(|cc| cc.name().to_owned());
            // Where the sender listens, it does so from the beginning, and who asks starts.
            let (sends, takes) = match flow.application {
                Application::Request { size, request_size, requests, pause } => {
                    let ask = Role::Request {
                        to: address(flow.from),
                        port,
                        request: request_size,
                        response: size,
                        count: requests.map(u64::from),
                        pause: pause.as_nanos(),
                    };
                    (Role::Serve { port }, ask)
                }
                Application::Transfer { size, .. } => {
                    (Role::Send { to: address(flow.to), port, bytes: Some(size) }, Role::Sink { port })
                }
                _ => (Role::Send { to: address(flow.to), port, bytes: None }, Role::Sink { port }),
            };
            let mut order = |place: Option<&(usize, u32)>, role: Role, cc: Option<String>| -> Option<End> {
                let &(machine, host) = place?;
                let (start, stop) = match role {
                    Role::Sink { .. } | Role::Serve { .. } => (0, None),
                    _ => (start.as_nanos(), stop),
                };
                let after = match role {
                    Role::Sink { .. } | Role::Serve { .. } => Vec::new(),
                    _ => readiness.waits_of_flow(&flow.name),
                };
                let flows = &mut self.machines[machine].order.flows;
                flows.push(FlowOrder { id: number as u32, host, role, start, stop, cc, after });
                Some((machine, flows.len() - 1))
            };
            let asks = matches!(takes, Role::Request { .. });
            let taken = order(sink, takes, None);
            let Some(sender) = order(sender, sends, cc) else { continue };
            let key = StreamKey { from, to, port, sends: asks };
            if taken.is_some() {
                let (name, group, app) = (flow.name.clone(), flow.group.clone(), entry.app.name());
                self.known.push((key, Some(Known { name, group, app, sampled: !asks })));
            }
            if asks {
                self.known.push((StreamKey { from: to, to: from, port, sends: false }, None));
            }
            self.flows.push(FlowEntry {
                name: flow.name.clone(),
                key: taken.map(|_| key),
                number: number as u32,
                sender,
                asker: taken.filter(|_| asks),
                answer: entry.size.map_or(0, |size| size.0.0),
            });
        }
    }

    /// Tells the traffic which streams are flows of the scenario.
    pub(super) fn introduce(&self, traffic: &mut Traffic) {
        for (key, known) in &self.known {
            traffic.name(*key, known.clone());
        }
    }

    /// Rows of all programs, and a message about each that did not end as it should. What they printed and what they are to leave is
    /// copied to `out`, the run directory. `share` is a file in a machine's share.
    pub(super) fn judge(
        &self,
        reports: &[Report],
        judged: bool,
        (out, evidence): (&Path, &Evidence),
        share: impl Fn(usize, &str) -> std::path::PathBuf,
    ) -> std::io::Result<(Vec<ProgramRow>, Vec<String>)> {
        let (mut rows, mut failures) = (Vec::new(), Vec::new());
        let mut next = vec![0; self.machines.len()];
        for entry in &self.programs {
            let index = next[entry.machine];
            next[entry.machine] += 1;
            let order = &self.machines[entry.machine].order.programs[index];
            let mut row = entry.row.clone();
            std::fs::create_dir_all(out.join(DIRECTORY))?;
            for (kind, name) in [("stdout", &row.stdout), ("stderr", &row.stderr)] {
                let from = share(entry.machine, &format!("{}.{kind}", order.output));
                if from.exists() {
                    std::fs::copy(from, out.join(name))?;
                } else {
                    std::fs::write(out.join(name), b"")?;
                }
            }
            if let Some(report) = reports.get(entry.machine).and_then(|report| report.programs.get(index)) {
                fill(&mut row, report);
                for name in &report.files {
                    let file = format!("{DIRECTORY}/{name}");
                    std::fs::copy(share(entry.machine, name), out.join(&file))?;
                    row.files.push(file);
                }
                let what = |missing: &String| format!("{}: {missing}", programs::name(&row.name, &row.host));
                failures.extend(report.missing.iter().filter(|_| judged).map(what));
            }
            let stderr = out.join(&row.stderr);
            failures.extend(programs::verdict(&mut row, entry.expect, judged, &stderr, evidence));
            rows.push(row);
        }
        Ok((rows, failures))
    }

    /// Adds what the kernels know to the rows of the flows that guests sent, and the errors of all that guests carried.
    pub(super) fn complete(
        &self,
        rows: &mut [FlowRow],
        traffic: &Traffic,
        reports: &[Report],
        warmup: TimeDelta,
        share: impl Fn(usize, &str) -> std::path::PathBuf,
    ) -> Vec<String> {
        let mut failures = Vec::new();
        let trips = self.round_trips(warmup, share);
        for flow in &self.flows {
            let number = flow.key.and_then(|key| traffic.number(key));
            let is_own = |row: &&mut FlowRow| match flow.key {
                Some(_) => Some(row.flow) == number,
                None => row.name == flow.name,
            };
            let row = rows.iter_mut().find(is_own);
            let (Some(row), Some(report)) = (row, end_of(reports, flow.sender)) else { continue };
            // The flow's, the host's or the kernel's own: it knows.
            row.cc = report.cc.clone().or(row.cc.take());
            let mut trips = trips.get(&flow.number).copied().unwrap_or_default();
            if trips.count == 0 {
                // It was over before it was looked at for the first time.
                trips.add(&report.last);
            }
            if trips.count > 0 {
                row.rtt_min_ms = Some(trips.min / 1e3);
                row.rtt_mean_ms = Some(trips.sum / trips.count as f64 / 1e3);
                row.rtt_max_ms = Some(trips.max / 1e3);
            }
            if flow.key.is_none() {
                continue;
            }
            row.end_s = report.finished.map(|at| at as f64 / 1e9);
            let Some(asker) = flow.asker.and_then(|asker| end_of(reports, asker)) else { continue };
            row.end_s = asker.finished.map(|at| at as f64 / 1e9);
            let counted = asker.requests.iter().filter(|request| request.asked >= warmup.as_nanos());
            let times: Vec<u64> =
                counted.clone().filter_map(|request| Some(request.answered? - request.asked)).collect();
            row.transfers = counted.count() as u64;
            row.transfers_completed = times.len() as u64;
            let mean = times.iter().sum::<u64>() as f64 / 1e9 / times.len() as f64;
            row.completion_mean_s = (!times.is_empty()).then_some(mean);
        }
        for (machine, report) in self.machines.iter().zip(reports) {
            for (order, end) in machine.order.flows.iter().zip(&report.flows) {
                if let Some(error) = &end.error {
                    let host = &machine.order.hosts[order.host as usize].name;
                    failures.push(format!("guest {host}: the flow on port {}: {error}", port(&order.role)));
                }
            }
        }
        failures
    }

    /// What the kernels' samples say of round-trip times after warm-up, by the number of the flow. `share` is as above.
    fn round_trips(
        &self,
        warmup: TimeDelta,
        share: impl Fn(usize, &str) -> std::path::PathBuf,
    ) -> BTreeMap<u32, RoundTrips> {
        let mut trips: BTreeMap<u32, RoundTrips> = BTreeMap::new();
        for machine in 0..self.machines.len() {
            // Of answers the kernel of whoever asks knows more: it has one connection.
            let here = |flow: &&FlowEntry| flow.asker.unwrap_or(flow.sender).0 == machine;
            let own: Vec<u32> = self.flows.iter().filter(here).map(|flow| flow.number).collect();
            for sample in samples_of(&share(machine, SAMPLES)) {
                if own.contains(&sample.id) && sample.time >= warmup.as_nanos() {
                    trips.entry(sample.id).or_default().add(&sample.info);
                }
            }
        }
        trips
    }

    /// A row for each machine.
    pub(super) fn machine_rows<'a>(
        &self,
        machines: impl IntoIterator<Item = &'a Machine>,
        reports: &[Report],
    ) -> Vec<GuestMachine> {
        let machines = machines.into_iter().zip(&self.machines).enumerate();
        let row = |(index, (machine, config)): (usize, (&Machine, &MachineConfig))| {
            let statistics = machine.statistics();
            GuestMachine {
                machine: config.name.clone(),
                hosts: config.order.hosts.len() as u64,
                hosts_memory: reports.get(index).map_or(0, |report| report.hosts_memory),
                entries: statistics.entries,
                turns: statistics.handovers,
            }
        };
        machines.map(row).collect()
    }

    /// Rows of the requests that guests have made, numbered from `first` on.
    pub(super) fn transfers(&self, traffic: &Traffic, reports: &[Report], first: u64) -> Vec<TransferRow> {
        let mut rows = Vec::new();
        let asked = self.flows.iter().filter_map(|flow| Some((flow, end_of(reports, flow.asker?)?)));
        for (flow, report) in asked {
            let Some(number) = flow.key.and_then(|key| traffic.number(key)) else { continue };
            rows.extend(report.requests.iter().map(|request| {
                let seconds = |at: u64| at as f64 / 1e9;
                TransferRow {
                    flow: number,
                    name: flow.name.clone(),
                    bytes: flow.answer,
                    start_s: seconds(request.asked),
                    end_s: request.answered.map(seconds),
                    completion_s: request.answered.map(|at| seconds(at - request.asked)),
                    complete: request.answered.is_some(),
                    ..TransferRow::default()
                }
            }));
        }
        rows.sort_by(|a, b| a.start_s.total_cmp(&b.start_s).then(a.flow.cmp(&b.flow)));
        for (number, row) in rows.iter_mut().enumerate() {
            row.transfer = first + number as u64;
        }
        rows
    }

    /// Samples of the flows that guests carried between them, with their windows: interval by interval. `share` is as above.
    pub(super) fn samples(
        &self,
        traffic: &Traffic,
        interval: TimeDelta,
        share: impl Fn(usize, &str) -> std::path::PathBuf,
    ) -> Vec<FlowSample> {
        let span = interval.as_secs_f64();
        let mut all = Vec::new();
        for machine in 0..self.machines.len() {
            let own = self.flows.iter().filter(|flow| flow.sender.0 == machine && flow.asker.is_none());
            let numbers: BTreeMap<u32, Option<u32>> =
                own.map(|flow| (flow.number, flow.key.and_then(|key| traffic.number(key)))).collect();
            let mut before: BTreeMap<u32, Sample> = BTreeMap::new();
            for sample in samples_of(&share(machine, SAMPLES)) {
                // The receiving end of the same flow has sent nothing.
                let Some(Some(flow)) = numbers.get(&sample.id) else { continue };
                if sample.info.data_out == 0 {
                    continue;
                }
                let last = before.insert(sample.id, sample).map(|sample| sample.info).unwrap_or_default();
                let info = sample.info;
                let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 * 8.0 / span;
                let (goodput, throughput) =
                    (rate(info.acked, last.acked), rate(info.bytes_sent, last.bytes_sent));
                all.push(FlowSample {
                    retransmits: u64::from(info.retransmits.saturating_sub(last.retransmits)),
                    cwnd_bytes: Some(u64::from(info.cwnd) * u64::from(info.mss)),
                    in_flight_bytes: Some(u64::from(info.unacked) * u64::from(info.mss)),
                    // The kernel's infinity.
                    ssthresh_bytes: (info.ssthresh < 0x7fff_ffff)
                        .then(|| u64::from(info.ssthresh) * u64::from(info.mss)),
                    srtt_ms: Some(f64::from(info.rtt) / 1e3),
                    ..FlowSample::new(sample.time as f64 / 1e9, *flow, goodput, throughput)
                });
            }
        }
        all.sort_by(|a, b| a.time_s.total_cmp(&b.time_s).then(a.flow.cmp(&b.flow)));
        all
    }
}

/// A machine's samples.
fn samples_of(file: &Path) -> Vec<Sample> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Round-trip times of a flow in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct RoundTrips {
    min: f64,
    sum: f64,
    max: f64,
    count: u64,
}

impl RoundTrips {
    /// Takes what a kernel says of a connection: nothing if this end has sent nothing, as a receiver.
    fn add(&mut self, info: &TcpInfo) {
        if info.data_out == 0 || info.rtt == 0 {
            return;
        }
        let (rtt, min) = (f64::from(info.rtt), f64::from(info.min_rtt));
        // What the kernel has not got yet is all ones.
        let min = if info.min_rtt == u32::MAX || info.min_rtt == 0 { rtt } else { min };
        self.min = if self.count == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(rtt);
        self.sum += rtt;
        self.count += 1;
    }
}

/// What is to be looked at on a guest, which has this number on its machine; after its programs were added.
fn add_conditions(host: &Host, number: u32, readiness: &Readiness, order: &mut Order) {
    let first = order.programs.len() - host.program.len();
    let own = readiness.conditions().filter(|(_, condition)| condition.host == host.name);
    order.conditions.extend(own.map(|(id, condition)| ConditionOrder {
        id,
        host: number,
        check: condition.check.clone(),
        program: condition.program().map(|own| (first + own) as u32),
        start: condition.start.as_nanos(),
        limit: condition.limit.as_nanos(),
    }));
}

/// The guests on a machine.
fn hosts_of<'a>(scenario: &'a Scenario, machine: &'a str) -> impl Iterator<Item = &'a Host> {
    scenario.host.iter().filter(move |host| host.is_guest() && host.machine_name() == machine)
}

/// The largest buffer that settings let a TCP connection have, in bytes: the last number of `tcp_rmem` and `tcp_wmem`.
fn largest_buffer(sysctl: &[(String, String)]) -> u64 {
    let buffers =
        sysctl.iter().filter(|(name, _)| name.ends_with(".tcp_rmem") || name.ends_with(".tcp_wmem"));
    let last = |value: &str| value.split_whitespace().last()?.parse::<u64>().ok();
    buffers.filter_map(|(_, value)| last(value)).max().unwrap_or(0)
}

fn port(role: &Role) -> u16 {
    match role {
        Role::Send { port, .. }
        | Role::Sink { port }
        | Role::Request { port, .. }
        | Role::Serve { port }
        | Role::Simple { port, .. } => *port,
    }
}

/// What one end of a flow said at last.
fn end_of(reports: &[Report], (machine, index): End) -> Option<&FlowReport> {
    reports.get(machine)?.flows.get(index)
}

fn host_order(
    host: &Host,
    number: u32,
    (v4, v6): (std::net::Ipv4Addr, std::net::Ipv6Addr),
    mtu: u32,
) -> HostOrder {
    let vlan = number as u16 + frame::VLANS.start();
    HostOrder {
        name: host.name.clone(),
        vlan,
        mac: frame::mac(vlan),
        v4,
        v6: Some(v6),
        mtu,
        cc: host.cc.clone(),
        sysctl: host.sysctl.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}

fn fill(row: &mut ProgramRow, report: &ProgramReport) {
    let seconds = |at: u64| at as f64 / 1e9;
    row.start_s = report.started.map(seconds);
    row.end_s = report.ended.map(seconds);
    row.outcome = match &report.ending {
        Ending::Exited(code) => {
            row.code = Some(*code);
            format!("exit code {code}")
        }
        Ending::Signalled(signal) => format!("signal {signal}"),
        Ending::NotStarted(why) => {
            row.start_s = None;
            format!("not started: {why}")
        }
        Ending::Stopped => {
            row.end_s = None;
            "running".to_owned()
        }
    };
}
