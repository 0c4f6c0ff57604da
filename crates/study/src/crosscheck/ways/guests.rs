//! Hosts as guests: every host whose flows the kernel of a guest can carry.

use std::collections::{BTreeMap, BTreeSet};

use warpline_scenario::endpoint::{Guest, Tsc};
use warpline_scenario::{Diagnostics, Endpoint, Host, Scenario, TcpOptions, Traffic, Transport};

use super::super::Linux;
use super::super::base::{Base, VIRTUAL, changed, given, in_a_line, plain_cc, switch};
use super::Hosts;
use crate::linux::{BUFFERS, MODEL_TCP, SWITCHES};

/// Guests that can share kernels do: they need less memory, and boot faster.
const SHARED: &str = "auto";

/// The scenario with guests in place of live hosts, and of models whose flows the kernel can carry. The other flows stay as they are, each with a
/// note that says why.
///
/// # Errors
/// If no host can be a guest.
pub(super) fn guests(base: &Base, linux: &Linux) -> Result<Hosts, String> {
    let mut scenario = base.scenario.clone();
    scenario.clock = VIRTUAL;
    for host in &mut scenario.host {
        if let Endpoint::Live(live) = &host.endpoint {
            host.endpoint = Endpoint::Guest(Guest { real: live.real.clone(), ..Guest::default() });
        }
        if let Endpoint::Guest(guest) = &mut host.endpoint {
            // Under the virtual clock, a kernel's work takes no time.
            (guest.cpu_share, guest.cpu_period) = (None, None);
            guest.tsc = guest.tsc.filter(|tsc| *tsc == Tsc::Guest);
        }
    }
    let mut kept = Vec::new();
    for entry in 0..scenario.flow.len() {
        let ends = models(base, &scenario, entry);
        if ends.is_empty() {
            continue;
        }
        let turned = settings(base, entry, linux);
        // What these hosts send besides would be sent by the kernel, too.
        let turned = turned.and_then(|own| others_fit(base, entry, (&ends, &own), linux).map(|()| own));
        let turned = turned.and_then(|own| {
            let mut turned = scenario.clone();
            own.iter()
                .filter(|(name, _)| ends.contains(*name))
                .for_each(|(name, own)| turn(&mut turned, name, own));
            // They are settings of its kernels now. A model at the other end keeps them.
            if base.ends_of(entry).all(|name| turned.traffic(name) == Traffic::Kernel) {
                turned.flow[entry].tcp = None;
            }
            changed(&turned, &[]).map(|_| turned).map_err(|wrong| refusal(base, entry, &wrong))
        });
        match turned {
            Ok(turned) => scenario = turned,
            Err(why) => kept.push((group(base, entry), why)),
        }
    }
    let notes = said(&kept, "stay models");
    if scenario.guests().next().is_none() {
        return Err(match notes.is_empty() {
            true => "no host can be a guest: none is a model".to_owned(),
            false => notes.join("; "),
        });
    }
    for host in &mut scenario.host {
        if let (Endpoint::Guest(guest), Some(kernel)) = (&mut host.endpoint, &linux.name) {
            guest.kernel = Some(kernel.clone());
        }
    }
    Ok(Hosts { scenario, sets: Vec::new(), notes, ports: BTreeMap::new() })
}

/// The same for a clock that follows the machine's.
///
/// # Errors
/// If no host can be a guest.
pub(super) fn guests_in_time(base: &Base, linux: &Linux) -> Result<Hosts, String> {
    let mut hosts = guests(base, linux)?;
    for host in &mut hosts.scenario.host {
        if let Endpoint::Guest(guest) = &mut host.endpoint {
            let own = base.scenario.guests().find(|(own, _)| own.name == host.name);
            // Time between interrupts is for the virtual clock, and shares of a core are for the others.
            guest.interrupts = None;
            guest.cpu_share = own.and_then(|(_, own)| own.cpu_share);
            guest.cpu_period = own.and_then(|(_, own)| own.cpu_period);
            guest.tsc = own.and_then(|(_, own)| own.tsc);
        }
    }
    Ok(hosts)
}

/// Why flows stay as they are, those with the same reason together.
pub(super) fn said(kept: &[(String, String)], how: &str) -> Vec<String> {
    let mut reasons: Vec<&str> = Vec::new();
    for (_, why) in kept {
        if !reasons.contains(&why.as_str()) {
            reasons.push(why);
        }
    }
    let one = |why: &str| {
        let groups = kept.iter().filter(|(_, own)| own == why).map(|(group, _)| format!("`{group}`"));
        format!("the flows of {} {how}: {why}", groups.collect::<Vec<_>>().join(", "))
    };
    reasons.into_iter().map(one).collect()
}

/// Why the hosts of a flow cannot be other hosts. It may be because of other flows that they have.
pub(super) fn refusal(base: &Base, entry: usize, wrong: &Diagnostics) -> String {
    let path = wrong.errors.first().map_or("", |error| &error.path);
    let number = path.strip_prefix("flow.").and_then(|rest| rest.split('.').next()?.parse::<usize>().ok());
    match number.filter(|number| *number != entry) {
        Some(other) => {
            format!("their hosts have flows of `{}`, too: {}", group(base, other), in_a_line(wrong))
        }
        None => in_a_line(wrong),
    }
}

/// Name of the group of a flow's entry.
pub(super) fn group(base: &Base, entry: usize) -> String {
    let named = base.expanded.flows.iter().find(|flow| flow.entry == entry);
    named.map(|flow| flow.group.to_string()).unwrap_or_default()
}

/// The nodes at the ends of a flow's instances that are models in `scenario`.
pub(super) fn models(base: &Base, scenario: &Scenario, entry: usize) -> BTreeSet<String> {
    let models = base.ends_of(entry).filter(|name| scenario.traffic(name) == Traffic::Model);
    models.map(str::to_owned).collect()
}

/// Settings of a kernel, by their names.
type Sysctl = BTreeMap<String, String>;

/// Checks the other flows that hosts of a flow send, for a kernel that carries them with the settings for this flow.
///
/// # Errors
/// What Linux does not have, or that they need other settings.
fn others_fit(
    base: &Base,
    entry: usize,
    (ends, own): (&BTreeSet<String>, &BTreeMap<String, Sysctl>),
    linux: &Linux,
) -> Result<(), String> {
    for other in (0..base.scenario.flow.len()).filter(|other| *other != entry) {
        let flows = base.expanded.flows.iter().filter(|flow| flow.entry == other);
        let senders: BTreeSet<&str> = flows.map(|flow| &base.expanded.nodes[flow.from]).collect();
        let shared: Vec<&str> = senders.into_iter().filter(|name| ends.contains(*name)).collect();
        if shared.is_empty() {
            continue;
        }
        let too = format!("their hosts have flows of `{}`, too", group(base, other));
        let wanted = settings(base, other, linux).map_err(|why| format!("{too}: {why}"))?;
        if let Some(name) = shared.into_iter().find(|name| own.get(*name) != wanted.get(*name)) {
            return Err(format!("{too}, with other `tcp` options, and `{name}` has one kernel for both"));
        }
    }
    Ok(())
}

/// The kernels' settings for a flow, by the host.
///
/// # Errors
/// What Linux does not have.
fn settings(base: &Base, entry: usize, linux: &Linux) -> Result<BTreeMap<String, Sysctl>, String> {
    let Scenario { flow, tcp, host, .. } = &base.scenario;
    let flow = &flow[entry];
    if flow.transport() == Transport::Udp {
        return Err("the kernel of a guest sends no UDP by itself".to_owned());
    }
    let cc =
        plain_cc(flow).ok_or("its congestion control has parameters, which Linux's own does not take")?;
    if !linux.controls.contains(&cc) {
        return Err(format!("Linux {} has no congestion control `{cc}`", linux.version));
    }
    let of_host = |name: String| {
        let own = host.iter().find(|host| host.name == name).and_then(|host| host.endpoint.tcp());
        let mut settings: Sysctl =
            BUFFERS.map(|(setting, sizes)| (setting.to_owned(), sizes.to_owned())).into();
        for options in std::iter::once(tcp).chain(own).chain(&flow.tcp) {
            settings.extend(switches(options)?);
        }
        Ok((name, settings))
    };
    models(base, &base.scenario, entry).into_iter().map(of_host).collect()
}

/// The kernel's settings for options of TCP.
///
/// # Errors
/// What Linux does not have.
fn switches(options: &TcpOptions) -> Result<Sysctl, String> {
    let mut settings = Sysctl::new();
    // Some say how Linux is.
    for name in given(options).into_iter().filter(|name| !MODEL_TCP.iter().any(|(key, _)| key == name)) {
        let known = SWITCHES.iter().find(|(key, _)| *key == name);
        let (Some((_, setting)), Some(on)) = (known, switch(options, &name)) else {
            return Err(format!("`tcp.{name}` has no counterpart among the settings of a guest"));
        };
        settings.insert((*setting).to_owned(), u8::from(on).to_string());
    }
    Ok(settings)
}

/// Makes a guest of a node.
fn turn(scenario: &mut Scenario, name: &str, sysctl: &Sysctl) {
    scenario.host.retain(|host| host.name != name);
    let guest = Guest { machine: Some(SHARED.to_owned()), sysctl: sysctl.clone(), ..Guest::default() };
    scenario.host.push(Host { name: name.to_owned(), endpoint: Endpoint::Guest(guest) });
}
