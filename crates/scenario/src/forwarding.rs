//! Guests that forward: their interfaces, and what has to hold in a scenario with one.
//!
//! A guest with `forwards = true` is a router whose kernel does the work. It has an interface for each of its neighbours, with the neighbour's name.

use std::collections::BTreeSet;

use warpline_core::LinkId;

use crate::checker::Check;
use crate::diagnostics::spelling_help;
use crate::document::entry;
use crate::endpoint::{Endpoint, Guest, Traffic};
use crate::expand::Expanded;
use crate::routing::RoutingKind;
use crate::{Host, Scenario};

/// The one interface of a guest that does not forward.
const ONLY: &str = "eth0";
/// Longest name of an interface in bytes (linux/if.h, `IFNAMSIZ`, without the zero byte).
const MOST: usize = 15;
/// Names that mean something else to Linux.
const TAKEN: [&str; 5] = ["lo", "all", "default", ".", ".."];
/// Objects of tc(8) that a command can begin with.
const OBJECTS: [&str; 5] = ["qdisc", "class", "filter", "action", "chain"];

/// An interface of a guest that forwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name: that of the neighbour.
    pub name: String,
    /// The neighbour's node.
    pub neighbour: usize,
    /// The link over which it sends, if there is one.
    pub sends: Option<LinkId>,
    /// The link over which it receives, if there is one.
    pub receives: Option<LinkId>,
}

impl Expanded {
    /// The interfaces that a node has if it is a guest that forwards: one for each neighbour, in the order of the links.
    pub fn interfaces(&self, node: usize) -> Vec<Interface> {
        let mut all: Vec<Interface> = Vec::new();
        for (number, link) in self.links.iter().enumerate() {
            let neighbour = match (link.from == node, link.to == node) {
                (true, false) => link.to,
                (false, true) => link.from,
                _ => continue,
            };
            let place = all.iter().position(|own| own.neighbour == neighbour).unwrap_or_else(|| {
                let name = self.nodes[neighbour].to_owned();
                all.push(Interface { name, neighbour, sends: None, receives: None });
                all.len() - 1
            });
            let end = if link.from == node { &mut all[place].sends } else { &mut all[place].receives };
            *end = end.or(Some(LinkId(number as u32)));
        }
        all
    }

    /// For each node, whether it is a guest that forwards.
    pub fn forwarding(&self, scenario: &Scenario) -> Vec<bool> {
        let mut nodes = vec![false; self.nodes.len()];
        for (host, _) in scenario.guests().filter(|(_, guest)| guest.forwards) {
            if let Some(node) = self.nodes.find(&host.name) {
                nodes[node as usize] = true;
            }
        }
        nodes
    }
}

/// The arguments of `tc` for an entry of `tc`: one that begins with `dev` sets the queue of that interface, whatever it had.
pub fn tc_words(command: &str) -> Vec<String> {
    let given = command.split_whitespace().map(str::to_owned);
    let first = command.split_whitespace().next();
    let implied = if first == Some("dev") { &["qdisc", "replace"][..] } else { &[] };
    implied.iter().map(|word| (*word).to_owned()).chain(given).collect()
}

/// Checks all guests that forward, the commands for queues, and the flows through them.
pub(crate) fn check(check: &mut Check<'_>, expanded: &Expanded) {
    let scenario = check.scenario;
    for (number, host) in scenario.host.iter().enumerate() {
        let Endpoint::Guest(guest) = &host.endpoint else { continue };
        let Some(node) = expanded.nodes.find(&host.name) else { continue };
        let names: Vec<String> = match guest.forwards {
            true => expanded.interfaces(node as usize).into_iter().map(|own| own.name).collect(),
            false => vec![ONLY.to_owned()],
        };
        if guest.forwards {
            interfaces(check, (number, host), &names);
        }
        commands(check, (number, host, guest), &names);
    }
    flows(check, expanded);
}

/// Neighbours' names have to be names of interfaces.
fn interfaces(check: &mut Check<'_>, (number, host): (usize, &Host), names: &[String]) {
    let unfit = |name: &&String| {
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
        name.len() > MOST || name.contains(odd) || TAKEN.contains(&name.as_str())
    };
    if let Some(name) = names.iter().find(unfit) {
        let message = format!("`{}` has an interface for `{name}`, and Linux takes no such name", host.name);
        let help =
            "rename that node: an interface's name has at most 15 bytes, none of them a space, `/` or `:`";
        check.error(&entry("host", number, &["forwards"]), message, help);
    }
}

/// Each command names an interface that there is.
fn commands(check: &mut Check<'_>, (number, host, guest): (usize, &Host, &Guest), names: &[String]) {
    for command in &guest.tc {
        let at = entry("host", number, &["tc"]);
        let words: Vec<&str> = command.split_whitespace().collect();
        let example =
            format!("for example \"dev {} root fq_codel\"", names.first().map_or(ONLY, |name| name));
        if !words.first().is_some_and(|first| *first == "dev" || OBJECTS.contains(first)) {
            let message = format!("{command:?} is not a command for `tc`");
            let help = format!("it begins with `dev INTERFACE`, or with {}; {example}", OBJECTS.join(", "));
            check.error(&at, message, &help);
            continue;
        }
        let device = words.iter().skip_while(|word| **word != "dev").nth(1);
        match device {
            None => {
                let message = format!("{command:?} names no interface");
                check.error(&at, message, &example);
            }
            Some(device) if !names.iter().any(|name| name == device) => {
                let known: Vec<&str> = names.iter().map(String::as_str).collect();
                let mut help = spelling_help(device, &known);
                help.push(match guest.forwards {
                    true => {
                        "a guest that forwards has an interface for each neighbour, with its name".to_owned()
                    }
                    false => "with forwards = true it has an interface for each neighbour".to_owned(),
                });
                let message = format!("`{}` has no interface `{device}`", host.name);
                check.errors.about(check.root, &at, message, help);
            }
            Some(_) => {}
        }
    }
}

/// Packets of simulated flows that meet a guest that forwards have to meet it on one route.
fn flows(check: &mut Check<'_>, expanded: &Expanded) {
    let scenario = check.scenario;
    let forwarding = expanded.forwarding(scenario);
    if !forwarding.contains(&true) {
        return;
    }
    let hosts = scenario.hosts_by_name();
    let simulated = |node: usize| hosts.traffic(&expanded.nodes[node]) == Traffic::Model;
    let mut reported = BTreeSet::new();
    for flow in &expanded.flows {
        if !simulated(flow.from) || !simulated(flow.to) {
            continue;
        }
        let sets = [flow.forward, flow.reverse];
        let arrivals = flow.arrivals.iter().flat_map(|arrival| [arrival.forward, arrival.reverse]);
        let several = flow.several || sets.iter().any(|set| set.count > 1) || !flow.arrivals.is_empty();
        let mut routes = sets.into_iter().chain(arrivals).flat_map(|set| set.first..set.first + set.count);
        let meets = routes.any(|route| {
            expanded.routes.links(route).iter().any(|link| forwarding[expanded.links.at(*link).to])
        });
        let chosen = !flow.via.is_empty() || flow.subflow.is_some();
        if chosen && meets && reported.insert(flow.entry) {
            let message = "this flow says which way it takes, and a guest forwards on it";
            let help = "leave `via` or `multipath` out, since a guest's kernel has one route to each host; or let a model be the router";
            check.error(&entry("flow", flow.entry, &["to"]), message, help);
        } else if several && meets && reported.insert(flow.entry) {
            let message = "this flow takes several routes, and a guest forwards on one of them".to_owned();
            let spray = scenario.routing.as_ref().is_some_and(|rule| matches!(rule.0, RoutingKind::Spray(_)));
            let help = match spray {
                true => "routing = \"first\" or \"ecmp\": a guest's kernel has one route to each host",
                false => "give each pair of hosts a flow of its own, or let a model be the router",
            };
            check.error(&entry("flow", flow.entry, &["to"]), message, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKS: &str = "duration = \"1s\"\n\
        link = [{ between = [\"a\", \"r\"], rate = \"1Mbit/s\" }, { between = [\"r\", \"b\"], rate = \"1Mbit/s\" }]\n\
        flow = [{ from = \"a\", to = \"b\" }]\n";

    fn load(text: &str) -> Result<Scenario, String> {
        Scenario::from_toml("test.toml", text, &[]).map_err(|errors| errors.to_string())
    }

    fn router(keys: &str) -> String {
        format!("{LINKS}[[host]]\nname = \"r\"\nendpoint = \"guest\"\n{keys}\n")
    }

    #[test]
    fn a_router_has_an_interface_for_each_neighbour() {
        let scenario = load(&router("forwards = true\ntc = [\"dev b root tbf rate 1mbit\"]")).unwrap();
        let again = Scenario::from_toml("test.toml", &scenario.to_toml(), &[]);
        assert_eq!(again.map_err(|errors| errors.to_string()), Ok(scenario.clone()));
        let expanded = scenario.expand();
        let node = expanded.nodes.find("r").unwrap() as usize;
        let own = expanded.interfaces(node);
        assert_eq!(own.iter().map(|own| own.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let b = expanded.links.at(own[1].sends.unwrap());
        assert_eq!((b.from, &expanded.nodes[b.to]), (node, "b"));
        assert_eq!(expanded.links.at(own[1].receives.unwrap()).to, node);
        assert_eq!(expanded.forwarding(&scenario).iter().filter(|own| **own).count(), 1);
    }

    #[test]
    fn an_entry_that_begins_with_an_interface_sets_its_queue() {
        let joined = |command| tc_words(command).join(" ");
        assert_eq!(joined("dev r2  root cake"), "qdisc replace dev r2 root cake");
        assert_eq!(
            joined("class add dev r2 parent 1: classid 1:1"),
            "class add dev r2 parent 1: classid 1:1"
        );
    }

    #[test]
    fn errors_have_a_place_and_say_what_to_do() {
        let long = router("forwards = true").replace("\"b\"", "\"a-name-of-17-byte\"");
        let spray = format!("routing = \"spray\"\n{}", router("forwards = true"));
        // A second route, as good as the first.
        let spray = spray.replace(
            "{ between = [\"a\", \"r\"]",
            "{ between = [\"a\", \"q\"], rate = \"1Mbit/s\" }, { between = [\"q\", \"b\"], rate = \"1Mbit/s\" }, { between = [\"a\", \"r\"]",
        );
        for (text, parts) in [
            (
                router("forwards = true\ntc = [\"dev c root cake\"]"),
                ["test.toml:8:", "no interface `c`", "allowed: a, b"],
            ),
            (router("tc = [\"dev b root cake\"]"), ["test.toml:7:", "no interface `b`", "forwards = true"]),
            (router("forwards = true\ntc = [\"cake\"]"), ["test.toml:8:", "not a command", "dev a root"]),
            (
                router("forwards = true\ntc = [\"qdisc add root cake\"]"),
                ["test.toml:8:", "names no interface", "dev a"],
            ),
            (long, ["test.toml:7:", "interface for `a-name-of-17-byte`", "15 bytes"]),
            (spray, ["test.toml:4:", "several routes", "ecmp"]),
            (
                router("forwards = true").replace("endpoint = \"guest\"\n", ""),
                ["test.toml:6:", "`forwards` goes with endpoint = \"guest\"", "this is \"model\""],
            ),
        ] {
            let text = load(&text).expect_err("the scenario is wrong");
            for part in parts {
                assert!(text.contains(part), "{part}\n{text}");
            }
        }
    }
}
