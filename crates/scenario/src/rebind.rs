//! A NAT in front of a host that changes its bindings at times.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;

use super::address::Network;
use super::addresses::AddressPlan;
use super::checker::Check;
use super::document::{entry, key};
use super::quantity::Time;

/// A NAT in front of a host that changes its bindings at times, as one that has forgotten them does. It is for UDP (QUIC), and leaves everything else alone.
///
/// A UDP port of the host is bound to a port of the NAT when the host first sends from it, at first to the same one. At each change, all get other
/// ports, as soon as the host sends something. What then still comes for an earlier one, or for one without a binding, is lost. It does not translate
/// fragments after the first, and reports of errors (ICMP).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rebind {
    /// When it first changes them.
    #[schemars(example = &"1s")]
    pub first: Time,
    /// How long after each change the next one comes, at least 1 ms. Default: there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"5s")]
    pub every: Option<Time>,
    /// The NAT's addresses: at each change, it takes another of them, except those of nodes; of a large network, the first 65,536 count. At first it has the
    /// host's own. Default: only ports change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"192.0.2.128/25")]
    pub addresses: Option<Network>,
}

/// The addresses of a network, the first 65,536 of a large one.
pub fn candidates(network: IpNet) -> Vec<IpAddr> {
    let bits = u32::from(network.max_prefix_len() - network.prefix_len()).min(16);
    let address = |number: u32| match network.network() {
        IpAddr::V4(first) => IpAddr::V4((u32::from(first) + number).into()),
        IpAddr::V6(first) => IpAddr::V6((u128::from(first) + u128::from(number)).into()),
    };
    (0..1 << bits).map(address).collect()
}

impl Rebind {
    /// The shortest time between two changes.
    const SHORTEST: TimeDelta = TimeDelta::from_millis(1);

    /// The addresses that a NAT in front of `node` can take.
    pub fn free(&self, plan: &AddressPlan, node: u32) -> Vec<IpAddr> {
        let all = self.addresses.iter().flat_map(|network| candidates(network.0));
        let (v4, v6) = plan.of(node as usize);
        all.filter(|own| plan.owner(*own) == Some(node) && ![v4.into(), v6.into()].contains(own)).collect()
    }

    /// Reports what is wrong at the host of index `number`, which is `node`.
    pub(crate) fn check(&self, check: &mut Check<'_>, number: usize, node: Option<u32>, plan: &AddressPlan) {
        let at = |name: &str| [entry("host", number, &["rebind"]), vec![key(name)]].concat();
        if self.every.is_some_and(|every| every.0 < Self::SHORTEST) {
            check.error(&at("every"), "`every` is out of range", "1ms or more, for example \"5s\"");
        }
        let Some(network) = self.addresses else { return };
        let scenario = check.scenario;
        let others = scenario.host.iter().enumerate().filter(|(other, _)| *other != number);
        for (_, other) in others {
            let own = other.endpoint.rebind().and_then(|rebind| rebind.addresses);
            if own.is_some_and(|own| own.0.contains(&network.0) || network.0.contains(&own.0)) {
                let message = format!("{network} are also addresses of the NAT of `{}`", other.name);
                check.error(&at("addresses"), message, "give each a network of its own");
                return;
            }
        }
        if let Some(free) = node.map(|node| self.free(plan, node).len()).filter(|free| *free < 2) {
            let message = format!("{network} has too few addresses that no node has: {free}");
            let help = "at each change it takes another one, for example addresses = \"192.0.2.128/25\"";
            check.error(&at("addresses"), message, help);
        }
    }
}
