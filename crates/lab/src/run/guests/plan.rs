//! The plan of a scenario's guests: the machines, and the orders of each.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::IpAddr;
use std::path::Path;

use warpline_core::{NodeId, Rate, Streams, Timestamp};
use warpline_guest::machine::Timing;
use warpline_guest::order::terminal::TERMINALS;
use warpline_guest::order::{
    CardOrder, ConditionOrder, FlowOrder, HostOrder, InterfaceOrder, Order, ProgramOrder, Role,
};
use warpline_guest::{Console, CpuLimit, Kernel, Kernels, MachineConfig, frame};
use warpline_net::routing::{Metric, Router};

use super::{hosts_of, own_clock};
use crate::run::build::guest_port;
use crate::run::programs::{self, Readiness, machine_names};
use crate::run::routers::{Door, Known, StreamKey, Traffic, paths};
use crate::run::{ETHERNET_MTU, RunError};
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::endpoint::{CPU_PERIOD, Guest, Tsc};
use warpline_scenario::expand::Speed;
use warpline_scenario::forwarding::{Interface, tc_words};
use warpline_scenario::{Application, ClockMode, Expanded, Expect, Host, LinkSpec, Scenario};

/// Memory of a machine in bytes, and what each host and each end of a flow adds. Only what is used is taken.
const MEMORY: u64 = 192 << 20;
const HOST_MEMORY: u64 = 1 << 20;
const FLOW_MEMORY: u64 = 4 << 20;
const MOST_MEMORY: u64 = 16 << 30;
/// Multiplies the largest buffer of a connection.
const BUFFERS: u64 = 16;
/// Where programs are searched for. Nothing of this process's environment reaches a guest, so that runs are repeatable.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The environment of all programs on the host of a node.
pub(super) fn environment(plan: &AddressPlan, node: usize) -> impl Iterator<Item = (String, String)> {
    let base = [("PATH", SEARCH), ("HOME", "/root"), ("LANG", "C.UTF-8"), ("TZ", "UTC")];
    let base = base.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
    base.chain(programs::environment(plan, node))
}

/// A program, and the place of its order.
#[derive(Debug)]
pub(super) struct ProgramEntry {
    pub(super) machine: usize,
    pub(super) row: ProgramRow,
    pub(super) expect: Expect,
}

/// One end of a flow: its machine, and the number of its order there.
pub(super) type End = (usize, usize);

/// A flow that a guest sends by itself.
#[derive(Debug)]
pub(super) struct FlowEntry {
    pub(super) name: String,
    /// The stream, if the other end is a guest, too.
    pub(super) key: Option<StreamKey>,
    pub(super) number: u32,
    pub(super) sender: End,
    /// The host that sends requests, if it consists of answers.
    pub(super) asker: Option<End>,
    /// The receiving end, if it is a guest's.
    pub(super) taken: Option<End>,
    /// Size of the transfer, or of each answer, in bytes; none if it has no end of its own.
    pub(super) size: Option<u64>,
}

/// All guests of a run.
#[derive(Debug)]
pub(in crate::run) struct Guests {
    /// Names and nodes of the hosts, machine by machine, in the order of their numbers in the lock-step. A host that forwards stands there once for
    /// each of its interfaces.
    hosts: Vec<(String, u32)>,
    /// The links of those that are interfaces.
    doors: Vec<Option<Door>>,
    pub(in crate::run) machines: Vec<MachineConfig>,
    pub(super) programs: Vec<ProgramEntry>,
    pub(super) flows: Vec<FlowEntry>,
    known: Vec<(StreamKey, Option<Known>)>,
}

impl Guests {
    /// Machines that do not come from a scenario. `hosts` are the names and nodes of their hosts, machine by machine.
    pub(in crate::run) fn of(hosts: Vec<(String, u32)>, machines: Vec<MachineConfig>) -> Self {
        let doors = vec![None; hosts.len()];
        Guests { hosts, doors, machines, programs: Vec::new(), flows: Vec::new(), known: Vec::new() }
    }

    /// The kernel of each machine. Paths are relative to `directory`.
    ///
    /// # Errors
    /// If there is no kernel for a machine.
    pub(in crate::run) fn kernels(&self, directory: &Path) -> Result<Vec<Kernel>, RunError> {
        let kernels = Kernels::of_user();
        let mut found: BTreeMap<Option<&str>, Kernel> = BTreeMap::new();
        for machine in &self.machines {
            let choice = machine.kernel.as_deref();
            if let Entry::Vacant(vacant) = found.entry(choice) {
                let kernel = kernels.find(choice, directory);
                vacant.insert(kernel.map_err(|error| RunError::Live(error.to_string()))?);
            }
        }
        Ok(self
            .machines
            .iter()
            .filter_map(|machine| found.get(&machine.kernel.as_deref()).cloned())
            .collect())
    }

    /// The links of the ports that are interfaces of hosts that forward.
    pub(super) fn doors(&self) -> &[Option<Door>] {
        &self.doors
    }

    /// Gives each machine terminals that can be entered while the run goes on.
    pub(super) fn open(&mut self) {
        self.machines.iter_mut().for_each(|machine| machine.order.terminals = TERMINALS);
    }

    /// Names and nodes of the hosts, in the order of their ports.
    pub(in crate::run) fn hosts(&self) -> &[(String, u32)] {
        &self.hosts
    }

    /// The guests of a scenario; none if it has none. `mtu` gives the MTU of a node's interface.
    ///
    /// # Errors
    /// If a machine has an error.
    pub(in crate::run) fn plan(
        scenario: &Scenario,
        expanded: &Expanded,
        plan: &AddressPlan,
        readiness: &Readiness,
        mtu: impl Fn(u32) -> u32,
    ) -> Result<Option<Self>, RunError> {
        if scenario.guests().next().is_none() {
            return Ok(None);
        }
        let timing = match scenario.clock.mode {
            ClockMode::Virtual => Timing::LockStep,
            ClockMode::Real | ClockMode::Dilated => Timing::Dilated,
        };
        let names = machine_names(scenario);
        let mut guests = Guests {
            hosts: Vec::new(),
            doors: Vec::new(),
            machines: Vec::new(),
            programs: Vec::new(),
            flows: Vec::new(),
            known: Vec::new(),
        };
        // The machine of each guest, and its number there.
        let mut places: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        let mut routes = Router::new(paths::graph(expanded), Metric::Delay);
        let rates = fastest_links(scenario, expanded);
        for (index, name) in names.iter().enumerate() {
            let mut order = Order {
                end: scenario.duration.0.as_nanos(),
                warmup: scenario.warmup.0.as_nanos(),
                interval: scenario.sample_interval.0.as_nanos(),
                cards: cards(scenario, name),
                ..Order::default()
            };
            let mut fastest = None;
            for (host, guest) in hosts_of(scenario, name) {
                let Some(node) = expanded.nodes.find(&host.name) else { continue };
                fastest = fastest.max(rates.get(&node).copied());
                let number = order.hosts.len() as u32;
                places.insert(node, (index, number));
                let vlan = frame::VLANS.start() + order.ports().count() as u16;
                let mut own = host_order((host, guest), vlan, plan.of(node as usize), mtu(node));
                if guest.forwards {
                    let first = order.interfaces().count() as u32 + 1;
                    let interfaces = expanded.interfaces(node as usize);
                    let known = (scenario, expanded, plan);
                    own.interfaces = interface_orders(known, node, &interfaces, (first, vlan), &mut routes);
                    for interface in &interfaces {
                        guests.hosts.push((format!("{}>{}", host.name, interface.name), node));
                        guests
                            .doors
                            .push(Some(Door { sends: interface.sends, receives: interface.receives }));
                    }
                } else {
                    guests.hosts.push((host.name.clone(), node));
                    guests.doors.push(None);
                }
                order.hosts.push(own);
                guests.add_programs(
                    scenario,
                    host,
                    (index, number),
                    node as usize,
                    (plan, readiness),
                    &mut order,
                );
                add_conditions(host, number, readiness, &mut order);
            }
            guests.machines.push(MachineConfig {
                name: (*name).to_owned(),
                kernel: kernel_of(scenario, name).map(str::to_owned),
                memory: 0,
                // Machines of one run must have different random numbers.
                seed: scenario.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64),
                timing,
                fastest,
                cpu: cpu(scenario, name),
                clocks: own_clock::clocks(scenario, name),
                own_tsc: hosts_of(scenario, name).any(|(_, guest)| guest.tsc == Some(Tsc::Guest)),
                console: Console::File,
                order,
            });
        }
        guests.add_flows(scenario, expanded, (plan, readiness), &places);
        for machine in &mut guests.machines {
            own_clock::set(&mut machine.order, machine.clocks);
            let order = &machine.order;
            // Larger buffers need more memory: the kernel gives TCP a sixteenth of it.
            let buffer = order.hosts.iter().map(|host| largest_buffer(&host.sysctl)).max().unwrap_or(0);
            let flow = FLOW_MEMORY.max(BUFFERS.saturating_mul(buffer));
            let flows = flow.saturating_mul(order.flows.len() as u64);
            let memory = flows.saturating_add(MEMORY + HOST_MEMORY * order.hosts.len() as u64);
            let own = hosts_of(scenario, &machine.name).find_map(|(_, guest)| guest.memory);
            // The kernel counts in megabytes of 2^20 bytes.
            machine.memory = own.map_or(memory.min(MOST_MEMORY), |size| size.0.0.next_multiple_of(1 << 20));
        }
        let mut machines = guests.machines.iter();
        machines.try_for_each(MachineConfig::check).map_err(|error| RunError::Build(error.to_string()))?;
        Ok(Some(guests))
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
        for (index, program) in host.programs().iter().enumerate() {
            let (words, shown) = programs::command(program, plan);
            let own = program.environment.iter().map(|(name, value)| (name.clone(), plan.substitute(value)));
            order.programs.push(ProgramOrder {
                host: number,
                words,
                environment: environment(plan, node).chain(own).collect(),
                directory: directory.to_string_lossy().into_owned(),
                start: program.start.0.as_nanos(),
                stop: programs::signal(program.stop) as i32,
                collect: program.collect.clone(),
                output: format!("{}.{}", host.name, program.label(index)),
                after: readiness.waits_of(scenario, &host.name, index),
                notice: readiness.notice_of(&host.name, index),
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
            let stop = flow.stop.map(|stop| Timestamp::ZERO + stop).filter(|stop| *stop < end);
            let stop = stop.map(Timestamp::as_nanos);
            let address = |node: usize| -> IpAddr {
                let (v4, v6) = plan.of(node);
                if entry.ipv6 { v6.into() } else { v4.into() }
            };
            let cc = entry.cc.as_ref().map(|cc| cc.name().to_owned());
            // If the sender listens, it does so from the beginning, and the side that sends requests starts.
            let (sends, takes) = match &*flow.application {
                Application::Request(own) => {
                    let ask = Role::Request {
                        to: address(flow.from),
                        port,
                        request: own.request_size.0,
                        response: own.size.0,
                        count: (own.requests > 0).then_some(own.requests.into()),
                        pause: own.pause.as_nanos(),
                    };
                    (Role::Serve { port }, ask)
                }
                Application::Transfer(own) => {
                    (Role::Send { to: address(flow.to), port, bytes: Some(own.size.0) }, Role::Sink { port })
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
                let verify = entry.verify;
                flows.push(FlowOrder { id: number as u32, host, role, start, stop, cc, after, verify });
                Some((machine, flows.len() - 1))
            };
            let asks = matches!(takes, Role::Request { .. });
            let taken = order(sink, takes, None);
            let Some(sender) = order(sender, sends, cc) else { continue };
            let key = StreamKey { from, to, port, sends: asks };
            if taken.is_some() {
                let (name, group, app) = (flow.name.clone(), flow.group.to_string(), entry.app.name());
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
                taken,
                size: match &*flow.application {
                    Application::Request(own) => Some(own.size.0),
                    Application::Transfer(own) => Some(own.size.0),
                    _ => None,
                },
            });
        }
    }

    /// Registers the streams that are flows of the scenario.
    pub(in crate::run) fn introduce(&self, traffic: &mut Traffic) {
        for (key, known) in &self.known {
            traffic.name(*key, known.clone());
        }
    }
}

/// The checks to make on a guest, which has this number on its machine. Call it after its programs were added.
fn add_conditions(host: &Host, number: u32, readiness: &Readiness, order: &mut Order) {
    let first = order.programs.len() - host.programs().len();
    order.conditions.extend(readiness.conditions_of(&host.name).map(|(id, condition)| ConditionOrder {
        id,
        host: number,
        check: condition.check.clone(),
        program: condition.program().map(|own| (first + own) as u32),
        start: condition.start.as_nanos(),
        limit: condition.limit.as_nanos(),
    }));
}

/// The kernel of a machine, as the scenario names it; none if it does not.
pub(in crate::run) fn kernel_of<'a>(scenario: &'a Scenario, machine: &'a str) -> Option<&'a str> {
    hosts_of(scenario, machine).find_map(|(_, guest)| guest.kernel.as_deref())
}

/// The largest rate that a link of each node ever has. Links with a trace or a radio, and those without a limit, count for nothing.
fn fastest_links(scenario: &Scenario, expanded: &Expanded) -> BTreeMap<u32, Rate> {
    let mut found = BTreeMap::new();
    for link in expanded.links.iter() {
        let changes = link.changes.iter().filter_map(|&number| Some(scenario.change[number].rate?.0));
        let first = match &link.kind.speed {
            Speed::Constant(rate) => Some(*rate),
            Speed::Schedule { initial, steps, .. } => {
                steps.iter().map(|(_, rate)| *rate).chain([*initial]).max()
            }
            _ => None,
        };
        let Some(rate) = changes.chain(first).max() else { continue };
        for node in [link.from, link.to] {
            let fastest = found.entry(node as u32).or_insert(rate);
            *fastest = rate.max(*fastest);
        }
    }
    found
}

/// The limit of a machine's CPU, if it has one.
fn cpu(scenario: &Scenario, machine: &str) -> Option<CpuLimit> {
    let share = hosts_of(scenario, machine).find_map(|(_, guest)| guest.cpu_share)?;
    let period = hosts_of(scenario, machine).find_map(|(_, guest)| guest.cpu_period);
    Some(CpuLimit { share, period: period.map_or(CPU_PERIOD, |period| period.0).as_nanos() })
}

/// The network cards of a machine, if they have offloads.
fn cards(scenario: &Scenario, machine: &str) -> Option<CardOrder> {
    let guests = hosts_of(scenario, machine).map(|(_, guest)| guest);
    let interval = Guest::interrupts(guests, scenario.clock.mode)?;
    Some(CardOrder { interval: interval.as_nanos() })
}

/// The largest buffer that settings allow a TCP connection, in bytes: the last number of `tcp_rmem` and `tcp_wmem`.
fn largest_buffer(sysctl: &[(String, String)]) -> u64 {
    let buffers =
        sysctl.iter().filter(|(name, _)| name.ends_with(".tcp_rmem") || name.ends_with(".tcp_wmem"));
    let last = |value: &str| value.split_whitespace().last()?.parse::<u64>().ok();
    buffers.filter_map(|(_, value)| last(value)).max().unwrap_or(0)
}

/// The order of a host that has, or would have, the VLAN `vlan`.
fn host_order(
    (host, guest): (&Host, &Guest),
    vlan: u16,
    (v4, v6): (std::net::Ipv4Addr, std::net::Ipv6Addr),
    mtu: u32,
) -> HostOrder {
    HostOrder {
        name: host.name.clone(),
        vlan,
        mac: frame::mac(vlan),
        v4,
        v6: Some(v6),
        mtu,
        cc: guest.cc.clone(),
        sysctl: guest.sysctl.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        interfaces: Vec::new(),
        tc: guest.tc.iter().map(|command| tc_words(command)).collect(),
    }
}

/// The orders of the interfaces of a host that forwards, on `node`. `first` are the device and the VLAN of the first of them. Each is the route to
/// the nodes whose packets take its link by the scenario's routing.
fn interface_orders(
    (scenario, expanded, plan): (&Scenario, &Expanded, &AddressPlan),
    node: u32,
    interfaces: &[Interface],
    first: (u32, u16),
    routes: &mut Router,
) -> Vec<InterfaceOrder> {
    let order = |(interface, number): (&Interface, u16)| {
        let link = interface.sends.map(|link| expanded.links.at(link));
        let kind = link.map(|link| link.kind);
        let is_changed =
            |link: &LinkSpec<'_>| link.changes.iter().any(|&number| scenario.change[number].rate.is_some());
        let vlan = first.1 + number;
        InterfaceOrder {
            name: interface.name.clone(),
            device: first.0 + u32::from(number),
            vlan,
            mac: frame::mac(vlan),
            mtu: kind.and_then(|kind| kind.mtu).unwrap_or(ETHERNET_MTU),
            // Where the rate changes, the link's own queue holds what the kernel sends too fast.
            rate: link.filter(|link| !is_changed(link)).and_then(|link| match link.kind.speed {
                Speed::Constant(rate) => Some(rate.as_bps()),
                _ => None,
            }),
            framing: kind.map_or(0, |kind| kind.framing as u32),
            routes: Vec::new(),
        }
    };
    let mut orders: Vec<InterfaceOrder> = interfaces.iter().zip(0..).map(order).collect();
    for to in (0..expanded.nodes.len() as u32).filter(|&to| to != node) {
        let Ok(links) = routes.route(NodeId(node), NodeId(to)) else { continue };
        let own =
            interfaces.iter().position(|own| own.sends.is_some() && own.sends == links.first().copied());
        if let Some(own) = own {
            let (v4, v6) = plan.of(to as usize);
            orders[own].routes.extend([IpAddr::V4(v4), IpAddr::V6(v6)]);
        }
    }
    orders
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The guests of a scenario.
    pub(in crate::run::guests) fn planned(text: &str) -> Guests {
        let scenario = Scenario::from_toml("test", text, &[]).unwrap();
        let expanded = scenario.expand();
        let addresses = AddressPlan::new(&scenario, &expanded);
        let guests = Guests::plan(&scenario, &expanded, &addresses, &Readiness::default(), |_| ETHERNET_MTU);
        guests.unwrap().unwrap()
    }

    #[test]
    fn an_interface_has_a_rate_of_its_own_if_that_of_its_link_never_changes() {
        let rates = |key: &str| {
            let guests = planned(&format!(
                "duration = \"2s\"\nchange = [{{ at = \"1s\", link = \"r>b\", {key} }}]\n\
                 link = [{{ between = [\"a\", \"r\"], rate = \"1Mbit/s\" }}, {{ between = [\"r\", \"b\"], rate = \"2Mbit/s\" }}]\n\
                 flow = [{{ from = \"a\", to = \"b\" }}]\n\
                 [[host]]\nname = \"r\"\nendpoint = \"guest\"\nforwards = true\n"
            ));
            guests.machines[0].order.interfaces().map(|own| own.rate).collect::<Vec<_>>()
        };
        assert_eq!(rates("loss = \"1%\""), [Some(1_000_000), Some(2_000_000)]);
        assert_eq!(rates("rate = \"1Mbit/s\""), [Some(1_000_000), None]);
    }

    #[test]
    fn a_machine_knows_the_largest_rate_that_a_link_of_its_hosts_ever_has() {
        let fastest = |links: &str| {
            let guests = planned(&format!(
                "duration = \"3s\"\n{links}\nflow = [{{ from = \"a\", to = \"b\" }}]\n\
                 [[host]]\nname = \"a\"\nendpoint = \"guest\"\n"
            ));
            guests.machines[0].fastest.map(Rate::as_bps)
        };
        let two = |first: &str| {
            format!(
                "link = [{{ between = [\"a\", \"r\"], {first} }}, {{ between = [\"r\", \"b\"], rate = \"9Gbit/s\" }}]"
            )
        };
        assert_eq!(fastest(&two("rate = \"1Gbit/s\"")), Some(1_000_000_000));
        let other = "rate = \"1Gbit/s\", reverse = { rate = \"2Gbit/s\" }";
        assert_eq!(fastest(&two(other)), Some(2_000_000_000));
        let change = "change = [{ at = \"1s\", link = \"r>a\", rate = \"3Gbit/s\" }]\n";
        assert_eq!(fastest(&(change.to_owned() + &two("rate = \"1Gbit/s\""))), Some(3_000_000_000));
        let steps = "rate = \"1Gbit/s\", schedule = [{ at = \"1s\", rate = \"4Gbit/s\" }]";
        assert_eq!(fastest(&two(steps)), Some(4_000_000_000));
        assert_eq!(fastest(&two("radio = \"wifi,rate=65Mbit/s\"")), None);
    }

    #[test]
    fn buffers_without_limit_need_the_most_memory() {
        let guests = planned(&format!(
            "duration = \"2s\"\n[[link]]\nbetween = [\"a\", \"b\"]\nrate = \"1Mbit/s\"\n\
             [[host]]\nname = \"a\"\nendpoint = \"guest\"\nsysctl = {{ \"net.ipv4.tcp_rmem\" = \"4096 131072 {}\" }}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\n",
            u64::MAX
        ));
        assert_eq!(guests.machines[0].memory, MOST_MEMORY);
    }
}
