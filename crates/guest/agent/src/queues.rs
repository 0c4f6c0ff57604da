//! The queues in front of interfaces, set up and read with `tc` (iproute2), a program of the machine.

use std::fs;
use std::path::Path;

use warpline_agent::{HostOrder, Order, queues_file};

use crate::failure::{Doing, Failure};
use crate::hosts::Hosts;
use crate::modules;
use crate::mounts::SHARED;
use crate::programs;

/// Where `tc` is searched for.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Loads the modules that commands need, and carries out the commands of all hosts.
pub(crate) fn set_up(order: &Order, hosts: &Hosts) -> Result<(), Failure> {
    for module in &order.tools {
        modules::load(module)?;
    }
    for (number, host) in order.hosts.iter().enumerate() {
        for (entry, words) in host.tc.iter().enumerate() {
            tc(words, hosts, number as u32).map_err(|failure| {
                let (name, entry, command) = (&host.name, entry + 1, words.join(" "));
                Failure::new(format!("host {name}, entry {entry} of `tc`: `tc {command}`: {failure}"))
            })?;
        }
    }
    Ok(())
}

/// Writes the state of the queues of all hosts that forward or have commands to the share.
pub(crate) fn report(order: &Order, hosts: &Hosts) -> Result<(), Failure> {
    let has_some = |host: &HostOrder| !host.interfaces.is_empty() || !host.tc.is_empty();
    for (number, host) in order.hosts.iter().enumerate().filter(|(_, host)| has_some(host)) {
        let words = ["-s", "-j", "qdisc", "show"].map(str::to_owned);
        // A machine without iproute2 has none to show; with commands the guest would not have come so far.
        let Ok(shown) = tc(&words, hosts, number as u32) else { continue };
        let path = Path::new(SHARED).join(queues_file(&host.name));
        fs::write(&path, shown).doing(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Runs `tc` on a host; returns its output.
fn tc(words: &[String], hosts: &Hosts, host: u32) -> Result<Vec<u8>, Failure> {
    let words: Vec<String> = std::iter::once("tc".to_owned()).chain(words.iter().cloned()).collect();
    let environment = [("PATH".to_owned(), SEARCH.to_owned()), ("LANG".to_owned(), "C.UTF-8".to_owned())];
    let mut command = programs::command(&words, &environment, "/", hosts, host)?;
    let output = command.output().doing(|| "start tc, a program of iproute2".to_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        return Err(Failure::new(said.join(" ")));
    }
    Ok(output.stdout)
}
