//! A NAT in front of a host that changes its bindings at times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;

use super::address::Network;
use super::checker::Check;
use super::document::{entry, key};
use super::quantity::Time;

/// A NAT in front of a host that changes its bindings at times, as one that has forgotten them does. It is for UDP (QUIC), and leaves everything else alone.
///
/// A UDP port of the host is bound to a port of the NAT when the host first sends from it, at first to the same one. At each change, all get other
/// ports, as soon as the host sends something. What then still comes for an earlier one, or for one without a binding, is lost.
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
    /// The NAT's addresses: at each change, it takes another of them. At first it has the host's own. Default: only ports change.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"192.0.2.128/25")]
    pub addresses: Option<Network>,
}

impl Rebind {
    /// The shortest time between two changes.
    const SHORTEST: TimeDelta = TimeDelta::from_millis(1);

    /// Reports what is wrong at the host of index `number`.
    pub(crate) fn check(&self, check: &mut Check<'_>, number: usize) {
        let at = |name: &str| [entry("host", number, &["rebind"]), vec![key(name)]].concat();
        if self.every.is_some_and(|every| every.0 < Self::SHORTEST) {
            check.error(&at("every"), "`every` is out of range", "1ms or more, for example \"5s\"");
        }
        let Some(network) = self.addresses else { return };
        if network.single().is_some() {
            let help = "at each change it takes another one, for example addresses = \"192.0.2.128/25\"";
            check.error(&at("addresses"), format!("{network} is only one address"), help);
        }
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
    }
}
