//! The model at every host.

use std::collections::BTreeMap;

use warpline_scenario::cc::Cc;
use warpline_scenario::endpoint::Guest;
use warpline_scenario::{Clock, Endpoint, Host};

use super::super::base::{Base, VIRTUAL, plain_cc};
use super::guests::{group, guests};
use super::{Hosts, Setting, Way};
use crate::linux::{SWITCHES, algorithm};

/// The built-in model of TCP.
#[derive(Debug)]
pub(super) struct Model;

impl Way for Model {
    fn name(&self) -> &'static str {
        "model"
    }
    fn what(&self) -> &'static str {
        "the TCP model, with Linux's settings"
    }
    fn clock(&self, _: &Setting<'_>) -> Clock {
        VIRTUAL
    }
    fn has_guests(&self) -> bool {
        false
    }
    fn references(&self) -> &'static [&'static str] {
        &["linux"]
    }
    fn hosts(&self, base: &Base, setting: &Setting<'_>) -> Result<Hosts, String> {
        let mut scenario = base.scenario.clone();
        let mut sets = Vec::new();
        for (number, host) in scenario.host.iter_mut().enumerate() {
            if let Some(program) = host.programs().first() {
                return Err(format!(
                    "`{}` runs a program ({}), which a model cannot",
                    host.name, program.command
                ));
            }
            match &host.endpoint {
                Endpoint::Live(_) => {
                    return Err(format!("`{}` is live, and a model has no programs", host.name));
                }
                Endpoint::Interface(_) => {
                    return Err(format!("`{}` is outside, and not to be had in a model", host.name));
                }
                Endpoint::Guest(guest) => {
                    sets.extend(
                        options(host, guest)?
                            .into_iter()
                            .map(|(key, on)| format!("host.{number}.tcp.{key}={on}")),
                    );
                    let (name, cc) = (host.name.clone(), guest.cc.clone());
                    host.endpoint = Endpoint::default();
                    // The host's congestion control is that of the flows that it sends.
                    for (entry, flow) in
                        scenario.flow.iter_mut().enumerate().filter(|(_, flow)| flow.cc.is_none())
                    {
                        let mut own = base.expanded.flows.iter().filter(|flow| flow.entry == entry);
                        if own.any(|flow| base.expanded.nodes[flow.from] == *name) {
                            flow.cc = cc.clone().map(|name| Cc::Custom { name });
                        }
                    }
                }
                _ => {}
            }
        }
        // Where Linux has the flow in its place, the model computes as Linux does.
        let linux = setting.linux.and_then(|linux| guests(base, linux).ok());
        let mut notes = Vec::new();
        for (entry, flow) in scenario.flow.iter().enumerate() {
            let own = plain_cc(flow).and_then(|name| algorithm(&name)).filter(|own| own.model != own.name);
            let turned = linux
                .as_ref()
                .is_some_and(|linux| super::guests::models(base, &linux.scenario, entry).is_empty());
            if let (Some(own), true) = (own, turned) {
                sets.push(format!("flow.{entry}.cc={}", own.model));
                notes.push(format!(
                    "`{}` has cc = \"{}\", as Linux computes it",
                    group(base, entry),
                    own.model
                ));
            }
        }
        Ok(Hosts { scenario, sets, notes, ports: BTreeMap::new() })
    }
}

/// The model's options for the settings of a guest.
///
/// # Errors
/// What the model does not have.
fn options(host: &Host, guest: &Guest) -> Result<Vec<(&'static str, bool)>, String> {
    let name = &host.name;
    if guest.forwards || !guest.tc.is_empty() {
        return Err(format!(
            "`{name}` has queues of Linux's own (`forwards`, `tc`), which a model does not have"
        ));
    }
    let option = |(setting, value): (&String, &String)| {
        // Of buffers the model has enough in any case.
        if setting.ends_with("mem") {
            return None;
        }
        let known = SWITCHES.iter().find(|(_, known)| known == setting);
        Some(match (known, value.as_str()) {
            (Some((key, _)), "0") => Ok((*key, false)),
            (Some((key, _)), "1") => Ok((*key, true)),
            _ => Err(format!("`{name}` has sysctl {setting} = {value}, which a model does not have")),
        })
    };
    guest.sysctl.iter().filter_map(option).collect()
}
