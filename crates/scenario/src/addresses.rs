//! The address plan: every node has an IPv4 and an IPv6 address, whether programs run there or not.
//!
//! Nodes are numbered as links first mention them. Node 0 is 10.0.0.1 and fd77:6172:7075::1, node 1 is 10.0.0.2 and
//! fd77:6172:7075::2, and so on: private addresses (RFC 1918) and a unique local prefix (RFC 4193). A node has the same addresses
//! on all its links. Live hosts may have others (`address`, `address6`).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use warpline_core::NodeId;
use warpline_net::routing::Names;

use crate::{Expanded, Scenario};

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

/// The addresses of all nodes of a scenario.
#[derive(Clone, Debug, Default)]
pub struct AddressPlan {
    names: Names,
    nodes: Vec<(Ipv4Addr, Ipv6Addr)>,
    owners: BTreeMap<IpAddr, u32>,
}

impl AddressPlan {
    /// The plan of an expanded scenario.
    pub fn new(scenario: &Scenario, expanded: &Expanded) -> Self {
        let mut plan = AddressPlan { names: expanded.nodes.clone(), ..AddressPlan::default() };
        for (node, name) in (0u32..).zip(expanded.nodes.iter()) {
            let host = scenario.host.iter().find(|host| host.name == name);
            let host = host.and_then(|host| host.endpoint.real());
            let v4 = host.and_then(|host| host.address).map_or(NodeId(node).ipv4(), |address| address.0);
            let v6 = host.and_then(|host| host.address6).map_or(NodeId(node).ipv6(), |address| address.0);
            plan.nodes.push((v4, v6));
            plan.owners.insert(v4.into(), node);
            plan.owners.insert(v6.into(), node);
        }
        plan
    }

    /// The addresses of a node.
    pub fn of(&self, node: usize) -> (Ipv4Addr, Ipv6Addr) {
        self.nodes[node]
    }

    /// The node that has this address.
    #[inline]
    pub fn owner(&self, address: IpAddr) -> Option<u32> {
        self.owners.get(&address).copied()
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
            let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            let name: String = name.chars().map(plain).collect();
            all.push((format!("WARPLINE_ADDR_{name}"), v4.to_string()));
            all.push((format!("WARPLINE_ADDR6_{name}"), v6.to_string()));
        }
        all
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
