//! An unmodified Linux kernel with real programs, in the time of the run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{About, Endpoint, Kind, Real, Traffic};
use crate::expand::entry;
use crate::host::Host;
use crate::quantity::Size;
use crate::semantics::Check;
use crate::short::Probability;
use crate::{ClockMode, Scenario};

/// Bytes of memory that a machine may have.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=64_000_000_000;

/// The keys of a host with `endpoint = "guest"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// Its addresses and programs.
    #[serde(flatten)]
    pub real: Real,
    /// The machine, one kernel, that it is on, together with all guests that name the same one. Default: a machine of its own with the
    /// host's name. Machines run in parallel; hosts on one machine need less memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"m1")]
    pub machine: Option<String>,
    /// The kernel's congestion control for its connections ("bbr", "cubic", "reno", "vegas" and what else the package has as tcp_NAME.ko).
    /// Default: the kernel's, cubic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"bbr")]
    pub cc: Option<String>,
    /// The kernel's settings on this host, by sysctl(8)'s names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = &serde_json::json!({"net.ipv4.tcp_sack": "0"}))]
    pub sysctl: BTreeMap<String, String>,
    /// Share of one core that its machine gets, whatever the dilation, above 0 and at most 1 (control groups; not by the virtual clock,
    /// where a kernel's work takes no time). Guests of one machine share it. Default: all that it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Probability>", example = 0.5)]
    pub cpu_share: Option<f64>,
    /// Memory of its machine; what is not used is not taken. What programs write goes into it, too. Guests of one machine share it. Default:
    /// what its hosts, flows and the buffers in their `sysctl` need.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2GB")]
    pub memory: Option<Size>,
}

impl Kind for Guest {
    const ABOUT: About = About {
        name: "guest",
        what: "An unmodified Linux kernel with real programs, in the time of the run.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Kernel,
        needs: "Linux on x86-64, the package user-mode-linux",
    };

    fn real(&self) -> Option<&Real> {
        Some(&self.real)
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        let scenario = check.scenario;
        let host = &scenario.host[number];
        let at = |name: &str| entry("host", number, &[name]);
        if self.memory.is_some_and(|size| !MEMORY.contains(&size.0.0)) {
            let help = "a kernel needs 64 MiB (67.2MB); more than 64GB is not in this version";
            check.error(&at("memory"), "`memory` is out of range", help);
        }
        let Some(share) = self.cpu_share else { return };
        let machine = self.machine_of(host);
        let differs = scenario
            .guests()
            .filter(|(other, guest)| guest.machine_of(other) == machine)
            .find(|(_, guest)| guest.cpu_share.is_some_and(|own| own != share));
        if !(share > 0.0 && share <= 1.0) {
            let help = "a share of one core lies above 0 and is 1 at the most; a kernel has one core";
            check.error(&at("cpu_share"), format!("`cpu_share` is out of range: {share}"), help);
        } else if scenario.clock.mode == ClockMode::Virtual {
            let help = "leave it out, or take [clock] mode = \"real\" or \"dilated\": by the virtual clock a kernel's work takes no time";
            check.error(&at("cpu_share"), "`cpu_share` is for the real and the dilated clock", help);
        } else if let Some((other, _)) = differs {
            let message = format!("the machine of `{}` has another share at `{}`", host.name, other.name);
            let help = "guests of one machine share it: give it once, or the same";
            check.error(&at("cpu_share"), message, help);
        }
    }
}

impl Guest {
    /// The machine that it is on as `host`.
    pub fn machine_of<'a>(&'a self, host: &'a Host) -> &'a str {
        self.machine.as_deref().unwrap_or(&host.name)
    }
}

impl Scenario {
    /// The hosts that are guests.
    pub fn guests(&self) -> impl Iterator<Item = (&Host, &Guest)> {
        self.host.iter().filter_map(|host| match &host.endpoint {
            Endpoint::Guest(guest) => Some((host, guest)),
            _ => None,
        })
    }
}
