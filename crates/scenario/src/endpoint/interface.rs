//! Machines of others, behind an interface of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Addresses, Kind, Protocol, Traffic};
use crate::ClockMode;
use crate::address::{Address, Network};
use crate::checker::Check;
use crate::document::{Step, entry, key};
use crate::rebind::Rebind;

/// Most characters of an interface's name (`IFNAMSIZ` without the end).
const LONGEST_NAME: usize = 15;

/// A network that is reached through a router.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The network.
    #[schemars(example = &"198.51.100.0/24")]
    pub to: Network,
    /// The router, a machine on the segment.
    #[schemars(example = &"192.0.2.10")]
    pub via: Address<IpAddr>,
}

/// The keys of a host with `endpoint = "interface"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interface {
    /// The interface of this machine behind which it is: an Ethernet interface, a VLAN or a veth that is up.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(example = &"eth1")]
    pub device: String,
    /// The VLAN (IEEE 802.1Q) in which it is: its frames have a tag with this number. Default: frames without a tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4094), example = 100)]
    pub vlan: Option<u16>,
    /// Its addresses.
    #[serde(flatten)]
    pub own: Addresses,
    /// More machines on the same segment: their addresses, and networks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &["192.0.2.11", "192.0.2.32/27"])]
    pub addresses: Vec<Network>,
    /// Networks behind routers on the segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &serde_json::json!([{"to": "198.51.100.0/24", "via": "192.0.2.10"}]))]
    pub routes: Vec<Route>,
    /// An address that the emulator itself has on the segment, for machines that need a gateway. It answers pings. Default: none; a machine can use
    /// the address of any other node, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"192.0.2.1")]
    pub gateway: Option<Address<Ipv4Addr>>,
    /// As `gateway`, for IPv6.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2001:db8::ffff")]
    pub gateway6: Option<Address<Ipv6Addr>>,
    /// A NAT in front of its machines that changes its bindings. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebind: Option<Rebind>,
    /// Whether the interface is used even if it carries this machine's default route, is a part of a bridge, or this machine would answer for the
    /// same addresses. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub force: bool,
}

impl Interface {
    /// The addresses and networks of further machines.
    pub fn networks(&self) -> impl Iterator<Item = IpNet> {
        self.addresses.iter().map(|network| network.0)
    }

    /// The emulator's own addresses.
    pub fn gateways(&self) -> impl Iterator<Item = IpAddr> {
        self.gateway_keys().map(|(_, address)| address)
    }

    /// The same, each with its key.
    pub(crate) fn gateway_keys(&self) -> impl Iterator<Item = (&'static str, IpAddr)> {
        let v4 = self.gateway.map(|address| ("gateway", address.0.into()));
        v4.into_iter().chain(self.gateway6.map(|address| ("gateway6", address.0.into())))
    }

    /// Single addresses of further machines, with their places in `addresses`.
    pub(crate) fn singles(&self) -> impl Iterator<Item = (usize, IpAddr)> {
        let all = self.addresses.iter().enumerate();
        all.filter_map(|(number, network)| Some((number, network.single()?)))
    }

    /// All networks, with the path to each below the host's entry.
    fn placed(&self) -> impl Iterator<Item = (Vec<Step>, Network)> {
        let own = self.addresses.iter().enumerate();
        let own = own.map(|(number, network)| (vec![key("addresses"), Step::Index(number)], *network));
        let routed = self.routes.iter().enumerate();
        own.chain(
            routed.map(|(number, route)| (vec![key("routes"), Step::Index(number), key("to")], route.to)),
        )
    }

    /// Whether an address is given as one of a machine on the segment.
    fn has(&self, address: IpAddr) -> bool {
        let Addresses { address: v4, address6: v6 } = self.own;
        v4.is_some_and(|own| IpAddr::from(own.0) == address)
            || v6.is_some_and(|own| IpAddr::from(own.0) == address)
            || self.networks().any(|network| network.contains(&address))
    }

    fn check_device(&self, check: &mut Check<'_>, number: usize) {
        let scenario = check.scenario;
        let at = entry("host", number, &["device"]);
        if self.device.is_empty() {
            let help = "the interface behind which the machine is, for example device = \"eth1\"";
            return check.error(
                &entry("host", number, &["endpoint"]),
                "a host with this endpoint needs `device`",
                help,
            );
        }
        let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        if self.device.len() > LONGEST_NAME
            || self.device.contains(wrong)
            || [".", ".."].contains(&self.device.as_str())
        {
            let message = format!("{:?} cannot be the name of an interface", self.device);
            return check.error(
                &at,
                message,
                "at most 15 characters without spaces, `/` and `:`; see ip link",
            );
        }
        let earlier = &scenario.host[..number];
        let same = earlier.iter().find(|other| {
            matches!(&other.endpoint, super::Endpoint::Interface(other) if (&other.device, other.vlan) == (&self.device, self.vlan))
        });
        if let Some(other) = same {
            let message = format!("`{}` is already the device of `{}`", self.device, other.name);
            let help = "machines behind one interface are one host: list them in its `addresses`; or give each a `vlan`";
            check.error(&at, message, help);
        }
    }
}

impl Kind for Interface {
    const ABOUT: About = About {
        name: "interface",
        what: "Machines outside, behind an interface of this machine (`device`). Under a dilated clock the network is dilated, and they should be, too.",
        clocks: &[ClockMode::Real, ClockMode::Dilated],
        why: "the machines outside run in real time",
        traffic: Traffic::Outside,
        protocol: Protocol::Tcp,
        needs: "Linux, root (CAP_NET_RAW, CAP_NET_ADMIN)",
    };

    fn addresses(&self) -> Option<&Addresses> {
        Some(&self.own)
    }

    fn rebind(&self) -> Option<&Rebind> {
        self.rebind.as_ref()
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        self.check_device(check, number);
        let scenario = check.scenario;
        let below = |path: &[Step]| [&entry("host", number, &[]), path].concat();
        for (i, route) in self.routes.iter().enumerate() {
            let via = route.via.0;
            let path = below(&[key("routes"), Step::Index(i), key("via")]);
            if via.is_ipv4() != route.to.0.addr().is_ipv4() {
                check.error(
                    &path,
                    format!("{via} cannot lead to {}", route.to),
                    "both are IPv4, or both IPv6",
                );
            } else if !self.has(via) {
                let message = format!("no machine on the segment is given the address {via}");
                check.error(&path, message, "the router is one of `address`, `address6` and `addresses`");
            }
        }
        for (i, (path, network)) in self.placed().enumerate() {
            if self.placed().take(i).any(|(_, other)| other == network) {
                check.error(&below(&path), format!("{network} is given twice"), "leave one out");
                continue;
            }
            let others = scenario.outside().filter(|(other, _)| other.name != scenario.host[number].name);
            let others = others.take_while(|(other, _)| {
                scenario.host.iter().position(|host| host.name == other.name) < Some(number)
            });
            let mut owners = others.filter(|(_, other)| other.placed().any(|(_, other)| other == network));
            if let Some((other, _)) = owners.next() {
                let message = format!("{network} is already behind `{}`", other.name);
                check.error(
                    &below(&path),
                    message,
                    "a network is behind one host; of overlapping ones the smaller counts",
                );
            }
        }
        for (name, gateway) in self.gateway_keys() {
            if self.singles().any(|(_, own)| own == gateway) {
                let message = format!("{gateway} is the address of a machine on the segment");
                check.error(
                    &entry("host", number, &[name]),
                    message,
                    "the gateway is an address of the emulator's own",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Scenario;

    fn load(mode: &str, keys: &str, more: &str) -> Result<Scenario, String> {
        let text = format!(
            "duration = \"1s\"\nclock = {{ mode = \"{mode}\" }}\nlink = [{{ between = [\"a\", \"b\"], rate = \"1Mbit/s\" }}]\n\
             [[host]]\nname = \"a\"\nendpoint = \"interface\"\n{keys}\n{more}"
        );
        Scenario::from_toml("test.toml", &text, &[]).map_err(|errors| errors.to_string())
    }

    #[test]
    fn what_is_wrong_has_a_place_and_says_what_to_do() {
        let second = "[[host]]\nname = \"b\"\nendpoint = \"interface\"\ndevice = \"eth1\"\n";
        let flow = "[[flow]]\nfrom = \"b\"\nto = \"a\"\n";
        for (mode, keys, more, parts) in [
            (
                "virtual",
                "device = \"eth1\"",
                "",
                ["test.toml:6:", "cannot follow this clock", "run in real time"],
            ),
            ("real", "", "", ["test.toml:6:", "needs `device`", "eth1"]),
            ("real", "device = \"a b\"", "", ["test.toml:7:", "cannot be the name", "ip link"]),
            ("real", "device = \"eth1\"", second, ["test.toml:11:", "already the device of `a`", "`vlan`"]),
            ("real", "device = \"eth1\"\nvlan = 4095", "", ["test.toml:8:", "out of range", "4094"]),
            (
                "real",
                "device = \"eth1\"\naddresses = [\"10.0.0.1/8\"]",
                "",
                ["test.toml:8:", "10.0.0.0/8", "addresses"],
            ),
            (
                "real",
                "device = \"eth1\"\naddresses = [\"ten\"]",
                "",
                ["test.toml:8:", "neither", "addresses"],
            ),
            (
                "real",
                "device = \"eth1\"\naddresses = [\"10.0.0.2\"]",
                "",
                ["test.toml:8:", "address of `b`", "another"],
            ),
            (
                "real",
                "device = \"eth1\"\ngateway = \"10.0.0.2\"",
                "",
                ["test.toml:8:", "address of `b`", "leave it out"],
            ),
            ("real", "device = \"eth1\"\nprogram = []", "", ["test.toml:8:", "`program` goes with", "live"]),
            (
                "real",
                "device = \"eth1\"\nroutes = [{ to = \"0.0.0.0/0\", via = \"192.0.2.9\" }]",
                "",
                ["test.toml:8:", "192.0.2.9", "`addresses`"],
            ),
            (
                "real",
                "device = \"eth1\"\nroutes = [{ to = \"::/0\", via = \"192.0.2.9\" }]",
                "",
                ["test.toml:8:", "cannot lead to ::/0", "both IPv6"],
            ),
            (
                "real",
                "device = \"eth1\"\naddresses = [\"192.0.2.0/24\", \"192.0.2.0/24\"]",
                "",
                ["test.toml:8:", "given twice", "leave"],
            ),
            (
                "real",
                "device = \"eth1\"\naddresses = [\"192.0.2.0/24\"]",
                "[[host]]\nname = \"b\"\nendpoint = \"interface\"\ndevice = \"eth2\"\naddresses = [\"192.0.2.0/24\"]",
                ["test.toml:13:", "already behind `a`", "the smaller counts"],
            ),
            ("real", "device = \"eth1\"", flow, ["test.toml:10:", "needs the `port`", "5001"]),
            (
                "real",
                "device = \"eth1\"",
                &format!("{flow}port = 80\nwait = \"1s\""),
                ["test.toml:12:", "outside", "leave `wait` out"],
            ),
        ] {
            let text = load(mode, keys, more).expect_err(keys);
            for part in parts {
                assert!(text.contains(part), "{part}\n{text}");
            }
            assert!(!text.contains("2 errors"), "{text}");
        }
    }

    #[test]
    fn one_interface_can_have_several_vlans_and_no_flows() {
        let second = "[[host]]\nname = \"b\"\nendpoint = \"interface\"\ndevice = \"eth1\"\nvlan = 8\n";
        for mode in ["real", "dilated\", tdf = \"auto"] {
            load(mode, "device = \"eth1\"\nvlan = 7", second).unwrap_or_else(|errors| panic!("{errors}"));
        }
    }
}
