//! The address plan: every node has an IPv4 and an IPv6 address, whether programs run there or not.
//!
//! Nodes are numbered as links first mention them. Node 0 is 10.0.0.1 and fd77:6172:7075::1, node 1 is 10.0.0.2 and
//! fd77:6172:7075::2, and so on: private addresses (RFC 1918) and a unique local prefix (RFC 4193). A node has the same addresses
//! on all its links. Live hosts may have others (`address`, `address6`). Machines outside may have more, and whole networks
//! (`addresses`, `routes`).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use warpline_core::NodeId;
use warpline_net::routing::Names;

use crate::endpoint::Interface;
use crate::{Endpoint, Expanded, Scenario};

/// The names in a word of a command, `{NAME}` or `{NAME:6}`, that must be meant as nodes. They look like a name, and their brace does
/// not belong to another language (`${var}`, `%{http_code}`, `stash@{u}`, `{{key}}`, `\\{x}`).
pub(crate) fn names_in_braces(word: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for (at, _) in word.match_indices('{') {
        let foreign = word[..at].ends_with(['$', '%', '@', '{', '\\', '#']);
        let Some((inside, _)) = word[at + 1..].split_once('}').filter(|_| !foreign) else { continue };
        let name = inside.strip_suffix(":6").unwrap_or(inside);
        let plain = name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
        if plain && name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
            names.push(name);
        }
    }
    names
}

/// The environment variables that have a node's addresses: the one of IPv4, then the one of IPv6.
pub fn variables(node: &str) -> [String; 2] {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let name: String = node.chars().map(plain).collect();
    [format!("WARPLINE_ADDR_{name}"), format!("WARPLINE_ADDR6_{name}")]
}

/// The addresses of all nodes of a scenario.
#[derive(Clone, Debug, Default)]
pub struct AddressPlan {
    names: Names,
    nodes: Vec<(Ipv4Addr, Ipv6Addr)>,
    owners: BTreeMap<IpAddr, u32>,
    /// Networks with the host behind which each is, the longest prefixes first.
    networks: Vec<(IpNet, u32)>,
    /// The same networks, to be looked up: of equal ones, the first.
    behind: BTreeMap<IpNet, u32>,
    /// The lengths of their prefixes, each once, the longest first.
    lengths: Vec<u8>,
    /// Those of them that are behind routers.
    routed: BTreeSet<IpNet>,
}

/// Which addresses are where, as a machine outside sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The addresses and networks of its own segment.
    pub machines: Vec<IpNet>,
    /// Networks behind routers on its segment, each with its router.
    pub routes: Vec<(IpNet, IpAddr)>,
    /// The addresses and networks of all other hosts.
    pub elsewhere: Vec<IpNet>,
    /// The addresses of its gateway.
    pub gateways: Vec<IpAddr>,
}

impl AddressPlan {
    /// The plan of an expanded scenario.
    pub fn new(scenario: &Scenario, expanded: &Expanded) -> Self {
        let mut plan = AddressPlan { names: expanded.nodes.clone(), ..AddressPlan::default() };
        let hosts = scenario.hosts_by_name();
        for (node, name) in (0u32..).zip(expanded.nodes.iter()) {
            let host = hosts.find(name);
            if let Some(Endpoint::Interface(outside)) = host.map(|host| &host.endpoint) {
                let routed = outside.routes.iter().map(|route| route.to.0);
                plan.routed.extend(routed.clone());
                plan.networks.extend(outside.networks().chain(routed).map(|network| (network, node)));
            }
            // A NAT takes them one after the other.
            let nat = host.and_then(|host| host.endpoint.rebind()).and_then(|rebind| rebind.addresses);
            plan.networks.extend(nat.map(|network| (network.0, node)));
            let host = host.and_then(|host| host.endpoint.addresses());
            let v4 = host.and_then(|host| host.address).map_or(NodeId(node).ipv4(), |address| address.0);
            let v6 = host.and_then(|host| host.address6).map_or(NodeId(node).ipv6(), |address| address.0);
            plan.nodes.push((v4, v6));
            plan.owners.insert(v4.into(), node);
            plan.owners.insert(v6.into(), node);
        }
        // A stable sort: of equal ones, the first.
        plan.networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_len()));
        for (network, node) in &plan.networks {
            plan.behind.entry(network.trunc()).or_insert(*node);
        }
        plan.lengths = plan.networks.iter().map(|(network, _)| network.prefix_len()).collect();
        plan.lengths.dedup();
        plan
    }

    /// What is where for the machines of `outside`, which is `node`.
    pub fn surroundings(&self, outside: &Interface, node: usize) -> Surroundings {
        let both = |(v4, v6): (Ipv4Addr, Ipv6Addr)| [IpAddr::from(v4), v6.into()].map(IpNet::from);
        let own = u32::try_from(node).ok();
        let nodes = self.nodes.iter().enumerate().filter(|(number, _)| *number != node);
        let elsewhere = nodes.flat_map(|(_, addresses)| both(*addresses));
        let networks = self.networks.iter().filter(|(_, owner)| Some(*owner) != own);
        // What is behind a router elsewhere is reached through the gateway: there may be machines here of that network, as of 0.0.0.0/0.
        let networks =
            networks.filter(|(network, _)| !self.routed.contains(network)).map(|(network, _)| *network);
        Surroundings {
            machines: both(self.nodes[node]).into_iter().chain(outside.networks()).collect(),
            routes: outside.routes.iter().map(|route| (route.to.0, route.via.0)).collect(),
            elsewhere: elsewhere.chain(networks).collect(),
            gateways: outside.gateways().collect(),
        }
    }

    /// The addresses of a node.
    pub fn of(&self, node: usize) -> (Ipv4Addr, Ipv6Addr) {
        self.nodes[node]
    }

    /// The node that has this address.
    #[inline]
    pub fn owner(&self, address: IpAddr) -> Option<u32> {
        let known = self.owners.get(&address).copied();
        known.or_else(|| {
            // One look-up for each length, however many networks there are. Some lengths are of IPv6 only.
            self.lengths.iter().find_map(|&length| {
                let network = IpNet::new(address, length).ok()?.trunc();
                self.behind.get(&network).copied()
            })
        })
    }

    /// The environment variables of a program on `node`.
    pub fn environment(&self, node: usize) -> Vec<(String, String)> {
        let (v4, v6) = self.nodes[node];
        let mut all = vec![
            ("WARPLINE_HOST".to_owned(), self.names[node].to_owned()),
            ("WARPLINE_ADDRESS".to_owned(), v4.to_string()),
            ("WARPLINE_ADDRESS6".to_owned(), v6.to_string()),
        ];
        for (name, (v4, v6)) in self.names.iter().zip(&self.nodes) {
            all.extend(variables(name).into_iter().zip([v4.to_string(), v6.to_string()]));
        }
        all
    }

    /// The node of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name).map(|node| node as usize)
    }

    /// A word of a command with addresses in place of `{NAME}` and `{NAME:6}`. Other text in braces is left alone, and so is
    /// `${...}`, which is for the shell.
    pub fn substitute(&self, word: &str) -> String {
        let mut text = String::with_capacity(word.len());
        let mut rest = word;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            text.push_str(before);
            let found =
                from[1..].split_once('}').filter(|_| !before.ends_with('$')).and_then(|(name, behind)| {
                    let (name, six) = name.strip_suffix(":6").map_or((name, false), |name| (name, true));
                    let node = self.names.find(name)? as usize;
                    let (v4, v6) = self.nodes[node];
                    Some((if six { v6.to_string() } else { v4.to_string() }, behind))
                });
            match found {
                Some((address, behind)) => {
                    text.push_str(&address);
                    rest = behind;
                }
                None => {
                    text.push('{');
                    rest = &from[1..];
                }
            }
        }
        text + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> AddressPlan {
        let text = r#"
            duration = "1s"
            clock = { mode = "real" }
            link = [{ between = ["client", "r-1"], rate = "1Mbit/s" }, { between = ["r-1", "server"], rate = "1Mbit/s" }]
            host = [{ name = "server", endpoint = "live", address = "192.0.2.9", program = [{ command = "true" }] }]
        "#;
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"));
        AddressPlan::new(&scenario, &scenario.expand())
    }

    #[test]
    fn nodes_have_default_addresses_unless_they_set_their_own() {
        let plan = plan();
        assert_eq!(plan.of(0).0, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(plan.of(1).1.to_string(), "fd77:6172:7075::2");
        assert_eq!(plan.of(2).0, Ipv4Addr::new(192, 0, 2, 9));
        assert_eq!(plan.owner("192.0.2.9".parse().unwrap()), Some(2));
        assert_eq!(plan.owner("10.0.0.3".parse().unwrap()), None);
        let environment = plan.environment(2);
        for (name, value) in [
            ("WARPLINE_HOST", "server"),
            ("WARPLINE_ADDRESS", "192.0.2.9"),
            ("WARPLINE_ADDRESS6", "fd77:6172:7075::3"),
            ("WARPLINE_ADDR_R_1", "10.0.0.2"),
        ] {
            assert!(environment.contains(&(name.to_owned(), value.to_owned())), "{name}");
        }
    }

    #[test]
    fn a_network_belongs_to_the_host_behind_which_it_is_and_an_address_to_its_own() {
        let text = r#"
            duration = "1s"
            clock = { mode = "real" }
            link = [{ between = ["a", "r"], rate = "1Mbit/s" }, { between = ["r", "b"], rate = "1Mbit/s" }]
            [[host]]
            name = "a"
            endpoint = "interface"
            device = "eth1"
            address = "192.0.2.7"
            addresses = ["192.0.2.64/26"]
            gateway = "192.0.2.1"
            [[host]]
            name = "b"
            endpoint = "interface"
            device = "eth2"
            address = "192.0.2.70"
            address6 = "2001:db8::7"
            routes = [{ to = "0.0.0.0/0", via = "192.0.2.70" }]
        "#;
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"));
        let again =
            Scenario::from_toml("test.toml", &scenario.to_toml(), &[]).map_err(|error| error.to_string());
        assert_eq!(again, Ok(scenario.clone()));
        let plan = AddressPlan::new(&scenario, &scenario.expand());
        let owner = |address: &str| plan.owner(address.parse().unwrap());
        for (address, node) in [
            ("192.0.2.7", Some(0)),
            ("192.0.2.64", Some(0)),
            ("192.0.2.70", Some(2)),
            ("203.0.113.1", Some(2)),
            ("10.0.0.2", Some(1)),
            ("2001:db8::7", Some(2)),
            ("2001:db8::8", None),
        ] {
            assert_eq!(owner(address), node, "{address}");
        }
        let nets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpNet>>();
        let Endpoint::Interface(a) = &scenario.host[0].endpoint else { panic!("a is outside") };
        assert_eq!(
            plan.surroundings(a, 0),
            Surroundings {
                machines: nets(&["192.0.2.7/32", "fd77:6172:7075::1/128", "192.0.2.64/26"]),
                routes: Vec::new(),
                // Not all addresses, although the other side has a route for them.
                elsewhere: nets(&[
                    "10.0.0.2/32",
                    "fd77:6172:7075::2/128",
                    "192.0.2.70/32",
                    "2001:db8::7/128"
                ]),
                gateways: vec!["192.0.2.1".parse().unwrap()],
            }
        );
    }

    #[test]
    fn of_the_networks_that_contain_an_address_the_smallest_counts() {
        let text = r#"
            duration = "1s"
            clock = { mode = "real" }
            link = [{ between = ["a", "r"], rate = "1Mbit/s" }, { between = ["r", "b"], rate = "1Mbit/s" }]
            [[host]]
            name = "a"
            endpoint = "interface"
            device = "eth1"
            address = "192.0.2.7"
            addresses = ["198.51.100.64/26", "2001:db8:1:2::/64"]
            routes = [{ to = "0.0.0.0/0", via = "192.0.2.7" }]
            [[host]]
            name = "b"
            endpoint = "interface"
            device = "eth2"
            address = "192.0.2.70"
            address6 = "2001:db8::70"
            addresses = ["198.51.100.96/28"]
            routes = [{ to = "198.51.100.0/24", via = "192.0.2.70" }, { to = "2001:db8:1::/48", via = "2001:db8::70" }]
        "#;
        let scenario = Scenario::from_toml("test.toml", text, &[]).unwrap_or_else(|error| panic!("{error}"));
        let plan = AddressPlan::new(&scenario, &scenario.expand());
        for (address, node) in [
            ("198.51.100.63", Some(2)),
            ("198.51.100.64", Some(0)),
            ("198.51.100.95", Some(0)),
            ("198.51.100.96", Some(2)),
            ("198.51.100.111", Some(2)),
            ("198.51.100.112", Some(0)),
            ("198.51.100.128", Some(2)),
            ("198.51.101.0", Some(0)),
            ("10.0.0.2", Some(1)),
            ("2001:db8:1:2::5", Some(0)),
            ("2001:db8:1:3::5", Some(2)),
            ("2001:db8:2::1", None),
        ] {
            assert_eq!(plan.owner(address.parse().unwrap()), node, "{address}");
        }
    }

    #[test]
    fn braces_of_other_languages_are_not_node_names() {
        for (word, names) in [
            ("http://{server}:80/{client:6}", &["server", "client"][..]),
            ("awk '{print $1}' ${var} %{http_code} {} {a,b} {1} {{key}} x@{u} {\"a\":1} { print }", &[]),
            ("{r-1}{", &["r-1"]),
        ] {
            assert_eq!(names_in_braces(word), names, "{word}");
        }
    }

    #[test]
    fn only_node_names_in_braces_become_addresses() {
        let plan = plan();
        for (word, expected) in [
            ("http://{server}:80/", "http://192.0.2.9:80/"),
            ("[{r-1:6}]", "[fd77:6172:7075::2]"),
            ("${server} {nobody} {} {", "${server} {nobody} {} {"),
            ("{{client}}", "{10.0.0.1}"),
            ("awk '{print $1}' {client}", "awk '{print $1}' 10.0.0.1"),
        ] {
            assert_eq!(plan.substitute(word), expected);
        }
    }
}
