//! Which guests share a machine if a scenario leaves that to us: `machine = "auto"`.
//!
//! The choice depends on the scenario alone, and not on the machine that it runs on: the same scenario has to give the same bytes everywhere.

use std::collections::BTreeSet;

use crate::endpoint::Guest;
use crate::{Endpoint, Scenario};

/// The word for it.
pub(crate) const AUTO: &str = "auto";
/// Hosts of a machine, at most: its kernel does their work one after the other.
const HOSTS: usize = 64;
/// The same with offloads, where each host has a network device of its own.
const CARDS: usize = 16;
/// Machines for several hosts, at least: they run in parallel.
const LEAST: usize = 2;

impl Scenario {
    /// Gives the guests with `machine = "auto"` machines. Those with the same kernel and the same settings of the machine share as few as possible, but two at
    /// least, in turn.
    pub(crate) fn place_guests(&mut self) {
        let mut classes: Vec<(Guest, Vec<usize>)> = Vec::new();
        for (number, host) in self.host.iter().enumerate() {
            let Endpoint::Guest(guest) = &host.endpoint else { continue };
            if guest.machine.as_deref() != Some(AUTO) {
                continue;
            }
            let own = settings(guest);
            match classes.iter_mut().find(|(class, _)| *class == own && !guest.forwards) {
                Some((_, hosts)) => hosts.push(number),
                None => classes.push((own, vec![number])),
            }
        }
        // A guest without `machine` has one with its own name, and others may be named so.
        let taken: BTreeSet<String> =
            self.guests().map(|(host, guest)| guest.machine_of(&host.name).to_owned()).collect();
        let mut names =
            (0..).map(|number: usize| format!("{AUTO}-{number}")).filter(|name| !taken.contains(name));
        for (class, hosts) in classes {
            let most = if class.offloads == Some(true) { CARDS } else { HOSTS };
            let count = hosts.len().div_ceil(most).max(LEAST).min(hosts.len());
            let own: Vec<String> = names.by_ref().take(count).collect();
            for (number, host) in hosts.into_iter().enumerate() {
                if let Endpoint::Guest(guest) = &mut self.host[host].endpoint {
                    guest.machine = Some(own[number % count].clone());
                }
            }
        }
    }
}

/// What guests of one machine have to agree on, and nothing else. A router has a machine of its own, since its links are devices there.
fn settings(guest: &Guest) -> Guest {
    Guest {
        kernel: guest.kernel.clone(),
        cpu_share: guest.cpu_share,
        cpu_period: guest.cpu_period,
        tdf: guest.tdf,
        tsc: guest.tsc,
        offloads: guest.offloads,
        interrupts: guest.interrupts,
        memory: guest.memory,
        forwards: guest.forwards,
        ..Guest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The machines of `count` guests with these keys, after a guest with another kernel and a router.
    fn machines(count: usize, keys: &str) -> Vec<String> {
        let mut text = "duration = \"1s\"\n".to_owned();
        let mut host = |name: &str, keys: &str| {
            text += &format!(
                "[[link]]\nbetween = [\"hub\", \"{name}\"]\nrate = \"1Mbit/s\"\n[[host]]\nname = \"{name}\"\nendpoint = \"guest\"\nmachine = \"auto\"\n{keys}\n"
            );
        };
        host("old", "kernel = \"6.12\"");
        host("router", "forwards = true");
        for number in 0..count {
            host(&format!("h{number}"), keys);
        }
        text += "[[flow]]\nfrom = \"old\"\nto = \"h0\"\n";
        let scenario = Scenario::from_toml("test", &text, &[]).unwrap();
        scenario.guests().map(|(host, guest)| guest.machine_of(&host.name).to_owned()).collect()
    }

    #[test]
    fn a_machine_that_is_named_is_not_shared() {
        let text = "duration = \"1s\"\n[[link]]\nbetween = [\"auto-0\", \"b\"]\nrate = \"1Mbit/s\"\n\
                    [[host]]\nname = \"auto-0\"\nendpoint = \"guest\"\n\
                    [[host]]\nname = \"b\"\nendpoint = \"guest\"\nmachine = \"auto\"\n\
                    [[flow]]\nfrom = \"auto-0\"\nto = \"b\"\n";
        let scenario = Scenario::from_toml("test", text, &[]).unwrap();
        let machines: Vec<&str> =
            scenario.guests().map(|(host, guest)| guest.machine_of(&host.name)).collect();
        assert_eq!(machines, ["auto-0", "auto-1"]);
    }

    #[test]
    fn guests_that_agree_share_few_machines() {
        assert_eq!(machines(1, ""), ["auto-0", "auto-1", "auto-2"]);
        assert_eq!(machines(3, "")[2..], ["auto-2", "auto-3", "auto-2"]);
        let mut many = machines(200, "");
        many.sort_unstable();
        many.dedup();
        assert_eq!(many.len(), 2 + 4);
        let cards = machines(40, "offloads = true");
        let of = |name: &str| cards.iter().filter(|machine| *machine == name).count();
        assert_eq!((of("auto-2"), of("auto-3"), of("auto-4"), of("auto-5")), (14, 13, 13, 0));
    }
}
