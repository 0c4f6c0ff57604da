//! What only the summary of a run with guests has: the machines, their hosts, the programs and how they ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::live::{LiveHost, ProgramRow, dropped_by_card, render_programs};

/// The guests' part of a summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestSummary {
    /// The versions of the guests' kernels, separated by commas.
    pub kernel: String,
    /// Whether the run depends on the seed alone. It does not by the real or a dilated clock, nor where a program computed for so long without a system call that it had to
    /// be pushed on by the machine's clock.
    pub reproducible: bool,
    /// How often that was.
    pub pushes: u64,
    /// The machines.
    pub machines: Vec<GuestMachine>,
    /// The guests.
    pub hosts: Vec<LiveHost>,
    /// Their programs.
    pub programs: Vec<ProgramRow>,
}

/// One kernel and what it did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestMachine {
    /// Its name.
    pub machine: String,
    /// The version of its kernel.
    pub kernel: String,
    /// How many guests are on it.
    pub hosts: u64,
    /// Bytes of its memory that the hosts took.
    pub hosts_memory: u64,
    /// Entries into user mode.
    pub entries: u64,
    /// How often it handed over to the simulation.
    pub turns: u64,
    /// Its own time dilation factor, where that is not the clock's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tdf: Option<f64>,
    /// What it used of its core, if its share was limited (`cpu_share`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<GuestCpu>,
}

/// A machine that was held back in more than this part of the periods had too small a share of its core.
const SHORT: f64 = 0.1;

/// What a machine with a limited share of a core used, from the start of the run's clock to its end, by its control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestCpu {
    /// The share of a core that it might use.
    pub share: f64,
    /// The share of a core that it did use, with its programs; absent if this machine's kernel does not count that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// How often it got its share anew, in milliseconds of the machine's time: the period of the control group.
    pub period_ms: f64,
    /// Periods in which it ran or was held back.
    pub periods: u64,
    /// Those in which it had used up its share and was held back until the next one.
    pub throttled_periods: u64,
    /// The one divided by the other. Near 1, the share was what limited it; near 0, it had more than it needed.
    pub throttled: f64,
}

impl GuestCpu {
    /// Whether its share was too little for it: it was held back in more than a tenth of the periods.
    pub fn was_short(&self) -> bool {
        self.throttled > SHORT
    }

    /// It in a few words.
    fn words(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let used = self.used.map_or(String::new(), |used| format!(", used {}", percent(used)));
        format!(
            "{} of a core{used}, held back in {} of the periods of {} ms",
            percent(self.share),
            percent(self.throttled),
            self.period_ms
        )
    }
}

impl GuestSummary {
    /// What to say first of a run that is not reproducible.
    pub fn pushed(&self) -> Option<String> {
        (self.pushes > 0).then(|| {
            format!(
                "NOT REPRODUCIBLE: programs computed for seconds without a system call and were pushed on {} times by the \
                 machine's clock.",
                self.pushes
            )
        })
    }

    /// A line about the machines, and a table of the programs.
    pub(crate) fn render(&self, clock: &str, width: usize) -> String {
        let of = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        // A host that forwards has a row for each of its interfaces.
        let hosts: u64 = self.machines.iter().map(|machine| machine.hosts).sum();
        let line = format!(
            "Guests: {} on {}, Linux {}, {}\n",
            of(hosts as usize, "host"),
            of(self.machines.len(), "machine"),
            self.kernel,
            if clock == "virtual" { "in lock-step".to_owned() } else { format!("on the {clock} clock") }
        );
        let own = self.machines.iter().filter_map(|machine| {
            let tdf = machine.tdf.map(|tdf| format!("TDF {tdf}"));
            let parts: Vec<String> =
                tdf.into_iter().chain(machine.cpu.as_ref().map(GuestCpu::words)).collect();
            (!parts.is_empty()).then(|| format!("  {}: {}\n", machine.machine, parts.join("; ")))
        });
        let mut dropped = BTreeMap::new();
        for LiveHost { host, card_drops, .. } in self.hosts.iter().filter(|host| host.card_drops > 0) {
            *dropped.entry(host).or_insert(0) += card_drops;
        }
        let dropped =
            dropped.into_iter().map(|(host, drops)| format!("  {}\n", dropped_by_card(host, drops)));
        line + &own.chain(dropped).collect::<String>() + &render_programs(&self.programs, width)
    }
}
