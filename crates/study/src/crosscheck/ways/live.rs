//! Live hosts: network namespaces of this machine, with its own kernel and a program for each flow.

use std::collections::{BTreeMap, BTreeSet};

use warpline_core::Timestamp;
use warpline_core::random::Streams;
use warpline_scenario::endpoint::{Live as LiveHost, Real};
use warpline_scenario::{
    App, Clock, ClockMode, Endpoint, Expect, Flow, Host, Program, ProgramCommand, Scenario, Time, Traffic,
    Transport,
};

use super::super::base::{Base, changed, given, in_a_line, plain_cc};
use super::guests::{group, models, said};
use super::places::{moved, pinned};
use super::{Hosts, Setting, Way};

/// The first port of the programs that receive.
const FIRST_PORT: u16 = 5001;

/// Namespaces of this machine.
#[derive(Debug)]
pub(super) struct Live;

impl Way for Live {
    fn name(&self) -> &'static str {
        "live"
    }
    fn what(&self) -> &'static str {
        "this machine's own kernel, in network namespaces, on its clock"
    }
    fn clock(&self, _: &Setting<'_>) -> Clock {
        super::clock(ClockMode::Real)
    }
    fn has_guests(&self) -> bool {
        false
    }
    fn references(&self) -> &'static [&'static str] {
        &["linux", "real", "dilated", "model"]
    }
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String> {
        let controls = setting.machine.live.as_ref().map_err(Clone::clone)?;
        // Guests with programs, and routers, stay guests.
        let mut scenario = pinned(base);
        scenario.clock = self.clock(setting);
        for host in &mut scenario.host {
            if let Endpoint::Guest(guest) = &mut host.endpoint {
                guest.interrupts = None;
            }
        }
        let mut kept = Vec::new();
        let mut ports = BTreeMap::new();
        let mut removed = BTreeSet::new();
        for entry in 0..base.scenario.flow.len() {
            let ends = models(base, &base.scenario, entry);
            let guests = plain_guests(base, entry);
            if ends.is_empty() && guests.is_empty() {
                continue;
            }
            let turned = fit(base, entry, controls).and_then(|cc| {
                let mut turned = scenario.clone();
                let mut own = ports.clone();
                turn(base, setting, entry, &cc, &mut turned, &mut own)?;
                // The entries are removed at the end, so that their numbers stay.
                let mut trial = turned.clone();
                let gone = |number: usize| number == entry || removed.contains(&number);
                retain(&mut trial.flow, |number| !gone(number));
                if let Some(flow) = moved(base, &trial) {
                    return Err(format!(
                        "without them, `{flow}` would be between other hosts; name its hosts in `from` and `to`"
                    ));
                }
                changed(&trial, &[]).map(|_| (turned, own)).map_err(|wrong| in_a_line(&wrong))
            });
            match turned {
                Ok((turned, own)) => {
                    (scenario, ports) = (turned, own);
                    removed.insert(entry);
                }
                Err(why) => kept.push((group(base, entry), why)),
            }
        }
        let notes = said(&kept, "stay as they are");
        retain(&mut scenario.flow, |number| !removed.contains(&number));
        if !scenario.needs_namespaces() {
            return Err(match notes.is_empty() {
                true => "no host is live, and no flow can be one of programs; what guests' programs write would be on this machine's disk".to_owned(),
                false => notes.join("; "),
            });
        }
        Ok(Hosts { scenario, sets: Vec::new(), notes, ports })
    }
}

/// Keeps the entries whose numbers are wanted.
fn retain(flows: &mut Vec<Flow>, wanted: impl Fn(usize) -> bool) {
    let mut number = 0;
    flows.retain(|_| {
        number += 1;
        wanted(number - 1)
    });
}

/// The guests at the ends of a flow that run nothing but flows.
fn plain_guests(base: &Base, entry: usize) -> BTreeSet<String> {
    let guests = base.ends_of(entry).filter(|name| base.scenario.traffic(name) == Traffic::Kernel);
    guests.map(str::to_owned).collect()
}

/// The congestion control of a flow that programs can stand for.
///
/// # Errors
/// Why they cannot.
fn fit(base: &Base, entry: usize, controls: &[String]) -> Result<String, String> {
    let flow = &base.scenario.flow[entry];
    if flow.app != App::Bulk || flow.transport() == Transport::Udp {
        return Err(format!("only app = \"bulk\" has a program here, and not {}", flow.app.name()));
    }
    let ends = models(base, &base.scenario, entry);
    let of_hosts = base.scenario.host.iter().filter(|host| ends.contains(&host.name));
    let of_hosts = of_hosts.filter_map(|host| host.endpoint.tcp());
    if let Some(option) = flow.tcp.iter().chain([&base.scenario.tcp]).chain(of_hosts).flat_map(given).next() {
        return Err(format!("`tcp.{option}` has no counterpart in a program"));
    }
    if flow.multipath.is_some() || flow.max_window.is_some() || flow.max_rate.is_some() || flow.port.is_some()
    {
        return Err("`multipath`, `max_window`, `max_rate` and `port` are not for programs".to_owned());
    }
    let cc =
        plain_cc(flow).ok_or("its congestion control has parameters, which Linux's own does not take")?;
    // What a flow does not say, the guest that sends it does.
    let senders =
        base.expanded.flows.iter().filter(|own| own.entry == entry).map(|own| &base.expanded.nodes[own.from]);
    let of_guests: BTreeSet<&str> = senders
        .filter_map(|name| base.scenario.guests().find(|(host, _)| host.name == *name)?.1.cc.as_deref())
        .collect();
    let cc = match (&flow.cc, &of_guests.into_iter().collect::<Vec<_>>()[..]) {
        (None, [own]) => (*own).to_owned(),
        (None, [_, ..]) => return Err("its senders have several congestion controls".to_owned()),
        _ => cc,
    };
    match controls.contains(&cc) {
        true => Ok(cc),
        false => Err(format!(
            "this machine's kernel has no congestion control `{cc}` loaded (it has {})",
            controls.join(", ")
        )),
    }
}

/// Puts a program that sends and one that receives in the place of each instance of a flow.
fn turn(
    base: &Base,
    setting: &Setting<'_>,
    entry: usize,
    cc: &str,
    scenario: &mut Scenario,
    ports: &mut BTreeMap<u16, String>,
) -> Result<(), String> {
    let streams = Streams::new(setting.seed);
    for flow in base.expanded.flows.iter().filter(|flow| flow.entry == entry) {
        let port = FIRST_PORT.saturating_add(ports.len() as u16);
        let start = flow.begin(&streams).saturating_since(Timestamp::ZERO);
        let stop = flow.stop.unwrap_or(base.scenario.duration.0);
        let (from, to) = (&base.expanded.nodes[flow.from], &base.expanded.nodes[flow.to]);
        let load = |words: &[String]| {
            let program = setting.machine.program.to_string_lossy().into_owned();
            let words = [program, "load".to_owned()].into_iter().chain(words.iter().cloned());
            ProgramCommand::Words(words.collect())
        };
        let sink =
            Program { expect: Expect::Running, ..program(load(&["tcp-sink".to_owned(), port.to_string()])) };
        let seconds = stop.saturating_sub(start).as_secs_f64();
        let mut words = vec![
            "tcp".to_owned(),
            format!("{{{to}}}:{port}"),
            seconds.to_string(),
            "0".to_owned(),
            cc.to_owned(),
        ];
        // What waits to be sent when it stops would still be on the link afterwards.
        words.extend((stop < base.scenario.duration.0).then(|| "prompt".to_owned()));
        let source = Program { expect: Expect::Any, start: Time(start), ..program(load(&words)) };
        add(base, scenario, to, sink)?;
        add(base, scenario, from, source)?;
        ports.insert(port, flow.group.to_string());
    }
    Ok(())
}

/// A program with nothing said but its command.
fn program(command: ProgramCommand) -> Program {
    Program {
        name: None,
        command,
        start: Time::default(),
        ready: None,
        after: Some(Vec::new()),
        environment: BTreeMap::new(),
        expect: Expect::default(),
        stop: Default::default(),
        collect: Vec::new(),
    }
}

/// Adds a program to a live host, which is made of a model or a guest if need be.
fn add(base: &Base, scenario: &mut Scenario, name: &str, program: Program) -> Result<(), String> {
    let own = base.scenario.host.iter().find(|host| host.name == name);
    if own.is_some_and(|own| !own.programs().is_empty() && own.traffic() == Traffic::Kernel) {
        return Err(format!("`{name}` runs programs, and what they write would be on this machine's disk"));
    }
    if !scenario.host.iter().any(|host| host.name == name) {
        scenario.host.push(Host { name: name.to_owned(), endpoint: Endpoint::Live(LiveHost::default()) });
    }
    let Some(host) = scenario.host.iter_mut().find(|host| host.name == name) else { return Ok(()) };
    match &mut host.endpoint {
        Endpoint::Live(_) => {}
        Endpoint::Guest(guest) if guest.sysctl.is_empty() && guest.tc.is_empty() && !guest.forwards => {
            let real = Real { program: Vec::new(), ..guest.real.clone() };
            host.endpoint = Endpoint::Live(LiveHost { real });
        }
        Endpoint::Model(_) => host.endpoint = Endpoint::Live(LiveHost::default()),
        _ => return Err(format!("`{name}` has settings that a namespace does not have")),
    }
    if let Endpoint::Live(live) = &mut host.endpoint {
        live.real.program.push(program);
    }
    Ok(())
}
