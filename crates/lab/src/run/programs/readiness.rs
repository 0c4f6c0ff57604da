//! What flows and programs wait for (programs that are ready, ports that listen), and what ends a run early.
//!
//! This file keeps the conditions, their states, who waits for each, and the error if one fails. They are checked where the program
//! runs: by [`super::watch`] for live hosts, by a guest's agent inside the guest.

use std::collections::BTreeSet;
use std::path::Path;

use warpline_agent::probe::Check;
use warpline_agent::{Ending, Notice, Why};
use warpline_core::{FlowId, TimeDelta, Timestamp};
use warpline_net::Network;
use warpline_results::ProgramRow;
use warpline_scenario::addresses::AddressPlan;
use warpline_scenario::{Expanded, Host, Named, PATIENCE, Ready, Scenario, Traffic, Until};

use super::evidence::Evidence;
use super::{own, words};
use crate::hosts::ModelHosts;

/// The subject of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    /// A program: its index on its host, and its label.
    Program(usize, String),
    /// A flow that connects to a program, by the flow's name.
    Flow(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Holds,
    Failed,
}

/// A condition that others wait for. Its number is its index among all.
#[derive(Debug)]
pub(in crate::run) struct Condition {
    /// The host where it is checked.
    pub(in crate::run) host: String,
    /// What to check.
    pub(in crate::run) check: Check,
    subject: Subject,
    /// From when on it is checked, if it is not about a program.
    pub(in crate::run) start: TimeDelta,
    /// How long it may take.
    pub(in crate::run) limit: TimeDelta,
    state: State,
    /// Simulated flows that wait for it.
    flows: Vec<FlowId>,
    /// Machines of guests on which something waits for it.
    machines: BTreeSet<usize>,
    /// What waits for it, for messages.
    waiters: Vec<String>,
}

impl Condition {
    /// The index of its program on the host, if it is about one.
    pub(in crate::run) fn program(&self) -> Option<usize> {
        match self.subject {
            Subject::Program(number, _) => Some(number),
            Subject::Flow(_) => None,
        }
    }
}

/// Why a run could not continue: something that others wait for is not ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::run) struct NotReady {
    /// Host and index of the program that is not ready, if it is about one.
    pub(in crate::run) program: Option<(String, usize)>,
    /// The message.
    pub(in crate::run) text: String,
}

impl NotReady {
    /// Whether it is about this program.
    pub(in crate::run) fn is_about(&self, row: &ProgramRow) -> bool {
        self.program.as_ref().is_some_and(|(host, number)| row.host == *host && row.number == *number as u64)
    }
}

/// All conditions of a run.
#[derive(Debug, Default)]
pub(in crate::run) struct Readiness {
    conditions: Vec<Condition>,
    /// Programs whose end the run waits for, each as: whether it has ended, its host, its index there.
    until: Vec<(bool, String, usize)>,
    /// Flows to be started now.
    released: Vec<FlowId>,
    /// Notices to guests, with the number of their machine.
    notices: Vec<(usize, Notice)>,
    failure: Option<NotReady>,
}

/// Names of the guests' machines, in order.
pub(in crate::run) fn machine_names(scenario: &Scenario) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for (host, guest) in scenario.guests() {
        let machine = guest.machine_of(&host.name);
        if !names.contains(&machine) {
            names.push(machine);
        }
    }
    names
}

/// The machine of a host, if it is a guest.
fn machine_of(scenario: &Scenario, host: &Host) -> Option<usize> {
    let own = scenario.guests().find(|(guest, _)| guest.name == host.name)?;
    let own = own.1.machine_of(&host.name);
    machine_names(scenario).iter().position(|name| *name == own)
}

/// The check for a program's `ready`. Addresses in it are filled in as in a command.
fn check_of(ready: &Ready, plan: &AddressPlan) -> Check {
    let Ready { port, prints, file, command, .. } = ready;
    match (port, prints, file, command) {
        (Some(port), ..) => Check::Port(*port),
        (_, Some(text), ..) => Check::Prints(plan.substitute(text)),
        (_, _, Some(file), _) => Check::File(plan.substitute(file)),
        (_, _, _, Some(command)) => Check::Command(own::found(words(command, plan))),
        // The scenario has been checked, so this does not happen.
        _ => Check::Prints(String::new()),
    }
}

impl Readiness {
    /// The conditions of a scenario. Simulated flows that wait are held back in `world`.
    pub(in crate::run) fn plan(
        scenario: &Scenario,
        expanded: &Expanded,
        plan: &AddressPlan,
        world: &mut ModelHosts,
    ) -> Self {
        let mut own = Readiness::default();
        own.add_programs(scenario, plan);
        own.add_flows(scenario, expanded, world);
        for condition in scenario.until.iter().flat_map(|Until(conditions)| conditions) {
            let named = Until::program(condition).map(|name| scenario.program_named(name));
            if let Some(Named::One(host, number)) = named {
                own.until.push((false, scenario.host[host].name.clone(), number));
            }
        }
        own
    }

    fn add_programs(&mut self, scenario: &Scenario, plan: &AddressPlan) {
        for (_, number, host, program) in scenario.programs() {
            let Some(ready) = &program.ready else { continue };
            self.conditions.push(Condition {
                host: host.name.clone(),
                check: check_of(&ready.0, plan),
                subject: Subject::Program(number, program.label(number)),
                start: program.start.0,
                limit: ready.0.limit().0,
                state: State::Pending,
                flows: Vec::new(),
                machines: BTreeSet::new(),
                waiters: Vec::new(),
            });
        }
        for (_, number, host, program) in scenario.programs() {
            for id in self.waits_of(scenario, &host.name, number) {
                let condition = &mut self.conditions[id as usize];
                condition.machines.extend(machine_of(scenario, host));
                condition.waiters.push(format!("program {} of host {}", program.label(number), host.name));
            }
        }
    }

    fn add_flows(&mut self, scenario: &Scenario, expanded: &Expanded, world: &mut ModelHosts) {
        for flow in &expanded.flows {
            let entry = &scenario.flow[flow.entry];
            let (from, to) = (&expanded.nodes[flow.from], &expanded.nodes[flow.to]);
            let host = |name: &str| scenario.host.iter().find(|host| host.name == name);
            let (Some(target), Some(port)) =
                (host(to).filter(|host| host.traffic().has_programs()), entry.port)
            else {
                continue;
            };
            let limit = entry.wait.unwrap_or(PATIENCE).0;
            let sender = host(from).filter(|host| host.traffic().has_programs());
            // Two kernels carry the flow, and we control both ends.
            let kernel = |host: &Host| host.traffic() == Traffic::Kernel;
            let carried = sender.is_some_and(kernel) && kernel(target);
            // Nobody here sees what listens on a machine outside.
            let unseen = target.traffic() == Traffic::Outside;
            if limit.is_zero() || carried || unseen || entry.app.is_service() {
                continue;
            }
            let check = Check::Listens { port, ipv6: entry.ipv6 };
            let held = match sender {
                None => world.hold(&flow.name),
                Some(_) => None,
            };
            let start = held.map_or(flow.start.earliest, |(_, start)| start - Timestamp::ZERO);
            let known = self.conditions.iter_mut().find(|condition| {
                condition.host == *to && condition.check == check && condition.limit == limit
            });
            let condition = match known {
                Some(condition) => condition,
                None => {
                    self.conditions.push(Condition {
                        host: to.to_owned(),
                        check,
                        subject: Subject::Flow(flow.name.clone()),
                        start,
                        limit,
                        state: State::Pending,
                        flows: Vec::new(),
                        machines: BTreeSet::new(),
                        waiters: Vec::new(),
                    });
                    let last = self.conditions.len() - 1;
                    &mut self.conditions[last]
                }
            };
            condition.start = condition.start.min(start);
            condition.flows.extend(held.map(|(id, _)| id));
            condition.machines.extend(sender.and_then(|host| machine_of(scenario, host)));
            condition.waiters.push(format!("flow {}", flow.name));
        }
    }

    /// All conditions, with their numbers.
    pub(in crate::run) fn conditions(&self) -> impl Iterator<Item = (u32, &Condition)> {
        self.conditions.iter().enumerate().map(|(id, condition)| (id as u32, condition))
    }

    fn of_program(&self, host: &str, number: usize) -> Option<u32> {
        let is = |condition: &Condition| condition.host == host && condition.program() == Some(number);
        self.conditions.iter().position(is).map(|id| id as u32)
    }

    /// Numbers of the conditions that a program waits for.
    pub(in crate::run) fn waits_of(&self, scenario: &Scenario, host: &str, number: usize) -> Vec<u32> {
        let Some(at) = scenario.host.iter().position(|own| own.name == host) else { return Vec::new() };
        let others = scenario.waits_for(at, number).into_iter();
        others.filter_map(|(host, number)| self.of_program(&scenario.host[host].name, number)).collect()
    }

    /// Numbers of the conditions that a flow waits for.
    pub(in crate::run) fn waits_of_flow(&self, flow: &str) -> Vec<u32> {
        let name = format!("flow {flow}");
        self.conditions()
            .filter(|(_, condition)| condition.waiters.contains(&name))
            .map(|(id, _)| id)
            .collect()
    }

    /// The number for the notice of a program's end, if the run's end depends on it.
    pub(in crate::run) fn notice_of(&self, host: &str, number: usize) -> Option<u32> {
        let is = |(_, own, own_number): &(bool, String, usize)| own == host && *own_number == number;
        self.until.iter().position(is).map(|id| id as u32)
    }

    /// Whether all of these conditions hold.
    pub(in crate::run) fn all_hold(&self, ids: &[u32]) -> bool {
        ids.iter().all(|id| self.conditions[*id as usize].state == State::Holds)
    }

    /// Handles a notice from a guest, or from a check on a live host.
    pub(in crate::run) fn handle(&mut self, notice: Notice) {
        match notice {
            Notice::Holds(id) => {
                let Some(condition) = self.conditions.get_mut(id as usize) else { return };
                if condition.state == State::Pending {
                    condition.state = State::Holds;
                    self.released.extend(condition.flows.iter().copied());
                    let machines = condition.machines.iter();
                    self.notices.extend(machines.map(|machine| (*machine, Notice::GoOn(id))));
                }
            }
            Notice::Fails(id, why) => {
                let Some(condition) = self.conditions.get_mut(id as usize) else { return };
                if condition.state == State::Pending {
                    condition.state = State::Failed;
                    // If nothing waits for it, it does not matter.
                    if !condition.waiters.is_empty() {
                        let limit = condition.limit;
                        let failure = condition.not_ready(&reason(&why, limit));
                        self.failure.get_or_insert(failure);
                    }
                }
            }
            Notice::Ended(id) => {
                if let Some((ended, ..)) = self.until.get_mut(id as usize) {
                    *ended = true;
                }
            }
            Notice::GoOn(_) | Notice::End => {}
        }
    }

    /// Starts the flows that need not wait any more.
    pub(in crate::run) fn release(&mut self, now: Timestamp, world: &mut ModelHosts, network: &mut Network) {
        for flow in self.released.drain(..) {
            world.release(now, flow, &mut network.port(now));
        }
    }

    /// Takes the notices to guests, with the number of their machine.
    pub(in crate::run) fn take_notices(&mut self) -> Vec<(usize, Notice)> {
        std::mem::take(&mut self.notices)
    }

    /// Whether the run ends early because its `until` has come true.
    pub(in crate::run) fn is_done(&self) -> bool {
        !self.until.is_empty() && self.until.iter().all(|(ended, ..)| *ended)
    }

    /// Why the run cannot continue.
    pub(in crate::run) fn failure(&self) -> Option<&NotReady> {
        self.failure.as_ref()
    }

    /// The run has reached its end, at `end`. If something still waits, that is a failure.
    pub(in crate::run) fn expire(&mut self, end: TimeDelta) {
        let pending = self.conditions.iter().find(|condition| {
            condition.state == State::Pending && !condition.waiters.is_empty() && condition.start < end
        });
        if let Some(condition) = pending {
            let why = format!("until the run's end ({} s)", end.as_secs_f64());
            let failure = condition.not_ready(&why);
            self.failure.get_or_insert(failure);
        }
    }
}

fn reason(why: &Why, limit: TimeDelta) -> String {
    let within = warpline_scenario::Time(limit);
    match why {
        Why::Limit => format!("within {within}"),
        Why::Ended(Ending::Exited(code)) => format!("before it ended with exit code {code}"),
        Why::Ended(Ending::Signalled(signal)) => format!("before it ended by signal {signal}"),
        Why::Ended(Ending::NotStarted(why)) => format!("because it was not started: {why}"),
        Why::Ended(Ending::Stopped) => "before it was stopped".to_owned(),
        Why::Blind(why) => format!("as far as could be checked ({why})"),
    }
}

impl Condition {
    fn not_ready(&self, why: &str) -> NotReady {
        let what = match &self.check {
            Check::Port(port) => format!("nothing listened on port {port}"),
            Check::Listens { port, ipv6: false } => format!("nothing listened on TCP port {port}"),
            Check::Listens { port, ipv6: true } => format!("nothing listened on TCP port {port} over IPv6"),
            Check::Prints(text) => format!("it did not print {text:?}"),
            Check::File(name) => format!("there was no new file {name}"),
            Check::Command(words) => format!("`{}` did not end with exit code 0", words.join(" ")),
        };
        let (program, text) = match &self.subject {
            Subject::Program(number, label) => (
                Some((self.host.clone(), *number)),
                format!("{} was not ready: {what} {why}", super::name(label, &self.host)),
            ),
            Subject::Flow(_) => (None, format!("host {} was not ready: {what} {why}", self.host)),
        };
        const MANY: usize = 3;
        let mut waiters = self.waiters[..self.waiters.len().min(MANY)].join(", ");
        if self.waiters.len() > MANY {
            waiters += &format!(" and {} more", self.waiters.len() - MANY);
        }
        NotReady { program, text: format!("{text}; {waiters} waited for it") }
    }
}

/// Completes the message of a failure with the place of the program's output, in `out`, and marks that program's row.
pub(in crate::run) fn explain<'a>(
    failure: &NotReady,
    rows: impl IntoIterator<Item = &'a mut ProgramRow>,
    evidence: &Evidence,
    out: &Path,
) -> String {
    let Some(row) = rows.into_iter().find(|row| failure.is_about(row)) else {
        return format!("{}{}", failure.text, evidence.captures());
    };
    let text = evidence.complete(&failure.text, row, &out.join(&row.stderr));
    row.ok = false;
    row.failure = Some(text.clone());
    text
}
