//! What flows and programs wait for (programs that are ready, ports that listen), and what ends a run early.
//!
//! This file keeps the conditions, their states, who waits for each, and the error if one fails. They are checked where the program
//! runs: by [`super::watch`] for live hosts, by a guest's agent inside the guest.

use std::collections::{BTreeMap, BTreeSet};
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
    /// What waits for it.
    waiters: Waiters,
}

/// What waits for a condition, for messages. There may be as many as the run has programs, so only the names that are shown are kept.
#[derive(Debug, Default)]
struct Waiters {
    names: Vec<String>,
    count: usize,
}

impl Waiters {
    /// How many names a message has.
    const SHOWN: usize = 3;

    fn add(&mut self, name: impl FnOnce() -> String) {
        if self.count < Self::SHOWN {
            self.names.push(name());
        }
        self.count += 1;
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Their names in a message.
    fn shown(&self) -> String {
        let names = self.names.join(", ");
        match self.count.saturating_sub(Self::SHOWN) {
            0 => names,
            more => format!("{names} and {more} more"),
        }
    }
}

impl Condition {
    /// A condition that nothing waits for yet.
    fn new(host: &str, check: Check, subject: Subject, (start, limit): (TimeDelta, TimeDelta)) -> Self {
        Condition {
            host: host.to_owned(),
            check,
            subject,
            start,
            limit,
            state: State::Pending,
            flows: Vec::new(),
            machines: BTreeSet::new(),
            waiters: Waiters::default(),
        }
    }

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
    /// The conditions that are checked on each host, in order.
    by_host: BTreeMap<String, Vec<u32>>,
    /// The conditions that each flow waits for.
    of_flows: BTreeMap<String, BTreeSet<u32>>,
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
    let mut known = BTreeSet::new();
    let machines = scenario.guests().map(|(host, guest)| guest.machine_of(&host.name));
    machines.filter(|machine| known.insert(*machine)).collect()
}

/// The number of each guest's machine, by the name of the guest.
fn machine_numbers(scenario: &Scenario) -> BTreeMap<&str, usize> {
    let numbers: BTreeMap<&str, usize> = machine_names(scenario).into_iter().zip(0..).collect();
    let guests = scenario.guests();
    guests.map(|(host, guest)| (host.name.as_str(), numbers[guest.machine_of(&host.name)])).collect()
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
        let machines = machine_numbers(scenario);
        own.add_programs(scenario, plan, &machines);
        own.add_flows((scenario, expanded), &machines, world);
        for condition in scenario.until.iter().flat_map(|Until(conditions)| conditions) {
            let named = Until::program(condition).map(|name| scenario.program_named(name));
            if let Some(Named::One(host, number)) = named {
                own.until.push((false, scenario.host[host].name.clone(), number));
            }
        }
        own
    }

    /// Adds a condition. Returns its number.
    fn add(&mut self, condition: Condition) -> u32 {
        let id = self.conditions.len() as u32;
        self.by_host.entry(condition.host.clone()).or_default().push(id);
        self.conditions.push(condition);
        id
    }

    fn add_programs(&mut self, scenario: &Scenario, plan: &AddressPlan, machines: &BTreeMap<&str, usize>) {
        for (_, number, host, program) in scenario.programs() {
            let Some(ready) = &program.ready else { continue };
            let subject = Subject::Program(number, program.label(number));
            let times = (program.start.0, ready.0.limit().0);
            self.add(Condition::new(&host.name, check_of(&ready.0, plan), subject, times));
        }
        for (_, number, host, program) in scenario.programs() {
            let machine = machines.get(host.name.as_str());
            for id in self.waits_of(scenario, &host.name, number) {
                let condition = &mut self.conditions[id as usize];
                condition.machines.extend(machine);
                condition.waiters.add(|| format!("program {} of host {}", program.label(number), host.name));
            }
        }
    }

    fn add_flows(
        &mut self,
        (scenario, expanded): (&Scenario, &Expanded),
        machines: &BTreeMap<&str, usize>,
        world: &mut ModelHosts,
    ) {
        let hosts = scenario.hosts_by_name();
        // From the last on: of several with one name the first counts.
        let simulated = world.flows.iter().enumerate().rev();
        let simulated: BTreeMap<&str, FlowId> =
            simulated.map(|(number, flow)| (flow.spec.name.as_str(), FlowId(number as u32))).collect();
        // What flows wait for: a node, a port, whether they use IPv6, and for how long.
        let mut known: BTreeMap<(usize, u16, bool, TimeDelta), u32> = BTreeMap::new();
        for flow in &expanded.flows {
            let entry = &scenario.flow[flow.entry];
            let (from, to) = (&expanded.nodes[flow.from], &expanded.nodes[flow.to]);
            let host = |name: &str| hosts.find(name).filter(|host| host.traffic().has_programs());
            let (Some(target), Some(port)) = (host(to), entry.port) else { continue };
            let limit = entry.wait.unwrap_or(PATIENCE).0;
            let sender = host(from);
            // Two kernels carry the flow, and we control both ends.
            let kernel = |host: &Host| host.traffic() == Traffic::Kernel;
            let carried = sender.is_some_and(kernel) && kernel(target);
            // Nobody here sees what listens on a machine outside.
            let unseen = target.traffic() == Traffic::Outside;
            if limit.is_zero() || carried || unseen || entry.app.is_service() {
                continue;
            }
            let held = match sender {
                None => simulated.get(flow.name.as_str()).copied(),
                Some(_) => None,
            };
            let start =
                held.map_or(flow.start.earliest, |held| world.flows[held.index()].start - Timestamp::ZERO);
            let id = *known.entry((flow.to, port, entry.ipv6, limit)).or_insert_with(|| {
                let check = Check::Listens { port, ipv6: entry.ipv6 };
                self.add(Condition::new(to, check, Subject::Flow(flow.name.clone()), (start, limit)))
            });
            let condition = &mut self.conditions[id as usize];
            condition.start = condition.start.min(start);
            condition.flows.extend(held);
            condition.machines.extend(sender.and_then(|host| machines.get(host.name.as_str())));
            condition.waiters.add(|| format!("flow {}", flow.name));
            self.of_flows.entry(flow.name.clone()).or_default().insert(id);
        }
        for condition in &self.conditions {
            condition.flows.iter().for_each(|&flow| world.hold(flow));
        }
    }

    /// The conditions that are checked on a host, with their numbers.
    pub(in crate::run) fn conditions_of(&self, host: &str) -> impl Iterator<Item = (u32, &Condition)> {
        let own = self.by_host.get(host).into_iter().flatten();
        own.map(move |&id| (id, &self.conditions[id as usize]))
    }

    fn of_program(&self, host: &str, number: usize) -> Option<u32> {
        let mut own = self.conditions_of(host);
        own.find(|(_, condition)| condition.program() == Some(number)).map(|(id, _)| id)
    }

    /// Numbers of the conditions that a program waits for.
    pub(in crate::run) fn waits_of(&self, scenario: &Scenario, host: &str, number: usize) -> Vec<u32> {
        let Some(at) = scenario.host.iter().position(|own| own.name == host) else { return Vec::new() };
        let others = scenario.waits_for(at, number).into_iter();
        others.filter_map(|(host, number)| self.of_program(&scenario.host[host].name, number)).collect()
    }

    /// Numbers of the conditions that a flow waits for.
    pub(in crate::run) fn waits_of_flow(&self, flow: &str) -> Vec<u32> {
        self.of_flows.get(flow).into_iter().flatten().copied().collect()
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
        NotReady { program, text: format!("{text}; {} waited for it", self.waiters.shown()) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::RunOptions;
    use crate::run::build::build;

    /// Guests on two machines, a live host and a simulated one, in this order: e; a and c; b; d.
    const SCENARIO: &str = r#"
        duration = "1s"
        clock = { mode = "real" }
        link = [
            { between = ["a", "r"], rate = "1Mbit/s" }, { between = ["b", "r"], rate = "1Mbit/s" },
            { between = ["c", "r"], rate = "1Mbit/s" }, { between = ["d", "r"], rate = "1Mbit/s" },
            { between = ["e", "r"], rate = "1Mbit/s" },
        ]
        [[host]]
        name = "e"
        endpoint = "guest"
        [[host]]
        name = "a"
        endpoint = "guest"
        machine = "m"
        [[host.program]]
        name = "client"
        command = "x"
        after = ["server"]
        [[host]]
        name = "c"
        endpoint = "guest"
        machine = "m"
        [[host]]
        name = "b"
        endpoint = "live"
        [[host.program]]
        command = "y"
        after = []
        [[host.program]]
        name = "server"
        command = "z"
        ready = 80
        [[flow]]
        name = "first"
        from = "a"
        to = "b"
        port = 5001
        [[flow]]
        name = "second"
        from = "c"
        to = "b"
        port = 5001
        [[flow]]
        name = "third"
        from = "d"
        to = "b"
        port = 5002
    "#;

    fn planned() -> (Scenario, Readiness) {
        let scenario =
            Scenario::from_toml("test.toml", SCENARIO, &[]).unwrap_or_else(|error| panic!("{error}"));
        let expanded = scenario.expand();
        let plan = AddressPlan::new(&scenario, &expanded);
        let mut world = build(&scenario, &RunOptions::default()).unwrap().world;
        let readiness = Readiness::plan(&scenario, &expanded, &plan, &mut world);
        (scenario, readiness)
    }

    #[test]
    fn machines_have_numbers_in_the_order_of_their_first_guests() {
        let (scenario, _) = planned();
        assert_eq!(machine_names(&scenario), ["e", "m"]);
        assert_eq!(machine_numbers(&scenario), BTreeMap::from([("e", 0), ("a", 1), ("c", 1)]));
    }

    #[test]
    fn who_waits_knows_its_conditions_and_each_condition_knows_who_waits() {
        let (scenario, mut readiness) = planned();
        assert_eq!(readiness.waits_of(&scenario, "a", 0), [0]);
        assert!(readiness.waits_of(&scenario, "b", 0).is_empty());
        let flows = ["first.0", "second.0", "third.0", "fourth.0"];
        assert_eq!(flows.map(|flow| readiness.waits_of_flow(flow)), [vec![1], vec![1], vec![2], vec![]]);
        let checked = |host: &str| -> Vec<_> {
            let own = readiness.conditions_of(host);
            own.map(|(id, condition)| (id, condition.program(), condition.check.clone())).collect()
        };
        let listens = |port| Check::Listens { port, ipv6: false };
        let server = (0, Some(1), Check::Port(80));
        assert_eq!(checked("b"), [server, (1, None, listens(5001)), (2, None, listens(5002))]);
        assert!(checked("a").is_empty());
        // Only a simulated flow is held back here; the others wait on their machine.
        let held: Vec<Vec<FlowId>> = readiness.conditions.iter().map(|own| own.flows.clone()).collect();
        assert_eq!(held, [vec![], vec![], vec![FlowId(2)]]);
        for id in 0..3 {
            readiness.handle(Notice::Holds(id));
        }
        assert_eq!(readiness.take_notices(), [(1, Notice::GoOn(0)), (1, Notice::GoOn(1))]);
        assert_eq!(readiness.released, [FlowId(2)]);
    }

    #[test]
    fn a_failure_names_some_of_those_who_wait() {
        let (_, mut readiness) = planned();
        for number in 0..3 {
            readiness.conditions[1].waiters.add(|| format!("flow more.{number}"));
        }
        readiness.handle(Notice::Fails(1, Why::Limit));
        let text = &readiness.failure().unwrap().text;
        let waiters = "; flow first.0, flow second.0, flow more.0 and 2 more waited for it";
        assert!(text.ends_with(waiters), "{text}");

        let (_, mut readiness) = planned();
        readiness.handle(Notice::Fails(2, Why::Limit));
        let text = &readiness.failure().unwrap().text;
        assert!(text.ends_with("; flow third.0 waited for it"), "{text}");
    }
}
