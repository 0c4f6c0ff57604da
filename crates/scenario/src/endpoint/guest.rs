//! An unmodified Linux kernel with real programs, in the run's time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use warpline_core::TimeDelta;

use super::{About, Kind, Protocol, Real, Traffic};
use crate::checker::Check;
use crate::document::entry;
use crate::quantity::{Size, Time};
use crate::short::Probability;
use crate::{ClockMode, Tdf};

/// Allowed memory of a machine in bytes.
const MEMORY: std::ops::RangeInclusive<u64> = 64 << 20..=64_000_000_000;

/// Allowed shares of a core. The kernel gives a control group at least a millisecond in a period of at most a second.
const SHARES: std::ops::RangeInclusive<f64> = 0.001..=1.0;
/// Allowed periods of a share.
const PERIODS: std::ops::RangeInclusive<TimeDelta> = TimeDelta::from_millis(1)..=TimeDelta::from_secs(1);
/// The period of a share if a scenario says nothing. Short beside most round trips, so that a guest is a slower machine rather than one that
/// stops; and the kernel takes it at factors of up to 100.
pub const CPU_PERIOD: TimeDelta = TimeDelta::from_millis(10);
/// Allowed speeds of a guest's clock beside the network's.
const FACTORS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Largest allowed time between interrupts.
const MOST_BETWEEN_INTERRUPTS: TimeDelta = TimeDelta::from_millis(100);
/// Time between interrupts if a scenario says nothing: 8000 a second, what network cards for 1 to 10 Gbit/s have under load.
const BETWEEN_INTERRUPTS: TimeDelta = TimeDelta::from_micros(125);

/// The keys of a host with `endpoint = "guest"`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guest {
    /// Its addresses and programs.
    #[serde(flatten)]
    pub real: Real,
    /// Its machine (one kernel), shared with all guests that name the same one. Default: a machine of its own with the
    /// host's name. Machines run in parallel; hosts on one machine need less memory. "auto" shares machines among the guests that say so and have
    /// the same kernel and settings: two, and more beyond 64 hosts on each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"m1")]
    pub machine: Option<String>,
    /// The Linux kernel of its machine: a version or a series ("6.12": the newest that is there), the name of a kernel that was added with
    /// `warpline kernel`, or a file (a path with a slash, relative to the scenario). Guests of one machine share it. Default: the machine's own,
    /// `linux.uml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"6.12")]
    pub kernel: Option<String>,
    /// The kernel's congestion control for its connections: "bbr", "cubic", "reno", "vegas", or any other that the package has as tcp_NAME.ko.
    /// Default: the kernel's default, cubic.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"bbr")]
    pub cc: Option<String>,
    /// Kernel settings of this host, by their sysctl(8) names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(example = &serde_json::json!({"net.ipv4.tcp_sack": "0"}))]
    pub sysctl: BTreeMap<String, String>,
    /// Whether it is a router: its kernel forwards packets between its links, each of which is an interface with the name of the node at its other
    /// end. Packets for others are then handed to that kernel, whatever hosts are at their ends. Default false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true)]
    pub forwards: bool,
    /// Queues in front of its interfaces: commands of tc(8), without `tc`, in order. One that begins with `dev` means `qdisc replace dev`. The
    /// kernel's modules that they name are loaded. An ordinary guest has one interface, `eth0`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = &["dev r2 root cake bandwidth 10mbit"])]
    pub tc: Vec<String>,
    /// Share of one CPU core that its machine gets, 0.001 to 1, whatever the dilation (a control group; not under the virtual
    /// clock, where a kernel's work takes no time). Guests of one machine share it. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Probability>", example = 0.5)]
    pub cpu_share: Option<f64>,
    /// With `cpu_share`: how often its machine gets that share anew, in the guest's own time, 1 ms to 1 s. Once the share of a period is used up,
    /// the guest stands still until the next one. Under the dilated clock, the period of this machine is `tdf` times as long, within the kernel's
    /// limits of 1 ms and 1 s. Guests of one machine have the same. Default "10ms".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"100ms")]
    pub cpu_period: Option<Time>,
    /// A time dilation factor of its machine's own, in place of the clock's: seconds of this machine for each second of the guest. Its clock, and
    /// all that it times, then goes at a different speed from the network's. Only under the dilated clock, with a fixed factor from a
    /// thousandth to a thousand times this one. Guests of one machine have the same. Not with `forwards`. Default: the clock's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = 5)]
    pub tdf: Option<f64>,
    /// What its programs read with the instructions `rdtsc` and `rdtscp`. Not under the virtual clock, where it is "guest". Guests of one machine
    /// have the same. Default "machine".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tsc: Option<Tsc>,
    /// Whether its network card has offloads: the kernel sends TCP segments of up to 64 kB, which the card cuts into packets of the MTU (TSO); the card
    /// computes and checks checksums; and interrupts are rarer (`interrupts`), so that the kernel merges the packets that have come meanwhile
    /// (GRO). Links carry and captures show the packets that the card makes. Such guests run several times faster. Guests of one machine have
    /// the same, and at most 16 can share one. Not with `forwards`. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = true)]
    pub offloads: Option<bool>,
    /// With `offloads`: least time between two interrupts of the network card for packets that have arrived (ethtool's `rx-usecs`), 0 to 100 ms.
    /// A packet that comes earlier waits. "0s" is an interrupt at each arrival. Only under the virtual clock. Guests of one machine have the
    /// same. Default "125us".
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"50us")]
    pub interrupts: Option<Time>,
    /// Memory of its machine; only what is used is taken. Files that programs write are in it, too. Guests of one machine share it. Default:
    /// what its hosts, its flows and the buffers in `sysctl` need.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"2GB")]
    pub memory: Option<Size>,
}

/// A time-stamp counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tsc {
    /// The guest's time in nanoseconds: a counter of 1 GHz. Each reading costs as much as a system call.
    Guest,
    /// The processor's own: the machine's time, whatever the dilation.
    Machine,
}

impl Kind for Guest {
    const ABOUT: About = About {
        name: "guest",
        what: "An unmodified Linux kernel with real programs, in the run's time.",
        clocks: &[ClockMode::Virtual, ClockMode::Real, ClockMode::Dilated],
        why: "",
        traffic: Traffic::Kernel,
        protocol: Protocol::Tcp,
        needs: "Linux on x86-64, the package user-mode-linux",
    };

    fn real(&self) -> Option<&Real> {
        Some(&self.real)
    }

    fn real_mut(&mut self) -> Option<&mut Real> {
        Some(&mut self.real)
    }

    fn check(&self, check: &mut Check<'_>, number: usize) {
        let scenario = check.scenario;
        let host = &scenario.host[number];
        let at = |name: &str| entry("host", number, &[name]);
        if self.memory.is_some_and(|size| !MEMORY.contains(&size.0.0)) {
            let help = "a kernel needs 64MiB; this version allows 64GB at most";
            check.error(&at("memory"), "`memory` is out of range", help);
        }
        if self.forwards && self.real.rebind.is_some() {
            let help = "give it to the hosts whose bindings are to change";
            check.error(&at("rebind"), "a guest that forwards has no NAT in front of it", help);
        }
        let machine = self.machine_of(&host.name);
        let beside = || scenario.guests().filter(|(other, guest)| guest.machine_of(&other.name) == machine);
        if let Some(own) = &self.kernel {
            let differs = beside().find(|(_, guest)| guest.kernel.as_ref().is_some_and(|other| other != own));
            if let Some((other, _)) = differs {
                let message = format!(
                    "`{}` and `{}` are on one machine, with different kernels",
                    host.name, other.name
                );
                let help = "a machine has one kernel: give them machines of their own, or the same `kernel`";
                check.error(&at("kernel"), message, help);
            }
        }
        if let Some(own) = self.tsc {
            let differs = beside().find(|(_, guest)| guest.tsc.is_some_and(|other| other != own));
            if scenario.clock.mode == ClockMode::Virtual && own == Tsc::Machine {
                let help = "leave it out, or use [clock] mode = \"real\" or \"dilated\": under the virtual clock nothing in a guest sees the machine's time";
                check.error(&at("tsc"), "`tsc = \"machine\"` is for the real and the dilated clock", help);
            } else if let Some((other, _)) = differs {
                let message = format!(
                    "`{}` and `{}` are on one machine, with different counters",
                    host.name, other.name
                );
                let help = "guests of one machine share its processor: give `tsc` at one of them, or the same at all";
                check.error(&at("tsc"), message, help);
            }
        }
        self.check_offloads(check, number);
        self.check_cpu(check, number);
        self.check_tdf(check, number);
    }
}

impl Guest {
    /// Least time between two interrupts of the network cards of a machine that has these guests; `None` if the cards have no offloads.
    pub fn interrupts<'a>(guests: impl Iterator<Item = &'a Guest>, mode: ClockMode) -> Option<TimeDelta> {
        let (mut offloads, mut given) = (false, None);
        for guest in guests {
            offloads |= guest.offloads == Some(true);
            given = given.or(guest.interrupts);
        }
        let interval = match mode {
            ClockMode::Virtual => given.map_or(BETWEEN_INTERRUPTS, |time| time.0),
            ClockMode::Real | ClockMode::Dilated => TimeDelta::ZERO,
        };
        offloads.then_some(interval)
    }

    fn check_cpu(&self, check: &mut Check<'_>, number: usize) {
        let scenario = check.scenario;
        let host = &scenario.host[number];
        let at = |name: &str| entry("host", number, &[name]);
        let machine = self.machine_of(&host.name);
        let beside = || scenario.guests().filter(|(other, guest)| guest.machine_of(&other.name) == machine);
        if let Some(share) = self.cpu_share {
            let differs = beside().find(|(_, guest)| guest.cpu_share.is_some_and(|own| own != share));
            if !SHARES.contains(&share) {
                let help = "a share of one core is 0.001 to 1: a kernel has one core, and its control group gets at least 1 ms of it in a second";
                check.error(&at("cpu_share"), format!("`cpu_share` is out of range: {share}"), help);
            } else if scenario.clock.mode == ClockMode::Virtual {
                let help = "leave it out, or use [clock] mode = \"real\" or \"dilated\": under the virtual clock a kernel's work takes no time";
                check.error(&at("cpu_share"), "`cpu_share` is for the real and the dilated clock", help);
            } else if let Some((other, _)) = differs {
                let message =
                    format!("`{}` and `{}` are on one machine, with different shares", host.name, other.name);
                let help = "guests of one machine share one core: give `cpu_share` at one of them, or the same at all";
                check.error(&at("cpu_share"), message, help);
            }
        }
        let Some(period) = self.cpu_period else { return };
        let differs = beside().find(|(_, guest)| guest.cpu_period.is_some_and(|own| own != period));
        if !PERIODS.contains(&period.0) {
            check.error(
                &at("cpu_period"),
                "`cpu_period` is out of range",
                "it is 1ms to 1s, in the guest's time",
            );
        } else if beside().all(|(_, guest)| guest.cpu_share.is_none()) {
            let help = "add `cpu_share`, for example cpu_share = 0.5; without it nothing is limited";
            check.error(&at("cpu_period"), "`cpu_period` goes with `cpu_share`", help);
        } else if let Some((other, _)) = differs {
            let message = format!(
                "`{}` and `{}` are on one machine, with different `cpu_period`",
                host.name, other.name
            );
            let help = "guests of one machine share one core: give `cpu_period` at one of them";
            check.error(&at("cpu_period"), message, help);
        }
    }

    fn check_tdf(&self, check: &mut Check<'_>, number: usize) {
        let Some(own) = self.tdf else { return };
        let scenario = check.scenario;
        let host = &scenario.host[number];
        let path = entry("host", number, &["tdf"]);
        let machine = self.machine_of(&host.name);
        let beside = || scenario.guests().filter(|(other, guest)| guest.machine_of(&other.name) == machine);
        let differs = beside().find(|(_, guest)| guest.tdf.is_some_and(|other| other != own));
        let forwards = beside().find(|(_, guest)| guest.forwards);
        if warpline_core::Tdf::new(own).is_none() {
            check.error(&path, format!("`tdf` is out of range: {own}"), warpline_core::Tdf::ALLOWED);
        } else if scenario.clock.mode != ClockMode::Dilated {
            let help = "leave it out, or use [clock] mode = \"dilated\", with tdf = 1 if the network is not to be dilated";
            check.error(&path, "`tdf` of a guest is for the dilated clock", help);
        } else if scenario.clock.tdf == Some(Tdf::Auto) {
            let help = "give the clock a number, too: while it looks for a factor, it cannot keep the proportion to this one";
            check.error(&path, "`tdf` of a guest does not go with tdf = \"auto\" of the clock", help);
        } else if let Some(Tdf::Factor(run)) = scenario.clock.tdf
            && !FACTORS.contains(&(run / own))
        {
            let message = format!("the guest's clock is {} times as fast as the network's", run / own);
            check.error(&path, message, "a thousandth to a thousand times is possible");
        } else if let Some((other, _)) = forwards {
            let message = format!("`tdf` is for hosts, and `{}` forwards", other.name);
            let help = "leave it out: a router's interfaces send at the rates of their links, which are the network's";
            check.error(&path, message, help);
        } else if let Some((other, _)) = differs {
            let message =
                format!("`{}` and `{}` are on one machine, with different `tdf`", host.name, other.name);
            let help = "a machine has one clock: give them machines of their own, or `tdf` at one of them";
            check.error(&path, message, help);
        }
    }

    fn check_offloads(&self, check: &mut Check<'_>, number: usize) {
        let scenario = check.scenario;
        let host = &scenario.host[number];
        let at = |name: &str| entry("host", number, &[name]);
        let machine = self.machine_of(&host.name);
        let beside = || scenario.guests().filter(|(other, guest)| guest.machine_of(&other.name) == machine);
        let offloads = || beside().any(|(_, guest)| guest.offloads == Some(true));
        let differs = |other: &Guest| other.offloads.is_some_and(|own| Some(own) != self.offloads);
        let forwards = || beside().find(|(_, guest)| guest.forwards);
        if self.offloads.is_some()
            && let Some((other, _)) = beside().find(|(_, guest)| differs(guest))
        {
            let message = format!(
                "`{}` and `{}` are on one machine, with different network cards",
                host.name, other.name
            );
            let help = "guests of one machine have the same `offloads`: give it at one of them, or give them machines of their own";
            check.error(&at("offloads"), message, help);
        } else if self.offloads == Some(true)
            && let Some((other, _)) = forwards()
        {
            let message = format!("`offloads` is for hosts, and `{}` forwards", other.name);
            let help = "leave it out, or give the router a machine of its own: its queues see each packet as it is on its links";
            check.error(&at("offloads"), message, help);
        }
        let Some(interrupts) = self.interrupts else { return };
        let differs = |other: &Guest| other.interrupts.is_some_and(|own| own != interrupts);
        if interrupts.0 > MOST_BETWEEN_INTERRUPTS {
            check.error(&at("interrupts"), "`interrupts` is out of range", "it is 0 to 100ms");
        } else if !offloads() {
            let help = "add `offloads = true`; without offloads, each packet that arrives is an interrupt";
            check.error(&at("interrupts"), "`interrupts` goes with `offloads`", help);
        } else if scenario.clock.mode != ClockMode::Virtual {
            let help = "leave it out: under the real and the dilated clock, the kernel takes what has come when it gets to it";
            check.error(&at("interrupts"), "`interrupts` is for the virtual clock", help);
        } else if let Some((other, _)) = beside().find(|(_, guest)| differs(guest)) {
            let message = format!(
                "`{}` and `{}` are on one machine, with different `interrupts`",
                host.name, other.name
            );
            check.error(
                &at("interrupts"),
                message,
                "the cards of one machine share them: give them at one of its guests",
            );
        }
    }

    /// The machine that it runs on, as `host`.
    pub fn machine_of<'a>(&'a self, host: &'a str) -> &'a str {
        self.machine.as_deref().unwrap_or(host)
    }
}
